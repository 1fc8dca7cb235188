"""Frames and columns (name, group, type, SQL expression and meaning), and filters with their SQL conditions.

Columns and rows are selected in SQL, never after loading, so that a narrow query reads little.
"""

import math
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.store.runs import ABANDONED, CANCELLED, COMPLETED, FAILED, RUNNING, WAITING
from artifactflow_nb.store.schema import to_microseconds

FRAME_SCHEMA_VERSION = 1

TEXT, ENUM, INT, FLOAT, BOOL, TIME = "string", "category", "Int64", "Float64", "boolean", "datetime64[us, UTC]"

IDS = "ids"
"""Group of the columns on which frames join; every selection but the summary contains the group."""

ALL_COLUMNS, SUMMARY = "all", "summary"
"""Selections: all columns that are not optional, and the few columns that people read."""

SCOPE_CONDITION = "{within}"
"""Placeholder in `Frame.tables` for `scope_condition`, which restricts a subquery to the filtered rows."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a frame.

    Attributes:
        name: Column name; ends in the unit for a number.
        group: Name under which several columns can be selected together.
        dtype: pandas type; unknown values are NA, never 0.
        sql: SQL expression of the value.
        meaning: Description for `columns_df`.
        is_optional: Whether the column is loaded only if the column is named, because the values are long.
    """

    name: str
    group: str
    dtype: str
    sql: str
    meaning: str
    is_optional: bool = False


def stored_columns(group: str, dtype: str, table: str, **meanings: str) -> tuple[Column, ...]:
    """Declare columns that are stored in a table under the same names."""
    return tuple(Column(name, group, dtype, f"{table}.{name}", meaning) for name, meaning in meanings.items())


def reading_order(first: str, *columns: Column) -> tuple[Column, ...]:
    """Order columns: first the names in `first`, separated by spaces, then the other columns, the ids last."""
    names = first.split()

    def place(column: Column) -> int:
        return names.index(column.name) if column.name in names else len(names) + (column.group == IDS)

    return tuple(sorted(columns, key=place))


@dataclass(frozen=True, slots=True)
class Frame:
    """Declaration of a frame.

    Attributes:
        name: Name of the frame and of its view in `query`.
        columns: Columns, in order.
        tables: SQL of the FROM clause.
        order: SQL of the ORDER BY clause; a total and stable order.
        filters: SQL condition of each filter on the row's own table, by name; the value is bound under that name.
        scope: SELECT of the ids of the row's own table; the filters are appended to it.
        scope_condition: SQL that replaces `SCOPE_CONDITION` if there are filters; can select from the ids as `scope`.
        add_functions: Registers the SQL functions that only this frame needs on a connection.
        summary: Names of the columns of the selection `summary`, separated by spaces.
        check: Raises `NotFound` if a filter has a value that is unknown in the store; the values are JSON lists.
    """

    name: str
    columns: tuple[Column, ...]
    tables: str
    order: str
    filters: Mapping[str, str] = field(default_factory=dict)
    scope: str = ""
    scope_condition: str = ""
    add_functions: Callable[[sqlite3.Connection], None] = lambda _db: None
    summary: str = ""
    check: Callable[[sqlite3.Connection, Mapping[str, str | int]], None] = lambda _db, _values: None

    @property
    def query(self) -> str:
        """SQL for all columns of all rows, in order."""
        return f"{self.select(self.columns)} ORDER BY {self.order}"

    def select(self, columns: Iterable[Column], filters: Iterable[str] = ()) -> str:
        """SQL for some columns, with the conditions of the named filters, unordered."""
        expressions = ", ".join(f"{column.sql} AS {column.name}" for column in columns)
        condition = " AND ".join(self.filters[name] for name in filters)
        tables = self.tables.replace(SCOPE_CONDITION, self.scope_condition if condition else "")
        scope = f"WITH scope AS ({self.scope} WHERE {condition}) " if condition and self.scope else ""
        where = f" WHERE {condition}" if condition else ""
        return f"{scope}SELECT {expressions} FROM {tables}{where}"  # noqa: S608 - made of this package's constants

    def select_columns(self, selection: str | Iterable[str] | None, *optional: str) -> tuple[Column, ...]:
        """Return the columns with these names or groups, and the ids, in the frame's order; None and `all` select all.

        The selection `summary` has no further ids. An optional column is selected only by its name, in
        `selection` or in `optional`.

        Errors: `UsageError` for a name that is neither a column nor a group, with the existing names.
        """
        selection = ALL_COLUMNS if selection is None else selection
        names = list(selection) if isinstance(selection, Iterable) and not isinstance(selection, str) else [selection]
        groups = list(dict.fromkeys(column.group for column in self.columns))
        words = {ALL_COLUMNS: groups, **({SUMMARY: self.summary.split()} if self.summary else {})}
        columns = [column.name for column in self.columns]
        for name in names:
            if not isinstance(name, str) or name not in [*words, *groups, *columns]:
                raise UsageError(
                    f"The frame {self.name} has no column or group {brief(name)}. "
                    f"Its groups: {', '.join([*words, *groups])}. Its columns: {', '.join(columns)}."
                )
        names += [*optional, *([] if names == [SUMMARY] else [IDS])]
        names += [column for word in words if word in names for column in words[word]]
        return tuple(
            column
            for column in self.columns
            if column.name in names or (column.group in names and not column.is_optional)
        )


