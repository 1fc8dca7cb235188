"""Whether rows that come from a file are those of one run: nothing in them is believed before.

They are held against the columns of the tables and against each other. Hashes have to be those of their texts, or a
file could put other words into the prompts that the store shows.
"""

import math
import re
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from artifactflow_nb.errors import CassetteError
from artifactflow_nb.events import StreamEvent, StreamEventType
from artifactflow_nb.recordings.event_checks import flaw_of
from artifactflow_nb.recordings.pieces import unpack
from artifactflow_nb.recordings.row_masks import sha256
from artifactflow_nb.recordings.rows import ENDED, SHA256, TABLES, Row, Rows, tables_of
from artifactflow_nb.store.calls import FINISHED, PENDING, STARTED
from artifactflow_nb.store.runs import COMPLETED
from artifactflow_nb.store.schema import from_us, known_version
from artifactflow_nb.text.cards import visible

OLDEST_SCHEMA = 6
"""The first schema whose runs can be sealed."""

_MOST = 2**53
"""Whole numbers are below this, which is some 285 years in microseconds."""

_DEEPEST = 100
_NUMBERS: Mapping[str, type | tuple[type, ...]] = {"INTEGER": int, "REAL": (float, int)}
_OF_A_FILE = {"sources": {"size", "mtime_ns", "first_passage", "last_passage"}, "sections": {"section_id"}}
"""Columns that say something of the machine or the store alone."""

_UNDECLARED = (
    ("artifact_versions", "run_id", "runs", "run_id"),
    ("artifact_versions", "tool_call_id", "tool_calls", "tool_call_id"),
)
"""References that the schema does not declare: what they refer to may go before they do."""

_EVENTS = frozenset(StreamEventType)
_COUNTED = re.compile(r"-?\d{1,12}(?:\*(\d{1,7}))?")


def check_rows(db: sqlite3.Connection, rows: Rows) -> None:
    """Check rows against the tables of a store that is up to date; they need not be in it.

    Errors: `CassetteError` that names the table, the row and what is wrong.
    """
    newest = known_version(db)
    if not OLDEST_SCHEMA <= rows.schema <= newest:
        advice = "Update artifactflow-nb." if rows.schema > newest else "No release has written such a file."
        raise CassetteError(f"The rows have the schema {rows.schema}; {OLDEST_SCHEMA} to {newest} are known. {advice}")
    wanted = tables_of(rows.schema)
    if set(rows.tables) != wanted:
        raise CassetteError(
            f"The tables are {', '.join(sorted(rows.tables))}; they must be {', '.join(sorted(wanted))}."
        )
    for table in TABLES:
        columns = _columns(db, table)
        for row in rows[table]:
            _check_columns(table, columns, row)
            _check_texts(table, row)
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
    words = [word for key in keys[:3] for word in visible(str(key))[:80].split()]
    return " ".join([table, *words])


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
            raise _fail(table, row, f"{name} is {str(value)[:80]!r}, which is no {column['type']}")


def _fits(value: Any, declared: str) -> bool:
    if isinstance(value, str) or declared == "TEXT":
        return isinstance(value, str) and declared == "TEXT"
    number = isinstance(value, _NUMBERS[declared]) and not isinstance(value, bool)
    return number and math.isfinite(value) and -_MOST < value < _MOST


def _check_texts(table: str, row: Row) -> None:
    """Check what stands inside of texts: JSON, hashes, words that the program goes by."""
    for name in row:
        if name.endswith("_json") and row[name] is not None:
            wanted = list if name == "request_json" else dict
            if not _is_json(row[name], wanted):
                raise _fail(table, row, f"{name} is no JSON {wanted.__name__}")
    if "sha256" in row and "content" in row and row["sha256"] != sha256(row["content"]):
        raise _fail(table, row, "the text is not the one that its hash names")
    if table in {"runs", "messages"} and row["status"] not in ENDED:
        raise _fail(table, row, f"the status is {row['status'][:80]!r}; only what has ended can come from a file")
    if table == "runs" and (row.get("owner") is not None or row.get("completed_at") is None):
        raise _fail(table, row, "it has an owner, or no end")
    if table == "tool_calls":
        _check_call(row)
    if table == "events":
        _check_event(row)
    if table == "llm_calls":
        _check_turn(row)


