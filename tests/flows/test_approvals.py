"""Approvals: requests, decisions and policies, also across killed processes."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenEngine
from support.forked_python import fast_python
from support.replies import by_agent, call, delegate, in_request_protocol, report

from artifactflow_nb.core.approvals import ApprovalRequest, Decision
from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.toolcalls.xml import parse_results
from artifactflow_nb.errors import Conflict, NotFound, UsageError
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import ToolContext, tool

ASK = {"create_artifact": "ask"}


def last_results(engine: Any) -> list[tuple[bool, str]]:
    text = engine.model.requests[-1].messages[-1].content
    return [(result.success, result.data or result.error or "") for _, result in parse_results(text)]


async def test_run_without_a_decider_waits(open_engine: OpenEngine) -> None:
    """Without a decider the run stops with the status `waiting`, and nothing is written."""
    engine = await open_engine([report(), "Done."], approvals=ASK)
    result = await engine.controller.execute("Write.")
    assert (result.status, result.response) == ("waiting", None)
    assert [request.tool for request in result.pending] == ["create_artifact"]
    assert result.pending[0].preview == "The report."
    assert await engine.artifacts.list_artifacts(result.conversation_id, message_id=result.message_id) == []


async def test_approved_call_runs_once(open_engine: OpenEngine) -> None:
    """After the approval the call runs, the model gets its result, and the run completes."""
    engine = await open_engine([report(), "Done."], approvals=ASK)
    waiting = await engine.controller.execute("Write.")
    result = await engine.controller.resume(waiting.thread_id, waiting.message_id, approved=True)
    assert (result.status, result.response) == ("completed", "Done.")
    assert len(engine.model.requests) == 2
    assert [
        artifact.version for artifact in await engine.artifacts.versions(result.conversation_id, "research_report")
    ] == [1]


async def test_denied_call_does_not_run(open_engine: OpenEngine) -> None:
    """The model gets the denial with the person's reason as the result."""
    engine = await open_engine([report(), "Then not."], approvals=ASK)
    waiting = await engine.controller.execute("Write.")
    decision = {waiting.pending[0].id: Decision(approved=False, instruction="Too early.")}
    result = await engine.controller.resume(waiting.thread_id, decisions=decision)
    assert result.response == "Then not."
    assert last_results(engine) == [(False, "Permission denied. The person says: Too early.")]
    assert await engine.artifacts.versions(result.conversation_id, "research_report") == []


async def test_request_of_a_policy_has_the_permission_level_confirm(open_engine: OpenEngine) -> None:
    """`create_artifact` has the level `auto`; if a policy asks about it, the call needs a confirmation."""
    engine = await open_engine([report(), "Done."], approvals=ASK)
    waiting = await engine.controller.execute("Write.")
    events = await engine.runs.events(waiting.run_id)
    request = next(event for event in events if event.type is StreamEventType.PERMISSION_REQUEST)
    assert request.data["permission_level"] == "confirm"


async def test_task_plan_needs_no_approval(open_engine: OpenEngine) -> None:
    """A policy that asks about create_artifact does not apply to the agent's own plan."""
    engine = await open_engine([report("- [ ] one", "task_plan"), "Planned."], approvals=ASK)
    result = await engine.controller.execute("Plan.")
    assert result.status == "completed"


async def test_requests_and_decisions_are_published_once(open_engine: OpenEngine) -> None:
    """Two requests of one reply are decided one after the other; each request and each decision has one event."""
    engine = await open_engine([report("a", "a") + report("b", "b"), "Done."], approvals=ASK)
    waiting = await engine.controller.execute("Write two.")
    first, second = waiting.pending
    still = await engine.controller.resume(waiting.thread_id, decisions={first.id: True})
    assert (still.status, [request.id for request in still.pending]) == ("waiting", [second.id])
    result = await engine.controller.resume(waiting.thread_id, decisions={second.id: False})
    events = await engine.runs.events(result.run_id)
    requested = [event.data["id"] for event in events if event.type is StreamEventType.PERMISSION_REQUEST]
    decided = [(e.data["id"], e.data["approved"]) for e in events if e.type is StreamEventType.PERMISSION_RESULT]
    assert requested == [first.id, second.id]
    assert decided == [(first.id, True), (second.id, False)]
    assert [event.is_terminal for event in events].count(True) == 1
    assert last_results(engine)[1] == (False, "Permission denied")
    assert len(engine.model.requests) == 2


