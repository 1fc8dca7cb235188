"""The schema of a store, in one version. A store of another version is refused; no store is converted.

Times are whole microseconds since 1970 in UTC. Texts of prompts are stored once, by hash, in `texts`.
"""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any, Literal

from artifactflow_nb.errors import StoreError, UsageError, brief

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SCHEMA_VERSION = 1
"""The version of the schema, which cassettes and sealed files have as well. The first commit after a release that
changes the schema raises the version."""

_SCHEMA = (files(__package__) / "schema.sql").read_text(encoding="utf-8").strip().removesuffix(";")
"""Some indexes cover the columns of trees and lists, which are read without the texts in the rows.

- `llm_calls`: `request_base` is the call on whose prompt this prompt is based; see `prompts`. `llm_calls_by_job` finds
  the last call of a job without a scan.
- `texts`, `text_uses`, `text_parts`: compressed texts, and the runs and texts that use them; see `encoding`. `texts`
  and `events` have rowids, because rows are appended: pages of tables without rowids were half full, and a row of more
  than 1 KB took a page of its own.
- `approvals`: a request is about a `subject`, which is a tool call or the budget of a run; `allowed` are its possible
  outcomes, and `decision_number` gives the order of decisions even if the clock is set back.
- `deleted_versions` keeps the number of a deleted version from being used again.
- `passages` of a source are numbered without gaps. `passage_vectors` are 16-bit floats, all of one model;
  `vector_models.helps` is the result of a check.
- `plugin_tables`: the tables of plugins in this store, see `Table`.
- `source_metadata`: what a source says about itself (without an anchor) or its sections, as JSON objects; the reader of
  the file decides on the form.
"""

KEYS: dict[str, tuple[str, ...]] = {
    "conversations": ("conversation_id",),
    "messages": ("message_id",),
    "runs": ("run_id",),
    "texts": ("sha256",),
    "llm_calls": ("call_id",),
    "tool_calls": ("tool_call_id",),
    "plan_jobs": ("job_id",),
    "approvals": ("request_id",),
    "events": ("run_id", "seq"),
    "artifact_versions": ("conversation_id", "artifact_id", "version"),
}
"""The tables of a recording with their primary keys; each row comes after the rows that it refers to."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a plugin. Its rows are deleted with their owner; rows of a run are also recorded, sealed and imported.

    A row with a `tool_call_id` or `job_id` belongs to that call or job: a replay shows the row, and a fork copies the
    row, with the call.

    Attributes:
        columns: SQL of the columns. The column `run_id` or `conversation_id` of the owner is added.
        key: The column of the primary key; in a table of a run, the key is unique in the whole store.
        owner: The owner of the rows: a run, a conversation, or the store.
        version: The version of the columns. A store that has the table in another version is refused.
        holds_jobs: Whether the rows are jobs of agents, with `job_id`, `instruction` and `started_at`.
    """

    name: str
    columns: str
    key: str
    owner: Literal["run", "conversation", "store"] = "run"
    version: int = 1
    holds_jobs: bool = False

    @property
    def statements(self) -> tuple[str, ...]:
        """The SQL that creates the table."""
        if self.owner == "store":
            return (f"CREATE TABLE {self.name} ({self.columns}, PRIMARY KEY ({self.key}))",)
        owner = f"{self.owner}_id"
        reference = f"{owner} TEXT NOT NULL REFERENCES {self.owner}s ON DELETE CASCADE"
        return (
            f"CREATE TABLE {self.name} ({self.columns}, {reference}, PRIMARY KEY ({self.key}))",
            f"CREATE INDEX {self.name}_by_{self.owner} ON {self.name} ({owner})",
        )


PLUGIN_TABLES: dict[str, Table] = {}
"""The tables of the plugins that this process uses, by name."""

RowCheck = Callable[[str, Mapping[str, Any]], None]
ROW_CHECKS: dict[str, RowCheck] = {}
"""Checks of rows from files, by plugin: each gets the name of a table and a row, and raises `ValueError`."""


def add_table(table: Table) -> None:
    """Make a table of a plugin known: stores that are opened from now on have it.

    Errors: `UsageError` for a name that another table has.
    """
    if PLUGIN_TABLES.get(table.name, table) != table or not table.name.isidentifier() or f" {table.name} (" in _SCHEMA:
        raise UsageError(f"A plugin cannot have a table {brief(table.name)}: the name is in use, or is no identifier.")
    PLUGIN_TABLES[table.name] = table
    if table.owner == "run":
        KEYS[table.name] = (table.key,)


def stored_plugin_tables(db: sqlite3.Connection) -> list[Table]:
    """Return the tables of plugins that a store has and this process knows."""
    names = [row[0] for row in db.execute("SELECT name FROM plugin_tables")]
    return [table for name, table in PLUGIN_TABLES.items() if name in names]


_OWN_TABLES = {"conversations", "messages", "runs", "events"}
"""Tables by which a store of any version is distinguished from the database of another application."""


def has_schema(connection: sqlite3.Connection) -> bool:
    """Return whether the file has the tables of a store; an empty file has none. Nothing is written.

    Errors: `StoreError` with the path for a store of another version and for a database of another application.
    """
    needs_transaction = not connection.in_transaction
    if needs_transaction:  # one snapshot for both queries: another process may be creating the tables
        connection.execute("BEGIN")
    try:
        names = (row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'"))
        tables = {name for name in names if not name.startswith("sqlite_")}
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    finally:
        if needs_transaction:
            connection.execute("ROLLBACK")
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    if tables and not (version and tables >= _OWN_TABLES):
        first_tables = ", ".join(sorted(tables)[:5])
        raise StoreError(
            f"{path} is a database of another application (its tables: {first_tables}). The file was "
            "not changed. Move the file away, or choose another data_dir."
        )
    if version not in {0, SCHEMA_VERSION}:
        raise StoreError(
            f"The store {path} has the schema {version}, and this release reads the schema {SCHEMA_VERSION} only. "
            "The store was not changed. Choose another data_dir, or use the release that wrote the store."
        )
    return bool(tables)


def create_schema(connection: sqlite3.Connection) -> None:
    """Create, in one transaction, the tables of a store in an empty file, and missing tables of plugins in any file.

    Errors: as for `has_schema`, and `StoreError` for another version of a plugin's table; the file is then unchanged.
    """
    connection.execute("BEGIN IMMEDIATE")  # other processes that open the store wait here
    try:
        if not has_schema(connection):
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        versions = {row[0]: row[1] for row in connection.execute("SELECT name, version FROM plugin_tables")}
        for table in PLUGIN_TABLES.values():
            if (version := versions.get(table.name, table.version)) != table.version:
                raise StoreError(
                    f"The store has version {version} of the table {table.name!r}, and the plugin version "
                    f"{table.version}. Choose another data_dir, or use the version of the plugin that wrote the store."
                )
            if table.name not in versions:
                for statement in table.statements:
                    connection.execute(statement)
                connection.execute("INSERT INTO plugin_tables VALUES (?, ?)", (table.name, table.version))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def to_microseconds(moment: datetime) -> int:
    """Convert an aware time to whole microseconds since 1970 in UTC."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(us: int) -> datetime:
    """Convert microseconds since 1970 to an aware time in UTC."""
    return _EPOCH + timedelta(microseconds=us)
