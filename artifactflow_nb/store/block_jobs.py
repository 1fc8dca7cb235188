"""What agents are asked to do with blocks: kept before they begin, so that a job goes on as it was after a crash."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import orjson

from artifactflow_nb.store.calls import FINISHED
from artifactflow_nb.store.database import Database, insert
from artifactflow_nb.store.ownership import observed_status
from artifactflow_nb.store.runs import RUNNING, WAITING
from artifactflow_nb.store.schema import to_us
from artifactflow_nb.store.storable import to_json

UNENDED = (RUNNING, WAITING)

_AT_WORK = """
SELECT j.block_id, r.status, r.owner FROM runs r JOIN block_jobs j USING (run_id)
JOIN tool_calls c ON c.tool_call_id = j.job_id
WHERE r.conversation_id = ? AND r.status IN (?, ?) AND c.status <> ? ORDER BY j.started_at
"""


@dataclass(frozen=True, slots=True)
class BlockJob:
    """A job with a block, or with the whole document.

    Attributes:
        job_id: The job, which is a loop of an agent.
        run_id: Its run.
        block_id: The block; empty for the whole document.
        agent: Whose loop it is.
        instruction: What the agent is asked.
        seen: The text that the block had when it was.
        basis: The hashes of the texts that the block rests on as they were then; where the agent sees only some of
            them, the others are those that its text was written from.
    """

    job_id: str
    run_id: str
    block_id: str
    agent: str
    instruction: str
    seen: str
    basis: Mapping[str, str]


class BlockJobStore:
    """Reads and writes them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, job: BlockJob, at: datetime) -> None:
        """Keep a job that is about to begin."""
        row = {
            "job_id": job.job_id,
            "run_id": job.run_id,
            "block_id": job.block_id,
            "agent_name": job.agent,
            "instruction": job.instruction,
            "seen": job.seen,
            "basis_json": to_json(dict(job.basis)),
            "started_at": to_us(at),
        }
        await self._database.write(lambda db: insert(db, "block_jobs", row))

    async def get(self, job_id: str) -> BlockJob | None:
        """The job of an id; None for one of another kind."""
        return await self._one("SELECT * FROM block_jobs WHERE job_id = ?", job_id)

    async def of_call(self, tool_call_id: str) -> BlockJob | None:
        """The job in which a tool is called; None if that is of another kind."""
        sql = "SELECT j.* FROM tool_calls c JOIN block_jobs j USING (job_id) WHERE c.tool_call_id = ?"
        return await self._one(sql, tool_call_id)

    async def of_run(self, run_id: str) -> dict[str, str]:
        """The blocks of the jobs of a run, by the ids of the jobs."""
        sql = "SELECT job_id, block_id FROM block_jobs WHERE run_id = ?"
        found = await self._database.read(lambda db: db.execute(sql, (run_id,)).fetchall())
        return {row["job_id"]: row["block_id"] for row in found}

    async def at_work(self, conversation_id: str) -> dict[str, str]:
        """The blocks of the jobs that have not ended in a conversation's runs, each with what its run is doing.

        That is `running` or `waiting`, or `interrupted` where the process of the run is gone.
        """
        folder = self._database.path.parent

        def work(db: sqlite3.Connection) -> dict[str, str]:
            rows = db.execute(_AT_WORK, (conversation_id, *UNENDED, FINISHED)).fetchall()
            return {row["block_id"]: observed_status(folder, row["status"], row["owner"]) for row in rows}

        return await self._database.read(work)

    async def _one(self, sql: str, key: str) -> BlockJob | None:
        row: sqlite3.Row | None = await self._database.read(lambda db: db.execute(sql, (key,)).fetchone())
        if row is None:
            return None
        return BlockJob(
            row["job_id"],
            row["run_id"],
            row["block_id"],
            row["agent_name"],
            row["instruction"],
            row["seen"],
            orjson.loads(row["basis_json"]),
        )
