"""Runs and their events, written while a run proceeds.

The status of a run is determined by its row, not by the checkpoint of its graph. Starting and ending a run take one
transaction each, so that message, run and event are stored together or not at all.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson

from artifactflow_nb.core.budget import BudgetUsage
from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.runs import Outcome, ParentCall
from artifactflow_nb.core.text.format import without_context
from artifactflow_nb.errors import Conflict, NotFound, UsageError, brief
from artifactflow_nb.store.conversations import (
    ParentId,
    ParentSelector,
    insert_conversation,
    insert_message,
    resolve_parent,
)
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import from_row, insert, pack_text, to_json, to_row, unpack_text
from artifactflow_nb.store.metrics import load_budget_usage, load_budget_usage_at_last_turn
from artifactflow_nb.store.schema import from_microseconds, to_microseconds

RUNNING, WAITING, COMPLETED, FAILED, CANCELLED = "running", "waiting", "completed", "failed", "cancelled"
ABANDONED = "abandoned"
"""Status of a run that could continue but that no process drives; it can be resumed.

The process of the run died, either during the run or between the last decision and the resumption. The status is
derived from the locks and never stored: see `ownership.effective_status`.
"""

DELETED = "deleted"
"""Status that a handle shows for a run that is no longer in the store."""

SHORT_ID_CHARS = 12

_EVENTS_AT_ONCE = 100

START_LOCK = """CASE WHEN r.status = 'waiting' AND NOT EXISTS (
    SELECT 1 FROM runs x JOIN approvals a ON a.run_id = x.run_id
    WHERE (x.run_id = r.run_id OR x.parent_run_id = r.run_id)
    AND a.decision IS NULL AND x.status IN ('running', 'waiting')
) THEN 'start-' || r.run_id END"""
"""SQL for the name of the lock that an engine holds while it resumes the run `r`.

NULL unless the run is waiting and all requests of the run and its subruns are decided.
"""

_OF_CALL = """
SELECT run_id FROM runs WHERE parent_run_id = (SELECT run_id FROM tool_calls WHERE tool_call_id = ?1)
AND settings_json ->> '$.subrun.tool_call_id' = ?1
"""
_UNFINISHED_SUBRUNS = (
    "SELECT run_id FROM runs WHERE parent_run_id = ? AND status IN ('running', 'waiting') ORDER BY rowid"
)
_PARENT_CALL = (
    "SELECT run_id, message_id, step, position FROM tool_calls JOIN runs USING (run_id) WHERE tool_call_id = ?"
)
_START_EVENT = """
SELECT 1 FROM events WHERE run_id = (SELECT run_id FROM tool_calls WHERE tool_call_id = ?1)
AND event_type = 'subrun_start' AND stored_text(data_json) ->> '$.tool_call_id' = ?1
"""

_GRAPH_STATE = """
WITH RECURSIVE branch (message_id, distance) AS (
    SELECT ?1, 0 UNION ALL SELECT m.parent_id, distance + 1 FROM branch JOIN messages m USING (message_id)
)
SELECT graph_state_json FROM branch JOIN runs USING (message_id)
WHERE flow = ?2 AND graph_state_json IS NOT NULL ORDER BY distance, runs.rowid DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class NewRun:
    """The values of a new run.

    Attributes:
        started_at: Start time, in whole milliseconds.
        settings: The settings that another process needs to resume the run, as plain JSON.
        mode: `live`, `record`, `replay` or `auto`.
        manifest: Versions, agents and hashes of the inputs, as plain JSON.
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
    """A run's row; see `NewRun`, the frame `runs` and, for `start_lock`, `START_LOCK`."""

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
    start_lock: str | None = None
    outcome: Outcome | None = None

    @property
    def short_id(self) -> str:
        """The beginning of the id, from which `load_full_id` finds the run."""
        return self.run_id[:SHORT_ID_CHARS]

    @property
    def parent_call(self) -> ParentCall | None:
        """The tool call for which this subrun was started; None for other runs."""
        return ParentCall.from_settings(self.settings)


