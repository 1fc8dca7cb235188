"""The seam to language models: a request goes in, deltas come out, and last a reply that sums them up.

::

    ModelRequest ──> Model.stream ──> ModelDelta, ModelDelta, ... RetryNotice ..., ModelReply
"""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from artifactflow_nb.messages import Message, ToolCall, ToolProtocol, ToolSpec, Usage
from artifactflow_nb.text.cards import Card, Cell

DeltaKind = Literal["answer", "reasoning", "call"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a model is asked for in one turn.

    Attributes:
        messages: The prompt; the system message first.
        tools: The tools of the agent that asks.
        tool_choice: `auto` to let the model call them; `none` in a concluding turn, in which no call would be run.
        tool_protocol: How they are called: `xml` (the system message says how) or `native` (the endpoint is told them).
        model: The model's name at its endpoint; None for the endpoint's configured one.
        temperature: Sampling temperature; None for the endpoint's default.
        max_retries: How often a failure that may pass is tried again.
        retry_delay_s: Seconds before the first retry; doubled for each further one.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    tool_protocol: ToolProtocol = "xml"
    model: str | None = None
    temperature: float | None = None
    max_retries: int = 2
    retry_delay_s: float = 1.0


@dataclass(frozen=True, slots=True)
class ModelDelta:
    """A piece of text as it arrives.

    Attributes:
        text: The piece; of a native call, of its arguments as they are written.
        kind: Whether it is answer, reasoning or a native call.
        tool: Which tool a native call is for, as far as it is known.
    """

    text: str
    kind: DeltaKind = "answer"
    tool: str = ""


@dataclass(frozen=True, slots=True)
class RetryNotice:
    """The attempt failed and another follows: text that had arrived before is void.

    Attributes:
        attempt: The number of the attempt that failed, from 1.
        delay_s: Seconds until the next one.
        reason: What went wrong.
    """

    attempt: int
    delay_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A turn, complete.

    Attributes:
        content: The answer text, tool calls of the text protocol included.
        calls: The native calls, in order; one whose arguments could not be read has `error` set.
        reasoning: The reasoning text; empty if none.
        usage: Tokens.
        finish_reason: The endpoint's word for why it stopped: `stop`, `length`, ...
        model: The model that answered, as the endpoint names it.
        ttft_ms: Milliseconds from the request to the first piece of text or of a call; None if there was none.
        attempts: How many attempts it took.
    """

    content: str
    usage: Usage
    finish_reason: str
    model: str
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    ttft_ms: float | None = None
    attempts: int = 1


ModelEvent = ModelDelta | RetryNotice | ModelReply


class Model(Protocol):
    """Anything that can take a turn.

    `stream` ends with exactly one `ModelReply`, or raises `ModelError`; a turn cut half-way raises and keeps the text
    in `ModelError.partial`. Cancelling the iteration frees the endpoint.
    """

    @property
    def provider(self) -> str:
        """Who answers: `openai`, `offline`, `scripted`."""

    @property
    def tool_protocols(self) -> tuple[ToolProtocol, ...]:
        """How it can be asked to call tools; the first is the one to use unless another is wanted."""

    @property
    def default_model(self) -> str:
        """The name of the model that answers when a request names none."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Take a turn."""

    async def list_models(self) -> list[str]:
        """The names of the models that can be asked for; `ModelError` if the endpoint does not say."""

    async def aclose(self) -> None:
        """Free connections."""


def model_card(model: Model, **more: Cell) -> Card:
    """A model as its card shows it, with further rows by label."""
    rows = [("provider", model.provider), ("calls tools by", ", ".join(model.tool_protocols)), *more.items()]
    return Card("Model", model.default_model, rows)


def model_name(model: str | Model | None) -> str:
    """A model in a few words, whether it is a name, an object or None for the configured one."""
    if model is None or isinstance(model, str):
        return model or "the configured one"
    return f"{model.default_model} ({model.provider})"


def estimate_usage(request: ModelRequest, output: str, calls: Iterable[ToolCall] = ()) -> Usage:
    """Tokens estimated at four characters each, native calls and tools included: for endpoints that give no figures."""
    prompt = sum(message.n_chars for message in request.messages)
    if request.tool_protocol == "native":
        prompt += sum(tool.n_chars for tool in request.tools)
    reply = len(output) + sum(call.n_chars for call in calls)
    return Usage((prompt + 3) // 4, (reply + 3) // 4, estimated=True)
