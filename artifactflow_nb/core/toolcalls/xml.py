"""XML text protocol of tool calls and results: formatting, and parsing of whole replies.

Models write calls and read results, the flow does the reverse; this module is below both. A call that can be read
without guessing a value is read, any other is reported to the model with `error`. Values are never changed, and text is
never lost: only tags and fences around calls, and results invented by the model, are removed. A quoted call is text,
because sources may contain calls and must never run tools (prompt injection).
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from artifactflow_nb.core.messages import ToolCall, ToolResult
from artifactflow_nb.core.toolcalls.json import AmbiguousCall, is_bare_call, parse_calls, read_json
from artifactflow_nb.core.toolcalls.parser import (
    PYTHON_CALL,
    RESULT_TAGS,
    ParsedCalls,
    TextCallReader,
    clean_name,
    join_cdata,
    read_python,
    rejected_call,
    unescape,
)
from artifactflow_nb.core.toolcalls.quotes import DisplayedTexts, Quotations, body_start
from artifactflow_nb.core.toolcalls.scanner import CALL, CDATA_CLOSE, CDATA_OPEN, CDATA_OPENING, TagIndex, begins_call

_BLANKS = " \t\r\n\f\v\ufeff\u200b"
_RESULT = re.compile(r"<tool_result>\s*+<name>([^<]*+)</name>\s*+<success>(true|false)</success>\s*+<data>")
_DATA_END = re.compile(r"(\]\]>)\s*+</data>|</data>")
_OPENING = "<tool_call"
_MIN_PREFIX = len("<tool")
_MAX_LINE_CHARS = 200
_BETWEEN = re.compile(r"[\s\ufeff\u200b]++|(?:(?<=\n)|\A)[ \t]*+(?:`{3,}+|~{3,}+)[\w-]*+[ \t]*+(?=\r?\n|\Z)")
"""Blanks, and lines that open or close a code fence."""
_BETWEEN_OBJECTS = frozenset(" \t\r\n,;")
_LAST_CALL = re.compile(
    r"(?:\A|\n)(?P<mark>`{3,}+|~{3,}+)[\w-]*+[ \t]*+\n(?P<fenced>[^`~]*+)(?<=\n)(?P=mark)\s*\Z"
    r"""|\n(?P<line>\{\s*+"(?:name|tool|tool_name|function)"[^`]*+)\Z"""
)
"""A code fence at the end of a reply, or JSON on a line of its own."""
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
    """Wrap a value in CDATA; a `]]>` in the value is split over two sections, as XML requires."""
    return CDATA_OPEN + value.replace(CDATA_CLOSE, "]]" + CDATA_CLOSE + CDATA_OPEN + ">") + CDATA_CLOSE


def format_call(name: str, params: Mapping[str, Any]) -> str:
    """Format a call so that `parse_reply` reads the same call.

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
    """Format a result for the model; `parse_results` reads the same result."""
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
    counts as calls only if it contains nothing but calls and is the whole reply or its end; a call from a fence after
    other text has `needs_approval`.

    Args:
        text: The reply as the model wrote it.
        is_truncated: Whether the reply was truncated (finish reason `length`). Unclosed calls of a truncated reply are
            rejected; in other replies a missing last closing tag is tolerated, because models omit it.
        shown: The texts that the agent was shown.
        offered: Names of the tools that a fence at the end of a reply may call; None for all.
    """
    shown = shown or DisplayedTexts()
    body = text.strip(_BLANKS)
    fenced = _FENCED.fullmatch(body) if body[:1] in {"`", "~"} else None
    inner = fenced[2] if fenced else body
    if calls := _bare_calls(inner.strip(_BLANKS), shown, offered):
        return ParsedReply("", calls)
    if fenced:
        parsed = _ReplyReader(inner, is_truncated, shown, offered).read()
        if parsed.calls and not parsed.text:
            return parsed
    parsed = _ReplyReader(text, is_truncated, shown, offered).read()
    if not parsed.calls and (last := _LAST_CALL.search(text)):
        calls = _bare_calls((last["fenced"] or last["line"] or "").strip(_BLANKS), shown, offered)
        if calls and offered and all(call.name in offered for call in calls):
            before = text[: last.start()].strip(_BLANKS)
            return ParsedReply(before, tuple(replace(call, needs_approval=True) for call in calls))
    return parsed


def _bare_calls(body: str, shown: DisplayedTexts, offered: Collection[str] | None) -> tuple[ToolCall, ...]:
    """Parse a text that consists only of calls in JSON or Python, as some models write; any other text has no calls."""
    calls: list[tuple[str, Any]] = []
    is_sure = True
    try:
        if body[:1] == "{" or re.match(r"\[\s*\{", body):
            end = 0
            while end < len(body):
                value, end = read_json(body, end)
                if not is_bare_call(value):
                    return ()
                calls += parse_calls(value, end)
                is_sure = is_sure and all("name" in entry for entry in (value if isinstance(value, list) else [value]))
                while body[end : end + 1] in _BETWEEN_OBJECTS:
                    end += 1
        elif offered and PYTHON_CALL.match(body):
            is_sure = False
            calls = [(call.name, call.params) for call in read_python(body, 0)]
    except AmbiguousCall:
        return ()
    is_offered = offered is None or all(clean_name(name) in offered for name, _ in calls)
    if not calls or not (is_sure or is_offered) or shown.contains(body):
        return ()
    return tuple(ToolCall(clean_name(name), params) for name, params in calls)


class _ReplyReader:
    """Processes a reply from one mark to the next; the text that is not removed is the text of the reply."""

    def __init__(self, text: str, is_truncated: bool, shown: DisplayedTexts, offered: Collection[str] | None) -> None:
        self._text = text
        self._shown = shown
        self._offered = offered
        self._places = TagIndex(text)
        self._calls = TextCallReader(self._places, is_truncated=is_truncated)
        self._quotations = Quotations(text)
        self._prose: list[str] = []
        self._removed = 0  # end of the last removed call
        self._quoted = -1  # end of the last quotation
        self._accepted: list[ToolCall] = []

    def read(self) -> ParsedReply:
        text, searched = self._text, 0
        while match := CALL.search(text, searched):
            start, end = match.span()
            if fence := self._quotations.fence(start):
                searched = self._fenced(fence, start)
            elif quoted := self._quotations.quote_end(start):
                searched = self._quoted = max(quoted, end)
            elif match["think"]:
                closing = self._places.closing(("think",), end)
                searched = closing[1] if closing else end
            elif match["rest"] or match["closing"] or match["end"]:
                searched = self._rest(match)
            else:
                searched = self._call(match)
            self._quotations.skip(searched)
        # The end of the text may truncate an opening tag.
        start = text.rfind("<", searched)
        tail = text[start:].lower() if start >= 0 else ""
        is_partial = _OPENING.startswith(tail[: len(_OPENING)]) and len(tail) >= _MIN_PREFIX and ">" not in tail
        if is_partial and not (
            text[start - 1 : start] == "`" or self._quotations.fence(start) or self._quotations.quote_end(start)
        ):
            self._accepted.append(rejected_call(text, start, "it has no end"))
            self._remove(start, len(text))
        self._remove(len(text), len(text))
        return ParsedReply("\n\n".join(filter(None, self._prose)), tuple(self._accepted))

    def _remove(self, start: int, end: int) -> int:
        """Remove markup from the text; return the end of the markup."""
        self._prose.append(self._text[self._removed : start].strip(_BLANKS))
        self._removed = end
        return end

    def _follows(self, position: int, start: int) -> bool:
        """Return whether nothing but blanks stands between two offsets."""
        return position >= 0 and not self._text[position:start].strip(_BLANKS)

    def _rest(self, match: re.Match[str]) -> int:
        """Remove a leftover end of a call, unless it belongs to a quotation or to prose."""
        is_stray = self._follows(self._removed, match.start()) and bool(self._accepted)
        ends_reply = not match["rest"] or (self._follows(match.end(), len(self._text)) and "_call" in match[0])
        if self._follows(self._quoted, match.start()):
            self._quoted = match.end()
        elif is_stray or ends_reply:
            self._remove(*match.span())
        return match.end()

    def _call(self, match: re.Match[str]) -> int:
        """Read the call, or skip the result, that begins at a mark; return its end."""
        start = match.start()
        if match["foreign"]:
            reason = "it is written in another form; nothing from there on was read"
            reading = ParsedCalls((rejected_call(self._text, start, reason),), (), len(self._text))
        elif not match["result"]:
            reading = self._calls.read(match)
        else:  # skip a result that the model wrote itself, including anything in it that looks like a call
            result = _RESULT.match(self._text, start)
            closing = self._places.closing(RESULT_TAGS, _data(self._text, result.end())[1] if result else match.end())
            has_call = not closing and self._places.next_call(match.end()) is not None
            reason = "it is in a tool result that you wrote yourself and did not close; results are sent to you"
            rejected = (rejected_call(self._text, start, reason),) if has_call else ()
            reading = ParsedCalls(rejected, (), closing[1] if closing else len(self._text))
        if repeated := self._repeated(match, reading):
            self._quoted = repeated
            return repeated
        self._accepted += reading.calls
        if not match["foreign"]:  # a foreign call is reported once, and stays in the text
            self._remove(start, reading.end)
            self._prose += [text.strip(_BLANKS) for text in reading.stray_text]
        return reading.end

    def _repeated(self, match: re.Match[str], reading: ParsedCalls) -> int | None:
        """Return the end of a call that only repeats a text the agent was shown, or None for a real call."""
        if any(call.error for call in reading.calls):  # the end is unknown, so the first line is compared
            line = self._text[match.start() : match.start() + _MAX_LINE_CHARS].partition("\n")[0]
            return match.end() if self._shown.contains(line) else None
        source = self._text[match.start() : reading.end]
        has_params = any(call.params for call in reading.calls)
        is_repeated = self._shown.contains_call(source) if has_params else self._shown.contains(source)
        return reading.end if is_repeated else None

    def _fenced(self, fence: re.Match[str], start: int) -> int:
        """Read the calls of code fences at the end of the reply; other fences are text. Return the end of the fence."""
        text = self._text
        position, end = body_start(fence), self._quotations.fence_end(fence, start)
        is_alone = not any(self._prose) and self._follows(self._removed, fence.start())
        calls: list[ToolCall] = []
        while position < len(text):
            match = CALL.match(text, position)
            if between := _BETWEEN.match(text, position):
                position = between.end()
            elif match and (begins_call(match) or match["name"]):
                reading = self._calls.read(match)
                position = reading.end
                if reading.stray_text or self._repeated(match, reading):
                    break
                calls += reading.calls
            elif match and (match["rest"] or match["closing"] or match["end"]):
                position = match.end()
            else:
                break
        may_call = all(not call.error and (self._offered is None or call.name in self._offered) for call in calls)
        if position < len(text) or not calls or not (is_alone or may_call):
            self._quoted = max(end, position if calls else end)
            return self._quoted
        self._accepted += [replace(call, needs_approval=not is_alone) for call in calls]
        return self._remove(fence.start(), position)
