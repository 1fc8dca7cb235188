"""The text protocol of tool calls and their results: how they are written, and how a whole reply is read.

It stands below models and tools because both sides speak it: models write calls and read results, the flow does the
reverse. One principle decides what is made of what models really write: a call that can be understood without guessing
a value is read; one that cannot is reported to the model with `error`; a value is never changed; text is never lost.
Only marks are dropped: tags and fences around calls, and results that a model made up.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from artifactflow_nb.call_json import Unreadable, is_bare_call, named_calls, read_json
from artifactflow_nb.call_places import CALL, CDATA_CLOSE, CDATA_OPEN, CDATA_OPENING, Places
from artifactflow_nb.call_reader import RESULTS, CallReader, Reading, refused
from artifactflow_nb.call_values import joined, unescape
from artifactflow_nb.messages import ToolCall, ToolResult

_RESULT = re.compile(r"<tool_result>\s*+<name>([^<]*+)</name>\s*+<success>(true|false)</success>\s*+<data>")
_DATA_END = re.compile(r"(\]\]>)\s*+</data>|</data>")
_BLANKS = " \t\r\n\f\v\ufeff\u200b"
_WRAPPER = re.compile(r"</?(?:[\w-]++:)?+(?:tool_calls?|function_calls?)\s*+>", re.IGNORECASE)
_REMAINS = re.compile(
    rf"\s*+{_WRAPPER.pattern}|\s*+</(?:[\w-]++:)?+(?:params|parameters|arguments|function|invoke)\s*+>|\s*+</\w*+\Z",
    re.IGNORECASE,
)
_FENCE = re.compile(r"`{3,}|~{3,}")
_FENCE_LEFT = re.compile(r"(?:`{3,}|~{3,})[\w-]*\s*\Z|(?:\A|(?<=\n))[ \t]*`\Z")
_FENCE_RIGHT = re.compile(r"\s*+(?:`{3,}|~{3,})[ \t]*+(?=[\r\n]|\Z)|`")
_LONGEST_MARK = 60
_OPENING = "<tool_call"
_SURE = len("<tool")
_ALONE_LEFT = re.compile(r"\n[ \t]*+`++\Z")
_ALONE_RIGHT = re.compile(r"`++[ \t]*+(?:[\r\n]|\Z)")
_FENCED = re.compile(r"(`{3,}+|~{3,}+)[\w-]*+\s*+(.*)\1", re.DOTALL)


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
    return CDATA_OPEN + value.replace(CDATA_CLOSE, "]]" + CDATA_CLOSE + CDATA_OPEN + ">") + CDATA_CLOSE


def format_call(name: str, params: Mapping[str, Any]) -> str:
    """The call as text, in the form that `parse_reply` reads back exactly.

    List values are written as `<item>`, objects as JSON.
    """
    written = "".join(f"<{key}>{_format_value(value)}</{key}>" for key, value in params.items())
    return f"<tool_call><name>{name}</name><params>{written}</params></tool_call>"


def _format_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "".join(f"<item>{cdata(_format_scalar(item))}</item>" for item in value)
    return cdata(_format_scalar(value))


def _format_scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else str(value)


def format_result(name: str, result: ToolResult) -> str:
    """A tool's result as the model sees it; `parse_results` reads it back exactly."""
    body = result.data if result.success else result.error or "The tool failed without saying why."
    flag = "true" if result.success else "false"
    called = name.replace("&", "&amp;").replace("<", "&lt;")  # a name that no tool has may hold anything
    return f"<tool_result><name>{called}</name><success>{flag}</success><data>{cdata(body)}</data></tool_result>"


def format_results(results: Iterable[tuple[str, ToolResult]]) -> str:
    """Several results as one message, in the order of their calls."""
    return "\n".join(format_result(name, result) for name, result in results)


# --- reading results -----------------------------------------------------------------------------------------------


def parse_results(text: str) -> Iterator[tuple[str, ToolResult]]:
    """The results in a message that `format_result` wrote, with the names of their tools, in order."""
    position = 0
    while match := _RESULT.search(text, position):
        value, position = _data(text, match.end())
        success = match[2] == "true"
        yield unescape(match[1]), ToolResult(success, data=value if success else "", error=None if success else value)


def _data(text: str, start: int) -> tuple[str, int]:
    """A result's data up to its closing tag, or to the end of a message that was cut."""
    section = CDATA_OPENING.match(text, start)
    for end in _DATA_END.finditer(text, start):
        if not section:
            return unescape(text[start : end.start()]), end.end()
        if end[1]:
            return joined(text[section.end() : end.start()]), end.end()
    return (joined(text[section.end() :]) if section else unescape(text[start:])), len(text)


# --- reading replies -----------------------------------------------------------------------------------------------


def parse_reply(text: str, *, cut: bool = False) -> ParsedReply:
    """Take the calls out of a model's reply.

    Never raises: a call that cannot be read comes back with `error` set, for the model to be told. Not calls: what is
    spoken of in backticks within a line, and what stands between `<think>` and `</think>`; both stay text.

    Args:
        text: The reply as the model wrote it.
        cut: Whether it is known to end too early (finish reason `length`). Then only a call whose end is written is
            read; otherwise also one that merely lacks its last closing tags, as a model may have left them out.
    """
    if call := _bare_call(text):
        return ParsedReply("", call)
    return _ReplyReader(text, cut=cut).read()


