"""Native tool calls of OpenAI-compatible endpoints: request fields, and a tolerant reader of streamed calls.

::

    messages, tools ──> wire_messages, tool_fields ──> request
    deltas ──> NativeCallReader ──> ToolCall ...

Call ids in requests follow from positions, so that equal transcripts are equal bytes. A streamed fragment belongs to
the call with its id or index; without both, to the latest call. A new call needs a name. Fragments are joined once,
so reading takes linear time.
"""

import json
import math
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from artifactflow_nb.core.messages import Message, ToolCall
from artifactflow_nb.models.base import ModelRequest

_INVALID_NAME_CHAR = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME_CHARS = 64
_EMPTY_IDS = frozenset({None, "", "null"})
_INTEGER_BOUND = 2**63  # the limit of SQLite and of JSON encoders; larger integers remain text
_MAX_INTEGER_CHARS = 20  # of an integer within the bound; longer integers are not parsed
_MAX_DEPTH = 100
_MAX_QUOTE = 80
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_NOISE = re.compile(r"(?:[\s\]})`;]|</?[\w|]+>)*")  # models append brackets, fences, tags of chat templates


# --- writing -------------------------------------------------------------------------------------------------------


def tool_fields(request: ModelRequest) -> dict[str, Any]:
    """Return the request fields that offer the tools; empty with the text protocol.

    `tool_choice` is only sent if it differs from the default, because some endpoints reject the field.
    """
    if request.tool_protocol != "native" or not request.tools:
        return {}
    tools = [
        {"name": valid_tool_name(tool.name), "description": tool.description, "parameters": dict(tool.parameters)}
        for tool in request.tools
    ]
    fields: dict[str, Any] = {"tools": [{"type": "function", "function": tool} for tool in tools]}
    return fields if request.tool_choice == "auto" else {**fields, "tool_choice": request.tool_choice}


def wire_messages(messages: Iterable[Message], origin: str = "") -> list[dict[str, Any]]:
    """Convert messages to the wire format, with the provider's own fields if these fields came from `origin`.

    A result of a native call refers to the call's id; a result of a call in the text protocol becomes a user message.
    Ids have nine letters and digits, as Mistral requires. A message without text has the content `""`: Ollama rejects
    null, and chat templates of vLLM and llama.cpp render the word "None".
    """
    wire: list[dict[str, Any]] = []
    open_ids: deque[str] = deque()  # ids of the latest native calls that have no result yet
    n_calls = 0
    for message in messages:
        if message.role == "tool" and open_ids:
            wire.append({"role": "tool", "tool_call_id": open_ids.popleft(), "content": message.content})
            continue
        open_ids.clear()
        role = "user" if message.role == "tool" else message.role
        entry: dict[str, Any] = {"role": role, "content": message.content}
        if message.calls:
            open_ids.extend(f"call{n_calls + i:05d}" for i in range(len(message.calls)))
            n_calls += len(message.calls)
            entry["tool_calls"] = []
            for call_id, call in zip(open_ids, message.calls, strict=True):
                arguments = json.dumps(dict(call.params), ensure_ascii=False, separators=(",", ":"))
                function = {"name": valid_tool_name(call.name), "arguments": arguments}
                entry["tool_calls"].append({"id": call_id, "type": "function", "function": function})
        with_provider_fields(entry, message.provider_fields, origin)
        wire.append(entry)
    return wire


def valid_tool_name(name: str) -> str:
    """Return a name that every endpoint accepts; the transcript may contain names that a model invented."""
    return _INVALID_NAME_CHAR.sub("_", name)[:_MAX_NAME_CHARS] or "unnamed"


# --- reading -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _CallFragments:
    """The fragments of one call; `delta` is the number of the delta with the latest fragment."""

    name: str = ""
    call_id: str | None = None
    arguments: list[str] = field(default_factory=list)
    delta: int = 0
    fields: "ProviderFields" = field(default_factory=lambda: ProviderFields(of_call=True))


