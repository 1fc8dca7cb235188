"""Carrying out the calls of a reply, in order, each keyed by its row in the ledger.

A finished call is not run again. A call that started and never finished, because its process was killed, is run again
only if its tool is idempotent; otherwise the model is told that nobody knows whether it took effect.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from artifactflow_nb.agents.base import BaseAgent
from artifactflow_nb.errors import CassetteMiss, StoreError, ToolError
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.flows.context import cut_text
from artifactflow_nb.flows.permission import bind, params_of
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.middleware import ToolInvocation
from artifactflow_nb.recordings.tape import Calling
from artifactflow_nb.recordings.values import lane_of_call
from artifactflow_nb.store.calls import STARTED, StoredCall, ToolRun
from artifactflow_nb.store.requests import Asked
from artifactflow_nb.store.storable import to_json
from artifactflow_nb.tools.base import MAX_RESULT_CHARS, Tool

DENIED = "Permission denied"

ERROR_CHARS = 2_000  # of an error in the event that tells it; the call's row has all of it

Perform = Callable[[], Awaitable[ToolResult]]


async def run_call(ctx: RunContext, agent: BaseAgent, job_id: str, call: StoredCall, asked: Asked | None) -> ToolResult:
    """Carry out a call of a tool; its result is stored and told."""
    name, args = call.call.name, call.call.params
    tool_context = ctx.tool_context(agent.config.name, job_id, call.tool_call_id, name)

    async def run() -> ToolResult:
        entry, _ = bind(ctx, agent, call)
        if call.status == STARTED and not entry.idempotent:
            return _unknown_outcome(entry.name)
        work = entry.run(tool_context, params_of(call, asked))
        result = await (work if entry.runs_in_replay else ctx.beside.halting.wait_for(work))
        return with_word(_masked(ctx, entry, result), asked)

    async def perform() -> ToolResult:
        await ctx.stand_within(call.tool_call_id)
        runs_again = any(entry.name == name and entry.runs_in_replay for entry in ctx.services.tools)
        calling = Calling(call.tool_call_id, agent.config.name, name, args, runs_again, tool_context.notify)
        return await ctx.tape.result(calling, run)

    return await keep_result(ctx, agent, job_id, call, asked, perform)


async def keep_result(
    ctx: RunContext, agent: BaseAgent, job_id: str, call: StoredCall, asked: Asked | None, perform: Perform
) -> ToolResult:
    """Do what a call asks for, unless it was denied: note that it starts, do it, store the result, say so."""
    name = call.call.name
    where = {"job_id": job_id, "tool_call_id": call.tool_call_id}
    lane = lane_of_call(name, call.tool_call_id, job_id)
    denied = _denial(asked)
    with ctx.beside.halting.stands():
        await ctx.tape.before(call.tool_call_id)
    clock, key = ctx.tape.clock, call.tool_call_id
    told = agent.config.name, job_id, key, name, params_of(call, asked), clock.now(job_id)
    watched = await ctx.watch.tool_called(*told, is_new=call.status != STARTED)
    span = clock.start(key, lane) if call.called_at is None else clock.resume(key, lane, call.called_at)
    called_at = span.at
    if call.status != STARTED:
        start = {**where, "params": dict(params_of(call, asked))}
        ctx.journal.emit(StreamEventType.TOOL_START, start, agent=agent.config.name, tool=name, lane=lane)
    if denied:
        result = denied
    else:
        await ctx.services.calls.start(call.tool_call_id, called_at, ctx.journal.take())
        result = await _performed(ctx, call, watched, perform)
    completed_at, duration_ms = clock.stop(span)
    done = {
        **where,
        "success": result.success,
        "duration_ms": duration_ms,
        "error": result.error and cut_text(result.error, ERROR_CHARS),
        "metadata": dict(result.metadata),
    }
    ctx.journal.emit(StreamEventType.TOOL_COMPLETE, done, agent=agent.config.name, tool=name, lane=lane)
    times = called_at, completed_at, duration_ms
    shown, provenance = _shown_chars(ctx, name, result), ctx.tape.provenance(call.tool_call_id)
    await ctx.services.calls.finish(
        [ToolRun(call.tool_call_id, result, _approval(asked), *times, ctx.journal.take(), shown, provenance)]
    )
    await ctx.watch.tool_done(watched, result, duration_ms)
    return result


def _masked(ctx: RunContext, entry: Tool, result: ToolResult) -> ToolResult:
    """The result; in an error of a tool that is not built in without secrets: whatever it called may have said them."""
    if not result.error or ctx.services.tools.is_built_in(entry):
        return result
    return replace(result, error=ctx.services.mask(result.error))


async def _performed(ctx: RunContext, call: StoredCall, watched: ToolInvocation | None, perform: Perform) -> ToolResult:
    """What came of doing it; who watches is told if it is cut short."""
    try:
        return await perform()
    except (asyncio.CancelledError, StoreError, CassetteMiss) as error:
        await ctx.watch.tool_broke(watched, error)
        raise
    except ToolError as error:
        kind = "Unreadable" if call.call.error else "ToolError"
        return ToolResult(success=False, error=str(error), metadata={"error_type": kind})


def _shown_chars(ctx: RunContext, tool: str, result: ToolResult) -> int | None:
    """How many characters of a result the model is shown; None for all of it. The store keeps it whole."""
    entry = next((entry for entry in ctx.services.tools if entry.name == tool), None)
    most = MAX_RESULT_CHARS if entry is None else entry.max_result_chars
    return most if len(result.data if result.success else result.error or "") > most else None


def _denial(asked: Asked | None) -> ToolResult | None:
    """The result of a call that was denied; None if it may run. A call whose request is open must never get here."""
    if asked is None:
        return None
    if asked.decision is None:
        raise StoreError(f"The request {asked.request_id} is not decided; its call was not run.")
    if asked.decision.approved:
        return None
    if asked.decision.instead:
        answer = f"Not run. The person answers instead: {asked.decision.instruction}"
        return ToolResult(success=False, error=answer, metadata={"error_type": "Instructed"})
    said = f". The person says: {asked.decision.instruction}" if asked.decision.instruction else ""
    return ToolResult(success=False, error=f"{DENIED}{said}", metadata={"error_type": "PermissionDenied"})


def with_word(result: ToolResult, asked: Asked | None) -> ToolResult:
    """The result with what the person changed or said: the model would otherwise take its own call for what ran."""
    if asked is None or asked.decision is None:
        return result
    notes = [f"The person changed the parameters to: {to_json(asked.decision.params)}"] if asked.decision.params else []
    if asked.decision.instruction:
        notes.append(f"The person says: {asked.decision.instruction}")
    if not notes:
        return result
    if result.success:
        return replace(result, data="\n".join([result.data, *notes]))
    return replace(result, error="\n".join([result.error or "", *notes]))


def _approval(asked: Asked | None) -> str:
    """How the call came to run or not, in the words of the frame's `approval` column."""
    if asked is None or asked.decision is None:
        return "not_needed"
    if asked.decision.decided_by == "policy" and asked.decision.approved:
        return "policy"
    return asked.decision.word


def _unknown_outcome(tool: str) -> ToolResult:
    return ToolResult(
        success=False,
        error=(
            f"{tool} had started when its process ended, and nobody knows whether it took effect. It was not run "
            "again. Find out first, then decide whether to call it again."
        ),
        metadata={"error_type": "UnknownOutcome"},
    )
