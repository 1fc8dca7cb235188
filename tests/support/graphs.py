"""LangGraph graphs for tests, and a scripted chat model of LangChain."""

import json
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

Script = Sequence[AIMessage | Exception]


class ScriptedChat(BaseChatModel):
    """Returns the replies of a script in order, word by word; an exception in it is raised.

    Attributes:
        script: Its replies.
        requests: The messages of each call so far.
    """

    script: list[Any]
    requests: list[list[BaseMessage]] = Field(default_factory=list)
    model_name: str = "scripted-chat"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, _tools: Any, **_options: Any) -> "ScriptedChat":
        return self

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        self.requests.append(messages)
        reply = self.script[len(self.requests) - 1]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _generate(self, messages: list[BaseMessage], *_more: Any, **_options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _stream(self, messages: list[BaseMessage], *_more: Any, **_options: Any) -> Iterator[ChatGenerationChunk]:
        reply = self._next(messages)
        for word in str(reply.content).split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(f"{word} "))
        calls = [
            {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": index}
            for index, call in enumerate(reply.tool_calls)
        ]
        end = AIMessageChunk("", tool_call_chunks=calls, usage_metadata=reply.usage_metadata)
        end.response_metadata = {"finish_reason": "tool_calls" if calls else "stop", "model_name": "scripted-chat-1"}
        yield ChatGenerationChunk(message=end)


def ai_message(text: str, *calls: tuple[str, dict[str, Any]], tokens: tuple[int, int] | None = (30, 4)) -> AIMessage:
    """A reply with its text, its tool calls and its token usage."""
    tool_calls = [{"name": name, "args": args, "id": f"call-{n}"} for n, (name, args) in enumerate(calls)]
    usage = None
    if tokens is not None:
        usage = {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": sum(tokens)}
    return AIMessage(text, tool_calls=tool_calls, usage_metadata=usage)


def react_agent(script: Script, *tools: Any, **options: Any) -> Any:
    """LangGraph's prebuilt agent with a scripted model."""
    from langgraph.prebuilt import ToolNode

    node_tools = tools[0] if tools and isinstance(tools[0], ToolNode) else list(tools)
    return prebuilt(ScriptedChat(script=list(script)), node_tools, **options)


def prebuilt(model: BaseChatModel, tools: Any, **options: Any) -> Any:
    """LangGraph's prebuilt agent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has moved to a package that is not installed here
        from langgraph.prebuilt import create_react_agent

        return create_react_agent(model, tools, **options)
