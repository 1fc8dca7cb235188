"""The state of a job before its next reply, and the form of a reply."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from artifactflow_nb.core.messages import ToolCall, ToolResult
from artifactflow_nb.models.base import ModelContext, ModelRequest
from artifactflow_nb.models.offline.questions import is_follow_up
from artifactflow_nb.sources.retrieval.terms import Query, parse_query

_QUESTION = re.compile(r"^Question: *(.+)$", re.MULTILINE)
_EARLIER_QUESTION = re.compile(r"^Earlier question: *(.+)$", re.MULTILINE)
_ADDRESS = re.compile(r"\b(?:local:|https?://)\S+")
_FAILURE = re.compile(r"^(web_\w+ failed: .+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply: its text and its tool calls. The text quotes sources; text that looks like a call is not a call."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


def call_tool(tool: str, params: Mapping[str, Any], text: str = "") -> Reply:
    """Return a reply with one call."""
    return Reply(text, (ToolCall(tool, params),))


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A tool call of the job with its result."""

    call: ToolCall
    result: ToolResult

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of the call."""
        return self.call.params

    @property
    def text(self) -> str:
        """The text of a successful result, or an empty string."""
        return self.result.data if self.result.success else ""

    @property
    def error(self) -> str:
        """The error of a failed call, or an empty string."""
        return "" if self.result.success else self.result.error or "it failed"

    def failed_by(self, *error_types: str) -> bool:
        """Return whether the call failed with an error of one of these types."""
        return not self.result.success and self.result.metadata.get("error_type") in error_types

    @property
    def failure_line(self) -> str:
        """The line of a report about a failed call, which `find_failures` finds again."""
        return f"{self.call.name} failed: {' '.join(self.error.split())}"


def find_failures(report: str) -> list[str]:
    """Return the lines about failed calls in the report of another agent."""
    return _FAILURE.findall(report)


@dataclass(frozen=True, slots=True)
class Turn:
    """The state of a job.

    Attributes:
        context: The values behind the prompt.
        tools: Names of the tools that may be called now.
    """

    context: ModelContext
    tools: frozenset[str]

    @classmethod
    def of(cls, request: ModelRequest) -> "Turn":
        """Create the turn of a request; the last user message of a request without a context is the question."""
        question = next((message.content for message in reversed(request.messages) if message.role == "user"), "")
        tools = (tool.name for tool in request.tools) if request.tool_choice == "auto" else ()
        return cls(request.context or ModelContext(question, question), frozenset(tools))

    def with_instruction(self, instruction: str, tools: frozenset[str]) -> "Turn":
        """Return the same turn for another instruction and fewer tools."""
        return replace(self, context=replace(self.context, instruction=instruction, earlier_question=""), tools=tools)

    @property
    def calls(self) -> list[FinishedCall]:
        """The calls of the job, in order."""
        return [FinishedCall(call, result) for call, result in self.context.calls]

    def calls_of(self, tool: str, **params: str) -> list[FinishedCall]:
        """Return the calls of a tool, or only the calls with certain parameters."""
        calls = (entry for entry in self.calls if entry.call.name == tool)
        return [entry for entry in calls if all(entry.params.get(name) == value for name, value in params.items())]

    def texts_of(self, tool: str, **params: str) -> str:
        """Return the results of a tool's calls in one text."""
        return "\n\n".join(entry.text for entry in self.calls_of(tool, **params))

    def has(self, tool: str) -> bool:
        """Return whether the tool is offered or, in a concluding turn without tools, was called before."""
        return tool in self.tools or (not self.tools and bool(self.calls_of(tool)))

    def has_any(self, tools: tuple[str, ...]) -> bool:
        """Return whether any of these tools is offered or, in a concluding turn, was called before."""
        return any(map(self.has, tools))

    @property
    def question(self) -> str:
        """The question that the instruction states, or the whole instruction without addresses."""
        instruction = self.context.instruction
        stated = _QUESTION.search(instruction)
        return (stated[1] if stated else _ADDRESS.sub(" ", instruction)).strip()

    @property
    def earlier_question(self) -> str:
        """The question to which a follow-up question refers, or an empty string."""
        stated = _EARLIER_QUESTION.search(self.context.instruction)
        if stated:
            return stated[1].strip()
        return self.context.earlier_question if is_follow_up(self.question) else ""

    @property
    def query(self) -> Query:
        """The question as a query; words of the earlier question have a lower weight."""
        return parse_query(self.question, self.earlier_question)

    @property
    def stated_question(self) -> str:
        """The question for the instruction of another agent."""
        return state_question(self.question, self.earlier_question)


def state_question(question: str, earlier_question: str = "") -> str:
    """Write a question and an earlier question as lines that `Turn.question` and `Turn.earlier_question` read."""
    lines = [f"Question: {' '.join(question.split())}"]
    if earlier_question:
        lines.append(f"Earlier question: {' '.join(earlier_question.split())}")
    return "\n".join(lines)


def find_stated_question(text: str) -> str:
    """Return the text from the line that states a question, or an empty string."""
    stated = _QUESTION.search(text)
    return text[stated.start() :] if stated else ""


def without_addresses(text: str) -> str:
    """Replace the addresses in a text by spaces."""
    return _ADDRESS.sub(" ", text)
