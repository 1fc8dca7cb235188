"""The content of a view as a tree of keyed nodes, and the difference between two such trees as a patch.

The page keeps an element per key, so folds, focus and scroll positions survive every patch. A patch says of an element
only what changed; of text that grew, only what was added.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Node:
    """An element of the view.

    Attributes:
        key: Its name, unique in the tree and the same for as long as it stands for the same thing.
        html: Its own content, sanitised: all of a leaf, the summary of a fold, the text above the buttons of an ask.
        kind: `leaf`, `box` (children only), `fold` (summary and children) or `ask` (a question with buttons).
        css: Class names.
        is_open: Whether a fold is open unless the reader said otherwise.
        data: For an ask: `request` (its id) and `tool`.
        children: The elements within, in order.
    """

    key: str
    html: str = ""
    kind: str = "leaf"
    css: str = ""
    is_open: bool = False
    data: Mapping[str, str] = field(default_factory=dict)
    children: tuple["Node", ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """A node where it stands: below `parent`, behind `after` (empty for the first)."""

    node: Node
    parent: str
    after: str

    @property
    def shape(self) -> list[Any]:
        """All but the content, as the page wants it."""
        node = self.node
        return [node.key, self.parent, self.after, node.kind, node.css, node.is_open, dict(node.data)]


def place(nodes: tuple[Node, ...], parent: str = "") -> Iterator[Placed]:
    """Every node of the tree, parents before children, each behind its elder sibling."""
    after = ""
    for node in nodes:
        yield Placed(node, parent, after)
        yield from place(node.children, node.key)
        after = node.key


class TreeDiff:
    """Remembers what the page has, and says what to change."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[list[Any], str]] = {}

    def snapshot(self, nodes: tuple[Node, ...]) -> dict[str, Any]:
        """The patch that makes the tree out of nothing."""
        self._sent = {}
        return self.patch(nodes)

    def patch(self, nodes: tuple[Node, ...]) -> dict[str, Any]:
        """What changed since the last call; empty if nothing did.

        `shape`: elements to make, move or alter, in order; `text`: [key, characters to keep, text to add behind them];
        `gone`: keys to remove.
        """
        now: dict[str, tuple[list[Any], str]] = {}
        shapes: list[list[Any]] = []
        texts: list[tuple[str, int, str]] = []
        for placed in place(nodes):
            key, html, shape = placed.node.key, placed.node.html, placed.shape
            old_shape, old_html = self._sent.get(key, (None, ""))
            if shape != old_shape:
                shapes.append(shape)
            if html != old_html:
                keep = _common_prefix(old_html, html)
                texts.append((key, _utf16_units(html[:keep]), html[keep:]))
            now[key] = (shape, html)
        gone = [key for key in self._sent if key not in now]
        self._sent = now
        parts = {"shape": shapes, "text": texts, "gone": gone}
        return {name: part for name, part in parts.items() if part}


def _common_prefix(old: str, new: str) -> int:
    """How many characters at the beginning are the same."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old.startswith(new[:middle]):
            low = middle
        else:
            high = middle - 1
    return low


def _utf16_units(text: str) -> int:
    """The length as the page counts it: characters beyond the first plane are two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def static_html(nodes: tuple[Node, ...]) -> str:
    """The tree as HTML that needs nothing else: folds are `<details>`, an ask is its text."""
    return "".join(_static_node(node) for node in nodes)


def _static_node(node: Node) -> str:
    inside = static_html(node.children)
    if node.kind == "fold":
        state = " open" if node.is_open else ""
        body = f'<div class="af-body">{inside}</div>' if inside else ""
        return f'<details class="{node.css}"{state}><summary>{node.html}</summary>{body}</details>'
    return f'<div class="{node.css}">{node.html}{inside}</div>'
