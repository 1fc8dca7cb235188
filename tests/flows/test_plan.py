"""The plan flow, driven by a scripted model through a real engine and a real store."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from conftest import OpenEngine
from scripts import by_agent, call, decide, plan, report, who_asks

from artifactflow_nb.approvals import Decision
from artifactflow_nb.engine import Engine
from artifactflow_nb.events import StreamEvent, StreamEventType
from artifactflow_nb.plans import Plan
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.store.metrics import load_spent
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


async def test_an_executor_that_runs_out_of_rounds_has_failed(open_engine: OpenEngine) -> None:
    """A step whose rounds of tools are used up has failed, and keeps what it had found."""
    rounds = [call("read_artifact", id="task_plan")] * 30
    script = by_agent(
        agent=[plan("One"), ENDED],
        executor=[*rounds, "Half of it."],
        replanner=[decide("finish"), "So."],
        summarizer=["Sum."],
    )
    engine = await open_engine(script)
    result = await ask(engine)
    (step,) = (await last_plan(engine, result)).steps
    assert step.status == "failed"
    assert step.result == "The rounds of tools were used up before it was done. So far: Half of it."


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
