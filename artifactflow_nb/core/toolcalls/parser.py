"""Parser for a single tool call in a reply, in our format and the formats that models fall back to.

::

    <tool_call><name>n</name><params><p><![CDATA[v]]></p></params></tool_call>    ours
    <tool_call>{"name": "n", "arguments": {"p": "v"}}</tool_call>                 Hermes, Qwen
    <function=n><parameter=p>v</parameter></function>                             Qwen-Coder; Llama with JSON inside
    <invoke name="n"><parameter name="p">v</parameter></invoke>                   Claude, MiniMax
    <tool_call>n<arg_key>p</arg_key><arg_value>v</arg_value></tool_call>          GLM

Values of calls written as elements are read exactly as written. Where the end of a value is ambiguous, the reader
raises `AmbiguousCall` instead of guessing.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.core.toolcalls.json import AmbiguousCall, parse_calls, read_json
from artifactflow_nb.core.toolcalls.scanner import (
    CALL,
    CDATA_CLOSE,
    CDATA_OPEN,
    CDATA_OPENING,
    TAG,
    TagIndex,
    is_self_closing,
    normalize_tag,
)

_SECTION_BREAK = CDATA_CLOSE + CDATA_OPEN
_ITEM = re.compile(r"\s*+<item(?:\s[^<>/]*+)?(/?)>", re.IGNORECASE)
_MARKUP = re.compile(r"<[/!A-Za-z_]")
_LIST_END = re.compile(r"\s*+<(/?)([A-Za-z_][\w.:-]*+)[^<>]*+>")
_NEXT = re.compile(
    r"\s*+(?:</(?P<closed>[A-Za-z_][\w.:-]*+)\s*+>|(?P<section><[A-Za-z_][\w.-]*+[^<>]*+>\s*+<!\[CDATA\[)"
    r"|(?P<sibling><[A-Za-z_][^<>]*+>)|(?P<end>\Z))"
)
_ENTITIES: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_ENTITY = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#([0-9]{1,7})|#[xX]([0-9A-Fa-f]{1,6}));")
_CALL_TAGS = {"tool_call", "function_call", "function", "invoke"}
_TAG_FOLLOWS = re.compile(r"\s*+</?[A-Za-z_]")
_ENDS_OF_CALLS = {"params", "parameters", "arguments", "tool_call", "function", "invoke"}


class _ValueReader:
    """Reads parameter values; see `TextCallReader`."""

    def __init__(self, places: TagIndex, *, is_truncated: bool) -> None:
        self._places = places
        self._text = places.text
        self._is_truncated = is_truncated

    def parameter(self, opened: int, tag: str, ends: tuple[str, ...]) -> tuple[str | list[str], int]:
        """Read a text or a list of `<item>` elements and return it and its end.

        Offset `opened` is the end of its opening `tag`; the tags `ends` close the call.
        """
        if not _ITEM.match(self._text, opened):
            return self.value(opened, tag, ends)
        values: list[str] = []
        position = opened
        while match := _ITEM.match(self._text, position):
            value, position = ("", match.end()) if match[1] else self.value(match.end(), "item", ends)
            values.append(value)
        following = _LIST_END.match(self._text, position)
        if not following:
            raise AmbiguousCall(f"the list in <{tag}> is not closed", position)
        own = following[1] and normalize_tag(following[2]) == normalize_tag(tag)
        return values, following.end() if own else position

    def value(self, opened: int, tag: str, ends: tuple[str, ...]) -> tuple[str, int]:
        """Read a single text and return it and its end; arguments as for `parameter`."""
        if opening := CDATA_OPENING.match(self._text, opened):
            return self._cdata(opening.end(), opened, tag, ends)
        limit = self._places.closing(ends, opened)
        stop = limit[0] if limit else len(self._text)
        close = self._places.partner(opened)
        if close and close[0] < stop:
            return self._plain(opened, close[0], tag), close[1]
        if close and self._has_whole_calls(opened, close[0]) and _TAG_FOLLOWS.match(self._text, close[1]):
            return unescape(self._text[opened : close[0]]), close[1]
        if limit and not close:
            outer = self._places.closing(("params",), opened)
            stop = min(stop, outer[0]) if outer else stop
            if not _MARKUP.search(self._text, opened, stop):
                return self._plain(opened, stop, tag), stop
        raise self._ambiguous_end(tag, opened)

    def _has_whole_calls(self, start: int, end: int) -> bool:
        """Return whether every call and CDATA section between two offsets is complete, so that the text quotes them."""
        depth = 0
        for tag in TAG.finditer(self._text, start, end):
            if normalize_tag(tag["tag"]) in _CALL_TAGS and not is_self_closing(tag):
                depth += -1 if tag["close"] else 1
                if depth < 0:
                    return False
        return depth == 0 and self._text.count(CDATA_OPEN, start, end) == self._text.count(CDATA_CLOSE, start, end)

    def _plain(self, start: int, end: int, tag: str) -> str:
        if CDATA_OPEN in (raw := self._text[start:end]):
            raise AmbiguousCall(f"<{tag}> has text outside its CDATA section", end)
        if raw.rstrip().endswith(CDATA_CLOSE):
            raise AmbiguousCall(f"<{tag}> ends with {CDATA_CLOSE}, but has no CDATA section", end)
        return unescape(raw)

    def _cdata(self, start: int, opened: int, tag: str, ends: tuple[str, ...]) -> tuple[str, int]:
        """Read consecutive CDATA sections; a `]]>` that does not look like their end is part of the value."""
        end = self._places.section_end(start)
        close = self._places.partner(opened)
        if end is None:
            # Without `]]>`, the closing tags of the parameter and its call must delimit the section.
            if close and not self._is_truncated and self._places.closing(("params", *ends), close[1]):
                return join_cdata(self._text[start : close[0]]), close[1]
            # The rest of the text may be part of the value.
            raise AmbiguousCall(f"the end of <{tag}> is missing", len(self._text))
        own = self._places.cdata_closing(tag, end)
        if own is None and close and start <= close[0] < end:
            # The `]]>` closes a later section; this one is unclosed.
            return join_cdata(self._text[start : close[0]]), close[1]
        following = _NEXT.match(self._text, end + len(CDATA_CLOSE))
        if not following:
            ends_here = False
        elif (closed := following["closed"]) is None:
            ends_here = own is None or not following["sibling"]
        else:  # a misspelt closing tag ends the value, unless the value itself contains the opening tag for it
            ends_here = normalize_tag(closed) in _ENDS_OF_CALLS or self._text.find("<" + closed, start, end) < 0
        if own and (own[0] == end or not ends_here):
            return join_cdata(self._text[start : own[0]]), own[1]
        if ends_here:
            return join_cdata(self._text[start:end]), end + len(CDATA_CLOSE)
        raise self._ambiguous_end(tag, opened)

    def _ambiguous_end(self, tag: str, opened: int) -> AmbiguousCall:
        """Create the error for an ambiguous end; the value may extend to its own closing tag, if there is one."""
        close = self._places.partner(opened)
        known = close[1] if close else len(self._text) if self._is_truncated else opened
        return AmbiguousCall(f"the end of <{tag}> is missing or not clear", known)


def unescape(value: str) -> str:
    """Replace XML's five named entities and numeric references; leave all others."""

    def character(match: re.Match[str]) -> str:
        if match[1]:
            return _ENTITIES[match[1]]
        code = int(match[2]) if match[2] else int(match[3], 16)
        is_character = 0 < code < 0xD800 or 0xDFFF < code <= 0x10FFFF  # noqa: PLR2004 - the surrogates' range
        return chr(code) if is_character else match[0]

    return _ENTITY.sub(character, value)


