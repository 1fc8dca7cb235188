"""Timeline of one or several runs from frames.

The spans of a run are the same as those that `SpanLog` builds from its events.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pandas as pd

from artifactflow_nb.analysis.plots.chart import FLOAT, TEXT, Chart, FrameColumns, empty_chart, texts_of, typed_frame
from artifactflow_nb.analysis.plots.spans import (
    MODEL,
    TOOL,
    WAIT,
    TimelineSpan,
    build_lanes,
    detail_line,
    last_time_ms,
    omission_notes,
    span_detail,
    step_lane,
)
from artifactflow_nb.analysis.plots.waterfall import describe_spans, waterfall_svg
from artifactflow_nb.core.approvals import DENIED_ERRORS
from artifactflow_nb.core.document.project import DELEGATING_TOOLS
from artifactflow_nb.core.language import Texts
from artifactflow_nb.errors import RunCancelled

MAX_RUNS = 12
_CANCELLED = RunCancelled.__name__


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
    texts = texts_of(llm_calls, tool_calls, approvals, plan_steps)
    if not spans:
        return empty_chart(texts("timeline"), texts("no_calls"), _table((), texts), texts)
    runs = list(dict.fromkeys(span.group for span in spans))
    drawn = [span for span in spans if span.group in set(runs[:MAX_RUNS])]
    if len(runs) == 1:
        drawn = [replace(span, group="") for span in drawn]
    n_more = len(runs) - MAX_RUNS
    run_notes = (texts("runs_omitted", runs=texts.count(n_more, "n_more_runs")),) if n_more > 0 else ()
    now_ms = last_time_ms(drawn)
    description = describe_spans(drawn, now_ms, texts)
    notes = (*omission_notes(build_lanes(drawn, now_ms), texts), *run_notes)
    svg = waterfall_svg(drawn, now_ms, notes=run_notes, texts=texts)
    return Chart(texts("timeline"), description, svg, _table(spans, texts), notes, language=texts.language)


def _table(spans: Sequence[TimelineSpan], texts: Texts) -> pd.DataFrame:
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
            "detail": (TEXT, [span.detail or span_detail(span, texts) for span in spans]),
        }
    )


def _since_start(span: TimelineSpan, ms: float | None) -> float | None:
    return None if ms is None else ms - span.start_ms


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
    table = FrameColumns(plan_steps, "plan_steps", "plot_timeline", needed)
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
        start_ms = run_start[span.group]
        end = None if span.end_ms is None else span.end_ms - start_ms
        first = None if span.first_token_ms is None else span.first_token_ms - start_ms
        relative.append(replace(span, start_ms=span.start_ms - start_ms, end_ms=end, first_token_ms=first))
    return tuple(relative)


def _rows(table: FrameColumns, *columns: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Return rows of run, agent and the columns; rows without a time in the first column are dropped."""
    runs, agents = table.texts("run_id"), table.texts("agent_name")
    return (row for row in zip(runs, agents, *columns, strict=True) if row[2] is not None)


def _model_spans(frame: pd.DataFrame | None) -> Iterator[TimelineSpan]:
    table = FrameColumns(frame, "llm_calls", "plot_timeline", ("run_id", "agent_name", "started_at", "llm_duration_ms"))
    columns = (
        table.times_ms("started_at"),
        table.numbers("llm_duration_ms"),
        table.numbers("ttft_ms"),
        table.models(MODEL),
        table.texts("error_type"),
        table.texts("error_message"),
        table.values("input_tokens"),
        table.values("output_tokens"),
    )
    for run, agent, start, duration, ttft, model, error, message, input_tokens, output_tokens in _rows(table, *columns):
        status = _status(duration is not None, error)
        detail, tokens = detail_line(message) if error else "", (input_tokens, output_tokens)
        end, first = (None if duration is None else start + duration), (None if ttft is None else start + ttft)
        yield TimelineSpan(agent, MODEL, model, start, end, first, status, detail, run, tokens)


def _tool_spans(frame: pd.DataFrame | None) -> Iterator[TimelineSpan]:
    table = FrameColumns(
        frame, "tool_calls", "plot_timeline", ("run_id", "agent_name", "tool_name", "called_at", "duration_ms")
    )
    columns = (
        table.times_ms("called_at"),
        table.numbers("duration_ms"),
        table.texts("tool_name"),
        table.values("success"),
        table.texts("error_type"),
        table.texts("error_message"),
        table.texts("args_json"),
    )
    for run, agent, start, duration, tool, success, error, message, args in _rows(table, *columns):
        status = _status(duration is not None, error or ("" if success is None or success else "failed"))
        detail = detail_line(message)
        if not detail and (title_parameter := DELEGATING_TOOLS.get(tool)):
            with suppress(ValueError, AttributeError):  # a failed call may have invalid arguments
                detail = detail_line(json.loads(args).get(title_parameter))
        end = None if duration is None else start + duration
        yield TimelineSpan(agent, TOOL, tool, start, end, None, status, detail, run)


def _status(ended: bool, error: str) -> str:
    if error:
        return "denied" if error in DENIED_ERRORS else "cancelled" if error == _CANCELLED else "failed"
    return "ok" if ended else "running"


def _wait_spans(approvals: pd.DataFrame | None, tool_calls: pd.DataFrame | None) -> Iterator[TimelineSpan]:
    """Return the waits for a person; without `approvals` they are derived from tool calls, which follow them."""
    if approvals is None:
        table = FrameColumns(tool_calls, "tool_calls", "plot_timeline", ())
        decided = (
            table.times_ms("called_at"),
            table.numbers("approval_wait_ms"),
            table.texts("tool_name"),
            table.texts("approval"),
            table.texts("decided_by"),
        )
        for run, agent, end, wait_ms, tool, decision, by in _rows(table, *decided):
            if wait_ms is not None and by != "policy":
                yield TimelineSpan(agent, WAIT, tool, end - wait_ms, end, None, decision or "approved", "", run)
        return
    needed = ("run_id", "agent_name", "tool_name", "asked_at", "decided_at")
    table = FrameColumns(approvals, "approvals", "plot_timeline", needed)
    requests = (
        table.times_ms("asked_at"),
        table.times_ms("decided_at"),
        table.texts("tool_name"),
        table.texts("decision"),
        table.texts("decided_by"),
        table.texts("instruction"),
    )
    for run, agent, start, end, tool, decision, by, instruction in _rows(table, *requests):
        if by != "policy":
            detail = detail_line(instruction)
            yield TimelineSpan(agent, WAIT, tool, start, end, None, decision or "waiting", detail, run)
