"""Plans as they are stored: versions of the artifact `task_plan`, and the jobs that work on them.

A change is one transaction: it is made to the plan as it is then, which a person may have edited a moment before, and
stores its new version, the job that begins or ends, and the events that tell it. So what is stored says exactly once
what has happened, and a plan goes on from there.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from artifactflow_nb.errors import UsageError
from artifactflow_nb.events import StreamEvent
from artifactflow_nb.plans import PLAN_CREATE, PLAN_TYPE, Plan, PlanJob, Progress, plan_id
from artifactflow_nb.store.artifact_versions import TASK_PLAN, Artifact
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship
from artifactflow_nb.store.calls import STARTED
from artifactflow_nb.store.database import Database, insert
from artifactflow_nb.store.runs import event_row, insert_events
from artifactflow_nb.store.schema import to_us

_JOBS = "SELECT * FROM plan_jobs WHERE tool_call_id = ? ORDER BY n"

_OTHERS = """
SELECT count(*) FROM plan_jobs WHERE tool_call_id <> :call
    AND run_id = (SELECT run_id FROM tool_calls WHERE tool_call_id = :call)
"""

_NEWEST = """
SELECT content FROM artifact_versions WHERE conversation_id = ? AND artifact_id = ? AND message_id = ?
    AND tool_call_id IS NULL
ORDER BY version DESC
"""


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change has made of a plan.

    Attributes:
        before: The plan before it; None for its first version.
        plan: The plan from now on.
        written: The version that says so; None if the plan is as before.
    """

    before: Plan | None
    plan: Plan
    written: Artifact | None


PlanEdit = Callable[[Plan], Plan]
Tell = Callable[[Changed], StreamEvent | None]
"""The event that tells a change; None if there is nothing to tell."""


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A change of a plan.

    Attributes:
        tool_call_id: The call that made the plan.
        by: Who changes it.
        edit: The plan, or what makes it of the present one. That runs while nobody else can write.
        job: The job that begins, or ends if it has an outcome; None for neither.
        at: When.
        tells: What makes the events that tell it, in order.
    """

    tool_call_id: str
    by: Authorship
    edit: Plan | PlanEdit
    job: PlanJob | None
    at: datetime
    tells: Sequence[Tell] = ()


class PlanStore:
    """Reads and writes plans."""

    def __init__(self, database: Database, artifacts: ArtifactManager) -> None:
        self._database = database
        self._artifacts = artifacts

    async def progress(self, conversation_id: str, message_id: str, tool_call_id: str) -> Progress | None:
        """How far the plan of a call is; None if it was not begun.

        A person may have edited it by hand: what is no plan any more, or another one, is passed over. So is what an
        agent wrote by a call of a tool, which nobody was asked about.
        """
        return await self._database.read(lambda db: _progress(db, conversation_id, message_id, tool_call_id))

    async def progress_of(self, conversation_id: str, message_id: str, tool_call_id: str) -> Progress | None:
        """How far the plan is for which the job of a call works; None if it works for none."""
        sql = "SELECT j.tool_call_id FROM tool_calls c JOIN plan_jobs j USING (job_id) WHERE c.tool_call_id = ?"

        def work(db: sqlite3.Connection) -> Progress | None:
            row = db.execute(sql, (tool_call_id,)).fetchone()
            return None if row is None else _progress(db, conversation_id, message_id, row[0])

        return await self._database.read(work)

    async def change(self, change: PlanChange) -> list[StreamEvent]:
        """Store a change; the events that tell it."""
        return await self._database.write(lambda db: self.write(db, change))

    def write(self, db: sqlite3.Connection, change: PlanChange) -> list[StreamEvent]:
        """The same in the transaction of a caller who stores more than that. What is no plan any more is left so."""
        before = _present(db, change.by.conversation_id, change.by.message_id, change.tool_call_id)
        if isinstance(change.edit, Plan):
            plan = change.edit
        elif before is None:
            return []
        else:
            plan = change.edit(before)
        written = None
        if plan != before:
            written = self._artifacts.put(db, change.by, TASK_PLAN, plan.title, plan.to_json(), PLAN_TYPE)
        if change.job is not None:
            _write_job(db, change, change.job)
        made = (tell(Changed(before, plan, written)) for tell in change.tells)
        events = [event for event in made if event is not None]
        insert_events(db, list(map(event_row, events)))
        return events

    async def under_way(self, run_id: str) -> list[tuple[str, str, str]]:
        """The calls of a run whose plans are not over: each with its job and the agent that made it."""
        sql = (
            "SELECT tool_call_id, job_id, agent_name FROM tool_calls WHERE run_id = ? AND tool_name = ? AND status = ? "
            "ORDER BY called_at, tool_call_id"
        )
        found = await self._database.read(lambda db: db.execute(sql, (run_id, PLAN_CREATE, STARTED)).fetchall())
        return [tuple(row) for row in found]

    async def call_of(self, job_id: str) -> str | None:
        """The call whose plan a job works for; None for a job that works for none."""
        sql = "SELECT tool_call_id FROM plan_jobs WHERE job_id = ?"
        row = await self._database.read(lambda db: db.execute(sql, (job_id,)).fetchone())
        return None if row is None else str(row[0])

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
    plan = _present(db, conversation_id, message_id, tool_call_id)
    if plan is None:
        return None
    (n_before,) = db.execute(_OTHERS, {"call": tool_call_id}).fetchone()
    return Progress(plan, tuple(map(_job, db.execute(_JOBS, (tool_call_id,)))), n_before)


def _present(db: sqlite3.Connection, conversation_id: str, message_id: str | None, tool_call_id: str) -> Plan | None:
    for (content,) in db.execute(_NEWEST, (conversation_id, TASK_PLAN, message_id)):
        plan = _plan(content)
        if plan is not None and plan.plan_id == plan_id(tool_call_id):
            return plan
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
        "plan_id": plan_id(change.tool_call_id),
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
