"""The compose flow: agents read, arrange, write and change blocks, and prompts show the current project."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from conftest import OpenWorkbench
from support.replies import by_agent, call

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.edits import BlockPosition, NewBlock, add_block
from artifactflow_nb.plugins.projects.handle import Project
from artifactflow_nb.plugins.projects.tree import Block, BlockTree

GENERATE = call("generate_field_content", field_name="Text")
EDIT = {"edits": [{"anchor": "Say what", "replacement": "Tell what"}]}


class BlockedModel(ScriptedModel):
    """A model that signals each request and waits for permission to reply."""

    def __init__(self, turns: list[str]) -> None:
        super().__init__(turns)
        self.called, self.may_reply = threading.Event(), threading.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.called.set()
        await asyncio.to_thread(self.may_reply.wait, 20)
        async for event in super().stream(request):
            yield event


def open_project(
    workbench: OpenWorkbench, *, approvals: Any = "ask", agent_models: Any = None, **turns: Any
) -> tuple[af.Workbench, Project]:
    """A workbench with these turns of its agents, and a project of three blocks: Goal <- Text <- Summary."""
    wb = workbench(by_agent(**turns), interactive=False, approvals=approvals, agent_models=agent_models)
    project = wb.projects.start("Essay", template="paper")
    project.add("Goal", "Say what X is.")
    project.add("Text", depends_on=["Goal"], prompt="All about X.", phase="writing")
    project.add("Summary", depends_on=["Text"], phase="writing")
    return wb, project


def prompts(wb: af.Workbench, agent: str) -> list[str]:
    """The complete prompts of an agent, in order."""
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


def test_writer_sees_prompt_and_dependencies(workbench: OpenWorkbench) -> None:
    """The writer's answer is the block's text, completed; its task has the block's prompt and its dependencies."""
    wb, project = open_project(workbench, composer=[GENERATE, "Done."], writer=["X is a letter."])
    run = project.ask("Write the text.").wait()
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


def test_block_that_needs_review_stays_a_draft(workbench: OpenWorkbench) -> None:
    """The written text is a draft, and its dependents are not written before the review."""
    calls = [call("generate_field_content", field_name=name) for name in ("Text", "Summary")]
    wb, project = open_project(workbench, composer=[*calls, "Done."], writer=["X is a letter."])
    project["Text"].set(need_review=True)
    run = wb.projects["Essay"].ask("Write all.").wait()
    assert run.status == "completed"
    assert (project["Text"].status, project["Summary"].status) == ("draft", "empty")
    assert results(wb) == [("generate_field_content", True), ("generate_field_content", False)]


def test_independent_calls_of_a_reply_run_in_parallel(workbench: OpenWorkbench) -> None:
    """Calls of one reply for independent blocks are parallel jobs."""
    both = "".join(call("generate_field_content", field_name=name) for name in ("Text", "More"))
    wb, project = open_project(workbench, composer=[both, "Done."], writer=["One.", "Two."])
    project.add("More", depends_on=["Goal"])
    project.ask("Write both.").wait()
    assert sorted(project[name].content for name in ("Text", "More")) == ["One.", "Two."]
    first, second = (frame for _, frame in wb.tool_calls_df().iterrows())
    assert second["called_at"] < first["completed_at"]


def test_block_does_not_wait_for_a_later_call(workbench: OpenWorkbench) -> None:
    """If a dependency is written only by a later call, the call fails at once instead of waiting forever."""
    calls = [call("generate_field_content", field_name="Summary"), call("query_field", field_name="Goal"), GENERATE]
    wb, project = open_project(workbench, composer=["".join(calls), "Done."], writer=["X is a letter."])
    run = project.ask("Write both.").wait(20)
    assert run.status == "completed"
    assert results(wb) == [
        ("generate_field_content", False),
        ("query_field", True),
        ("generate_field_content", True),
    ]


def test_block_waits_for_a_parallel_edit_of_its_dependency(workbench: OpenWorkbench) -> None:
    """A block waits for an edit of its dependency in the same reply, also while the person decides on the edit."""
    change = call("modify_field", field_name="Goal", modification_instruction="Tell, not say.")
    editor = [call("propose_edits", **EDIT), "Told."]
    wb, project = open_project(
        workbench, composer=[change + GENERATE, "Done."], editor=editor, writer=["X is a letter."]
    )
    run = project.ask("Tell, not say; then write the text.").wait()
    assert (run.status, project["Text"].status) == ("waiting", "empty")
    assert run.approve().wait().status == "completed"
    assert "Tell what X is." in prompts(wb, "You write one block")[0]
    assert not project["Text"].is_stale


