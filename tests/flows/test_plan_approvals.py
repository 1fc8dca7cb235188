"""A person and a plan: approvals before the execution and within a step, and manual edits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from conftest import OpenEngine
from support.plans import (
    ENDED,
    answer,
    ask,
    events,
    last_messages,
    last_plan,
    open_waiting_plan,
    report_failure,
    request_counts,
    send,
    sent,
    statuses,
)
from support.replies import by_agent, call, decide, plan, requesting_agent

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.plan import Plan, PlanStep
from artifactflow_nb.core.toolcalls.xml import parse_results
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.tools.base import ToolContext, tool


async def test_plan_needs_an_approval(open_engine: OpenEngine) -> None:
    """The request has the kind `plan` and shows the steps; no step runs before the decision."""
    engine, waiting = await open_waiting_plan(
        open_engine, agent=[plan("One", "Two"), ENDED], executor=["1.", "2."], summarizer=["Sum."]
    )
    (request,) = waiting.pending
    assert (request.kind, request.tool, request.title) == (
        "plan",
        "plan_create",
        "agent wants to carry out a plan: The plan",
    )
    assert request.preview == "1. **One**\n2. **Two**"
    assert request_counts(engine) == {"agent": 1}
    result = await answer(engine, waiting, Decision(approved=True))
    assert (result.status, result.response) == ("completed", ENDED)


UNKNOWN = [{"title": "Fly", "tools": ["fly"]}]


async def test_invalid_plan_makes_no_request(open_engine: OpenEngine) -> None:
    """A plan with an unknown tool, and a plan beyond the limit of plans, return an error without a request."""
    config = {"approval": {"enabled": True}, "replanner": {"max_plans": 1}}
    unknown = call("plan_create", title="The plan", steps=UNKNOWN)
    script = by_agent(agent=[unknown, plan("One"), plan("Two"), ENDED], executor=["1."], summarizer=["Sum."])
    engine = await open_engine(script, settings={"graph_config": config})
    waiting = await ask(engine)
    assert [step["title"] for step in waiting.pending[0].params["steps"]] == ["One"]
    result = await answer(engine, waiting, Decision(approved=True))
    assert result.response == ENDED
    first, _, third = (
        dict(parse_results(text))["plan_create"].error or "" for text in last_messages(engine, "agent")[1:]
    )
    assert first.startswith("There is no tool 'fly' for steps")
    assert "this turn has had 1 plan" in third


@pytest.mark.parametrize(
    ("revision", "most", "message"),
    [(UNKNOWN, 1, "There is no tool 'fly'"), ([{"title": "Two"}], 0, "revise is not possible now")],
    ids=["an unknown tool", "no revision left"],
)
async def test_invalid_revision_makes_no_request(
    open_engine: OpenEngine, revision: list[Any], most: int, message: str
) -> None:
    """The replanner gets the reason and decides again."""
    config = {"approval": {"enabled": True}, "replanner": {"max_revisions": most}}
    script = by_agent(
        agent=[plan("One"), ENDED],
        executor=report_failure(),
        replanner=[decide("revise", steps=revision), decide("finish"), "So."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script, settings={"graph_config": config})
    waiting = await ask(engine)
    result = await answer(engine, waiting, Decision(approved=True))
    assert (result.status, result.response) == ("completed", ENDED)
    ((_, refused),) = parse_results(last_messages(engine, "replanner")[1])
    assert (refused.error or "").startswith(message)


async def test_denied_plan_returns_the_reason(open_engine: OpenEngine) -> None:
    """The agent gets the person's reason and may make another plan, which needs an approval too."""
    engine, waiting = await open_waiting_plan(
        open_engine, agent=[plan("One"), plan("Two"), ENDED], executor=["2."], summarizer=["Sum."]
    )
    resumed = await answer(engine, waiting, Decision(approved=False, instruction="Too short."))
    assert resumed.status == "waiting"
    ((_, plan_result),) = parse_results(last_messages(engine, "agent")[1])
    assert plan_result.error == "Permission denied. The person says: Too short."
    result = await answer(engine, resumed, Decision(approved=True))
    assert [step.title for step in (await last_plan(engine, result)).steps] == ["Two"]


