"""The chat over a real engine, with a simulated page."""

import asyncio
import base64
import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from jupyter_client.manager import start_new_kernel
from support.cpu_time import within
from support.long_conversations import add_conversation
from support.pages import ShownView
from support.pdf import pdf
from support.replies import report

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.widgets.chat.branch import MAX_TURNS, ChatBranch
from artifactflow_nb.widgets.chat.view import ChatView

Open = Callable[..., tuple[af.Workbench, ShownView]]


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Open]:
    opened: list[af.Workbench] = []

    def make(turns: Any = (), *, conversation: str | None = None, **options: Any) -> tuple[af.Workbench, ShownView]:
        view_options = {name: options.pop(name) for name in ("single_message_id", "flow", "budget") if name in options}
        wb = opened[0] if opened else af.Workbench(model=ScriptedModel(turns), data_dir=tmp_path / "data", **options)
        opened.append(wb)
        return wb, ShownView(wb._thread, ChatView(wb._thread, conversation, **view_options))

    yield make
    for wb in opened:
        wb.close()


def ask(page: ShownView, question: str, answer: str) -> None:
    """Send a question with the form, and wait for the answer."""
    output_text = page.submit("send", text=question)
    assert not output_text["failed"], output_text
    page.until(lambda: answer in page.text and "Stop this run" not in page.buttons)


def choose(page: ShownView, title: str) -> None:
    """Choose a conversation of the list."""
    found = re.search(rf'data-act="choose" data-args="([^"]*)"><span class="af-tree-title">{title}', page.html["list"])
    assert found, page.html["list"]
    assert not page.do("choose", orjson.loads(html.unescape(found[1])))["failed"]


def test_panel_asks_and_shows_answer(chat: Open) -> None:
    """The first question creates a conversation, which the next question continues."""
    wb, page = chat(["One.", "Two."])
    assert "Nothing has been asked yet. To search in your own files, call wb.sources.add(folder)" in page.text
    ask(page, "First?", "One.")
    ask(page, "Second?", "Two.")
    (conversation,) = wb.conversations()
    assert conversation.n_messages == 2
    assert "First?" in page.text
    assert page.effects[-1]["name"] == "end"


def test_empty_question_is_rejected_and_not_stored(chat: Open) -> None:
    """The form shows the error for an empty question."""
    wb, page = chat()
    output_text = page.submit("send", text="  ")
    assert output_text["failed"]
    assert "question is empty" in output_text["message"]
    assert len(wb.conversations()) == 0


def test_regenerated_answers_can_be_browsed(chat: Open) -> None:
    """A regenerated answer is sibling 2 / 2; one step back shows the first answer and activates its branch."""
    wb, page = chat(["Old.", "New.", "Later."])
    ask(page, "Question?", "Old.")
    page.press("Regenerate: ask this again, as another version")
    page.until(lambda: "New." in page.text and "Stop this run" not in page.buttons)
    assert "2 / 2" in page.text
    assert "Old." not in page.text
    page.press("The previous version of this question")
    assert "1 / 2" in page.text
    assert "Old." in page.text
    ask(page, "On?", "Later.")
    output_text = [message.content for message in wb._thread.engine.model.requests[-1].messages[1:]]
    assert output_text == ["Question?", "Old.", "On?"]
    page.press("The previous version of this question")  # there is none before the first: nothing happens
    assert "1 / 2" in page.text


def test_edited_question_becomes_sibling(chat: Open) -> None:
    """An edited question becomes a sibling of the original; cancelling the form changes nothing."""
    _, page = chat(["One.", "Uno."])
    ask(page, "First?", "One.")
    page.press("Edit this question and ask again")
    form = next(data for data in page.data.values() if data.get("act") == "resend")
    assert form["fields"][0]["value"] == "First?"
    page.do(form["cancelAct"], form["args"])
    assert not any(data.get("act") == "resend" for data in page.data.values())
    page.press("Edit this question and ask again")
    assert page.submit("resend", text=" ")["failed"]
    page.submit("resend", text="Primo?")
    page.until(lambda: "Uno." in page.text)
    assert "2 / 2" in page.text
    assert not any("First?" in own for key, own in page.html.items() if key.endswith("/asked"))


