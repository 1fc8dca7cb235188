"""The ledger of a plan: the only module that changes a plan and publishes the changes.

Each change is one transaction, which does nothing if the change is stored already. So no change is made or published
twice, even if another process continues the plan.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.plan import JobKind, Plan, PlanJob, PlanProgress, PlanStep, StepStatus, plan_id, plan_job_id
from artifactflow_nb.flows.base import AbortWrites
from artifactflow_nb.flows.cancellation import shielded
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.store.plans import EventFactory, PlanChange, PlanEdit, PlanTransition

RESULT_CHARS = 2_000
"""The largest length of a step's result in an event; the plan has the whole result."""

EventSpec = tuple[StreamEventType, Callable[[PlanTransition], Mapping[str, Any]]]
"""The type of an event, and its payload as a function of the completed change."""


class PlanLedger:
    """Reads and changes the plan that one tool call created."""

    def __init__(self, ctx: RunContext, tool_call_id: str, job_id: str) -> None:
        self.ctx = ctx
        self.tool_call_id = tool_call_id
        self._job_id = job_id

    async def find_progress(self) -> PlanProgress | None:
        """Return the progress of the plan; None if the plan does not exist."""
        run = self.ctx.run
        return await self.ctx.services.plans.progress(run.conversation_id, run.message_id, self.tool_call_id)

    async def progress(self) -> PlanProgress:
        """Return the progress of the existing plan."""
        progress = await self.find_progress()
        assert progress is not None  # noqa: S101 - the first version is stored before any job starts
        return progress

    async def create(self, plan: Plan, agent: str) -> None:
        """Store the plan's first version."""
        data = {"title": plan.title, "steps": step_payloads(plan.steps)}
        await self._change(None, plan, None, agent, [(StreamEventType.PLAN_CREATED, lambda _: data)])

    async def replace_steps(self, previous_plan: Plan, steps: Sequence[PlanStep], agent: str) -> None:
        """Replace the steps of a plan, without a job."""
        data = {"reason": "", "steps": step_payloads(steps)}
        event: EventSpec = (StreamEventType.PLAN_REVISED, lambda _: data)
        await self._change(previous_plan, lambda plan: replace(plan, steps=tuple(steps)), None, agent, [event])

    async def start_job(
        self, progress: PlanProgress, kind: JobKind, agent: str, instruction: str, *, step: PlanStep | None = None
    ) -> PlanJob:
        """Start a job; the step of an execution becomes `running`."""
        n, step_id = len(progress.jobs) + 1, step.id if step else ""
        attempt = progress.n_attempts(step_id) + 1 if kind == "execute" else 1
        job = PlanJob(plan_job_id(self.tool_call_id, n), n, kind, step_id, attempt, instruction)
        if step is None or kind != "execute":
            await self._change(progress.plan, _as_it_is, job, agent)
        else:
            data = _about(job, step)
            event: EventSpec = (StreamEventType.STEP_START, lambda _: data)
            await self._change(progress.plan, lambda plan: plan.with_step(step_id, "running"), job, agent, [event])
        return job

    async def end_job(
        self,
        previous_plan: Plan,
        job: PlanJob,
        agent: str,
        edit: PlanEdit | None = None,
        events: Sequence[EventSpec] = (),
    ) -> None:
        """Store the outcome of a job with the resulting change of the plan.

        `previous_plan` is the plan before the change.
        """
        await self._change(previous_plan, edit or _as_it_is, job, agent, events)

    async def end_step(self, previous_plan: Plan, job: PlanJob, agent: str) -> None:
        """Store the outcome of a step."""
        status: StepStatus = "completed" if job.outcome == "completed" else "failed"

        def data(changed: PlanTransition) -> Mapping[str, Any]:
            step = changed.plan.step(job.step_id)
            return {**_about(job, step), "status": status, "result": job.text[:RESULT_CHARS]}

        event = StreamEventType.STEP_COMPLETE, data
        await self.end_job(
            previous_plan, job, agent, lambda plan: plan.with_step(job.step_id, status, job.text), [event]
        )

    async def skip_remaining(self, previous_plan: Plan, reason: str, agent: str) -> None:
        """Mark the steps that were not executed as skipped."""
        if previous_plan.skip_remaining(reason) != previous_plan:
            await self._change(
                previous_plan, lambda plan: plan.skip_remaining(reason), None, agent, [plan_updated_event(reason)]
            )

    def abort_change(self, progress: PlanProgress, reason: str, agent: str) -> PlanChange:
        """Build the change that ends a plan with its run: the running step fails, pending steps are skipped."""
        job = progress.open_job and finish_job(progress.open_job, "failed", reason)
        edit = partial(Plan.abort, reason=reason)
        events = [plan_updated_event(reason)] if edit(progress.plan) != progress.plan else []
        return self._change_of(progress.plan, edit, job, agent, events)

    async def _change(
        self,
        seen: Plan | None,
        edit: Plan | PlanEdit,
        job: PlanJob | None,
        agent: str,
        events: Sequence[EventSpec] = (),
    ) -> None:
        writer = self.ctx.event_writer
        await writer.flush()

        async def store() -> None:
            with writer.storing():
                change = self._change_of(seen, edit, job, agent, events)
                for event in await self.ctx.services.plans.change(change, writer.drain()):
                    writer.publish(event)

        await shielded(store())

    def _change_of(
        self, seen: Plan | None, edit: Plan | PlanEdit, job: PlanJob | None, agent: str, events: Sequence[EventSpec]
    ) -> PlanChange:
        """Build the change of a plan with its events.

        Events get their numbers before the change is written: the plan that was read shows whether there will be a new
        version. Events have the time of the job's row, so that a step lasts equally long in frames and views.
        """
        at = self.ctx.clock.now()
        run = self.ctx.run
        by = Authorship(run.conversation_id, run.message_id, agent, run.run_id, at=at)
        where = {"job_id": self._job_id, "tool_call_id": self.tool_call_id}

        def event_factory(
            kind: StreamEventType, ids: Mapping[str, str], payload: Callable[[PlanTransition], Mapping[str, Any] | None]
        ) -> EventFactory:
            event = self.ctx.event_writer.stamp(kind, ids, agent=agent)

            def create(changed: PlanTransition) -> StreamEvent | None:
                data = payload(changed)
                return None if data is None else replace(event, timestamp=at, data={**ids, **data})

            return create

        factories = [
            event_factory(kind, {**where, "plan_id": plan_id(self.tool_call_id)}, data) for kind, data in events
        ]
        if isinstance(edit, Plan) or (seen is not None and edit(seen) != seen):
            factories.append(
                event_factory(
                    StreamEventType.ARTIFACT_CHANGED,
                    where,
                    lambda changed: None if changed.artifact is None else changed.artifact.event_payload,
                )
            )
        return PlanChange(self.tool_call_id, by, edit, job, at, factories)


