"""The compose flow: blocks are read, arranged, written and changed by calls, and the prompt is always the store."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from conftest import OpenWorkbench
from scripts import by_agent, call

import artifactflow_nb as af
from artifactflow_nb.block_edits import NewBlock, Place, added
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.project import Project

GENERATE = call("generate_field_content", field_name="Text")
EDIT = {"edits": [{"anchor": "Say what", "replacement": "Tell what"}]}


class Held(ScriptedModel):
    """Says that it was asked, and answers when it may."""

    def __init__(self, turns: list[str]) -> None:
        super().__init__(turns)
        self.asked, self.goes_on = threading.Event(), threading.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked.set()
        await asyncio.to_thread(self.goes_on.wait, 20)
        async for event in super().stream(request):
            yield event


def composed(
    workbench: OpenWorkbench, *, approvals: Any = "ask", agent_models: Any = None, **turns: Any
) -> tuple[af.Workbench, Project]:
    """A workbench whose agents say these turns, with a project of three blocks: Goal <- Text <- Summary."""
    wb = workbench(by_agent(**turns), interactive=False, approvals=approvals, agent_models=agent_models)
    project = wb.project("Essay", template="paper")
    project.add("Goal", "Say what X is.")
    project.add("Text", depends_on=["Goal"], prompt="All about X.", phase="writing")
    project.add("Summary", depends_on=["Text"], phase="writing")
    return wb, project


def prompts(wb: af.Workbench, agent: str) -> list[str]:
    """The prompts of an agent, whole, in order."""
    model = wb._thread.engine.model
    assert isinstance(model, ScriptedModel)
    return [
        "\n".join(message.content for message in request.messages)
        for request in model.requests
        if agent in request.messages[0].content.split("</agent_role>")[0]
    ]


def results(wb: af.Workbench) -> list[tuple[str, bool]]:
    frame = wb.tool_calls_df()
    return list(zip(frame["tool_name"], map(bool, frame["success"]), strict=True))


def test_a_block_is_written_from_what_it_rests_on(workbench: OpenWorkbench) -> None:
    """The writer's answer is the block's text, completed, and it saw its prompt and the texts that it rests on."""
    wb, project = composed(workbench, composer=[GENERATE, "Done."], writer=["X is a letter."])
    run = wb.ask("Write the text.", project=project).wait()
    assert (run.status, run.response) == ("completed", "Done.")
    block = project["Text"]
    assert (block.content, block.status, block.created_by, block.is_stale) == (
        "X is a letter.",
        "completed",
        "writer",
        False,
    )
    [task] = prompts(wb, "You write one block")
    assert "All about X." in task
    assert "Say what X is." in task


def test_a_block_that_has_to_be_reviewed_stays_a_draft(workbench: OpenWorkbench) -> None:
    """What a person has to review is a draft when it was written, and what rests on it is not written before."""
    calls = [call("generate_field_content", field_name=name) for name in ("Text", "Summary")]
    wb, project = composed(workbench, composer=[*calls, "Done."], writer=["X is a letter."])
    project["Text"].set(need_review=True)
    run = wb.ask("Write all.", project="Essay").wait()
    assert run.status == "completed"
    assert (project["Text"].status, project["Summary"].status) == ("draft", "empty")
    assert results(wb) == [("generate_field_content", True), ("generate_field_content", False)]


def test_blocks_that_do_not_rest_on_each_other_are_written_at_the_same_time(workbench: OpenWorkbench) -> None:
    """Calls of one reply are jobs beside each other."""
    both = "".join(call("generate_field_content", field_name=name) for name in ("Text", "More"))
    wb, project = composed(workbench, composer=[both, "Done."], writer=["One.", "Two."])
    project.add("More", depends_on=["Goal"])
    wb.ask("Write both.", project=project).wait()
    assert sorted(project[name].content for name in ("Text", "More")) == ["One.", "Two."]
    first, second = (frame for _, frame in wb.tool_calls_df().iterrows())
    assert second["called_at"] < first["completed_at"]


def test_a_block_does_not_wait_for_a_call_that_comes_later(workbench: OpenWorkbench) -> None:
    """What it rests on is to be written behind another call: it is told so at once, and nobody waits for ever."""
    calls = [call("generate_field_content", field_name="Summary"), call("query_field", field_name="Goal"), GENERATE]
    wb, project = composed(workbench, composer=["".join(calls), "Done."], writer=["X is a letter."])
    run = wb.ask("Write both.", project=project).wait(20)
    assert run.status == "completed"
    assert results(wb) == [
        ("generate_field_content", False),
        ("query_field", True),
        ("generate_field_content", True),
    ]


def test_a_block_is_written_from_what_is_changed_beside_it(workbench: OpenWorkbench) -> None:
    """A text that rests on one for whose change the person is asked in the same reply waits for that, too."""
    change = call("modify_field", field_name="Goal", modification_instruction="Tell, not say.")
    editor = [call("propose_edits", **EDIT), "Told."]
    wb, project = composed(workbench, composer=[change + GENERATE, "Done."], editor=editor, writer=["X is a letter."])
    run = wb.ask("Tell, not say; then write the text.", project=project).wait()
    assert (run.status, project["Text"].status) == ("waiting", "empty")
    assert run.approve().wait().status == "completed"
    assert "Tell what X is." in prompts(wb, "You write one block")[0]
    assert not project["Text"].is_stale


def test_the_index_of_blocks_is_what_the_store_has_at_each_turn(workbench: OpenWorkbench) -> None:
    """A person's own edit between two turns, and a tool's within one, stand in the next prompt."""
    wb, project = composed(workbench, composer=[GENERATE, "Done.", "Seen."], writer=["Of X."])
    wb.ask("Write.", project=project).wait()
    project["Goal"].write("Say what Y is.")
    wb.ask("And now?", project=project).wait()
    before, after, later = prompts(wb, "You write a document together")
    assert "- Text [writing, empty] to say: All about X." in before
    assert "- Text [writing, completed] Of X." in after
    assert "- Text [writing, completed, STALE: Goal changed] Of X." in later
    assert "- Goal [question, draft] Say what Y is." in later


def test_a_named_block_stands_in_the_prompt(workbench: OpenWorkbench) -> None:
    """`@name` brings the block's text; a name that no block has is refused before anything is asked."""
    wb, project = composed(workbench, composer=["It says what X is."])
    wb.ask("What does @Goal say?", project=project).wait()
    [prompt] = prompts(wb, "You write a document together")
    assert '<block name="Goal">\nSay what X is.\n</block>' in prompt
    with pytest.raises(af.UsageError, match="@Gaol names no block"):
        wb.ask("What does @Gaol say?", project=project)
    assert len(wb.runs()) == 1