async def test_instruction_replaces_the_plan(open_engine: OpenEngine) -> None:
    """The agent gets the person's instruction instead of a report."""
    engine, waiting = await open_waiting_plan(open_engine, agent=[plan("One"), ENDED])
    result = await answer(engine, waiting, Decision(approved=False, instruction="Just answer.", replaces_call=True))
    assert result.response == ENDED
    ((_, plan_result),) = parse_results(last_messages(engine, "agent")[1])
    assert plan_result.error == "Not run. The person answers instead: Just answer."


async def test_edited_plan_is_executed(open_engine: OpenEngine) -> None:
    """Changed, moved, added and removed steps are executed as edited, and the agent is informed."""
    engine, waiting = await open_waiting_plan(
        open_engine, agent=[plan("One", "Two", "Three"), ENDED], executor=["3.", "1.", "4."], summarizer=["Sum."]
    )
    steps = [{"title": "Three"}, {"title": "One", "description": "Gently."}, {"title": "Four"}]
    edited = Decision(approved=True, params={"title": "Mine", "steps": steps})
    result = await answer(engine, waiting, edited)
    found = await last_plan(engine, result)
    assert (found.title, [step.title for step in found.steps]) == ("Mine", ["Three", "One", "Four"])
    assert statuses(found) == ["completed"] * 3
    ((_, plan_result),) = parse_results(last_messages(engine, "agent")[1])
    assert "The person changed the parameters to:" in plan_result.data


async def test_revision_needs_an_approval(open_engine: OpenEngine) -> None:
    """The replanner gets the denial of a revision and makes another decision."""
    revise = decide("revise", "Look elsewhere.", steps=[{"title": "Other"}])
    engine, waiting = await open_waiting_plan(
        open_engine,
        agent=[plan("One", "Two"), ENDED],
        executor=report_failure(),
        replanner=[revise, decide("finish", "Then not."), "So be it."],
        summarizer=["Sum."],
    )
    resumed = await answer(engine, waiting, Decision(approved=True))
    (request,) = resumed.pending
    assert (resumed.status, request.kind, request.agent) == ("waiting", "plan", "replanner")
    result = await answer(engine, resumed, Decision(approved=False, instruction="No."))
    found = await last_plan(engine, result)
    assert [(step.title, step.status) for step in found.steps] == [("One", "failed"), ("Two", "skipped")]
    assert found.steps[1].result == "Then not."


@pytest.mark.parametrize(
    ("tools", "approvals", "waits"),
    [
        (["read_artifact"], "ask", False),
        (["web_fetch", "rewrite_artifact"], "ask", False),
        (["send"], "ask", True),
        ([], "ask", True),
        (["read_artifact"], {"read_artifact": "ask"}, True),
    ],
)
async def test_confirm_asks_about_plans_with_confirmed_tools(
    open_engine: OpenEngine, tools: list[str], approvals: Any, waits: bool
) -> None:
    """With `confirm`, a plan needs an approval if a step may use a tool that needs an approval for each call.

    A tool whose permission depends on the call makes its own request when it is called.
    """
    steps = [{"title": "One", "tools": tools}]
    script = by_agent(
        agent=[call("plan_create", title="The plan", steps=steps), ENDED], executor=["1."], summarizer=["Sum."]
    )
    config = {"graph_config": {"approval": {"enabled": "confirm"}}}
    engine = await open_engine(script, settings=config, approvals=approvals)
    engine.register_tool(send, agent="executor")
    assert (await ask(engine)).status == ("waiting" if waits else "completed")


async def test_plan_without_confirmed_tools_needs_no_approval(open_engine: OpenEngine) -> None:
    """With `confirm`, a plan that uses only built-in tools runs without an approval."""
    script = by_agent(agent=[plan("One"), ENDED], executor=["1."], summarizer=["Sum."])
    engine = await open_engine(script, settings={"graph_config": {"approval": {"enabled": "confirm"}}})
    assert (await ask(engine)).status == "completed"


