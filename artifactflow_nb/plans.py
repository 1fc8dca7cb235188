"""A plan: steps in order, each with a status, and the rule that says what comes next.

::

    pending ──> running ──> completed
       ^           └──────> failed ──> pending (retried)
       └─> skipped

Values only. What has happened is told by the plan and the jobs that worked on it; what comes next follows from both,
so that a plan goes on after a crash where it was.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from artifactflow_nb.ambient import derived_id
from artifactflow_nb.errors import UsageError
from artifactflow_nb.graph_config import GraphConfig
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.markdown import portable_line

StepStatus = Literal["pending", "running", "completed", "failed", "skipped"]
STEP_STATUSES: tuple[StepStatus, ...] = ("pending", "running", "completed", "failed", "skipped")

PLAN_TYPE = "application/vnd.artifactflow.plan+json"
"""The media type of a plan as an artifact."""

PLAN_CREATE = "plan_create"
"""The name of the tool whose call is a plan."""

JobKind = Literal["execute", "replan", "summarize"]
Choice = Literal["continue", "retry", "revise", "finish"]


def plan_id(tool_call_id: str) -> str:
    """The id of the plan that a call makes."""
    return derived_id("plan", tool_call_id)


def plan_job_id(tool_call_id: str, n: int) -> str:
    """The id of the job, by its number from 1, that works for the plan of a call."""
    return derived_id("job", tool_call_id, n)


def progress(statuses: Iterable[str]) -> str:
    """How far steps of these statuses are: `2 of 4 steps, 1 failed, 1 skipped`."""
    found = list(statuses)
    told = [f"{n} {status}" for status in ("failed", "skipped") if (n := found.count(status))]
    return ", ".join([f"{found.count('completed')} of {count(len(found), 'step')}", *told])


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step.

    Attributes:
        id: Its id, once in the plan.
        title: What is done, in a line.
        description: What it takes, for whoever carries it out.
        status: How far it is.
        result: What came of it, or why it failed or was skipped; empty until then.
        tools: The tools that it is restricted to; empty for all that the executor has.
    """

    id: str
    title: str
    description: str = ""
    status: StepStatus = "pending"
    result: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan."""

    plan_id: str
    title: str
    steps: tuple[PlanStep, ...]

    def step(self, step_id: str) -> PlanStep:
        """The step of this id; one without a title where a person took it out while it was at work."""
        return next((step for step in self.steps if step.id == step_id), PlanStep(step_id, ""))

    def of(self, *statuses: StepStatus) -> tuple[PlanStep, ...]:
        """The steps of these statuses, in order."""
        return tuple(step for step in self.steps if step.status in statuses)

    def with_step(self, step_id: str, status: StepStatus, result: str = "") -> Self:
        """The plan with another status and result of one step."""
        changed = (replace(s, status=status, result=result) if s.id == step_id else s for s in self.steps)
        return replace(self, steps=tuple(changed))

    def closed(self, reason: str) -> Self:
        """The plan with every step skipped that was not done."""
        left = ("pending", "running")
        closed = (replace(s, status="skipped", result=reason) if s.status in left else s for s in self.steps)
        return replace(self, steps=tuple(closed))

    def revised(self, steps: Sequence[PlanStep]) -> Self:
        """The plan with other steps in the place of those that are still to come."""
        done = tuple(step for step in self.steps if step.status not in {"pending", "running"})
        return replace(self, steps=(*done, *numbered(steps, taken={step.id for step in done})))

    def to_json(self) -> str:
        """The plan as an artifact holds it, a line for each field: its versions are compared line by line."""
        steps = [{**_fields(step), "tools": list(step.tools)} for step in self.steps]
        return json.dumps({"plan_id": self.plan_id, "title": self.title, "steps": steps}, ensure_ascii=False, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The plan that an artifact holds; `UsageError` says what does not fit."""
        try:
            found = json.loads(text)
            steps = tuple(_step(one) for one in found["steps"])
            plan = cls(_text(found["plan_id"]), _text(found["title"]), steps)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise UsageError(
                f"The text is no plan ({type(error).__name__}: {error}). A plan is JSON with plan_id, title and steps; "
                "each step has id, title, description, status and result."
            ) from None
        if len({step.id for step in steps}) < len(steps):
            raise UsageError("Two steps of the plan have the same id; each needs one of its own.")
        return plan

    @property
    def markdown(self) -> str:
        """The plan as a checklist."""
        lines = [f"**{portable_line(self.title)}**", ""]
        for number, step in enumerate(self.steps, 1):
            lines.append(f"{number}. {_MARKS[step.status]} {portable_line(step.title)}{_status_told(step)}")
            lines += [f"   > {portable_line(line)}" for line in step.result.splitlines()[:_SHOWN_LINES] if line.strip()]
        return "\n".join(lines)

    @property
    def progress(self) -> str:
        """How far it is, in a few words."""
        return progress(step.status for step in self.steps)

    @property
    def counts(self) -> dict[str, int]:
        """How many steps have each status; none that no step has."""
        return {status: len(found) for status in STEP_STATUSES if (found := self.of(status))}


