"""Tool calls in fields of their own, as OpenAI-compatible endpoints take them and as they really send them.

::

    messages, tools ──> wire_messages, tool_fields ──> request
    deltas ──> CallReader ──> ToolCall ...

Ids are made from positions, so that equal transcripts are equal bytes. A piece of a call finds its call by id, by index
or, with neither, by being next; a call begins only with a name. Reading is linear in the pieces: they are joined once.
"""

import json
import math
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from artifactflow_nb.messages import Message, ToolCall
from artifactflow_nb.models.base import ModelRequest

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
_NO_ID = frozenset({None, "", "null"})
_LARGEST = 2**63  # SQLite, JSON encoders and JavaScript hold no larger integer: those stay text
_LONGEST_INTEGER = 20
_DEEPEST = 100
_QUOTED = 80
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
_NOISE = re.compile(r"(?:[\s\]})`;]|</?[\w|]+>)*")  # what models append: brackets too many, fences, tags of templates


# --- writing -------------------------------------------------------------------------------------------------------


def tool_fields(request: ModelRequest) -> dict[str, Any]:
    """The fields that offer the request's tools; none with the text protocol.

    `tool_choice` is left out where the default is meant, because not every endpoint knows the field.
    """
    if request.tool_protocol != "native" or not request.tools:
        return {}
    tools = [
        {"name": legal_name(tool.name), "description": tool.description, "parameters": dict(tool.parameters)}
        for tool in request.tools
    ]
    fields: dict[str, Any] = {"tools": [{"type": "function", "function": tool} for tool in tools]}
    return fields if request.tool_choice == "auto" else {**fields, "tool_choice": request.tool_choice}


def wire_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The messages as endpoints take them.

    The results of native calls name their calls; those of calls written as text are a user's message. An id is nine
    letters and digits, as Mistral asks for. The content beside calls is `""` where there is none: with null, Ollama
    refuses the request and templates at vLLM and llama.cpp show the model the word "None".
    """
    written: list[dict[str, Any]] = []
    waiting: deque[str] = deque()
    n_calls = 0
    for message in messages:
        if message.role == "tool" and waiting:
            written.append({"role": "tool", "tool_call_id": waiting.popleft(), "content": message.content})
            continue
        waiting.clear()
        role = "user" if message.role == "tool" else message.role
        entry: dict[str, Any] = {"role": role, "content": message.content}
        if message.calls:
            waiting.extend(f"call{n_calls + i:05d}" for i in range(len(message.calls)))
            n_calls += len(message.calls)
            entry["tool_calls"] = [_wire_call(*pair) for pair in zip(waiting, message.calls, strict=True)]
        written.append(entry)
    return written


def _wire_call(call_id: str, call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(dict(call.params), ensure_ascii=False, separators=(",", ":"))
    return {"id": call_id, "type": "function", "function": {"name": legal_name(call.name), "arguments": arguments}}


def legal_name(name: str) -> str:
    """The name as every endpoint takes it: a model may have made it up, and it goes back in the transcript."""
    return _ILLEGAL.sub("_", name)[:_LONGEST_NAME] or "unnamed"


# --- reading -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Pieces:
    """What has arrived of one call, and in which delta its last piece stood."""

    name: str = ""
    call_id: str | None = None
    arguments: list[str] = field(default_factory=list)
    delta: int = 0


class CallReader:
    """Puts calls together from the deltas of a stream, or takes them from a message that came whole.

    Endpoints leave `index` out, or say 0 for every call; they give the id once, in each piece, or a new one for each
    piece; they repeat the name; they send arguments as text, as an object, or twice.
    """

    def __init__(self) -> None:
        self._calls: list[_Pieces] = []
        self._by_id: dict[str | None, _Pieces] = {}
        self._by_index: dict[int | None, _Pieces] = {}
        self._deltas = 0

    def add(self, delta: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Take the pieces that a delta or a message holds; of each, the tool so far and the text of its arguments.

        Errors: `AttributeError` or `TypeError` where they are not what a chat endpoint sends.
        """
        pieces, oldest = delta.get("tool_calls"), delta.get("function_call")
        if not pieces and not oldest:
            return []
        self._deltas += 1
        return [self._take(piece) for piece in pieces or [{"function": oldest}] if piece]

    def calls(self, finish_reason: str) -> tuple[ToolCall, ...]:
        """The calls, in the order begun; the last one may have been cut by `length`. Never half a value."""
        found: list[ToolCall] = []
        for pieces in self._calls:
            cut = finish_reason == "length" and pieces is self._calls[-1]
            text = "".join(pieces.arguments)
            if pieces.name or text:
                found += read_call(pieces.name.strip(), text, cut=cut)
        return tuple(found)

    def _take(self, piece: Mapping[str, Any]) -> tuple[str, str]:
        function = piece.get("function") or piece
        name, arguments, index = function.get("name") or "", function.get("arguments"), piece.get("index")
        call_id = None if piece.get("id") in _NO_ID else piece["id"]
        call = self._call_of(call_id, index, name)
        call.delta = self._deltas
        if call_id is not None:
            call.call_id = call_id
            self._by_id[call_id] = call
        if index is not None:
            self._by_index[index] = call
        call.name = _continued(call.name, name)
        if arguments is None or arguments == "":
            return call.name, ""
        call.arguments.append(arguments if isinstance(arguments, str) else _dumped(arguments))
        return call.name, call.arguments[-1]

    def _call_of(self, call_id: str | None, index: int | None, name: str) -> _Pieces:
        """The call that a piece belongs to; a new one if the piece begins one."""
        call = self._by_id.get(call_id) or self._by_index.get(index)
        if call is None and self._calls and (index is None or not (name or call_id)):
            call = self._calls[-1]
        if call is None or not self._goes_on(call, call_id, index, name):
            call = _Pieces()
            self._calls.append(call)
        return call

    def _goes_on(self, call: _Pieces, call_id: str | None, index: int | None, name: str) -> bool:
        """Whether the call that id or index led to is meant, and not another of the same index or id."""
        if not name:
            return True
        if call.call_id and call_id is not None and call_id not in self._by_id:
            return False
        if call.delta == self._deltas:  # no delta holds two pieces of one call
            return call_id is not None and name == call.name
        moved = index is not None and self._by_index.get(index) is not call
        return name == call.name or not (call.arguments or moved)


