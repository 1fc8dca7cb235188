"""Whether rows that come from a file are those of one run: nothing in them is believed before.

They are held against the columns of the tables and against each other. Hashes have to be those of their texts, or a
file could put other words into the prompts that the store shows.
"""

import math
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from artifactflow_nb.errors import CassetteError
from artifactflow_nb.events import StreamEvent, StreamEventType
from artifactflow_nb.recordings.bounded import loads
from artifactflow_nb.recordings.row_texts import check_texts
from artifactflow_nb.recordings.rows import TABLES, Row, Rows
from artifactflow_nb.store.runs import COMPLETED
from artifactflow_nb.store.schema import from_us, known_version
from artifactflow_nb.text.cards import visible

OLDEST_SCHEMA = 6
"""The first schema whose runs can be sealed."""

_MOST = 2**53
"""Whole numbers are below this, which is some 285 years in microseconds."""

_NUMBERS: Mapping[str, type | tuple[type, ...]] = {"INTEGER": int, "REAL": (float, int)}
_OF_A_FILE = {"sources": {"size", "mtime_ns", "first_passage", "last_passage"}, "sections": {"section_id"}}
"""Columns that say something of the machine or the store alone."""

_UNDECLARED = (
    ("artifact_versions", "run_id", "runs", "run_id"),
    ("artifact_versions", "tool_call_id", "tool_calls", "tool_call_id"),
)
"""References that the schema does not declare: what they refer to may go before they do."""


def check_rows(db: sqlite3.Connection, rows: Rows) -> None:
    """Check rows against the tables of a store that is up to date; they need not be in it.

    Errors: `CassetteError` that names the table, the row and what is wrong.
    """
    newest = known_version(db)
    if not OLDEST_SCHEMA <= rows.schema <= newest:
        advice = "Update artifactflow-nb." if rows.schema > newest else "No release has written such a file."
        raise CassetteError(f"The rows have the schema {rows.schema}; {OLDEST_SCHEMA} to {newest} are known. {advice}")
    if set(rows.tables) != set(TABLES):
        raise CassetteError(f"The tables are {', '.join(sorted(rows.tables))}; they must be {', '.join(TABLES)}.")
    for table in TABLES:
        columns = _columns(db, table)
        for row in rows[table]:
            _check_columns(table, columns, row)
            try:
                check_texts(table, row)
            except ValueError as error:
                raise _fail(table, row, str(error)) from error
    _check_keys(db, rows)
    _check_references(db, rows)
    _check_branch(rows)
    _check_ends(rows)


def keys_of(db: sqlite3.Connection, table: str) -> list[str]:
    """The columns of a table's primary key."""
    columns = db.execute(f"PRAGMA table_info({table})").fetchall()
    return [column["name"] for column in sorted(columns, key=lambda column: int(column["pk"])) if column["pk"]]


def named(table: str, row: Row) -> str:
    """A row as an error names it."""
    keys = [value for name, value in row.items() if name.endswith("_id") or name in {"seq", "version", "sha256"}]
    words = [word for key in keys[:3] for word in visible(_shown(key)).split()]
    return " ".join([table, *words])


def _shown(value: Any) -> str:
    """The beginning of a value; of a list or an object, which may be long and deep, what it is."""
    return type(value).__name__ if isinstance(value, list | dict) else str(value)[:80]


def _fail(table: str, row: Row, what: str) -> CassetteError:
    return CassetteError(f"{named(table, row)}: {what}.")


# --- each row by itself ----------------------------------------------------------------------------------------------


def _columns(db: sqlite3.Connection, table: str) -> dict[str, sqlite3.Row]:
    found = db.execute(f"PRAGMA table_info({table})").fetchall()
    return {column["name"]: column for column in found if column["name"] not in _OF_A_FILE.get(table, ())}


def _check_columns(table: str, columns: Mapping[str, sqlite3.Row], row: Row) -> None:
    if unknown := sorted(set(row) - set(columns)):
        raise _fail(table, row, f"there is no column {unknown[0][:80]!r}")
    for name, column in columns.items():
        needed = bool(column["notnull"] or column["pk"])
        if name not in row and not (needed and column["dflt_value"] is None):
            continue
        value = row.get(name)
        if value is None and needed:
            raise _fail(table, row, f"{name} is missing")
        if value is not None and not _fits(value, column["type"]):
            raise _fail(table, row, f"{name} is {_shown(value)!r}, which is no {column['type']}")


