"""Who may do what: the calls of a reply are looked at before any of them runs.

A call that needs nobody passes; a policy's answer is a decision like a person's, stored in the same table; what is left
waits for a person. What was decided is read from the table, so that nothing is asked or decided twice. A call whose
permission may depend on what the calls before it do is looked at when its turn comes.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from pydantic import BaseModel

from artifactflow_nb.agents.base import BaseAgent
from artifactflow_nb.approvals import ApprovalRequest, Decision
from artifactflow_nb.errors import Conflict, ToolError
from artifactflow_nb.events import StreamEvent, StreamEventType
from artifactflow_nb.flows.journal import Journal
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.unbroken import unbroken
from artifactflow_nb.recordings.tape import Tape
from artifactflow_nb.recordings.values import lane_of_answer, request_id
from artifactflow_nb.store.calls import FINISHED, StoredCall
from artifactflow_nb.store.requests import Asked, RequestStore
from artifactflow_nb.store.runs import event_row
from artifactflow_nb.text.width import clip
from artifactflow_nb.tools.base import Tool, ToolPermission

TITLE_COLUMNS = 100


async def waiting_calls(ctx: RunContext, agent: BaseAgent, job_id: str, calls: Sequence[StoredCall]) -> list[str]:
    """Ask where it is needed; the ids of those calls that wait for a person."""
    open_calls = [call for call in calls if call.status != FINISHED]
    known = await ctx.services.requests.decisions([call.tool_call_id for call in open_calls])
    waiting: list[str] = []
    for index, call in enumerate(open_calls):
        if call.tool_call_id in known:
            decided = known[call.tool_call_id].decision is not None
        else:
            decided = await _decided_or_free(ctx, agent, job_id, call, may_depend=index == 0)
        if not decided:
            waiting.append(call.tool_call_id)
    return waiting


def params_of(call: StoredCall, asked: Asked | None) -> Mapping[str, Any]:
    """What a call runs with: its own parameters, or those that the person put in their place."""
    edited = asked.decision.params if asked and asked.decision else None
    return call.call.params if edited is None else edited


async def has_to_wait(ctx: RunContext, agent: BaseAgent, job_id: str, call: StoredCall, asked: Asked | None) -> bool:
    """Whether a call has to wait, now that its turn has come: its request is open, or one has to be made after all."""
    if asked is not None:
        return asked.decision is None
    if all(entry.name != call.call.name or isinstance(entry.permission, ToolPermission) for entry in agent.tools):
        return False
    return not await _decided_or_free(ctx, agent, job_id, call, may_depend=True)


async def _decided_or_free(
    ctx: RunContext, agent: BaseAgent, job_id: str, call: StoredCall, *, may_depend: bool
) -> bool:
    """Put one call before the policy; False if a person has to be asked, which is stored and said.

    With `may_depend` false, a call whose permission depends on more than its tool is left for later.
    """
    if ctx.tape.knows(call.tool_call_id) and ctx.tape.ask(call.tool_call_id) is None:
        return True
    try:
        entry, args = bind(ctx, agent, call)
    except ToolError:
        return True
    if entry.is_note(args) or not (may_depend or isinstance(entry.permission, ToolPermission)):
        return True
    tool_context = ctx.tool_context(agent.config.name, job_id, call.tool_call_id, entry.name)
    permission = await entry.permission_for(tool_context, args)
    recorded = ctx.tape.ask(call.tool_call_id)
    if recorded is None and not ctx.policy.concerns(entry.name, permission is ToolPermission.CONFIRM):
        return True
    if recorded is None:
        params, preview = args.model_dump(mode="json"), await entry.preview_of(tool_context, args, ctx.services.mask)
    else:
        params, preview = dict(recorded.params), recorded.preview
    return not await ask(ctx, job_id, _request(ctx, agent, call, entry, params, preview), permission)


async def _decision(ctx: RunContext, request: ApprovalRequest) -> Decision | None:
    """What holds without asking: what a person decided for the run or conversation, or the policy; None to ask.

    A person approves a call that they see, and those of its tool to come unseen: what the policy refuses of these,
    it refuses.
    """
    if ctx.tape.knows(request.subject):
        recorded = ctx.tape.ask(request.subject)
        return recorded.decision if recorded is not None and recorded.settled else None
    if (standing := await ctx.services.requests.standing(ctx.run, request.tool)) is not None:
        is_refused = standing.approved and await ctx.policy.forbids(request)
        return Decision(approved=False, decided_by="policy") if is_refused else standing
    verdict = await ctx.policy.decide(request)
    return None if verdict == "ask" else Decision(approved=verdict == "approve", decided_by="policy")


def bind(ctx: RunContext, agent: BaseAgent, call: StoredCall) -> tuple[Tool, BaseModel]:
    """The tool that is called and its parameters, validated; `ToolError` if either does not fit."""
    if call.call.error:
        raise ToolError(call.call.error)
    entry = ctx.services.tools.find(call.call.name, agent.tool_names)
    return entry, entry.bind(call.call.params)


def _request(
    ctx: RunContext, agent: BaseAgent, call: StoredCall, entry: Tool, params: dict[str, object], preview: str
) -> ApprovalRequest:
    return ApprovalRequest(
        id=request_id(call.tool_call_id),
        run_id=ctx.run.run_id,
        kind=entry.asks_as,
        agent=agent.config.name,
        tool=entry.name,
        params=params,
        title=_title(agent.config.name, entry, params),
        preview=preview,
        tool_call_id=call.tool_call_id,
    )


def _title(agent: str, entry: Tool, params: dict[str, object]) -> str:
    """The question in a line: who wants to do what, with the first of the parameters."""
    first = next(iter(params.values()), "")
    told = "" if entry.wants_to and isinstance(first, list) else f": {' '.join(str(first).split())}"
    return clip(f"{agent} wants to {entry.wants_to or f'run {entry.name}'}{told}", TITLE_COLUMNS)


async def ask(ctx: RunContext, job_id: str, request: ApprovalRequest, permission: ToolPermission) -> bool:
    """Put a request before the policy and, where that leaves it open, a person; whether it waits for one.

    The request, a policy's decision on it and their events are stored in one transaction, then said.
    """
    decision = await _decision(ctx, request)
    data = {
        "job_id": job_id,
        "tool_call_id": request.tool_call_id,
        "id": request.id,
        "kind": request.kind,
        "permission_level": permission.value,
        "params": request.params,
        "title": request.title,
        "preview": request.preview,
        "message": request.message,
    }
    event = ctx.journal.stamp(StreamEventType.PERMISSION_REQUEST, data, agent=request.agent, tool=request.tool)
    events = [event, *([_result_event(ctx.journal, request, decision, job_id)] if decision else [])]
    await ctx.journal.flush()
    rows, now = list(map(event_row, events)), ctx.tape.clock.now(job_id)

    async def put() -> None:
        if await ctx.services.requests.open(request, job_id, now, rows, decision):
            for event in events:
                ctx.journal.publish(event)

    await unbroken(put())
    if decision is None:
        await take_answers(ctx.services.requests, ctx.tape, by_code=False)
        await announce_decisions(ctx.services.requests, ctx.journal, ctx.run.run_id)
    return decision is None


async def take_answers(requests: RequestStore, tape: Tape, *, by_code: bool, only: Sequence[str] | None = None) -> None:
    """Decide what is recorded as decided by now, each when it was.

    Args:
        requests: Where decisions are stored.
        tape: What is recorded.
        by_code: Also what code decided, which is given time to do so again; else only clicks, up to the first such.
        only: Of these requests; None for all.
    """
    recorded = [one for one in tape.answers(by_code=by_code) if only is None or request_id(one[0]) in only]
    if not recorded:
        return
    asked = await requests.decisions([subject for subject, _ in recorded])
    for subject, recorded_ask in recorded:
        if subject not in asked:  # it will be, by another job: what was decided later waits for it
            break
        undecided = asked[subject].decision is None
        if undecided and recorded_ask.decision is not None and recorded_ask.decided_at is not None:
            await tape.until_code(recorded_ask, partial(_is_decided, requests, subject))
            with suppress(Conflict):  # code, or another job of the run, did so at this moment
                await requests.decide({request_id(subject): recorded_ask.decision}, recorded_ask.decided_at)
                tape.took(subject)


async def _is_decided(requests: RequestStore, subject: str) -> bool:
    found = (await requests.decisions([subject])).get(subject)
    return found is None or found.decision is not None


async def announce_decisions(
    requests: RequestStore, journal: Journal, run_id: str, *, only_while_waiting: bool = False
) -> None:
    """Say every decision of the run that was not said yet, each exactly once.

    Args:
        requests: Where decisions are stored.
        journal: Where the run's events go.
        run_id: The run.
        only_while_waiting: Say nothing if somebody drives the run, here or elsewhere: they say it.
    """
    async with journal.telling:
        for request, decision, job_id in await requests.unannounced(run_id):
            lane = lane_of_answer(request.subject)
            journal.clock.read(lane)
            event = _result_event(journal, request, decision, job_id, lane)
            await unbroken(_announce(requests, journal, request.id, event, only_while_waiting=only_while_waiting))


async def _announce(
    requests: RequestStore, journal: Journal, asked: str, event: StreamEvent, *, only_while_waiting: bool
) -> None:
    rows = [*journal.take(), event_row(event)]
    if await requests.mark_announced(asked, rows, only_while_waiting=only_while_waiting):
        journal.publish(event)


def _result_event(
    journal: Journal, request: ApprovalRequest, decision: Decision, job_id: str, lane: str | None = None
) -> StreamEvent:
    """The event that tells a decision: with the question, or in a lane of its own when a person took it later."""
    data = {
        "job_id": job_id,
        "tool_call_id": request.tool_call_id,
        "id": request.id,
        "approved": decision.approved,
        "decision": decision.word,
        "scope": decision.scope,
        "params": decision.params,
        "decided_by": decision.decided_by,
        "instruction": decision.instruction,
    }
    about = {"agent": request.agent, "tool": request.tool}
    return journal.stamp(StreamEventType.PERMISSION_RESULT, data, **about, lane=lane)
