"""Edits of a block tree: functions from a tree to the changed blocks.

An invalid edit raises `UsageError` and changes nothing; the store applies the changed blocks in one transaction.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.errors import Conflict, UsageError, brief
from artifactflow_nb.plugins.projects.tree import (
    BLOCK_STATUSES,
    Block,
    BlockTree,
    fold_name,
    text_hash,
    unused_id,
    validate_block_name,
)

_NEAR = 1e-6
"""Minimum gap between the `order` of two siblings; below it all siblings are renumbered."""

BlockEdit = Callable[[BlockTree], Sequence[Block]]
"""Returns the changed and new blocks."""

BLOCK_SETTINGS = ("status", "need_review", "auto_generate", "prompt", "depends_on")
"""Settings that `configure_block` accepts."""

_KINDS: Mapping[str, type] = {"need_review": bool, "auto_generate": bool, "prompt": str, "status": str}


@dataclass(frozen=True, slots=True)
class BlockPosition:
    """Target position of a block.

    Attributes:
        phase: Phase of a top-level block; empty for the group's phase or the current phase. In a group only the
            group's phase is valid.
        parent: Id of the group; empty for the top level.
        before: Id of the sibling that will follow; empty for the end.
    """

    phase: str = ""
    parent: str = ""
    before: str = ""


@dataclass(frozen=True, slots=True)
class NewBlock:
    """Specification of a new block.

    Attributes:
        settings: Other settings by field name, including `is_group`.
        text: Initial text; may be empty.
    """

    name: str
    position: BlockPosition
    settings: Mapping[str, Any]
    text: str = ""
    writer: str = ""


def add_block(tree: BlockTree, new: NewBlock) -> tuple[Block, ...]:
    """Add a block."""
    name = validate_block_name(new.name)
    is_group = bool(new.settings.get("is_group"))
    values = {key: value for key, value in new.settings.items() if key != "is_group"}
    if is_group and (values or new.text):
        raise UsageError(f"The group {brief(name)} has no text of its own: leave {', '.join(values) or 'text'} out.")
    key = unused_id(tree.redact(name), tree.used_ids)
    block = _with_text(Block(key, name, new.position.phase, is_group=is_group), new.text, new.writer)
    placed, *siblings = _place(tree, block, new.position)
    added, *others = _check(tree, [_apply_settings(tree, placed, values), *siblings])
    if new.text:
        added = replace(added, basis=tree.with_blocks([added, *others]).basis(block.block_id))
    return (added, *others)


def move_block(tree: BlockTree, block_id: str, position: BlockPosition) -> tuple[Block, ...]:
    """Move a block and its descendants."""
    block = _get_block(tree, block_id)
    if position.parent == block_id or position.parent in {child.block_id for child in tree.descendants(block_id)}:
        raise UsageError(f"{block.name!r} cannot be moved into itself.")
    placed = _place(tree, block, position)
    below = [replace(child, phase=placed[0].phase) for child in tree.descendants(block_id)]
    return _check(tree, [*placed, *below])


def rename_block(tree: BlockTree, block_id: str, name: str) -> tuple[Block, ...]:
    """Rename a block; its id, and thus its dependents, do not change."""
    return _check(tree, [replace(_get_block(tree, block_id), name=validate_block_name(name))])


def copy_block(tree: BlockTree, block_id: str, name: str) -> tuple[Block, ...]:
    """Copy a block with its descendants after it; dependencies among the originals are copied, too."""
    top = _get_block(tree, block_id)
    used, ids = set(tree.used_ids), dict[str, str]()
    for block in (top, *tree.descendants(block_id)):
        ids[block.block_id] = unused_id(tree.redact(block.name if block is not top else name), used)
        used.add(ids[block.block_id])
    copies = [_copy(block, ids) for block in tree.descendants(block_id)]
    first = replace(_copy(top, ids), name=validate_block_name(name))
    siblings = [sibling.block_id for sibling in tree.children(top.parent) if sibling.phase == top.phase]
    next_sibling = next(iter(siblings[siblings.index(block_id) + 1 :]), "")
    placed = _place(tree, first, BlockPosition("" if top.parent else top.phase, top.parent, next_sibling))
    return _check(tree, [*placed, *copies])


def _copy(block: Block, ids: Mapping[str, str]) -> Block:
    return replace(
        block,
        block_id=ids[block.block_id],
        parent=ids.get(block.parent, block.parent),
        depends_on=tuple(ids.get(key, key) for key in block.depends_on),
        basis={ids.get(key, key): value for key, value in block.basis.items()},
        version=0,
    )


def delete_block(tree: BlockTree, block_id: str, *, anyway: bool = False) -> tuple[Block, ...]:
    """Delete a block and its descendants; its dependents remain and become stale.

    Errors: `UsageError` with the dependents, unless `anyway` is set.
    """
    block = _get_block(tree, block_id)
    if not anyway and (users := tree.dependents(block_id)):
        dependents = ", ".join(repr(user.name) for user in users)
        raise UsageError(
            f"{dependents} depend{'s' if len(users) == 1 else ''} on {block.name!r}. Nothing was deleted. "
            "Delete it anyway (anyway=True), or change these dependencies first."
        )
    within = (replace(child, is_deleted=True, deleted_with=block_id) for child in tree.descendants(block_id))
    return (replace(block, is_deleted=True, deleted_with=""), *within)


def restore_block(tree: BlockTree, block_id: str) -> tuple[Block, ...]:
    """Restore a deleted block in its place, or at the top level of its phase if its group no longer exists.

    Blocks that were deleted together with the block are restored, too; blocks that were deleted earlier stay deleted.
    """
    if block_id not in tree.deleted:
        raise UsageError(f"{block_id!r} is not a deleted block. Deleted blocks: {', '.join(tree.deleted) or 'none'}.")
    top = tree.deleted[block_id]
    deletion = top.deleted_with or block_id
    pending, ids = [block_id], set[str]()
    while pending:
        key = pending.pop()
        ids.add(key)
        pending += [
            other.block_id
            for other in tree.deleted.values()
            if other.parent == key and other.block_id not in ids
            if (other.deleted_with or other.block_id) == deletion
        ]
    group = tree.get(top.parent)  # the group may be deleted, or in another phase
    parents = {key: tree.deleted[key].parent for key in sorted(ids)} | ({block_id: ""} if group is None else {})
    phase = top.phase if group is None else group.phase
    restored = [
        replace(tree.deleted[key], is_deleted=False, deleted_with="", parent=parent, phase=phase)
        for key, parent in parents.items()
    ]
    return _check(tree, restored)


def configure_block(tree: BlockTree, block_id: str, settings: Mapping[str, Any]) -> tuple[Block, ...]:
    """Change settings of a block; a removed dependency can no longer make the block stale."""
    block = _apply_settings(tree, _get_block(tree, block_id), settings)
    needs = {key for need in block.depends_on for key in tree.text_ids(need)}
    removed = {key for need in set(tree[block_id].depends_on) - set(block.depends_on) for key in tree.text_ids(need)}
    basis = {key: value for key, value in block.basis.items() if key in needs or key not in removed}
    return _check(tree, [replace(block, basis=basis)])


def write_block(
    tree: BlockTree,
    block_id: str,
    text: str,
    writer: str,
    *,
    basis: Mapping[str, str] | None = None,
    expected: str | None = None,
    is_finished: bool = False,
) -> tuple[Block, ...]:
    """Replace the text of a block.

    Args:
        tree: The tree.
        block_id: The block.
        text: The new text; a blank text makes the block empty.
        writer: Author of the text.
        basis: Hashes of the dependencies' texts that the writer saw; None for the current texts.
        expected: The old text that the writer saw; None to skip the check.
        is_finished: Whether the block becomes completed, unless it needs a review.

    Errors: `Conflict` if the current text differs from `expected`.
    """
    block = _get_block(tree, block_id)
    if block.is_group:
        raise UsageError(f"The group {block.name!r} has no text of its own. Write one of the blocks in it.")
    if expected is not None and block.content != expected:
        raise Conflict(
            f"The text of {block.name!r} was changed meanwhile (now version {block.version}, by {block.created_by}). "
            "Read it again and repeat the change."
        )
    current = tree.basis(block_id) if basis is None else dict(basis)
    return (replace(_with_text(block, text, writer, is_finished=is_finished), basis=current),)


def _with_text(block: Block, text: Any, writer: str, *, is_finished: bool = False) -> Block:
    if not isinstance(text, str):
        raise UsageError(f"The text of {block.name!r} is of type {type(text).__name__}; it must be a string.")
    content, status = storable_text(text), block.status
    if not content.strip():
        status, writer = "empty", ""
    elif is_finished:
        status = "draft" if block.need_review else "completed"
    elif block.status == "empty" or (block.status == "completed" and block.need_review):
        status = "draft"
    return replace(block, content=content, sha256=text_hash(content), status=status, writer=writer)


def mark_block_current(tree: BlockTree, block_id: str) -> tuple[Block, ...]:
    """Accept a stale text as up to date with its current dependencies."""
    return (replace(_get_block(tree, block_id), basis=tree.basis(block_id)),)


# --- parts -----------------------------------------------------------------------------------------------------------


def _get_block(tree: BlockTree, block_id: str) -> Block:
    if (block := tree.get(block_id)) is None:
        raise UsageError(
            f"There is no block with the id {brief(block_id)}. It may have been deleted: read the project again."
        )
    return block


def _apply_settings(tree: BlockTree, block: Block, settings: Mapping[str, Any]) -> Block:
    if unknown := [name for name in settings if name not in BLOCK_SETTINGS]:
        raise UsageError(f"A block has no setting {brief(unknown[0])}. Settings: {', '.join(BLOCK_SETTINGS)}.")
    if block.is_group and settings:
        raise UsageError(f"The group {block.name!r} has no text of its own, so {', '.join(settings)} cannot be set.")
    for name, kind in _KINDS.items():
        if name in settings and not isinstance(settings[name], kind):
            raise UsageError(f"{name} of {block.name!r} is {brief(settings[name])}; it must be a {kind.__name__}.")
    values = dict(settings)
    if "prompt" in values:
        values["prompt"] = storable_text(values["prompt"])
    if "depends_on" in values:
        names = values["depends_on"]
        if isinstance(names, str | Block):
            names = [names]
        if not isinstance(names, Iterable):
            raise UsageError(f"depends_on of {block.name!r} is {brief(names)}; it must be a list of blocks.")
        needed = (_get_block(tree, name.block_id) if isinstance(name, Block) else tree.find(name) for name in names)
        ids = tuple(dict.fromkeys(need.block_id for need in needed))
        if any(block.block_id in {key, *tree.text_ids(key)} for key in ids):
            raise UsageError(f"{block.name!r} cannot depend on itself, or on a group that contains it. Leave that out.")
        values["depends_on"] = ids
    status = values.get("status", block.status)
    if status not in BLOCK_STATUSES:
        raise UsageError(f"status of {block.name!r} is {brief(status)}; it must be one of {', '.join(BLOCK_STATUSES)}.")
    if (status == "empty") is bool(block.content.strip()) and "status" in values:
        contradiction = "has a text: it is not empty" if status == "empty" else f"has no text: it cannot be {status}"
        raise UsageError(f"{block.name!r} {contradiction}.")
    return replace(block, **values)


def _place(tree: BlockTree, block: Block, position: BlockPosition) -> list[Block]:
    """Place a block between its siblings; return the block and the renumbered siblings."""
    label = position.phase.strip().casefold()
    position = replace(position, phase=tree.phases_by_label.get(label, position.phase))
    group = tree.get(position.parent) if position.parent else None
    if position.parent and (group is None or not group.is_group):
        problem = "was deleted" if group is None else "is not a group"
        raise UsageError(f"{position.parent if group is None else group.name!r} {problem}; it cannot contain blocks.")
    if group is not None and position.phase not in {"", group.phase}:
        raise UsageError(
            f"The group {group.name!r} is in the phase {group.phase!r}, so {block.name!r} cannot be in "
            f"{position.phase!r}. Omit the phase, or choose another group."
        )
    phase = group.phase if group is not None else position.phase or block.phase or next(iter(tree.phases), "")
    if phase not in tree.phases:
        raise UsageError(f"There is no phase {brief(phase)}. There are: {', '.join(tree.phases)}.")
    others = [b for b in tree.children(position.parent) if b.phase == phase and b.block_id != block.block_id]
    ids = [other.block_id for other in others]
    if position.before and position.before not in ids:
        before = tree.block_name(position.before)
        raise UsageError(f"{block.name!r} cannot be placed before {brief(before)}, which is in another group or phase.")
    index = ids.index(position.before) if position.before else len(others)
    low = others[index - 1].order if index else (others[0].order - 2 if others else -1.0)
    high = others[index].order if index < len(others) else low + 2
    placed = replace(block, phase=phase, parent=position.parent, order=(low + high) / 2)
    if high - low > _NEAR:
        return [placed]
    siblings = [*others[:index], placed, *others[index:]]
    numbered = [replace(sibling, order=float(n)) for n, sibling in enumerate(siblings)]
    return [numbered[index], *numbered[:index], *numbered[index + 1 :]]


def _check(tree: BlockTree, changed: Sequence[Block]) -> tuple[Block, ...]:
    """Return the changed blocks if the result is valid: no dependency cycles, and unique names among siblings."""
    after = tree.with_blocks(changed)
    _ = after.topological_order  # raises for a cycle
    for block in changed:
        same = [sibling for sibling in after.children(block.parent) if fold_name(sibling.name) == fold_name(block.name)]
        if len(same) > 1 and block.block_id in after:
            where = f"in {after.path(block.parent)!r}" if block.parent else "at the top level"
            raise UsageError(f"There is already a block {block.name!r} {where}. Choose another name or another place.")
    return tuple(changed)