def test_copy_effect_goes_to_requesting_page(chat: Open) -> None:
    """The Markdown of the answer is copied by one page only."""
    _, page = chat(["**One.**"])
    ask(page, "First?", "One.")
    page.press("Copy the answer as Markdown")
    assert page.effects[-1] == {"type": "effect", "page": "page", "name": "copy", "text": "**One.**"}


def test_panel_decides_request(chat: Open) -> None:
    """The turn shows and announces the card until the decision; the saved output says how to decide."""
    _, page = chat([report(), "Done."], approvals={"create_artifact": "ask"}, interactive=True)
    page.submit("send", text="Write it.")
    page.until(lambda: "Your approval is needed: Write" in page.announced)
    page.until(lambda: any("wb.pending()" in saved_form["text/html"] for saved_form in page.saved_outputs))
    (ask_data,) = [data for key, data in page.data.items() if page.kinds[key] == "approval"]
    output_text = page.do("decide", {"request": ask_data["request"], "choice": "approve", "note": "", "scope": "once"})
    assert not output_text["failed"]
    page.until(lambda: "Done." in page.text)
    assert "approval" not in page.kinds.values()
    again = page.do("decide", {"request": ask_data["request"], "choice": "deny"})
    assert "decided already" in again["message"]


def test_stop_cancels_run(chat: Open) -> None:
    """The Stop button cancels the run; its partial text remains."""
    wb, page = chat(["word " * 5000])
    wb._thread.engine.model._delay_s = 0.01
    page.submit("send", text="Say much.")
    page.until(lambda: "word word" in page.text)
    page.press("Stop this run")
    page.until(lambda: "Cancelled" in page.text)


def test_question_from_cell_appears(chat: Open) -> None:
    """A question of a cell and a branch that it activates appear without an action."""
    wb, page = chat(["One.", "Two."])
    ask(page, "First?", "One.")
    (conversation,) = wb.conversations()
    first = wb.runs_df()["run_id"][0]
    wb.ask("From a cell?", conversation_id=conversation.conversation_id).wait(10)
    page.until(lambda: "From a cell?" in page.text and "Two." in page.text)
    wb.conversation(first).regenerate()
    page.until(lambda: "2 / 2" in page.text)


@pytest.mark.timed
def test_long_conversation_shows_newest_turns(chat: Open) -> None:
    """The newest of 1,000 questions are displayed within a second of CPU time, earlier questions on request."""
    wb, _ = chat()
    conversation_id = add_conversation(wb, 1000, "An answer.")
    for attempt in within(1.0):
        with attempt:
            _, page = chat(conversation=conversation_id)
    assert "Question 999?" in page.text
    assert f"Question {1000 - MAX_TURNS - 1}?" not in page.text
    page.press(f"Show {MAX_TURNS} earlier questions of {1000 - MAX_TURNS}")
    assert f"Question {1000 - MAX_TURNS - 1}?" in page.text
    assert "not shown here" in page.view.saved_output()["text/plain"]


def test_panel_opens_and_creates_conversations(chat: Open) -> None:
    """The list opens conversations, and New shows an empty panel."""
    _, page = chat(["One.", "Two."])
    ask(page, "First?", "One.")
    page.press("New: begin a new conversation")
    assert "One." not in page.text
    ask(page, "Second?", "Two.")
    page.press("Conversations")
    choose(page, "First?")
    assert "One." in page.text
    assert "Two." not in page.text


def test_conversation_list_can_be_searched(chat: Open) -> None:
    """The newest 50 conversations are listed, more on request; a search lists the conversations with the words."""
    wb, page = chat()
    start = wb._thread.engine.conversations.start_conversation
    for number in range(60):
        wb._thread.call(start(f"Number {number}."))
    page.press("Conversations")
    assert page.effects[-1]["key"] == "search"
    assert page.html["list"].count("<li>") == 50
    page.press("Show more")
    assert page.html["list"].count("<li>") == 60
    page.submit("search", words="number 41.")
    assert re.findall(r"Number \d+", page.html["list"]) == ["Number 41"]
    page.submit("search", words="nowhere")
    assert "No conversation contains" in page.text
    page.press("Conversations")
    assert "list" not in page.kinds


