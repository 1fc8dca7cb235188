"""Evaluations: each block is graded by each dimension, every pair in a job of its own.

::

    run_evaluation ──> evaluator ──> grade_field (a block, a dimension) ──> grader ──> grade
                                └──> grade_field ...

The evaluator needs no language model; its calls run in parallel. A grade is stored as a version of an artifact, with
the version of the graded block. The evidence of a grade must be in the text.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from artifactflow_nb.agents.base import NextCalls
from artifactflow_nb.core.events import MAIN_JOB
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.text.format import clip, count
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.flows.approval import effective_params
from artifactflow_nb.flows.loop import last_call
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.state import AgentState
from artifactflow_nb.plugins.projects.access import CATEGORY, current_project, current_tree, job_tool
from artifactflow_nb.plugins.projects.agents import EVALUATOR, GRADER, grader_task
from artifactflow_nb.plugins.projects.grades import MAX_SCORE, MIN_SCORE, EvaluationTask, Grade, validate_quotes
from artifactflow_nb.plugins.projects.named_text_store import NamedTextStore
from artifactflow_nb.plugins.projects.named_texts import Dimension, Persona, merge_dimensions
from artifactflow_nb.plugins.projects.project import EVALUATE_TOOL, GRADE_FIELD_TOOL
from artifactflow_nb.plugins.projects.research import (
    Jobs,
    find_text_block,
    job_authorship,
    publish_versions,
    run_texts,
    start_block_job,
)
from artifactflow_nb.plugins.projects.store import BlockJob, BlockJobStore
from artifactflow_nb.store.calls import StoredCall
from artifactflow_nb.tools.base import Tool, ToolContext, ToolParams, ToolPermission

GRADE_TOOL = "grade"

MAX_GRADES = 200
"""Maximum number of pairs of a block and a dimension in one call."""

_SUMMARY_COLUMNS, _MIN_COLUMNS = 20_000, 100
"""Length of an evaluation's summary: in all, and at least for each grade. The store has the whole grades."""


class RunEvaluation(ToolParams):
    """Parameters of `run_evaluation`."""

    target_fields: Annotated[list[str], Field(description="The blocks; a group stands for all texts in it.")]
    eval_dimensions: Annotated[list[str], Field(description="The dimensions; default: all.")] = Field(
        default_factory=list
    )
    persona: Annotated[str, Field(description="The persona whose view to take, if any.")] = ""


class GradeField(ToolParams):
    """Parameters of `grade_field`."""

    field_name: Annotated[str, Field(description="The block.", min_length=1)]
    eval_dimension: Annotated[str, Field(description="The dimension.", min_length=1)]
    persona: Annotated[str, Field(description="The persona whose view to take.")] = ""


class GradeParams(BaseModel):
    """Parameters of `grade`."""

    model_config = ConfigDict(extra="forbid")

    score: Annotated[int, Field(description="From 1 to 10.", ge=MIN_SCORE, le=MAX_SCORE)]
    evidence: Annotated[list[str], Field(description="Verbatim passages of the text.", min_length=1, max_length=20)]
    advice: Annotated[str, Field(description="What would make the text better.", max_length=4_000)] = ""


run_evaluation = job_tool(
    EVALUATE_TOOL,
    "Have the texts of blocks graded: scores from 1 to 10 for each dimension, with passages of the text as evidence "
    "and advice. Use it when the person asks how good something is, or before a document is finished.",
    RunEvaluation,
)

grade_field = job_tool(GRADE_FIELD_TOOL, "Have the text of a block graded by one dimension.", GradeField)


async def _check_grade(ctx: ToolContext, score: int, evidence: list[str], advice: str) -> str:
    """Report to the grader whether the grade is valid; `finish_grading` stores the last valid grade."""
    del score, advice
    job = await ctx.service(BlockJobStore).get_by_call(ctx.tool_call_id)
    if job is None:
        raise ToolError(f"The call {ctx.tool_call_id} belongs to no evaluation. Only a block's grader can call this.")
    validate_quotes(job.original_text, evidence)
    return "The grade is stored. Answer in one sentence; nothing else is needed."


grade = Tool(
    GRADE_TOOL,
    "Give your grade, once: the score, the passages that justify it, and what would make the text better.",
    GradeParams,
    _check_grade,
    ToolPermission.AUTO,
    CATEGORY,
    idempotent=True,
    uses_store_only=True,
)


# --- the evaluator ---------------------------------------------------------------------------------------------------


async def load_evaluation_task(
    ctx: RunContext, blocks: Sequence[str], dimensions: Sequence[str], persona: str
) -> EvaluationTask:
    """Resolve the names in a call; errors as for `EvaluationTask.resolve`, and `UsageError` for too many grades."""
    criteria = merge_dimensions(await run_texts(ctx, Dimension)), await run_texts(ctx, Persona)
    task = EvaluationTask.resolve(await current_tree(ctx), blocks, dimensions, persona, criteria)
    if len(task.blocks) * len(task.dimensions) > MAX_GRADES:
        size = f"{count(len(task.blocks), 'block')} by {count(len(task.dimensions), 'dimension')}"
        raise UsageError(f"{size} need more than {MAX_GRADES} grades. Name fewer blocks, or fewer dimensions.")
    return task