def test_block_index_is_current_in_each_prompt(workbench: OpenWorkbench) -> None:
    """The next prompt has the person's edits between turns and the edits of tools within a turn."""
    wb, project = open_project(workbench, composer=[GENERATE, "Done.", "Seen."], writer=["Of X."])
    project.ask("Write.").wait()
    project["Goal"].write("Say what Y is.")
    project.ask("And now?").wait()
    before, after, later = prompts(wb, "You write a document together")
    assert "- Text [writing, empty] to say: All about X." in before
    assert "- Text [writing, completed] Of X." in after
    assert "- Text [writing, completed, STALE: Goal changed] Of X." in later
    assert "- Goal [question, draft] Say what Y is." in later


def test_referenced_block_is_in_the_prompt(workbench: OpenWorkbench) -> None:
    """`@name` adds the block's text; an unknown name is rejected before the model is called."""
    wb, project = open_project(workbench, composer=["It says what X is."])
    project.ask("What does @Goal say?").wait()
    [prompt] = prompts(wb, "You write a document together")
    assert '<block name="Goal">\nSay what X is.\n</block>' in prompt
    with pytest.raises(af.errors.UsageError, match="@Gaol names no block"):
        project.ask("What does @Gaol say?")
    assert len(wb.runs()) == 1


def test_path_reference_works_with_any_spacing(workbench: OpenWorkbench) -> None:
    """With or without spaces a path refers to the block in the group; an unknown path is rejected."""
    wb, project = open_project(workbench, composer=["One.", "Two."])
    project.add("Body", is_group=True)
    project.add("Intro", "Hello.", parent="Body")
    for question in ("Is @Body/Intro good?", "Is @body / intro good?"):
        project.ask(question).wait()
        assert '<references>\n<block name="Body / Intro">' in prompts(wb, "You write a document together")[-1]
    for question in ("Is @Body/Intor good?", "Is @Body / Intor good?"):
        with pytest.raises(af.errors.UsageError, match="@Body / Intor names no block"):
            project.ask(question)


def test_long_document_leaves_room_for_tool_results(workbench: OpenWorkbench) -> None:
    """Each of 500 blocks has a line, the excerpts of referenced blocks get shorter, and tool results stay."""
    wb, project = open_project(workbench, composer=[call("read_field", field_name="Long"), "Read."])
    names = [f"Part {n}" for n in range(500)]
    place = BlockPosition("writing")

    def all_of_them(tree: BlockTree) -> list[Block]:
        (first,) = add_block(tree, NewBlock(names[0], place, {"prompt": "It says " + "this and that, " * 20}))
        more = [replace(first, block_id=name, name=name, order=float(n)) for n, name in enumerate(names)]
        return [replace(block, content=f"{block.name} begins. " * 1000, sha256="1") for block in more[:5]] + more[5:]

    project.change(all_of_them)
    project.add("Long", "It is long. " * 1000)
    run = project.ask(f"Compare {', '.join('@' + name for name in names[:5])}.").wait()
    assert run.status == "completed"
    prompt = prompts(wb, "You write a document together")[-1]
    assert "It is long. " * 1000 in prompt
    assert all(f"- {name} [" in prompt for name in names)
    assert "characters more; use read_field]" in prompt
    assert "characters left out" not in prompt


def test_edits_wait_for_approval_with_a_diff(workbench: OpenWorkbench) -> None:
    """Approved edits are written, and the composer gets the result."""
    change = call("modify_field", field_name="Goal", modification_instruction="Tell, not say.")
    _wb, project = open_project(
        workbench, composer=[change, "Changed."], editor=[call("propose_edits", **EDIT), "Told."]
    )
    run = project.ask("Tell, not say.").wait()
    [request] = run.pending
    assert (request.kind, request.agent) == ("edit", "editor")
    assert "-Say what X is.\n" in request.preview
    assert "+Tell what X is.\n" in request.preview
    assert project["Goal"].content == "Say what X is."
    assert run.approve().wait().response == "Changed."
    assert project["Goal"].content == "Tell what X is."
    assert [version.update_type for version in project["Goal"].versions.values()] == ["create", "rewrite"]


