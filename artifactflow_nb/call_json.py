"""Tool calls written as JSON, the form that many models were trained on.

Read with the slips that leave no doubt about a value: single quotes, bare keys, trailing commas, raw line breaks,
Python's True and None, braces missing before a closing tag. A string without end, a quote that is not escaped, an
unknown escape or two values for one key leave doubt and are refused. One pass over the text, without going back.
"""

import json
import math
import re
from typing import Any, Final

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
_DEEPEST = 60
_MOST_DIGITS = 300
_NAMES = ("name", "tool_name", "tool", "function")
_ARGUMENTS = ("arguments", "parameters", "params")
_OF_A_CALL = {"type", "id", "name", *_ARGUMENTS}


class Unreadable(Exception):
    """A call cannot be read without guessing. It never leaves the readers: the model is told the reason.

    Args:
        reason: What is wrong with it, in words for the model.
        position: Up to where the text surely belongs to the call.
        ended: Whether the call ends there; otherwise its closing tag is still to be found.
    """

    def __init__(self, reason: str, position: int, *, ended: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position
        self.ended = ended


def read_json(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins at `start`, and where it ends; `Unreadable` if there is doubt about it."""
    reader = _Reader(text, start)
    return reader.value(0), reader.position


def named_calls(told: Any, position: int) -> list[tuple[str, dict[str, Any]]]:
    """The calls that a JSON value spells, as names and parameters; `Unreadable` if it spells none."""
    entries = told if isinstance(told, list) else [told]
    if not entries:
        raise Unreadable("it names no tool", position)
    return [_named_call(entry, position) for entry in entries]


def is_bare_call(told: Any) -> bool:
    """Whether JSON that stands in no tag is a call beyond doubt: a name, an object of arguments and nothing else."""
    entries = told if isinstance(told, list) else [told]
    return bool(entries) and all(
        isinstance(entry, dict)
        and entry.keys() <= _OF_A_CALL
        and isinstance(entry.get("name"), str)
        and any(isinstance(entry.get(key), dict) for key in _ARGUMENTS)
        for entry in entries
    )


def _named_call(entry: Any, position: int) -> tuple[str, dict[str, Any]]:
    if isinstance(entry, dict) and isinstance(entry.get("function"), dict):
        entry = entry["function"]
    if not isinstance(entry, dict):
        raise Unreadable("its JSON is no object with `name` and `arguments`", position)
    key = next((key for key in _NAMES if isinstance(entry.get(key), str) and entry[key].strip()), None)
    if key is None:
        raise Unreadable("it names no tool", position)
    given = [argument for argument in _ARGUMENTS if argument in entry]
    if not given:  # name and parameters side by side
        return entry[key], {name: value for name, value in entry.items() if name not in {key, "type"}}
    if len(given) > 1:
        raise Unreadable(f"it has both `{given[0]}` and `{given[1]}`", position)
    return entry[key], _arguments(entry[given[0]], given[0], position)


def _arguments(given: Any, key: str, position: int) -> dict[str, Any]:
    """The arguments as an object; some models write them as JSON inside a string."""
    if given is None or given == "":
        return {}
    if isinstance(given, str):
        try:
            inner, end = read_json(given, 0)
        except Unreadable as error:
            raise Unreadable(f"the JSON in its `{key}` is broken: {error.reason}", position) from None
        given = None if given[end:].strip() else inner
    if not isinstance(given, dict):
        raise Unreadable(f"its `{key}` is no JSON object", position)
    return given


class _Reader:
    """A place in a text that moves forward token by token."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position

    def _next(self) -> re.Match[str]:
        token = _TOKEN.match(self.text, self.position)
        if token is None:
            raise self._broken(self.position)
        if token["open"]:  # all that follows may belong to it
            raise Unreadable("a string in its JSON has no end", len(self.text))
        self.position = token.end()
        return token

    def _broken(self, position: int) -> Unreadable:
        return Unreadable(f"its JSON breaks at {self.text[position : position + 30]!r}", position)

    def value(self, depth: int) -> Any:
        """The value that begins here."""
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
            case "mark" if token["mark"] in "{[" and depth < _DEEPEST:
                return self._object(depth + 1) if token["mark"] == "{" else self._array(depth + 1)
        raise self._broken(start)

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (token := self._next())["mark"] != "}":
            key = self._key(token)
            if key in found:
                raise Unreadable(f"its JSON has two values for {key!r}", self.position)
            if (colon := self._next())["mark"] != ":":
                raise self._broken(colon.start(colon.lastgroup or 0))
            found[key] = self.value(depth)
            following = self._next()
            if following["tag"]:  # the braces are missing, but nothing else can be: the call's own end is written
                self.position = following.start("tag")
                break
            if following["mark"] == "}":
                break
            if following["mark"] != ",":
                raise self._broken(following.start(following.lastgroup or 0))
        return found

    def _key(self, token: re.Match[str]) -> str:
        if token["string"]:
            return self._string(token["string"])
        if token["word"]:
            return token["word"]
        raise self._broken(token.start(token.lastgroup or 0))

    def _array(self, depth: int) -> list[Any]:
        found: list[Any] = []
        while True:
            before = self.position
            if self._next()["mark"] == "]":
                return found
            self.position = before
            found.append(self.value(depth))
            following = self._next()
            if following["mark"] == "]":
                return found
            if following["mark"] != ",":
                raise self._broken(following.start(following.lastgroup or 0))

    def _string(self, written: str) -> str:
        body = written[1:-1]
        if written[0] == "'":
            body = _QUOTE_IN_SINGLE.sub(_as_in_double, body)
        try:
            value: str = json.loads(f'"{body}"', strict=False)
        except ValueError:
            raise Unreadable(f"a string in its JSON holds an unknown escape: {written[:30]!r}", self.position) from None
        return value.encode("utf-8", "replace").decode()  # JSON can spell half a surrogate pair, no file can hold it

    def _number(self, written: str, start: int) -> int | float | str:
        if len(written) > _MOST_DIGITS:
            raise self._broken(start)
        if written.lstrip("-").isdigit():
            return int(written)
        return number if math.isfinite(number := float(written)) else written


def _as_in_double(match: re.Match[str]) -> str:
    """A piece of a string in single quotes as it is written in double quotes."""
    if match[1] is None:
        return '\\"'
    return "'" if match[1] == "'" else match[0]
