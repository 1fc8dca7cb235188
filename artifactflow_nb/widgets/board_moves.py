"""Where a card goes that is moved, as edits of the tree: one step by the keys, or where it was let go."""

from collections.abc import Sequence

from artifactflow_nb.block_edits import BlockEdit, Place, moved
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.errors import UsageError
from artifactflow_nb.widgets.board_nodes import CARD, GROUP, PHASE


def stepped(block_id: str, to: str) -> BlockEdit:
    """A block a step `up` or `down` in its place, or at the end of the phase to its `left` or `right`.

    Errors: `UsageError` where there is no further step that way.
    """
    return lambda tree: moved(tree, block_id, _next_place(tree, _block(tree, block_id), to))


def dropped(card: str, into: str, before: str) -> BlockEdit:
    """A block in a list, in front of a card or at its end, all named by their keys on the board."""

    def edit(tree: BlockTree) -> Sequence[Block]:
        block_id = card.removeprefix(CARD)
        phase = into.removeprefix(PHASE) if into.startswith(PHASE) else ""
        group = into.removeprefix(GROUP) if into.startswith(GROUP) else ""
        return moved(tree, block_id, Place(phase, group, before.removeprefix(CARD)))

    return edit


def place_of(tree: BlockTree, block_id: str) -> str:
    """Where a block stands, in words: `2 of 3 in Report`."""
    block = tree[block_id]
    beside = _beside(tree, block)
    where = tree.name(block.parent) if block.parent in tree else block.phase
    return f"{beside.index(block_id) + 1} of {len(beside)} in {where}"


def _next_place(tree: BlockTree, block: Block, to: str) -> Place:
    beside = _beside(tree, block)
    at = beside.index(block.block_id)
    if to in {"up", "down"}:
        if at == (0 if to == "up" else len(beside) - 1):
            raise UsageError(f"{block.name!r} is the {'first' if to == 'up' else 'last'} in its place already.")
        behind = beside[at - 1] if to == "up" else next(iter(beside[at + 2 :]), "")
        group = _group(tree, block)
        return Place("" if group else block.phase, group, behind)
    n = tree.phases.index(block.phase) + (1 if to == "right" else -1)
    if not 0 <= n < len(tree.phases):
        raise UsageError(f"{block.name!r} is in the {'last' if to == 'right' else 'first'} phase already.")
    return Place(tree.phases[n])


def _beside(tree: BlockTree, block: Block) -> list[str]:
    """The ids of the blocks in the same place, in order."""
    return [one.block_id for one in tree.children(_group(tree, block)) if one.phase == block.phase]


def _group(tree: BlockTree, block: Block) -> str:
    """The group that it stands in; empty at the top, where what is in no group that there is stands."""
    return block.parent if block.parent in tree else ""


def _block(tree: BlockTree, block_id: str) -> Block:
    if (block := tree.get(block_id)) is None:
        raise UsageError("This block is not there any more.")
    return block