@pytest.mark.parametrize(("seen", "is_stale"), [([], True), (["Goal"], False)])
def test_edit_does_not_make_a_stale_text_current(workbench: OpenWorkbench, seen: list[str], is_stale: bool) -> None:
    """A stale text stays stale after an edit, unless the editor has seen the changed dependency."""
    change = call("modify_field", field_name="Text", modification_instruction="Big.", reference_fields=seen)
    edits = call("propose_edits", edits=[{"anchor": "a letter", "replacement": "A LETTER"}])
    _wb, project = open_project(workbench, composer=[change, "Changed."], editor=[edits, "Big."], approvals="approve")
    project["Text"].write("X is a letter.")
    project["Goal"].write("Say what Y is.")
    project.ask("Bigger.").wait()
    assert (project["Text"].content, project["Text"].is_stale) == ("X is A LETTER.", is_stale)


def test_denied_edits_change_nothing(workbench: OpenWorkbench) -> None:
    """The text stays, and the composer's call fails."""
    change = call("modify_field", field_name="Goal", modification_instruction="Tell, not say.")
    editor = [call("propose_edits", **EDIT), "They declined."]
    wb, project = open_project(workbench, composer=[change, "Left."], editor=editor, approvals="deny")
    project.ask("Tell, not say.").wait()
    assert project["Goal"].content == "Say what X is."
    assert results(wb) == [("modify_field", False), ("propose_edits", False)]


def test_invalid_anchor_is_reported_to_the_editor(workbench: OpenWorkbench) -> None:
    """The person is not asked; the editor gets the nearest passages."""
    change = call("modify_field", field_name="Goal", modification_instruction="Tell, not say.")
    invalid = call("propose_edits", edits=[{"anchor": "Say that", "replacement": "Tell"}])
    wb, project = open_project(workbench, composer=[change, "Left."], editor=[invalid, "No."])
    assert project.ask("Tell.").wait().status == "completed"
    error = wb.tool_calls_df().set_index("tool_name")["error_message"]["propose_edits"]
    assert "the anchor of edit 1 is not in the text" in error
    assert "Say what X is." in error


def test_concurrently_changed_text_is_not_overwritten(workbench: OpenWorkbench) -> None:
    """A text that the person wrote during the job stays; the call's result contains the writer's text."""
    writer = BlockedModel(["By the writer."])
    wb, project = open_project(workbench, composer=[GENERATE, "Done."], agent_models={"writer": writer})
    run = project.ask("Write.")
    assert writer.called.wait(20)
    project["Text"].write("By hand.")
    writer.may_reply.set()
    assert run.wait().status == "completed"
    assert project["Text"].content == "By hand."
    error = wb.tool_calls_df()["error_message"].iloc[0]
    assert "was changed meanwhile" in error
    assert "By the writer." in error


def test_overwriting_a_persons_text_needs_approval(workbench: OpenWorkbench) -> None:
    """`update_field` on a person's text waits with a diff; on an agent's text, `update_field` does not wait."""
    update = call("update_field", field_name="Goal", content="Say what Y is.")
    _wb, project = open_project(workbench, composer=[update, update.replace("Y", "Z"), "Done."])
    run = project.ask("Y.").wait()
    assert "+Say what Y is." in run.pending[0].preview
    run.approve().wait()
    assert (run.status, project["Goal"].content, project["Goal"].writer) == ("completed", "Say what Z is.", "composer")


def test_manage_architecture_arranges_blocks(workbench: OpenWorkbench) -> None:
    """Add, move, rename and copy need no approval; a removal needs an approval, and the request lists dependents."""

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
    _wb, project = open_project(workbench, composer=turns)
    run = project.ask("Arrange.").wait()
    assert "These depend on it and become stale: Abstract, Body / Text, Body again / Text." in run.pending[0].preview
    run.approve().wait()
    assert [block.path for block in project.blocks] == [
        "Abstract",
        "Body",
        "Body / Text",
        "Body again",
        "Body again / Text",
    ]
    assert [block.name for block in project.deleted] == ["Goal"]


