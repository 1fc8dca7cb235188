"""Lenient JSON parser for tool calls.

It accepts deviations that are unambiguous: single quotes, bare keys, trailing commas, raw line breaks, Python's True
and None, and missing braces before a closing tag. It rejects ambiguous ones: unterminated strings, unescaped quotes,
unknown escapes and duplicate keys. Libraries for broken JSON guess values instead. One pass, without backtracking.
"""

import json
import math
import re
from typing import Any, Final

from artifactflow_nb.core.text.format import storable_text

_TOKEN = re.compile(
    r"""[\s\ufeff\u200b]*+(?:
    (?P<string>"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')
    |(?P<number>-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:e[+-]?+[0-9]++)?+)(?![\w.])
    |(?P<word>-?+[A-Za-z_$][\w$]*+)
    |(?P<mark>[{}\[\]:,])
    |(?P<open>["'])
    |(?P<tag></(?:tool_calls?|function_calls?|function|invoke|params|parameters|arguments)\b)
    |(?P<end>\Z))""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_QUOTE_IN_SINGLE = re.compile(r"""\\(.)|"()""", re.DOTALL)
_WORDS: Final = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_MAX_DEPTH = 60
_MAX_DIGITS = 300
_NAMES = ("name", "tool_name", "tool", "function")
_ARGUMENTS = ("arguments", "parameters", "params")
_CALL_KEYS = {"type", "id", "name", *_ARGUMENTS}


class AmbiguousCall(Exception):
    """A call cannot be read without guessing; internal to the readers, which report the reason to the model.

    Args:
        reason: The problem, in words for the model.
        position: Offset up to which the text certainly belongs to the call.
        is_complete: Whether the call ends there; otherwise its closing tag must still be found.
    """

    def __init__(self, reason: str, position: int, *, is_complete: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position
        self.is_complete = is_complete


def read_json(text: str, start: int) -> tuple[Any, int]:
    """Read the JSON value at `start` and return it and its end; `AmbiguousCall` if it is ambiguous."""
    reader = _JsonReader(text, start)
    return reader.value(0), reader.position


def parse_calls(value: Any, position: int) -> list[tuple[str, dict[str, Any]]]:
    """Convert a JSON value to calls, as names and parameters; `AmbiguousCall` if it is not a call."""
    entries = value if isinstance(value, list) else [value]
    if not entries:
        raise AmbiguousCall("it names no tool", position)
    calls = []
    for item in entries:
        entry = item["function"] if isinstance(item, dict) and isinstance(item.get("function"), dict) else item
        if not isinstance(entry, dict):
            raise AmbiguousCall("its JSON is not an object with `name` and `arguments`", position)
        key = next((key for key in _NAMES if isinstance(entry.get(key), str) and entry[key].strip()), None)
        if key is None:
            raise AmbiguousCall("it names no tool", position)
        keys = [argument for argument in _ARGUMENTS if argument in entry]
        if len(keys) > 1:
            raise AmbiguousCall(f"it has both `{keys[0]}` and `{keys[1]}`", position)
        if keys:
            arguments = _arguments(entry[keys[0]], keys[0], position)
        else:  # the parameters are siblings of the name
            arguments = {name: value for name, value in entry.items() if name not in {key, "type"}}
        calls.append((entry[key], arguments))
    return calls


def is_bare_call(value: Any) -> bool:
    """Return whether JSON outside of tags is certainly a call: a name, an object of arguments and nothing else."""
    entries = value if isinstance(value, list) else [value]
    return bool(entries) and all(
        isinstance(entry, dict)
        and entry.keys() <= _CALL_KEYS
        and isinstance(entry.get("name"), str)
        and any(isinstance(entry.get(key), dict) for key in _ARGUMENTS)
        for entry in entries
    )


def _arguments(value: Any, key: str, position: int) -> dict[str, Any]:
    """Return the arguments as an object; some models write them as a string of JSON."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            inner, end = read_json(value, 0)
        except AmbiguousCall as error:
            raise AmbiguousCall(f"the JSON in its `{key}` is broken: {error.reason}", position) from None
        value = None if value[end:].strip() else inner
    if not isinstance(value, dict):
        raise AmbiguousCall(f"its `{key}` is not a JSON object", position)
    return value


class _JsonReader:
    """Recursive-descent parser at a position of a text."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position

    def _next(self) -> re.Match[str]:
        token = _TOKEN.match(self.text, self.position)
        if token is None:
            raise self._broken(self.position)
        if token["open"]:  # an unterminated string: the rest of the text may be part of it
            raise AmbiguousCall("a string in its JSON has no end", len(self.text))
        self.position = token.end()
        return token

    def _broken(self, position: int) -> AmbiguousCall:
        return AmbiguousCall(f"its JSON is invalid at {self.text[position : position + 30]!r}", position)

    def value(self, depth: int) -> Any:
        """Read the next value."""
        token = self._next()
        start = token.start(token.lastgroup or 0)
        match token.lastgroup:
            case "string":
                return self._string(token["string"])
            case "number":
                return self._number(token["number"], start)
            case "word" if token["word"] in _WORDS:
                return _WORDS[token["word"]]
            case "word" if token["word"] in _NO_NUMBERS:
                return token["word"]
            case "mark" if token["mark"] in "{[" and depth < _MAX_DEPTH:
                return self._container("}" if token["mark"] == "{" else "]", depth + 1)
        raise self._broken(start)

    def _container(self, closing: str, depth: int) -> dict[str, Any] | list[Any]:
        """Read the entries of an object or a list up to the closing bracket."""
        fields: dict[str, Any] = {}
        items: list[Any] = []
        while True:
            start = self.position
            token = self._next()
            if token["mark"] == closing:
                break
            if closing == "]":
                self.position = start
                items.append(self.value(depth))
            else:
                key = self._key(token)
                if key in fields:
                    raise AmbiguousCall(f"its JSON has two values for {key!r}", self.position)
                if (colon := self._next())["mark"] != ":":
                    raise self._broken(colon.start(colon.lastgroup or 0))
                fields[key] = self.value(depth)
            following = self._next()
            if following["tag"] and closing == "}":  # only braces can be missing: the call's closing tag follows
                self.position = following.start("tag")
                break
            if following["mark"] == closing:
                break
            if following["mark"] != ",":
                raise self._broken(following.start(following.lastgroup or 0))
        return items if closing == "]" else fields

    def _key(self, token: re.Match[str]) -> str:
        if token["string"]:
            return self._string(token["string"])
        if token["word"]:
            return token["word"]
        raise self._broken(token.start(token.lastgroup or 0))

    def _string(self, written: str) -> str:
        body = written[1:-1]
        if written[0] == "'":
            # As in a double-quoted string: escape double quotes, and unescape single ones.
            body = _QUOTE_IN_SINGLE.sub(
                lambda match: '\\"' if match[1] is None else "'" if match[1] == "'" else match[0], body
            )
        try:
            value: str = json.loads(f'"{body}"', strict=False)
        except ValueError:
            raise AmbiguousCall(
                f"a string in its JSON has an unknown escape: {written[:30]!r}", self.position
            ) from None
        return storable_text(value)  # JSON can contain a lone surrogate

    def _number(self, written: str, start: int) -> int | float | str:
        if len(written) > _MAX_DIGITS:
            raise self._broken(start)
        if written.lstrip("-").isdigit():
            return int(written)
        return number if math.isfinite(number := float(written)) else written
