"""Runs and their events: the record of what happened, written as it happens.

A run's status is this row, not what a graph remembers. Beginning and ending a run are one transaction each: message,
run and event are there together or not at all.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from artifactflow_nb.budget import Spent
from artifactflow_nb.errors import Conflict, NotFound, UsageError
from artifactflow_nb.events import StreamEvent, StreamEventType
from artifactflow_nb.origin import Origin
from artifactflow_nb.store.conversations import (
    ParentId,
    insert_conversation,
    insert_message,
    require_conversation,
    resolve_parent,
)
from artifactflow_nb.store.database import Database, insert
from artifactflow_nb.store.metrics import load_spent, load_spent_by_turn
from artifactflow_nb.store.schema import from_us, to_us
from artifactflow_nb.store.storable import to_json
from artifactflow_nb.text.framing import without_context

RUNNING, WAITING, COMPLETED, FAILED, CANCELLED = "running", "waiting", "completed", "failed", "cancelled"
INTERRUPTED = "interrupted"
"""What a running run is called when its process is gone; it can be resumed."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """What a run begins with.

    Attributes:
        started_at: When, in whole milliseconds.
        settings: What a later process needs to go on in the same way: plain JSON.
        mode: `live`, `record`, `replay` or `auto`.
        manifest: What it is made with: plain JSON.
    """

    run_id: str
    conversation_id: str | None
    message_id: str
    thread_id: str
    parent: ParentId
    question: str
    flow: str
    owner: str
    package_version: str
    started_at: datetime
    settings: dict[str, Any] = field(default_factory=dict)
    mode: str = "live"
    manifest: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run's row; see `NewRun` and frames' `runs` for the meaning of the fields."""

    run_id: str
    conversation_id: str
    message_id: str
    parent_message_id: str | None
    thread_id: str
    flow: str
    question: str
    status: str
    owner: str | None
    settings: dict[str, Any]
    error_type: str | None
    error_message: str | None
    response: str | None
    started_at: datetime
    completed_at: datetime | None
    mode: str = "live"

    @property
    def origin(self) -> Origin | None:
        """The call of another run for which it works; None for most."""
        return Origin.of_settings(self.settings)


