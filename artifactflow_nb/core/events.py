"""Events of a run: one envelope and a closed set of types.

::

    metadata
    agent_start  llm_chunk ...  llm_complete  agent_complete      one turn of an agent's job
    tool_start  tool_complete  artifact_changed                   the tool calls of the turn
    subrun_start                                                  a tool call starts a run of its own
    permission_request  permission_result                         an approval
    complete | cancelled | error                                  exactly one of them ends a run

`job_id` in the data distinguishes parallel jobs of one agent: `main` for the lead, the id of the delegating tool call
for a sub-agent, and `main~writer` for the node `writer` of an adapted graph that runs in parallel with `main`. All
types except `llm_chunk` are stored.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, CardTable, Details
from artifactflow_nb.core.text.format import count, duration, format_local_time

MAIN_JOB = "main"
PARALLEL_SEPARATOR = "~"
"""Separates a job's id from the name of a node that runs in parallel with it."""


class StreamEventType(StrEnum):
    """Event types; the docstring of each lists the keys of its `data`."""

    METADATA = "metadata"
    """conversation_id, message_id, thread_id, flow, question"""
    COMPLETE = "complete"
    """success, response, execution_metrics, interrupted; optionally notices (about the answer) and outcome (of the
    question); if interrupted, also pending (request ids) and gates (lists of request ids; the run continues once all
    requests of a list are decided), and the event is not terminal"""
    ERROR = "error"
    """error_type, message"""
    CANCELLED = "cancelled"
    """partial; optionally stopped_usage (a list: job_id, agent_name, tokens and cost of each call that was stopped)"""

    AGENT_START = "agent_start"
    """job_id, step, instruction, model"""
    LLM_CHUNK = "llm_chunk"
    """job_id, call_id, kind (answer | reasoning | call), delta, tool_protocol; a call is XML or, if native, JSON"""
    LLM_COMPLETE = "llm_complete"
    """job_id, call_id, step, model, text, reasoning, finish_reason, duration_ms, ttft_ms, token_usage; optionally
    ignored_calls (names of tools that the agent called although it had to answer) and notice (a sentence about a change
    that lasts from now on)"""
    AGENT_COMPLETE = "agent_complete"
    """job_id, step, content, routing, token_usage"""

    TOOL_START = "tool_start"
    """job_id, tool_call_id, params"""
    TOOL_COMPLETE = "tool_complete"
    """job_id, tool_call_id, success, duration_ms, error, metadata; never the result text"""
    PERMISSION_REQUEST = "permission_request"
    """job_id, tool_call_id, id, kind, permission_level, params, title, preview, message"""
    PERMISSION_RESULT = "permission_result"
    """job_id, tool_call_id, id, approved, decision (approved | edited | denied | instructed), scope, decided_by,
    instruction, params (edited parameters, or None)"""

    SUBRUN_START = "subrun_start"
    """job_id, tool_call_id, run_id (of the subrun), flow, question"""

    ARTIFACT_CHANGED = "artifact_changed"
    """tool_call_id, artifact_id, version, title, content_type, update_type"""
    PLAN_CREATED = "plan_created"
    """job_id, tool_call_id (the call that created the plan, here and below), plan_id, title, steps (each with id,
    title, description, status)"""
    PLAN_UPDATED = "plan_updated"
    """job_id, tool_call_id, plan_id, reason, steps (with a status that changed without execution, or because the run
    ended)"""
    PLAN_REVISED = "plan_revised"
    """job_id, tool_call_id, plan_id, reason, steps"""
    STEP_START = "step_start"
    """job_id (of the step), tool_call_id, plan_id, step_id, title, attempt"""
    STEP_COMPLETE = "step_complete"
    """job_id, tool_call_id, plan_id, step_id, title, attempt, status, result (truncated)"""
    RETRY = "retry"
    """job_id, call_id, attempt, delay_s, reason; discards the chunks of this call so far"""
    MIDDLEWARE_ERROR = "middleware_error"
    """job_id, call_id or tool_call_id, middleware, hook, error_type, message; the run continues"""


_FIELD_TYPES: Mapping[str, type] = {
    **dict.fromkeys(("tool_call_id", "id", "job_id", "call_id", "run_id", "artifact_id", "model", "question"), str),
    **dict.fromkeys(("version", "step"), int),
    **dict.fromkeys(("params", "metadata", "token_usage", "execution_metrics", "context"), dict),
    "stopped_usage": list,
}
_NUMBER_SUFFIXES = ("_ms", "_usd", "_tokens")


