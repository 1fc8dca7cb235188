"""The compose flow: one agent's loop over the blocks of a project.

::

    START -> composer --respond--> END
               |  generate_field_content      |  modify_field
               v                              v
             writer: its answer is         editor: proposes edits --> the person sees the diff --> written
             the block's text

`generate_outline` has a structure proposed by an outliner in the same way as edits; `run_evaluation` stands in
`evaluate.py`. Each is a job with a loop of its own, which sees the block and what it needs of others. A text that was
changed by somebody else while the job went on is never overwritten.
"""

from functools import cache, partial
from typing import TYPE_CHECKING

from artifactflow_nb import block_edits
from artifactflow_nb.agents.composing import EDITOR, GENERATOR, OUTLINER, WRITER
from artifactflow_nb.errors import Conflict, ToolError, UsageError
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.flows.block_job import block_job, failed
from artifactflow_nb.flows.block_work import (
    begin,
    check_ready,
    found,
    head_of,
    once_ready,
    personas_of,
    project_of,
    skills_named,
    text_of,
    tree_of,
)
from artifactflow_nb.flows.compose_research import to_research
from artifactflow_nb.flows.compose_texts import task_of_editor, task_of_outliner, task_of_writer
from artifactflow_nb.flows.evaluate import to_evaluator, to_grader
from artifactflow_nb.flows.loop import LoopFlow, LoopGraph, build_loop, job_loop, last_call
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.state import AgentState
from artifactflow_nb.flows.with_saver import with_saver
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.projects import EVALUATE, GENERATE, GRADE_FIELD, MODIFY, OUTLINE, RUN_RESEARCH, WORK
from artifactflow_nb.store.artifacts import USER, Authorship
from artifactflow_nb.store.block_jobs import BlockJob
from artifactflow_nb.store.block_rows import block_of_version
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.tools.block_research import grounded
from artifactflow_nb.tools.block_texts import PROPOSE, GenerateField, ModifyField
from artifactflow_nb.tools.outline import PROPOSE_OUTLINE, GenerateOutline

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver


async def _begin_writing(ctx: RunContext, state: AgentState, key: str, args: GenerateField) -> BlockJob:
    tree = await once_ready(ctx, state, key, args.field_name)
    block = text_of(tree, args.field_name)
    if block.writer == USER and not await ctx.services.requests.decisions([key]):
        raise ToolError(
            f"{block.name!r} was written by the person meanwhile, and stays as it is unless they want it anew."
        )
    check_ready(tree, block)
    skills = await skills_named(ctx, block.prompt, args.style_hint)
    task = task_of_writer(await head_of(ctx), tree, block, args.style_hint, await personas_of(ctx), skills)
    return await begin(ctx, key, WRITER.name, task, (tree, block))


async def _written(ctx: RunContext, job: BlockJob, args: GenerateField, text: str) -> ToolResult:
    """Store what was written, unless the text is another by now than the one that the writer saw."""
    del args
    edit = partial(
        block_edits.written,
        block_id=job.block_id,
        text=text,
        writer=job.agent,
        basis=job.basis,
        expected=job.seen,
        is_finished=True,
    )
    run = ctx.run
    at, why = ctx.tape.clock.now(job.job_id), f"{GENERATE} for: {run.question[:200]}"
    by = Authorship(run.conversation_id, run.message_id, job.agent, run.run_id, job.job_id, at, why)
    try:
        head = await head_of(ctx)
        written = await ctx.services.blocks.change(by, grounded(edit, head.research_phases))
    except (Conflict, UsageError) as error:
        return failed(f"{error} What was written instead:\n\n{text}", error)
    for artifact in written:
        where = {"job_id": job.job_id, "tool_call_id": job.job_id}
        ctx.journal.emit(StreamEventType.ARTIFACT_CHANGED, {**where, **artifact.told}, agent=job.agent, lane=job.job_id)
    # without a version it says the same as before
    block = block_of_version(written[0]) if written else (await tree_of(ctx))[job.block_id]
    waits = " The person has to review it." if block.status == "draft" else ""
    said = f"{block.name!r} is written ({len(block.content)} characters).{waits}"
    return ToolResult(success=True, data=said, metadata={"agent": job.agent, "block_id": block.block_id})


async def _begin_editing(ctx: RunContext, state: AgentState, key: str, args: ModifyField) -> BlockJob:
    del state
    tree = await tree_of(ctx)
    block = text_of(tree, args.field_name)
    if not block.sha256:
        raise ToolError(f"{block.name!r} has no text yet. Have it written with {GENERATE}.")
    others = [found(tree, name) for name in args.reference_fields]
    texts = [tree[one] for other in others for one in tree.texts_in(other.block_id)]
    skills = await skills_named(ctx, args.modification_instruction)
    task = task_of_editor(tree, block, args.modification_instruction, texts, skills)
    shown = tree.basis(block.block_id).items() & {one.block_id: one.sha256 for one in texts}.items()
    return await begin(ctx, key, EDITOR.name, task, (tree, block), {**block.basis, **dict(shown)})


async def _begin_outlining(ctx: RunContext, state: AgentState, key: str, args: GenerateOutline) -> BlockJob:
    del state
    (head, tree), personas = await project_of(ctx), await personas_of(ctx)
    skills = await skills_named(ctx, args.style, args.additional_instructions)
    task = task_of_outliner(head, tree, args.style, args.additional_instructions, personas, skills)
    return await begin(ctx, key, OUTLINER.name, task, None)


async def _edited(ctx: RunContext, job: BlockJob, args: ModifyField, text: str) -> ToolResult:
    del args
    return await _if_agreed(ctx, job, PROPOSE, f"Nothing was changed. {job.agent} says: {text}", text)


async def _outlined(ctx: RunContext, job: BlockJob, args: GenerateOutline, text: str) -> ToolResult:
    del args
    return await _if_agreed(ctx, job, PROPOSE_OUTLINE, f"Nothing was added. {job.agent} says: {text}", text)


async def _if_agreed(ctx: RunContext, job: BlockJob, tool: str, otherwise: str, text: str) -> ToolResult:
    """What comes of a job that had to propose something: whether a proposal was agreed to and is written."""
    if await last_call(ctx, job.job_id, tool) is None:
        return ToolResult(success=False, error=otherwise)
    about = {"block_id": job.block_id} if job.block_id else {}
    return ToolResult(success=True, data=text, metadata={"agent": job.agent, **about})


class ComposeFlow(LoopFlow):
    """The flow, in which a run that writes blocks in their order is led by the agent that sees to that."""

    def leader(self, run: StoredRun) -> str:
        """Whose loop is the main one."""
        return GENERATOR.name if WORK in run.settings else self.agent


@cache
def _compose_loop() -> LoopGraph:
    """The loop of the agent that composes, compiled: it keeps nothing, so one does for all engines."""
    loop = job_loop()
    delegates = {
        GENERATE: block_job(loop, GenerateField, _begin_writing, _written),
        MODIFY: block_job(loop, ModifyField, _begin_editing, _edited),
        OUTLINE: block_job(loop, GenerateOutline, _begin_outlining, _outlined),
        RUN_RESEARCH: to_research,
        EVALUATE: to_evaluator(build_loop({GRADE_FIELD: to_grader(loop)}).compile()),
    }
    return build_loop(delegates).compile()


def compile_compose(checkpointer: "BaseCheckpointSaver[str]") -> LoopGraph:
    """The flow, ready to run, with these checkpoints."""
    return with_saver(_compose_loop(), checkpointer)
