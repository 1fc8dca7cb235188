"""The desk of one plan: the one place that changes it, with the events that tell so.

What is stored says how far the plan is; each change is one transaction, made only where what is stored says that it was
not made yet. So nothing is done or told twice, whoever goes on with the plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from artifactflow_nb.events import StreamEvent, StreamEventType
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.plans import JobKind, Plan, PlanJob, PlanStep, Progress, StepStatus, plan_job_id
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.store.plans import PlanChange
from artifactflow_nb.store.runs import event_row

RESULT_CHARS = 2_000
"""How much of a step's result the event that tells it carries; the plan has all of it."""

Told = tuple[StreamEventType, Mapping[str, Any]]


class PlanDesk:
    """Reads and changes the plan of one call.

    Args:
        ctx: The run.
        key: The call that made the plan; its lane is where the plan's time is.
        job_id: The job of the loop that made the call.
    """

    def __init__(self, ctx: RunContext, key: str, job_id: str) -> None:
        self.ctx = ctx
        self.key = key
        self._job_id = job_id

    async def found(self) -> Progress | None:
        """How far the plan is; None if it was not begun."""
        run = self.ctx.run
        return await self.ctx.services.plans.progress(run.conversation_id, run.message_id, self.key)

    async def progress(self) -> Progress:
        """How far the plan is, which was begun."""
        found = await self.found()
        assert found is not None  # noqa: S101 - its first version is stored before anything works on it
        return found

    async def create(self, plan: Plan, agent: str) -> None:
        """Store the plan's first version."""
        told = StreamEventType.PLAN_CREATED, {"title": plan.title, "steps": described(plan.steps)}
        await self._change(plan, None, agent, [told])

    async def start(
        self, progress: Progress, kind: JobKind, agent: str, instruction: str, *, step: PlanStep | None = None
    ) -> PlanJob:
        """Begin a job; of a step, the plan says so from now on."""
        n, step_id = len(progress.jobs) + 1, step.id if step else ""
        attempt = progress.n_attempts(step_id) + 1 if kind == "execute" else 1
        job = PlanJob(plan_job_id(self.key, n), n, kind, step_id, attempt, instruction)
        self.ctx.tape.clock.follow(job.job_id, self.key)
        if step is None or kind != "execute":
            await self._change(progress.plan, job, agent, [])
        else:
            told = StreamEventType.STEP_START, {**_about(job, step)}
            await self._change(progress.plan.with_step(step_id, "running"), job, agent, [told])
        return job

    async def end(self, plan: Plan, job: PlanJob, agent: str, told: Sequence[Told] = ()) -> None:
        """Store what came of a job, which has an outcome now, with the plan as it is from now on."""
        self.ctx.tape.clock.follow(self.key, job.job_id)
        await self._change(plan, job, agent, told)

    async def end_step(self, plan: Plan, job: PlanJob, agent: str) -> None:
        """Store what came of a step."""
        status: StepStatus = "completed" if job.outcome == "completed" else "failed"
        changed = plan.with_step(job.step_id, status, job.text)
        data = {**_about(job, plan.step(job.step_id)), "status": status, "result": job.text[:RESULT_CHARS]}
        await self.end(changed, job, agent, [(StreamEventType.STEP_COMPLETE, data)])

    async def close(self, plan: Plan, reason: str, agent: str) -> Plan:
        """Note that the steps which were not done will not be done; the plan as it is from now on."""
        closed = plan.closed(reason)
        if closed != plan:
            left = described(step for step in closed.steps if step not in plan.steps)
            await self._change(closed, None, agent, [(StreamEventType.PLAN_UPDATED, {"reason": reason, "steps": left})])
        return closed

    async def _change(self, plan: Plan, job: PlanJob | None, agent: str, told: Sequence[Told]) -> None:
        lane = job.job_id if job is not None and not job.outcome else self.key
        at = self.ctx.tape.clock.now(lane)
        run = self.ctx.run
        by = Authorship(run.conversation_id, run.message_id, agent, run.run_id, at=at)
        events = [self._event(kind, data, plan, agent, lane) for kind, data in told]
        await self.ctx.journal.flush()
        change = PlanChange(self.key, by, plan, job, at)
        written = await self.ctx.services.plans.change(change, [event_row(event) for event in events])
        for event in events:
            self.ctx.journal.publish(event)
        if written is None:
            return
        where = {"job_id": self._job_id, "tool_call_id": self.key}
        self.ctx.journal.emit(
            StreamEventType.ARTIFACT_CHANGED, {**where, **_summary(written)}, agent=agent, lane=self.key
        )

    def _event(self, kind: StreamEventType, data: Mapping[str, Any], plan: Plan, agent: str, lane: str) -> StreamEvent:
        where = {"job_id": self._job_id, "tool_call_id": self.key, "plan_id": plan.plan_id}
        return self.ctx.journal.stamp(kind, {**where, **data}, agent=agent, lane=lane)


def ended(job: PlanJob, outcome: str, text: str) -> PlanJob:
    """The job with what came of it."""
    return replace(job, outcome=outcome, text=text)


def _about(job: PlanJob, step: PlanStep) -> dict[str, Any]:
    return {"job_id": job.job_id, "step_id": step.id, "title": step.title, "attempt": job.attempt}


def described(steps: Iterable[PlanStep]) -> list[dict[str, str]]:
    """Steps as events carry them."""
    return [
        {"id": step.id, "title": step.title, "description": step.description, "status": step.status} for step in steps
    ]


def _summary(artifact: Artifact) -> dict[str, Any]:
    return {
        "artifact_id": artifact.artifact_id,
        "version": artifact.version,
        "title": artifact.title,
        "content_type": artifact.content_type,
        "update_type": artifact.update_type,
    }
