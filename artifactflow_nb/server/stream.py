"""The events of a run for one reader, who may be slow, and their encoding as server-sent events.

::

    engine's thread   EventFeed ──> EventQueue.put                       never waits for the reader
    server's loop     EventQueue.batches ──> encode ──> the connection

The events of a batch are sent together, because a wake-up and a write per piece of text would cost more than the piece.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import orjson

from artifactflow_nb.core.events import StreamedText, StreamEvent, StreamEventType
from artifactflow_nb.store.encoding import to_json

BATCH_INTERVAL_S = 0.03
"""Time in which events are collected for one write; below what a reader of text notices."""
PING_INTERVAL_S = 15.0
MAX_WAITING = 512
"""Number of waiting events above which a reader is slow, and gets the text so far instead of its pieces."""

T = TypeVar("T")

PING = b": ping\n\n"


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event for a reader.

    Attributes:
        with_text: Whether the event has the whole text so far of its model call, not only the new piece.
    """

    event: StreamEvent
    with_text: bool = False

    @property
    def is_pause(self) -> bool:
        """Whether the run waits for a decision after this event."""
        return self.event.type is StreamEventType.COMPLETE and not self.event.is_terminal


class Mailbox(Generic[T]):
    """A queue in which one thread puts items and the loop of another thread takes them.

    If more than `limit` items wait, `shorten` merges items; the limit grows if `shorten` cannot merge them.

    Attributes:
        is_closed: Whether the reader must stop.
    """

    def __init__(self, limit: int, shorten: Callable[[list[T]], list[T]]) -> None:
        self._limit = limit
        self._shorten = shorten
        self._items: list[T] = []
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._has_items = asyncio.Event()
        self._is_woken = False
        self.is_closed = False

    def put(self, item: T) -> None:
        """Add an item, from any thread."""
        with self._lock:
            self._items.append(item)
            if len(self._items) > self._limit:
                self._items = self._shorten(self._items)
                self._limit = max(self._limit, 2 * len(self._items))
            is_woken, self._is_woken = self._is_woken, True
        if not is_woken:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._has_items.set)

    @property
    def is_empty(self) -> bool:
        """Whether the mailbox has no items."""
        return not self._items

    async def wait(self) -> bool:
        """Return when there is an item or the mailbox is closed; False after `PING_INTERVAL_S`."""
        try:
            await asyncio.wait_for(self._has_items.wait(), PING_INTERVAL_S)
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Stop the reader; called on the reader's loop."""
        self.is_closed = True
        self._has_items.set()

    def take(self) -> list[T]:
        """Remove and return the items."""
        self._has_items.clear()
        with self._lock:
            items, self._items, self._is_woken = self._items, [], False
        return items


class EventQueue:
    """The events of a run that wait to be sent to one reader.

    Args:
        after: The number of the last event that the reader has received.
        max_waiting: Number of waiting events above which pieces of text are merged.

    Attributes:
        last_seq: The number of the last event that the run published.
        has_ended: Whether the run has published its end.
    """

    def __init__(self, after: int, max_waiting: int = MAX_WAITING) -> None:
        self.last_seq = 0
        self.has_ended = False
        self._after = after
        self._streamed: set[str] = set()
        self.mailbox = Mailbox[SentEvent](max_waiting, _merge_chunks)

    def put(self, event: StreamEvent) -> None:
        """Add an event; called on the engine's thread.

        Pieces of text are not stored. Before the end of a model call whose pieces came earlier than the reader, the
        reader gets one piece with the whole text. The piece has the number of a missing piece or, between the
        events of parallel jobs, the number of the previous event.
        """
        is_new = event.seq > self._after
        if event.type is StreamEventType.LLM_CHUNK:
            self._streamed.add(event.data["call_id"])
        elif event.type is StreamEventType.LLM_COMPLETE and is_new and event.data["call_id"] not in self._streamed:
            chunk = _whole_text(event, max(self.last_seq, event.seq - 1))
            if chunk.content:
                self.mailbox.put(SentEvent(chunk, with_text=True))
        self.last_seq = event.seq
        self.has_ended = self.has_ended or event.is_terminal
        if is_new:
            self.mailbox.put(SentEvent(event))

    async def batches(self) -> AsyncIterator[Sequence[SentEvent]]:
        """Yield the events by number, up to the end of the run; an empty batch after a while without events."""
        while True:
            if not await self.mailbox.wait():
                yield ()
                continue
            if self.mailbox.is_closed:
                return
            if batch := self.mailbox.take():
                yield batch
                if batch[-1].event.is_terminal:
                    return
                await asyncio.sleep(BATCH_INTERVAL_S)


def _whole_text(completed: StreamEvent, number: int) -> StreamEvent:
    """Create the chunk with the answer of a completed model call."""
    text = StreamedText()
    data = {"job_id": completed.data["job_id"], "call_id": completed.data["call_id"], "kind": "answer"}
    data |= {"delta": completed.data["text"]}
    return replace(
        completed,
        type=StreamEventType.LLM_CHUNK,
        seq=number,
        data=data,
        _text=text,
        _n_parts=text.append(completed.data["text"]),
    )


def _merge_chunks(waiting: list[SentEvent]) -> list[SentEvent]:
    """Replace the pieces of each text by the newest piece, which gets the text so far."""
    newest = {_text_of(sent): sent.event.seq for sent in waiting}
    return [replace(sent, with_text=True) for sent in waiting if newest[_text_of(sent)] == sent.event.seq]


def encode(batch: Sequence[SentEvent], *, cumulative: bool = False) -> bytes:
    """Encode events as server-sent events; an empty batch becomes a comment, which keeps the connection open.

    Args:
        batch: The events.
        cumulative: Send only the newest piece of each text, with the text so far.
    """
    if not batch:
        return PING
    if cumulative:
        batch = _merge_chunks(list(batch))
    return b"".join(map(_encode_event, batch))


def _text_of(sent: SentEvent) -> object:
    """Return the key of the text to which a chunk belongs; for another event, its number."""
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
    if event.type is StreamEventType.LLM_COMPLETE:  # a failed call has `retry` or `error` instead
        value["data"] = {**event.data, "content": event.data["text"], "success": True}
    try:
        data = orjson.dumps(value, option=orjson.OPT_UTC_Z)
    except TypeError:  # a value that JSON cannot hold, such as an integer of more than 64 bits
        data = to_json(value).encode()
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.value.encode(), data)
