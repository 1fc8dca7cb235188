"""Jobs of agents on blocks, stored before they start, so that they can be resumed after a crash."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import orjson

from artifactflow_nb.store.calls import FINISHED
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import from_row, insert, to_json, to_row
from artifactflow_nb.store.migrations import to_microseconds
from artifactflow_nb.store.ownership import effective_status
from artifactflow_nb.store.runs import RUNNING, START_LOCK, WAITING

UNFINISHED_STATUSES = (RUNNING, WAITING)

_UNFINISHED_JOBS = f"""
SELECT j.block_id, r.status, r.owner, {START_LOCK} AS start_lock FROM runs r JOIN block_jobs j USING (run_id)
JOIN tool_calls c ON c.tool_call_id = j.job_id
WHERE r.conversation_id = ? AND r.status IN (?, ?) AND c.status <> ? ORDER BY j.started_at
"""  # noqa: S608 - a constant
_JOBS = "SELECT *, agent_name AS agent, seen AS original_text FROM block_jobs WHERE job_id ="
_JOB_OF_CALL = "(SELECT job_id FROM tool_calls WHERE tool_call_id = ?)"


@dataclass(frozen=True, slots=True)
class BlockJob:
    """A job on a block or on the whole document.

    Attributes:
        job_id: The id of the job, which is a loop of an agent.
        block_id: The block; empty for the whole document.
        original_text: The block's text when the job was created.
        basis: Hashes of the texts of the block's dependencies when the job was created. For a dependency that the agent
            does not see, it is the hash from which the block was last written.
    """

    job_id: str
    run_id: str
    block_id: str
    agent: str
    instruction: str
    original_text: str
    basis: Mapping[str, str]


class BlockJobStore:
    """Stores jobs on blocks, and finds them by their ids and calls."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, job: BlockJob, at: datetime) -> None:
        """Store a job before it starts."""
        row = to_row(
            job,
            omit=("agent", "original_text", "basis"),
            agent_name=job.agent,
            seen=job.original_text,
            basis_json=to_json(dict(job.basis)),
            started_at=to_microseconds(at),
        )
        await self._database.write(lambda db: insert(db, "block_jobs", row))

    async def get(self, job_id: str) -> BlockJob | None:
        """The block job with an id; None for another kind of job."""
        return await self._load(f"{_JOBS} ?", job_id)

    async def get_by_call(self, tool_call_id: str) -> BlockJob | None:
        """The block job that made a tool call; None for another kind of job."""
        return await self._load(f"{_JOBS} {_JOB_OF_CALL}", tool_call_id)

    async def blocks_by_job(self, run_id: str) -> dict[str, str]:
        """The block ids of a run's block jobs, by job id."""
        sql = "SELECT job_id, block_id FROM block_jobs WHERE run_id = ?"
        rows = await self._database.fetch_all(sql, (run_id,))
        return {row["job_id"]: row["block_id"] for row in rows}

    async def blocks_in_progress(self, conversation_id: str) -> dict[str, str]:
        """Return the blocks of unfinished jobs in a conversation: block ids with the status of the run.

        The status is `running`, `waiting` or `interrupted`.
        """
        folder = self._database.path.parent

        def work(db: sqlite3.Connection) -> dict[str, str]:
            rows = db.execute(_UNFINISHED_JOBS, (conversation_id, *UNFINISHED_STATUSES, FINISHED)).fetchall()
            return {row[0]: effective_status(folder, *row[1:]) for row in rows}

        return await self._database.read(work)

    async def _load(self, sql: str, key: str) -> BlockJob | None:
        row = await self._database.fetch_one(sql, (key,))
        return None if row is None else from_row(BlockJob, row, basis=orjson.loads(row["basis_json"]))
