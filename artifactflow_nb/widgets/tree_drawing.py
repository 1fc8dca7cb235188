"""A conversation's tree as SVG.

The drawing has no size of its own: it is as wide as what it stands in. Its texts are cut into pieces, and
`tree_view.css` hides the later pieces where there is little room; without that style all of them show. With attributes
from a view the nodes are a tree that keys and clicks act on, without them a list that is read.
"""

from collections.abc import Callable, Sequence

from artifactflow_nb.store.tree_reading import TreeEntry
from artifactflow_nb.text.chinese import language_tag
from artifactflow_nb.text.markdown import escape
from artifactflow_nb.text.width import cut, width
from artifactflow_nb.widgets import labels
from artifactflow_nb.widgets.tree_folding import Fold
from artifactflow_nb.widgets.tree_layout import Line, Row, TreeLayout
from artifactflow_nb.widgets.tree_text import NOTHING, facts, fold_text, label, one_line

Attributes = Callable[[TreeEntry | Fold], str]
"""Gives the attributes, as HTML, that let a node act in a page."""

_ROW_PX, _FOLD_PX, _START_PX = 48, 30, 24
_LANE_PX, _LEFT_PX, _CORNER_PX, _TEXT_PX = 24, 18, 8, 20
_RADIUS_PX, _GAP_PX, _FOLD_RADIUS_PX = 9, 3, 7
_DEEPEST_LANE = 9
_TIERS_PX = (250, 380, 540, 720)
"""Widths from which on a drawing shows more; `tree_view.css` names the same ones."""
_COLUMN_PX, _BOLD_COLUMN_PX, _SMALL_COLUMN_PX = 7.5, 8.4, 6.4
"""What a column of a text takes, with a wide font."""


def tree_svg(
    layout: TreeLayout, *, selected: str | None = None, attributes: Attributes | None = None, measured: bool = True
) -> str:
    """The drawing; every text in it is escaped.

    Args:
        layout: What to draw.
        selected: The message that is read; it is marked, and has the place in the order of Tab keys.
        attributes: What a view adds to each node; None for a drawing that nothing can be done with.
        measured: Show tokens, costs and times.
    """
    tops, height = _tops(layout)
    focus = _focus(layout.rows, selected)
    nodes: list[str] = []
    for place, row in enumerate(layout.rows):
        chosen = "true" if _id(row) == selected else "false"
        acting = (
            ""
            if attributes is None
            else (f' tabindex="{0 if place == focus else -1}" aria-selected="{chosen}" {attributes(row.what)}')
        )
        begin = f'<g transform="translate(0 {tops[place]})" class="{_classes(row, selected)}"'
        nodes.append(f"{begin}{_role(row, attributes, measured)}{acting}>{_node(row, measured)}</g>")
    role = "tree" if attributes is not None else "list"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="af-branches" role="{role}" aria-label="Questions" '
        f'width="100%" height="{height}" fill="currentColor" font-size="13.5">'
        f"{_start(layout)}{_lines(layout, tops)}{''.join(nodes) or _NOTHING}</svg>"
    )


_NOTHING = f'<text x="4" y="20">{NOTHING}</text>'


def _tops(layout: TreeLayout) -> tuple[list[int], int]:
    """Where each row begins, in pixels from the top, and where the last one ends."""
    tops, y = [], _START_PX if layout.has_start else 0
    for row in layout.rows:
        tops.append(y)
        y += _FOLD_PX if isinstance(row.what, Fold) else _ROW_PX
    return tops, max(y, _FOLD_PX)


def _focus(rows: Sequence[Row], selected: str | None) -> int:
    """The row that Tab leads to: the selected message, else the active one, else the first."""
    places = {_id(row): place for place, row in enumerate(rows)}
    active = next((_id(row) for row in rows if isinstance(row.what, TreeEntry) and row.what.is_active), "")
    return places.get(selected or "", places.get(active, 0))


def _id(row: Row) -> str:
    return row.what.message_ids[0] if isinstance(row.what, Fold) else row.what.message_id


def _x(lane: int) -> int:
    return _LEFT_PX + _LANE_PX * min(lane, _DEEPEST_LANE)


def _middle(row: Row) -> int:
    """Where a row's node is, in pixels below its top."""
    return _FOLD_PX // 2 if isinstance(row.what, Fold) else _ROW_PX // 2


# --- lines -----------------------------------------------------------------------------------------------------------


def _lines(layout: TreeLayout, tops: Sequence[int]) -> str:
    middles = [top + _middle(row) for top, row in zip(tops, layout.rows, strict=True)]
    radii = [_FOLD_RADIUS_PX if isinstance(row.what, Fold) else _RADIUS_PX + _GAP_PX for row in layout.rows]
    active, others = "", ""
    for line in layout.lines:
        begin = middles[line.upper] + radii[line.upper] if line.upper >= 0 else _START_PX // 2 + 4
        path = _path(line, begin, middles[line.lower], radii[line.lower])
        active, others = (active + path, others) if line.is_active else (active, others + path)
    return (
        '<g fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">'
        f'<path class="af-line" d="{others}"/><path class="af-line af-on" d="{active}"/></g>'
    )


