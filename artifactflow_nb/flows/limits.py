"""Limits of a run (its budget and approved extensions) and of an agent (its rounds and exclusive tools).

An agent that has used up its rounds must answer. The agent may still call a tool such as `report_failure` once, so that
a failure is never reported as a result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from artifactflow_nb.agents.base import AgentResponse, BaseAgent
from artifactflow_nb.core.budget import Budget, BudgetUsage
from artifactflow_nb.errors import BudgetExceeded
from artifactflow_nb.flows.services import RunContext


@dataclass(frozen=True, slots=True)
class RunBudget:
    """The limits of a run.

    Attributes:
        initial: The budget with which the run started.
        allowed: The limits that were approved last.
        open_subject: The subject of the open request to continue, or None.
        n_requests: The number of requests so far.
    """

    initial: Budget
    allowed: Budget
    open_subject: str | None
    n_requests: int


async def load_run_budget(ctx: RunContext, spent: BudgetUsage, *, at_last_turn: bool = False) -> RunBudget | None:
    """Load the limits of a run; None if the run has no budget.

    With `at_last_turn`, load the limits at the start of the main job's last turn. The error names the usage `spent`.

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
    """Create the error that ends a run at its budget."""
    message = f"The run stopped at its budget: {allowed.describe(spent)} spent. What it wrote stays. {advice}"
    return BudgetExceeded(message.rstrip())


_NO_ROUND_LEFT = "You have used all {rounds} rounds of tool calls. No tool can be called any more"
_ONE_ROUND_LEFT = "One round of tool calls is left. Conclude with it, or answer now."


@dataclass(frozen=True, slots=True)
class RoundNotes:
    """The notes about rounds that an agent gets in its prompt.

    Attributes:
        final_tools: The tools that the agent may still call once when its rounds are used up.
    """

    max_rounds: int
    final_tools: tuple[str, ...] = ()

    def note(self, used: int) -> str:
        """Return the note after this number of rounds; empty while several rounds are left, or if no limit is set."""
        left = self.max_rounds - used
        if self.max_rounds == 0:
            return ""
        if left == 0 and self.final_tools:
            return (
                f"{_NO_ROUND_LEFT.format(rounds=self.max_rounds)} but {', '.join(self.final_tools)}: answer now if it "
                "is done, and call that if it is not."
            )
        if left <= 0:
            return (
                f"{_NO_ROUND_LEFT.format(rounds=self.max_rounds)}: answer now with what you have, and say what is "
                "missing."
            )
        if left == 1 and used > 0:
            return _ONE_ROUND_LEFT
        return ""


def restrict_at_limit(agent: BaseAgent, used: int) -> tuple[BaseAgent, tuple[str, ...]]:
    """Restrict an agent that has used up its rounds to its final tools; return the agent and the names of the tools.

    An agent with rounds left is returned unchanged, with no names.
    """
    final_tools = tuple(entry.name for entry in agent.tools if entry.is_allowed_after_limit)
    if used != agent.config.max_tool_rounds or not final_tools:
        return agent, ()
    return agent.with_tools(final_tools), final_tools


def reject_other_calls(final_tools: Sequence[str], response: AgentResponse) -> AgentResponse:
    """Reject the calls of all other tools: the rejected calls get an error and are not run."""
    problem = "Not run: all rounds of tool calls are used up. Answer now with what you have."
    calls = (
        call if call.name in final_tools else replace(call, error=call.error or problem) for call in response.tool_calls
    )
    return replace(response, tool_calls=tuple(calls))


def require_question(tool: str, response: AgentResponse) -> AgentResponse:
    """Reject all calls of a reply that does not ask the person: the calls get an error and are not run.

    `response` is the first reply of a run that must ask before research.
    """
    if any(call.name == tool for call in response.tool_calls):
        return response
    problem = f"Not run: this run asks the person first. Call {tool}, then call this again."
    return replace(
        response, tool_calls=tuple(replace(call, error=call.error or problem) for call in response.tool_calls)
    )


def enforce_exclusive_call(agent: BaseAgent, response: AgentResponse) -> AgentResponse:
    """Reject all other calls of a reply with an exclusive call: the rejected calls get an error and are not run."""
    exclusive = {entry.name for entry in agent.tools if entry.is_exclusive}
    first = next((index for index, call in enumerate(response.tool_calls) if call.name in exclusive), None)
    if first is None or len(response.tool_calls) == 1:
        return response
    problem = f"Not run: {response.tool_calls[first].name} must be the only call of a reply. Call this again if needed."
    calls = (
        call if index == first else replace(call, error=call.error or problem)
        for index, call in enumerate(response.tool_calls)
    )
    return replace(response, tool_calls=tuple(calls))
