"""Jobs of the compose flow: calls that other agents carry out. A job is stored before it starts, to survive a crash."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from itertools import takewhile
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel

from artifactflow_nb.core.document.project import GENERATE_TOOL, JOB_TOOLS, MODIFY_TOOL, RESEARCH_TOOL, ProjectInfo
from artifactflow_nb.core.document.resources import (
    SKILL_RESOURCE,
    SKILLS_SETTING,
    NamedValue,
    ResourceType,
    Skill,
    merge_skills,
    referenced_skills,
    resource_values,
)
from artifactflow_nb.core.document.tree import Block, BlockTree
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.errors import Conflict, ToolError, UsageError, describe_error
from artifactflow_nb.flows.loop import Delegate, LoopGraph, run_job, start_of_job
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.state import AgentState
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.store.calls import FINISHED, StoredCall
from artifactflow_nb.store.jobs import BlockJob

V = TypeVar("V", bound=NamedValue)

StartJob = Callable[[RunContext, AgentState, str, Any], Awaitable[BlockJob]]
"""Stores the job of a call. Arguments: the run, the state of the calling loop, the call's id and its parameters."""

FinishJob = Callable[[RunContext, BlockJob, Any, str], Awaitable[ToolResult]]
"""Makes the call's result. Arguments: the run, the job, the call's parameters and the agent's answer."""


def block_job_delegate(loop: LoopGraph, start: StartJob, finish: FinishJob) -> Delegate:
    """Create the delegate of a tool whose calls are jobs of an agent; a stored job is resumed, not started again."""

    async def delegate(ctx: RunContext, state: AgentState, key: str, args: BaseModel) -> ToolResult:
        try:
            job = await ctx.services.block_jobs.get(key) or await start(ctx, state, key, args)
        except UsageError as error:
            raise ToolError(str(error)) from None
        ctx.jobs.mark_started(key)
        done = await run_job(ctx, loop, start_of_job(state, key, job.agent, job.instruction))
        if done.error is not None:
            return failed_result(f"{job.agent} could not finish: {describe_error(done.error)}", done.error)
        try:
            return await finish(ctx, job, args, done.text)
        except (Conflict, UsageError) as error:
            return failed_result(f"{error} The answer of {job.agent} was:\n\n{done.text}", error)

    return delegate


def failed_result(problem: str, error: Exception) -> ToolResult:
    """Return the result of a call that failed with an error."""
    return ToolResult(success=False, error=problem, metadata={"error_type": type(error).__name__})


async def start_block_job(
    ctx: RunContext,
    key: str,
    agent: str,
    instruction: str,
    block: Block | None = None,
    basis: Mapping[str, str] = MappingProxyType({}),
) -> BlockJob:
    """Store a job before it starts.

    `key` is the id of the call and of the job; without a block the job is on the whole document. `basis` has the hashes
    of those dependencies that the agent sees.
    """
    block_id, text = ("", "") if block is None else (block.block_id, block.content)
    job = BlockJob(key, ctx.run.run_id, block_id, agent, instruction, text, basis)
    await ctx.services.block_jobs.create(job, ctx.clock.now())
    return job


# --- the project of a run --------------------------------------------------------------------------------------------


async def run_project(ctx: RunContext) -> tuple[ProjectInfo, BlockTree]:
    """Return the project and its blocks on the run's branch."""
    return await ctx.services.projects.project(ctx.run.conversation_id, ctx.run.message_id)


async def run_tree(ctx: RunContext) -> BlockTree:
    """Return the blocks on the run's branch."""
    return await ctx.services.projects.tree(ctx.run.conversation_id, ctx.run.message_id)


async def run_resources(ctx: RunContext, resource_type: ResourceType[V]) -> tuple[V, ...]:
    """Return the project's resources of one type on the run's branch."""
    run = ctx.run
    return resource_values(
        await ctx.services.resources.list_resources(run.conversation_id, run.message_id, resource_type)
    )


async def run_skills(ctx: RunContext) -> tuple[Skill, ...]:
    """Return the project's skills, and those that were shared when the run started."""
    return merge_skills(await run_resources(ctx, SKILL_RESOURCE), ctx.run.settings.get(SKILLS_SETTING, {}))


async def find_skills(ctx: RunContext, *texts: str) -> tuple[Skill, ...]:
    """Return the skills that these texts refer to; `UsageError` for an unknown name."""
    return referenced_skills("\n".join(texts), await run_skills(ctx))


def job_authorship(ctx: RunContext, job_id: str, agent: str, reason: str) -> Authorship:
    """Return the author and the reason of the versions that a job writes."""
    run = ctx.run
    return Authorship(run.conversation_id, run.message_id, agent, run.run_id, job_id, ctx.clock.now(), reason)


def publish_versions(ctx: RunContext, job_id: str, agent: str, artifacts: Iterable[Artifact]) -> None:
    """Publish the versions that a job has written, in this order."""
    for artifact in artifacts:
        payload = {"job_id": job_id, "tool_call_id": job_id, **artifact.event_payload}
        ctx.event_writer.emit(StreamEventType.ARTIFACT_CHANGED, payload, agent=agent)


# --- dependencies ----------------------------------------------------------------------------------------------------


def find_text_block(tree: BlockTree, name: str) -> Block:
    """Find a block that has a text of its own; `UsageError` for a group and for an unknown or ambiguous name."""
    block = tree.find(name)
    if block.is_group:
        raise UsageError(f"{block.name!r} is a group and has no text of its own. Name one of the blocks in it.")
    return block


def check_ready(tree: BlockTree, block: Block) -> None:
    """Raise `UsageError` if a dependency is not yet written or reviewed."""
    if blockers := tree.blockers(block.block_id):
        listed = ", ".join(f"{b.name!r} ({'to be reviewed' if b.sha256 else 'empty'})" for b in blockers)
        raise UsageError(f"{block.name!r} depends on blocks that are not ready: {listed}. Write or review them first.")


async def wait_until_ready(ctx: RunContext, state: AgentState, key: str, name: str) -> BlockTree:
    """Wait for the parallel calls that write dependencies of a block, and return the blocks after that."""
    tree = await run_tree(ctx)
    needs = tree.dependencies(find_text_block(tree, name).block_id)
    has_waited = False
    for other in await parallel_calls(ctx, state) if needs else ():
        is_writing = other.call.name in {GENERATE_TOOL, MODIFY_TOOL, RESEARCH_TOOL} and other.tool_call_id != key
        if is_writing and target_id(tree, other) in needs:
            await ctx.jobs.wait_ended(other.tool_call_id)
            has_waited = True
    return await run_tree(ctx) if has_waited else tree


def target_id(tree: BlockTree, call: StoredCall) -> str:
    """Return the id of the text block that a call names; empty if it names none."""
    with suppress(UsageError):
        return find_text_block(tree, str(call.call.params.get("field_name", ""))).block_id
    return ""


async def parallel_calls(ctx: RunContext, state: AgentState) -> list[StoredCall]:
    """Return the calls of a reply that run in parallel now: all unfinished jobs before the first other call."""
    jobs = JOB_TOOLS.intersection(ctx.agent(state["current_agent"], state.get("tools", ())).tool_names)
    calls = await ctx.services.calls.calls_of_reply(state["agent_memory"]["call_id"])
    unfinished = (call for call in calls if call.status != FINISHED)
    return list(takewhile(lambda call: call.call.name in jobs and not call.call.error, unfinished))
