"""The model behind every endpoint: the offline model, which here knows only what came over the wire.

::

    request (messages, tools) ──> think ──> Thought: reasoning, text, calls
                                            calls are native if the request offers tools, otherwise XML in the text

The same research is done at every endpoint, so a difference between two endpoints is one of their form.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.core.messages import ERROR_PREFIX, ToolCall, ToolResult
from artifactflow_nb.core.toolcalls.xml import format_call, parse_reply, parse_results
from artifactflow_nb.models.base import ModelContext
from artifactflow_nb.models.offline.research import LOOKUP_TOOLS, coordinate, look_up
from artifactflow_nb.models.offline.turn import Turn

THINKING = "HIDDEN-THOUGHT: the person must never read this as an answer."
"""What every reply thinks; tests look for its first word."""

_MANUAL = re.compile(r"^### (\w+)$", re.MULTILINE)
_ARTIFACT = re.compile(r"^- (\S+) \(version \d+\):", re.MULTILINE)
_LAST_ROUND = re.compile(r"\n*(?:One round of tool calls is left|You have used all \d+ rounds).*\Z", re.DOTALL)
_NO_ROUND = "No tool can be called any more"
_RESULTS = "<tool_result>"

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Thought:
    """What the model says to a request, before an endpoint gives it a form."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = THINKING

    @property
    def final(self) -> bool:
        """Whether the reply has no native calls."""
        return not self.calls


def think(body: Mapping[str, Any]) -> Thought:
    """Reply to a chat request with the next step of the research."""
    messages: Sequence[Message] = body["messages"]
    system = "\n".join(_text(message) for message in messages if message["role"] in {"system", "developer"})
    questions = [n for n, message in enumerate(messages) if _is_question(message)]
    start = questions[-1]
    is_native = "tools" in body
    tools = [tool["function"]["name"] for tool in body.get("tools", ())] if is_native else _MANUAL.findall(system)
    if body.get("tool_choice") == "none" or _NO_ROUND in _text(messages[-1]):
        tools = []
    instruction = _LAST_ROUND.sub("", _text(messages[start]))
    context = ModelContext(
        question=instruction,
        instruction=instruction,
        earlier_question=_text(messages[questions[-2]]) if len(questions) > 1 else "",
        calls=tuple(_finished_calls(messages[start + 1 :])),
        artifact_ids=frozenset(_ARTIFACT.findall(system)),
    )
    turn = Turn(context, frozenset(tools))
    looks_up = turn.has_any(LOOKUP_TOOLS) and not turn.has("call_subagent")
    reply = look_up(turn) if looks_up else coordinate(turn)
    if is_native:
        return Thought(reply.text, reply.calls)
    return Thought("\n\n".join([reply.text, *(format_call(call.name, call.params) for call in reply.calls)]))


def _text(message: Message) -> str:
    """The text of a message, whose content may be in parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _is_question(message: Message) -> bool:
    return message["role"] == "user" and not _text(message).startswith(_RESULTS)


def _finished_calls(messages: Sequence[Message]) -> Iterator[tuple[ToolCall, ToolResult]]:
    """The calls of the current task with their results, in either protocol."""
    answers = {message["tool_call_id"]: _text(message) for message in messages if message["role"] == "tool"}
    for n, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        for call in message.get("tool_calls") or ():
            function = call["function"]
            yield ToolCall(function["name"], json.loads(function["arguments"])), _result(answers[call["id"]])
        if not message.get("tool_calls") and (calls := parse_reply(_text(message)).calls):
            results = (result for _, result in parse_results(_text(messages[n + 1])))
            yield from zip(calls, results, strict=True)


def _result(text: str) -> ToolResult:
    text = _LAST_ROUND.sub("", text)
    if text.startswith(ERROR_PREFIX):
        return ToolResult(success=False, error=text.removeprefix(ERROR_PREFIX))
    return ToolResult(success=True, data=text)
