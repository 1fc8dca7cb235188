"""The workbench and its runs, as a script holds them: sync and async, headless, over kernels and processes."""

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from scripts import call, report
from ticking import ticking

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel


def test_ask_returns_while_the_run_goes_on(workbench: Any) -> None:
    """A question gives the handle at once; wait gives it back when the run is over."""
    wb = workbench(model=ScriptedModel(["Slowly. " * 20], delay_s=0.02))
    run = wb.ask("Tell.")
    assert (run.status, run.response) == ("running", None)
    assert run.wait() is run
    assert (run.status, run.response) == ("completed", ("Slowly. " * 20).strip())


async def test_await_leaves_the_loop_free(workbench: Any) -> None:
    """While a cell awaits a run, other tasks of its loop go on; await gives the run."""
    wb = workbench(model=ScriptedModel(["Slowly. " * 20], delay_s=0.02))
    async with ticking(0.01) as ticks:
        run = wb.ask("Tell.")
        assert await run is run
    assert run.status == "completed"
    assert ticks.n > 5


async def test_stopping_the_cell_detaches_and_the_run_goes_on(workbench: Any) -> None:
    """A cancelled await does not cancel the run."""
    wb = workbench(model=ScriptedModel(["Slowly. " * 20], delay_s=0.02))
    run = wb.ask("Tell.")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run, 0.1)
    assert run.status == "running"
    await run
    assert run.status == "completed"


def test_wait_gives_up_after_its_time(workbench: Any) -> None:
    """A time-out is the caller's; the run goes on."""
    wb = workbench(model=ScriptedModel(["Slowly. " * 20], delay_s=0.02))
    run = wb.ask("Tell.")
    with pytest.raises(TimeoutError, match="it goes on"):
        run.wait(0.1)
    assert run.wait().status == "completed"


def test_a_headless_run_waits_without_hanging(workbench: Any) -> None:
    """Nobody is there: wait comes back with status waiting, and code can decide."""
    wb = workbench([report(), "Done."], approvals={"create_artifact": "ask"})
    run = wb.ask("Write.").wait(10)
    assert run.status == "waiting"
    assert [request.title for request in wb.pending()] == ["lead_agent wants to run create_artifact: research_report"]
    assert run.approve().wait(10).response == "Done."
    assert list(run.artifacts) == ["research_report"]
    assert wb.pending() == []


def test_a_denial_has_a_reason(workbench: Any) -> None:
    """deny("why") is told to the model, and nothing is written."""
    wb = workbench([report(), "Then not."], approvals={"create_artifact": "ask"})
    run = wb.ask("Write.").wait(10).deny("Not today.").wait(10)
    assert (run.response, dict(run.artifacts)) == ("Then not.", {})
    assert wb.tool_calls_df(run)["error_message"].iloc[0] == "Permission denied. The person says: Not today."


def test_interactive_waits_for_a_person(workbench: Any) -> None:
    """interactive=True says that a person is there: wait goes on until they have decided."""
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


def test_deciding_what_nobody_asked_is_an_error(workbench: Any) -> None:
    """Each mistake is one clear message; what was decided stays."""
    wb = workbench([report("a", "a") + report("b", "b"), "Done."], approvals={"create_artifact": "ask"})
    run = wb.ask("Write.").wait(10)
    with pytest.raises(af.UsageError, match="2 requests are open; name the one that you mean"):
        run.approve()
    with pytest.raises(af.UsageError, match="No request 'req-x' waits for a decision. Open are: req-"):
        wb.approve("req-x")
    first, second = run.pending
    run.approve(first.id)
    with pytest.raises(af.Conflict, match="decided already: approved"):
        run.deny("no", first.id)
    assert run.approve(second.id).wait(10).status == "completed"
    with pytest.raises(af.NotFound, match="waits for no decision"):
        run.approve()


def test_a_cancelled_run_says_so(workbench: Any) -> None:
    """The response raises RunCancelled with the text that had arrived."""
    wb = workbench(model=ScriptedModel(["Slowly. " * 200], delay_s=0.02))
    run = wb.ask("Tell.")
    time.sleep(0.3)
    run.cancel()
    with pytest.raises(af.RunCancelled) as cancelled:
        _ = run.response
    assert cancelled.value.partial.startswith("Slowly.")


def test_bad_questions_are_refused_in_the_cell(workbench: Any) -> None:
    """An empty question, something that is no text, an unknown conversation."""
    wb = workbench(["unused"])
    with pytest.raises(af.UsageError, match="question is empty"):
        wb.ask(" ")
    with pytest.raises(af.UsageError, match="question is int, not text"):
        wb.ask(7)
    with pytest.raises(af.NotFound, match="no conversation 'conv-x'"):
        wb.ask("q", conversation_id="conv-x")


def test_unreadable_sources_are_refused(workbench: Any, tmp_path: Path) -> None:
    """A missing, an empty and an undecodable folder are each named; what was added before stays."""
    wb = workbench(model=af.OfflineModel())
    good, empty = tmp_path / "good", tmp_path / "empty"
    good.mkdir(), empty.mkdir()
    (good / "rules.md").write_text("# Rules\n\nShoes are taken off in the hall before anyone enters the library.\n")
    wb.add_sources(good)
    with pytest.raises(af.UsageError, match="missing"):
        wb.add_sources(tmp_path / "missing")
    with pytest.raises(af.UsageError, match="empty"):
        wb.add_sources(empty)
    (empty / "bad.txt").write_bytes(b"\xff\xfe\xfa not text \x00")
    with pytest.raises(af.UsageError, match="bad.txt"):
        wb.add_sources(empty)
    answer = wb.ask("When are shoes taken off?").wait().response
    assert "Shoes are taken off in the hall before anyone enters the library." in (answer or "")


