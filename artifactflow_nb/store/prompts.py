"""Storage of prompts: complete, or as the difference to the previous call of the same job.

::

    request_base   request_json
    NULL           [message, ...]                                  the whole prompt
    call-7         [[0, 2], message, [4, 81], message, message]    ranges of the prompt of call-7, and new messages

A message is `[role, hash of the text]`, followed by the native calls if the message has any. Ranges are half-open,
in order and do not overlap. A complete prompt is stored after `MAX_CHAIN` calls, which limits the cost of reading, and
whenever less than half of a prompt is shared with the previous one.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from artifactflow_nb.core.messages import Message
from artifactflow_nb.errors import StoreError
from artifactflow_nb.store.encoding import sha256, to_json

T = TypeVar("T")

MAX_CHAIN = 100
"""Most calls in a chain of base prompts before a complete prompt is stored again."""

_CACHED_JOBS = 64  # more than run in parallel; the prompt of another job is read from the store

_CHAIN = """
WITH RECURSIVE chain (call_id, request_base, request_json, depth) AS (
    SELECT call_id, request_base, request_json, 0 FROM llm_calls WHERE call_id = ?1
    UNION ALL
    SELECT l.call_id, l.request_base, l.request_json, depth + 1
    FROM chain c JOIN llm_calls l ON l.call_id = c.request_base WHERE depth < ?2
)
SELECT call_id, request_base, request_json FROM chain ORDER BY depth DESC
"""

_LAST = "SELECT call_id FROM llm_calls WHERE run_id = ? AND job_id = ? ORDER BY rowid DESC LIMIT 1"


@dataclass(frozen=True, slots=True)
class StoredPrompt:
    """A call's prompt in its stored form.

    Attributes:
        entries: All messages of the prompt as JSON.
        depth: Number of base prompts in the chain below the prompt.
        base: The call whose prompt the ranges in `parts` refer to; None for a complete prompt.
        parts: The value of `request_json`.
        texts: Hashes and texts of the messages that are not in the base prompt.
        messages: The messages of the entries; empty for a prompt that was read from the store.
    """

    call_id: str
    entries: Sequence[str]
    depth: int
    base: str | None
    parts: str
    texts: Sequence[tuple[str, str]] = ()
    messages: Sequence[Message] = field(default=(), repr=False)


class PromptEncoder:
    """Encodes prompts for storage, with a cache of the last prompt of each job."""

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[str, str], StoredPrompt] = OrderedDict()

    def encode(
        self, db: sqlite3.Connection, job: tuple[str, str], call_id: str, messages: Sequence[Message]
    ) -> StoredPrompt:
        """Encode the prompt of a new call."""
        base = self._last.get(job)
        # The last call is not the cached call if another process continued the job, or if a write was lost.
        last = db.execute(_LAST, job).fetchone()
        if last is None:
            base = None
        elif base is None or base.call_id != last[0]:
            base = _load(db, last[0])
        # Most messages are the same objects as in the previous prompt, so the hashes of their texts are known.
        cached = {} if base is None else {id(m): e for m, e in zip(base.messages, base.entries, strict=False)}
        entries = [cached.get(id(message)) or _entry(message) for message in messages]
        if base is not None and base.depth < MAX_CHAIN:
            parts = shared_parts(base.entries, entries)
            new = [part for part in parts if isinstance(part, int)]
            if 2 * len(new) <= len(entries):
                parts_json = ",".join(
                    entries[part] if isinstance(part, int) else f"[{part[0]},{part[1]}]" for part in parts
                )
                texts = [(sha256(messages[index].content), messages[index].content) for index in new]
                return StoredPrompt(call_id, entries, base.depth + 1, base.call_id, f"[{parts_json}]", texts, messages)
        texts = [(sha256(message.content), message.content) for message in messages]
        return StoredPrompt(call_id, entries, 0, None, f"[{','.join(entries)}]", texts, messages)

    def remember(self, job: tuple[str, str], prompt: StoredPrompt) -> None:
        """Cache the last stored prompt of a job; called after the commit."""
        self._last[job] = prompt
        self._last.move_to_end(job)
        if len(self._last) > _CACHED_JOBS:
            self._last.popitem(last=False)

    def forget(self, job: tuple[str, str]) -> None:
        """Drop the cached prompt of a job."""
        self._last.pop(job, None)


def shared_parts(before: Sequence[str], now: Sequence[str]) -> list[int | tuple[int, int]]:
    """Encode the list `now` as ranges of the list `before` and, for entries missing in `before`, indices into `now`.

    Ranges are in order and do not overlap. There is one pass, so an entry that moved to an earlier place counts as new.
    """
    last_index = {entry: index for index, entry in enumerate(before)}
    parts: list[int | tuple[int, int]] = []
    start = end = 0  # the open range of `before`
    for index, entry in enumerate(now):
        if end < len(before) and before[end] == entry:
            end += 1
            continue
        if start < end:
            parts.append((start, end))
        if last_index.get(entry, -1) > end:
            start = before.index(entry, end)
            end = start + 1
        else:
            parts.append(index)
            start = end = min(end + 1, len(before))  # assume that one message was replaced by another
    if start < end:
        parts.append((start, end))
    return parts


def resolve(rows: Iterable[Mapping[str, Any]], make: Callable[[list[Any]], T]) -> dict[str, tuple[T, ...]]:
    """Decode the prompts of calls, by call id, in one pass.

    Args:
        rows: Rows of `llm_calls` in the order of storage, so that a base prompt comes before the calls that use it.
        make: Creates a message from its JSON; called once for each message that a row adds.

    Errors: `StoreError` if a base prompt is missing.
    """
    prompts: dict[str, tuple[T, ...]] = {}
    for row in rows:
        base: tuple[T, ...] = ()
        if (base_id := row["request_base"]) is not None:
            if base_id not in prompts:
                raise StoreError(
                    f"The prompt of the call {row['call_id']} is based on {base_id}, which is missing: "
                    "the file was edited or damaged. Use a copy from a backup."
                )
            base = prompts[base_id]
        messages: list[T] = []
        for part in orjson.loads(row["request_json"]):
            if is_range(part):
                messages += base[part[0] : part[1]]
            else:
                messages.append(make(part))
        prompts[row["call_id"]] = tuple(messages)
    return prompts


def is_range(part: Sequence[Any]) -> bool:
    """Return whether an element of `request_json` is a range of the base prompt and not a message."""
    return isinstance(part[0], int)


def load_prompt(db: sqlite3.Connection, call_id: str, make: Callable[[list[Any]], T]) -> tuple[T, ...]:
    """Decode the prompt of one call; `make` creates each message."""
    rows = [dict(row) for row in db.execute(_CHAIN, (call_id, MAX_CHAIN))]
    return resolve(rows, make)[call_id]


def request_hash(model: str, temperature: float | None, entries: Iterable[str]) -> str:
    """Return the hash of a request, which does not depend on the stored form of the prompt."""
    return sha256(f"{model}|{temperature}|[{','.join(entries)}]")


def _load(db: sqlite3.Connection, call_id: str) -> StoredPrompt:
    rows = [dict(row) for row in db.execute(_CHAIN, (call_id, MAX_CHAIN))]
    entries = resolve(rows, to_json)[call_id]
    return StoredPrompt(call_id, entries, len(rows) - 1, rows[-1]["request_base"], rows[-1]["request_json"])


def _entry(message: Message) -> str:
    """Convert a message to JSON: role, hash of the text and, if there are any, native calls."""
    calls = [[call.name, dict(call.params)] for call in message.calls]
    key = sha256(message.content)
    return to_json([message.role, key, calls] if calls else [message.role, key])
