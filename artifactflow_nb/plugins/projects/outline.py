"""Outlines: the composer requests an outline, and the outliner proposes the outline to the person.

If the person agrees, all blocks are added in one transaction. An invalid outline adds no blocks; the outliner gets the
error, and the person is not asked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.text.format import count
from artifactflow_nb.core.text.markdown import safe_markdown_line
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.state import AgentState
from artifactflow_nb.plugins.projects import edits as block_edits
from artifactflow_nb.plugins.projects.access import (
    change_blocks,
    current_project,
    current_tree,
    job_tool,
    project_tool,
    valid_call_preview,
)
from artifactflow_nb.plugins.projects.agents import OUTLINER, outliner_task
from artifactflow_nb.plugins.projects.edits import BlockPosition, NewBlock
from artifactflow_nb.plugins.projects.named_texts import Persona
from artifactflow_nb.plugins.projects.project import OUTLINE_TOOL, BlockDraft, add_drafts
from artifactflow_nb.plugins.projects.research import Jobs, find_skills, finish_proposing, run_texts, start_block_job
from artifactflow_nb.plugins.projects.store import BlockJob, ProjectStore
from artifactflow_nb.plugins.projects.tree import Block, BlockTree
from artifactflow_nb.tools.artifacts import call_authorship
from artifactflow_nb.tools.base import ToolContext, ToolParams

Action = Literal["add", "set", "move", "rename", "copy", "remove"]

_POSITION = ("parent_name", "phase", "before_name")
_SETTINGS = ("depends_on", "prompt", "need_review", "auto_generate")
_PARAMS: Mapping[Action, Sequence[str]] = {
    "add": (*_POSITION, "is_group", *_SETTINGS),
    "set": _SETTINGS,
    "move": _POSITION,
    "rename": ("new_name",),
    "copy": ("new_name",),
    "remove": (),
}
"""Parameters of each action in addition to the block's name."""


@valid_call_preview
async def _loss_preview(ctx: ToolContext, args: BaseModel) -> str:
    """Describe the blocks or the review that a call removes, with the consequences; empty if nothing is removed."""
    params, tree = args.model_dump(), await current_tree(ctx)
    block = tree.find(params["block_name"])
    path = tree.path(block.block_id)
    if params["action"] == "set" and block.need_review and params["need_review"] is False:
        return f"New texts of {path} will no longer wait for your review."
    if params["action"] != "remove":
        return ""
    lines = [f"Removes {path}; its versions are kept."]
    if within := tree.descendants(block.block_id):
        lines.append(f"Also removes: {', '.join(tree.path(other.block_id) for other in within)}.")
    if users := tree.dependents(block.block_id):
        lines.append(f"These depend on it and become stale: {', '.join(tree.path(user.block_id) for user in users)}.")
    return "\n\n".join(lines)


@project_tool(preview=_loss_preview)
async def manage_architecture(
    ctx: ToolContext,
    action: Annotated[Action, "What to do with the block."],
    block_name: Annotated[str, "The block, or the name of the new one."],
    parent_name: Annotated[str, "With add and move: the group to put it into; empty for the top level."] = "",
    phase: Annotated[str, "With add and move: its phase, outside of groups; default: the current one."] = "",
    before_name: Annotated[str, "With add and move: the block to insert it before; default: at the end."] = "",
    new_name: Annotated[str, "With rename and copy: the new name."] = "",
    is_group: Annotated[bool, "With add: whether it is a group of other blocks."] = False,
    depends_on: Annotated[list[str] | None, "With add and set: all the blocks that it is written from."] = None,
    prompt: Annotated[str | None, "With add and set: what it should say."] = None,
    need_review: Annotated[bool | None, "With add and set: whether the person has to approve its text."] = None,
    auto_generate: Annotated[bool | None, "With add and set: whether it is written automatically."] = None,
) -> ToolResult:
    """Add, move, rename, copy or remove blocks and groups of the document, or change a block's settings.

    Use it for the structure only, not to change a text.
    """
    values = (depends_on, prompt, need_review, auto_generate)
    options = {**dict(zip(_SETTINGS, values, strict=True)), "is_group": is_group or None}
    settings = {name: value for name, value in options.items() if value is not None and (value or action == "set")}
    texts = {"parent_name": parent_name, "phase": phase, "before_name": before_name, "new_name": new_name}
    passed = [*settings, *(name for name, value in texts.items() if value)]
    # This is an error, since the call would otherwise silently ignore the parameter.
    if unknown := [name for name in passed if name not in _PARAMS[action]]:
        allowed = f"; it takes {', '.join(_PARAMS[action])}" if _PARAMS[action] else ""
        raise ToolError(f"Nothing was done: {action} takes no {', '.join(unknown)}{allowed}. Leave that out.")
    info, tree = await current_project(ctx)
    parent = tree.find(parent_name).block_id if parent_name else ""
    before = tree.find(before_name).block_id if before_name else ""
    if before and not parent:
        parent = tree[before].parent
    if action == "add":
        new = NewBlock(block_name, BlockPosition(phase or ("" if parent else info.phase), parent, before), settings)
        add = partial(block_edits.add_block, new=new)
        return await change_blocks(ctx, add, "manage_architecture: add", f"{block_name!r} is added.")
    block = tree.find(block_name)
    if action == "set" and not settings:
        raise ToolError(f"Nothing was set. Set at least one of: {', '.join(_SETTINGS)}.")
    edits: dict[Action, tuple[Callable[..., Sequence[Block]], str]] = {
        "set": (partial(block_edits.configure_block, settings=settings), f"set: {', '.join(settings)}"),
        "move": (partial(block_edits.move_block, position=BlockPosition(phase, parent, before)), "moved"),
        "rename": (partial(block_edits.rename_block, name=new_name), f"renamed to {new_name!r}"),
        "copy": (partial(block_edits.copy_block, name=new_name), f"copied as {new_name!r}"),
        "remove": (partial(block_edits.delete_block, anyway=True), "removed"),
    }
    edit, result = edits[action]
    edit = partial(edit, block_id=block.block_id)
    return await change_blocks(ctx, edit, f"manage_architecture: {action}", f"{block.name!r} is {result}.")


