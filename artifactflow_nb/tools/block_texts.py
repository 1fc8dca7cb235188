"""The tools that read, write and review the texts of blocks.

`generate_field_content` and `modify_field` are carried out by the flow: each is a job of an agent that sees what it
needs of the block, and no more.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from artifactflow_nb import block_edits
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.errors import Conflict, ToolError, UsageError
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.projects import GENERATE, MODIFY, REVIEW
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.store.block_jobs import BlockJob, BlockJobStore
from artifactflow_nb.store.requests import RequestStore
from artifactflow_nb.text.lines import fenced_diff
from artifactflow_nb.tools.base import Tool, ToolContext, ToolPermission, tool
from artifactflow_nb.tools.block_access import CATEGORY, FieldName, change, find, found, overwriting, told, tree_of
from artifactflow_nb.tools.given import Given
from artifactflow_nb.tools.passages import SHOWN, lines_around, nearest_passages, places
from artifactflow_nb.tools.shown import shown_version, versioned

PROPOSE = "propose_edits"

FIRST_CHARS = 600

# --- what is carried out by the flow ---------------------------------------------------------------------------------


class GenerateField(BaseModel):
    """The parameters of `generate_field_content`."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    field_name: Annotated[str, Field(description="The block to write, by its name or path.", min_length=1)]
    style_hint: Annotated[str, Field(description="How it shall be written, if the person said so.")] = ""


class ModifyField(BaseModel):
    """The parameters of `modify_field`."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    field_name: Annotated[str, Field(description="The block to change, by its name or path.", min_length=1)]
    modification_instruction: Annotated[str, Field(description="What shall be other than it is.", min_length=1)]
    reference_fields: Annotated[list[str], Field(description="Blocks that the editor has to see besides.")] = Field(
        default_factory=list
    )


class PassageEdit(Given):
    """One passage that is replaced."""

    anchor: Annotated[str, Field(description="The passage, exactly as it stands, long enough to be unique.")]
    replacement: Annotated[str, Field(description="What stands in its place; empty to take it out.")]


generate_field_content = Tool(
    GENERATE,
    "Have a block written from its prompt and the blocks that it depends on. Use it for a block that is empty or "
    "stale, or that shall be written anew as a whole; for a change in a text that is there use modify_field. Calls "
    "beside each other are carried out at the same time.",
    GenerateField,
    None,
    overwriting,
    CATEGORY,
    idempotent=True,
)

modify_field = Tool(
    MODIFY,
    "Have passages of a block's text changed as the person asks. An editor proposes the edits, and the person sees "
    "them as a diff and decides. Use it for every change in a text that is there.",
    ModifyField,
    None,
    ToolPermission.AUTO,
    CATEGORY,
    idempotent=True,
)

# --- reading ---------------------------------------------------------------------------------------------------------


@tool(category=CATEGORY, idempotent=True, runs_in_replay=True)
async def query_field(ctx: ToolContext, field_name: FieldName) -> str:
    """Look at a block in short: what it is, what it rests on, how its text begins. Use it before deciding about it."""
    tree = await tree_of(ctx)
    block = find(tree, field_name)
    behind = tree.stale.get(block.block_id)
    lines = [
        f"{tree.path(block.block_id)} ({'group' if block.is_group else tree.status(block.block_id)})",
        f"phase: {block.phase}",
        f"depends on: {', '.join(map(tree.name, block.depends_on)) or 'nothing'}",
        *([f"stale: {', '.join(behind)} changed since it was written"] if behind else []),
        *(["has to be reviewed by the person"] if block.need_review else []),
        *([f"prompt: {block.prompt}"] if block.prompt else []),
    ]
    if block.is_group:
        lines.append(f"holds: {', '.join(one.name for one in tree.children(block.block_id)) or 'nothing'}")
    elif block.content.strip():
        lines.append(f"text ({len(block.content)} characters) begins:\n{block.content[:FIRST_CHARS]}")
    return "\n".join(lines)


@tool(category=CATEGORY, idempotent=True, runs_in_replay=True, max_result_chars=60_000)
async def read_field(ctx: ToolContext, field_name: FieldName) -> str:
    """Read the whole text of a block, or of a group all that is in it, exactly as it is stored."""
    tree = await tree_of(ctx)
    block = find(tree, field_name)
    if not block.is_group:
        return block.content or f"{block.name!r} has no text yet."
    texts = [f"## {tree.path(one.block_id)}\n\n{one.content}" for one in tree.below(block.block_id) if one.sha256]
    return "\n\n".join(texts) or f"Nothing in {block.name!r} has a text yet."


# --- writing ---------------------------------------------------------------------------------------------------------


async def _proposed(ctx: ToolContext, args: BaseModel) -> str:
    """What would change, as a diff."""
    block = await found(ctx, str(getattr(args, "field_name", "")))
    if block is None:
        return ""
    text, present = str(getattr(args, "content", "")), versioned(block.name, block.version)
    return await asyncio.to_thread(fenced_diff, block.content, text, present, f"{block.name} as proposed")


async def _by_hand(ctx: ToolContext, params: Mapping[str, Any]) -> bool:
    """Whether the person put other parameters in the place of the agent's when they agreed."""
    request = await ctx.service(RequestStore).of_call(ctx.tool_call_id)
    return request is not None and any(request.params.get(name) != value for name, value in params.items())