async def test_invalid_edit_of_a_plan_is_rejected(open_engine: OpenEngine) -> None:
    """The person gets the error for an unknown tool in a plan or a revision, and the request stays open."""
    revise = decide("revise", "Look elsewhere.", steps=[{"title": "Other"}])
    engine, waiting = await open_waiting_plan(
        open_engine,
        agent=[plan("One"), ENDED],
        executor=[*report_failure(), "Other."],
        replanner=[revise, "So be it."],
        summarizer=["Sum."],
    )
    misfit = {"title": "The plan", "steps": [{"title": "One", "tools": ["fly"]}]}
    with pytest.raises(UsageError, match=r"are invalid, and nothing was decided: There is no tool 'fly' for steps"):
        await answer(engine, waiting, Decision(approved=True, params=misfit))
    resumed = await answer(engine, waiting, Decision(approved=True))
    assert resumed.pending[0].agent == "replanner"
    for params, text in (
        ({"decision": "revise", "reason": "So.", "steps": []}, "A revision needs the steps that are to come"),
        ({"decision": "continue", "reason": "So."}, "continue is not possible now; choose one of: retry, revise"),
        ({"decision": "revise", "reason": "So.", "steps": misfit["steps"]}, "There is no tool 'fly' for steps"),
    ):
        with pytest.raises(UsageError, match=f"nothing was decided: {text}"):
            await answer(engine, resumed, Decision(approved=True, params=params))
    result = await answer(engine, resumed, Decision(approved=True))
    assert statuses(await last_plan(engine, result)) == ["failed", "completed"]


async def test_unknown_tool_in_a_plan_makes_no_request(open_engine: OpenEngine) -> None:
    """A plan or a revision with a tool that steps do not have returns an error to its agent."""
    unknown = [{"title": "One", "tools": ["fly"]}]
    engine, waiting = await open_waiting_plan(
        open_engine,
        agent=[call("plan_create", title="First", steps=unknown), plan("One"), ENDED],
        executor=report_failure(),
        replanner=[decide("revise", steps=unknown), decide("finish"), "So."],
        summarizer=["Sum."],
    )
    assert [request.params["title"] for request in waiting.pending] == ["The plan"]
    result = await answer(engine, waiting, Decision(approved=True))
    assert (result.status, result.response) == ("completed", ENDED)
    ((_, plan_result),) = parse_results(last_messages(engine, "replanner")[1])
    assert (plan_result.error or "").startswith("There is no tool 'fly' for steps")


async def test_waiting_step_continues_in_another_engine(open_engine: OpenEngine) -> None:
    """A tool's approval pauses the step; another process continues without repeating a model call."""
    sent.clear()
    script = by_agent(
        agent=[plan("One", "Two"), ENDED],
        executor=["1.", call("send", to="Ada"), "Sent."],
        summarizer=["Sum."],
    )
    first = await open_engine(script)
    first.register_tool(send, agent="executor")
    waiting = await ask(first)
    assert (waiting.status, sent) == ("waiting", [])
    await first.aclose()
    second = await open_engine(script)
    second.register_tool(send, agent="executor")
    result = await answer(second, waiting, Decision(approved=True))
    assert (result.response, sent) == (ENDED, ["Ada"])
    assert request_counts(first) + request_counts(second) == {"agent": 2, "executor": 3, "summarizer": 1}
    assert statuses(await last_plan(second, result)) == ["completed", "completed"]


