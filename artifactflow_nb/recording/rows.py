"""The rows of a run: read from one store, redacted and written to a file, or written into another store.

The rows of a run include its subruns (`parent_run_id`) with their conversations. The rows of a branch also include the
earlier runs, because prompts contain earlier questions and answers.
"""

import re
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from artifactflow_nb.core.pieces import Piece, pack, unpack
from artifactflow_nb.core.redaction.names import MASK, is_secret
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.errors import Conflict
from artifactflow_nb.store.encoding import (
    HASH_COLUMNS,
    PACKED_TABLES,
    SHA256_PATTERN,
    insert,
    packed_row,
    read_row,
    sha256,
    to_json,
)
from artifactflow_nb.store.prompts import load_prompt, request_hash, resolve
from artifactflow_nb.store.runs import CANCELLED, COMPLETED, FAILED, load_run
from artifactflow_nb.store.schema import KEYS, from_microseconds, stored_plugin_tables

Row = Mapping[str, Any]
Tables = Mapping[str, tuple[Row, ...]]

ENDED = frozenset({COMPLETED, FAILED, CANCELLED})
"""The statuses after which a run no longer changes."""

NO_PROCESS = "recording"
"""An owner of unfinished runs that is not the name of a process, so that any engine can resume the runs."""

OPEN_CALL: Row = dict.fromkeys(
    ("approval", "success", "result", "metadata_json", "error_type", "error_message", "completed_at", "duration_ms",
     "shown_chars")
)  # fmt: skip
"""The columns in which a tool call without a result differs from a finished call."""

UNDECIDED: Row = dict.fromkeys(
    ("decided_at", "decision", "scope", "decided_by", "instruction", "edited_json", "decision_number")
) | {"published": 0, "by_code": 1}
"""The columns in which an open request differs from a decided request."""

OPEN_PLAN_JOB: Row = {"outcome": "", "text": "", "completed_at": None}
"""The columns in which a running job of a plan differs from a job that has ended."""

_BY_RUN = ("llm_calls", "tool_calls", "plan_jobs", "approvals")
_HASH_COLUMNS = {"runs": ("manifest_json",), **HASH_COLUMNS}

_FAMILY = """
WITH RECURSIVE family (run_id) AS (
    SELECT value FROM json_each(?) UNION SELECT r.run_id FROM runs r JOIN family f ON r.parent_run_id = f.run_id
)
SELECT run_id, conversation_id, message_id, status FROM runs WHERE run_id IN family ORDER BY rowid
"""


@dataclass(frozen=True)
class RunRows:
    """The rows of a run and of its subruns; `load_branch_rows` adds the rows of the earlier runs.

    Attributes:
        tables: The rows of each table of `KEYS`, in the order of the store.
    """

    run_id: str
    tables: Tables

    def __getitem__(self, table: str) -> tuple[Row, ...]:
        """Return the rows of a table."""
        return self.tables.get(table, ())

    @property
    def run(self) -> Row:
        """The row of the run."""
        return next(row for row in self["runs"] if row["run_id"] == self.run_id)

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The texts to which prompts and tool offers refer, by their hashes."""
        return {row["sha256"]: row["content"] for row in self["texts"]}

    @cached_property
    def prompts(self) -> Mapping[str, Sequence[Sequence[Any]]]:
        """The messages of each model call's prompt: role, hash of the text and, if any, native calls."""
        return resolve(self["llm_calls"], tuple)

    @cached_property
    def calls_of_replies(self) -> Mapping[str, Sequence[Row]]:
        """The tool calls of each reply by model call, in order."""
        calls: dict[str, list[Row]] = {}
        for row in sorted(self["tool_calls"], key=lambda row: row["position"]):
            calls.setdefault(row["call_id"], []).append(row)
        return calls

    @property
    def message(self) -> Row:
        """The row of the message that the run answers."""
        return next(row for row in self["messages"] if row["message_id"] == self.run["message_id"])

    def of_run(self, run_id: str) -> "RunRows":
        """Return the rows of a single run, without other runs and without manual edits."""
        run = next(row for row in self["runs"] if row["run_id"] == run_id)
        conversation, message = run["conversation_id"], run["message_id"]
        own: dict[str, tuple[Row, ...]] = {
            "conversations": tuple({**row, "active_message_id": message}
                                   for row in self["conversations"] if row["conversation_id"] == conversation),
            "messages": tuple(row for row in self["messages"] if row["message_id"] == message),
            "texts": self["texts"],
        }  # fmt: skip
        return RunRows(run_id, {
            table: own[table] if table in own else tuple(row for row in rows if row["run_id"] == run_id)
            for table, rows in self.tables.items()
        })  # fmt: skip


