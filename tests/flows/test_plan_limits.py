"""The limits of plans: each ends in a report that names the reason."""

import pytest
from conftest import OpenEngine
from support.plans import ENDED, LOOK, answer, ask, jobs, last_messages, last_plan, plans_of, report_failure, statuses
from support.replies import by_agent, decide, plan, requesting_agent

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.toolcalls.xml import parse_results


async def test_limit_of_steps_skips_the_rest(open_engine: OpenEngine) -> None:
    """The remaining steps are skipped, and the report says so."""
    script = by_agent(agent=[plan("One", "Two", "Three"), ENDED], executor=["1.", "2."], summarizer=["Sum."])
    engine = await open_engine(script, settings={"graph_config": {"executor": {"max_steps": 2}}})
    result = await ask(engine)
    found = await last_plan(engine, result)
    assert statuses(found) == ["completed", "completed", "skipped"]
    ((_, plan_result),) = parse_results(last_messages(engine, "agent")[1])
    assert "3. [skipped] Three: The limit of 2 executed steps was reached." in (plan_result.error or "")


async def test_limit_of_steps_is_reported_without_skipped_steps(open_engine: OpenEngine) -> None:
    """If the last allowed step fails, summarizer and agent still get the limit as the reason."""
    script = by_agent(agent=[plan("One", "Two"), ENDED], executor=["1.", *report_failure()], summarizer=["Sum."])
    engine = await open_engine(script, settings={"graph_config": {"executor": {"max_steps": 2}}})
    await ask(engine)
    reason = "Why it ended: The limit of 2 executed steps was reached."
    ((_, result),) = parse_results(last_messages(engine, "agent")[1])
    assert reason in (result.error or "")
    assert reason in last_messages(engine, "summarizer")[0]


@pytest.mark.parametrize(
    ("limit", "summarizer", "expected"),
    [
        (2, True, [1, 0]),
        (3, True, [2, 0]),
        (5, True, [2, 1]),
        (6, True, [2, 2]),
        (2, False, [2, 0]),
        (3, False, [2, 1]),
    ],
)
async def test_limit_of_jobs_applies_to_all_plans_of_a_turn(
    open_engine: OpenEngine, limit: int, summarizer: bool, expected: list[int]
) -> None:
    """Steps and summaries count, each plan reserves its summary, and skipped steps are reported."""
    script = by_agent(
        agent=[plan("One", "Two"), plan("Three", "Four"), ENDED], executor=["Done."] * 4, summarizer=["Sum."] * 2
    )
    config = {"settings": {"recursion_limit": limit}, "summarizer": {"enabled": summarizer}}
    engine = await open_engine(script, settings={"graph_config": config})
    result = await ask(engine)
    ends = {version.plan_id: version for version in await plans_of(engine, result)}
    assert [statuses(version).count("completed") for version in ends.values()] == expected
    assert len(await jobs(engine, result)) <= limit
    ((_, plan_result),) = parse_results(last_messages(engine, "agent")[2])
    if expected[1] < 2:
        assert f"The limit of {limit} jobs in a turn was reached." in (plan_result.error or "")


async def test_limit_of_plans_ends_in_an_answer(open_engine: OpenEngine) -> None:
    """Beyond the limit of consecutive plans the agent gets the instruction to answer."""
    script = by_agent(
        agent=[plan("One"), plan("Two"), plan("Three"), ENDED], executor=["1.", "2."], summarizer=["Sum."] * 2
    )
    engine = await open_engine(script, settings={"graph_config": {"replanner": {"max_plans": 2}}})
    result = await ask(engine)
    assert result.response == ENDED
    ((_, plan_result),) = parse_results(last_messages(engine, "agent")[3])
    assert not plan_result.success
    assert "this turn has had 2 plans" in (plan_result.error or "")
    assert [version.steps[0].title for version in await plans_of(engine, result)] == ["One"] * 3 + ["Two"] * 3


ONE_ROUND = {"graph_config": {"executor": {"max_tool_rounds": 1}}}


async def test_step_may_succeed_in_its_last_round(open_engine: OpenEngine) -> None:
    """An executor that answers when all rounds are used has completed the step."""
    script = by_agent(agent=[plan("One"), ENDED], executor=[LOOK, "All of it."], summarizer=["Sum."])
    engine = await open_engine(script, settings=ONE_ROUND)
    result = await ask(engine)
    (step,) = (await last_plan(engine, result)).steps
    assert (step.status, step.result) == ("completed", "All of it.")
    assert last_messages(engine, "executor")[1].endswith(
        "No tool can be called any more but report_failure: answer now if it is done, and call that if it is not."
    )


@pytest.mark.parametrize("protocol", ["xml", "native"])
async def test_failure_can_be_reported_after_the_last_round(open_engine: OpenEngine, protocol: str) -> None:
    """After the last round report_failure is the only tool; after a call of report_failure there is no tool."""
    script = by_agent(
        agent=[plan("One"), ENDED],
        executor=[LOOK, *report_failure()],
        replanner=[decide("finish"), "So."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script, settings={**ONE_ROUND, "tool_protocol": protocol})
    result = await ask(engine)
    (step,) = (await last_plan(engine, result)).steps
    assert (step.status, step.result) == ("failed", "No B.")
    executor_requests = [request for request in engine.model.requests if requesting_agent(request) == "executor"]
    assert [request.tool_choice for request in executor_requests] == ["auto", "auto", "none"]
    assert [spec.name for spec in executor_requests[1].tools] == ["report_failure"]
    assert len(executor_requests[0].tools) == len(executor_requests[2].tools) > 1


async def test_executor_without_rounds_fails_the_step(open_engine: OpenEngine) -> None:
    """Calls after the last round do not run; the results so far are stored."""
    script = by_agent(
        agent=[plan("One"), ENDED],
        executor=[LOOK, LOOK, "Half of it."],
        replanner=[decide("finish"), "So."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script, settings=ONE_ROUND)
    result = await ask(engine)
    (step,) = (await last_plan(engine, result)).steps
    assert step.status == "failed"
    assert step.result == "The rounds of tools were used up before it was done. So far: Half of it."
    ((_, plan_result),) = parse_results(last_messages(engine, "executor")[2])
    assert plan_result.error == "Not run: all rounds of tool calls are used up. Answer now with what you have."


async def test_summarizer_has_no_note_about_rounds(open_engine: OpenEngine) -> None:
    """A summarizer never has rounds, so no note says that the rounds are used up."""
    script = by_agent(agent=[plan("One"), ENDED], executor=["1."], summarizer=["Sum."])
    engine = await open_engine(script)
    await ask(engine)
    (instruction,) = last_messages(engine, "summarizer")
    assert instruction.endswith("Step 1 (One) was completed:\n1.")


async def test_request_shows_how_many_steps_can_be_executed(open_engine: OpenEngine) -> None:
    """The preview of a plan, or of a revision, with more steps than the limit allows gives the number."""
    config = {"approval": {"enabled": True}, "executor": {"max_steps": 2}}
    script = by_agent(
        agent=[plan("One", "Two", "Three"), ENDED],
        executor=[*report_failure(), "4."],
        replanner=[decide("revise", steps=[{"title": "Four"}, {"title": "Five"}]), "So."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script, settings={"graph_config": config})
    waiting = await ask(engine)
    assert waiting.pending[0].preview.endswith("3. **Three**\n\nOf these 3 steps at most 2 can be carried out.")
    resumed = await answer(engine, waiting, Decision(approved=True))
    assert resumed.pending[0].preview.endswith("2. **Five**\n\nOf these 2 steps at most 1 can be carried out.")
