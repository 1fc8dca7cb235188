"""An outline: further blocks of a document, told as a list and made all at once, or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from artifactflow_nb.block_edits import NewBlock, Place, added, configured
from artifactflow_nb.block_names import folded
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.errors import UsageError
from artifactflow_nb.text.markdown import portable_line

MOST_ENTRIES = 100
"""How many blocks an outline may have."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A block of an outline.

    Attributes:
        name: Its name.
        parent: The group that it goes into, by name or path: one that is there, or one that stands before it in the
            list; empty for the top. What others name as their parent is a group.
        phase: Its phase, at the top; empty for the one that the project is in.
        depends_on: The blocks that it rests on, by names or paths; those behind it in the list too.
        settings: What else is set of it: `prompt`, `need_review`, `auto_generate`.
    """

    name: str
    parent: str = ""
    phase: str = ""
    depends_on: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def outlined(tree: BlockTree, entries: Sequence[Entry], phase: str) -> tuple[Block, ...]:
    """The blocks of an outline, behind those that are there; `phase` is the one that the project is in.

    Errors: `UsageError` for a name, a parent, a phase or a dependency that cannot be, and for an outline without blocks
        or with more than `MOST_ENTRIES`.
    """
    if not 1 <= len(entries) <= MOST_ENTRIES:
        raise UsageError(f"The outline has {len(entries)} blocks; it must have 1 to {MOST_ENTRIES}.")
    groups = {folded(entry.parent.rpartition("/")[2].strip()) for entry in entries if entry.parent}
    ids: list[str] = []
    for entry in entries:
        new = _new(tree, entry, phase, is_group=folded(entry.name.strip()) in groups)
        made = added(tree, new)
        ids.append(made[0].block_id)
        tree = _with(tree, made)
    for block_id, entry in zip(ids, entries, strict=True):
        if entry.depends_on:
            tree = _with(tree, configured(tree, block_id, {"depends_on": list(entry.depends_on)}))
    return tuple(tree[block_id] for block_id in ids)


def _new(tree: BlockTree, entry: Entry, phase: str, *, is_group: bool) -> NewBlock:
    place = Place(entry.phase, _group(tree, entry).block_id) if entry.parent else Place(entry.phase or phase)
    return NewBlock(entry.name, place, {**entry.settings, **({"is_group": True} if is_group else {})})


def _group(tree: BlockTree, entry: Entry) -> Block:
    try:
        return tree.find(entry.parent)
    except UsageError as error:
        raise UsageError(f"{entry.name!r}: {error} A group stands in the list before what is in it.") from None


def _with(tree: BlockTree, changed: Sequence[Block]) -> BlockTree:
    held = {block.block_id: block for block in (*tree, *tree.deleted.values(), *changed)}
    return BlockTree(held.values(), tree.phases, tree.taken, tree.mask)


def told_outline(tree: BlockTree, new: Sequence[Block]) -> str:
    """The blocks that an outline adds to a tree, as a list in Markdown, in the order of the document."""
    after, ids = _with(tree, new), {block.block_id for block in new}
    lines = []
    for block in after:
        if block.block_id in ids:
            depth = sum(key in ids for key in _above(after, block))
            lines.append(f"{'  ' * depth}- {_told(after, block, ids)}")
    return "\n".join(lines)


def _above(tree: BlockTree, block: Block) -> list[str]:
    found = []
    while (above := tree.get(block.parent)) is not None:
        found.append(above.block_id)
        block = above
    return found


def _told(tree: BlockTree, block: Block, new: set[str]) -> str:
    """A block in a line: its name, where it stands, what it rests on, what it shall say."""
    parent = tree.path(block.parent) if block.parent and block.parent not in new else ""
    notes = [
        *(["group"] if block.is_group else []),
        *([f"in {parent}"] if parent else [] if block.parent else [f"phase {block.phase}"]),
        *([f"rests on {', '.join(map(tree.name, block.depends_on))}"] if block.depends_on else []),
        *(["written by itself"] if block.auto_generate else []),
        *(["to be reviewed"] if block.need_review else []),
    ]
    noted = f" ({portable_line('; '.join(notes))})" if notes else ""
    return f"**{portable_line(block.name)}**{noted}" + (f": {portable_line(block.prompt)}" if block.prompt else "")
