"""What the agents of a plan are asked, and what the agent that made it is told in the end."""

from collections.abc import Iterator, Sequence

from artifactflow_nb.flows.context import cut_text
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.plans import Plan, PlanRules, PlanStep, Progress
from artifactflow_nb.text.figures import count

EARLIER_CHARS = 4_000
"""How much of a single result an agent is shown."""

RESULTS_CHARS = 24_000
"""How much of all results together: what an agent is asked must stay short enough to be shown whole."""

REPORT_CHARS = 12_000
"""The same in the result of the call that made the plan, of which a model is shown less."""

WHY_CHARS = 4_000
"""How much, together, of why steps failed or were skipped, in the lines of that result."""

_LEFT_OUT = " of this result"


def task_of_step(question: str, progress: Progress, step: PlanStep) -> str:
    """What the executor is asked: the step, the plan around it, and the results so far."""
    plan = progress.plan
    number = plan.steps.index(step) + 1
    parts = [
        f"The task: {question}",
        f"The plan: {plan.title}\n{_listed(plan.with_step(step.id, 'running'))}",
        *_results(plan, RESULTS_CHARS),
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
            *_results(progress.plan, RESULTS_CHARS),
            said,
            f"You may choose: {', '.join(progress.choices(rules))} ({'; '.join(filter(None, left))}).",
        ]
    )


def task_of_summary(question: str, plan: Plan, why: str) -> str:
    """What the summarizer is asked: all steps with their results, and why the plan ended as it did."""
    over = [f"Why it ended: {_in_a_line(why)}"] if why else []
    return "\n\n".join([f"The task: {question}", f"The plan: {plan.title}", *over, *_results(plan, RESULTS_CHARS)])


def report(progress: Progress, rules: PlanRules) -> ToolResult:
    """The result of the call that made the plan: what was done and what was not, as the steps' statuses have it.

    It is a success if all steps were completed.
    """
    plan, why = progress.plan, progress.why_over(rules)
    told = ", ".join(f"{number} {status}" for status, number in plan.counts.items())
    parts = [f"The plan {plan.title!r} is over: {count(len(plan.steps), 'step')}, {told}."]
    if why and all(step.result != why for step in plan.steps):
        parts.append(f"Why it ended: {_in_a_line(why)}")
    parts += ["\n".join(_lines(plan)), *_summed_up(progress)]
    text = "\n\n".join(parts)
    metadata = {"plan_id": plan.plan_id, **plan.counts}
    if len(plan.of("completed")) == len(plan.steps):
        return ToolResult(success=True, data=text, metadata=metadata)
    return ToolResult(success=False, error=text, metadata={**metadata, "error_type": "PlanIncomplete"})


def _summed_up(progress: Progress) -> Iterator[str]:
    """The summary; the results themselves where there is none, with why not."""
    summary = progress.summary
    if summary is not None and summary.outcome == "completed":
        yield summary.text
        return
    if summary is not None:
        yield f"There is no summary: {_in_a_line(summary.text)}"
    yield from _results(progress.plan, REPORT_CHARS)


def _lines(plan: Plan) -> Iterator[str]:
    """The steps in a line each, with why one was not done."""
    whys = [step.result if step.status in {"failed", "skipped"} else "" for step in plan.steps]
    most = _share([len(why) for why in whys], WHY_CHARS)
    for number, (step, why) in enumerate(zip(plan.steps, whys, strict=True), 1):
        told = f": {cut_text(why, most, _LEFT_OUT)}" if why else ""
        yield f"{number}. [{step.status}] {step.title}{told}"


def _listed(plan: Plan) -> str:
    return "\n".join(f"{number}. [{step.status}] {step.title}" for number, step in enumerate(plan.steps, 1))


def _results(plan: Plan, n_chars: int) -> Iterator[str]:
    """What came of the steps, with no more than so many characters in all."""
    most = min(EARLIER_CHARS, _share([len(step.result) for step in plan.steps], n_chars))
    for number, step in enumerate(plan.steps, 1):
        if step.result:
            yield f"Step {number} ({step.title}) {_ended(step)}:\n{cut_text(step.result, most, _LEFT_OUT)}"


def _share(lengths: Sequence[int], n_chars: int) -> int:
    """How long each of some texts may be, so that all have so many characters: what short ones leave is the others'."""
    left = n_chars
    for n, length in enumerate(sorted(lengths)):
        if length * (len(lengths) - n) > left:
            return left // (len(lengths) - n)
        left -= length
    return n_chars


def _in_a_line(text: str) -> str:
    return cut_text(" ".join(text.split()), EARLIER_CHARS, _LEFT_OUT)


def _ended(step: PlanStep) -> str:
    return {"completed": "was completed", "failed": "failed", "skipped": "was skipped"}.get(step.status, step.status)
