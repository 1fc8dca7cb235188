"""Charts of tokens and cost: stacked bars by agent and by model, and the tokens of runs over time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from artifactflow_nb.analysis.plots.chart import (
    FLOAT,
    INT,
    TEXT,
    Chart,
    FrameColumns,
    empty_chart,
    frame_of_rows,
    known_sum,
    rows_by_name,
    texts_of,
    typed_frame,
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
    escape_xml,
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
    """

    name: str
    segments: tuple[tuple[Fill, float], ...]
    label: str

    @property
    def total(self) -> float:
        """Total length of all segments."""
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
    """Draw the first 40 bars, with a note on the number of omitted bars.

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


MAX_RUNS = 12
_LEFT, _RIGHT, _STEPS_TOP, _HEIGHT = 60, 60, 62, 200


@dataclass(frozen=True, slots=True)
class _Call:
    """A model call with known tokens, and the totals of its run at its end; times in ms since the run's first call."""

    run_id: str
    agent: str
    end_ms: float
    n_input: int
    n_output: int
    total_input: int = 0
    total_output: int = 0


def plot_tokens_over_time(llm_calls: pd.DataFrame) -> Chart:
    """Plot the tokens that runs have used so far, in seconds since the first call of each run.

    Args:
        llm_calls: Rows of `wb.llm_calls_df()`, all or some. The first 12 runs are drawn, each from its own start.

    Errors: `UsageError` for a frame that lacks a required column.
    """
    (calls, n_unknown), texts = _calls(llm_calls), texts_of(llm_calls)
    run_ids = list(dict.fromkeys(call.run_id for call in calls))
    table = typed_frame(
        {
            "run_id": (TEXT, [call.run_id for call in calls]),
            "agent_name": (TEXT, [call.agent for call in calls]),
            "end_ms": (FLOAT, [call.end_ms for call in calls]),
            "input_tokens": (INT, [call.n_input for call in calls]),
            "output_tokens": (INT, [call.n_output for call in calls]),
            "total_input_tokens": (INT, [call.total_input for call in calls]),
            "total_output_tokens": (INT, [call.total_output for call in calls]),
        }
    )
    if not calls:
        return empty_chart(texts("tokens_over_time"), texts("no_model_calls"), table, texts)
    notes = []
    if n_unknown:
        notes.append(texts("tokens_unknown", calls=texts.count(n_unknown, "n_model_calls")))
    if len(run_ids) > MAX_RUNS:
        notes.append(texts("runs_omitted", runs=texts.count(len(run_ids) - MAX_RUNS, "n_more_runs")))
    n_tokens = sum(call.n_input + call.n_output for call in calls)
    tokens, runs = texts.count(n_tokens, "n_tokens"), texts.count(len(run_ids), "n_runs")
    time = texts.duration(max(call.end_ms for call in calls))
    description = texts("tokens_over_time_text", tokens=tokens, runs=runs, time=time)
    svg = _svg([call for call in calls if call.run_id in run_ids[:MAX_RUNS]], description, notes, texts)
    return Chart(texts("tokens_over_time"), description, svg, table, tuple(notes), language=texts.language)


def _calls(llm_calls: pd.DataFrame) -> tuple[list[_Call], int]:
    """Return the calls sorted by their ends, timed from the start of their run, and the number of omitted calls."""
    needed = ("run_id", "started_at", "llm_duration_ms", "input_tokens", "output_tokens")
    table = FrameColumns(llm_calls, "llm_calls", "plot_tokens_over_time", needed)
    starts, run_ids = table.times_ms("started_at"), table.texts("run_id")
    began: dict[str, float] = {}
    for run_id, start in zip(run_ids, starts, strict=True):
        if start is not None:
            began[run_id] = min(start, began.get(run_id, start))
    columns = (table.numbers("llm_duration_ms"), table.numbers("input_tokens"), table.numbers("output_tokens"))
    calls = [
        _Call(run_id, agent, start + ms - began[run_id], int(n_input), int(n_output))
        for run_id, agent, start, ms, n_input, n_output in zip(
            run_ids, table.texts("agent_name", "unknown"), starts, *columns, strict=True
        )
        if start is not None and ms is not None and n_input is not None and n_output is not None
    ]
    totals: dict[str, _Call] = {}
    steps = []
    for call in sorted(calls, key=lambda call: call.end_ms):
        before = totals.get(call.run_id, _Call("", "", 0.0, 0, 0))
        n_input, n_output = before.total_input + call.n_input, before.total_output + call.n_output
        totals[call.run_id] = replace(call, total_input=n_input, total_output=n_output)
        steps.append(totals[call.run_id])
    return steps, len(table) - len(calls)


