"""Dependency graph of the blocks of a project.

A block is a box with name and state in words. An empty block has a dashed border, a stale block a thick border.
Blocks are arranged in columns, each to the right of its dependencies.

::

    0         1         2
    Method ─┬─ Rates ──── Summary
    Gauges ─┘────────────┘             an arrow that crosses a column has a lane of its own there

Within a column the blocks keep the order of the document, so that a drawing changes only where the project changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artifactflow_nb.analysis.plots.canvas import VERMILLION, canvas, finish, message_only, name_text
from artifactflow_nb.core.language import translate, translate_list
from artifactflow_nb.core.text.format import translate_count
from artifactflow_nb.plugins.projects.tree import STATUS_NAMES, Block, BlockTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_PX, LANE_PX = 46, 14
"""Heights of a block's row and of a crossing arrow's lane, in pixels."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from a block to a dependent block.

    Attributes:
        lanes: Vertical position in each column between the two blocks, from left to right.
        is_stale: True if the dependency changed after the dependent block was written.
    """

    source_id: str
    target_id: str
    lanes: tuple[float, ...]
    is_stale: bool


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Positions of blocks and arrows.

    Attributes:
        columns: Column of each block, by id, from 0.
        middles: Vertical centre of each block, by id, in pixels from the top.
        arrows: Dependencies, in the order of the document.
        height: Total height in pixels.
    """

    columns: Mapping[str, int]
    middles: Mapping[str, float]
    arrows: tuple[Arrow, ...]
    height: float

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return max(self.columns.values(), default=-1) + 1


def layout_graph(tree: BlockTree) -> GraphLayout:
    """Arrange the blocks of a project; a dependency on a group counts as a dependency on each block in the group.

    Errors: `UsageError` for cyclic dependencies.
    """
    columns: dict[str, int] = {}
    for block_id in tree.topological_order:  # each block is to the right of all its dependencies
        sources = [columns[source] for source in tree.dependencies(block_id) if source in columns]
        columns[block_id] = 1 + max(sources, default=-1)
    n_columns = max(columns.values(), default=-1) + 1
    block_ids = [block.block_id for block in tree if not block.is_group]
    edges = [(source, target) for target in block_ids for source in tree.dependencies(target) if source in tree]
    crossing = [{s for s, t in edges if columns[s] < column < columns[t]} for column in range(n_columns)]
    middles: dict[str, float] = {}
    lanes: dict[tuple[str, int], float] = {}
    height = 0.0
    for column, crossing_sources in enumerate(crossing):
        y = 0.0
        for block_id in block_ids:
            if columns[block_id] == column:
                middles[block_id], y = y + ROW_PX / 2, y + ROW_PX
            elif block_id in crossing_sources:
                lanes[block_id, column], y = y + LANE_PX / 2, y + LANE_PX
        height = max(height, y)
    arrows = [
        Arrow(
            source,
            target,
            tuple(lanes[source, column] for column in range(columns[source] + 1, columns[target])),
            target in tree.stale and (source in tree.stale or tree[target].basis.get(source) != tree[source].sha256),
        )
        for source, target in edges
    ]
    return GraphLayout(columns, middles, tuple(arrows), height)


_WIDE_PX, _BOX_HEIGHT_PX, _GAP_PX = 180, 36, 60
_PX_PER_INCH = 90
_MAX_BLOCKS = 200
_MAX_NAMED = 12


def state_text(tree: BlockTree, block: Block) -> str:
    """Describe the state of a block, such as `draft, stale`."""
    return translate_list(map(translate, [STATUS_NAMES[tree.status(block.block_id)], *tree.marks(block.block_id)]))


def plot_blocks(name: str, tree: BlockTree, ax: "Axes | None" = None) -> "Axes":
    """Draw the dependency graph of the blocks of the project with this name.

    Errors: `UsageError` for cyclic dependencies, and if matplotlib is missing.
    """
    blocks = [block for block in tree if not block.is_group]
    layout = layout_graph(tree)
    title, description = translate("Blocks of {name}", name=name_text(name)), _describe(tree, blocks, layout)
    with canvas(ax, layout.height / _PX_PER_INCH / 0.34) as axes:
        if not blocks:
            return message_only(axes, title, description)
        if len(blocks) > _MAX_BLOCKS:
            return message_only(
                axes,
                title,
                translate(
                    "{blocks} are too many to be drawn: the table lists them.",
                    blocks=translate_count(len(blocks), "block"),
                ),
            )
        from matplotlib.patches import FancyBboxPatch

        ink = axes.title.get_color()
        for block in blocks:
            is_stale = block.block_id in tree.stale
            x, y = _left(layout.columns[block.block_id]), layout.middles[block.block_id]
            look: dict[str, Any] = {"edgecolor": VERMILLION if is_stale else ink, "linewidth": 3 if is_stale else 1}
            look |= {"boxstyle": "round,pad=0,rounding_size=5", "linestyle": "-" if block.sha256 else "--"}
            corner = x, y - _BOX_HEIGHT_PX / 2
            axes.add_patch(FancyBboxPatch(corner, _WIDE_PX, _BOX_HEIGHT_PX, facecolor="none", **look))
            sign = "! " if is_stale else "✓ " if block.status == "completed" else ""
            axes.text(x + 8, y - 8, name_text(block.name, 24), va="center", fontsize="small", fontweight="bold")
            axes.text(x + 8, y + 8, sign + name_text(state_text(tree, block), 28), va="center", fontsize="small")
        for arrow in layout.arrows:
            look = {"color": "gray", "linewidth": 1.2}
            if arrow.is_stale:
                look = {"color": VERMILLION, "linestyle": "--", "linewidth": 2}
            column, y = layout.columns[arrow.source_id], layout.middles[arrow.source_id]
            xs, ys = [_left(column) + _WIDE_PX], [y]
            for n, lane in enumerate(arrow.lanes, column + 1):  # straight in the lane of each crossed column
                xs += [_left(n), _left(n) + _WIDE_PX]
                ys += [lane, lane]
            axes.plot(xs, ys, **look)
            end = _left(layout.columns[arrow.target_id]), layout.middles[arrow.target_id]
            axes.annotate("", end, (xs[-1], ys[-1]), arrowprops={"arrowstyle": "-|>", **look})
        axes.set_xlim(-4, _left(layout.n_columns) - _GAP_PX + 4)
        axes.set_ylim(layout.height, 0)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        notes = [translate("Arrow: from a block to a dependent block.")] if layout.arrows else []
        notes += [translate("Dashed arrow: changed since.")] if any(arrow.is_stale for arrow in layout.arrows) else []
        notes += [translate("Dashed box: empty.")] if any(not block.sha256 for block in blocks) else []
        return finish(axes, title, description, notes)


def _describe(tree: BlockTree, blocks: Sequence[Block], layout: GraphLayout) -> str:
    """Describe the numbers of blocks and columns, and the names of stale and empty blocks."""
    if not blocks:
        return translate("No blocks yet.")
    numbers = translate_count(len(blocks), "block"), translate_count(layout.n_columns, "column")
    sentences = [
        translate("{blocks} in {columns}, each right of its dependencies.", blocks=numbers[0], columns=numbers[1])
    ]
    stale = [block.name for block in blocks if block.block_id in tree.stale]
    empty = [block.name for block in blocks if not block.sha256]
    sentences += [translate("Stale: {names}.", names=_listed(stale))] if stale else []
    sentences += [translate("Empty: {names}.", names=_listed(empty))] if empty else []
    return " ".join(sentences)


def _listed(names: Sequence[str]) -> str:
    named, n_more = translate_list(names[:_MAX_NAMED]), len(names) - _MAX_NAMED
    return translate("{names} and {n} more", names=named, n=n_more) if n_more > 0 else named


def _left(column: int) -> float:
    return column * (_WIDE_PX + _GAP_PX)
