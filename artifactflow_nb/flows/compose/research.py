"""Research for a document: a call is a run of the research flow, whose report and sources become blocks."""

from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from typing import Annotated, Any, Literal

from pydantic import Field

from artifactflow_nb.core.document.edits import BlockPosition, NewBlock
from artifactflow_nb.core.document.project import GENERATE_TOOL, OUTLINE_TOOL, RESEARCH_TOOL
from artifactflow_nb.core.document.resources import PERSONA_RESOURCE
from artifactflow_nb.core.document.tree import Block, BlockTree
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.text.format import count
from artifactflow_nb.errors import Conflict, NotFound, ToolError, UsageError
from artifactflow_nb.flows.budget import remaining_for_subrun
from artifactflow_nb.flows.compose.access import (
    add_research_blocks,
    job_tool,
    overwrite_permission,
    research_phase,
    title_from_query,
)
from artifactflow_nb.flows.compose.agents import research_question
from artifactflow_nb.flows.compose.jobs import (
    check_ready,
    failed_result,
    find_text_block,
    job_authorship,
    parallel_calls,
    publish_versions,
    run_project,
    run_resources,
    run_tree,
    target_id,
    wait_until_ready,
)
from artifactflow_nb.flows.research import RESEARCH
from artifactflow_nb.flows.services import RunContext, begin_subrun, publish_subrun_start, wait_for_subrun
from artifactflow_nb.flows.state import AgentState
from artifactflow_nb.sources.citations import documents_read, write_sources
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.store.calls import StoredCall
from artifactflow_nb.store.runs import COMPLETED, StoredRun
from artifactflow_nb.tools.base import ToolParams

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
    """Carry out a call of `run_research`; after a crash its run is resumed.

    New blocks are added only when two things are settled, so that the outcome does not depend on timing: the prompts of
    parallel calls, which list all blocks, and the results of the parallel research calls that come first.
    """
    query: RunResearch = args
    tree, calls = await run_tree(ctx), await parallel_calls(ctx, state)
    researched = [target_id(tree, call) for call in calls if call.call.name == RESEARCH_TOOL]
    # Calls that depend on this reply's research start after it.
    later = {user.block_id for block_id in researched if block_id for user in tree.dependents(block_id)}
    prompted = [
        call.tool_call_id
        for call in calls
        if call.call.name in {GENERATE_TOOL, OUTLINE_TOOL, RESEARCH_TOOL} and target_id(tree, call) not in later
    ]
    try:
        run = await ctx.services.subruns.get_by_call(key)
        if run is None:
            info, tree = await run_project(ctx)
            needs = list[Block]()
            if query.field_name:
                tree = await wait_until_ready(ctx, state, key, query.field_name)
                block = find_text_block(tree, query.field_name)
                check_ready(tree, block)
                needs = [tree[need] for need in tree.dependencies(block.block_id) if need in tree]
                needs = [need for need in needs if need.writer != RESEARCH]
            personas = await run_resources(ctx, PERSONA_RESOURCE) if query.research_type == "consumer" else ()
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
    order = _research_order(await run_tree(ctx), await parallel_calls(ctx, state))
    for other in takewhile(lambda other: other != key, order):
        await ctx.jobs.wait_ended(other)
    for other in prompted:
        await ctx.jobs.wait_started(other)
    return await _write_report(ctx, key, query, run)


def _research_order(tree: BlockTree, calls: list[StoredCall]) -> list[str]:
    """Return the ids of the research calls in the reply's order, but each after those that its block depends on."""
    blocks = {call.tool_call_id: target_id(tree, call) for call in calls if call.call.name == RESEARCH_TOOL}
    users = {
        key: {user.block_id for user in tree.dependents(block)} if block else set() for key, block in blocks.items()
    }
    sorter = TopologicalSorter(
        {key: [other for other in blocks if block in users[other]] for key, block in blocks.items()}
    )
    try:
        return list(sorter.static_order())
    except CycleError:  # a concurrent edit may have created one
        return list(blocks)


async def _write_report(ctx: RunContext, key: str, args: RunResearch, run: StoredRun) -> ToolResult:
    """Write the run's report and sources as blocks, and return the start of the report."""
    report = run.response or ""
    if await ctx.services.artifacts.written_by_run(run.run_id, REPORT_ID):
        try:
            artifact = await ctx.services.artifacts.read(run.conversation_id, REPORT_ID, message_id=run.message_id)
            report = artifact.content
        except NotFound:  # deleted meanwhile
            pass
    documents = documents_read(await ctx.services.subruns.calls(run.run_id))
    info, tree = await run_project(ctx)
    reason = f"{RESEARCH_TOOL} ({args.research_type}), {run.run_id}: {args.query[:200]}"
    try:
        block_id = find_text_block(tree, args.field_name).block_id if args.field_name else ""
        if block_id and tree[block_id].writer == USER and not await ctx.services.approvals.decisions([key]):
            raise UsageError(f"The person wrote {tree[block_id].name!r} meanwhile. Their text stays.")
        name = title_from_query(ctx.services.redact(args.query))
        new = NewBlock(name, BlockPosition(research_phase(info)), {"prompt": args.query}, report)
        edit = partial(add_research_blocks, block_id=block_id, new=new, sources=write_sources(documents, report))
        written = await ctx.services.projects.change(job_authorship(ctx, key, RESEARCH, reason), edit)
    except (Conflict, UsageError) as error:
        return failed_result(f"{error} The report was:\n\n{report}", error)
    publish_versions(ctx, key, RESEARCH, reversed(written))  # the report last: a view opens the last version
    tree = await run_tree(ctx)
    block = tree[block_id or written[0].artifact_id]
    cut = "" if len(block.content) <= _EXCERPT_CHARS else "\n[... use read_field for the rest]"
    review = " The person has to review it." if block.status == "draft" else ""
    return ToolResult(
        success=True,
        data=f"The report is the block {tree.path(block.block_id)!r}; the block after it lists "
        f"{count(len(documents), 'source')}.{review} It says:\n\n{block.content[:_EXCERPT_CHARS]}{cut}",
        metadata={"run_id": run.run_id, "block_id": block.block_id, "research_type": args.research_type},
    )
