"""The plan flow, driven by a scripted model through a real engine and a real store."""

from typing import Any

from conftest import OpenEngine
from scripts import by_agent, call, decide, plan

from artifactflow_nb.engine import Engine
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.plans import Plan


async def ask(engine: Engine, **options: Any) -> Any:
    return await engine.controller.execute("What is to be done?", flow="plan", **options)


async def plans_of(engine: Engine, result: Any) -> list[Plan]:
    """Every version of the plan."""
    return [
        Plan.from_json(artifact.content)
        for artifact in await engine.artifacts.versions(result.conversation_id, "task_plan")
    ]


def statuses(found: Plan) -> list[str]:
    return [step.status for step in found.steps]


async def test_a_plan_is_carried_out_step_by_step(open_engine: OpenEngine) -> None:
    """Steps run in order, each sees the results before it, and the agent answers from the report."""
    script = by_agent(
        agent=[plan("Find", "Compare"), "The answer."], executor=["Found A.", "A is better."], summarizer=["A."]
    )
    engine = await open_engine(script)
    result = await ask(engine)
    assert (result.status, result.response) == ("completed", "The answer.")
    assert [statuses(one) for one in await plans_of(engine, result)] == [
        ["pending", "pending"],
        ["running", "pending"],
        ["completed", "pending"],
        ["completed", "running"],
        ["completed", "completed"],
        ["completed", "completed"],
        ["completed", "completed"],
    ]


async def test_a_failed_last_step_reaches_the_replanner(open_engine: OpenEngine) -> None:
    """A step that fails is put before the replanner, the last one too."""
    script = by_agent(
        agent=[plan("Find", "Compare"), "The answer."],
        executor=["Found A.", call("report_failure", reason="No B."), "It failed."],
        replanner=[decide("finish", "There is no B."), "So be it."],
        summarizer=["A, no B."],
    )
    engine = await open_engine(script)
    result = await ask(engine)
    assert result.response == "The answer."
    assert statuses((await plans_of(engine, result))[-1]) == ["completed", "failed"]
    assert StreamEventType.STEP_COMPLETE