def _continued(name: str, piece: str) -> str:
    """The name with its next piece; endpoints also send it again, or all of it so far."""
    return piece if piece.startswith(name) else name + piece


def read_call(name: str, arguments: str, *, cut: bool = False) -> list[ToolCall]:
    """The call with these arguments; several calls if they are several objects; one with `error` if they are none.

    Args:
        name: The tool's name.
        arguments: JSON text as it arrived; empty for a call without parameters.
        cut: Whether the reply ended here because it was too long.
    """
    if not name:
        return [
            ToolCall("", {}, error="This call names no tool, so it was not run. Make it again with the tool's name.")
        ]
    try:
        found = [ToolCall(name, params) for params in read_arguments(arguments)]
    except ValueError as error:
        reason = str(error)
    else:
        if found[-1].params or not cut:
            return found
        reason = ""
    if cut:
        advice = "Make the call again with less text in one call; long content can be written in several calls."
        reason = f"The reply reached its limit of tokens within the arguments of this call, so it was not run. {advice}"
    return [ToolCall(name, {}, error=reason)]


def read_arguments(text: str) -> list[dict[str, Any]]:
    """The parameters that the text holds: several objects are as many calls; what was sent twice counts once.

    Errors: `ValueError` with what the model is told.
    """
    try:
        found = [params for params in _objects(text) if params]
    except (ValueError, RecursionError) as error:
        why = f"{error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise ValueError(
            f"The arguments of this call could not be read ({why}), so it was not run. Make it again with its "
            f'arguments as one JSON object, such as {{"name": "value"}}. They began with: {text.strip()[:_QUOTED]!r}'
        ) from None
    if _HALF_PAIR.search(text):  # JSON can spell half of a surrogate pair, and no file or database takes it
        found = json.loads(_dumped(found).encode("utf-8", "replace"))
    return list({_dumped(params): params for params in found}.values()) if len(found) > 1 else found or [{}]


def _objects(text: str) -> list[dict[str, Any]]:
    """All objects of the text, one after the other; a string that holds them is opened."""
    text = text.strip()
    found: list[dict[str, Any]] = []
    position = 0
    while position < len(text) and not (found and _NOISE.fullmatch(text, position)):
        value, position = _DECODER.raw_decode(text, position)
        while text[position : position + 1].isspace():
            position += 1
        if isinstance(value, str) and position == len(text):
            return _objects(value)
        found.append(_params(value))
    return found


def _params(value: Any) -> dict[str, Any]:
    """The value if it is an object; null and an empty list are what some endpoints make of one without entries."""
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise ValueError("they are no object")  # noqa: TRY004 - the model's mistake, not a caller's
    if _deeper(value, _DEEPEST):
        raise ValueError(f"they are nested deeper than {_DEEPEST} levels")
    return value


def _deeper(value: Any, levels: int) -> bool:
    found = [value]
    for _ in range(levels):
        found = [item for one in found for item in _items(one)]
        if not found:
            return False
    return True


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _integer(digits: str) -> int | str:
    if len(digits) > _LONGEST_INTEGER:
        return digits
    value = int(digits)
    return value if -_LARGEST <= value < _LARGEST else digits


def _number(digits: str) -> float | str:
    value = float(digits)
    return value if math.isfinite(value) else digits


_DECODER = json.JSONDecoder(strict=False, parse_int=_integer, parse_float=_number, parse_constant=str)
