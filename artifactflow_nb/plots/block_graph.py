"""What rests on what in a project, as a drawing and as a table that says the same.

A block is a box with its name and its state in words; an empty one has a broken edge, a stale one a thick one.
"""

from collections.abc import Iterator, Sequence

from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.plots.block_layout import Arrow, GraphLayout, lay_out
from artifactflow_nb.plots.still import BOTH_STYLE, drawn, image
from artifactflow_nb.plots.svg import COLUMN_PX, VERMILLION, heading, label, nothing, picture, quiet, xml
from artifactflow_nb.text.cards import Fold, Table, framed, markdown_text, quiet_style, visible
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.markdown import escape

_HIGH_PX, _GAP_PX = 36, 54
_LEFT_PX, _TOP_PX, _END_PX = 12, 34, 34
_WIDE_PX = {4: 206, 6: 168}
"""How wide a box is in a drawing of at most so many columns."""
_NARROW_PX = 116
_MOST_BLOCKS = 200
_MOST_IMAGE_CHARS = 200_000
_MOST_NAMED = 12
_KEY = "An arrow leads to what rests on a block; a broken one leads from what was changed since."


def marks(tree: BlockTree, block: Block) -> str:
    """The state of a block in words: `draft, stale`."""
    said = [tree.status(block.block_id).replace("_", " ")]
    said += ["stale"] if block.block_id in tree.stale else []
    said += ["to be reviewed"] if block.sha256 and not block.is_usable else []
    return ", ".join(said)


class BlockGraph:
    """A project's blocks with what rests on what; as the last value of a cell it shows itself.

    Args:
        name: The project's name.
        tree: The blocks.

    Attributes:
        svg: The drawing; the same for the same blocks.
        description: What there is to see, in a sentence or two.
        table: The same as a table: each text, its state, and what it rests on.

    Errors: `UsageError` for blocks that rest on themselves.
    """

    def __init__(self, name: str, tree: BlockTree) -> None:
        self.name = name
        texts = [block for block in tree if not block.is_group]
        layout = lay_out(tree)
        self.description = _told(tree, texts, layout)
        self.table = Table(["block", "state", "depends on"], [_row(tree, block) for block in texts])
        self.svg = _svg(f"Blocks of {name}", self.description, tree, texts, layout)

    def __repr__(self) -> str:
        table = [self.table.plain()] if self.table.rows else []
        return visible("\n".join([f"Blocks of {self.name}", self.description, *table]))

    def _still(self) -> str:
        """The drawing as an image; its words where that would be too large to be kept."""
        if len(self.svg) > _MOST_IMAGE_CHARS:
            return f"<p>{escape(self.description)}</p>"
        return image(self.svg, f"Blocks of {self.name}. {self.description}")

    @property
    def _fold(self) -> Fold:
        return Fold(f"The same as a table: {count(len(self.table.rows), 'block')}", self.table)

    def _repr_markdown_(self) -> str:
        head = f"**Blocks of {markdown_text(self.name)}**"
        return f"{head}\n\n{self._still()}\n\n{self._fold.markdown()}"

    def _repr_html_(self) -> str:
        return f"{quiet_style(BOTH_STYLE)}{framed(self.html())}"

    def html(self) -> str:
        """The drawing with its table, as elements for a page that has the style of cards and `BOTH_STYLE`."""
        return f'<div class="af-run">{drawn(self.svg, self._still())}{self._fold.html()}</div>'


def _row(tree: BlockTree, block: Block) -> list[str]:
    needs = ", ".join(map(tree.name, block.depends_on))
    return [tree.path(block.block_id), marks(tree, block), needs]


def _told(tree: BlockTree, texts: Sequence[Block], layout: GraphLayout) -> str:
    """How many blocks there are, in how many layers, and which of them are stale or empty."""
    if not texts:
        return "No blocks yet."
    stale = [block for block in texts if block.block_id in tree.stale]
    empty = [block for block in texts if not block.sha256]
    where = f"{count(len(texts), 'block')} in {count(layout.n_columns, 'column')}, each right of what it rests on."
    return " ".join([where, *_listed("Stale", stale), *_listed("Empty", empty)])


