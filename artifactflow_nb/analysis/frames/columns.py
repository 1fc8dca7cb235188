"""Declarations of frames and columns: name, group, type, SQL expression and meaning.

Columns and rows are selected in SQL, never after loading, so that a narrow query reads little.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from artifactflow_nb.errors import UsageError

FRAME_SCHEMA_VERSION = 1

TEXT, ENUM, INT, FLOAT, BOOL, TIME = "string", "category", "Int64", "Float64", "boolean", "datetime64[us, UTC]"

IDS = "ids"
"""Group of the columns on which frames join; they are part of every selection."""

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
        is_optional: Whether it is loaded only if it is named, because its values are long.
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
    """Order columns: first those named in `first`, a list separated by spaces, then the others, the ids last."""
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
        scope_condition: Replacement for `SCOPE_CONDITION` when there are filters; it refers to the ids as `scope`.
        add_functions: Registers the SQL functions that only this frame needs on a connection.
    """

    name: str
    columns: tuple[Column, ...]
    tables: str
    order: str
    filters: Mapping[str, str] = field(default_factory=dict)
    scope: str = ""
    scope_condition: str = ""
    add_functions: Callable[[sqlite3.Connection], None] = lambda _db: None

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
        """Columns selected by name or group, and the ids, in the frame's order; None selects all.

        An optional column is selected only by its name, in `selection` or in `optional`.

        Errors: `UsageError` for a name that is neither a column nor a group, with the known ones.
        """
        if selection is None:
            return tuple(column for column in self.columns if not column.is_optional or column.name in optional)
        names = list(selection) if isinstance(selection, Iterable) and not isinstance(selection, str) else [selection]
        groups = list(dict.fromkeys(column.group for column in self.columns))
        known = [column.name for column in self.columns]
        for name in names:
            if name not in groups + known:
                raise UsageError(
                    f"The frame {self.name} has no column or group {name!r}. "
                    f"Its groups: {', '.join(groups)}. Its columns: {', '.join(known)}."
                )
        names += [IDS, *optional]
        return tuple(
            column
            for column in self.columns
            if column.name in names or (column.group in names and not column.is_optional)
        )


def effective_status_sql(status: str, run_id: str) -> str:
    """SQL expression for the effective status: `interrupted` if a run is unfinished and no process owns it."""
    is_abandoned = f"{status} IN ('running', 'waiting') AND is_interrupted({run_id})"
    return f"CASE WHEN {is_abandoned} THEN 'interrupted' ELSE {status} END"


def char_count_sql(text: str) -> str:
    """SQL expression for the number of characters of a text that may contain NUL.

    SQLite's `length` stops at a NUL, and `replace` does not find it. In JSON a NUL is an escape sequence, which
    `replace` can turn into one visible character.
    """
    escaped = rf"replace(replace(json_quote({text}), '\\', '?'), '\u0000', '?')"
    return (
        f"CASE WHEN instr(CAST({text} AS BLOB), x'00') THEN length(json_extract({escaped}, '$')) "
        f"ELSE length({text}) END"
    )


def text_sql(column: str) -> str:
    """SQL expression for the text of a column in which long texts are stored compressed."""
    return f"iif(typeof({column}) = 'blob', stored_text({column}), {column})"


def line_count_sql(text: str) -> str:
    """SQL expression for the number of lines of a text; the last line may lack a line feed."""
    blob = f"CAST({text} AS BLOB)"
    feeds = f"length({blob}) - length(CAST(replace({text}, char(10), '') AS BLOB))"
    return f"{feeds} + ({text} <> '' AND substr({blob}, -1) <> x'0a')"
