"""SQL over the frames: a bare name such as `runs` is the frame, `main.runs` the table of the store.

The frames are temporary views on a read-only connection; an authorizer rejects every other action when the statement
is prepared. Times are microseconds since 1970 in SQL, as stored, and become datetimes in the result.

SQLite cannot be interrupted while one of its functions computes. A statement therefore runs in a thread of its own: a
signal or a timeout ends the wait, and the statement stops at its next step.
"""

import re
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from artifactflow_nb.analysis.frames.catalog import FRAMES
from artifactflow_nb.analysis.frames.filters import parse_time
from artifactflow_nb.analysis.frames.reading import open_store, schema_name
from artifactflow_nb.errors import UsageError
from artifactflow_nb.store.encoding import storable_number
from artifactflow_nb.store.faults import sqlite_error_code

if TYPE_CHECKING:
    import pandas as pd


T = TypeVar("T")


def wait_in_thread(work: Callable[[], T], name: str, timeout_s: float | None) -> T:
    """Call `work` in a daemon thread, which does not delay the exit of the process, and wait for its result.

    Args:
        work: The function to call; its exception is raised here.
        name: Name of the thread.
        timeout_s: Seconds before `TimeoutError` ends the wait, though not the work; None for no limit.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future.result(None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))


Params = Sequence[object] | Mapping[str, object] | None

_PROGRESS_STEPS = 20_000  # steps of SQLite's virtual machine between checks for cancellation, about 1 ms
_READ_ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_PRAGMAS = {"table_info", "table_xinfo", "table_list", "data_version"}
"""Pragmas that describe tables, and the one with which a full-text index detects changes."""

_DANGEROUS = {"load_extension", "fts3_tokenizer"}

# Errors of the statement itself, rather than of the file. 0 are those that Python raises before SQLite sees it.
_STATEMENT_ERRORS = {0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE}
_TYPES = {column.name: column.dtype for frame in FRAMES for column in frame.columns}
_KNOWN_TABLES = (
    f" It sees the frames {', '.join(frame.name for frame in FRAMES)} with the columns that columns_df() lists, "
    "and the store's own tables as main.runs and so on."
)
_IS_VIEW = re.compile(r"cannot modify \w+ because it is a view")
_EXTREME = re.compile(r"\s*(?:min|max)\s*\(\s*(?:\w+\.)?(\w+)\s*\)\s*", re.IGNORECASE)


def query(path: Path, sql: str, params: Params = None, *, timeout_s: float | None = None) -> "pd.DataFrame":
    """Run one SELECT and return its rows as a typed frame.

    A result column with the name of a frame's column, or `min` or `max` of one, gets the type of that column if the
    values fit it. Other types are inferred from the values: `Int64`, `Float64`, `string` or `object`. A second column
    of the same name gets the suffix `_2`.

    Args:
        path: The store's file.
        sql: The statement.
        params: Values for `?` (a list) or `:name` (a dict); datetimes become microseconds, dates their midnight in UTC.
        timeout_s: Time limit in seconds, or None. Interrupting the cell ends the query too.

    A function of SQLite, such as a LIKE over a long text, cannot be interrupted. The caller then continues at once, and
    the statement stops in the background when the function returns.

    Errors: `UsageError` for an invalid statement or one that does more than read; `TimeoutError`.
    """
    from artifactflow_nb.analysis.frames.packing import as_frame

    statement = _Statement(path, sql, _bind_params(params))
    if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
        raise UsageError(f"timeout_s is {timeout_s!r}; it must be a number of seconds above 0, or None.")
    try:
        names, arrays = wait_in_thread(statement.run, "artifactflow-query", timeout_s)
    except TimeoutError:
        message = f"The query had not ended after {timeout_s} s. Narrow it down with WHERE, or raise timeout_s."
        raise TimeoutError(message) from None
    finally:
        statement.cancelled.set()
    if not names:
        raise UsageError(f"The SQL gives no rows, it must be a SELECT: {sql!r}.")
    return as_frame(_unique_names(names), arrays, schema_name("query"))


class _Statement:
    """A statement with a connection of its own, which is opened and closed in the thread that runs it.

    Args:
        path: The store's file.
        sql: The statement.
        values: Bound parameters.

    Attributes:
        cancelled: Set when the caller no longer waits; the statement stops at its next step.
    """

    def __init__(self, path: Path, sql: str, values: Sequence[object] | dict[str, object]) -> None:
        self._path = path
        self._sql = sql
        self._values = values
        self.cancelled = threading.Event()

    def run(self) -> tuple[list[str], list[Any]]:
        """Execute the statement, and return the names and the arrays of its columns."""
        from artifactflow_nb.analysis.frames.packing import pack_fitting

        with open_store(self._path) as db:
            for frame in FRAMES:
                db.execute(f"CREATE TEMP VIEW {frame.name} AS {frame.select(frame.columns)}")
            db.set_progress_handler(self.cancelled.is_set, _PROGRESS_STEPS)
            db.set_authorizer(_authorize)
            try:
                rows = db.execute(self._sql, self._values)
                names = [entry[0] for entry in rows.description or ()]
                extremes = [_EXTREME.fullmatch(name) for name in names]
                dtypes = [_TYPES.get(match[1] if match else name) for name, match in zip(names, extremes, strict=True)]
                return names, pack_fitting(rows, dtypes)
            except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
                if (usage_error := _usage_error(error)) is None:
                    raise
                raise usage_error from error


def _authorize(action: int, first: str | None, second: str | None, *_context: str | None) -> int:
    """Authorizer callback of SQLite: allow an action of a statement only if it reads."""
    if action == sqlite3.SQLITE_FUNCTION:
        allowed = second not in _DANGEROUS
    elif action == sqlite3.SQLITE_UPDATE:
        allowed = (
            first == "sqlite_master"
        )  # declaration of a virtual table such as json_each; the table itself is read-only
    elif action == sqlite3.SQLITE_PRAGMA:
        allowed = first in _PRAGMAS
    else:
        allowed = action in _READ_ACTIONS
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _usage_error(error: Exception) -> UsageError | None:
    """The error to raise if the statement is at fault; None if the file is."""
    code = sqlite_error_code(error)
    if code == sqlite3.SQLITE_AUTH or _IS_VIEW.fullmatch(str(error)):
        return UsageError(f"The SQL would do more than read ({error}). Pass a single SELECT; nothing was done.")
    if code not in _STATEMENT_ERRORS:
        return None
    message = str(error).rstrip(".")
    return UsageError(f"The SQL cannot be run: {message}.{_KNOWN_TABLES if message.startswith('no such') else ''}")


def _bind_params(params: Params) -> Sequence[object] | dict[str, object]:
    if params is None:
        return ()
    if isinstance(params, Mapping):
        return {name: _to_sql_value(value) for name, value in params.items()}
    if isinstance(params, Sequence) and not isinstance(params, str | bytes):
        return [_to_sql_value(value) for value in params]
    raise UsageError(f"params is {params!r}; pass a list with a value for each ?, or a dict with one for each :name.")


def _to_sql_value(value: object) -> object:
    """Convert a parameter for SQLite, including numpy scalars, which values of frames are.

    A date becomes its midnight in UTC: sqlite3 would bind it as a text, which compares greater than every number.
    """
    import numpy as np

    if isinstance(value, np.ndarray):  # SQLite would bind its bytes
        raise UsageError(f"A parameter is an array of {value.size} values. Pass each value to a ? of its own.")
    plain: object = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.datetime64) and not np.isnat(value):  # item() of nanoseconds is an int
        plain = value.astype("datetime64[us]").item()
    if isinstance(plain, date) and not isinstance(plain, datetime):
        plain = datetime(plain.year, plain.month, plain.day, tzinfo=UTC)
    if isinstance(plain, int) and storable_number(plain) is None:
        raise UsageError(f"A parameter is {plain}, which is too large: SQL's whole numbers have 64 bits. Pass a float.")
    return parse_time("A parameter", plain) if isinstance(plain, datetime) else plain


def _unique_names(names: Sequence[str]) -> list[str]:
    unique: dict[str, None] = {}
    for name in names:
        numbers = count(2)
        candidate = name
        while candidate in unique:
            candidate = f"{name}_{next(numbers)}"
        unique[candidate] = None
    return list(unique)
