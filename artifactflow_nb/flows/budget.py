"""The budget of a run, checked before each model call.

An exceeded budget ends the run, or requests an approval for which all jobs of the run wait. Each approval sets new
limits. Decisions are read from the store, so a decision applies in every process.
"""

from artifactflow_nb.core.approvals import BUDGET_KIND, ApprovalRequest
from artifactflow_nb.core.budget import Budget, BudgetUsage
from artifactflow_nb.core.clock_ids import request_id
from artifactflow_nb.errors import ToolError
from artifactflow_nb.flows.approval import request_approval
from artifactflow_nb.flows.limits import budget_exceeded, load_run_budget
from artifactflow_nb.flows.services import RunContext, is_main
from artifactflow_nb.tools.base import ToolPermission

NO_USAGE = BudgetUsage()


async def remaining_for_subrun(ctx: RunContext) -> Budget | None:
    """Return the budget of a subrun: what the run had left at the start of its main job's last turn; None for no limit.

    Later usage by parallel jobs is not counted, because such usage depends on timing.

    Errors: `ToolError` if nothing is left.
    """
    spent = await ctx.services.runs.budget_usage_at_last_turn(ctx.run.run_id)
    if (limits := await load_run_budget(ctx, spent, at_last_turn=True)) is None:
        return None
    if limits.allowed.exceeded(spent):
        raise ToolError(
            f"The budget is used up ({limits.allowed.describe(spent)}): nothing was started for this call. "
            "Call it again if the budget is extended."
        )
    return limits.allowed.remaining(spent)


async def pending_budget_requests(
    ctx: RunContext, agent: str, job_id: str, *, at_least: BudgetUsage = NO_USAGE, void: BudgetUsage = NO_USAGE
) -> list[str]:
    """Return the subjects of the requests for which the next model call waits; empty if the call need not wait.

    `at_least` is a lower bound of the usage, for usage that is not stored yet; `void` is usage that will be repeated.

    Errors: `BudgetExceeded` if the run must not continue.
    """
    if ctx.run.settings.get("budget") is None:
        return []
    # The main job alone counts subruns: the usage of subruns while a parallel job continues depends on timing.
    spent = (await ctx.services.runs.budget_usage(ctx.run.run_id, with_subruns=is_main(job_id))).maximum(at_least)
    if (limits := await load_run_budget(ctx, spent)) is None:
        return []
    if limits.open_subject is not None:
        return [limits.open_subject]
    allowed, initial = limits.allowed, limits.initial
    if not allowed.exceeded(spent):
        return []
    if initial.when_spent == "stop":
        raise budget_exceeded(allowed, spent, "Ask again with a larger budget, or with when_spent='ask' to be asked.")
    proposed = allowed.extended(spent, initial, void)
    subject = f"{BUDGET_KIND}:{ctx.run.run_id}:{limits.n_requests}"
    request = ApprovalRequest(
        id=request_id(subject),
        run_id=ctx.run.run_id,
        kind="budget",
        agent=agent,
        tool=BUDGET_KIND,
        params=proposed.limits,
        title=f"The run has spent {allowed.describe(spent)}. Go on?",
        message="Approve to go on with the new limits; deny to end the run here. Written texts stay.",
        about=subject,
    )
    if await request_approval(ctx, job_id, request, ToolPermission.CONFIRM):
        return [request.subject]
    return await pending_budget_requests(ctx, agent, job_id, at_least=at_least, void=void)
