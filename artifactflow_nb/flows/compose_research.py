"""Research in the compose flow: a call is a run of the research flow, whose report and sources become blocks."""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from itertools import takewhile

from pydantic import BaseModel

from artifactflow_nb.block_edits import NewBlock, Place
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.errors import Conflict, NotFound, ToolError, UsageError
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.flows.block_job import failed
from artifactflow_nb.flows.block_work import (
    calls_beside,
    check_ready,
    head_of,
    once_ready,
    personas_of,
    text_of,
    tree_of,
)
from artifactflow_nb.flows.compose_texts import question_of_research
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.spending import left_for_begun
from artifactflow_nb.flows.state import RESEARCH, AgentState
from artifactflow_nb.flows.subruns import begin_subrun, tell_begun, until_over
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.projects import GENERATE, OUTLINE, RUN_RESEARCH
from artifactflow_nb.recordings.rows import documents_read
from artifactflow_nb.store.artifacts import USER, Authorship
from artifactflow_nb.store.calls import StoredCall
from artifactflow_nb.store.runs import COMPLETED, StoredRun
from artifactflow_nb.text.citations import Document
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.source_list import write_sources
from artifactflow_nb.tools.block_research import phase_of, researched, title_of
from artifactflow_nb.tools.research import RunResearch

REPORT = "research_report"
"""The artifact in which a research run leaves its report."""

_FIRST_CHARS = 1_500


async def to_research(ctx: RunContext, state: AgentState, key: str, args: BaseModel) -> ToolResult:
    """Carry out a call of `run_research`; the run that was begun before a crash is gone on with."""
    if not isinstance(args, RunResearch):
        raise ToolError("These are no parameters of a research run.")
    beside = await _told_of_blocks(ctx, state)
    run = await ctx.services.subruns.of_call(key) or await _begun(ctx, state, key, args)
    ctx.beside.begun(key)
    await tell_begun(ctx, key, run)
    run = await until_over(ctx, run, key)
    if run.status != COMPLETED:
        why = f": {run.error_message}" if run.error_message else ""
        return ToolResult(
            success=False,
            error=f"The research run {run.run_id} is {run.status}{why}. Nothing was written.",
            metadata={"run_id": run.run_id, "error_type": run.error_type or "RunCancelled"},
        )
    await _after_others(ctx, state, key)
    for other in beside:
        await ctx.beside.until_begun(other)
    return await _kept(ctx, key, args, run)


async def _told_of_blocks(ctx: RunContext, state: AgentState) -> list[str]:
    """The calls beside this whose agents are told which blocks there are: all of them before research adds to these.

    Else it would be a matter of time what they are told. Those that rest on the research of this reply wait for that.
    """
    tree, calls = await tree_of(ctx), await calls_beside(ctx, state)
    researched = [_block_of(tree, call) for call in calls if call.call.name == RUN_RESEARCH]
    waiting = set().union(*(_users(tree, block_id) for block_id in researched))
    told = [call for call in calls if call.call.name in {GENERATE, OUTLINE, RUN_RESEARCH}]
    return [call.tool_call_id for call in told if _block_of(tree, call) not in waiting]


async def _after_others(ctx: RunContext, state: AgentState, key: str) -> None:
    """Wait for the research beside this that comes before it: so new blocks always stand in the same order."""
    research = _in_turn(await tree_of(ctx), await calls_beside(ctx, state))
    for other in takewhile(lambda call: call.tool_call_id != key, research):
        await ctx.beside.ended(other.tool_call_id)


def _in_turn(tree: BlockTree, calls: Iterable[StoredCall]) -> list[StoredCall]:
    """Calls of research as they were asked for, but each after those for blocks that its own rests on."""
    asked = [call for call in calls if call.call.name == RUN_RESEARCH]
    into = {call.tool_call_id: _block_of(tree, call) for call in asked}
    users = {key: _users(tree, block_id) for key, block_id in into.items()}
    left, order = list(asked), list[StoredCall]()
    while left:
        waits = set().union(*(users[call.tool_call_id] for call in left))
        free = (call for call in left if into[call.tool_call_id] not in waits)
        order.append(next(free, left[0]))  # in a circle, which an edit may make at this moment, as they were asked for
        left.remove(order[-1])
    return order


