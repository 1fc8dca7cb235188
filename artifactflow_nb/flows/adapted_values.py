"""LangChain's messages as the values of the workbench. Nothing else here knows how LangChain writes them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from artifactflow_nb.messages import Message, Role, ToolCall, ToolResult, Usage
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest, estimate_usage
from artifactflow_nb.store.storable import storable_text, to_json
from artifactflow_nb.text.media import media

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
    "function": "tool",
}
_REASONING = {"reasoning", "thinking", "reasoning_content"}
_MEDIA = {"image", "image_url", "audio", "video", "file", "document"}
_MEDIA_TYPES = ("mime_type", "media_type")
_DATA_URL = re.compile(r"data:([^;,]*)[^,]*,")
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


def call_ids(message: Any) -> tuple[str | None, ...]:
    """The ids that LangChain gives the tool calls of a reply, in the order of its calls here."""
    calls = (*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ()))
    return tuple(call.get("id") for call in calls)


def answers_of(messages: Iterable[Any]) -> dict[str, tuple[ToolCall, ToolResult]]:
    """The tool calls of a conversation that are answered in it, with their answers, by the ids that LangChain gives."""
    asked: dict[str | None, ToolCall] = {}
    found: dict[str, tuple[ToolCall, ToolResult]] = {}
    for message in messages:
        asked.update(zip(call_ids(message), _calls(message), strict=True))
        key = getattr(message, "tool_call_id", None)
        if key is not None and (call := asked.pop(key, None)) is not None:
            found[key] = call, result_of(message)
    return found


def conversation_of(state: Any) -> Sequence[Any]:
    """The messages in a graph's state, or in what it gave; none if it has no such part."""
    messages = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
    return messages if isinstance(messages, Sequence) else ()


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


def space_of(metadata: Mapping[str, Any]) -> str:
    """The node that an event is of, with those around it, each with its task: `team:1f..|writer:2e..`."""
    return str(metadata.get("langgraph_checkpoint_ns") or "")


def output_of(response: Any) -> Any:
    """What a model gave, of what its callbacks are told: as the event that it is complete has it."""
    first = next((made for batch in response.generations for made in batch), None)
    if first is not None and hasattr(first, "message"):
        return first.message
    return {"generations": [[{"text": made.text} for made in batch] for batch in response.generations]}


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
    """What a tool gave, as text: blocks of text by what they say, pictures and the like by what they are."""
    if not isinstance(content, list) or not all(isinstance(block, str | Mapping) for block in content):
        return to_json(content)
    if all(map(_says, content)):
        return _text(content)
    parts = [_text([block]) if _says(block) else _media(block) for block in content]
    if not any(parts):
        return to_json(content)
    return "\n\n".join(to_json(block) if part is None else part for part, block in zip(parts, content, strict=True))


def _says(block: Any) -> bool:
    return isinstance(block, str) or (_is_text(block) and "text" in block)


def _media(block: Mapping[str, Any]) -> str | None:
    """What a block of bytes is; None for another one.

    They are in the block itself, or in what it calls its source or its own kind: `{"image_url": {"url": "data:..."}}`.
    """
    if (kind := block.get("type")) not in _MEDIA:
        return None
    inner = next((block[name] for name in ("source", kind) if name in block), block)
    place = inner if isinstance(inner, Mapping) else {"url": inner}
    told = next((str(one[name]) for one in (place, block) for name in _MEDIA_TYPES if one.get(name)), "of no type")
    held = str(next((place[name] for name in ("base64", "data", "file_data", "url") if place.get(name)), ""))
    if found := _DATA_URL.match(held):
        return media(kind, found[1] or told, held[found.end() :])
    return media(kind, told, held) if held and held != place.get("url") else None


def last_answer(state: Any) -> str | None:
    """The text of the last AI message in a graph's state, or a state that is text itself; None if there is none."""
    if isinstance(state, str):
        return state
    said = [message for message in conversation_of(state) if getattr(message, "type", "") == "ai"]
    return _text(said[-1].content) if said else None
