"""The plan flow with a scripted model, a real engine and a real store."""

import pytest
from conftest import OpenEngine
from support.plans import (
    ENDED,
    ask,
    events,
    last_messages,
    last_plan,
    plans_of,
    report_failure,
    request_counts,
    statuses,
)
from support.replies import by_agent, call, decide, plan, report, requesting_agent

from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.toolcalls.xml import parse_results


async def test_plan_is_executed_step_by_step(open_engine: OpenEngine) -> None:
    """Each step sees the results of earlier steps, and the agent answers from the report."""
    script = by_agent(
        agent=[plan("Find", "Compare"), ENDED], executor=["Found A.", "A is better."], summarizer=["It is A."]
    )
    engine = await open_engine(script)
    result = await ask(engine)
    assert (result.status, result.response) == ("completed", ENDED)
    assert [statuses(version) for version in await plans_of(engine, result)] == [
        ["pending", "pending"],
        ["running", "pending"],
        ["completed", "pending"],
        ["completed", "running"],
        ["completed", "completed"],
    ]
    first, second = last_messages(engine, "executor")
    assert "Your step, 1 of 2: Find" in first
    assert "Your step, 2 of 2: Compare" in second
    assert "Step 1 (Find) was completed:\nFound A." in second
    ((_, plan_result),) = parse_results(last_messages(engine, "agent")[1])
    assert plan_result.success
    assert "2 completed" in plan_result.data
    assert plan_result.data.endswith("It is A.")
    assert request_counts(engine) == {"agent": 2, "executor": 2, "summarizer": 1}, "the replanner is not asked"


async def test_every_change_of_a_plan_has_one_event(open_engine: OpenEngine) -> None:
    """Creation, start and end of each step, a retry, a revision and skipped steps have one event each."""
    script = by_agent(
        agent=[plan("Find", "Compare"), ENDED],
        executor=["A.", *report_failure(), *report_failure("Still none."), "C."],
        replanner=[decide("retry"), "Go.", decide("revise", steps=[{"title": "Look", "id": "x"}]), "So."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script)
    result = await ask(engine)
    kinds = StreamEventType
    published = await events(
        engine,
        result,
        kinds.PLAN_CREATED,
        kinds.PLAN_UPDATED,
        kinds.PLAN_REVISED,
        kinds.STEP_START,
        kinds.STEP_COMPLETE,
    )
    assert [
        (event.type.value, event.data.get("step_id"), event.data.get("attempt"), event.data.get("status"))
        for event in published
    ] == [
        ("plan_created", None, None, None),
        ("step_start", "1", 1, None),
        ("step_complete", "1", 1, "completed"),
        ("step_start", "2", 1, None),
        ("step_complete", "2", 1, "failed"),
        ("plan_updated", None, None, None),
        ("step_start", "2", 2, None),
        ("step_complete", "2", 2, "failed"),
        ("plan_revised", None, None, None),
        ("step_start", "x", 1, None),
        ("step_complete", "x", 1, "completed"),
    ]
    assert statuses(await last_plan(engine, result)) == ["completed", "failed", "completed"]


@pytest.mark.parametrize("fails", [1, 2, 3], ids=["first", "middle", "last"])
async def test_failed_step_reaches_the_replanner(open_engine: OpenEngine, fails: int) -> None:
    """The failure of the first, a middle or the last step goes to the replanner and stays a failure."""
    titles = ["One", "Two", "Three"]
    executor = [turn for n in (1, 2, 3) for turn in (report_failure() if n == fails else [f"Done {n}."])]
    script = by_agent(
        agent=[plan(*titles), ENDED],
        executor=executor,
        replanner=[decide("finish" if fails == 3 else "continue", "It is enough."), "So be it."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script)
    result = await ask(engine)
    expected = ["completed"] * 3
    expected[fails - 1] = "failed"
    assert statuses(await last_plan(engine, result)) == expected
    assert f"The step {fails} ({titles[fails - 1]}) failed." in last_messages(engine, "replanner")[0]
    ((_, plan_result),) = parse_results(last_messages(engine, "agent")[1])
    assert not plan_result.success
    assert f"{fails}. [failed] {titles[fails - 1]}: No B." in (plan_result.error or "")


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        (["It is done."] * 2, "The replanner did not decide: it gave no decision that can be acted on."),
        ([decide("retry"), decide("retry"), decide("retry"), "Well."], "The replanner did not decide"),
        ([decide("revise"), "Well."], "The replanner did not decide"),
    ],
    ids=["only words", "a retry that is used up", "a revision without steps"],
)
async def test_replanner_without_a_decision_ends_the_plan(
    open_engine: OpenEngine, turns: list[str], reason: str
) -> None:
    """An invalid decision is an error for the replanner; without a valid decision the plan ends with the reason."""
    script = by_agent(
        agent=[plan("One", "Two"), ENDED], executor=report_failure(), replanner=turns, summarizer=["Sum."]
    )
    engine = await open_engine(script, settings={"graph_config": {"replanner": {"max_retries": 0}}})
    result = await ask(engine)
    assert result.response == ENDED
    found = await last_plan(engine, result)
    assert statuses(found) == ["failed", "skipped"]
    assert found.steps[1].result.startswith(reason)


