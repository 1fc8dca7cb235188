"""Time and identity, the two things that differ between identical runs.

Both are protocols with a shipped fake, so that a run can be repeated exactly.
"""

import hashlib
import secrets
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never set back: for durations."""


class Ids(Protocol):
    """Where identifiers come from."""

    def new(self, prefix: str) -> str:
        """A new id `<prefix>-<suffix>`, unique in the store."""


def derived_id(prefix: str, *place: str | int) -> str:
    """The id of what stands at a place inside something that has an id: the same place has the same id.

    So nothing inside a run needs an id of its own in a recording, and a replayed run has the ids of the recorded one.
    """
    named = "\x1f".join(map(str, place)).encode()
    return f"{prefix}-{hashlib.sha256(named).hexdigest()[:16]}"


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The machine's time of day in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """The machine's monotonic clock, in seconds."""
        return time.perf_counter()


class RandomIds:
    """Ids with 64 random bits."""

    def new(self, prefix: str) -> str:
        """A new id with 16 random hexadecimal digits."""
        return f"{prefix}-{secrets.token_hex(8)}"


class SteppingClock:
    """A clock that moves on by a fixed step at each reading.

    Args:
        start: The first time of day that it gives.
        step_ms: Milliseconds between two readings.
    """

    def __init__(self, start: datetime | None = None, step_ms: float = 1.0) -> None:
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._step = timedelta(milliseconds=step_ms)
        self._readings = 0

    def now(self) -> datetime:
        """The start and one step for each reading so far."""
        self._readings += 1
        return self._start + self._step * self._readings

    def monotonic(self) -> float:
        """Seconds since the start, one step later than the last reading."""
        return (self.now() - self._start).total_seconds()


class CountingIds:
    """Ids that count up from 1 for each prefix: `run-0001`, `run-0002`."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def new(self, prefix: str) -> str:
        """The next id of this prefix."""
        self._counts[prefix] += 1
        return f"{prefix}-{self._counts[prefix]:04d}"
