"""The workbench and its runs: synchronous and asynchronous, unattended, across kernels and processes."""

import asyncio
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.event_loop import ticking
from support.forked_python import fast_python
from support.pages import visible_text
from support.replies import call, report

import artifactflow_nb as af
from artifactflow_nb.errors import ModelRejected
from artifactflow_nb.models.scripted import ScriptedModel


def test_ask_returns_at_once(workbench: Any) -> None:
    """`wait` returns the same handle at the end of the run."""
    wb = workbench(model=ScriptedModel(["Slowly. " * 20], delay_s=0.02))
    run = wb.ask("Tell.")
    assert (run.status, run.response) == ("running", "")
    assert run.wait() is run
    assert (run.status, run.response) == ("completed", ("Slowly. " * 20).strip())


async def test_await_does_not_block_the_loop(workbench: Any) -> None:
    """Other tasks of the loop continue, and await returns the run."""
    wb = workbench(model=ScriptedModel(["Slowly. " * 20], delay_s=0.02))
    async with ticking(0.01) as ticks:
        run = wb.ask("Tell.")
        assert await run is run
    assert run.status == "completed"
    assert ticks.n > 5


async def test_cancelled_await_does_not_cancel_the_run(workbench: Any) -> None:
    """The run continues, and can be awaited again."""
    wb = workbench(model=ScriptedModel(["Slowly. " * 20], delay_s=0.02))
    run = wb.ask("Tell.")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run, 0.1)
    assert run.status == "running"
    await run
    assert run.status == "completed"


def test_wait_has_a_timeout(workbench: Any) -> None:
    """The run continues after the time-out."""
    wb = workbench(model=ScriptedModel(["Slowly. " * 20], delay_s=0.02))
    run = wb.ask("Tell.")
    with pytest.raises(TimeoutError, match="and continues"):
        run.wait(0.1)
    assert run.wait().status == "completed"


def test_unattended_run_waits_without_hanging(workbench: Any) -> None:
    """`wait` returns with the status waiting, and code can decide."""
    wb = workbench([report(), "Done."], approvals={"create_artifact": "ask"})
    run = wb.ask("Write.").wait(10)
    assert run.status == "waiting"
    assert [request.title for request in wb.pending()] == ["lead_agent wants to run create_artifact: research_report"]
    assert "lead agent wants to run create_artifact" in repr(wb.pending())  # people read names in words
    assert run.approve().wait(10).response == "Done."
    assert list(run.artifacts) == ["research_report"]
    assert wb.pending() == []


def test_denial_sends_its_reason_to_the_model(workbench: Any) -> None:
    """Nothing is written."""
    wb = workbench([report(), "Then not."], approvals={"create_artifact": "ask"})
    run = wb.ask("Write.").wait(10).deny("Not today.").wait(10)
    assert (run.response, dict(run.artifacts)) == ("Then not.", {})
    assert wb.tool_calls_df(run)["error_message"].iloc[0] == "Permission denied. The person says: Not today."


def test_interactive_workbench_waits_for_a_person(workbench: Any) -> None:
    """With `interactive=True`, `wait` continues until a person has decided."""
    wb = workbench([report(), "Done."], approvals={"create_artifact": "ask"}, interactive=True)
    run = wb.ask("Write.")

    def decide_later() -> None:
        while not run.pending:
            time.sleep(0.05)
        time.sleep(0.5)
        run.approve()

    person = threading.Thread(target=decide_later)
    person.start()
    assert run.wait(10).response == "Done."
    person.join()


def test_invalid_decisions_are_errors(workbench: Any) -> None:
    """Each mistake has its own message; an earlier decision remains valid."""
    wb = workbench([report("a", "a") + report("b", "b"), "Done."], approvals={"create_artifact": "ask"})
    run = wb.ask("Write.").wait(10)
    with pytest.raises(af.errors.UsageError, match="2 requests are open; pass the id of one request"):
        run.approve()
    with pytest.raises(
        af.errors.NotFound, match="There is no approval request 'req-x' in this store. wb.pending\\(\\) lists"
    ):
        run.approve("req-x")
    first, second = run.pending
    run.approve(first.id)
    with pytest.raises(af.errors.Conflict, match="decided already: approved"):
        run.deny("no", first.id)
    assert run.approve(second.id).wait(10).status == "completed"
    with pytest.raises(af.errors.NotFound, match="is not waiting for a decision"):
        run.approve()


