"""Plans in the store: steps, results and ends survive failures, cancellation and other writers."""

import asyncio
import time
from dataclasses import replace

import pytest
from conftest import OpenEngine
from support.plans import (
    ENDED,
    answer,
    ask,
    events,
    jobs,
    last_messages,
    last_plan,
    report_failure,
    request_counts,
    send,
)
from support.replies import by_agent, call, plan, report, requesting_agent

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.plan import Plan, PlanStep
from artifactflow_nb.core.toolcalls.xml import parse_results
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship
from artifactflow_nb.store.metrics import load_budget_usage
from artifactflow_nb.store.schema import to_microseconds
from artifactflow_nb.tools.base import ToolContext, tool


async def test_failed_replanner_is_reported(open_engine: OpenEngine) -> None:
    """The failure is reported even after the last step, when no step is left to be skipped."""
    script = by_agent(agent=[plan("One"), ENDED], executor=report_failure(), replanner=[""], summarizer=["Sum."])
    engine = await open_engine(script)
    await ask(engine)
    ((_, result),) = parse_results(last_messages(engine, "agent")[1])
    assert "Why it ended: The replanner did not decide: The model ended with an empty answer." in (result.error or "")


async def test_failed_summarizer_loses_no_result(open_engine: OpenEngine) -> None:
    """The report gives the reason for the missing summary, and the results of the steps."""
    script = by_agent(agent=[plan("One"), ENDED], executor=["All of it."], summarizer=[""])
    engine = await open_engine(script)
    result = await ask(engine)
    ((_, plan_result),) = parse_results(last_messages(engine, "agent")[1])
    assert plan_result.success
    assert "There is no summary: The model ended with an empty answer." in plan_result.data
    assert plan_result.data.endswith("Step 1 (One) was completed:\nAll of it.")
    assert await jobs(engine, result) == [("execute", "completed"), ("summarize", "failed")]


