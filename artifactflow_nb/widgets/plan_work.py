"""A plan while it is carried out, as views show it: its steps, and the agents that work on them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from artifactflow_nb.agents.planning import REPLANNER
from artifactflow_nb.plans import STEP_STATUSES, progress
from artifactflow_nb.store.runs import RUNNING
from artifactflow_nb.widgets.parts import Job


@dataclass(slots=True)
class StepWork:
    """A step and what was done for it.

    Attributes:
        id: Its id.
        title: What is done.
        description: What it takes.
        status: As in a plan; of one that was left running also `failed`, `cancelled` or `interrupted`, as its run.
        result: What came of it, or why it failed or was skipped.
        n_attempts: How often it was tried.
        jobs: The agents that tried it and, after each time, the one that looked at the plan again.
        since: When the attempt began that goes on; None between two.
        duration_ms: The attempts that have ended, added up.
    """

    id: str
    title: str
    description: str = ""
    status: str = "pending"
    result: str = ""
    n_attempts: int = 0
    jobs: list[Job] = field(default_factory=list)
    since: datetime | None = None
    duration_ms: float = 0.0

    def end(self, at: datetime) -> None:
        """Note that the attempt that goes on has ended."""
        if self.since is not None:
            self.duration_ms += max((at - self.since).total_seconds() * 1000, 0.0)
        self.since = None


@dataclass(slots=True)
class PlanWork:
    """A plan and what was done for it.

    Attributes:
        title: What it is for.
        steps: Its steps, in order.
        notes: Why it was changed on the way.
        jobs: The agents that worked for all of it: the one that summarizes.
    """

    title: str = ""
    steps: list[StepWork] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    _last: StepWork | None = None

    @property
    def progress(self) -> str:
        """How far it is, in a few words."""
        return progress(step.status for step in self.steps)

    @property
    def running(self) -> tuple[int, StepWork] | None:
        """The step that goes on, behind its number; None between two."""
        return next(((n, step) for n, step in enumerate(self.steps, 1) if step.status == RUNNING), None)

    def revise(self, steps: Iterable[Mapping[str, Any]]) -> None:
        """Take over the steps as an event tells them; what was done for those that stay is kept."""
        known = {step.id: step for step in self.steps}
        told = [_described(one) for one in steps]
        self.steps = [_retold(known[step.id], step) if step.id in known else step for step in told]
        left = [step for step in known.values() if step.jobs and step not in self.steps]
        self.jobs = [*(job for step in left for job in step.jobs), *self.jobs]

    def update(self, steps: Iterable[Mapping[str, Any]], reason: str) -> None:
        """Take over the status of some steps, which changed without their being carried out."""
        for told in steps:
            step = self._step(str(told.get("id", "")), str(told.get("title", "")))
            step.status = _status(told)
            if step.status == "skipped":
                step.result = reason

    def start(self, data: Mapping[str, Any], job: Job, at: datetime) -> None:
        """Take in that an agent begins with a step."""
        step = self._last = self._step(str(data.get("step_id", "")), str(data.get("title", "")))
        step.status, step.result, step.since = RUNNING, "", at
        step.n_attempts = int(data.get("attempt") or step.n_attempts + 1)
        step.jobs.append(job)

    def complete(self, data: Mapping[str, Any], at: datetime) -> None:
        """Take in what came of a step."""
        step = self._step(str(data.get("step_id", "")), str(data.get("title", "")))
        step.status, step.result = _status(data), str(data.get("result") or "")
        step.end(at)

    def add(self, job: Job) -> None:
        """Take in an agent at work of whom no event says for what: it looks at the last step, or sums up."""
        looks_again = job.agent == REPLANNER.name and self._last is not None
        (self._last.jobs if looks_again and self._last else self.jobs).append(job)

    def settle(self, before: str, after: str, at: datetime | None = None) -> None:
        """Take in what became of the step that went on when its run ended, or its process was gone."""
        for step in self.steps:
            if step.status == before:
                step.status = after
                if at is not None:
                    step.end(at)

    def _step(self, step_id: str, title: str) -> StepWork:
        """The step of this id; a person who changed the plan by hand may have added it."""
        step = next((step for step in self.steps if step.id == step_id), None)
        if step is None:
            step = StepWork(step_id, title)
            self.steps.append(step)
        step.title = title or step.title
        return step


def _described(told: Mapping[str, Any]) -> StepWork:
    step_id, title, description = (str(told.get(name) or "") for name in ("id", "title", "description"))
    return StepWork(step_id, title, description, _status(told))


def _status(told: Mapping[str, Any]) -> str:
    """The status that an event tells; of a file that somebody sent it may be anything."""
    return next((status for status in STEP_STATUSES if status == told.get("status")), "pending")


def _retold(step: StepWork, told: StepWork) -> StepWork:
    step.title, step.description, step.status = told.title, told.description, told.status
    return step