def checklist_of(text: str, content_type: str) -> str | None:
    """The plan that an artifact holds, as Markdown; None for what is no plan, or none any more: people edit it."""
    if content_type != PLAN_TYPE:
        return None
    try:
        return Plan.from_json(text).markdown
    except UsageError:
        return None


_MARKS: Mapping[StepStatus, str] = {"pending": "☐", "running": "▶", "completed": "☑", "failed": "✗", "skipped": "–"}
_SHOWN_LINES = 12


def _status_told(step: PlanStep) -> str:
    return "" if step.status in {"pending", "completed"} else f" ({step.status})"


def _fields(step: PlanStep) -> dict[str, str]:
    return {name: getattr(step, name) for name in ("id", "title", "description", "status", "result")}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is not a text")
    value.encode()  # raises for half a character, which JSON can hold and a store cannot
    return value


def _step(found: Mapping[str, Any]) -> PlanStep:
    status = found.get("status", "pending")
    if status not in STEP_STATUSES:
        raise ValueError(f"{status!r:.80} is no status; it must be one of {', '.join(STEP_STATUSES)}")
    tools = tuple(_text(name) for name in found.get("tools", ()))
    texts = [_text(found.get(name, "")) for name in ("description", "result")]
    return PlanStep(_text(found["id"]), _text(found["title"]), texts[0], status, texts[1], tools)


def numbered(steps: Sequence[PlanStep], taken: set[str] | None = None) -> tuple[PlanStep, ...]:
    """The steps with an id each that no other has: their own where it is free, else the next number."""
    used, named = set(taken or ()), []
    for step in steps:
        own = step.id.strip()
        free = own if own and own not in used else _next_number(used)
        used.add(free)
        named.append(replace(step, id=free))
    return tuple(named)


def _next_number(used: set[str]) -> str:
    number = len(used) + 1
    while str(number) in used:
        number += 1
    return str(number)


@dataclass(frozen=True, slots=True)
class PlanJob:
    """What an agent was asked to do for a plan.

    Attributes:
        job_id: The job of the agent's loop.
        n: Its number in the plan, from 1.
        kind: Whether a step is executed, the plan looked at again, or summarized.
        step_id: The step; of a replanner's job the step before it, of a summary empty.
        attempt: How often this step was tried, this time included.
        instruction: What the agent was asked.
        outcome: `completed` or `failed` of a step, the choice of a replanner, `completed` of a summary; empty while
            it goes on.
        text: The result, the reason, or the summary.
    """

    job_id: str
    n: int
    kind: JobKind
    step_id: str = ""
    attempt: int = 1
    instruction: str = ""
    outcome: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class PlanRules:
    """How plans are carried out.

    Attributes:
        max_steps: How many steps of a plan are executed, retries included.
        max_retries: How often a step that failed may be tried again.
        max_revisions: How often a plan may be revised.
        max_plans: How many plans a turn may have.
        replanner: Whether a replanner is asked at all; without one a plan goes on until a step fails.
        skip_on_success: Whether it is asked only after a step that failed.
        summarizer: Whether an agent summarizes what was done; without one the agent answers from the plan.
        approval: Whether a person is asked: never, always, or `confirm` for plans that may use a tool that asks.
        recursion_limit: How many jobs may work on a plan: steps, looks of the replanner, the summary.
    """

    max_steps: int = 8
    max_retries: int = 2
    max_revisions: int = 3
    max_plans: int = 3
    replanner: bool = True
    skip_on_success: bool = True
    summarizer: bool = True
    approval: bool | Literal["confirm"] = False
    recursion_limit: int = 100

    @classmethod
    def of(cls, config: GraphConfig) -> Self:
        """The rules that a configuration gives."""
        return cls(
            max_steps=config.executor.max_steps,
            max_retries=config.replanner.max_retries,
            max_revisions=config.replanner.max_revisions,
            max_plans=config.replanner.max_plans,
            replanner=config.replanner.enabled,
            skip_on_success=config.replanner.skip_on_success,
            summarizer=config.summarizer.enabled,
            approval=config.approval.enabled,
            recursion_limit=config.settings.recursion_limit,
        )


