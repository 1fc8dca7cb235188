"""Redaction of texts and JSON values: known secrets, and texts that match a pattern of secrets.

A secret becomes `[secret]` in every context, so that a redacted question matches its redacted recording. Prose about
keys and tokens is unchanged. Redaction is repeated until nothing changes; its time is linear in the length of the text.
"""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from artifactflow_nb.core.redaction.names import MASK, is_secret
from artifactflow_nb.core.redaction.patterns import FORMS, pattern_form

SHORTEST = 4
SHORTEST_WORD = 8
"""A known secret of fewer letters is a placeholder such as EMPTY; redacting it would remove ordinary words."""

_MAX_PASSES = 16
_CACHE_SIZE = 512
_URL_SAFE = str.maketrans("+/", "-_")
_SECRET = re.compile(r"""[^\s"'`<>(){},;&|\\]{4,4096}+""")
"""The longest text that can be a single secret."""

T = TypeVar("T")


class Redactor:
    """Replaces secrets in texts and values.

    Args:
        secrets: Known secret values; a value of fewer than 4 characters, or 8 if all are letters, is a placeholder.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known = spellings_of(secrets)
        known_forms = (pattern_form(spelling, pattern=spelling_pattern(spelling)) for spelling in self._known)
        self._forms = (*known_forms, *FORMS)
        self._cached = lru_cache(_CACHE_SIZE)(self._redact)

    def __repr__(self) -> str:
        return f"Redactor(<{len(self._known)} known>)"

    def text(self, text: str) -> str:
        """Redact a text."""
        return self._cached(text)

    def redact_value(self, value: T) -> T:
        """Redact the texts of a JSON value, and the values next to names of secrets."""
        redacted: Any = self._value(value)
        return redacted  # type: ignore[no-any-return]

    def with_recorded_texts(self, recorded: T, now: T) -> T:
        """Copy the current value; a text that differs from the recorded text only in secrets becomes the recorded text.

        The result does not depend on which secrets were known when the value was recorded, or are known now.
        """
        value: Any = self._with_recorded_texts(recorded, now)
        return value  # type: ignore[no-any-return]

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                self.text(name): MASK if isinstance(item, str) and is_secret(name, item) else self._value(item)
                for name, item in value.items()
            }
        return [self._value(item) for item in value] if isinstance(value, list | tuple) else value

    def _with_recorded_texts(self, recorded: Any, now: Any) -> Any:
        if type(now) is not type(recorded) or now == recorded:
            return now
        if isinstance(now, str):
            masked, before = self.text(now), self.text(recorded)
            pairs = ((recorded, masked), (recorded, now), (before, masked))
            return recorded if recorded == masked or any(is_same_text(*pair) for pair in pairs) else now
        if isinstance(now, Mapping):
            return {
                self.text(name): MASK
                if isinstance(item, str) and is_secret(name, item)
                else self._with_recorded_texts(recorded.get(self.text(name), recorded.get(name)), item)
                for name, item in now.items()
            }
        if is_dataclass(now) and not isinstance(now, type):
            names = [field.name for field in fields(now)]
            return replace(
                now, **{name: self._with_recorded_texts(getattr(recorded, name), getattr(now, name)) for name in names}
            )
        if isinstance(now, list | tuple) and len(now) == len(recorded):
            return type(now)(map(self._with_recorded_texts, recorded, now))
        return now

    def _redact(self, text: str) -> str:
        for _ in range(_MAX_PASSES):
            before = text
            for form in self._forms:
                if any(sign in text for sign in form.signs) and (spans := list(form.find(text))):
                    pieces, position = [], 0
                    for start, end in spans:
                        pieces += [text[position:start], MASK]
                        position = end
                    text = "".join([*pieces, text[position:]])
            if text == before:
                break
        return text


def is_searchable(secret: str) -> bool:
    """Return whether texts are searched for a known secret; placeholders and parts of the mask are not."""
    secret = secret.strip()
    return _is_long_enough(secret) and secret not in MASK and MASK not in secret


def _is_long_enough(secret: str) -> bool:
    return len(secret) >= SHORTEST_WORD or (len(secret) >= SHORTEST and not secret.isalpha())


def spellings_of(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return all spellings of the searchable secrets, the longest first: raw, in JSON, addresses, HTML and base64."""
    spellings = {text for secret in secrets if is_searchable(secret) for text in _spellings(secret.strip())}
    return tuple(sorted(spellings, key=lambda spelling: (-len(spelling), spelling)))


def spelling_pattern(spelling: str) -> str:
    """Return the regular expression for a spelling; a short spelling matches whole words only."""
    pattern = re.escape(spelling)
    return pattern if len(spelling) >= SHORTEST_WORD else rf"(?<![^\W_]){pattern}(?![^\W_])"


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    for spelled in (json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
        yield spelled[1:-1]
    yield quote(secret, safe="", errors="replace")
    yield quote_plus(secret, errors="replace")
    yield html.escape(secret)
    data = secret.encode("utf-8", "replace")
    for shift, skipped in enumerate((0, 2, 3)):  # base64 after a user of unknown length, as in `Basic` credentials
        padded = base64.b64encode(b"\0" * shift + data).decode()[skipped:]
        for text in (padded, padded.rstrip("="), padded[: (shift + len(data)) * 4 // 3 - skipped]):
            if len(text) >= SHORTEST_WORD:
                yield from (text, text.translate(_URL_SAFE), quote(text, safe=""))


def is_same_text(recorded: str, now: str) -> bool:
    """Return whether two texts are equal if each mask in `recorded` stands for one secret in `now`.

    A mask stands for no spaces, quotes, brackets or separators: no mask hides a change of the text around a secret.
    """
    first, *pieces = recorded.split(MASK)
    if not pieces or not now.startswith(first):
        return recorded == now
    at = len(first)
    for part in pieces[:-1]:
        if not part:  # adjacent masks count as one
            continue
        secret = _SECRET.match(now, at)
        position = now.find(part, at + SHORTEST, secret.end() + len(part)) if secret is not None else -1
        if position < 0 or not _may_be_secret(now, at, position):
            return False
        at = position + len(part)
    return now.endswith(pieces[-1]) and _may_be_secret(now, at, len(now) - len(pieces[-1]))


def _may_be_secret(now: str, start: int, end: int) -> bool:
    secret = _SECRET.match(now, start, end) if start < end else None
    return secret is not None and secret.end() == end and _is_long_enough(now[start:end])
