"""Layout of spans: a lane per agent with a row per parallel activity, and a time scale with folded gaps.

A person may take three hours to decide on a request that came after three seconds. On a linear scale only the wait
would be visible, so long gaps without work are drawn as narrow bands.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from artifactflow_nb.analysis.plots.spans import WAIT, TimelineSpan
from artifactflow_nb.analysis.plots.svg import tick_step
from artifactflow_nb.core.language import Texts

# Gaps longer than this, and longer than this share of the total work time, are folded to a band of another share.
_MIN_FOLD_MS = 2000
_MIN_FOLD_SHARE = 0.6
_BAND_SHARE = 0.12


@dataclass(frozen=True, slots=True)
class IdleGap:
    """A folded gap without work: its start, its end and its drawn length, in milliseconds."""

    start_ms: float
    end_ms: float
    drawn_ms: float

    @property
    def saved_ms(self) -> float:
        """Difference between the actual and the drawn length."""
        return self.end_ms - self.start_ms - self.drawn_ms


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Mapping of times to positions, both in milliseconds since the start of the run.

    Attributes:
        end_ms: End of the scale.
        folds: Folded gaps, in order.
    """

    end_ms: float
    folds: tuple[IdleGap, ...] = ()

    @property
    def drawn_ms(self) -> float:
        """Drawn length of the whole scale."""
        return self.position(self.end_ms)

    def position(self, ms: float) -> float:
        """Position of a time on the scale."""
        position = ms
        for fold in self.folds:
            if ms >= fold.end_ms:
                position -= fold.saved_ms
            elif ms > fold.start_ms:
                part = (ms - fold.start_ms) / (fold.end_ms - fold.start_ms)
                return position - (ms - fold.start_ms) + part * fold.drawn_ms
        return position

    def ticks(self, n_most: int) -> list[float]:
        """Round times outside the folds, about `n_most`."""
        if self.end_ms <= 0:
            return [0.0]
        step = tick_step(self.drawn_ms / 1000, n_most) * 1000
        edges = [0.0, *(edge for fold in self.folds for edge in (fold.start_ms, fold.end_ms)), self.end_ms]
        ticks = []
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            first, last = -int(-start // step), int((end + 1e-6) // step)  # the first is rounded up
            ticks += [number * step for number in range(first, last + 1)]
        return ticks


def time_scale(spans: Sequence[TimelineSpan], now_ms: float) -> TimeScale:
    """Build the scale for spans; running ones extend to `now_ms`."""
    end = max((span.end_at(now_ms) for span in spans), default=0.0)
    # A delegation counts by the spans of the job that it covers.
    working = (span for span in spans if span.kind != WAIT and not span.is_delegation)
    gaps, free_from = [], 0.0
    for start, stop in [*sorted((span.start_ms, span.end_at(now_ms)) for span in working), (end, end)]:
        if start > free_from:
            gaps.append((free_from, start))
        free_from = max(free_from, stop)
    work_ms = end - sum(stop - start for start, stop in gaps)
    band_ms = max(work_ms * _BAND_SHARE, 1.0)
    longest = max(work_ms * _MIN_FOLD_SHARE, _MIN_FOLD_MS)
    folds = (IdleGap(start, stop, band_ms) for start, stop in gaps if stop - start > longest and work_ms > 0)
    return TimeScale(end, tuple(folds))


MAX_ROWS = 10
MAX_LANES = 60
_OVERLAP_MS = 1.0
"""Tolerance for an overlap: start and end may come from two clocks."""


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """Spans of one agent in one run.

    Attributes:
        group: The run if several are drawn, else empty.
        name: Name of the agent.
        rows: Spans in rows without overlaps.
        n_left_out: Number of spans that are not drawn, since more than `MAX_ROWS` overlap.
    """

    group: str
    name: str
    rows: tuple[tuple[TimelineSpan, ...], ...]
    n_left_out: int = 0


@dataclass(frozen=True, slots=True)
class SpanCluster:
    """Spans drawn as one bar: a single span, or neighbours that are too narrow to distinguish."""

    spans: tuple[TimelineSpan, ...]
    start_ms: float
    end_ms: float


def build_lanes(spans: Sequence[TimelineSpan], now_ms: float) -> tuple[TimelineLane, ...]:
    """Arrange spans, sorted by start, in lanes; runs and agents are in the order of their first span."""
    by_lane: dict[tuple[str, str], list[TimelineSpan]] = {}
    groups = dict.fromkeys(span.group for span in spans)
    for span in spans:
        by_lane.setdefault((span.group, span.lane), []).append(span)
    order = {group: index for index, group in enumerate(groups)}
    keys = sorted(by_lane, key=lambda key: order[key[0]])
    return tuple(_lane(*key, by_lane[key], now_ms) for key in keys)


def _lane(group: str, name: str, spans: Sequence[TimelineSpan], now_ms: float) -> TimelineLane:
    rows: list[list[TimelineSpan]] = []
    free_from: list[float] = []
    n_left_out = 0
    for span in spans:
        index = next((i for i, free in enumerate(free_from) if free <= span.start_ms + _OVERLAP_MS), len(rows))
        if index == MAX_ROWS:
            n_left_out += 1
            continue
        if index == len(rows):
            rows.append([])
            free_from.append(0.0)
        rows[index].append(span)
        free_from[index] = span.end_at(now_ms)
    return TimelineLane(group, name, tuple(map(tuple, rows)), n_left_out)


def clusters(row: Sequence[TimelineSpan], now_ms: float, narrow_ms: float) -> Iterator[SpanCluster]:
    """Group a row into bars: neighbours of a kind merge if they and the gap between them are below `narrow_ms`."""
    pending: list[TimelineSpan] = []
    for span in row:
        if pending:
            last = pending[-1]
            joins = (
                span.kind == last.kind
                and span.start_ms - last.end_at(now_ms) <= narrow_ms
                and span.end_at(now_ms) - span.start_ms <= narrow_ms
                and last.end_at(now_ms) - last.start_ms <= narrow_ms
            )
            if not joins:
                yield _cluster(pending, now_ms)
                pending = []
        pending.append(span)
    if pending:
        yield _cluster(pending, now_ms)


def _cluster(spans: Sequence[TimelineSpan], now_ms: float) -> SpanCluster:
    return SpanCluster(tuple(spans), spans[0].start_ms, spans[-1].end_at(now_ms))


def omission_notes(lanes: Sequence[TimelineLane], texts: Texts) -> list[str]:
    """Sentences about the spans and lanes that are not drawn."""
    crowded = sum(lane.n_left_out for lane in lanes[:MAX_LANES])
    beyond = len(lanes) - MAX_LANES
    notes = [texts("bars_crowded", bars=texts.count(crowded, "n_bars"), most=MAX_ROWS)] if crowded else []
    return [*notes, texts("not_drawn", omitted=texts.count(beyond, "n_more_lanes"))] if beyond > 0 else notes
