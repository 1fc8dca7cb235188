"""The protocol of language models: a request goes in, a stream of deltas comes out and ends with the whole reply.

::

    ModelRequest ──> Model.stream ──> AttemptStart, ModelDelta, ... RetryNotice, AttemptStart, ... ModelReply

A model whose request needs no preparation may leave out the first `AttemptStart`.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from artifactflow_nb.core.messages import (
    COMPUTED_PROVIDER,
    DeltaKind,
    Message,
    ToolCall,
    ToolProtocol,
    ToolResult,
    ToolSpec,
    Usage,
)
from artifactflow_nb.core.plan import PlanProgress, ReplanChoice
from artifactflow_nb.errors import UsageError, brief


@dataclass(frozen=True, slots=True)
class WritingTask:
    """A text that a job writes, for a model that can only quote sources.

    Attributes:
        prompt: What the text should say; empty if quotes cannot do the work.
        name: The name of the text.
        wish: The person's request for the text.
        basis: The texts on which the text is based; their sources are read again.
        by_hand: Advice for work by hand, which is the reply if the prompt and the wish ask no question.
        change_by_hand: Advice for a wish that asks no question.
    """

    prompt: str = ""
    name: str = ""
    wish: str = ""
    basis: tuple[str, ...] = ()
    by_hand: str = ""
    change_by_hand: str = ""


@dataclass(frozen=True, slots=True)
class ModelContext:
    """The values from which a prompt was written, for a model that computes its reply instead of reading the prompt.

    Attributes:
        instruction: The agent's task: the question, or the instruction of another agent.
        earlier_question: The previous question of the conversation, or an empty string.
        calls: The job's tool calls so far with their results, in order.
        plan: The plan that the agent created, or that the job executes.
        choices: The decisions that a replanner can take.
        task: The text that the job writes or changes, or None for other jobs.
        next_calls: The calls that an agent without a language model makes now.
        next_message: The reply of such an agent if there are no calls.
    """

    question: str
    instruction: str
    earlier_question: str = ""
    calls: tuple[tuple[ToolCall, ToolResult], ...] = ()
    artifact_ids: frozenset[str] = frozenset()
    plan: PlanProgress | None = None
    choices: tuple[ReplanChoice, ...] = ()
    task: WritingTask | None = None
    next_calls: tuple[ToolCall, ...] = ()
    next_message: str = ""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Request for one turn of a model.

    Attributes:
        messages: The prompt; the system message first.
        tools: The tools of the calling agent.
        tool_choice: `auto` to allow calls; `none` in a concluding turn, in which no call would be executed.
        tool_protocol: `xml` for calls in the text, as the system message explains; `native` for calls in the
            endpoint's own fields.
        model: The model's name at its endpoint; None for the endpoint's default model.
        temperature: Sampling temperature; None for the endpoint's default.
        extra_body: Further fields of the request, such as `reasoning_effort`.
        max_retries: Number of retries after temporary failures.
        retry_delay_s: Seconds before the first retry; each further delay is twice as long.
        stable_chars: Number of characters at the start of the system message that later prompts of the agent repeat.
        context: The values behind the prompt. Not a part of the request: never sent, stored, recorded or compared.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    tool_protocol: ToolProtocol = "xml"
    model: str | None = None
    temperature: float | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    max_retries: int = 2
    retry_delay_s: float = 1.0
    stable_chars: int = 0
    context: ModelContext | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ModelDelta:
    """A piece of streamed text.

    Attributes:
        text: The text; for a native call, part of the JSON of its arguments.
        kind: `answer`, `reasoning` or `call` (a native call).
        tool: Name of the called tool, as far as the name has arrived; empty for other kinds.
    """

    text: str
    kind: DeltaKind = "answer"
    tool: str = ""


@dataclass(frozen=True, slots=True)
class RetryNotice:
    """Notice that an attempt failed and another attempt follows. Consumers discard the text of the failed attempt.

    Attributes:
        attempt: Number of the failed attempt, from 1.
        delay_s: Seconds until the next attempt.
    """

    attempt: int
    delay_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptStart:
    """The start of an attempt: imports and waits before the start do not count as time of the model."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The complete reply of a turn.

    Attributes:
        content: The answer text, including tool calls of the text protocol.
        calls: The native calls, in order. A call with unreadable arguments has `error` set.
        reasoning: The reasoning text, or an empty string.
        usage: Number of tokens.
        finish_reason: The endpoint's reason for the end of the reply: `stop`, `length`, ...
        model: The endpoint's name of the model that answered.
        ttft_ms: Milliseconds from the request to the first delta, or None.
        attempts: Number of attempts, the successful one included.
        notice: A sentence for the person about the call, or an empty string.
        provider_fields: Fields that the model expects to get back with this reply, as JSON, or None.
    """

    content: str
    usage: Usage
    finish_reason: str
    model: str
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    ttft_ms: float | None = None
    attempts: int = 1
    notice: str = ""
    provider_fields: Mapping[str, Any] | None = None


ModelEvent = ModelDelta | RetryNotice | AttemptStart | ModelReply


class Model(Protocol):
    """A language model.

    `stream` ends with exactly one `ModelReply`, or raises `ModelError`, whose `partial` is the text received so far.
    Cancelling the iteration closes the request at the endpoint.
    """

    @property
    def provider(self) -> str:
        """Kind of the model: `openai`, `offline`, `scripted`."""

    @property
    def tool_protocols(self) -> tuple[ToolProtocol, ...]:
        """The supported tool protocols, the default first."""

    @property
    def default_model(self) -> str:
        """Name of the model for requests without a model name."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Run one turn and yield the events."""

    async def list_models(self) -> list[str]:
        """Return the names of the available models; `ModelError` if the endpoint does not list models."""

    async def aclose(self) -> None:
        """Close all connections."""