def _bare_call(text: str) -> tuple[ToolCall, ...]:
    """The calls of a reply that is nothing but their JSON, as some models write it; none if it is anything else."""
    body = text.strip(_BLANKS)
    fenced = _FENCED.fullmatch(body) if body[:1] in {"`", "~"} else None
    body = fenced[2] if fenced else body
    if body[:1] not in {"{", "["}:
        return ()
    try:
        told, end = read_json(body, 0)
        if body[end:].strip() or not is_bare_call(told):
            return ()
        return tuple(ToolCall(name, params) for name, params in named_calls(told, end))
    except Unreadable:
        return ()


class _ReplyReader:
    """Goes through a reply from one beginning of a call to the next."""

    def __init__(self, text: str, *, cut: bool) -> None:
        self._text = text
        self._places = Places(text)
        self._calls = CallReader(self._places, cut=cut)
        self._found: list[ToolCall] = []
        self._prose: list[str] = []
        self._position = 0  # up to here the text is shared out

    def read(self) -> ParsedReply:
        searched = 0
        while match := CALL.search(self._text, searched):
            searched = self._at(match)
        end = self._partial_call(searched)
        if end is not None:
            self._found.append(refused(self._text, end, "it has no end"))
        self._prose.append(self._text[self._position : end])
        return ParsedReply(_join_prose(self._prose), tuple(self._found))

    def _partial_call(self, searched: int) -> int | None:
        """Where the tag begins that opens a call and is cut by the end of the text."""
        start = self._text.rfind("<", searched)
        tail = self._text[start:].lower() if start >= 0 else ""
        is_partial = _OPENING.startswith(tail[: len(_OPENING)]) and len(tail) >= _SURE and ">" not in tail
        return start if is_partial and self._text[start - 1 : start] != "`" else None

    def _at(self, match: re.Match[str]) -> int:
        """Take what begins with this match; where to search on."""
        text, end = self._text, match.end()
        if text[match.start() - 1 : match.start()] == "`" and (text[end : end + 1] == "`" or match["foreign"]):
            return end
        if match["think"]:
            closing = self._places.closing(("think",), end)
            return closing[1] if closing else end
        if match["foreign"]:  # told once; what was written stays text
            self._found.append(
                refused(text, match.start(), "it is written in another form; nothing from there on was read")
            )
            return len(text)
        if match["result"]:
            return self._take(self._made_up(match), match.start())
        reading = self._calls.read(match)
        if self._is_spoken_of(match.start(), reading.end):
            return reading.end
        return self._take(reading, match.start())

    def _take(self, reading: Reading, start: int) -> int:
        self._prose += [self._text[self._position : start], *reading.stray]
        self._found += reading.calls
        self._position = reading.end
        return reading.end

    def _made_up(self, match: re.Match[str]) -> Reading:
        """A result that the model wrote itself: all of it is left out, with what looks like calls in it."""
        written = _RESULT.match(self._text, match.start())
        start = _data(self._text, written.end())[1] if written else match.end()
        if closing := self._places.closing(RESULTS, start):
            return Reading((), (), closing[1])
        lost = self._places.next_call(match.end()) is not None
        reason = "it stands in a tool result that you wrote yourself and did not end; results are given to you"
        return Reading((refused(self._text, match.start(), reason),) if lost else (), (), len(self._text))

    def _is_spoken_of(self, start: int, end: int) -> bool:
        """Whether a call stands between backticks within a line; alone on its line it is a call."""
        if self._text[start - 1 : start] != "`" or self._text[end : end + 1] != "`":
            return False
        before = "\n" * (start < _LONGEST_MARK) + self._text[max(0, start - _LONGEST_MARK) : start]
        return not (_ALONE_LEFT.search(before) and _ALONE_RIGHT.match(self._text, end))


def _join_prose(parts: list[str]) -> str:
    """Join the text around the calls, without the tags and code fences that stood around them."""
    parts = _without_fences([_without_tags(part, after_call=i > 0) for i, part in enumerate(parts)])
    parts = [_without_tags(part, after_call=i > 0) for i, part in enumerate(parts)]
    return "\n\n".join(stripped for part in parts if (stripped := part.strip(_BLANKS)))


def _without_tags(part: str, *, after_call: bool) -> str:
    """The text without wrappers of calls at its ends, and without what is left of a call at its beginning."""
    start, end = 0, len(part)
    while (remains := (_REMAINS if after_call else _WRAPPER).match(part, start)) and remains.end() > start:
        start = remains.end()
    while (tag := _wrapper_at_end(part, start, end)) is not None:
        end = tag
    return part[start:end]


def _wrapper_at_end(part: str, start: int, end: int) -> int | None:
    """Where the tag begins that a text ends with, if it is one that stands around calls and is not spoken of."""
    while end > start and part[end - 1] in _BLANKS:
        end -= 1
    tag = part.rfind("<", max(start, end - _LONGEST_MARK), end)
    is_wrapper = tag >= 0 and _WRAPPER.fullmatch(part, tag, end) and part[tag - 1 : tag] != "`"
    return tag if is_wrapper else None


def _without_fences(parts: list[str]) -> list[str]:
    """The texts without the code fences that stood around one call or several."""
    marks = list(accumulate(len(_FENCE.findall(part)) for part in parts))
    for i in range(len(parts) - 1):
        left = _FENCE_LEFT.search(parts[i], max(0, len(parts[i]) - _LONGEST_MARK))
        if not left or (marks[i] % 2 == 0 and _FENCE.match(left[0])):  # it closes a block of the answer's own
            continue
        after = next((j for j in range(i + 1, len(parts)) if parts[j].strip(_BLANKS)), None)
        right = None if after is None else _FENCE_RIGHT.match(parts[after])
        if after is None or right:
            parts[i] = parts[i][: left.start()]
        if after is not None and right:
            parts[after] = parts[after][right.end() :]
    return parts