async def test_edit_by_hand_is_executed(open_engine: OpenEngine) -> None:
    """A person's edit of the plan during a step is executed; an edit that is not a valid plan is ignored."""
    engine: Engine
    ready, continues = asyncio.Event(), asyncio.Event()

    @tool
    async def pause(ctx: ToolContext) -> str:
        """Wait for the person."""
        ready.set()
        await continues.wait()
        return "went on"

    script = by_agent(agent=[plan("One", "Two"), ENDED], executor=[call("pause"), "1.", "Other."], summarizer=["Sum."])
    engine = await open_engine(script)
    engine.register_tool(pause, agent="executor")
    run = await engine.controller.begin("What?", flow="plan")
    work = await engine.controller.start(run)
    await ready.wait()
    by = Authorship(run.conversation_id, run.message_id, "user")
    found = Plan.from_json((await engine.artifacts.versions(run.conversation_id, "task_plan"))[-1].content)
    changed = replace(found, steps=(found.steps[0], replace(found.steps[1], title="Another")))
    await engine.artifacts.revise(by, "task_plan", changed.to_json(), update_type="update")
    await engine.artifacts.revise(by, "task_plan", "no plan", update_type="update")
    continues.set()
    await work
    assert [step.title for step in (await last_plan(engine, run)).steps] == ["One", "Another"]
    assert "Your step, 2 of 2: Another" in last_messages(engine, "executor")[-1]


async def test_removed_running_step_stays_removed(open_engine: OpenEngine) -> None:
    """The agent of the waiting step concludes, and the plan continues with its other steps."""
    sent.clear()
    letter = [call("send", to="Ada"), "Sent."]
    script = by_agent(agent=[plan("One", "Two"), ENDED], executor=[*letter, "2."], summarizer=["Sum."])
    engine = await open_engine(script)
    engine.register_tool(send, agent="executor")
    waiting = await ask(engine)
    found = await last_plan(engine, waiting)
    by = Authorship(waiting.conversation_id, waiting.message_id, "user")
    remaining = replace(found, steps=found.steps[1:])
    await engine.artifacts.revise(by, "task_plan", remaining.to_json(), update_type="update")
    result = await answer(engine, waiting, Decision(approved=True))
    assert (result.response, sent) == (ENDED, ["Ada"])
    assert [(step.title, step.status) for step in (await last_plan(engine, result)).steps] == [("Two", "completed")]


class EditedMeanwhile(ScriptedModel):
    """A scripted model that edits the plan as a person before each reply of an agent.

    Attributes:
        engine: The engine of the run.
        agent: Name of the agent whose requests trigger the edit.
        change: Returns the edited plan.
    """

    engine: Engine
    agent: str
    change: Callable[[Plan], Plan]

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Change the plan, then answer."""
        if requesting_agent(request) == self.agent:
            (run,) = await self.engine.runs.unfinished()
            by = Authorship(run.conversation_id, run.message_id, "user")

            def changed(present: Artifact) -> str:
                return self.change(Plan.from_json(present.content)).to_json()

            await self.engine.artifacts.revise(by, "task_plan", changed, update_type="update")
        async for event in super().stream(request):
            yield event


@pytest.mark.parametrize("agent", ["executor", "replanner", "summarizer"])
async def test_edit_during_a_job_is_not_overwritten(open_engine: OpenEngine, agent: str) -> None:
    """A person's edit stays when a step, a replanning or the summary ends."""
    model = EditedMeanwhile(
        by_agent(
            agent=[plan("One"), ENDED],
            executor=[*report_failure(), "1."],
            replanner=[decide("retry"), "Go."],
            summarizer=["Sum."],
        )
    )
    model.agent, model.change = agent, lambda found: replace(found, title="Mine")
    model.engine = await open_engine(model=model)
    result = await ask(model.engine)
    found = await last_plan(model.engine, result)
    assert (result.response, found.title, statuses(found)) == (ENDED, "Mine", ["completed"])


async def test_step_added_after_the_end_is_skipped(open_engine: OpenEngine) -> None:
    """The result of the step is the reason."""
    model = EditedMeanwhile(by_agent(agent=[plan("One"), ENDED], executor=["1."], summarizer=["Sum."]))
    model.agent, model.change = "summarizer", lambda found: replace(found, steps=(*found.steps, PlanStep("9", "Late")))
    model.engine = await open_engine(model=model)
    result = await ask(model.engine)
    step = (await last_plan(model.engine, result)).steps[1]
    assert (step.title, step.status, step.result) == ("Late", "skipped", "The plan was over by then.")
    (event,) = await events(model.engine, result, StreamEventType.PLAN_UPDATED)
    assert [(entry["id"], entry["status"]) for entry in event.data["steps"]] == [("9", "skipped")]
