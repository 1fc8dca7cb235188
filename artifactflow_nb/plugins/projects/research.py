"""Research for a document: a call is a run of the research flow, whose report and sources become blocks."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field

from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.text.format import count
from artifactflow_nb.errors import Conflict, NotFound, ToolError, UsageError, describe_error
from artifactflow_nb.flows.budget import remaining_for_subrun
from artifactflow_nb.flows.loop import Delegate, LoopGraph, last_call, run_job, start_of_job
from artifactflow_nb.flows.research import RESEARCH
from artifactflow_nb.flows.services import RunContext, begin_subrun, publish_subrun_start, wait_for_subrun
from artifactflow_nb.flows.state import AgentState
from artifactflow_nb.plugins.projects.access import (
    add_research_blocks,
    current_project,
    current_tree,
    job_tool,
    overwrite_permission,
    research_phase,
    title_from_query,
)
from artifactflow_nb.plugins.projects.agents import research_question
from artifactflow_nb.plugins.projects.edits import BlockPosition, NewBlock
from artifactflow_nb.plugins.projects.named_text_store import NamedTextStore
from artifactflow_nb.plugins.projects.named_texts import (
    SKILLS_SETTING,
    NamedText,
    Persona,
    Skill,
    merge_skills,
    referenced_skills,
)
from artifactflow_nb.plugins.projects.project import (
    GENERATE_TOOL,
    JOB_TOOLS,
    MODIFY_TOOL,
    OUTLINE_TOOL,
    RESEARCH_TOOL,
)
from artifactflow_nb.plugins.projects.store import BlockJob, BlockJobStore, ProjectStore
from artifactflow_nb.plugins.projects.tree import Block, BlockTree
from artifactflow_nb.sources.citations import documents_read, write_sources
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import USER, Authorship
from artifactflow_nb.store.calls import FINISHED, StoredCall
from artifactflow_nb.store.runs import COMPLETED, StoredRun
from artifactflow_nb.tools.base import ToolParams

T = TypeVar("T", bound=NamedText)

StartJob = Callable[[RunContext, AgentState, str, Any], Awaitable[BlockJob]]
"""Stores the job of a call. Arguments: the run, the state of the calling loop, the call's id and its parameters."""

FinishJob = Callable[[RunContext, BlockJob, Any, str], Awaitable[ToolResult]]
"""Makes the call's result. Arguments: the run, the job, the call's parameters and the agent's answer."""


Jobs = Mapping[str, tuple[StartJob, FinishJob]]
"""The first and the last step of the jobs of delegating tools, by the name of the tool."""


def block_job_delegate(loop: LoopGraph, start: StartJob, finish: FinishJob) -> Delegate:
    """Create the delegate of a tool whose calls are jobs of an agent; the delegate resumes a stored job."""

    async def delegate(ctx: RunContext, state: AgentState, key: str, args: BaseModel) -> ToolResult:
        try:
            job = await ctx.services.service(BlockJobStore).get(key) or await start(ctx, state, key, args)
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


def finish_proposing(tool: str, failure: str) -> FinishJob:
    """Create the last step of a job that proposes a change with a tool; without an approved proposal the step fails."""

    async def finish(ctx: RunContext, job: BlockJob, _args: object, text: str) -> ToolResult:
        if await last_call(ctx, job.job_id, tool) is None:
            return ToolResult(success=False, error=f"{failure} {job.agent} says: {text}")
        block = {"block_id": job.block_id} if job.block_id else {}
        return ToolResult(success=True, data=text, metadata={"agent": job.agent, **block})

    return finish


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

    `key` is the id of the call and of the job; without `block` the job is on the whole text. `basis` has the hashes
    of the dependencies that the agent sees.
    """
    block_id, text = ("", "") if block is None else (block.block_id, block.content)
    job = BlockJob(key, ctx.run.run_id, block_id, agent, instruction, text, basis)
    await ctx.services.service(BlockJobStore).create(job, ctx.clock.now())
    return job


# --- the project of a run --------------------------------------------------------------------------------------------


async def run_texts(ctx: RunContext, kind: type[T]) -> tuple[T, ...]:
    """Return the project's named texts of a kind on the run's branch."""
    return tuple(await ctx.services.service(NamedTextStore).texts(ctx.run.conversation_id, ctx.run.message_id, kind))


async def run_skills(ctx: RunContext) -> tuple[Skill, ...]:
    """Return the project's skills, and the skills that were shared when the run started."""
    return merge_skills(await run_texts(ctx, Skill), ctx.run.settings.get(SKILLS_SETTING, {}))


