"""The desk of one plan: the one place that changes it, with the events that tell so.

What is stored says how far the plan is; each change is one transaction, made only where what is stored says that it was
not made yet. So nothing is done or told twice, whoever goes on with the plan.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from artifactflow_nb.events import StreamEvent, StreamEventType
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.unbroken import unbroken
from artifactflow_nb.plans import JobKind, Plan, PlanJob, PlanStep, Progress, StepStatus, plan_id, plan_job_id
from artifactflow_nb.recordings.clock import RUN
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.store.plans import Changed, PlanChange, PlanEdit, Tell

RESULT_CHARS = 2_000
"""How much of a step's result the event that tells it carries; the plan has all of it."""

Told = tuple[StreamEventType, Callable[[Changed], Mapping[str, Any]]]
"""An event, and its payload as the change that it tells has come out."""


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
        data = {"title": plan.title, "steps": described(plan.steps)}
        await self._change(None, plan, None, agent, [(StreamEventType.PLAN_CREATED, lambda _: data)])

    async def start(
        self, progress: Progress, kind: JobKind, agent: str, instruction: str, *, step: PlanStep | None = None
    ) -> PlanJob:
        """Begin a job; of a step, the plan says so from now on."""
        n, step_id = len(progress.jobs) + 1, step.id if step else ""
        attempt = progress.n_attempts(step_id) + 1 if kind == "execute" else 1
        job = PlanJob(plan_job_id(self.key, n), n, kind, step_id, attempt, instruction)
        self.ctx.tape.clock.follow(job.job_id, self.key)
        if step is None or kind != "execute":
            await self._change(progress.plan, _as_it_is, job, agent)
        else:
            data = _about(job, step)
            told = StreamEventType.STEP_START, lambda _: data
            await self._change(progress.plan, lambda plan: plan.with_step(step_id, "running"), job, agent, [told])
        return job

    async def end(
        self, seen: Plan, job: PlanJob, agent: str, edit: PlanEdit | None = None, told: Sequence[Told] = ()
    ) -> None:
        """Store what came of a job, which has an outcome now.

        Args:
            seen: The plan as it was read last.
            job: The job.
            agent: Who changes the plan.
            edit: What the plan becomes; None if it stays.
            told: The events that tell it.
        """
        self.ctx.tape.clock.follow(self.key, job.job_id)
        await self._change(seen, edit or _as_it_is, job, agent, told)

    async def end_step(self, seen: Plan, job: PlanJob, agent: str) -> None:
        """Store what came of a step."""
        status: StepStatus = "completed" if job.outcome == "completed" else "failed"

        def data(changed: Changed) -> Mapping[str, Any]:
            step = changed.plan.step(job.step_id)
            return {**_about(job, step), "status": status, "result": job.text[:RESULT_CHARS]}

        told = StreamEventType.STEP_COMPLETE, data
        await self.end(seen, job, agent, lambda plan: plan.with_step(job.step_id, status, job.text), [told])

    async def close(self, seen: Plan, reason: str, agent: str) -> None:
        """Note that the steps which were not done will not be done."""
        if seen.closed(reason) != seen:
            await self._change(seen, lambda plan: plan.closed(reason), None, agent, [updated(reason)])

    def broken_off(self, progress: Progress, reason: str, agent: str) -> PlanChange:
        """The change that ends a plan because its run ends here: what is at work fails, what is to come is skipped."""
        self.ctx.tape.clock.follow(self.key, RUN)
        job = progress.open_job and ended(progress.open_job, "failed", reason)
        edit = partial(Plan.broken_off, reason=reason)
        told = [updated(reason)] if edit(progress.plan) != progress.plan else []
        return self._change_of(progress.plan, edit, job, agent, told)

    async def _change(
        self, seen: Plan | None, edit: Plan | PlanEdit, job: PlanJob | None, agent: str, told: Sequence[Told] = ()
    ) -> None:
        change = self._change_of(seen, edit, job, agent, told)
        await self.ctx.journal.flush()
        await unbroken(self._make(change))

    async def _make(self, change: PlanChange) -> None:
        for event in await self.ctx.services.plans.change(change):
            self.ctx.journal.publish(event)

    def _change_of(
        self, seen: Plan | None, edit: Plan | PlanEdit, job: PlanJob | None, agent: str, told: Sequence[Told]
    ) -> PlanChange:
        """The change, with the events that tell it.

        They get their numbers before anybody knows how it comes out: that there will be a new version follows from the
        plan as it was seen.
        """
        lane = job.job_id if job is not None and not job.outcome else self.key
        at = self.ctx.tape.clock.now(lane)
        run = self.ctx.run
        by = Authorship(run.conversation_id, run.message_id, agent, run.run_id, at=at)
        tells = [self._tell(kind, data, agent, lane) for kind, data in told]
        if isinstance(edit, Plan) or (seen is not None and edit(seen) != seen):
            tells.append(self._tell_version(agent))
        return PlanChange(self.key, by, edit, job, at, tells)

    def _tell(self, kind: StreamEventType, data: Callable[[Changed], Mapping[str, Any]], agent: str, lane: str) -> Tell:
        where = {"job_id": self._job_id, "tool_call_id": self.key, "plan_id": plan_id(self.key)}
        event = self.ctx.journal.stamp(kind, where, agent=agent, lane=lane)
        return lambda changed: replace(event, data={**where, **data(changed)})

    def _tell_version(self, agent: str) -> Tell:
        where = {"job_id": self._job_id, "tool_call_id": self.key}
        event = self.ctx.journal.stamp(StreamEventType.ARTIFACT_CHANGED, where, agent=agent, lane=self.key)

        def tell(changed: Changed) -> StreamEvent | None:
            written = changed.written
            return None if written is None else replace(event, data={**where, **written.told})

        return tell


async def broken_off(ctx: RunContext, reason: str) -> list[PlanChange]:
    """The changes that end the plans of a run which ends before they are over."""
    changes = []
    for key, job_id, agent in await ctx.services.plans.under_way(ctx.run.run_id):
        desk = PlanDesk(ctx, key, job_id)
        if (progress := await desk.found()) is not None:
            changes.append(desk.broken_off(progress, reason, agent))
    return changes


def updated(reason: str) -> Told:
    """The event that tells which steps have another status now, without being carried out."""

    def data(changed: Changed) -> Mapping[str, Any]:
        before = () if changed.before is None else changed.before.steps
        return {"reason": reason, "steps": described(step for step in changed.plan.steps if step not in before)}

    return StreamEventType.PLAN_UPDATED, data


def _as_it_is(plan: Plan) -> Plan:
    return plan


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
