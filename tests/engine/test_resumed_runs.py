"""Events and metrics of runs that waited several times."""

import asyncio
import json
from typing import Any

from conftest import OpenEngine
from support.replies import call

from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.tools.base import ToolContext, tool

PAUSE_S = 0.4


@tool(permission="confirm")
async def act(ctx: ToolContext, number: int) -> str:
    """Act."""
    del ctx
    return f"acted {number}"


async def resumed(engine: Engine, thread_id: str, request_id: str) -> list[StreamEvent]:
    stream = engine.controller.stream_execute(thread_id=thread_id, resume_data={request_id: True})
    return [event async for event in stream]


async def test_each_resume_streams_only_new_events(open_engine: OpenEngine) -> None:
    """A run may wait again after a resume.

    Each stream has its own events, no event is repeated, and the last stream has the end.
    """
    engine = await open_engine([call("act", number="1"), call("act", number="2"), call("act", number="3"), "Done."])
    engine.register_tool(act)
    streams = [[event async for event in engine.controller.stream_execute("Act.")]]
    thread_id = streams[0][0].data["thread_id"]
    for _ in range(3):
        last = streams[-1][-1]
        assert (last.type, last.data["interrupted"], last.is_terminal) == (StreamEventType.COMPLETE, True, False)
        streams.append(await resumed(engine, thread_id, last.data["pending"][0]))
    events = [event for stream in streams for event in stream]
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    assert [event.is_terminal for event in events] == [False] * (len(events) - 1) + [True]
    assert (events[-1].data["success"], events[-1].data["response"]) == (True, "Done.")
    requests = [event.data["id"] for event in events if event.type is StreamEventType.PERMISSION_REQUEST]
    assert len(requests) == len(set(requests)) == 3
    assert len(engine.model.requests) == 4  # type: ignore[attr-defined]


async def test_turn_publishes_no_event_of_an_earlier_turn(open_engine: OpenEngine) -> None:
    """No event of an earlier turn is published again, live or stored."""
    engine = await open_engine([call("act", number="1"), "One.", call("act", number="2"), "Two."], approvals="approve")
    engine.register_tool(act)
    first = [event async for event in engine.controller.stream_execute("First?")]
    place = first[0].data["conversation_id"]
    second = [event async for event in engine.controller.stream_execute("Second?", conversation_id=place)]
    assert {event.run_id for event in first}.isdisjoint({event.run_id for event in second})
    assert [event.type for event in first] == [event.type for event in second]
    stored = await engine.runs.events(second[0].run_id)
    everything = json.dumps([dict(event.data) for event in stored])
    assert "Second?" in everything
    assert not any(old in everything for old in ("First?", "One.", first[0].run_id))


async def test_waiting_time_is_separate_from_active_time(open_engine: OpenEngine) -> None:
    """The time of a person's decision is waiting time; an engine that is opened later reads the same metrics."""
    engine = await open_engine([call("act", number="1"), "Done."])
    engine.register_tool(act)
    waiting = await engine.controller.execute("Act.")
    await asyncio.sleep(PAUSE_S)
    result = await engine.controller.resume(waiting.thread_id, approved=True)
    metrics: Any = result.metrics
    assert metrics.wait_ms >= PAUSE_S * 1000
    assert metrics.active_ms <= metrics.total_duration_ms - PAUSE_S * 1000 + 1
    working_ms = sum(entry.duration_ms for entry in metrics.tool_calls)
    working_ms += sum(execution.llm_duration_ms for execution in metrics.agent_executions)
    assert working_ms <= metrics.active_ms + 1
    ended = (await engine.runs.events(result.run_id))[-1]
    assert ended.data["execution_metrics"]["wait_ms"] == metrics.wait_ms
    await engine.aclose()
    other = await open_engine([])
    assert (await other.controller.result(result.run_id)).metrics == metrics
