"""Where the blocks of a project stand in a drawing of what rests on what: in columns, each right of what it rests on.

::

    0         1         2
    Method ─┬─ Rates ──── Summary
    Gauges ─┘────────────┘             an arrow that passes a column has a lane of its own there

Within a column blocks stand in the order of the document, so that a drawing changes only where the project does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from artifactflow_nb.blocks import BlockTree

ROW, LANE = 46, 14
"""How high the place of a block is, and that of an arrow which passes it; in pixels."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line from a block to one that rests on it.

    Attributes:
        need: What is rested on, by id.
        user: What rests on it, by id.
        lanes: How high the arrow is in each of the columns between the two, from left to right.
        is_behind: Whether the one is not as it was when the other was written from it.
    """

    need: str
    user: str
    lanes: tuple[float, ...]
    is_behind: bool


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """A drawing's plan.

    Attributes:
        columns: The column of each block, by id, from 0.
        middles: How high the middle of each block is, in pixels from the top.
        arrows: What rests on what, in the order of the document.
        height: How high all of it is.
    """

    columns: Mapping[str, int]
    middles: Mapping[str, float]
    arrows: tuple[Arrow, ...]
    height: float

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        return max(self.columns.values(), default=-1) + 1


def lay_out(tree: BlockTree) -> GraphLayout:
    """The plan of the texts of a project; groups stand for the texts in them.

    Errors: `UsageError` for blocks that rest on themselves.
    """
    columns = _columns(tree)
    texts = [block.block_id for block in tree if not block.is_group]
    pairs = [(need, key) for key in texts for need in tree.rests_on(key) if need in tree]
    passing = [{need for need, key in pairs if columns[need] < n < columns[key]} for n in range(_n(columns))]
    middles: dict[str, float] = {}
    lanes: dict[tuple[str, int], float] = {}
    height = 0.0
    for n, through in enumerate(passing):
        y = 0.0
        for key in texts:
            if columns[key] == n:
                middles[key], y = y + ROW / 2, y + ROW
            elif key in through:
                lanes[key, n], y = y + LANE / 2, y + LANE
        height = max(height, y)
    arrows = [
        Arrow(
            need,
            key,
            tuple(lanes[need, n] for n in range(columns[need] + 1, columns[key])),
            key in tree.stale and (need in tree.stale or tree[key].basis.get(need) != tree[need].sha256),
        )
        for need, key in pairs
    ]
    return GraphLayout(columns, middles, tuple(arrows), height)


def _columns(tree: BlockTree) -> dict[str, int]:
    """The column of each text: right of everything that it rests on, else the first."""
    found: dict[str, int] = {}
    for key in tree.in_turn:
        found[key] = 1 + max((found[need] for need in tree.rests_on(key) if need in found), default=-1)
    return found


def _n(columns: Mapping[str, int]) -> int:
    return max(columns.values(), default=-1) + 1
