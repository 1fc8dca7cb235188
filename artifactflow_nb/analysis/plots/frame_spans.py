"""Spans of runs from frames, for `af.plots.timeline`, without the details that tooltips of a live timeline show.

The spans of a run have the same lanes, kinds, names, times and statuses as the spans that `SpanLog` builds from events.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from artifactflow_nb.analysis.plots.frame_columns import FrameColumns
from artifactflow_nb.analysis.plots.spans import MODEL, TOOL, WAIT, TimelineSpan, step_lane
from artifactflow_nb.core.approvals import DENIED_ERRORS
from artifactflow_nb.errors import RunCancelled

_PLOT = "af.plots.timeline"


def spans_from_frames(
    llm_calls: pd.DataFrame | None,
    tool_calls: pd.DataFrame | None,
    approvals: pd.DataFrame | None,
    plan_steps: pd.DataFrame | None = None,
) -> tuple[TimelineSpan, ...]:
    """Build the spans of all runs in the frames, relative to the first span of each run; runs are sorted by start.

    Errors: `UsageError` for a frame that lacks a required column.
    """
    needed = ("run_id", "agent_name", "title", "started_at", "completed_at")
    table = FrameColumns(plan_steps, "plan_steps", _PLOT, needed)
    columns = table.times_ms("started_at"), table.times_ms("completed_at"), table.texts("title")
    steps: dict[tuple[str, str], list[tuple[float, float | None, str]]] = {}
    for run, agent, start, end, title in _rows(table, *columns):
        steps.setdefault((run, agent), []).append((start, end, title))
    spans = []
    for span in (*_model_spans(llm_calls), *_tool_spans(tool_calls), *_wait_spans(approvals, tool_calls)):
        # During a plan step the spans of its agent are in a lane of their own.
        titles = (
            title
            for start, end, title in steps.get((span.group, span.lane), ())
            if start <= span.start_ms and (not end or span.start_ms <= end)
        )
        title = next(titles, "")
        spans.append(replace(span, lane=step_lane(span.lane, title)) if title else span)
    run_start: dict[str, float] = {}
    for span in spans:
        run_start[span.group] = min(span.start_ms, run_start.get(span.group, span.start_ms))
    spans.sort(key=lambda span: (run_start[span.group], span.group, span.start_ms))
    relative = []
    for span in spans:
        times = (None if time is None else time - run_start[span.group] for time in (span.end_ms, span.first_token_ms))
        end_ms, first_token_ms = times
        start_ms = span.start_ms - run_start[span.group]
        relative.append(replace(span, start_ms=start_ms, end_ms=end_ms, first_token_ms=first_token_ms))
    return tuple(relative)


def _rows(table: FrameColumns, *columns: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Return rows of run, agent and the columns; rows without a time in the first column are dropped."""
    runs, agents = table.texts("run_id"), table.texts("agent_name")
    return (row for row in zip(runs, agents, *columns, strict=True) if row[2] is not None)


def _model_spans(frame: pd.DataFrame | None) -> Iterator[TimelineSpan]:
    table = FrameColumns(frame, "llm_calls", _PLOT, ("run_id", "agent_name", "started_at", "llm_duration_ms"))
    times = table.times_ms("started_at"), table.numbers("llm_duration_ms"), table.numbers("ttft_ms")
    for run, agent, start, duration, ttft, model, error in _rows(
        table, *times, table.models(MODEL), table.texts("error_type")
    ):
        end, first = (None if duration is None else start + duration), (None if ttft is None else start + ttft)
        yield TimelineSpan(agent, MODEL, model, start, end, first, _status(end, error), group=run)


def _tool_spans(frame: pd.DataFrame | None) -> Iterator[TimelineSpan]:
    table = FrameColumns(frame, "tool_calls", _PLOT, ("run_id", "agent_name", "tool_name", "called_at", "duration_ms"))
    times = table.times_ms("called_at"), table.numbers("duration_ms")
    results = table.texts("tool_name"), table.values("success"), table.texts("error_type")
    for run, agent, start, duration, tool, success, error in _rows(table, *times, *results):
        end = None if duration is None else start + duration
        status = _status(end, error or ("" if success is None or success else "failed"))
        yield TimelineSpan(agent, TOOL, tool, start, end, None, status, group=run)


def _status(end_ms: float | None, error: str) -> str:
    if error:
        return "denied" if error in DENIED_ERRORS else "cancelled" if error == RunCancelled.__name__ else "failed"
    return "running" if end_ms is None else "ok"


def _wait_spans(approvals: pd.DataFrame | None, tool_calls: pd.DataFrame | None) -> Iterator[TimelineSpan]:
    """Return the waits for a person; without `approvals` the waits are derived from the tool calls that follow."""
    if approvals is None:
        table = FrameColumns(tool_calls, "tool_calls", _PLOT, ())
        ends, decisions = table.times_ms("called_at"), table.texts("approval")
        waits = table.numbers("approval_wait_ms")
        starts = [None if wait is None or end is None else end - wait for end, wait in zip(ends, waits, strict=True)]
    else:
        needed = ("run_id", "agent_name", "tool_name", "asked_at", "decided_at")
        table = FrameColumns(approvals, "approvals", _PLOT, needed)
        starts, ends, decisions = table.times_ms("asked_at"), table.times_ms("decided_at"), table.texts("decision")
    requests = starts, ends, table.texts("tool_name"), decisions, table.texts("decided_by")
    for run, agent, start, end, tool, decision, by in _rows(table, *requests):
        if by != "policy":
            status = decision or ("waiting" if end is None else "approved")
            yield TimelineSpan(agent, WAIT, tool, start, end, None, status, group=run)