def _svg(calls: Sequence[_Call], description: str, notes: Sequence[str], texts: Texts) -> str:
    right, bottom = CHART_WIDTH - _RIGHT, _STEPS_TOP + _HEIGHT
    last_ms = max(call.end_ms for call in calls) or 1.0
    most = max(max(call.total_input, call.total_output) for call in calls) or 1

    def x(ms: float) -> float:
        return _LEFT + ms / last_ms * (right - _LEFT)

    def y(n_tokens: float) -> float:
        return bottom - n_tokens / most * _HEIGHT

    title = texts("tokens_over_time")
    pieces = [heading(title), legend(12, 42, (INPUT_FILL, OUTPUT_FILL), texts)]
    pieces += axis(
        ((x(tick * 1000), texts.time(f"{tick:g} s")) for tick in ticks(last_ms / 1000, 8)), _STEPS_TOP, bottom
    )
    for tick in ticks(most, 5):
        pieces.append(f'<path d="M{_LEFT} {y(tick):.1f}H{right}" stroke="currentColor" stroke-opacity=".16"/>')
        pieces.append(faint(label(_LEFT - 8, y(tick) + 4, axis_number(tick), 10, more='text-anchor="end"')))
    for run_id in dict.fromkeys(call.run_id for call in calls):
        steps = [call for call in calls if call.run_id == run_id]
        for fill, totals in (
            (INPUT_FILL, [call.total_input for call in steps]),
            (OUTPUT_FILL, [call.total_output for call in steps]),
        ):
            points = [(x(call.end_ms), y(total)) for call, total in zip(steps, totals, strict=True)]
            pieces.append(_steps(fill, points, (x(0), y(0))))
            pieces += [_dot(fill, *point, _tip(call, texts)) for call, point in zip(steps, points, strict=True)]
    below, height = footnotes(notes, bottom + 36)
    return drawing((CHART_WIDTH, bottom + 24 + height), title, description, *pieces, *below)


def _steps(fill: Fill, points: Sequence[tuple[float, float]], origin: tuple[float, float]) -> str:
    path = "".join(f"H{x:.1f}V{y:.1f}" for x, y in points)
    dash = "" if fill is INPUT_FILL else ' stroke-dasharray="6 3"'
    start = f"M{origin[0]:.1f} {origin[1]:.1f}"
    return f'<path d="{start}{path}" fill="none" stroke="{fill.colour}" stroke-width="2"{dash}/>'


def _dot(fill: Fill, x: float, y: float, tip: str) -> str:
    title = f"<title>{escape_xml(tip)}</title>"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill.colour}">{title}</circle>'


def _tip(call: _Call, texts: Texts) -> str:
    """Tooltip of a step."""
    own, total = (
        texts("between_parts").join([texts("amount_in", n=f"{n_in:,}"), texts("amount_out", n=f"{n_out:,}")])
        for n_in, n_out in ((call.n_input, call.n_output), (call.total_input, call.total_output))
    )
    agent = clip(capitalized(texts.agent(call.agent)), 60)
    return texts("tokens_tip", agent=agent, time=texts.duration(call.end_ms), own=own, total=total)
