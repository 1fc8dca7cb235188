"""Middleware: user code that observes the model calls and tool calls of a run.

::

    before_model ──> the model is asked ──> after_model | on_model_error
    before_tool ───> the tool runs ───────> after_tool  | on_tool_error

Middleware is read-only: hooks receive copies, and changes to them do not affect the run.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from artifactflow_nb.core.messages import Message, ToolCall, Usage
from artifactflow_nb.core.text.format import count


@dataclass(frozen=True, slots=True, repr=False)
class ModelCall:
    """A model call about to be sent: one attempt at a turn.

    Attributes:
        run_id: The run.
        agent: The agent, i.e. the node of the flow.
        job_id: The job: `main`, the id of the delegating tool call, or the id of a plan's job.
        step: Step of the job, from 1.
        attempt: Number of the attempt at this step, from 1.
        call_id: Id of the call, as in `wb.llm_calls_df()`.
        provider: Model provider, e.g. `openai` or `offline`.
        model: Name of the model.
        messages: The prompt, starting with the system message.
        tools: Names of the tools offered to the model.
        temperature: Sampling temperature; None for the endpoint's default.
        at: Time when the call was due, timezone-aware, in UTC; the call starts after all `before_model` hooks.
        caller_id: The tool call that delegated the job or created the plan of the job. For `main` of a
            subrun, the call in the parent run; for any other `main`, an empty string.
    """

    run_id: str
    agent: str
    job_id: str
    step: int
    attempt: int
    call_id: str
    provider: str
    model: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    temperature: float | None
    at: datetime
    caller_id: str = ""

    @property
    def prompt(self) -> str:
        """All messages as one text, each with its role as heading."""
        sections = []
        for message in self.messages:
            calls = [f"{call.name}({dict(call.params)})" for call in message.calls]
            sections.append("\n".join([f"[{message.role}]", message.content, *calls]))
        return "\n\n".join(sections)

    def __repr__(self) -> str:
        return f"ModelCall({self.agent!r}, step={self.step}, model={self.model!r}, call_id={self.call_id!r})"


@dataclass(frozen=True, slots=True, repr=False)
class ModelOutcome:
    """A model's reply.

    Attributes:
        content: Text of the reply, including calls written as XML.
        reasoning: Reasoning text, or an empty string.
        calls: Tool calls in order.
        usage: Token counts.
        finish_reason: The endpoint's finish reason.
        model: The model's name as reported by the endpoint.
        duration_ms: Duration of the call.
        ttft_ms: Time to the first token in milliseconds, or None.
        cost_usd: Cost in US dollars; None if unknown.
    """

    content: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    finish_reason: str
    model: str
    duration_ms: float
    ttft_ms: float | None
    cost_usd: float | None

    def __repr__(self) -> str:
        return f"ModelOutcome({self.model!r}, tokens={self.usage.total_tokens}, duration_ms={self.duration_ms:.0f})"


@dataclass(frozen=True, slots=True, repr=False)
class ToolInvocation:
    """A tool call about to be executed; also passed with the outcome of a denied call.

    Attributes:
        run_id: The run.
        agent: The calling agent.
        job_id: The job: `main`, the id of the delegating tool call, or the id of a plan's job.
        tool_call_id: Id of the call, as in `wb.tool_calls_df()`.
        tool: Name of the tool.
        params: Parameters as the model wrote them or a person edited them.
        at: Time when the call was due, timezone-aware, in UTC; the call starts after all `before_tool` hooks.
        caller_id: The tool call that delegated the job or created the plan of the job. For `main` of a
            subrun, the call in the parent run; for any other `main`, an empty string.
    """

    run_id: str
    agent: str
    job_id: str
    tool_call_id: str
    tool: str
    params: Mapping[str, Any]
    at: datetime
    caller_id: str = ""

    def __repr__(self) -> str:
        return f"ToolInvocation({self.tool!r}, by {self.agent!r}, tool_call_id={self.tool_call_id!r})"


@dataclass(frozen=True, slots=True, repr=False)
class ToolOutcome:
    """Result of a successful tool call.

    Attributes:
        data: The text for the model.
        metadata: Small JSON for people and views.
        duration_ms: Duration of the call.
    """

    data: str
    metadata: Mapping[str, Any]
    duration_ms: float

    def __repr__(self) -> str:
        return f"ToolOutcome({count(len(self.data), 'character')}, duration_ms={self.duration_ms:.0f})"


@dataclass(frozen=True, slots=True, repr=False)
class CallError:
    """Failure of a model call or tool call.

    Attributes:
        error_type: Class name of the error; `PermissionDenied` for a denied call, `RunCancelled` for a cancelled one.
        message: Error message.
        duration_ms: Duration of the call; None for a cancelled tool call.
        partial: Answer text received before the failure.
        retry_delay_s: Seconds until the automatic retry of a model call, or None.
        metadata: Metadata of the tool's result; small JSON.
    """

    error_type: str
    message: str
    duration_ms: float | None = None
    partial: str = ""
    retry_delay_s: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"CallError({self.error_type!r}, {self.message!r})"


HOOKS = ("before_model", "after_model", "on_model_error", "before_tool", "after_tool", "on_tool_error")


class Middleware:
    """Base class for observers of model calls and tool calls; override the hooks you need.

    A hook may be a plain function or `async`. The job waits for the hook: `before_model` returns before the request is
    sent, `after_model` before the agent continues. Other jobs, other runs and the notebook do not wait. Plain functions
    run in a thread, and hooks of parallel calls may run concurrently. An `async` hook runs on the engine's event loop
    and must not block it. An exception or timeout in a hook is published as a `middleware_error` event, and the run
    continues.

    If a process dies during a call, the resumed run reports the outcome of the call without calling the `before_` hook
    again.

    Attributes:
        timeout_s: Maximum time to wait for a hook, in seconds.
    """

    timeout_s: float = 10.0

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def before_model(self, call: ModelCall) -> Awaitable[None] | None:
        """Called before a model call."""

    def after_model(self, call: ModelCall, outcome: ModelOutcome) -> Awaitable[None] | None:
        """Called after a model's reply was stored."""

    def on_model_error(self, call: ModelCall, error: CallError) -> Awaitable[None] | None:
        """Called after a model call failed; a retry is a new call."""

    def before_tool(self, call: ToolInvocation) -> Awaitable[None] | None:
        """Called before a tool runs."""

    def after_tool(self, call: ToolInvocation, outcome: ToolOutcome) -> Awaitable[None] | None:
        """Called after a tool's successful result was stored."""

    def on_tool_error(self, call: ToolInvocation, error: CallError) -> Awaitable[None] | None:
        """Called after a tool call failed, was denied or was cancelled."""


def implements_hook(middleware: Middleware, hook: str) -> bool:
    """Return whether the middleware's class overrides this hook."""
    return getattr(type(middleware), hook) is not getattr(Middleware, hook)
