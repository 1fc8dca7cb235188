"""Middleware: code of a user's own that is told of every model call and every tool call of a run.

::

    before_model ──> the model is asked ──> after_model | on_model_error
    before_tool ───> the tool runs ───────> after_tool  | on_tool_error

It looks on: what it is given are values of its own, and nothing that it does to them reaches the run.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from artifactflow_nb.messages import Message, ToolCall, Usage
from artifactflow_nb.text.cards import Card, Code, Fold, Rows, Shown, Table
from artifactflow_nb.text.figures import count, duration, usd


@dataclass(frozen=True, slots=True, repr=False)
class ModelCall(Shown):
    """A model call as it is sent: one attempt at a turn.

    Attributes:
        run_id: The run.
        agent: Who asks: the node of the flow.
        job_id: For which job: `main`, the id of the tool call that delegated it, or the id of a job for a plan.
        step: In which step of the job, from 1.
        attempt: The number of the attempt at this step, from 1.
        call_id: Its id, as in `wb.llm_calls_df()`.
        provider: Who answers: `openai`, `offline` and so on.
        model: The model's name.
        messages: The prompt; the system message first.
        tools: The names of the tools that the agent is offered.
        temperature: Sampling temperature; None for the endpoint's own.
        at: When the job had come to it, aware, in UTC; it begins when all middleware was told.
        caller_id: The tool call that the job works for: it delegated the job, or made the plan; for `main` the one that
            has the whole run work for it, in another run, or empty.
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
        """All messages as one text, each under its role."""
        return "\n\n".join(f"[{message.role}]\n{_content(message)}" for message in self.messages)

    def __repr__(self) -> str:
        return f"ModelCall({self.agent!r}, step={self.step}, model={self.model!r}, call_id={self.call_id!r})"

    def _card(self) -> Card:
        rows: Rows = [
            ("model", f"{self.model} ({self.provider})"),
            ("step", f"{self.step} of {self.job_id}"),
            ("attempt", self.attempt),
            ("temperature", self.temperature),
            ("tools", Code(", ".join(self.tools))),
            ("run", Code(self.run_id)),
        ]
        return Card("Model call", f"of {self.agent}", rows, [Fold("Prompt", Code(self.prompt))])


def _content(message: Message) -> str:
    calls = [f"{call.name}({dict(call.params)})" for call in message.calls]
    return "\n".join([message.content, *calls])


@dataclass(frozen=True, slots=True, repr=False)
class ModelOutcome(Shown):
    """What came back from a model.

    Attributes:
        content: The text of the reply, calls that are written in it included.
        reasoning: The reasoning; empty if none was given.
        calls: The tool calls that it asks for, in order.
        usage: Tokens.
        finish_reason: The endpoint's word for why it stopped.
        model: The model that answered, as the endpoint names it.
        duration_ms: How long it took.
        ttft_ms: Milliseconds to the first piece; None if there was none.
        cost_usd: What it cost; None if that is not known.
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

    def _card(self) -> Card:
        rows: Rows = [
            ("time", duration(self.duration_ms)),
            ("tokens", self.usage.total_tokens),
            ("cost", None if self.cost_usd is None else usd(self.cost_usd)),
            ("stopped because", self.finish_reason),
            ("calls", Code(", ".join(call.name for call in self.calls))),
        ]
        texts = (("Reply", self.content), ("Reasoning", self.reasoning))
        return Card("Reply", f"of {self.model}", rows, [Fold(title, Code(text)) for title, text in texts if text])


@dataclass(frozen=True, slots=True, repr=False)
class ToolInvocation(Shown):
    """A tool call that is about to be carried out; one that a person denied is told too, with what came of it.

    Attributes:
        run_id: The run.
        agent: Who calls.
        job_id: For which job: `main`, the id of the tool call that delegated it, or the id of a job for a plan.
        tool_call_id: Its id, as in `wb.tool_calls_df()`.
        tool: The tool's name.
        params: What it runs with, as the model wrote it or a person changed it.
        at: When the job had come to it, aware, in UTC; it begins when all middleware was told.
        caller_id: The tool call that the job works for: it delegated the job, or made the plan; for `main` the one that
            has the whole run work for it, in another run, or empty.
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

    def _card(self) -> Card:
        params = [(Code(name), str(value)) for name, value in self.params.items()]
        folds = [Fold("Parameters", Table(("name", "value"), params), is_open=True)] if params else []
        return Card("Tool call", f"{self.tool} by {self.agent}", [("run", Code(self.run_id))], folds)


