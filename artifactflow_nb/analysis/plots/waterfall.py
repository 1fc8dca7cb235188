"""Waterfall of a run as SVG: a lane per agent, a bar for each model call, tool call and wait for a person.

Kinds differ in shape as well as in colour: a model call has round ends and a tick at its first text, a tool call a dark
edge, a delegation is an outline, a wait is hatched, and a failure has a cross.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from artifactflow_nb.analysis.plots.spans import (
    MAX_LANES,
    MAX_ROWS,
    MODEL,
    TOOL,
    WAIT,
    IdleGap,
    SpanCluster,
    TimelineLane,
    TimelineSpan,
    TimeScale,
    build_lanes,
    clusters,
    last_time_ms,
    time_scale,
)
from artifactflow_nb.analysis.plots.svg import (
    BLUE,
    CHART_WIDTH,
    ORANGE,
    PAPER,
    PURPLE,
    VERMILLION,
    Fill,
    bar,
    drawing,
    empty_drawing,
    faint,
    footnotes,
    heading,
    label,
    rule,
    text_px,
    without_overlap,
)
from artifactflow_nb.core.language import agent_label, status_label, tool_label, translate, translate_list
from artifactflow_nb.core.text.format import capitalized, translate_count, translate_duration, translate_time

_GUTTER, _RIGHT, _TOP = 176, 56, 62
_ROW, _BAR, _LANE_PAD = 19, 14, 5
_NARROW_PX = 1.6
_LABEL_COLUMNS = 22
_BAD = {"failed", "denied"}
_CROSS_ROOM, _EDGE_ROOM = 24, 9

MODEL_FILL = Fill(BLUE)
TOOL_FILL = Fill(ORANGE, ink="#1f2328")
WAIT_FILL = Fill(PURPLE, "hatched", ink="#1f2328")
_FILLS = {MODEL: MODEL_FILL, TOOL: TOOL_FILL, WAIT: WAIT_FILL}


def lane_label(lane: str) -> str:
    """Return the display name of a lane."""
    agent, separator, title = lane.partition(": ")
    return f"{capitalized(agent_label(agent))}{separator}{title}"


def span_label(span: TimelineSpan) -> str:
    """Return the display name of a span: the model, or the tool in words."""
    return span.name if span.kind == MODEL else capitalized(tool_label(span.name))


def kind_label(kind: str) -> str:
    """Return the name of a kind of span for readers."""
    return translate("model" if kind == MODEL else "tool" if kind == TOOL else "wait")


def legend_label(kind: str) -> str:
    """Return the name of a kind of span in a legend."""
    return translate("waiting for a person") if kind == WAIT else kind_label(kind)


def count_label(n: int, kind: str) -> str:
    """Return a number of spans of a kind: `2 model calls`."""
    return translate_count(n, "model call" if kind == MODEL else "tool call" if kind == TOOL else "wait")


def span_detail(span: TimelineSpan) -> str:
    """Return the detail of a span: the name of an agent in words, or the tokens of a call: `14 tokens in, 2 out`."""
    if span.is_delegation and span.detail.isidentifier():
        return agent_label(span.detail)
    if span.detail or None in span.tokens:
        return span.detail
    n_in, n_out = (f"{n:,}" for n in span.tokens)
    return translate("{n_in} tokens in, {n_out} out", n_in=n_in, n_out=n_out)


def note(n: int, text: str) -> list[str]:
    """Return a list with a sentence about `n` things; the list is empty if `n` is 0."""
    return [text] if n > 0 else []


def omitted_note(n: int, omitted: str) -> list[str]:
    """Return a list with the sentence about `n` things that are not drawn; the list is empty if `n` is 0."""
    return note(n, translate("Not drawn: {omitted}.", omitted=omitted))


def omission_notes(lanes: Sequence[TimelineLane]) -> list[str]:
    """Return sentences about the spans and lanes that are not drawn."""
    crowded = sum(lane.n_left_out for lane in lanes[:MAX_LANES])
    bars = translate_count(crowded, "bar")
    notes = note(crowded, translate("Not drawn: {bars} (more than {most} at once).", bars=bars, most=MAX_ROWS))
    beyond = len(lanes) - MAX_LANES
    return [*notes, *omitted_note(beyond, translate_count(beyond, "more lane"))]


def waterfall_svg(spans: Sequence[TimelineSpan], now_ms: float | None = None) -> str:
    """Draw the spans of a run.

    At most 60 lanes and 10 parallel spans in a lane are drawn, with a note on the rest. Neighbouring bars that are too
    narrow to distinguish are drawn as one bar, with their number.

    Args:
        spans: Spans in any order.
        now_ms: End of running spans, in milliseconds since the start of the run; None for the latest known time plus a
            margin.
    """
    title = translate("Timeline")
    if not spans:
        return empty_drawing(title, translate("Nothing has taken any time yet."))
    ordered = sorted(spans, key=lambda span: span.start_ms)
    if now_ms is None:
        now_ms = last_time_ms(ordered)
    lanes = build_lanes(ordered, now_ms)
    scale = time_scale(ordered, now_ms)
    area = _PlotArea(scale, CHART_WIDTH - _GUTTER - _RIGHT, now_ms)
    body: list[str] = []
    y: float = _TOP
    for index, lane in enumerate(lanes[:MAX_LANES]):
        height = len(lane.rows) * _ROW + 2 * _LANE_PAD
        if index % 2 == 0:
            right = _GUTTER + area.width
            body.append(bar(6, y, right - 6, height, "currentColor", more='fill-opacity=".045"'))
        body.append(label(12, y + _LANE_PAD + 11, lane_label(lane.name), _LABEL_COLUMNS))
        for row in lane.rows:
            body += _row(row, area, y + _LANE_PAD)
            y += _ROW
        y += 2 * _LANE_PAD
    bottom = y
    gaps = [(area.middle(fold), f"⋯ {translate_duration(fold.end_ms - fold.start_ms)} ⋯") for fold in scale.folds]
    marks = without_overlap([*gaps, *((area.x(tick), translate_time(f"{tick / 1000:g} s")) for tick in scale.ticks(8))])
    lines = "".join(rule(x, _TOP, bottom) for x, text in marks if (x, text) not in gaps)
    labels = "".join(label(x, bottom + 17, text, 24, more='text-anchor="middle"') for x, text in marks)
    pieces = [heading(title), _legend(ordered), lines + faint(labels), *body]
    edges = (area.x(ms) for fold in scale.folds for ms in (fold.start_ms, fold.end_ms))
    pieces += [rule(x, _TOP, bottom, more='stroke-dasharray="2 3" stroke-opacity=".6"') for x in edges]
    below, notes_height = footnotes(omission_notes(lanes), bottom + 36, 120)
    description = describe_spans(ordered, now_ms)
    return drawing((CHART_WIDTH, bottom + 26 + notes_height), title, description, *pieces, *below)


def describe_spans(spans: Sequence[TimelineSpan], now_ms: float | None) -> str:
    """Describe the spans: total time, number of lanes, and number and duration of the calls of each kind."""
    now_ms = last_time_ms(spans) if now_ms is None else now_ms
    end = max((span.end_at(now_ms) for span in spans), default=0.0)
    totals = []
    for kind in _FILLS:
        of_kind = [span for span in spans if span.kind == kind]
        if of_kind:
            busy_ms = sum(span.end_at(now_ms) - span.start_ms for span in of_kind if not span.is_delegation)
            totals.append(
                translate("{count} ({time})", count=count_label(len(of_kind), kind), time=translate_duration(busy_ms))
            )
    n_failed = sum(span.status == "failed" for span in spans)
    failed = translate("; {n} failed", n=f"{n_failed:,}") if n_failed else ""
    lanes = translate_count(len({(span.group, span.lane) for span in spans}), "lane")
    time, summary = translate_duration(end), translate(", ", context="parts").join(totals)
    return translate("{time}; {lanes}: {parts}{failed}.", time=time, lanes=lanes, parts=summary, failed=failed)


@dataclass(frozen=True, slots=True)
class _PlotArea:
    """Mapping of milliseconds to pixels."""

    scale: TimeScale
    width: float
    now_ms: float

    @property
    def px_per_ms(self) -> float:
        return self.width / (self.scale.drawn_ms or 1.0)

    def x(self, ms: float) -> float:
        return _GUTTER + self.scale.position(ms) * self.px_per_ms

    def middle(self, fold: IdleGap) -> float:
        return (self.x(fold.start_ms) + self.x(fold.end_ms)) / 2


def _legend(spans: Sequence[TimelineSpan]) -> str:
    """Draw the legend of the fills and shapes that occur."""
    kinds = {span.kind for span in spans if not span.is_delegation}
    edge = {TOOL: '<rect x="0" y="-9" width="3" height="10" fill="#1f2328"/>'}
    entries = [
        (bar(0, -9, 14, 10, fill.paint, more='rx="2"') + edge.get(kind, ""), legend_label(kind))
        for kind, fill in _FILLS.items()
        if kind in kinds
    ]
    if any(span.is_delegation for span in spans):
        dashed = f'fill="none" stroke="{ORANGE}" stroke-width="1.5" stroke-dasharray="3 2"'
        entries.append((f'<rect x="0" y="-9" width="14" height="10" rx="2" {dashed}/>', translate("delegated")))
    if any(span.first_token_ms is not None for span in spans):
        tick = '<path d="M7 -11v14" stroke="currentColor" stroke-width="1.6"/><path d="M4 -12h6l-3 4z"/>'
        entries.append((tick, translate("first token")))
    if any(span.status in _BAD for span in spans):
        entries.append((_cross(7, -4), translate("failed, denied")))
    pieces, x = [], 12.0
    for symbol, text in entries:
        pieces.append(f'<g transform="translate({x:.1f} 42)">{symbol}{label(19, 0, text, 24)}</g>')
        x += 19 + text_px(text) + 16
    return "".join(pieces)


def _row(row: Sequence[TimelineSpan], area: _PlotArea, y: float) -> Iterator[str]:
    bars = list(clusters(row, area.now_ms, _NARROW_PX / area.px_per_ms))
    ends = [area.x(cluster.start_ms) for cluster in bars[1:]] + [_GUTTER + area.width + _RIGHT]
    for cluster, room_until in zip(bars, ends, strict=True):
        yield _cluster(cluster, area, y, room_until)
    for cluster in bars:  # crosses come last, since the next bar may touch a narrow failed one
        if _has_failure(cluster):
            left, right = area.x(cluster.start_ms), area.x(cluster.end_ms)
            yield _cross(right - 8 if right - left > _CROSS_ROOM else (left + right) / 2, y + _BAR / 2)


def _has_failure(cluster: SpanCluster) -> bool:
    """Return whether a call failed or was denied; a wait never fails, whatever the decision was."""
    return any(span.kind != WAIT and span.status in _BAD for span in cluster.spans)


def _cluster(cluster: SpanCluster, area: _PlotArea, y: float, room_until: float) -> str:
    """Draw a bar with its label: inside if it fits, otherwise after the bar if there is room up to `room_until`."""
    span = cluster.spans[0]
    left = area.x(cluster.start_ms)
    wide = max(area.x(cluster.end_ms) - left, _NARROW_PX)
    text = (span_detail if span.is_delegation and span.detail else span_label)(span)
    if len(cluster.spans) > 1:
        text = count_label(len(cluster.spans), span.kind)
    shape = _shape(span, left, y, wide, _tip(cluster))
    tick = 0.0
    if span.first_token_ms is not None and len(cluster.spans) == 1:
        tick = area.x(span.first_token_ms) - left
        shape += f'<path d="M{left + tick:.1f} {y:.1f}v{_BAR}" stroke="#ffffff" stroke-width="1.6"/>'
        shape += f'<path d="M{left + tick - 3:.1f} {y - 3:.1f}h6l-3 4z" fill="currentColor"/>'
    shift = 6 if _has_failure(cluster) else 0
    needed = text_px(text)
    inside = left + tick + 4 if wide - tick > needed + 8 else left + 4
    if min(wide, tick or wide) > needed + 8 or wide - tick > needed + 8:
        ink = "currentColor" if span.is_delegation else _FILLS[span.kind].ink
        halo = (
            ' stroke="#ffffff" stroke-opacity=".8" stroke-width="3" paint-order="stroke"' if span.kind == WAIT else ""
        )
        return shape + label(inside, y + 11, text, 60, more=f'fill="{ink}"{halo}')
    if left + wide + 4 + shift + needed < room_until:
        return shape + faint(label(left + wide + 4 + shift, y + 11, text, 60))
    return shape


def _shape(span: TimelineSpan, x: float, y: float, wide: float, tip: str) -> str:
    """Draw the bar of a span, without label and marks."""
    dashes = ' stroke="currentColor" stroke-dasharray="2 2"' if span.end_ms is None else ""
    if span.is_delegation:
        outline = f'fill-opacity=".14" stroke="{ORANGE}" stroke-width="1.5" stroke-dasharray="3 2"'
        return bar(x, y + 1, wide, _BAR - 2, ORANGE, tip, more=f'rx="2" {outline}')
    shape = bar(x, y, wide, _BAR, _FILLS[span.kind].paint, tip, more=f'rx="{5 if span.kind == MODEL else 1}"{dashes}')
    if span.kind == TOOL and wide > _EDGE_ROOM:
        shape += bar(x, y, 3, _BAR, "#1f2328", more='fill-opacity=".75"')
    return shape


def _cross(x: float, y: float) -> str:
    path = f'd="M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6"'
    halo = f'<path {path} stroke="#ffffff" stroke-width="5" stroke-linecap="round" style="stroke:{PAPER}"/>'
    return f'{halo}<path {path} stroke="{VERMILLION}" stroke-width="2"/>'


def _tip(cluster: SpanCluster) -> str:
    """Write the tooltip of a bar."""
    span, start, time = (
        cluster.spans[0],
        *map(translate_duration, (cluster.start_ms, cluster.end_ms - cluster.start_ms)),
    )
    if len(cluster.spans) > 1:
        names = translate_list(dict.fromkeys(span_label(span) for span in cluster.spans[:8]))
        counted = count_label(len(cluster.spans), span.kind)
        return translate("{count}: {names}; {start} + {time}", count=counted, names=names, start=start, time=time)
    kind, status = kind_label(span.kind), status_label(span.status)
    tip = translate(
        "{kind} {name}, {status}: {start} + {time}",
        kind=kind,
        name=span_label(span),
        status=status,
        start=start,
        time=time,
    )
    if span.first_token_ms is not None:
        tip += translate("; first token after {time}", time=translate_duration(span.first_token_ms - span.start_ms))
    detail = span_detail(span)
    return (tip + translate("; {detail}", detail=detail) if detail else tip)[:600]
