"""How an agent is told to call tools, and how its calls and their results are written back to it.

::

    xml      the manual in the system message; calls in the reply's text; one message with all results
    native   the endpoint is told the schemas; calls beside the reply's text; one message for each result
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.messages import Message, ToolCall, ToolProtocol, ToolResult
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.tools.manual import manual
from artifactflow_nb.xml_calls import ParsedReply, format_results, parse_reply


class CallProtocol(Protocol):
    """One of the two ways."""

    @property
    def name(self) -> ToolProtocol:
        """What it is called in settings and requests."""

    def manual(self, prompts: PromptLibrary, tools: Sequence[Tool]) -> str:
        """What the system message says of calling these tools."""

    def read(self, reply: ModelReply) -> ParsedReply:
        """The prose and the calls of a reply."""

    def write(self, content: str, results: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        """A reply with the results of its calls, as the next prompt shows it."""


class XmlCalls:
    """Calls as text: works with every endpoint."""

    name: ToolProtocol = "xml"

    def manual(self, prompts: PromptLibrary, tools: Sequence[Tool]) -> str:
        """The tools with their parameters, and how to write a call."""
        return prompts.render("tools", manual=manual(tools))

    def read(self, reply: ModelReply) -> ParsedReply:
        """What the text holds."""
        return parse_reply(reply.content, cut=_is_cut(reply))

    def write(self, content: str, results: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        """The text as the model wrote it, and one message with all results."""
        told = format_results((call.name, result) for call, result in results)
        return [Message("assistant", content), Message("tool", told)]


class NativeCalls:
    """Calls in fields of their own: for endpoints whose models were trained on it."""

    name: ToolProtocol = "native"

    def manual(self, prompts: PromptLibrary, tools: Sequence[Tool]) -> str:
        """When to call; the tools themselves are in the request."""
        del tools
        return prompts.render("tools_native")

    def read(self, reply: ModelReply) -> ParsedReply:
        """The native calls, and such as the model wrote into its text all the same."""
        written = parse_reply(reply.content, cut=_is_cut(reply))
        return ParsedReply(written.text, (*reply.calls, *written.calls))

    def write(self, content: str, results: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        """The prose with all its calls, and a message for each result."""
        calls = tuple(call for call, _ in results)
        told = [Message("tool", result.data if result.success else f"Error: {result.error}") for _, result in results]
        return [Message("assistant", parse_reply(content).text, calls), *told]


def _is_cut(reply: ModelReply) -> bool:
    """Whether the model ran out of tokens: its last call may lack what would have come."""
    return reply.finish_reason == "length"


PROTOCOLS: Mapping[ToolProtocol, CallProtocol] = {"xml": XmlCalls(), "native": NativeCalls()}
