"""The plan flow, driven by a scripted model through a real engine and a real store."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from conftest import OpenEngine
from scripts import by_agent, call, decide, plan, report, who_asks

from artifactflow_nb.approvals import Decision
from artifactflow_nb.engine import Engine
from artifactflow_nb.events import StreamEvent, StreamEventType
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plans import Plan, PlanStep
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship
from artifactflow_nb.store.metrics import load_spent
from artifactflow_nb.store.plans import load_plans
from artifactflow_nb.store.schema import to_us
from artifactflow_nb.tools.base import ToolContext, tool
from artifactflow_nb.xml_calls import parse_results

ENDED = "The answer."


async def ask(engine: Engine, **options: Any) -> Any:
    return await engine.controller.execute("What is to be done?", flow="plan", **options)


async def plans_of(engine: Engine, result: Any) -> list[Plan]:
    """Every version of the plan."""
    versions = await engine.artifacts.versions(result.conversation_id, "task_plan")
    return [Plan.from_json(artifact.content) for artifact in versions]


async def last_plan(engine: Engine, result: Any) -> Plan:
    versions = await engine.artifacts.versions(result.conversation_id, "task_plan")
    return Plan.from_json(versions[-1].content)


def statuses(found: Plan) -> list[str]:
    return [step.status for step in found.steps]


def told_to(engine: Engine, agent: str) -> list[str]:
    """The last message of each request of an agent."""
    return [request.messages[-1].content for request in engine.model.requests if who_asks(request) == agent]


def asked(engine: Engine) -> Counter[str]:
    """How often each agent's model was asked."""
    return Counter(who_asks(request) for request in engine.model.requests)


async def events(engine: Engine, result: Any, *kinds: StreamEventType) -> list[StreamEvent]:
    return [event for event in await engine.runs.events(result.run_id) if event.type in kinds]


async def jobs(engine: Engine, result: Any, what: str = "kind, outcome") -> list[tuple[Any, ...]]:
    """The jobs of a run's plans, in order."""
    sql = f"SELECT {what} FROM plan_jobs WHERE run_id = ? ORDER BY started_at, n"  # noqa: S608 - a test's own words
    rows = await engine.database.read(lambda db: db.execute(sql, (result.run_id,)).fetchall())
    return [tuple(row) for row in rows]


def failing(reason: str = "No B.") -> list[str]:
    """The turns of an executor that owns up to a failure."""
    return [call("report_failure", reason=reason), "It failed."]


async def test_a_plan_is_carried_out_step_by_step(open_engine: OpenEngine) -> None:
    """Steps run in order, each sees the results before it, and the agent answers from the report."""
    script = by_agent(
        agent=[plan("Find", "Compare"), ENDED], executor=["Found A.", "A is better."], summarizer=["It is A."]
    )
    engine = await open_engine(script)
    result = await ask(engine)
    assert (result.status, result.response) == ("completed", ENDED)
    assert [statuses(one) for one in await plans_of(engine, result)] == [
        ["pending", "pending"],
        ["running", "pending"],
        ["completed", "pending"],
        ["completed", "running"],
        ["completed", "completed"],
    ]
    first, second = told_to(engine, "executor")
    assert "Your step, 1 of 2: Find" in first
    assert "Your step, 2 of 2: Compare" in second
    assert "Step 1 (Find) was completed:\nFound A." in second
    ((_, told),) = parse_results(told_to(engine, "agent")[1])
    assert told.success
    assert "2 completed" in told.data
    assert told.data.endswith("It is A.")
    assert asked(engine) == {"agent": 2, "executor": 2, "summarizer": 1}, "the replanner is not asked"