@pytest.mark.parametrize("planner", [True, False], ids=["with plans", "planner off"])
async def test_agents_cannot_write_the_plan_artifact(open_engine: OpenEngine, planner: bool) -> None:
    """In the plan flow each write to `task_plan` is refused without a request."""
    writes = [
        report("- [ ] mine", "task_plan"),
        call("rewrite_artifact", id="task_plan", content='{"plan_id": "p", "title": "t", "steps": []}'),
        call("update_artifact", id="task_plan", old="One", new="Two"),
    ]
    script = by_agent(
        agent=["".join(writes), *([plan("One")] if planner else []), ENDED],
        executor=["".join(writes), "1."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script, settings={"graph_config": {"planner": {"enabled": planner}}})
    result = await ask(engine)
    assert result.response == ENDED
    for message in [last_messages(engine, "agent")[1], *last_messages(engine, "executor")[1:]]:
        results = parse_results(message)
        assert [name for name, _ in results] == ["create_artifact", "rewrite_artifact", "update_artifact"]
        assert all((found.error or "").startswith("task_plan was not written: ") for _, found in results)
    versions = await engine.artifacts.versions(result.conversation_id, "task_plan")
    assert {artifact.created_by for artifact in versions} == ({"agent", "executor"} if planner else set())
    assert not await events(engine, result, StreamEventType.PERMISSION_REQUEST)


async def test_plan_version_by_a_tool_is_ignored(open_engine: OpenEngine) -> None:
    """A version by a user's own tool does not change the execution."""

    @tool
    async def meddle(ctx: ToolContext) -> str:
        """Put another step into the plan."""
        manager = ctx.service(ArtifactManager)
        by = Authorship(ctx.conversation_id, ctx.message_id, ctx.agent, ctx.run_id, ctx.tool_call_id)

        def meddled(present: Artifact) -> str:
            found = Plan.from_json(present.content)
            return replace(found, steps=(*found.steps, PlanStep("9", "Another"))).to_json()

        await manager.revise(by, "task_plan", meddled, update_type="update")
        return "meddled"

    script = by_agent(agent=[plan("One"), ENDED], executor=[call("meddle"), "1."], summarizer=["Sum."])
    engine = await open_engine(script)
    engine.register_tool(meddle, agent="executor")
    result = await ask(engine)
    assert request_counts(engine)["executor"] == 2
    assert [step.title for step in (await last_plan(engine, result)).steps] == ["One"]


async def test_waiting_within_a_step_is_not_machine_time(open_engine: OpenEngine) -> None:
    """The wait for a person does not count, although the wait is within the plan's call."""
    script = by_agent(agent=[plan("One"), ENDED], executor=[call("send", to="Ada"), "Sent."], summarizer=["Sum."])
    engine = await open_engine(script)
    engine.register_tool(send, agent="executor")
    began = time.monotonic()
    waiting = await ask(engine)
    await asyncio.sleep(0.5)
    result = await answer(engine, waiting, Decision(approved=True))
    passed_s = time.monotonic() - began
    spent = await engine.database.read(lambda db: load_budget_usage(db, result.run_id))
    (row,) = await engine.database.read(
        lambda db: db.execute("SELECT duration_ms FROM tool_calls WHERE tool_name = 'plan_create'").fetchall()
    )
    assert 0 < spent.seconds <= passed_s - 0.5
    assert row["duration_ms"] > 0


async def test_long_results_leave_room_for_the_step(open_engine: OpenEngine) -> None:
    """Every agent gets its whole instruction, and no result is in a prompt twice."""
    described = [{"title": f"Step {n}", "description": f"{n} " + "d" * 3_000 + f" end {n}"} for n in range(8)]
    script = by_agent(
        agent=[call("plan_create", title="Much", steps=described), ENDED],
        executor=[f"found {n}" + "y" * 20_000 for n in range(8)],
        summarizer=["Sum."],
    )
    engine = await open_engine(script)
    await ask(engine)
    requests = engine.model.requests
    steps = [request.messages for request in requests if requesting_agent(request) == "executor"]
    for n, messages in enumerate(steps):
        assert f"Your step, {n + 1} of 8: Step {n}\n{n} ddd" in messages[1].content
        assert messages[1].content.endswith(f"end {n}")
        assert f"{n + 1}. [running] Step {n}" in messages[1].content
        assert len(messages[1].content) < 30_000
        assert len(messages[0].content) == len(steps[0][0].content)
        assert "<task_plan>" not in messages[0].content
    (summed_up,) = (request for request in requests if requesting_agent(request) == "summarizer")
    assert all(f"found {n}" in summed_up.messages[1].content for n in range(8))
    last = requests[-1].messages[0].content
    assert "8. ☑ Step 7" in last
    assert "found" not in last


async def test_long_result_gets_the_room_of_short_results(open_engine: OpenEngine) -> None:
    """A single long result is cut only at its own limit, for any number of steps."""
    script = by_agent(
        agent=[plan(*(f"Step {n}" for n in range(8))), ENDED],
        executor=["y" * 20_000, *["short"] * 7],
        summarizer=["Sum."],
    )
    engine = await open_engine(script)
    await ask(engine)
    assert "y" * 3_000 in last_messages(engine, "summarizer")[0]
    assert "16000 characters left out of this result" in last_messages(engine, "summarizer")[0]


async def test_cancelled_run_closes_its_plan(open_engine: OpenEngine) -> None:
    """The waiting step fails and later steps are skipped, in jobs, events and frames."""
    script = by_agent(agent=[plan("One", "Two", "Three"), ENDED], executor=["1.", call("send", to="Ada")])
    engine = await open_engine(script)
    engine.register_tool(send, agent="executor")
    waiting = await ask(engine)
    await engine.controller.cancel(waiting.run_id)
    found = await last_plan(engine, waiting)
    reason = "The run was cancelled."
    assert [(step.status, step.result) for step in found.steps] == [
        ("completed", "1."),
        ("failed", reason),
        ("skipped", reason),
    ]
    *earlier, version, end = (await engine.runs.events(waiting.run_id))[-4:]
    (update,) = (event for event in earlier if event.type is StreamEventType.PLAN_UPDATED)
    assert [(entry["id"], entry["status"]) for entry in update.data["steps"]] == [("2", "failed"), ("3", "skipped")]
    assert (version.type, version.data["version"]) == (StreamEventType.ARTIFACT_CHANGED, 5)
    assert end.type is StreamEventType.CANCELLED
    assert update.timestamp <= version.timestamp <= end.timestamp
    *outcome, completed_at = (await jobs(engine, waiting, "outcome, text, completed_at"))[-1]
    assert outcome == ["failed", reason]
    assert completed_at <= to_microseconds(end.timestamp)


async def test_jobs_of_a_plan_are_consecutive(open_engine: OpenEngine) -> None:
    """Each job starts when the previous one has ended, in the time of the run."""
    script = by_agent(agent=[plan("One", "Two"), ENDED], executor=["1.", "2."], summarizer=["Sum."])
    engine = await open_engine(model=ScriptedModel(script, delay_s=0.005))
    result = await ask(engine)
    times = await jobs(engine, result, "started_at, completed_at")
    flat = [at for job in times for at in job]
    assert flat == sorted(flat)
    assert all(completed > started for started, completed in times)
