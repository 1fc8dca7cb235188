"""Review of a tool call by a model, in a job of its own; the id of the job is that of the request.

A review that is stored is not made again after a crash. The model sees neither the sources nor the conversation.
"""

from artifactflow_nb.agents.reviewer import REVIEWER
from artifactflow_nb.core.approvals import VERDICTS, ApprovalRequest, Decision
from artifactflow_nb.core.bounded_json import loads
from artifactflow_nb.core.runs import GRAPH_SETTING, REVIEWER_SETTING
from artifactflow_nb.errors import ModelError
from artifactflow_nb.flows.run_budget import load_run_budget
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.turn import take_single_turn
from artifactflow_nb.store.encoding import to_json

_REVIEWED = ("tool", "plan", "edit")
_REASON_CHARS = 500


async def review(ctx: RunContext, request: ApprovalRequest) -> Decision | None:
    """The decision of the reviewer on a call; None to leave it to the person.

    That is so without a reviewer, if its answer is unclear or its model fails, and if the budget of the run is spent.
    """
    if ctx.services.reviewer is None or request.kind not in _REVIEWED or not request.tool_call_id:
        return None
    if GRAPH_SETTING in ctx.run.settings:
        return None
    spent = await ctx.services.runs.budget_usage(ctx.run.run_id)
    limits = await load_run_budget(ctx, spent)
    if limits is not None and limits.allowed.exceeded(spent):
        return None
    rules = ctx.run.settings.get(REVIEWER_SETTING, ctx.services.reviewer.rules)
    parts = [
        f"<question>\n{ctx.run.question}\n</question>",
        f"<rules>\n{rules or 'The person has given no rules.'}\n</rules>",
        f"<call>\n{request.agent} calls {request.tool} with {to_json(dict(request.params))}\n</call>",
        f"<preview>\n{request.preview}\n</preview>" if request.preview else "",
    ]
    try:
        return _read(await take_single_turn(ctx, ctx.agent(REVIEWER), request.id, "\n\n".join(filter(None, parts))))
    except ModelError:  # its row has the error
        return None


def _read(answer: str) -> Decision | None:
    """The decision in an answer of the reviewer; None if it leaves it to the person or cannot be understood."""
    try:
        value = loads(answer[answer.index("{") : answer.rindex("}") + 1])
        verdict, reason = value["decision"], value["reason"]
    except (ValueError, TypeError, KeyError):
        return None
    is_clear = verdict in VERDICTS and verdict != "ask" and isinstance(reason, str) and reason.strip()
    if not is_clear:
        return None
    return Decision(approved=verdict == "approve", instruction=reason.strip()[:_REASON_CHARS], decided_by=REVIEWER)
