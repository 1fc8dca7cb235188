"""The tools that arrange the blocks of a project and move it on."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import BaseModel

from artifactflow_nb import block_edits
from artifactflow_nb.block_edits import BlockEdit, NewBlock, Place
from artifactflow_nb.blocks import Block
from artifactflow_nb.errors import ToolError
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.store.blocks import BlockStore
from artifactflow_nb.tools.base import ToolContext, ToolPermission, tool
from artifactflow_nb.tools.block_access import (
    CATEGORY,
    authorship,
    change,
    find,
    found,
    project_of,
    refusing,
    told,
    tree_of,
)

Action = Literal["add", "set", "move", "rename", "copy", "remove"]

_PLACE = ("parent_name", "phase", "before_name")
_SETTINGS = ("depends_on", "prompt", "need_review", "auto_generate")
_PARAMS: Mapping[str, Sequence[str]] = {
    "add": (*_PLACE, "is_group", *_SETTINGS),
    "set": _SETTINGS,
    "move": _PLACE,
    "rename": ("new_name",),
    "copy": ("new_name",),
    "remove": (),
}
"""What an action takes beside the name of the block."""


async def _taken_away(ctx: ToolContext, args: BaseModel) -> Block | None:
    """The block that a call removes, or whose review it ends; None if it takes nothing away, or there is no such."""
    given = args.model_dump()
    block = await found(ctx, str(given.get("block_name", "")))
    ends_review = block is not None and block.need_review and given.get("need_review") is False
    takes = given.get("action") == "remove" or (given.get("action") == "set" and ends_review)
    return block if takes else None


async def _taking_away(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """What is taken away, the person has to agree to; nobody is asked about a block that there is not."""
    return ToolPermission.AUTO if await _taken_away(ctx, args) is None else ToolPermission.CONFIRM


async def _what_goes(ctx: ToolContext, args: BaseModel) -> str:
    """What goes along with a block that is removed, and what depends on it; or that a text is reviewed no more."""
    tree = await tree_of(ctx)
    if (block := await _taken_away(ctx, args)) is None:
        return ""
    if args.model_dump().get("action") == "set":
        return f"What is written into {tree.path(block.block_id)} does not wait for your review any more."
    within = [tree.path(one.block_id) for one in tree.below(block.block_id)]
    users = [tree.path(one.block_id) for one in tree.dependents(block.block_id)]
    lines = [f"Removes {tree.path(block.block_id)}; its versions are kept."]
    lines += [f"With it goes: {', '.join(within)}."] if within else []
    lines += [f"What depends on it becomes stale: {', '.join(users)}."] if users else []
    return "\n\n".join(lines)


def _check_given(action: Action, given: Iterable[str]) -> None:
    """`ToolError` for parameters that an action does not have: what they ask for would be left undone in silence."""
    if unknown := [name for name in given if name not in _PARAMS[action]]:
        also = f"; it takes {', '.join(_PARAMS[action])}" if _PARAMS[action] else ""
        raise ToolError(f"Nothing was done: {action} takes no {', '.join(unknown)}{also}. Leave that out.")


@tool(category=CATEGORY, idempotent=True, runs_in_replay=True, permission=_taking_away, preview=_what_goes)
async def manage_architecture(
    ctx: ToolContext,
    action: Annotated[Action, "What to do with the block."],
    block_name: Annotated[str, "The block, or the name of the new one."],
    parent_name: Annotated[str, "The group that it goes into, with add and move; empty for the top."] = "",
    phase: Annotated[str, "Its phase, at the top; the present one if left out."] = "",
    before_name: Annotated[str, "The block in front of which it stands; the end if left out."] = "",
    new_name: Annotated[str, "With rename and copy: the new name."] = "",
    is_group: Annotated[bool, "With add: whether it only holds others."] = False,
    depends_on: Annotated[list[str] | None, "With add and set: all the blocks that it is written from."] = None,
    prompt: Annotated[str | None, "With add and set: what it shall say."] = None,
    need_review: Annotated[bool | None, "With add and set: whether the person has to approve its text."] = None,
    auto_generate: Annotated[bool | None, "With add and set: whether it is written when its time has come."] = None,
) -> ToolResult:
    """Add, move, rename, copy or remove blocks and groups of the document, or set how a block comes to be written.

    Use it for the structure alone: what a block says is not its business.
    """
    values = (depends_on, prompt, need_review, auto_generate)
    settings = {**dict(zip(_SETTINGS, values, strict=True)), "is_group": is_group or None}
    given = {name: value for name, value in settings.items() if value is not None and (value or action == "set")}
    places = {"parent_name": parent_name, "phase": phase, "before_name": before_name}
    _check_given(action, [*given, *(name for name, value in {**places, "new_name": new_name}.items() if value)])
    head, tree = await project_of(ctx)
    parent = find(tree, parent_name).block_id if parent_name else ""
    before = find(tree, before_name).block_id if before_name else ""
    if before and not parent:
        parent = tree[before].parent
    if action == "add":
        new = NewBlock(block_name, Place(phase or ("" if parent else head.phase), parent, before), given)
        made = await change(ctx, partial(block_edits.added, new=new), "manage_architecture: add")
        return told(ctx, made, f"{block_name!r} is added.")
    block = find(tree, block_name)
    if action == "set" and not given:
        raise ToolError(f"Nothing was set: say what, by {', '.join(_SETTINGS)}.")
    edits: dict[str, BlockEdit] = {
        "set": partial(block_edits.configured, block_id=block.block_id, settings=given),
        "move": partial(block_edits.moved, block_id=block.block_id, place=Place(phase, parent, before)),
        "rename": partial(block_edits.renamed, block_id=block.block_id, name=new_name),
        "copy": partial(block_edits.copied, block_id=block.block_id, name=new_name),
        "remove": partial(block_edits.deleted, block_id=block.block_id, anyway=True),
    }
    done = {
        "set": f"set: {', '.join(given)}",
        "move": "moved",
        "rename": f"called {new_name!r} now",
        "copy": f"copied as {new_name!r}",
    }
    changed = await change(ctx, edits[action], f"manage_architecture: {action}")
    return told(ctx, changed, f"{block.name!r} is {done.get(action, 'removed')}.")


@tool(category=CATEGORY, idempotent=True, runs_in_replay=True)
async def advance_to_phase(
    ctx: ToolContext, target_phase: Annotated[str | None, "The phase to go to; the next one if left out."] = None
) -> str:
    """Go on to another phase when the person wants to. What the phases before it leave open is told, not finished."""
    before, tree = await project_of(ctx)
    wanted = target_phase or before.next_phase
    if wanted is None:
        raise ToolError(f"{before.phase!r} is the last phase.")
    await refusing(
        ctx.service(BlockStore).set_head(authorship(ctx, "advance_to_phase"), lambda head: head.in_phase(wanted))
    )
    passed = before.phase_names[: before.phase_names.index(wanted)] if wanted in before.phase_names else ()
    left = tree.left_open(passed)
    listed = "; ".join(f"{path} ({what})" for path, what in left.items())
    return f"The project is in the phase {wanted!r}." + (
        f" Left open: {listed}." if listed else " Nothing is left open."
    )


STRUCTURE_TOOLS = (manage_architecture, advance_to_phase)
