"""XML text protocol of tool calls and results: formatting, and parsing of whole replies.

Models write calls and read results, the flow does the reverse; this module is below both. A call that can be read
without guessing a value is read, any other is reported to the model with `error`. Values are never changed, and text is
never lost: only tags and fences around calls, and results invented by the model, are removed. A quoted call is text,
because sources may contain calls and must never run tools (prompt injection).
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from artifactflow_nb.core.messages import ToolCall, ToolResult
from artifactflow_nb.core.toolcalls.json import AmbiguousCall, is_bare_call, parse_calls, read_json
from artifactflow_nb.core.toolcalls.parser import (
    RESULT_TAGS,
    ParsedCalls,
    TextCallReader,
    join_cdata,
    rejected_call,
    unescape,
)
from artifactflow_nb.core.toolcalls.quotes import DisplayedTexts, Quotations, body_start, find_fence
from artifactflow_nb.core.toolcalls.scanner import CALL, CDATA_CLOSE, CDATA_OPEN, CDATA_OPENING, TagIndex

_BLANKS = " \t\r\n\f\v\ufeff\u200b"
_WRAPPER = re.compile(r"</?(?:[\w-]++:)?+(?:tool_calls?|function_calls?)\s*+>", re.IGNORECASE)
_REMAINS = re.compile(
    rf"\s*+{_WRAPPER.pattern}|\s*+</(?:[\w-]++:)?+(?:params|parameters|arguments|function|invoke)\s*+>|\s*+</\w*+\Z",
    re.IGNORECASE,
)
"""Wrapper tags around calls, and leftover closing tags."""
_CLOSING = re.compile(rf"\s*+(?=</){_WRAPPER.pattern}", re.IGNORECASE)
_MAX_TAG_CHARS = 60
_RESULT = re.compile(r"<tool_result>\s*+<name>([^<]*+)</name>\s*+<success>(true|false)</success>\s*+<data>")
_DATA_END = re.compile(r"(\]\]>)\s*+</data>|</data>")
_OPENING = "<tool_call"
_MIN_PREFIX = len("<tool")
_MAX_LINE_CHARS = 200
_CALLS = {"call", "function", "invoke", "name", "list"}
_AT_END = re.compile(rf"[{_BLANKS}]*+\Z")
_BETWEEN = re.compile(r"[\s\ufeff\u200b]*+")
_FENCE_END = re.compile(r"(?P<mark>`{3,}+|~{3,}+)[ \t]*+(?=\r?\n|\Z)")
_FENCED = re.compile(r"(`{3,}+|~{3,}+)[\w-]*+\s*+(.*)\1", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A parsed reply.

    Attributes:
        text: The text without calls, stripped.
        calls: All calls in order; those with `error` could not be read.
    """

    text: str
    calls: tuple[ToolCall, ...]


# --- writing -------------------------------------------------------------------------------------------------------


def cdata(value: str) -> str:
    """Wrap a value in CDATA; a `]]>` in it is split over two sections, as XML requires."""
    return CDATA_OPEN + value.replace(CDATA_CLOSE, "]]" + CDATA_CLOSE + CDATA_OPEN + ">") + CDATA_CLOSE


def format_call(name: str, params: Mapping[str, Any]) -> str:
    """Format a call so that `parse_reply` reads it back exactly.

    Lists are written as `<item>` elements, objects as JSON.
    """
    elements = []
    for key, value in params.items():
        is_list = isinstance(value, list | tuple)
        items = (f"<item>{cdata(_format_scalar(item))}</item>" for item in value) if is_list else ()
        elements.append(f"<{key}>{''.join(items) if is_list else cdata(_format_scalar(value))}</{key}>")
    return f"<tool_call><name>{name}</name><params>{''.join(elements)}</params></tool_call>"


def _format_scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else str(value)


