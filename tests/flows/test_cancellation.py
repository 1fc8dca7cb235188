"""Cancellation: a run ends at once although its model or tool continues, and the run's status is stored."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest
from conftest import OpenEngine
from support.replies import call

from artifactflow_nb.core.middleware import Middleware
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import ToolContext, tool


@tool
async def swallowing(ctx: ToolContext) -> str:
    """Return a result when cancelled."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "Half of it."
    return "All."


@tool
async def raising(ctx: ToolContext) -> str:
    """Raise another error when cancelled."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise RuntimeError("The connection was lost.") from None
    return "All."


@tool
def computing(ctx: ToolContext) -> str:
    """Compute in a thread."""
    time.sleep(3)
    return "All."


class Stubborn(ScriptedModel):
    """A model that replies although it is cancelled."""

    def __init__(self) -> None:
        super().__init__(["Done."])
        self.has_request = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.has_request.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        async for event in super().stream(request):
            yield event


async def cancel_when(engine: Engine, until: Callable[[str], Any]) -> tuple[str, float]:
    """Cancel a run at a moment; return its status and the seconds until its end."""
    run = await engine.controller.begin("What?")
    await engine.controller.start(run)
    await until(run.run_id)
    start = time.monotonic()
    async with asyncio.timeout(20):
        await engine.controller.cancel(run.run_id)
    took = time.monotonic() - start
    return (await engine.controller.result(run.run_id)).status, took


@pytest.mark.parametrize("entry", [swallowing, raising, computing], ids=lambda entry: entry.name)
async def test_tool_cannot_delay_a_cancellation(open_engine: OpenEngine, entry: Any) -> None:
    """The result or error of a tool that ignores its cancellation is not stored."""
    engine = await open_engine([call(entry.name), "Done."])
    engine.register_tool(entry, agent="lead_agent")

    async def in_the_tool(run_id: str) -> None:
        while not await started(engine, run_id):  # noqa: ASYNC110 - the store tells
            await asyncio.sleep(0.01)

    status, took = await cancel_when(engine, in_the_tool)
    assert (status, took < 2.5) == ("cancelled", True)


async def started(engine: Engine, run_id: str) -> bool:
    sql = "SELECT 1 FROM tool_calls JOIN llm_calls USING (call_id) WHERE llm_calls.run_id = ? AND status = 'started'"
    return await engine.database.read(lambda db: db.execute(sql, (run_id,)).fetchone()) is not None


async def test_model_cannot_delay_a_cancellation(open_engine: OpenEngine) -> None:
    """The run ends although the model's stream continues after its cancellation."""
    model = Stubborn()
    engine = await open_engine(model=model)

    async def in_the_model(_run_id: str) -> None:
        await model.has_request.wait()

    status, took = await cancel_when(engine, in_the_model)
    assert (status, took < 2.5) == ("cancelled", True)


async def test_cancellation_survives_closing_the_engine(open_engine: OpenEngine) -> None:
    """If the engine is closed during a cancellation, the run is cancelled in the next engine and cannot be resumed."""
    waiting = asyncio.Event()

    class Slow(Middleware):
        async def before_model(self, _call: Any) -> None:
            waiting.set()
            await asyncio.sleep(60)

    engine = await open_engine(["Done."], middleware=[Slow()])
    run = await engine.controller.begin("What?")
    await engine.controller.start(run)
    await waiting.wait()
    stop = asyncio.ensure_future(engine.controller.cancel(run.run_id))
    await asyncio.sleep(0.05)
    await engine.aclose()
    await asyncio.gather(stop, return_exceptions=True)
    reopened = await open_engine(["Done."])
    assert (await reopened.runs.get(run.run_id)).status == "cancelled"
