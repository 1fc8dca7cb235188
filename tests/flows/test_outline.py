"""Outlines: a structure is proposed, shown as a list, and added completely or not at all."""

from typing import Any

import pytest
from conftest import OpenWorkbench
from support.hostile_texts import HOSTILE
from support.replies import by_agent, call

import artifactflow_nb as af
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.core.text.markdown import safe_markdown_line
from artifactflow_nb.plugins.projects.edits import BlockPosition, NewBlock, add_block
from artifactflow_nb.plugins.projects.handle import Project
from artifactflow_nb.plugins.projects.outline import MAX_ENTRIES, add_outline, outline_markdown
from artifactflow_nb.plugins.projects.project import BlockDraft
from artifactflow_nb.plugins.projects.tree import BlockTree

MAKE = call("generate_outline", style="a short paper", additional_instructions="With a summary.")
BLOCKS: list[dict[str, Any]] = [
    {"name": "Body", "phase": "writing"},
    {"name": "Text", "parent": "Body", "depends_on": ["Goal"], "prompt": "All about X.", "auto_generate": True},
    {"name": "More", "parent": "Body", "depends_on": ["Text"], "need_review": True},
    {"name": "Summary", "phase": "review", "depends_on": ["Body"]},
]


def open_project(workbench: OpenWorkbench, *replies: str, approvals: str = "ask") -> tuple[af.Workbench, Project]:
    turns = by_agent(composer=[MAKE, "Done."], outliner=list(replies))
    wb = workbench(turns, interactive=False, approvals=approvals)
    project = wb.projects.start("Essay", template="paper")
    project.add("Goal", "Say what X is.")
    return wb, project


def test_approved_outline_is_added_at_once(workbench: OpenWorkbench) -> None:
    """The request lists all blocks; after the approval all blocks are in place."""
    _wb, project = open_project(workbench, call("propose_outline", blocks=BLOCKS), "Four blocks.")
    run = project.ask("Make an outline.").wait()
    [request] = run.pending
    assert (request.kind, request.agent) == ("edit", "outliner")
    assert request.preview.splitlines() == [
        "- **Body** (group; phase writing)",
        "  - **Text** (depends on Goal; written automatically): All about X.",
        "  - **More** (depends on Text; to be reviewed)",
        "- **Summary** (phase review; depends on Body)",
    ]
    assert [block.path for block in project.blocks] == ["Goal"]
    assert run.approve().wait().response == "Done."
    assert [block.path for block in project.blocks] == ["Goal", "Body", "Body / Text", "Body / More", "Summary"]
    text = project["Text"]
    assert (text.dependency_names, text.prompt, text.auto_generate, text.created_by) == (
        ("Goal",),
        "All about X.",
        True,
        "outliner",
    )


def test_outliner_task_has_project_and_wishes(workbench: OpenWorkbench) -> None:
    """The task has the phases, the existing blocks, the texts of the first phase and the person's wishes."""
    wb, project = open_project(workbench, "Nothing to add.")
    project.ask("Make an outline.").wait()
    calls = wb.llm_calls_df()
    assert list(calls["agent_name"]) == ["composer", "outliner", "composer"]
    model = wb._thread.engine.model
    task = model.requests[1].messages[1].content  # type: ignore[attr-defined]
    for part in ("a short paper", "With a summary.", "- literature (Literature / 文献)", "- Goal [", "Say what X is."):
        assert part in task


def test_denied_outline_adds_nothing(workbench: OpenWorkbench) -> None:
    """The composer's call fails."""
    wb, project = open_project(workbench, call("propose_outline", blocks=BLOCKS), "They declined.", approvals="deny")
    project.ask("Make an outline.").wait()
    assert [block.path for block in project.blocks] == ["Goal"]
    error = wb.tool_calls_df().set_index("tool_name")["error_message"]["generate_outline"]
    assert error == "Nothing was added. outliner says: They declined."


