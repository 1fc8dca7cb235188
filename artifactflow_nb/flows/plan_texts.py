"""What the agents of a plan are asked, and what the agent that made it is told in the end."""

from collections.abc import Iterator

from artifactflow_nb.flows.context import cut_text
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.plans import Plan, PlanRules, PlanStep, Progress
from artifactflow_nb.text.figures import count

EARLIER_CHARS = 4_000
"""How much of an earlier step's result the agent of a later one is shown."""

_LEFT_OUT = " of this result"


def task_of_step(question: str, progress: Progress, step: PlanStep) -> str:
    """What the executor is asked: the step, the plan around it, and the results so far."""
    plan = progress.plan
    number = plan.steps.index(step) + 1
    parts = [
        f"The task: {question}",
        f"The plan: {plan.title}\n{_listed(plan)}",
        *_results(plan, EARLIER_CHARS),
        f"Your step, {number} of {len(plan.steps)}: {step.title}\n{step.description}".strip(),
    ]
    if failed := [job for job in progress.jobs if job.step_id == step.id and job.outcome == "failed"]:
        parts.append(f"It was tried before and failed: {cut_text(failed[-1].text, EARLIER_CHARS, _LEFT_OUT)}")
    return "\n\n".join(parts)


def task_of_replanner(question: str, progress: Progress, rules: PlanRules) -> str:
    """What the replanner is asked: how the last step ended, and what it may choose."""
    last = progress.last_step
    said = f"The step {last.id} ({last.title}) {_ended(last)}." if last else "No step was carried out."
    left = [
        f"retries left for this step: {rules.max_retries + 1 - progress.n_attempts(last.id)}" if last else "",
        f"revisions left: {rules.max_revisions - progress.n_revisions}",
        f"steps that can still be carried out: {rules.max_steps - progress.n_executed}",
    ]
    return "\n\n".join(
        [
            f"The task: {question}",
            f"The plan: {progress.plan.title}\n{_listed(progress.plan)}",
            *_results(progress.plan, EARLIER_CHARS),
            said,
            f"You may choose: {', '.join(progress.choices(rules))} ({'; '.join(filter(None, left))}).",
        ]
    )


def task_of_summary(question: str, plan: Plan) -> str:
    """What the summarizer is asked: all steps with their results."""
    return "\n\n".join([f"The task: {question}", f"The plan: {plan.title}", *_results(plan, EARLIER_CHARS)])


def report(progress: Progress) -> ToolResult:
    """The result of the call that made the plan: what was done and what was not, as the steps' statuses have it.

    It is a success if all steps were completed.
    """
    plan, summary = progress.plan, progress.summary
    told = ", ".join(f"{number} {status}" for status, number in plan.counts.items())
    parts = [f"The plan {plan.title!r} is over: {count(len(plan.steps), 'step')}, {told}."]
    parts.append("\n".join(_line(number, step) for number, step in enumerate(plan.steps, 1)))
    parts += [summary] if summary else _results(plan, EARLIER_CHARS)
    text = "\n\n".join(parts)
    metadata = {"plan_id": plan.plan_id, **plan.counts}
    if len(plan.of("completed")) == len(plan.steps):
        return ToolResult(success=True, data=text, metadata=metadata)
    return ToolResult(success=False, error=text, metadata={**metadata, "error_type": "PlanIncomplete"})


def _line(number: int, step: PlanStep) -> str:
    why = f": {step.result}" if step.status in {"failed", "skipped"} and step.result else ""
    return cut_text(f"{number}. [{step.status}] {step.title}{why}", EARLIER_CHARS, _LEFT_OUT)


def _listed(plan: Plan) -> str:
    return "\n".join(f"{number}. [{step.status}] {step.title}" for number, step in enumerate(plan.steps, 1))


def _results(plan: Plan, n_chars: int) -> Iterator[str]:
    for number, step in enumerate(plan.steps, 1):
        if step.result:
            yield f"Step {number} ({step.title}) {_ended(step)}:\n{cut_text(step.result, n_chars, _LEFT_OUT)}"


def _ended(step: PlanStep) -> str:
    return {"completed": "was completed", "failed": "failed", "skipped": "was skipped"}.get(step.status, step.status)