PLUGIN_FRAMES: dict[str, tuple[str, Frame]] = {}
"""The frames of the plugins that this process uses, by name, each with the name of its plugin."""


def add_frame(plugin: str, frame: Frame) -> None:
    """Make a frame of a plugin known; `UsageError` for a name that a frame of another plugin has."""
    if PLUGIN_FRAMES.get(frame.name, (plugin, frame))[0] != plugin:
        raise UsageError(f"The plugin {plugin!r} cannot have a frame {frame.name!r}: another plugin has one.")
    PLUGIN_FRAMES[frame.name] = plugin, frame


def effective_status_sql(status: str, run_id: str) -> str:
    """Return SQL for the effective status: `abandoned` for an unfinished run that no process owns."""
    is_abandoned = f"{status} IN ('running', 'waiting') AND is_abandoned({run_id})"
    return f"CASE WHEN {is_abandoned} THEN 'abandoned' ELSE {status} END"


def char_count_sql(text: str) -> str:
    """Return SQL for the number of characters of a text that may contain NUL.

    SQLite's `length` stops at a NUL, and `replace` does not find a NUL. In JSON a NUL is an escape sequence, which
    `replace` can turn into one visible character.
    """
    escaped = rf"replace(replace(json_quote({text}), '\\', '?'), '\u0000', '?')"
    return (
        f"CASE WHEN instr(CAST({text} AS BLOB), x'00') THEN length(json_extract({escaped}, '$')) "
        f"ELSE length({text}) END"
    )


def text_sql(column: str) -> str:
    """Return SQL for the text of a column in which long texts are stored compressed."""
    return f"iif(typeof({column}) = 'blob', stored_text({column}), {column})"


def line_count_sql(text: str) -> str:
    """Return SQL for the number of lines of a text; the last line may lack a line feed."""
    blob = f"CAST({text} AS BLOB)"
    feeds = f"length({blob}) - length(CAST(replace({text}, char(10), '') AS BLOB))"
    return f"{feeds} + ({text} <> '' AND substr({blob}, -1) <> x'0a')"


STATUSES = (RUNNING, WAITING, COMPLETED, FAILED, CANCELLED, ABANDONED)


class HasRunId(Protocol):
    """An object of a run: a `Run`, an approval request, a version of an artifact."""

    @property
    def run_id(self) -> str:
        """Id of the run."""
        ...


@runtime_checkable
class HasConversationId(Protocol):
    """An object of a conversation: a `Run`, a `Conversation`, a message."""

    @property
    def conversation_id(self) -> str:
        """Id of the conversation."""
        ...


RunFilter = HasRunId | str | Iterable[HasRunId | str] | None
ConversationFilter = HasConversationId | str | Iterable[HasConversationId | str] | None
TimeFilter = datetime | timedelta | str | None
NameFilter = str | Iterable[str] | None
StatusFilter = str | Iterable[str] | None
ColumnSelection = str | Iterable[str] | None