def join_cdata(sections: str) -> str:
    """Join the text of consecutive CDATA sections."""
    return sections.replace(_SECTION_BREAK, "")


_BLANKS = " \t\r\n\ufeff\u200b\u200c\u200d\u2060"
_JUNK = frozenset(_BLANKS + "]>},;`")
_ATTRIBUTE = re.compile(r"""(?<![\w.:-])([A-Za-z_][\w.:-]*+)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_JSON = re.compile(r"[\s\ufeff\u200b]*+(?:<!\[CDATA\[\s*+)?[{\[]")
_OBJECT = re.compile(r"[\s\ufeff\u200b]*+(?:<!\[CDATA\[\s*+)?\{")
_LEAD = re.compile(r"[\s\ufeff\u200b]*+([A-Za-z_][\w.:-]*+)\s*+(?=[<{])")
_BLANK = re.compile(r"\s*+")
_FRAME = re.compile(r"\A\r?\n|\r?\n\Z")  # line breaks that the form <parameter=p> puts around each value
_NAME_TAGS = {"name", "tool_name", "tool", "function"}
_CONTAINERS = {"params", "parameters", "arguments"}
_OPENERS = {"tool_call", "function_call"}
_CLOSERS = {"tool_call", "tool_calls", "function_call", "function_calls", "function", "invoke"}
RESULT_TAGS = {"tool_result", "tool_results", "tool_response", "function_results"}
"""Tags of tool results, which a model writes only by mistake."""
_CONTENT = re.compile(r"\s*+(?:<[/A-Za-z_]|(?:<!\[CDATA\[\s*+)?\{)")
_STRUCTURE = _NAME_TAGS | _CONTAINERS | _CLOSERS
_ERROR_CHARS = 400
_EXAMPLE = "<tool_call><name>tool</name><params><parameter><![CDATA[value]]></parameter></params></tool_call>"


@dataclass(frozen=True, slots=True)
class ParsedCalls:
    """Calls read at one position.

    Attributes:
        stray_text: Text between their elements, which stays part of the reply's text.
        end: Offset at which reading continues.
    """

    calls: tuple[ToolCall, ...]
    stray_text: tuple[str, ...]
    end: int


@dataclass(slots=True)
class _CallDraft:
    """Mutable state of a call during parsing."""

    ends: tuple[str, ...] = ("tool_call",)
    name: str = ""
    lead: str = ""
    key: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    stray_text: list[str] = field(default_factory=list)
    inside: bool = False


def rejected_call(text: str, start: int, reason: str) -> ToolCall:
    """Create a call that reports to the model why the text at `start` was not read."""
    return ToolCall("", {}, error=_error_message(reason, text[start : start + _ERROR_CHARS]))


class TextCallReader:
    """Reads calls at given positions of a text.

    Args:
        places: Index of the text.
        is_truncated: Whether the text is known to be truncated.
    """

    def __init__(self, places: TagIndex, *, is_truncated: bool) -> None:
        self._places = places
        self._text = places.text
        self._is_truncated = is_truncated
        self._values = _ValueReader(places, is_truncated=is_truncated)

    def read(self, opening: re.Match[str]) -> ParsedCalls:
        """Read the call or calls that start at a match of `CALL`; an ambiguous call gets an `error`."""
        draft = _CallDraft()
        try:
            return self._read(opening, draft)
        except AmbiguousCall as caught:
            error = caught
        # Text that may be part of the call's values is never parsed as a separate call.
        closing = None if error.is_complete else self._places.closing(("tool_call", *draft.ends), error.position)
        end = error.position if error.is_complete else closing[1] if closing else len(self._text)
        following = self._places.next_call(opening.end())
        others = "; what begins like a call within it was not run either" if (following or end) < end else ""
        source = self._text[opening.start() : min(end, opening.start() + _ERROR_CHARS)]
        message = _error_message(error.reason + others, source)
        return ParsedCalls((ToolCall(draft.name or draft.lead, {}, error=message),), (), end)

    def _read(self, opening: re.Match[str], draft: _CallDraft) -> ParsedCalls:
        if opening["name"]:
            return self._elements(opening.start(), draft)
        # Some models write the opening tag twice.
        while (repeated := CALL.match(self._text, _skip_blanks(self._text, opening.end()))) and repeated["call"]:
            opening = repeated
        tag = TAG.match(self._text, opening.start())
        if tag is None:
            raise AmbiguousCall("its first tag is broken", opening.end())
        self._read_opening(tag, draft)
        if is_self_closing(tag):
            return self._finish(draft, tag.end())
        if not draft.name and _JSON.match(self._text, tag.end()):
            return self._json(tag.end(), draft.ends)
        return self._elements(tag.end(), draft)

    def _read_opening(self, tag: re.Match[str], draft: _CallDraft) -> None:
        """Read the name and attributes of the opening tag into the draft."""
        kind = normalize_tag(tag["tag"])
        if kind not in draft.ends:
            draft.ends = (kind, "tool_call")
        attributes = _attributes(tag)
        draft.name = _clean(tag["key"] or attributes.pop("name", ""))
        draft.attributes = attributes

    # --- as JSON ---------------------------------------------------------------------------------------------------

    def _json(self, start: int, ends: tuple[str, ...]) -> ParsedCalls:
        """Read consecutive JSON objects or lists up to the end of the call."""
        calls: list[ToolCall] = []
        position = start
        while brace := _JSON.match(self._text, position):
            value, position = read_json(self._text, brace.end() - 1)
            calls += [ToolCall(_clean(name), params) for name, params in parse_calls(value, position)]
            while self._text[position : position + 1] in {",", ";"}:
                position += 1
        closing = self._places.closing(ends, position)
        following = self._places.next_call(position)
        if closing and (following is None or closing[0] < following):
            return ParsedCalls(tuple(calls), _stray(self._text[position : closing[0]]), closing[1])
        if following is not None and (tag := TAG.match(self._text, following)) and self._closes(tag):
            return ParsedCalls(tuple(calls), _stray(self._text[position:following]), len(self._text))
        return ParsedCalls(tuple(calls), (), position)

    def _arguments(self, start: int, draft: _CallDraft) -> int:
        """Read a JSON object in place of parameter elements and return its end."""
        brace = _OBJECT.match(self._text, start)
        if not brace or draft.params:
            return start
        draft.params, position = read_json(self._text, brace.end() - 1)
        return position

    # --- as elements -----------------------------------------------------------------------------------------------

    def _elements(self, start: int, draft: _CallDraft) -> ParsedCalls:
        if not draft.name and (lead := _LEAD.match(self._text, start)):
            draft.lead, start = _clean(lead[1]), lead.end()
        position = self._arguments(start, draft)
        while tag := TAG.search(self._text, position):
            kind = normalize_tag(tag["tag"])
            between = _stray(self._text[position : tag.start()])
            if between and (CDATA_OPEN in between[0] or (tag["close"] and kind not in _STRUCTURE)):
                raise AmbiguousCall(f"{between[0].strip()[:30]!r} is outside of every parameter", tag.end())
            draft.stray_text += between
            if tag["close"]:
                position = tag.end()
                if kind in _CLOSERS or (kind in _CONTAINERS and self._is_over(position)):
                    return self._finish(draft, position)
            else:
                # An unclosed call ends where another call or a result follows.
                if kind in RESULT_TAGS:
                    is_over = self._is_over(tag.start())
                elif kind in _OPENERS:
                    is_over = kind in draft.ends or not draft.inside
                else:
                    is_over = not draft.inside and self._names_tool(tag, kind) and bool(draft.name)
                if is_over:
                    return self._finish(draft, len(self._text) if self._closes(tag) else tag.start())
                position = self._element(tag, kind, draft)
            position = self._arguments(position, draft)
        # Without a closing tag, parts of the call may be missing.
        tail = self._text[max(position, self._text.rfind("<", position)) :]
        is_partial = tail.startswith("<") and not tail.startswith("</") and ">" not in tail
        if self._is_truncated or is_partial or not draft.params:
            raise AmbiguousCall("it has no end", len(self._text))
        return self._finish(draft, position)

    @staticmethod
    def _names_tool(tag: re.Match[str], kind: str) -> bool:
        return kind in {"function", "invoke"} and bool(tag["key"] or "name" in _attributes(tag))

    def _closes(self, tag: re.Match[str]) -> bool:
        """Return whether an opening tag at the end of the text was meant as a closing tag."""
        return _skip_blanks(self._text, tag.end()) == len(self._text)

    def _is_over(self, position: int) -> bool:
        """Return whether the call ends with its parameters because its own closing tag is missing."""
        closing = self._places.closing(_CLOSERS, position)
        following = self._places.next_call(position)
        return closing is None or (following is not None and following < closing[0])

    def _element(self, tag: re.Match[str], kind: str, draft: _CallDraft) -> int:
        if draft.inside:
            return self._parameter(tag, draft)
        if self._names_tool(tag, kind):
            self._read_opening(tag, draft)
        elif kind in _NAME_TAGS and not draft.name:
            draft.name, position = self._name(tag.end(), kind)
            return position
        elif kind == "params" or (kind in _CONTAINERS and _CONTENT.match(self._text, tag.end())):
            draft.inside = not is_self_closing(tag)
        elif kind == "arg_key":
            draft.key, position = self._name(tag.end(), kind)
            return position
        else:
            return self._parameter(tag, draft)
        return tag.end()

    def _name(self, start: int, kind: str) -> tuple[str, int]:
        """Read a name; an unclosed one ends at the next tag."""
        if CDATA_OPENING.match(self._text, start):
            value, position = self._values.value(start, kind, ("tool_call",))
            return _clean(value), position
        stop = self._text.find("<", start)
        stop = stop if stop >= 0 else len(self._text)
        following = TAG.match(self._text, stop)
        closed = following is not None and following["close"] and normalize_tag(following["tag"]) == kind
        return _clean(unescape(self._text[start:stop])), following.end() if following and closed else stop

    def _parameter(self, tag: re.Match[str], draft: _CallDraft) -> int:
        attributes = _attributes(tag)
        key = tag["key"] or attributes.get("name") or draft.key or tag["tag"]
        draft.key = ""
        if is_self_closing(tag):
            _add(draft.params, key, attributes.get("value", ""))
            return tag.end()
        value, position = self._values.parameter(tag.end(), tag["tag"], draft.ends)
        if tag["key"] and isinstance(value, str) and not CDATA_OPENING.match(self._text, tag.end()):
            value = _FRAME.sub("", value)
        _add(draft.params, key.strip("\"'"), value)
        return position

    def _finish(self, draft: _CallDraft, end: int) -> ParsedCalls:
        name = draft.name or draft.lead
        if not name:
            raise AmbiguousCall("it names no tool", end, is_complete=True)
        if draft.key:
            raise AmbiguousCall(f"its parameter {draft.key!r} has no value", end, is_complete=True)
        if draft.name and draft.lead:
            draft.stray_text.insert(0, draft.lead)
        call = ToolCall(name, draft.params or dict(draft.attributes))
        return ParsedCalls((call,), tuple(draft.stray_text), end)


def _attributes(tag: re.Match[str]) -> dict[str, str]:
    attributes = _ATTRIBUTE.findall(tag["attributes"] or "")
    return {key: unescape(double or single) for key, double, single in attributes}


def _add(params: dict[str, Any], key: str, value: str | list[str]) -> None:
    """Set a parameter; repeated ones are collected in a list."""
    if key not in params:
        params[key] = value
        return
    if not isinstance(params[key], list):
        params[key] = [params[key]]
    params[key] += value if isinstance(value, list) else [value]


def _skip_blanks(text: str, start: int) -> int:
    """Return the offset of the next character that is not blank."""
    blank = _BLANK.match(text, start)
    return blank.end() if blank else start


def _stray(piece: str) -> tuple[str, ...]:
    """Return text between elements, unless it consists of leftover punctuation."""
    return () if _JUNK.issuperset(piece) else (piece,)


def _clean(name: str) -> str:
    return name.strip(_BLANKS + "\"'`")


def _error_message(reason: str, source: str) -> str:
    return (
        f"This tool call could not be read and was not run: {reason}. Write it as {_EXAMPLE}, every value in CDATA. "
        f"It began with: {source.strip()[:80]!r}"
    )