class LocalModel:
    """Base class of models that run in this process: they have one name and no connections."""

    default_model: str

    async def list_models(self) -> list[str]:
        """Return the only name."""
        return [self.default_model]

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


@runtime_checkable
class WindowedModel(Protocol):
    """A model whose context window, the maximum length of a prompt, can be queried."""

    async def context_tokens(self, name: str) -> int | None:
        """Return the context window of the model of this name, in tokens, or None if unknown."""


@runtime_checkable
class TemperatureModel(Protocol):
    """A model that knows which models at its endpoint take a temperature."""

    def takes_temperature(self, name: str) -> bool | None:
        """Return whether the model of this name takes a temperature, or None if unknown."""


_MODEL_MEMBERS = ("provider", "tool_protocols", "default_model", "stream", "list_models", "aclose")


def check_model(name: str, model: object) -> None:
    """Raise `UsageError` with the missing members if an object is not a `Model`; `name` is the name of the argument."""
    if missing := [member for member in _MODEL_MEMBERS if not hasattr(model, member)]:
        raise UsageError(
            f"{name} is {brief(model)}, which is not a model: it has no {', '.join(missing)}. Pass the name of a model "
            "at the endpoint, af.OpenAIModel(base_url, key, name), or an object with all members of "
            "artifactflow_nb.models.base.Model."
        )


def model_name(model: str | Model | None) -> str:
    """Return a short label of a model, passed as a name, an object or None for the configured model."""
    if model is None or isinstance(model, str):
        return model or "the configured one"
    if model.provider == COMPUTED_PROVIDER:
        return "none"
    return f"{model.default_model} ({model.provider})"


def estimate_usage(request: ModelRequest, output: str, calls: Iterable[ToolCall] = ()) -> Usage:
    """Estimate the tokens at four characters each, including native calls and tools.

    This is for endpoints that report no usage; a tokenizer would need the model's vocabulary.
    """
    prompt = sum(message.n_chars for message in request.messages)
    if request.tool_protocol == "native":
        prompt += sum(tool.n_chars for tool in request.tools)
    reply = len(output) + sum(call.n_chars for call in calls)
    return Usage((prompt + 3) // 4, (reply + 3) // 4, estimated=True)