@dataclass(frozen=True, slots=True)
class Move:
    """What comes next in a plan.

    Attributes:
        kind: `execute` a step, `replan`, or `finish`.
        step_id: The step.
        reason: Why the plan is over before all of it is done; empty if all of it is.
    """

    kind: Literal["execute", "replan", "finish"]
    step_id: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """A plan with what has been done for it."""

    plan: Plan
    jobs: tuple[PlanJob, ...] = field(default=())

    @property
    def open_job(self) -> PlanJob | None:
        """The job that goes on; None between two jobs."""
        return self.jobs[-1] if self.jobs and not self.jobs[-1].outcome else None

    @property
    def last_step(self) -> PlanStep | None:
        """The step that was executed last; None if none was."""
        done = [job.step_id for job in self.jobs if job.kind == "execute" and job.outcome]
        return next((step for step in self.plan.steps if done and step.id == done[-1]), None)

    @property
    def summary(self) -> str | None:
        """What the summarizer said; None if it has not, or was not asked."""
        return next((job.text for job in self.jobs if job.kind == "summarize" and job.outcome), None)

    def n_attempts(self, step_id: str) -> int:
        """How often a step was executed."""
        return sum(job.kind == "execute" and job.step_id == step_id for job in self.jobs)

    @property
    def n_executed(self) -> int:
        """How many steps were executed, retries included."""
        return sum(job.kind == "execute" for job in self.jobs)

    @property
    def n_revisions(self) -> int:
        """How often the plan was revised."""
        return sum(job.kind == "replan" and job.outcome == "revise" for job in self.jobs)

    def choices(self, rules: PlanRules) -> tuple[Choice, ...]:
        """What a replanner may choose now."""
        last = self.last_step
        found: list[Choice] = ["continue"] if self.plan.of("pending") else []
        if last is not None and last.status == "failed" and self.n_attempts(last.id) <= rules.max_retries:
            found.append("retry")
        if self.n_revisions < rules.max_revisions:
            found.append("revise")
        return (*found, "finish")

    def next_move(self, rules: PlanRules) -> Move:
        """What comes next, between two jobs. No agent is asked where the status decides."""
        last, waiting = (self.jobs[-1] if self.jobs else None), self.plan.of("pending")
        if last is not None and last.kind == "replan" and last.outcome == "finish":
            return Move("finish", reason=last.text)
        has_failed = last is not None and last.kind == "execute" and last.outcome == "failed"
        if not waiting and not has_failed:
            return Move("finish")
        if limit := self._limit(rules):
            return Move("finish", reason=f"The limit of {limit} was reached.")
        if last is not None and (has_failed or self._is_looked_at(last, len(waiting), rules)):
            if rules.replanner:
                return Move("replan", last.step_id)
            return Move("finish", reason=f"The step {last.step_id} failed.")
        return Move("execute", waiting[0].id)

    def _limit(self, rules: PlanRules) -> str:
        """What the plan has used up; empty if it may go on."""
        if self.n_executed >= rules.max_steps:
            return count(rules.max_steps, "executed step")
        if len(self.jobs) + 1 >= rules.recursion_limit:  # the summary is one, too
            return f"{rules.recursion_limit} jobs for a plan"
        return ""

    def _is_looked_at(self, last: PlanJob, n_waiting: int, rules: PlanRules) -> bool:
        """Whether the replanner is asked after a step that was completed."""
        return last.kind == "execute" and rules.replanner and not rules.skip_on_success and n_waiting > 1
