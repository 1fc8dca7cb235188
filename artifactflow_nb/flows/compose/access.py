"""Access of the compose tools to the project of their run."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Annotated

from pydantic import BaseModel, StringConstraints

from artifactflow_nb.core.document.edits import BlockEdit
from artifactflow_nb.core.document.project import ProjectInfo
from artifactflow_nb.core.document.tree import BlockTree
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.flows.compose.research_blocks import require_grounding
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.store.documents import ProjectStore
from artifactflow_nb.tools.artifacts import call_authorship
from artifactflow_nb.tools.base import (
    MAX_RESULT_CHARS,
    Handler,
    PermissionRule,
    Tool,
    ToolContext,
    ToolParams,
    ToolPermission,
    tool,
)

CATEGORY = "compose"

FieldName = Annotated[
    str,
    "The block's name, or its path (Report / Method) if several blocks have that name.",
    StringConstraints(strip_whitespace=True, min_length=1),
]

AsyncPreview = Callable[[ToolContext, BaseModel], Awaitable[str]]


async def current_project(ctx: ToolContext) -> tuple[ProjectInfo, BlockTree]:
    """Return the project and its blocks on the run's branch."""
    return await ctx.service(ProjectStore).project(ctx.conversation_id, ctx.message_id)


async def current_tree(ctx: ToolContext) -> BlockTree:
    """Return the blocks on the run's branch."""
    return await ctx.service(ProjectStore).tree(ctx.conversation_id, ctx.message_id)


async def change_blocks(ctx: ToolContext, edit: BlockEdit, reason: str, message: str) -> ToolResult:
    """Apply an edit of the calling agent; `message` is the result if it succeeds.

    Errors: `UsageError` for an invalid edit, and for a text in a research phase that is not based on research.
    """
    projects = ctx.service(ProjectStore)
    info = await projects.info(ctx.conversation_id, ctx.message_id)
    checked = require_grounding(edit, info.research_phases)
    return change_result(ctx, await projects.change(call_authorship(ctx, reason), checked), message)


def change_result(ctx: ToolContext, changed: Sequence[Artifact], message: str) -> ToolResult:
    """Publish the versions that a call has written, and return its result."""
    for artifact in changed:
        ctx.notify(StreamEventType.ARTIFACT_CHANGED, artifact.event_payload)
    return ToolResult(success=True, data=message if changed else f"{message} It was so already.")


def valid_call_preview(render: AsyncPreview) -> AsyncPreview:
    """Decorate a preview so that it is empty for a call that the tool itself will refuse."""

    async def preview(ctx: ToolContext, args: BaseModel) -> str:
        try:
            return await render(ctx, args)
        except (UsageError, ToolError):
            return ""

    return preview


def confirm_if_previewed(preview: AsyncPreview) -> PermissionRule:
    """Create a permission rule: the person is asked about calls that have a preview, and never about invalid calls."""

    async def permission(ctx: ToolContext, args: BaseModel) -> ToolPermission:
        return ToolPermission.CONFIRM if await preview(ctx, args) else ToolPermission.AUTO

    return permission


def project_tool(
    permission: ToolPermission | PermissionRule | None = None,
    *,
    name: str | None = None,
    preview: AsyncPreview | None = None,
    max_result_chars: int = MAX_RESULT_CHARS,
) -> Callable[[Handler], Tool]:
    """Decorate a tool that reads or changes the stored project only; see `tool`.

    Args:
        permission: The permission; by default the person is asked about calls that have a preview.
        name: The name of the tool; by default that of the function.
        preview: Shows what a call changes.
        max_result_chars: Length of a result in the prompt.
    """
    if permission is None:
        permission = ToolPermission.AUTO if preview is None else confirm_if_previewed(preview)
    return tool(
        name=name,
        permission=permission,
        category=CATEGORY,
        idempotent=True,
        max_result_chars=max_result_chars,
        preview=preview,
        uses_store_only=True,
    )


def job_tool(
    name: str,
    description: str,
    params: type[ToolParams],
    permission: ToolPermission | PermissionRule = ToolPermission.AUTO,
) -> Tool:
    """Create a tool that the flow carries out by a job of another agent."""
    return Tool(name, description, params, None, permission, CATEGORY, idempotent=True)


async def overwrite_permission(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """Ask the person before a text that they wrote is overwritten."""
    with suppress(UsageError):
        if (await current_tree(ctx)).find(getattr(args, "field_name", "")).writer == USER:
            return ToolPermission.CONFIRM
    return ToolPermission.AUTO
