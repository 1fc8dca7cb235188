"""Chart of the tokens of runs over time: a step at the end of each model call."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from artifactflow_nb.analysis.plots.bars import INPUT_FILL, OUTPUT_FILL, axis_number
from artifactflow_nb.analysis.plots.chart import Chart, empty_chart
from artifactflow_nb.analysis.plots.columns import FLOAT, INT, TEXT, FrameColumns, texts_of, typed_frame
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
from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.format import capitalized, clip

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


def _svg(calls: Sequence[_Call], description: str, notes: Sequence[str], texts: Texts) -> str:
    right, bottom = CHART_WIDTH - _RIGHT, _TOP + _HEIGHT
    last_ms = max(call.end_ms for call in calls) or 1.0
    most = max(max(call.total_input, call.total_output) for call in calls) or 1

    def x(ms: float) -> float:
        return _LEFT + ms / last_ms * (right - _LEFT)

    def y(n_tokens: float) -> float:
        return bottom - n_tokens / most * _HEIGHT

    title = texts("tokens_over_time")
    pieces = [heading(title), legend(12, 42, (INPUT_FILL, OUTPUT_FILL), texts)]
    pieces += axis(((x(tick * 1000), texts.time(f"{tick:g} s")) for tick in ticks(last_ms / 1000, 8)), _TOP, bottom)
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
