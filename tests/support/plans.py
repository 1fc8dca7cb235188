"""Helpers for tests of the plan flow: run it, decide, and read plans, events and requests."""

from collections import Counter
from typing import Any

from conftest import OpenEngine
from support.replies import by_agent, call, requesting_agent

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.plan import Plan
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.tools.base import ToolContext, tool

ENDED = "The answer."


LOOK = call("read_artifact", id="task_plan")


async def ask(engine: Engine, **options: Any) -> Any:
    return await engine.controller.execute("What is to be done?", flow="plan", **options)


async def answer(engine: Engine, waiting: Any, decision: Decision) -> Any:
    return await engine.controller.resume(waiting.thread_id, decisions={waiting.pending[0].id: decision})


async def open_waiting_plan(open_engine: OpenEngine, **turns: Any) -> tuple[Engine, Any]:
    """An engine whose plans need an approval, and a run that waits for it."""
    engine = await open_engine(by_agent(**turns), settings={"graph_config": {"approval": {"enabled": True}}})
    waiting = await ask(engine)
    assert waiting.status == "waiting"
    return engine, waiting


async def plans_of(engine: Engine, result: Any) -> list[Plan]:
    """All versions of the plan."""
    versions = await engine.artifacts.versions(result.conversation_id, "task_plan")
    return [Plan.from_json(artifact.content) for artifact in versions]


async def last_plan(engine: Engine, result: Any) -> Plan:
    versions = await engine.artifacts.versions(result.conversation_id, "task_plan")
    return Plan.from_json(versions[-1].content)


def statuses(found: Plan) -> list[str]:
    return [step.status for step in found.steps]


def last_messages(engine: Engine, agent: str) -> list[str]:
    """The last message of each request of an agent."""
    return [request.messages[-1].content for request in engine.model.requests if requesting_agent(request) == agent]


def request_counts(engine: Engine) -> Counter[str]:
    """The number of requests of each agent."""
    return Counter(requesting_agent(request) for request in engine.model.requests)


async def events(engine: Engine, result: Any, *kinds: StreamEventType) -> list[StreamEvent]:
    return [event for event in await engine.runs.events(result.run_id) if event.type in kinds]


async def jobs(engine: Engine, result: Any, part: str = "kind, outcome") -> list[tuple[Any, ...]]:
    """The jobs of a run's plans, in order."""
    sql = f"SELECT {part} FROM plan_jobs WHERE run_id = ? ORDER BY started_at, n"  # noqa: S608 - a test's own words
    rows = await engine.database.read(lambda db: db.execute(sql, (result.run_id,)).fetchall())
    return [tuple(row) for row in rows]


def report_failure(reason: str = "No B.") -> list[str]:
    """The turns of an executor that reports a failure."""
    return [call("report_failure", reason=reason), "It failed."]


sent: list[str] = []


@tool(permission="confirm")
async def send(ctx: ToolContext, to: str) -> str:
    """Send a letter."""
    sent.append(to)
    return f"sent to {to}"