async def abort_plans(ctx: RunContext, reason: str) -> AbortWrites:
    """Return the writes that end the unfinished plans of a run that fails or is cancelled."""
    changes: list[PlanChange] = []
    for key, job_id, agent in await ctx.services.plans.unfinished_calls(ctx.run.run_id):
        ledger = PlanLedger(ctx, key, job_id)
        if (progress := await ledger.find_progress()) is not None:
            changes.append(ledger.abort_change(progress, reason, agent))
    return lambda db: [event for change in changes for event in ctx.services.plans.write(db, change)]


def plan_updated_event(reason: str) -> EventSpec:
    """Create the event for steps whose status changed without an execution."""

    def data(changed: PlanTransition) -> Mapping[str, Any]:
        before = () if changed.before is None else changed.before.steps
        return {"reason": reason, "steps": step_payloads(step for step in changed.plan.steps if step not in before)}

    return StreamEventType.PLAN_UPDATED, data


def _as_it_is(plan: Plan) -> Plan:
    return plan


def finish_job(job: PlanJob, outcome: str, text: str) -> PlanJob:
    """Copy a job with its outcome."""
    return replace(job, outcome=outcome, text=text)


def _about(job: PlanJob, step: PlanStep) -> dict[str, Any]:
    return {"job_id": job.job_id, "step_id": step.id, "title": step.title, "attempt": job.attempt}


def step_payloads(steps: Iterable[PlanStep]) -> list[dict[str, str]]:
    """Convert steps to the payload of events."""
    return [
        {"id": step.id, "title": step.title, "description": step.description, "status": step.status} for step in steps
    ]