def test_search_result_opens_matching_question(chat: Open) -> None:
    """Choosing a match on another branch shows the match and activates its branch."""
    _, page = chat(["Old words.", "New.", "Elsewhere."])
    ask(page, "Question?", "Old words.")
    page.press("Regenerate: ask this again, as another version")
    page.until(lambda: "New." in page.text and "Stop this run" not in page.buttons)
    page.press("New: begin a new conversation")
    ask(page, "Other?", "Elsewhere.")
    page.press("Conversations")
    page.submit("search", words="old words")
    choose(page, "Question")
    assert "Old words." in page.text
    assert "1 / 2" in page.text
    assert [effect["name"] for effect in page.effects[-3:]] == ["end", "focus", "show"]


def test_branch_can_be_downloaded(chat: Open) -> None:
    """Export offers the file formats; the download is named after the conversation."""
    _, page = chat(["**One.**"])
    assert "Export: download this conversation" not in page.buttons
    ask(page, "First?", "One.")
    page.press("Export: download this conversation")
    assert page.press("Download md: Markdown")["message"] == "Downloaded as First.md."
    file = page.effects[-1]
    assert (file["name"], file["filename"], file["media_type"]) == ("download", "First.md", "text/markdown")
    assert base64.b64decode(file["base64"]).decode() == "# First?\n\n**One.**\n"


def test_two_views_of_conversation_stay_in_sync(chat: Open) -> None:
    """A question of one view streams in the other, and Stop in either ends it in both."""
    wb, here = chat(["One.", "word " * 5000])
    ask(here, "First?", "One.")
    (conversation,) = wb.conversations()
    _, there = chat(conversation=conversation.conversation_id)
    wb._thread.engine.model._delay_s = 0.01
    here.submit("send", text="Say much.")
    there.until(lambda: "Say much." in there.text and "word word" in there.text)
    there.press("Stop this run")
    for page in (here, there):
        page.until(lambda page=page: "Cancelled" in page.text and "Stop this run" not in page.buttons)


IN_A_KERNEL = """import tempfile, time
import artifactflow_nb as af
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.page.stream import PageStream

wb = af.Workbench(model=af.ScriptedModel(["word " * 200 + "END"], delay_s=0.005), data_dir=tempfile.mkdtemp())
view = ChatView(wb._thread)
stream = PageStream(view, lambda message: None)
wb._thread.call(stream.open())
message = {"type": "act", "id": 1, "page": "p", "act": "send", "args": {"values": {"text": "Go"}}}
wb._thread.call_soon(stream.receive, message)
"""
SEEN = r"""while not wb.runs():
    time.sleep(0.05)  # the first question of a store has the reference indexed before it begins
run = wb.runs()[0].wait(10)
print(run.status, "END\n" in view.saved_output()["text/plain"])"""


def output_text(content: dict[str, Any]) -> str:
    """The printed text or the error of a cell."""
    return content.get("text") or " ".join(content.get("traceback", ()))


def answer(receive: Callable[..., dict[str, Any]], request: str, kind: str) -> dict[str, Any]:
    """The next message of this type with this parent; other messages are ignored."""
    while True:
        message = receive(timeout=10)
        if (message["parent_header"].get("msg_id"), message["msg_type"]) == (request, kind):
            return message


