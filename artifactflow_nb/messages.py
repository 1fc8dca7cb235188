"""What is said between agents, models and tools: pure values.

They carry no ids; identity belongs to the store.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from artifactflow_nb.text.cards import Card, Code, Fold, Rows, Shown

Role = Literal["system", "user", "assistant", "tool"]
ToolProtocol = Literal["xml", "native"]
"""How a model calls tools: in the text of its reply, or in fields of their own beside it."""


@dataclass(frozen=True, slots=True)
class ToolCall(Shown):
    """A call as a model wrote it.

    Attributes:
        name: The tool's name; empty if it could not be read.
        params: Values as written: strings, lists of strings, or (native protocol) JSON.
        error: What could not be read, told to the model; None if the call is sound.
    """

    name: str
    params: Mapping[str, Any]
    error: str | None = None

    @property
    def n_chars(self) -> int:
        """The length of its name and its values in characters."""
        return len(self.name) + sum(len(key) + len(str(value)) for key, value in self.params.items())

    def _card(self) -> Card:
        rows: Rows = [*((name, Code(str(value))) for name, value in self.params.items()), ("error", self.error)]
        return Card("Tool call", self.name, rows)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt.

    Attributes:
        role: Who says it; `tool` gives the results of the calls in the assistant's message before it.
        content: Its text.
        calls: The native calls of an assistant's message: as many `tool` messages follow, in the same order. Calls that
            are written as text stand in `content`, and one `tool` message gives all their results.
    """

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()

    @property
    def n_chars(self) -> int:
        """Its length in characters, native calls included."""
        return len(self.content) + sum(call.n_chars for call in self.calls)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool.

    Attributes:
        name: The name to call it by.
        description: What it does and when to use it.
        parameters: JSON schema of the parameters: an object with `properties` and `required`.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]

    @property
    def n_chars(self) -> int:
        """About its length in characters where it is written out."""
        return len(self.name) + len(self.description) + len(str(self.parameters))


@dataclass(frozen=True, slots=True)
class ToolResult(Shown):
    """What came of a tool call.

    Attributes:
        success: Whether the tool did what was asked.
        data: The text for the model, exactly as the tool gave it.
        error: What went wrong and what to do; None on success.
        metadata: Small JSON for people and views, never shown to the model.
    """

    success: bool
    data: str = ""
    error: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def _card(self) -> Card:
        rows: Rows = [
            ("error", self.error),
            ("data", self.data),
            *((name, str(said)) for name, said in self.metadata.items()),
        ]
        folds = [Fold("All of the data", Code(self.data))] if self.data else []
        return Card("Tool result", "success" if self.success else "failure", rows, folds)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call; a count that nobody gave is None.

    Attributes:
        input_tokens: All tokens of the prompt, cached ones included.
        output_tokens: All tokens of the reply, reasoning ones included.
        reasoning_tokens: Those of the output spent on reasoning.
        cache_read_tokens: Those of the input read from the endpoint's cache.
        estimated: True where the endpoint gave no figures and they were estimated from characters.
    """

    input_tokens: int
    output_tokens: int
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    estimated: bool = False

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens
