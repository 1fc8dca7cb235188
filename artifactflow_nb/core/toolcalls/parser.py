"""Parser for the text of a single tool call, between the marks of any family (`marks.py`).

The text is JSON, elements (in our form `<name>n</name><params><p><![CDATA[v]]></p></params>`), Python, or a name and
then one of these forms. Values are read exactly as written. Where the end of a value is ambiguous, the reader raises
`AmbiguousCall` instead of guessing.
"""

import ast
import re
from dataclasses import dataclass, field
from typing import Any, Final

from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.core.toolcalls.json import AmbiguousCall, parse_calls, read_json, storable_json
from artifactflow_nb.core.toolcalls.marks import TOKEN
from artifactflow_nb.core.toolcalls.scanner import (
    CALL,
    CDATA_CLOSE,
    CDATA_OPEN,
    CDATA_OPENING,
    TAG,
    TagIndex,
    begins_call,
    is_closing,
    is_self_closing,
    normalize_tag,
    tag_kind,
)

_ITEM = re.compile(r"\s*+<item(?:\s[^<>/]*+)?(/?)>", re.IGNORECASE)
_MARKUP = re.compile(r"<[/!A-Za-z_]")
_LIST_END = re.compile(r"\s*+<(/?)([A-Za-z_][\w.:-]*+)[^<>]*+>")
_FIELD = re.compile(r"\s*+<(?P<tag>[A-Za-z_][\w.-]*+)>")
_SECTION_END = re.compile(
    r"\]\]>(?!<!\[CDATA\[)\s*+(?:</(?P<tag>[A-Za-z_][\w.:-]*+)\s*+>|(?=<[A-Za-z_][\w.-]*+[^<>]*+>\s*+<!\[CDATA\[))"
)
_ENTITIES: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_ENTITY = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#([0-9]{1,7})|#[xX]([0-9A-Fa-f]{1,6}));")
_ENDS_OF_CALLS = {"params", "parameters", "arguments", "tool_call", "function", "invoke"}
_MAX_NESTING = 20


class _ValueReader:
    """Reads parameter values; see `TextCallReader`."""

    def __init__(self, places: TagIndex) -> None:
        self._places = places
        self._text = places.text

    def parameter(self, opened: int, tag: str, ends: tuple[str, ...], depth: int = 0) -> tuple[Any, int]:
        """Read a parameter, a text or a list of `<item>` elements, and return its value and its end.

        Offset `opened` is the end of the opening `tag`; the tags `ends` close the call.
        """
        if not _ITEM.match(self._text, opened):
            return self.value(opened, tag, ends)
        values: list[Any] = []
        position = opened
        while match := _ITEM.match(self._text, position):
            value, position = ("", match.end()) if match[1] else self._item(match.end(), (*ends, tag), depth)
            values.append(value)
        following = _LIST_END.match(self._text, position)
        if not following:
            raise AmbiguousCall(f"the list in <{tag}> is not closed", position)
        own = following[1] and normalize_tag(following[2]) == normalize_tag(tag)
        return values, following.end() if own else position

    def _item(self, opened: int, ends: tuple[str, ...], depth: int) -> tuple[Any, int]:
        """Read an item of a list: an item of elements is an object, any other item a text."""
        fields: dict[str, Any] = {}
        position = opened
        close = self._places.partner(opened)
        while close and depth < _MAX_NESTING and (tag := _FIELD.match(self._text, position)):
            try:
                value, position = self.parameter(tag.end(), tag["tag"], ends, depth + 1)
            except AmbiguousCall:
                break
            add_parameter(fields, tag["tag"], value)
        if fields and close and position <= close[0] and not self._text[position : close[0]].strip():
            return fields, close[1]
        return self.value(opened, "item", ends)

    def value(self, opened: int, tag: str, ends: tuple[str, ...]) -> tuple[str, int]:
        """Read a single text and return the text and its end; arguments as for `parameter`."""
        close = self._places.partner(opened)
        if opening := CDATA_OPENING.match(self._text, opened):
            names = {normalize_tag(tag), *ends, *_ENDS_OF_CALLS}
            for end in _SECTION_END.finditer(self._text, opening.end()):
                if end["tag"] is None or normalize_tag(end["tag"]) in names:
                    own = end["tag"] is not None and normalize_tag(end["tag"]) == normalize_tag(tag)
                    value = join_cdata(self._text[opening.end() : end.start()])
                    return value, end.end() if own else end.start() + len(CDATA_CLOSE)
            raise AmbiguousCall(f"the end of <{tag}> is missing", len(self._text))
        limit = self._places.closing(("params", *ends), opened)
        following = self._places.next_call(opened)
        if close and limit and limit[0] < close[0] and (following is None or following > limit[0]):
            raise AmbiguousCall(f"the end of <{tag}> is missing or not clear", close[1])  # a value may quote a call
        if not close:  # an unclosed value ends with its call if no other end is possible
            if limit is None or _MARKUP.search(self._text, opened, limit[0]):
                raise AmbiguousCall(f"the end of <{tag}> is missing or not clear", opened)
            close = (limit[0], limit[0])
        raw = self._text[opened : close[0]]
        if CDATA_OPEN in raw or raw.rstrip().endswith(CDATA_CLOSE):
            raise AmbiguousCall(f"<{tag}> has text outside its CDATA section", close[1])
        return unescape(raw), close[1]


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
    return sections.replace(CDATA_CLOSE + CDATA_OPEN, "")


