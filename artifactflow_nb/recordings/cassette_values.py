"""Recorded values as plain JSON and back, what was said apart from when, and long texts by their hashes.

::

    RecordedTurn ──> what was said: {"path": "main", "reply": {"content": {"$": "9f86d081884c7d65"}, ...}, ...}
                └──> when:          {"started_at": 1200, "reply": {"ttft_ms": 310.5}, ...}

A field that has its default is left out. What is read may come from anywhere: every value is held against the type of
its field, and whatever does not fit is a `ValueError`.
"""

import hashlib
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from artifactflow_nb.messages import Message
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.recordings.graph_steps import GraphStep
from artifactflow_nb.recordings.grown import Grown
from artifactflow_nb.recordings.values import HandWritten, RecordedAsk, RecordedCall, RecordedRun, RecordedTurn

LONGEST_INLINE = 200
"""Characters of the longest text that stands where it is used."""

_HASH_DIGITS = 16
_DEEPEST = 100
_LARGEST = 2**63
_US = timedelta(microseconds=1)
_PER_MS = 1000
_LISTS = (list, tuple)

_WHEN: Mapping[type, frozenset[str]] = {
    RecordedRun: frozenset({"ends"}),
    HandWritten: frozenset({"at"}),
    RecordedTurn: frozenset({"started_at", "completed_at", "duration_ms"}),
    ModelReply: frozenset({"ttft_ms"}),
    RecordedCall: frozenset({"called_at", "completed_at", "duration_ms"}),
    RecordedAsk: frozenset({"asked_at", "decided_at", "told_at"}),
    GraphStep: frozenset({"seq", "at"}),
}
"""What differs between two recordings of the same content."""

_APART: Mapping[type, frozenset[str]] = {
    RecordedRun: frozenset({"turns", "started_at", "order"}),
    RecordedTurn: frozenset({"pieces"}),
}
"""Fields with a form of their own, which the lines give them."""

_SORTED = frozenset({"settings", "manifest"})
"""Made by code, in an order that says nothing. In what a model or a tool wrote the order is part of what was said."""

T = TypeVar("T")
JsonObject = dict[str, Any]


def text_key(text: str) -> str:
    """Under what a text is kept: the first 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


@dataclass(frozen=True, slots=True)
class _Part:
    """A field of a dataclass: its name, its type, its default (`MISSING` if it has none), and whether it says when."""

    name: str
    kind: Any
    default: Any
    is_when: bool


@cache
def _parts(kind: Any) -> tuple[_Part, ...]:
    hints, when, apart = get_type_hints(kind), _WHEN.get(kind, frozenset()), _APART.get(kind, frozenset())
    return tuple(
        _Part(field.name, hints[field.name], _default(field), field.name in when)
        for field in fields(kind)
        if field.name not in apart
    )


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


# --- to JSON ---------------------------------------------------------------------------------------------------------


class Packing:
    """Makes JSON of values.

    Args:
        start: The run's start; times are milliseconds since then.
        texts: The long texts so far, by their keys; those of the values are added.
    """

    def __init__(self, start: datetime, texts: dict[str, str]) -> None:
        self._start = start
        self._texts = texts
        self._kept: dict[str, Any] = {}
        self._messages: dict[Message, JsonObject] = {}
        self._sent = Grown(self._message)

    def split(self, value: Any) -> tuple[JsonObject, JsonObject]:
        """A value as two objects: what was said, and when.

        Errors: `ValueError` that names the field, for what JSON cannot hold.
        """
        said: JsonObject = {}
        when: JsonObject = {}
        kind: Any = type(value)
        for part in _parts(kind):
            given = getattr(value, part.name)
            if part.default is not MISSING and given == part.default:
                continue
            if part.is_when:
                when[part.name] = self._when(given)
            elif hasattr(given, "__dataclass_fields__"):
                said[part.name], inner = self.split(given)
                when |= {part.name: inner} if inner else {}
            elif isinstance(given, tuple) and given and isinstance(given[0], Message):
                said[part.name] = list(self._sent(given))
            elif isinstance(given, tuple) and given and is_dataclass(given[0]):
                pairs = [self.split(each) for each in given]
                said[part.name] = [inner for inner, _ in pairs]
                when |= {part.name: [inner for _, inner in pairs]} if any(inner for _, inner in pairs) else {}
            else:
                said[part.name] = self.json(given, part.name)
        return said, when

    def _message(self, message: Message) -> JsonObject:
        """A message; most were sent in several turns."""
        if message.calls:
            return self.split(message)[0]
        if (known := self._messages.get(message)) is None:
            known = self._messages[message] = self.split(message)[0]
        return known

    def _when(self, given: Any) -> Any:
        if isinstance(given, tuple):
            return [self.since(each) for each in given]
        return self.since(given) if isinstance(given, datetime) else self.json(given, "a duration")

    def since(self, moment: datetime) -> int | float:
        """Milliseconds since the start: a whole number, unless the time is finer than that."""
        us = (moment - self._start) // _US
        return us / _PER_MS if us % _PER_MS else us // _PER_MS

    def text(self, text: str) -> Any:
        """A text, or where it is kept; a text whose key another one has, which only malice can bring about, stays."""
        if len(text) <= LONGEST_INLINE:
            return text
        if (kept := self._kept.get(text)) is None:
            key = text_key(text)
            kept = self._kept[text] = {"$": key} if self._texts.setdefault(key, text) == text else text
        return kept

    def json(self, value: Any, where: str, depth: int = 0) -> Any:
        """Plain JSON with its long texts elsewhere; a name in it that begins with `$` gets another one."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool) or _is_number(value):
            return value
        if depth > _DEEPEST:
            raise ValueError(f"{where} is nested more than {_DEEPEST} deep")
        if isinstance(value, Mapping):
            names = sorted(value, key=str) if where in _SORTED else value
            return {_escaped(name, where): self.json(value[name], where, depth + 1) for name in names}
        if isinstance(value, _LISTS):
            return [self.json(item, where, depth + 1) for item in value]
        raise ValueError(f"{where} holds {value!r:.80}, which JSON cannot hold")


