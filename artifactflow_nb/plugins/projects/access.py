"""Access of the compose tools to the project of their run.

The result of research is two blocks: a report, and a block with its sources on which the report depends. In a research
phase an agent may only write texts that are based on research. A person may write anything.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, StringConstraints

from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.text.format import clip_words
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.plugins.projects.edits import BlockEdit, BlockPosition, NewBlock, add_block, write_block
from artifactflow_nb.plugins.projects.project import RESEARCH_TOOL, ProjectInfo
from artifactflow_nb.plugins.projects.store import ProjectStore
from artifactflow_nb.plugins.projects.tree import Block, BlockTree
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import USER
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


async def current_project(ctx: ToolContext | RunContext) -> tuple[ProjectInfo, BlockTree]:
    """Return the project and its blocks on the branch of a call or a run."""
    services, branch = (ctx, ctx) if isinstance(ctx, ToolContext) else (ctx.services, ctx.run)
    return await services.service(ProjectStore).project(branch.conversation_id, branch.message_id)


async def current_tree(ctx: ToolContext | RunContext) -> BlockTree:
    """Return the blocks on the branch of a call or a run."""
    return (await current_project(ctx))[1]


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
    """Decorate a preview: the preview of a call that the tool will reject is empty."""

    async def preview(ctx: ToolContext, args: BaseModel) -> str:
        try:
            return await render(ctx, args)
        except (UsageError, ToolError):
            return ""

    return preview


def confirm_if_previewed(preview: AsyncPreview) -> PermissionRule:
    """Create a permission rule: the person is asked about calls with a preview, and never about invalid calls."""

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
    """Decorate a tool that only reads or changes the stored project; see `tool`.

    Args:
        permission: The permission; by default the person is asked about calls with a preview.
        name: The name of the tool; by default the name of the function.
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
    """Create a tool; the flow carries out each call as a job of another agent."""
    return Tool(name, description, params, None, permission, CATEGORY, idempotent=True)


async def overwrite_permission(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """Ask before a person's text is overwritten."""
    with suppress(UsageError):
        if (await current_tree(ctx)).find(getattr(args, "field_name", "")).writer == USER:
            return ToolPermission.CONFIRM
    return ToolPermission.AUTO


RESEARCH_AUTHOR = "research"
"""Author of the texts that come from a research run."""

_NAME_COLUMNS, _NAME_CHARS = 60, 100  # an accent is a character without a column


def title_from_query(query: str) -> str:
    """Derive a block's name from the block's question."""
    name = " ".join(query.replace("/", " ").split()).lstrip("@ ")
    return clip_words(name[:_NAME_CHARS], _NAME_COLUMNS).strip() or RESEARCH_AUTHOR


def research_phase(info: ProjectInfo) -> str:
    """Return the phase for a new report: the current phase, if it is a research phase, or the first research phase."""
    phases = info.research_phases
    return info.phase if info.phase in phases or not phases else phases[0]


def add_research_blocks(tree: BlockTree, block_id: str, new: NewBlock, sources: str) -> tuple[Block, ...]:
    """Write a report and its sources.

    Without a `block_id`, the report is the new block `new`.

    Returns: The changed blocks, the report first.

    Errors: `UsageError` if the block was deleted.
    """
    original = tree
    if not block_id:
        added = add_block(tree, replace(new, name=_unused_name(tree, new.name), text=""))
        block_id, tree = added[0].block_id, tree.with_blocks(added)
    report = tree.get(block_id)
    if report is None:
        raise UsageError(f"The block {tree.block_name(block_id)!r} was deleted during the research.")
    # The sources block belongs to this report alone: it is not a report, and no other report depends on it.
    researched = {b.block_id: b for b in tree if b.writer == RESEARCH_AUTHOR}
    others = [other for key, other in researched.items() if key != block_id]
    sources_id = next(
        (
            key
            for key in report.depends_on
            if key in researched
            and researched.keys().isdisjoint(researched[key].depends_on)
            and not any(key in other.depends_on for other in others)
        ),
        "",
    )
    if not sources_id:
        name = _unused_name(tree, f"{report.name}: sources")
        added = add_block(tree, NewBlock(name, BlockPosition(report.phase, report.parent), {}))
        sources_id, tree = added[0].block_id, tree.with_blocks(added)
    tree = tree.with_blocks(write_block(tree, sources_id, sources, RESEARCH_AUTHOR, basis={}, is_finished=True))
    needs = tuple(dict.fromkeys((*report.depends_on, sources_id)))
    tree = tree.with_blocks([replace(tree[block_id], depends_on=needs)])
    tree = tree.with_blocks(write_block(tree, block_id, new.text, RESEARCH_AUTHOR, is_finished=True))
    changed = (b for b in tree if b.block_id != block_id and b != original.get(b.block_id))
    return (tree[block_id], *changed)


def require_grounding(edit: BlockEdit, phases: Collection[str]) -> BlockEdit:
    """Wrap an agent's edit: refuse a new text in a research phase that is not based on research."""

    def checked(tree: BlockTree) -> Sequence[Block]:
        changed = edit(tree)
        after = tree.with_blocks(changed)
        for block in changed:
            before = tree.get(block.block_id)
            is_new = before is None or (before.sha256, before.phase) != (block.sha256, block.phase)
            is_agent_text = bool(block.sha256) and not block.is_deleted and block.writer != USER
            if block.phase in phases and is_agent_text and is_new and not is_grounded(after, block):
                raise UsageError(
                    f"{block.name!r} is in the research phase {block.phase!r}, and it is not based on research. "
                    f'Call {RESEARCH_TOOL} with field_name="{after.path(block.block_id)}", or let it depend on a '
                    "block with research results."
                )
        return changed

    return checked


def is_grounded(tree: BlockTree, block: Block) -> bool:
    """Return whether a block has research results, or depends on a block with research results, even indirectly."""
    pending, seen = [block.block_id], set[str]()
    while pending:
        key = pending.pop()
        seen.add(key)
        if (source := tree.get(key)) is not None and source.writer == RESEARCH_AUTHOR:
            return True
        pending += [need for need in tree.dependencies(key) if need not in seen]
    return False


def _unused_name(tree: BlockTree, name: str) -> str:
    used, candidate, n = {block.name.casefold() for block in tree}, name, 2
    while candidate.casefold() in used:
        candidate, n = f"{name} {n}", n + 1
    return candidate