def format_result(name: str, result: ToolResult) -> str:
    """Format a result for the model; `parse_results` reads it back exactly."""
    body = result.data if result.success else result.error or "The tool failed without saying why."
    flag = "true" if result.success else "false"
    escaped = name.replace("&", "&amp;").replace("<", "&lt;")  # the name of an unknown tool can contain anything
    return f"<tool_result><name>{escaped}</name><success>{flag}</success><data>{cdata(body)}</data></tool_result>"


def format_results(results: Iterable[tuple[str, ToolResult]]) -> str:
    """Format several results as one message, in the order of their calls."""
    return "\n".join(format_result(name, result) for name, result in results)


# --- reading results -----------------------------------------------------------------------------------------------


def parse_results(text: str) -> Iterator[tuple[str, ToolResult]]:
    """Parse the tool names and results of a message written by `format_results`."""
    position = 0
    while match := _RESULT.search(text, position):
        value, position = _data(text, match.end())
        success = match[2] == "true"
        yield unescape(match[1]), ToolResult(success, data=value if success else "", error=None if success else value)


def _data(text: str, start: int) -> tuple[str, int]:
    """Read a result's data up to its closing tag, or to the end of a truncated message."""
    section = CDATA_OPENING.match(text, start)
    for end in _DATA_END.finditer(text, start):
        if not section:
            return unescape(text[start : end.start()]), end.end()
        if end[1]:
            return join_cdata(text[section.end() : end.start()]), end.end()
    return (join_cdata(text[section.end() :]) if section else unescape(text[start:])), len(text)


# --- reading replies -----------------------------------------------------------------------------------------------


def parse_reply(
    text: str,
    *,
    is_truncated: bool = False,
    shown: DisplayedTexts | None = None,
    offered: Collection[str] | None = None,
) -> ParsedReply:
    """Extract the tool calls from a model's reply.

    Never raises: a call that cannot be read is returned with `error` set. Calls in block quotes, code spans and
    `<think>` elements, and calls repeated verbatim from texts that the agent was shown, stay in the text. A code fence
    counts as calls only if it contains nothing else and is the whole reply or ends it; in the latter case
    `needs_approval` is set.

    Args:
        text: The reply as the model wrote it.
        is_truncated: Whether the reply was truncated (finish reason `length`). If so, unclosed calls are rejected;
            otherwise missing last closing tags are tolerated, because models omit them.
        shown: The texts that the agent was shown.
        offered: Names of the tools that a fence at the end of a reply may call; None for all.
    """
    shown = shown or DisplayedTexts()
    body = text.strip(_BLANKS)
    if fenced := _FENCED.fullmatch(body) if body[:1] in {"`", "~"} else None:
        inner = (
            _bare_call(fenced[2].strip(_BLANKS), shown) or _ReplyReader(fenced[2], is_truncated, shown, offered).read()
        )
        if inner.calls and not inner.text:
            return inner
    return _bare_call(body, shown) or _ReplyReader(text, is_truncated, shown, offered).read()


def _bare_call(body: str, shown: DisplayedTexts) -> ParsedReply | None:
    """Parse a reply that consists only of JSON calls, as some models write it; None for any other reply."""
    if body[:1] not in {"{", "["}:
        return None
    try:
        value, end = read_json(body, 0)
        if body[end:].strip() or not is_bare_call(value) or shown.contains(body):
            return None
        return ParsedReply("", tuple(ToolCall(name, params) for name, params in parse_calls(value, end)))
    except AmbiguousCall:
        return None


