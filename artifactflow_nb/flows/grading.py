"""What an evaluation is to judge, and by what; and what the agents that see to it are to do next."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from artifactflow_nb.agents.base import Due
from artifactflow_nb.belongings import Named, named_value, values
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.evaluations import DIMENSIONS, Dimension, known_dimensions
from artifactflow_nb.events import MAIN_JOB
from artifactflow_nb.flows.block_work import found, personas_of, tree_of
from artifactflow_nb.flows.permission import params_of
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.personas import PERSONAS, Persona
from artifactflow_nb.projects import EVALUATE, GRADE_FIELD
from artifactflow_nb.store.calls import StoredCall
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.width import clip
from artifactflow_nb.tools.evaluation import RunEvaluation, run_evaluation

V = TypeVar("V", bound=Named)

MOST_GRADES = 200
"""How many pairs of a block and a dimension one call may have judged."""

_TOLD_COLUMNS, _LEAST_COLUMNS = 20_000, 100
"""How long what came of an evaluation may be in all, and at least of each grade; all of it is in the store."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be judged, by what, from whose view."""

    tree: BlockTree
    blocks: tuple[Block, ...]
    dimensions: tuple[Dimension, ...]
    persona: Persona | None


async def work_of(ctx: RunContext, args: RunEvaluation) -> Work:
    """What a call asks for; `ToolError` for what there is not, or is too much."""
    tree = await tree_of(ctx)
    named_blocks = [found(tree, name) for name in args.target_fields]
    keys = dict.fromkeys(key for block in named_blocks for key in tree.texts_in(block.block_id))
    blocks = tuple(tree[key] for key in keys)
    if empty := [block.name for block in blocks if not block.sha256]:
        raise ToolError(f"There is no text to judge yet: {', '.join(empty)}. Have that written first.")
    if not blocks:
        raise ToolError("Name at least one block that has a text.")
    wanted = args.eval_dimensions or [one.name for one in await dimensions_of(ctx)]
    dimensions = {one.name: one for one in [await dimension_named(ctx, name) for name in wanted]}
    if len(blocks) * len(dimensions) > MOST_GRADES:
        size = f"{count(len(blocks), 'block')} by {count(len(dimensions), 'dimension')}"
        raise ToolError(f"{size} are more than {MOST_GRADES} grades. Name fewer blocks, or fewer dimensions.")
    return Work(tree, blocks, tuple(dimensions.values()), await persona_named(ctx, args.persona))


async def dimensions_of(ctx: RunContext) -> tuple[Dimension, ...]:
    """By what blocks can be judged: the packaged dimensions, and the project's own."""
    own = await ctx.services.belongings.all(ctx.run.conversation_id, ctx.run.message_id, DIMENSIONS)
    return known_dimensions(values(own))


async def dimension_named(ctx: RunContext, name: str) -> Dimension:
    """The dimension of a name; `ToolError` for none."""
    return _named(await dimensions_of(ctx), name, DIMENSIONS.noun)


async def persona_named(ctx: RunContext, name: str) -> Persona | None:
    """The persona of a name, None for an empty one; `ToolError` for a name that nobody has."""
    if not name:
        return None
    return _named(await personas_of(ctx), name, PERSONAS.noun)


def _named(known: Iterable[V], name: str, noun: str) -> V:
    try:
        return named_value(known, name, noun)
    except UsageError as error:
        raise ToolError(str(error)) from None


async def due_of_evaluator(ctx: RunContext, job_id: str) -> Due:
    """What an evaluator is to do now in its job: have each pair judged, or say what came of all."""
    turns = await ctx.services.calls.transcript(ctx.run.run_id, job_id)
    calls = [call for turn in turns for call in turn.calls if call.result is not None]
    if calls:
        columns = max(_TOLD_COLUMNS // len(calls), _LEAST_COLUMNS)
        return Due(words="\n".join(f"- {clip(' '.join(_come_of(call).split()), columns)}" for call in calls))
    asking, asked = await ctx.services.calls.call(job_id), await ctx.services.requests.decisions([job_id])
    args = run_evaluation.bind(params_of(asking, asked.get(job_id)))
    if not isinstance(args, RunEvaluation):
        raise ToolError("This call judges nothing.")
    work = await work_of(ctx, args)
    view = {"persona": work.persona.name} if work.persona is not None else {}
    pairs = [(work.tree.path(block.block_id), one.name) for block in work.blocks for one in work.dimensions]
    return Due([(GRADE_FIELD, {"field_name": path, "eval_dimension": by, **view}) for path, by in pairs])


async def due_of_evaluation(ctx: RunContext, params: Mapping[str, Any]) -> Due:
    """What is to be done now in a run that has blocks judged: the one call that does it, or what came of it."""
    turns = await ctx.services.calls.transcript(ctx.run.run_id, MAIN_JOB)
    calls = [call for turn in turns for call in turn.calls if call.result is not None]
    return Due(words=_come_of(calls[-1])) if calls else Due([(EVALUATE, dict(params))])


def _come_of(call: StoredCall) -> str:
    if call.result is None:
        return ""
    return call.result.data if call.result.success else f"Not judged: {call.result.error}"
