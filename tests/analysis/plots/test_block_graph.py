"""The dependency graph of the blocks of a project."""

from dataclasses import replace

import pytest
from conftest import OpenWorkbench
from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch
from support.charts import drawn_texts

from artifactflow_nb.analysis.plots.canvas import alt_text
from artifactflow_nb.plugins.projects.graph import LANE_PX, ROW_PX, layout_graph, plot_blocks
from artifactflow_nb.plugins.projects.tree import Block, BlockTree

pytestmark = pytest.mark.usefixtures("figures")


def block(name: str, *needs: str, text: str = "x", **more: object) -> Block:
    """A block that was written from dependencies with the text `x`."""
    written = Block(
        name, name, "writing", depends_on=needs, content=text, sha256=text, status="draft" if text else "empty"
    )
    return replace(written, basis=dict.fromkeys(needs, "x"), **more)  # type: ignore[arg-type]


def tree(*blocks: Block) -> BlockTree:
    return BlockTree([replace(block, order=float(n)) for n, block in enumerate(blocks)], ["writing"])


def test_block_is_right_of_its_dependencies() -> None:
    """There are as many columns as blocks on the longest path; columns keep the order of the document."""
    layout = layout_graph(tree(block("A"), block("B", "A"), block("C", "A"), block("D", "C"), block("E", "B", "D")))
    assert dict(layout.columns) == {"A": 0, "B": 1, "C": 1, "D": 2, "E": 3}
    assert layout.middles["B"] < layout.middles["C"]


def test_key_explains_the_lines_that_are_drawn() -> None:
    """A dashed arrow and a dashed box have different meanings; the key has the lines that occur."""
    fresh = plot_blocks("P", tree(block("A"), block("B", "A")))
    assert fresh.get_xlabel() == "Arrow: from a block to a dependent block."
    stale = plot_blocks("P", tree(block("A", text="new"), block("B", "A"), block("C", text="")))
    assert stale.get_xlabel().splitlines()[1:] == ["Dashed arrow: changed since.", "Dashed box: empty."]


def test_arrow_crosses_no_block() -> None:
    """An arrow that crosses a column has a lane there, which it shares with other arrows from the same block."""
    layout = layout_graph(
        tree(block("A"), block("B", "A"), block("C", "B"), block("D", "A", "C"), block("E", "C", "A"))
    )
    long = [arrow for arrow in layout.arrows if arrow.lanes]
    assert [(arrow.source_id, arrow.target_id, len(arrow.lanes)) for arrow in long] == [("A", "D", 2), ("A", "E", 2)]
    assert long[0].lanes == long[1].lanes
    for arrow in long:
        for n, lane in enumerate(arrow.lanes, 1):
            middles = [layout.middles[key] for key, column in layout.columns.items() if column == n]
            assert all(abs(middle - lane) >= ROW_PX / 2 + LANE_PX / 2 for middle in middles)


def test_dependency_on_a_group_has_an_arrow_per_block() -> None:
    """The group itself is not drawn."""
    inside = [block("A", parent="G"), block("B", parent="G")]
    layout = layout_graph(tree(Block("G", "G", "writing", is_group=True), *inside, block("C", "G")))
    assert [(arrow.source_id, arrow.target_id) for arrow in layout.arrows] == [("A", "C"), ("B", "C")]
    assert "G" not in layout.columns


def test_stale_and_empty_blocks_differ_without_colour() -> None:
    """Stale blocks have a thick border and a sign, empty blocks a dashed border; both have their state in words."""
    graph = plot_blocks("P", tree(block("A", text="new"), block("B", "A"), block("C", "B"), block("D", text="")))
    labels = drawn_texts(graph)
    assert [labels[labels.index(name) + 1] for name in "ABCD"] == ["draft", "! draft, stale", "! draft, stale", "empty"]
    boxes = [patch for patch in graph.patches if isinstance(patch, FancyBboxPatch)]
    assert [box.get_linewidth() for box in boxes] == [1, 3, 3, 1]
    assert [box.get_linestyle() for box in boxes] == ["-", "-", "-", "--"]
    assert alt_text(graph) == (
        "Blocks of P. 4 blocks in 3 columns, each right of its dependencies. Stale: B, C. Empty: D."
    )


def test_graph_without_blocks_or_with_too_many_has_a_message() -> None:
    """The message is in the drawing and in the text alternative."""
    assert "No blocks yet." in drawn_texts(plot_blocks("P", tree()))
    many = plot_blocks("P", tree(*(block(f"B{n}") for n in range(300))))
    assert [text for text in drawn_texts(many) if "300 blocks" in text]


def test_graph_of_a_project_is_drawn_on_given_axes(workbench: OpenWorkbench) -> None:
    """`project.graph(ax=)` draws where the caller wants it."""
    project = workbench().projects.start("Essay", template="paper")
    project.add("Aim", "Text $x$.")
    _, ax = plt.subplots()
    assert project.graph(ax=ax) is ax
    assert "Aim" in drawn_texts(ax)
