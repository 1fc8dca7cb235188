"""Stacked bar charts: tokens by agent and cost by model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from artifactflow_nb.analysis.plots.chart import Chart, empty_chart
from artifactflow_nb.analysis.plots.columns import (
    FLOAT,
    INT,
    TEXT,
    FrameColumns,
    frame_of_rows,
    known_sum,
    rows_by_name,
    texts_of,
)
from artifactflow_nb.analysis.plots.svg import (
    BLUE,
    CHART_WIDTH,
    GREEN,
    ORANGE,
    SKY,
    YELLOW,
    Fill,
    axis,
    bar,
    drawing,
    faint,
    footnotes,
    heading,
    label,
    legend,
    ticks,
)
from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.format import capitalized, clip, usd

MAX_BARS = 40
_GUTTER, _PLANE, _TOP, _ROW, _BAR = 190, 440, 58, 22, 14


@dataclass(frozen=True, slots=True)
class Bar:
    """A stacked bar.

    Attributes:
        name: Name of the row; empty if the bar belongs to the row above.
        segments: Fill and length of each segment.
        label: Text after the bar, with its figures.
    """

    name: str
    segments: tuple[tuple[Fill, float], ...]
    label: str

    @property
    def total(self) -> float:
        """Length of all segments together."""
        return sum(length for _, length in self.segments)


def bars_svg(
    title: str,
    description: str,
    bars: Sequence[Bar],
    fills: tuple[Fill, ...],
    unit: Callable[[float], str],
    texts: Texts,
    *notes: str,
) -> str:
    """Draw the first 40 bars, with a note on the number of bars that are left out.

    Args:
        title: Heading.
        description: Description for a screen reader.
        bars: Bars from top to bottom.
        fills: Entries of the legend, which shows those that occur.
        unit: Formats a length for the axis.
        texts: The texts of the interface.
        notes: Sentences below the chart.
    """
    shown = bars[:MAX_BARS]
    longest = max((row.total for row in shown), default=0.0)
    px = _PLANE / (longest or 1.0)
    bottom = _TOP + len(shown) * _ROW + 6
    occurring = {fill for row in shown for fill, length in row.segments if length > 0}
    pieces = [heading(title), legend(12, 42, tuple(fill for fill in fills if fill in occurring), texts)]
    pieces += axis(((_GUTTER + tick * px, unit(tick)) for tick in ticks(longest, 5)), _TOP - 4, bottom)
    for index, row in enumerate(shown):
        y, x = _TOP + index * _ROW, float(_GUTTER)
        pieces.append(label(_GUTTER - 8, y + 12, row.name, 24, more='text-anchor="end"'))
        for fill, length in row.segments:
            if length > 0:
                wide = max(length * px, 1.0)  # a small segment stays visible
                tip = f"{clip(row.name, 60)} {texts(fill.name)}: {length:,.6g}".strip()
                pieces.append(bar(x, y + 1, wide, _BAR, fill.paint, tip))
                x += wide
        pieces.append(faint(label(x + 6, y + 12, row.label, 60)))
    n_more = len(bars) - MAX_BARS
    omitted = [texts("more_in_table", rows=texts.count(n_more, "n_bars"))] if n_more > 0 else []
    below, height = footnotes([*notes, *omitted], bottom + 36)
    size = (CHART_WIDTH, bottom + 24 + height)
    return drawing(size, title, description, *pieces, *below)


# --- tokens by agent -------------------------------------------------------------------------------------------------

CACHED_INPUT_FILL = Fill("fill_cached", SKY, "dotted")
INPUT_FILL = Fill("fill_input", BLUE)
REASONING_FILL = Fill("fill_reasoning", YELLOW, "hatched")
OUTPUT_FILL = Fill("fill_output", ORANGE)
_TOKEN_FILLS = (CACHED_INPUT_FILL, INPUT_FILL, REASONING_FILL, OUTPUT_FILL)
_DIRECTIONS = (
    ("in", "input_tokens", "cache_read_tokens", CACHED_INPUT_FILL, INPUT_FILL),
    ("out", "output_tokens", "reasoning_tokens", REASONING_FILL, OUTPUT_FILL),
)
"""Direction, column, column of the part, and fills of the part and the rest."""
_TOKEN_COLUMNS = ("input_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens")
_TOKEN_DTYPES = {
    "agent_name": TEXT,
    "n_llm_calls": INT,
    "input_tokens": INT,
    "cache_read_tokens": INT,
    "output_tokens": INT,
    "reasoning_tokens": INT,
    "n_unknown": INT,
}


def plot_tokens(llm_calls: pd.DataFrame) -> Chart:
    """Plot tokens by agent, largest total first: input with its cached part, output with its reasoning part.

    Args:
        llm_calls: Rows of `wb.llm_calls_df()`, all or some.

    Errors: `UsageError` for a frame that lacks a required column.
    """
    table = FrameColumns(llm_calls, "llm_calls", "plot_tokens", ("agent_name", "input_tokens", "output_tokens"))
    texts = texts_of(llm_calls)
    is_estimated = table.values("tokens_estimated")
    tokens = {name: table.numbers(name) for name in _TOKEN_COLUMNS}
    agents: list[dict[str, Any]] = []
    for agent_name, rows in rows_by_name(table.texts("agent_name", "unknown")).items():
        sums = {name: known_sum(values[row] for row in rows) for name, values in tokens.items()}
        n_unknown = sum(tokens["input_tokens"][row] is None or tokens["output_tokens"][row] is None for row in rows)
        n_estimated = sum(bool(is_estimated[row]) for row in rows)
        total = (sums["input_tokens"] or 0) + (sums["output_tokens"] or 0)
        counts = {"n_llm_calls": len(rows), "n_unknown": n_unknown, "n_estimated": n_estimated, "total": total}
        agents.append({"agent_name": agent_name, **sums, **counts})
    agents.sort(key=lambda agent: -agent["total"])
    frame = frame_of_rows(_TOKEN_DTYPES, agents)
    if not agents:
        return empty_chart(texts("tokens_by_agent"), texts("no_model_calls"), frame, texts)
    notes = []
    if n_unknown := sum(agent["n_unknown"] for agent in agents):
        notes.append(texts("tokens_unknown", calls=texts.count(n_unknown, "n_model_calls")))
    if n_estimated := sum(agent["n_estimated"] for agent in agents):
        notes.append(texts("tokens_estimated", calls=texts.count(n_estimated, "n_model_calls")))
    total = int(sum(agent["total"] for agent in agents))
    calls, names = texts.count(len(table), "n_model_calls"), texts.count(len(agents), "n_agents")
    description = texts("tokens_by_agent_text", tokens=texts.count(total, "n_tokens"), agents=names, calls=calls)
    bars = []
    for agent in agents:
        name = capitalized(texts.agent(agent["agent_name"]))
        for direction, whole_name, part_name, part_fill, rest_fill in _DIRECTIONS:
            whole, part = agent[whole_name], agent[part_name]
            drawn_part = min(part or 0, whole or 0)  # endpoints may report a part that is larger than the whole
            amount = texts("unknown") if whole is None else f"{'≈ ' if agent['n_estimated'] else ''}{whole:,.0f}"
            text = texts(f"amount_{direction}", n=amount)
            text += texts(f"part_{direction}", n=f"{part:,.0f}") if part and whole is not None else ""
            bars.append(Bar(name, ((part_fill, drawn_part), (rest_fill, (whole or 0) - drawn_part)), text))
            name = ""
    svg = bars_svg(texts("tokens_by_agent"), description, bars, _TOKEN_FILLS, axis_number, texts, *notes)
    return Chart(texts("tokens_by_agent"), description, svg, frame, tuple(notes), language=texts.language)


def axis_number(number: float) -> str:
    """Format a number for an axis: `950`, `1.2k`, `34k`, `5.6M`."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


