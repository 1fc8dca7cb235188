"""SQL over the frames: a bare name such as `runs` is the frame, `main.runs` the table of the store.

The frames are temporary views on a read-only connection; an authorizer rejects every other action when the statement
is prepared. Times are microseconds since 1970 in SQL, as stored, and become datetimes in the result. Long texts in the
tables are compressed: `stored_text(column)` gives them within a statement, and in the result they are texts.

SQLite cannot be interrupted while one of its functions computes. A statement therefore runs in a thread of its own: a
signal or a timeout ends the wait, and the statement stops at its next step.
"""

import re
import sqlite3
import threading
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactflow_nb.analysis.frames.catalog import all_frames
from artifactflow_nb.analysis.frames.reading import open_store, schema_name
from artifactflow_nb.errors import StoreError, UsageError, brief
from artifactflow_nb.store.encoding import read_text, storable_number
from artifactflow_nb.store.faults import sqlite_error_code
from artifactflow_nb.store.frames import parse_time

if TYPE_CHECKING:
    import pandas as pd


Params = Sequence[object] | Mapping[str, object] | None

_PROGRESS_STEPS = 20_000  # steps of SQLite's virtual machine between checks for cancellation, about 1 ms
_READ_ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_PRAGMAS = {"table_info", "table_xinfo", "table_list", "data_version"}
"""Pragmas that describe tables, and the pragma with which a full-text index detects changes."""

_DANGEROUS = {"load_extension", "fts3_tokenizer"}

# Errors of the statement, not of the file. 0 represents errors that Python raises before SQLite gets the statement.
_STATEMENT_ERRORS = {0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE}
_IS_VIEW = re.compile(r"cannot modify \w+ because it is a view")
_EXTREME = re.compile(r"\s*(?:min|max)\s*\(\s*(?:\w+\.)?(\w+)\s*\)\s*", re.IGNORECASE)


def query(path: Path, sql: str, params: Params = None, *, timeout_s: float | None = None) -> "pd.DataFrame":
    """Run one SELECT and return its rows as a typed frame.

    A result column with the name of a frame's column, or with `min` or `max` of such a column, gets the type of the
    column if the values fit. Other types are inferred from the values: `Int64`, `Float64`, `string` or `object`. A
    second column of the same name gets the suffix `_2`.

    Args:
        path: The store's file.
        sql: The statement.
        params: Values for `?` (a list) or `:name` (a dict); datetimes become microseconds, dates their midnight in UTC.
        timeout_s: Time limit in seconds, or None. Interrupting the cell ends the query too.

    A function of SQLite, such as a LIKE over a long text, cannot be interrupted. The caller then continues at once, and
    the statement stops in the background when the function returns.

    Errors: `UsageError` for an invalid statement or a statement that does more than read; `TimeoutError`.
    """
    from artifactflow_nb.analysis.frames.packing import as_frame

    values: Sequence[object] | dict[str, object] = ()
    if isinstance(params, Mapping):
        values = {name: _to_sql_value(value) for name, value in params.items()}
    elif isinstance(params, Sequence) and not isinstance(params, str | bytes):
        values = [_to_sql_value(value) for value in params]
    elif params is not None:
        raise UsageError(
            f"params is {brief(params)}; pass a list with a value for each ?, or a dict with a value for each :name."
        )
    if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
        raise UsageError(f"timeout_s is {brief(timeout_s)}; it must be a number of seconds above 0, or None.")
    cancelled, future = threading.Event(), Future[tuple[list[str], list[Any]]]()

    def run() -> None:
        try:
            future.set_result(_execute(path, sql, values, cancelled))
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            future.set_exception(error)

    # A daemon thread does not delay the exit of the process.
    threading.Thread(target=run, name="artifactflow-query", daemon=True).start()
    try:
        names, arrays = future.result(None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))
    except TimeoutError:
        message = f"The query had not ended after {timeout_s} s. Narrow it down with WHERE, or raise timeout_s."
        raise TimeoutError(message) from None
    finally:
        cancelled.set()
    if not names:
        raise UsageError(f"This SQL is no query; pass a SELECT: {brief(sql)}.")
    unique: dict[str, None] = {}
    for name in names:
        numbers = count(2)
        candidate = name
        while candidate in unique:
            candidate = f"{name}_{next(numbers)}"
        unique[candidate] = None
    return as_frame(list(unique), arrays, schema_name("query"))


