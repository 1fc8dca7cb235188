"""What a person wrote is theirs: it is asked about before it is overwritten, whatever else happens at the time."""

from pathlib import Path
from typing import Any

import pytest
from conftest import OpenWorkbench
from flows.test_compose import GENERATE, Held, composed
from flows.test_generate import Writer, project_of
from scripts import call

import artifactflow_nb as af

ANEW = call("generate_field_content", field_name="Goal")
UPDATE = call("update_field", field_name="Goal", content="Say what Y is.")


def waiting_for(run: af.Run) -> list[tuple[str, Any]]:
    """The tools that wait for a decision, each with its block."""
    return [(request.tool, request.params["field_name"]) for request in run.pending]


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_each_of_several_blocks_is_asked_about(workbench: OpenWorkbench, decision: str) -> None:
    """A call that is not the first of its reply asks like the first, and is carried out only if they agree."""
    wb, project = composed(workbench, composer=[GENERATE + ANEW, "Done."], writer=["One.", "Two."])
    project["Text"].set(depends_on=[])
    run = wb.ask("Write all anew.", project=project).wait()
    assert waiting_for(run) == [("generate_field_content", "Goal")]
    assert project["Goal"].content == "Say what X is."
    getattr(run, decision)()
    assert run.wait().status == "completed"
    is_theirs = decision == "deny"
    assert project["Text"].writer == "writer"
    assert (project["Goal"].content == "Say what X is.", project["Goal"].writer == "user") == (is_theirs, is_theirs)


def test_a_refresh_asks_about_all_that_a_person_wrote(workbench: OpenWorkbench) -> None:
    """Of several stale texts that are written anew, each that the person wrote waits for them."""
    _, project = project_of(workbench, Writer(), A=[], B=["A"], C=["A"], D=["A"])
    project.generate().wait()
    for name in ("C", "D"):
        project[name].write("By hand.")
    project["A"].write("Another A.")
    run = project.refresh().wait()
    assert waiting_for(run) == [("generate_field_content", name) for name in ("C", "D")]
    assert [project[name].content for name in ("C", "D")] == ["By hand."] * 2


def test_a_policy_holds_for_each_of_several_calls(workbench: OpenWorkbench) -> None:
    """A tool that the policy refuses is refused also in the second call of a reply."""
    both = GENERATE + call("generate_field_content", field_name="More")
    wb, project = composed(workbench, composer=[both, "Done."], approvals={"generate_field_content": "deny"})
    project.add("More")
    wb.ask("Write.", project=project).wait()
    assert list(wb.tool_calls_df()["error_message"]) == ["Permission denied"] * 2


def test_what_was_written_since_the_question_is_not_overwritten(workbench: OpenWorkbench) -> None:
    """They agree to a diff; if the text is another by then, it stays, and the composer is told to look again."""
    wb, project = composed(workbench, composer=[UPDATE, UPDATE, "Done."])
    run = wb.ask("Y.", project=project).wait()
    project["Goal"].write("Say what X is, in three pages.")
    run.approve().wait()
    assert project["Goal"].content == "Say what X is, in three pages."
    assert "is another by now than when the person was asked" in wb.tool_calls_df()["error_message"].iloc[0]
    assert "-Say what X is, in three pages." in run.pending[0].preview
    assert run.approve().wait().status == "completed"
    assert project["Goal"].content == "Say what Y is."


def test_a_block_that_is_written_by_hand_before_its_turn_is_left(workbench: OpenWorkbench) -> None:
    """Blocks are to be written one after the other; one that the person writes meanwhile is not written anew."""
    writer = Held(["A.", "B."])
    wb = workbench(agent_models={"writer": writer}, interactive=False)
    project = wb.project("Essay", template="paper")
    project.add("A", auto_generate=True)
    project.add("B", depends_on=["A"], auto_generate=True)
    run = project.generate()
    assert writer.asked.wait(20)
    project["B"].write("By hand.")
    writer.goes_on.set()
    assert "- B: 'B' was written by the person meanwhile" in run.wait().response
    assert (project["A"].content, project["B"].content) == ("A.", "By hand.")