def payload_problem(data: Mapping[str, Any]) -> str | None:
    """Describe the first field of an imported payload that views and plots cannot read, or return None."""
    for name, value in data.items():
        expected = int | float if name.endswith(_NUMBER_SUFFIXES) else _FIELD_TYPES.get(name, object)
        is_wrong_bool = isinstance(value, bool) and expected in {int, int | float}
        if value is not None and (is_wrong_bool or not isinstance(value, expected)):
            return f"{name[:80]} is {str(value)[:80]!r}"
    for name, value in (data.get("token_usage") or {}).items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if name.endswith(_NUMBER_SUFFIXES) and value is not None and not is_number:
            return f"{name[:80]} in token_usage is {str(value)[:80]!r}, which is not a number"
    return None


class StreamedText:
    """Text of one model call while it streams, shared by its chunk events to avoid quadratic memory."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[str] = []

    def append(self, delta: str) -> int:
        """Append a piece and return the number of pieces."""
        self._parts.append(delta)
        return len(self._parts)

    @property
    def text(self) -> str:
        """The whole text so far."""
        return "".join(self._parts)

    def prefix(self, n_parts: int) -> str:
        """Return the text of the first `n_parts` pieces."""
        return "".join(self._parts[:n_parts])


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event of a run.

    Attributes:
        type: Event type.
        timestamp: Time of the event, timezone-aware, in UTC.
        seq: Number in the run, from 1, including chunks.
        run_id: The run.
        agent: The agent concerned, or None.
        tool: The tool concerned, or None.
        data: Payload in plain JSON; see `StreamEventType`.
    """

    type: StreamEventType
    timestamp: datetime
    seq: int
    run_id: str
    agent: str | None = None
    tool: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    _text: StreamedText | None = field(default=None, repr=False, compare=False)
    _n_parts: int = field(default=0, repr=False, compare=False)

    @property
    def content(self) -> str:
        """The text that has streamed up to and including this chunk, of the chunk's kind; empty for other events."""
        return self._text.prefix(self._n_parts) if self._text else ""

    @property
    def is_terminal(self) -> bool:
        """Whether this event ends the run."""
        if self.type is StreamEventType.COMPLETE:
            return not self.data.get("interrupted")
        return self.type in {StreamEventType.ERROR, StreamEventType.CANCELLED}

    def data_json(self) -> str:
        """Serialise the payload as JSON on one line."""
        return json.dumps(dict(self.data), ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Token counts in events and metrics, and whether they are estimates."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class AgentExecution:
    """A turn of an agent; durations in milliseconds, times as ISO 8601 in UTC."""

    agent_name: str
    model: str
    token_usage: TokenUsage
    llm_duration_ms: float
    started_at: str
    completed_at: str


@dataclass(frozen=True, slots=True)
class ToolExecution:
    """An executed tool call; durations in milliseconds, times as ISO 8601 in UTC."""

    tool_name: str
    success: bool
    duration_ms: float
    called_at: str
    completed_at: str
    agent: str


@dataclass(frozen=True, slots=True)
class ExecutionMetrics(CardMixin):
    """Metrics of a run, computed from its stored rows.

    Attributes:
        started_at: Start as ISO 8601 in UTC; empty before the start.
        completed_at: End as ISO 8601 in UTC.
        total_duration_ms: Time from start to end, including waits for a person.
        active_ms: Total duration without waits for a person.
        wait_ms: Time spent waiting for a person.
        agent_executions: All turns of all agents, including those that were stopped while the model replied.
        tool_calls: All tool calls.
    """

    started_at: str
    completed_at: str
    total_duration_ms: float
    active_ms: float
    wait_ms: float
    agent_executions: tuple[AgentExecution, ...] = ()
    tool_calls: tuple[ToolExecution, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Convert to plain JSON; the usage of a turn has the key `estimated` only if the counts are estimates."""
        values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        for turn in values["agent_executions"]:
            if not turn["token_usage"]["estimated"]:
                del turn["token_usage"]["estimated"]
        return values

    @property
    def total_tokens(self) -> int:
        """Sum of input and output tokens over all model calls."""
        return sum(turn.token_usage.total_tokens for turn in self.agent_executions)

    @property
    def tokens_estimated(self) -> bool:
        """Whether any token count is an estimate."""
        return any(turn.token_usage.estimated for turn in self.agent_executions)

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
        rows: CardRows = [
            ("time", duration(self.total_duration_ms)),
            ("waiting for you", duration(self.wait_ms) if self.wait_ms else None),
            ("tokens", f"about {self.total_tokens:,}" if self.tokens_estimated else self.total_tokens),
        ]
        folds = [
            Details(
                count(len(turns), "model call"),
                CardTable.from_rows(("agent", "model", "input", "output", "time"), turns),
                is_open=True,
            ),
            Details(
                count(len(calls), "tool call"),
                CardTable.from_rows(("agent", "tool", "success", "time"), calls),
                is_open=True,
            ),
        ]
        start = format_local_time(datetime.fromisoformat(self.started_at)) if self.started_at else "not yet"
        return Card("Metrics", f"of a run that began {start}", rows, folds)