def _is_json(text: str, wanted: type) -> bool:
    try:
        value = orjson.loads(text)
    except ValueError:
        return False
    return isinstance(value, wanted) and _is_shallow(value)


def _is_shallow(value: Any) -> bool:
    """Whether nothing is nested so deep that those who walk through it would fail."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return True
    return False


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _check_call(row: Row) -> None:
    status = row["status"]
    if status not in {PENDING, STARTED, FINISHED}:
        raise _fail("tool_calls", row, f"there is no status {status[:80]!r}")
    told = [row.get(name) for name in ("success", "metadata_json", "called_at", "completed_at", "duration_ms")]
    if status == FINISHED and None in told:
        raise _fail("tool_calls", row, "it is finished and does not say with what")


def _check_event(row: Row) -> None:
    if row["event_type"] not in _EVENTS or row["seq"] < 1:
        raise _fail("events", row, f"there is no event {row['event_type'][:80]!r} with the number {row['seq']}")
    if (flaw := flaw_of(row["event_type"], orjson.loads(row["data_json"]))) is not None:
        raise _fail("events", row, flaw)


def _check_turn(row: Row) -> None:
    for entry in orjson.loads(row["request_json"]):
        if not (isinstance(entry, list) and len(entry) in {2, 3} and all(isinstance(one, str) for one in entry[:2])):
            raise _fail("llm_calls", row, "request_json holds what is no message")
        if not SHA256.fullmatch(entry[1]):
            raise _fail("llm_calls", row, f"{entry[1][:80]!r} is no hash of a text")
    if row.get("pieces_json") is not None and not _are_pieces(row):
        raise _fail("llm_calls", row, "pieces_json does not say how the text arrived")


def _are_pieces(row: Row) -> bool:
    packed = orjson.loads(row["pieces_json"])
    try:
        said = sum(map(len, packed.get("said", {}).values()))
        if _n_pieces(packed) > len(row["content"]) + len(row["reasoning"]) + said + 1000:
            return False
        unpack(packed, from_us(row["started_at"]), {"answer": row["content"], "reasoning": row["reasoning"]})
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return False
    return True


def _n_pieces(packed: Mapping[str, Any]) -> int:
    """How many pieces there are, at most, before any of them is made."""
    counts = [sum(abs(int(times)) for _, _, times in packed["kinds"])]
    for name in ("chars", "ms", "seq"):
        matches = [_COUNTED.fullmatch(word) for word in packed[name].split()]
        counts.append(sum(_MOST if match is None else int(match[1] or 1) for match in matches))
    return max(counts)


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
    texts = {row["sha256"] for row in rows["texts"]}
    for row in rows["llm_calls"]:
        if not {entry[1] for entry in orjson.loads(row["request_json"])} <= texts:
            raise _fail("llm_calls", row, "a text of its prompt is not in the file")


def _declared(db: sqlite3.Connection) -> Iterator[tuple[str, str, str, str]]:
    """The references of the schema: table and column, and what they refer to."""
    for table in TABLES:
        for reference in db.execute(f"PRAGMA foreign_key_list({table})").fetchall():
            target = reference["table"]
            yield table, reference["from"], target, reference["to"] or keys_of(db, target)[0]


def _check_branch(rows: Rows) -> None:
    """Check that there is one conversation, and in it one branch that ends with the run's message."""
    if len(rows["conversations"]) != 1:
        raise CassetteError(f"There are {len(rows['conversations'])} conversations; there must be one.")
    before = None
    for row in rows["messages"]:
        if row.get("parent_id") != before:
            raise _fail("messages", row, "it does not follow the message before it")
        before = row["message_id"]
    runs = [row for row in rows["runs"] if row["run_id"] == rows.run_id]
    if not runs or runs[0]["message_id"] != before:
        raise CassetteError(f"The run {rows.run_id[:80]!r} does not answer the last message of the file.")
    if rows["conversations"][0]["active_message_id"] != before:
        raise _fail("conversations", rows["conversations"][0], "its active message is not the last of the file")


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
