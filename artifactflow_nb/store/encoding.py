"""Rows: their conversion from and to values, and their insertion.

SQLite and JSON hold no lone surrogates and only 64-bit integers. A column has the name of its field; `from_row` and
`to_row` convert times, whose names end in `_at`.
"""

import sqlite3
from collections.abc import Mapping
from datetime import datetime
from operator import index
from typing import Any, TypeVar

import orjson

from artifactflow_nb.core.bounded_json import is_deeper
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.errors import UsageError
from artifactflow_nb.store.migrations import from_microseconds, to_microseconds
from artifactflow_nb.store.texts import packed_row

T = TypeVar("T")

_INTEGER_LIMIT = 2**63

MAX_DEPTH = 60
"""Most levels of nesting of JSON that enters a run: readers of files accept 100, and the store wraps some around it."""

_CONTAINERS = (Mapping, list, tuple, set, frozenset)
_TOO_DEEP = f"[left out: nested deeper than {MAX_DEPTH} levels]"


def storable_number(number: object) -> int | None:
    """The number as an int, also from numpy, if a column can hold it; else None, which in SQL equals nothing."""
    try:
        integer = index(number)  # type: ignore[arg-type]  # raises TypeError for anything else
    except TypeError:
        return None
    return integer if -_INTEGER_LIMIT <= integer < _INTEGER_LIMIT else None


def validate_row_count(name: str, number: object) -> int:
    """Check a LIMIT or OFFSET; `UsageError` with the argument's name unless it is a non-negative 64-bit integer."""
    if (integer := storable_number(number)) is None or integer < 0:
        raise UsageError(f"{name} is {number!r}; it must be a whole number from 0 to {_INTEGER_LIMIT - 1:,}.")
    return integer


def to_json(value: Any) -> str:
    """Encode as compact JSON; values that JSON cannot hold become strings."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return orjson.dumps(_storable(value)).decode()


def storable_json(value: Any) -> Any:
    """The value as it would be read back from a store: JSON values only, nested at most `MAX_DEPTH` levels."""
    return orjson.loads(to_json(_storable(value) if is_too_deep(value) else value))


def is_too_deep(value: Any) -> bool:
    """Whether a value has more than `MAX_DEPTH` levels below its outermost container, or contains itself."""
    return is_deeper(value, MAX_DEPTH + 1)


def from_row(cls: type[T], row: sqlite3.Row | Mapping[str, Any], **values: Any) -> T:
    """Create a dataclass from the columns that have the names of its fields.

    Args:
        cls: The dataclass.
        row: The row.
        values: Fields that are not columns of the row.
    """
    for name in cls.__dataclass_fields__:  # type: ignore[attr-defined]
        if name not in values:
            column = row[name]
            is_time = name.endswith("_at") and column is not None
            values[name] = from_microseconds(column) if is_time else column
    return cls(**values)


def to_row(value: Any, *, omit: tuple[str, ...] = (), **columns: Any) -> dict[str, Any]:
    """The columns of a dataclass, without the fields in `omit`, and further columns."""
    for name in value.__dataclass_fields__:
        if name not in omit:
            field = getattr(value, name)
            columns[name] = to_microseconds(field) if isinstance(field, datetime) else field
    return columns


def insert(db: sqlite3.Connection, table: str, row: Mapping[str, Any], *, or_ignore: bool = False) -> bool:
    """Insert a row, a mapping of columns to values, with long texts packed; return whether it was inserted.

    The table and the columns go into the statement unquoted, so they must be constants of this package.
    """
    verb = "INSERT OR IGNORE" if or_ignore else "INSERT"
    columns = ", ".join(row)
    placeholders = ", ".join("?" * len(row))
    values = tuple(packed_row(db, table, row).values())
    cursor = db.execute(f"{verb} INTO {table} ({columns}) VALUES ({placeholders})", values)
    return cursor.rowcount == 1


def _storable(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, _CONTAINERS) and depth > MAX_DEPTH:
        return _TOO_DEEP
    if isinstance(value, Mapping):
        return {storable_text(str(key)): _storable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_storable(item, depth + 1) for item in value]
    if isinstance(value, int) and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
        return str(value)
    return value if isinstance(value, int | float | bool | None) else storable_text(str(value))
