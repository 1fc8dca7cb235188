"""One tool call in a reply, in the form that is asked for and in those that models fall back to.

::

    <tool_call><name>n</name><params><p><![CDATA[v]]></p></params></tool_call>    ours
    <tool_call>{"name": "n", "arguments": {"p": "v"}}</tool_call>                 Hermes, Qwen
    <function=n><parameter=p>v</parameter></function>                             Qwen-Coder; Llama with JSON inside
    <invoke name="n"><parameter name="p">v</parameter></invoke>                   Claude, MiniMax
    <tool_call>n<arg_key>p</arg_key><arg_value>v</arg_value></tool_call>          GLM
"""

import re
from dataclasses import dataclass, field
from typing import Any

from artifactflow_nb.call_json import Unreadable, named_calls, read_json
from artifactflow_nb.call_places import CALL, CDATA_OPEN, CDATA_OPENING, TAG, Places, is_empty, plain
from artifactflow_nb.call_values import ValueReader, unescape
from artifactflow_nb.messages import ToolCall

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
RESULTS = {"tool_result", "tool_results", "tool_response", "function_results"}
"""Tags of results, which a model never writes itself but in error."""
_CONTENT = re.compile(r"\s*+(?:<[/A-Za-z_]|(?:<!\[CDATA\[\s*+)?\{)")
_STRUCTURE = _NAME_TAGS | _CONTAINERS | _CLOSERS
_SHOWN = 400
_EXAMPLE = "<tool_call><name>tool</name><params><parameter><![CDATA[value]]></parameter></params></tool_call>"


@dataclass(frozen=True, slots=True)
class Reading:
    """What stood at one place: calls, text between their elements, and where reading goes on."""

    calls: tuple[ToolCall, ...]
    stray: tuple[str, ...]
    end: int


@dataclass(slots=True)
class _Draft:
    """A call while it is read."""

    ends: tuple[str, ...] = ("tool_call",)
    name: str = ""
    lead: str = ""
    key: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    stray: list[str] = field(default_factory=list)
    inside: bool = False


def refused(text: str, start: int, reason: str) -> ToolCall:
    """The call that tells the model of what begins at `start` and is not read."""
    return ToolCall("", {}, error=_told(reason, text[start : start + _SHOWN]))