@pytest.mark.usefixtures("fast_kernels")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_kernel_interrupt_does_not_stop_chat(tmp_path: Path) -> None:
    """Interrupting the kernel ends the running cell, but not the streaming answer of a chat."""
    manager, client = start_new_kernel(cwd=str(tmp_path))
    try:
        client.execute_interactive(IN_A_KERNEL, timeout=30, output_hook=lambda _message: None)
        # Otherwise the kernel does not execute what comes while it still clears up after the error.
        busy = client.execute("print('computing')\ntime.sleep(30)", stop_on_error=False)
        answer(client.get_iopub_msg, busy, "stream")
        manager.interrupt_kernel()
        assert answer(client.get_shell_msg, busy, "execute_reply")["content"]["ename"] == "KeyboardInterrupt"
        sentence: list[str] = []
        client.execute_interactive(
            SEEN, timeout=20, output_hook=lambda message: sentence.append(output_text(message["content"]))
        )
        assert "".join(sentence).strip() == "completed True"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_branch_closed_while_loading_follows_nothing(chat: Open) -> None:
    """A view that is closed while it loads follows no run."""
    wb, page = chat(["word " * 5000])
    wb._thread.engine.model._delay_s = 0.01
    page.submit("send", text="Say much.")
    (conversation,) = wb.conversations()
    changes: list[bool] = []

    async def load_and_close() -> None:
        branch = ChatBranch(
            wb._thread,
            conversation.conversation_id,
            single_message_id=None,
            on_change=changes.append,
            with_metrics=True,
        )
        loading = asyncio.create_task(branch.load())
        await asyncio.sleep(0)
        branch.close()
        await loading
        await asyncio.sleep(0.1)
        changes.clear()
        await asyncio.sleep(0.3)

    wb._thread.call(load_and_close())
    assert changes == []
    page.press("Stop this run")


def test_invalid_arguments_are_errors_at_once(chat: Open) -> None:
    """A chat accepts a conversation or one of its ids; unknown ids, flows and limits raise an error in the cell."""
    wb, _page = chat(["One."])
    run = wb.ask("First?").wait(10)
    for reference in (run, run.run_id, run.message_id, run.conversation_id, wb.conversations()[0]):
        assert repr(wb.chat(reference)).startswith("Chat: First?")
        assert repr(wb.tree(reference)).startswith("First?")
    with pytest.raises(af.errors.UsageError, match="no flow 'nope'"):
        wb.chat(flow="nope")
    with pytest.raises(af.errors.UsageError, match="nope is not one of"):
        wb.chat(budget={"nope": 1})
    with pytest.raises(af.errors.UsageError, match="A int is not a conversation"):
        wb.chat(7)  # type: ignore[arg-type]  # the mistake of a person
    wb.conversation(wb.conversations()[0]).rename("Renamed")
    wb.conversation(wb.conversations()[0]).delete()
    with pytest.raises(af.errors.NotFound):
        wb.chat(run)


def test_deleted_conversation_empties_panel(chat: Open) -> None:
    """A panel whose conversation was deleted is empty; the next question creates a new conversation."""
    wb, page = chat(["One.", "Two."])
    ask(page, "First?", "One.")
    wb.conversation(wb.conversations()[0].conversation_id).delete()
    page.until(lambda: "Nothing has been asked yet." in page.text)
    ask(page, "Second?", "Two.")


def test_usage_and_context_are_displayed_live(chat: Open) -> None:
    """The bar has a context gauge, the table a row per agent and a total."""
    _, page = chat(["One."])
    ask(page, "First?", "One.")
    assert 'role="meter"' in page.html["gauge"]
    assert "Lead agent" in page.html["metrics-table"]
    assert "<tfoot>" in page.html["metrics-table"]
    assert 'class="af-table-box" tabindex="0" role="group" aria-label="Tokens, time' in page.html["metrics-table"]
    assert page.html["metrics"] == "Tokens, time and cost"


def test_questions_use_configured_flow_and_budget(chat: Open) -> None:
    """Every question of the panel, also a regenerated question, has the limits of the panel."""
    wb, page = chat(["One.", "Two."], budget={"tokens": 50_000})
    ask(page, "First?", "One.")
    page.press("Regenerate: ask this again, as another version")
    page.until(lambda: "Two." in page.text and "Stop this run" not in page.buttons)
    stored = wb.query("SELECT json_extract(settings_json, '$.budget.tokens') AS tokens FROM main.runs")
    assert list(stored["tokens"]) == [50_000, 50_000]
    _, other = chat(flow="nope")
    assert "no flow 'nope'" in other.submit("send", text="Third?")["message"]