def load_run_rows(db: sqlite3.Connection, run_id: str) -> RunRows:
    """Load the rows of a run and its subruns; `NotFound` for an unknown run.

    Manual edits on the run's message, and manual edits before the first message of the conversation, are included.
    """
    run = load_run(db, run_id)
    family = db.execute(_FAMILY, (to_json([run_id]),)).fetchall()
    messages = [row["message_id"] for row in family]
    conversations = [row["conversation_id"] for row in family]
    before = [run.conversation_id] if run.parent_message_id is None else []
    return _load(db, run_id, [row["run_id"] for row in family], messages, conversations, before)


def load_branch_rows(db: sqlite3.Connection, run_id: str) -> RunRows:
    """Load the rows of a run and of all earlier runs of its branch, each with its subruns.

    Errors: `NotFound` for an unknown run; `Conflict` for a run that has not ended.
    """
    run = load_run(db, run_id)
    path: list[str] = []
    message: str | None = run.message_id
    while message is not None:
        path.insert(0, message)
        message = db.execute("SELECT parent_id FROM messages WHERE message_id = ?", (message,)).fetchone()[0]
    sql = "SELECT run_id FROM runs WHERE message_id IN (SELECT value FROM json_each(?)) ORDER BY rowid"
    on_path = [row["run_id"] for row in db.execute(sql, (to_json(path),))]
    family = db.execute(_FAMILY, (to_json(on_path),)).fetchall()
    for row in family:
        if row["status"] not in ENDED:
            raise Conflict(f"The run {row['run_id']} is {row['status']}. Wait until the run has ended, or cancel it.")
    messages = list(dict.fromkeys([*path, *(row["message_id"] for row in family)]))
    conversations = list(dict.fromkeys([run.conversation_id, *(row["conversation_id"] for row in family)]))
    rows = _load(db, run_id, [row["run_id"] for row in family], messages, conversations, conversations)
    last = {row["conversation_id"]: row["message_id"] for row in rows["messages"]}
    active = tuple({**row, "active_message_id": last.get(row["conversation_id"])} for row in rows["conversations"])
    return RunRows(run_id, {**rows.tables, "conversations": active})


def _load(
    db: sqlite3.Connection,
    run_id: str,
    runs: Collection[str],
    messages: Collection[str],
    conversations: Collection[str],
    edited_before: Collection[str],
) -> RunRows:
    """Load the tables; for the conversations in `edited_before`, also the manual versions without a message."""

    def read(table: str, where: str, *values: Collection[str], order: str = "rowid") -> tuple[Row, ...]:
        sql = f"SELECT * FROM {table} WHERE {where} ORDER BY {order}"  # noqa: S608 - names of the schema
        cursor = db.execute(sql, [to_json(list(value)) for value in values])
        return tuple(read_row(db, row) if table in PACKED_TABLES else dict(row) for row in cursor)

    of_plugins = [table.name for table in stored_plugin_tables(db) if table.owner == "run"]
    one_of = "IN (SELECT value FROM json_each(?))"
    tables: dict[str, tuple[Row, ...]] = {
        "conversations": read("conversations", f"conversation_id {one_of}", conversations),
        "messages": read("messages", f"message_id {one_of}", messages),
        "runs": read("runs", f"run_id {one_of}", runs),
        **{table: read(table, f"run_id {one_of}", runs) for table in (*_BY_RUN, *of_plugins)},
        "events": read("events", f"run_id {one_of}", runs, order="run_id, seq"),
        "artifact_versions": read(
            "artifact_versions",
            f"run_id {one_of} OR (run_id IS NULL AND message_id {one_of}) "
            f"OR (run_id IS NULL AND message_id IS NULL AND conversation_id {one_of})",
            runs,
            messages,
            edited_before,
        ),
    }
    tables["texts"] = read("texts", f"sha256 {one_of}", sorted(text_hashes(tables)), order="sha256")
    return RunRows(run_id, {table: tables.get(table, ()) for table in KEYS})