def test_a_path_names_its_block_however_it_is_written(workbench: OpenWorkbench) -> None:
    """With or without spaces it is the block in the group and not the group; a path to nothing is refused."""
    wb, project = composed(workbench, composer=["One.", "Two."])
    project.add("Body", is_group=True)
    project.add("Intro", "Hello.", parent="Body")
    for question in ("Is @Body/Intro good?", "Is @body / intro good?"):
        wb.ask(question, project=project).wait()
        assert '<references>\n<block name="Body / Intro">' in prompts(wb, "You write a document together")[-1]
    for question in ("Is @Body/Intor good?", "Is @Body / Intor good?"):
        with pytest.raises(af.UsageError, match="@Body / Intor names no block"):
            wb.ask(question, project=project)


def test_what_tools_say_has_room_in_the_prompt_of_a_long_document(workbench: OpenWorkbench) -> None:
    """Of 500 blocks each has its line, of long ones that are named there is less the more they are; results stay."""
    wb, project = composed(workbench, composer=[call("read_field", field_name="Long"), "Read."])
    names = [f"Part {n}" for n in range(500)]
    place = Place("writing")

    def all_of_them(tree: BlockTree) -> list[Block]:
        (first,) = added(tree, NewBlock(names[0], place, {"prompt": "It says " + "this and that, " * 20}))
        more = [replace(first, block_id=name, name=name, order=float(n)) for n, name in enumerate(names)]
        return [replace(block, content=f"{block.name} begins. " * 1000, sha256="1") for block in more[:5]] + more[5:]

    project.change(all_of_them)
    project.add("Long", "It is long. " * 1000)
    run = wb.ask(f"Compare {', '.join('@' + name for name in names[:5])}.", project=project).wait()
    assert run.status == "completed"
    prompt = prompts(wb, "You write a document together")[-1]
    assert "It is long. " * 1000 in prompt
    assert all(f"- {name} [" in prompt for name in names)
    assert "characters more; use read_field]" in prompt
    assert "characters left out" not in prompt


