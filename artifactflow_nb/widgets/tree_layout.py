"""Where the nodes of a conversation's tree stand: a row each, time running down, a column per branch.

::

    o  What is tea?           the active branch has the first column
    ├─ o  And coffee?         a branch stands where it left, between the question that it follows and the next one;
    │  o  With milk?          its own branches have the column beside it
    o  Where does it grow?

Lines never cross, and a branch stays together however its questions and those of others took turns.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from artifactflow_nb.store.tree_reading import TreeEntry
from artifactflow_nb.widgets.tree_folding import LIMIT, Fold, FoldedTree, Item


@dataclass(frozen=True, slots=True)
class Row:
    """A node of the tree, from top to bottom.

    Attributes:
        what: The message, or the fold that stands for several.
        lane: Its column, 0 being the active branch's.
        turn: Which question of its branch it is, from 1; of a fold its first.
        sibling: Which of the messages in its place it is, from 1; the oldest is the first. 1 for a fold.
        n_siblings: How many messages stand in its place; 1 for a fold.
    """

    what: TreeEntry | Fold
    lane: int
    turn: int
    sibling: int = 1
    n_siblings: int = 1


@dataclass(frozen=True, slots=True)
class Line:
    """What joins two rows: straight down in one column, or from a column into the next one at the lower row.

    The upper row is -1 for the start of the conversation, above all rows.
    """

    upper: int
    lower: int
    from_lane: int
    to_lane: int
    is_active: bool


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """The rows and the lines between them.

    Attributes:
        rows: From top to bottom.
        lines: Those between them.
        has_start: Whether the lines begin at a start above the rows, because there are several first questions.
    """

    rows: tuple[Row, ...]
    lines: tuple[Line, ...]
    has_start: bool


def lay_out(
    entries: Sequence[TreeEntry], *, selected: str | None = None, opened: Collection[str] = (), limit: int = LIMIT
) -> TreeLayout:
    """Arrange a conversation.

    Args:
        entries: All its messages, the oldest first.
        selected: A message that has to have a row; the active one has one anyway.
        opened: Messages that a reader wants to see, as `Fold.first_to_open` names them.
        limit: Up to how many messages none is folded; else about so many are shown.
    """
    return _Arranging(FoldedTree(entries, selected, opened, limit)).layout()


class _Arranging:
    """Goes through the tree, down the branches beside before down the one that keeps the column."""

    def __init__(self, tree: FoldedTree) -> None:
        self._tree = tree
        self._rows: list[Row] = []
        self._lines: list[Line] = []
        self._turns: dict[str | None, int] = {None: 0}
        for message_id, entry in tree.entries.items():
            self._turns[message_id] = self._turns[entry.parent_id] + 1

    def layout(self) -> TreeLayout:
        roots = self._ordered(None)
        has_start = len(roots) > 1
        waiting = self._placed(roots, -1, 0)[::-1]
        while waiting:
            item, upper, from_lane, to_lane = waiting.pop()
            here = len(self._rows)
            self._rows.append(self._row(item.what, to_lane))
            if upper >= 0 or has_start:
                self._lines.append(Line(upper, here, from_lane, to_lane, item.what.is_on_active_branch))
            waiting += self._placed(self._ordered(item.what), here, to_lane)[::-1]
        return TreeLayout(tuple(self._rows), tuple(self._lines), has_start)

    def _ordered(self, what: TreeEntry | Fold | None) -> list[Item]:
        """What follows, by age; last what keeps the column: the active branch, else the one that was asked last."""
        items = list(self._tree.below(what))
        if items:
            heir = max(items, key=lambda item: (item.what.is_on_active_branch, item.newest))
            items.remove(heir)
            items.append(heir)
        return items

    @staticmethod
    def _placed(items: Sequence[Item], upper: int, lane: int) -> list[tuple[Item, int, int, int]]:
        last = len(items) - 1
        return [(item, upper, lane, lane if place == last else lane + 1) for place, item in enumerate(items)]

    def _row(self, what: TreeEntry | Fold, lane: int) -> Row:
        if isinstance(what, Fold):
            return Row(what, lane, self._turns[what.message_ids[0]])
        together = self._tree.siblings[what.parent_id]
        return Row(what, lane, self._turns[what.message_id], together.index(what.message_id) + 1, len(together))