async def find_skills(ctx: RunContext, *texts: str) -> tuple[Skill, ...]:
    """Return the skills to which the texts refer; `UsageError` for an unknown name."""
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
        reasons = ", ".join(f"{b.name!r} ({'to be reviewed' if b.sha256 else 'empty'})" for b in blockers)
        raise UsageError(f"{block.name!r} depends on blocks that are not ready: {reasons}. Write or review them first.")


async def wait_until_ready(ctx: RunContext, state: AgentState, key: str, name: str) -> BlockTree:
    """Wait for the parallel calls that write dependencies of a block, then return the blocks."""
    tree = await current_tree(ctx)
    needs = tree.dependencies(find_text_block(tree, name).block_id)
    has_waited = False
    for other in await parallel_calls(ctx, state) if needs else ():
        is_writing = other.call.name in {GENERATE_TOOL, MODIFY_TOOL, RESEARCH_TOOL} and other.tool_call_id != key
        if is_writing and target_id(tree, other) in needs:
            await ctx.jobs.wait_ended(other.tool_call_id)
            has_waited = True
    return await current_tree(ctx) if has_waited else tree


def target_id(tree: BlockTree, call: StoredCall) -> str:
    """Return the id of the text block that a call names, or an empty string."""
    with suppress(UsageError):
        return find_text_block(tree, str(call.call.params.get("field_name", ""))).block_id
    return ""


async def parallel_calls(ctx: RunContext, state: AgentState) -> list[StoredCall]:
    """Return the calls of a reply that run in parallel now: all unfinished jobs before the first call without a job."""
    jobs = JOB_TOOLS.intersection(ctx.agent(state["current_agent"], state.get("tools", ())).tool_names)
    calls = await ctx.services.calls.calls_of_reply(state["agent_memory"]["call_id"])
    unfinished = (call for call in calls if call.status != FINISHED)
    return list(takewhile(lambda call: call.call.name in jobs and not call.call.error, unfinished))


REPORT_ID = "research_report"
"""Id of the artifact with a research run's report."""

_EXCERPT_CHARS = 1_500

ResearchType = Literal["consumer", "general"]


class RunResearch(ToolParams):
    """Parameters of `run_research`."""

    query: Annotated[str, Field(description="The question, in a self-contained sentence.", min_length=1)]
    research_type: Annotated[
        ResearchType, Field(description="`consumer`: about the intended readers; `general`: about anything else.")
    ] = "general"
    field_name: Annotated[str, Field(description="The block that gets the report; default: a new one.")] = ""


run_research = job_tool(
    RESEARCH_TOOL,
    "Have a question researched by a run of its own: its report and sources become blocks. Use it for every text in a "
    "research phase, and whenever you need a fact that no block contains; `consumer` for what the readers need, know "
    "and say, `general` for facts about the subject.",
    RunResearch,
    overwrite_permission,
)

RESEARCH_TOOLS = (run_research,)


