"""The rows of a run, out of one store and into another, as plain JSON by table.

A run does not stand alone: its prompts rest on the messages before it, on what their runs did, on the artifacts that
its branch sees, and on the runs that these began, each in a conversation of its own. All of that goes along, and
nothing of other branches or conversations does.
"""

import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from artifactflow_nb.errors import Conflict
from artifactflow_nb.store.message_tree import load_tree
from artifactflow_nb.store.runs import CANCELLED, COMPLETED, FAILED, load_run
from artifactflow_nb.store.schema import known_version
from artifactflow_nb.store.sources import SCHEME
from artifactflow_nb.store.storable import to_json
from artifactflow_nb.text.citations import Document, addresses_in, read_documents

Row = Mapping[str, Any]

ENDED = frozenset({COMPLETED, FAILED, CANCELLED})
"""The statuses of a run after which nothing of it changes any more."""

SHA256 = re.compile(r"\b[0-9a-f]{64}\b")


def _of_runs(table: str, order: str = "rowid") -> str:
    return f"SELECT * FROM {table} WHERE run_id IN (SELECT value FROM json_each(:runs)) ORDER BY {order}"  # noqa: S608 - names of the schema


_QUERIES = {
    "conversations": (
        "SELECT * FROM conversations WHERE conversation_id IN (SELECT value FROM json_each(:conversations)) "
        "ORDER BY rowid"
    ),
    "messages": "SELECT * FROM messages WHERE message_id IN (SELECT value FROM json_each(:path)) ORDER BY rowid",
    "runs": _of_runs("runs"),
    "texts": "SELECT * FROM texts WHERE sha256 IN (SELECT value FROM json_each(:texts)) ORDER BY sha256",
    "llm_calls": _of_runs("llm_calls"),
    "tool_calls": _of_runs("tool_calls"),
    "plan_jobs": _of_runs("plan_jobs"),
    "block_jobs": _of_runs("block_jobs"),
    "approvals": _of_runs("approvals"),
    "events": _of_runs("events", "run_id, seq"),
    "artifact_versions": (
        "SELECT * FROM artifact_versions WHERE conversation_id IN (SELECT value FROM json_each(:conversations)) "
        "AND (message_id IS NULL OR message_id IN (SELECT value FROM json_each(:path))) "
        "AND (run_id IS NULL OR run_id IN (SELECT value FROM json_each(:runs))) ORDER BY rowid"
    ),
    "sources": (
        "SELECT source_id, uri, title, fetched_at, media_type, sha256, n_chars, extractor FROM sources "
        "WHERE source_id IN (SELECT value FROM json_each(:sources)) ORDER BY source_id"
    ),
    "sections": (
        "SELECT source_id, anchor, title, text, position FROM sections "
        "WHERE source_id IN (SELECT value FROM json_each(:sources)) "
        "AND source_id || '#' || anchor IN (SELECT value FROM json_each(:sections)) ORDER BY source_id, position"
    ),
}  # fmt: skip

_RUNS = """
WITH RECURSIVE wanted (run_id) AS (
    SELECT run_id FROM runs WHERE message_id IN (SELECT value FROM json_each(?))
    UNION SELECT r.run_id FROM runs r JOIN wanted w ON r.parent_run_id = w.run_id
)
SELECT run_id, status, conversation_id, message_id FROM runs WHERE run_id IN wanted ORDER BY rowid
"""
"""The runs that answer messages, and those that they began."""

TABLES = tuple(_QUERIES)
"""The tables, in an order in which each row comes after those that it refers to."""

LATER_TABLES = frozenset({"plan_jobs", "block_jobs"})
"""Tables that older releases did not have; a file without rows of theirs has no member for them."""

