"""Spans laid out: a lane per agent, and in it as many rows as it did things at the same time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from artifactflow_nb.plots.spans import Span
from artifactflow_nb.text.figures import count

MAX_ROWS = 10
MAX_LANES = 60
_SAME_MS = 1.0
"""Two clocks take part: what ends and what follows may overlap by this much."""


@dataclass(frozen=True, slots=True)
class Lane:
    """What one agent did in one run.

    Attributes:
        group: The run, where several are drawn; else empty.
        name: The agent.
        rows: Its spans, in rows within which none overlap.
        n_left_out: How many had no room: more than `MAX_ROWS` at the same time.
    """

    group: str
    name: str
    rows: tuple[tuple[Span, ...], ...]
    n_left_out: int = 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Spans drawn as one bar: a single one, or neighbours that would be too narrow to tell apart."""

    spans: tuple[Span, ...]
    start_ms: float
    end_ms: float


def lanes_of(spans: Sequence[Span], now_ms: float) -> tuple[Lane, ...]:
    """Lanes in the order in which runs and agents appear; spans must be in the order of their beginning."""
    by_lane: dict[tuple[str, str], list[Span]] = {}
    groups = dict.fromkeys(span.group for span in spans)
    for span in spans:
        by_lane.setdefault((span.group, span.lane), []).append(span)
    order = {group: place for place, group in enumerate(groups)}
    keys = sorted(by_lane, key=lambda key: order[key[0]])
    return tuple(_lane(*key, by_lane[key], now_ms) for key in keys)


def _lane(group: str, name: str, spans: Sequence[Span], now_ms: float) -> Lane:
    rows: list[list[Span]] = []
    free_from: list[float] = []
    left_out = 0
    for span in spans:
        place = next((i for i, free in enumerate(free_from) if free <= span.start_ms + _SAME_MS), len(rows))
        if place == MAX_ROWS:
            left_out += 1
            continue
        if place == len(rows):
            rows.append([])
            free_from.append(0.0)
        rows[place].append(span)
        free_from[place] = span.until(now_ms)
    return Lane(group, name, tuple(map(tuple, rows)), left_out)


def clusters(row: Sequence[Span], now_ms: float, narrow_ms: float) -> Iterator[Cluster]:
    """The bars of a row: spans shorter than `narrow_ms` that are no further apart than that, of one kind, are one."""
    pending: list[Span] = []
    for span in row:
        if pending and not _joins(pending, span, now_ms, narrow_ms):
            yield _cluster(pending, now_ms)
            pending = []
        pending.append(span)
    if pending:
        yield _cluster(pending, now_ms)


def _joins(pending: Sequence[Span], span: Span, now_ms: float, narrow_ms: float) -> bool:
    last = pending[-1]
    return (
        span.kind == last.kind
        and span.start_ms - last.until(now_ms) <= narrow_ms
        and span.until(now_ms) - span.start_ms <= narrow_ms
        and last.until(now_ms) - last.start_ms <= narrow_ms
    )


def _cluster(spans: Sequence[Span], now_ms: float) -> Cluster:
    return Cluster(tuple(spans), spans[0].start_ms, spans[-1].until(now_ms))


def left_out(lanes: Sequence[Lane]) -> list[str]:
    """What is not drawn, in words."""
    crowded = sum(lane.n_left_out for lane in lanes[:MAX_LANES])
    beyond = len(lanes) - MAX_LANES
    notes = []
    if crowded:
        noun = "bar is" if crowded == 1 else "bars are"
        notes.append(f"{crowded:,} {noun} not drawn: more than {MAX_ROWS} at the same time in a lane.")
    if beyond > 0:
        notes.append(f"{count(beyond, 'more lane')} not drawn.")
    return notes
