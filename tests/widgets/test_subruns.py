"""A subrun is shown within the tool call that started it: live, from the store and in a saved notebook."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import OpenWorkbench
from support.pages import ShownView, visible_text
from support.played_runs import PlayedRun, Script
from support.replies import by_agent, call, delegate, report

import artifactflow_nb as af
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.conversations.view import TreeView
from artifactflow_nb.widgets.debug import DebugMiddleware
from artifactflow_nb.widgets.page.view import View
from artifactflow_nb.widgets.run.saved import hint_for_status, saved_run
from artifactflow_nb.widgets.run.view import RunView
from artifactflow_nb.widgets.timeline import TimelineView

ASK = call("run_research", query="What is X?", research_type="general")
LETTER = "X is a letter [1].\n\n1. The book"
ASKS = "aiting for you: phone, in research"


def asking(workbench: OpenWorkbench, **options: object) -> af.Workbench:
    """Return a workbench whose composer starts a research run, in which the search agent uses the phone."""
    turns = by_agent(
        composer=["I look it up." + ASK, "So it is."],
        lead=[delegate("search_agent", "Ask Ada."), report(LETTER), "It is one, says the book."],
        search=["I call her." + call("phone", number="12"), "She says: a letter."],
    )
    wb = workbench(turns, interactive=False, **options)

    @wb.tool(permission="confirm", agent="search_agent")
    def phone(ctx: af.ToolContext, number: str) -> str:
        """Call somebody."""
        return f"called {number}"

    return wb


def waiting_run(wb: af.Workbench) -> af.Run:
    """Start the composer's run and return it while it waits for the approval of its subrun."""
    run = wb.projects.start("Essay", template="paper").ask("Find out what X is.").wait()
    assert run.status == "waiting"
    return run


@pytest.fixture
def wb(workbench: OpenWorkbench) -> af.Workbench:
    return asking(workbench)


@pytest.fixture
def run(wb: af.Workbench) -> af.Run:
    return waiting_run(wb)


def views(wb: af.Workbench, run: af.Run) -> dict[str, View]:
    return {
        "run": RunView(run._client),
        "view": ChatView(wb._thread, run.conversation_id, single_message_id=run.message_id),
        "chat": ChatView(wb._thread, run.conversation_id),
        "tree": TreeView(wb._thread, run.conversation_id),
    }


def shown(wb: af.Workbench, run: af.Run, name: str) -> ShownView:
    page = ShownView(wb._thread, views(wb, run)[name])
    if name == "tree":
        page.do("read", {"message": run.message_id})
    return page


def card(page: ShownView) -> str:
    """The key of the only card that is shown."""
    (key,) = [key for key, kind in page.kinds.items() if kind == "approval"]
    return key


@pytest.mark.parametrize("name", ["run", "view", "chat", "tree"])
def test_card_of_subrun_can_be_decided(wb: af.Workbench, run: af.Run, name: str) -> None:
    """A subrun's request appears once, within the call, and its decision lets both runs continue."""
    page = shown(wb, run, name)
    (request,) = run.pending
    assert f"{request.run_id}/approval-{request.id}" in card(page)
    assert page.announced == "Your approval is needed: Run “phone”: 12."
    assert page.text.count(ASKS) == 1
    outcome = page.do("decide", {"request": request.id, "choice": "approve"})
    assert not outcome["failed"], outcome
    page.until(lambda: "So it is." in page.text and page.text.count("Completed ·") == 2)
    assert run.wait().status == "completed"
    assert "approval" not in page.kinds.values()
    for text in ("I call her.", "called 12", "She says: a letter.", "It is one, says the book."):
        page.until(lambda text=text: page.text.count(text) == 1)


def test_new_subrun_is_followed(wb: af.Workbench) -> None:
    """A view that was open before the subrun began shows its steps, card and end without a press."""
    page = ShownView(wb._thread, ChatView(wb._thread, wb.projects.start("Essay", template="paper").conversation_id))
    run = wb.projects.start("Essay").ask("Find out what X is.")
    page.until(lambda: ASKS in page.text and "approval" in page.kinds.values())
    assert "I call her." in page.text
    run.deny("Not now.")
    page.until(lambda: page.text.count("Completed") == 2)
    assert "denied: Not now." in page.text


