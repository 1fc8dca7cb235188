"""Strip plot of call durations by model and tool, with the median and the 95th percentile."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import pandas as pd

from artifactflow_nb.analysis.plots.chart import (
    FLOAT,
    INT,
    TEXT,
    Chart,
    FrameColumns,
    empty_chart,
    rows_by_name,
    texts_of,
    typed_frame,
)
from artifactflow_nb.analysis.plots.spans import MODEL, TOOL
from artifactflow_nb.analysis.plots.svg import (
    BLUE,
    CHART_WIDTH,
    ORANGE,
    axis,
    drawing,
    faint,
    footnotes,
    heading,
    label,
    text_px,
    ticks,
)
from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.format import capitalized, clip

MAX_ROWS = 40
MAX_DOTS = 300
_GUTTER, _PLANE, _TOP, _ROW = 190, 380, 62, 30
_LOG_RATIO = 30  # the scale is logarithmic if the longest call takes this many times as long as the shortest
_MANY_DOTS = 40  # from this number on the dots are more transparent
_GOLDEN = 0.618034  # multiples of the golden ratio spread the dots evenly and reproducibly
_MIN_MS = 0.1
_COLOURS = {MODEL: BLUE, TOOL: ORANGE}


@dataclass(frozen=True, slots=True)
class _CallGroup:
    """Calls of one model or tool: durations of the successful ones, ascending, and the number of failed ones."""

    kind: str
    name: str
    durations_ms: tuple[float, ...]
    n_failed: int

    def quantile(self, share: float) -> float | None:
        """Quantile with linear interpolation; None without values."""
        if not self.durations_ms:
            return None
        index = share * (len(self.durations_ms) - 1)
        low, high = self.durations_ms[floor(index)], self.durations_ms[ceil(index)]
        return low + (high - low) * (index - floor(index))

    def label(self, texts: Texts) -> str:
        """Display name."""
        return self.name if self.kind == MODEL else capitalized(texts.tool(self.name))

    @property
    def dots(self) -> tuple[float, ...]:
        """Durations to draw: all, or an even sample that includes the shortest and the longest."""
        n = len(self.durations_ms)
        if n <= MAX_DOTS:
            return self.durations_ms
        return tuple(self.durations_ms[i * (n - 1) // (MAX_DOTS - 1)] for i in range(MAX_DOTS))


def plot_latency(llm_calls: pd.DataFrame | None, tool_calls: pd.DataFrame | None = None) -> Chart:
    """Plot durations by model and tool, slowest first, with p50 and p95; failed calls are only counted.

    Args:
        llm_calls: Rows of `wb.llm_calls_df()`, all or some; None for none.
        tool_calls: Rows of `wb.tool_calls_df()`.

    Errors: `UsageError` for a frame that lacks a required column.
    """
    groups, texts = _groups(llm_calls, tool_calls), texts_of(llm_calls, tool_calls)
    title, frame = texts("latency"), _frame(groups)
    if not groups:
        return empty_chart(title, texts("no_ended_calls"), frame, texts)
    notes = _notes(groups, texts)
    described = [
        texts("titled", title=clip(group.label(texts), 40), text=_summary(group, texts)) for group in groups[:5]
    ]
    description = "; ".join(described)
    svg = _svg(groups[:MAX_ROWS], description, notes, texts)
    return Chart(title, description, svg, frame, notes, language=texts.language)


def _groups(llm_calls: pd.DataFrame | None, tool_calls: pd.DataFrame | None) -> list[_CallGroup]:
    models = FrameColumns(llm_calls, "llm_calls", "plot_latency", ("request_model", "llm_duration_ms"))
    tools = FrameColumns(tool_calls, "tool_calls", "plot_latency", ("tool_name", "duration_ms"))
    failed_models = [error is not None for error in models.values("error_type")]
    # An unknown success counts as success; the value may be a numpy bool, which is not the object False.
    failed_tools = [success is not None and not success for success in tools.values("success")]
    groups = [
        *_group(MODEL, models.models(), models.numbers("llm_duration_ms"), failed_models),
        *_group(TOOL, tools.texts("tool_name", "unknown"), tools.numbers("duration_ms"), failed_tools),
    ]
    return sorted(groups, key=lambda group: (group.kind, -(group.quantile(0.5) or 0.0)))


def _group(
    kind: str, names: Sequence[str], durations_ms: Sequence[float | None], failed: Sequence[bool]
) -> Iterable[_CallGroup]:
    for name, rows in rows_by_name(names).items():
        own = [row for row in rows if durations_ms[row] is not None]
        succeeded = sorted(ms for i in own if not failed[i] and (ms := durations_ms[i]) is not None)
        if own:
            yield _CallGroup(kind, name, tuple(succeeded), len(own) - len(succeeded))


def _summary(group: _CallGroup, texts: Texts) -> str:
    p50, p95 = group.quantile(0.5), group.quantile(0.95)
    failed = texts("latency_failed", n=f"{group.n_failed:,}") if group.n_failed else ""
    if p50 is None or p95 is None:
        return texts("none_succeeded", failed=failed)
    times = {"p50": texts.duration(p50), "p95": texts.duration(p95)}
    return texts("latency_text", **times, n=f"{len(group.durations_ms):,}", failed=failed)


def _notes(groups: Sequence[_CallGroup], texts: Texts) -> tuple[str, ...]:
    notes = []
    if failed := sum(group.n_failed for group in groups):
        notes.append(texts("calls_left_out", calls=texts.count(failed, "n_calls")))
    if any(len(group.durations_ms) > MAX_DOTS for group in groups):
        notes.append(texts("dots_sampled", most=MAX_DOTS))
    if len(groups) > MAX_ROWS:
        notes.append(texts("more_in_table", rows=texts.count(len(groups) - MAX_ROWS, "n_rows")))
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Mapping of durations to pixels: linear from 0 if `low_ms` is 0, else logarithmic."""

    low_ms: float
    high_ms: float

    def x(self, ms: float) -> float:
        if self.low_ms == 0:
            return _GUTTER + _PLANE * ms / self.high_ms
        part = log10(max(ms, self.low_ms) / self.low_ms) / log10(self.high_ms / self.low_ms)
        return _GUTTER + _PLANE * part

    def ticks(self) -> list[float]:
        if self.low_ms == 0:
            return ticks(self.high_ms, 6)
        powers = range(round(log10(self.low_ms)), round(log10(self.high_ms)) + 1)
        return [float(10**power) for power in powers]