def test_what_rests_on_a_text_that_was_written_by_hand_is_written(workbench: OpenWorkbench) -> None:
    """A block that the person writes while a writer is at it is what others are written from, in the same run."""
    writer = Held(["A.", "B."])
    wb = workbench(agent_models={"writer": writer}, interactive=False)
    project = wb.project("Essay", template="paper")
    project.add("A", auto_generate=True, need_review=True)
    project.add("B", depends_on=["A"], auto_generate=True)
    run = project.generate()
    assert writer.asked.wait(20)
    project["A"].write("By hand.").approve()
    writer.goes_on.set()
    assert run.wait().response.startswith("Written: B.")
    assert (project["A"].content, project["B"].content, project["B"].is_stale) == ("By hand.", "B.", False)
    assert "By hand." in writer.requests[1].messages[1].content


def test_a_text_with_agreed_edits_is_still_theirs(workbench: OpenWorkbench) -> None:
    """An edit of a passage does not make a person's text the editor's: to overwrite it has to be asked about."""
    change = call("modify_field", field_name="Goal", modification_instruction="Tell, not say.")
    edits = call("propose_edits", edits=[{"anchor": "Say what", "replacement": "Tell what"}])
    wb, project = composed(workbench, composer=[change, UPDATE, "Done."], editor=[edits, "Told."])
    run = wb.ask("Tell, not say.", project=project).wait().approve().wait()
    assert waiting_for(run) == [("update_field", "Goal")]
    assert (project["Goal"].content, project["Goal"].created_by) == ("Tell what X is.", "editor")


@pytest.mark.parametrize("is_edited", [True, False])
def test_what_they_agree_to_in_other_words_is_theirs(workbench: OpenWorkbench, is_edited: bool) -> None:
    """A text that the person changed while agreeing is written by them; one that they only agreed to is not."""
    wb, project = composed(workbench, composer=[UPDATE, UPDATE.replace("Y", "Z"), "Done."])
    words = {"field_name": "Goal", "content": "Say what W is."} if is_edited else None
    run = wb.ask("Y.", project=project).wait().approve(params=words).wait()
    assert waiting_for(run) == ([("update_field", "Goal")] if is_edited else [])
    assert project["Goal"].content == ("Say what W is." if is_edited else "Say what Z is.")


@pytest.mark.parametrize(("words", "text", "writer"), [("sign", "X is a sign.", "user"), (None, "X is big.", "editor")])
def test_edits_that_they_changed_make_the_text_theirs(
    workbench: OpenWorkbench, words: str | None, text: str, writer: str
) -> None:
    """An agent's text with an edit in the person's own words is theirs, one with an edit that they agreed to is not."""
    change = call("modify_field", field_name="Text", modification_instruction="Big.")
    edits = call("propose_edits", edits=[{"anchor": "a letter", "replacement": "big"}])
    wb, project = composed(
        workbench, composer=[GENERATE, change, "Done."], writer=["X is a letter."], editor=[edits, "Big."]
    )
    run = wb.ask("Write it, and big.", project=project).wait()
    run.approve(params=words and {"edits": [{"anchor": "letter", "replacement": words}]}).wait()
    assert (project["Text"].content, project["Text"].writer) == (text, writer)


def test_an_empty_text_is_not_agreed_to(workbench: OpenWorkbench) -> None:
    """A draft that is agreed to with nothing in its place stays as it was: no block is completed without a text."""
    _, project = project_of(workbench, Writer(), A=[])
    project["A"].set(need_review=True)
    run = project.generate().wait()
    run.approve(params={"field_name": "A", "content": " "}).wait()
    assert (project["A"].status, project["A"].content) == ("draft", "A from nothing")


def test_a_text_with_a_secret_is_replayed_as_it_was_overwritten(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A cassette holds the diff without the secret; that does not make it another text in the replay."""
    cassette, update = tmp_path / "run.jsonl", call("update_field", field_name="Key", content="None.")
    for mode, turns in (("record", [update, "Done."]), ("replay", [])):
        wb = workbench(turns, data_dir=tmp_path / mode, interactive=False, **{mode: cassette})
        project = wb.project("Essay")
        project.add("Key", "It is ghp_abcdefghijklmnopqrstuvwxyz0123456789.")
        run = wb.ask("Forget it.", project=project).wait().approve().wait()
        assert (run.status, project["Key"].content) == ("completed", "None.")