async def test_empty_list_of_steps_is_accepted(open_engine: OpenEngine) -> None:
    """The text protocol writes an empty list as an empty text."""
    script = by_agent(
        agent=[plan("One"), ENDED],
        executor=[*report_failure(), "1."],
        replanner=[decide("retry", steps=[]), "Go."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script)
    result = await ask(engine)
    assert (result.response, statuses(await last_plan(engine, result))) == (ENDED, ["completed"])


async def test_reported_failure_keeps_its_reason(open_engine: OpenEngine) -> None:
    """The reason is kept even if the agent's last reply is empty."""
    script = by_agent(
        agent=[plan("One"), ENDED],
        executor=[call("report_failure", reason="No B."), ""],
        replanner=[decide("finish"), "So."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script)
    (step,) = (await last_plan(engine, await ask(engine))).steps
    assert (step.status, step.result) == ("failed", "No B.")


async def test_model_error_fails_the_step_only(open_engine: OpenEngine) -> None:
    """An error in the loop of a step fails the step and not the run."""
    script = by_agent(
        agent=[plan("One"), ENDED], executor=[""], replanner=[decide("finish"), "So."], summarizer=["Sum."]
    )
    engine = await open_engine(script)
    result = await ask(engine)
    (step,) = (await last_plan(engine, result)).steps
    assert (result.status, step.status) == ("completed", "failed")
    assert "an empty answer" in step.result


async def test_plan_must_be_the_only_call_of_its_reply(open_engine: OpenEngine) -> None:
    """Other calls, and a second plan, return an error without running or needing an approval."""
    reply = report("Too early.") + plan("One") + call("rewrite_artifact", id="x", content="y") + plan("Two")
    script = by_agent(agent=[reply, ENDED], executor=["1."], summarizer=["Sum."])
    engine = await open_engine(script)
    result = await ask(engine)
    assert result.response == ENDED
    results = parse_results(last_messages(engine, "agent")[1])
    assert [(name, found.success) for name, found in results] == [
        ("create_artifact", False),
        ("plan_create", True),
        ("rewrite_artifact", False),
        ("plan_create", False),
    ]
    assert all("must be the only call" in (found.error or "") for _, found in results if not found.success)
    assert not await events(engine, result, StreamEventType.PERMISSION_REQUEST)


async def test_report_without_a_summarizer_has_the_results(open_engine: OpenEngine) -> None:
    """The agent answers from the results of the steps."""
    script = by_agent(agent=[plan("One"), ENDED], executor=["All of it."])
    engine = await open_engine(script, settings={"graph_config": {"summarizer": {"enabled": False}}})
    await ask(engine)
    ((_, result),) = parse_results(last_messages(engine, "agent")[1])
    assert result.data.endswith("Step 1 (One) was completed:\nAll of it.")


async def test_plan_without_a_replanner_ends_at_a_failed_step(open_engine: OpenEngine) -> None:
    """The remaining steps are skipped because of the failed step."""
    script = by_agent(
        agent=[plan("One", "Two", "Three"), ENDED], executor=["1.", *report_failure()], summarizer=["Sum."]
    )
    engine = await open_engine(script, settings={"graph_config": {"replanner": {"enabled": False}}})
    result = await ask(engine)
    found = await last_plan(engine, result)
    assert statuses(found) == ["completed", "failed", "skipped"]
    assert found.steps[2].result == "The step 2 failed."


async def test_replanner_may_run_after_every_step(open_engine: OpenEngine) -> None:
    """Without `skip_on_success` the replanner runs while more than one step remains."""
    script = by_agent(
        agent=[plan("One", "Two", "Three"), ENDED],
        executor=["1.", "2.", "3."],
        replanner=[decide("continue"), "Go."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script, settings={"graph_config": {"replanner": {"skip_on_success": False}}})
    await ask(engine)
    assert request_counts(engine)["replanner"] == 2


async def test_step_has_only_its_own_tools(open_engine: OpenEngine) -> None:
    """A step also has report_failure; a plan with an unknown tool is refused."""
    named = call("plan_create", title="The plan", steps=[{"title": "One", "tools": ["read_artifact"]}])
    unknown = call("plan_create", title="The plan", steps=[{"title": "One", "tools": ["fly"]}])
    script = by_agent(agent=[unknown, named, ENDED], executor=["1."], summarizer=["Sum."])
    engine = await open_engine(script)
    await ask(engine)
    ((_, result),) = parse_results(last_messages(engine, "agent")[1])
    assert (result.error or "").startswith("There is no tool 'fly' for steps; there are: create_artifact, ")
    (request,) = (request for request in engine.model.requests if requesting_agent(request) == "executor")
    assert [spec.name for spec in request.tools] == ["read_artifact", "report_failure"]