def test_concurrent_questions_create_one_conversation(chat: Open) -> None:
    """If two questions are sent at the same moment, the second question waits for the answer to the first."""
    wb, page = chat(["word " * 200, "Two."])
    wb._thread.engine.model._delay_s = 0.01
    results = page.do_at_once(*(("send", {"values": {"text": text}}) for text in ("First?", "Second?")))
    assert not any(result["failed"] for result in results)
    assert [entry.n_messages for entry in wb.conversations()] == [1]
    page.until(lambda: "Two." in page.text)
    assert [entry.n_messages for entry in wb.conversations()] == [2]


@pytest.mark.parametrize(
    ("act", "args"),
    [
        ("send", {}),
        ("send", {"values": None}),
        ("send", {"values": {"text": {"a": 1}}}),
        ("regenerate", {"message": None}),
        ("resend", {"message": ["x"], "values": {"text": "Other?"}}),
        ("sibling", {"message": "of another conversation", "step": 1}),
        ("decide", {"request": ["x"]}),
        ("decide", {}),
        ("stop", {}),
        ("copy", {"message": 10**400}),
        ("choose", {"conversation": "none"}),
        ("choose", {}),
        ("choose", {"conversation": "of another conversation", "message": "none"}),
        ("download", {"form": "exe"}),
        ("download", {}),
    ],
)
def test_malformed_actions_change_nothing(chat: Open, act: str, args: dict[str, Any]) -> None:
    """Malformed arguments and ids of another conversation are refused with a message."""
    wb, page = chat(["One.", "Two."])
    other = wb.ask("Other?").wait(10)
    ask(page, "First?", "One." if "One." not in (other.response or "") else "Two.")
    shown = page.html.copy()
    ids = {"message": other.message_id, "conversation": other.conversation_id}
    args = {**args, **{name: ids[name] for name, value in args.items() if value == "of another conversation"}}
    output_text = page.do(act, args)
    assert output_text["failed"]
    assert "did not work" not in output_text["message"]
    assert page.html == shown
    assert sum(entry.n_messages for entry in wb.conversations()) == 2


def test_question_form_node_is_constant(chat: Open) -> None:
    """The node of the form does not change with the first question or its deletion, so the input is preserved."""
    wb, page = chat(["One."])
    before = page.data["composer"]
    assert before["draft"]
    ask(page, "First?", "One.")
    assert page.data["composer"] == before
    wb.conversation(wb.conversations()[0].conversation_id).delete()
    page.until(lambda: "Nothing has been asked yet." in page.text)
    assert page.data["composer"] == before


def test_closing_workbench_keeps_last_output(chat: Open) -> None:
    """After the workbench is closed, the saved output with all answers replaces the panel."""
    wb, page = chat(["One.", "Two."])
    ask(page, "First?", "One.")
    ask(page, "Second?", "Two.")
    wb.close()
    assert page.closed
    assert "Two." in page.saved_outputs[-1]["text/html"]


def test_unchanged_turn_is_rendered_once(chat: Open) -> None:
    """The saved output of an unchanged turn is rendered once, not with every save of the panel."""
    _, page = chat(["One.", "Two."])
    ask(page, "First?", "One.")
    (turn,) = page.view._turns
    page.until(lambda: turn.message.status == "completed")
    first_output = turn.saved_output()
    ask(page, "Second?", "Two.")
    page.until(lambda: page.saved_outputs and "Two." in page.saved_outputs[-1]["text/plain"])
    assert page.view._turns[0].saved_output() is first_output
    assert first_output["text/plain"] in page.saved_outputs[-1]["text/plain"]


def test_saved_output_contains_question_being_edited(chat: Open) -> None:
    """The saved output contains the question instead of the form that edits it."""
    _, page = chat(["One."])
    ask(page, "First?", "One.")
    page.press("Edit this question and ask again")
    assert "First?" in page.view.saved_output()["text/html"].split("af-turns")[-1]


