"""Every field of plain JSON, and the same JSON with something else in one of them."""

import json
from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]

VALUES: tuple[Any, ...] = (None, "", -1, True, [], {}, "x" * 300, 1e308, ["x"], {"x": 1})
ENDLESS = "endless"
"""Stands for a number that no other JSON has: `1e999`."""


def fields(value: Any, at: Place = ()) -> Iterator[Place]:
    """Where its fields are; of a list only the first of those that are alike, since the others are read as it is."""
    if at:
        yield at
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from fields(inner, (*at, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value[:2]):
            yield from fields(inner, (*at, number))


def replaced(value: Any, at: Place, new: Any) -> Any:
    """The same with something else in that place; `...` takes it away."""
    first, *rest = at
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rest:
        copy[first] = replaced(value[first], tuple(rest), new)
    elif new is ...:
        copy.pop(first)
    else:
        copy[first] = new
    return copy


def dumped(value: Any) -> str:
    """As JSON, with the number that is none."""
    return json.dumps(value, ensure_ascii=False).replace(f'"{ENDLESS}"', "1e999")