async def test_second_decision_is_rejected(open_engine: OpenEngine) -> None:
    """The first decision stays, and the tool runs once."""
    engine = await open_engine([report(), "Done."], approvals=ASK)
    waiting = await engine.controller.execute("Write.")
    request = waiting.pending[0]
    await engine.controller.resume(waiting.thread_id, decisions={request.id: True})
    with pytest.raises(Conflict, match="decided already: approved"):
        await engine.controller.decide(request.id, Decision(approved=False))
    assert len(await engine.artifacts.versions(waiting.conversation_id, "research_report")) == 1


async def test_unknown_request_or_thread_is_rejected(open_engine: OpenEngine) -> None:
    """A decision on an unknown request or thread is an error."""
    engine = await open_engine([report(), "Done."], approvals=ASK)
    with pytest.raises(NotFound, match="no approval request 'req-x'"):
        await engine.controller.decide("req-x", Decision(approved=True))
    with pytest.raises(NotFound, match="thread 'thd-x'"):
        await engine.controller.resume("thd-x", approved=True)


async def test_single_decision_for_several_requests_is_rejected(open_engine: OpenEngine) -> None:
    """`approved=True` needs a single open request; for two requests the error lists both, and nothing is decided."""
    engine = await open_engine([report("a", "a") + report("b", "b"), "Done."], approvals=ASK)
    waiting = await engine.controller.execute("Write two.")
    with pytest.raises(UsageError, match="2 requests are open") as refused:
        await engine.controller.resume(waiting.thread_id, approved=True)
    assert all(request.id in str(refused.value) for request in waiting.pending)
    assert len((await engine.controller.result(waiting.run_id)).pending) == 2


