"""Spans of a run: model calls, tool calls and waits for a person.

Spans are built from events one by one, so that a view can draw a running run; the stored events of a finished run give
the same spans.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from artifactflow_nb.core.approvals import DENIED_ERRORS
from artifactflow_nb.core.document.project import DELEGATING_TOOLS
from artifactflow_nb.core.events import MAIN_JOB, StreamEvent, StreamEventType
from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.format import capitalized, clip

MODEL, TOOL, WAIT = "model", "tool", "wait"
_DETAIL_COLUMNS = 160
_RUNNING_MARGIN = 1.05
_ENDINGS = {StreamEventType.COMPLETE: "ok", StreamEventType.CANCELLED: "cancelled", StreamEventType.ERROR: "failed"}


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
        tokens: Input and output tokens of a model call; None if unknown.
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
    tokens: tuple[int | None, int | None] = (None, None)

    @property
    def is_delegation(self) -> bool:
        """True if it covers the spans of another agent or run."""
        return self.kind == TOOL and DELEGATING_TOOLS.get(self.name) is not None

    def end_at(self, now_ms: float) -> float:
        """End of the span; `now_ms` while it is running."""
        return max(now_ms if self.end_ms is None else self.end_ms, self.start_ms)


def last_time_ms(spans: Sequence[TimelineSpan]) -> float:
    """Latest time in the spans, plus a margin if one is running, so that it has a visible length."""
    last = max((max(span.start_ms, span.end_ms or 0.0) for span in spans), default=0.0)
    return last if all(span.end_ms is not None for span in spans) else max(last * _RUNNING_MARGIN, last + 1.0)


def covered_ms(spans: Sequence[tuple[float, float]], within: Sequence[tuple[float, float]]) -> float:
    """Milliseconds of `within`, disjoint intervals, that at least one of the spans covers."""
    total = 0.0
    for start, end in within:
        covered_until = start
        for span_start, span_end in sorted(spans):
            total += max(min(span_end, end) - max(span_start, covered_until), 0.0)
            covered_until = max(covered_until, min(span_end, end))
    return total


def step_lane(agent: str, title: str) -> str:
    """Lane of an agent in a plan step or in a child run."""
    return f"{agent}: {title}"


def lane_label(lane: str, texts: Texts) -> str:
    """Display name of a lane."""
    agent, separator, title = lane.partition(": ")
    return f"{capitalized(texts.agent(agent))}{separator}{title}"


def span_label(span: TimelineSpan, texts: Texts) -> str:
    """Display name of a span: the model, or the tool in words."""
    return span.name if span.kind == MODEL else capitalized(texts.tool(span.name))


def span_detail(span: TimelineSpan, texts: Texts) -> str:
    """Detail of a span; without one its tokens: `1,461 tokens in, 121 out`."""
    if span.detail or None in span.tokens:
        return span.detail
    n_in, n_out = (f"{n:,}" for n in span.tokens)
    return texts("tokens_in_out", n_in=n_in, n_out=n_out)


def detail_line(text: object) -> str:
    """Convert a value to one line, cut to the width of a detail."""
    return clip(str(text or ""), _DETAIL_COLUMNS)


class SpanLog:
    """Builds spans from the events of a run; text chunks may be missing.

    The time per event does not depend on the length of the run.

    Attributes:
        last_ms: Time of the latest event, in milliseconds since the start of the run.
        pauses: The pauses that have ended: start and end, in milliseconds since the start of the run.
        step_lanes: The lanes of the steps of plans, by job.
    """

    def __init__(self) -> None:
        self.pauses: list[tuple[float, float]] = []
        self._paused_at_ms: float | None = None
        self._spans: dict[str, TimelineSpan] = {}
        self._started_at: datetime | None = None
        self._model_spans: dict[str, str] = {}  # key of the running model span, by job
        self.step_lanes: dict[str, str] = {}
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
        now_ms = self.ms(event.timestamp)
        if self._paused_at_ms is not None:
            self.pauses.append((self._paused_at_ms, max(now_ms, self._paused_at_ms)))
        is_pause = event.type is StreamEventType.COMPLETE and not event.is_terminal
        self._paused_at_ms = now_ms if is_pause else None
        if event.is_terminal:
            for key, span in self._spans.items():
                if span.end_ms is None:
                    status = "cancelled" if span.kind == WAIT else _ENDINGS[event.type]
                    start_ms = min(span.start_ms, now_ms)  # a retry may start later
                    self._spans[key] = replace(span, start_ms=start_ms, end_ms=now_ms, status=status)
            return
        data, job = event.data, str(event.data.get("job_id") or MAIN_JOB)
        lane = self.step_lanes.get(job) or event.agent or ""
        match event.type:
            case StreamEventType.STEP_START:
                self.step_lanes[job] = step_lane(event.agent or "", str(data.get("title") or ""))
            case (
                StreamEventType.AGENT_START
                | StreamEventType.LLM_CHUNK
                | StreamEventType.RETRY
                | StreamEventType.LLM_COMPLETE
            ):
                self._apply_to_model_call(event, job, lane, now_ms)
            case StreamEventType.TOOL_START | StreamEventType.TOOL_COMPLETE:
                key, tool = f"tool {data['tool_call_id']}", event.tool or ""
                if key not in self._spans:  # a call that is repeated after a crash keeps its first start
                    title = (data.get("params") or {}).get(DELEGATING_TOOLS.get(tool))
                    self._spans[key] = TimelineSpan(lane, TOOL, tool, now_ms, detail=detail_line(title))
                if event.type is StreamEventType.TOOL_COMPLETE:
                    is_denied = (data.get("metadata") or {}).get("error_type") in DENIED_ERRORS
                    status = "ok" if data.get("success") else "denied" if is_denied else "failed"
                    detail = detail_line(data.get("error")) or self._spans[key].detail
                    self._spans[key] = replace(self._spans[key], end_ms=now_ms, status=status, detail=detail)
            case StreamEventType.PERMISSION_REQUEST:  # each resume publishes the open requests again
                wait = TimelineSpan(lane, WAIT, event.tool or "", now_ms, status="waiting")
                self._spans.setdefault(f"wait {data['id']}", wait)
            case StreamEventType.PERMISSION_RESULT if (key := f"wait {data['id']}") in self._spans:
                if data.get("decided_by") in {"policy", "reviewer"}:  # nobody had to wait
                    del self._spans[key]
                    return
                decision = data.get("decision") or ("approved" if data.get("approved") else "denied")
                detail = detail_line(data.get("instruction"))
                self._spans[key] = replace(self._spans[key], end_ms=now_ms, status=str(decision), detail=detail)

    def _start_model_call(self, job: str, lane: str, model: str, now_ms: float) -> str:
        """Start the model span of a job, and return its key."""
        self._n_calls += 1
        key = f"model {self._n_calls}"
        self._model_spans[job] = key
        self._spans[key] = TimelineSpan(lane, MODEL, model, now_ms)
        return key

    def _apply_to_model_call(self, event: StreamEvent, job: str, lane: str, now_ms: float) -> None:
        key, data = self._model_spans.get(job), event.data
        if event.type is StreamEventType.AGENT_START:
            if key is not None:  # the process died in this turn, which a resume starts again
                del self._spans[key]
            self._start_model_call(job, lane, str(data.get("model") or MODEL), now_ms)
        elif event.type is StreamEventType.LLM_COMPLETE:
            key = key or self._start_model_call(job, lane, MODEL, now_ms)
            del self._model_spans[job]
            span = self._spans[key]
            duration_ms, ttft_ms, usage = data.get("duration_ms"), data.get("ttft_ms"), data.get("token_usage") or {}
            start_ms = span.start_ms if duration_ms is None else max(now_ms - duration_ms, 0.0)
            self._spans[key] = replace(
                span,
                name=str(data.get("model") or span.name),
                start_ms=start_ms,
                end_ms=now_ms,
                first_token_ms=span.first_token_ms if ttft_ms is None else min(start_ms + ttft_ms, now_ms),
                status="ok",
                tokens=(usage.get("input_tokens"), usage.get("output_tokens")),
            )
        elif key is not None and event.type is StreamEventType.RETRY:
            failed = replace(self._spans[key], end_ms=now_ms, status="failed", detail=detail_line(data.get("reason")))
            self._spans[key] = failed
            self._start_model_call(job, lane, failed.name, now_ms + 1000 * float(data.get("delay_s") or 0))
        elif key is not None and self._spans[key].first_token_ms is None:
            self._spans[key] = replace(self._spans[key], first_token_ms=now_ms)
