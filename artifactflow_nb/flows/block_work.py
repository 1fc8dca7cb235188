"""What the jobs of the compose flow have in common: how they find blocks, and are kept before they begin."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import takewhile

from artifactflow_nb.belongings import values
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.flows.services import RunContext, agent_of
from artifactflow_nb.flows.state import AgentState
from artifactflow_nb.personas import PERSONAS, Persona
from artifactflow_nb.projects import GENERATE, JOBS, MODIFY, RUN_RESEARCH, ProjectHead
from artifactflow_nb.skills import SETTING, SKILLS, Skill, known_skills, named_skills
from artifactflow_nb.store.block_jobs import BlockJob
from artifactflow_nb.store.calls import FINISHED, StoredCall


async def project_of(ctx: RunContext) -> tuple[ProjectHead, BlockTree]:
    """The project and its blocks as the run's branch has them."""
    return await ctx.services.blocks.project(ctx.run.conversation_id, ctx.run.message_id)


async def tree_of(ctx: RunContext) -> BlockTree:
    """The blocks as the run's branch has them."""
    return await ctx.services.blocks.tree(ctx.run.conversation_id, ctx.run.message_id)


async def head_of(ctx: RunContext) -> ProjectHead:
    """The project as the run's branch has it."""
    return await ctx.services.blocks.head(ctx.run.conversation_id, ctx.run.message_id)


async def personas_of(ctx: RunContext) -> tuple[Persona, ...]:
    """Those for whom it is written."""
    return values(await ctx.services.belongings.all(ctx.run.conversation_id, ctx.run.message_id, PERSONAS))


async def skills_of(ctx: RunContext) -> tuple[Skill, ...]:
    """The skills that can be used: the project's own, and those that were shared when the run was begun."""
    own = await ctx.services.belongings.all(ctx.run.conversation_id, ctx.run.message_id, SKILLS)
    return known_skills(values(own), ctx.run.settings.get(SETTING, {}))


async def skills_named(ctx: RunContext, *texts: str) -> tuple[Skill, ...]:
    """The skills that these texts name; `ToolError` for a name that none has."""
    try:
        return named_skills("\n".join(texts), await skills_of(ctx))
    except UsageError as error:
        raise ToolError(str(error)) from None


def found(tree: BlockTree, name: str) -> Block:
    """The block that a call names; `ToolError` for none, and for more than one."""
    try:
        return tree.find(name)
    except UsageError as error:
        raise ToolError(str(error)) from None


def text_of(tree: BlockTree, name: str) -> Block:
    """The same, of blocks that have a text of their own."""
    block = found(tree, name)
    if block.is_group:
        raise ToolError(f"{block.name!r} is a group and has no text of its own. Name one of the blocks in it.")
    return block


async def once_ready(ctx: RunContext, state: AgentState, key: str, name: str) -> BlockTree:
    """The blocks, once those calls have ended that write what this one rests on and are carried out beside it."""
    tree = await tree_of(ctx)
    needs = tree.rests_on(text_of(tree, name).block_id)
    waited_for = 0
    for other in await calls_beside(ctx, state) if needs else ():
        if other.call.name in {GENERATE, MODIFY, RUN_RESEARCH} and other.tool_call_id != key:
            with suppress(ToolError):  # which that call is told
                if text_of(tree, str(other.call.params.get("field_name", ""))).block_id in needs:
                    await ctx.beside.ended(other.tool_call_id)
                    waited_for += 1
    return await tree_of(ctx) if waited_for else tree


async def calls_beside(ctx: RunContext, state: AgentState) -> list[StoredCall]:
    """Those of a reply that are carried out now, beside each other: what comes behind another call waits for them."""
    jobs = JOBS.intersection(agent_of(ctx, state).tool_names)
    calls = await ctx.services.calls.calls_of(state["agent_memory"]["call_id"])
    left = (call for call in calls if call.status != FINISHED)
    return list(takewhile(lambda call: call.call.name in jobs and not call.call.error, left))


def check_ready(tree: BlockTree, block: Block) -> None:
    """`ToolError` for a block that rests on what is not written or reviewed yet."""
    if waits := tree.waits_for(block.block_id):
        listed = ", ".join(f"{one.name!r} ({'to be reviewed' if one.sha256 else 'empty'})" for one in waits)
        raise ToolError(f"{block.name!r} rests on what is not ready: {listed}. Have that written or reviewed first.")


async def begin(
    ctx: RunContext,
    key: str,
    agent: str,
    task: str,
    of: tuple[BlockTree, Block] | None,
    basis: Mapping[str, str] | None = None,
) -> BlockJob:
    """Keep a job before it begins: with a block of a tree, or with the whole document.

    The basis is what the agent sees of what the block rests on: all of it as it is now, if it is left out.
    """
    known = ("", "", {}) if of is None else (of[1].block_id, of[1].content, of[0].basis(of[1].block_id))
    block_id, seen, present = known
    job = BlockJob(key, ctx.run.run_id, block_id, agent, task, seen, present if basis is None else basis)
    await ctx.services.block_jobs.begin(job, ctx.tape.clock.now(key))
    return job
