"""What SQLite and JSON can hold: texts without lone surrogates, integers of 64 bits."""

from collections.abc import Mapping
from operator import index
from typing import Any

import orjson

from artifactflow_nb.errors import UsageError

_LARGEST = 2**63


def storable_text(text: str) -> str:
    """The text with every lone surrogate replaced by `?`; any other text as it is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def storable_number(number: object) -> int | None:
    """The whole number, numpy's too, if a column can hold it; else None, which in SQL equals nothing."""
    try:
        whole = index(number)  # type: ignore[arg-type]  # what is no number is told apart by the error
    except TypeError:
        return None
    return whole if -_LARGEST <= whole < _LARGEST else None


def row_count(name: str, number: object) -> int:
    """How many rows are asked for, or left out; `UsageError` with the argument's name for what can be no such count."""
    if (whole := storable_number(number)) is None or whole < 0:
        raise UsageError(f"{name} is {number!r}; it must be a whole number from 0 to {_LARGEST - 1:,}.")
    return whole


def to_json(value: Any) -> str:
    """Compact JSON text; what JSON cannot hold is made text."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return orjson.dumps(_storable(value)).decode()


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, Mapping):
        return {storable_text(str(key)): _storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_storable(item) for item in value]
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return str(value)
    return value if isinstance(value, int | float | bool | None) else storable_text(str(value))