_BLANKS = " \t\r\n\ufeff\u200b\u200c\u200d\u2060"
_JUNK = frozenset(_BLANKS + "]>},;`")
_ATTRIBUTE = re.compile(r"""(?<![\w.:-])([A-Za-z_][\w.:-]*+)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_CDATA = r"[\s\ufeff\u200b]*+(?:<!\[CDATA\[\s*+)?"
_JSON = re.compile(_CDATA + r"(?=[{\[])")
_OBJECT = re.compile(_CDATA + r"(?=\{)")
PYTHON_CALL = re.compile(r"\s*+(?:\w++\s*+=\s*+)?+\[?\s*+(?:print\s*+\()?+[A-Za-z_][\w.]*+\(")
_PLAIN_TOKEN = re.sub(r"\?P<\w+>", "?:", TOKEN)
_TOKEN = re.compile(rf"\[CALL_ID\]\w+|{_PLAIN_TOKEN}")
_MESSAGE = "<|message|>"
_HEAD = re.compile(rf"(?:{_PLAIN_TOKEN}|[^<{{\[\]}}]){{1,200}}+(?=[{{\[<]|\Z)", re.IGNORECASE)
_RECIPIENT = re.compile(r"to=(?:functions\.)?([\w.-]+)")
_WORD = re.compile(r"[\w.:-]++")
_NO_NAMES = {"function", "assistant", "commentary", "analysis", "final", "json", "code", "call", "call:"}
_DECORATION = re.compile(r"^(?:functions?\.|default_api[.:]|call:)|:\d+$|<\|.*|\.call$", re.DOTALL)
"""Text around names in the forms of gpt-oss, Kimi, Gemini, Gemma and Llama."""
_BLANK = re.compile(r"\s*+")
_FRAME = re.compile(r"\A\r?\n|\r?\n\Z")  # line breaks that the form <parameter=p> puts around each value
_NAME_TAGS = {"name", "tool_name", "tool", "function"}
_CONTAINERS = {"params", "parameters", "arguments"}
_OPENERS = {"tool_call", "function_call", "tool_calls", "function_calls"}
_CLOSERS = {*_OPENERS, "function", "invoke"}
RESULT_TAGS = {"tool_result", "tool_results", "tool_response", "function_results"}
"""Tags of tool results, which a model writes only by mistake."""
_CONTENT = re.compile(r"\s*+(?:<[/A-Za-z_]|(?:<!\[CDATA\[\s*+)?\{)")
_STRUCTURE = _NAME_TAGS | _CONTAINERS | _CLOSERS
_ERROR_CHARS = 400
_MAX_PYTHON_CHARS = 20_000
_EXAMPLE = "<tool_call><name>tool</name><params><parameter><![CDATA[value]]></parameter></params></tool_call>"


@dataclass(frozen=True, slots=True)
class ParsedCalls:
    """Calls read at one position.

    Attributes:
        stray_text: Text between the elements of the calls, which stays part of the reply's text.
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
    key: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    stray_text: list[str] = field(default_factory=list)
    inside: bool = False
    has_json: bool = False


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
        self._values = _ValueReader(places)

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
        others = "; the text within it that begins like a call was not run either" if (following or end) < end else ""
        source = self._text[opening.start() : min(end, opening.start() + _ERROR_CHARS)]
        message = _error_message(error.reason + others, source)
        return ParsedCalls((ToolCall(draft.name, {}, error=message),), (), end)

    def _read(self, opening: re.Match[str], draft: _CallDraft) -> ParsedCalls:
        if opening["name"]:
            return self._elements(opening.start(), draft)
        # Some families put an outer mark around the marks of the calls, and some models write a tag twice.
        while (
            (repeated := CALL.match(self._text, _skip_blanks(self._text, opening.end())))
            and begins_call(repeated)
            and repeated.lastgroup in {"call", "token"}
        ):
            opening = repeated
        position = opening.end()
        if opening["unmarked"]:
            position = opening.start() if "to=" in opening["unmarked"] else position
        elif opening.lastgroup != "token":
            tag = TAG.match(self._text, opening.start())
            if tag is None:
                raise AmbiguousCall("its first tag is broken", position)
            self._read_opening(tag, draft)
            if is_self_closing(tag):
                return self._finish(draft, tag.end())
        if not draft.name and (head := _HEAD.match(self._text, position)):
            header, message, _ = head[0].partition(_MESSAGE)
            end = position + len(header) + len(message)
            if opening["opening"] in {"channel", "start"} and "to=" not in header and not _JSON.match(self._text, end):
                return self._message(header, end)
            plain = _TOKEN.sub(" ", header if message else head[0])
            words = [word for word in _WORD.findall(plain) if word.lower() not in _NO_NAMES]
            recipient = _RECIPIENT.search(plain)
            if recipient or (len(words) == 1 and (_OBJECT.match(self._text, end) or TAG.match(self._text, end))):
                draft.name = clean_name(recipient[1] if recipient else words[0])
                position = end
            elif not words:
                position = end
        if PYTHON_CALL.match(self._text, position):
            return self._python(position, draft)
        if not draft.name and _JSON.match(self._text, position):
            return self._json(position, draft.ends)
        return self._elements(position, draft)

    def _message(self, header: str, end: int) -> ParsedCalls:
        """Skip the header of a message of gpt-oss without a call, or the whole message if the message is thinking."""
        if "analysis" not in header:
            return ParsedCalls((), (), end)
        closing = self._places.closing(("tool_call",), end)
        return ParsedCalls((), (), closing[1] if closing else len(self._text))

    def _read_opening(self, tag: re.Match[str], draft: _CallDraft) -> None:
        """Read the name and attributes of the opening tag into the draft."""
        kind = normalize_tag(tag["tag"])
        if kind not in draft.ends:
            draft.ends = (kind, "tool_call")
        attributes = _attributes(tag)
        draft.name = clean_name(tag["key"] or attributes.pop("name", ""))
        draft.attributes = attributes

    # --- as JSON or Python -----------------------------------------------------------------------------------------

    def _json(self, start: int, ends: tuple[str, ...]) -> ParsedCalls:
        """Read consecutive JSON objects or lists up to the end of the call."""
        calls: list[ToolCall] = []
        position = start
        while brace := _JSON.match(self._text, position):
            value, position = read_json(self._text, brace.end())
            calls += [ToolCall(clean_name(name), params) for name, params in parse_calls(value, position)]
            while self._text[position : position + 1] in {",", ";"}:
                position += 1
        return self._ended(calls, position, ends)

    def _ended(self, calls: list[ToolCall], position: int, ends: tuple[str, ...]) -> ParsedCalls:
        """Return complete calls, and the text between the calls and their closing tag."""
        closing = self._places.closing(ends, position)
        following = self._places.next_call(position)
        if closing and (following is None or closing[0] < following):
            return ParsedCalls(tuple(calls), _stray(self._text[position : closing[0]]), closing[1])
        if following is not None and (tag := TAG.match(self._text, following)) and self._closes(tag):
            return ParsedCalls(tuple(calls), _stray(self._text[position:following]), len(self._text))
        return ParsedCalls(tuple(calls), (), position)

    def _python(self, start: int, draft: _CallDraft) -> ParsedCalls:
        closing = self._places.closing(draft.ends, start)
        end = closing[0] if closing else len(self._text)
        return self._ended(read_python(self._text[start:end], end), end, draft.ends)

    def _arguments(self, start: int, draft: _CallDraft) -> int:
        """Read a JSON object in place of parameter elements and return its end."""
        brace = _OBJECT.match(self._text, start)
        if not brace or draft.params:
            return start
        draft.params, position = read_json(self._text, brace.end())
        draft.has_json = True
        return position

    # --- as elements -----------------------------------------------------------------------------------------------

    def _elements(self, start: int, draft: _CallDraft) -> ParsedCalls:
        position = self._arguments(start, draft)
        while tag := TAG.search(self._text, position):
            kind = tag_kind(tag)
            between = _stray(self._text[position : tag.start()])
            if between and (CDATA_OPEN in between[0] or (is_closing(tag) and kind not in _STRUCTURE)):
                raise AmbiguousCall(f"{between[0].strip()[:30]!r} is outside of every parameter", tag.end())
            if is_closing(tag):
                draft.stray_text += between
                position = tag.end()
                if kind in _CLOSERS or (kind in _CONTAINERS and self._is_over(position)):
                    return self._finish(draft, position)
            else:
                if kind in RESULT_TAGS:
                    is_another = self._is_over(tag.start())
                elif kind in _OPENERS:
                    is_another = kind in draft.ends or not draft.inside
                else:
                    is_another = not draft.inside and self._names_tool(tag, kind) and bool(draft.name)
                if is_another:  # an unclosed call ends at another call or a result
                    end = position if between else tag.start()
                    return self._finish(draft, len(self._text) if self._closes(tag) else end)
                draft.stray_text += between
                position = self._element(tag, kind, draft)
            position = self._arguments(position, draft)
        # Without a closing tag, parts of the call may be missing.
        tail = self._text[max(position, self._text.rfind("<", position)) :]
        is_partial = tail.startswith("<") and not tail.startswith("</") and ">" not in tail
        if not draft.has_json and (self._is_truncated or is_partial or not draft.params):
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
        if not tag["tag"]:
            return tag.end()  # a separator
        if not draft.inside:
            if self._names_tool(tag, kind):
                self._read_opening(tag, draft)
                return tag.end()
            if kind == "arg_key" or (kind in _NAME_TAGS and not draft.name):
                name, position = self._name(tag.end(), kind)
                draft.key, draft.name = (name, draft.name) if kind == "arg_key" else (draft.key, clean_name(name))
                return position
            if kind == "params" or (kind in _CONTAINERS and _CONTENT.match(self._text, tag.end())):
                draft.inside = not is_self_closing(tag)
                return tag.end()
        return self._parameter(tag, draft)

    def _name(self, start: int, kind: str) -> tuple[str, int]:
        """Read a name; an unclosed name ends at the next tag."""
        if CDATA_OPENING.match(self._text, start):
            value, position = self._values.value(start, kind, ("tool_call",))
            return _clean(value), position
        stop = self._text.find("<", start)
        stop = stop if stop >= 0 else len(self._text)
        following = TAG.match(self._text, stop)
        closed = following is not None and following["close"] and tag_kind(following) == kind
        return _clean(unescape(self._text[start:stop])), following.end() if following and closed else stop

    def _parameter(self, tag: re.Match[str], draft: _CallDraft) -> int:
        attributes = _attributes(tag)
        key = tag["key"] or attributes.get("name") or draft.key or tag["tag"]
        draft.key = ""
        if is_self_closing(tag):
            add_parameter(draft.params, key, attributes.get("value", ""))
            return tag.end()
        value, position = self._values.parameter(tag.end(), tag["tag"], draft.ends)
        if tag["key"] and isinstance(value, str) and not CDATA_OPENING.match(self._text, tag.end()):
            value = _FRAME.sub("", value)
        add_parameter(draft.params, key.strip("\"'"), value)
        return position

    def _finish(self, draft: _CallDraft, end: int) -> ParsedCalls:
        if not draft.name:
            raise AmbiguousCall("it names no tool", end, is_complete=True)
        if draft.key:
            raise AmbiguousCall(f"its parameter {draft.key!r} has no value", end, is_complete=True)
        call = ToolCall(draft.name, draft.params or dict(draft.attributes))
        return ParsedCalls((call,), tuple(draft.stray_text), end)


def read_python(code: str, position: int) -> list[ToolCall]:
    """Read calls of functions with named literal arguments; `AmbiguousCall` for any other code."""
    try:
        statements = ast.parse(code.strip().strip("`")).body if len(code) <= _MAX_PYTHON_CHARS else []
        values = [statement.value for statement in statements if isinstance(statement, ast.Expr | ast.Assign)]
        if not values or len(values) < len(statements):
            raise ValueError("it has no calls, or more than calls")
        calls = []
        for value in values:
            is_printed = isinstance(value, ast.Call) and ast.unparse(value.func) == "print"
            inner = value.args[0] if is_printed and len(value.args) == 1 else value  # type: ignore[attr-defined]
            for entry in inner.elts if isinstance(inner, ast.List) else [inner]:
                if not isinstance(entry, ast.Call) or entry.args or not all(word.arg for word in entry.keywords):
                    raise ValueError("it is not a call with named arguments")
                params = {word.arg: ast.literal_eval(word.value) for word in entry.keywords}
                calls.append(ToolCall(clean_name(ast.unparse(entry.func)), storable_json(params)))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise AmbiguousCall(f"its Python could not be read: {error}", position) from None
    return calls


def _attributes(tag: re.Match[str]) -> dict[str, str]:
    attributes = _ATTRIBUTE.findall(tag["attributes"] or "")
    return {key: unescape(double or single) for key, double, single in attributes}


def add_parameter(params: dict[str, Any], key: str, value: Any) -> None:
    """Set a parameter; repeated parameters are collected in a list."""
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


def clean_name(name: str) -> str:
    """Return a tool's name without the text that families write around names."""
    return _DECORATION.sub("", _clean(name))


def _error_message(reason: str, source: str) -> str:
    return (
        f"This tool call could not be read and was not run: {reason}. Write it as {_EXAMPLE}, every value in CDATA. "
        f"It began with: {source.strip()[:80]!r}"
    )
