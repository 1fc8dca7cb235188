"""The events of a run for one reader, who may be slow, and their encoding as server-sent events.

::

    engine's thread   EventFeed ──> EventQueue.put      never waits for the reader
    server's loop     EventQueue ──> EventQueue.batches ──> sse ──> the connection

The events of a batch are sent together: a wake-up and a write for every piece of text would cost more than the piece.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson

from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.store.encoding import to_json

BATCH_INTERVAL_S = 0.03
"""Time in which events are collected for one write; below what a reader of text notices."""
PING_INTERVAL_S = 15.0
MAX_CHUNKS = 512
"""Most pieces of text that wait for a reader; more are replaced by the text so far."""
MAX_DISORDER_S = 0.25
"""Longest wait for an event whose number is missing: it was numbered first and is being stored."""

PING = b": ping\n\n"


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event for a reader.

    Attributes:
        event: The event.
        with_text: Whether it replaces the text so far of its model call instead of adding to it.
    """

    event: StreamEvent
    with_text: bool = False

    @property
    def is_pause(self) -> bool:
        """Whether the run waits for a decision from here on."""
        return self.event.type is StreamEventType.COMPLETE and not self.event.is_terminal


class EventQueue:
    """The events of a run that wait for one reader.

    Args:
        after: The number of the last event that the reader has.
        is_driving: Returns whether this process drives the run, so that every number arrives.
        max_chunks: Most pieces of text to hold.

    Attributes:
        last_seq: The number of the last event that the run published.
    """

    def __init__(self, after: int, is_driving: Callable[[], bool], max_chunks: int = MAX_CHUNKS) -> None:
        self.last_seq = 0
        self.has_ended = False
        self._after = after
        self._is_driving = is_driving
        self._max_chunks = max_chunks
        self._waiting: list[SentEvent] = []
        self._n_chunks = 0
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._has_events = asyncio.Event()
        self._is_woken = False

    def put(self, event: StreamEvent) -> None:
        """Add an event; called on the engine's thread."""
        self.last_seq = max(self.last_seq, event.seq)
        self.has_ended = self.has_ended or event.is_terminal
        if event.seq <= self._after:
            return
        with self._lock:
            self._waiting.append(SentEvent(event))
            if event.type is StreamEventType.LLM_CHUNK:
                self._n_chunks += 1
                if self._n_chunks > self._max_chunks:
                    self._merge_chunks()
            is_woken, self._is_woken = self._is_woken, True
        if not is_woken:
            self.wake()

    def _merge_chunks(self) -> None:
        """Replace the waiting pieces of each text by the newest one, which then carries the text so far."""
        stored, newest = [], dict[tuple[str, str], SentEvent]()
        for sent in self._waiting:
            if sent.event.type is StreamEventType.LLM_CHUNK:
                newest[sent.event.data["call_id"], sent.event.data["kind"]] = SentEvent(sent.event, with_text=True)
            else:
                stored.append(sent)
        self._waiting = [*stored, *newest.values()]
        self._n_chunks = len(newest)

    def wake(self) -> None:
        """Make the reader look again."""
        with suppress(RuntimeError):  # the server's loop is closed
            self._loop.call_soon_threadsafe(self._has_events.set)

    def _take(self) -> list[SentEvent]:
        self._has_events.clear()
        with self._lock:
            taken, self._waiting = self._waiting, []
            self._n_chunks, self._is_woken = 0, False
        return sorted(taken, key=_number)

    @property
    def is_empty(self) -> bool:
        """Whether no event waits for the reader."""
        return not self._has_events.is_set()

    async def batches(self) -> AsyncIterator[Sequence[SentEvent]]:
        """Yield the events in the order of their numbers, up to the end of the run; an empty batch after a silence."""
        expected = 0
        while True:
            try:
                await asyncio.wait_for(self._has_events.wait(), PING_INTERVAL_S)
            except TimeoutError:
                yield ()
                continue
            taken, deadline = self._take(), self._loop.time() + MAX_DISORDER_S
            while expected and _has_gap(expected, taken) and self._is_driving() and self._loop.time() < deadline:
                await asyncio.sleep(BATCH_INTERVAL_S)
                taken = sorted([*taken, *self._take()], key=_number)
            if taken:
                yield taken
                expected = taken[-1].event.seq + 1
                if taken[-1].event.is_terminal:
                    return
                await asyncio.sleep(BATCH_INTERVAL_S)


def _number(sent: SentEvent) -> int:
    return sent.event.seq


def _has_gap(expected: int, batch: Sequence[SentEvent]) -> bool:
    """Whether a number is missing from `expected` on."""
    return any(sent.event.seq != number for number, sent in enumerate(batch, expected))


def encode(batch: Sequence[SentEvent], *, cumulative: bool = False) -> bytes:
    """Encode events as server-sent events; an empty batch as a comment, which keeps the connection open.

    Args:
        batch: The events.
        cumulative: Add the text so far to the pieces of text, and leave out all but the newest piece of each text.
    """
    if not batch:
        return PING
    if cumulative:
        newest = {_text_of(sent): sent.event.seq for sent in batch}
        batch = [replace(sent, with_text=True) for sent in batch if newest[_text_of(sent)] == sent.event.seq]
    return b"".join(map(_encode_event, batch))


def _text_of(sent: SentEvent) -> object:
    """The text to which a piece belongs; for other events their number."""
    event = sent.event
    return (event.data["call_id"], event.data["kind"]) if event.type is StreamEventType.LLM_CHUNK else event.seq


def _encode_event(sent: SentEvent) -> bytes:
    event = sent.event
    value: dict[str, Any] = {"type": event.type, "timestamp": event.timestamp}
    if event.agent is not None:
        value["agent"] = event.agent
    if event.tool is not None:
        value["tool"] = event.tool
    value["data"] = event.data
    if sent.with_text and event.type is StreamEventType.LLM_CHUNK:
        value["data"] = {**event.data, "content": event.content}
    try:
        data = orjson.dumps(value, option=orjson.OPT_UTC_Z)
    except TypeError:  # a value that JSON cannot hold, such as an integer of more than 64 bits
        data = to_json(value).encode()
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.value.encode(), data)
