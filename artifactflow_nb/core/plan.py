"""Plans: ordered steps with a status, and the rules that determine the next action.

::

    pending ──> running ──> completed
       ^           └──────> failed ──> pending (retried)
       └─> skipped

Values only. The next action is a function of the plan and its stored jobs, so that a plan continues after a crash
where it stopped.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

from artifactflow_nb.core.clock_ids import derived_id
from artifactflow_nb.core.text.format import count
from artifactflow_nb.core.text.markdown import safe_markdown_line
from artifactflow_nb.errors import UsageError

StepStatus = Literal["pending", "running", "completed", "failed", "skipped"]
STEP_STATUSES: tuple[StepStatus, ...] = ("pending", "running", "completed", "failed", "skipped")

PLAN_MEDIA_TYPE = "application/vnd.artifactflow.plan+json"
"""The media type of a plan as an artifact."""

PLAN_CREATE_TOOL = "plan_create"
"""Name of the tool that creates a plan."""

DELEGATING_TOOLS: dict[str, str | None] = {"call_subagent": "agent_name", PLAN_CREATE_TOOL: "title"}
"""Delegating tools by name, each with the parameter that labels the delegated work in a timeline.

None for a tool that the timeline draws like an ordinary tool. Plugins add their tools here, because metrics, charts and
verification read stored rows without loading the flows, which takes a second.
"""

MODEL_TEXT_TOOLS: set[str] = set()
"""Tools of plugins whose results are texts of models."""

PLAN_DECIDE_TOOL = "plan_decide"
"""Name of the tool that decides after a step how a plan continues."""

REPLANNING_AGENT = "replanner"
"""Name of the agent of `replan` jobs; events contain the agent of a job, but not the kind of the job."""

JobKind = Literal["execute", "replan", "summarize"]
ReplanChoice = Literal["continue", "retry", "revise", "finish"]


def plan_id(tool_call_id: str) -> str:
    """Derive the id of the plan that a tool call creates."""
    return derived_id("plan", tool_call_id)


def plan_job_id(tool_call_id: str, n: int) -> str:
    """Derive the id of the plan's n-th job, counting from 1, from the tool call that created the plan."""
    return derived_id("job", tool_call_id, n)


