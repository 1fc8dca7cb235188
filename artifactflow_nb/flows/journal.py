"""The journal of a run: it stamps events, tells those who listen, and has them stored.

::

    emit ──> feed (at once) ──> views, streams
      └────> pending ──> the next write takes them along, or a flush shortly after
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from artifactflow_nb.errors import StoreError
from artifactflow_nb.events import StreamEvent, StreamEventType, TextSoFar
from artifactflow_nb.recordings.clock import ASIDE, RUN
from artifactflow_nb.recordings.left import opened_at
from artifactflow_nb.recordings.tape import Tape
from artifactflow_nb.store.runs import EventRow, RunStore, event_row

FLUSH_DELAY_S = 0.05

logger = logging.getLogger(__name__)

Listener = Callable[[StreamEvent], None]


class Feed:
    """The events of a run as a listener sees them: what happened so far, then what happens.

    Text that is still arriving is kept as chunks until its model call completes.
    """

    def __init__(self, history: Sequence[StreamEvent] = ()) -> None:
        self._history = list(history)
        self._arriving: dict[str, list[StreamEvent]] = {}
        self._listeners: list[Listener] = []

    @property
    def last_seq(self) -> int:
        """The number of the last event so far, 0 if there is none."""
        return self._history[-1].seq if self._history else 0

    @property
    def last_at(self) -> datetime:
        """The time of the last event so far; there is one from a run's beginning on."""
        return self._history[-1].timestamp

    @property
    def opened_at(self) -> datetime:
        """When the run could go on after its last pause; see `opened_at`."""
        return opened_at(self._history)

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return bool(self._history) and self._history[-1].is_terminal

    def arriving_text(self, job_id: str) -> str:
        """The answer text of a job that has arrived and is not complete."""
        chunks = [event for chunks in self._arriving.values() for event in chunks if event.data["job_id"] == job_id]
        return "".join(event.data["delta"] for event in chunks if event.data["kind"] == "answer")

    def publish(self, event: StreamEvent) -> None:
        """Tell all listeners."""
        if event.type is StreamEventType.LLM_CHUNK:
            self._arriving.setdefault(event.data["call_id"], []).append(event)
        else:
            self._history.append(event)
            if event.type in {StreamEventType.LLM_COMPLETE, StreamEventType.RETRY}:
                self._arriving.pop(event.data["call_id"], None)
        for listener in tuple(self._listeners):
            self._tell(listener, event)

    def _tell(self, listener: Listener, event: StreamEvent) -> None:
        """Tell one listener; one that fails is not told again, and the run goes on."""
        try:
            listener(event)
        except Exception:
            logger.exception("A listener of the run %s failed and hears no more of it", event.run_id)
            if listener in self._listeners:
                self._listeners.remove(listener)

    def publish_all(self, events: Sequence[StreamEvent]) -> None:
        """Tell all listeners of several events, those that another process stored."""
        for event in events:
            self.publish(event)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Replay what happened so far, then listen; the function that is returned ends it."""
        arriving = (event for chunks in self._arriving.values() for event in chunks)
        self._listeners.append(listener)
        for event in sorted([*self._history, *arriving], key=lambda event: event.seq):
            self._tell(listener, event)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None


class Journal:
    """Writes one run's events.

    Args:
        run_id: The run.
        tape: Where times and numbers come from.
        runs: Where events are stored.
        feed: Who is told; its last event gives the number to go on from.

    Attributes:
        clock: The run's clock.
        telling: Held by who tells decisions, so that each is told once, with its own number.
    """

    def __init__(self, run_id: str, tape: Tape, runs: RunStore, feed: Feed) -> None:
        self._run_id = run_id
        self.clock = tape.clock
        self.telling = asyncio.Lock()
        self._numbers = tape.numbers(feed.last_seq)
        self._runs = runs
        self._feed = feed
        self._early: dict[int, StreamEvent] = {}
        self._pending: list[EventRow] = []
        self._timer: asyncio.TimerHandle | None = None
        self._flush: asyncio.Task[None] | None = None

    @property
    def last_seq(self) -> int:
        """The number of the last event that was told, chunks aside."""
        return self._feed.last_seq

    def stamp(
        self,
        kind: StreamEventType,
        data: Mapping[str, Any] | None = None,
        *,
        agent: str | None = None,
        tool: str | None = None,
        lane: str | None = None,
    ) -> StreamEvent:
        """Make an event with the next number, without telling or storing it.

        Args:
            kind: What happened.
            data: The payload.
            agent: The agent that it concerns.
            tool: The tool that it concerns.
            lane: In which order it stands and at whose time; None for the job which the payload names, or the run.
        """
        data = data or {}
        lane = lane or data.get("job_id", RUN)
        number = self._numbers.next(ASIDE if kind is StreamEventType.MIDDLEWARE_ERROR else lane)
        return StreamEvent(kind, self.clock.now(lane), number, self._run_id, agent, tool, data)

    def publish(self, event: StreamEvent) -> None:
        """Tell those who listen of an event whose row is stored by the caller, once those before it are told."""
        self._early[event.seq] = event
        while self._early and self._numbers.is_due(seq := min(self._early)):
            self._feed.publish(self._early.pop(seq))

    def emit(
        self,
        kind: StreamEventType,
        data: Mapping[str, Any] | None = None,
        *,
        agent: str | None = None,
        tool: str | None = None,
        lane: str | None = None,
    ) -> StreamEvent:
        """Tell those who listen, and have the event stored with the next write or shortly after."""
        event = self.stamp(kind, data, agent=agent, tool=tool, lane=lane)
        self._pending.append(event_row(event))
        self.publish(event)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_DELAY_S, self._start_flush)
        return event

    def chunk(
        self, agent: str, data: Mapping[str, Any], text: TextSoFar, n_parts: int, *, tool: str | None = None
    ) -> int:
        """Tell those who listen of a piece of text; its number. Chunks are not stored."""
        lane = data["job_id"]
        seq = self._numbers.next(lane)
        place = self.clock.now(lane), seq, self._run_id, agent, tool
        self.publish(StreamEvent(StreamEventType.LLM_CHUNK, *place, data, text, n_parts))
        return seq

    def take(self) -> list[EventRow]:
        """The events that are not stored yet, for the write that the caller is about to make."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        taken, self._pending = self._pending, []
        return taken

    async def close(self) -> None:
        """Store what can be stored now, and nothing later: the store is about to be closed."""
        with suppress(StoreError):  # the store has failed before, or is closed; the run goes on from what it has
            await self.flush()

    async def flush(self) -> None:
        """Store what is not stored yet; raises what an earlier flush in the background raised."""
        if self._flush is not None:
            running, self._flush = self._flush, None
            await running
        await self._append()

    def _start_flush(self) -> None:
        self._timer = None
        self._flush = asyncio.get_running_loop().create_task(self._write_pending(self._flush))

    async def _write_pending(self, earlier: "asyncio.Task[None] | None") -> None:
        if earlier is not None:
            await earlier
        await self._append()

    async def _append(self) -> None:
        if rows := self.take():
            try:
                await self._runs.append_rows(rows)
            except StoreError:
                self._pending[:0] = rows  # for the next write: it may succeed
                raise
