"""Spans of a run: model calls, tool calls and waits for a person.

Spans are built from events one by one, so that a view can draw a running run; the stored events of a finished run give
the same spans.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from artifactflow_nb.core.document.project import RESEARCH_TOOL
from artifactflow_nb.core.events import MAIN_JOB, StreamEvent, StreamEventType
from artifactflow_nb.core.plan import PLAN_CREATE_TOOL
from artifactflow_nb.core.text.format import clip

MODEL, TOOL, WAIT = "model", "tool", "wait"
DELEGATION_TITLES = {"call_subagent": "agent_name", PLAN_CREATE_TOOL: "title", RESEARCH_TOOL: "query"}
"""Tools that delegate to another agent or run, with the parameter that holds its name or topic."""
DENIED_ERRORS = frozenset({"PermissionDenied", "Instructed"})
_DETAIL_COLUMNS = 160
_RUNNING_MARGIN = 1.05
_ENDINGS = {
    StreamEventType.COMPLETE: "ok",
    StreamEventType.CANCELLED: "cancelled",
    StreamEventType.ERROR: "failed",
}


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """An interval in a run. All times are milliseconds since the start of the run.

    Attributes:
        lane: Name of the agent, with the title of the plan step or the question of the child run if there is one.
        kind: `model`, `tool` or `wait` (for a person).
        name: Name of the model, or of the called or requested tool.
        start_ms: Start.
        end_ms: End; None while it is running.
        first_token_ms: Time of a model's first text; None before it, and for other kinds.
        status: `running`; for a model or tool then `ok`, `failed`, `denied` or `cancelled`; for a wait `waiting`, then
            the decision (`approved`, `edited`, `denied`, `instructed`) or `cancelled`.
        detail: Further information in one line.
        group: The run if several are drawn, else empty.
    """

    lane: str
    kind: str
    name: str
    start_ms: float
    end_ms: float | None = None
    first_token_ms: float | None = None
    status: str = "running"
    detail: str = ""
    group: str = ""

    @property
    def is_delegation(self) -> bool:
        """True if it covers the spans of another agent or run."""
        return self.kind == TOOL and self.name in DELEGATION_TITLES

    def end_at(self, now_ms: float) -> float:
        """End of the span; `now_ms` while it is running."""
        return max(now_ms if self.end_ms is None else self.end_ms, self.start_ms)


def last_time_ms(spans: Sequence[TimelineSpan]) -> float:
    """Latest time in the spans, plus a margin if one is running, so that it has a visible length."""
    last = max((max(span.start_ms, span.end_ms or 0.0) for span in spans), default=0.0)
    return last if all(span.end_ms is not None for span in spans) else max(last * _RUNNING_MARGIN, last + 1.0)


def token_detail(input_tokens: int | None, output_tokens: int | None) -> str:
    """`1,461 tokens in, 121 out`; empty if unknown."""
    if input_tokens is None or output_tokens is None:
        return ""
    return f"{input_tokens:,} tokens in, {output_tokens:,} out"


def step_lane(agent: str, title: str) -> str:
    """Lane of an agent in a plan step or in a child run."""
    return f"{agent}: {title}"


def detail_line(text: object) -> str:
    """Convert to one line of limited width."""
    return clip(str(text or ""), _DETAIL_COLUMNS)


class SpanLog:
    """Builds spans from the events of a run; text chunks may be missing.

    The time per event does not depend on the length of the run.

    Attributes:
        last_ms: Time of the latest event, in milliseconds since the start of the run.
    """

    def __init__(self) -> None:
        self._spans: dict[str, TimelineSpan] = {}
        self._started_at: datetime | None = None
        self._model_spans: dict[str, str] = {}  # key of the running model span, by job
        self._step_lanes: dict[str, str] = {}  # by job
        self._n_calls = 0
        self._seq = 0
        self.last_ms = 0.0

    @property
    def spans(self) -> tuple[TimelineSpan, ...]:
        """All spans, sorted by start."""
        return tuple(sorted(self._spans.values(), key=lambda span: span.start_ms))

    def ms(self, moment: datetime) -> float:
        """Milliseconds from the start of the run to a time; 0 before the first event."""
        return 0.0 if self._started_at is None else max((moment - self._started_at).total_seconds() * 1000, 0.0)

    def apply(self, event: StreamEvent) -> None:
        """Apply the next event; an event that was applied before is ignored."""
        if event.seq <= self._seq:
            return
        self._seq = event.seq
        self._started_at = self._started_at or event.timestamp
        self.last_ms = max(self.last_ms, self.ms(event.timestamp))
        if event.is_terminal:
            self._end(self.ms(event.timestamp), _ENDINGS[event.type])
            return
        handle: Callable[[StreamEvent, float], None] | None = getattr(self, f"_on_{event.type}", None)
        if handle:
            handle(event, self.ms(event.timestamp))

    def _end(self, now_ms: float, status: str) -> None:
        """End all running spans."""
        for key, span in self._spans.items():
            if span.end_ms is None:
                span_status = status if span.kind != WAIT else "cancelled"
                self._spans[key] = replace(span, end_ms=now_ms, status=span_status)

    def _start_model_call(self, event: StreamEvent, now_ms: float, model: str) -> str:
        """Start a model span in the event's job, and return its key."""
        self._n_calls += 1
        key = f"model {self._n_calls}"
        self._model_spans[_job(event)] = key
        self._spans[key] = TimelineSpan(self._lane(event), MODEL, model, now_ms)
        return key

    def _lane(self, event: StreamEvent) -> str:
        return self._step_lanes.get(_job(event)) or event.agent or ""

    def _on_step_start(self, event: StreamEvent, _now_ms: float) -> None:
        self._step_lanes[_job(event)] = step_lane(event.agent or "", str(event.data.get("title") or ""))

    def _on_agent_start(self, event: StreamEvent, now_ms: float) -> None:
        unfinished = self._model_spans.get(_job(event))
        if unfinished is not None:  # the process died in this turn, which a resume starts again
            del self._spans[unfinished]
        self._start_model_call(event, now_ms, str(event.data.get("model") or MODEL))

    def _on_llm_chunk(self, event: StreamEvent, now_ms: float) -> None:
        key = self._model_spans.get(_job(event))
        if key is not None and self._spans[key].first_token_ms is None:
            self._spans[key] = replace(self._spans[key], first_token_ms=now_ms)

    def _on_retry(self, event: StreamEvent, now_ms: float) -> None:
        key = self._model_spans.get(_job(event))
        if key is None:
            return
        failed = replace(self._spans[key], end_ms=now_ms, status="failed", detail=detail_line(event.data.get("reason")))
        self._spans[key] = failed
        self._start_model_call(event, now_ms, failed.name)

    def _on_llm_complete(self, event: StreamEvent, now_ms: float) -> None:
        key = self._model_spans.get(_job(event)) or self._start_model_call(event, now_ms, MODEL)
        del self._model_spans[_job(event)]
        data, span = event.data, self._spans[key]
        took, ttft, usage = data.get("duration_ms"), data.get("ttft_ms"), data.get("token_usage") or {}
        start = span.start_ms if took is None else max(now_ms - took, 0.0)
        self._spans[key] = replace(
            span,
            name=str(data.get("model") or span.name),
            start_ms=start,
            end_ms=now_ms,
            first_token_ms=span.first_token_ms if ttft is None else min(start + ttft, now_ms),
            status="ok",
            detail=token_detail(usage.get("input_tokens"), usage.get("output_tokens")),
        )

    def _on_tool_start(self, event: StreamEvent, now_ms: float) -> None:
        key = f"tool {event.data['tool_call_id']}"
        detail = (event.data.get("params") or {}).get(DELEGATION_TITLES.get(event.tool or ""))
        span = TimelineSpan(self._lane(event), TOOL, event.tool or "", now_ms, detail=detail_line(detail))
        self._spans.setdefault(key, span)  # a call that is repeated after a crash keeps its first start

    def _on_tool_complete(self, event: StreamEvent, now_ms: float) -> None:
        self._on_tool_start(event, now_ms)
        key, data = f"tool {event.data['tool_call_id']}", event.data
        denied = (data.get("metadata") or {}).get("error_type") in DENIED_ERRORS
        status = "ok" if data.get("success") else "denied" if denied else "failed"
        detail = detail_line(data.get("error")) or self._spans[key].detail
        self._spans[key] = replace(self._spans[key], end_ms=now_ms, status=status, detail=detail)

    def _on_permission_request(self, event: StreamEvent, now_ms: float) -> None:
        span = TimelineSpan(self._lane(event), WAIT, event.tool or "", now_ms, status="waiting")
        self._spans.setdefault(f"wait {event.data['id']}", span)  # each resume publishes the open requests again

    def _on_permission_result(self, event: StreamEvent, now_ms: float) -> None:
        key, data = f"wait {event.data['id']}", event.data
        if key not in self._spans:
            return
        if data.get("decided_by") == "policy":  # nobody had to wait
            del self._spans[key]
            return
        decision = data.get("decision") or ("approved" if data.get("approved") else "denied")
        detail = detail_line(data.get("instruction"))
        self._spans[key] = replace(self._spans[key], end_ms=now_ms, status=str(decision), detail=detail)


def _job(event: StreamEvent) -> str:
    return str(event.data.get("job_id") or MAIN_JOB)
