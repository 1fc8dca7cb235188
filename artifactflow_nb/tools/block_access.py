"""How the tools of the compose flow reach a project: what they find there, and how they change it."""

from collections.abc import Awaitable, Sequence
from typing import Annotated, TypeVar

from pydantic import BaseModel, StringConstraints

from artifactflow_nb.block_edits import BlockEdit
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.errors import Conflict, ToolError, UsageError
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.projects import ProjectHead
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import USER, Authorship
from artifactflow_nb.store.blocks import BlockStore
from artifactflow_nb.tools.base import ToolContext, ToolPermission
from artifactflow_nb.tools.block_research import grounded

T = TypeVar("T")

CATEGORY = "compose"

FieldName = Annotated[
    str,
    "The block's name, or its path (Report / Method) where a name stands twice.",
    StringConstraints(strip_whitespace=True, min_length=1),
]


async def project_of(ctx: ToolContext) -> tuple[ProjectHead, BlockTree]:
    """The project and its blocks as the run's branch has them."""
    return await ctx.service(BlockStore).project(ctx.conversation_id, ctx.message_id)


async def tree_of(ctx: ToolContext) -> BlockTree:
    """The blocks as the run's branch has them."""
    return await ctx.service(BlockStore).tree(ctx.conversation_id, ctx.message_id)


async def head_of(ctx: ToolContext) -> ProjectHead:
    """The project as the run's branch has it."""
    return await ctx.service(BlockStore).head(ctx.conversation_id, ctx.message_id)


def find(tree: BlockTree, name: str) -> Block:
    """The block that a model names; `ToolError` for none, and for more than one."""
    try:
        return tree.find(name)
    except UsageError as error:
        raise ToolError(str(error)) from None


def authorship(ctx: ToolContext, reason: str) -> Authorship:
    """Who writes in a call, and why."""
    call = ctx.tool_call_id
    return Authorship(ctx.conversation_id, ctx.message_id, ctx.agent, ctx.run_id, call, ctx.now, reason)


async def refusing(work: Awaitable[T]) -> T:
    """What comes of a change; what cannot be is told to the model."""
    try:
        return await work
    except (UsageError, Conflict) as error:
        raise ToolError(str(error)) from None


async def change(ctx: ToolContext, edit: BlockEdit, reason: str) -> list[Artifact]:
    """Make an edit; the versions that it wrote. `ToolError` for one that cannot be, or rests on nothing researched."""
    checked = grounded(edit, (await head_of(ctx)).research_phases)
    return await refusing(ctx.service(BlockStore).change(authorship(ctx, reason), checked))


def told(ctx: ToolContext, changed: Sequence[Artifact], done: str) -> ToolResult:
    """The result of a change, which those who watch are told of."""
    for artifact in changed:
        ctx.notify(StreamEventType.ARTIFACT_CHANGED, artifact.told)
    return ToolResult(success=True, data=done if changed else f"{done} It was so already.")


async def found(ctx: ToolContext, name: str) -> Block | None:
    """The block of a name; None for what the tool itself will refuse."""
    try:
        return (await tree_of(ctx)).find(name)
    except UsageError:
        return None


async def overwriting(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """A text that a person wrote is overwritten only if they agree."""
    block = await found(ctx, str(getattr(args, "field_name", "")))
    return ToolPermission.CONFIRM if block is not None and block.writer == USER else ToolPermission.AUTO
