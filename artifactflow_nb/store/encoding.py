"""Rows: their conversion from and to values, and their insertion.

SQLite and JSON cannot hold lone surrogates, nor integers of more than 64 bits. A column has the name of its field;
`from_row` and `to_row` convert times, whose names end in `_at`.

A column contains a short text unchanged, and a text of `LONG_BYTES` or more as a BLOB, whose first byte is its form::

    Z    the text, compressed by zlib
    R    the hash of a text in the table `texts`
    P    a compressed JSON list of texts and of slices [hash, start, end] of other texts; only in `texts`

The SQL function `stored_text(value)`, which every connection has, returns the text of any form. For deletion, the
table `text_uses` has the runs that use a text, and `text_parts` the texts whose slices another text uses.
"""

import hashlib
import re
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import index
from typing import Any, TypeVar

import orjson

from artifactflow_nb.core.local_files import CONTAINERS, is_deeper
from artifactflow_nb.core.plan import DELEGATING_TOOLS
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.errors import StoreError, UsageError, brief
from artifactflow_nb.store.schema import from_microseconds, to_microseconds

T = TypeVar("T")

_INTEGER_LIMIT = 2**63

MAX_DEPTH = 60
"""Most levels of nesting of JSON that enters a run: readers of files accept 100, and the store wraps some around it."""

LONG_BYTES = 256
"""Length in UTF-8 from which a text is compressed."""

_COMPRESSED, _REFERENCE, _PARTS = b"Z", b"R", b"P"
_LEVEL = 6  # 9 saves 1 per cent and takes twice the time
_PROBE_CHARS = 64  # a slice of another text is found by its first or last characters
_LEAST_SLICE = 256  # a shorter slice saves nothing

_COMPRESSED_COLUMNS = {
    "events": ("data_json",),
    "tool_calls": ("args_json",),
    "llm_calls": ("reasoning", "pieces_json", "provider_json"),
}
_SHARED_COLUMNS = {"tool_calls": ("result",), "llm_calls": ("content",)}
"""Columns by table whose long texts are in `texts`, because prompts repeat them."""
HASH_COLUMNS = {"llm_calls": ("request_json", "offer_json")}
"""Columns by table with JSON that contains hashes of texts."""
SHA256_PATTERN = re.compile(r"\b[0-9a-f]{64}\b")

PACKED_TABLES = frozenset({*_COMPRESSED_COLUMNS, *_SHARED_COLUMNS, "texts"})
"""The tables with columns that may hold BLOBs for texts."""

_TOO_DEEP = f"[left out: nested deeper than {MAX_DEPTH} levels]"


def storable_number(number: object) -> int | None:
    """Convert a number, also of numpy, to an int that a column can hold; any other number becomes None."""
    try:
        integer = index(number)  # type: ignore[arg-type]  # raises TypeError for anything else
    except TypeError:
        return None
    return integer if -_INTEGER_LIMIT <= integer < _INTEGER_LIMIT else None


def validate_row_count(name: str, number: object) -> int:
    """Check a LIMIT or OFFSET; `UsageError` with the argument's name for anything but a non-negative 64-bit integer."""
    if (integer := storable_number(number)) is None or integer < 0:
        raise UsageError(f"{name} is {brief(number)}; it must be a whole number from 0 to {_INTEGER_LIMIT - 1:,}.")
    return integer


