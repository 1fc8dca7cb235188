"""To-do lists of LangChain's `TodoListMiddleware` as plans: each call of `write_todos` changes the plan of its job."""

from collections.abc import Mapping, Sequence
from typing import Any

from artifactflow_nb.core.plan import Plan, PlanStep, assign_step_ids, plan_id
from artifactflow_nb.flows.plan.ledger import PlanLedger, finish_job
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.store.calls import OpenCall

_TITLE = "To-dos"


def todos_in_output(output: Any) -> list[tuple[str, str]]:
    """Return the titles and statuses of the to-dos in a tool's output, each title once; empty if there are none."""
    update = getattr(output, "update", None)
    todos = update.get("todos") if isinstance(update, Mapping) else None
    listed = [todo for todo in todos if isinstance(todo, Mapping)] if isinstance(todos, Sequence) else []
    return list({str(todo["content"]): str(todo.get("status")) for todo in listed if todo.get("content")}.items())


async def write_plan(ctx: RunContext, opened: OpenCall, todos: Sequence[tuple[str, str]]) -> None:
    """Create the plan of a job from its to-dos, or update it to them.

    Args:
        ctx: The run.
        opened: The call that wrote the to-dos.
        todos: Their titles and statuses, which are `pending`, `in_progress` or `completed`.
    """
    agent, progress = opened.agent, None
    ledger = PlanLedger(ctx, opened.call.tool_call_id, opened.job_id)
    for call_id in await ctx.services.calls.ids_of_tool(ctx.run.run_id, opened.job_id, opened.call.call.name):
        earlier = PlanLedger(ctx, call_id, opened.job_id)
        if (progress := await earlier.find_progress()) is not None:
            ledger = earlier
            break
    known = {} if progress is None else {step.title: step for step in progress.plan.steps}
    new = [PlanStep("", title) for title, _ in todos if title not in known]
    fresh = iter(assign_step_ids(new, used_ids={step.id for step in known.values()}))
    steps = tuple(known[title] if title in known else next(fresh) for title, _ in todos)
    if progress is None:
        await ledger.create(Plan(plan_id(ledger.tool_call_id), _TITLE, steps), agent)
    elif steps != progress.plan.steps:
        await ledger.replace_steps(progress.plan, steps, agent)
    for step, (title, status) in zip(steps, todos, strict=True):
        if status in {"in_progress", "completed"} and step.status == "pending":
            await ledger.start_job(await ledger.progress(), "execute", agent, title, step=step)
        if status == "completed" and step.status in {"pending", "running"}:
            progress = await ledger.progress()
            job = next((job for job in progress.jobs if job.step_id == step.id and not job.outcome), None)
            if job is not None:
                await ledger.end_step(progress.plan, finish_job(job, "completed", ""), agent)
