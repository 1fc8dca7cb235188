"""The difference between two trees of nodes."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.pages import place_nodes

from artifactflow_nb.widgets.page.nodes import Node, TreeDiff

KEYS = [f"k{i}" for i in range(12)]


def applied(shown: dict[str, tuple[list[Any], str]], patch: Mapping[str, Any]) -> None:
    """Apply a patch to a page; an element is removed with the elements within it."""
    for key, *shape in patch.get("shape", ()):
        shown[key] = ([key, *shape], shown.get(key, ([], ""))[1])
    for key, keep, add in patch.get("text", ()):
        shown[key] = (shown[key][0], shown[key][1][:keep] + add)
    for key in patch.get("gone", ()):
        del shown[key]


@st.composite
def trees(draw: st.DrawFn, known: list[Node]) -> tuple[Node, ...]:
    """A tree over some of the keys; some nodes are the very objects of an earlier tree."""
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=9))
    return _level(draw, keys, {node.key: node for node in known}, 0)


def _level(draw: st.DrawFn, keys: list[str], known: dict[str, Node], depth: int) -> tuple[Node, ...]:
    nodes: list[Node] = []
    while keys:
        key = keys.pop()
        below = [keys.pop() for _ in range(draw(st.integers(0, min(len(keys), 3))))] if depth < 3 else []
        node = Node(
            key, draw(st.sampled_from(["", "a", "ab", "abc", "b"])), children=_level(draw, below, known, depth + 1)
        )
        old = known.get(key)
        nodes.append(old if old is not None and old == node else node)
    return tuple(nodes)


@given(st.data())
def test_patches_turn_any_tree_into_any_other(data: st.DataObject) -> None:
    """After each patch the page has the elements, places and texts of the tree."""
    diff, shown = TreeDiff(), dict[str, tuple[list[Any], str]]()
    known: list[Node] = []
    for _ in range(4):
        nodes = data.draw(trees(known))
        known = [node.node for node in place_nodes(nodes)]
        applied(shown, diff.patch(nodes))
        assert shown == {node.node.key: (node.shape, node.node.html) for node in place_nodes(nodes)}


def test_unchanged_subtrees_are_skipped() -> None:
    """If one of a thousand turns changes, the patch has one entry."""
    settled = tuple(Node(f"t{i}", kind="box", children=(Node(f"t{i}-text", "text"),)) for i in range(1000))
    diff = TreeDiff()
    diff.patch((Node("turns", kind="box", children=(*settled, Node("last", "one"))),))
    patch = diff.patch((Node("turns", kind="box", children=(*settled, Node("last", "one two"))),))
    assert patch == {"text": [("last", 3, " two")]}
    assert diff.patch((Node("turns", kind="box", children=(*settled, Node("last", "one two"))),)) == {}
