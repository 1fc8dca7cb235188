"""Spans from rows of frames; equal to those that `SpanLog` builds from the events of the run."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from artifactflow_nb.analysis.plots.columns import FrameColumns
from artifactflow_nb.analysis.plots.spans import (
    DELEGATION_TITLES,
    DENIED_ERRORS,
    MODEL,
    TOOL,
    WAIT,
    TimelineSpan,
    detail_line,
    step_lane,
    token_detail,
)

_CANCELLED = "RunCancelled"


def spans_from_frames(
    llm_calls: pd.DataFrame | None,
    tool_calls: pd.DataFrame | None,
    approvals: pd.DataFrame | None,
    plan_steps: pd.DataFrame | None = None,
) -> tuple[TimelineSpan, ...]:
    """Build the spans of all runs in the frames, relative to the first span of each run; runs are sorted by start.

    Errors: `UsageError` for a frame that lacks a required column.
    """
    spans = [*_model_spans(llm_calls), *_tool_spans(tool_calls)]
    spans += _waits_from_tool_calls(tool_calls) if approvals is None else _wait_spans(approvals)
    spans = list(_with_step_lanes(spans, plan_steps))
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


def _with_step_lanes(spans: Sequence[TimelineSpan], frame: pd.DataFrame | None) -> Iterator[TimelineSpan]:
    """Move the spans of plan steps to lanes of their own: those of the step's agent during the step."""
    needed = ("run_id", "agent_name", "title", "started_at", "completed_at")
    table = FrameColumns(frame, "plan_steps", "plot_timeline", needed)
    columns = table.times_ms("started_at"), table.times_ms("completed_at"), table.texts("title")
    steps: dict[tuple[str, str], list[tuple[float, float | None, str]]] = {}
    for run, agent, start, end, title in _rows(table, *columns):
        steps.setdefault((run, agent), []).append((start, end, title))
    for span in spans:
        agent_steps = steps.get((span.group, span.lane), ())
        title = next(
            (t for start, end, t in agent_steps if start <= span.start_ms and (not end or span.start_ms <= end)), ""
        )
        yield replace(span, lane=step_lane(span.lane, title)) if title else span


def _rows(table: FrameColumns, *columns: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Rows of run, agent and the columns, without those that have no time in the first column."""
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
        detail = detail_line(message) if error else token_detail(input_tokens, output_tokens)
        end, first = (None if duration is None else start + duration), (None if ttft is None else start + ttft)
        yield TimelineSpan(agent, MODEL, model, start, end, first, status, detail, run)


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
        title_parameter = DELEGATION_TITLES.get(tool)
        detail = detail_line(message) or (_parameter(args, title_parameter) if title_parameter else "")
        end = None if duration is None else start + duration
        yield TimelineSpan(agent, TOOL, tool, start, end, None, status, detail, run)


def _status(ended: bool, error: str) -> str:
    if error:
        return "denied" if error in DENIED_ERRORS else "cancelled" if error == _CANCELLED else "failed"
    return "ok" if ended else "running"


def _parameter(args_json: str, name: str) -> str:
    """A parameter from stored arguments; empty if it is missing or the arguments could not be parsed."""
    try:
        return detail_line(json.loads(args_json).get(name))
    except (ValueError, AttributeError):
        return ""


def _waits_from_tool_calls(frame: pd.DataFrame | None) -> Iterator[TimelineSpan]:
    """Waits before tool calls, without an approvals frame: each ended when its call started."""
    table = FrameColumns(frame, "tool_calls", "plot_timeline", ())
    columns = (
        table.times_ms("called_at"),
        table.numbers("approval_wait_ms"),
        table.texts("tool_name"),
        table.texts("approval"),
        table.texts("decided_by"),
    )
    for run, agent, end, wait_ms, tool, decision, by in _rows(table, *columns):
        if wait_ms is not None and by != "policy":
            yield TimelineSpan(agent, WAIT, tool, end - wait_ms, end, None, decision or "approved", "", run)


def _wait_spans(frame: pd.DataFrame) -> Iterator[TimelineSpan]:
    needed = ("run_id", "agent_name", "tool_name", "asked_at", "decided_at")
    table = FrameColumns(frame, "approvals", "plot_timeline", needed)
    columns = (
        table.times_ms("asked_at"),
        table.times_ms("decided_at"),
        table.texts("tool_name"),
        table.texts("decision"),
        table.texts("decided_by"),
        table.texts("instruction"),
    )
    for run, agent, start, end, tool, decision, by, instruction in _rows(table, *columns):
        if by != "policy":
            yield TimelineSpan(
                agent, WAIT, tool, start, end, None, decision or "waiting", detail_line(instruction), run
            )
