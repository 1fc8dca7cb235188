"""Outlines: lists of new blocks that are added to a document all at once or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from artifactflow_nb.core.document.edits import BlockPosition, NewBlock, add_block, configure_block
from artifactflow_nb.core.document.tree import Block, BlockTree, fold_name
from artifactflow_nb.core.text.markdown import safe_markdown_line
from artifactflow_nb.errors import UsageError

MAX_ENTRIES = 100
"""Maximum number of blocks in an outline."""


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A block of an outline; an entry is a group if another entry names it as parent.

    Attributes:
        name: Name.
        parent: Name or path of its group, which exists or comes earlier in the list; empty for the top level.
        phase: Phase of a top-level block; empty for the project's current phase.
        depends_on: Names or paths of its dependencies, which may come later in the list.
        settings: Other settings: `prompt`, `need_review`, `auto_generate`.
    """

    name: str
    parent: str = ""
    phase: str = ""
    depends_on: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def add_outline(tree: BlockTree, entries: Sequence[OutlineEntry], phase: str) -> tuple[Block, ...]:
    """Create the blocks of an outline after the existing ones; `phase` is the project's current phase.

    Errors: `UsageError` for an invalid name, parent, phase or dependency, and for an empty outline or more than
        `MAX_ENTRIES` blocks.
    """
    if not 1 <= len(entries) <= MAX_ENTRIES:
        raise UsageError(f"The outline has {len(entries)} blocks; it must have 1 to {MAX_ENTRIES}.")
    groups = {fold_name(entry.parent.rpartition("/")[2].strip()) for entry in entries if entry.parent}
    ids: list[str] = []
    for entry in entries:
        try:
            parent = tree.find(entry.parent).block_id if entry.parent else ""
        except UsageError as error:
            raise UsageError(f"{entry.name!r}: {error} A group must come before its blocks in the list.") from None
        settings = {**entry.settings, **({"is_group": True} if fold_name(entry.name.strip()) in groups else {})}
        position = BlockPosition(entry.phase or ("" if parent else phase), parent)
        new_blocks = add_block(tree, NewBlock(entry.name, position, settings))
        ids.append(new_blocks[0].block_id)
        tree = tree.with_blocks(new_blocks)
    for block_id, entry in zip(ids, entries, strict=True):
        if entry.depends_on:
            tree = tree.with_blocks(configure_block(tree, block_id, {"depends_on": list(entry.depends_on)}))
    return tuple(tree[block_id] for block_id in ids)


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
