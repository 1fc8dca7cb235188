"""A call that the job of an agent carries out: kept before it begins, so that it goes on as it was after a crash."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import BaseModel

from artifactflow_nb.errors import ToolError, told
from artifactflow_nb.flows.loop import Delegate, LoopGraph, run_job
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.state import AgentState, start_of_job
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.store.block_jobs import BlockJob

P = TypeVar("P", bound=BaseModel)

Begin = Callable[[RunContext, AgentState, str, P], Awaitable[BlockJob]]
"""Keeps the job of a call: in which run, the state of the loop that called, the call's id, its parameters."""

End = Callable[[RunContext, BlockJob, P, str], Awaitable[ToolResult]]
"""What comes of a job that gave this answer."""


def block_job(loop: LoopGraph, params: type[P], keep: Begin[P], end: End[P]) -> Delegate:
    """Carries out a call by a job of an agent; one that was begun before a crash goes on as it was.

    Args:
        loop: The agent's loop.
        params: The parameters of the call.
        keep: What keeps the job before it begins.
        end: What comes of it, unless it fails.
    """

    async def delegate(ctx: RunContext, state: AgentState, key: str, args: BaseModel) -> ToolResult:
        if not isinstance(args, params):
            raise ToolError(f"These are no {params.__name__}.")
        job = await ctx.services.block_jobs.get(key) or await keep(ctx, state, key, args)
        ctx.beside.begun(key)
        done = await run_job(ctx, loop, start_of_job(state, key, job.agent, job.instruction))
        if done.error is not None:
            return failed(f"{job.agent} could not finish: {told(done.error)}", done.error)
        return await end(ctx, job, args, done.text)

    return delegate


def failed(problem: str, error: Exception) -> ToolResult:
    """The result of a job that came to nothing."""
    return ToolResult(success=False, error=problem, metadata={"error_type": type(error).__name__})
