"""Whether a run may spend more: looked at before each of its model calls.

A budget that is reached ends the run, or is put before a person like a tool call; all jobs of the run wait for that one
decision. Each approval sets new limits; what was decided is read from the store, so it holds in another process too.
"""

from dataclasses import dataclass

from artifactflow_nb.approvals import BUDGET, ApprovalRequest
from artifactflow_nb.budget import Budget, Spent
from artifactflow_nb.errors import BudgetExceeded, ToolError
from artifactflow_nb.flows.permission import ask
from artifactflow_nb.flows.services import RunContext, is_main
from artifactflow_nb.recordings.values import request_id
from artifactflow_nb.tools.base import ToolPermission

NOTHING = Spent()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may spend by now.

    Attributes:
        agreed: The budget of the run.
        allowed: What is allowed, with what was approved since.
        open: The subject of the request to go on that is not decided; None if there is none.
        n_asked: How often it was asked.
    """

    agreed: Budget
    allowed: Budget
    open: str | None
    n_asked: int


async def limits_of(ctx: RunContext, spent: Spent, *, by_turn: bool = False) -> Limits | None:
    """What a run that has spent this may spend; None for as much as it likes.

    With `by_turn`, what it might when the last turn of its main job began.

    Errors: `BudgetExceeded` if a person said that it must not go on.
    """
    if (settings := ctx.run.settings.get("budget")) is None:
        return None
    agreed = allowed = Budget.of(settings)
    asked = await ctx.services.requests.of_budget(ctx.run.run_id, by_turn=by_turn)
    for request, decision in asked:
        if decision is None:
            return Limits(agreed, allowed, request.subject, len(asked))
        if not decision.approved:
            raise _stopped(allowed, spent, f"The person says: {decision.instruction}" if decision.instruction else "")
        allowed = Budget.of({"when_spent": agreed.when_spent, **request.params, **(decision.params or {})})
    return Limits(agreed, allowed, None, len(asked))


async def left_for_begun(ctx: RunContext) -> Budget | None:
    """What a run that this one begins may spend: what was left when the main job asked for it; None for no limit.

    What other jobs spend beside that, or what is decided on their spending, is not counted: it would be a matter of
    time how much that is.

    Errors: `ToolError` if nothing is left.
    """
    spent = await ctx.services.runs.spent_by_turn(ctx.run.run_id)
    if (limits := await limits_of(ctx, spent, by_turn=True)) is None:
        return None
    if limits.allowed.exceeded(spent):
        raise ToolError(
            f"The budget is spent, {limits.allowed.told(spent)}: nothing was begun for this call. "
            "Call it again if you are let go on."
        )
    return limits.allowed.left(spent)


async def waits_for_budget(
    ctx: RunContext, agent: str, job_id: str, *, at_least: Spent = NOTHING, void: Spent = NOTHING
) -> list[str]:
    """What the next model call waits for: nothing, or the decision on going on.

    Args:
        ctx: The run.
        agent: Who makes the call.
        job_id: In which job.
        at_least: What is known to be spent, whatever of it is stored.
        void: What of it has to be spent again, to come to where the run stands.

    Errors: `BudgetExceeded` if the run must not go on.
    """
    if ctx.run.settings.get("budget") is None:
        return []
    # other jobs go on beside what the run began; how much that has spent by now is no matter of theirs, nor recorded
    spent = (await ctx.services.runs.spent(ctx.run.run_id, with_begun=is_main(job_id))).at_least(at_least)
    if (limits := await limits_of(ctx, spent)) is None:
        return []
    if limits.open is not None:
        return [limits.open]
    allowed, agreed = limits.allowed, limits.agreed
    if not allowed.exceeded(spent):
        return []
    if agreed.when_spent == "stop":
        raise _stopped(allowed, spent, "Ask again with a larger budget, or with when_spent='ask' to be asked.")
    proposed = allowed.extended(spent, agreed, void)
    request = _request(ctx, agent, allowed, proposed, spent, limits.n_asked)
    if await ask(ctx, job_id, request, ToolPermission.CONFIRM):
        return [request.subject]
    return await waits_for_budget(ctx, agent, job_id, at_least=at_least, void=void)


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
