"""Subruns: the runs that were started for a tool call of another run."""

import sqlite3
from typing import Any

from artifactflow_nb.core.runs import ParentCall
from artifactflow_nb.store.calls import FINISHED
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import read_row
from artifactflow_nb.store.runs import StoredRun, load_run

_OF_CALL = """
SELECT run_id FROM runs WHERE parent_run_id = (SELECT run_id FROM tool_calls WHERE tool_call_id = ?1)
AND settings_json ->> '$.subrun.tool_call_id' = ?1
"""
_UNFINISHED = "SELECT run_id FROM runs WHERE parent_run_id = ? AND status IN ('running', 'waiting') ORDER BY rowid"
_PARENT_CALL = (
    "SELECT run_id, message_id, step, position FROM tool_calls JOIN runs USING (run_id) WHERE tool_call_id = ?"
)
_START_EVENT = """
SELECT 1 FROM events WHERE run_id = (SELECT run_id FROM tool_calls WHERE tool_call_id = ?1)
AND event_type = 'subrun_start' AND stored_text(data_json) ->> '$.tool_call_id' = ?1
"""
_CALLS = "SELECT * FROM tool_calls WHERE run_id = ? AND status = ? ORDER BY called_at, tool_call_id"


class SubrunStore:
    """Read access to subruns and the calls for which they were started."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def parent_call(self, tool_call_id: str) -> ParentCall:
        """Return the parent call of a subrun for a tool call."""
        ((run_id, message_id, step, position),) = await self._database.fetch_all(_PARENT_CALL, (tool_call_id,))
        return ParentCall(run_id, message_id, tool_call_id, f"{step}.{position + 1}")

    async def get_by_call(self, tool_call_id: str) -> StoredRun | None:
        """Return the subrun that was started for a call, or None."""

        def work(db: sqlite3.Connection) -> StoredRun | None:
            row = db.execute(_OF_CALL, (tool_call_id,)).fetchone()
            return None if row is None else load_run(db, row["run_id"])

        return await self._database.read(work)

    async def is_start_published(self, tool_call_id: str) -> bool:
        """Return whether the parent run has stored its `subrun_start` event; its process may have died before."""
        return await self._database.fetch_one(_START_EVENT, (tool_call_id,)) is not None

    async def calls(self, run_id: str) -> list[dict[str, Any]]:
        """Return the rows of a run's finished tool calls, by start time."""

        def work(db: sqlite3.Connection) -> list[dict[str, Any]]:
            return [read_row(db, row) for row in db.execute(_CALLS, (run_id, FINISHED))]

        return await self._database.read(work)


def load_unfinished_subruns(db: sqlite3.Connection, run_id: str) -> list[str]:
    """Load the ids of a run's unfinished subruns, the oldest first."""
    return [row["run_id"] for row in db.execute(_UNFINISHED, (run_id,))]