class CallReader:
    """Reads the calls of a text, each from where it begins.

    Args:
        places: The text and where things stand in it.
        cut: Whether the text is known to end too early.
    """

    def __init__(self, places: Places, *, cut: bool) -> None:
        self._places = places
        self._text = places.text
        self._cut = cut
        self._values = ValueReader(places, cut=cut)

    def read(self, opening: re.Match[str]) -> Reading:
        """The call, or calls, that begin with this match of `CALL`; one that leaves doubt carries `error`."""
        draft = _Draft()
        try:
            return self._read(opening, draft)
        except Unreadable as error:
            return self._failed(opening, draft, error)

    def _failed(self, opening: re.Match[str], draft: _Draft, error: Unreadable) -> Reading:
        """A call that is not run. What may be part of one of its values is never read as a call of its own."""
        closing = None if error.ended else self._places.closing(("tool_call", *draft.ends), error.position)
        end = error.position if error.ended else closing[1] if closing else len(self._text)
        following = self._places.next_call(opening.end())
        others = "; what begins like a call within it was not run either" if (following or end) < end else ""
        told = _told(error.reason + others, self._text[opening.start() : min(end, opening.start() + _SHOWN)])
        return Reading((ToolCall(draft.name or draft.lead, {}, error=told),), (), end)

    def _read(self, opening: re.Match[str], draft: _Draft) -> Reading:
        if opening["name"]:
            return self._elements(opening.start(), draft)
        while (again := CALL.match(self._text, _skipped(self._text, opening.end()))) and again["call"]:
            opening = again  # its first tag is written twice
        tag = TAG.match(self._text, opening.start())
        if tag is None:
            raise Unreadable("its first tag is broken", opening.end())
        self._begin(tag, draft)
        if is_empty(tag):
            return self._finished(draft, tag.end())
        if not draft.name and _JSON.match(self._text, tag.end()):
            return self._json(tag.end(), draft.ends)
        return self._elements(tag.end(), draft)

    def _begin(self, tag: re.Match[str], draft: _Draft) -> None:
        """Take what the tag that opens the call says of it."""
        kind = plain(tag["tag"])
        if kind not in draft.ends:
            draft.ends = (kind, "tool_call")
        attributes = _attributes(tag)
        draft.name = _clean(tag["key"] or attributes.pop("name", ""))
        draft.attributes = attributes

    # --- as JSON ---------------------------------------------------------------------------------------------------

    def _json(self, start: int, ends: tuple[str, ...]) -> Reading:
        """Read one JSON object or list after another up to the call's end."""
        calls: list[ToolCall] = []
        position = start
        while brace := _JSON.match(self._text, position):
            told, position = read_json(self._text, brace.end() - 1)
            calls += [ToolCall(_clean(name), params) for name, params in named_calls(told, position)]
            while self._text[position : position + 1] in {",", ";"}:
                position += 1
        closing = self._places.closing(ends, position)
        following = self._places.next_call(position)
        if closing and (following is None or closing[0] < following):
            return Reading(tuple(calls), _stray(self._text[position : closing[0]]), closing[1])
        if following is not None and (tag := TAG.match(self._text, following)) and self._closes(tag):
            return Reading(tuple(calls), _stray(self._text[position:following]), len(self._text))
        return Reading(tuple(calls), (), position)

    def _arguments(self, start: int, draft: _Draft) -> int:
        """Read `{...}` where parameters are expected; where reading goes on."""
        brace = _OBJECT.match(self._text, start)
        if not brace or draft.params:
            return start
        draft.params, position = read_json(self._text, brace.end() - 1)
        return position

    # --- as elements -----------------------------------------------------------------------------------------------

    def _elements(self, start: int, draft: _Draft) -> Reading:
        if not draft.name and (lead := _LEAD.match(self._text, start)):
            draft.lead, start = _clean(lead[1]), lead.end()
        position = self._arguments(start, draft)
        while tag := TAG.search(self._text, position):
            kind = plain(tag["tag"])
            between = _stray(self._text[position : tag.start()])
            if between and (CDATA_OPEN in between[0] or (tag["close"] and kind not in _STRUCTURE)):
                raise Unreadable(f"{between[0].strip()[:30]!r} stands in no parameter", tag.end())
            draft.stray += between
            if tag["close"]:
                position = tag.end()
                if kind in _CLOSERS or (kind in _CONTAINERS and self._is_over(position)):
                    return self._finished(draft, position)
            elif self._begins_another(tag, kind, draft):
                return self._finished(draft, len(self._text) if self._closes(tag) else tag.start())
            else:
                position = self._element(tag, kind, draft)
            position = self._arguments(position, draft)
        return self._unended(draft, position)

    def _begins_another(self, tag: re.Match[str], kind: str, draft: _Draft) -> bool:
        """Whether the call ends here, unclosed, since the next one or a result follows."""
        if kind in RESULTS:
            return self._is_over(tag.start())
        if kind in _OPENERS:
            return kind in draft.ends or not draft.inside
        return not draft.inside and self._names_tool(tag, kind) and bool(draft.name)

    @staticmethod
    def _names_tool(tag: re.Match[str], kind: str) -> bool:
        return kind in {"function", "invoke"} and bool(tag["key"] or "name" in _attributes(tag))

    def _closes(self, tag: re.Match[str]) -> bool:
        """Whether an opening tag was meant to close the call before it: nothing follows."""
        return _skipped(self._text, tag.end()) == len(self._text)

    def _is_over(self, position: int) -> bool:
        """Whether the call ends with its parameters, because its own closing tag is missing."""
        closing = self._places.closing(_CLOSERS, position)
        following = self._places.next_call(position)
        return closing is None or (following is not None and following < closing[0])

    def _element(self, tag: re.Match[str], kind: str, draft: _Draft) -> int:
        if draft.inside:
            return self._parameter(tag, draft)
        if self._names_tool(tag, kind):
            self._begin(tag, draft)
        elif kind in _NAME_TAGS and not draft.name:
            draft.name, position = self._name(tag.end(), kind)
            return position
        elif kind == "params" or (kind in _CONTAINERS and _CONTENT.match(self._text, tag.end())):
            draft.inside = not is_empty(tag)
        elif kind == "arg_key":
            draft.key, position = self._name(tag.end(), kind)
            return position
        else:
            return self._parameter(tag, draft)
        return tag.end()

    def _name(self, start: int, kind: str) -> tuple[str, int]:
        """Read a name; where its tag is not closed it ends at the next one."""
        if CDATA_OPENING.match(self._text, start):
            value, position = self._values.value(start, kind, ("tool_call",))
            return _clean(value), position
        stop = self._text.find("<", start)
        stop = stop if stop >= 0 else len(self._text)
        following = TAG.match(self._text, stop)
        closed = following is not None and following["close"] and plain(following["tag"]) == kind
        return _clean(unescape(self._text[start:stop])), following.end() if following and closed else stop

    def _parameter(self, tag: re.Match[str], draft: _Draft) -> int:
        attributes = _attributes(tag)
        key = tag["key"] or attributes.get("name") or draft.key or tag["tag"]
        draft.key = ""
        if is_empty(tag):
            _add(draft.params, key, attributes.get("value", ""))
            return tag.end()
        value, position = self._values.parameter(tag.end(), tag["tag"], draft.ends)
        if tag["key"] and isinstance(value, str) and not CDATA_OPENING.match(self._text, tag.end()):
            value = _FRAME.sub("", value)
        _add(draft.params, key.strip("\"'"), value)
        return position

    # --- the end of a call -----------------------------------------------------------------------------------------

    def _unended(self, draft: _Draft, position: int) -> Reading:
        """Finish a call whose end is not written; `Unreadable` if more of it may have followed."""
        tail = self._text[max(position, self._text.rfind("<", position)) :]
        is_partial = tail.startswith("<") and not tail.startswith("</") and ">" not in tail
        if self._cut or is_partial or not draft.params:
            raise Unreadable("it has no end", len(self._text))
        return self._finished(draft, position)

    def _finished(self, draft: _Draft, end: int) -> Reading:
        name = draft.name or draft.lead
        if not name:
            raise Unreadable("it names no tool", end, ended=True)
        if draft.key:
            raise Unreadable(f"its parameter {draft.key!r} has no value", end, ended=True)
        if draft.name and draft.lead:
            draft.stray.insert(0, draft.lead)
        call = ToolCall(name, draft.params or dict(draft.attributes))
        return Reading((call,), tuple(draft.stray), end)


def _attributes(tag: re.Match[str]) -> dict[str, str]:
    found = _ATTRIBUTE.findall(tag["attributes"] or "")
    return {key: unescape(double or single) for key, double, single in found}


def _add(params: dict[str, Any], key: str, value: str | list[str]) -> None:
    """Set the parameter; one that is written again and again is a list."""
    if key not in params:
        params[key] = value
        return
    if not isinstance(params[key], list):
        params[key] = [params[key]]
    params[key] += value if isinstance(value, list) else [value]


def _skipped(text: str, start: int) -> int:
    """Where the next character that is not blank stands."""
    blank = _BLANK.match(text, start)
    return blank.end() if blank else start


def _stray(piece: str) -> tuple[str, ...]:
    """A text between elements; none if it is what is left of marks."""
    return () if _JUNK.issuperset(piece) else (piece,)


def _clean(name: str) -> str:
    return name.strip(_BLANKS + "\"'`")


def _told(reason: str, body: str) -> str:
    return (
        f"This tool call could not be read and was not run: {reason}. Write it as {_EXAMPLE}, every value in CDATA. "
        f"It began with: {body.strip()[:80]!r}"
    )
