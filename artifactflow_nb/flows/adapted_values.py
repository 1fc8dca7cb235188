"""LangChain's messages as the values of the workbench. Nothing else here knows how LangChain writes them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from artifactflow_nb.messages import Message, Role, ToolCall, ToolResult, Usage
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest, estimate_usage
from artifactflow_nb.store.storable import storable_text, to_json

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
    "function": "tool",
}
_REASONING = {"reasoning", "thinking", "reasoning_content"}
_REASONS = ("finish_reason", "stop_reason", "done_reason")


def request_of(data: Mapping[str, Any]) -> ModelRequest:
    """What a model is asked, of the event that says so."""
    given = data.get("input") or {}
    batches = given.get("messages") or [[]]
    sent = tuple(_message(message) for message in batches[0])
    prompts = tuple(Message("user", storable_text(str(prompt))) for prompt in given.get("prompts") or ())
    return ModelRequest(sent or prompts, tool_protocol="native")


def _message(message: Any) -> Message:
    text = storable_text(_text(message.content))
    return Message(_ROLES.get(message.type, "user"), text, _calls(message))


def _text(content: Any) -> str:
    """The text of a message: as it is, or of its blocks those that are text."""
    if isinstance(content, str):
        return content
    return "".join(
        block if isinstance(block, str) else str(block.get("text") or "") for block in content if _is_text(block)
    )


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or block.get("type", "text") == "text"


def _reasoning(message: Any) -> str:
    """What a model thought, wherever its integration put that."""
    if said := message.additional_kwargs.get("reasoning_content"):
        return str(said)
    blocks = [] if isinstance(message.content, str) else message.content
    thoughts = [block for block in blocks if not isinstance(block, str) and block.get("type") in _REASONING]
    return "".join(
        str(block.get("reasoning") or block.get("thinking") or block.get("text") or "") for block in thoughts
    )


def _calls(message: Any) -> tuple[ToolCall, ...]:
    sound = [_call(call["name"], call["args"]) for call in getattr(message, "tool_calls", ())]
    broken = [
        ToolCall(storable_text(call["name"] or ""), {}, f"Its arguments could not be read: {call['args']!r:.200}")
        for call in getattr(message, "invalid_tool_calls", ())
    ]
    return (*sound, *broken)


def _call(name: str, args: Mapping[str, Any]) -> ToolCall:
    return ToolCall(storable_text(name), plain(args))


def plain(value: Any) -> Any:
    """A value as JSON has it; what JSON cannot hold is made text."""
    return orjson.loads(to_json(value))


def deltas_of(chunk: Any) -> Iterator[ModelDelta]:
    """What a piece of a reply brings: reasoning, text, calls."""
    if isinstance(chunk, str) or not hasattr(chunk, "additional_kwargs"):  # of a model that completes text
        yield ModelDelta(storable_text(getattr(chunk, "text", chunk)))
        return
    if thought := _reasoning(chunk):
        yield ModelDelta(storable_text(thought), "reasoning")
    if text := _text(chunk.content):
        yield ModelDelta(storable_text(text))
    for call in getattr(chunk, "tool_call_chunks", ()):
        if call["name"] or call["args"]:
            yield ModelDelta(storable_text(call["args"] or ""), "call", storable_text(call["name"] or ""))


def reply_of(output: Any, request: ModelRequest, model: str, ttft_ms: float | None) -> ModelReply:
    """What a model gave, of the event that it is complete."""
    message = output
    if isinstance(output, Mapping):  # of a model that completes text
        text = output["generations"][0][0]["text"]
        return ModelReply(storable_text(text), estimate_usage(request, text), "stop", model, ttft_ms=ttft_ms)
    content, reasoning = storable_text(_text(message.content)), storable_text(_reasoning(message))
    calls, told = _calls(message), message.response_metadata or {}
    usage = _usage(getattr(message, "usage_metadata", None)) or estimate_usage(request, reasoning + content, calls)
    reason = next((str(told[name]) for name in _REASONS if told.get(name)), "tool_calls" if calls else "stop")
    answered = str(told.get("model_name") or told.get("model") or model)
    return ModelReply(content, usage, reason, answered, calls, reasoning, ttft_ms)


def _usage(told: Mapping[str, Any] | None) -> Usage | None:
    if not told:
        return None
    read, written = told.get("input_token_details") or {}, told.get("output_token_details") or {}
    return Usage(
        told["input_tokens"],
        told["output_tokens"],
        reasoning_tokens=written.get("reasoning"),
        cache_read_tokens=read.get("cache_read"),
    )


def result_of(output: Any) -> ToolResult:
    """What came of a tool that did not raise."""
    content = getattr(output, "content", output)
    text = storable_text(content if isinstance(content, str) else _told(content))
    if getattr(output, "status", "success") == "error":
        return ToolResult(success=False, error=text, metadata={"error_type": "ToolError"})
    return ToolResult(success=True, data=text)


def _told(content: Any) -> str:
    """What a tool gave, as text: blocks of text by what they say, all else as JSON."""
    if isinstance(content, Sequence) and all(isinstance(block, Mapping) and "text" in block for block in content):
        return _text(content)
    return to_json(content)


def last_answer(state: Any) -> str | None:
    """The text of the last AI message in a graph's state, or a state that is text itself; None if there is none."""
    if isinstance(state, str):
        return state
    messages = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
    said = [message for message in messages or () if getattr(message, "type", "") == "ai"]
    return _text(said[-1].content) if said else None