def test_single_view_reports_deleted_question(chat: Open) -> None:
    """The view of one run does not become a chat if its conversation is deleted."""
    wb, page = chat(["One."])
    ask(page, "First?", "One.")
    run = wb.run(wb.runs_df()["run_id"][0])
    _, alone = chat(conversation=run.conversation_id, single_message_id=run.message_id)
    wb.conversation(run.conversation_id).delete()
    alone.until(lambda: "was deleted" in alone.text)
    assert not any(data.get("act") == "send" for data in alone.data.values())
    assert "was deleted" in alone.view.saved_output()["text/plain"]


def test_plain_text_escapes_control_characters(chat: Open) -> None:
    """Escape sequences in a question or an answer do not reach a terminal that prints the panel."""
    _, page = chat(["red \x1b[31m and over\rwritten END"])
    ask(page, "Why \x1b[2J?", "END")
    page.until(lambda: page.saved_outputs and "END" in page.saved_outputs[-1]["text/plain"])
    assert not {"\x1b", "\r"} & set(page.saved_outputs[-1]["text/plain"])


def test_saved_chat_is_readable_without_kernel(chat: Open) -> None:
    """Both saved forms have every question with its answer, and no buttons."""
    _, page = chat(["**One.**", "Two."])
    ask(page, "First <b>?", "One.")
    ask(page, "Second?", "Two.")
    page.until(lambda: page.saved_outputs and "Two." in page.saved_outputs[-1]["text/plain"])
    saved_form = page.saved_outputs[-1]
    for media_type in ("text/plain", "text/html"):
        assert all(text in saved_form[media_type] for text in ("Second?", "One.", "Two."))
    assert "<button" not in saved_form["text/html"]
    assert "data-act" not in saved_form["text/html"]
    assert "<b>?" not in saved_form["text/html"]


def test_single_view_offers_regenerate(chat: Open) -> None:
    """`run.panel` shows one question with its buttons, and no form for the next question."""
    wb, page = chat(["One.", "Uno."])
    ask(page, "First?", "One.")
    run = wb.run(wb.runs_df()["run_id"][0])
    view = run.panel
    assert repr(view).endswith("One.\n\nThis answer names no source.")
    assert "One." in view.saved_output()["text/html"]
    _, alone = chat(conversation=run.conversation_id, single_message_id=run.message_id)
    assert not any(data.get("act") == "send" for data in alone.data.values())
    alone.press("Regenerate: ask this again, as another version")
    alone.until(lambda: "Uno." in alone.text and "2 / 2" in alone.text)


def test_page_of_a_cited_pdf_is_shown_on_a_click(chat: Open, tmp_path: Path) -> None:
    """The saved output has the passage and the link to the page, and no button."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "birds.pdf").write_bytes(pdf("Cover", "Herons wait for fish in shallow water.", title="Birds"))
    text = "Herons wait for fish [1].\n\n1. Birds: page 2 — local:notes/birds.pdf#page-2\n"
    fetch = af.ToolCall("call_subagent", {"agent_name": "crawl_agent", "instruction": "Read."})
    read = af.ToolCall("web_fetch", {"urls": ["local:notes/birds.pdf#page-2"]})
    wb, page = chat([fetch, read, "Read.", text], approvals="approve")
    wb.sources.add(folder)
    ask(page, "Where do herons wait?", "Herons wait for fish")
    shown = "".join(page.html.values())
    found = re.search(r'data-act="cited_page" data-args="([^"]*)">Show the page', shown)
    assert found, shown
    assert not page.do("cited_page", orjson.loads(html.unescape(found[1])))["failed"]
    page.until(lambda: page.effects[-1]["name"] == "picture")
    assert base64.b64decode(page.effects[-1]["base64"]).startswith(b"\x89PNG")
    saved = page.view.saved_output()["text/html"]
    assert "<mark>Herons wait for fish in shallow water.</mark>" in saved
    assert "cited_page" not in saved
    (folder / "birds.pdf").unlink()
    answer = page.do("cited_page", orjson.loads(html.unescape(found[1])))
    assert "is missing, so page 2 cannot be shown" in answer["message"]
