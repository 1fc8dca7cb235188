"""Evaluations in the compose flow: a call has blocks judged by dimensions, each pair in a job of its own.

An evaluator, for which no language model is used, makes a call for each pair; the jobs of these calls go on at the same
time. What a grader says is stored as a version of an artifact, with the version of the block that it judged.
"""

from artifactflow_nb.agents.composing import EVALUATOR, GRADER
from artifactflow_nb.errors import ToolError
from artifactflow_nb.evaluations import GRADES, Grade, checked_quotes
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.flows.block_job import block_job
from artifactflow_nb.flows.block_work import begin, personas_of, project_of, text_of
from artifactflow_nb.flows.compose_texts import task_of_grader
from artifactflow_nb.flows.grading import dimension_named, persona_named, work_of
from artifactflow_nb.flows.loop import Delegate, LoopGraph, last_call
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.state import AgentState
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.projects import EVALUATE, GRADE_FIELD
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.store.block_jobs import BlockJob
from artifactflow_nb.tools.evaluation import GRADE, GradeField, RunEvaluation, Verdict, give_grade


def to_evaluator(loop: LoopGraph) -> Delegate:
    """Has blocks judged; the loop is one whose calls are jobs of graders."""
    return block_job(loop, RunEvaluation, _begin_evaluating, _evaluated)


async def _begin_evaluating(ctx: RunContext, state: AgentState, key: str, args: RunEvaluation) -> BlockJob:
    del state
    work = await work_of(ctx, args)
    blocks = ", ".join(work.tree.path(block.block_id) for block in work.blocks)
    task = f"Have judged: {blocks}. By: {', '.join(one.name for one in work.dimensions)}."
    return await begin(ctx, key, EVALUATOR.name, task, None)


async def _evaluated(ctx: RunContext, job: BlockJob, args: RunEvaluation, text: str) -> ToolResult:
    """What came of all; an error if there is not one grade."""
    del args
    if await last_call(ctx, job.job_id, GRADE_FIELD) is None:
        return ToolResult(success=False, error=f"No grade was given.\n{text}", metadata={"agent": job.agent})
    return ToolResult(success=True, data=text, metadata={"agent": job.agent})


def to_grader(loop: LoopGraph) -> Delegate:
    """Has the text of a block judged by one dimension."""
    return block_job(loop, GradeField, _begin_grading, _graded)


async def _graded(ctx: RunContext, job: BlockJob, args: GradeField, text: str) -> ToolResult:
    """The last grade that was given in the job, stored; an error if there is none."""
    given = await last_call(ctx, job.job_id, GRADE)
    verdict = None if given is None else give_grade.bind(given)
    if not isinstance(verdict, Verdict):
        return ToolResult(success=False, error=f"{args.field_name}, {args.eval_dimension}: no grade. {text}")
    await _keep(ctx, job, args, verdict)
    said = f"{args.field_name}, {args.eval_dimension}: {verdict.score} of 10. {verdict.advice}".rstrip()
    return ToolResult(success=True, data=said, metadata={"agent": job.agent, "block_id": job.block_id})


async def _begin_grading(ctx: RunContext, state: AgentState, key: str, args: GradeField) -> BlockJob:
    del state
    head, tree = await project_of(ctx)
    block = text_of(tree, args.field_name)
    if not block.sha256:
        raise ToolError(f"{block.name!r} has no text to judge.")
    dimension, persona = await dimension_named(ctx, args.eval_dimension), await persona_named(ctx, args.persona)
    people = await personas_of(ctx) if persona is None else (persona,)
    task = task_of_grader(head, tree, block, dimension, people, is_view=persona is not None)
    return await begin(ctx, key, GRADER.name, task, (tree, block))


async def _keep(ctx: RunContext, job: BlockJob, args: GradeField, verdict: Verdict) -> None:
    """Store a grade, once for its job, with the version of the block that was judged."""
    run = ctx.run
    versions = await ctx.services.artifacts.versions(run.conversation_id, job.block_id)
    judged = max(version.version for version in versions if version.content == job.seen)
    grade = Grade(
        job.block_id,
        judged,
        args.eval_dimension,
        args.persona,
        verdict.score,
        checked_quotes(job.seen, verdict.evidence),
        verdict.advice.strip(),
    )
    at = ctx.tape.clock.now(job.job_id)
    by = Authorship(run.conversation_id, run.message_id, job.agent, run.run_id, job.job_id, at, EVALUATE)
    for artifact in await ctx.services.belongings.put(by, GRADES, grade):
        where = {"job_id": job.job_id, "tool_call_id": job.job_id}
        ctx.journal.emit(StreamEventType.ARTIFACT_CHANGED, {**where, **artifact.told}, agent=job.agent, lane=job.job_id)
