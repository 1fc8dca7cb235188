"""Timeline of one or several runs from frames."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from artifactflow_nb.analysis.plots.chart import Chart, empty_chart
from artifactflow_nb.analysis.plots.columns import FLOAT, TEXT, typed_frame
from artifactflow_nb.analysis.plots.frame_spans import spans_from_frames
from artifactflow_nb.analysis.plots.lanes import build_lanes, omission_notes
from artifactflow_nb.analysis.plots.spans import TimelineSpan, last_time_ms
from artifactflow_nb.analysis.plots.waterfall import describe_spans, waterfall_svg
from artifactflow_nb.core.text.format import count

TITLE = "Timeline"
MAX_RUNS = 12


def plot_timeline(
    llm_calls: pd.DataFrame | None,
    tool_calls: pd.DataFrame | None = None,
    approvals: pd.DataFrame | None = None,
    plan_steps: pd.DataFrame | None = None,
) -> Chart:
    """Plot a waterfall with a lane per agent, in seconds since the first call of the run.

    Args:
        llm_calls: Rows of `wb.llm_calls_df()`, all or some; None for none.
        tool_calls: Rows of `wb.tool_calls_df()`.
        approvals: Rows of `wb.approvals_df()`; None derives the waits for a person from `tool_calls`.
        plan_steps: Rows of `wb.plan_steps_df()`, which give each plan step a lane of its own.

    Several runs (12 at most) are drawn one below the other, each from its own start.

    Errors: `UsageError` for a frame that lacks a required column.
    """
    spans = spans_from_frames(llm_calls, tool_calls, approvals, plan_steps)
    if not spans:
        return empty_chart(TITLE, "No calls in these frames.", _table(()))
    runs = list(dict.fromkeys(span.group for span in spans))
    drawn = [span for span in spans if span.group in set(runs[:MAX_RUNS])]
    if len(runs) == 1:
        drawn = [replace(span, group="") for span in drawn]
    n_more = len(runs) - MAX_RUNS
    run_notes = (f"{count(n_more, 'more run')} not drawn: pick some with a filter on run_id.",) if n_more > 0 else ()
    now_ms = last_time_ms(drawn)
    description = describe_spans(drawn, now_ms)
    notes = (*omission_notes(build_lanes(drawn, now_ms)), *run_notes)
    svg = waterfall_svg(drawn, now_ms, title=TITLE, notes=run_notes)
    return Chart(TITLE, description, svg, _table(spans), notes)


def _table(spans: Sequence[TimelineSpan]) -> pd.DataFrame:
    """The spans as a frame."""
    return typed_frame(
        {
            "run_id": (TEXT, [span.group for span in spans]),
            "agent_name": (TEXT, [span.lane for span in spans]),
            "kind": (TEXT, [span.kind for span in spans]),
            "name": (TEXT, [span.name for span in spans]),
            "start_ms": (FLOAT, [span.start_ms for span in spans]),
            "duration_ms": (FLOAT, [_since_start(span, span.end_ms) for span in spans]),
            "ttft_ms": (FLOAT, [_since_start(span, span.first_token_ms) for span in spans]),
            "status": (TEXT, [span.status for span in spans]),
            "detail": (TEXT, [span.detail for span in spans]),
        }
    )


def _since_start(span: TimelineSpan, ms: float | None) -> float | None:
    return None if ms is None else ms - span.start_ms
