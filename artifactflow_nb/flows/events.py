"""Events of a run: each gets a number and a time, is published to listeners and stored.

::

    emit ──> feed (at once) ──> views, streams
      └────> pending ──> stored with the next write, or by a flush shortly after
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from artifactflow_nb.core.clock_ids import RunClock
from artifactflow_nb.core.events import StreamedText, StreamEvent, StreamEventType
from artifactflow_nb.core.toolcalls.xml import parse_reply
from artifactflow_nb.errors import StoreError
from artifactflow_nb.store.runs import EventRow, RunStore, event_row

FLUSH_DELAY_S = 0.05

logger = logging.getLogger(__name__)

Listener = Callable[[StreamEvent], None]


class EventFeed:
    """The events of a run for listeners: first the past events, then new events.

    Streamed text is held as chunks until its model call completes.
    """

    def __init__(self, history: Sequence[StreamEvent] = ()) -> None:
        self._history = list(history)
        self._arriving: dict[str, list[StreamEvent]] = {}
        self._listeners: list[Listener] = []

    @property
    def last_seq(self) -> int:
        """The number of the last event so far, or 0."""
        return self._history[-1].seq if self._history else 0

    @property
    def last_at(self) -> datetime:
        """The time of the last event so far; every run has an event."""
        return self._history[-1].timestamp

    @property
    def has_listeners(self) -> bool:
        """Whether a listener is subscribed, so that chunks are worth publishing."""
        return bool(self._listeners)

    @property
    def is_ended(self) -> bool:
        """Whether the run has ended."""
        return bool(self._history) and self._history[-1].is_terminal

    def arriving_text(self, job_id: str) -> str:
        """Return the incomplete answer text of a job, without calls."""
        chunks = [event.data for chunks in self._arriving.values() for event in chunks]
        answer = [data for data in chunks if data["job_id"] == job_id and data["kind"] == "answer"]
        text = "".join(data["delta"] for data in answer)
        is_native = any(data.get("tool_protocol") == "native" for data in answer)
        # `ReplySplitter` leaves calls in unusual forms in the answer.
        return text.strip() if is_native else parse_reply(text).text

    def publish(self, event: StreamEvent) -> None:
        """Publish an event to all listeners."""
        if event.type is StreamEventType.LLM_CHUNK:
            self._arriving.setdefault(event.data["call_id"], []).append(event)
        else:
            self._history.append(event)
            if event.type in {StreamEventType.LLM_COMPLETE, StreamEventType.RETRY}:
                self._arriving.pop(event.data["call_id"], None)
        for listener in tuple(self._listeners):
            self._notify(listener, event)

    def _notify(self, listener: Listener, event: StreamEvent) -> None:
        """Call a listener; remove a listener that fails, so that the run continues."""
        try:
            listener(event)
        except Exception:
            logger.exception("A listener of the run %s failed and gets no more events", event.run_id)
            if listener in self._listeners:
                self._listeners.remove(listener)

    def publish_all(self, events: Sequence[StreamEvent]) -> None:
        """Publish events that another process stored."""
        for event in events:
            self.publish(event)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Publish the past events to a listener, then new events; the returned function ends the subscription."""
        arriving = (event for chunks in self._arriving.values() for event in chunks)
        self._listeners.append(listener)
        for event in sorted([*self._history, *arriving], key=lambda event: event.seq):
            self._notify(listener, event)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None


class EventWriter:
    """Writes the events of one run. The first event has the number after the last event of `feed`, plus `skip`.

    Attributes:
        publish_lock: Held while decisions are published, so that each decision is published once.
    """

    def __init__(self, run_id: str, clock: RunClock, runs: RunStore, feed: EventFeed, *, skip: int = 0) -> None:
        self._run_id = run_id
        self.clock = clock
        self.publish_lock = asyncio.Lock()
        self._last_number = feed.last_seq + skip
        self._runs = runs
        self._feed = feed
        self._open_blocks: list[int] = []
        self._delayed: list[StreamEvent] = []
        self._pending: list[EventRow] = []
        self._timer: asyncio.TimerHandle | None = None
        self._flush: asyncio.Task[None] | None = None

    @property
    def last_seq(self) -> int:
        """The number of the last published event that is not a chunk."""
        return self._feed.last_seq

    def stamp(
        self,
        kind: StreamEventType,
        data: Mapping[str, Any] | None = None,
        *,
        agent: str | None = None,
        tool: str | None = None,
    ) -> StreamEvent:
        """Create an event with the next number and the current time, for a block of `storing`."""
        self._last_number += 1
        return StreamEvent(kind, self.clock.now(), self._last_number, self._run_id, agent, tool, data or {})

    @contextmanager
    def storing(self) -> Iterator[None]:
        """Open a block that stamps, stores and then publishes events.

        Events of parallel jobs that get higher numbers meanwhile are published when the block ends. So the numbers
        arrive in ascending order, and a reader that continues after its last number misses no event. No `await` may
        stand between `stamp`, `drain` and the call of the store, so that the rows have the same order.
        """
        first_number = self._last_number + 1
        self._open_blocks.append(first_number)
        try:
            yield
        finally:
            self._open_blocks.remove(first_number)
            limit = min(self._open_blocks, default=math.inf)
            ready = sorted((event for event in self._delayed if event.seq < limit), key=lambda event: event.seq)
            self._delayed = [event for event in self._delayed if event.seq >= limit]
            for event in ready:
                self._feed.publish(event)

    def publish(self, event: StreamEvent) -> None:
        """Publish an event whose row is stored by the caller."""
        publish = self._delayed.append if self._open_blocks else self._feed.publish
        publish(event)

    def emit(
        self,
        kind: StreamEventType,
        data: Mapping[str, Any] | None = None,
        *,
        agent: str | None = None,
        tool: str | None = None,
    ) -> StreamEvent:
        """Publish an event, and store it with the next write or shortly after."""
        event = self.stamp(kind, data, agent=agent, tool=tool)
        self._pending.append(event_row(event))
        self.publish(event)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_DELAY_S, self._start_flush)
        return event

    def publish_chunk(
        self, agent: str, data: Mapping[str, Any], text: StreamedText, n_parts: int, *, tool: str | None = None
    ) -> tuple[datetime, int]:
        """Publish a piece of text, which is not stored; return its time and number."""
        self._last_number += 1
        at, number = self.clock.now(), self._last_number
        origin = at, number, self._run_id, agent, tool
        # The choice of `publish` is repeated here, because one more call for each piece would cost time.
        publish = self._delayed.append if self._open_blocks else self._feed.publish
        publish(StreamEvent(StreamEventType.LLM_CHUNK, *origin, data, text, n_parts))
        return at, number

    def drain(self) -> list[EventRow]:
        """Remove and return the events that are not stored yet; the caller must store the events."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pending, self._pending = self._pending, []
        return pending

    async def close(self) -> None:
        """Store the pending events before the store is closed; errors are ignored."""
        with suppress(StoreError):  # the store has failed or is closed; a resume continues from the stored events
            await self.flush()

    async def flush(self) -> None:
        """Store the pending events; raise the error of an earlier flush in the background."""
        earlier, self._flush = self._flush, None
        await self._append(earlier)

    def _start_flush(self) -> None:
        self._timer = None
        self._flush = asyncio.get_running_loop().create_task(self._append(self._flush))

    async def _append(self, earlier: "asyncio.Task[None] | None") -> None:
        """Store the pending events after an earlier flush."""
        if earlier is not None:
            await earlier
        if rows := self.drain():
            try:
                await self._runs.append_rows(rows)
            except StoreError:
                self._pending[:0] = rows  # the next write may succeed
                raise