def to_json(value: Any) -> str:
    """Encode as compact JSON; values that JSON cannot hold become strings."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return orjson.dumps(_storable(value)).decode()


def storable_json(value: Any) -> Any:
    """Return the value as it would be read back from a store: JSON values, nested at most `MAX_DEPTH` levels."""
    return orjson.loads(to_json(_storable(value) if is_too_deep(value) else value))


def is_too_deep(value: Any) -> bool:
    """Return whether a value has more than `MAX_DEPTH` levels below its outermost container, or contains itself."""
    return is_deeper(value, MAX_DEPTH + 1)


def from_row(cls: type[T], row: sqlite3.Row | Mapping[str, Any], **values: Any) -> T:
    """Create a dataclass from the columns that have the names of its fields."""
    for name in cls.__dataclass_fields__:  # type: ignore[attr-defined]
        if name not in values:
            column = row[name]
            is_time = name.endswith("_at") and column is not None
            values[name] = from_microseconds(column) if is_time else column
    return cls(**values)


def to_row(value: Any, *, omit: tuple[str, ...] = (), **columns: Any) -> dict[str, Any]:
    """Return the columns of a dataclass, without the fields in `omit`, and further columns."""
    for name in value.__dataclass_fields__:
        if name not in omit:
            field = getattr(value, name)
            columns[name] = to_microseconds(field) if isinstance(field, datetime) else field
    return columns


def insert(db: sqlite3.Connection, table: str, row: Mapping[str, Any], *, or_ignore: bool = False) -> bool:
    """Insert a row, a mapping of columns to values, with long texts packed; return whether the row is new.

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
    if isinstance(value, CONTAINERS) and depth > MAX_DEPTH:
        return _TOO_DEEP
    if isinstance(value, Mapping):
        return {storable_text(str(key)): _storable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_storable(item, depth + 1) for item in value]
    if isinstance(value, int) and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
        return str(value)
    return value if isinstance(value, int | float | bool | None) else storable_text(str(value))


# --- long texts ------------------------------------------------------------------------------------------------------


def sha256(text: str) -> str:
    """Return the hex digest that is the key of a text in `texts`."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def pack_text(text: str) -> str | bytes:
    """Return the value of a column for a text; a long text is compressed."""
    if len(text) * 4 < LONG_BYTES or len(data := text.encode()) < LONG_BYTES:
        return text
    return _COMPRESSED + zlib.compress(data, _LEVEL)


def unpack_text(value: str | bytes) -> str:
    """Return the text of a value that `pack_text` returned."""
    return value if isinstance(value, str) else zlib.decompress(memoryview(value)[1:]).decode()


def read_text(db: sqlite3.Connection, value: Any) -> Any:
    """Return the text of a packed value; values of other types, such as numbers, are returned unchanged.

    Errors: `StoreError` for a value in an unknown form, and for a text that is missing.
    """
    if not isinstance(value, bytes):
        return value
    form = value[:1]
    if form == _COMPRESSED:
        return unpack_text(value)
    if form == _REFERENCE:
        return _text_of(db, value[1:].hex())
    if form == _PARTS:
        parts = orjson.loads(zlib.decompress(memoryview(value)[1:]))
        return "".join(part if isinstance(part, str) else _text_of(db, part[0])[part[1] : part[2]] for part in parts)
    raise StoreError(
        f"A text of this store has the unknown form {form!r}: the file was edited or damaged. Use a copy from a backup."
    )


def _text_of(db: sqlite3.Connection, key: str) -> str:
    row = db.execute("SELECT content FROM main.texts WHERE sha256 = ?", (key,)).fetchone()
    if row is None:
        raise StoreError(
            f"The text {key} is missing in this store: the file was edited or damaged. Use a copy from a backup."
        )
    return str(read_text(db, row[0]))


def read_row(db: sqlite3.Connection, row: sqlite3.Row) -> dict[str, Any]:
    """Return a row as a dictionary, with the texts of its packed values."""
    return {name: read_text(db, row[name]) for name in row.keys()}  # noqa: SIM118 - a Row iterates over its values


def add_functions(db: sqlite3.Connection) -> None:
    """Register `stored_text` and `is_delegating`, which is true for the name of a delegating tool, on a connection."""
    db.create_function("stored_text", 1, lambda value: read_text(db, value))
    db.create_function("is_delegating", 1, DELEGATING_TOOLS.__contains__, deterministic=True)


def packed_row(db: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Pack the long texts of a row; store shared texts in `texts`, and the run that uses each text in `text_uses`."""
    if table == "texts":
        return {**row, "content": pack_text(row["content"])}
    if table not in PACKED_TABLES:
        return row
    packed = dict(row)
    for name in _COMPRESSED_COLUMNS.get(table, ()):
        if isinstance(text := packed.get(name), str):
            packed[name] = pack_text(text)
    for name in _SHARED_COLUMNS.get(table, ()):
        if isinstance(text := packed.get(name), str):
            packed[name] = share_text(db, row["run_id"], text)
    keys = {key for name in HASH_COLUMNS.get(table, ()) for key in SHA256_PATTERN.findall(row.get(name) or "")}
    if keys:
        _record_uses(db, row["run_id"], keys)
    return packed


