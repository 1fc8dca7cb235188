"""Tools that arrange the blocks of a project and change its phase."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import BaseModel

from artifactflow_nb.core.document import edits as block_edits
from artifactflow_nb.core.document.edits import BlockPosition, NewBlock
from artifactflow_nb.core.document.tree import Block
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.errors import ToolError
from artifactflow_nb.flows.compose.access import (
    change_blocks,
    current_project,
    current_tree,
    project_tool,
    valid_call_preview,
)
from artifactflow_nb.store.documents import ProjectStore
from artifactflow_nb.tools.artifacts import call_authorship
from artifactflow_nb.tools.base import ToolContext

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
    """Describe what a call removes, with the consequences; empty if it removes neither a block nor a review."""
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
    # An error, since the wish behind the parameter would otherwise be ignored silently.
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
    info, tree = await current_project(ctx)
    phase = info.phase_name(target_phase) if target_phase else info.next_phase
    if phase is None:
        raise ToolError(f"{info.phase!r} is the last phase. Name the phase to go back to in target_phase.")
    authorship = call_authorship(ctx, "advance_to_phase")
    await ctx.service(ProjectStore).set_info(authorship, lambda current: current.with_phase(phase))
    unfinished = tree.unfinished(info.phase_names[: info.phase_names.index(phase)])
    listed = "; ".join(f"{path} ({problem})" for path, problem in unfinished.items())
    return f"The project is in the phase {phase!r}. " + (
        f"Unfinished: {listed}." if listed else "Nothing is unfinished."
    )


STRUCTURE_TOOLS = (manage_architecture, advance_to_phase)
