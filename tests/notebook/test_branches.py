"""Branches and conversations in a notebook: asking again, switching, listing, deleting."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.replies import call, report

import artifactflow_nb as af
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.database import connect


def last_prompt(wb: af.Workbench) -> list[str]:
    """The last prompt, without the system message."""
    return [message.content for message in wb._thread.engine.model.requests[-1].messages[1:]]


def test_regenerated_answer_does_not_know_the_first_answer(workbench: Any) -> None:
    """The new message is a sibling with its own run; the model sees the earlier messages, but not the other answer."""
    wb = workbench(["1.", "2.", "II."])
    first = wb.ask("One?").wait(10)
    second = wb.ask("Two?", conversation_id=first.conversation_id).wait(10)
    again = wb.conversation(second).regenerate().wait(10)
    assert last_prompt(wb) == ["One?", "1.", "Two?"]
    assert (again.question, again.response, second.response) == ("Two?", "II.", "2.")
    assert again.conversation_id == first.conversation_id
    assert len({first.message_id, second.message_id, again.message_id}) == 3


def test_edited_question_is_a_sibling(workbench: Any) -> None:
    """The next question continues the sibling, and the first message is unchanged."""
    wb = workbench(["1.", "I.", "2."])
    first = wb.ask("One?").wait(10)
    edited = wb.conversation(first).edit("Uno?").wait(10)
    assert last_prompt(wb) == ["Uno?"]
    wb.ask("Two?", conversation_id=first.conversation_id).wait(10)
    assert last_prompt(wb) == ["Uno?", "I.", "Two?"]
    assert (first.response, edited.response) == ("1.", "I.")


def test_message_run_or_id_identifies_a_message(workbench: Any) -> None:
    """An unknown id is an error, and nothing is stored."""
    wb = workbench(["1.", "2.", "3."])
    first = wb.ask("One?").wait(10)
    assert wb.conversation(first.run_id).regenerate().wait(10).response == "2."
    assert wb.conversation(first.message_id).regenerate().wait(10).response == "3."
    with pytest.raises(af.errors.NotFound, match="no message 'msg-x' in this store"):
        wb.conversation("msg-x").regenerate()
    with pytest.raises(af.errors.NotFound, match="no run 'run-x' in this store"):
        wb.conversation("run-x").edit("What?")
    with pytest.raises(af.errors.UsageError, match="question is empty"):
        wb.conversation(first).edit("  ")
    with pytest.raises(af.errors.UsageError, match="question is 7; it must be text"):
        wb.conversation(first).edit(7)
    (conversation,) = wb.conversations()
    assert (conversation.n_messages, conversation.n_branches) == (3, 3)


def test_failed_question_can_be_regenerated(workbench: Any) -> None:
    """The new branch does not have the failed run."""
    wb = workbench([af.errors.ModelRejected("no such model"), "Now."])
    failed = wb.ask("One?").wait(10)
    assert failed.status == "failed"
    assert wb.conversation(failed).regenerate().wait(10).response == "Now."
    assert last_prompt(wb) == ["One?"]


def test_artifacts_belong_to_their_branch(workbench: Any) -> None:
    """A report that one branch changed is unchanged on another branch, also for the agents of that branch."""
    change = call("rewrite_artifact", id="research_report", content="Left.")
    read = call("read_artifact", id="research_report")
    wb = workbench([report("Base."), "Written.", change, "Changed.", read, "Read."], approvals="approve")
    first = wb.ask("Write.").wait(10)
    left = wb.ask("Change it.", conversation_id=first.conversation_id).wait(10)
    right = wb.conversation(left).edit("Read it.").wait(10)
    texts = [run.artifacts["research_report"].content for run in (first, left, right)]
    assert texts == ["Base.", "Left.", "Base."]
    assert "<![CDATA[Base.]]>" in last_prompt(wb)[-1]


def test_activated_branch_is_continued(workbench: Any) -> None:
    """The next question continues the newest message of the branch."""
    wb = workbench(["1.", "2.", "I.", "3."])
    first = wb.ask("One?").wait(10)
    second = wb.ask("Two?", conversation_id=first.conversation_id).wait(10)
    wb.conversation(first).edit("Uno?").wait(10)
    newest = wb.conversation(first).activate()
    assert newest.message_id == second.message_id
    assert "Two?" in repr(newest)
    wb.ask("Three?", conversation_id=newest).wait(10)
    assert last_prompt(wb) == ["One?", "1.", "Two?", "2.", "Three?"]


def test_conversation_run_message_or_id_identifies_a_conversation(workbench: Any) -> None:
    """A value of another type is an error."""
    wb = workbench(["1.", "2.", "3.", "4.", "5."])
    run = wb.ask("One?").wait(10)
    for named in (run, wb.conversations()[0], wb.conversation(run).activate(), run.conversation_id):
        assert wb.ask("More?", conversation_id=named).wait(10).conversation_id == run.conversation_id
    assert wb.conversations()[0].n_messages == 5
    with pytest.raises(af.errors.UsageError, match="^7 is not a conversation. Pass a conversation, a run"):
        wb.ask("More?", conversation_id=7)


def test_conversations_are_listed_as_text_and_table(workbench: Any) -> None:
    """A title is escaped in HTML."""
    wb = workbench([report(), "1.", "2."], approvals="approve")
    assert repr(wb.conversations()) == "No conversations yet."
    tea = wb.ask("Tea & <b>coffee</b>?").wait(10)
    wb.ask("Milk?").wait(10)
    listed = wb.conversations()
    assert [entry.title for entry in listed] == ["Milk?", "Tea & <b>coffee</b>?"]
    assert len(wb.conversations(limit=1)) == len(listed[1:]) == 1
    [line] = [line for line in repr(listed).splitlines() if tea.conversation_id in line]
    assert line.split()[:6] == ["Tea", "&", "<b>coffee</b>?", "1", "1", "1"]
    page = listed._repr_html_()
    assert "<td>Tea &amp; &lt;b&gt;coffee&lt;/b&gt;?</td><td>1</td><td>1</td><td>1</td>" in page
    assert "<b>" not in page


def test_search_finds_titles_and_messages(workbench: Any) -> None:
    """The results have the text around the words."""
    wb = workbench(["A camellia <i>leaf</i>.", "From cows."])
    tea = wb.ask("What is tea?").wait(10)
    wb.ask("What is milk?").wait(10)
    hits = wb.conversations("CAMELLIA")
    assert [entry.conversation_id for entry in hits] == [tea.conversation_id]
    assert hits[0].hit.message_id == tea.message_id
    assert "What is tea? A camellia <i>leaf</i>." in repr(hits)
    assert "<th>found</th>" in hits._repr_html_()
    assert "A camellia &lt;i&gt;leaf&lt;/i&gt;." in hits._repr_html_()
    assert repr(wb.conversations("lemonade")) == "No conversation contains 'lemonade'."


def test_conversation_is_renamed(workbench: Any) -> None:
    """The conversation is identified by a run or by an id."""
    wb = workbench(["1."])
    run = wb.ask("One?").wait(10)
    wb.conversation(run).rename("First")
    assert wb.conversations()[0].title == "First"
    wb.conversation(run.conversation_id).rename("Second")
    assert wb.conversations("second")[0].hit.message_id is None


def test_deleting_a_conversation_deletes_its_rows(workbench: Any, tmp_path: Path) -> None:
    """Runs, events, artifacts and prompts are deleted from every table, but not the texts that other rows share."""
    wb = workbench(["One.", report("Word xyzzy."), "Two xyzzy."], approvals="approve")
    other = wb.ask("Keep this?").wait(10)
    gone = wb.ask("Where is xyzzy?").wait(10)
    wb.conversation(gone).delete()
    assert [entry.conversation_id for entry in wb.conversations()] == [other.conversation_id]
    assert gone.status == "deleted"
    assert (gone.response, gone.response.reason) == ("", "The run was deleted from the store.")
    with closing(connect(tmp_path / "data" / STORE_FILE, read_only=True)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = [tuple(row) for table in tables for row in db.execute(f"SELECT * FROM {table}")]  # noqa: S608
    assert not [row for row in rows if "xyzzy" in str(row)]
    assert [row for row in rows if "Keep this?" in row]
    assert len(wb.llm_calls_df()) == 1


def test_conversation_with_a_running_run_is_not_deleted(workbench: Any) -> None:
    """The run must be cancelled first; a waiting run is deleted with its request."""
    wb = workbench(model=ScriptedModel(["Slowly. " * 50], delay_s=0.02))
    slow = wb.ask("Tell.")
    with pytest.raises(
        af.errors.Conflict, match=f"The run '{slow.run_id}' of this conversation is running; cancel it first"
    ):
        wb.conversation(slow).delete()
    with pytest.raises(af.errors.Conflict, match="cancel it first"):
        wb.conversation(slow).delete_branch()
    slow.cancel()
    wb.conversation(slow).delete()
    assert len(wb.conversations()) == 0


def test_deleting_a_branch_deletes_its_waiting_run(workbench: Any) -> None:
    """The request of the run is no longer open, and the previous branch is active."""
    wb = workbench(["1.", report(), "2."], approvals={"create_artifact": "ask"})
    first = wb.ask("One?").wait(10)
    waiting = wb.ask("Two?", conversation_id=first.conversation_id).wait(10)
    assert waiting.status == "waiting"
    (request,) = waiting.pending
    wb.conversation(waiting).delete_branch()
    assert list(wb.pending()) == []
    with pytest.raises(af.errors.NotFound, match="There is no approval request"):
        waiting.approve(request.id)
    assert wb.conversations()[0].active_message_id == first.message_id
