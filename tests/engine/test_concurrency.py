"""Concurrent engines on one store, concurrent decisions on one request, concurrent starts of one run."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from conftest import OpenEngine
from support.replies import call

from artifactflow_nb.agents.base import PromptContext
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.errors import Conflict, UsageError
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import Tool, ToolContext, tool

ANSWERED = 2  # requests to the model of a run with one call: for the call, and for the answer


def sending_tool(sent: list[str]) -> Tool:
    @tool(permission="confirm")
    async def send(ctx: ToolContext) -> str:
        """Send a letter."""
        sent.append(ctx.tool_call_id)
        await asyncio.sleep(0.01)
        return "sent"

    return send


async def engines_with(open_engine: OpenEngine, entry: Tool, count: int) -> list[Engine]:
    """Engines on one store, with one model that sends a letter and then answers."""

    def turn(request: Any) -> str:
        return "Sent." if any("tool_result" in message.content for message in request.messages[1:]) else call("send")

    model = ScriptedModel(turn)
    engines = [await open_engine(model=model) for _ in range(count)]
    for engine in engines:
        engine.register_tool(entry)
    return engines


async def run_to_end(engines: list[Engine], run_id: str) -> Any:
    """Wait until no engine drives the run; return its result."""
    async with asyncio.timeout(10):
        while (result := await engines[0].controller.result(run_id)).status in {"running", "waiting"}:
            for engine in engines:
                await engine.controller.join(run_id)
            await asyncio.sleep(0.01)
    return result


@pytest.mark.parametrize("count", [1, 2], ids=["one engine", "two engines"])
async def test_one_of_several_concurrent_decisions_is_stored(open_engine: OpenEngine, count: int) -> None:
    """The other decisions on the request are conflicts, and the tool runs once."""
    sent: list[str] = []
    engines = await engines_with(open_engine, sending_tool(sent), count)
    waiting = await engines[0].controller.execute("Send.")
    request = waiting.pending[0].id
    clicks = [engines[n % count].controller.decide(request, Decision(approved=True)) for n in range(6)]
    outcomes = await asyncio.gather(*clicks, return_exceptions=True)
    assert Counter(type(outcome) for outcome in outcomes) == {type(None): 1, Conflict: 5}
    result = await run_to_end(engines, waiting.run_id)
    assert (result.status, result.response, len(sent)) == ("completed", "Sent.", 1)
    assert len(engines[0].model.requests) == ANSWERED  # type: ignore[attr-defined]
    stored = await engines[0].runs.events(waiting.run_id)
    results = [event for event in stored if event.type is StreamEventType.PERMISSION_RESULT]
    assert [event.data["id"] for event in results] == [request]
    assert [event.is_terminal for event in stored].count(True) == 1


@pytest.mark.parametrize("count", [1, 2], ids=["one engine", "two engines"])
async def test_run_that_is_started_concurrently_runs_once(open_engine: OpenEngine, count: int) -> None:
    """One engine or two engines start a decided run six times: model and tool of the run are called once."""
    sent: list[str] = []
    engines = await engines_with(open_engine, sending_tool(sent), count)
    waiting = await engines[0].controller.execute("Send.")
    await engines[0].approvals.decide({waiting.pending[0].id: Decision(approved=True)}, engines[0].clock.now())
    run = await engines[0].runs.get(waiting.run_id)
    starts = [engines[n % count].controller.start(run) for n in range(6)]
    outcomes = await asyncio.gather(*starts, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
    assert len({outcome for outcome in outcomes if outcome not in refused}) == 1, "one engine drives it, in one task"
    result = await run_to_end(engines, waiting.run_id)
    assert (result.status, result.response, len(sent)) == ("completed", "Sent.", 1)
    assert len(engines[0].model.requests) == ANSWERED  # type: ignore[attr-defined]


@pytest.mark.parametrize("count", [1, 2], ids=["one engine", "two engines"])
async def test_branch_takes_one_of_several_concurrent_questions(open_engine: OpenEngine, count: int) -> None:
    """The other questions are conflicts, so the branch does not fork."""
    model = ScriptedModel(lambda _request: "An answer.")
    engines = [await open_engine(model=model) for _ in range(count)]
    first = await engines[0].controller.execute("First?")
    place = first.conversation_id
    questions = [engines[n % count].controller.begin(f"Next {n}?", conversation_id=place) for n in range(4)]
    outcomes = await asyncio.gather(*questions, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes].count(Conflict) == 3, outcomes
    messages = await engines[0].conversations.messages(place)
    assert [message.parent_id for message in messages] == [None, first.message_id]


async def test_two_runs_cannot_share_a_thread(open_engine: OpenEngine) -> None:
    """A second run with the thread of the first is refused, and nothing is stored."""
    engine = await open_engine(["One."])
    first = await engine.controller.execute("First?")
    with pytest.raises(UsageError, match=f"{first.thread_id}.*exists already"):
        await engine.controller.execute("Second?", thread_id=first.thread_id)
    assert len(await engine.conversations.list_conversations()) == 1


@pytest.mark.parametrize("count", [1, 2], ids=["one engine", "two engines"])
async def test_run_that_is_cancelled_concurrently_ends_once(open_engine: OpenEngine, count: int) -> None:
    """One engine or two engines cancel a waiting run six times: the run has one terminal event."""
    engines = await engines_with(open_engine, sending_tool([]), count)
    waiting = await engines[0].controller.execute("Send.")
    stops = [engines[n % count].controller.cancel(waiting.run_id) for n in range(6)]
    outcomes = await asyncio.gather(*stops, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {type(None), Conflict}
    assert None in outcomes
    assert (await engines[0].controller.result(waiting.run_id)).status == "cancelled"
    stored = await engines[0].runs.events(waiting.run_id)
    assert [event.type for event in stored if event.is_terminal] == [StreamEventType.CANCELLED]


async def test_stored_end_cannot_be_replaced(open_engine: OpenEngine) -> None:
    """The store refuses a second terminal event and keeps the first."""
    engine = await open_engine(["The answer."])
    result = await engine.controller.execute("First?")
    events = await engine.runs.events(result.run_id)
    second = replace(events[-1], type=StreamEventType.ERROR, seq=events[-1].seq + 1, data={"message": "late"})
    with pytest.raises(Conflict, match="ended already"):
        await engine.runs.finish(result.run_id, "failed", second)
    assert await engine.runs.events(result.run_id) == events
    assert (await engine.runs.get(result.run_id)).response == "The answer."


N_RUNS = 24


def no_prompt(_context: PromptContext) -> dict[str, str]:
    raise RuntimeError("no prompt")


async def test_runs_that_fail_or_are_cancelled_early_release_their_places(open_engine: OpenEngine) -> None:
    """Many runs end before their first model call; a later run still starts."""
    engine = await open_engine(lambda _request: "Done.")
    engine.places_of_new_runs = asyncio.Semaphore(2)
    lead = engine.lead
    prompt, lead.placeholders = lead.placeholders, no_prompt  # type: ignore[method-assign]  # it fails as a file may
    ended = await asyncio.gather(*(engine.controller.execute("What?") for _ in range(N_RUNS)))
    assert {result.status for result in ended} == {"failed"}
    runs = [await engine.controller.begin("What?") for _ in range(N_RUNS)]
    for run in runs:
        await engine.controller.start(run)
        await engine.controller.cancel(run.run_id)
    assert {(await engine.controller.result(run.run_id)).status for run in runs} == {"cancelled"}
    lead.placeholders = prompt  # type: ignore[method-assign]
    async with asyncio.timeout(10):
        assert (await engine.controller.execute("What?")).response == "Done."


async def test_runs_wait_for_their_models_in_parallel(open_engine: OpenEngine) -> None:
    """While one model replies, all other models are called."""
    requested, all_requested = [], asyncio.Event()

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            requested.append(request)
            if len(requested) == N_RUNS:
                all_requested.set()
            await all_requested.wait()
            async for event in super().stream(request):
                yield event

    engine = await open_engine(model=Slow(lambda _request: "Done."))
    async with asyncio.timeout(20):
        ended = await asyncio.gather(*(engine.controller.execute("What?") for _ in range(N_RUNS)))
    assert [result.response for result in ended] == ["Done."] * N_RUNS