@tool(category=CATEGORY, idempotent=True, runs_in_replay=True, permission=overwriting, preview=_proposed)
async def update_field(
    ctx: ToolContext, field_name: FieldName, content: Annotated[str, "The whole text from now on."]
) -> ToolResult:
    """Write a block's whole text yourself. Use it for what the person dictated or you worked out together."""
    block, shown = find(await tree_of(ctx), field_name), await shown_version(ctx, field_name=field_name)
    writer = USER if await _by_hand(ctx, {"content": content}) else ctx.agent

    def edit(tree: BlockTree) -> Sequence[Block]:
        if shown not in {None, block.version}:
            raise Conflict(
                f"{block.name!r} is another by now than when the person was asked. Nothing was written. Read it again "
                "and repeat the change."
            )
        return block_edits.written(tree, block.block_id, content, writer, expected=block.content)

    written = await change(ctx, edit, "update_field")
    return told(ctx, written, f"{block.name!r} is written.")


async def _edits_diff(ctx: ToolContext, args: BaseModel) -> str:
    """What the edits would change, as a diff; empty for edits that do not fit, which are refused."""
    try:
        _, block, text = await _edited(ctx, getattr(args, "edits", ()))
    except ToolError:
        return ""
    return await asyncio.to_thread(fenced_diff, block.content, text, block.name, f"{block.name} as proposed")


async def _if_they_fit(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """Nobody is asked about edits that do not fit: the agent is told."""
    try:
        await _edited(ctx, getattr(args, "edits", ()))
    except ToolError:
        return ToolPermission.AUTO
    return ToolPermission.CONFIRM


@tool(
    name=PROPOSE,
    category=CATEGORY,
    idempotent=True,
    runs_in_replay=True,
    permission=_if_they_fit,
    preview=_edits_diff,
)
async def _propose_edits(
    ctx: ToolContext,
    edits: Annotated[list[PassageEdit], "Each with `anchor`, a passage of the text, and `replacement`."],
) -> ToolResult:
    """Propose all edits of the text in one call; the person sees them as a diff and decides."""
    job, block, text = await _edited(ctx, edits)
    is_theirs = block.writer == USER or await _by_hand(ctx, {"edits": [edit.model_dump() for edit in edits]})
    edit = partial(
        block_edits.written,
        block_id=block.block_id,
        text=text,
        writer=USER if is_theirs else ctx.agent,
        basis=job.basis,
        expected=block.content,
    )
    written = await change(ctx, edit, f"{len(edits)} edits were agreed to.")
    return told(ctx, written, "The edits were agreed to and are written.")


propose_edits = replace(_propose_edits, asks_as="edit", wants_to="change a text")


async def _edited(ctx: ToolContext, edits: Sequence[PassageEdit]) -> tuple[BlockJob, Block, str]:
    """The call's job, its block, and its text with the edits made; `ToolError` for one that does not fit."""
    job = await ctx.service(BlockJobStore).of_call(ctx.tool_call_id)
    block = None if job is None else (await tree_of(ctx)).get(job.block_id)
    if job is None or block is None:
        raise ToolError("There is no block to edit here.")
    return job, block, applied(block.content, edits)


def applied(text: str, edits: Sequence[PassageEdit]) -> str:
    """The text with each anchor replaced; `ToolError` for one that does not stand once, and for two that overlap."""
    if not edits:
        raise ToolError("No edit was given. Give at least one, or say that nothing has to change.")
    spans = []
    for number, edit in enumerate(edits, 1):
        there = places(text, edit.anchor, 2)
        if len(there) != 1:
            how = "is empty" if not edit.anchor else "stands more than once" if there else "does not stand there"
            near = (
                lines_around(text, places(text, edit.anchor, SHOWN)) if there else nearest_passages(text, edit.anchor)
            )
            shown = f" Nearest are:\n{near}" if near else ""
            raise ToolError(f"Nothing was changed: the anchor of edit {number} {how}.{shown}")
        spans.append((*there[0], edit.replacement))
    spans.sort()
    if any(after[0] < before[1] for before, after in pairwise(spans)):
        raise ToolError("Nothing was changed: two anchors overlap. Make one edit of them.")
    for start, end, replacement in reversed(spans):
        text = text[:start] + replacement + text[end:]
    return text


async def _draft(ctx: ToolContext, args: BaseModel) -> str:
    """The text that is to be reviewed."""
    block = await found(ctx, str(getattr(args, "field_name", "")))
    return "" if block is None else block.content


@tool(
    name=REVIEW,
    category=CATEGORY,
    idempotent=True,
    runs_in_replay=True,
    permission=ToolPermission.CONFIRM,
    preview=_draft,
)
async def _review_field(
    ctx: ToolContext,
    field_name: FieldName,
    content: Annotated[str | None, "Another text in its place; its own if left out."] = None,
) -> ToolResult:
    """Put a draft before the person: agreed to, it is completed, as it stands or as they change it."""
    block = find(await tree_of(ctx), field_name)
    if not block.sha256:
        raise ToolError(f"{block.name!r} has no text to review.")
    changed = await change(ctx, partial(_reviewed, block_id=block.block_id, content=content), "It was reviewed.")
    return told(ctx, changed, f"{block.name!r} is agreed to.")


def _reviewed(tree: BlockTree, block_id: str, content: str | None) -> Sequence[Block]:
    """A draft completed, with another text if the person gave one."""
    block = tree[block_id]
    if content is not None and not content.strip():
        raise UsageError(
            f"An empty text of {block.name!r} cannot be agreed to. Deny it, and say what shall be otherwise."
        )
    if content is not None and content != block.content:
        (block,) = block_edits.written(tree, block_id, content, USER)
    return (replace(block, status="completed"),)


review_field = replace(_review_field, asks_as="edit", wants_to="have a text reviewed")

TEXT_TOOLS = (
    generate_field_content,
    modify_field,
    query_field,
    read_field,
    update_field,
    propose_edits,
    review_field,
)
