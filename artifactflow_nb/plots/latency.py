"""How long calls take, by model and by tool: every call as a dot, with the median and the 95th percentile."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

import pandas as pd

from artifactflow_nb.plots.chart import Chart, empty_chart, vega_spec
from artifactflow_nb.plots.columns import FLOAT, INT, TEXT, Table, typed_frame
from artifactflow_nb.plots.spans import MODEL, TOOL
from artifactflow_nb.plots.svg import BLUE, INK, ORANGE, heading, label, picture, quiet, rule, ticks
from artifactflow_nb.text.figures import count, duration
from artifactflow_nb.text.width import clip

TITLE = "Latency by model and tool"
MAX_ROWS = 40
MAX_DOTS = 300
_GUTTER, _PLANE, _RIGHT, _TOP, _ROW = 190, 420, 250, 62, 30
_LOG_FROM = 30
_MANY = 40
_GOLDEN = 0.618034
_SHORTEST_MS = 0.1
_COLOURS = {MODEL: BLUE, TOOL: ORANGE}


@dataclass(frozen=True, slots=True)
class _Group:
    """The calls of one model or tool that succeeded, their durations in ascending order."""

    kind: str
    name: str
    took_ms: tuple[float, ...]
    n_failed: int

    def quantile(self, share: float) -> float | None:
        """A quantile, between two values in proportion; None without values."""
        if not self.took_ms:
            return None
        place = share * (len(self.took_ms) - 1)
        low, high = self.took_ms[floor(place)], self.took_ms[ceil(place)]
        return low + (high - low) * (place - floor(place))

    @property
    def dots(self) -> tuple[float, ...]:
        """The durations that are drawn: all, or as many as can be told apart, the shortest and the longest too."""
        n = len(self.took_ms)
        if n <= MAX_DOTS:
            return self.took_ms
        return tuple(self.took_ms[i * (n - 1) // (MAX_DOTS - 1)] for i in range(MAX_DOTS))


def plot_latency(llm_calls: pd.DataFrame | None, tool_calls: pd.DataFrame | None = None) -> Chart:
    """The durations of calls by model and tool, the slowest first, with p50 and p95; calls that failed are counted.

    Args:
        llm_calls: Rows of `wb.llm_calls_df()`, all or some; None for none.
        tool_calls: Rows of `wb.tool_calls_df()`.

    Errors: `UsageError` for a frame that lacks a column that is needed.
    """
    groups = _groups(llm_calls, tool_calls)
    if not groups:
        return empty_chart(TITLE, "No calls that ended in these frames.", _frame(groups))
    notes = _notes(groups)
    told = "; ".join(f"{clip(each.name, 40)}: {_told(each)}" for each in groups[:5]) + "."
    shown = groups[:MAX_ROWS]
    return Chart(TITLE, told, _vega(shown, told, notes), _svg(shown, told, notes), _frame(groups), notes)


def _groups(llm_calls: pd.DataFrame | None, tool_calls: pd.DataFrame | None) -> list[_Group]:
    models = Table(llm_calls, "llm_calls", "plot_latency", ("request_model", "llm_duration_ms"))
    tools = Table(tool_calls, "tool_calls", "plot_latency", ("tool_name", "duration_ms"))
    asked, answered = models.texts("request_model", "unknown"), models.texts("response_model")
    names = [said or model for said, model in zip(answered, asked, strict=True)]
    failed = [error is not None for error in models.values("error_type")]
    refused = [success is False for success in map(_truth, tools.values("success"))]
    found = [
        *_grouped(MODEL, names, models.numbers("llm_duration_ms"), failed),
        *_grouped(TOOL, tools.texts("tool_name", "unknown"), tools.numbers("duration_ms"), refused),
    ]
    return sorted(found, key=lambda each: (each.kind, -(each.quantile(0.5) or 0.0)))


def _truth(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _grouped(
    kind: str, names: Sequence[str], took_ms: Sequence[float | None], failed: Sequence[bool]
) -> Iterable[_Group]:
    for name in dict.fromkeys(names):
        own = [i for i, each in enumerate(names) if each == name and took_ms[i] is not None]
        took = sorted(ms for i in own if not failed[i] and (ms := took_ms[i]) is not None)
        if own:
            yield _Group(kind, name, tuple(took), len(own) - len(took))


def _told(each: _Group) -> str:
    p50, p95 = each.quantile(0.5), each.quantile(0.95)
    failed = f", {each.n_failed:,} failed" if each.n_failed else ""
    if p50 is None or p95 is None:
        return f"none succeeded{failed}"
    return f"p50 {duration(p50)}, p95 {duration(p95)}, n {len(each.took_ms):,}{failed}"


def _notes(groups: Sequence[_Group]) -> tuple[str, ...]:
    notes = []
    if failed := sum(each.n_failed for each in groups):
        notes.append(f"{count(failed, 'call')} that failed or were denied count neither as dots nor in p50 and p95.")
    if any(len(each.took_ms) > MAX_DOTS for each in groups):
        notes.append(f"Of more than {MAX_DOTS} calls {MAX_DOTS} are drawn, evenly from the fastest to the slowest.")
    if len(groups) > MAX_ROWS:
        notes.append(f"{count(len(groups) - MAX_ROWS, 'more row')} in the table.")
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Durations to pixels; logarithmic where the longest is far from the shortest. `low_ms` is 0 for an even scale."""

    low_ms: float
    high_ms: float

    def x(self, ms: float) -> float:
        if self.low_ms == 0:
            return _GUTTER + _PLANE * ms / self.high_ms
        part = log10(max(ms, self.low_ms) / self.low_ms) / log10(self.high_ms / self.low_ms)
        return _GUTTER + _PLANE * part

    def vega(self) -> dict[str, Any]:
        """The same as Vega-Lite's encoding of x."""
        kind = {"type": "log", "clamp": True} if self.low_ms else {"type": "linear"}
        values = json.dumps(self.ticks())
        label = f"{json.dumps([duration(tick) for tick in self.ticks()])}[indexof({values}, datum.value)]"
        scale = {**kind, "domain": [self.low_ms, self.high_ms], "nice": False}
        axis = {"values": self.ticks(), "labelExpr": label, "title": None}
        return {"field": "ms", "type": "quantitative", "scale": scale, "axis": axis}

    def ticks(self) -> list[float]:
        if self.low_ms == 0:
            return ticks(self.high_ms, 6)
        powers = range(round(log10(self.low_ms)), round(log10(self.high_ms)) + 1)
        return [float(10**power) for power in powers]


