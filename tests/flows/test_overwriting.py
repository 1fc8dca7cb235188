"""A text by the person is overwritten only after an approval, also under concurrency."""

from pathlib import Path
from typing import Any

import pytest
from conftest import OpenWorkbench
from flows.test_compose import GENERATE, BlockedModel, open_project
from flows.test_generate import Writer, project_of
from support.replies import call

import artifactflow_nb as af

GENERATE_GOAL = call("generate_field_content", field_name="Goal")
UPDATE = call("update_field", field_name="Goal", content="Say what Y is.")


def waiting_for(run: af.Run) -> list[tuple[str, Any]]:
    """The tools that wait for a decision, each with its block."""
    return [(request.tool, request.params["field_name"]) for request in run.pending]


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_every_call_of_a_reply_asks_before_overwriting(workbench: OpenWorkbench, decision: str) -> None:
    """A later call of a reply needs the same approval as the first."""
    _wb, project = open_project(workbench, composer=[GENERATE + GENERATE_GOAL, "Done."], writer=["One.", "Two."])
    project["Text"].set(depends_on=[])
    run = project.ask("Write all anew.").wait()
    assert waiting_for(run) == [("generate_field_content", "Goal")]
    assert project["Goal"].content == "Say what X is."
    getattr(run, decision)()
    assert run.wait().status == "completed"
    is_theirs = decision == "deny"
    assert project["Text"].writer == "writer"
    assert (project["Goal"].content == "Say what X is.", project["Goal"].writer == "user") == (is_theirs, is_theirs)


def test_refresh_asks_about_every_text_by_the_person(workbench: OpenWorkbench) -> None:
    """Each stale text by the person waits for approval."""
    _, project = project_of(workbench, Writer(), A=[], B=["A"], C=["A"], D=["A"])
    project.generate().wait()
    for name in ("C", "D"):
        project[name].write("By hand.")
    project["A"].write("Another A.")
    run = project.refresh().wait()
    assert waiting_for(run) == [("generate_field_content", name) for name in ("C", "D")]
    assert [project[name].content for name in ("C", "D")] == ["By hand."] * 2


def test_policy_applies_to_every_call_of_a_reply(workbench: OpenWorkbench) -> None:
    """A denied tool is also denied in the second call."""
    both = GENERATE + call("generate_field_content", field_name="More")
    wb, project = open_project(workbench, composer=[both, "Done."], approvals={"generate_field_content": "deny"})
    project.add("More")
    project.ask("Write.").wait()
    assert list(wb.tool_calls_df()["error_message"]) == ["Permission denied"] * 2


def test_text_changed_after_the_request_is_not_overwritten(workbench: OpenWorkbench) -> None:
    """A text that changed after the diff was shown stays, and the composer must read the text again."""
    wb, project = open_project(workbench, composer=[UPDATE, UPDATE, "Done."])
    run = project.ask("Y.").wait()
    project["Goal"].write("Say what X is, in three pages.")
    run.approve().wait()
    assert project["Goal"].content == "Say what X is, in three pages."
    assert "was changed after the person was asked" in wb.tool_calls_df()["error_message"].iloc[0]
    assert "-Say what X is, in three pages." in run.pending[0].preview
    assert run.approve().wait().status == "completed"
    assert project["Goal"].content == "Say what Y is."


def test_block_written_by_the_person_before_its_turn_stays(workbench: OpenWorkbench) -> None:
    """A run that writes blocks in order skips the block."""
    writer = BlockedModel(["A.", "B."])
    wb = workbench(agent_models={"writer": writer}, interactive=False)
    project = wb.projects.start("Essay", template="paper")
    project.add("A", auto_generate=True)
    project.add("B", depends_on=["A"], auto_generate=True)
    run = project.generate()
    assert writer.called.wait(20)
    project["B"].write("By hand.")
    writer.may_reply.set()
    assert "- B: The person wrote 'B' meanwhile" in run.wait().response
    assert (project["A"].content, project["B"].content) == ("A.", "By hand.")


