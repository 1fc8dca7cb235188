"""Whether a run may spend more: looked at before each of its model calls.

A budget that is reached ends the run, or is put before a person like a tool call; all jobs of the run wait for that one
decision. Each approval sets new limits; what was decided is read from the store, so it holds in another process too.
"""

from artifactflow_nb.approvals import BUDGET, ApprovalRequest
from artifactflow_nb.budget import Budget, Spent
from artifactflow_nb.errors import BudgetExceeded
from artifactflow_nb.flows.permission import ask
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.recordings.values import request_id
from artifactflow_nb.tools.base import ToolPermission


async def waits_for_budget(ctx: RunContext, agent: str, job_id: str) -> list[str]:
    """What the next model call waits for: nothing, or the decision on going on.

    Errors: `BudgetExceeded` if the run must not go on.
    """
    if (agreed := ctx.run.settings.get("budget")) is None:
        return []
    agreed = Budget.of(agreed)
    spent = await ctx.services.runs.spent(ctx.run.run_id)
    asked = await ctx.services.requests.of_budget(ctx.run.run_id)
    allowed = agreed
    for request, decision in asked:
        if decision is None:
            return [request.subject]
        if not decision.approved:
            raise _stopped(allowed, spent, f"The person says: {decision.instruction}" if decision.instruction else "")
        allowed = Budget.of({**request.params, **(decision.params or {})})
    if not allowed.exceeded(spent):
        return []
    if agreed.when_spent == "stop":
        raise _stopped(allowed, spent, "Ask again with a larger budget, or with when_spent='ask' to be asked.")
    request = _request(ctx, agent, allowed, allowed.extended(spent, agreed), spent, len(asked))
    if await ask(ctx, job_id, request, ToolPermission.CONFIRM):
        return [request.subject]
    return await waits_for_budget(ctx, agent, job_id)


def _request(
    ctx: RunContext, agent: str, allowed: Budget, proposed: Budget, spent: Spent, n_earlier: int
) -> ApprovalRequest:
    about = f"{BUDGET}:{ctx.run.run_id}:{n_earlier}"
    return ApprovalRequest(
        id=request_id(about),
        run_id=ctx.run.run_id,
        kind="budget",
        agent=agent,
        tool=BUDGET,
        params=proposed.limits,
        title=f"The run has spent {allowed.told(spent)}. Go on?",
        message="Approve to go on with the new limits; deny to end the run here. What it wrote stays.",
        about=about,
    )


def _stopped(allowed: Budget, spent: Spent, more: str) -> BudgetExceeded:
    told = f"The run stopped at its budget: {allowed.told(spent)} spent. What it wrote stays. {more}"
    return BudgetExceeded(told.rstrip())
