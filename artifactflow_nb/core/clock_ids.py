"""Clock and id generator, the sources of all values that differ between equal runs; and the clock of one run.

`Clock` and `Ids` are protocols; `artifactflow_nb.testing` has deterministic fakes.
"""

import hashlib
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
    """Derive an id from a parent's id and a position in the parent; equal arguments give equal ids.

    A run that is resumed or verified therefore has the same ids again.
    """
    key = "\x1f".join(
        map(str, place)
    ).encode()  # a separator that no id contains keeps ("a", "bc") and ("ab", "c") apart
    return f"{prefix}-{hashlib.sha256(key).hexdigest()[:16]}"


def call_id(run_id: str, job_id: str, step: int, attempt: int) -> str:
    """Return the id of an attempt of a turn; equal arguments give the same id."""
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


@dataclass(slots=True)
class CallTimes:
    """Times of a call by `RunClock.monotonic`, for a call that is reported later than it happens.

    Attributes:
        first_piece: Time when the first piece of the reply arrived, or None.
        ended: Time when the call ended, or None.
    """

    started: float
    first_piece: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A call in progress.

    Attributes:
        started: Monotonic time of the start in seconds; None for a call that an earlier process started.
    """

    at: datetime
    started: float | None


class RunClock:
    """Clock of a run: the time of day in whole milliseconds, which never goes back.

    If the time of day is set back, the clock continues from its last time with the monotonic clock; if the time of
    day is set forward, the clock follows. So durations are never negative, and events are in the order of their times.

    Args:
        clock: The source of time.
        not_before: The time of the run's last event: the clock of another process may have been ahead.
    """

    def __init__(self, clock: Clock, not_before: datetime) -> None:
        self._clock = clock
        self._origin = not_before - timedelta(seconds=clock.monotonic())
        self._latest = not_before

    def now(self) -> datetime:
        """Return the time in whole milliseconds, never earlier than before."""
        time_of_day, elapsed = self._clock.now(), timedelta(seconds=self._clock.monotonic())
        self._origin = max(self._origin, time_of_day - elapsed)
        self._latest = max(whole_ms(self._origin + elapsed), self._latest)
        return self._latest

    def monotonic(self) -> float:
        """Return the monotonic clock in seconds; may be called in any thread."""
        return self._clock.monotonic()

    def start(self, times: CallTimes | None = None) -> Span:
        """Start to measure a call: from now, or from the start in `times`."""
        now, elapsed = self.now(), self._clock.monotonic()
        started = elapsed if times is None else times.started
        return Span(whole_ms(now - timedelta(seconds=elapsed - started)), started)

    def stop(self, span: Span, times: CallTimes | None = None) -> tuple[datetime, float]:
        """Return the end of a call (the end in `times`, or now) and its duration in milliseconds."""
        now, elapsed = self.now(), self._clock.monotonic()
        ended = elapsed if times is None or times.ended is None else times.ended
        at = max(whole_ms(now - timedelta(seconds=elapsed - ended)), span.at)
        seconds = (at - span.at).total_seconds() if span.started is None else ended - span.started
        return at, seconds * 1000


def whole_ms(moment: datetime) -> datetime:
    """Round a time down to whole milliseconds."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