async def run_research_call(ctx: RunContext, state: AgentState, key: str, args: Any) -> ToolResult:
    """Carry out a call of `run_research`; after a crash, resume the run of the call.

    The outcome must not depend on timing: a prompt lists all blocks, so new blocks are added only
    when the prompts of parallel calls are complete, and after the results of earlier parallel research calls.
    """
    query: RunResearch = args
    tree, calls = await current_tree(ctx), await parallel_calls(ctx, state)
    researched = [target_id(tree, call) for call in calls if call.call.name == RESEARCH_TOOL]
    # Calls that depend on the reply's research start after the research.
    later = {user.block_id for block_id in researched if block_id for user in tree.dependents(block_id)}
    prompted = [
        call.tool_call_id
        for call in calls
        if call.call.name in {GENERATE_TOOL, OUTLINE_TOOL, RESEARCH_TOOL} and target_id(tree, call) not in later
    ]
    try:
        run = await ctx.services.runs.subrun_of_call(key)
        if run is None:
            info, tree = await current_project(ctx)
            needs = list[Block]()
            if query.field_name:
                tree = await wait_until_ready(ctx, state, key, query.field_name)
                block = find_text_block(tree, query.field_name)
                check_ready(tree, block)
                needs = [tree[need] for need in tree.dependencies(block.block_id) if need in tree]
                needs = [need for need in needs if need.writer != RESEARCH]
            personas = await run_texts(ctx, Persona) if query.research_type == "consumer" else ()
            question = research_question(info, tree, query.query, query.research_type, personas, needs)
            run = await begin_subrun(ctx, key, question, RESEARCH, await remaining_for_subrun(ctx))
    except UsageError as error:
        raise ToolError(str(error)) from None
    ctx.jobs.mark_started(key)
    await publish_subrun_start(ctx, key, run)
    run = await wait_for_subrun(ctx, run)
    if run.status != COMPLETED:
        reason = f": {run.error_message}" if run.error_message else ""
        return ToolResult(
            success=False,
            error=f"The research run {run.run_id} is {run.status}{reason}. Nothing was written.",
            metadata={"run_id": run.run_id, "error_type": run.error_type or "RunCancelled"},
        )
    order = _research_order(await current_tree(ctx), await parallel_calls(ctx, state))
    for other in takewhile(lambda other: other != key, order):
        await ctx.jobs.wait_ended(other)
    for other in prompted:
        await ctx.jobs.wait_started(other)
    return await _write_report(ctx, key, query, run)


def _research_order(tree: BlockTree, calls: list[StoredCall]) -> list[str]:
    """Return the ids of research calls in the reply's order, but each call after the research of its dependencies."""
    blocks = {call.tool_call_id: target_id(tree, call) for call in calls if call.call.name == RESEARCH_TOOL}
    users = {
        key: {user.block_id for user in tree.dependents(block)} if block else set() for key, block in blocks.items()
    }
    sorter = TopologicalSorter(
        {key: [other for other in blocks if block in users[other]] for key, block in blocks.items()}
    )
    try:
        return list(sorter.static_order())
    except CycleError:  # a concurrent edit may have created a cycle
        return list(blocks)


async def _write_report(ctx: RunContext, key: str, args: RunResearch, run: StoredRun) -> ToolResult:
    """Write the run's report and sources as blocks, and return the start of the report."""
    report = run.response or ""
    if await ctx.services.artifacts.written_by_run(run.run_id, REPORT_ID):
        try:
            artifact = await ctx.services.artifacts.read(run.conversation_id, REPORT_ID, message_id=run.message_id)
            report = artifact.content
        except NotFound:  # the block was deleted meanwhile
            pass
    documents = documents_read(await ctx.services.calls.finished_rows(run.run_id))
    info, tree = await current_project(ctx)
    reason = f"{RESEARCH_TOOL} ({args.research_type}), {run.run_id}: {args.query[:200]}"
    try:
        block_id = find_text_block(tree, args.field_name).block_id if args.field_name else ""
        if block_id and tree[block_id].writer == USER and not await ctx.services.approvals.decisions([key]):
            raise UsageError(f"The person wrote {tree[block_id].name!r} meanwhile. Their text stays.")
        name = title_from_query(ctx.services.secrets.redact(args.query))
        new = NewBlock(name, BlockPosition(research_phase(info)), {"prompt": args.query}, report)
        edit = partial(add_research_blocks, block_id=block_id, new=new, sources=write_sources(documents, report))
        written = await ctx.services.service(ProjectStore).change(job_authorship(ctx, key, RESEARCH, reason), edit)
    except (Conflict, UsageError) as error:
        return failed_result(f"{error} The report was:\n\n{report}", error)
    publish_versions(ctx, key, RESEARCH, reversed(written))  # the report last: a view opens the last version
    tree = await current_tree(ctx)
    block = tree[block_id or written[0].artifact_id]
    cut = "" if len(block.content) <= _EXCERPT_CHARS else "\n[... use read_field for the rest]"
    review = " The person has to review it." if block.status == "draft" else ""
    return ToolResult(
        success=True,
        data=f"The report is the block {tree.path(block.block_id)!r}; the block after it lists "
        f"{count(len(documents), 'source')}.{review} It says:\n\n{block.content[:_EXCERPT_CHARS]}{cut}",
        metadata={"run_id": run.run_id, "block_id": block.block_id, "research_type": args.research_type},
    )
