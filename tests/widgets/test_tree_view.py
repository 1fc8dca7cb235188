"""The panel of conversations, pressed as a page presses it, over a real engine."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.cpu_time import no_collection, within
from support.long_conversations import add_conversation
from support.pages import ShownView, visible_text
from support.replies import call, report

import artifactflow_nb as af
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.database import connect
from artifactflow_nb.widgets.conversations.view import TreeView
from artifactflow_nb.widgets.page.stream import PageStream
from artifactflow_nb.widgets.page.view import PageAction

Branches = tuple[af.Workbench, Sequence[af.Run]]
Look = Callable[..., ShownView]


@pytest.fixture
def look() -> Iterator[Look]:
    """Opens conversation panels; the fixture closes them."""
    opened: list[tuple[af.Workbench, ShownView]] = []

    def open_one(wb: af.Workbench, conversation_id: str | None = None) -> ShownView:
        opened.append((wb, ShownView(wb._thread, TreeView(wb._thread, conversation_id))))
        return opened[-1][1]

    yield open_one
    for wb, reader in opened:
        wb._thread.call_soon(reader.view.close)


def press(reader: ShownView, act: str, **args: Any) -> str:
    """Carry out an action; return its message."""
    error_text = reader.do(act, args)
    assert not error_text["failed"], error_text
    return error_text["message"]


def refused(reader: ShownView, act: str, **args: Any) -> str:
    """Carry out an action that fails; return its error."""
    error_text = reader.do(act, args)
    assert error_text["failed"], error_text
    return error_text["message"]


def page_of(reader: ShownView) -> str:
    """The whole page as HTML."""
    return "".join(reader.html.values())


def drawn(reader: ShownView) -> list[str]:
    """The labels of the tree's nodes."""
    return re.findall(r'<span class="af-announcer">(.*?)</span><span aria-hidden', reader.html["drawing"])


@pytest.fixture
def branches(tmp_path: Path) -> Iterator[Branches]:
    """A conversation: a question, two variants of the next with a report each, and a question after the second."""
    turns = [
        "They end.", report("The <u>old</u> text.\n"), "One way.", report("The new text.\n"), "Another way.", "Yes.",
        "Asked here.", "And again.",
    ]  # fmt: skip
    with af.Workbench(model=ScriptedModel(turns), data_dir=tmp_path / "data", approvals="approve") as wb:
        first = wb.ask("How do they end?").wait(10)
        second = wb.ask("Write it.", conversation_id=first.conversation_id).wait(10)
        third = wb.conversation(second).regenerate().wait(10)
        fourth = wb.ask("Really?", conversation_id=first.conversation_id).wait(10)
        yield wb, (first, second, third, fourth)


def test_newest_conversation_is_shown_first(branches: Branches, look: Look) -> None:
    """Without an id the tree shows the conversation with the latest question; the list has all conversations."""
    wb, runs = branches
    reader = look(wb)
    assert [label.split(" (")[0] for label in drawn(reader)] == [
        "Question 1: How do they end?", "Question 2: Write it.", "Question 2: Write it.", "Question 3: Really?",
    ]  # fmt: skip
    tokens = [f"{wb.runs_df(run)['total_tokens'].iloc[0]:,} tokens" for run in runs]
    assert all(figure in " ".join(drawn(reader)) for figure in tokens)
    assert "4 questions · 2 branches" in reader.html["list"]
    assert 'aria-current="true"' in reader.html["list"]
    assert "reading" not in reader.kinds
    wb.ask("Something else?").wait(10)
    assert "Something else?" in drawn(look(wb))[0]
    assert len(drawn(look(wb, runs[0].conversation_id))) == 4


def test_clicked_question_is_read(branches: Branches, look: Look) -> None:
    """The run of the question is shown with the answer and scrolled into view, and its node is marked."""
    wb, (_, second, *_) = branches
    reader = look(wb)
    press(reader, "read", message=second.message_id)
    assert "One way." in page_of(reader)
    assert 'aria-selected="true" data-act="read"' in reader.html["drawing"]
    assert f"{second.message_id}/art-research_report" in reader.kinds
    assert "<u>old</u>" not in page_of(reader)
    assert reader.effects[-1].items() >= {"name": "show", "page": "page", "key": f"{second.message_id}/head"}.items()
    assert "was deleted meanwhile" in refused(reader, "read", message="msg-x")