# --- cost by model ---------------------------------------------------------------------------------------------------

KNOWN_COST_FILL = Fill("fill_cost", GREEN)
_COST_DTYPES = {"model": TEXT, "n_llm_calls": INT, "n_unknown": INT, "cost_usd": FLOAT}


def plot_cost(llm_calls: pd.DataFrame) -> Chart:
    """Plot cost by model in US dollars, highest first, with the number of calls whose cost is unknown.

    Args:
        llm_calls: Rows of `wb.llm_calls_df()`, all or some.

    Errors: `UsageError` for a frame that lacks a required column.
    """
    table = FrameColumns(llm_calls, "llm_calls", "plot_cost", ("request_model", "cost_usd"))
    costs, texts = table.numbers("cost_usd"), texts_of(llm_calls)
    models: list[dict[str, Any]] = []
    for name, rows in rows_by_name(table.models()).items():
        n_unknown = sum(costs[row] is None for row in rows)
        cost = known_sum(costs[row] for row in rows)
        models.append({"model": name, "n_llm_calls": len(rows), "n_unknown": n_unknown, "cost_usd": cost})
    models.sort(key=lambda model: -(model["cost_usd"] or 0.0))
    frame = frame_of_rows(_COST_DTYPES, models)
    if not models:
        return empty_chart(texts("cost_by_model"), texts("no_model_calls"), frame, texts)
    bars = []
    for model in models:
        cost, n_unknown = model["cost_usd"], model["n_unknown"]
        missing = texts("cost_missing", n=f"{n_unknown:,}") if n_unknown and cost is not None else ""
        amount, calls = texts("unknown") if cost is None else usd(cost), texts.count(model["n_llm_calls"], "n_calls")
        text = texts("cost_label", cost=amount, calls=calls, missing=missing)
        bars.append(Bar(model["model"], ((KNOWN_COST_FILL, model["cost_usd"] or 0.0),), text))
    notes = []
    if n_unknown := sum(model["n_unknown"] for model in models):
        unpriced = [clip(model["model"], 40) for model in models if model["cost_usd"] is None]
        names = texts("cost_of_none", models=texts.listed(unpriced[:3])) if unpriced else ""
        notes.append(texts("cost_unknown", calls=texts.count(n_unknown, "n_calls"), models=names))
    total = known_sum(model["cost_usd"] for model in models)
    counts = {"calls": texts.count(len(table), "n_calls"), "models": texts.count(len(models), "n_models")}
    summary = capitalized(texts("unknown")) if total is None else usd(total)
    description = texts("cost_by_model_text", cost=summary, **counts)
    svg = bars_svg(texts("cost_by_model"), description, bars, (KNOWN_COST_FILL,), usd, texts, *notes)
    return Chart(texts("cost_by_model"), description, svg, frame, tuple(notes), language=texts.language)