async def test_every_change_of_a_plan_is_told_once(open_engine: OpenEngine) -> None:
    """Creation, each step's start and end, a retry, a revision and what is skipped are each told by one event."""
    script = by_agent(
        agent=[plan("Find", "Compare"), ENDED],
        executor=["A.", *failing(), *failing("Still none."), "C."],
        replanner=[decide("retry"), "Go.", decide("revise", steps=[{"title": "Look", "id": "x"}]), "So."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script)
    result = await ask(engine)
    kinds = StreamEventType
    told = await events(
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
        for event in told
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
async def test_a_step_that_fails_reaches_the_replanner(open_engine: OpenEngine, fails: int) -> None:
    """A failure in the first, a middle and the last step is put before the replanner, and stays a failure."""
    titles = ["One", "Two", "Three"]
    executor = [turn for n in (1, 2, 3) for turn in (failing() if n == fails else [f"Done {n}."])]
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
    assert f"The step {fails} ({titles[fails - 1]}) failed." in told_to(engine, "replanner")[0]
    ((_, told),) = parse_results(told_to(engine, "agent")[1])
    assert not told.success
    assert f"{fails}. [failed] {titles[fails - 1]}: No B." in (told.error or "")


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        (["It is done."] * 2, "The replanner did not decide: it gave no decision that can be acted on."),
        ([decide("retry"), decide("retry"), decide("retry"), "Well."], "The replanner did not decide"),
        ([decide("revise"), "Well."], "The replanner did not decide"),
    ],
    ids=["only words", "a retry that is used up", "a revision without steps"],
)
async def test_a_replanner_that_cannot_decide_ends_the_plan(
    open_engine: OpenEngine, turns: list[str], reason: str
) -> None:
    """What cannot be acted on is told to the replanner; without a decision the plan ends, and says why."""
    script = by_agent(agent=[plan("One", "Two"), ENDED], executor=failing(), replanner=turns, summarizer=["Sum."])
    engine = await open_engine(script, settings={"graph_config": {"replanner": {"max_retries": 0}}})
    result = await ask(engine)
    assert result.response == ENDED
    found = await last_plan(engine, result)
    assert statuses(found) == ["failed", "skipped"]
    assert found.steps[1].result.startswith(reason)


