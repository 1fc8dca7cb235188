"""Clock and id generator, the two sources of difference between otherwise identical runs.

Both are protocols; `artifactflow_nb.testing` has deterministic fakes.
"""

import hashlib
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Source of time."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start; never decreases. For durations."""


class Ids(Protocol):
    """Generator of identifiers."""

    def new(self, prefix: str) -> str:
        """Return a new id `<prefix>-<suffix>`, unique in the store."""


def derived_id(prefix: str, *place: str | int) -> str:
    """Derive an id from a parent's id and a position in it; equal arguments give equal ids.

    A run that is resumed or verified therefore has the same ids again.
    """
    key = "\x1f".join(
        map(str, place)
    ).encode()  # a separator that no id contains keeps ("a", "bc") and ("ab", "c") apart
    return f"{prefix}-{hashlib.sha256(key).hexdigest()[:16]}"


def call_id(run_id: str, job_id: str, step: int, attempt: int) -> str:
    """Return the id of a model call."""
    return derived_id("call", run_id, job_id, step, attempt)


def tool_call_id(call_id: str, position: int) -> str:
    """Return the id of a tool call in a reply, by its position from 0."""
    return derived_id("tool", call_id, position)


def request_id(subject: str) -> str:
    """Return the id of the approval request about a subject: a tool call, a budget, or an interrupt of a graph."""
    return derived_id("req", subject)


class SystemClock:
    """The system clock."""

    def now(self) -> datetime:
        """Return the system time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the system's performance counter in seconds."""
        return time.perf_counter()


class RandomIds:
    """Ids with 64 random bits."""

    def new(self, prefix: str) -> str:
        """Return a new id with 16 random hexadecimal digits."""
        return f"{prefix}-{secrets.token_hex(8)}"