def test_dependents_are_written_from_the_persons_text(workbench: OpenWorkbench) -> None:
    """The same run uses a text that the person writes while a writer works on the block."""
    writer = BlockedModel(["A.", "B."])
    wb = workbench(agent_models={"writer": writer}, interactive=False)
    project = wb.projects.start("Essay", template="paper")
    project.add("A", auto_generate=True, need_review=True)
    project.add("B", depends_on=["A"], auto_generate=True)
    run = project.generate()
    assert writer.called.wait(20)
    project["A"].write("By hand.").approve()
    writer.may_reply.set()
    assert run.wait().response.startswith("Written: B.")
    assert (project["A"].content, project["B"].content, project["B"].is_stale) == ("By hand.", "B.", False)
    assert "By hand." in writer.requests[1].messages[1].content


def test_approved_edits_keep_the_person_as_author(workbench: OpenWorkbench) -> None:
    """After an edit by the editor, overwriting the person's text still needs approval."""
    change = call("modify_field", field_name="Goal", modification_instruction="Tell, not say.")
    edits = call("propose_edits", edits=[{"anchor": "Say what", "replacement": "Tell what"}])
    _wb, project = open_project(workbench, composer=[change, UPDATE, "Done."], editor=[edits, "Told."])
    run = project.ask("Tell, not say.").wait().approve().wait()
    assert waiting_for(run) == [("update_field", "Goal")]
    assert (project["Goal"].content, project["Goal"].created_by) == ("Tell what X is.", "editor")


@pytest.mark.parametrize("is_edited", [True, False])
def test_changed_approval_makes_the_person_the_author(workbench: OpenWorkbench, is_edited: bool) -> None:
    """The person is the author of a text that is changed in the approval, but not of a text that is only approved."""
    _wb, project = open_project(workbench, composer=[UPDATE, UPDATE.replace("Y", "Z"), "Done."])
    words = {"field_name": "Goal", "content": "Say what W is."} if is_edited else None
    run = project.ask("Y.").wait().approve(params=words).wait()
    assert waiting_for(run) == ([("update_field", "Goal")] if is_edited else [])
    assert project["Goal"].content == ("Say what W is." if is_edited else "Say what Z is.")


@pytest.mark.parametrize(("words", "text", "writer"), [("sign", "X is a sign.", "user"), (None, "X is big.", "editor")])
def test_changed_edits_make_the_person_the_author(
    workbench: OpenWorkbench, words: str | None, text: str, writer: str
) -> None:
    """The person becomes the author by changing edits in the approval, but not by approving edits."""
    change = call("modify_field", field_name="Text", modification_instruction="Big.")
    edits = call("propose_edits", edits=[{"anchor": "a letter", "replacement": "big"}])
    _wb, project = open_project(
        workbench, composer=[GENERATE, change, "Done."], writer=["X is a letter."], editor=[edits, "Big."]
    )
    run = project.ask("Write it, and big.").wait()
    run.approve(params=words and {"edits": [{"anchor": "letter", "replacement": words}]}).wait()
    assert (project["Text"].content, project["Text"].writer) == (text, writer)


def test_empty_text_cannot_be_approved(workbench: OpenWorkbench) -> None:
    """A draft that is approved with an empty text stays as it was."""
    _, project = project_of(workbench, Writer(), A=[])
    project["A"].set(need_review=True)
    run = project.generate().wait()
    run.approve(params={"field_name": "A", "content": " "}).wait()
    assert (project["A"].status, project["A"].content) == ("draft", "A from nothing")


def test_overwritten_text_with_a_secret_is_replayed(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The redacted diff in a cassette does not count as a change of the text."""
    cassette, update = tmp_path / "run.jsonl", call("update_field", field_name="Key", content="None.")
    for mode, turns in (("record", [update, "Done."]), ("replay", [])):
        wb = workbench(turns, data_dir=tmp_path / mode, interactive=False, **{mode: cassette})
        project = wb.projects.start("Essay")
        project.add("Key", "It is ghp_abcdefghijklmnopqrstuvwxyz0123456789.")
        run = project.ask("Forget it.").wait().approve().wait()
        assert (run.status, project["Key"].content) == ("completed", "None.")
