"""A scale for the time of a run, on which long stretches without any work are folded to a narrow band.

A person may take three hours to decide what an agent asked after three seconds; on an even scale nothing but the wait
would be seen.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from artifactflow_nb.plots.spans import WAIT, Span
from artifactflow_nb.plots.svg import tick_step

_FOLD_FROM_MS = 2000
_FOLD_SHARE = 0.6
_BAND_SHARE = 0.12


@dataclass(frozen=True, slots=True)
class Fold:
    """A stretch without work, and how long it looks, in milliseconds."""

    start_ms: float
    end_ms: float
    shown_ms: float

    @property
    def saved_ms(self) -> float:
        """How much shorter it looks than it is."""
        return self.end_ms - self.start_ms - self.shown_ms


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Where a moment is drawn. Everything is in milliseconds since the run began.

    Attributes:
        end_ms: The last moment.
        folds: The stretches that are folded, in order.
    """

    end_ms: float
    folds: tuple[Fold, ...] = ()

    @property
    def shown_ms(self) -> float:
        """How long the whole looks."""
        return self.at(self.end_ms)

    def at(self, ms: float) -> float:
        """A moment as it looks on the scale."""
        shown = ms
        for fold in self.folds:
            if ms >= fold.end_ms:
                shown -= fold.saved_ms
            elif ms > fold.start_ms:
                part = (ms - fold.start_ms) / (fold.end_ms - fold.start_ms)
                return shown - (ms - fold.start_ms) + part * fold.shown_ms
        return shown

    def ticks(self, n_most: int) -> list[float]:
        """Round moments, none of them in a fold."""
        if self.end_ms <= 0:
            return [0.0]
        step = tick_step(self.shown_ms / 1000, n_most) * 1000
        edges = [0.0, *(edge for fold in self.folds for edge in (fold.start_ms, fold.end_ms)), self.end_ms]
        return [tick for start, end in zip(edges[::2], edges[1::2], strict=True) for tick in _round(start, end, step)]


def _round(start: float, end: float, step: float) -> Iterator[float]:
    number = -int(-start // step)
    while number * step <= end + 1e-6:
        yield number * step
        number += 1


def time_scale(spans: Sequence[Span], now_ms: float) -> TimeScale:
    """The scale for these spans, up to now where some of them go on."""
    end = max((span.until(now_ms) for span in spans), default=0.0)
    gaps = list(_gaps(_work(spans, now_ms), end))
    work_ms = end - sum(stop - start for start, stop in gaps)
    shown = max(work_ms * _BAND_SHARE, 1.0)
    longest = max(work_ms * _FOLD_SHARE, _FOLD_FROM_MS)
    folds = (Fold(start, stop, shown) for start, stop in gaps if stop - start > longest and work_ms > 0)
    return TimeScale(end, tuple(folds))


def _work(spans: Iterable[Span], now_ms: float) -> list[tuple[float, float]]:
    """When a model or a tool was at work; a delegation is the work of those that it went to."""
    busy = (span for span in spans if span.kind != WAIT and not span.is_delegation)
    return sorted((span.start_ms, span.until(now_ms)) for span in busy)


def _gaps(work: Iterable[tuple[float, float]], end_ms: float) -> Iterator[tuple[float, float]]:
    """The stretches in which nothing was at work."""
    until = 0.0
    for start, stop in work:
        if start > until:
            yield until, start
        until = max(until, stop)
    if end_ms > until:
        yield until, end_ms
