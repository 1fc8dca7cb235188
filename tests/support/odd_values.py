"""Mutations of JSON: the same document with another value in one place."""

import json
from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]

VALUES: tuple[Any, ...] = (None, "", -1, True, [], {}, "x" * 300, 1e308, ["x"], {"x": 1})
ENDLESS = "endless"
"""A placeholder for the number `1e999`."""


def places_of(value: Any, at: Place = ()) -> Iterator[Place]:
    """The paths of all values; of a list only the first two, since the others are read in the same way."""
    if at:
        yield at
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places_of(inner, (*at, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value[:2]):
            yield from places_of(inner, (*at, number))


def odd_values(n: int, shape: int) -> list[Any]:
    """A sample of odd values, different for each shape; `...` stands for a missing value."""
    values = [*VALUES, ENDLESS, ...]
    return [values[(shape + number * 5) % len(values)] for number in range(n)]


def replaced(value: Any, at: Place, new: Any) -> Any:
    """Copy the JSON with another value at a path; `...` removes the value."""
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
    """Encode the JSON, with `1e999` for its placeholder."""
    return json.dumps(value, ensure_ascii=False).replace(f'"{ENDLESS}"', "1e999")