class RunStore:
    """Access to runs and events.

    Errors: `NotFound` for an unknown run; `Conflict` if the run's status does not allow the operation.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, run: NewRun, new_conversation_id: str) -> StoredRun:
        """Store a message, its run and the first event, in a new conversation unless the run names a conversation."""
        now = to_microseconds(run.started_at)

        def work(db: sqlite3.Connection) -> StoredRun:
            if run.conversation_id is None:
                conversation_id = new_conversation_id
                insert_conversation(db, conversation_id, _title(db, run), now)
            else:
                conversation_id = run.conversation_id
            is_root = run.conversation_id is None and isinstance(run.parent, ParentSelector)
            parent_id = None if is_root else resolve_parent(db, conversation_id, run.parent)
            insert_message(db, run.message_id, conversation_id, parent_id, run.question, now)
            parent = ParentCall.from_settings(run.settings)
            row = to_row(
                replace(run, conversation_id=conversation_id),
                omit=("parent", "settings", "manifest"),
                status=RUNNING,
                parent_run_id=parent and parent.run_id,
                settings_json=orjson.dumps(run.settings, option=orjson.OPT_SORT_KEYS).decode(),
                manifest_json=orjson.dumps(orjson.loads(to_json(run.manifest)), option=orjson.OPT_SORT_KEYS).decode(),
            )
            try:
                insert(db, "runs", row)
            except sqlite3.IntegrityError as error:
                raise UsageError(f"A thread {run.thread_id!r} exists already; omit thread_id for a new one.") from error
            unset = dict.fromkeys(StoredRun.__dataclass_fields__)
            settings = orjson.loads(row["settings_json"])
            stored = from_row(StoredRun, unset | row, parent_message_id=parent_id, settings=settings)
            insert_events(db, [event_row(first_event(stored))])
            return stored

        return await self._database.write(work)

    async def append_rows(self, rows: Sequence["EventRow"]) -> None:
        """Append events, which `event_row` has converted to rows."""
        await self._database.write(lambda db: insert_events(db, rows))

    async def finish(
        self,
        run_id: str,
        status: str,
        event: StreamEvent,
        *,
        response: str | None = None,
        also_write: Callable[[sqlite3.Connection], Sequence[StreamEvent]] = lambda _db: (),
    ) -> list[StreamEvent]:
        """Store the status, the response and the terminal event of a run in one transaction.

        Args:
            run_id: The run.
            status: `completed`, `failed` or `cancelled`.
            event: The terminal event.
            response: The answer; None to leave the message's response unchanged.
            also_write: Called in the same transaction, before the terminal event is stored; returns further events.

        Returns the events of `also_write` and the terminal event, in order. Errors: `Conflict` if the run has ended.
        """
        ended_at = to_microseconds(event.timestamp)
        error_type, error_message = event.data.get("error_type"), event.data.get("message")

        def work(db: sqlite3.Connection) -> list[StreamEvent]:
            cursor = db.execute(
                "UPDATE runs SET status = ?, completed_at = max(started_at, ?), owner = NULL, error_type = ?, "
                "error_message = ?, outcome = ? WHERE run_id = ? AND status IN ('running', 'waiting')",
                (status, ended_at, error_type, error_message, event.data.get("outcome"), run_id),
            )
            if cursor.rowcount != 1:
                raise Conflict(f"The run {brief(run_id)} has ended already and cannot end twice.")
            _set_message(db, run_id, status, response)
            earlier_events = also_write(db)
            insert_events(db, [event_row(event)])
            return [*earlier_events, event]

        return await self._database.write(work)

    async def pause(self, run_id: str, event: StreamEvent) -> bool:
        """Set the run to `waiting`, without an owner, and store the event of the pause.

        Returns False and stores nothing if a decision has no event yet: the event of the decision must precede `event`.
        """

        def work(db: sqlite3.Connection) -> bool:
            unpublished = "SELECT 1 FROM approvals WHERE run_id = ? AND decision IS NOT NULL AND NOT published"
            if db.execute(unpublished, (run_id,)).fetchone():
                return False
            db.execute("UPDATE runs SET status = 'waiting', owner = NULL WHERE run_id = ?", (run_id,))
            _set_message(db, run_id, WAITING, None)
            insert_events(db, [event_row(event)])
            return True

        return await self._database.write(work)

    async def acquire(self, run_id: str, owner: str, *, gone_owner: str | None = None) -> bool:
        """Make `owner` the owner of a waiting run or a run of `gone_owner`; False if another engine has the run."""

        def work(db: sqlite3.Connection) -> bool:
            cursor = db.execute(
                "UPDATE runs SET status = 'running', owner = ? WHERE run_id = ? "
                "AND (status = 'waiting' OR (status = 'running' AND owner IS ?))",
                (owner, run_id, gone_owner or owner + "?"),  # `owner?` is nobody's name and matches no row
            )
            if cursor.rowcount == 1:
                _set_message(db, run_id, RUNNING, None)
            return cursor.rowcount == 1

        return await self._database.write(work)

    async def store_graph_state(self, run_id: str, state: Mapping[str, Any]) -> None:
        """Store the part of a graph's state with which the next question of the conversation starts."""
        sql = "UPDATE runs SET graph_state_json = ? WHERE run_id = ?"
        await self._database.write(lambda db: db.execute(sql, (to_json(state), run_id)))

    async def graph_state(self, message_id: str | None, flow: str) -> dict[str, Any]:
        """Return the stored state of the last run of a flow on the branch of a message, or an empty dictionary."""
        row = await self._database.fetch_one(_GRAPH_STATE, (message_id, flow))
        return {} if row is None else orjson.loads(row[0])

    async def get(self, run_id: str) -> StoredRun:
        """Return the row of a run; `NotFound` for an unknown id."""
        return await self._database.read(lambda db: load_run(db, run_id))

    async def get_by_thread(self, thread_id: str) -> StoredRun:
        """Return the run of a thread; `NotFound` for an unknown thread."""

        def work(db: sqlite3.Connection) -> StoredRun:
            row = db.execute("SELECT run_id FROM runs WHERE thread_id = ?", (thread_id,)).fetchone()
            if row is None:
                raise NotFound(f"There is no run with the thread {brief(thread_id)} in this store.")
            return load_run(db, row["run_id"])

        return await self._database.read(work)

    async def unfinished(self) -> list[StoredRun]:
        """Return the waiting and running runs, including subruns, the oldest first."""
        return await self._database.read(lambda db: load_unfinished(db, with_subruns=True))

    async def parent_call(self, tool_call_id: str) -> ParentCall:
        """Return the parent call of a subrun for a tool call."""
        ((run_id, message_id, step, position),) = await self._database.fetch_all(_PARENT_CALL, (tool_call_id,))
        return ParentCall(run_id, message_id, tool_call_id, f"{step}.{position + 1}")

    async def subrun_of_call(self, tool_call_id: str) -> StoredRun | None:
        """Return the subrun that was started for a call, or None."""

        def work(db: sqlite3.Connection) -> StoredRun | None:
            row = db.execute(_OF_CALL, (tool_call_id,)).fetchone()
            return None if row is None else load_run(db, row["run_id"])

        return await self._database.read(work)

    async def is_start_published(self, tool_call_id: str) -> bool:
        """Return whether the `subrun_start` event of a call is stored; the process may have died before the write."""
        return await self._database.fetch_one(_START_EVENT, (tool_call_id,)) is not None

    async def budget_usage(self, run_id: str, *, with_subruns: bool = False) -> BudgetUsage:
        """Return the tokens, money and time that a run has used so far, optionally with its subruns."""
        return await self._database.read(lambda db: load_budget_usage(db, run_id, with_subruns=with_subruns))

    async def budget_usage_at_last_turn(self, run_id: str) -> BudgetUsage:
        """Return the usage of a run and its subruns up to and including the last turn of the main job."""
        return await self._database.read(lambda db: load_budget_usage_at_last_turn(db, run_id))

    async def newest_run_id(self) -> str | None:
        """Return the id of the run that was started last, or None in an empty store."""
        sql = "SELECT run_id FROM runs ORDER BY rowid DESC LIMIT 1"
        row = await self._database.fetch_one(sql)
        return None if row is None else str(row["run_id"])

    async def events(self, run_id: str, after: int = 0) -> list[StreamEvent]:
        """Return the stored events of a run with sequence numbers above `after`, in order."""
        return await self._database.read(lambda db: load_events(db, run_id, after))


