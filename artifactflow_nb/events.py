"""What a run says while it runs: one envelope, a closed set of types.

::

    metadata
    agent_start  llm_chunk ...  llm_complete  agent_complete      one turn of an agent's job
    tool_start  tool_complete  artifact_changed                   what the turn asked for
    subrun_start                                                  a call is carried out by a run of its own
    permission_request  permission_result                         what a person was asked
    complete | cancelled | error                                  exactly one ends a run

`job_id` in the data tells parallel jobs of one agent apart: `main` for the lead, the id of the delegating tool call for
a sub-agent; `main~writer` is what the node `writer` of an adapted graph does while another works in `main`. Every type
but `llm_chunk` is stored.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from artifactflow_nb.text.cards import Card, Code, Fold, Rows, Shown, Table
from artifactflow_nb.text.figures import count, duration, moment

MAIN_JOB = "main"
BESIDE = "~"
"""What follows it in a job's id says who works beside that job at the same time."""


class StreamEventType(StrEnum):
    """Every type of event, with the payload of its `data`."""

    METADATA = "metadata"
    """conversation_id, message_id, thread_id, flow, question"""
    COMPLETE = "complete"
    """success, response, execution_metrics, interrupted; with interrupted: pending (ids), gates (the ids that
    each waits for), and not terminal"""
    ERROR = "error"
    """error_type, message"""
    CANCELLED = "cancelled"
    """partial"""

    AGENT_START = "agent_start"
    """job_id, step, instruction, model"""
    LLM_CHUNK = "llm_chunk"
    """job_id, call_id, kind (answer | reasoning | call), delta"""
    LLM_COMPLETE = "llm_complete"
    """job_id, call_id, step, model, text, reasoning, finish_reason, duration_ms, ttft_ms, token_usage"""
    AGENT_COMPLETE = "agent_complete"
    """job_id, step, content, routing, token_usage"""

    TOOL_START = "tool_start"
    """job_id, tool_call_id, params"""
    TOOL_COMPLETE = "tool_complete"
    """job_id, tool_call_id, success, duration_ms, error, metadata; never the result"""
    PERMISSION_REQUEST = "permission_request"
    """job_id, tool_call_id, id, kind, permission_level, params, title, preview, message"""
    PERMISSION_RESULT = "permission_result"
    """job_id, tool_call_id, id, approved, decision (approved | edited | denied | instructed), scope, decided_by,
    instruction, params (those edited, or None)"""

    SUBRUN_START = "subrun_start"
    """job_id, tool_call_id, run_id (of the run that works for the call), flow, question"""

    ARTIFACT_CHANGED = "artifact_changed"
    """tool_call_id, artifact_id, version, title, content_type, update_type"""
    PLAN_CREATED = "plan_created"
    """job_id, tool_call_id (the call that made the plan, here and below), plan_id, title, steps (each id, title,
    description, status)"""
    PLAN_UPDATED = "plan_updated"
    """job_id, tool_call_id, plan_id, reason, steps: those whose status changed without being carried out, or because
    the run ended"""
    PLAN_REVISED = "plan_revised"
    """job_id, tool_call_id, plan_id, reason, steps"""
    STEP_START = "step_start"
    """job_id (that of the step), tool_call_id, plan_id, step_id, title, attempt"""
    STEP_COMPLETE = "step_complete"
    """job_id, tool_call_id, plan_id, step_id, title, attempt, status, result (its first characters)"""
    RETRY = "retry"
    """job_id, call_id, attempt, delay_s, reason: text of this call so far is void"""
    MIDDLEWARE_ERROR = "middleware_error"
    """job_id, call_id or tool_call_id, middleware, hook, error_type, message: the run goes on"""