def test_another_branch_can_be_continued(branches: Branches, look: Look) -> None:
    """The message after activating a branch names the question that the next question follows."""
    wb, (first, second, *_) = branches
    reader = look(wb)
    press(reader, "read", message=second.message_id)
    assert "Continue this branch" in reader.html["do"]
    assert press(reader, "activate", message=second.message_id) == "The next question continues “Write it.”."
    assert "Continue this branch" not in reader.html["do"]
    run = wb.ask("Further?", conversation_id=first.conversation_id).wait(10)
    assert wb.messages_df(run=run)["parent_id"].item() == second.message_id
    reader.until(lambda: len(drawn(reader)) == 5)
    assert "Question 3: Further?" in drawn(reader)[-1]


def test_question_can_follow_any_message(branches: Branches, look: Look) -> None:
    """The form asks a question that follows the message being read, on a new branch, and opens its run."""
    wb, (first, *_) = branches
    reader = look(wb)
    press(reader, "read", message=first.message_id)
    assert reader.data[f"ask-{first.message_id}"]["args"] == {"message": first.message_id}
    press(reader, "ask", message=first.message_id, values={"question": "Where?"})
    reader.until(lambda: "Asked here." in page_of(reader))
    assert [label.split(":")[0] for label in drawn(reader)].count("Question 2") == 3
    assert "question is empty" in refused(reader, "ask", message=first.message_id, values={"question": "  "})


def test_question_is_regenerated(branches: Branches, look: Look) -> None:
    """Regenerate asks the question again as a sibling, and shows its run live."""
    wb, (_, _, _, fourth) = branches
    reader = look(wb)
    press(reader, "regenerate", message=fourth.message_id)
    reader.until(lambda: "Asked here." in page_of(reader))
    assert sum("variant" in label for label in drawn(reader)) == 4


def test_two_branches_are_compared(branches: Branches, look: Look) -> None:
    """Compare asks for the second question, then shows both answers and artifacts, the older on the left."""
    wb, (_, second, third, _) = branches
    reader = look(wb)
    press(reader, "read", message=third.message_id)
    press(reader, "compare", message=third.message_id)
    assert "Press the question to compare with “Write it.”" in reader.html["choosing"]
    press(reader, "read", message=second.message_id)
    assert "choosing" not in reader.kinds
    shown = reader.html["cmp-answers-diff"]
    assert "<del>One </del>way." in shown
    assert "<ins>Another </ins>way." in shown
    assert "v1 → v2" in reader.html["cmp-research_report"]
    assert "&lt;u&gt;" in reader.html["cmp-research_report-diff"]
    tokens = [wb.runs_df(run)["total_tokens"].iloc[0] for run in (second, third)]
    assert tokens[0] != tokens[1]
    facts = reader.html["cmp-table"]
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)<", row) for row in facts.split("<tr>")]
    difference = f"{tokens[1] - tokens[0]:+,}".replace("-", "−")
    assert ["tokens", f"{tokens[0]:,}", f"{tokens[1]:,}", difference] in rows
    assert ["characters of the answer", "8", "12", "+4"] in rows
    press(reader, "compare_end")
    assert "compared" not in reader.kinds


def test_variants_are_compared_with_one_click(branches: Branches, look: Look) -> None:
    """Each other variant has a button; an artifact of only one branch is marked as such."""
    wb, (first, second, third, _) = branches
    reader = look(wb)
    press(reader, "read", message=third.message_id)
    assert "Compare with variant 1" in reader.html["do"]
    press(reader, "compare_with", message=third.message_id, other=first.message_id)
    assert "only in b" in reader.html["cmp-research_report"]
    press(reader, "compare_with", message=third.message_id, other=second.message_id)
    assert "v1 → v2" in reader.html["cmp-research_report"]