def test_a_user_tool_is_told_and_called(workbench: Any) -> None:
    """A tool that is registered once stands in the lead's prompt and runs when called."""

    @af.tool(permission="confirm")
    def add(ctx: af.ToolContext, a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    model = ScriptedModel([call("add", a="2", b="3"), "Five."])
    wb = workbench(model=model, approvals="approve")
    wb.register_tool(add)
    assert wb.ask("2 + 3?").wait().response == "Five."
    assert "### add" in model.requests[0].messages[0].content
    assert wb.tool_calls_df()["approval"].tolist() == ["policy"]


def test_a_function_becomes_a_tool_of_the_workbench(workbench: Any) -> None:
    """It asks as it says, and a cell that is run again puts the new function in the old one's place."""
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
    with pytest.raises(af.UsageError, match="'read_artifact' is built in"):
        wb.tool(name="read_artifact")(shout.handler)


def test_a_user_agent_works_like_a_built_in_one(workbench: Any) -> None:
    """An agent that is registered once stands in the lead's prompt, can be delegated to, and has its rows."""

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
def test_a_number_of_rows_that_cannot_be_is_told(workbench: Any, number: Any) -> None:
    """Lists say which argument it is, and its value."""
    wb = workbench([])
    for name, ask in (
        ("limit", wb.runs),
        ("limit", lambda number: wb.conversations(limit=number)),
        ("offset", lambda number: wb.conversations("words", offset=number)),
    ):
        with pytest.raises(af.UsageError, match=f"^{name} is {number!r}; it must be a whole number from 0"):
            ask(number)


def test_a_large_number_in_the_place_of_an_id_is_told(workbench: Any) -> None:
    """It is an error of the caller, not of the store."""
    wb = workbench([])
    with pytest.raises(af.UsageError, match="too large"):
        wb.run(2**70)
    for ask in (wb.delete_branch, wb.activate_branch, wb.regenerate):
        with pytest.raises(af.UsageError, match=f"^{2**70} names no message. Pass its run"):
            ask(2**70)


def test_views_get_what_they_need(workbench: Any) -> None:
    """A port replays stored events, then live ones, and reads texts and results."""
    wb = workbench([report(), "Done."])
    run = wb.ask("Write.").wait()
    heard: list[Any] = []
    done = threading.Event()
    stop = run.port.subscribe(lambda event: (heard.append(event), done.set() if event.is_terminal else None))
    assert done.wait(5)
    stop()
    assert [event.seq for event in heard] == [event.seq for event in run.events]
    tool_call_id = next(event.data["tool_call_id"] for event in heard if event.type == "tool_complete")
    assert run.port.tool_result(tool_call_id) == "Created research_report (version 1, 11 characters)."
    assert run.port.artifact_text("research_report", 1) == "The report."
    assert run.port.artifact_text("research_report", 9) == ""


def test_a_closed_workbench_says_so(workbench: Any) -> None:
    """Frames still read; a question is refused with advice."""
    wb = workbench(["One."])
    wb.ask("First?").wait()
    wb.close()
    assert len(wb.runs_df()) == 1
    with pytest.raises(af.UsageError, match="is closed. Make a new one"):
        wb.ask("Second?")


def test_a_forgotten_workbench_closes_itself(workbench: Any, tmp_path: Path) -> None:
    """A workbench that nobody holds any more ends its thread."""
    wb = af.Workbench(model=ScriptedModel(["One."]), data_dir=tmp_path / "other")
    wb.ask("First?").wait()
    del wb
    gc.collect()
    names = [thread.name for thread in threading.enumerate()]
    assert "artifactflow-engine" not in names


SCRIPT = """
import sys
import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel

wb = af.Workbench(model=ScriptedModel(["Hello."]), data_dir=sys.argv[1])
print(wb.ask("Hello?").wait().response)
"""


def test_a_script_ends_by_itself(tmp_path: Path) -> None:
    """A process that never closes its workbench ends all the same, at once and without a word on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "data")], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello.\n", "")


CHILD = """
import sys, time
import artifactflow_nb as af

wb = af.Workbench(approvals={"create_artifact": "ask"}, data_dir=sys.argv[1])
run = wb.ask("What does the pass statement do?").wait()
print(run.status, flush=True)
time.sleep(600)
"""


def test_a_killed_kernel_loses_no_waiting_run(tmp_path: Path) -> None:
    """The kernel is killed while the run waits; a new one lists it, approves, and each call has run once."""
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
        run = wb.approve(request.id).wait()
        assert run.status == "completed"
        assert "research_report" in run.artifacts
        calls, tools = wb.llm_calls_df(), wb.tool_calls_df()
        assert calls.head(len(before))["call_id"].tolist() == before["call_id"].tolist()
        assert tools["completed_at"].notna().all()
        assert not calls.duplicated(["run_id", "agent_name", "step"]).any()
        assert tools.loc[tools["approval"] == "approved", "tool_name"].tolist() == ["create_artifact"]
        assert json.loads(tools["args_json"].iloc[0])["id"] == "task_plan"