def _scale(groups: Sequence[_Group]) -> _Scale:
    values = [ms for each in groups for ms in each.took_ms]
    high = max(values, default=0.0) or 1.0
    low = max(min((ms for ms in values if ms > 0), default=high), _SHORTEST_MS)
    if high / low < _LOG_FROM:
        return _Scale(0.0, high * 1.02)
    return _Scale(10.0 ** floor(log10(low)), 10.0 ** ceil(log10(high)))


def _svg(groups: Sequence[_Group], told: str, notes: Sequence[str]) -> str:
    scale = _scale(groups)
    bottom = _TOP + len(groups) * _ROW
    pieces = [heading(TITLE), _key(scale)]
    for tick in scale.ticks():
        pieces.append(rule(scale.x(tick), _TOP - 4, bottom))
        pieces.append(quiet(label(scale.x(tick), bottom + 14, duration(tick), 14, more='text-anchor="middle"')))
    for index, each in enumerate(groups):
        pieces += _strip(each, scale, _TOP + index * _ROW)
    pieces += [quiet(label(12, bottom + 36 + 16 * i, note, 130)) for i, note in enumerate(notes)]
    high = bottom + 24 + 16 * len(notes) + (8 if notes else 0)
    return picture((_GUTTER + _PLANE + _RIGHT, high), TITLE, told, *pieces)


def _key(scale: _Scale) -> str:
    dots = "".join(
        f'<circle cx="{x}" cy="38" r="3.5" fill="{_COLOURS[kind]}"/>{label(x + 8, 42, f"{kind} call", 20)}'
        for kind, x in ((MODEL, 18), (TOOL, 104))
    )
    marks = f"{_median(190, 38)}{label(198, 42, 'p50 (median)', 20)}{_tail(296, 38)}{label(304, 42, 'p95', 20)}"
    kind = "" if scale.low_ms == 0 else quiet(label(352, 42, "logarithmic scale", 30))
    return dots + marks + kind


def _strip(each: _Group, scale: _Scale, y: float) -> list[str]:
    """The dots of one row, spread in height so that equal ones can be told apart, and its two marks."""
    middle = y + _ROW / 2
    spread = [middle + ((i * _GOLDEN) % 1 - 0.5) * 14 for i in range(len(each.dots))]
    dots = "".join(
        f'<circle cx="{scale.x(ms):.1f}" cy="{at:.1f}" r="2.6"/>' for ms, at in zip(each.dots, spread, strict=True)
    )
    pieces = [
        label(_GUTTER - 10, middle + 4, each.name, 28, more='text-anchor="end"'),
        f'<g fill="{_COLOURS[each.kind]}" fill-opacity="{".85" if len(each.dots) < _MANY else ".5"}">{dots}</g>',
    ]
    p50, p95 = each.quantile(0.5), each.quantile(0.95)
    if p50 is not None and p95 is not None:
        pieces += [_median(scale.x(p50), middle), _tail(scale.x(p95), middle)]
    return [*pieces, quiet(label(_GUTTER + _PLANE + 12, middle + 4, _told(each), 60))]


