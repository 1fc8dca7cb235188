"""SQL over the frames: a bare name such as `runs` is the frame, `main.runs` the store's own table.

The frames are temporary views of a connection that reads only; what else a statement could do is refused when it is
prepared. Times are microseconds since 1970 there, as the store has them, and become times in the result.
"""

import re
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactflow_nb.errors import UsageError
from artifactflow_nb.frames.catalog import FRAMES
from artifactflow_nb.frames.filters import moment
from artifactflow_nb.frames.reading import opened, schema_of
from artifactflow_nb.frames.waiting import waited_for
from artifactflow_nb.store.faults import cause
from artifactflow_nb.store.storable import storable_number

if TYPE_CHECKING:
    import pandas as pd

Params = Sequence[object] | Mapping[str, object] | None

_LOOK_EVERY = 20_000  # steps of SQLite's machine, about a millisecond
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_PRAGMAS = {"table_info", "table_xinfo", "table_list", "data_version"}
"""Those that tell what tables there are, and the one by which a text index sees whether it was changed."""

_DANGEROUS = {"load_extension", "fts3_tokenizer"}

_OF_CALLER = {0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE}
_TYPES = {column.name: column.dtype for frame in FRAMES for column in frame.columns}
_SEEN = (
    f" It sees the frames {', '.join(frame.name for frame in FRAMES)} with the columns that columns_df() lists, "
    "and the store's own tables as main.runs and so on."
)
_IS_VIEW = re.compile(r"cannot modify \w+ because it is a view")
_EXTREME = re.compile(r"\s*(?:min|max)\s*\(\s*(?:\w+\.)?(\w+)\s*\)\s*", re.IGNORECASE)


def query(path: Path, sql: str, params: Params = None, *, timeout_s: float | None = None) -> "pd.DataFrame":
    """The rows of one SELECT, typed.

    A column that bears the name of a frame's column, or is `min` or `max` of one, has its type if its values fit it;
    of any other its values say the type: `Int64`, `Float64`, `string` or `object`. The second column of a name gets
    `_2` behind it.

    Args:
        path: The store's file.
        sql: The statement.
        params: Values for its `?`, or by name for its `:name`; a datetime becomes microseconds, a date
            those of its first moment in UTC.
        timeout_s: Seconds after which to give up; None for never. Interrupting the cell ends it too.

    While one function of SQLite computes, such as a LIKE over a long text, nothing can end it: then the caller goes on
    at once, and the statement is left to end by itself at its next step.

    Errors: `UsageError` for a statement that is wrong or does anything but read, `TimeoutError`.
    """
    from artifactflow_nb.frames.packing import as_frame

    statement = _Statement(path, sql, _bound(params))
    try:
        names, arrays = waited_for(statement.run, "artifactflow-query", _limit(timeout_s))
    except TimeoutError:
        late = f"The query had not ended after {timeout_s} s. Narrow it down with WHERE, or raise timeout_s."
        raise TimeoutError(late) from None
    finally:
        statement.unwanted.set()
    if not names:
        raise UsageError(f"The SQL gives no rows, it must be a SELECT: {sql!r}.")
    return as_frame(_distinct(names), arrays, schema_of("query"))


def _limit(timeout_s: float | None) -> float | None:
    if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
        raise UsageError(f"timeout_s is {timeout_s!r}; it must be a number of seconds above 0, or None.")
    return timeout_s


class _Statement:
    """A statement with a connection of its own, from the first to the last on the thread that runs it.

    Args:
        path: The store's file.
        sql: The statement.
        values: What is bound in it.

    Attributes:
        unwanted: Set when nobody waits any more; the statement ends at its next step.
    """

    def __init__(self, path: Path, sql: str, values: Sequence[object] | dict[str, object]) -> None:
        self._path = path
        self._sql = sql
        self._values = values
        self.unwanted = threading.Event()

    def run(self) -> tuple[list[str], list[Any]]:
        """The names of its columns, and their values."""
        from artifactflow_nb.frames.packing import pack_fitting

        with opened(self._path) as db:
            for frame in FRAMES:
                db.execute(f"CREATE TEMP VIEW {frame.name} AS {frame.select(frame.columns)}")
            db.set_progress_handler(self.unwanted.is_set, _LOOK_EVERY)
            db.set_authorizer(_allowed)
            try:
                rows = db.execute(self._sql, self._values)
                names = [entry[0] for entry in rows.description or ()]
                return names, pack_fitting(rows, [_type_of(name) for name in names])
            except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
                if (told := _told(error)) is None:
                    raise
                raise told from error


def _allowed(action: int, first: str | None, second: str | None, *_where: str | None) -> int:
    """What SQLite asks before it prepares a statement: whether a part of it may be done."""
    if action == sqlite3.SQLITE_FUNCTION:
        allowed = second not in _DANGEROUS
    elif action == sqlite3.SQLITE_UPDATE:
        allowed = first == "sqlite_master"  # how a virtual table such as json_each is declared; nobody can write it
    elif action == sqlite3.SQLITE_PRAGMA:
        allowed = first in _PRAGMAS
    else:
        allowed = action in _READS
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _told(error: Exception) -> UsageError | None:
    """What to raise for an error of the statement; None if it is one of the file."""
    code = cause(error)
    if code == sqlite3.SQLITE_AUTH or _IS_VIEW.fullmatch(str(error)):
        return UsageError(f"The SQL would do more than read ({error}). Pass a single SELECT; nothing was done.")
    if code not in _OF_CALLER:
        return None
    said = str(error).rstrip(".")
    return UsageError(f"The SQL cannot be run: {said}.{_SEEN if said.startswith('no such') else ''}")


def _bound(params: Params) -> Sequence[object] | dict[str, object]:
    if params is None:
        return ()
    if isinstance(params, Mapping):
        return {name: _value(value) for name, value in params.items()}
    if isinstance(params, Sequence) and not isinstance(params, str | bytes):
        return [_value(value) for value in params]
    raise UsageError(f"params is {params!r}; pass a list with a value for each ?, or a dict with one for each :name.")


def _value(value: object) -> object:
    """A value as SQLite takes it; numpy's numbers and times, which frames give, are Python's.

    A day is its first moment: as the text that it otherwise becomes, it would be greater than every time.
    """
    import numpy as np

    if isinstance(value, np.ndarray):  # SQLite would take its bytes
        raise UsageError(f"A parameter is an array of {value.size} values. Pass each value to a ? of its own.")
    plain: object = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.datetime64) and not np.isnat(value):  # an item of nanoseconds is a bare number
        plain = value.astype("datetime64[us]").item()
    if isinstance(plain, date) and not isinstance(plain, datetime):
        plain = datetime(plain.year, plain.month, plain.day, tzinfo=UTC)
    if isinstance(plain, int) and storable_number(plain) is None:
        raise UsageError(f"A parameter is {plain}, which is too large: SQL's whole numbers have 64 bits. Pass a float.")
    return moment("A parameter", plain) if isinstance(plain, datetime) else plain


def _type_of(name: str) -> str | None:
    extreme = _EXTREME.fullmatch(name)
    return _TYPES.get(extreme[1] if extreme else name)


def _distinct(names: Sequence[str]) -> list[str]:
    found: dict[str, None] = {}
    for name in names:
        numbers = count(2)
        distinct = name
        while distinct in found:
            distinct = f"{name}_{next(numbers)}"
        found[distinct] = None
    return list(found)