def _path(line: Line, begin: int, end: int, radius: int) -> str:
    x, to = _x(line.from_lane), _x(line.to_lane)
    if line.from_lane == line.to_lane:
        return f"M{x} {begin}V{end - radius}"
    return (
        f"M{x} {begin}V{end - _CORNER_PX}q0 {_CORNER_PX} {_CORNER_PX} {_CORNER_PX}H{max(to - radius, x + _CORNER_PX)}"
    )


def _start(layout: TreeLayout) -> str:
    if not layout.has_start:
        return ""
    y = _START_PX // 2
    return (
        f'<g class="af-start" aria-hidden="true"><circle cx="{_LEFT_PX}" cy="{y}" r="4"/>'
        f'<text x="{_LEFT_PX + _TEXT_PX}" y="{y + 4}" font-size="11.5">Start</text></g>'
    )


# --- nodes -----------------------------------------------------------------------------------------------------------


def _classes(row: Row, selected: str | None) -> str:
    what = row.what
    names = ["af-node", "af-fold" if isinstance(what, Fold) else f"af-{what.status}"]
    names += ["af-on"] if what.is_on_active_branch else []
    names += ["af-active"] if isinstance(what, TreeEntry) and what.is_active else []
    names += ["af-selected"] if _id(row) == selected else []
    return " ".join(names)


def _role(row: Row, attributes: Attributes | None, measured: bool) -> str:
    role = "treeitem" if attributes is not None else "listitem"
    return f' role="{role}" aria-level="{row.lane + 1}" aria-label="{escape(label(row, measured=measured))}"'


def _node(row: Row, measured: bool) -> str:
    what, x, y = row.what, _x(row.lane), _middle(row)
    text = x + _TEXT_PX
    if isinstance(what, Fold):
        dots = "".join(f'<circle cx="{x}" cy="{y + step}" r="1.5"/>' for step in (-5, 0, 5))
        said = f'<text class="af-facts" x="{text}" y="{y + 4}" font-size="12">… {fold_text(what)}</text>'
        return _hit(_FOLD_PX) + dots + said
    ring = f'<circle class="af-ring" cx="{x}" cy="{y}" r="{_RADIUS_PX + _GAP_PX}" fill="none"/>'
    tag = language_tag(what.question)
    language = f' lang="{tag}"' if tag else ""
    sign = labels.MARKS[what.status]
    return (
        f'{_hit(_ROW_PX)}{ring if what.is_active else ""}<circle class="af-dot" cx="{x}" cy="{y}" r="{_RADIUS_PX}"/>'
        f'<text class="af-sign" x="{x}" y="{y + 4}" font-size="11" text-anchor="middle">{sign}</text>'
        f'<text class="af-asked" x="{text}" y="{y - 3}"{language}>{_question(what, text)}</text>'
        f'<text class="af-facts" x="{text}" y="{y + 14}" font-size="11.5">{_facts(row, what, text, measured)}</text>'
    )


def _hit(height: int) -> str:
    """What is clicked, and coloured when a node is selected or pointed at."""
    return f'<rect class="af-hit" x="1" y="1" width="100%" height="{height - 2}" rx="7" fill="none"/>'


def _question(entry: TreeEntry, x: int) -> str:
    """The question in pieces for the widths of the drawing, behind each an ellipsis for where it is the last."""
    line = one_line(entry.question)
    made: list[str] = []
    begin = 0
    for tier, pixels in enumerate(_TIERS_PX):
        columns = int((pixels - x - 8) / (_BOLD_COLUMN_PX if entry.is_on_active_branch else _COLUMN_PX))
        if width(line) <= columns:
            made.append(_piece(line[begin:], tier))
            break
        end = max(begin, len(cut(line, columns - 1).rstrip()))
        made += [_piece(line[begin:end], tier), f'<tspan class="af-e{tier}"{_hidden(tier)}>…</tspan>']
        begin = end
    return "".join(made)


def _piece(text: str, tier: int) -> str:
    return f'<tspan class="af-t{tier}">{escape(text)}</tspan>' if tier else escape(text)


def _hidden(tier: int) -> str:
    """Without a style only the last ellipsis shows: nothing is left out but behind the last piece."""
    return ' display="none"' if tier < len(_TIERS_PX) - 1 else ""


def _facts(row: Row, entry: TreeEntry, x: int, measured: bool) -> str:
    """What a node's turn took, as far as there is room."""
    made: list[str] = []
    columns = 0
    for fact in facts(row, entry, measured=measured):
        text = f" · {fact}" if made else fact
        columns += width(text)
        fitting = (tier for tier, pixels in enumerate(_TIERS_PX) if x + 8 + columns * _SMALL_COLUMN_PX <= pixels)
        made.append(_piece(text, next(fitting, len(_TIERS_PX) - 1)))
    return "".join(made)