def _median(x: float, middle: float) -> str:
    return f'<path d="M{x:.1f} {middle - 11:.1f}v22" stroke="currentColor" stroke-width="2.2"/>'


def _tail(x: float, middle: float) -> str:
    dashed = 'stroke="currentColor" stroke-width="2" stroke-dasharray="3 2.5"'
    return f'<path d="M{x:.1f} {middle - 11:.1f}v22" {dashed}/>'


def _vega(groups: Sequence[_Group], told: str, notes: Sequence[str]) -> dict[str, Any]:
    names = [f"{place:04d}|{clip(each.name, 36)}" for place, each in enumerate(groups)]
    rows = [
        {
            "row": name,
            "name": clip(each.name, 60),
            "kind": each.kind,
            "ms": round(ms, 3),
            "spread": round((i * _GOLDEN) % 1, 2),
        }
        for name, each in zip(names, groups, strict=True)
        for i, ms in enumerate(each.dots)
    ]
    scale = _scale(groups)
    y_axis = {"labelExpr": "slice(datum.label, 5)", "title": None, "ticks": False, "domain": False}
    y = {"field": "row", "type": "nominal", "scale": {"domain": names}, "axis": y_axis}
    spec = vega_spec(TITLE, told, rows, notes, width=_PLANE, height={"step": _ROW})
    layers = [_dots(), _quantiles(names, groups), _figures(names, groups)]
    return {**spec, "layer": layers, "encoding": {"x": scale.vega(), "y": y}}


def _dots() -> dict[str, Any]:
    """The mark for calls."""
    colours = {"domain": list(_COLOURS), "range": list(_COLOURS.values())}
    encoding = {
        "color": {"field": "kind", "type": "nominal", "scale": colours},
        "yOffset": {"field": "spread", "type": "quantitative", "scale": {"domain": [-0.5, 1.5]}},
        "tooltip": [{"field": "name"}, {"field": "ms", "title": "duration (ms)", "format": ",.1f"}],
    }
    return {"mark": {"type": "circle", "size": 26, "opacity": 0.85}, "encoding": encoding}


def _quantiles(names: Sequence[str], groups: Sequence[_Group]) -> dict[str, Any]:
    """The marks for p50 and p95, with their data."""
    rows = [
        {"row": name, "quantile": word, "ms": each.quantile(share), "told": f"{clip(each.name, 40)}: {_told(each)}"}
        for name, each in zip(names, groups, strict=True)
        for word, share in (("p50", 0.5), ("p95", 0.95))
        if each.took_ms
    ]
    dashes = {"domain": ["p50", "p95"], "range": [[1, 0], [3, 2]]}
    encoding = {
        "y": {"field": "row", "type": "nominal", "bandPosition": 0.1},
        "y2": {"field": "row", "bandPosition": 0.9},
        "strokeDash": {"field": "quantile", "type": "nominal", "scale": dashes},
        "tooltip": [{"field": "quantile"}, {"field": "told"}],
    }
    return {"data": {"values": rows}, "mark": {"type": "rule", "color": INK, "strokeWidth": 2.2}, "encoding": encoding}


def _figures(names: Sequence[str], groups: Sequence[_Group]) -> dict[str, Any]:
    """What the marks stand for, in words at the end of each row."""
    rows = [{"row": name, "told": _told(each)} for name, each in zip(names, groups, strict=True)]
    mark = {"type": "text", "align": "left", "baseline": "middle"}
    encoding = {"x": {"value": _PLANE + 12}, "text": {"field": "told"}}
    return {"data": {"values": rows}, "mark": mark, "encoding": encoding}


def _frame(groups: Sequence[_Group]) -> pd.DataFrame:
    return typed_frame(
        {
            "kind": (TEXT, [each.kind for each in groups]),
            "name": (TEXT, [each.name for each in groups]),
            "n_calls": (INT, [len(each.took_ms) for each in groups]),
            "n_failed": (INT, [each.n_failed for each in groups]),
            "p50_ms": (FLOAT, [each.quantile(0.5) for each in groups]),
            "p95_ms": (FLOAT, [each.quantile(0.95) for each in groups]),
            "max_ms": (FLOAT, [each.quantile(1.0) for each in groups]),
        }
    )