def test_run_does_not_decide_a_request_of_another_run(workbench: Any) -> None:
    replies = [report("a", "a"), report("b", "b"), "Two."]
    wb = workbench(replies, approvals={"create_artifact": "ask"}, interactive=False)
    first, second = (wb.ask(question).wait(10) for question in ("One?", "Two?"))
    (request,) = second.pending
    for decide in (first.approve, partial(first.deny, "No."), partial(first.instruct, "No.")):
        with pytest.raises(af.errors.NotFound, match=f"it is a request of the run '{second.run_id}'. Nothing was"):
            decide(request.id)
    assert [len(run.pending) for run in (first, second)] == [1, 1]
    assert second.approve(request.id).wait(10).status == "completed"


def test_response_of_a_cancelled_run_has_the_partial_text(workbench: Any) -> None:
    """The response is empty; the text so far is in `partial`, and in the error of `raise_for_status`."""
    wb = workbench(model=ScriptedModel(["Slowly. " * 200], delay_s=0.02))
    run = wb.ask("Tell.")
    time.sleep(0.3)
    run.cancel()
    assert (run.response, run.response.reason) == ("", "The run was cancelled.")
    assert run.response.partial.startswith("Slowly.")
    with pytest.raises(af.errors.RunCancelled) as cancelled:
        run.raise_for_status()
    assert cancelled.value.partial.startswith("Slowly.")


def test_response_without_an_answer_is_an_empty_text_with_the_reason(workbench: Any) -> None:
    """Failed, waiting and deleted runs have an empty text that displays the reason; a completed run has an answer."""
    turns = ["Yes.", ModelRejected("The key is invalid."), "No.", report("x", "note")]
    wb = workbench(turns, approvals={"create_artifact": "ask"})
    runs = [wb.ask(question).wait(10) for question in ("a", "b", "c", "d")]
    wb.conversation(runs[2]).delete()
    texts = [run.response for run in runs]
    assert [text[:3].upper() for text in texts] == ["YES", "", "", ""]
    waiting = runs[3]
    assert [repr(text) for text in texts[1:3]] == [
        "NoAnswer('The run failed: The key is invalid.')",
        "NoAnswer('The run was deleted from the store.')",
    ]
    request = waiting.pending[0]
    assert f'.approve("{request.id}")' in texts[3].reason
    assert request.sentence in visible_text(texts[3]._repr_html_())
    assert pickle.loads(pickle.dumps(texts[1])).reason == texts[1].reason  # noqa: S301 - our own bytes
    assert runs[0].raise_for_status() is runs[0]
    assert waiting.raise_for_status() is waiting
    with pytest.raises(af.errors.RunFailed, match="The key is invalid"):
        runs[1].raise_for_status()


def test_missing_artifact_error_names_the_state_of_an_unfinished_run(workbench: Any) -> None:
    """An empty display of artifacts names the state too; for a completed run neither text names a state."""
    turns = [report("x", "note"), ModelRejected("The key is invalid."), "Nothing to write."]
    wb = workbench(turns, approvals={"create_artifact": "ask"})
    waiting, failed, done = (wb.ask(question).wait(10) for question in ("a", "b", "c"))
    pattern = r"no artifact .* The run waits for a decision: .*wb\.run\(\W+run-\w+\W+\)\.approve"
    with pytest.raises(KeyError, match=pattern):
        _ = waiting.artifacts["note"]
    assert "The run waits for a decision" in waiting.artifacts._repr_html_()
    with pytest.raises(KeyError, match=r"no artifact .* The run failed: The key is invalid\."):
        _ = failed.artifacts["note"]
    assert repr(done.artifacts) == "No artifacts."


def test_invalid_questions_are_errors(workbench: Any) -> None:
    """The errors name an empty question, a value that is not text, and an unknown conversation."""
    wb = workbench(["unused"])
    with pytest.raises(af.errors.UsageError, match="question is empty"):
        wb.ask(" ")
    with pytest.raises(af.errors.UsageError, match="question is 7; it must be text"):
        wb.ask(7)
    with pytest.raises(af.errors.NotFound, match="no conversation 'conv-x'"):
        wb.ask("q", conversation_id="conv-x")