class RunStore:
    """Reads and writes runs and events.

    Errors: `NotFound` for an unknown run; `Conflict` for a step that the run's status does not allow.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, run: NewRun, new_conversation_id: str) -> StoredRun:
        """Store the message, its run and the event that says so."""
        now = to_us(run.started_at)

        def work(db: sqlite3.Connection) -> StoredRun:
            conversation_id = new_conversation_id if run.conversation_id is None else run.conversation_id
            if run.conversation_id is None:
                insert_conversation(db, conversation_id, _title(db, run), now)
            require_conversation(db, conversation_id)
            if db.execute("SELECT 1 FROM runs WHERE thread_id = ?", (run.thread_id,)).fetchone():
                raise UsageError(f"A thread {run.thread_id!r} exists already; leave thread_id out to get a new one.")
            parent_id = resolve_parent(db, conversation_id, run.parent)
            insert_message(db, run.message_id, conversation_id, parent_id, run.question, now)
            insert(db, "runs", _run_row(run, conversation_id, now))
            insert_events(db, [event_row(_hello(run, conversation_id))])
            return load_run(db, run.run_id)

        return await self._database.write(work)

    async def append_rows(self, rows: Sequence["EventRow"]) -> None:
        """Append events, made rows by `event_row`, to the log."""
        await self._database.write(lambda db: insert_events(db, rows))

    async def finish(
        self,
        run_id: str,
        status: str,
        event: StreamEvent,
        *,
        response: str | None = None,
        along: Callable[[sqlite3.Connection], Sequence[StreamEvent]] = lambda _db: (),
    ) -> list[StreamEvent]:
        """End the run: status, response and terminal event in one transaction; `Conflict` if it has ended already.

        What ends with the run is stored by `along` in the same transaction. The events of all that, in order.
        """
        ended_at = to_us(event.timestamp)
        error_type, error_message = event.data.get("error_type"), event.data.get("message")

        def work(db: sqlite3.Connection) -> list[StreamEvent]:
            cursor = db.execute(
                "UPDATE runs SET status = ?, completed_at = max(started_at, ?), owner = NULL, error_type = ?, "
                "error_message = ? WHERE run_id = ? AND status IN ('running', 'waiting')",
                (status, ended_at, error_type, error_message, run_id),
            )
            if cursor.rowcount != 1:
                raise Conflict(f"The run {run_id!r} has ended already; it cannot end twice.")
            _set_message(db, run_id, status, response)
            before = along(db)
            insert_events(db, [event_row(event)])
            return [*before, event]

        return await self._database.write(work)

    async def pause(self, run_id: str, event: StreamEvent) -> bool:
        """Set the run waiting: nobody owns it until somebody decides and claims it.

        False, and nothing stored, if somebody has just decided something, which its events do not tell yet: so what
        was decided before a pause is told before it.
        """

        def work(db: sqlite3.Connection) -> bool:
            untold = "SELECT 1 FROM approvals WHERE run_id = ? AND decision IS NOT NULL AND NOT announced"
            if db.execute(untold, (run_id,)).fetchone():
                return False
            db.execute("UPDATE runs SET status = 'waiting', owner = NULL WHERE run_id = ?", (run_id,))
            _set_message(db, run_id, WAITING, None)
            insert_events(db, [event_row(event)])
            return True

        return await self._database.write(work)

    async def claim(self, run_id: str, owner: str, *, gone_owner: str | None = None) -> bool:
        """Take a waiting run, or one whose owner's process is gone, to go on with it; False if somebody was faster."""

        def work(db: sqlite3.Connection) -> bool:
            cursor = db.execute(
                "UPDATE runs SET status = 'running', owner = ? WHERE run_id = ? "
                "AND (status = 'waiting' OR (status = 'running' AND owner IS ?))",
                (owner, run_id, gone_owner or owner + "?"),
            )
            if cursor.rowcount == 1:
                _set_message(db, run_id, RUNNING, None)
            return cursor.rowcount == 1

        return await self._database.write(work)

    async def get(self, run_id: str) -> StoredRun:
        """The run's row."""
        return await self._database.read(lambda db: load_run(db, run_id))

    async def by_thread(self, thread_id: str) -> StoredRun:
        """The run of a thread."""

        def work(db: sqlite3.Connection) -> StoredRun:
            row = db.execute("SELECT run_id FROM runs WHERE thread_id = ?", (thread_id,)).fetchone()
            if row is None:
                raise NotFound(f"There is no run with the thread {thread_id!r} in this store.")
            return load_run(db, row["run_id"])

        return await self._database.read(work)

    async def unfinished(self) -> list[StoredRun]:
        """Runs that wait or run, the oldest first; those that runs began, too."""
        return await self._database.read(_load_open)

    async def spent(self, run_id: str, *, with_begun: bool = False) -> Spent:
        """What a run has spent so far, or it and those that it began."""
        return await self._database.read(lambda db: load_spent(db, run_id, with_begun=with_begun))

    async def spent_by_turn(self, run_id: str) -> Spent:
        """What a run and those that it began had spent with the last turn of its main job."""
        return await self._database.read(lambda db: load_spent_by_turn(db, run_id))

    async def newest(self) -> str | None:
        """The id of the run that began last; None if there is none."""
        sql = "SELECT run_id FROM runs ORDER BY rowid DESC LIMIT 1"
        row = await self._database.read(lambda db: db.execute(sql).fetchone())
        return None if row is None else str(row["run_id"])

    async def events(self, run_id: str, after: int = 0) -> list[StreamEvent]:
        """The stored events of a run with numbers above `after`, in order."""
        return await self._database.read(lambda db: load_events(db, run_id, after))


