"""The difference between two trees of nodes."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from artifactflow_nb.widgets.tree import Node, TreeDiff, place

KEYS = [f"k{i}" for i in range(12)]


def applied(shown: dict[str, tuple[list[Any], str]], patch: Mapping[str, Any]) -> None:
    """Change what a page shows as a patch says; an element within one that is removed goes with it."""
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
    made: list[Node] = []
    while keys:
        key = keys.pop()
        below = [keys.pop() for _ in range(draw(st.integers(0, min(len(keys), 3))))] if depth < 3 else []
        node = Node(
            key, draw(st.sampled_from(["", "a", "ab", "abc", "b"])), children=_level(draw, below, known, depth + 1)
        )
        old = known.get(key)
        made.append(old if old is not None and old == node else node)
    return tuple(made)


@given(st.data())
def test_patches_make_any_tree_of_any_other(data: st.DataObject) -> None:
    """After each patch a page has the elements, places and texts of the tree, whatever moved, came, went or stayed."""
    diff, shown = TreeDiff(), dict[str, tuple[list[Any], str]]()
    known: list[Node] = []
    for _ in range(4):
        nodes = data.draw(trees(known))
        known = [one.node for one in place(nodes)]
        applied(shown, diff.patch(nodes))
        assert shown == {one.node.key: (one.shape, one.node.html) for one in place(nodes)}


def test_what_did_not_change_is_not_looked_into() -> None:
    """Among a thousand settled turns, one that changes is one entry of the patch."""
    settled = tuple(Node(f"t{i}", kind="box", children=(Node(f"t{i}-text", "text"),)) for i in range(1000))
    diff = TreeDiff()
    diff.patch((Node("turns", kind="box", children=(*settled, Node("last", "one"))),))
    patch = diff.patch((Node("turns", kind="box", children=(*settled, Node("last", "one two"))),))
    assert patch == {"text": [("last", 3, " two")]}
    assert diff.patch((Node("turns", kind="box", children=(*settled, Node("last", "one two"))),)) == {}