def _block_of(tree: BlockTree, call: StoredCall) -> str:
    """The id of the block that a call names; empty for none."""
    with suppress(ToolError):
        return text_of(tree, str(call.call.params.get("field_name", ""))).block_id
    return ""


def _users(tree: BlockTree, block_id: str) -> set[str]:
    return {block.block_id for block in tree.dependents(block_id)} if block_id else set()


async def _begun(ctx: RunContext, state: AgentState, key: str, args: RunResearch) -> StoredRun:
    tree, rests_on = await tree_of(ctx), list[Block]()
    if args.field_name:
        tree = await once_ready(ctx, state, key, args.field_name)
        block = text_of(tree, args.field_name)
        check_ready(tree, block)
        needs = (tree[need] for need in tree.rests_on(block.block_id) if need in tree)
        rests_on = [need for need in needs if need.writer != RESEARCH]
    people = await personas_of(ctx) if args.research_type == "consumer" else ()
    question = question_of_research(await head_of(ctx), tree, args.query, args.research_type, people, rests_on)
    return await begin_subrun(ctx, key, question, RESEARCH, await left_for_begun(ctx))


async def _kept(ctx: RunContext, key: str, args: RunResearch, run: StoredRun) -> ToolResult:
    """The report and the sources of a run as blocks; who asked for it is told how the report begins."""
    report, documents = await _report(ctx, run), await _read(ctx, run)
    head, tree = await head_of(ctx), await tree_of(ctx)
    at, why = ctx.tape.clock.now(key), f"{RUN_RESEARCH} ({args.research_type}), {run.run_id}: {args.query[:200]}"
    by = Authorship(ctx.run.conversation_id, ctx.run.message_id, RESEARCH, ctx.run.run_id, key, at, why)
    try:
        into = text_of(tree, args.field_name).block_id if args.field_name else ""
        if into and tree[into].writer == USER and not await ctx.services.requests.decisions([key]):
            raise ToolError(f"{tree[into].name!r} was written by the person meanwhile, and stays as it is.")
        new = NewBlock(title_of(ctx.services.mask(args.query)), Place(phase_of(head)), {"prompt": args.query}, report)
        edit = partial(researched, block_id=into, new=new, sources=write_sources(documents, report))
        written = await ctx.services.blocks.change(by, edit)
    except (Conflict, UsageError, ToolError) as error:
        return failed(f"{error} What was found:\n\n{report}", error)
    for artifact in reversed(written):  # the report last: a view opens what was written last
        where = {"job_id": key, "tool_call_id": key}
        ctx.journal.emit(StreamEventType.ARTIFACT_CHANGED, {**where, **artifact.told}, agent=RESEARCH, lane=key)
    tree = await tree_of(ctx)
    block = tree[into or written[0].artifact_id]
    return ToolResult(
        success=True,
        data=_told(block, tree.path(block.block_id), len(documents)),
        metadata={"run_id": run.run_id, "block_id": block.block_id, "research_type": args.research_type},
    )


def _told(block: Block, path: str, n_sources: int) -> str:
    cut = "" if len(block.content) <= _FIRST_CHARS else "\n[... use read_field for the rest]"
    waits = " The person has to review it." if block.status == "draft" else ""
    return (
        f"The report is the block {path!r}; {count(n_sources, 'source')} read for it stand beside it.{waits} "
        f"It says:\n\n{block.content[:_FIRST_CHARS]}{cut}"
    )


async def _report(ctx: RunContext, run: StoredRun) -> str:
    """What a run found: its report if it wrote one, else its answer."""
    with_report = await ctx.services.artifacts.written_by_run(run.run_id, REPORT)
    try:
        artifact = await ctx.services.artifacts.read(run.conversation_id, REPORT, message_id=run.message_id)
    except NotFound:
        return run.response or ""
    return artifact.content if with_report else run.response or ""


async def _read(ctx: RunContext, run: StoredRun) -> list[Document]:
    """The sources that were read in a run."""
    return documents_read(map(dict, await ctx.services.subruns.calls(run.run_id)))
