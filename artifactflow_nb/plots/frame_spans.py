"""The same spans as those of a run's events, made from rows of the frames."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from artifactflow_nb.plots.columns import Table
from artifactflow_nb.plots.spans import (
    DELEGATED,
    DENIED_ERRORS,
    MODEL,
    TOOL,
    WAIT,
    Span,
    one_line,
    step_lane,
    token_detail,
)

_CANCELLED = "RunCancelled"


def spans_of_frames(
    llm_calls: pd.DataFrame | None,
    tool_calls: pd.DataFrame | None,
    approvals: pd.DataFrame | None,
    plan_steps: pd.DataFrame | None = None,
) -> tuple[Span, ...]:
    """The spans of the runs in these frames, each run from its first moment on, the runs in the order of theirs.

    Errors: `UsageError` for a frame that lacks a column that is needed.
    """
    found = [*_models(llm_calls), *_tools(tool_calls)]
    found += _waits_of_calls(tool_calls) if approvals is None else _waits(approvals)
    found = list(_in_steps(found, plan_steps))
    began: dict[str, float] = {}
    for span in found:
        began[span.group] = min(span.start_ms, began.get(span.group, span.start_ms))
    return tuple(
        _since(span, began[span.group]) for span in sorted(found, key=lambda s: (began[s.group], s.group, s.start_ms))
    )


def _in_steps(spans: Sequence[Span], frame: pd.DataFrame | None) -> Iterator[Span]:
    """The spans, those of a step of a plan in its lane: what its agent did while it was carried out."""
    needed = ("run_id", "agent_name", "title", "started_at", "completed_at")
    table = Table(frame, "plan_steps", "plot_timeline", needed)
    columns = table.moments("started_at"), table.moments("completed_at"), table.texts("title")
    steps: dict[tuple[str, str], list[tuple[float, float | None, str]]] = {}
    for run, agent, start, end, title in _rows(table, *columns):
        steps.setdefault((run, agent), []).append((start, end, title))
    for span in spans:
        of_agent = steps.get((span.group, span.lane), ())
        title = next(
            (t for start, end, t in of_agent if start <= span.start_ms and (not end or span.start_ms <= end)), ""
        )
        yield replace(span, lane=step_lane(span.lane, title)) if title else span


def _since(span: Span, began: float) -> Span:
    end = None if span.end_ms is None else span.end_ms - began
    first = None if span.first_token_ms is None else span.first_token_ms - began
    return replace(span, start_ms=span.start_ms - began, end_ms=end, first_token_ms=first)


def _rows(table: Table, *columns: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Rows that have begun: the first column is the moment."""
    runs, agents = table.texts("run_id"), table.texts("agent_name")
    return (row for row in zip(runs, agents, *columns, strict=True) if row[2] is not None)


def _models(frame: pd.DataFrame | None) -> Iterator[Span]:
    table = Table(frame, "llm_calls", "plot_timeline", ("run_id", "agent_name", "started_at", "llm_duration_ms"))
    asked, answered = table.texts("request_model", MODEL), table.texts("response_model")
    columns = (
        table.moments("started_at"),
        table.numbers("llm_duration_ms"),
        table.numbers("ttft_ms"),
        [said or model for said, model in zip(answered, asked, strict=True)],
        table.texts("error_type"),
        table.texts("error_message"),
        table.values("input_tokens"),
        table.values("output_tokens"),
    )
    for run, agent, start, took, ttft, model, error, message, read, wrote in _rows(table, *columns):
        status = _status(took is not None, error)
        detail = one_line(message) if error else token_detail(read, wrote)
        end, first = (None if took is None else start + took), (None if ttft is None else start + ttft)
        yield Span(agent, MODEL, model, start, end, first, status, detail, run)


def _tools(frame: pd.DataFrame | None) -> Iterator[Span]:
    table = Table(
        frame, "tool_calls", "plot_timeline", ("run_id", "agent_name", "tool_name", "called_at", "duration_ms")
    )
    columns = (
        table.moments("called_at"),
        table.numbers("duration_ms"),
        table.texts("tool_name"),
        table.values("success"),
        table.texts("error_type"),
        table.texts("error_message"),
        table.texts("args_json"),
    )
    for run, agent, start, took, tool, success, error, message, args in _rows(table, *columns):
        status = _status(took is not None, error or ("" if success is None or success else "failed"))
        detail = one_line(message) or (_told(args, DELEGATED[tool]) if tool in DELEGATED else "")
        yield Span(agent, TOOL, tool, start, None if took is None else start + took, None, status, detail, run)


def _status(ended: bool, error: str) -> str:
    if error:
        return "denied" if error in DENIED_ERRORS else "cancelled" if error == _CANCELLED else "failed"
    return "ok" if ended else "running"


def _told(args_json: str, name: str) -> str:
    """A parameter of the arguments as they are stored; empty if they have none."""
    try:
        return one_line(json.loads(args_json).get(name))
    except (ValueError, AttributeError):
        return ""


def _waits_of_calls(frame: pd.DataFrame | None) -> Iterator[Span]:
    """The waits that tool calls tell of: each ended when its call began."""
    table = Table(frame, "tool_calls", "plot_timeline", ())
    columns = (
        table.moments("called_at"),
        table.numbers("approval_wait_ms"),
        table.texts("tool_name"),
        table.texts("approval"),
        table.texts("decided_by"),
    )
    for run, agent, end, waited, tool, decision, by in _rows(table, *columns):
        if waited is not None and by != "policy":
            yield Span(agent, WAIT, tool, end - waited, end, None, decision or "approved", "", run)


def _waits(frame: pd.DataFrame) -> Iterator[Span]:
    needed = ("run_id", "agent_name", "tool_name", "asked_at", "decided_at")
    table = Table(frame, "approvals", "plot_timeline", needed)
    columns = (
        table.moments("asked_at"),
        table.moments("decided_at"),
        table.texts("tool_name"),
        table.texts("decision"),
        table.texts("decided_by"),
        table.texts("instruction"),
    )
    for run, agent, start, end, tool, decision, by, said in _rows(table, *columns):
        if by != "policy":
            yield Span(agent, WAIT, tool, start, end, None, decision or "waiting", one_line(said), run)