def test_subrun_fold_is_open_until_end(wb: af.Workbench, run: af.Run) -> None:
    """The row of the call is open while the subrun waits; after the run the row is folded and shows the cost."""
    page = shown(wb, run, "chat")
    row = next(key for key, text in page.html.items() if 'title="run_research">Research<' in text)
    assert "Waits for your decision" in page.html[row]
    assert '<details class="af-tool af-job af-subrun" open>' in page.view.saved_output()["text/html"]
    run.approve()
    page.until(lambda: page.text.count("Completed") == 2)
    calls = wb.llm_calls_df()
    assert f"{calls['total_tokens'][calls['run_id'] != run.run_id].sum():,}" in page.html[row]
    assert '<details class="af-tool af-job af-subrun">' in page.view.saved_output()["text/html"]


def test_saved_output_contains_subrun(wb: af.Workbench, run: af.Run) -> None:
    """Both formats name the request and its call during the wait, and the research afterwards."""
    outputs = saved_run(run._client)
    assert all("Waiting for your approval: Run “phone”: 12" in output for output in outputs.values())
    assert ASKS in outputs["text/html"]
    assert all(hint_for_status("waiting") in output for output in outputs.values())
    assert outputs["text/html"].index(hint_for_status("waiting")) < outputs["text/html"].index("I look it up.")
    run.approve().wait()
    outputs = saved_run(run._client)
    assert "research, completed: What is X?" in outputs["text/plain"]
    for phrase in ("It is one, says the book.", "Search agent", "research_report", "Completed"):
        assert phrase in outputs["text/html"]
    assert outputs["text/html"].count("It is one, says the book.") == 1
    assert outputs == {**ShownView(wb._thread, RunView(run._client)).view.saved_output()}