def load_run(db: sqlite3.Connection, run_id: str) -> StoredRun:
    """The run's row."""
    row = db.execute(
        "SELECT r.*, m.parent_id, m.response FROM runs r JOIN messages m USING (message_id) WHERE run_id = ?", (run_id,)
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no run {run_id!r} in this store.")
    return StoredRun(
        row["run_id"],
        row["conversation_id"],
        row["message_id"],
        row["parent_id"],
        row["thread_id"],
        row["flow"],
        row["question"],
        row["status"],
        row["owner"],
        orjson.loads(row["settings_json"]),
        row["error_type"],
        row["error_message"],
        row["response"],
        from_us(row["started_at"]),
        None if row["completed_at"] is None else from_us(row["completed_at"]),
        row["mode"],
    )


def is_run(db: sqlite3.Connection, run_id: str) -> bool:
    """Whether the store holds a run of this id."""
    return db.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone() is not None


def load_unfinished(db: sqlite3.Connection) -> list[StoredRun]:
    """Runs that wait or run, the oldest first; without those that such a run began, which go on with it."""
    runs = _load_open(db)
    ids = {run.run_id for run in runs}
    return [run for run in runs if run.origin is None or run.origin.run_id not in ids]


def _load_open(db: sqlite3.Connection) -> list[StoredRun]:
    rows = db.execute("SELECT run_id FROM runs WHERE status IN ('running', 'waiting') ORDER BY rowid").fetchall()
    return [load_run(db, row["run_id"]) for row in rows]


def load_events(db: sqlite3.Connection, run_id: str, after: int = 0) -> list[StreamEvent]:
    """The stored events of a run with numbers above `after`, in order."""
    return [
        StreamEvent(
            StreamEventType(row["event_type"]),
            from_us(row["ts"]),
            row["seq"],
            run_id,
            row["agent_name"],
            row["tool_name"],
            orjson.loads(row["data_json"]),
        )
        for row in db.execute("SELECT * FROM events WHERE run_id = ? AND seq > ? ORDER BY seq", (run_id, after))
    ]


EventRow = tuple[str, int, int, str, str | None, str | None, bytes | str]


def event_row(event: StreamEvent) -> EventRow:
    """The event as a row of `events`."""
    return (
        event.run_id,
        event.seq,
        to_us(event.timestamp),
        event.type.value,
        event.agent,
        event.tool,
        to_json(event.data),
    )


def insert_events(db: sqlite3.Connection, rows: Sequence[EventRow]) -> None:
    """Append rows to `events`."""
    db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def _title(db: sqlite3.Connection, run: NewRun) -> str:
    """What the conversation of a run that works for another is called; empty where its first question is its title."""
    if (origin := Origin.of_settings(run.settings)) is None:
        return ""
    sql = "SELECT title FROM conversations JOIN runs USING (conversation_id) WHERE run_id = ?"
    above = db.execute(sql, (origin.run_id,)).fetchone()
    question = without_context(run.question)
    return question if above is None else f"{run.flow} for {above['title']}: {question}"


def _run_row(run: NewRun, conversation_id: str, now: int) -> dict[str, Any]:
    origin = Origin.of_settings(run.settings)
    return {
        "run_id": run.run_id,
        "conversation_id": conversation_id,
        "message_id": run.message_id,
        "thread_id": run.thread_id,
        "parent_run_id": origin and origin.run_id,
        "flow": run.flow,
        "question": run.question,
        "status": RUNNING,
        "mode": run.mode,
        "owner": run.owner,
        "settings_json": orjson.dumps(run.settings, option=orjson.OPT_SORT_KEYS).decode(),
        "started_at": now,
        "package_version": run.package_version,
        "manifest_json": orjson.dumps(orjson.loads(to_json(run.manifest)), option=orjson.OPT_SORT_KEYS).decode(),
    }


def _hello(run: NewRun, conversation_id: str) -> StreamEvent:
    data = {
        "conversation_id": conversation_id,
        "message_id": run.message_id,
        "thread_id": run.thread_id,
        "flow": run.flow,
        "question": run.question,
    }
    return StreamEvent(StreamEventType.METADATA, run.started_at, 1, run.run_id, data=data)


def _set_message(db: sqlite3.Connection, run_id: str, status: str, response: str | None) -> None:
    db.execute(
        "UPDATE messages SET status = ?, response = coalesce(?, response) "
        "WHERE message_id = (SELECT message_id FROM runs WHERE run_id = ?)",
        (status, response, run_id),
    )
