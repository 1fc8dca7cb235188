"""Events: their numbers, their listeners, and storing them without loss."""

import asyncio
import gc

import pytest
from conftest import OpenEngine

from artifactflow_nb.core.clock_ids import RunClock, SystemClock
from artifactflow_nb.core.events import StreamedText, StreamEvent, StreamEventType
from artifactflow_nb.errors import StoreError
from artifactflow_nb.flows.events import FLUSH_DELAY_S, EventFeed, EventWriter
from artifactflow_nb.models.scripted import ScriptedModel


async def journal(open_engine: OpenEngine) -> tuple[EventWriter, EventFeed, str, object]:
    engine = await open_engine(["unused"])
    run = await engine.controller.begin("question")
    feed = EventFeed(await engine.runs.events(run.run_id))
    clock = RunClock(SystemClock(), feed.last_at)
    return EventWriter(run.run_id, clock, engine.runs, feed), feed, run.run_id, engine


async def test_late_listener_gets_earlier_events(open_engine: OpenEngine) -> None:
    """The listener gets stored events and the text so far in order, then live events."""
    book, feed, _, _ = await journal(open_engine)
    text = StreamedText()
    for piece in ("a", "b"):
        book.publish_chunk(
            "lead_agent", {"call_id": "c", "job_id": "main", "kind": "answer", "delta": piece}, text, text.append(piece)
        )
    events: list[StreamEvent] = []
    stop = feed.subscribe(events.append)
    book.emit(StreamEventType.LLM_COMPLETE, {"call_id": "c", "text": "ab"})
    stop()
    book.emit(StreamEventType.COMPLETE, {})
    assert [event.type.value for event in events] == ["metadata", "llm_chunk", "llm_chunk", "llm_complete"]
    assert events[2].content == "ab"
    assert feed.arriving_text("main") == ""
    await book.flush()


async def test_events_are_stored_without_a_flush(open_engine: OpenEngine) -> None:
    """An event is stored soon, also if nothing else is written."""
    book, _, run_id, engine = await journal(open_engine)
    book.emit(StreamEventType.AGENT_START, {"job_id": "main"})
    await asyncio.sleep(FLUSH_DELAY_S * 4)
    stored = [event.type for event in await engine.runs.events(run_id)]
    assert stored == [StreamEventType.METADATA, StreamEventType.AGENT_START]


async def test_failed_background_write_is_raised_at_the_next_flush(open_engine: OpenEngine) -> None:
    """The failure is an error for the caller and not only a warning in a log."""
    book, _, _, engine = await journal(open_engine)
    await engine.database.write(lambda db: db.execute("DROP TABLE events"))
    book.emit(StreamEventType.METADATA, {"question": "q"})
    await asyncio.sleep(FLUSH_DELAY_S * 4)
    with pytest.raises(StoreError, match="no such table: events"):
        await book.flush()


async def test_closed_engine_has_stored_all_events(open_engine: OpenEngine, caplog: pytest.LogCaptureFixture) -> None:
    """An engine that is closed during a run has stored its last events and writes nothing afterwards."""
    engine = await open_engine(model=ScriptedModel(["Slowly. " * 100], delay_s=0.05))
    run = await engine.controller.begin("question")
    started = asyncio.Event()
    events: list[StreamEventType] = []

    def hear(event: StreamEvent) -> None:
        events.append(event.type)
        if event.type is StreamEventType.AGENT_START:
            started.set()

    await engine.controller.subscribe(run.run_id, hear)
    await engine.controller.start(run)
    await started.wait()
    await engine.aclose()
    await asyncio.sleep(FLUSH_DELAY_S * 2)
    gc.collect()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
    stored = [event.type for event in await (await open_engine()).runs.events(run.run_id)]
    assert stored == [kind for kind in events if kind is not StreamEventType.LLM_CHUNK]


async def test_failing_listener_does_not_fail_the_run(open_engine: OpenEngine) -> None:
    """A listener that raises gets no more events; other listeners get all events, and the run completes."""
    engine = await open_engine(["An answer in several pieces, to be heard."])
    run = await engine.controller.begin("question")
    events: list[StreamEvent] = []
    calls = 0

    def broken(event: StreamEvent) -> None:
        nonlocal calls
        calls += 1
        raise RuntimeError("the view is gone")

    await engine.controller.subscribe(run.run_id, broken)
    await engine.controller.subscribe(run.run_id, events.append)
    await (await engine.controller.start(run))
    assert calls == 1
    assert (await engine.controller.result(run.run_id)).status == "completed"
    assert events[-1].is_terminal