class NativeCallReader:
    """Assembles calls from the deltas of a stream, or reads them from a complete message.

    Endpoints omit `index` or send 0 for every call; send the id once, in each fragment, or a new id with each fragment;
    repeat the name; and send arguments as text, as an object, or twice.
    """

    def __init__(self) -> None:
        self._calls: list[_CallFragments] = []
        self._by_id: dict[str | None, _CallFragments] = {}
        self._by_index: dict[int | None, _CallFragments] = {}
        self._deltas = 0

    def add(self, delta: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Read the fragments of a delta or message; return the tool name so far and the new arguments of each fragment.

        Errors: `AttributeError` or `TypeError` for a structure that differs from the chat format.
        """
        fragments, legacy = delta.get("tool_calls"), delta.get("function_call")  # the format before `tool_calls`
        if not fragments and not legacy:
            return []
        self._deltas += 1
        added: list[tuple[str, str]] = []
        for fragment in filter(None, fragments or [{"function": legacy}]):
            function = fragment.get("function") or fragment
            name, arguments, index = function.get("name") or "", function.get("arguments"), fragment.get("index")
            call_id = None if fragment.get("id") in _EMPTY_IDS else fragment["id"]
            call = self._by_id.get(call_id) or self._by_index.get(index)
            if call is None and self._calls and (index is None or not (name or call_id)):
                call = self._calls[-1]
            if call is None or not self._is_continued(call, call_id, index, name):
                call = _CallFragments()
                self._calls.append(call)
            call.delta = self._deltas
            call.fields.add(fragment)
            if call_id is not None:
                call.call_id = call_id
                self._by_id[call_id] = call
            if index is not None:
                self._by_index[index] = call
            # Some endpoints repeat the whole name, or the name so far, instead of the next part.
            call.name = name if name.startswith(call.name) else call.name + name
            if arguments in (None, ""):
                added.append((call.name, ""))
            else:
                call.arguments.append(arguments if isinstance(arguments, str) else _to_json(arguments))
                added.append((call.name, call.arguments[-1]))
        return added

    def calls(self, finish_reason: str) -> tuple[ToolCall, ...]:
        """Return the calls in order; with the finish reason `length` the last call counts as truncated."""
        return tuple(call for call, _ in self.calls_with_fields(finish_reason))

    def calls_with_fields(self, finish_reason: str) -> list[tuple[ToolCall, dict[str, Any]]]:
        """Return the calls with the unknown fields of each call."""
        calls: list[tuple[ToolCall, dict[str, Any]]] = []
        for fragments in self._calls:
            is_truncated = finish_reason == "length" and fragments is self._calls[-1]
            text = "".join(fragments.arguments)
            if fragments.name or text:
                first, *others = read_call(fragments.name.strip(), text, is_truncated=is_truncated)
                calls += [(first, fragments.fields.values), *((call, {}) for call in others)]
        return calls

    def _is_continued(self, call: _CallFragments, call_id: str | None, index: int | None, name: str) -> bool:
        """Return whether the fragment continues this call, or else starts another call with the same index or id."""
        if not name:
            return True
        if call.call_id and call_id is not None and call_id not in self._by_id:
            return False
        if call.delta == self._deltas:  # a delta never has two fragments of one call, except with the same id
            return call_id is not None and name == call.name
        has_new_index = index is not None and self._by_index.get(index) is not call
        return name == call.name or not (call.arguments or has_new_index)


def read_call(name: str, arguments: str, *, is_truncated: bool = False) -> list[ToolCall]:
    """Read the arguments of a call: one call for each JSON object, or a call with `error` for unreadable arguments.

    `is_truncated`: whether the token limit ended the reply within this call.
    """
    if not name:
        return [
            ToolCall("", {}, error="This call names no tool, so it was not run. Make it again with the tool's name.")
        ]
    try:
        calls = [ToolCall(name, params) for params in read_arguments(arguments)]
    except ValueError as error:
        reason = str(error)
    else:
        # A truncated call without parameters was cut before its arguments started.
        if calls[-1].params or not is_truncated:
            return calls
        reason = ""
    if is_truncated:
        advice = "Make the call again with less text in one call; long content can be written in several calls."
        reason = f"The reply reached its limit of tokens within the arguments of this call, so it was not run. {advice}"
    return [ToolCall(name, {}, error=reason)]


def read_arguments(text: str) -> list[dict[str, Any]]:
    """Read one or several JSON objects of parameters; equal objects count once.

    Errors: `ValueError` with a message for the model.
    """
    try:
        objects = [params for params in _objects(text) if params]
    except (ValueError, RecursionError) as error:
        reason = f"{error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise ValueError(
            f"The arguments of this call could not be read ({reason}), so it was not run. Make it again with its "
            f'arguments as one JSON object, such as {{"name": "value"}}. They began with: {text.strip()[:_MAX_QUOTE]!r}'
        ) from None
    if _SURROGATE.search(text):  # a lone surrogate is valid in JSON, but not in UTF-8
        objects = json.loads(_to_json(objects).encode("utf-8", "replace"))
    return list({_to_json(params): params for params in objects}.values()) if len(objects) > 1 else objects or [{}]


def _objects(text: str) -> list[dict[str, Any]]:
    """Return all JSON objects of a text in order; a JSON string that contains them is parsed again."""
    text = text.strip()
    objects: list[dict[str, Any]] = []
    position = 0
    while position < len(text) and not (objects and _NOISE.fullmatch(text, position)):
        value, position = _DECODER.raw_decode(text, position)
        while text[position : position + 1].isspace():
            position += 1
        if isinstance(value, str) and position == len(text):
            return _objects(value)
        objects.append(_params(value))
    return objects


def _params(value: Any) -> dict[str, Any]:
    """Return the value if it is an object; some endpoints send null or an empty list for an empty object."""
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise ValueError("they are not an object")  # noqa: TRY004 - an error of the model, not of the caller
    # The check is not recursive, because the nesting may exceed Python's stack.
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH):
        parents = [list(item.values()) if isinstance(item, dict) else item for item in level]
        level = [child for parent in parents if isinstance(parent, list) for child in parent]
    if level:
        raise ValueError(f"they are nested deeper than {_MAX_DEPTH} levels")
    return value


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _integer(digits: str) -> int | str:
    if len(digits) > _MAX_INTEGER_CHARS:
        return digits
    value = int(digits)
    return value if -_INTEGER_BOUND <= value < _INTEGER_BOUND else digits


def _number(digits: str) -> float | str:
    value = float(digits)
    return value if math.isfinite(value) else digits


_DECODER = json.JSONDecoder(strict=False, parse_int=_integer, parse_float=_number, parse_constant=str)


_MESSAGE_FIELDS = frozenset(
    {"role", "content", "tool_calls", "function_call", "refusal", "name", "audio", "annotations", "tool_call_id"}
)
_CALL_FIELDS = frozenset({"index", "id", "type", "function", "name", "arguments"})
_GROWS = re.compile(r"(?:text|content|summary|data|reasoning|thinking)$")


class ProviderFields:
    """The unknown fields of a message or of a call, joined from the pieces of a stream."""

    def __init__(self, *, of_call: bool = False) -> None:
        self.values: dict[str, Any] = {}
        self._known = _CALL_FIELDS if of_call else _MESSAGE_FIELDS

    def add(self, piece: Mapping[str, Any]) -> None:
        """Add the unknown fields of a piece, and of the `function` of a call."""
        unknown = piece.keys() - self._known
        for name in unknown:
            if piece[name] not in (None, "", [], {}):
                self.values[name] = _joined(name, self.values.get(name), piece[name])
        function = piece.get("function") if self._known is _CALL_FIELDS else None
        if isinstance(function, Mapping) and function.keys() - _CALL_FIELDS:
            inner = ProviderFields(of_call=True)
            inner.values = self.values.setdefault("function", {})
            inner.add(function)


def with_provider_fields(entry: dict[str, Any], stored: Mapping[str, Any] | None, origin: str) -> None:
    """Add stored fields to an assistant message of the wire format if these fields came from `origin`."""
    if not stored or stored.get("origin") != origin:
        return
    entry |= stored.get("message", {})
    for call, fields in zip(entry.get("tool_calls", ()), stored.get("calls", ()), strict=False):
        call |= {**fields, "function": {**call["function"], **fields.get("function", {})}}


def stored_fields(origin: str, message: ProviderFields, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the stored form of the unknown fields of a reply with native calls, or None without such fields."""
    if not calls or not (message.values or any(calls)):
        return None
    return {"origin": origin, "message": message.values, "calls": list(calls)}


def _joined(name: str, before: Any, piece: Any) -> Any:
    """Join two pieces of a field: texts grow, lists grow by item or by `index`, other values are replaced."""
    if isinstance(before, str) and isinstance(piece, str):
        return before + piece if _GROWS.search(name) else piece
    if isinstance(before, dict) and isinstance(piece, Mapping):
        return before | {key: _joined(key, before.get(key), value) for key, value in piece.items() if value is not None}
    if isinstance(before, list) and isinstance(piece, list):
        joined = list(before)
        for item in piece:
            index = item.get("index") if isinstance(item, Mapping) else None
            places = [n for n, other in enumerate(joined) if index is not None and other.get("index") == index]
            if places and joined[places[0]].get("type") == item.get("type"):
                joined[places[0]] = _joined("", joined[places[0]], item)
            else:
                joined.append(item)
        return joined
    return piece
