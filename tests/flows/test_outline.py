"""Outlines: a structure is proposed, seen as a list, and added as a whole or not at all."""

from typing import Any

import pytest
from conftest import OpenWorkbench
from hostile import HOSTILE
from scripts import by_agent, call

import artifactflow_nb as af
from artifactflow_nb.block_edits import NewBlock, Place, added
from artifactflow_nb.block_outline import MOST_ENTRIES, Entry, outlined, told_outline
from artifactflow_nb.blocks import BlockTree
from artifactflow_nb.project import Project
from artifactflow_nb.text.markdown import portable_line

MAKE = call("generate_outline", style="a short paper", additional_instructions="With a summary.")
BLOCKS: list[dict[str, Any]] = [
    {"name": "Body", "phase": "writing"},
    {"name": "Text", "parent": "Body", "depends_on": ["Goal"], "prompt": "All about X.", "auto_generate": True},
    {"name": "More", "parent": "Body", "depends_on": ["Text"], "need_review": True},
    {"name": "Summary", "phase": "review", "depends_on": ["Body"]},
]


def outlining(workbench: OpenWorkbench, *replies: str, approvals: str = "ask") -> tuple[af.Workbench, Project]:
    turns = by_agent(composer=[MAKE, "Done."], outliner=list(replies))
    wb = workbench(turns, interactive=False, approvals=approvals)
    project = wb.project("Essay", template="paper")
    project.add("Goal", "Say what X is.")
    return wb, project


def test_an_outline_is_put_before_the_person_and_added_as_a_whole(workbench: OpenWorkbench) -> None:
    """The request shows all blocks as a list; agreed to, they are there, in their places, in one go."""
    wb, project = outlining(workbench, call("propose_outline", blocks=BLOCKS), "Four blocks.")
    run = wb.ask("Make an outline.", project=project).wait()
    [request] = run.pending
    assert (request.kind, request.agent) == ("edit", "outliner")
    assert request.preview.splitlines() == [
        "- **Body** (group; phase writing)",
        "  - **Text** (rests on Goal; written by itself): All about X.",
        "  - **More** (rests on Text; to be reviewed)",
        "- **Summary** (phase review; rests on Body)",
    ]
    assert [block.path for block in project.blocks] == ["Goal"]
    assert run.approve().wait().response == "Done."
    assert [block.path for block in project.blocks] == ["Goal", "Body", "Body / Text", "Body / More", "Summary"]
    text = project["Text"]
    assert (text.needs, text.prompt, text.auto_generate, text.created_by) == (
        ("Goal",),
        "All about X.",
        True,
        "outliner",
    )


def test_the_outliner_sees_the_project_and_what_is_wished(workbench: OpenWorkbench) -> None:
    """Its task has the phases, the blocks that there are, the texts of the first phase, and the person's words."""
    wb, project = outlining(workbench, "Nothing to add.")
    wb.ask("Make an outline.", project=project).wait()
    calls = wb.llm_calls_df()
    assert list(calls["agent_name"]) == ["composer", "outliner", "composer"]
    model = wb._thread.engine.model
    task = model.requests[1].messages[1].content  # type: ignore[attr-defined]
    for part in ("a short paper", "With a summary.", "- literature (Literature / 文献)", "- Goal [", "Say what X is."):
        assert part in task


def test_an_outline_that_is_declined_adds_nothing(workbench: OpenWorkbench) -> None:
    """Denied, there is no further block, and the call is told to the composer as one that added nothing."""
    wb, project = outlining(workbench, call("propose_outline", blocks=BLOCKS), "They declined.", approvals="deny")
    wb.ask("Make an outline.", project=project).wait()
    assert [block.path for block in project.blocks] == ["Goal"]
    told = wb.tool_calls_df().set_index("tool_name")["error_message"]["generate_outline"]
    assert told == "Nothing was added. outliner says: They declined."


def test_an_outline_that_cannot_be_is_told_to_the_outliner(workbench: OpenWorkbench) -> None:
    """Nobody is asked about blocks that would rest on themselves; nothing of the outline is added."""
    circle = [{"name": "A", "depends_on": ["B"]}, {"name": "B", "depends_on": ["A"]}]
    wb, project = outlining(workbench, call("propose_outline", blocks=circle), "It cannot be.")
    assert wb.ask("Make an outline.", project=project).wait().status == "completed"
    assert [block.path for block in project.blocks] == ["Goal"]
    told = wb.tool_calls_df().set_index("tool_name")["error_message"]["propose_outline"]
    assert "Blocks would rest on themselves" in told


def test_a_person_may_change_an_outline_when_they_agree(workbench: OpenWorkbench) -> None:
    """What is added is what the person decided on."""
    wb, project = outlining(workbench, call("propose_outline", blocks=BLOCKS), "Added.")
    run = wb.ask("Make an outline.", project=project).wait()
    run.approve(params={"blocks": [{"name": "Only this"}]}).wait()
    assert [block.path for block in project.blocks] == ["Goal", "Only this"]


# --- the values ------------------------------------------------------------------------------------------------------

PHASES = ("one", "two")


def tree_of(*names: str) -> BlockTree:
    tree = BlockTree((), PHASES)
    for name in names:
        tree = BlockTree([*tree, *added(tree, NewBlock(name, Place("one"), {}))], PHASES, tree.taken)
    return tree


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([], "has 0 blocks"),
        ([Entry(f"B{n}") for n in range(MOST_ENTRIES + 1)], f"has {MOST_ENTRIES + 1} blocks"),
        ([Entry("There")], "There is a block 'There' at the top already"),
        ([Entry("New"), Entry("new")], "There is a block 'new' at the top already"),
        ([Entry("In", parent="Group"), Entry("Group")], "A group stands in the list before what is in it"),
        ([Entry("In", parent="There")], "is no group"),
        ([Entry("Group", settings={"prompt": "Say."}), Entry("In", parent="Group")], "leave prompt out"),
        ([Entry("Group"), Entry("In", parent="Group", phase="two")], "it cannot be of 'two'"),
        ([Entry("New", phase="three")], "There is no phase 'three'"),
        ([Entry("New", depends_on=["Nowhere"])], "There is no block 'Nowhere'"),
        ([Entry("New", depends_on=["New"])], "'New' cannot depend on itself"),
        ([Entry("a/b")], "A block cannot be called 'a/b'"),
    ],
)
def test_what_no_outline_can_have_is_refused(entries: list[Entry], told: str) -> None:
    """Each flaw is named, with the block that has it."""
    with pytest.raises(af.UsageError, match=told):
        outlined(tree_of("There"), entries, "one")


def test_a_block_may_rest_on_one_behind_it() -> None:
    """What an outline names may stand anywhere in it, or be there already, also by its path."""
    entries = [Entry("G"), Entry("A", "G", depends_on=["G / B", "There"]), Entry("B", "G")]
    new = outlined(tree_of("There"), entries, "two")
    assert [(block.name, block.phase, block.depends_on) for block in new] == [
        ("G", "two", ()),
        ("A", "two", ("b", "there")),
        ("B", "two", ()),
    ]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_words_stay_words_in_the_list(text: str) -> None:
    """What a model calls a block, and wants it to say, is no markup in what the person sees, and stays in its line."""
    name = " ".join(text.replace("/", "").lstrip("@").split())[:100] or "x"
    tree = tree_of()
    entry = Entry(name, settings={"prompt": text})
    [line] = told_outline(tree, outlined(tree, [entry], "one")).splitlines()
    assert line == f"- **{portable_line(name)}** (phase one): {portable_line(text)}"