async def start_evaluating(ctx: RunContext, _state: AgentState, key: str, args: RunEvaluation) -> BlockJob:
    """Store the job of a call of `run_evaluation`."""
    work = await load_evaluation_task(ctx, args.target_fields, args.eval_dimensions, args.persona)
    blocks = ", ".join(work.tree.path(block.block_id) for block in work.blocks)
    task = f"Have these blocks graded: {blocks}. Dimensions: {', '.join(d.name for d in work.dimensions)}."
    return await start_block_job(ctx, key, EVALUATOR.name, task)


async def finish_evaluating(ctx: RunContext, job: BlockJob, _args: RunEvaluation, text: str) -> ToolResult:
    """Return the evaluator's summary, or an error if no grade was stored."""
    if await last_call(ctx, job.job_id, GRADE_FIELD_TOOL) is None:
        return ToolResult(success=False, error=f"There is no grade.\n{text}", metadata={"agent": job.agent})
    return ToolResult(success=True, data=text, metadata={"agent": job.agent})


async def next_evaluator_calls(ctx: RunContext, job_id: str) -> NextCalls:
    """Compute the evaluator's next turn: a call for each pair, then the summary of the results."""
    turns = await ctx.transcript(job_id).read()
    calls = [call for turn in turns for call in turn.calls if call.result is not None]
    if calls:
        columns = max(_SUMMARY_COLUMNS // len(calls), _MIN_COLUMNS)
        return NextCalls(message="\n".join(f"- {clip(' '.join(_result_text(c).split()), columns)}" for c in calls))
    call, requests = await ctx.services.calls.call(job_id), await ctx.services.approvals.decisions([job_id])
    params = RunEvaluation.model_validate(run_evaluation.bind(effective_params(call, requests.get(job_id))))
    try:
        work = await load_evaluation_task(ctx, params.target_fields, params.eval_dimensions, params.persona)
    except UsageError as error:
        raise ToolError(str(error)) from None
    view = {"persona": work.persona.name} if work.persona is not None else {}
    pairs = [(work.tree.path(block.block_id), dimension.name) for block in work.blocks for dimension in work.dimensions]
    return NextCalls([(GRADE_FIELD_TOOL, {"field_name": path, "eval_dimension": name, **view}) for path, name in pairs])


async def next_evaluation_calls(ctx: RunContext, params: Mapping[str, Any]) -> NextCalls:
    """Compute the next turn of a run that only evaluates: the call of `run_evaluation`, then the result."""
    turns = await ctx.transcript(MAIN_JOB).read()
    calls = [call for turn in turns for call in turn.calls if call.result is not None]
    return NextCalls(message=_result_text(calls[-1])) if calls else NextCalls([(EVALUATE_TOOL, dict(params))])


def _result_text(call: StoredCall) -> str:
    if call.result is None:
        return ""
    return call.result.data if call.result.success else f"Not graded: {call.result.error}"


# --- the graders -----------------------------------------------------------------------------------------------------


async def start_grading(ctx: RunContext, _state: AgentState, key: str, args: GradeField) -> BlockJob:
    """Store the job of a call of `grade_field`."""
    info, tree = await current_project(ctx)
    block = find_text_block(tree, args.field_name)
    work = await load_evaluation_task(ctx, [args.field_name], [args.eval_dimension], args.persona)
    personas = await run_texts(ctx, Persona) if work.persona is None else (work.persona,)
    task = grader_task(info, tree, block, work.dimensions[0], personas, is_view=work.persona is not None)
    return await start_block_job(ctx, key, GRADER.name, task, block, tree.basis(block.block_id))


async def finish_grading(ctx: RunContext, job: BlockJob, args: GradeField, text: str) -> ToolResult:
    """Store the last valid grade of the job, with the version of the graded block; an error if there is none."""
    pair = f"{args.field_name}, {args.eval_dimension}"
    last = await last_call(ctx, job.job_id, GRADE_TOOL)
    if last is None:
        return ToolResult(success=False, error=f"{pair}: no grade. {text}")
    verdict = GradeParams.model_validate(grade.bind(last))
    versions = await ctx.services.artifacts.versions(ctx.run.conversation_id, job.block_id)
    stored = Grade(
        job.block_id,
        max(version.version for version in versions if version.content == job.original_text),
        args.eval_dimension,
        args.persona,
        verdict.score,
        validate_quotes(job.original_text, verdict.evidence),
        verdict.advice.strip(),
    )
    authorship = job_authorship(ctx, job.job_id, job.agent, EVALUATE_TOOL)
    written = await ctx.services.service(NamedTextStore).put(authorship, stored)
    publish_versions(ctx, job.job_id, job.agent, written)
    message = f"{pair}: {verdict.score} of 10. {verdict.advice}".rstrip()
    return ToolResult(success=True, data=message, metadata={"agent": job.agent, "block_id": job.block_id})


EVALUATION_JOBS: Jobs = {EVALUATE_TOOL: (start_evaluating, finish_evaluating)}
GRADING_JOBS: Jobs = {GRADE_FIELD_TOOL: (start_grading, finish_grading)}
