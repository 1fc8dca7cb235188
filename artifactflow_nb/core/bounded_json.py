"""Parsing of JSON from files of any origin, with limits on its number of parts and its nesting.

A few bytes of JSON can take forty times as much memory as values, for example as numbers in a list or lists in a list.
"""

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

import orjson

MAX_PARTS = 1_000_000
"""Most strings, brackets and commas of a text; the largest recorded runs have a fraction of that."""

_MAX_DEPTH = 100
_PART = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)
CONTAINERS = (Mapping, list, tuple, set, frozenset)


def loads(text: bytes | memoryview | str) -> Any:
    """Parse a JSON text; `ValueError` if it is invalid or has more parts than `MAX_PARTS`."""
    if len(text) > MAX_PARTS:
        data = text.encode() if isinstance(text, str) else bytes(text)
        # The first count includes the contents of strings, but it is fast and suffices for most texts.
        may_be_large = sum(map(data.count, (b'"', b"[", b"{", b","))) > MAX_PARTS
        if may_be_large and next(islice(_PART.finditer(data), MAX_PARTS, None), None) is not None:
            raise ValueError(f"it has more than {MAX_PARTS:,} strings, brackets and commas")
    return orjson.loads(text)


def loads_shallow(text: bytes) -> Any:
    """Parse a JSON text like `loads`; `ValueError` also if it is nested too deeply for recursive functions."""
    value = loads(text)
    # A text with few brackets, like nearly all, cannot be nested deeply.
    if text.count(b"[") + text.count(b"{") > _MAX_DEPTH and not is_shallow(value):
        raise ValueError("it is nested too deep")
    return value


def is_shallow(value: Any) -> bool:
    """Whether recursive functions can process a value without reaching Python's recursion limit."""
    return not is_deeper(value, _MAX_DEPTH)


def is_deeper(value: Any, levels: int) -> bool:
    """Whether a value consists of more than this number of levels of containers, or contains itself."""
    containers = [value] if isinstance(value, CONTAINERS) else []
    for _ in range(levels):
        # By id, so that shared containers do not multiply from level to level.
        inner = {
            id(item): item
            for outer in containers
            for item in (outer.values() if isinstance(outer, Mapping) else outer)
            if isinstance(item, CONTAINERS)
        }
        containers = list(inner.values())
        if not containers:
            return False
    return True