def test_conversation_is_renamed_searched_and_deleted(branches: Branches, look: Look) -> None:
    """Deleting asks for a confirmation that counts the deleted questions and artifacts."""
    wb, (first, *_) = branches
    other = wb.ask("Other?").wait(10)
    reader = look(wb, first.conversation_id)
    press(reader, "rename_ask", conversation=first.conversation_id)
    assert f"rename-{first.conversation_id}" in reader.kinds
    assert re.search(
        "title is empty", refused(reader, "rename", conversation=first.conversation_id, values={"title": " "})
    )
    press(reader, "rename", conversation=first.conversation_id, values={"title": "Ends <i>"})
    assert "<strong>Ends &lt;i&gt;</strong>" in reader.html["title"]
    press(reader, "search", values={"words": "another way"})
    assert "Ends" in reader.html["list"]
    assert "Other?" not in reader.html["list"]
    press(reader, "search", values={"words": "nowhere"})
    assert "No conversation contains" in reader.html["list"]
    press(reader, "search", values={"words": ""})
    press(reader, "delete_ask", conversation=first.conversation_id)
    assert "with 4 questions and 1 artifact?" in reader.html["confirm"]
    press(reader, "dismiss")
    assert "confirm" not in reader.kinds
    assert press(reader, "delete", conversation=first.conversation_id) == "Deleted."
    assert [entry.conversation_id for entry in wb.conversations()] == [other.conversation_id]
    assert "Other?" in drawn(reader)[0]


def test_branch_is_deleted(branches: Branches, look: Look) -> None:
    """The confirmation counts the messages that follow; afterwards the tree has the remaining messages."""
    wb, (_, second, third, _) = branches
    reader = look(wb)
    press(reader, "read", message=third.message_id)
    press(reader, "prune_ask", message=third.message_id)
    assert "“Write it.”, 1 question after it," in reader.html["confirm"]
    press(reader, "prune", message=third.message_id)
    assert len(drawn(reader)) == 2
    assert "reading" not in reader.kinds
    assert "the next question continues here" in drawn(reader)[1]
    press(reader, "prune", message=second.message_id)
    assert len(drawn(reader)) == 1


@pytest.mark.parametrize("act", ["read", "activate", "compare_with", "regenerate", "prune", "ask"])
def test_action_on_deleted_message_is_refused(branches: Branches, look: Look, act: str) -> None:
    """A deleted question can be clicked until the panel has followed the store; the error says so."""
    wb, (first, *_, last) = branches
    reader = look(wb, first.conversation_id)
    wb.conversation(last).delete_branch()
    values = {"question": "And now?"}
    error_text = refused(reader, act, message=last.message_id, other=first.message_id, values=values)
    assert re.search("There is no message|was deleted meanwhile", error_text)


def test_tree_follows_changes_by_others(branches: Branches, look: Look) -> None:
    """A question asked in a cell appears, a deleted conversation disappears, and the output is saved again."""
    wb, (first, *_) = branches
    reader = look(wb)
    wb.ask("In a cell?", conversation_id=first.conversation_id).wait(10)
    reader.until(lambda: "In a cell?" in drawn(reader)[-1] and "Completed" in drawn(reader)[-1])
    reader.until(lambda: any("In a cell?" in save["text/plain"] for save in reader.saved_outputs))
    reader.until(lambda: "Asked here." in reader.saved_outputs[-1]["text/html"])
    wb.conversation(first).delete()
    reader.until(lambda: "drawing" not in reader.kinds)
    assert "wb.ask" in reader.html["nothing"]


def test_waiting_run_is_decided_in_the_tree(tmp_path: Path, look: Look) -> None:
    """The approval card is shown; the decision reaches the run, and the status of the node follows."""
    turns = [report(), "Written."]
    with af.Workbench(
        model=ScriptedModel(turns), data_dir=tmp_path / "data", approvals={"create_artifact": "ask"}
    ) as wb:
        run = wb.ask("Write.").wait(10)
        reader = look(wb)
        assert "Waiting for you" in drawn(reader)[0]
        press(reader, "read", message=run.message_id)
        reader.until(lambda: "approval" in reader.kinds.values())
        assert f"ask-{run.message_id}" not in reader.kinds, "Nothing can be asked behind what has no answer yet."
        (request,) = run.pending
        press(reader, "decide", request=request.id, choice="approve", note="", scope="once", params=None)
        reader.until(lambda: "Completed" in drawn(reader)[0] and "Written." in page_of(reader))


