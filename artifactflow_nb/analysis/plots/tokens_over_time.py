"""Chart of the tokens of runs over time: a step at the end of each model call."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from artifactflow_nb.analysis.plots.bars import INPUT_FILL, OUTPUT_FILL, axis_number
from artifactflow_nb.analysis.plots.chart import Chart, empty_chart
from artifactflow_nb.analysis.plots.columns import FLOAT, INT, TEXT, FrameColumns, typed_frame
from artifactflow_nb.analysis.plots.svg import (
    CHART_WIDTH,
    Fill,
    axis,
    drawing,
    escape_xml,
    faint,
    footnotes,
    heading,
    label,
    legend,
    ticks,
)
from artifactflow_nb.core.text.format import clip, count, duration

TITLE = "Tokens over time"
MAX_RUNS = 12
_LEFT, _RIGHT, _TOP, _HEIGHT = 60, 60, 62, 200


@dataclass(frozen=True, slots=True)
class _Call:
    """A model call with known tokens and its run's totals at its end, in milliseconds since the run's first call."""

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
    calls, n_unknown = _calls(llm_calls)
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
        return empty_chart(TITLE, "No model calls with known tokens and times in this frame.", table)
    notes = []
    if n_unknown:
        notes.append(f"{count(n_unknown, 'model call')} without known tokens or time (failed or cancelled calls).")
    if len(run_ids) > MAX_RUNS:
        notes.append(f"{count(len(run_ids) - MAX_RUNS, 'more run')} not drawn: pick some with a filter on run_id.")
    n_tokens = sum(call.n_input + call.n_output for call in calls)
    last_ms = max(call.end_ms for call in calls)
    description = f"{count(n_tokens, 'token')} of {count(len(run_ids), 'run')} in {duration(last_ms)}."
    svg = _svg([call for call in calls if call.run_id in run_ids[:MAX_RUNS]], description, notes)
    return Chart(TITLE, description, svg, table, tuple(notes))


def _calls(llm_calls: pd.DataFrame) -> tuple[list[_Call], int]:
    """The calls in the order of their ends, those of each run from its start, and the number of the others."""
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


def _svg(calls: Sequence[_Call], description: str, notes: Sequence[str]) -> str:
    right, bottom = CHART_WIDTH - _RIGHT, _TOP + _HEIGHT
    last_ms = max(call.end_ms for call in calls) or 1.0
    most = max(max(call.total_input, call.total_output) for call in calls) or 1

    def x(ms: float) -> float:
        return _LEFT + ms / last_ms * (right - _LEFT)

    def y(n_tokens: float) -> float:
        return bottom - n_tokens / most * _HEIGHT

    pieces = [heading(TITLE), legend(12, 42, (INPUT_FILL, OUTPUT_FILL))]
    pieces += axis(((x(tick * 1000), f"{tick:g} s") for tick in ticks(last_ms / 1000, 8)), _TOP, bottom)
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
            pieces += [_dot(fill, *point, _tip(call)) for call, point in zip(steps, points, strict=True)]
    below, height = footnotes(notes, bottom + 36)
    return drawing((CHART_WIDTH, bottom + 24 + height), TITLE, description, *pieces, *below)


def _steps(fill: Fill, points: Sequence[tuple[float, float]], origin: tuple[float, float]) -> str:
    path = "".join(f"H{x:.1f}V{y:.1f}" for x, y in points)
    dash = "" if fill is INPUT_FILL else ' stroke-dasharray="6 3"'
    start = f"M{origin[0]:.1f} {origin[1]:.1f}"
    return f'<path d="{start}{path}" fill="none" stroke="{fill.colour}" stroke-width="2"{dash}/>'


def _dot(fill: Fill, x: float, y: float, tip: str) -> str:
    title = f"<title>{escape_xml(tip)}</title>"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill.colour}">{title}</circle>'


def _tip(call: _Call) -> str:
    """Tooltip of a step."""
    own = f"{call.n_input:,} in, {call.n_output:,} out"
    total = f"{call.total_input:,} in, {call.total_output:,} out"
    return f"{clip(call.agent, 60)} after {duration(call.end_ms)}: {own}; so far {total}"