def _listed(what: str, blocks: Sequence[Block]) -> Iterator[str]:
    if blocks:
        more = f" and {len(blocks) - _MOST_NAMED} more" if len(blocks) > _MOST_NAMED else ""
        yield f"{what}: {', '.join(block.name for block in blocks[:_MOST_NAMED])}{more}."


# --- the drawing -----------------------------------------------------------------------------------------------------


def _svg(title: str, told: str, tree: BlockTree, texts: Sequence[Block], layout: GraphLayout) -> str:
    if not texts:
        return nothing(title, told)
    if len(texts) > _MOST_BLOCKS:
        return nothing(title, f"{len(texts)} blocks are too many to be drawn: the table lists them.")
    wide = next((px for most, px in _WIDE_PX.items() if layout.n_columns <= most), _NARROW_PX)
    arrows = "".join(_arrow(arrow, layout, wide) for arrow in layout.arrows)
    boxes = "".join(_box(tree, block, layout, wide) for block in texts)
    size = (
        max(2 * _LEFT_PX + layout.n_columns * (wide + _GAP_PX) - _GAP_PX, 560),
        _TOP_PX + layout.height + _END_PX,
    )
    key = quiet(label(_LEFT_PX, size[1] - 12, _KEY, 100)) if layout.arrows else ""
    return picture(size, title, told, heading(title), arrows, boxes, key)


def _x(column: int, wide: int) -> float:
    return _LEFT_PX + column * (wide + _GAP_PX)


def _box(tree: BlockTree, block: Block, layout: GraphLayout, wide: int) -> str:
    x, y = _x(layout.columns[block.block_id], wide), _TOP_PX + layout.middles[block.block_id] - _HIGH_PX / 2
    is_stale = block.block_id in tree.stale
    edge = f'stroke="{VERMILLION}" stroke-width="3"' if is_stale else 'stroke="currentColor" stroke-opacity=".6"'
    broken = "" if block.sha256 else ' stroke-dasharray="4 3"'
    columns = int((wide - 20) / COLUMN_PX)
    needs = ", ".join(map(tree.name, block.depends_on))
    tip = f"{tree.path(block.block_id)}: {marks(tree, block)}" + (f"; depends on {needs}" if needs else "")
    sign = "! " if is_stale else "✓ " if block.status == "completed" else ""
    return (
        f'<g><title>{xml(tip)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{wide}" height="{_HIGH_PX}" rx="6" '
        f'fill="currentColor" fill-opacity=".05" {edge}{broken}/>'
        + label(x + 10, y + 15, block.name, columns, more='font-weight="600"')
        + label(x + 10, y + 29, sign + marks(tree, block), columns, more='fill-opacity=".8"')
        + "</g>"
    )


def _arrow(arrow: Arrow, layout: GraphLayout, wide: int) -> str:
    column = layout.columns[arrow.need]
    y = _TOP_PX + layout.middles[arrow.need]
    path = f"M{_x(column, wide) + wide:.1f} {y:.1f}"
    ends = [*arrow.lanes, layout.middles[arrow.user]]
    for n, end in enumerate(ends, column + 1):
        start, x, to = _x(n - 1, wide) + wide, _x(n, wide), _TOP_PX + end
        middle = (start + x) / 2
        path += f"C{middle:.1f} {y:.1f} {middle:.1f} {to:.1f} {x:.1f} {to:.1f}"
        path += f"H{x + wide:.1f}" if n - column < len(ends) else ""
        y = to
    x = _x(layout.columns[arrow.user], wide)
    look = f'stroke="{VERMILLION}" stroke-width="2" stroke-dasharray="5 3"' if arrow.is_behind else _CALM
    head = f'<path d="M{x:.1f} {y:.1f}l-7 -3.5v7z" fill="{VERMILLION if arrow.is_behind else "currentColor"}"/>'
    return f'<path d="{path}" fill="none" {look}/>{head}'


_CALM = 'stroke="currentColor" stroke-width="1.3" stroke-opacity=".6"'
