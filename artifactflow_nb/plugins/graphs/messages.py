"""Conversion of LangChain's messages to the values of the package; only this module knows their format."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from artifactflow_nb.core.messages import Message, Role, ToolCall, ToolResult, Usage
from artifactflow_nb.core.text.format import media_placeholder, storable_text
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest, estimate_usage
from artifactflow_nb.store.encoding import storable_json, to_json

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


def model_request(data: Mapping[str, Any]) -> ModelRequest:
    """Convert the data of a model's start event."""
    inputs = data.get("input") or {}
    batches = inputs.get("messages") or [[]]
    messages = tuple(
        Message(_ROLES.get(message.type, "user"), storable_text(_text(message.content)), _calls(message))
        for message in batches[0]
    )
    prompts = tuple(Message("user", storable_text(str(prompt))) for prompt in inputs.get("prompts") or ())
    return ModelRequest(messages or prompts, tool_protocol="native")


def _text(content: Any) -> str:
    """Return the text of a message's content: a string, or the joined text blocks of a list."""
    if isinstance(content, str):
        return content
    return "".join(
        block if isinstance(block, str) else str(block.get("text") or "")
        for block in content
        if isinstance(block, str) or block.get("type", "text") == "text"
    )


def _reasoning(message: Any) -> str:
    """Return the reasoning of a message, which integrations put into one of two fields."""
    if reasoning := message.additional_kwargs.get("reasoning_content"):
        return str(reasoning)
    blocks = [] if isinstance(message.content, str) else message.content
    thoughts = [block for block in blocks if not isinstance(block, str) and block.get("type") in _REASONING]
    return "".join(
        str(block.get("reasoning") or block.get("thinking") or block.get("text") or "") for block in thoughts
    )


def _calls(message: Any) -> tuple[ToolCall, ...]:
    valid = [
        ToolCall(storable_text(call["name"]), to_plain_json(call["args"]))
        for call in getattr(message, "tool_calls", ())
    ]
    invalid = [
        ToolCall(storable_text(call["name"] or ""), {}, f"Its arguments could not be read: {call['args']!r:.200}")
        for call in getattr(message, "invalid_tool_calls", ())
    ]
    return (*valid, *invalid)


def call_ids(message: Any) -> tuple[str | None, ...]:
    """Return LangChain's ids of a reply's tool calls, in the order of the converted calls."""
    calls = (*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ()))
    return tuple(call.get("id") for call in calls)


def tool_results_in(messages: Iterable[Any]) -> dict[str, tuple[ToolCall, ToolResult]]:
    """Return the tool calls of a conversation that have a result in the conversation, by LangChain's ids."""
    calls: dict[str | None, ToolCall] = {}
    results: dict[str, tuple[ToolCall, ToolResult]] = {}
    for message in messages:
        calls.update(zip(call_ids(message), _calls(message), strict=True))
        key = getattr(message, "tool_call_id", None)
        if key is not None and (call := calls.pop(key, None)) is not None:
            results[key] = call, tool_result_from_output(message)
    return results


def messages_in_state(state: Any) -> Sequence[Any]:
    """Return the messages in a graph's state or output, or an empty sequence.

    The output of an `@entrypoint` may be a message, or a list of messages.
    """
    outputs = state if isinstance(state, list) else [state]
    if outputs and all(hasattr(each, "content") and hasattr(each, "type") for each in outputs):
        return outputs
    messages = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
    return messages if isinstance(messages, Sequence) else ()


def to_plain_json(value: Any) -> Any:
    """Convert a value to JSON types; objects of other types become text."""
    return storable_json(value)


def deltas_from_chunk(chunk: Any) -> Iterator[ModelDelta]:
    """Convert a streamed chunk: its reasoning, text and calls."""
    if isinstance(chunk, str) or not hasattr(chunk, "additional_kwargs"):  # from a text completion model
        yield ModelDelta(storable_text(getattr(chunk, "text", chunk)))
        return
    if reasoning := _reasoning(chunk):
        yield ModelDelta(storable_text(reasoning), "reasoning")
    if text := _text(chunk.content):
        yield ModelDelta(storable_text(text))
    for call in getattr(chunk, "tool_call_chunks", ()):
        if call["name"] or call["args"]:
            yield ModelDelta(storable_text(call["args"] or ""), "call", storable_text(call["name"] or ""))


