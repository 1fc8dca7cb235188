"""The text protocol of tool calls and their results: how they are written and how they are read.

It stands below models and tools because both sides speak it: models write calls and read results, the flow does the
reverse. Written with CDATA throughout; read with tolerance for what models really write: text around, code fences,
missing CDATA, `]]>` inside a value, lists as `<item>`, tags never closed. Reading is linear in the length of the text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.messages import ToolCall, ToolResult

_OPEN_CALL = re.compile(r"<tool_call\b[^<>]*>")
_TAG = re.compile(r"<(/?)([A-Za-z_][\w.-]*)\s*>")
_CDATA_OPEN = "<![CDATA["
_CDATA_CLOSE = "]]>"
_ITEM = re.compile(r"\s*<item>(.*?)</item>", re.DOTALL)
_RESULT = re.compile(r"<tool_result>\s*<name>([^<]*)</name>\s*<success>(true|false)</success>\s*<data>")
_FENCE_LEFT = re.compile(r"```[\w-]*\s*$")
_FENCE_RIGHT = re.compile(r"\A\s*```")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_ENTITY = re.compile(r"&(lt|gt|amp|quot|apos);")


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply taken apart.

    Attributes:
        text: What is left when the calls are taken out, without outer white space.
        calls: All calls, in the order written; those with `error` could not be read.
    """

    text: str
    calls: tuple[ToolCall, ...]


def cdata(value: str) -> str:
    """The value as a CDATA section; `]]>` inside is split over two sections, as XML asks."""
    return _CDATA_OPEN + value.replace(_CDATA_CLOSE, "]]]]><![CDATA[>") + _CDATA_CLOSE


def format_call(name: str, params: Mapping[str, Any]) -> str:
    """The call as text, in the form that `parse_reply` reads back exactly; list values are written as `<item>`."""
    written = "".join(f"<{key}>{_format_value(value)}</{key}>" for key, value in params.items())
    return f"<tool_call><name>{name}</name><params>{written}</params></tool_call>"


def _format_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "".join(f"<item>{cdata(str(item))}</item>" for item in value)
    return cdata(str(value))


def format_result(name: str, result: ToolResult) -> str:
    """A tool's result as the model sees it; `parse_results` reads it back exactly."""
    body = result.data if result.success else result.error or "The tool failed without saying why."
    flag = "true" if result.success else "false"
    return f"<tool_result><name>{name}</name><success>{flag}</success><data>{cdata(body)}</data></tool_result>"


def parse_results(text: str) -> Iterator[tuple[str, ToolResult]]:
    """The results in a message that `format_result` wrote, with the names of their tools, in order."""
    position = 0
    while match := _RESULT.search(text, position):
        value, position = _read_value(text, match.end(), "data", len(text))
        success = match[2] == "true"
        yield match[1], ToolResult(success, data=value if success else "", error=None if success else value)


def parse_reply(text: str) -> ParsedReply:
    """Take the calls out of a model's reply.

    Never raises: a call that cannot be read comes back with `error` set, for the model to be told.
    """
    calls: list[ToolCall] = []
    prose: list[str] = []
    position = 0
    while match := _OPEN_CALL.search(text, position):
        prose.append(text[position : match.start()])
        call, position = _read_call(text, match.end())
        calls.append(call)
    prose.append(text[position:])
    return ParsedReply(_join_prose(prose), tuple(calls))


def _join_prose(parts: list[str]) -> str:
    """Join the text around the calls, without the code fences that stood around a call."""
    for i in range(len(parts) - 1):
        if (left := _FENCE_LEFT.search(parts[i][-40:])) and (right := _FENCE_RIGHT.match(parts[i + 1])):
            parts[i] = parts[i][: len(parts[i]) - len(left[0])]
            parts[i + 1] = parts[i + 1][right.end() :]
    return "\n\n".join(stripped for part in parts if (stripped := part.strip()))


def _read_call(text: str, start: int) -> tuple[ToolCall, int]:
    """Read one call whose opening tag ends at `start`; return it and the position after it."""
    name = ""
    params: dict[str, Any] = {}
    position = start
    while match := _TAG.search(text, position):
        closing, tag = match[1], match[2]
        if tag == "tool_call":
            position = match.end() if closing else match.start()
            break
        position = match.end()
        if closing or tag == "params":
            continue
        value, position = _read_parameter(text, position, tag)
        if tag == "name" and not name:
            name = str(value).strip()
        else:
            params[tag] = value
    else:
        position = len(text)
    return ToolCall(name, params, error=None if name else _unreadable(text[start:position])), position


def _unreadable(body: str) -> str:
    return (
        "This tool call has no <name> and was not run. Write it as "
        "<tool_call><name>tool</name><params><parameter><![CDATA[value]]></parameter></params></tool_call>. "
        f"It began with: {body.strip()[:80]!r}"
    )


def _read_parameter(text: str, start: int, tag: str) -> tuple[str | list[str], int]:
    limit = _end_of_call(text, start)
    items = _read_items(text, start, tag, limit)
    return items or _read_value(text, start, tag, limit)


def _end_of_call(text: str, start: int) -> int:
    """Where this call can end at the latest for a value without CDATA."""
    stop = text.find("</tool_call>", start)
    return stop if stop >= 0 else len(text)


def _read_items(text: str, start: int, tag: str, limit: int) -> tuple[list[str], int] | None:
    """Read `<item>a</item><item>b</item></tag>`; None if the value is not a list."""
    values: list[str] = []
    position = start
    while match := _ITEM.match(text, position):
        value, position = _read_value(text, match.start(1), "item", limit)
        values.append(value)
    close = re.compile(rf"\s*</{re.escape(tag)}\s*>").match(text, position)
    return (values, close.end() if close else position) if values else None


def _read_value(text: str, start: int, tag: str, limit: int) -> tuple[str, int]:
    """Read up to `</tag>`; return the value, exactly as written, and the position after the closing tag."""
    opening = start
    while opening < len(text) and text[opening].isspace():
        opening += 1
    if text.startswith(_CDATA_OPEN, opening):
        return _read_cdata(text, opening + len(_CDATA_OPEN), tag)
    close = re.compile(rf"</{re.escape(tag)}\s*>").search(text, start, limit)
    if close:
        return _unescape(text[start : close.start()]), close.end()
    stop = text.find("</params>", start, limit)
    stop = stop if stop >= 0 else limit
    return _unescape(text[start:stop]), stop


def _read_cdata(text: str, start: int, tag: str) -> tuple[str, int]:
    """Read CDATA sections up to the one that `</tag>` follows; a `]]>` in between belongs to the value."""
    end = re.compile(rf"\]\]>\s*</{re.escape(tag)}\s*>").search(text, start)
    if end:
        return _join_sections(text[start : end.start()]), end.end()
    stop = text.find(_CDATA_CLOSE, start)
    if stop < 0:
        return text[start:], len(text)
    return text[start:stop], stop + len(_CDATA_CLOSE)


def _join_sections(value: str) -> str:
    return value.replace("]]]]><![CDATA[>", _CDATA_CLOSE)


def _unescape(value: str) -> str:
    return _ENTITY.sub(lambda match: _ENTITIES[match[1]], value)


def format_results(results: Iterable[tuple[str, ToolResult]]) -> str:
    """Several results as one message, in the order of their calls."""
    return "\n".join(format_result(name, result) for name, result in results)


def is_results(text: str) -> bool:
    """Whether a message consists of results that `format_results` wrote."""
    return text.startswith("<tool_result>")