def _execute(
    path: Path, sql: str, values: Sequence[object] | dict[str, object], cancelled: threading.Event
) -> tuple[list[str], list[Any]]:
    """Execute a statement on a connection of its own, and return the names and the arrays of its columns.

    The statement stops at its next step once `cancelled` is set. Errors: `UsageError` if the statement is at fault.
    """
    from artifactflow_nb.analysis.frames.packing import pack_fitting

    def text_or_bytes(value: bytes) -> object:  # a text that a table stores compressed, or another BLOB
        try:
            return read_text(db, value)
        except (StoreError, UnicodeDecodeError, ValueError, zlib.error):
            return value

    frames = all_frames()
    types = {column.name: column.dtype for frame in frames for column in frame.columns}
    with open_store(path) as db:
        for frame in frames:
            db.execute(f"CREATE TEMP VIEW {frame.name} AS {frame.select(frame.select_columns(None))}")
        db.set_progress_handler(cancelled.is_set, _PROGRESS_STEPS)
        db.set_authorizer(authorize)
        try:
            rows = db.execute(sql, values)
            names = [entry[0] for entry in rows.description or ()]
            extremes = [_EXTREME.fullmatch(name) for name in names]
            dtypes = [types.get(match[1] if match else name) for name, match in zip(names, extremes, strict=True)]
            return names, pack_fitting(rows, dtypes, text_or_bytes)
        except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
            code, message = sqlite_error_code(error), str(error).rstrip(".")
            if code == sqlite3.SQLITE_AUTH or _IS_VIEW.fullmatch(str(error)):
                message = f"The SQL would do more than read ({error}). Pass a single SELECT; nothing was done."
                raise UsageError(message) from error
            if code not in _STATEMENT_ERRORS:
                raise
            views = ", ".join(frame.name for frame in frames)
            hint = f" It sees the frames {views} (columns_df() lists their columns), and stored tables as main.runs."
            hint = hint if message.startswith("no such") else ""
            raise UsageError(f"The SQL cannot be run: {message:.300}.{hint}") from error


def authorize(action: int, first: str | None, second: str | None, *_context: str | None) -> int:
    """Authorizer callback of SQLite: allow an action of a statement only if it reads."""
    if action == sqlite3.SQLITE_FUNCTION:
        allowed = second not in _DANGEROUS
    elif action == sqlite3.SQLITE_UPDATE:
        # The declaration of a virtual table such as json_each; the table itself is read-only.
        allowed = first == "sqlite_master"
    elif action == sqlite3.SQLITE_PRAGMA:
        allowed = first in _PRAGMAS
    else:
        allowed = action in _READ_ACTIONS
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _to_sql_value(value: object) -> object:
    """Convert a parameter for SQLite, also a numpy scalar, which a frame may contain.

    A date becomes its midnight in UTC: sqlite3 would bind a date as a text, which compares greater than every number.
    """
    import numpy as np

    if isinstance(value, np.ndarray):  # SQLite would bind its bytes
        raise UsageError(f"A parameter is an array of {value.size} values. Pass one value for each ?.")
    plain: object = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.datetime64) and not np.isnat(value):  # item() of nanoseconds is an int
        plain = value.astype("datetime64[us]").item()
    if isinstance(plain, date) and not isinstance(plain, datetime):
        plain = datetime(plain.year, plain.month, plain.day, tzinfo=UTC)
    if isinstance(plain, int) and storable_number(plain) is None:
        raise UsageError(f"A parameter is {plain}, which is too large: integers in SQL have 64 bits. Pass a float.")
    return parse_time("A parameter", plain) if isinstance(plain, datetime) else plain
