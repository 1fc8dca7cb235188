"""The compose flow: one agent's loop over the blocks of a project.

::

    START -> composer --respond--> END
               |  generate_field_content      |  modify_field
               v                              v
             writer: its answer is         editor: proposes edits --> the person sees the diff --> written
             the block's text

`generate_outline` works like `modify_field`, with an outliner; `run_evaluation` is in `evaluation.py`. Each such call
is a job with a loop of its own, which sees the block and its dependencies. A text that somebody else changed during the
job is never overwritten.
"""

from functools import cache

from artifactflow_nb.core.document.project import (
    EVALUATE_TOOL,
    GENERATE_TOOL,
    GRADE_FIELD_TOOL,
    MODIFY_TOOL,
    OUTLINE_TOOL,
    RESEARCH_TOOL,
)
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.flows.compose.evaluation import (
    finish_evaluating,
    finish_grading,
    start_evaluating,
    start_grading,
)
from artifactflow_nb.flows.compose.jobs import FinishJob, block_job_delegate
from artifactflow_nb.flows.compose.outline import PROPOSE_OUTLINE_TOOL, start_outlining
from artifactflow_nb.flows.compose.research import run_research_call
from artifactflow_nb.flows.compose.texts import PROPOSE_EDITS_TOOL, finish_writing, start_editing, start_writing
from artifactflow_nb.flows.loop import LoopGraph, build_loop, job_loop, last_call
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.store.jobs import BlockJob


def finish_proposing(tool: str, failure: str) -> FinishJob:
    """Create the last step of a job that has to propose something with a tool; an error if no proposal was approved."""

    async def finish(ctx: RunContext, job: BlockJob, _args: object, text: str) -> ToolResult:
        if await last_call(ctx, job.job_id, tool) is None:
            return ToolResult(success=False, error=f"{failure} {job.agent} says: {text}")
        block = {"block_id": job.block_id} if job.block_id else {}
        return ToolResult(success=True, data=text, metadata={"agent": job.agent, **block})

    return finish


@cache
def compose_loop() -> LoopGraph:
    """The composer's loop. It is compiled once for all engines, because it has no state of its own."""
    loop = job_loop()
    grader_loop = build_loop({GRADE_FIELD_TOOL: block_job_delegate(loop, start_grading, finish_grading)}).compile()
    finish_editing = finish_proposing(PROPOSE_EDITS_TOOL, "Nothing was changed.")
    finish_outlining = finish_proposing(PROPOSE_OUTLINE_TOOL, "Nothing was added.")
    delegates = {
        GENERATE_TOOL: block_job_delegate(loop, start_writing, finish_writing),
        MODIFY_TOOL: block_job_delegate(loop, start_editing, finish_editing),
        OUTLINE_TOOL: block_job_delegate(loop, start_outlining, finish_outlining),
        RESEARCH_TOOL: run_research_call,
        EVALUATE_TOOL: block_job_delegate(grader_loop, start_evaluating, finish_evaluating),
    }
    return build_loop(delegates).compile()
