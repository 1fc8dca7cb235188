"""The text protocol of tool calls and their results: how they are written and how they are read.

It stands below models and tools because both sides speak it: models write calls and read results, the flow does the
reverse. Written with CDATA throughout; read with tolerance for what models really write: text around, code fences,
missing CDATA, `]]>` inside a value, lists as `<item>`, tags never closed, names as attributes, a call as JSON. Reading
takes time in proportion to the text, whatever it holds: places are looked up in tables, never searched for again.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from artifactflow_nb.messages import ToolCall, ToolResult

_OPEN_CALL = re.compile(r"<tool_call\b([^<>]*)>")
_TAG = re.compile(r"<(/?)([A-Za-z_][\w.-]*)(\s[^<>]*)?>")
_NAME_ATTRIBUTE = re.compile(r"""\bname\s*=\s*["']([^"'<>]*)["']""")
_CLOSING = re.compile(r"</([A-Za-z_][\w.-]*)\s*>")
_CDATA_CLOSING = re.compile(r"\]\]>\s*</([A-Za-z_][\w.-]*)\s*>")
_CDATA_OPENING = re.compile(r"\s*<!\[CDATA\[")
_CDATA_OPEN = "<![CDATA["
_CDATA_CLOSE = "]]>"
_SECTION_END = re.compile(r"\]\]>(?!<!\[CDATA\[)")
_SECTION_BREAK = _CDATA_CLOSE + _CDATA_OPEN
_ITEM = re.compile(r"\s*<item>")
_JSON = re.compile(r"\s*\{")
_JSON_PARAMS = ("arguments", "parameters", "params")
_MOST_BROKEN = 20  # broken JSON costs a pass over the text to say where it broke: after so many it is not tried again
_DECODER = json.JSONDecoder(strict=False, parse_constant=str)
_NEXT = re.compile(
    r"\s*(?:</(?P<closed>[A-Za-z_][\w.-]*)\s*>|(?P<sibling><[A-Za-z_][\w.-]*>\s*<!\[CDATA\[)|(?P<end>\Z))"
)
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


# --- writing -------------------------------------------------------------------------------------------------------


def cdata(value: str) -> str:
    """The value as a CDATA section; `]]>` inside is split over two sections, as XML asks."""
    return _CDATA_OPEN + value.replace(_CDATA_CLOSE, "]]" + _SECTION_BREAK + ">") + _CDATA_CLOSE


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
    called = name.replace("&", "&amp;").replace("<", "&lt;")  # a name that no tool has may hold anything
    return f"<tool_result><name>{called}</name><success>{flag}</success><data>{cdata(body)}</data></tool_result>"


def format_results(results: Iterable[tuple[str, ToolResult]]) -> str:
    """Several results as one message, in the order of their calls."""
    return "\n".join(format_result(name, result) for name, result in results)


# --- reading -------------------------------------------------------------------------------------------------------


def is_results(text: str) -> bool:
    """Whether a message consists of results that `format_results` wrote."""
    return text.startswith("<tool_result>")


def parse_results(text: str) -> Iterator[tuple[str, ToolResult]]:
    """The results in a message that `format_result` wrote, with the names of their tools, in order."""
    reader, position = _Reader(text), 0
    while match := _RESULT.search(text, position):
        value, position = reader.value(match.end(), "data", len(text))
        success = match[2] == "true"
        yield _unescape(match[1]), ToolResult(success, data=value if success else "", error=None if success else value)


def parse_reply(text: str) -> ParsedReply:
    """Take the calls out of a model's reply.

    Never raises: a call that cannot be read comes back with `error` set, for the model to be told. A tag that stands
    between backticks by itself is spoken of, and stays text.
    """
    reader, position, searched = _Reader(text), 0, 0
    calls: list[ToolCall] = []
    prose: list[str] = []
    while match := _OPEN_CALL.search(text, searched):
        searched = match.end()
        if text[match.start() - 1 : match.start()] == "`" == text[searched : searched + 1]:
            continue
        prose.append(text[position : match.start()])
        call, position = reader.call(match)
        searched = position
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


class _Reader:
    """A text, and where in it things end. Every method returns what it read and the position after it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._broken = 0

    def call(self, opening: re.Match[str]) -> tuple[ToolCall, int]:
        """Read the call that begins with this tag."""
        start = opening.end()
        if brace := _JSON.match(self.text, start):
            return self._json_call(brace.end() - 1)
        called = _NAME_ATTRIBUTE.search(opening[1])
        name, params, position = self._parameters(start, called[1].strip() if called else "")
        return ToolCall(name, params, error=None if name else _unreadable(self.text[start:position])), position

    def _parameters(self, start: int, name: str) -> tuple[str, dict[str, Any], int]:
        params: dict[str, Any] = {}
        position, inside = start, False
        while match := _TAG.search(self.text, position):
            closing, tag = match[1], match[2]
            if tag == "tool_call":
                return name, params, match.end() if closing else match.start()
            position = match.end()
            if closing:
                continue
            if tag == "params" and not inside:
                inside = True
            elif tag == "name" and not name:
                name, position = self._tool_name(position)
            else:
                key = _NAME_ATTRIBUTE.search(match[3] or "")
                value, position = self._parameter(position, tag)
                _add(params, key[1] if key else tag, value)
        return name, params, len(self.text)

    def _tool_name(self, start: int) -> tuple[str, int]:
        """Read a name; where its tag is not closed it ends at the next one."""
        if _CDATA_OPENING.match(self.text, start):
            value, position = self.value(start, "name", self._end_of_call(start))
            return value.strip(), position
        stop = self.text.find("<", start)
        stop = stop if stop >= 0 else len(self.text)
        return _unescape(self.text[start:stop]).strip(), stop

    def _parameter(self, start: int, tag: str) -> tuple[str | list[str], int]:
        limit = self._end_of_call(start)
        return self._items(start, tag, limit) or self.value(start, tag, limit)

    def _items(self, start: int, tag: str, limit: int) -> tuple[list[str], int] | None:
        """Read `<item>a</item><item>b</item></tag>`; None if the value is not a list."""
        values: list[str] = []
        position = start
        while match := _ITEM.match(self.text, position):
            if not _CDATA_OPENING.match(self.text, match.end()) and not self._closing("item", match.end(), limit):
                break
            value, position = self.value(match.end(), "item", limit)
            values.append(value)
            limit = max(limit, self._end_of_call(position))  # the item may have held what looked like the end
        if not values:
            return None
        close = _NEXT.match(self.text, position)
        return values, close.end() if close and close["closed"] == tag else position

    def value(self, start: int, tag: str, limit: int) -> tuple[str, int]:
        """Read up to `</tag>`, exactly as written; without CDATA at most up to the limit."""
        if opening := _CDATA_OPENING.match(self.text, start):
            return self._cdata(opening.end(), tag, limit)
        if close := self._closing(tag, start, limit):
            return _unescape(self.text[start : close[0]]), close[1]
        outer = self._closing("params", start, limit)
        stop = outer[0] if outer else limit
        return _unescape(self.text[start:stop]), stop

    def _cdata(self, start: int, tag: str, limit: int) -> tuple[str, int]:
        """Read CDATA sections; a `]]>` that does not look like their end belongs to the value."""
        end = self._end_of_sections(start)
        own = self._cdata_closing(tag, start if end is None else end)
        if end is None or (own is None and self._closing(tag, start, end)):
            # It was opened and never closed: the tag ends it, or the call does.
            close = self._closing(tag, start, limit if end is None else end)
            return self.text[start : close[0]] if close else self.text[start:], close[1] if close else len(self.text)
        if own and (own[0] == end or not self._ends_without_tag(start, end)):
            return _joined(self.text[start : own[0]]), own[1]
        return _joined(self.text[start:end]), end + len(_CDATA_CLOSE)

    def _end_of_sections(self, start: int) -> int | None:
        """Where the first `]]>` stands that no further section follows at once."""
        index = bisect_left(self._section_ends, start)
        return self._section_ends[index] if index < len(self._section_ends) else None

    def _ends_without_tag(self, start: int, end: int) -> bool:
        """Whether the value ends at this `]]>` though its own closing tag does not follow."""
        following = _NEXT.match(self.text, end + len(_CDATA_CLOSE))
        if not following:
            return False
        if following["closed"] in {None, "params", "tool_call"}:
            return True
        # A misspelt closing tag ends the value; one that was opened within the value belongs to it.
        return self.text.find("<" + following["closed"], start, end) < 0

    def _json_call(self, start: int) -> tuple[ToolCall, int]:
        """Read `{"name": ..., "arguments": {...}}`, the form that many models were trained on."""
        told, position = self._decoded(start)
        end = self._end_of_json_call(position)
        name = told.get("name")
        params: dict[str, Any] = next((told[key] for key in _JSON_PARAMS if isinstance(told.get(key), dict)), {})
        if not isinstance(name, str) or not name:
            return ToolCall("", {}, error=_unreadable(self.text[start:end])), end
        return ToolCall(name, params), end

    def _decoded(self, start: int) -> tuple[dict[str, Any], int]:
        if self._broken >= _MOST_BROKEN:
            return {}, start
        try:
            told, position = _DECODER.raw_decode(self.text, start)
            return _storable(told), position
        except RecursionError:
            position = len(self.text)
        except ValueError as error:  # broken JSON says where, a number of too many digits does not
            position = getattr(error, "pos", start)
        self._broken += 1
        return {}, position

    def _end_of_json_call(self, position: int) -> int:
        close = self._closing("tool_call", position, len(self.text))
        another = _OPEN_CALL.search(self.text, position, close[0] if close else len(self.text))
        if another:
            return another.start()
        return close[1] if close else len(self.text)

    def _end_of_call(self, start: int) -> int:
        """Where this call can end at the latest for a value without CDATA."""
        close = self._closing("tool_call", start, len(self.text))
        return close[0] if close else len(self.text)

    def _closing(self, tag: str, start: int, limit: int) -> tuple[int, int] | None:
        """The first `</tag>` that begins between start and limit: where it begins and ends."""
        found = _first(self._closings.get(tag), start)
        return found if found and found[0] < limit else None

    def _cdata_closing(self, tag: str, start: int) -> tuple[int, int] | None:
        """The first `]]>` from start on that `</tag>` follows: where it begins and where the tag ends."""
        return _first(self._cdata_closings.get(tag), start)

    @cached_property
    def _closings(self) -> dict[str, list[tuple[int, int]]]:
        return _places(_CLOSING, self.text)

    @cached_property
    def _cdata_closings(self) -> dict[str, list[tuple[int, int]]]:
        return _places(_CDATA_CLOSING, self.text)

    @cached_property
    def _section_ends(self) -> list[int]:
        return [match.start() for match in _SECTION_END.finditer(self.text)]


