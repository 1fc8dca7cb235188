"""Storage of plans, as versions of the artifact `task_plan`, and of the jobs that work on them.

A change is one transaction. It reads the current plan, which a person may have edited a moment before, and stores the
new version, the job that starts or ends, and their events. So each change is stored exactly once, and a plan can be
continued from its rows.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.core.plan import PLAN_CREATE_TOOL, PLAN_MEDIA_TYPE, Plan, PlanJob, PlanProgress, plan_id
from artifactflow_nb.errors import UsageError
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID, Artifact
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship
from artifactflow_nb.store.calls import STARTED
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import insert, to_row
from artifactflow_nb.store.runs import EventRow, event_row, insert_events
from artifactflow_nb.store.schema import to_microseconds

_JOBS = """
SELECT job_id, n, kind, step_id, attempt, instruction, outcome, text FROM plan_jobs WHERE tool_call_id = ? ORDER BY n
"""

_OTHER_JOBS = """
SELECT count(*) FROM plan_jobs WHERE tool_call_id <> :call
    AND run_id = (SELECT run_id FROM tool_calls WHERE tool_call_id = :call)
"""

_NEWEST_FIRST = """
SELECT content FROM artifact_versions WHERE conversation_id = ? AND artifact_id = ? AND message_id = ?
    AND tool_call_id IS NULL
ORDER BY version DESC
"""


@dataclass(frozen=True, slots=True)
class PlanTransition:
    """The result of a change.

    Attributes:
        before: The plan before the change; None for its first version.
        artifact: The new version; None if the plan is unchanged.
    """

    before: Plan | None
    plan: Plan
    artifact: Artifact | None


PlanEdit = Callable[[Plan], Plan]
EventFactory = Callable[[PlanTransition], StreamEvent | None]
"""Makes the event for a change; None for no event."""


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A change of a plan.

    Attributes:
        edit: The new plan, or a function of the current plan, which is called inside the write transaction.
        job: The job that starts, or that ends if the job has an outcome; None for no job.
        event_factories: Functions that create the events of the change, in order.
    """

    tool_call_id: str
    authorship: Authorship
    edit: Plan | PlanEdit
    job: PlanJob | None
    at: datetime
    event_factories: Sequence[EventFactory] = ()


class PlanStore:
    """Reads the progress of plans, and stores their changes with the events."""

    def __init__(self, database: Database, artifacts: ArtifactManager) -> None:
        self._database = database
        self._artifacts = artifacts

    async def progress(self, conversation_id: str, message_id: str, tool_call_id: str) -> PlanProgress | None:
        """Return the plan of a call with the jobs of the plan, or None if the plan was not started.

        A person can edit the artifact; versions that are not a valid plan, or are another plan, are ignored. Versions
        that an agent wrote with an artifact tool are ignored too, because nobody approved such plans.
        """
        return await self._database.read(lambda db: _progress(db, conversation_id, message_id, tool_call_id))

    async def progress_for_job_call(
        self, conversation_id: str, message_id: str, tool_call_id: str
    ) -> PlanProgress | None:
        """Return the plan to which the job of a tool call belongs, or None."""
        sql = "SELECT j.tool_call_id FROM tool_calls c JOIN plan_jobs j USING (job_id) WHERE c.tool_call_id = ?"

        def work(db: sqlite3.Connection) -> PlanProgress | None:
            row = db.execute(sql, (tool_call_id,)).fetchone()
            return None if row is None else _progress(db, conversation_id, message_id, row[0])

        return await self._database.read(work)

    async def change(self, change: PlanChange, earlier: Sequence[EventRow]) -> list[StreamEvent]:
        """Store a change after earlier events; return its events."""

        def work(db: sqlite3.Connection) -> list[StreamEvent]:
            insert_events(db, earlier)
            return self.write(db, change)

        return await self._database.write(work)

    def write(self, db: sqlite3.Connection, change: PlanChange) -> list[StreamEvent]:
        """Store a change in the caller's transaction; return its events.

        An edit of an artifact that is no longer a valid plan changes nothing.
        """
        before = _current_plan(db, change.authorship.conversation_id, change.authorship.message_id, change.tool_call_id)
        if isinstance(change.edit, Plan):
            plan = change.edit
        elif before is None:
            return []
        else:
            plan = change.edit(before)
        version = None
        if plan != before:
            version = self._artifacts.put(
                db, change.authorship, TASK_PLAN_ID, plan.title, plan.to_json(), PLAN_MEDIA_TYPE
            )
        if (job := change.job) is not None and job.outcome:
            sql = "UPDATE plan_jobs SET outcome = ?, text = ?, completed_at = ? WHERE job_id = ?"
            db.execute(sql, (job.outcome, job.text, to_microseconds(change.at), job.job_id))
        elif job is not None:
            row = to_row(
                job,
                omit=("outcome", "text"),
                plan_id=plan_id(change.tool_call_id),
                run_id=change.authorship.run_id,
                tool_call_id=change.tool_call_id,
                agent_name=change.authorship.created_by,
                started_at=to_microseconds(change.at),
            )
            insert(db, "plan_jobs", row)
        candidates = (make_event(PlanTransition(before, plan, version)) for make_event in change.event_factories)
        events = [event for event in candidates if event is not None]
        insert_events(db, list(map(event_row, events)))
        return events

    async def unfinished_calls(self, run_id: str) -> list[tuple[str, str, str]]:
        """Return the calls of a run whose plans have not ended, as tool call id, job id and agent."""
        sql = (
            "SELECT tool_call_id, job_id, agent_name FROM tool_calls WHERE run_id = ? AND tool_name = ? AND status = ? "
            "ORDER BY called_at, tool_call_id"
        )
        rows = await self._database.fetch_all(sql, (run_id, PLAN_CREATE_TOOL, STARTED))
        return [tuple(row) for row in rows]

    async def tool_call_of_job(self, job_id: str) -> str | None:
        """Return the call that created the plan of a job, or None if the job belongs to no plan."""
        sql = "SELECT tool_call_id FROM plan_jobs WHERE job_id = ?"
        row = await self._database.fetch_one(sql, (job_id,))
        return None if row is None else str(row[0])

    async def n_plans(self, run_id: str) -> int:
        """Return the number of plans that were started in a run."""
        sql = "SELECT count(DISTINCT tool_call_id) FROM plan_jobs WHERE run_id = ?"
        ((n_plans,),) = await self._database.fetch_all(sql, (run_id,))
        return int(n_plans)


def _progress(db: sqlite3.Connection, conversation_id: str, message_id: str, tool_call_id: str) -> PlanProgress | None:
    plan = _current_plan(db, conversation_id, message_id, tool_call_id)
    if plan is None:
        return None
    (n_other_jobs,) = db.execute(_OTHER_JOBS, {"call": tool_call_id}).fetchone()
    return PlanProgress(plan, tuple(PlanJob(*row) for row in db.execute(_JOBS, (tool_call_id,))), n_other_jobs)


def _current_plan(
    db: sqlite3.Connection, conversation_id: str, message_id: str | None, tool_call_id: str
) -> Plan | None:
    for (content,) in db.execute(_NEWEST_FIRST, (conversation_id, TASK_PLAN_ID, message_id)):
        try:
            plan = Plan.from_json(content)
        except UsageError:  # a person's edit left no valid plan: the previous version counts
            continue
        if plan.plan_id == plan_id(tool_call_id):
            return plan
    return None