def test_a_change_is_put_before_the_person_as_a_diff(workbench: OpenWorkbench) -> None:
    """An editor's edits wait with their diff; agreed to, they are written, and the composer is told."""
    change = call("modify_field", field_name="Goal", modification_instruction="Tell, not say.")
    wb, project = composed(workbench, composer=[change, "Changed."], editor=[call("propose_edits", **EDIT), "Told."])
    run = wb.ask("Tell, not say.", project=project).wait()
    [request] = run.pending
    assert (request.kind, request.agent) == ("edit", "editor")
    assert "-Say what X is.\n" in request.preview
    assert "+Tell what X is.\n" in request.preview
    assert project["Goal"].content == "Say what X is."
    assert run.approve().wait().response == "Changed."
    assert project["Goal"].content == "Tell what X is."
    assert [version.update_type for version in project["Goal"].versions.values()] == ["create", "rewrite"]


@pytest.mark.parametrize(("seen", "is_stale"), [([], True), (["Goal"], False)])
def test_an_edit_in_a_stale_text_leaves_it_stale(workbench: OpenWorkbench, seen: list[str], is_stale: bool) -> None:
    """A passage that is changed says nothing of what was changed elsewhere, unless the editor has seen that."""
    change = call("modify_field", field_name="Text", modification_instruction="Big.", reference_fields=seen)
    edits = call("propose_edits", edits=[{"anchor": "a letter", "replacement": "A LETTER"}])
    wb, project = composed(workbench, composer=[change, "Changed."], editor=[edits, "Big."], approvals="approve")
    project["Text"].write("X is a letter.")
    project["Goal"].write("Say what Y is.")
    wb.ask("Bigger.", project=project).wait()
    assert (project["Text"].content, project["Text"].is_stale) == ("X is A LETTER.", is_stale)


def test_a_change_that_is_declined_changes_nothing(workbench: OpenWorkbench) -> None:
    """Denied, the text stays, and the call is told to the composer as one that changed nothing."""
    change = call("modify_field", field_name="Goal", modification_instruction="Tell, not say.")
    editor = [call("propose_edits", **EDIT), "They declined."]
    wb, project = composed(workbench, composer=[change, "Left."], editor=editor, approvals="deny")
    wb.ask("Tell, not say.", project=project).wait()
    assert project["Goal"].content == "Say what X is."
    assert results(wb) == [("modify_field", False), ("propose_edits", False)]


def test_an_anchor_that_does_not_stand_once_is_told_to_the_editor(workbench: OpenWorkbench) -> None:
    """Nobody is asked about edits that do not fit; the editor learns where the nearest passages are."""
    change = call("modify_field", field_name="Goal", modification_instruction="Tell, not say.")
    wrong = call("propose_edits", edits=[{"anchor": "Say that", "replacement": "Tell"}])
    wb, project = composed(workbench, composer=[change, "Left."], editor=[wrong, "No."])
    assert wb.ask("Tell.", project=project).wait().status == "completed"
    told = wb.tool_calls_df().set_index("tool_name")["error_message"]["propose_edits"]
    assert "the anchor of edit 1 does not stand there" in told
    assert "Say what X is." in told