@pytest.mark.parametrize(
    ("approvals", "stand_in", "written", "approval"),
    [
        ("approve", "ask", True, "policy"),
        ("deny", "ask", False, "denied"),
        ({"send": "approve"}, "ask", True, "policy"),
        ({"send": "deny"}, "ask", False, "denied"),
        (lambda request: "approve" if request.params["to"] == "Ada" else "deny", "ask", True, "policy"),
        ("ask", "approve", True, "policy"),
        ({"send": "ask"}, "deny", False, "denied"),
        ({"send": "deny"}, "approve", False, "denied"),
    ],
)
async def test_policy_decides_without_a_person(
    open_engine: OpenEngine, approvals: Any, stand_in: str, written: bool, approval: str
) -> None:
    """A policy's decision is stored and published like a person's, and the run does not wait."""
    sent: list[str] = []

    @tool(permission="confirm")
    async def send(ctx: ToolContext, to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return "sent"

    engine = await open_engine([call("send", to="Ada"), "Done."], approvals=approvals, settings={"approvals": stand_in})
    engine.register_tool(send)
    result = await engine.controller.execute("Send.")
    assert result.status == "completed"
    assert sent == (["Ada"] if written else [])
    with closing(sqlite3.connect(engine.database.path)) as db:
        assert db.execute("SELECT approval FROM tool_calls").fetchall() == [(approval,)]
        assert db.execute("SELECT decided_by, decision FROM approvals").fetchall() == [
            ("policy", "approved" if written else "denied")
        ]


async def test_artifact_of_an_earlier_run_needs_an_approval(open_engine: OpenEngine) -> None:
    """A run may rewrite its own artifacts; rewriting an artifact of an earlier run needs an approval."""
    rewrite = call("rewrite_artifact", id="research_report", content="Better.")
    engine = await open_engine([report() + rewrite, "One.", rewrite, "Two."], approvals="ask")
    first = await engine.controller.execute("Write.")
    assert first.status == "completed"
    second = await engine.controller.execute("Change.", conversation_id=first.conversation_id)
    assert [request.tool for request in second.pending] == ["rewrite_artifact"]


async def test_failed_create_does_not_permit_a_rewrite(open_engine: OpenEngine) -> None:
    """After a create that failed because the artifact exists, a rewrite in the same reply still needs an approval."""
    around = report("Mine.") + call("rewrite_artifact", id="research_report", content="Mine.")
    engine = await open_engine([report("Theirs."), "One.", around, "Two."])
    first = await engine.controller.execute("Write.")
    second = await engine.controller.execute("Change.", conversation_id=first.conversation_id)
    assert [request.tool for request in second.pending] == ["rewrite_artifact"]
    result = await engine.controller.resume(second.thread_id, approved=False)
    created, rewritten = last_results(engine)
    assert "exists (version 1)" in created[1]
    assert rewritten == (False, "Permission denied")
    assert len(await engine.artifacts.versions(result.conversation_id, "research_report")) == 1


async def test_events_arrive_in_order_beside_a_slow_request(open_engine: OpenEngine, tmp_path: Path) -> None:
    """While the request of one job is being stored, the events of a parallel job wait; all are stored in order."""

    @tool(permission="confirm")
    async def act(ctx: ToolContext) -> str:
        """Act."""
        return "acted"

    def script(request: Any) -> str:
        system, *rest = request.messages
        if "lead agent" in system.content:
            return delegate("search_agent", "act") + delegate("search_agent", "Write.") if len(rest) == 1 else "Both."
        return "done" if len(rest) > 1 else call("act") if rest[0].content == "act" else "A long answer. " * 20

    def ask_while_the_store_is_locked(request: ApprovalRequest) -> str:
        other = sqlite3.connect(engine.database.path, check_same_thread=False, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.3, other.close).start()
        return "ask"

    approvals = ask_while_the_store_is_locked
    engine = await open_engine(model=ScriptedModel(in_request_protocol(script), delay_s=0.02), approvals=approvals)
    engine.register_tool(act, agent="search_agent")
    run = await engine.controller.begin("Two jobs.")
    events: list[StreamEvent] = []
    await engine.controller.subscribe(run.run_id, events.append)
    await (await engine.controller.start(run))
    numbers = [event.seq for event in events]
    assert numbers == sorted(numbers)
    request = next(n for n, event in enumerate(events) if event.type is StreamEventType.PERMISSION_REQUEST)
    assert any(event.type is StreamEventType.LLM_CHUNK for event in events[request:])
    with closing(sqlite3.connect(engine.database.path)) as db:
        stored = [seq for (seq,) in db.execute("SELECT seq FROM events WHERE run_id = ? ORDER BY rowid", (run.run_id,))]
    assert stored == sorted(stored)


async def test_decision_waits_for_a_parallel_job(open_engine: OpenEngine) -> None:
    """A decision is applied when the parallel job has ended; every model call and tool runs once."""
    may_finish, working = asyncio.Event(), asyncio.Event()
    runs: list[str] = []

    @tool(permission="confirm")
    async def act(ctx: ToolContext) -> str:
        """Act."""
        runs.append("act")
        return "acted"

    @tool()
    async def work(ctx: ToolContext) -> str:
        """Work."""
        runs.append("work")
        working.set()
        await may_finish.wait()
        return "worked"

    def script(request: Any) -> str:
        system, *rest = request.messages
        if "lead agent" in system.content:
            return delegate("search_agent", "act") + delegate("search_agent", "work") if len(rest) == 1 else "Both."
        return call(rest[0].content) if len(rest) == 1 else "done"

    engine = await open_engine(script)
    engine.register_tool(act, agent="search_agent")
    engine.register_tool(work, agent="search_agent")
    run = await engine.controller.begin("Two jobs.")
    requested = asyncio.Event()
    await engine.controller.subscribe(
        run.run_id, lambda event: requested.set() if event.type is StreamEventType.PERMISSION_REQUEST else None
    )
    task = await engine.controller.start(run)
    async with asyncio.timeout(5):
        await requested.wait()
        await working.wait()
    pending = await engine.approvals.open_requests(run.run_id)
    await engine.controller.decide(pending[0].id, Decision(approved=True))
    assert runs == ["work"]
    may_finish.set()
    async with asyncio.timeout(5):
        await task
        await engine.controller.join(run.run_id)
    result = await engine.controller.result(run.run_id)
    assert (result.status, result.response) == ("completed", "Both.")
    assert sorted(runs) == ["act", "work"]
    assert len(engine.model.requests) == 6


CHILD = """
import asyncio, json, os, sys
sys.path.insert(0, sys.argv[2])
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.engine.settings import Settings
from support.replies import by_agent, delegate, report

async def main():
    script = by_agent(
        lead=[report("- [ ] look", "task_plan") + delegate("search_agent", "look"), "Found." + report()],
        search=["It is here."],
    )
    settings = Settings.load(data_dir=sys.argv[1])
    engine = Engine(settings, model=ScriptedModel(script), approvals={"create_artifact": "ask"})
    await engine.open()
    result = await engine.controller.execute("Where is it?")
    print(json.dumps({"status": result.status, "thread_id": result.thread_id, "run_id": result.run_id}), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_waiting_run_survives_a_killed_process(open_engine: OpenEngine, tmp_path: Path) -> None:
    """A new process lists the request and approves it, and the run completes."""
    folder = tmp_path / "data"
    child = subprocess.Popen(  # noqa: ASYNC220 - nothing else must run in this loop
        [sys.executable, "-c", CHILD, str(folder), str(Path(__file__).parents[1])], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        output = json.loads(await asyncio.to_thread(child.stdout.readline))
        assert output["status"] == "waiting"
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        if child.stdout:
            child.stdout.close()
    engine = await open_engine(by_agent(lead=["It is here, see the report."], search=[]), folder=folder, approvals=ASK)
    pending = await engine.approvals.open_requests()
    assert [(request.run_id, request.tool) for request in pending] == [(output["run_id"], "create_artifact")]
    result = await engine.controller.resume(output["thread_id"], approved=True)
    assert (result.status, result.response) == ("completed", "It is here, see the report.")
    with closing(sqlite3.connect(engine.database.path)) as db:
        turns = db.execute("SELECT job_id = 'main', step, count(*) FROM llm_calls GROUP BY job_id, step ORDER BY 1, 2")
        assert turns.fetchall() == [(0, 1, 1), (1, 1, 1), (1, 2, 1), (1, 3, 1)]
        calls = db.execute("SELECT tool_name, status, count(*) FROM tool_calls GROUP BY tool_call_id ORDER BY rowid")
        assert calls.fetchall() == [
            ("create_artifact", "finished", 1),
            ("call_subagent", "finished", 1),
            ("create_artifact", "finished", 1),
        ]
        versions = db.execute("SELECT artifact_id, count(*) FROM artifact_versions GROUP BY 1 ORDER BY 1").fetchall()
        assert versions == [("research_report", 1), ("task_plan", 1)]
    starts = [e.data["tool_call_id"] for e in await engine.runs.events(output["run_id"]) if e.type == "tool_start"]
    assert len(starts) == len(set(starts)) == 3


DIES_AFTER_ASKING = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[2])
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.engine.settings import Settings
from support.replies import call, report

async def main():
    reply = report("ours", "ours") + call("rewrite_artifact", id="theirs", content="OVERWRITTEN")
    model = ScriptedModel([report("theirs", "theirs"), "One.", reply])
    engine = Engine(Settings.load(data_dir=sys.argv[1]), model=model)
    await engine.open()
    first = await engine.controller.execute("Write.")
    ask = engine.approvals.create

    async def ask_and_die(*args):
        await ask(*args)
        os.kill(os.getpid(), 9)

    engine.approvals.create = ask_and_die
    await engine.controller.execute("Change.", conversation_id=first.conversation_id)

asyncio.run(main())
"""


async def test_request_survives_a_crash(open_engine: OpenEngine, tmp_path: Path) -> None:
    """After a crash in the middle of a reply the resumed run still waits for the decision and writes nothing."""
    folder = tmp_path / "data"
    command = [*fast_python(), "-c", DIES_AFTER_ASKING, str(folder), str(Path(__file__).parents[1])]
    assert (await asyncio.to_thread(subprocess.run, command, check=False)).returncode == -signal.SIGKILL
    engine = await open_engine(["Then not."], folder=folder)
    (run,) = await engine.runs.unfinished()
    await (await engine.controller.start(run))
    waiting = await engine.controller.result(run.run_id)
    assert (waiting.status, [request.tool for request in waiting.pending]) == ("waiting", ["rewrite_artifact"])
    result = await engine.controller.resume(run.thread_id, approved=False)
    assert result.response == "Then not."
    versions = await engine.artifacts.versions(run.conversation_id, "theirs")
    assert [version.content for version in versions] == ["theirs"]


@pytest.mark.parametrize("stand_in", ["ask", "deny"])
async def test_run_waits_while_a_job_of_its_reply_waits(open_engine: OpenEngine, stand_in: str) -> None:
    """A decided call does not keep the run busy while a job of the same reply waits for a person."""

    @tool(permission="confirm")
    async def act(ctx: ToolContext) -> str:
        """Act."""
        return "acted"

    def decide(request: Any) -> str:
        return "ask" if request.tool == "act" else "deny"

    script = by_agent(lead=[delegate("search_agent", "act") + report(), "Done."], search=[call("act"), "acted"])
    rule = {"create_artifact": "ask", "act": "ask"} if stand_in == "ask" else decide
    engine = await open_engine(script, approvals=rule)
    engine.register_tool(act, agent="search_agent")
    async with asyncio.timeout(10):
        result = await engine.controller.execute("Two.")
        while result.status == "waiting":
            result = await engine.controller.resume(result.thread_id, decisions={result.pending[0].id: True})
    assert (result.status, result.response) == ("completed", "Done.")


async def test_two_engines_decide_in_turn(open_engine: OpenEngine) -> None:
    """Two engines decide one request each, and the numbers of events stay unique."""
    turns = [call("act"), call("act"), "Done."]

    @tool(permission="confirm")
    async def act(ctx: ToolContext) -> str:
        """Act."""
        return "acted"

    first, second = await open_engine(turns), await open_engine(turns[1:])
    for engine in (first, second):
        engine.register_tool(act)
    events: list[Any] = []
    run = await first.controller.begin("Act twice.")
    await first.controller.subscribe(run.run_id, events.append)
    await (await first.controller.start(run))
    waiting = await second.controller.resume(run.thread_id, approved=True)
    assert waiting.status == "waiting"
    first.model._script = lambda _request: "Done."
    result = await first.controller.resume(run.thread_id, approved=True)
    assert (result.status, result.response) == ("completed", "Done.")
    stored = await first.runs.events(run.run_id)
    assert [event.seq for event in stored] == sorted({event.seq for event in stored})
    assert [e.seq for e in events if e.type is not StreamEventType.LLM_CHUNK] == [event.seq for event in stored]


async def test_listener_gets_events_of_another_engine(open_engine: OpenEngine) -> None:
    """A listener of a waiting run gets the end of the run, although another engine resumed the run."""
    first = await open_engine([report()], approvals=ASK)
    second = await open_engine(["Done."], approvals=ASK)
    run = await first.controller.begin("Write.")
    ended = asyncio.Event()
    await first.controller.subscribe(run.run_id, lambda event: ended.set() if event.is_terminal else None)
    await (await first.controller.start(run))
    await second.controller.resume(run.thread_id, approved=True)
    await asyncio.wait_for(ended.wait(), 5)


async def test_decisions_are_applied_all_or_none(open_engine: OpenEngine) -> None:
    """A wrong id, or a request of another run, among several decisions means that nothing is decided."""
    engine = await open_engine([report(), report(), "Done.", "Done."], approvals=ASK)
    first = await engine.controller.execute("One.")
    second = await engine.controller.execute("Two.")
    with pytest.raises(NotFound, match="req-bogus"):
        await engine.controller.resume(first.thread_id, decisions={first.pending[0].id: True, "req-bogus": True})
    with pytest.raises(NotFound, match="has no request"):
        await engine.controller.resume(first.thread_id, decisions={second.pending[0].id: True})
    assert len(await engine.approvals.open_requests()) == 2


async def test_decided_run_is_resumed_after_a_crash(open_engine: OpenEngine) -> None:
    """A run whose process died after the decision was stored is resumed without another request."""
    engine = await open_engine([report(), "Done."], approvals=ASK)
    waiting = await engine.controller.execute("Write.")
    await engine.approvals.decide({waiting.pending[0].id: Decision(approved=True)}, engine.clock.now())
    assert await engine.controller.resume_if_ready(await engine.runs.get(waiting.run_id))
    await engine.controller.join(waiting.run_id)
    assert (await engine.controller.result(waiting.run_id)).response == "Done."


class Reader:
    """Approves the first request and denies the others; its decisions are plain methods, or coroutines."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def decide(self, request: ApprovalRequest) -> str:
        """Decide by the requests that were seen before."""
        self.seen.append(request.preview)
        return "deny" if len(self.seen) > 1 else "approve"


class AsyncReader(Reader):
    """Cannot be called in a thread."""

    async def decide(self, request: ApprovalRequest) -> str:  # type: ignore[override]
        """Decide."""
        return super().decide(request)


async def test_policy_can_be_an_object_with_a_decide_method(open_engine: OpenEngine) -> None:
    """The object sees every request that needs an approval, and its verdicts count as verdicts of a policy."""
    reader = Reader()
    engine = await open_engine([call("risky", text="a") + call("risky", text="b"), "Done."], approvals=reader)

    @tool(permission="confirm", preview="text")
    def risky(ctx: ToolContext, text: str) -> str:
        """Do something."""
        return text

    engine.register_tool(risky)
    result = await engine.controller.execute("Go.")
    assert (result.status, len(reader.seen)) == ("completed", 2)
    assert [success for success, _ in last_results(engine)] == [True, False]


@pytest.mark.parametrize("rule", [7, True, None, AsyncReader()])
async def test_invalid_policy_is_rejected(open_engine: OpenEngine, rule: Any) -> None:
    """The workbench rejects a policy that cannot decide."""
    with pytest.raises(UsageError, match="approvals is"):
        await open_engine([], approvals=rule)


async def test_unknown_tool_in_the_policy_is_rejected(open_engine: OpenEngine) -> None:
    """With a misspelt tool nobody would be asked, so an unknown tool is an error."""
    engine = await open_engine(["Done."], approvals={"create_artefact": "ask"})
    with pytest.raises(UsageError, match="names an unknown tool 'create_artefact'"):
        await engine.controller.execute("Write.")


async def test_failing_policy_function_is_named(open_engine: OpenEngine) -> None:
    """The run fails with a message that names the function and the tool."""

    @tool(permission="confirm")
    async def act(ctx: ToolContext) -> str:
        """Act."""
        return "acted"

    engine = await open_engine([call("act")], approvals=lambda _request: str(1 / 0))
    engine.register_tool(act)
    result = await engine.controller.execute("Act.")
    assert (result.status, result.error_type) == ("failed", "UsageError")
    assert "The approvals function failed on act: ZeroDivisionError" in (result.error_message or "")