def test_manage_architecture_changes_settings(workbench: OpenWorkbench) -> None:
    """Dependencies, prompt and review can be set; only ending a review needs approval."""

    def arrange(**settings: Any) -> str:
        return call("manage_architecture", action="set", block_name="Text", **settings)

    turns = [
        arrange(depends_on=["Summary"], prompt="In short.", need_review=True),
        arrange(depends_on=[], auto_generate=False),
        arrange(need_review=False),
        "Done.",
    ]
    _wb, project = open_project(workbench, composer=turns)
    project["Summary"].set(depends_on=[])
    run = project.ask("Arrange.").wait()
    text = project["Text"]
    assert (text.depends_on, text.prompt, text.need_review, text.auto_generate) == ((), "In short.", True, False)
    assert run.pending[0].preview == "New texts of Text will no longer wait for your review."
    run.approve().wait()
    assert (run.status, project["Text"].need_review) == ("completed", False)
    message = [entry.reason for entry in project["Text"].versions.values()]
    assert message[-3:] == ["manage_architecture: set"] * 3


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"action": "set"}, "Nothing was set. Set at least one of: depends_on, prompt, need_review, auto_generate"),
        ({"action": "set", "phase": "review"}, "set takes no phase; it takes depends_on, prompt"),
        ({"action": "set", "depends_on": ["Text"]}, "'Text' cannot depend on itself"),
        ({"action": "move", "depends_on": ["Goal"]}, "move takes no depends_on; it takes parent_name, phase"),
        ({"action": "rename", "new_name": "All", "phase": "review"}, "rename takes no phase; it takes new_name"),
        ({"action": "remove", "block_name": "Txet"}, "There is no block 'Txet'"),
    ],
)
def test_invalid_action_is_rejected(workbench: OpenWorkbench, params: dict[str, Any], message: str) -> None:
    """A parameter of another action and an unknown block fail without a request, and nothing changes."""
    arrange = call("manage_architecture", **{"block_name": "Text", **params})
    wb, project = open_project(workbench, composer=[arrange, "Done."])
    before = [(block.path, block.version) for block in project.blocks]
    assert project.ask("Arrange.").wait().status == "completed"
    assert message in wb.tool_calls_df()["error_message"].iloc[0]
    assert [(block.path, block.version) for block in project.blocks] == before


def test_before_name_implies_the_group(workbench: OpenWorkbench) -> None:
    """If only the following block is named, the new block goes into its group."""
    arrange = [
        call("manage_architecture", action="move", block_name="Summary", before_name="Intro"),
        call("manage_architecture", action="add", block_name="Title", before_name="Intro"),
    ]
    _wb, project = open_project(workbench, composer=["".join(arrange), "Done."])
    project.add("Body", is_group=True, phase="writing")
    project.add("Intro", parent="Body")
    project.ask("Arrange.").wait()
    assert [block.name for block in project.blocks if block.parent] == ["Summary", "Title", "Intro"]


def test_advancing_a_phase_lists_unfinished_blocks(workbench: OpenWorkbench) -> None:
    """The phase changes, which completes no block, and the result lists the unfinished blocks."""
    wb, project = open_project(workbench, composer=[call("advance_to_phase", target_phase="review"), "There."])
    project.ask("On.").wait()
    assert (project.phase, project["Goal"].status) == ("review", "draft")
    assert "Unfinished: Goal (draft); Text (empty); Summary (empty)." in prompts(wb, "You write a document together")[1]


def test_intent_guide_is_only_in_the_intent_phase(workbench: OpenWorkbench) -> None:
    """The prompt has the guide in the first phase of the default template, and in no later phase."""
    wb = workbench(by_agent(composer=["What for?", "Good."]), interactive=False)
    project = wb.projects.start("Campaign")
    project.ask("Make something.").wait()
    project.advance_to_phase()
    project.ask("Go on.").wait()
    first, second = prompts(wb, "You write a document together")
    assert ("<intent_guide>" in first, "<intent_guide>" in second) == (True, False)


def test_compose_flow_needs_a_project(workbench: OpenWorkbench) -> None:
    """Without a project, or with an unknown project, no model is called, and the error says what to do."""
    wb = workbench(interactive=False)
    with pytest.raises(af.errors.UsageError, match=r'wb.projects\["name"\].ask\("..."\)'):
        wb.ask("Write.", flow="compose")
    with pytest.raises(af.errors.NotFound, match="Create it with wb.projects.start\\('Nothing'\\)"):
        wb.projects["Nothing"]


def test_each_branch_has_its_own_blocks(workbench: OpenWorkbench) -> None:
    """A regenerated answer starts with the blocks from before the question."""
    turns = [call("update_field", field_name="Text", content=text) for text in ("One.", "Two.")]
    wb, project = open_project(workbench, composer=[turns[0], "Done.", turns[1], "Done."])
    run = project.ask("Write.").wait()
    assert project["Text"].content == "One."
    repeated = wb.conversation(run).regenerate().wait()
    assert (repeated.status, project["Text"].content) == ("completed", "Two.")
    wb.conversation(run).activate()
    assert project["Text"].content == "One."
