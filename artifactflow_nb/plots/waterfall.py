"""The waterfall of a run as SVG: a lane per agent, a bar for each model call, tool call and wait for a person.

A bar says what it is by its shape too: a model call is round, with a tick where its first text came; a tool call has a
dark edge; a delegation is an outline around what it covers; a wait is hatched; a failure carries a cross.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from artifactflow_nb.plots.lanes import MAX_LANES, Cluster, Lane, clusters, lanes_of, left_out
from artifactflow_nb.plots.spans import MODEL, TOOL, WAIT, Span, last_moment
from artifactflow_nb.plots.svg import (
    BLUE,
    ORANGE,
    PAPER,
    PURPLE,
    VERMILLION,
    Fill,
    bar,
    heading,
    label,
    legend,
    nothing,
    picture,
    quiet,
    rule,
    text_px,
)
from artifactflow_nb.plots.timescale import TimeScale, time_scale
from artifactflow_nb.text.figures import count, duration

_GUTTER, _RIGHT, _TOP = 150, 56, 62
_ROW, _BAR, _LANE_PAD, _GROUP = 19, 14, 5, 24
_NARROW_PX = 1.6
_LABEL_COLUMNS = 22
_PLURALS = {MODEL: "model call", TOOL: "tool call", WAIT: "wait"}
_BAD = {"failed", "denied", "cancelled"}
_CROSS_ROOM, _EDGE_ROOM = 24, 9

MODEL_FILL = Fill("model", BLUE)
TOOL_FILL = Fill("tool", ORANGE, ink="#1f2328")
WAIT_FILL = Fill("waiting for a person", PURPLE, "hatched", ink="#1f2328")
_FILLS = {MODEL: MODEL_FILL, TOOL: TOOL_FILL, WAIT: WAIT_FILL}


def waterfall_svg(
    spans: Sequence[Span],
    now_ms: float | None = None,
    *,
    title: str = "Timeline",
    width: int = 860,
    notes: Sequence[str] = (),
) -> str:
    """Draw spans; those of several runs, told apart by their `group`, one run below the other.

    Args:
        spans: What to draw, in any order.
        now_ms: The moment up to which a span that goes on is drawn, in milliseconds since the run began; None for the
            last one known, and a little more.
        title: Its heading.
        width: Its width in pixels; a narrower place scales it down.
        notes: Sentences to write below.

    At most 10 things at the same time are drawn in a lane and 60 lanes; what is left out is said below. Bars too narrow
    to tell apart are drawn as one that says how many they are.
    """
    if not spans:
        return nothing(title, "Nothing has taken any time yet.")
    ordered = sorted(spans, key=lambda span: span.start_ms)
    if now_ms is None:
        now_ms = last_moment(ordered)
    lanes = lanes_of(ordered, now_ms)
    scale = time_scale(ordered, now_ms)
    plane = _Plane(scale, width - _GUTTER - _RIGHT, now_ms)
    shown = lanes[:MAX_LANES]
    below = [*left_out(lanes), *notes]
    body, bottom = _lanes(shown, plane)
    pieces = [heading(title), _key(), _axis(plane, bottom), *body, *_folds(plane, bottom)]
    pieces += [quiet(label(12, bottom + 36 + 16 * i, note, 120)) for i, note in enumerate(below)]
    high = bottom + 26 + 16 * len(below) + (8 if below else 0)
    return picture((width, high), title, describe(ordered, now_ms), *pieces)


def describe(spans: Sequence[Span], now_ms: float) -> str:
    """The picture in words: how long it took, who did how much of what."""
    end = max((span.until(now_ms) for span in spans), default=0.0)
    parts = []
    for kind, noun in _PLURALS.items():
        found = [span for span in spans if span.kind == kind]
        if found:
            busy_ms = sum(span.until(now_ms) - span.start_ms for span in found if not span.is_delegation)
            parts.append(f"{count(len(found), noun)} ({duration(busy_ms)})")
    failed = sum(span.status == "failed" for span in spans)
    agents = len({(span.group, span.lane) for span in spans})
    told = f"{duration(end)}; {count(agents, 'lane')}: {', '.join(parts)}"
    return f"{told}; {failed:,} failed." if failed else f"{told}."


@dataclass(frozen=True, slots=True)
class _Plane:
    """Where things are drawn: milliseconds to pixels."""

    scale: TimeScale
    width: float
    now_ms: float

    @property
    def px_per_ms(self) -> float:
        return self.width / (self.scale.shown_ms or 1.0)

    def x(self, ms: float) -> float:
        return _GUTTER + self.scale.at(ms) * self.px_per_ms


def _key() -> str:
    """What the shapes mean."""
    tick = '<path d="M4 -11v14" stroke="currentColor" stroke-width="1.6"/><path d="M1 -12h6l-3 4z"/>'
    cross = f'<g transform="translate(88 -4)">{_cross(0, 0)}</g>'
    extra = f"{tick}{label(12, 0, 'first token', 20)}{cross}{label(98, 0, 'failed, denied', 20)}"
    edge = f'<rect x="{12 + 19 + text_px("model") + 16:.1f}" y="33" width="3" height="10" fill="#1f2328"/>'
    outline = (
        '<g transform="translate(198 0)"><rect x="0" y="-9" width="14" height="10" rx="2" fill="none" '
        f'stroke="{ORANGE}" stroke-width="1.5" stroke-dasharray="3 2"/>{label(19, 0, "delegated", 20)}</g>'
    )
    return legend(12, 42, (MODEL_FILL, TOOL_FILL, WAIT_FILL), extra + outline) + edge


def _axis(plane: _Plane, bottom: float) -> str:
    """Seconds since the run began, with a faint line for each tick."""
    ticks = plane.scale.ticks(8)
    lines = "".join(rule(plane.x(tick), _TOP, bottom) for tick in ticks)
    words = "".join(
        label(plane.x(tick), bottom + 15, f"{tick / 1000:g} s", 14, more='text-anchor="middle"') for tick in ticks
    )
    return lines + quiet(words)


def _folds(plane: _Plane, bottom: float) -> Iterator[str]:
    """Bands where the scale is folded, each with the time that it stands for."""
    for fold in plane.scale.folds:
        left, right = plane.x(fold.start_ms), plane.x(fold.end_ms)
        edges = "".join(rule(x, _TOP, bottom, more='stroke-dasharray="2 3" stroke-opacity=".6"') for x in (left, right))
        shown = duration(fold.end_ms - fold.start_ms)
        yield edges + quiet(label((left + right) / 2, bottom + 15, f"⋯ {shown} ⋯", 24, more='text-anchor="middle"'))


def _lanes(lanes: Sequence[Lane], plane: _Plane) -> tuple[list[str], float]:
    """Every lane, and where the last one ends."""
    pieces: list[str] = []
    y: float = _TOP
    group = ""
    for index, lane in enumerate(lanes):
        if lane.group != group:
            group = lane.group
            pieces.append(label(12, y + 16, group, 60, more='font-weight="600"'))
            y += _GROUP
        high = len(lane.rows) * _ROW + 2 * _LANE_PAD
        if index % 2 == 0:
            right = _GUTTER + plane.width
            pieces.append(bar(6, y, right - 6, high, "currentColor", more='fill-opacity=".045"'))
        pieces.append(label(12, y + _LANE_PAD + 11, lane.name, _LABEL_COLUMNS))
        for row in lane.rows:
            pieces += _row(row, plane, y + _LANE_PAD)
            y += _ROW
        y += 2 * _LANE_PAD
    return pieces, y


def _row(row: Sequence[Span], plane: _Plane, y: float) -> Iterator[str]:
    found = list(clusters(row, plane.now_ms, _NARROW_PX / plane.px_per_ms))
    ends = [plane.x(cluster.start_ms) for cluster in found[1:]] + [_GUTTER + plane.width + _RIGHT]
    for cluster, room_until in zip(found, ends, strict=True):
        yield _cluster(cluster, plane, y, room_until)
    for cluster in found:  # above the bars: the next one may touch a narrow one that failed
        if _went_wrong(cluster):
            left, right = plane.x(cluster.start_ms), plane.x(cluster.end_ms)
            yield _cross(right - 8 if right - left > _CROSS_ROOM else (left + right) / 2, y + _BAR / 2)


def _went_wrong(cluster: Cluster) -> bool:
    """Whether a call of it failed or was denied; a wait did its part, whatever was decided."""
    return any(span.kind != WAIT and span.status in _BAD for span in cluster.spans)


def _cluster(cluster: Cluster, plane: _Plane, y: float, room_until: float) -> str:
    """One bar with its label: in it where there is room, else behind it."""
    span = cluster.spans[0]
    left = plane.x(cluster.start_ms)
    wide = max(plane.x(cluster.end_ms) - left, _NARROW_PX)
    words = span.detail if span.is_delegation and span.detail else span.name
    if len(cluster.spans) > 1:
        words = count(len(cluster.spans), _PLURALS[span.kind])
    shape = _shape(span, left, y, wide, _tip(cluster))
    tick = 0.0
    if span.first_token_ms is not None and len(cluster.spans) == 1:
        tick = plane.x(span.first_token_ms) - left
        shape += _tick(left + tick, y)
    marked = _went_wrong(cluster)
    return shape + _words(words, span, (left, y, wide, tick), room_until, 6 if marked else 0)


def _words(words: str, span: Span, place: tuple[float, float, float, float], room_until: float, shift: float) -> str:
    """The label of a bar at `place` (left, top, width, tick); nothing where it has no room."""
    left, y, wide, tick = place
    needed = text_px(words)
    inside = left + tick + 4 if wide - tick > needed + 8 else left + 4
    if min(wide, tick or wide) > needed + 8 or wide - tick > needed + 8:
        ink = "currentColor" if span.is_delegation else _FILLS[span.kind].ink
        halo = (
            ' stroke="#ffffff" stroke-opacity=".8" stroke-width="3" paint-order="stroke"' if span.kind == WAIT else ""
        )
        return label(inside, y + 11, words, 60, more=f'fill="{ink}"{halo}')
    if left + wide + 4 + shift + needed < room_until:
        return quiet(label(left + wide + 4 + shift, y + 11, words, 60))
    return ""


def _shape(span: Span, x: float, y: float, wide: float, tip: str) -> str:
    """The bar by itself."""
    going_on = ' stroke="currentColor" stroke-dasharray="2 2"' if span.end_ms is None else ""
    if span.is_delegation:
        outline = f'fill-opacity=".14" stroke="{ORANGE}" stroke-width="1.5" stroke-dasharray="3 2"'
        return bar(x, y + 1, wide, _BAR - 2, ORANGE, tip, more=f'rx="2" {outline}')
    drawn = bar(x, y, wide, _BAR, _FILLS[span.kind].paint, tip, more=f'rx="{5 if span.kind == MODEL else 1}"{going_on}')
    if span.kind == TOOL and wide > _EDGE_ROOM:
        drawn += bar(x, y, 3, _BAR, "#1f2328", more='fill-opacity=".75"')
    return drawn


def _tick(x: float, y: float) -> str:
    """Where the first text came."""
    head = f'<path d="M{x - 3:.1f} {y - 3:.1f}h6l-3 4z" fill="currentColor"/>'
    return f'<path d="M{x:.1f} {y:.1f}v{_BAR}" stroke="#ffffff" stroke-width="1.6"/>{head}'


def _cross(x: float, y: float) -> str:
    drawn = f'd="M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6"'
    halo = f'<path {drawn} stroke="#ffffff" stroke-width="5" stroke-linecap="round" style="stroke:{PAPER}"/>'
    return f'{halo}<path {drawn} stroke="{VERMILLION}" stroke-width="2"/>'


def _tip(cluster: Cluster) -> str:
    """What a bar says when it is pointed at."""
    lasted = f"{duration(cluster.start_ms)} + {duration(cluster.end_ms - cluster.start_ms)}"
    if len(cluster.spans) > 1:
        names = ", ".join(dict.fromkeys(span.name for span in cluster.spans[:8]))
        return f"{count(len(cluster.spans), _PLURALS[cluster.spans[0].kind])}: {names}; {lasted}"
    span = cluster.spans[0]
    first = (
        "" if span.first_token_ms is None else f"; first token after {duration(span.first_token_ms - span.start_ms)}"
    )
    said = f"; {span.detail}" if span.detail else ""
    return f"{_PLURALS[span.kind]} {span.name}, {span.status}: {lasted}{first}{said}"[:600]