def _fits(value: Any, declared: str) -> bool:
    if isinstance(value, str) or declared == "TEXT":
        return isinstance(value, str) and declared == "TEXT"
    number = isinstance(value, _NUMBERS[declared]) and not isinstance(value, bool)
    return number and math.isfinite(value) and -_MOST < value < _MOST


# --- all rows together -----------------------------------------------------------------------------------------------


def _check_keys(db: sqlite3.Connection, rows: Rows) -> None:
    for table in TABLES:
        keys = ["source_id", "anchor"] if table == "sections" else keys_of(db, table)
        seen = set()
        for row in rows[table]:
            key = tuple(row[name] for name in keys)
            if key in seen:
                raise _fail(table, row, "it is there twice")
            seen.add(key)


def _check_references(db: sqlite3.Connection, rows: Rows) -> None:
    """Check that rows refer to rows of the file only: what a store holds besides is not theirs to add to."""
    for table, column, target, key in (*_declared(db), *_UNDECLARED):
        known = {row[key] for row in rows[target]}
        for row in rows[table]:
            if row.get(column) is not None and row[column] not in known:
                raise _fail(table, row, f"{column} names what is not in the file")
    texts = {row["sha256"]: row["content"] for row in rows["texts"]}
    for row in rows["llm_calls"]:
        if not {entry[1] for entry in orjson.loads(row["request_json"])} <= texts.keys():
            raise _fail("llm_calls", row, "a text of its prompt is not in the file")
        tools = orjson.loads(row.get("offer_json") or "{}").get("tools")
        if tools and not _are_tools(texts.get(tools, "")):
            raise _fail("llm_calls", row, "the tools that it was offered are not in the file")


def _are_tools(text: str) -> bool:
    try:
        found = loads(text)
    except ValueError:
        return False
    return isinstance(found, list) and all(isinstance(tool, dict) for tool in found)


def _declared(db: sqlite3.Connection) -> Iterator[tuple[str, str, str, str]]:
    """The references of the schema: table and column, and what they refer to."""
    for table in TABLES:
        for reference in db.execute(f"PRAGMA foreign_key_list({table})").fetchall():
            target = reference["table"]
            yield table, reference["from"], target, reference["to"] or keys_of(db, target)[0]


def _check_branch(rows: Rows) -> None:
    """Check that the run ends a branch, and that the other conversations are those of runs that were begun for it."""
    if not (runs := [row for row in rows["runs"] if row["run_id"] == rows.run_id]):
        raise CassetteError(f"The run {rows.run_id[:80]!r} is not in the file.")
    ours, last = runs[0]["conversation_id"], dict[str, Any]()
    for row in rows["messages"]:
        before = last.get(row["conversation_id"])
        if row.get("parent_id") != before or (before is not None and row["conversation_id"] != ours):
            raise _fail("messages", row, "it does not follow the message before it")
        last[row["conversation_id"]] = row["message_id"]
    if last.get(ours) != runs[0]["message_id"]:
        raise CassetteError(f"The run {rows.run_id[:80]!r} does not answer the last message of its conversation.")
    known = {row["run_id"] for row in rows["runs"]}
    begun = {row["conversation_id"] for row in rows["runs"] if row.get("parent_run_id") in known}
    for row in rows["conversations"]:
        if row["conversation_id"] not in {ours, *begun}:
            raise _fail("conversations", row, "no run of the file was begun in it by another")
        if row["active_message_id"] != last.get(row["conversation_id"]):
            raise _fail("conversations", row, "its active message is not the last of the file")


def _check_ends(rows: Rows) -> None:
    """Check that the events of each run end it: whoever follows a run without an end would wait for it forever."""
    ends = {row["run_id"]: row["event_type"] for row in rows["events"] if _is_terminal(row)}
    for run in rows["runs"]:
        if run["run_id"] not in ends:
            raise _fail("runs", run, f"its events do not say that it is {run['status']}")
        if run["status"] == COMPLETED and ends[run["run_id"]] != StreamEventType.COMPLETE:
            raise _fail("runs", run, f"it is completed, and its events end it with {ends[run['run_id']]}")


def _is_terminal(row: Row) -> bool:
    kind, data = StreamEventType(row["event_type"]), orjson.loads(row["data_json"])
    return StreamEvent(kind, from_us(row["ts"]), row["seq"], row["run_id"], data=data).is_terminal