def share_text(db: sqlite3.Connection, run_id: str, text: str) -> str | bytes:
    """Store a long text in `texts` and return the column value that refers to it; return a short text unchanged."""
    if isinstance(pack_text(text), str):
        return text
    key = sha256(text)
    put_texts(db, [(key, text)])
    _record_uses(db, run_id, [key])
    return _REFERENCE + bytes.fromhex(key)


def put_texts(db: sqlite3.Connection, texts: Sequence[tuple[str, str]], others: Sequence[tuple[str, str]] = ()) -> None:
    """Store texts unless they are stored already.

    Args:
        db: A connection in a transaction.
        texts: Pairs of a hash and its text.
        others: Pairs of a hash and a stored text. If a new text contains the beginning or the end of these texts, in
            this order, slices of the stored texts replace the passages.
    """
    keys = orjson.dumps([key for key, _ in texts]).decode()
    sql = "SELECT sha256 FROM texts WHERE sha256 IN (SELECT value FROM json_each(?))"
    stored = {row[0] for row in db.execute(sql, (keys,))}
    for key, text in dict(texts).items():
        if key in stored:
            continue
        parts = _split(text, [other for other in others if other[0] != key])
        used = {part[0] for part in parts if not isinstance(part, str)}
        content = _PARTS + zlib.compress(orjson.dumps(parts), _LEVEL) if used else pack_text(text)
        db.execute("INSERT INTO texts (sha256, content) VALUES (?, ?)", (key, content))
        db.executemany("INSERT INTO text_parts (sha256, part) VALUES (?, ?)", [(key, part) for part in used])


def _record_uses(db: sqlite3.Connection, run_id: str, keys: Iterable[str]) -> None:
    """Record in `text_uses` that a run uses the texts with these hashes."""
    sql = "INSERT OR IGNORE INTO text_uses (sha256, run_id) SELECT value, ? FROM json_each(?)"
    db.execute(sql, (run_id, to_json(list(keys))))


def _split(text: str, others: Iterable[tuple[str, str]]) -> list[str | tuple[str, int, int]]:
    """Split a text into plain pieces and slices `(hash, start, end)` of other texts.

    A prompt may contain only the beginning and the end of a long result, so the two are searched separately.
    """
    parts: list[str | tuple[str, int, int]] = []
    position = 0
    for key, other in others:
        if len(other) < LONG_BYTES or (start := text.find(other[:_PROBE_CHARS], position)) < 0:
            continue
        n_head = _common_prefix_length(text[start : start + len(other)], other)
        if n_head < _LEAST_SLICE:
            continue
        parts += [text[position:start], (key, 0, n_head)]
        position = start + n_head
        end = text.find(other[-_PROBE_CHARS:], position) + _PROBE_CHARS
        if n_head < len(other) and end >= position + _PROBE_CHARS:
            room = min(end - position, len(other) - n_head)
            n_tail = _common_prefix_length(text[end - room : end][::-1], other[len(other) - room :][::-1])
            parts += [text[position : end - n_tail], (key, len(other) - n_tail, len(other))]
            position = end
    return [part for part in (*parts, text[position:]) if part]


def _common_prefix_length(text: str, other: str) -> int:
    """Return the number of equal characters at the beginning of two texts."""
    low, high = 0, min(len(text), len(other))
    while low < high:  # comparing slices is much faster than comparing characters
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text[low:middle] == other[low:middle] else (low, middle - 1)
    return low
