"""Tool protocols: how an agent is informed of its tools, writes calls and gets results.

::

    xml      the manual in the system message; calls in the reply's text; one message with all results
    native   the schemas in the request; calls in fields of the reply, whose text is only text; a message per result
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.core.messages import ERROR_PREFIX, Message, ToolCall, ToolProtocol, ToolResult
from artifactflow_nb.core.toolcalls.parser import clean_name
from artifactflow_nb.core.toolcalls.quotes import DisplayedTexts
from artifactflow_nb.core.toolcalls.xml import ParsedReply, format_call, format_results, parse_reply
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.store.calls import StoredTurn
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.tools.manual import tool_manual


class CallProtocol(Protocol):
    """The way in which prompts describe tools, and models write calls."""

    @property
    def name(self) -> ToolProtocol:
        """Name of the protocol in settings and requests."""

    def manual(self, prompts: PromptLibrary, tools: Sequence[Tool]) -> str:
        """Return the part of the system message that describes these tools."""

    def read(self, reply: ModelReply, shown: Sequence[str] = (), offered: Collection[str] = ()) -> ParsedReply:
        """Parse the text and the calls of a reply.

        A call that repeats a text of `shown`, the prompt without the agent's own turns, is a quotation.
        """

    def transcribe(self, reply: ModelReply) -> ModelReply:
        """Convert a reply to the form in which it is stored and repeated in the next prompts."""

    def write(self, turn: StoredTurn, results: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        """Convert a reply and the results of its calls to messages of the next prompt."""


class XmlProtocol:
    """Tool calls as XML in the text of a reply; works with every endpoint."""

    name: ToolProtocol = "xml"

    def manual(self, prompts: PromptLibrary, tools: Sequence[Tool]) -> str:
        """Describe the tools with their parameters, and the syntax of a call."""
        return prompts.render("tools", manual=tool_manual(tools))

    def read(self, reply: ModelReply, shown: Sequence[str] = (), offered: Collection[str] = ()) -> ParsedReply:
        """Parse the text and its calls; if the reply was truncated, the last call may be incomplete."""
        is_truncated = reply.finish_reason in {"length", "content_filter"}
        shown_texts = DisplayedTexts(shown)
        parsed = parse_reply(reply.content, is_truncated=is_truncated, shown=shown_texts, offered=offered)
        return ParsedReply(parsed.text, (*parsed.calls, *reply.calls)) if reply.calls else parsed

    def transcribe(self, reply: ModelReply) -> ModelReply:
        """Convert native calls, which some models write nevertheless, to text; unreadable calls are left unchanged."""
        readable = [format_call(call.name, call.params) for call in reply.calls if not call.error]
        content = "\n\n".join(filter(None, [reply.content.rstrip(), *readable])) if readable else reply.content
        return replace(reply, content=content, calls=tuple(call for call in reply.calls if call.error))

    def write(self, turn: StoredTurn, results: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        """Return the text as the model wrote it with its native calls, and one message with all results."""
        native = (call for call, _ in results[: turn.n_native_calls] if not call.error)
        content = "\n\n".join(filter(None, [turn.content, *(format_call(call.name, call.params) for call in native)]))
        text = format_results((call.name, result) for call, result in results)
        return [Message("assistant", content), Message("tool", text)]


class NativeProtocol:
    """Tool calls in fields of the reply, for endpoints whose models were trained on such calls."""

    name: ToolProtocol = "native"

    def manual(self, prompts: PromptLibrary, tools: Sequence[Tool]) -> str:
        """Describe when to call a tool; the tools themselves are in the request."""
        del tools
        return prompts.render("tools_native")

    def read(self, reply: ModelReply, shown: Sequence[str] = (), offered: Collection[str] = ()) -> ParsedReply:
        """Return the native calls; the text is never parsed for calls, since the text may quote a call.

        Some endpoints leave decoration of the model's family in a name, such as `functions.`.
        """
        del shown
        plain_names = {call.name: clean_name(call.name) for call in reply.calls if call.name not in offered}
        renamed = {name: plain for name, plain in plain_names.items() if plain in offered}
        calls = (replace(call, name=renamed.get(call.name, call.name)) for call in reply.calls)
        return ParsedReply(reply.content.strip(), tuple(calls))

    def transcribe(self, reply: ModelReply) -> ModelReply:
        """Return the reply unchanged."""
        return reply

    def write(self, turn: StoredTurn, results: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        """Return the text with its calls, and one message per result."""
        calls = tuple(call for call, _ in results)
        messages = [
            Message("tool", result.data if result.success else f"{ERROR_PREFIX}{result.error}") for _, result in results
        ]
        return [Message("assistant", turn.content.strip(), calls, turn.provider_fields), *messages]


PROTOCOLS: Mapping[ToolProtocol, CallProtocol] = {"xml": XmlProtocol(), "native": NativeProtocol()}