def test_a_text_that_changed_meanwhile_is_not_overwritten(workbench: OpenWorkbench) -> None:
    """What a person writes while a writer is at work stays, and what the writer wrote is told instead."""
    writer = Held(["By the writer."])
    wb, project = composed(workbench, composer=[GENERATE, "Done."], agent_models={"writer": writer})
    run = wb.ask("Write.", project=project)
    assert writer.asked.wait(20)
    project["Text"].write("By hand.")
    writer.goes_on.set()
    assert run.wait().status == "completed"
    assert project["Text"].content == "By hand."
    told = wb.tool_calls_df()["error_message"].iloc[0]
    assert "is another by now" in told
    assert "By the writer." in told


def test_a_persons_text_is_overwritten_only_if_they_agree(workbench: OpenWorkbench) -> None:
    """`update_field` on a text of a person waits with its diff; on one of an agent it does not."""
    update = call("update_field", field_name="Goal", content="Say what Y is.")
    wb, project = composed(workbench, composer=[update, update.replace("Y", "Z"), "Done."])
    run = wb.ask("Y.", project=project).wait()
    assert "+Say what Y is." in run.pending[0].preview
    run.approve().wait()
    assert (run.status, project["Goal"].content, project["Goal"].writer) == ("completed", "Say what Z is.", "composer")


def test_blocks_are_arranged_by_calls(workbench: OpenWorkbench) -> None:
    """Add, move, rename and copy are done at once; what is removed, a person agrees to, with what depends on it."""

    def arrange(action: str, name: str, **more: Any) -> str:
        return call("manage_architecture", action=action, block_name=name, **more)

    turns = [
        arrange("add", "Body", is_group=True, phase="writing"),
        arrange("move", "Text", parent_name="Body"),
        arrange("rename", "Summary", new_name="Abstract"),
        arrange("copy", "Body", new_name="Body again"),
        arrange("remove", "Goal"),
        "Done.",
    ]
    wb, project = composed(workbench, composer=turns)
    run = wb.ask("Arrange.", project=project).wait()
    assert "What depends on it becomes stale: Abstract, Body / Text, Body again / Text." in run.pending[0].preview
    run.approve().wait()
    assert [block.path for block in project.blocks] == [
        "Abstract",
        "Body",
        "Body / Text",
        "Body again",
        "Body again / Text",
    ]
    assert [block.name for block in project.deleted] == ["Goal"]


def test_how_a_block_comes_to_be_written_is_set_by_calls(workbench: OpenWorkbench) -> None:
    """What it rests on, what it shall say, whether it waits for a person; to end that, the person has to agree."""

    def arrange(**settings: Any) -> str:
        return call("manage_architecture", action="set", block_name="Text", **settings)

    turns = [
        arrange(depends_on=["Summary"], prompt="In short.", need_review=True),
        arrange(depends_on=[], auto_generate=False),
        arrange(need_review=False),
        "Done.",
    ]
    wb, project = composed(workbench, composer=turns)
    project["Summary"].set(depends_on=[])
    run = wb.ask("Arrange.", project=project).wait()
    text = project["Text"]
    assert (text.depends_on, text.prompt, text.need_review, text.auto_generate) == ((), "In short.", True, False)
    assert run.pending[0].preview == "What is written into Text does not wait for your review any more."
    run.approve().wait()
    assert (run.status, project["Text"].need_review) == ("completed", False)
    told = [entry.reason for entry in project["Text"].versions.values()]
    assert told[-3:] == ["manage_architecture: set"] * 3


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"action": "set"}, "Nothing was set: say what, by depends_on, prompt, need_review, auto_generate"),
        ({"action": "set", "phase": "review"}, "set takes no phase; it takes depends_on, prompt"),
        ({"action": "set", "depends_on": ["Text"]}, "'Text' cannot depend on itself"),
        ({"action": "move", "depends_on": ["Goal"]}, "move takes no depends_on; it takes parent_name, phase"),
        ({"action": "rename", "new_name": "All", "phase": "review"}, "rename takes no phase; it takes new_name"),
        ({"action": "remove", "block_name": "Txet"}, "There is no block 'Txet'"),
    ],
)
def test_what_an_action_cannot_do_is_refused(workbench: OpenWorkbench, asked: dict[str, Any], told: str) -> None:
    """A parameter that is not the action's, and a block that there is not: nobody is asked, and nothing is done."""
    arrange = call("manage_architecture", **{"block_name": "Text", **asked})
    wb, project = composed(workbench, composer=[arrange, "Done."])
    before = [(block.path, block.version) for block in project.blocks]
    assert wb.ask("Arrange.", project=project).wait().status == "completed"
    assert told in wb.tool_calls_df()["error_message"].iloc[0]
    assert [(block.path, block.version) for block in project.blocks] == before


