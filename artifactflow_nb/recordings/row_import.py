"""Rows of a file into a store: all of them or none, and never over what is there."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from artifactflow_nb.errors import CassetteError, Conflict
from artifactflow_nb.recordings.row_checks import check_rows, keys_of, named
from artifactflow_nb.recordings.rows import TABLES, Row, Rows
from artifactflow_nb.store.database import insert

_LOCAL = {"sources", "sections"}
"""Tables of what a store itself has read of files."""

_LASTING = {"conversations": ("conversation_id", "created_at")}
"""Columns that stay as they were; where a table is not named, all of them do."""

_NAMED = 5


def import_rows(db: sqlite3.Connection, rows: Rows, *, alone: bool = False) -> int:
    """Put the rows into a store, within the transaction that the connection is in; how many were new.

    Rows that are there with the same content are left alone. A decision for a whole conversation comes in as one for
    its run: what somebody let happen elsewhere lets nothing happen here. The index of local sources does not come in:
    it says what files of this machine hold, and what the run read of them stands in its tool calls.

    Args:
        db: A connection in a transaction.
        rows: What is to be put in.
        alone: Whether the store is for these rows only, to be read: then they all come in just as they are.

    Errors: `CassetteError` for rows that cannot be; `Conflict` that names those which are there with another content.
        Nothing was written then, if the transaction is rolled back.
    """
    check_rows(db, rows)
    new, other = [], []
    for table in TABLES:
        keys = keys_of(db, table)
        for row in rows[table] if alone or table not in _LOCAL else ():
            there = None if alone else _stored(db, table, keys, row)
            if there is None:
                new.append((table, row if alone else _narrowed(table, row)))
            elif not any(_is_same(table, there, one) for one in (row, _narrowed(table, row))):
                other.append(named(table, row))
    if other:
        raise _conflict(other)
    try:
        for table, row in new:
            insert(db, table, row)
    except sqlite3.IntegrityError as error:
        if alone:  # then it is with another row of the file that it cannot be
            raise CassetteError(f"{named(table, row)}: {error}.") from error
        raise _conflict([f"{named(table, row)} ({error})"]) from error
    return len(new)


def _stored(db: sqlite3.Connection, table: str, keys: Sequence[str], row: Row) -> Mapping[str, Any] | None:
    where = " AND ".join(f"{key} = ?" for key in keys)
    found = db.execute(f"SELECT * FROM {table} WHERE {where}", [row[key] for key in keys]).fetchone()  # noqa: S608 - names of the schema
    return None if found is None else dict(found)


def _is_same(table: str, there: Mapping[str, Any], row: Row) -> bool:
    return all(there[name] == row[name] for name in _LASTING.get(table, row))


def _narrowed(table: str, row: Row) -> Row:
    """The row without power over what is asked here later."""
    return {**row, "scope": "run"} if table == "approvals" and row.get("scope") == "conversation" else row


def _conflict(rows: Sequence[str]) -> Conflict:
    more = f" and {len(rows) - _NAMED:,} more" if len(rows) > _NAMED else ""
    return Conflict(
        f"This store has other content under the same ids: {'; '.join(rows[:_NAMED])}{more}. Nothing was imported. "
        "Look at the file with af.open_run(path), or import it into a workbench with another data_dir."
    )
