"""JSON of a file that may come from anywhere: how much there is of it is looked at before any value is made.

A few bytes of JSON become forty times as much memory: numbers in a list, lists in a list.
"""

import re
from collections.abc import Iterator
from typing import Any

import orjson

MOST_PARTS = 1_000_000
"""Strings, brackets and commas of one text; nothing that a run leaves comes near to that."""

_DEEPEST = 100
_PART = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)


def loads(text: bytes | memoryview | str) -> Any:
    """What a JSON text says; `ValueError` if it is none, or has more parts than `MOST_PARTS`."""
    if len(text) > MOST_PARTS:
        _check_parts(text.encode() if isinstance(text, str) else bytes(text))
    return orjson.loads(text)


def _check_parts(text: bytes) -> None:
    if sum(map(text.count, (b'"', b"[", b"{", b","))) <= MOST_PARTS:  # also those inside of strings, but at once
        return
    for number, _ in enumerate(_PART.finditer(text)):
        if number == MOST_PARTS:
            raise ValueError(f"it has more than {MOST_PARTS:,} strings, brackets and commas")


def is_shallow(value: Any) -> bool:
    """Whether nothing in it is nested so deep that those who walk through it would fail."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return True
    return False


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value
