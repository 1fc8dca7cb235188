"""Takes secrets out of what is recorded: those that are known, and whatever has the form of one.

A secret becomes `[secret]`, in the same way wherever it stands, so that a masked request still finds its masked
recording. What no program would take for a secret stays as it is: prose that speaks of keys and tokens is prose. Each
text is masked until nothing changes any more; masking it again changes nothing. The time grows with the text's length.
"""

import base64
import html
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, Self, TypeVar
from urllib.parse import quote, quote_plus

from artifactflow_nb.messages import Message
from artifactflow_nb.recordings.grown import Grown
from artifactflow_nb.recordings.identity import Ask, Asked
from artifactflow_nb.recordings.masked import SHORTEST_WORD, is_long_enough, is_masked
from artifactflow_nb.recordings.pieces import KeptPieces, Piece
from artifactflow_nb.recordings.secret_forms import FORMS
from artifactflow_nb.recordings.secret_names import MASK, is_secret, is_secret_variable
from artifactflow_nb.recordings.secret_shapes import Form
from artifactflow_nb.recordings.values import RecordedRun
from artifactflow_nb.settings import Settings

_MOST_PASSES = 16
_REMEMBERED = 512

_NEVER = frozenset(
    {
        *("run_id", "conversation_id", "message_id", "thread_id", "parent_message_id", "path", "order"),
        *("flow", "status", "role", "kind", "about", "scope", "decided_by", "tool_protocol", "tool_choice"),
        *("package_version",),
    }
)
"""Fields that are this package's own words."""

_PLAIN = (int, float, datetime)
_LISTS = (tuple, list, KeptPieces)
"""Kinds of values, told apart thousands of times a run: a union would be made each time."""

T = TypeVar("T")
_Span = tuple[int, int]


