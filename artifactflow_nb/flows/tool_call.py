"""Execution of tool calls, each keyed by its row in the ledger.

A finished call is not run again. A call that started and never finished, because its process was killed, is run again
only if its tool is idempotent; the result of another tool says that the outcome is unknown.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from artifactflow_nb.agents.base import BaseAgent
from artifactflow_nb.agents.reviewer import REVIEWER
from artifactflow_nb.core.approvals import QUESTION_KIND, ApprovalRequest, Decision
from artifactflow_nb.core.clock_ids import Span, request_id
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.text.format import clip
from artifactflow_nb.errors import StoreError, ToolError
from artifactflow_nb.flows.approval import TITLE_COLUMNS, bind_call, effective_params, request_approval
from artifactflow_nb.flows.compression import cut_text
from artifactflow_nb.flows.passage_scorer import ModelPassageScorer, scores_passages
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.store.approvals import RequestState
from artifactflow_nb.store.calls import STARTED, StoredCall, ToolRun
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.tools.base import MAX_RESULT_CHARS, AskPerson, ToolPermission
from artifactflow_nb.tools.registry import MCP
from artifactflow_nb.tools.web.scoring import PassageScorer

DENIED = "Permission denied"

NOBODY_ANSWERS = "Nobody can answer: state your assumption in the answer, and go on."
"""The result of a question that the person left open, or that a policy did not forward."""

ERROR_CHARS = 2_000  # the largest length of an error in an event; the row of the call has the whole error

Perform = Callable[[], Awaitable[ToolResult]]


class AskingCall:
    """A call that asks the person while it runs: the run waits for the answer, and the call remains in memory.

    If the process dies, the outcome of the call is unknown, as for any other call that has started.

    Args:
        ctx: The run.
        call: The call.
        start: Starts the call; takes the function with which the tool asks the person.
    """

    def __init__(self, ctx: RunContext, call: StoredCall, start: Callable[[AskPerson], Awaitable[ToolResult]]) -> None:
        self.run_id = ctx.run.run_id
        self.work = asyncio.ensure_future(start(self._ask))
        self._key = call.tool_call_id
        self._n_questions = 0
        self._question: asyncio.Future[tuple[Mapping[str, Any], asyncio.Future[Decision]]] = asyncio.Future()

    async def _ask(self, **fields: Any) -> Decision:
        answer: asyncio.Future[Decision] = asyncio.Future()
        self._question.set_result((fields, answer))
        return await answer

    async def advance(self, ctx: RunContext, agent: BaseAgent, job_id: str) -> ToolResult:
        """Return the result once the person has answered all questions; interrupt the run at an open question."""
        try:
            while True:
                await asyncio.wait((self.work, self._question), return_when=asyncio.FIRST_COMPLETED)
                if self.work.done():
                    return self.work.result()
                fields, answer = self._question.result()
                about = f"{self._key}/{self._n_questions}"
                state = (await ctx.services.approvals.decisions([about])).get(about)
                decision = None if state is None else state.decision
                if state is None:
                    request = ApprovalRequest(
                        id=request_id(about),
                        run_id=ctx.run.run_id,
                        kind="tool",
                        agent=agent.config.name,
                        about=about,
                        **{"params": {}, **ctx.secrets.value(fields)},
                    )
                    request = replace(request, title=clip(request.title, TITLE_COLUMNS))
                    if await ctx.policy.decide(request) == "ask":
                        await request_approval(ctx, job_id, request, ToolPermission.CONFIRM, must_ask=True)
                    else:  # a rule cannot fill in fields
                        decision = Decision(approved=False, decided_by="policy")
                if decision is None:
                    interrupt({"gates": [[request_id(about)]]})  # raises: the resumed run waits here again
                else:
                    self._question, self._n_questions = asyncio.Future(), self._n_questions + 1
                    answer.set_result(decision)
        except GraphInterrupt:
            ctx.services.asking_calls[self._key] = self
            raise
        except BaseException:
            self.work.cancel()
            await asyncio.wait([self.work])
            raise


async def run_call(
    ctx: RunContext, agent: BaseAgent, job_id: str, call: StoredCall, request_state: RequestState | None
) -> ToolResult:
    """Run the tool of a call; store and publish the result."""
    name = call.call.name
    tool_context = ctx.tool_context(agent, job_id, call.tool_call_id, name)
    if scores_passages(ctx, agent):
        scorer = ModelPassageScorer(ctx, agent, job_id, call.tool_call_id)
        tool_context = replace(tool_context, services={**tool_context.services, PassageScorer: scorer})

    def notify(kind: str, data: Mapping[str, Any]) -> None:
        tool_context.notify(kind, ctx.secrets.value(data))

    async def perform() -> ToolResult:
        await ctx.jobs.cancellation.wait_if_cancelled()
        entry, _ = bind_call(ctx, agent, call)
        asking = ctx.services.asking_calls.pop(call.tool_call_id, None)
        if call.status == STARTED and asking is None and not entry.idempotent:
            error = (
                f"{entry.name} had started when its process ended, and nobody knows whether it took effect. It was not "
                "run again. Find out first, then decide whether to call it again."
            )
            return ToolResult(success=False, error=error, metadata={"error_type": "UnknownOutcome"})
        params = effective_params(call, request_state)
        work: Awaitable[ToolResult]
        if entry.category == MCP:
            asking = asking or AskingCall(
                ctx, call, lambda ask: entry.run(replace(tool_context, notify=notify, ask=ask), params)
            )
            work = asking.advance(ctx, agent, job_id)
        else:
            work = entry.run(replace(tool_context, notify=notify), params)
        result = await (work if entry.uses_store_only else ctx.jobs.cancellation.wait_for(work))
        if result.error and not ctx.services.tools.is_built_in(entry):  # user code may write a secret into an error
            result = replace(result, error=ctx.services.secrets.redact(result.error))
        return with_decision_note(ctx.secrets.result(result), request_state)

    return await execute_call(ctx, agent, job_id, call, request_state, perform)


async def execute_call(
    ctx: RunContext,
    agent: BaseAgent,
    job_id: str,
    call: StoredCall,
    request_state: RequestState | None,
    perform: Perform,
) -> ToolResult:
    """Execute a call unless it was denied: store its start, call `perform`, store and publish the result."""
    name = call.call.name
    where = {"job_id": job_id, "tool_call_id": call.tool_call_id}
    entry = next((entry for entry in ctx.services.tools if entry.name == name), None)
    is_question = entry is not None and entry.request_kind == QUESTION_KIND
    denied = _answer(request_state) if is_question and request_state is not None else _denial(request_state)
    params = effective_params(call, request_state)
    about = agent.config.name, job_id, call.tool_call_id, name, params, ctx.clock.now()
    observed = await ctx.middleware.before_tool(*about, is_new=call.status != STARTED)
    span = ctx.clock.start() if call.called_at is None else Span(call.called_at, started=None)
    if call.status != STARTED:
        start = {**where, "params": dict(params)}
        ctx.event_writer.emit(StreamEventType.TOOL_START, start, agent=agent.config.name, tool=name)
    if denied:
        result = denied
    else:
        await ctx.services.calls.start(call.tool_call_id, span.at, ctx.event_writer.drain())
        try:
            result = await perform()
        except (asyncio.CancelledError, StoreError) as error:
            await ctx.middleware.on_tool_error(observed, error)
            raise
        except ToolError as error:
            kind = "Unreadable" if call.call.error else "ToolError"
            result = ToolResult(success=False, error=str(error), metadata={"error_type": kind})
    completed_at, duration_ms = ctx.clock.stop(span)
    done = {
        **where,
        "success": result.success,
        "duration_ms": duration_ms,
        "error": result.error and cut_text(result.error, ERROR_CHARS),
        "metadata": dict(result.metadata),
    }
    ctx.event_writer.emit(StreamEventType.TOOL_COMPLETE, done, agent=agent.config.name, tool=name)
    limit = MAX_RESULT_CHARS if entry is None else entry.max_result_chars
    is_too_long = len(result.data if result.success else result.error or "") > limit
    decision = None if request_state is None else request_state.decision
    run = ToolRun(
        call.tool_call_id,
        result,
        "not_needed" if decision is None else decision.approval,
        span.at,
        completed_at,
        duration_ms,
        ctx.event_writer.drain(),
        limit if is_too_long else None,
    )
    await ctx.services.calls.finish([run])
    await ctx.middleware.after_tool(observed, result, duration_ms)
    return result


def _decision(request_state: RequestState) -> Decision:
    """Return the decision on a request; `StoreError` if the request is still open."""
    if request_state.decision is None:
        raise StoreError(f"The call was not run, because its request {request_state.request_id} is open. Decide first.")
    return request_state.decision


def _answer(request_state: RequestState) -> ToolResult:
    """Return the result of a question: the answer of the person, or a sentence that nobody can answer."""
    decision = _decision(request_state)
    if decision.replaces_call:
        text = f"The person answers: {decision.instruction}"
    else:
        text = " ".join(filter(None, [NOBODY_ANSWERS, decision.instruction]))
    return ToolResult(success=True, data=text, metadata={"is_answered": decision.replaces_call})


def _denial(request_state: RequestState | None) -> ToolResult | None:
    """Return the result of a denied call; None if the call may run. `StoreError` if the request is still open."""
    if request_state is None:
        return None
    decision = _decision(request_state)
    if decision.approved:
        return None
    if decision.replaces_call:
        answer = f"Not run. The person answers instead: {decision.instruction}"
        return ToolResult(success=False, error=answer, metadata={"error_type": "Instructed"})
    author = "reviewer" if decision.decided_by == REVIEWER else "person"
    instruction = f". The {author} says: {decision.instruction}" if decision.instruction else ""
    return ToolResult(success=False, error=f"{DENIED}{instruction}", metadata={"error_type": "PermissionDenied"})


def with_decision_note(result: ToolResult, request_state: RequestState | None) -> ToolResult:
    """Add the person's edit and instruction to a result, so that the model knows with which parameters the call ran."""
    if request_state is None or request_state.decision is None or request_state.decision.decided_by == REVIEWER:
        return result
    notes = (
        [f"The person changed the parameters to: {to_json(request_state.decision.params)}"]
        if request_state.decision.params
        else []
    )
    if request_state.decision.instruction:
        notes.append(f"The person says: {request_state.decision.instruction}")
    if not notes:
        return result
    if result.success:
        return replace(result, data="\n".join([result.data, *notes]))
    return replace(result, error="\n".join([result.error or "", *notes]))