def text_hashes(tables: Tables) -> set[str]:
    """Collect the hashes of the texts to which prompts, tool offers and manifests refer."""
    columns = ((row.get(column) or "") for table, names in _HASH_COLUMNS.items() for column in names
               for row in tables[table])  # fmt: skip
    return {key for text in columns for key in SHA256_PATTERN.findall(text)}


def upsert(db: sqlite3.Connection, tables: Tables) -> None:
    """Write rows over earlier states of the same rows, in the caller's transaction.

    Errors: `Conflict` if somebody else wrote an artifact version with the same number.
    """
    for table, rows in tables.items():
        for row in rows:
            keys = KEYS[table]
            changes = ", ".join(f"{name} = excluded.{name}" for name in row if name not in keys)
            same = " WHERE run_id IS excluded.run_id" if table == "artifact_versions" else ""
            action = "NOTHING" if table == "texts" else f"UPDATE SET {changes}{same}"
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            values = tuple(packed_row(db, table, row).values())
            sql = f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT ({', '.join(keys)}) DO {action}"  # noqa: S608 - names of the schema
            cursor = db.execute(sql, values)
            if same and cursor.rowcount != 1:
                raise Conflict(
                    f"The artifact {row['artifact_id']!r} has a version {row['version']} already, written by "
                    f"{row['created_by']} in the recording and by a person here. Repeat the same manual edits, "
                    'or record again with mode="record".'
                )


def import_rows(db: sqlite3.Connection, rows: RunRows) -> int:
    """Add rows of a file to a store in the caller's transaction; return the number of new rows.

    A decision for a whole conversation or store is imported for its run only, so that approvals from elsewhere approve
    nothing in this store.

    Errors: `Conflict` for rows that exist with other content; the caller must then roll back the transaction.
    """
    new, different = [], []
    for table in KEYS:
        for row in rows[table]:
            narrowed = {**row, "scope": "run"} if row.get("scope") in {"conversation", "always"} else dict(row)
            where = " AND ".join(f"{key} = ?" for key in KEYS[table])
            values = [row[key] for key in KEYS[table]]
            stored = db.execute(f"SELECT * FROM {table} WHERE {where}", values).fetchone()  # noqa: S608 - names of the schema
            stored = stored and read_row(db, stored)
            names = {"conversation_id", "created_at"} if table == "conversations" else set(row)
            names -= {"request_base", "request_json"}  # the same prompt can be stored whole or in parts
            if stored is None:
                new.append((table, narrowed))
            elif any(stored[name] not in (row[name], narrowed[name]) for name in names) or (
                table == "llm_calls" and load_prompt(db, row["call_id"], tuple) != rows.prompts[row["call_id"]]
            ):
                different.append(f"{table} {' '.join(str(row[key]) for key in KEYS[table])}")
    try:
        for table, row in new if not different else ():
            insert(db, table, row)
    except sqlite3.IntegrityError as error:
        different.append(f"{table} ({error})")
    if different:
        more = f" and {len(different) - 5:,} more" if len(different) > 5 else ""  # noqa: PLR2004 - as many as are read
        raise Conflict(
            f"This store has other content under the same ids: {'; '.join(different[:5])}{more}. Nothing was imported. "
            "Look at the file with af.open_run(path), or import the file into a workbench with another data_dir."
        )
    return len(new)


_STRING = r'"(?:[^"\\]|\\.)*+"'
_NAMED_STRING = re.compile(rf"(?:(?P<name>{_STRING})(?P<colon>\s*:\s*)(?=[\"]))?(?P<value>{_STRING})")
"""A JSON string, with the name if the string is the value of a name."""

_DERIVED = {"sha256", "request_hash", "pieces_json"}
"""Columns that are computed from other columns."""


