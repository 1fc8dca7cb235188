"""Approval of tool calls by a standing decision, a model, a policy or a person.

All calls of a reply are checked before the first one runs.

A decision of the policy is stored in the same table as a decision of a person, and the table is read first, so that
nothing is requested or decided twice. A call whose permission may depend on the effects of earlier calls is checked
when its turn comes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from artifactflow_nb.agents.base import BaseAgent
from artifactflow_nb.agents.reviewer import REVIEWER
from artifactflow_nb.core.approvals import QUESTION_KIND, VERDICTS, ApprovalRequest, Decision
from artifactflow_nb.core.clock_ids import request_id
from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.local_files import loads
from artifactflow_nb.core.runs import GRAPH_SETTING, REVIEWER_SETTING
from artifactflow_nb.core.text.format import clip
from artifactflow_nb.errors import ModelError, ToolError
from artifactflow_nb.flows.cancellation import shielded
from artifactflow_nb.flows.events import EventWriter
from artifactflow_nb.flows.limits import load_run_budget
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.turn import take_single_turn
from artifactflow_nb.store.approvals import ApprovalStore, RequestState
from artifactflow_nb.store.calls import FINISHED, StoredCall
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.store.runs import event_row
from artifactflow_nb.tools.base import Tool, ToolPermission
from artifactflow_nb.tools.lead import MAX_QUESTIONS

TITLE_COLUMNS = 100


async def waiting_calls(ctx: RunContext, agent: BaseAgent, job_id: str, calls: Sequence[StoredCall]) -> list[str]:
    """Store the requests for approvals that are needed; return the ids of the calls that wait for a person."""
    open_calls = [call for call in calls if call.status != FINISHED]
    states = await ctx.services.approvals.decisions([call.tool_call_id for call in open_calls])
    waiting: list[str] = []
    for index, call in enumerate(open_calls):
        if call.tool_call_id in states:
            decided = states[call.tool_call_id].decision is not None
        else:
            decided = await _may_run(ctx, agent, job_id, call, is_next=index == 0)
        if not decided:
            waiting.append(call.tool_call_id)
    return waiting


def effective_params(call: StoredCall, request_state: RequestState | None) -> Mapping[str, Any]:
    """Return the parameters with which a call runs: the parameters of the model, or the edited parameters."""
    edited = request_state.decision.params if request_state and request_state.decision else None
    return call.call.params if edited is None else edited


async def must_wait(
    ctx: RunContext, agent: BaseAgent, job_id: str, call: StoredCall, request_state: RequestState | None
) -> bool:
    """Return whether the next call must wait for a person: a request is open, or the call needs an approval now."""
    if request_state is not None:
        return request_state.decision is None
    entry = next((entry for entry in ctx.services.tools if entry.name == call.call.name), None)
    if entry is None or isinstance(entry.permission, ToolPermission):
        return False
    return not await _may_run(ctx, agent, job_id, call, is_next=True)


async def _may_run(ctx: RunContext, agent: BaseAgent, job_id: str, call: StoredCall, *, is_next: bool) -> bool:
    """Return whether a call can run without a person; if not, store and publish an approval request.

    A later call needs no request yet if its permission is a function: `must_wait` evaluates the function later.
    """
    try:
        entry, args = bind_call(ctx, agent, call)
        if entry.is_note(args) or not (is_next or isinstance(entry.permission, ToolPermission)):
            return True
        tool_context = ctx.tool_context(agent, job_id, call.tool_call_id, entry.name)
        permission = await entry.permission_for(tool_context, args)
        hosts = entry.hosts(args) if entry.hosts is not None else ()
    except ToolError:  # the call fails with the same error when it runs, so there is nothing to decide
        return True
    permission = ToolPermission.CONFIRM if call.call.needs_approval else permission
    if not ctx.policy.applies_to(entry.name, permission is ToolPermission.CONFIRM):
        return True
    is_question = entry.request_kind == QUESTION_KIND
    if is_question and await ctx.services.approvals.n_requests(ctx.run.run_id, QUESTION_KIND) >= MAX_QUESTIONS:
        return True  # the call fails when it runs
    preview = ctx.secrets.text(await entry.render_preview(tool_context, args, ctx.services.secrets.redact))
    params = args.model_dump(mode="json")
    first = next(iter(params.values()), "")
    action = entry.request_action(tool_context) if callable(entry.request_action) else entry.request_action
    detail = "" if action and isinstance(first, list) else f": {' '.join(str(first).split())}"
    title = f"{agent.config.name} wants to {action or f'run {entry.name}'}{detail}"
    if is_question:
        title = " ".join(str(first).split())
    elif hosts:
        title = f"{agent.config.name} wants to read pages of {', '.join(hosts)}"
    request = ApprovalRequest(
        id=request_id(call.tool_call_id),
        run_id=ctx.run.run_id,
        kind=entry.request_kind,
        agent=agent.config.name,
        tool=entry.name,
        params=params,
        title=clip(title, TITLE_COLUMNS),
        preview=preview,
        tool_call_id=call.tool_call_id,
        allowed=("instructed", "denied") if is_question else (),
        hosts=hosts,
    )
    return not await request_approval(ctx, job_id, request, permission)


def bind_call(ctx: RunContext, agent: BaseAgent, call: StoredCall) -> tuple[Tool, BaseModel]:
    """Return the tool of a call and the validated parameters; `ToolError` for an invalid call."""
    if call.call.error:
        raise ToolError(call.call.error)
    entry = ctx.services.tools.find(call.call.name, agent.tool_names)
    return entry, entry.bind(call.call.params, agent.protocol.name)


async def request_approval(
    ctx: RunContext, job_id: str, request: ApprovalRequest, permission: ToolPermission, *, must_ask: bool = False
) -> bool:
    """Request an approval; return whether it waits for a person.

    A standing decision of a person takes precedence over the reviewer and the policy, but the policy can still deny a
    call that a standing decision approves. The request, an automatic decision and the events of both are stored in one
    transaction, then published.

    Args:
        ctx: The run.
        job_id: The job that requests the approval.
        request: The request.
        permission: The permission level of the tool.
        must_ask: Whether only a person may decide. A person is also asked if the request does not allow the automatic
            decision.
    """
    decision = None if must_ask else await ctx.services.approvals.standing_decision(ctx.run, request)
    if decision is None and not must_ask:
        decision = await review(ctx, request)
    if decision is None and not must_ask:
        verdict = await ctx.policy.decide(request)
        if verdict != "ask":
            decision = Decision(approved=verdict == "approve", decided_by="policy")
    elif decision is not None and decision.approved and await ctx.policy.forbids(request):
        decision = Decision(approved=False, decided_by="policy")
    if decision is not None and not request.allows(decision):
        decision = None
    # A policy may also ask a person for calls that the tool itself permits.
    needs_person = decision is None or decision.decided_by != "policy"
    level = ToolPermission.CONFIRM if needs_person else permission
    data = {
        "job_id": job_id,
        "tool_call_id": request.tool_call_id,
        "id": request.id,
        "kind": request.kind,
        "permission_level": level.value,
        "params": request.params,
        "title": request.title,
        "preview": request.preview,
        "message": request.message,
        **({"allowed": list(request.allowed)} if request.allowed else {}),
        **({"hosts": list(request.hosts)} if request.hosts else {}),
    }
    writer = ctx.event_writer
    await writer.flush()

    async def store() -> None:
        with writer.storing():
            event = writer.stamp(StreamEventType.PERMISSION_REQUEST, data, agent=request.agent, tool=request.tool)
            events = [event, *([_result_event(writer, request, decision, job_id)] if decision else [])]
            rows = list(map(event_row, events))
            if await ctx.services.approvals.create(request, job_id, event.timestamp, writer.drain(), rows, decision):
                for event in events:
                    writer.publish(event)

    await shielded(store())
    if decision is None:
        await publish_decisions(ctx.services.approvals, ctx.event_writer, ctx.run.run_id)
    return decision is None


async def publish_decisions(
    requests: ApprovalStore, event_writer: EventWriter, run_id: str, *, only_while_waiting: bool = False
) -> None:
    """Publish each decision of the run that is not yet published, exactly once.

    With `only_while_waiting`, nothing is published for a run that has a driver in any process: the driver publishes.
    """

    async def publish(request: ApprovalRequest, decision: Decision, job_id: str) -> None:
        with event_writer.storing():
            event = _result_event(event_writer, request, decision, job_id)
            rows = [*event_writer.drain(), event_row(event)]
            if await requests.mark_published(request.id, rows, only_while_waiting=only_while_waiting):
                event_writer.publish(event)

    async with event_writer.publish_lock:
        for unpublished in await requests.unpublished_decisions(run_id):
            await shielded(publish(*unpublished))


def _result_event(event_writer: EventWriter, request: ApprovalRequest, decision: Decision, job_id: str) -> StreamEvent:
    data = {
        "job_id": job_id,
        "tool_call_id": request.tool_call_id,
        "id": request.id,
        "approved": decision.approved,
        "decision": decision.choice,
        "scope": decision.scope,
        "params": decision.params,
        "decided_by": decision.decided_by,
        "instruction": decision.instruction,
    }
    return event_writer.stamp(StreamEventType.PERMISSION_RESULT, data, agent=request.agent, tool=request.tool)


_REVIEWED = ("tool", "plan", "edit")
_REASON_CHARS = 500


async def review(ctx: RunContext, request: ApprovalRequest) -> Decision | None:
    """Ask the reviewer, a model, for a decision on a call; None leaves the decision to the person.

    The review is a job with the id of the request, so that a stored review is not repeated after a crash. The model
    sees neither the sources nor the conversation. The call is left to the person if the answer is unclear, if the model
    fails, or if the budget of the run is spent.
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
    sections = [
        f"<question>\n{ctx.run.question}\n</question>",
        f"<rules>\n{rules or 'The person has given no rules.'}\n</rules>",
        f"<call>\n{request.agent} calls {request.tool} with {to_json(dict(request.params))}\n</call>",
        f"<preview>\n{request.preview}\n</preview>" if request.preview else "",
    ]
    try:
        return _read(await take_single_turn(ctx, ctx.agent(REVIEWER), request.id, "\n\n".join(filter(None, sections))))
    except ModelError:  # the row of the model call has the error
        return None


def _read(answer: str) -> Decision | None:
    """Parse the decision in an answer of the reviewer; None if the person must decide or the answer is malformed."""
    try:
        value = loads(answer[answer.index("{") : answer.rindex("}") + 1])
        verdict, reason = value["decision"], value["reason"]
    except (ValueError, TypeError, KeyError):
        return None
    is_clear = verdict in VERDICTS and verdict != "ask" and isinstance(reason, str) and reason.strip()
    if not is_clear:
        return None
    return Decision(approved=verdict == "approve", instruction=reason.strip()[:_REASON_CHARS], decided_by=REVIEWER)