def first_event(run: StoredRun) -> StreamEvent:
    """Return the event that is stored with a new run."""
    names = ("conversation_id", "message_id", "thread_id", "flow", "question")
    data = {name: getattr(run, name) for name in names}
    return StreamEvent(StreamEventType.METADATA, run.started_at, 1, run.run_id, data=data)


def load_run(db: sqlite3.Connection, run_id: str) -> StoredRun:
    """Load the row of a run; `NotFound` for an unknown run."""
    row = db.execute(
        f"SELECT r.*, m.parent_id AS parent_message_id, m.response, {START_LOCK} AS start_lock "  # noqa: S608 - a constant
        "FROM runs r JOIN messages m USING (message_id) WHERE r.run_id = ?",
        (run_id,),
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no run {brief(run_id)} in this store: it was deleted, or it is in another store.")
    return from_row(StoredRun, row, settings=orjson.loads(row["settings_json"]))


def run_exists(db: sqlite3.Connection, run_id: str) -> bool:
    """Return whether the store has a run with this id."""
    return db.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone() is not None


def load_full_id(db: sqlite3.Connection, beginning: str) -> str:
    """Return the id of the run that begins like this; return the beginning unless exactly one run matches."""
    rows = db.execute("SELECT run_id FROM runs WHERE substr(run_id, 1, ?1) = ?2 LIMIT 2", (len(beginning), beginning))
    ids = [row["run_id"] for row in rows]
    return ids[0] if len(ids) == 1 else beginning


def load_unfinished(db: sqlite3.Connection, *, with_subruns: bool = False) -> list[StoredRun]:
    """Load waiting and running runs, oldest first; by default without their subruns, which the parents resume."""
    rows = db.execute("SELECT run_id FROM runs WHERE status IN ('running', 'waiting') ORDER BY rowid").fetchall()
    runs = [load_run(db, row["run_id"]) for row in rows]
    ids = {run.run_id for run in runs}
    return [run for run in runs if with_subruns or run.parent_call is None or run.parent_call.run_id not in ids]


def load_unfinished_subruns(db: sqlite3.Connection, run_id: str) -> list[str]:
    """Load the ids of a run's unfinished subruns, the oldest first."""
    return [row["run_id"] for row in db.execute(_UNFINISHED_SUBRUNS, (run_id,))]


def load_events(db: sqlite3.Connection, run_id: str, after: int = 0) -> list[StreamEvent]:
    """Load the stored events of a run with sequence numbers above `after`, in order."""
    rows = db.execute("SELECT * FROM events WHERE run_id = ? AND seq > ? ORDER BY seq", (run_id, after))
    return [read_event(row) for row in rows]


def read_event(row: Mapping[str, Any] | sqlite3.Row) -> StreamEvent:
    """Convert a row of `events` to an event."""
    return StreamEvent(
        StreamEventType(row["event_type"]),
        from_microseconds(row["ts"]),
        row["seq"],
        row["run_id"],
        row["agent_name"],
        row["tool_name"],
        orjson.loads(unpack_text(row["data_json"])),
    )


EventRow = tuple[str, int, int, str, str | None, str | None, str]


def event_row(event: StreamEvent) -> EventRow:
    """Convert an event to a row of `events`."""
    return (
        event.run_id,
        event.seq,
        to_microseconds(event.timestamp),
        event.type.value,
        event.agent,
        event.tool,
        to_json(event.data),
    )


def insert_events(db: sqlite3.Connection, rows: Sequence[EventRow]) -> None:
    """Append rows to `events`."""
    # Each statement has many rows: SQLite releases the GIL in each statement and may wait long to get the GIL again.
    for start in range(0, len(rows), _EVENTS_AT_ONCE):
        some = rows[start : start + _EVENTS_AT_ONCE]
        places = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(some))
        values = [value for *columns, data in some for value in (*columns, pack_text(data))]
        db.execute(f"INSERT INTO events VALUES {places}", values)  # noqa: S608 - placeholders only


def _title(db: sqlite3.Connection, run: NewRun) -> str:
    """Return the title of a subrun's conversation, or an empty string: other conversations are named by a question."""
    if (parent := ParentCall.from_settings(run.settings)) is None:
        return ""
    sql = "SELECT title FROM conversations JOIN runs USING (conversation_id) WHERE run_id = ?"
    parent_conversation = db.execute(sql, (parent.run_id,)).fetchone()
    question = without_context(run.question)
    return question if parent_conversation is None else f"{run.flow} for {parent_conversation['title']}: {question}"


def _set_message(db: sqlite3.Connection, run_id: str, status: str, response: str | None) -> None:
    db.execute(
        "UPDATE messages SET status = ?, response = coalesce(?, response) "
        "WHERE message_id = (SELECT message_id FROM runs WHERE run_id = ?)",
        (status, response, run_id),
    )