def test_invalid_outline_is_reported_to_the_outliner(workbench: OpenWorkbench) -> None:
    """An outline with a dependency cycle needs no approval and adds nothing."""
    circle = [{"name": "A", "depends_on": ["B"]}, {"name": "B", "depends_on": ["A"]}]
    wb, project = open_project(workbench, call("propose_outline", blocks=circle), "It cannot be.")
    assert project.ask("Make an outline.").wait().status == "completed"
    assert [block.path for block in project.blocks] == ["Goal"]
    error = wb.tool_calls_df().set_index("tool_name")["error_message"]["propose_outline"]
    assert "Blocks would depend on themselves" in error


def test_person_can_edit_an_outline_when_approving_it(workbench: OpenWorkbench) -> None:
    """The person's version is added."""
    _wb, project = open_project(workbench, call("propose_outline", blocks=BLOCKS), "Added.")
    run = project.ask("Make an outline.").wait()
    run.approve(params={"blocks": [{"name": "Only this"}]}).wait()
    assert [block.path for block in project.blocks] == ["Goal", "Only this"]


# --- the values ------------------------------------------------------------------------------------------------------

PHASES = ("one", "two")


def tree_of(*names: str) -> BlockTree:
    tree = BlockTree((), PHASES)
    for name in names:
        tree = BlockTree([*tree, *add_block(tree, NewBlock(name, BlockPosition("one"), {}))], PHASES, tree.used_ids)
    return tree


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "has 0 blocks"),
        ([BlockDraft(name=f"B{n}") for n in range(MAX_ENTRIES + 1)], f"has {MAX_ENTRIES + 1} blocks"),
        ([BlockDraft(name="There")], "There is already a block 'There' at the top level"),
        ([BlockDraft(name="New"), BlockDraft(name="new")], "There is already a block 'new' at the top level"),
        (
            [BlockDraft(name="In", parent="Group"), BlockDraft(name="Group")],
            "A group must come before its blocks",
        ),
        ([BlockDraft(name="In", parent="There")], "is not a group"),
        ([BlockDraft(name="Group", prompt="Say."), BlockDraft(name="In", parent="Group")], "leave prompt out"),
        ([BlockDraft(name="Group"), BlockDraft(name="In", parent="Group", phase="two")], "cannot be in 'two'"),
        ([BlockDraft(name="New", phase="three")], "There is no phase 'three'"),
        ([BlockDraft(name="New", depends_on=["Nowhere"])], "There is no block 'Nowhere'"),
        ([BlockDraft(name="New", depends_on=["New"])], "'New' cannot depend on itself"),
        ([BlockDraft(name="a/b")], "A block cannot be called 'a/b'"),
    ],
)
def test_invalid_outline_entry_is_rejected(entries: list[BlockDraft], message: str) -> None:
    """Each error names the entry."""
    with pytest.raises(af.errors.UsageError, match=message):
        add_outline(tree_of("There"), entries, "one")


def test_dependency_may_come_later_in_the_outline() -> None:
    """A dependency may also exist already, and be named by its path."""
    entries = [
        BlockDraft(name="G"),
        BlockDraft(name="A", parent="G", depends_on=["G / B", "There"]),
        BlockDraft(name="B", parent="G"),
    ]
    new = add_outline(tree_of("There"), entries, "two")
    assert [(block.name, block.phase, block.depends_on) for block in new] == [
        ("G", "two", ()),
        ("A", "two", ("b", "there")),
        ("B", "two", ()),
    ]


def test_outline_preview_escapes_markup() -> None:
    """Names and prompts by a model are plain text within their line."""
    for text in map(storable_text, HOSTILE):
        name = " ".join(text.replace("/", "").lstrip("@").split())[:100] or "x"
        tree = tree_of()
        entry = BlockDraft(name=name, prompt=text)
        [line] = outline_markdown(tree, add_outline(tree, [entry], "one")).splitlines()
        assert line == f"- **{safe_markdown_line(name)}** (phase one): {safe_markdown_line(text)}"