@project_tool()
async def advance_to_phase(
    ctx: ToolContext, target_phase: Annotated[str | None, "The phase to go to; default: the next one."] = None
) -> str:
    """Go to another phase when the person wants to. The result lists what is unfinished in the phases before it."""
    change = await ctx.service(ProjectStore).advance(call_authorship(ctx, "advance_to_phase"), target_phase)
    unfinished = "; ".join(f"{path} ({problem})" for path, problem in change.open.items())
    return f"The project is in the phase {change.after!r}. " + (
        f"Unfinished: {unfinished}." if unfinished else "Nothing is unfinished."
    )


STRUCTURE_TOOLS = (manage_architecture, advance_to_phase)


MAX_ENTRIES = 100
"""Maximum number of blocks in an outline."""


def add_outline(tree: BlockTree, drafts: Sequence[BlockDraft], phase: str) -> tuple[Block, ...]:
    """Create the blocks of an outline; errors as for `add_drafts`, and `UsageError` for zero or too many blocks."""
    if not 1 <= len(drafts) <= MAX_ENTRIES:
        raise UsageError(f"The outline has {len(drafts)} blocks; it must have 1 to {MAX_ENTRIES}.")
    return add_drafts(tree, drafts, phase)


def outline_markdown(tree: BlockTree, new: Sequence[Block]) -> str:
    """Render the blocks that an outline adds to a tree as a Markdown list, in document order."""
    after, ids = tree.with_blocks(new), {block.block_id for block in new}
    lines = []
    for block in after:
        if block.block_id in ids:
            depth, parent = 0, after.get(block.parent)
            while parent is not None:
                depth += parent.block_id in ids
                parent = after.get(parent.parent)
            notes = ["group"] if block.is_group else []
            if not block.parent:
                notes.append(f"phase {block.phase}")
            elif block.parent not in ids:
                notes.append(f"in {after.path(block.parent)}")
            if block.depends_on:
                notes.append(f"depends on {', '.join(map(after.block_name, block.depends_on))}")
            notes += ["written automatically"] if block.auto_generate else []
            notes += ["to be reviewed"] if block.need_review else []
            note = f" ({safe_markdown_line('; '.join(notes))})" if notes else ""
            prompt = f": {safe_markdown_line(block.prompt)}" if block.prompt else ""
            lines.append(f"{'  ' * depth}- **{safe_markdown_line(block.name)}**{note}{prompt}")
    return "\n".join(lines)


PROPOSE_OUTLINE_TOOL = "propose_outline"


class GenerateOutline(ToolParams):
    """Parameters of `generate_outline`."""

    style: Annotated[str, Field(description="The kind of structure: a report, a course of six lessons, ...")] = ""
    additional_instructions: Annotated[str, Field(description="Other wishes of the person.")] = ""


generate_outline = job_tool(
    OUTLINE_TOOL,
    "Have a structure of blocks proposed for the document, or for its current phase. The person sees it as a list and "
    "decides; if they agree, all blocks are added at once, still empty. Use it when several blocks are missing; add a "
    "single block with manage_architecture.",
    GenerateOutline,
)


async def start_outlining(ctx: RunContext, _state: AgentState, key: str, args: GenerateOutline) -> BlockJob:
    """Store the job of a call of `generate_outline`."""
    info, tree = await current_project(ctx)
    skills = await find_skills(ctx, args.style, args.additional_instructions)
    personas = await run_texts(ctx, Persona)
    task = outliner_task(info, tree, args.style, args.additional_instructions, personas, skills)
    return await start_block_job(ctx, key, OUTLINER.name, task)


@valid_call_preview
async def _outline_preview(ctx: ToolContext, args: BaseModel) -> str:
    """List the blocks that would be added."""
    info, tree = await current_project(ctx)
    return outline_markdown(tree, add_outline(tree, getattr(args, "blocks", ()), info.phase))


@project_tool(name=PROPOSE_OUTLINE_TOOL, preview=_outline_preview)
async def propose_outline(
    ctx: ToolContext,
    blocks: Annotated[list[BlockDraft], "All blocks, in the order of the document; a group before its blocks."],
) -> ToolResult:
    """Propose the whole outline in one call; the person sees it as a list and decides."""
    info, _ = await current_project(ctx)
    message = f"The person agreed to the outline: {count(len(blocks), 'block')} added."
    return await change_blocks(ctx, lambda tree: add_outline(tree, blocks, info.phase), "approved outline", message)


OUTLINE_JOBS: Jobs = {OUTLINE_TOOL: (start_outlining, finish_proposing(PROPOSE_OUTLINE_TOOL, "Nothing was added."))}
OUTLINER_TOOLS = (replace(propose_outline, request_kind="edit", request_action="add the blocks of an outline"),)
