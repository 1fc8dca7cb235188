"""Lenient JSON reader for tool calls.

It accepts deviations that are unambiguous: single quotes, bare keys, trailing commas, raw line breaks, Python's True
and None, Gemma's quotes, and missing braces before a closing tag. It rejects ambiguous JSON: unterminated strings,
unescaped quotes, unknown escapes and duplicate keys. Libraries for broken JSON guess values instead. One pass writes
strict JSON, which the standard library reads.
"""

import json
import math
import re
from typing import Any, Final

_TOKEN = re.compile(
    r"""[\s\ufeff\u200b]*+(?:
    (?P<string>"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+'|<\|"\|>[^<]*+<\|"\|>|<escape>[^<]*+<escape>)
    |(?P<number>-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:e[+-]?+[0-9]++)?+)(?![\w.])
    |(?P<word>-?+[A-Za-z_$][\w$]*+)
    |(?P<mark>[{}\[\]:,])
    |(?P<open>["'])
    |(?P<tag></(?:[\w-]++:)?+(?:tool_calls?|function_calls?|function|invoke|params|parameters|arguments)\b)
    |(?P<end>\Z))""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_QUOTE_IN_SINGLE = re.compile(r"""\\(.)|"()""", re.DOTALL)
_WORDS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}
_WORDS |= {word: word for word in ("NaN", "Infinity", "-Infinity")}
_COLON = re.compile(r"\s*+:")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_BRACKETS: Final = {"{": "}", "[": "]"}
_MAX_DEPTH = 60
_MAX_DIGITS = 300
_NAMES = ("name", "tool_name", "tool", "function", "action")
_ARGUMENTS = ("arguments", "parameters", "params", "args", "action_input", "input")
_SURE_ARGUMENTS = _ARGUMENTS[:3]
_CALL_KEYS = {"type", "id", "tool_call_id", *_NAMES, *_ARGUMENTS}


class AmbiguousCall(Exception):
    """A call cannot be read without guessing. The readers catch this error and report the reason to the model.

    Args:
        reason: The problem, in words for the model.
        position: Offset up to which the text certainly belongs to the call.
        is_complete: Whether the call ends at `position`; if not, its closing tag must still be found.
    """

    def __init__(self, reason: str, position: int, *, is_complete: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position
        self.is_complete = is_complete


def read_json(text: str, start: int) -> tuple[Any, int]:
    """Read the JSON value at `start` and return the value and its end; raise `AmbiguousCall` for ambiguous JSON."""
    strict: list[str] = []
    brackets: list[str] = []  # closing brackets that are still to come
    position = start
    while not strict or brackets:
        token = _TOKEN.match(text, position)
        kind = token.lastgroup if token else None
        at, end = (token.start(kind or 0), token.end()) if token else (position, position)
        if kind == "open":  # the rest of the text may be part of the string
            raise AmbiguousCall("a string in its JSON has no end", len(text))
        if kind == "tag" and set(brackets) == {"}"}:  # only braces can be missing: the call's closing tag follows
            strict += brackets
            position = at
            break
        source = token[kind or 0] if token else ""
        written: str | None = None  # the token as strict JSON, or None if it is misplaced
        match kind:
            case "string" if source[0] == "<":  # between Gemma's quotes, everything is as it is written
                written = json.dumps(re.sub(r'<\|"\|>|<escape>', "", source))
            case "string" if source[0] == "'":  # escape double quotes, unescape single quotes
                body = _QUOTE_IN_SINGLE.sub(
                    lambda match: '\\"' if match[1] is None else "'" if match[1] == "'" else match[0], source[1:-1]
                )
                written = f'"{body}"'
            case "word" if brackets and brackets[-1] == "}" and _COLON.match(text, end):
                written = json.dumps(source)
            case "word":
                written = _WORDS.get(source)
            case "mark" if source in _BRACKETS:
                brackets.append(_BRACKETS[source])
                written = source if len(brackets) <= _MAX_DEPTH else None
            case "mark" if source in "}]":
                written = source if brackets and brackets.pop() == source else None
            case "string" | "number" | "mark" if kind != "number" or len(source) <= _MAX_DIGITS:
                written = source
        follows_value = bool(strict) and strict[-1] not in {"{", "[", ":", ","}
        if written is None or (follows_value and written not in {"}", "]", ":", ","}):
            raise AmbiguousCall(f"its JSON is invalid at {text[at : at + 30]!r}", at)
        if written in {"}", "]"} and strict[-1] == ",":
            strict.pop()
        strict.append(written)
        position = end
    return _load("".join(strict), position), position


def _load(joined: str, position: int) -> Any:
    """Decode strict JSON; `position` is the end of the JSON in the text."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for key, value in pairs:
            if key in fields:
                raise AmbiguousCall(f"its JSON has two values for {key!r}", position)
            fields[key] = value
        return fields

    try:
        value = json.loads(joined, strict=False, object_pairs_hook=unique, parse_float=_number, parse_constant=str)
    except json.JSONDecodeError as error:
        problem = "has an unknown escape" if "escape" in error.msg else "is invalid"
        quote = joined[max(error.pos - 1, 0) : error.pos + 30]
        raise AmbiguousCall(f"its JSON {problem} at {quote!r}", position) from None
    return storable_json(value) if _SURROGATE.search(joined) else value


def storable_json(value: Any) -> Any:
    """Replace lone surrogates, which UTF-8 cannot encode; `ValueError` or `TypeError` for a value that is not JSON."""
    return json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"))


def _number(written: str) -> float | str:
    return number if math.isfinite(number := float(written)) else written


def parse_calls(value: Any, position: int) -> list[tuple[str, dict[str, Any]]]:
    """Convert a JSON value to calls, as names and parameters; `AmbiguousCall` for any other value."""
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
        keys = [
            name for name in _ARGUMENTS if name in entry and (name in _SURE_ARGUMENTS or isinstance(entry[name], dict))
        ]
        if len(keys) > 1:
            raise AmbiguousCall(f"it has both `{keys[0]}` and `{keys[1]}`", position)
        if keys:
            arguments = _arguments(entry[keys[0]], keys[0], position)
        else:  # the parameters are siblings of the name
            arguments = {name: value for name, value in entry.items() if name not in {key, "type"}}
        calls.append((entry[key], arguments))
    return calls


def is_bare_call(value: Any) -> bool:
    """Return whether JSON outside of tags looks like calls only: a name, an object of arguments and nothing else."""
    entries = value if isinstance(value, list) else [value]
    functions = [entry.get("function") if isinstance(entry, dict) else None for entry in entries]
    calls = [inner if isinstance(inner, dict) else entry for inner, entry in zip(functions, entries, strict=True)]
    return bool(calls) and all(
        isinstance(call, dict)
        and call.keys() <= _CALL_KEYS
        and any(isinstance(call.get(key), str) for key in _NAMES)
        and any(isinstance(call.get(key), dict) for key in _ARGUMENTS)
        for call in calls
    )


def _arguments(value: Any, key: str, position: int) -> dict[str, Any]:
    """Return the arguments as an object; some models write a string of JSON instead."""
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