def test_panel_closed_while_reading_stops_following(tmp_path: Path) -> None:
    """A panel that is closed while a message loads does not follow its run."""
    with af.Workbench(
        model=ScriptedModel([report(), "Written."]), data_dir=tmp_path / "data", approvals={"create_artifact": "ask"}
    ) as wb:
        run = wb.ask("Write.").wait(10)
        view = TreeView(wb._thread)
        reader = ShownView(wb._thread, view)
        n_refreshed = 0

        async def close_while_reading() -> None:
            reading = asyncio.create_task(view.act(PageAction("read", {"message": run.message_id})))
            await asyncio.sleep(0)
            view.close()
            await reading

        def refresh() -> None:
            nonlocal n_refreshed
            n_refreshed += 1

        reader.stream.refresh = refresh
        wb._thread.call(close_while_reading())
        n_at_the_end = n_refreshed
        run.approve().wait(10)
        assert n_refreshed == n_at_the_end


def test_running_run_is_cancelled_in_the_tree(tmp_path: Path, look: Look) -> None:
    """The node says that the run is running; its branch cannot be deleted before Stop has cancelled it."""
    with af.Workbench(model=ScriptedModel(["Slowly. " * 200], delay_s=0.05), data_dir=tmp_path / "data") as wb:
        run = wb.ask("Tell.")
        reader = look(wb)
        press(reader, "read", message=run.message_id)
        assert "Running" in drawn(reader)[0]
        assert "cancel it first" in refused(reader, "prune", message=run.message_id)
        reader.until(lambda: "Slowly." in page_of(reader))
        press(reader, "stop")
        reader.until(lambda: "Cancelled" in drawn(reader)[0])
        reader.until(lambda: reader.saved_outputs and "Slowly." in reader.saved_outputs[-1]["text/html"])


def test_message_without_run_can_be_read(tmp_path: Path, look: Look) -> None:
    """The texts of the message are shown, sanitised."""
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data") as wb:
        conversations = wb._thread.engine.conversations
        started = wb._thread.call(conversations.start_conversation("By hand"))
        added = wb._thread.call(conversations.add(started, "Why <b>?", "So **it** is. <img src=x>"))
        reader = look(wb)
        press(reader, "read", message=added.message_id)
        assert "<strong>Why &lt;b&gt;?</strong>" in page_of(reader)
        assert "<strong>it</strong>" in page_of(reader)
        assert "<img" not in page_of(reader)
        assert "nothing to stop" in refused(reader, "stop")
        assert "cannot be resumed" in refused(reader, "resume", message=added.message_id)


def test_empty_store_has_a_hint(tmp_path: Path, look: Look) -> None:
    """The panel has a hint, and the saved output a sentence."""
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data") as wb:
        assert "wb.ask" in page_of(look(wb))
        assert repr(wb.tree()) == "No conversations yet."
        with pytest.raises(af.errors.NotFound, match="no conversation 'conv-x'"):
            wb.tree("conv-x")


def test_saved_output_has_drawing_and_answers(branches: Branches) -> None:
    """The saved output has every question with its answer, and nothing to click."""
    wb, (first, *_) = branches
    save = wb.tree(first).saved_output()
    page = save["text/html"]
    assert page.count('<li class="af-node') == 4
    assert "Another way." in page
    assert not re.search("data-act|tabindex|<button|<form|<script", page.split("</style>")[1])
    assert save["text/plain"].splitlines()[2:] == [
        "✓ How do they end?",
        "  ↳ ✓ Write it. · 1 artifact · variant 1 of 2",
        "✓ Write it. · 1 artifact · variant 2 of 2",
        "✓ Really? · active",
    ]
    assert visible_text(page).endswith("✓ Really? active Yes.")


LONG_ANSWER = "An answer of *some* length, with `code`. " * 50


@pytest.mark.timed
def test_ten_thousand_questions_do_not_block_the_loop(tmp_path: Path) -> None:
    """Layout, drawing and saved output are computed in threads, so that runs can continue."""

    async def on_the_loop(view: TreeView) -> float:
        start_s = time.thread_time()
        await PageStream(view, lambda _message: None).open()
        await view.act(PageAction("read", {"message": "m5000"}))
        await view.act(PageAction("unfold", {"first": "m1"}))
        assert "Question 9999?" in view.saved_output()["text/html"]
        return time.thread_time() - start_s

    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data") as wb:
        add_conversation(wb, 10_000, LONG_ANSWER)
        with no_collection():
            spent = min(wb._thread.call(on_the_loop(TreeView(wb._thread))) for _ in range(3))
        assert spent < 0.1  # all of it would take 0.3 s and more