class Masker:
    """Masks texts, runs and prompts.

    Args:
        secrets: Values that are secret. Placeholders of fewer than 8 letters, or 4 characters, are not looked for.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {form for secret in secrets if _is_one(secret) for form in _spellings(secret.strip())}
        self._known = tuple(sorted(known, key=lambda secret: (-len(secret), secret)))
        self._forms = (*(Form(secret, _of(secret)) for secret in self._known), *FORMS)
        self._remembered = lru_cache(_REMEMBERED)(self._fixed)
        self._plain = lru_cache(_REMEMBERED)(self._fields)
        self._sent = Grown(self._value)

    @classmethod
    def of(cls, settings: Settings, environment: Mapping[str, str], keys_of_models: Iterable[str] = ()) -> Self:
        """A masker for keys of settings, models and servers, and for variables whose names say that they are secret."""
        keys = [key.get_secret_value() for key in (settings.api_key, settings.tavily_key) if key is not None]
        keys += (secret for server in settings.mcp.values() for secret in server.secrets(environment))
        told = (value for name, value in environment.items() if is_secret_variable(name, value))
        return cls([*keys, *told, *keys_of_models])

    def __repr__(self) -> str:
        return f"Masker(<{len(self._known)} known>)"

    def text(self, text: str) -> str:
        """A text without its secrets."""
        return self._remembered(text)

    def run(self, run: RecordedRun) -> RecordedRun:
        """A run without the secrets in its texts; of text that came in pieces, those that several pieces share too."""
        masked: RecordedRun = self._value(run)
        return masked

    def masked(self, value: T) -> T:
        """A prompt, a result or any other value without the secrets in its texts."""
        masked: T = self._value(value)
        return masked

    def compared(self, recorded: T, now: T) -> tuple[T, T]:
        """A recorded value and the one of now, equal if they differ in nothing but secrets.

        It matters neither which secrets were known where the one was recorded, nor which are known here. Values that
        differ are given without secrets, to be told.
        """
        alike = self.worded(recorded, now)
        if alike == recorded:
            return recorded, recorded
        return self.masked(recorded), self.masked(alike)

    def worded(self, recorded: T, now: T) -> T:
        """The value of now; what of it is as recorded but for secrets is as it is recorded."""
        worded: T = self._like(recorded, now)
        return worded

    def ask(self, asked: Asked) -> Ask:
        """What was asked without the secrets in it: so it has the key of its masked recording."""
        settings = self.masked(asked.settings)
        return Ask(self.text(asked.question), asked.flow, settings, asked.message_id, asked.parent_message_id)

    # --- values ---

    def _like(self, recorded: Any, now: Any) -> Any:
        if now == recorded:
            return recorded
        if isinstance(now, Mapping) and isinstance(recorded, Mapping):
            return {self.text(name): self._like_named(name, recorded, item) for name, item in now.items()}
        return self._like_its_kind(recorded, now) if type(now) is type(recorded) else now

    def _like_its_kind(self, recorded: Any, now: Any) -> Any:
        if isinstance(now, str):
            return recorded if self._is_same(recorded, now) else now
        if is_dataclass(now) and not isinstance(now, type):
            kind: Any = type(now)
            named = {name: self._like(getattr(recorded, name), getattr(now, name)) for name in _names(kind)}
            return replace(now, **named)
        if isinstance(now, tuple | list) and len(now) == len(recorded):
            return type(now)(map(self._like, recorded, now))
        return now

    def _like_named(self, name: str, recorded: Mapping[str, Any], value: Any) -> Any:
        if isinstance(value, str) and is_secret(name, value):
            return MASK
        masked = self.text(name)
        return self._like(recorded[masked], value) if masked in recorded else value

    def _is_same(self, recorded: str, now: str) -> bool:
        masked = self.text(now)
        return recorded == masked or any(
            is_masked(before, after)
            for before, after in ((recorded, masked), (recorded, now), (self.text(recorded), masked))
        )

    def _value(self, value: Any) -> Any:
        """A value whose texts are masked; the same object if nothing had to be."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, _PLAIN):
            return value
        if hasattr(value, "__dataclass_fields__"):
            is_plain = isinstance(value, Message) and not value.calls  # most were sent in several turns
            remembered: Any = self._plain
            return remembered(value) if is_plain else self._fields(value)
        if isinstance(value, _LISTS):
            return self._items(value)
        if isinstance(value, Mapping):
            return {self.text(name): self._named(name, item) for name, item in value.items()}
        return value

    def _items(self, values: Sequence[Any]) -> Sequence[Any]:
        first = None if isinstance(values, KeptPieces) or not values else values[0]
        if isinstance(values, KeptPieces) or isinstance(first, Piece):
            return self._pieces(values)
        if isinstance(first, Message):
            return self._sent(values)
        made: Sequence[Any] = [self._value(value) for value in values]
        return tuple(made) if isinstance(values, tuple) else made

    def _named(self, name: str, value: Any) -> Any:
        return MASK if isinstance(value, str) and is_secret(name, value) else self._value(value)

    def _fields(self, value: Any) -> Any:
        changed = {}
        kind: Any = type(value)
        for name in _names(kind):
            before = getattr(value, name)
            if (after := self._value(before)) is not before and after != before:
                changed[name] = after
        return replace(value, **changed) if changed else value

    def _pieces(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Pieces that make up the masked text: what stands for a secret is in the piece in which that began."""
        if isinstance(pieces, KeptPieces) and all(self.text(said) == said for said in pieces.said):
            return pieces
        masked = list(pieces)
        for kind in {piece.kind for piece in pieces}:
            places = [index for index, piece in enumerate(pieces) if piece.kind == kind]
            whole = "".join(pieces[index].text for index in places)
            if self.text(whole) == whole:
                continue
            ends, at = [0], 0
            for index in places:
                at += len(pieces[index].text)
                ends.append(at)
            text, ends = self._moved(whole, ends)
            for index, start, end in zip(places, ends, ends[1:], strict=False):
                masked[index] = pieces[index]._replace(text=text[start:end])
        return tuple(masked)

    # --- texts ---

    def _fixed(self, text: str) -> str:
        return self._moved(text, [])[0]

    def _moved(self, text: str, places: list[int]) -> tuple[str, list[int]]:
        """The masked text, and where places in the text are in it; a place inside a secret is behind what masks it."""
        for _ in range(_MOST_PASSES):
            before = text
            for form in self._forms:
                if form.sign in text and (spans := list(form.find(text))):
                    places = [_after(place, spans) for place in places] if places else places
                    text = _replaced(text, spans)
            if text == before:
                break
        return text, places


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name not in _NEVER)


def _of(secret: str) -> Callable[[str], Iterator[_Span]]:
    """Finds a known secret."""

    def find(text: str) -> Iterator[_Span]:
        at = text.find(secret)
        while at >= 0:
            end = at + len(secret)
            if len(secret) >= SHORTEST_WORD or not _inside_word(text, at, end):
                yield at, end
            at = text.find(secret, end)

    return find


def _inside_word(text: str, start: int, end: int) -> bool:
    return text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()


def _replaced(text: str, spans: Iterable[_Span]) -> str:
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], MASK]
        at = end
    return "".join([*parts, text[at:]])


def _after(place: int, spans: list[_Span]) -> int:
    """Where a place is once these parts are masked."""
    n_before = bisect_right(spans, place, key=lambda span: span[1])
    gained = sum(len(MASK) - (end - start) for start, end in spans[:n_before])
    if n_before < len(spans) and spans[n_before][0] < place:
        return spans[n_before][0] + gained + len(MASK)
    return place + gained


def _is_one(secret: str) -> bool:
    """Whether a value is to be looked for: it is no placeholder, and no part of what stands for a secret."""
    secret = secret.strip()
    return is_long_enough(secret) and secret not in MASK and MASK not in secret


def _spellings(secret: str) -> Iterator[str]:
    """A secret as it is, and as it stands in JSON, in an address, in HTML and in base64."""
    yield secret
    for spelled in (json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
        yield spelled[1:-1]
    yield quote(secret, safe="", errors="replace")
    yield quote_plus(secret, errors="replace")
    yield html.escape(secret)
    yield base64.b64encode(secret.encode("utf-8", "replace")).decode()
