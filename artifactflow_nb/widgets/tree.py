"""The content of a view as a tree of keyed nodes, and the difference between two such trees as a patch.

The page keeps an element per key, so folds, focus and scroll positions survive every patch. A patch says of an element
only what changed; of text that grew, only what was added.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_LIVE_ONLY = frozenset({"controls", "form"})
_LISTS = {"list": ("ol", ' role="list"'), "item": ("li", "")}
"""The role is said where a style takes the numbers away: some browsers take the list for none then."""


@dataclass(frozen=True, slots=True)
class Node:
    """An element of the view.

    Attributes:
        key: Its name, unique in the tree and the same for as long as it stands for the same thing.
        html: Its own content, sanitised: all of a leaf, the summary of a fold, the text above the buttons of an ask.
        kind: `leaf`, `box` (own content, then children), `fold` (summary and children), `list` and the `item`s in it,
            which have no content of their own; and what only a live page shows: `controls` (a leaf of buttons, see
            `controls.py`), `form` (made by the page from its data) and `ask`, whose own content stays while its form
            goes.
        css: Class names.
        is_open: Whether a fold is open unless the reader said otherwise.
        data: For a form and an ask: what the page makes it from; JSON values.
        children: The elements within, in order.
    """

    key: str
    html: str = ""
    kind: str = "leaf"
    css: str = ""
    is_open: bool = False
    data: Mapping[str, Any] = field(default_factory=dict)
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
    """Remembers what the page has, and says what to change.

    A node that is the same object as before, in the same place, is not looked into: what has settled costs nothing.
    """

    def __init__(self) -> None:
        self._sent: dict[str, Placed] = {}
        self._nodes: tuple[Node, ...] = ()

    def snapshot(self, nodes: tuple[Node, ...]) -> dict[str, Any]:
        """The patch that makes the tree out of nothing."""
        self._sent, self._nodes = {}, ()
        return self.patch(nodes)

    def patch(self, nodes: tuple[Node, ...]) -> dict[str, Any]:
        """What changed since the last call; empty if nothing did.

        `shape`: elements to make, move or alter, in order; `text`: [key, characters to keep, text to add behind them];
        `gone`: keys to remove.
        """
        changes = _Changes(self._sent)
        changes.compare(self._nodes, nodes, "")
        self._nodes = nodes
        return changes.settle()


class _Changes:
    """One comparison of two trees; it brings what was sent up to date."""

    def __init__(self, sent: dict[str, Placed]) -> None:
        self._sent = sent
        self._shapes: list[list[Any]] = []
        self._texts: list[tuple[str, int, str]] = []
        self._left: dict[str, None] = {}
        self._seen: set[str] = set()

    def compare(self, old: tuple[Node, ...], new: tuple[Node, ...], parent: str) -> None:
        """Note what is different between the children that an element had and those that it is to have."""
        if old is new:
            return
        here = {node.key for node in new}
        for node in old:
            if node.key not in here:
                self._left.update(dict.fromkeys(_keys(node)))
        after = ""
        for node in new:
            self._visit(Placed(node, parent, after))
            after = node.key

    def _visit(self, placed: Placed) -> None:
        node, sent = placed.node, self._sent.get(placed.node.key)
        self._seen.add(node.key)
        if sent is None or sent.shape != placed.shape:
            self._shapes.append(placed.shape)
        elif sent.node is node:
            return
        old_html = sent.node.html if sent else ""
        if node.html != old_html:
            keep = _common_prefix(old_html, node.html)
            self._texts.append((node.key, _utf16_units(node.html[:keep]), node.html[keep:]))
        self._sent[node.key] = placed
        if sent and sent.node is node:  # it only moved, and what is within it came along
            self._seen.update(_keys(node))
        else:
            self.compare(sent.node.children if sent else (), node.children, node.key)

    def settle(self) -> dict[str, Any]:
        """The patch."""
        gone = [key for key in self._left if key not in self._seen]
        for key in gone:
            del self._sent[key]
        parts = {"shape": self._shapes, "text": self._texts, "gone": gone}
        return {name: part for name, part in parts.items() if part}


def _keys(node: Node) -> Iterator[str]:
    """The key of a node, and those of all within it."""
    yield node.key
    for child in node.children:
        yield from _keys(child)


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


def prefixed(nodes: tuple[Node, ...], prefix: str) -> tuple[Node, ...]:
    """The same nodes with keys that begin with `prefix`, so that several trees can stand in one."""
    return tuple(  # the constructor takes less than half the time of `replace`
        Node(
            prefix + node.key,
            node.html,
            node.kind,
            node.css,
            node.is_open,
            node.data,
            prefixed(node.children, prefix) if node.children else (),
        )
        for node in nodes
    )


def static_html(nodes: tuple[Node, ...]) -> str:
    """The tree as HTML that needs nothing else: folds are `<details>`, there is nothing to press."""
    return "".join(_static_node(node) for node in nodes if node.kind not in _LIVE_ONLY)


def _static_node(node: Node) -> str:
    inside = static_html(node.children)
    if node.kind == "fold":
        state = " open" if node.is_open else ""
        body = f'<div class="af-body">{inside}</div>' if inside else ""
        return f'<details class="{node.css}"{state}><summary>{node.html}</summary>{body}</details>'
    name, role = _LISTS.get(node.kind, ("div", ""))
    return f'<{name} class="{node.css}"{role}>{node.html}{inside}</{name}>'
