"""Virtual DOM: the content of a view as a tree of keyed nodes, and patches between two trees.

The page keeps one element per key, so folds, focus and scroll positions survive every patch. A patch contains only the
changes of an element; if text was appended, only the new part.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import is_not
from typing import Any


@dataclass(frozen=True, slots=True)
class Node:
    """An element of the view.

    Attributes:
        key: Unique in the tree, and stable across patches for the same element.
        html: Own content, sanitised: the whole of a leaf, the summary of a fold, the text of an approval.
        kind: `leaf`, `box` (own content, then children), `fold` (summary and children), `list` and its `item`s, which
            have no content of their own, or a kind that only a live page shows: `controls` (a leaf with buttons),
            `form` (built by the page from `data`), `approval` (a card; its controls are not saved), `approvals` (a
            box of approval cards, with controls that decide several cards).
        css: Class names.
        is_open: Whether a fold is open until the reader toggles it.
        data: Input from which the page builds a form or the controls of an approval; JSON values.
        children: Child nodes, in order.
        text: Plain text of the node and its children in saved output; None to use the texts of the children.
    """

    key: str
    html: str = ""
    kind: str = "leaf"
    css: str = ""
    is_open: bool = False
    data: Mapping[str, Any] = field(default_factory=dict)
    children: tuple["Node", ...] = ()
    text: str | None = None
    __hash__ = object.__hash__  # by identity, for `prefixed`: a hash of the content takes longer than a copy


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node with its position: child of `parent`, next sibling of `after` (empty for the first child)."""

    node: Node
    parent: str
    after: str

    @property
    def shape(self) -> list[Any]:
        """Everything except the content, in the format that the page expects."""
        node = self.node
        return [node.key, self.parent, self.after, node.kind, node.css, node.is_open, dict(node.data)]


class TreeDiff:
    """Computes patches that turn the tree of the page into the current tree.

    A node that is the identical object in the same position is skipped with its children, so finished parts of a view
    cost nothing.
    """

    def __init__(self) -> None:
        self._sent: dict[str, PlacedNode] = {}
        self._nodes: tuple[Node, ...] = ()

    def snapshot(self, nodes: tuple[Node, ...]) -> dict[str, Any]:
        """Return the patch that builds the tree from an empty page."""
        self._sent, self._nodes = {}, ()
        return self.patch(nodes)

    def patch(self, nodes: tuple[Node, ...]) -> dict[str, Any]:
        """Return the changes since the last call; the patch is empty if nothing changed.

        Returns:
            `shape`: elements to create, move or change, in order; `text`: triples of key, number of characters to keep
            and text to append; `gone`: keys to remove.
        """
        changes = _PatchBuilder(self._sent)
        changes.compare(self._nodes, nodes, "")
        self._nodes = nodes
        return changes.finish()


class _PatchBuilder:
    """Compares two trees and updates `sent`, the nodes that the page has, by key."""

    def __init__(self, sent: dict[str, PlacedNode]) -> None:
        self._sent = sent
        self._shapes: list[list[Any]] = []
        self._texts: list[tuple[str, int, str]] = []
        self._missing: dict[str, None] = {}
        self._seen: set[str] = set()

    def compare(self, old: tuple[Node, ...], new: tuple[Node, ...], parent: str, *, is_moved: bool = False) -> None:
        """Record the differences between the old and the new children of an element; the element may have moved."""
        # A streamed answer has hundreds of finished blocks before the block that grows.
        n_same = next((n for n, differs in enumerate(map(is_not, old, new)) if differs), min(len(old), len(new)))
        after = new[n_same - 1].key if n_same else ""
        if is_moved:
            self._seen.update(key for node in new[:n_same] for key in _keys(node))
        old, new = old[n_same:], new[n_same:]
        new_keys = {node.key for node in new}
        for node in old:
            if node.key not in new_keys:
                self._missing.update(dict.fromkeys(_keys(node)))
        for node in new:
            placed, sent = PlacedNode(node, parent, after), self._sent.get(node.key)
            after = node.key
            self._seen.add(node.key)
            if sent is None or sent.shape != placed.shape:
                self._shapes.append(placed.shape)
            elif sent.node is node:
                continue
            old_html = sent.node.html if sent else ""
            if node.html != old_html:
                # The length of the common prefix, by bisection: `startswith` compares in C; a loop over characters is
                # too slow for long answers.
                n_common, high = 0, min(len(old_html), len(node.html))
                while n_common < high:
                    middle = (n_common + high + 1) // 2
                    if old_html.startswith(node.html[:middle]):
                        n_common = middle
                    else:
                        high = middle - 1
                # JavaScript counts in UTF-16 code units: characters outside the basic plane are two.
                n_units = len(node.html[:n_common].encode("utf-16-le", "surrogatepass")) // 2
                self._texts.append((node.key, n_units, node.html[n_common:]))
            self._sent[node.key] = placed
            if sent and sent.node is node:  # the node only moved, with its children
                self._seen.update(_keys(node))
            else:
                moved = is_moved or (sent is not None and sent.parent != parent)
                self.compare(sent.node.children if sent else (), node.children, node.key, is_moved=moved)

    def finish(self) -> dict[str, Any]:
        """Remove missing nodes from `sent` and return the patch."""
        # A key that is missing from one parent may have been seen below another parent: the node moved.
        gone = [key for key in self._missing if key not in self._seen]
        for key in gone:
            del self._sent[key]
        patch = {"shape": self._shapes, "text": self._texts, "gone": gone}
        return {name: changes for name, changes in patch.items() if changes}


def _keys(node: Node) -> Iterator[str]:
    """Yield the keys of a node and of all its descendants."""
    yield node.key
    for child in node.children:
        yield from _keys(child)


def prefixed(nodes: tuple[Node, ...], prefix: str) -> tuple[Node, ...]:
    """Copy nodes with `prefix` before every key, so that trees can be combined; the copy of a node is cached."""
    return tuple(_with_prefix(node, prefix) for node in nodes)


@lru_cache(4096)
def _with_prefix(node: Node, prefix: str) -> Node:
    children = prefixed(node.children, prefix)
    return Node(prefix + node.key, node.html, node.kind, node.css, node.is_open, node.data, children, node.text)