def _svg(groups: Sequence[_CallGroup], description: str, notes: Sequence[str], texts: Texts) -> str:
    values = [ms for group in groups for ms in group.durations_ms]
    high = max(values, default=0.0) or 1.0
    low = max(min((ms for ms in values if ms > 0), default=high), _MIN_MS)
    scale = _Scale(0.0, high * 1.02)
    if high / low >= _LOG_RATIO:
        scale = _Scale(10.0 ** floor(log10(low)), 10.0 ** ceil(log10(high)))
    bottom = _TOP + len(groups) * _ROW
    pieces = [heading(texts("latency")), _legend(scale, {group.kind for group in groups}, texts)]
    pieces += axis(((scale.x(tick), texts.duration(tick)) for tick in scale.ticks()), _TOP - 4, bottom)
    for index, group in enumerate(groups):
        middle = _TOP + index * _ROW + _ROW / 2
        # A vertical jitter separates equal durations.
        spread = [middle + ((i * _GOLDEN) % 1 - 0.5) * 14 for i in range(len(group.dots))]
        dots = "".join(
            f'<circle cx="{scale.x(ms):.1f}" cy="{y:.1f}" r="2.6"/>' for ms, y in zip(group.dots, spread, strict=True)
        )
        opacity = ".85" if len(group.dots) < _MANY_DOTS else ".5"
        pieces.append(label(_GUTTER - 10, middle + 4, group.label(texts), 24, more='text-anchor="end"'))
        pieces.append(f'<g fill="{_COLOURS[group.kind]}" fill-opacity="{opacity}">{dots}</g>')
        p50, p95 = group.quantile(0.5), group.quantile(0.95)
        if p50 is not None and p95 is not None:
            pieces += [_median(scale.x(p50), middle), _tail(scale.x(p95), middle)]
        pieces.append(faint(label(_GUTTER + _PLANE + 12, middle + 4, _summary(group, texts), 60)))
    below, height = footnotes(notes, bottom + 36)
    return drawing((CHART_WIDTH, bottom + 24 + height), texts("latency"), description, *pieces, *below)


def _legend(scale: _Scale, kinds: Collection[str], texts: Texts) -> str:
    """Legend of the kinds that occur, and of the marks."""
    dots, x = "", 18.0
    for kind in (MODEL, TOOL):
        if kind in kinds:
            name = texts(f"span_{kind}")
            dots += f'<circle cx="{x:.1f}" cy="38" r="3.5" fill="{_COLOURS[kind]}"/>{label(x + 8, 42, name, 20)}'
            x += text_px(name) + 20
    for mark, name in ((_median, texts("median")), (_tail, "p95")):
        dots += mark(x, 38) + label(x + 8, 42, name, 20)
        x += text_px(name) + 20
    return dots + ("" if scale.low_ms == 0 else faint(label(x + 8, 42, texts("logarithmic"), 30)))


def _median(x: float, middle: float) -> str:
    return f'<path d="M{x:.1f} {middle - 11:.1f}v22" stroke="currentColor" stroke-width="2.2"/>'


def _tail(x: float, middle: float) -> str:
    dashed = 'stroke="currentColor" stroke-width="2" stroke-dasharray="3 2.5"'
    return f'<path d="M{x:.1f} {middle - 11:.1f}v22" {dashed}/>'


def _frame(groups: Sequence[_CallGroup]) -> pd.DataFrame:
    return typed_frame(
        {
            "kind": (TEXT, [group.kind for group in groups]),
            "name": (TEXT, [group.name for group in groups]),
            "n_calls": (INT, [len(group.durations_ms) for group in groups]),
            "n_failed": (INT, [group.n_failed for group in groups]),
            "p50_ms": (FLOAT, [group.quantile(0.5) for group in groups]),
            "p95_ms": (FLOAT, [group.quantile(0.95) for group in groups]),
            "max_ms": (FLOAT, [group.quantile(1.0) for group in groups]),
        }
    )