class _Prose:
    """Collects the prose of a reply, from start to end of its text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0  # end of the text that was processed
        self._parts: list[list[str]] = [[]]
        self._has_text = False
        self._quotations: list[str] = []
        self._mark = ""

    def keep(self, start: int, end: int) -> int:
        """Keep a quotation unchanged, including wrapper tags around it; return its end."""
        while (tag := _wrapper_at_end(self._text, self._position, start)) is not None:
            start = tag
        while closing := _CLOSING.match(self._text, end):
            end = closing.end()
        if not self._mark:  # a private-use character that the text does not contain marks placeholders for quotations
            used = set(self._text)
            self._mark = next(chr(code) for code in range(0xE000, 0x110000) if chr(code) not in used)
        self._parts[-1] += [self._text[self._position : start], f"{self._mark}{len(self._quotations)}{self._mark}"]
        self._quotations.append(self._text[start:end])
        self._position, self._has_text = end, True
        return end

    def remove(self, start: int, end: int, stray: Sequence[str] = ()) -> int:
        """Remove a call but keep its stray text; return its end."""
        self._has_text = bool(stray) or not self.is_empty(start)
        self._parts[-1].append(self._text[self._position : start])
        self._parts += [*([text] for text in stray), []]
        self._position = end
        return end

    def is_empty(self, end: int) -> bool:
        """Return whether there is no prose up to this offset."""
        return not self._has_text and not self._text[self._position : end].strip(_BLANKS)

    def joined(self, end: int | None) -> str:
        """Return the prose up to this offset, or all of it, without the wrapper tags around calls."""
        self._parts[-1].append(self._text[self._position : end])
        parts = []
        for index, pieces in enumerate(self._parts):
            part = "".join(pieces)
            start, stop = 0, len(part)
            leading = _REMAINS if index else _WRAPPER  # after a call, also its leftover closing tags
            while (tag := leading.match(part, start)) and tag.end() > start:
                start = tag.end()
            while (wrapper := _wrapper_at_end(part, start, stop)) is not None:
                stop = wrapper
            parts.append(part[start:stop])
        prose = "\n\n".join(stripped for part in parts if (stripped := part.strip(_BLANKS)))
        if not self._quotations:
            return prose
        placeholder = f"{self._mark}([0-9]+){self._mark}"
        return re.sub(placeholder, lambda match: self._quotations[int(match[1])], prose).strip(_BLANKS)


def _wrapper_at_end(part: str, start: int, end: int) -> int | None:
    """Return the start of a wrapper tag at the end of a text; None if there is none or it is quoted."""
    while end > start and part[end - 1] in _BLANKS:
        end -= 1
    tag = part.rfind("<", max(start, end - _MAX_TAG_CHARS), end)
    if tag < 0 or not _WRAPPER.fullmatch(part, tag, end) or part[tag - 1 : tag] == "`":
        return None
    line = part[max(0, tag - _MAX_TAG_CHARS) : tag].rpartition("\n")[2]
    return None if line.lstrip().startswith(">") else tag


class _ReplyReader:
    """Processes a reply from one potential call to the next."""

    def __init__(self, text: str, is_truncated: bool, shown: DisplayedTexts, offered: Collection[str] | None) -> None:
        self._text = text
        self._shown = shown
        self._offered = offered
        self._places = TagIndex(text)
        self._calls = TextCallReader(self._places, is_truncated=is_truncated)
        self._quotations = Quotations(text)
        self._prose = _Prose(text)
        self._accepted: list[ToolCall] = []

    def read(self) -> ParsedReply:
        searched = 0
        while match := CALL.search(self._text, searched):
            start, end = match.span()
            if fence := self._quotations.fence(start):
                searched = self._fenced(fence, start)
            elif quoted := self._quotations.quote_end(start):
                searched = self._prose.keep(start, max(quoted, end))
            elif match["think"]:
                closing = self._places.closing(("think",), end)
                searched = closing[1] if closing else end
            else:
                reading = self._read(match)
                if repeated := self._repeated(match, reading):
                    searched = self._prose.keep(start, repeated)
                else:
                    self._accepted += reading.calls
                    searched = reading.end
                    if not match["foreign"]:  # which is reported once, and its source stays in the text
                        self._prose.remove(start, reading.end, reading.stray_text)
            self._quotations.skip(searched)
        # The end of the text may truncate an opening tag.
        start = self._text.rfind("<", searched)
        tail = self._text[start:].lower() if start >= 0 else ""
        is_partial = _OPENING.startswith(tail[: len(_OPENING)]) and len(tail) >= _MIN_PREFIX and ">" not in tail
        is_quoted = is_partial and (
            self._text[start - 1 : start] == "`" or self._quotations.fence(start) or self._quotations.quote_end(start)
        )
        if not is_partial or is_quoted:
            return ParsedReply(self._prose.joined(None), tuple(self._accepted))
        self._accepted.append(rejected_call(self._text, start, "it has no end"))
        return ParsedReply(self._prose.joined(start), tuple(self._accepted))

    def _read(self, match: re.Match[str]) -> ParsedCalls:
        if match["foreign"]:
            reason = "it is written in another form; nothing from there on was read"
            return ParsedCalls((rejected_call(self._text, match.start(), reason),), (), len(self._text))
        if not match["result"]:
            return self._calls.read(match)
        # Skip a result that the model wrote itself, including anything in it that looks like a call.
        result = _RESULT.match(self._text, match.start())
        start = _data(self._text, result.end())[1] if result else match.end()
        if closing := self._places.closing(RESULT_TAGS, start):
            return ParsedCalls((), (), closing[1])
        has_call = self._places.next_call(match.end()) is not None
        reason = "it is in a tool result that you wrote yourself and did not close; results are sent to you"
        return ParsedCalls((rejected_call(self._text, match.start(), reason),) if has_call else (), (), len(self._text))

    def _repeated(self, match: re.Match[str], reading: ParsedCalls) -> int | None:
        """Return the end of a call that only repeats a text the agent was shown; None for a real call."""
        if any(call.error for call in reading.calls):  # its end is unknown, so compare its first line
            line = self._text[match.start() : match.start() + _MAX_LINE_CHARS].partition("\n")[0]
            return match.end() if self._shown.contains(line) else None
        source = self._text[match.start() : reading.end]
        has_params = any(call.params for call in reading.calls)
        is_repeated = self._shown.contains_call(source) if has_params else self._shown.contains(source)
        return reading.end if is_repeated else None

    def _fenced(self, fence: re.Match[str], start: int) -> int:
        """Read the calls of code fences at the end of the reply; other fences are text. Return their end."""
        text = self._text
        first, end = fence, self._quotations.fence_end(fence, start)
        calls: list[ToolCall] = []
        following: re.Match[str] | None = fence
        while following:
            fenced = self._only_calls(following)
            if fenced is None or fenced.stray_text:
                return self._prose.keep(start, max(end, fenced.end if fenced else end))
            calls += fenced.calls
            end = fenced.end
            following = find_fence(text, end)
        is_alone = self._prose.is_empty(first.start())
        may_call = all(not call.error and (self._offered is None or call.name in self._offered) for call in calls)
        if not calls or not _AT_END.match(text, end) or not (is_alone or may_call):
            return self._prose.keep(start, end)
        self._accepted += [replace(call, needs_approval=not is_alone) for call in calls]
        return self._prose.remove(first.start(), end)

    def _only_calls(self, fence: re.Match[str]) -> ParsedCalls | None:
        """Read the calls of a fence and its end; None, or stray text, if it contains anything else."""
        calls: list[ToolCall] = []
        position = body_start(fence)
        while True:
            position = _BETWEEN.match(self._text, position).end()  # type: ignore[union-attr]
            if (match := CALL.match(self._text, position)) and match.lastgroup in _CALLS:
                reading = self._calls.read(match)
                if reading.stray_text or self._repeated(match, reading):
                    return ParsedCalls((), ("not only calls",), reading.end)
                calls += reading.calls
                position = reading.end
            elif tag := _REMAINS.match(self._text, position):
                position = tag.end()
            elif close := _FENCE_END.match(self._text, position):
                is_end = close["mark"].startswith(fence["mark"])
                return ParsedCalls(tuple(calls), (), close.end()) if is_end else None
            else:
                return ParsedCalls(tuple(calls), (), position) if position == len(self._text) else None
