"""Clock of one run: times in whole milliseconds that never go back."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from artifactflow_nb.core.clock_ids import Clock


@dataclass(slots=True)
class CallTimes:
    """Times of a call by `RunClock.monotonic`, for a call that is reported later than it happens.

    Attributes:
        started: When it started.
        first_piece: When the first piece of its reply arrived; None before that.
        ended: When it ended; None before that.
    """

    started: float
    first_piece: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A call in progress.

    Attributes:
        at: When it started.
        started: The monotonic clock then, in seconds; None for a call that an earlier process started.
    """

    at: datetime
    started: float | None


class RunClock:
    """The time of day in whole milliseconds, but never back.

    If the time of day is set back, the clock continues from its last time with the monotonic clock; if it is set
    forward, the clock follows. So durations are never negative, and events are in the order of their times.

    Args:
        clock: The source of time.
        not_before: The time of the run's last event: another process may have had another time of day.
    """

    def __init__(self, clock: Clock, not_before: datetime) -> None:
        self._clock = clock
        self._origin = not_before - timedelta(seconds=clock.monotonic())
        self._latest = not_before

    def now(self) -> datetime:
        """Return the time."""
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
        """Return the end of a call, which is now unless `times` has it, and its duration in milliseconds."""
        now, elapsed = self.now(), self._clock.monotonic()
        ended = elapsed if times is None or times.ended is None else times.ended
        at = max(whole_ms(now - timedelta(seconds=elapsed - ended)), span.at)
        seconds = (at - span.at).total_seconds() if span.started is None else ended - span.started
        return at, seconds * 1000


def whole_ms(moment: datetime) -> datetime:
    """Round a time down to whole milliseconds."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
