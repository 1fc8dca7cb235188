"""What a frame is: columns declared once, each with its group, its type, where it comes from and what it means.

A query of a frame takes some of its columns and some of its rows; both are chosen in SQL, never after loading.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from artifactflow_nb.errors import UsageError

SCHEMA_VERSION = 1

TEXT, ENUM, INT, FLOAT, BOOL, TIME = "string", "category", "Int64", "Float64", "boolean", "datetime64[us, UTC]"

IDS = "ids"
"""The group of the columns by which frames join; they are always there."""

WITHIN = "{within}"
"""Stands in a frame's tables where a part that reads all rows can be kept to those that are asked for."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a frame.

    Attributes:
        name: Its name; a number's name ends in its unit.
        group: The group that it is asked for with.
        dtype: Its pandas type; unknown is NA, never 0.
        sql: The expression that gives it.
        meaning: What it says.
    """

    name: str
    group: str
    dtype: str
    sql: str
    meaning: str


def stored(group: str, dtype: str, table: str, **meanings: str) -> tuple[Column, ...]:
    """Columns that a table gives under their own names."""
    return tuple(Column(name, group, dtype, f"{table}.{name}", meaning) for name, meaning in meanings.items())


@dataclass(frozen=True, slots=True)
class Frame:
    """What a frame is made of.

    Attributes:
        name: Its name.
        columns: Its columns, in their order.
        tables: The tables that they come from.
        order: What sorts the rows, in an order that never changes.
        filters: What each filter asks of a row's own table; its value is bound under the filter's name.
        scope: Gives an id for each row of the own table that the filters keep.
        within: What `WITHIN` becomes when there are filters: it refers to the ids as `scope`.
    """

    name: str
    columns: tuple[Column, ...]
    tables: str
    order: str
    filters: Mapping[str, str] = field(default_factory=dict)
    scope: str = ""
    within: str = ""

    @property
    def query(self) -> str:
        """The query that gives all columns of all rows, in their order."""
        return f"{self.select(self.columns)} ORDER BY {self.order}"

    def select(self, columns: Iterable[Column], filters: Iterable[str] = ()) -> str:
        """The query for some columns and, kept by the filters of these names, some rows; in no order."""
        wanted = ", ".join(f"{column.sql} AS {column.name}" for column in columns)
        kept = " AND ".join(self.filters[name] for name in filters)
        tables = self.tables.replace(WITHIN, self.within if kept else "")
        scope = f"WITH scope AS ({self.scope} WHERE {kept}) " if kept and self.scope else ""
        where = f" WHERE {kept}" if kept else ""
        return f"{scope}SELECT {wanted} FROM {tables}{where}"  # noqa: S608 - made of this package's constants

    def pick(self, wanted: str | Iterable[str] | None) -> tuple[Column, ...]:
        """The columns that are asked for by their names or groups, with the ids, in the frame's order.

        Errors: `UsageError` that names the groups and the columns, for one that is neither.
        """
        if wanted is None:
            return self.columns
        names = list(wanted) if isinstance(wanted, Iterable) and not isinstance(wanted, str) else [wanted]
        groups = list(dict.fromkeys(column.group for column in self.columns))
        known = [column.name for column in self.columns]
        for name in names:
            if name not in groups + known:
                raise UsageError(
                    f"The frame {self.name} has no column or group {name!r}. "
                    f"Its groups: {', '.join(groups)}. Its columns: {', '.join(known)}."
                )
        names.append(IDS)
        return tuple(column for column in self.columns if column.name in names or column.group in names)


def observed(status: str, owner: str) -> str:
    """The expression for a status as it is: `interrupted` where a process is gone that should be running."""
    return f"CASE WHEN {status} = 'running' AND owner_is_gone({owner}) THEN 'interrupted' ELSE {status} END"


def n_chars(text: str) -> str:
    """The expression for the number of characters of a text, which is also right where the text holds NUL.

    SQLite's `length` stops there, and its `replace` does not find it; in JSON it is an escape.
    """
    escaped = rf"replace(replace(json_quote({text}), '\\', '?'), '\u0000', '?')"
    return (
        f"CASE WHEN instr(CAST({text} AS BLOB), x'00') THEN length(json_extract({escaped}, '$')) "
        f"ELSE length({text}) END"
    )


def n_lines(text: str) -> str:
    """The expression for the number of lines of a text; the last one may do without a line feed."""
    blob = f"CAST({text} AS BLOB)"
    feeds = f"length({blob}) - length(CAST(replace({text}, char(10), '') AS BLOB))"
    return f"{feeds} + ({text} <> '' AND substr({blob}, -1) <> x'0a')"