async def test_a_decision_may_name_no_steps(open_engine: OpenEngine) -> None:
    """An empty list, which the text protocol writes as an empty text, is a list without steps."""
    script = by_agent(
        agent=[plan("One"), ENDED],
        executor=[*failing(), "1."],
        replanner=[decide("retry", steps=[]), "Go."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script)
    result = await ask(engine)
    assert (result.response, statuses(await last_plan(engine, result))) == (ENDED, ["completed"])


async def test_the_limit_of_steps_ends_a_plan_honestly(open_engine: OpenEngine) -> None:
    """Of more steps than may be executed the rest is skipped, and the report says so."""
    script = by_agent(agent=[plan("One", "Two", "Three"), ENDED], executor=["1.", "2."], summarizer=["Sum."])
    engine = await open_engine(script, settings={"graph_config": {"executor": {"max_steps": 2}}})
    result = await ask(engine)
    found = await last_plan(engine, result)
    assert statuses(found) == ["completed", "completed", "skipped"]
    ((_, told),) = parse_results(told_to(engine, "agent")[1])
    assert "3. [skipped] Three: The limit of 2 executed steps was reached." in (told.error or "")


async def test_a_step_that_fails_at_the_limit_of_steps_ends_a_plan_honestly(open_engine: OpenEngine) -> None:
    """Nothing is left to skip then: the limit is told to the summarizer and to the agent all the same."""
    script = by_agent(agent=[plan("One", "Two"), ENDED], executor=["1.", *failing()], summarizer=["Sum."])
    engine = await open_engine(script, settings={"graph_config": {"executor": {"max_steps": 2}}})
    await ask(engine)
    why = "Why it ended: The limit of 2 executed steps was reached."
    ((_, told),) = parse_results(told_to(engine, "agent")[1])
    assert why in (told.error or "")
    assert why in told_to(engine, "summarizer")[0]


async def test_a_replanner_that_fails_is_told_of(open_engine: OpenEngine) -> None:
    """After the last step, too, where no step is left to say so."""
    script = by_agent(agent=[plan("One"), ENDED], executor=failing(), replanner=[""], summarizer=["Sum."])
    engine = await open_engine(script)
    await ask(engine)
    ((_, told),) = parse_results(told_to(engine, "agent")[1])
    assert "Why it ended: The replanner did not decide: The model ended with an empty answer." in (told.error or "")


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
async def test_the_limit_of_jobs_is_one_for_all_plans_of_a_turn(
    open_engine: OpenEngine, limit: int, summarizer: bool, expected: list[int]
) -> None:
    """Steps and summaries count, and a plan keeps one for its summary; what is not done then is skipped and told."""
    script = by_agent(
        agent=[plan("One", "Two"), plan("Three", "Four"), ENDED], executor=["Done."] * 4, summarizer=["Sum."] * 2
    )
    config = {"settings": {"recursion_limit": limit}, "summarizer": {"enabled": summarizer}}
    engine = await open_engine(script, settings={"graph_config": config})
    result = await ask(engine)
    ends = {one.plan_id: one for one in await plans_of(engine, result)}
    assert [statuses(one).count("completed") for one in ends.values()] == expected
    assert len(await jobs(engine, result)) <= limit
    ((_, told),) = parse_results(told_to(engine, "agent")[2])
    if expected[1] < 2:
        assert f"The limit of {limit} jobs in a turn was reached." in (told.error or "")


async def test_the_limit_of_plans_ends_in_an_answer(open_engine: OpenEngine) -> None:
    """A turn may have several plans, one after the other; beyond their limit the agent is told to answer."""
    script = by_agent(
        agent=[plan("One"), plan("Two"), plan("Three"), ENDED], executor=["1.", "2."], summarizer=["Sum."] * 2
    )
    engine = await open_engine(script, settings={"graph_config": {"replanner": {"max_plans": 2}}})
    result = await ask(engine)
    assert result.response == ENDED
    ((_, told),) = parse_results(told_to(engine, "agent")[3])
    assert not told.success
    assert "this turn has had 2 plans" in (told.error or "")
    assert [one.steps[0].title for one in await plans_of(engine, result)] == ["One"] * 3 + ["Two"] * 3


LOOK = call("read_artifact", id="task_plan")
ONE_ROUND = {"graph_config": {"executor": {"max_iterations": 1}}}


async def test_a_step_that_succeeds_in_its_last_round_is_completed(open_engine: OpenEngine) -> None:
    """Whoever answers when all rounds are used has done the step, as the next to last word of its prompt says."""
    script = by_agent(agent=[plan("One"), ENDED], executor=[LOOK, "All of it."], summarizer=["Sum."])
    engine = await open_engine(script, settings=ONE_ROUND)
    result = await ask(engine)
    (step,) = (await last_plan(engine, result)).steps
    assert (step.status, step.result) == ("completed", "All of it.")
    assert told_to(engine, "executor")[1].endswith(
        "No tool can be called any more but report_failure: answer now if it is done, and call that if it is not."
    )


@pytest.mark.parametrize("protocol", ["xml", "native"])
async def test_a_failure_can_be_owned_up_to_when_all_rounds_are_used(open_engine: OpenEngine, protocol: str) -> None:
    """Then report_failure is all that is offered, and after it nothing is."""
    script = by_agent(
        agent=[plan("One"), ENDED],
        executor=[LOOK, *failing()],
        replanner=[decide("finish"), "So."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script, settings={**ONE_ROUND, "tool_protocol": protocol})
    result = await ask(engine)
    (step,) = (await last_plan(engine, result)).steps
    assert (step.status, step.result) == ("failed", "No B.")
    asked_of = [request for request in engine.model.requests if who_asks(request) == "executor"]
    assert [request.tool_choice for request in asked_of] == ["auto", "auto", "none"]
    assert [spec.name for spec in asked_of[1].tools] == ["report_failure"]
    assert len(asked_of[0].tools) == len(asked_of[2].tools) > 1


async def test_an_executor_that_runs_out_of_rounds_has_failed(open_engine: OpenEngine) -> None:
    """Whoever still asks for tools when all rounds are used has failed: they are not run; what was found is kept."""
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
    ((_, told),) = parse_results(told_to(engine, "executor")[2])
    assert told.error == "Not run: all rounds of tool calls are used up. Answer now with what you have."


async def test_a_step_whose_model_fails_has_failed(open_engine: OpenEngine) -> None:
    """What a step's loop raises is the step's failure, not the run's."""
    script = by_agent(
        agent=[plan("One"), ENDED], executor=[""], replanner=[decide("finish"), "So."], summarizer=["Sum."]
    )
    engine = await open_engine(script)
    result = await ask(engine)
    (step,) = (await last_plan(engine, result)).steps
    assert (result.status, step.status) == ("completed", "failed")
    assert "an empty answer" in step.result


async def test_a_plan_stands_alone_in_its_reply(open_engine: OpenEngine) -> None:
    """Calls beside a plan are answered and not run; a second plan too; nothing of them is asked about."""
    beside = report("Too early.") + plan("One") + call("rewrite_artifact", id="x", content="y") + plan("Two")
    script = by_agent(agent=[beside, ENDED], executor=["1."], summarizer=["Sum."])
    engine = await open_engine(script)
    result = await ask(engine)
    assert result.response == ENDED
    told = parse_results(told_to(engine, "agent")[1])
    assert [(name, found.success) for name, found in told] == [
        ("create_artifact", False),
        ("plan_create", True),
        ("rewrite_artifact", False),
        ("plan_create", False),
    ]
    assert all("must be the only call" in (found.error or "") for _, found in told if not found.success)
    assert not await events(engine, result, StreamEventType.PERMISSION_REQUEST)


async def test_a_summarizer_that_fails_loses_no_result(open_engine: OpenEngine) -> None:
    """The report says that there is no summary and why, and holds the results of the steps."""
    script = by_agent(agent=[plan("One"), ENDED], executor=["All of it."], summarizer=[""])
    engine = await open_engine(script)
    result = await ask(engine)
    ((_, told),) = parse_results(told_to(engine, "agent")[1])
    assert told.success
    assert "There is no summary: The model ended with an empty answer." in told.data
    assert told.data.endswith("Step 1 (One) was completed:\nAll of it.")
    assert await jobs(engine, result) == [("execute", "completed"), ("summarize", "failed")]


async def test_a_summarizer_is_told_of_no_rounds(open_engine: OpenEngine) -> None:
    """It never had any, so that none are used up."""
    script = by_agent(agent=[plan("One"), ENDED], executor=["1."], summarizer=["Sum."])
    engine = await open_engine(script)
    await ask(engine)
    (said,) = told_to(engine, "summarizer")
    assert said.endswith("Step 1 (One) was completed:\n1.")


async def test_without_a_summarizer_the_agent_answers_from_the_plan(open_engine: OpenEngine) -> None:
    """The report then holds the results of the steps."""
    script = by_agent(agent=[plan("One"), ENDED], executor=["All of it."])
    engine = await open_engine(script, settings={"graph_config": {"summarizer": {"enabled": False}}})
    await ask(engine)
    ((_, told),) = parse_results(told_to(engine, "agent")[1])
    assert told.data.endswith("Step 1 (One) was completed:\nAll of it.")


async def test_without_a_replanner_a_plan_goes_on_until_a_step_fails(open_engine: OpenEngine) -> None:
    """The rest is skipped, because of the step that failed."""
    script = by_agent(agent=[plan("One", "Two", "Three"), ENDED], executor=["1.", *failing()], summarizer=["Sum."])
    engine = await open_engine(script, settings={"graph_config": {"replanner": {"enabled": False}}})
    result = await ask(engine)
    found = await last_plan(engine, result)
    assert statuses(found) == ["completed", "failed", "skipped"]
    assert found.steps[2].result == "The step 2 failed."


async def test_a_replanner_may_look_after_every_step(open_engine: OpenEngine) -> None:
    """Where it is not skipped on success it is asked while more than one step is left."""
    script = by_agent(
        agent=[plan("One", "Two", "Three"), ENDED],
        executor=["1.", "2.", "3."],
        replanner=[decide("continue"), "Go."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script, settings={"graph_config": {"replanner": {"skip_on_success": False}}})
    await ask(engine)
    assert asked(engine)["replanner"] == 2


@pytest.mark.parametrize("planner", [True, False], ids=["with plans", "planner off"])
async def test_no_agent_writes_the_plan_by_hand(open_engine: OpenEngine, planner: bool) -> None:
    """Each way to write `task_plan` is refused in a run of the plan flow, and nobody is asked about it."""
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
    for said in [told_to(engine, "agent")[1], *told_to(engine, "executor")[1:]]:
        told = parse_results(said)
        assert [name for name, _ in told] == ["create_artifact", "rewrite_artifact", "update_artifact"]
        assert all((found.error or "").startswith("task_plan was not written: ") for _, found in told)
    versions = await engine.artifacts.versions(result.conversation_id, "task_plan")
    assert {artifact.created_by for artifact in versions} == ({"agent", "executor"} if planner else set())
    assert not await events(engine, result, StreamEventType.PERMISSION_REQUEST)


async def test_what_a_tool_wrote_is_no_plan(open_engine: OpenEngine) -> None:
    """A version that a call of a tool wrote, past the workbench's own tools, changes nothing that is done."""

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
    assert asked(engine)["executor"] == 2
    assert [step.title for step in (await last_plan(engine, result)).steps] == ["One"]
    (found,) = await engine.database.read(lambda db: load_plans(db, result.run_id))
    assert [step.title for step in found.steps] == ["One"]


# --- a person -------------------------------------------------------------------------------------------------------


async def opened(open_engine: OpenEngine, **turns: Any) -> tuple[Engine, Any]:
    """An engine where plans are asked about, and a run that waits for that."""
    engine = await open_engine(by_agent(**turns), settings={"graph_config": {"approval": {"enabled": True}}})
    waiting = await ask(engine)
    assert waiting.status == "waiting"
    return engine, waiting


async def answer(engine: Engine, waiting: Any, decision: Decision) -> Any:
    return await engine.controller.resume(waiting.thread_id, decisions={waiting.pending[0].id: decision})


async def test_a_plan_is_put_before_a_person(open_engine: OpenEngine) -> None:
    """The request has the kind `plan` and shows the steps; nothing is carried out before the answer."""
    engine, waiting = await opened(
        open_engine, agent=[plan("One", "Two"), ENDED], executor=["1.", "2."], summarizer=["Sum."]
    )
    (request,) = waiting.pending
    assert (request.kind, request.tool, request.title) == (
        "plan",
        "plan_create",
        "agent wants to carry out a plan: The plan",
    )
    assert request.preview == "1. **One**\n2. **Two**"
    assert asked(engine) == {"agent": 1}
    result = await answer(engine, waiting, Decision(approved=True))
    assert (result.status, result.response) == ("completed", ENDED)


async def test_a_person_sees_how_much_of_a_plan_can_be_carried_out(open_engine: OpenEngine) -> None:
    """A plan, and a revision, that has more steps than are left says so before it is approved."""
    config = {"approval": {"enabled": True}, "executor": {"max_steps": 2}}
    script = by_agent(
        agent=[plan("One", "Two", "Three"), ENDED],
        executor=[*failing(), "4."],
        replanner=[decide("revise", steps=[{"title": "Four"}, {"title": "Five"}]), "So."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script, settings={"graph_config": config})
    waiting = await ask(engine)
    assert waiting.pending[0].preview.endswith("3. **Three**\n\nOf these 3 steps at most 2 can be carried out.")
    again = await answer(engine, waiting, Decision(approved=True))
    assert again.pending[0].preview.endswith("2. **Five**\n\nOf these 2 steps at most 1 can be carried out.")


UNKNOWN = [{"title": "Fly", "tools": ["fly"]}]


async def test_a_plan_that_would_be_refused_is_put_before_nobody(open_engine: OpenEngine) -> None:
    """Steps with an unknown tool, and a plan beyond the limit of plans, are refused without a question."""
    config = {"approval": {"enabled": True}, "replanner": {"max_plans": 1}}
    unknown = call("plan_create", title="The plan", steps=UNKNOWN)
    script = by_agent(agent=[unknown, plan("One"), plan("Two"), ENDED], executor=["1."], summarizer=["Sum."])
    engine = await open_engine(script, settings={"graph_config": config})
    waiting = await ask(engine)
    assert [step["title"] for step in waiting.pending[0].params["steps"]] == ["One"]
    result = await answer(engine, waiting, Decision(approved=True))
    assert result.response == ENDED
    first, _, third = (dict(parse_results(said))["plan_create"].error or "" for said in told_to(engine, "agent")[1:])
    assert first.startswith("There is no tool 'fly' for steps")
    assert "this turn has had 1 plan" in third


@pytest.mark.parametrize(
    ("revision", "most", "told"),
    [(UNKNOWN, 1, "There is no tool 'fly'"), ([{"title": "Two"}], 0, "revise is not possible now")],
    ids=["an unknown tool", "no revision left"],
)
async def test_a_revision_that_would_be_refused_is_put_before_nobody(
    open_engine: OpenEngine, revision: list[Any], most: int, told: str
) -> None:
    """The replanner is told why at once, and decides otherwise."""
    config = {"approval": {"enabled": True}, "replanner": {"max_revisions": most}}
    script = by_agent(
        agent=[plan("One"), ENDED],
        executor=failing(),
        replanner=[decide("revise", steps=revision), decide("finish"), "So."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script, settings={"graph_config": config})
    waiting = await ask(engine)
    result = await answer(engine, waiting, Decision(approved=True))
    assert (result.status, result.response) == ("completed", ENDED)
    ((_, refused),) = parse_results(told_to(engine, "replanner")[1])
    assert (refused.error or "").startswith(told)


async def test_a_rejected_plan_tells_the_agent_why(open_engine: OpenEngine) -> None:
    """The agent gets the person's reason, and may make another plan, which is asked about again."""
    engine, waiting = await opened(
        open_engine, agent=[plan("One"), plan("Two"), ENDED], executor=["2."], summarizer=["Sum."]
    )
    again = await answer(engine, waiting, Decision(approved=False, instruction="Too short."))
    assert again.status == "waiting"
    ((_, told),) = parse_results(told_to(engine, "agent")[1])
    assert told.error == "Permission denied. The person says: Too short."
    result = await answer(engine, again, Decision(approved=True))
    assert [step.title for step in (await last_plan(engine, result)).steps] == ["Two"]


async def test_an_instruction_instead_is_no_rejection(open_engine: OpenEngine) -> None:
    """The agent is told what the person says instead of carrying out the plan."""
    engine, waiting = await opened(open_engine, agent=[plan("One"), ENDED])
    result = await answer(engine, waiting, Decision(approved=False, instruction="Just answer.", instead=True))
    assert result.response == ENDED
    ((_, told),) = parse_results(told_to(engine, "agent")[1])
    assert told.error == "Not run. The person answers instead: Just answer."


async def test_an_edited_plan_is_what_is_carried_out(open_engine: OpenEngine) -> None:
    """Steps that the person changed, moved, added and removed are carried out so, and the agent is told."""
    engine, waiting = await opened(
        open_engine, agent=[plan("One", "Two", "Three"), ENDED], executor=["3.", "1.", "4."], summarizer=["Sum."]
    )
    steps = [{"title": "Three"}, {"title": "One", "description": "Gently."}, {"title": "Four"}]
    edited = Decision(approved=True, params={"title": "Mine", "steps": steps})
    result = await answer(engine, waiting, edited)
    found = await last_plan(engine, result)
    assert (found.title, [step.title for step in found.steps]) == ("Mine", ["Three", "One", "Four"])
    assert statuses(found) == ["completed"] * 3
    ((_, told),) = parse_results(told_to(engine, "agent")[1])
    assert "The person changed the parameters to:" in told.data


async def test_a_revision_is_put_before_a_person_again(open_engine: OpenEngine) -> None:
    """A denied revision is told to the replanner, which then decides otherwise."""
    revise = decide("revise", "Look elsewhere.", steps=[{"title": "Other"}])
    engine, waiting = await opened(
        open_engine,
        agent=[plan("One", "Two"), ENDED],
        executor=failing(),
        replanner=[revise, decide("finish", "Then not."), "So be it."],
        summarizer=["Sum."],
    )
    again = await answer(engine, waiting, Decision(approved=True))
    (request,) = again.pending
    assert (again.status, request.kind, request.agent) == ("waiting", "plan", "replanner")
    result = await answer(engine, again, Decision(approved=False, instruction="No."))
    found = await last_plan(engine, result)
    assert [(step.title, step.status) for step in found.steps] == [("One", "failed"), ("Two", "skipped")]
    assert found.steps[1].result == "Then not."


sent: list[str] = []


@tool(permission="confirm")
async def send(ctx: ToolContext, to: str) -> str:
    """Send a letter."""
    sent.append(to)
    return f"sent to {to}"


@pytest.mark.parametrize(("tools", "waits"), [(["read_artifact"], False), (["web_fetch"], True), ([], True)])
async def test_only_plans_that_may_ask_are_asked_about(open_engine: OpenEngine, tools: list[str], waits: bool) -> None:
    """With `confirm`, a plan is asked about if one of its steps may use a tool that asks."""
    steps = [{"title": "One", "tools": tools}]
    script = by_agent(
        agent=[call("plan_create", title="The plan", steps=steps), ENDED], executor=["1."], summarizer=["Sum."]
    )
    engine = await open_engine(script, settings={"graph_config": {"approval": {"enabled": "confirm"}}})
    assert (await ask(engine)).status == ("waiting" if waits else "completed")


async def test_a_step_has_only_the_tools_that_it_names(open_engine: OpenEngine) -> None:
    """Beside them it can own up to a failure; a tool that there is not refuses the plan."""
    named = call("plan_create", title="The plan", steps=[{"title": "One", "tools": ["read_artifact"]}])
    unknown = call("plan_create", title="The plan", steps=[{"title": "One", "tools": ["fly"]}])
    script = by_agent(agent=[unknown, named, ENDED], executor=["1."], summarizer=["Sum."])
    engine = await open_engine(script)
    await ask(engine)
    ((_, told),) = parse_results(told_to(engine, "agent")[1])
    assert (told.error or "").startswith("There is no tool 'fly' for steps; there are: create_artifact, ")
    (request,) = (request for request in engine.model.requests if who_asks(request) == "executor")
    assert [spec.name for spec in request.tools] == ["read_artifact", "report_failure"]


async def test_a_step_waits_inside_and_goes_on_in_another_engine(open_engine: OpenEngine) -> None:
    """A tool that asks stops the step where it is; another process goes on without asking a model twice."""
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
    assert asked(first) + asked(second) == {"agent": 2, "executor": 3, "summarizer": 1}
    assert statuses(await last_plan(second, result)) == ["completed", "completed"]


async def test_waiting_within_a_step_is_no_time_at_work(open_engine: OpenEngine) -> None:
    """What a person takes to decide within a step counts no more than elsewhere, though the plan's call covers it."""
    script = by_agent(agent=[plan("One"), ENDED], executor=[call("send", to="Ada"), "Sent."], summarizer=["Sum."])
    engine = await open_engine(script)
    engine.register_tool(send, agent="executor")
    waiting = await ask(engine)
    await asyncio.sleep(0.5)
    result = await answer(engine, waiting, Decision(approved=True))
    spent = await engine.database.read(lambda db: load_spent(db, result.run_id))
    (row,) = await engine.database.read(
        lambda db: db.execute("SELECT duration_ms FROM tool_calls WHERE tool_name = 'plan_create'").fetchall()
    )
    assert spent.seconds < 0.4
    assert row["duration_ms"] > 0


async def test_a_hand_made_change_is_kept(open_engine: OpenEngine) -> None:
    """What a person writes into the plan while a step goes on is carried out; what is no plan is passed over."""
    engine: Engine
    ready, goes_on = asyncio.Event(), asyncio.Event()

    @tool
    async def pause(ctx: ToolContext) -> str:
        """Wait for the person."""
        ready.set()
        await goes_on.wait()
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
    goes_on.set()
    await work
    assert [step.title for step in (await last_plan(engine, run)).steps] == ["One", "Another"]
    assert "Your step, 2 of 2: Another" in told_to(engine, "executor")[-1]


async def test_a_step_that_a_person_takes_out_at_work_is_not_put_back(open_engine: OpenEngine) -> None:
    """Its agent waited, and concludes; then the plan goes on with the steps that it has."""
    sent.clear()
    letter = [call("send", to="Ada"), "Sent."]
    script = by_agent(agent=[plan("One", "Two"), ENDED], executor=[*letter, "2."], summarizer=["Sum."])
    engine = await open_engine(script)
    engine.register_tool(send, agent="executor")
    waiting = await ask(engine)
    found = await last_plan(engine, waiting)
    by = Authorship(waiting.conversation_id, waiting.message_id, "user")
    left = replace(found, steps=found.steps[1:])
    await engine.artifacts.revise(by, "task_plan", left.to_json(), update_type="update")
    result = await answer(engine, waiting, Decision(approved=True))
    assert (result.response, sent) == (ENDED, ["Ada"])
    assert [(step.title, step.status) for step in (await last_plan(engine, result)).steps] == [("Two", "completed")]


class EditedMeanwhile(ScriptedModel):
    """A scripted model that lets a person change the plan each time that an agent is asked.

    Attributes:
        engine: Whose plan it is.
        who: The agent.
        change: What the person makes of the plan.
    """

    engine: Engine
    who: str
    change: Callable[[Plan], Plan]

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Change the plan, then answer."""
        if who_asks(request) == self.who:
            (run,) = await self.engine.runs.unfinished()
            by = Authorship(run.conversation_id, run.message_id, "user")

            def changed(present: Artifact) -> str:
                return self.change(Plan.from_json(present.content)).to_json()

            await self.engine.artifacts.revise(by, "task_plan", changed, update_type="update")
        async for event in super().stream(request):
            yield event


@pytest.mark.parametrize("who", ["executor", "replanner", "summarizer"])
async def test_what_a_person_changes_while_an_agent_is_at_work_stays(open_engine: OpenEngine, who: str) -> None:
    """The end of a step, of a look at the plan and of the summary write nothing of it over."""
    model = EditedMeanwhile(
        by_agent(
            agent=[plan("One"), ENDED],
            executor=[*failing(), "1."],
            replanner=[decide("retry"), "Go."],
            summarizer=["Sum."],
        )
    )
    model.who, model.change = who, lambda found: replace(found, title="Mine")
    model.engine = await open_engine(model=model)
    result = await ask(model.engine)
    found = await last_plan(model.engine, result)
    assert (result.response, found.title, statuses(found)) == (ENDED, "Mine", ["completed"])


async def test_a_step_that_a_person_adds_when_all_is_over_is_skipped(open_engine: OpenEngine) -> None:
    """It comes too late, and the plan says so."""
    model = EditedMeanwhile(by_agent(agent=[plan("One"), ENDED], executor=["1."], summarizer=["Sum."]))
    model.who, model.change = "summarizer", lambda found: replace(found, steps=(*found.steps, PlanStep("9", "Late")))
    model.engine = await open_engine(model=model)
    result = await ask(model.engine)
    step = (await last_plan(model.engine, result)).steps[1]
    assert (step.title, step.status, step.result) == ("Late", "skipped", "The plan was over by then.")
    (told,) = await events(model.engine, result, StreamEventType.PLAN_UPDATED)
    assert [(one["id"], one["status"]) for one in told.data["steps"]] == [("9", "skipped")]


# --- what agents are shown ------------------------------------------------------------------------------------------


async def test_long_results_do_not_push_a_step_out_of_its_prompt(open_engine: OpenEngine) -> None:
    """However much the steps before have found, each agent is asked in full, and no result stands in a prompt twice."""
    described = [{"title": f"Step {n}", "description": f"{n} " + "d" * 3_000 + f" end {n}"} for n in range(8)]
    script = by_agent(
        agent=[call("plan_create", title="Much", steps=described), ENDED],
        executor=[f"found {n}" + "y" * 20_000 for n in range(8)],
        summarizer=["Sum."],
    )
    engine = await open_engine(script)
    await ask(engine)
    requests = engine.model.requests
    steps = [request.messages for request in requests if who_asks(request) == "executor"]
    for n, messages in enumerate(steps):
        assert f"Your step, {n + 1} of 8: Step {n}\n{n} ddd" in messages[1].content
        assert messages[1].content.endswith(f"end {n}")
        assert f"{n + 1}. [running] Step {n}" in messages[1].content
        assert len(messages[1].content) < 30_000
        assert len(messages[0].content) == len(steps[0][0].content)
        assert "<task_plan>" not in messages[0].content
    (summed_up,) = (request for request in requests if who_asks(request) == "summarizer")
    assert all(f"found {n}" in summed_up.messages[1].content for n in range(8))
    last = requests[-1].messages[0].content
    assert "8. ☑ Step 7" in last
    assert "found" not in last


async def test_what_short_results_leave_the_long_ones_get(open_engine: OpenEngine) -> None:
    """A single long result is shown up to its own limit, however many steps there are."""
    script = by_agent(
        agent=[plan(*(f"Step {n}" for n in range(8))), ENDED],
        executor=["y" * 20_000, *["short"] * 7],
        summarizer=["Sum."],
    )
    engine = await open_engine(script)
    await ask(engine)
    assert "y" * 3_000 in told_to(engine, "summarizer")[0]
    assert "16000 characters left out of this result" in told_to(engine, "summarizer")[0]


# --- the end of a run -----------------------------------------------------------------------------------------------


async def test_a_run_that_is_cancelled_closes_its_plan(open_engine: OpenEngine) -> None:
    """While a step waits for a person: it fails, what was to come is skipped, and jobs, events and frames say so."""
    script = by_agent(agent=[plan("One", "Two", "Three"), ENDED], executor=["1.", call("send", to="Ada")])
    engine = await open_engine(script)
    engine.register_tool(send, agent="executor")
    waiting = await ask(engine)
    await engine.controller.cancel(waiting.run_id)
    found = await last_plan(engine, waiting)
    why = "The run was cancelled."
    assert [(step.status, step.result) for step in found.steps] == [
        ("completed", "1."),
        ("failed", why),
        ("skipped", why),
    ]
    *told, version, end = (await engine.runs.events(waiting.run_id))[-4:]
    (update,) = (event for event in told if event.type is StreamEventType.PLAN_UPDATED)
    assert [(one["id"], one["status"]) for one in update.data["steps"]] == [("2", "failed"), ("3", "skipped")]
    assert (version.type, version.data["version"]) == (StreamEventType.ARTIFACT_CHANGED, 5)
    assert end.type is StreamEventType.CANCELLED
    assert update.timestamp == version.timestamp == end.timestamp
    ended = (await jobs(engine, waiting, "outcome, text, completed_at"))[-1]
    assert ended == ("failed", why, to_us(end.timestamp))


async def test_the_jobs_of_a_plan_follow_one_another(open_engine: OpenEngine) -> None:
    """Each begins when the one before it has ended, in the time of its run."""
    script = by_agent(agent=[plan("One", "Two"), ENDED], executor=["1.", "2."], summarizer=["Sum."])
    engine = await open_engine(model=ScriptedModel(script, delay_s=0.005))
    result = await ask(engine)
    times = await jobs(engine, result, "started_at, completed_at")
    flat = [at for job in times for at in job]
    assert flat == sorted(flat)
    assert all(completed > started for started, completed in times)
