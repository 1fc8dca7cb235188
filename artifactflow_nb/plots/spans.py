"""What took time in a run, as spans: a model call, a tool call, a wait for a person.

Spans are made from events, one by one, so that a view can draw a run while it goes; a run that has ended gives the same
spans from its stored events.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from artifactflow_nb.events import MAIN_JOB, StreamEvent, StreamEventType
from artifactflow_nb.plans import PLAN_CREATE
from artifactflow_nb.projects import RUN_RESEARCH
from artifactflow_nb.text.width import clip

MODEL, TOOL, WAIT = "model", "tool", "wait"
DELEGATED = {"call_subagent": "agent_name", PLAN_CREATE: "title", RUN_RESEARCH: "query"}
"""The tools that have other agents work, or another run, and which of their parameters says whom, or for what."""
DENIED_ERRORS = frozenset({"PermissionDenied", "Instructed"})
_DETAIL_COLUMNS = 160
_GOES_ON = 1.05
_ENDINGS = {
    StreamEventType.COMPLETE: "ok",
    StreamEventType.CANCELLED: "cancelled",
    StreamEventType.ERROR: "failed",
}


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time. All moments are milliseconds since the run began.

    Attributes:
        lane: The agent whose time it was; for a step of a plan with the step's title, in a run that works for a call
            with its question.
        kind: `model`, `tool` or `wait` (for a person).
        name: The model, or the tool that was called or asked about.
        start_ms: When it began.
        end_ms: When it ended; None while it goes on.
        first_token_ms: When a model's first text came; None if it has not, and for all else.
        status: `running`; a model's or tool's `ok`, `failed`, `denied` or `cancelled`; of a wait `waiting`, then the
            decision (`approved`, `edited`, `denied`, `instructed`) or `cancelled`.
        detail: What else there is to say, in a line.
        group: The run that it belongs to, where several are drawn; else empty.
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
        """Whether it only covers what another agent did."""
        return self.kind == TOOL and self.name in DELEGATED

    def until(self, now_ms: float) -> float:
        """Its end, or for one that goes on the moment that is now."""
        return max(now_ms if self.end_ms is None else self.end_ms, self.start_ms)


def last_moment(spans: Sequence[Span]) -> float:
    """Now, as far as spans tell: their last moment, and a little more where some of them go on, so that they show."""
    last = max((max(span.start_ms, span.end_ms or 0.0) for span in spans), default=0.0)
    return last if all(span.end_ms is not None for span in spans) else max(last * _GOES_ON, last + 1.0)


def token_detail(input_tokens: int | None, output_tokens: int | None) -> str:
    """`1,461 tokens in, 121 out`; empty if unknown."""
    if input_tokens is None or output_tokens is None:
        return ""
    return f"{input_tokens:,} tokens in, {output_tokens:,} out"


def step_lane(agent: str, title: str) -> str:
    """The lane of an agent that carries out a step of a plan, or works in a run of its own for a call."""
    return f"{agent}: {title}"


def one_line(text: object) -> str:
    """A detail as a span holds it."""
    return clip(str(text or ""), _DETAIL_COLUMNS)


class SpanLog:
    """Folds the events of a run into spans, from its first event on; chunks may be missing.

    Each event costs the same, however long the run is.

    Attributes:
        last_ms: The time of the latest event so far, in milliseconds since the run began.
    """

    def __init__(self) -> None:
        self._spans: dict[str, Span] = {}
        self._began: datetime | None = None
        self._at_work: dict[str, str] = {}
        self._steps: dict[str, str] = {}
        self._n_calls = 0
        self._seq = 0
        self.last_ms = 0.0

    @property
    def spans(self) -> tuple[Span, ...]:
        """All spans so far, in the order in which they began."""
        return tuple(sorted(self._spans.values(), key=lambda span: span.start_ms))

    def ms(self, moment: datetime) -> float:
        """A moment as milliseconds since the run began; 0 before its first event."""
        return 0.0 if self._began is None else max((moment - self._began).total_seconds() * 1000, 0.0)

    def apply(self, event: StreamEvent) -> None:
        """Take in the next event; one that was taken in already changes nothing."""
        if event.seq <= self._seq:
            return
        self._seq = event.seq
        self._began = self._began or event.timestamp
        self.last_ms = max(self.last_ms, self.ms(event.timestamp))
        if event.is_terminal:
            self._end(self.ms(event.timestamp), _ENDINGS[event.type])
            return
        handle: Callable[[StreamEvent, float], None] | None = getattr(self, f"_on_{event.type}", None)
        if handle:
            handle(event, self.ms(event.timestamp))

    def _end(self, now_ms: float, status: str) -> None:
        """Nothing goes on when the run is over."""
        for key, span in self._spans.items():
            if span.end_ms is None:
                word = status if span.kind != WAIT else "cancelled"
                self._spans[key] = replace(span, end_ms=now_ms, status=word)

    def _call(self, event: StreamEvent, now_ms: float, model: str) -> str:
        """Begin a model call of the event's job; its key."""
        self._n_calls += 1
        key = f"model {self._n_calls}"
        self._at_work[_job(event)] = key
        self._spans[key] = Span(self._lane(event), MODEL, model, now_ms)
        return key

    def _lane(self, event: StreamEvent) -> str:
        return self._steps.get(_job(event)) or event.agent or ""

    def _on_step_start(self, event: StreamEvent, _now_ms: float) -> None:
        self._steps[_job(event)] = step_lane(event.agent or "", str(event.data.get("title") or ""))

    def _on_agent_start(self, event: StreamEvent, now_ms: float) -> None:
        left = self._at_work.get(_job(event))
        if left is not None:  # its process is gone; the turn is taken again
            del self._spans[left]
        self._call(event, now_ms, str(event.data.get("model") or MODEL))

    def _on_llm_chunk(self, event: StreamEvent, now_ms: float) -> None:
        key = self._at_work.get(_job(event))
        if key is not None and self._spans[key].first_token_ms is None:
            self._spans[key] = replace(self._spans[key], first_token_ms=now_ms)

    def _on_retry(self, event: StreamEvent, now_ms: float) -> None:
        key = self._at_work.get(_job(event))
        if key is None:
            return
        failed = replace(self._spans[key], end_ms=now_ms, status="failed", detail=one_line(event.data.get("reason")))
        self._spans[key] = failed
        self._call(event, now_ms, failed.name)

    def _on_llm_complete(self, event: StreamEvent, now_ms: float) -> None:
        key = self._at_work.get(_job(event)) or self._call(event, now_ms, MODEL)
        del self._at_work[_job(event)]
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
        detail = (event.data.get("params") or {}).get(DELEGATED.get(event.tool or ""))
        span = Span(self._lane(event), TOOL, event.tool or "", now_ms, detail=one_line(detail))
        self._spans.setdefault(key, span)  # one that is run again after a crash began when it began

    def _on_tool_complete(self, event: StreamEvent, now_ms: float) -> None:
        self._on_tool_start(event, now_ms)
        key, data = f"tool {event.data['tool_call_id']}", event.data
        denied = (data.get("metadata") or {}).get("error_type") in DENIED_ERRORS
        status = "ok" if data.get("success") else "denied" if denied else "failed"
        detail = one_line(data.get("error")) or self._spans[key].detail
        self._spans[key] = replace(self._spans[key], end_ms=now_ms, status=status, detail=detail)

    def _on_permission_request(self, event: StreamEvent, now_ms: float) -> None:
        span = Span(self._lane(event), WAIT, event.tool or "", now_ms, status="waiting")
        self._spans.setdefault(f"wait {event.data['id']}", span)  # each resume asks the open ones again

    def _on_permission_result(self, event: StreamEvent, now_ms: float) -> None:
        key, data = f"wait {event.data['id']}", event.data
        if key not in self._spans:
            return
        if data.get("decided_by") == "policy":  # nobody was waited for
            del self._spans[key]
            return
        decision = data.get("decision") or ("approved" if data.get("approved") else "denied")
        detail = one_line(data.get("instruction"))
        self._spans[key] = replace(self._spans[key], end_ms=now_ms, status=str(decision), detail=detail)


def _job(event: StreamEvent) -> str:
    return str(event.data.get("job_id") or MAIN_JOB)