def _places(pattern: re.Pattern[str], text: str) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for match in pattern.finditer(text):
        found.setdefault(match[1], []).append(match.span())
    return found


def _first(places: list[tuple[int, int]] | None, start: int) -> tuple[int, int] | None:
    index = bisect_left(places, (start, 0)) if places else 0
    return places[index] if places and index < len(places) else None


def _add(params: dict[str, Any], key: str, value: str | list[str]) -> None:
    """Set the parameter; one that is written again and again is a list."""
    if key not in params:
        params[key] = value
        return
    if not isinstance(params[key], list):
        params[key] = [params[key]]
    params[key] += value if isinstance(value, list) else [value]


def _unreadable(body: str) -> str:
    return (
        "This tool call could not be read and was not run. Write it as "
        "<tool_call><name>tool</name><params><parameter><![CDATA[value]]></parameter></params></tool_call>. "
        f"It began with: {body.strip()[:80]!r}"
    )


def _storable(told: dict[str, Any]) -> dict[str, Any]:
    """The value without half surrogate pairs, which JSON can spell and no file or database takes."""
    storable: dict[str, Any] = json.loads(json.dumps(told, ensure_ascii=False).encode("utf-8", "replace"))
    return storable


def _joined(sections: str) -> str:
    return sections.replace(_SECTION_BREAK, "")


def _unescape(value: str) -> str:
    return _ENTITY.sub(lambda match: _ENTITIES[match[1]], value)