@pytest.mark.timed
def test_thousand_questions_open_within_a_second(tmp_path: Path, look: Look) -> None:
    """Reading, drawing and saving 1,000 messages with long answers takes one second at most; another poll is cheap."""
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data") as wb:
        add_conversation(wb, 1_000, LONG_ANSWER)
        for attempt in within(1.0):
            with attempt:
                reader = look(wb)

                async def save(reader: ShownView = reader) -> Mapping[str, str]:
                    return reader.view.saved_output()

                saved_output = wb._thread.call(save())
        assert len(saved_output["text/html"]) < 400_000
        assert "… 940 questions" in saved_output["text/plain"]
        press(reader, "unfold", first="m1")
        assert len(drawn(reader)) == 101


def test_search_match_is_opened(branches: Branches, look: Look) -> None:
    """The list shows excerpts of the matches, and choosing a match opens its message."""
    wb, (_, second, *_) = branches
    reader = look(wb)
    press(reader, "search", values={"words": "One way"})
    assert "Write it. One way." in reader.html["list"]
    press(reader, "choose", conversation=second.conversation_id, message=second.message_id)
    assert f"{second.message_id}/question" in reader.kinds


def test_abandoned_run_is_resumed_in_the_tree(branches: Branches, look: Look) -> None:
    """The node says that the run was abandoned; reading it offers Resume and no form for the next question."""
    wb, (*_, fourth) = branches
    with closing(connect(wb.data_dir / STORE_FILE)) as db:
        db.execute("UPDATE runs SET status = 'running', owner = 'eng-gone.1' WHERE run_id = ?", (fourth.run_id,))
        db.execute("UPDATE messages SET status = 'running' WHERE message_id = ?", (fourth.message_id,))
        db.execute("DELETE FROM events WHERE run_id = ? AND event_type = 'complete'", (fourth.run_id,))
    reader = look(wb)
    assert "Abandoned" in drawn(reader)[-1]
    press(reader, "read", message=fourth.message_id)
    assert "its process has ended" in reader.html[f"{fourth.message_id}/state"]
    assert 'data-act="resume"' in reader.html[f"{fourth.message_id}/stop"]
    assert f"ask-{fourth.message_id}" not in reader.kinds


def test_long_answers_are_shortened_in_saved_output(tmp_path: Path) -> None:
    """The newest answers are saved whole, older answers within the limit; a shortened answer has a note."""
    long = "A sentence of the answer. " * 1_500
    with af.Workbench(model=ScriptedModel([long, long, "~~~\nopen"]), data_dir=tmp_path / "data") as wb:
        first = wb.ask("One?").wait(10)
        for question in ("Two?", "Three?"):
            wb.ask(question, conversation_id=first.conversation_id).wait(10)
        save = wb.tree().saved_output()
    page = save["text/html"]
    assert page.count("Shortened: the rest of the answer") == 1
    assert 60_000 > page.count("sentence") * len("A sentence of the answer. ") > len(long)
    assert "<pre" in page.rpartition("Three?")[2]


def test_hostile_texts_stay_text_in_the_panel(tmp_path: Path, look: Look) -> None:
    """Questions, titles and artifacts stay text in the list, the tree, the reading pane and the comparison."""
    evil = '"><img src=x onerror=alert(1)></text><script>alert(1)</script>'
    turns = [evil, call("create_artifact", id="x", title=evil, content=evil), evil]
    with af.Workbench(model=ScriptedModel(turns), data_dir=tmp_path / "data", approvals="approve") as wb:
        first = wb.ask(evil).wait(10)
        second = wb.conversation(first).regenerate().wait(10)
        reader = look(wb)
        for act, args in (
            ("read", {"message": second.message_id}),
            ("compare", {"message": second.message_id}),
            ("compare_with", {"message": second.message_id, "other": first.message_id}),
            ("prune_ask", {"message": second.message_id}),
            ("search", {"values": {"words": "img"}}),
        ):
            press(reader, act, **args)
            assert "<img" not in page_of(reader)
            assert "<script" not in page_of(reader)
        page = wb.tree().saved_output()["text/html"]
        assert "<img" not in page
        assert "<script" not in page
