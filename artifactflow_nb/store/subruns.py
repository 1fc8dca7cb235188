"""Which runs work for calls of others, as the store has it."""

import sqlite3

from artifactflow_nb.origin import Origin
from artifactflow_nb.store.calls import FINISHED
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.runs import StoredRun, load_run

_OF_CALL = """
SELECT run_id FROM runs WHERE parent_run_id = (SELECT run_id FROM tool_calls WHERE tool_call_id = ?1)
AND settings_json ->> '$.subrun.tool_call_id' = ?1
"""
_OPEN = "SELECT run_id FROM runs WHERE parent_run_id = ? AND status IN ('running', 'waiting') ORDER BY rowid"
_ORIGIN = "SELECT run_id, message_id, step, position FROM tool_calls JOIN runs USING (run_id) WHERE tool_call_id = ?"
_TOLD = """
SELECT 1 FROM events WHERE run_id = (SELECT run_id FROM tool_calls WHERE tool_call_id = ?1)
AND event_type = 'subrun_start' AND data_json ->> '$.tool_call_id' = ?1
"""
_CALLS = "SELECT * FROM tool_calls WHERE run_id = ? AND status = ? ORDER BY called_at, tool_call_id"


class SubrunStore:
    """Reads which runs work for which calls."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def origin(self, tool_call_id: str) -> Origin:
        """A call as what a run works for."""
        row = await self._database.read(lambda db: db.execute(_ORIGIN, (tool_call_id,)).fetchone())
        return Origin(row["run_id"], row["message_id"], tool_call_id, f"{row['step']}.{row['position'] + 1}")

    async def of_call(self, tool_call_id: str) -> StoredRun | None:
        """The run that works for a call; None if none was begun."""

        def work(db: sqlite3.Connection) -> StoredRun | None:
            row = db.execute(_OF_CALL, (tool_call_id,)).fetchone()
            return None if row is None else load_run(db, row["run_id"])

        return await self._database.read(work)

    async def is_told(self, tool_call_id: str) -> bool:
        """Whether the run that calls has said that another works for the call: a process may die before it does."""
        row = await self._database.read(lambda db: db.execute(_TOLD, (tool_call_id,)).fetchone())
        return row is not None

    async def calls(self, run_id: str) -> list[sqlite3.Row]:
        """The rows of the tool calls that a run has made, by when each began."""
        return await self._database.read(lambda db: db.execute(_CALLS, (run_id, FINISHED)).fetchall())


def load_begun(db: sqlite3.Connection, run_id: str) -> list[str]:
    """The ids of the runs that a run began and that have not ended, the oldest first."""
    return [row["run_id"] for row in db.execute(_OPEN, (run_id,))]
