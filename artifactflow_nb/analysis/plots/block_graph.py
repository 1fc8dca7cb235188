"""Dependency graph of the blocks of a project, as a drawing with an equivalent table.

A block is a box with its name and its state in words. An empty block has a dashed border, a stale one a thick border.
Blocks are arranged in columns, each to the right of its dependencies.

::

    0         1         2
    Method ─┬─ Rates ──── Summary
    Gauges ─┘────────────┘             an arrow that crosses a column has a lane of its own there

Within a column the blocks keep the order of the document, so that a drawing changes only where the project changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from artifactflow_nb.analysis.plots.chart import TEXT, Chart, typed_frame
from artifactflow_nb.analysis.plots.svg import (
    COLUMN_PX,
    VERMILLION,
    drawing,
    empty_drawing,
    escape_xml,
    faint,
    heading,
    label,
)
from artifactflow_nb.core.document.tree import Block, BlockTree
from artifactflow_nb.core.language import ENGLISH, Texts

ROW_PX, LANE_PX = 46, 14
"""Heights of a block's row and of a crossing arrow's lane, in pixels."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from a block to a dependent block.

    Attributes:
        lanes: Vertical position in each column between the two, from left to right.
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
    """Arrange the blocks of a project; a dependency on a group counts as one on each block in it.

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


_BOX_HEIGHT_PX, _GAP_PX = 36, 54
_LEFT_PX, _TOP_PX, _END_PX = 12, 34, 34
_WIDE_PX = {4: 206, 6: 168}
"""Width of a box, by the largest number of columns to which it applies."""
_NARROW_PX = 116
_MAX_BLOCKS = 200
_MAX_NAMED = 12


def state_text(tree: BlockTree, block: Block, texts: Texts) -> str:
    """Describe the state of a block, such as `draft, stale`."""
    words = [texts(f"status_{tree.status(block.block_id)}")]
    words += [texts("stale")] if block.block_id in tree.stale else []
    words += [texts("to_be_reviewed")] if block.sha256 and not block.is_usable else []
    return texts.listed(words)


def plot_blocks(name: str, tree: BlockTree, texts: Texts = ENGLISH) -> Chart:
    """Draw the dependency graph of the blocks of the project with this name.

    Errors: `UsageError` for cyclic dependencies.
    """
    blocks = [block for block in tree if not block.is_group]
    layout = layout_graph(tree)
    title, description = texts("blocks_of", name=name), _describe(tree, blocks, layout, texts)
    svg, frame = _svg(title, description, tree, blocks, layout, texts), _frame(tree, blocks, texts)
    return Chart(title, description, svg, frame, language=texts.language)


def _frame(tree: BlockTree, blocks: Sequence[Block], texts: Texts) -> pd.DataFrame:
    return typed_frame(
        {
            "block": (TEXT, [tree.path(block.block_id) for block in blocks]),
            "state": (TEXT, [state_text(tree, block, texts) for block in blocks]),
            "depends_on": (TEXT, [texts.listed(map(tree.block_name, block.depends_on)) for block in blocks]),
        }
    )


def _describe(tree: BlockTree, blocks: Sequence[Block], layout: GraphLayout, texts: Texts) -> str:
    """Number of blocks and columns, and the names of stale and empty blocks."""
    if not blocks:
        return texts("no_blocks_yet")
    numbers = texts.count(len(blocks), "n_blocks"), texts.count(layout.n_columns, "n_columns")
    sentences = [texts("blocks_described", blocks=numbers[0], columns=numbers[1])]
    stale = [block.name for block in blocks if block.block_id in tree.stale]
    for key, names in ("blocks_stale", stale), ("blocks_empty", [block.name for block in blocks if not block.sha256]):
        listed, n_more = texts.listed(names[:_MAX_NAMED]), len(names) - _MAX_NAMED
        listed = texts("and_more", names=listed, n=n_more) if n_more > 0 else listed
        sentences += [texts(key, names=listed)] if names else []
    return " ".join(sentences)


# --- the drawing -----------------------------------------------------------------------------------------------------


def _svg(
    title: str, description: str, tree: BlockTree, blocks: Sequence[Block], layout: GraphLayout, texts: Texts
) -> str:
    if not blocks:
        return empty_drawing(title, description)
    if len(blocks) > _MAX_BLOCKS:
        return empty_drawing(title, texts("blocks_too_many", blocks=texts.count(len(blocks), "n_blocks")))
    wide = next((px for most, px in _WIDE_PX.items() if layout.n_columns <= most), _NARROW_PX)
    arrows = "".join(_arrow(arrow, layout, wide) for arrow in layout.arrows)
    boxes = ""
    for block in blocks:
        x, y = _x(layout.columns[block.block_id], wide), _TOP_PX + layout.middles[block.block_id] - _BOX_HEIGHT_PX / 2
        is_stale = block.block_id in tree.stale
        border = f'stroke="{VERMILLION}" stroke-width="3"' if is_stale else 'stroke="currentColor" stroke-opacity=".6"'
        dashes = "" if block.sha256 else ' stroke-dasharray="4 3"'
        columns, state = int((wide - 20) / COLUMN_PX), state_text(tree, block, texts)
        dependencies = texts.listed(map(tree.block_name, block.depends_on))
        tip = texts("titled", title=tree.path(block.block_id), text=state)
        tip += texts("tip_depends", names=dependencies) if dependencies else ""
        sign = "! " if is_stale else "✓ " if block.status == "completed" else ""
        boxes += (
            f'<g><title>{escape_xml(tip)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{wide}" '
            f'height="{_BOX_HEIGHT_PX}" rx="6" fill="currentColor" fill-opacity=".05" {border}{dashes}/>'
            + label(x + 10, y + 15, block.name, columns, more='font-weight="600"')
            + label(x + 10, y + 29, sign + state, columns, more='fill-opacity=".8"')
            + "</g>"
        )
    size = (max(2 * _LEFT_PX + layout.n_columns * (wide + _GAP_PX) - _GAP_PX, 560), _TOP_PX + layout.height + _END_PX)
    meaning = texts("arrow_key") if layout.arrows else ""
    meaning += texts("arrow_key_stale") if any(arrow.is_stale for arrow in layout.arrows) else ""
    meaning += texts("arrow_key_empty") if "stroke-dasharray" in boxes else ""
    key = faint(label(_LEFT_PX, size[1] - 12, meaning.strip(), 100)) if meaning else ""
    return drawing(size, title, description, heading(title), arrows, boxes, key)


def _x(column: int, wide: int) -> float:
    return _LEFT_PX + column * (wide + _GAP_PX)


def _arrow(arrow: Arrow, layout: GraphLayout, wide: int) -> str:
    column = layout.columns[arrow.source_id]
    y = _TOP_PX + layout.middles[arrow.source_id]
    path = f"M{_x(column, wide) + wide:.1f} {y:.1f}"
    ends = [*arrow.lanes, layout.middles[arrow.target_id]]
    # A curve through each gap between columns, and a straight line in the lane of each column that the arrow crosses.
    for n, end in enumerate(ends, column + 1):
        start, x, to = _x(n - 1, wide) + wide, _x(n, wide), _TOP_PX + end
        middle = (start + x) / 2
        path += f"C{middle:.1f} {y:.1f} {middle:.1f} {to:.1f} {x:.1f} {to:.1f}"
        path += f"H{x + wide:.1f}" if n - column < len(ends) else ""
        y = to
    x = _x(layout.columns[arrow.target_id], wide)
    look = f'stroke="{VERMILLION}" stroke-width="2" stroke-dasharray="5 3"' if arrow.is_stale else _SOLID_LINE
    head = f'<path d="M{x:.1f} {y:.1f}l-7 -3.5v7z" fill="{VERMILLION if arrow.is_stale else "currentColor"}"/>'
    return f'<path d="{path}" fill="none" {look}/>{head}'


_SOLID_LINE = 'stroke="currentColor" stroke-width="1.3" stroke-opacity=".6"'