def list_condition(expression: str, name: str) -> str:
    """Return the SQL condition that an expression is among the values of a filter, which are bound as a JSON list."""
    return f"{expression} IN (SELECT value FROM json_each(:{name}))"  # noqa: S608 - both are constants of this package


def time_filters(expression: str) -> dict[str, str]:
    """Return the SQL conditions of `since` (inclusive) and `until` (exclusive)."""
    return {"since": f"{expression} >= :since", "until": f"{expression} < :until"}


def run_filters(table: str, time: str) -> dict[str, str]:
    """Return the SQL conditions for rows of a table with a `run_id`."""
    runs = f"SELECT run_id FROM main.runs WHERE {list_condition('conversation_id', 'conversation')}"  # noqa: S608 - constants
    return {
        "run": list_condition(f"{table}.run_id", "run"),
        "conversation": f"{table}.run_id IN ({runs})",
        **time_filters(f"{table}.{time}"),
    }


def bind_filters(frame: Frame, values: Mapping[str, object]) -> dict[str, str | int]:
    """Convert the values of the filters to SQL parameters; a filter that is None is dropped.

    Errors: `UsageError` for a filter that the frame does not have, or an invalid value.
    """
    # Times and flags are popped from `texts`: the filters by id, name or status remain.
    texts = {name: value for name, value in values.items() if value is not None}
    for name in texts:
        if name not in frame.filters:
            raise UsageError(f"The frame {frame.name} has no filter {brief(name)}; it has: {', '.join(frame.filters)}.")
    times: dict[str, int] = {name: parse_time(name, texts.pop(name)) for name in ("since", "until") if name in texts}
    if times.get("since", -math.inf) > times.get("until", math.inf):
        raise UsageError(f"since is {brief(values['since'])}, later than until, {brief(values['until'])}. Swap them.")
    flags = {name: int(bool(texts.pop(name))) for name in ("is_active",) if name in texts}
    lists = {name: to_json(_texts(name, value)) for name, value in texts.items()}
    return {**lists, **times, **flags}


def parse_time(name: str, value: object) -> int:
    """Convert a datetime (naive means UTC), an ISO string, or a timedelta before now to microseconds since 1970.

    Errors: `UsageError` with the name and the value for anything else.
    """
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
        time = datetime.now(UTC) - time if isinstance(time, timedelta) else time
        if not isinstance(time, datetime):
            raise TypeError(type(value).__name__)
        return int(to_microseconds(time if time.tzinfo is not None else time.replace(tzinfo=UTC)))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"{name} is {brief(value)}, which is not a time. Pass a datetime (naive means UTC), an ISO string such as "
            "'2026-03-01T12:00', or a timedelta before now."
        ) from error


def _texts(name: str, value: object) -> list[str]:
    """Return the ids, names or statuses of a filter from one value or an iterable of texts and handles."""
    attribute = f"{name}_id" if name in _VALUE_HINTS else "name"
    # Many iterables have a `name`, a pandas Series for example, so only an id marks an iterable as a single object.
    is_single = isinstance(value, str) or (hasattr(value, attribute) and name in _VALUE_HINTS)
    items = list(value) if isinstance(value, Iterable) and not is_single else [value]
    hint = f"pass a {name.capitalize()}, its name, or a list."
    texts = []
    for item in items:
        text = getattr(item, attribute, item)
        if not isinstance(text, str):
            raise UsageError(f"{name} is {brief(text)}, which is {type(text).__name__}; {_VALUE_HINTS.get(name, hint)}")
        if name == "status" and text == "interrupted":
            warnings.warn("The status 'interrupted' is called 'abandoned' now.", DeprecationWarning, stacklevel=2)
            text = ABANDONED
        if name == "status" and text not in STATUSES:
            raise UsageError(f"status is {brief(text)}; {_VALUE_HINTS[name]}")
        texts.append(storable_text(text))
    return texts


_VALUE_HINTS = {
    "run": "pass a Run, the id of a run, or a list of them.",
    "conversation": "pass the id of a conversation, a Run of it, or a list of them.",
    "status": f"pass one or several of {', '.join(STATUSES)}.",
}