@dataclass(frozen=True, slots=True, repr=False)
class ToolOutcome(Shown):
    """What a tool gave.

    Attributes:
        data: The text for the model.
        metadata: Small JSON for people and views.
        duration_ms: How long it took.
    """

    data: str
    metadata: Mapping[str, Any]
    duration_ms: float

    def __repr__(self) -> str:
        return f"ToolOutcome({count(len(self.data), 'character')}, duration_ms={self.duration_ms:.0f})"

    def _card(self) -> Card:
        return Card("Result", "", [("time", duration(self.duration_ms))], [Fold("Data", Code(self.data))])


@dataclass(frozen=True, slots=True, repr=False)
class CallError(Shown):
    """Why a call gave nothing.

    Attributes:
        error_type: The name of the error; `PermissionDenied` for what a person denied, `RunCancelled` for what was cut
            short.
        message: What it said.
        duration_ms: How long it took; None for a tool call that was cut short.
        partial: The text of the answer that had arrived.
        retry_delay_s: Seconds until the model is asked once more by itself; None if it is not.
        metadata: What else a tool told; small JSON.
    """

    error_type: str
    message: str
    duration_ms: float | None = None
    partial: str = ""
    retry_delay_s: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"CallError({self.error_type!r}, {self.message!r})"

    def _card(self) -> Card:
        took = None if self.duration_ms is None else duration(self.duration_ms)
        folds = [Fold("What had arrived", Code(self.partial))] if self.partial else []
        return Card(self.error_type, self.message, [("time", took)], folds)


HOOKS = ("before_model", "after_model", "on_model_error", "before_tool", "after_tool", "on_tool_error")


class Middleware(Shown):
    """Is told of model calls and tool calls; a class of one's own has those of these methods that it wants.

    Each may be a plain function or `async`. A call waits for what it is about: `before_model` is over before the model
    is asked, `after_model` before the agent goes on. Other jobs of the run, other runs and the notebook do not wait:
    plain functions run in a thread of their own, and several calls may be told at the same time. An `async` method
    runs on the engine's loop, where it must not block. What a method raises, and that it took longer than `timeout_s`,
    is an event of the run (`middleware_error`), and the run goes on.

    A replay tells the values that were recorded. A run that is resumed after its process ended tells the outcome of a
    call that had begun before, and not its beginning.

    Attributes:
        timeout_s: Seconds after which a method is not waited for any longer.
    """

    timeout_s: float = 10.0

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _card(self) -> Card:
        told = [hook for hook in HOOKS if is_told(self, hook)]
        rows: Rows = [("is told by", Code(", ".join(told))), ("waited for", f"{self.timeout_s} s")]
        return Card("Middleware", type(self).__name__, rows)

    def before_model(self, call: ModelCall) -> Awaitable[None] | None:
        """A model is about to be asked."""

    def after_model(self, call: ModelCall, outcome: ModelOutcome) -> Awaitable[None] | None:
        """A model has replied, and the reply is stored."""

    def on_model_error(self, call: ModelCall, error: CallError) -> Awaitable[None] | None:
        """A model gave no reply; another attempt is a call of its own."""

    def before_tool(self, call: ToolInvocation) -> Awaitable[None] | None:
        """A tool is about to run."""

    def after_tool(self, call: ToolInvocation, outcome: ToolOutcome) -> Awaitable[None] | None:
        """A tool did what was asked, and its result is stored."""

    def on_tool_error(self, call: ToolInvocation, error: CallError) -> Awaitable[None] | None:
        """A tool did not do what was asked: it failed, was denied, or was cut short."""


def is_told(one: Middleware, hook: str) -> bool:
    """Whether its class has a method of its own of this name."""
    return getattr(type(one), hook) is not getattr(Middleware, hook)
