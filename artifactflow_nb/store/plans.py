"""Plans as they are stored: versions of the artifact `task_plan`, and the jobs that work on them.

A change is one transaction: the plan's new version, the job that begins or ends, and the events that tell it. So what
is stored says exactly once what has happened, and a plan goes on from there.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from artifactflow_nb.errors import UsageError
from artifactflow_nb.plans import PLAN_TYPE, Plan, PlanJob, Progress, plan_id
from artifactflow_nb.store.artifact_versions import TASK_PLAN, Artifact
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship
from artifactflow_nb.store.database import Database, insert
from artifactflow_nb.store.runs import EventRow, insert_events
from artifactflow_nb.store.schema import to_us

_JOBS = "SELECT * FROM plan_jobs WHERE tool_call_id = ? ORDER BY n"

_NEWEST = """
SELECT content FROM artifact_versions WHERE conversation_id = ? AND artifact_id = ? AND message_id = ?
ORDER BY version DESC
"""


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A change of a plan.

    Attributes:
        tool_call_id: The call that made the plan.
        by: Who changes it.
        plan: The plan from now on.
        job: The job that begins, or ends if it has an outcome; None for neither.
        at: When.
    """

    tool_call_id: str
    by: Authorship
    plan: Plan
    job: PlanJob | None
    at: datetime


class PlanStore:
    """Reads and writes plans."""

    def __init__(self, database: Database, artifacts: ArtifactManager) -> None:
        self._database = database
        self._artifacts = artifacts

    async def progress(self, conversation_id: str, message_id: str, tool_call_id: str) -> Progress | None:
        """How far the plan of a call is; None if it was not begun.

        A person may have edited it by hand: what is no plan any more, or another one, is passed over.
        """
        return await self._database.read(lambda db: _progress(db, conversation_id, message_id, tool_call_id))

    async def progress_of(self, conversation_id: str, message_id: str, tool_call_id: str) -> Progress | None:
        """How far the plan is for which the job of a call works; None if it works for none."""
        sql = "SELECT j.tool_call_id FROM tool_calls c JOIN plan_jobs j USING (job_id) WHERE c.tool_call_id = ?"

        def work(db: sqlite3.Connection) -> Progress | None:
            row = db.execute(sql, (tool_call_id,)).fetchone()
            return None if row is None else _progress(db, conversation_id, message_id, row[0])

        return await self._database.read(work)

    async def change(self, change: PlanChange, events: Sequence[EventRow]) -> Artifact | None:
        """Store a change with the events that tell it; the version that is written, None if the plan is the same."""

        def work(db: sqlite3.Connection) -> Artifact | None:
            text = change.plan.to_json()
            written = self._artifacts.put(db, change.by, TASK_PLAN, change.plan.title, text, PLAN_TYPE)
            if change.job is not None:
                _write_job(db, change, change.job)
            insert_events(db, events)
            return written

        return await self._database.write(work)

    async def n_plans(self, run_id: str) -> int:
        """How many plans of a run were begun."""
        sql = "SELECT count(DISTINCT tool_call_id) FROM plan_jobs WHERE run_id = ?"
        row = await self._database.read(lambda db: db.execute(sql, (run_id,)).fetchone())
        return int(row[0])


def load_plans(db: sqlite3.Connection, run_id: str) -> list[Plan]:
    """The plans that a run has begun, in order, as they stand now."""
    sql = """
        SELECT tool_call_id, conversation_id, message_id FROM plan_jobs AS j JOIN runs USING (run_id)
        WHERE run_id = ? GROUP BY tool_call_id ORDER BY min(j.started_at), tool_call_id
    """
    found = [_progress(db, conversation, message, call) for call, conversation, message in db.execute(sql, (run_id,))]
    return [progress.plan for progress in found if progress is not None]


def _progress(db: sqlite3.Connection, conversation_id: str, message_id: str, tool_call_id: str) -> Progress | None:
    for (content,) in db.execute(_NEWEST, (conversation_id, TASK_PLAN, message_id)):
        plan = _plan(content)
        if plan is not None and plan.plan_id == plan_id(tool_call_id):
            return Progress(plan, tuple(map(_job, db.execute(_JOBS, (tool_call_id,)))))
    return None


def _plan(content: str) -> Plan | None:
    try:
        return Plan.from_json(content)
    except UsageError:
        return None


def _job(row: sqlite3.Row) -> PlanJob:
    return PlanJob(
        row["job_id"],
        row["n"],
        row["kind"],
        row["step_id"],
        row["attempt"],
        row["instruction"],
        row["outcome"],
        row["text"],
    )


def _write_job(db: sqlite3.Connection, change: PlanChange, job: PlanJob) -> None:
    at = to_us(change.at)
    if job.outcome:
        sql = "UPDATE plan_jobs SET outcome = ?, text = ?, completed_at = ? WHERE job_id = ?"
        db.execute(sql, (job.outcome, job.text, at, job.job_id))
        return
    row = {
        "job_id": job.job_id,
        "plan_id": change.plan.plan_id,
        "run_id": change.by.run_id,
        "tool_call_id": change.tool_call_id,
        "n": job.n,
        "kind": job.kind,
        "agent_name": change.by.created_by,
        "step_id": job.step_id,
        "attempt": job.attempt,
        "instruction": job.instruction,
        "started_at": at,
    }
    insert(db, "plan_jobs", row)
