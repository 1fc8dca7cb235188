"""The tools that judge the texts of blocks: by each dimension a grader of its own, all at the same time.

::

    run_evaluation ──> evaluator ──> grade_field (a block, a dimension) ──> grader ──> grade
                                └──> grade_field ...

The first two are carried out by the flow. A grade is a typed value, whose evidence has to stand in the text.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.evaluations import HIGHEST, LOWEST, checked_quotes
from artifactflow_nb.projects import EVALUATE, GRADE_FIELD
from artifactflow_nb.store.block_jobs import BlockJobStore
from artifactflow_nb.tools.base import Tool, ToolContext, ToolPermission
from artifactflow_nb.tools.block_access import CATEGORY

GRADE = "grade"


class RunEvaluation(BaseModel):
    """The parameters of `run_evaluation`."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    target_fields: Annotated[list[str], Field(description="The blocks; a group stands for all texts in it.")]
    eval_dimensions: Annotated[list[str], Field(description="By what; all dimensions if left out.")] = Field(
        default_factory=list
    )
    persona: Annotated[str, Field(description="The persona from whose view it is judged, if it is from one.")] = ""


class GradeField(BaseModel):
    """The parameters of `grade_field`."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    field_name: Annotated[str, Field(description="The block.", min_length=1)]
    eval_dimension: Annotated[str, Field(description="By what.", min_length=1)]
    persona: Annotated[str, Field(description="From whose view.")] = ""


class Verdict(BaseModel):
    """The parameters of `grade`."""

    model_config = ConfigDict(extra="forbid")

    score: Annotated[int, Field(description="From 1 to 10.", ge=LOWEST, le=HIGHEST)]
    evidence: Annotated[
        list[str], Field(description="Passages as they stand in the text.", min_length=1, max_length=20)
    ]
    advice: Annotated[str, Field(description="What would make it better.", max_length=4_000)] = ""


run_evaluation = Tool(
    EVALUATE,
    "Have the texts of blocks judged: scores from 1 to 10 for each dimension, with passages of the text as evidence "
    "and advice. Use it when the person asks how good something is, or before a document is finished.",
    RunEvaluation,
    None,
    ToolPermission.AUTO,
    CATEGORY,
    idempotent=True,
)

grade_field = Tool(
    GRADE_FIELD,
    "Have the text of a block judged by one dimension.",
    GradeField,
    None,
    ToolPermission.AUTO,
    CATEGORY,
    idempotent=True,
)


async def _noted(ctx: ToolContext, score: int, evidence: list[str], advice: str) -> str:
    """Tell the grader whether its grade can be kept."""
    del score, advice
    job = await ctx.service(BlockJobStore).of_call(ctx.tool_call_id)
    if job is None:
        raise ToolError("There is no text to grade here.")
    try:
        checked_quotes(job.seen, evidence)
    except UsageError as error:
        raise ToolError(str(error)) from None
    return "Noted. Answer in a sentence; nothing else is needed."


give_grade = Tool(
    GRADE,
    "Give your grade, once: the score, the passages that show it, and what would make the text better.",
    Verdict,
    _noted,
    ToolPermission.AUTO,
    CATEGORY,
    idempotent=True,
    runs_in_replay=True,
)

EVALUATION_TOOLS = (run_evaluation, grade_field, give_grade)