def _escaped(name: Any, where: str) -> str:
    if not isinstance(name, str):
        raise ValueError(f"{where} holds the name {name!r:.80}, which is no text")  # noqa: TRY004 - a value of JSON
    return f"${name}" if name.startswith("$") else name


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return -_LARGEST <= value < 2 * _LARGEST
    return isinstance(value, float) and math.isfinite(value)


# --- from JSON -------------------------------------------------------------------------------------------------------


class Unpacking:
    """Makes values of JSON.

    Args:
        start: The run's start.
        text_of: Gives the text of a key; `ValueError` if there is none.
    """

    def __init__(self, start: datetime, text_of: Callable[[str], str]) -> None:
        self._start = start
        self._text_of = text_of

    def value(self, kind: type[T], said: Any, when: Any, **apart: Any) -> T:
        """The value that `split` was given, with the fields that have a form of their own."""
        whole: Any = kind
        parts = _parts(whole)
        _check_names(kind, said, [part.name for part in parts if not part.is_when])
        _check_names(kind, when, [part.name for part in parts])
        given = dict(apart)
        for part in parts:
            raw = (when if part.is_when else said).get(part.name, MISSING)
            if raw is not MISSING:
                given[part.name] = self._field(part, raw, None if part.is_when else when.get(part.name))
            elif part.default is MISSING:
                raise ValueError(f"{part.name} is missing")
        return kind(**given)

    def _field(self, part: _Part, raw: Any, when: Any) -> Any:
        try:
            return self._typed(part.kind, raw, when)
        except TypeError:
            raise ValueError(f"{part.name} is {raw!r:.80}, which does not fit") from None

    def _typed(self, kind: Any, raw: Any, when: Any) -> Any:
        """A value of a type, `TypeError` if it is none; `when` says the times of what has some."""
        if is_dataclass(kind):
            return self.value(kind, raw, when or {})  # type: ignore[arg-type]  # a dataclass is a type here
        origin = get_origin(kind)
        if origin in {types.UnionType, Union}:
            return None if raw is None else self._typed(get_args(kind)[0], raw, when)
        if origin is tuple:
            item, items = get_args(kind)[0], _list(raw)
            times = [None] * len(items) if when is None else _list(when)
            return tuple(self._typed(item, each, time) for each, time in zip(items, times, strict=True))
        if origin is Literal:
            return _one_of(get_args(kind), raw)
        return self.json_object(raw) if origin is not None else self._single(kind, raw)

    def _single(self, kind: Any, raw: Any) -> Any:
        if kind is str:
            return self.text(raw)
        return self.moment(raw) if kind is datetime else _plain(kind, raw)

    def moment(self, raw: Any) -> datetime:
        """The time so many milliseconds after the start."""
        ms: float = _plain(float, raw)
        return self._start + round(ms * _PER_MS) * _US

    def text(self, raw: Any) -> str:
        """A text that is given or kept elsewhere."""
        if isinstance(raw, str):
            return raw
        if isinstance(raw, dict) and list(raw) == ["$"] and isinstance(raw["$"], str):
            return self._text_of(raw["$"])
        raise TypeError(raw)

    def json_object(self, raw: Any) -> JsonObject:
        """A JSON object, as it was given to `Packing.json`."""
        found = self.json(raw)
        if not isinstance(found, dict):
            raise TypeError(raw)
        return found

    def json(self, raw: Any, depth: int = 0) -> Any:
        """JSON, as it was given to `Packing.json`."""
        if depth > _DEEPEST:
            raise ValueError(f"JSON is nested more than {_DEEPEST} deep")
        if isinstance(raw, list):
            return [self.json(item, depth + 1) for item in raw]
        if not isinstance(raw, dict):
            return raw
        if "$" in raw:
            return self.text(raw)
        return {name[name.startswith("$") :]: self.json(item, depth + 1) for name, item in raw.items()}


def _check_names(kind: type, raw: Any, known: list[str]) -> None:
    if not isinstance(raw, dict):
        raise TypeError(raw)
    if unknown := sorted(raw.keys() - set(known)):
        raise ValueError(f"{unknown[0]!r} is not known of a {kind.__name__}")


def _list(raw: Any) -> list[Any]:
    if not isinstance(raw, list):
        raise TypeError(raw)
    return raw


def _one_of(allowed: tuple[Any, ...], raw: Any) -> Any:
    if not isinstance(raw, str) or raw not in allowed:
        raise TypeError(raw)
    return raw


def _plain(kind: type, raw: Any) -> Any:
    """A number or a truth value of exactly that type; a whole number may stand for a float."""
    if type(raw) is kind or (kind is float and type(raw) is int):
        return raw
    raise TypeError(raw)


def start_of(raw: Any) -> datetime:
    """The run's start from its ISO form; `ValueError` if it is none, or not aware."""
    moment = datetime.fromisoformat(raw) if isinstance(raw, str) else None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"the start {raw!r:.80} is no time in ISO format with its offset")
    return moment.astimezone(UTC)