def checkpoint_namespace(metadata: Mapping[str, Any]) -> str:
    """Return the node of an event and the outer nodes, each with a task: `team:1f..|writer:2e..`."""
    return str(metadata.get("langgraph_checkpoint_ns") or "")


def model_name_of(event: Mapping[str, Any]) -> str:
    """Return the model's name from its start event."""
    return str(event["metadata"].get("ls_model_name") or event["name"])


def output_from_response(response: Any) -> Any:
    """Convert the response in a callback to the output of the end event."""
    first = next((generation for batch in response.generations for generation in batch), None)
    if first is not None and hasattr(first, "message"):
        return first.message
    return {"generations": [[{"text": generation.text} for generation in batch] for batch in response.generations]}


def model_reply(output: Any, request: ModelRequest, model: str, ttft_ms: float | None) -> ModelReply:
    """Convert the output of a model's end event; missing usage is estimated."""
    if isinstance(output, Mapping):  # from a text completion model
        text = output["generations"][0][0]["text"]
        return ModelReply(storable_text(text), estimate_usage(request, text), "stop", model, ttft_ms=ttft_ms)
    content, reasoning = storable_text(_text(output.content)), storable_text(_reasoning(output))
    calls, metadata = _calls(output), output.response_metadata or {}
    if counts := getattr(output, "usage_metadata", None):
        usage = Usage(
            counts["input_tokens"],
            counts["output_tokens"],
            reasoning_tokens=(counts.get("output_token_details") or {}).get("reasoning"),
            cache_read_tokens=(counts.get("input_token_details") or {}).get("cache_read"),
        )
    else:
        usage = estimate_usage(request, reasoning + content, calls)
    reason = _finish_reason(output) or ("tool_calls" if calls else "stop")
    name = str(metadata.get("model_name") or metadata.get("model") or model)
    return ModelReply(content, usage, storable_text(reason), storable_text(name), calls, reasoning, ttft_ms)


def _finish_reason(message: Any) -> str:
    metadata = message.response_metadata or {}
    return next((str(metadata[name]) for name in _REASONS if metadata.get(name)), "")


def tool_result_from_output(output: Any) -> ToolResult:
    """Convert the output of a successful tool: text unchanged, media as placeholders, other values as JSON."""
    content = getattr(output, "content", output)
    if isinstance(content, str):
        text = content
    elif isinstance(content, list) and all(isinstance(block, str | Mapping) for block in content):
        is_text = [isinstance(b, str) or (b.get("type", "text") == "text" and "text" in b) for b in content]
        described = [
            _text([b]) if is_plain else _describe_media(b) for b, is_plain in zip(content, is_text, strict=True)
        ]
        if all(is_text):
            text = _text(content)
        elif any(described):
            pairs = zip(described, content, strict=True)
            text = "\n\n".join(to_json(block) if part is None else part for part, block in pairs)
        else:
            text = to_json(content)
    else:
        text = to_json(content)
    text = storable_text(text)
    if getattr(output, "status", "success") == "error":
        return ToolResult(success=False, error=text, metadata={"error_type": "ToolError"})
    return ToolResult(success=True, data=text)


def _describe_media(block: Mapping[str, Any]) -> str | None:
    """Return a placeholder for a block of bytes, or None for another block.

    The bytes are in the block itself, in its `source`, or in the field with the name of its `type`:
    `{"image_url": {"url": "data:..."}}`.
    """
    if (kind := block.get("type")) not in _MEDIA:
        return None
    source = next((block[name] for name in ("source", kind) if name in block), block)
    fields = source if isinstance(source, Mapping) else {"url": source}
    media_type = next((str(f[name]) for f in (fields, block) for name in _MEDIA_TYPES if f.get(name)), "of no type")
    data = str(next((fields[name] for name in ("base64", "data", "file_data", "url") if fields.get(name)), ""))
    if match := _DATA_URL.match(data):
        return media_placeholder(kind, match[1] or media_type, data[match.end() :])
    return media_placeholder(kind, media_type, data) if data and data != fields.get("url") else None


def last_answer(state: Any) -> tuple[str | None, str]:
    """Return the text (or None) and the finish reason of the last AI message with text in a state."""
    for message in reversed(messages_in_state(state)):
        if getattr(message, "type", "") == "ai" and (text := _text(message.content)).strip():
            return text, _finish_reason(message)
    return None, ""
