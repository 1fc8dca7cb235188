"""The clock of one run: its time goes on where something comes from outside, and stands still in between.

::

    start ──> tick ──> tick ──> stop        a model call or a tool call, in the lane of its job
                                  └───────> what the engine then does has the time of that

So the times of a run follow from those of what came from outside, and a recording needs no others. A lane is what
happens one after the other: a job by its id, or `RUN` for the run as a whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from artifactflow_nb.ambient import Clock

RUN = "run"
"""The lane of what no single job does: the run's beginning, its pauses and its end."""

ASIDE = "aside"
"""The lane of what is no doing of the run, and need not come again when it is played: what went wrong in middleware."""


@dataclass(frozen=True, slots=True)
class Span:
    """A call that goes on.

    Attributes:
        key: The call's id.
        lane: The job that waits for it.
        at: When it began.
        started: The monotonic clock then, in seconds; None if that is recorded, or was before the
            run was taken up again.
    """

    key: str
    lane: str
    at: datetime
    started: float | None


@dataclass(frozen=True, slots=True)
class Left:
    """Where a run stands whose process is gone.

    Attributes:
        since: When it went on last: after its last pause, or when it began.
        moments: When something last came from outside in each lane since then; empty if nothing did.
    """

    since: datetime
    moments: Mapping[str, datetime]


class RunClock:
    """The time of day in whole milliseconds, but never back.

    Where the time of day is set back, it goes on from where it was, as fast as the monotonic clock; where it is set
    forward, it follows. So durations in a run are never negative, and its events are in the order of their times.

    Args:
        clock: The clock.
        not_before: The time of the run's last event: another process may have had another time of day.
    """

    def __init__(self, clock: Clock, not_before: datetime) -> None:
        self._clock = clock
        self._origin = not_before - timedelta(seconds=clock.monotonic())
        self._since = self._latest = not_before
        self._moments: dict[str, datetime] = {}

    def now(self, lane: str = RUN) -> datetime:
        """When something last came from outside in a lane; since when the run is driven, if nothing did."""
        return self._moments.get(lane, self._since)

    @property
    def latest(self) -> datetime:
        """When something last came from outside, in any lane."""
        return self._latest

    def follow(self, lane: str, other: str) -> None:
        """Note that a lane goes on where another is."""
        self._moments[lane] = self.now(other)

    def read(self, lane: str = RUN) -> datetime:
        """The time of day; it is the lane's from now on."""
        self._latest = self._moments[lane] = max(whole_ms(self._present()), self._latest)
        return self._latest

    @property
    def present(self) -> datetime:
        """The time of day in whole milliseconds, without noting it anywhere."""
        return max(whole_ms(self._present()), self._latest)

    def _present(self) -> datetime:
        time_of_day, elapsed = self._clock.now(), timedelta(seconds=self._clock.monotonic())
        self._origin = max(self._origin, time_of_day - elapsed)
        return self._origin + elapsed

    def start(self, key: str, lane: str) -> Span:
        """Begin to measure a call, by its id."""
        return Span(key, lane, self.read(lane), self._clock.monotonic())

    def resume(self, key: str, lane: str, at: datetime) -> Span:
        """Go on with a call that began at this time, before the run was taken up again."""
        self._moments[lane] = max(self.now(lane), at)
        return Span(key, lane, at, None)

    def tick(self, span: Span) -> datetime:
        """Note that a piece of what the call gives has arrived."""
        return self.read(span.lane)

    def stop(self, span: Span) -> tuple[datetime, float]:
        """Note that the call is over: when, and after how many milliseconds."""
        at = self.read(span.lane)
        seconds = (at - span.at).total_seconds() if span.started is None else self._clock.monotonic() - span.started
        return at, seconds * 1000

    def go_on(self, at: datetime) -> None:
        """Note that the run goes on after a pause, at this time in all its lanes."""
        self._since, self._latest = at, max(self._latest, at)
        self._moments.clear()

    def take_up(self, left: Left) -> None:
        """Note that the run goes on after its process was gone: each of its lanes is where it was."""
        self._since, self._moments = left.since, dict(left.moments)
        self._latest = max(self._latest, left.since, *left.moments.values())


@dataclass(frozen=True, slots=True)
class Times:
    """When a recorded call began, when its pieces arrived and when it was over; None if its run ended before it."""

    started_at: datetime
    completed_at: datetime | None
    duration_ms: float
    pieces: tuple[datetime, ...] = ()


class RecordedClock(RunClock):
    """The times of a recorded run; of what is not recorded, the time that passes.

    Args:
        clock: The clock for what is not recorded.
        not_before: The time of the run's last event.
        spans: The times of recorded calls, by their ids.
        reads: The recorded times of lanes that tell something by themselves, in order.
    """

    def __init__(
        self,
        clock: Clock,
        not_before: datetime,
        spans: Mapping[str, Times],
        reads: Mapping[str, Sequence[datetime]],
    ) -> None:
        super().__init__(clock, not_before)
        self._spans = dict(spans)
        self._reads = {lane: iter(times) for lane, times in reads.items()}
        self._ticks: dict[str, Iterator[datetime]] = {}
        self._has_parted = False

    def forget(self, key: str) -> None:
        """Take the time of day for a call, by its id: it is made anew."""
        self._spans.pop(key, None)

    def part(self) -> None:
        """Go on from the last recorded moment, as fast as time passes: the run goes another way from here.

        The time of day may be days later, which nobody waited.
        """
        if not self._has_parted:
            self._has_parted = True
            self._reads.clear()
            self._origin = self._latest - timedelta(seconds=self._clock.monotonic())

    def _present(self) -> datetime:
        if not self._has_parted:
            return super()._present()
        return self._origin + timedelta(seconds=self._clock.monotonic())

    def read(self, lane: str = RUN) -> datetime:
        """The next recorded time of the lane; the time of day if there is none."""
        recorded = next(self._reads.get(lane, iter(())), None)
        return super().read(lane) if recorded is None else self.move(lane, recorded)

    def start(self, key: str, lane: str) -> Span:
        """Begin a call at its recorded time."""
        if (times := self._spans.get(key)) is None:
            return super().start(key, lane)
        self._ticks[key] = iter(times.pieces)
        return Span(key, lane, self.move(lane, times.started_at), None)

    def tick(self, span: Span) -> datetime:
        """The recorded time of the next piece."""
        recorded = next(self._ticks.get(span.key, iter(())), None)
        return super().tick(span) if recorded is None else self.move(span.lane, recorded)

    def stop(self, span: Span) -> tuple[datetime, float]:
        """The recorded end of a call, and how long it took."""
        times = self._spans.get(span.key)
        if times is None or times.completed_at is None:
            return super().stop(span)
        return self.move(span.lane, times.completed_at), times.duration_ms

    def move(self, lane: str, moment: datetime) -> datetime:
        """Note that a lane is at this time, which is recorded."""
        self._moments[lane] = moment
        self._latest = max(self._latest, moment)
        return moment


def whole_ms(moment: datetime) -> datetime:
    """A time without what is finer than a millisecond."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