def test_unreadable_sources_are_errors(workbench: Any, tmp_path: Path) -> None:
    """The error names a missing, empty or undecodable folder; earlier sources are kept."""
    wb = workbench(model=af.OfflineModel())
    good, empty = tmp_path / "good", tmp_path / "empty"
    good.mkdir(), empty.mkdir()
    (good / "rules.md").write_text("# Rules\n\nShoes are taken off in the hall before anyone enters the library.\n")
    wb.sources.add(good)
    with pytest.raises(af.errors.UsageError, match="missing"):
        wb.sources.add(tmp_path / "missing")
    with pytest.raises(af.errors.UsageError, match="empty"):
        wb.sources.add(empty)
    (empty / "bad.txt").write_bytes(b"\xff\xfe\xfa not text \x00")
    with pytest.raises(af.errors.UsageError, match="bad.txt"):
        wb.sources.add(empty)
    answer = wb.ask("When are shoes taken off?").wait().response
    assert "Shoes are taken off in the hall before anyone enters the library." in (answer or "")


def test_registered_tool_is_in_the_prompt_and_runs(workbench: Any) -> None:
    """The tool is registered once, for the lead agent."""

    @af.tool(permission="confirm")
    def add(ctx: af.ToolContext, a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    model = ScriptedModel([call("add", a="2", b="3"), "Five."])
    wb = workbench(model=model, approvals="approve")
    wb.tool(add)
    assert wb.ask("2 + 3?").wait().response == "Five."
    assert "### add" in model.requests[0].messages[0].content
    assert wb.tool_calls_df()["approval"].tolist() == ["policy"]


def test_decorated_function_becomes_a_tool(workbench: Any) -> None:
    """The permission of the tool applies, and a repeated cell replaces the function."""
    model = ScriptedModel([call("shout", text="hey"), "Done.", call("shout", text="hey"), "Done."])
    wb = workbench(model=model, interactive=False)

    @wb.tool(permission="confirm", category="text", timeout_s=5)
    def shout(ctx: af.ToolContext, text: str) -> str:
        """Say it louder."""
        return text.upper()

    run = wb.ask("Shout.").wait()
    assert [request.tool for request in run.pending] == ["shout"]
    run.approve()
    assert run.wait().response == "Done."
    assert "HEY" in model.requests[-1].messages[-1].content

    @wb.tool
    def shout(ctx: af.ToolContext, text: str) -> str:  # noqa: F811 - the cell is run again
        """Say it much louder."""
        return text.upper() + "!"

    assert wb.ask("Shout.").wait().response == "Done."
    assert "HEY!" in model.requests[-1].messages[-1].content
    assert model.requests[-1].messages[0].content.count("### shout") == 1
    with pytest.raises(af.errors.UsageError, match="'read_artifact' is built in"):
        wb.tool(name="read_artifact")(shout.handler)


def test_registered_agent_works_like_a_built_in_agent(workbench: Any) -> None:
    """The agent is in the lead's prompt, gets delegations, and has rows."""

    def script(request: Any) -> str:
        if "A counting agent" in request.messages[0].content:
            return "Three."
        return call("call_subagent", agent_name="counter", instruction="Count.") if len(request.messages) == 2 else "3"

    model = ScriptedModel(script)
    prompts = Path("prompts")
    prompts.mkdir()
    (prompts / "counter.md").write_text("A counting agent.")
    wb = workbench(model=model, prompts=prompts)
    wb.register_agent(af.AgentConfig("counter", "Counts things."))
    assert wb.ask("How many?").wait().response == "3"
    assert "counter: Counts things." in model.requests[0].messages[0].content
    assert wb.llm_calls_df()["agent_name"].tolist() == ["lead_agent", "counter", "lead_agent"]


@pytest.mark.parametrize("number", [2**70, -1, "5", 1.5, None])
def test_invalid_limit_names_argument_and_value(workbench: Any, number: Any) -> None:
    """The error for an invalid `offset` names argument and value too."""
    wb = workbench([])
    for name, ask in (
        ("limit", wb.runs),
        ("limit", lambda number: wb.conversations(limit=number)),
        ("offset", lambda number: wb.conversations("words", offset=number)),
    ):
        with pytest.raises(af.errors.UsageError, match=f"^{name} is {number!r}; it must be a whole number from 0"):
            ask(number)


def test_large_number_instead_of_an_id_is_a_usage_error(workbench: Any) -> None:
    """The number is not an error of the store."""
    wb = workbench([])
    with pytest.raises(af.errors.UsageError, match="too large"):
        wb.run(2**70)
    with pytest.raises(af.errors.UsageError, match="^A int is not a conversation. Pass a run"):
        wb.conversation(2**70)  # type: ignore[arg-type]


def test_client_replays_events_and_reads_texts(workbench: Any) -> None:
    """Stored events come first, then live events."""
    wb = workbench([report(), "Done."])
    run = wb.ask("Write.").wait()
    heard: list[Any] = []
    done = threading.Event()
    stop = run._client.subscribe(lambda event: (heard.append(event), done.set() if event.is_terminal else None))
    assert done.wait(5)
    stop()
    assert [event.seq for event in heard] == [event.seq for event in run.events]
    tool_call_id = next(event.data["tool_call_id"] for event in heard if event.type == "tool_complete")
    assert run._client.tool_result(tool_call_id) == "Created research_report (version 1, 11 characters)."
    assert run._client.artifact_text("research_report", 1) == "The report."
    assert run._client.artifact_text("research_report", 9) == ""


def test_closed_workbench_still_reads_frames(workbench: Any) -> None:
    """A question is an error with advice."""
    wb = workbench(["One."])
    wb.ask("First?").wait()
    wb.close()
    assert len(wb.runs_df()) == 1
    with pytest.raises(af.errors.UsageError, match="is closed. Create a new workbench"):
        wb.ask("Second?")


def test_collected_workbench_closes_its_store(workbench: Any, tmp_path: Path) -> None:
    """No call of `close` is needed; the loop that all workbenches share stays."""
    workbench(["One."]).ask("First?").wait()  # starts the shared loop
    before = set(threading.enumerate())
    wb = af.Workbench(model=ScriptedModel(["One."]), data_dir=tmp_path / "other")
    wb.ask("First?").wait()
    opened = set(threading.enumerate()) - before
    assert opened
    del wb
    gc.collect()
    assert not any(thread.is_alive() for thread in opened)


SCRIPT = """
import sys
import artifactflow_nb as af
from artifactflow_nb.errors import ModelRejected
from artifactflow_nb.models.scripted import ScriptedModel

wb = af.Workbench(model=ScriptedModel(["Hello."]), data_dir=sys.argv[1])
print(wb.ask("Hello?").wait().response)
"""


def test_script_without_close_ends(tmp_path: Path) -> None:
    """The script ends at once and prints nothing on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "data")], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello.\n", "")


CHILD = """
import sys, time
import artifactflow_nb as af
from artifactflow_nb.errors import ModelRejected

wb = af.Workbench(approvals={"create_artifact": "ask"}, data_dir=sys.argv[1])
run = wb.ask("What does the pass statement do?").wait()
print(run.status, flush=True)
time.sleep(600)
"""


def test_killed_kernel_loses_no_waiting_run(tmp_path: Path) -> None:
    """A new kernel lists the run and approves its request, and each call has run once."""
    folder = tmp_path / "data"
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "waiting\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    with af.Workbench(approvals={"create_artifact": "ask"}, data_dir=folder) as wb:
        (request,) = wb.pending()
        assert wb.run(request.run_id).status == "waiting"
        before = wb.llm_calls_df()
        run = wb.run(request.run_id).approve().wait()
        assert run.status == "completed"
        assert "research_report" in run.artifacts
        calls, tools = wb.llm_calls_df(), wb.tool_calls_df()
        assert calls.head(len(before))["call_id"].tolist() == before["call_id"].tolist()
        assert tools["completed_at"].notna().all()
        assert not calls.duplicated(["run_id", "agent_name", "step"]).any()
        assert tools.loc[tools["approval"] == "approved", "tool_name"].tolist() == ["create_artifact"]
        assert json.loads(tools["args_json"].iloc[0])["id"] == "task_plan"


LOOPING_GRAPH = """
import asyncio, sys, time
import artifactflow_nb as af
from langgraph.graph import START, MessagesState, StateGraph

def plain(state):
    return {"messages": []}

async def coroutine(state):
    await asyncio.sleep(0)
    return {"messages": []}

builder = StateGraph(MessagesState)
builder.add_node("loop", {"plain": plain, "coroutine": coroutine}[sys.argv[2]])
builder.add_edge(START, "loop")
builder.add_conditional_edges("loop", lambda state: "loop", ["loop"])
wb = af.Workbench(data_dir=sys.argv[1])
runs = [wb.ask("Go.", flow=af.adapt(builder.compile(), name="loops")) for _ in range(3)]
time.sleep(0.5)
"""


@pytest.mark.parametrize("node", ["plain", "coroutine"])
def test_script_that_ends_while_a_graph_loops_prints_nothing(tmp_path: Path, node: str) -> None:
    """The runs are abandoned with their process, without a word on stderr."""
    done = subprocess.run(
        [*fast_python(), "-c", LOOPING_GRAPH, str(tmp_path / "data"), node],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