def plan_label(title: str) -> str:
    """Return the title of a plan without a leading `Plan:`, for places that already say "plan"."""
    return re.sub(r"^\s*(?:plan|计划)\s*[:：]\s*(?=\S)", "", title, flags=re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step of a plan.

    Attributes:
        id: Id, unique in the plan.
        result: The result, or the reason for a failure or skip; empty before the step ends.
        tools: Names of the only tools the step may use; empty for all tools of the executor.
    """

    id: str
    title: str
    description: str = ""
    status: StepStatus = "pending"
    result: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A title and ordered steps."""

    plan_id: str
    title: str
    steps: tuple[PlanStep, ...]

    def step(self, step_id: str) -> PlanStep:
        """Return the step with this id, or an untitled step if a person removed the step while it was running."""
        return next((step for step in self.steps if step.id == step_id), PlanStep(step_id, ""))

    def steps_with_status(self, *statuses: StepStatus) -> tuple[PlanStep, ...]:
        """Return the steps with one of these statuses, in order."""
        return tuple(step for step in self.steps if step.status in statuses)

    def with_step(self, step_id: str, status: StepStatus, result: str = "") -> Self:
        """Return a copy with the status and result of one step replaced."""
        changed = (replace(s, status=status, result=result) if s.id == step_id else s for s in self.steps)
        return replace(self, steps=tuple(changed))

    def skip_remaining(self, reason: str) -> Self:
        """Return a copy with all pending and running steps skipped."""
        unfinished = ("pending", "running")
        steps = (replace(s, status="skipped", result=reason) if s.status in unfinished else s for s in self.steps)
        return replace(self, steps=tuple(steps))

    def abort(self, reason: str) -> Self:
        """Return a copy with running steps failed and pending steps skipped."""
        failed = (replace(s, status="failed", result=reason) if s.status == "running" else s for s in self.steps)
        return replace(self, steps=tuple(failed)).skip_remaining(reason)

    def revise(self, steps: Sequence[PlanStep]) -> Self:
        """Return a copy with the pending and running steps replaced; finished steps keep their ids."""
        done = tuple(step for step in self.steps if step.status not in {"pending", "running"})
        return replace(self, steps=(*done, *assign_step_ids(steps, used_ids={step.id for step in done})))

    def to_json(self) -> str:
        """Serialise for an artifact; indented, because diffs between artifact versions are line by line."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the JSON of an artifact; `UsageError` describes the invalid part."""
        try:
            parsed = json.loads(text)
            steps = []
            for fields in parsed["steps"]:
                status = fields.get("status", "pending")
                if status not in STEP_STATUSES:
                    raise ValueError(f"{status!r:.80} is not a status; it must be one of {', '.join(STEP_STATUSES)}")
                texts = fields["id"], fields["title"], fields.get("description", ""), fields.get("result", "")
                step_id, title, description, result = map(_check_text, texts)
                tools = tuple(map(_check_text, fields.get("tools", ())))
                steps.append(PlanStep(step_id, title, description, status, result, tools))
            plan = cls(_check_text(parsed["plan_id"]), _check_text(parsed["title"]), tuple(steps))
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise UsageError(
                f"The text is not a plan ({type(error).__name__}: {error}). A plan is JSON with plan_id, title and "
                "steps; each step has id, title, description, status and result."
            ) from None
        if len({step.id for step in steps}) < len(steps):
            raise UsageError("Two steps of the plan have the same id. Give each step an id of its own.")
        return plan

    @property
    def markdown(self) -> str:
        """Checklist in Markdown, with the first lines of each result."""
        return self._checklist(_MAX_RESULT_LINES)

    @property
    def checklist(self) -> str:
        """Checklist in Markdown without results."""
        return self._checklist(0)

    def _checklist(self, n_lines: int) -> str:
        lines = [f"**{safe_markdown_line(self.title)}**", ""]
        for number, step in enumerate(self.steps, 1):
            status = "" if step.status in {"pending", "completed"} else f" ({step.status})"
            lines.append(f"{number}. {_MARKS[step.status]} {safe_markdown_line(step.title)}{status}")
            lines += [f"   > {safe_markdown_line(line)}" for line in step.result.splitlines()[:n_lines] if line.strip()]
        return "\n".join(lines)

    @property
    def counts(self) -> dict[str, int]:
        """Number of steps by status, without zeros."""
        return {status: len(steps) for status in STEP_STATUSES if (steps := self.steps_with_status(status))}


def parse_plan(text: str, content_type: str) -> Plan | None:
    """Parse a plan artifact, or return None for other media types and for JSON that a person's edit made invalid."""
    if content_type != PLAN_MEDIA_TYPE:
        return None
    try:
        return Plan.from_json(text)
    except UsageError:
        return None


def plan_checklist(text: str, content_type: str) -> str | None:
    """Render a plan artifact as Markdown, or return None for an invalid plan."""
    plan = parse_plan(text, content_type)
    return None if plan is None else plan.markdown


_MARKS: Mapping[StepStatus, str] = {"pending": "☐", "running": "▶", "completed": "☑", "failed": "✗", "skipped": "–"}
_MAX_RESULT_LINES = 12


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is not a text")
    value.encode()  # JSON may contain a lone surrogate, which SQLite cannot store: `encode` raises UnicodeEncodeError
    return value


def assign_step_ids(steps: Sequence[PlanStep], used_ids: set[str] | None = None) -> tuple[PlanStep, ...]:
    """Give each step a unique id: its own id if that is free, otherwise the next free number."""
    used, result = set(used_ids or ()), []
    for step in steps:
        step_id = step.id.strip()
        if not step_id or step_id in used:
            number = len(used) + 1
            while str(number) in used:
                number += 1
            step_id = str(number)
        used.add(step_id)
        result.append(replace(step, id=step_id))
    return tuple(result)


@dataclass(frozen=True, slots=True)
class PlanJob:
    """A job of an agent for a plan.

    Attributes:
        n: Number in the plan, from 1.
        kind: `execute` a step, `replan`, or `summarize`.
        step_id: The executed step; for `replan` the last executed step; empty for `summarize`.
        attempt: Number of the attempt at this step, from 1.
        outcome: `completed` or `failed` for a step or summary; the choice for a replanner, or `failed` if the run ended
            first; empty while the job is running.
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
    """Settings of plan execution.

    Attributes:
        max_steps: Maximum number of executed steps per plan, including retries.
        max_retries: Maximum number of retries per failed step.
        max_revisions: Maximum number of revisions per plan.
        max_plans: Maximum number of plans per turn.
        replanner: Whether to use a replanner; without a replanner, a plan ends at the first failed step.
        skip_on_success: Whether the replanner runs only after failed steps.
        summarizer: Whether an agent summarises the plan; if not, the calling agent answers from the plan itself.
        approval: Whether plans need approval: False, True, or `confirm` for plans that may use a confirm-level tool.
        recursion_limit: Maximum number of jobs for all plans of a turn: steps, replans and summaries.
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


@dataclass(frozen=True, slots=True)
class PlanAction:
    """The next action in a plan.

    Attributes:
        kind: `execute` a step, `replan`, or `finish`.
        reason: Why the plan ends early; empty if all steps are done.
    """

    kind: Literal["execute", "replan", "finish"]
    step_id: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """A plan and its jobs.

    Attributes:
        jobs: Jobs of the plan so far, in order.
        n_before: Number of jobs for earlier plans of the turn.
    """

    plan: Plan
    jobs: tuple[PlanJob, ...] = field(default=())
    n_before: int = 0

    @property
    def open_job(self) -> PlanJob | None:
        """The running job, or None between two jobs."""
        return self.jobs[-1] if self.jobs and not self.jobs[-1].outcome else None

    @property
    def last_step(self) -> PlanStep | None:
        """The step that was executed last, or None."""
        done = [job.step_id for job in self.jobs if job.kind == "execute" and job.outcome]
        return next((step for step in self.plan.steps if done and step.id == done[-1]), None)

    @property
    def summary(self) -> PlanJob | None:
        """The summary job once it is completed or failed, or None."""
        return next((job for job in self.jobs if job.kind == "summarize" and job.outcome), None)

    def n_attempts(self, step_id: str) -> int:
        """Count the executions of a step."""
        return sum(job.kind == "execute" and job.step_id == step_id for job in self.jobs)

    @property
    def n_executed(self) -> int:
        """Number of executed steps, including retries."""
        return sum(job.kind == "execute" for job in self.jobs)

    @property
    def n_revisions(self) -> int:
        """Number of replanning jobs that revised the plan."""
        return sum(job.kind == "replan" and job.outcome == "revise" for job in self.jobs)

    def choices(self, rules: PlanRules) -> tuple[ReplanChoice, ...]:
        """List the choices that are open to a replanner now."""
        last = self.last_step
        choices: list[ReplanChoice] = ["continue"] if self.plan.steps_with_status("pending") else []
        if last is not None and last.status == "failed" and self.n_attempts(last.id) <= rules.max_retries:
            choices.append("retry")
        if self.n_revisions < rules.max_revisions:
            choices.append("revise")
        return (*choices, "finish")

    def next_action(self, rules: PlanRules) -> PlanAction:
        """Determine the next action between two jobs; a replanner runs only where it has a choice."""
        last, pending = (self.jobs[-1] if self.jobs else None), self.plan.steps_with_status("pending")
        if last is not None and last.kind == "replan" and last.outcome == "finish":
            return PlanAction("finish", reason=last.text)
        has_failed = last is not None and last.kind == "execute" and last.outcome == "failed"
        if not pending and not has_failed:
            return PlanAction("finish")
        limit = ""
        if self.n_executed >= rules.max_steps:
            limit = count(rules.max_steps, "executed step")
        elif self._n_jobs + rules.summarizer >= rules.recursion_limit:  # reserves one job for the summary
            limit = f"{count(rules.recursion_limit, 'job')} in a turn"
        if limit:
            return PlanAction("finish", reason=f"The limit of {limit} was reached.")
        replans_after_success = rules.replanner and not rules.skip_on_success and len(pending) > 1
        if last is not None and (has_failed or (last.kind == "execute" and replans_after_success)):
            if rules.replanner:
                return PlanAction("replan", last.step_id)
            return PlanAction("finish", reason=f"The step {last.step_id} failed.")
        return PlanAction("execute", pending[0].id)

    def end_reason(self, rules: PlanRules) -> str:
        """Explain why a finished plan ended early (limit, failed step, decision), or return an empty string."""
        jobs = tuple(job for job in self.jobs if job.kind != "summarize")
        return replace(self, jobs=jobs).next_action(rules).reason

    def needs_summary(self, rules: PlanRules) -> bool:
        """Return whether a finished plan still needs its summary job."""
        has_room = self.open_job is not None or self._n_jobs < rules.recursion_limit
        return rules.summarizer and self.summary is None and has_room

    @property
    def _n_jobs(self) -> int:
        return self.n_before + len(self.jobs)