NAMING_TEXTS = {"runs": ("manifest_json",), "llm_calls": ("request_json", "offer_json")}
"""Columns that name texts by their hashes."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a store knows of a run and of what it rests on.

    Attributes:
        run_id: The run.
        schema: The version of the store's schema.
        tables: The rows of each table of `TABLES`, each by its columns.
    """

    run_id: str
    schema: int
    tables: Mapping[str, tuple[Row, ...]]

    def __getitem__(self, table: str) -> tuple[Row, ...]:
        """The rows of a table."""
        return self.tables[table]

    @property
    def run(self) -> Row:
        """The run's own row."""
        return next(row for row in self["runs"] if row["run_id"] == self.run_id)

    @property
    def message(self) -> Row:
        """The row of the message that the run answers."""
        return next(row for row in self["messages"] if row["message_id"] == self.run["message_id"])


def load_rows(db: sqlite3.Connection, run_id: str) -> Rows:
    """The rows of a run as they are, with what secrets they may hold; for a file they go through `mask_rows`.

    Of the local sources that were read or are cited, the sections go along as they are indexed now.

    Errors: `NotFound` for an unknown run; `Conflict` if it, or one that it rests on, has not ended.
    """
    run = load_run(db, run_id)
    path = load_tree(db, run.conversation_id).path(run.message_id)
    runs = db.execute(_RUNS, (to_json(path),)).fetchall()
    last = {found["conversation_id"]: found["message_id"] for found in runs} | {run.conversation_id: run.message_id}
    for found in runs:
        if found["status"] not in ENDED:
            raise Conflict(f"The run {found['run_id']} is {found['status']}. Wait until it has ended, or cancel it.")
    of = {
        "conversations": to_json(list(last)),
        "path": to_json([*path, *(found["message_id"] for found in runs if found["message_id"] not in path)]),
        "runs": to_json([found["run_id"] for found in runs]),
    }
    tables = {name: _load(db, name, of) for name in TABLES if name not in {"texts", "sources", "sections"}}
    tables["texts"] = _load(db, "texts", {"texts": to_json(sorted(_texts_named(tables)))})
    local = _local_addresses(tables)
    wanted = {"sources": to_json([one.partition("#")[0] for one in local]), "sections": to_json(local)}
    tables |= {name: _load(db, name, wanted) for name in ("sources", "sections")}
    tables["conversations"] = tuple(
        {**row, "active_message_id": last[row["conversation_id"]]} for row in tables["conversations"]
    )
    return Rows(run_id, known_version(db), {name: tables[name] for name in TABLES})


def _load(db: sqlite3.Connection, table: str, values: Mapping[str, str]) -> tuple[Row, ...]:
    rows = db.execute(_QUERIES[table], values).fetchall()
    return tuple(map(dict, rows))


def _texts_named(tables: Mapping[str, tuple[Row, ...]]) -> set[str]:
    """The hashes of the texts that prompts and offers are made of."""
    named = (row.get(column) or "" for table, columns in NAMING_TEXTS.items() for column in columns
             for row in tables[table])  # fmt: skip
    return {found for text in named for found in SHA256.findall(text)}


def _local_addresses(tables: Mapping[str, tuple[Row, ...]]) -> list[str]:
    """The addresses of the local sections that were read, or are cited in an answer or an artifact."""
    texts = [row["response"] or "" for row in tables["messages"]]
    texts += [row["content"] for row in tables["artifact_versions"]]
    found = [document.address for document in documents_read(tables["tool_calls"])]
    found += [address for text in texts for address in addresses_in(text)]
    return sorted({address.removeprefix(SCHEME) for address in found if address.startswith(SCHEME)})


def documents_read(tool_calls: Iterable[Row]) -> list[Document]:
    """The sources that tools gave to the agents, as they were given, each once, in the order of the calls."""
    read: dict[Document, None] = {}
    for row in tool_calls:
        if not row["success"] or not (named := _addresses_given(row)):
            continue
        documents = read_documents(row["result"] or "")
        read |= dict.fromkeys(one for one in documents if one.error is None and one.address in named)
    return list(read)


def _addresses_given(row: Row) -> set[str]:
    results = orjson.loads(row["metadata_json"] or "{}").get("results", ())
    return {str(one.get("address")) for one in results if isinstance(one, Mapping)}