def redacted(rows: RunRows, redactor: Redactor) -> RunRows:
    """Return the rows without secrets, with new hashes and pieces of the changed texts."""
    texts = {row["sha256"]: redactor.text(row["content"]) for row in rows["texts"]}
    versions = {row["sha256"]: redactor.text(row["content"]) for row in rows["artifact_versions"]}  # named by blocks
    renamed = {key: sha256(text) for key, text in (versions | texts).items()}
    tables: dict[str, tuple[Row, ...]] = {}
    for table, table_rows in rows.tables.items():
        redacted_rows = []
        for row in table_rows:
            masked_row = {name: _column(name, value, redactor, renamed) for name, value in row.items()}
            if "content" in row and "sha256" in row:
                masked_row["sha256"] = sha256(masked_row["content"])
            if row.get("pieces_json") is not None:
                masked_row["pieces_json"] = _pieces(row, masked_row, redactor)
            redacted_rows.append(masked_row)
        tables[table] = tuple(redacted_rows)
    stored = {renamed[key]: text for key, text in texts.items()}
    tables["texts"] = tuple({"sha256": key, "content": stored[key]} for key in sorted(stored))
    masked = RunRows(redactor.text(rows.run_id), tables)
    calls = list(zip(rows["llm_calls"], tables["llm_calls"], strict=True))
    if any(now["request_json"] != row["request_json"] for row, now in calls):
        hashed = []
        for row, now in calls:
            prompt = masked.prompts[now["call_id"]]
            is_same = prompt == rows.prompts[row["call_id"]]
            new = request_hash(now["request_model"], now["temperature"], map(to_json, prompt))
            hashed.append(now if is_same else {**now, "request_hash": new})
        tables["llm_calls"] = tuple(hashed)
    return masked


def redacted_json(text: str, redactor: Redactor, renamed: Mapping[str, str] | None = None) -> str:
    """Redact each string of a JSON text, or replace the string by its new name; other characters are unchanged."""
    new_names = renamed or {}

    def masked(string: str, name: str = "") -> str:
        value = orjson.loads(string)
        if name and is_secret(orjson.loads(name), value):
            now = MASK
        else:
            now = new_names[value] if value in new_names else redactor.text(value)
        return string if now == value else orjson.dumps(now).decode()

    def again(match: re.Match[str]) -> str:
        name = match["name"] or ""
        return (masked(name) + match["colon"] if name else "") + masked(match["value"], name)

    return _NAMED_STRING.sub(again, text)


def _column(name: str, value: Any, redactor: Redactor, renamed: Mapping[str, str]) -> Any:
    if not isinstance(value, str) or name in _DERIVED:
        return value
    return redacted_json(value, redactor, renamed) if name.endswith("_json") else redactor.text(value)


def _pieces(row: Row, masked: Row, redactor: Redactor) -> str | None:
    """Return the pieces of the redacted text, with the number, times and positions of the original pieces."""
    packed: str = row["pieces_json"]
    texts, now = ({"answer": version["content"], "reasoning": version["reasoning"]} for version in (row, masked))
    if texts == now and redacted_json(packed, redactor) == packed:
        return packed
    try:
        pieces = unpack(orjson.loads(packed), from_microseconds(row["started_at"]), texts)
    except (ValueError, LookupError, TypeError):  # damaged pieces
        return None
    return to_json(pack(_cut(pieces, redactor), from_microseconds(row["started_at"]), now))


def _cut(pieces: list[Piece], redactor: Redactor) -> list[Piece]:
    last = {piece.kind: index for index, piece in enumerate(pieces)}
    texts = {kind: redactor.text("".join(piece.text for piece in pieces if piece.kind == kind)) for kind in last}
    done = dict.fromkeys(texts, 0)
    cut = []
    for index, piece in enumerate(pieces):
        start = done[piece.kind]
        end = len(texts[piece.kind]) if index == last[piece.kind] else start + len(piece.text)
        done[piece.kind] = end
        cut.append(piece._replace(tool=redactor.text(piece.tool), text=texts[piece.kind][start:end]))
    return cut