class TextSoFar:
    """The growing text of one model call, shared by all its chunks."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[str] = []

    def append(self, delta: str) -> int:
        """Add a piece; the number of pieces now."""
        self._parts.append(delta)
        return len(self._parts)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._parts)

    def upto(self, n_parts: int) -> str:
        """The text of the first pieces."""
        return "".join(self._parts[:n_parts])


@dataclass(frozen=True, slots=True)
class StreamEvent(Shown):
    """One event.

    Attributes:
        type: What happened.
        timestamp: When, aware, in UTC.
        seq: Its place in the run, from 1, chunks included.
        run_id: The run.
        agent: The agent that it concerns, or None.
        tool: The tool that it concerns, or None.
        data: The payload: plain JSON.
    """

    type: StreamEventType
    timestamp: datetime
    seq: int
    run_id: str
    agent: str | None = None
    tool: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    _text: TextSoFar | None = field(default=None, repr=False, compare=False)
    _n_parts: int = field(default=0, repr=False, compare=False)

    @property
    def content(self) -> str:
        """For a chunk: the text of its kind so far, this chunk included. Otherwise empty."""
        return self._text.upto(self._n_parts) if self._text else ""

    @property
    def is_terminal(self) -> bool:
        """Whether it ends the run."""
        if self.type is StreamEventType.COMPLETE:
            return not self.data.get("interrupted")
        return self.type in {StreamEventType.ERROR, StreamEventType.CANCELLED}

    def data_json(self, spaces: int | None = None) -> str:
        """The payload as JSON: on one line, or indented by some spaces."""
        return json.dumps(dict(self.data), ensure_ascii=False, default=str, indent=spaces)

    def _card(self) -> Card:
        rows: Rows = [
            ("time", f"{self.timestamp:%Y-%m-%d %H:%M:%S.%f} UTC"),
            ("agent", self.agent),
            ("tool", self.tool and Code(self.tool)),
            ("run", Code(self.run_id)),
            ("data", Code(self.data_json())),
        ]
        return Card("Event", f"{self.seq}: {self.type.value}", rows, [Fold("All of the data", Code(self.data_json(2)))])


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens as events and metrics carry them."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class AgentExecution:
    """One turn of an agent. Durations are milliseconds; times are ISO 8601 in UTC."""

    agent_name: str
    model: str
    token_usage: TokenUsage
    llm_duration_ms: float
    started_at: str
    completed_at: str


@dataclass(frozen=True, slots=True)
class ToolExecution:
    """One tool call that was carried out. Durations are milliseconds; times are ISO 8601 in UTC."""

    tool_name: str
    success: bool
    duration_ms: float
    called_at: str
    completed_at: str
    agent: str


@dataclass(frozen=True, slots=True)
class ExecutionMetrics(Shown):
    """What a run cost, made from its stored rows.

    Attributes:
        started_at: ISO 8601 in UTC.
        completed_at: ISO 8601 in UTC.
        total_duration_ms: From start to end, a person's time included.
        active_ms: Without the time that a person took to decide.
        wait_ms: The time that a person took to decide.
        agent_executions: Every turn of every agent.
        tool_calls: Every tool call.
    """

    started_at: str
    completed_at: str
    total_duration_ms: float
    active_ms: float
    wait_ms: float
    agent_executions: tuple[AgentExecution, ...] = ()
    tool_calls: tuple[ToolExecution, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @property
    def total_tokens(self) -> int:
        """Input and output tokens of all model calls."""
        return sum(turn.token_usage.total_tokens for turn in self.agent_executions)

    def _card(self) -> Card:
        turns = [
            (
                turn.agent_name,
                turn.model,
                turn.token_usage.input_tokens,
                turn.token_usage.output_tokens,
                duration(turn.llm_duration_ms),
            )
            for turn in self.agent_executions
        ]
        calls = [(call.agent, call.tool_name, call.success, duration(call.duration_ms)) for call in self.tool_calls]
        rows: Rows = [
            ("time", duration(self.total_duration_ms)),
            ("waiting for you", duration(self.wait_ms) if self.wait_ms else None),
            ("tokens", self.total_tokens),
        ]
        folds = [
            Fold(
                count(len(turns), "model call"),
                Table.of(("agent", "model", "input", "output", "time"), turns),
                is_open=True,
            ),
            Fold(count(len(calls), "tool call"), Table.of(("agent", "tool", "success", "time"), calls), is_open=True),
        ]
        began = moment(datetime.fromisoformat(self.started_at)) if self.started_at else "not yet"
        return Card("Metrics", f"of a run that began {began}", rows, folds)
