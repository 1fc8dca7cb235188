"""Bars of several parts, one below the other, each with its figures behind it: as SVG and for Vega-Lite."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.plots.chart import vega_spec
from artifactflow_nb.plots.svg import Fill, bar, heading, label, legend, picture, quiet, rule, ticks
from artifactflow_nb.text.width import clip

MAX_BARS = 40
_GUTTER, _PLANE, _RIGHT, _TOP, _ROW, _BAR = 190, 440, 230, 58, 22, 14


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar.

    Attributes:
        name: What it stands for; empty for one that belongs to the bar above it.
        parts: Its lengths, each with what it is filled with.
        told: Its figures in words.
    """

    name: str
    parts: tuple[tuple[Fill, float], ...]
    told: str

    @property
    def total(self) -> float:
        """Its whole length."""
        return sum(length for _, length in self.parts)


def bars_svg(
    title: str, told: str, bars: Sequence[Bar], fills: tuple[Fill, ...], unit: Callable[[float], str], *notes: str
) -> str:
    """Draw bars; at most 40, and how many there are more.

    Args:
        title: The heading.
        told: What there is to see, in words.
        bars: From top to bottom.
        fills: The key.
        unit: A length as the axis writes it.
        notes: Sentences below.
    """
    shown = bars[:MAX_BARS]
    top = max((each.total for each in shown), default=0.0)
    px = _PLANE / (top or 1.0)
    bottom = _TOP + len(shown) * _ROW + 6
    pieces = [heading(title), legend(12, 42, fills)]
    for tick in ticks(top, 5):
        x = _GUTTER + tick * px
        pieces.append(rule(x, _TOP - 4, bottom))
        pieces.append(quiet(label(x, bottom + 14, unit(tick), 14, more='text-anchor="middle"')))
    for index, each in enumerate(shown):
        pieces += _bar(each, _TOP + index * _ROW, px)
    left_out = [f"{len(bars) - MAX_BARS:,} more bars are in the table."] if len(bars) > MAX_BARS else []
    below = [*notes, *left_out]
    pieces += [quiet(label(12, bottom + 36 + 16 * i, note, 130)) for i, note in enumerate(below)]
    size = (_GUTTER + _PLANE + _RIGHT, bottom + 24 + 16 * len(below) + (8 if below else 0))
    return picture(size, title, told, *pieces)


def _bar(each: Bar, y: float, px: float) -> list[str]:
    pieces = [label(_GUTTER - 8, y + 12, each.name, 28, more='text-anchor="end"')]
    x: float = _GUTTER
    for fill, length in each.parts:
        if length > 0:
            wide = max(length * px, 1.0)
            pieces.append(
                bar(x, y + 1, wide, _BAR, fill.paint, f"{clip(each.name, 60)} {fill.name}: {length:,.6g}".strip())
            )
            x += wide
    return [*pieces, quiet(label(x + 6, y + 12, each.told, 60))]


def bars_vega(
    title: str, told: str, bars: Sequence[Bar], fills: tuple[Fill, ...], axis: str, notes: Sequence[str]
) -> dict[str, Any]:
    """The same for Vega-Lite; a bar's figures show when it is pointed at, and stand behind it."""
    shown = list(enumerate(bars[:MAX_BARS]))
    keys = {place: f"{place:04d}|{clip(each.name, 36)}" for place, each in shown}
    rows = [
        {"row": keys[place], "part": fill.name, "order": order, "value": length, "told": each.told}
        for place, each in shown
        for order, (fill, length) in enumerate(each.parts)
    ]
    ends = [{"row": keys[place], "end": each.total, "words": clip(each.told, 60)} for place, each in shown]
    y_axis = {"labelExpr": "slice(datum.label, 5)", "title": None, "ticks": False, "domain": False}
    y = {"field": "row", "type": "nominal", "scale": {"domain": list(keys.values())}, "axis": y_axis}
    colours = {"domain": [fill.name for fill in fills], "range": [fill.colour for fill in fills]}
    parts = {
        "x": {"field": "value", "type": "quantitative", "stack": "zero", "axis": {"title": axis, "tickCount": 5}},
        "color": {"field": "part", "type": "nominal", "scale": colours, "sort": colours["domain"]},
        "order": {"field": "order"},
        "tooltip": [{"field": "part"}, {"field": "value", "format": ",.6~g"}, {"field": "told", "title": "all"}],
    }
    words = {"x": {"field": "end", "type": "quantitative"}, "text": {"field": "words"}}
    text = {"type": "text", "align": "left", "dx": 5}
    layers = [{"mark": {"type": "bar", "height": 13}, "encoding": parts}]
    written = {"data": {"values": ends}, "mark": text, "encoding": words}
    spec = vega_spec(title, told, rows, notes, width=400, height={"step": 20})
    return {**spec, "layer": [*layers, written], "encoding": {"y": y}}
