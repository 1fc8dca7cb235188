"""The limits of a run: its budget and the extensions that were approved, read from the store."""

from dataclasses import dataclass

from artifactflow_nb.core.budget import Budget, BudgetUsage
from artifactflow_nb.errors import BudgetExceeded
from artifactflow_nb.flows.services import RunContext


@dataclass(frozen=True, slots=True)
class RunBudget:
    """The limits of a run.

    Attributes:
        initial: The budget with which the run started.
        allowed: The limits that were approved last.
        open_subject: The subject of the open request to continue; None if there is none.
        n_requests: The number of requests so far.
    """

    initial: Budget
    allowed: Budget
    open_subject: str | None
    n_requests: int


async def load_run_budget(ctx: RunContext, spent: BudgetUsage, *, at_last_turn: bool = False) -> RunBudget | None:
    """Load the limits of a run; None if it has no budget.

    Args:
        ctx: The run.
        spent: What it has used, for the error.
        at_last_turn: Load the limits of the time when the last turn of the main job started.

    Errors: `BudgetExceeded` if a person denied a request to continue.
    """
    if (settings := ctx.run.settings.get("budget")) is None:
        return None
    initial = allowed = Budget.from_limits(settings)
    requests = await ctx.services.approvals.budget_requests(ctx.run.run_id, at_last_turn=at_last_turn)
    for request, decision in requests:
        if decision is None:
            return RunBudget(initial, allowed, request.subject, len(requests))
        if not decision.approved:
            raise budget_exceeded(
                allowed, spent, f"The person says: {decision.instruction}" if decision.instruction else ""
            )
        allowed = Budget.from_limits({"when_spent": initial.when_spent, **request.params, **(decision.params or {})})
    return RunBudget(initial, allowed, None, len(requests))


def budget_exceeded(allowed: Budget, spent: BudgetUsage, advice: str) -> BudgetExceeded:
    """The error that ends a run at its budget."""
    message = f"The run stopped at its budget: {allowed.describe(spent)} spent. What it wrote stays. {advice}"
    return BudgetExceeded(message.rstrip())