def test_saved_output_without_metrics_is_reproducible(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Times and tokens of the subrun are left out as well."""
    found = []
    for name in ("one", "two"):
        wb = asking(workbench, data_dir=tmp_path / name)
        run = waiting_run(wb).approve().wait()
        found.append(saved_run(run._client, with_metrics=False))
        assert "token" not in visible_text(found[-1]["text/html"])
    assert found[0] == found[1]


def test_other_process_shows_same_output(wb: af.Workbench, run: af.Run, tmp_path: Path) -> None:
    """A chat over the same store, opened elsewhere, has the fold with its whole content."""
    run.approve().wait()
    wb.close()
    code = f"""
import artifactflow_nb as af
wb = af.Workbench(model=af.ScriptedModel([]), data_dir={str(tmp_path / "data")!r})
print(wb.run({run.run_id!r}).panel.saved_output()["text/html"])
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "af-subrun" in found.stdout
    assert "It is one, says the book." in found.stdout


def test_missing_subrun_has_note(wb: af.Workbench, run: af.Run) -> None:
    """If the conversation of the research was deleted, the call says so, and the rest is shown."""
    request = run.pending[0]
    run.approve().wait()
    wb.conversation(wb.run(request.run_id).conversation_id).delete()
    page = shown(wb, run, "chat")
    assert "The work of this run is not in this store." in page.text
    assert "So it is." in page.text
    assert all("So it is." in output for output in saved_run(run._client).values())


def test_subrun_ends_with_parent(wb: af.Workbench, run: af.Run) -> None:
    """Stop ends both runs, stops the timers and removes the card."""
    page = shown(wb, run, "chat")
    page.press("Stop this run")
    page.until(lambda: page.text.count("Cancelled") == 2)
    assert "approval" not in page.kinds.values()
    assert "data-since" not in "".join(page.html.values())
    assert shown(wb, run, "chat").text.count("Cancelled") == 2


def test_chat_metrics_include_subruns(wb: af.Workbench, run: af.Run) -> None:
    """The table of a chat counts the agents of the research too; so does the run's line."""
    run.approve().wait()
    page = shown(wb, run, "chat")
    table = page.html["metrics-table"]
    assert all(name in table for name in ("Composer", "Lead agent", "Search agent"))
    calls = wb.llm_calls_df()
    n_tools = len(wb.tool_calls_df())
    assert f"{calls['total_tokens'].sum():,} tokens · {len(calls)} model calls · {n_tools} tool calls" in page.text


def test_timeline_has_lanes_for_subrun(wb: af.Workbench, run: af.Run) -> None:
    """The call has a bar over its research, and each agent of the research has a lane with the question."""
    page = ShownView(wb._thread, TimelineView(run._client))
    page.until(lambda: "Search agent: What is X?" in page.html["table"])
    assert "waiting" in page.html["table"]
    assert ASKS in page.html["head"]
    run.approve().wait()
    page.until(lambda: "Completed" in page.html["head"])
    lanes = ("Composer", "Lead agent: What is X?")
    assert all(f'<th scope="row">{lane}</th>' in page.html["agents"] for lane in lanes)
    spans = page.view._transcript.spans
    whole = next(span for span in spans if span.name == "run_research")
    within = [span for span in spans if span.lane != "composer"]
    assert whole.is_delegation
    assert all(whole.start_ms <= span.start_ms <= span.end_ms <= whole.end_ms for span in within)


def test_debug_view_lists_subrun_calls_after_call(workbench: OpenWorkbench) -> None:
    """The calls of the research appear between its tool call and the composer's next call."""
    debug = DebugMiddleware()
    wb = asking(workbench, middleware=[debug], approvals="approve")
    wb.projects.start("Essay", template="paper").ask("Find out what X is.").wait()
    agents = re.findall(r"<tr><td>(?:<span[^>]*>)?((?:composer|lead|se)\w*)", debug._repr_html_())
    assert agents == [
        *["composer"] * 2,
        "lead_agent",
        "lead_agent",
        *["search_agent"] * 3,
        *["lead_agent"] * 3,
        "composer",
    ]


def test_subrun_card_names_parent_tool(wb: af.Workbench, run: af.Run) -> None:
    """A run lists the pending requests of its subruns, but not their artifacts."""
    (request,) = run.pending
    result = wb._thread.call(wb._thread.engine.controller.result(run.run_id))
    assert result.pending == (request,)
    assert "research_report" not in run.approve().wait().artifacts


def test_model_reads_report_and_reader_finds_it_open(wb: af.Workbench, run: af.Run) -> None:
    """The tool result names the block of the report, and that block is open for the reader."""
    run.approve().wait()
    (completed_call,) = [
        event for event in run.events if event.tool == "run_research" and event.type == "tool_complete"
    ]
    assert completed_call.data["metadata"]["block_id"] == "what_is_x"
    (opened,) = re.findall(
        r'<details class="af-artifact" open>.*?<code>(\w+)</code>', saved_run(run._client)["text/html"]
    )
    assert opened == "what_is_x"


def test_subrun_conversation_is_named_after_task(wb: af.Workbench, run: af.Run) -> None:
    """The title of the conversation has the project and the question, not the whole prompt."""
    titles = [conversation.title for conversation in wb.conversations()]
    assert sorted(titles) == ["Essay", "research for Essay: What is X?"]


def test_run_waits_for_requests_of_parent_and_subrun(script: Script) -> None:
    """A run waits until both requests are decided, in any order."""
    below = Script()
    below.add("metadata", None, question="What is X?")
    below.add("permission_request", "search_agent", "phone", id="req-9", tool_call_id="tc-9", job_id="main")
    below.add("complete", None, interrupted=True, pending=["req-9"])
    script.add("tool_start", tool="run_research", job_id="main", tool_call_id="tc-1", params={"query": "What is X?"})
    started = {"job_id": "tc-1", "tool_call_id": "tc-1", "run_id": "run-0002", "flow": "research"}
    script.add("subrun_start", None, **started, question="What is X?")
    script.add("permission_request", tool="send", id="req-1", tool_call_id="tc-2", job_id="main")
    script.add("complete", None, interrupted=True, pending=["req-1", "req-9"])
    script.add("permission_result", tool="send", id="req-1", tool_call_id="tc-2", approved=True, decided_by="user")
    run = PlayedRun(script.events)
    run.subruns["run-0002"] = PlayedRun(below.events)
    assert "Waiting for you" in saved_run(run)["text/html"]
    below.add("permission_result", "search_agent", "phone", id="req-9", tool_call_id="tc-9", approved=True)
    run.subruns["run-0002"] = PlayedRun(below.events)
    assert "Waiting for you" not in saved_run(run)["text/html"]