def test_a_block_that_goes_before_another_goes_into_its_group(workbench: OpenWorkbench) -> None:
    """Where only the block behind it is named, the group is that one's."""
    arrange = [
        call("manage_architecture", action="move", block_name="Summary", before_name="Intro"),
        call("manage_architecture", action="add", block_name="Title", before_name="Intro"),
    ]
    wb, project = composed(workbench, composer=["".join(arrange), "Done."])
    project.add("Body", is_group=True, phase="writing")
    project.add("Intro", parent="Body")
    wb.ask("Arrange.", project=project).wait()
    assert [block.name for block in project.blocks if block.parent] == ["Summary", "Title", "Intro"]


def test_a_phase_is_advanced_and_what_is_open_told(workbench: OpenWorkbench) -> None:
    """The call moves on, marks nothing completed, and says what is left open."""
    wb, project = composed(workbench, composer=[call("advance_to_phase", target_phase="review"), "There."])
    wb.ask("On.", project=project).wait()
    assert (project.phase, project["Goal"].status) == ("review", "draft")
    assert "Left open: Goal (draft); Text (empty); Summary (empty)." in prompts(wb, "You write a document together")[1]


def test_the_guide_of_the_intent_phase_stands_there_alone(workbench: OpenWorkbench) -> None:
    """In the first phase of the default template the composer is told to ask first; later not."""
    wb = workbench(by_agent(composer=["What for?", "Good."]), interactive=False)
    project = wb.project("Campaign")
    wb.ask("Make something.", project=project).wait()
    project.advance_to_phase()
    wb.ask("Go on.", project=project).wait()
    first, second = prompts(wb, "You write a document together")
    assert ("<intent_guide>" in first, "<intent_guide>" in second) == (True, False)


def test_composing_needs_a_project(workbench: OpenWorkbench) -> None:
    """Without a project, or with one that there is not, nothing is asked, and the error says what to do."""
    wb = workbench(interactive=False)
    with pytest.raises(af.UsageError, match='wb.ask\\("...", project="name"\\)'):
        wb.ask("Write.", flow="compose")
    for begin in (lambda: wb.ask("Write.", project="Nothing"), lambda: wb.chat(project="Nothing")):
        with pytest.raises(af.NotFound, match="Begin it with wb.project\\('Nothing'\\)"):
            begin()


def test_a_branch_has_blocks_of_its_own(workbench: OpenWorkbench) -> None:
    """A question asked once more begins with the blocks as they were before it."""
    turns = [call("update_field", field_name="Text", content=text) for text in ("One.", "Two.")]
    wb, project = composed(workbench, composer=[turns[0], "Done.", turns[1], "Done."])
    run = wb.ask("Write.", project=project).wait()
    assert project["Text"].content == "One."
    again = wb.regenerate(run).wait()
    assert (again.status, project["Text"].content) == ("completed", "Two.")
    wb.activate_branch(run)
    assert project["Text"].content == "One."
