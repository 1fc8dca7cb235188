"""Messages, tool calls and results exchanged between agents, models and tools.

These are pure values without ids: identity belongs to the store.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
DeltaKind = Literal["answer", "reasoning", "call"]
"""Part of a streamed reply to which a piece belongs: the answer, the reasoning, or the arguments of a native call."""

ToolProtocol = Literal["xml", "native"]
"""How a model calls tools: as XML in the reply text, or in the API's own tool-call fields."""

ToolProtocolChoice = Literal["auto", "xml", "native"]
"""A tool protocol, or `auto`: the model's protocol, but XML where an endpoint refuses or ignores tools."""

COMPUTED_PROVIDER = "artifactflow"
"""Provider of agents that compute their replies without a language model; lists of models leave this provider out."""

OFFLINE_PROVIDER = "offline"
OFFLINE_MODEL = "offline-extractive"
"""The model that quotes sources without a language model."""

WITHOUT_LANGUAGE_MODEL = (COMPUTED_PROVIDER, OFFLINE_PROVIDER)
"""Providers for which views show no tokens."""

ERROR_PREFIX = "Error: "
"""Prefix of the result of a failed native call."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the model wrote it.

    Attributes:
        name: The tool's name; empty if no name could be parsed.
        params: Values as written: strings, lists of strings, or (native protocol) JSON.
        error: The parse error, reported to the model; None if the call is valid.
        needs_approval: Whether a person must approve the call even if the tool is permitted: a call may be an example.
    """

    name: str
    params: Mapping[str, Any]
    error: str | None = None
    needs_approval: bool = False

    @property
    def n_chars(self) -> int:
        """Length of the name and all parameters in characters."""
        return len(self.name) + sum(len(key) + len(str(value)) for key, value in self.params.items())


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt.

    Attributes:
        role: The author; a `tool` message carries results for the preceding assistant message.
        calls: The native calls of an assistant message; one `tool` message per call follows, in the same order. XML
            calls are part of `content` instead, and a single `tool` message carries all their results.
        provider_fields: Fields that the model expects back with its reply; opaque to all other code.
    """

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    provider_fields: Mapping[str, Any] | None = None

    @property
    def n_chars(self) -> int:
        """Length in characters, including native calls."""
        calls = sum(call.n_chars for call in self.calls) if self.calls else 0
        return len(self.content) + calls + (len(str(self.provider_fields)) if self.provider_fields else 0)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Description of a tool for a model.

    Attributes:
        parameters: JSON schema of the parameters: an object with `properties` and `required`.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]

    @property
    def n_chars(self) -> int:
        """Approximate length in characters in a prompt."""
        return len(self.name) + len(self.description) + len(str(self.parameters))


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a tool call.

    Attributes:
        success: Whether the call succeeded.
        data: The text for the model, exactly as the tool returned it.
        error: The problem and what to do; None on success.
        metadata: Small JSON for people and views; never part of a prompt.
    """

    success: bool
    data: str = ""
    error: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """Token usage of one model call; optional counts are None if the endpoint did not report them.

    Attributes:
        input_tokens: Prompt tokens, including cached tokens.
        output_tokens: Reply tokens, including reasoning.
        estimated: Whether the counts were estimated from characters because the endpoint reported none.
        reported_usd: Cost of the call in US dollars, as reported by the endpoint.
    """

    input_tokens: int
    output_tokens: int
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    estimated: bool = False
    reported_usd: float | None = None

    @property
    def total_tokens(self) -> int:
        """Sum of input and output tokens."""
        return self.input_tokens + self.output_tokens
