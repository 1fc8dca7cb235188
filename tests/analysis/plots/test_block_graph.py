"""The dependency graph of the blocks of a project."""

import re
from dataclasses import replace

import pytest
from conftest import OpenWorkbench
from support.charts import texts, xml
from support.cpu_time import within
from support.hostile_texts import HOSTILE
from support.safe_html import DRAWING, PROSE, harms

from artifactflow_nb.analysis.plots.block_graph import LANE_PX, ROW_PX, layout_graph, plot_blocks
from artifactflow_nb.core.document.tree import Block, BlockTree


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
    """A dashed arrow and a dashed box have different meanings; the key has those that occur."""
    fresh = plot_blocks("P", tree(block("A"), block("B", "A")))
    assert "Arrow: from a block to one that depends on it." in texts(fresh.svg)
    stale = plot_blocks("P", tree(block("A", text="new"), block("B", "A"), block("C", text="")))
    key = "Arrow: from a block to one that depends on it. Dashed arrow: changed since. Dashed box: empty."
    assert key in texts(stale.svg)


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
    """Stale blocks have a thick border and a sign, empty ones a dashed border; both have their state in words."""
    graph = plot_blocks("P", tree(block("A", text="new"), block("B", "A"), block("C", "B"), block("D", text="")))
    labels = texts(graph.svg)
    assert [labels[labels.index(name) + 1] for name in "ABCD"] == ["draft", "! draft, stale", "! draft, stale", "empty"]
    assert graph.svg.count('stroke-width="3"') == 2
    assert graph.svg.count('stroke-dasharray="4 3"') == 1
    assert graph.svg.count('stroke-dasharray="5 3"') == 2  # from A to B, and on to C
    assert graph.description == "4 blocks in 3 columns, each right of those it needs. Stale: B, C. Empty: D."


def test_every_representation_has_a_table(workbench: OpenWorkbench) -> None:
    """The table has each block with its state and dependencies; the same project gives the same drawing."""
    project = workbench().project("Essay", template="paper")
    project.add("A", "One.")
    project.add("B", depends_on=["A"], need_review=True)
    project["B"].write("Two.")
    graph = project.graph()
    assert repr(graph).splitlines()[-1] == "B      draft, to be reviewed  A"
    for page in (graph._repr_markdown_(), graph._repr_html_()):
        assert re.search("<th[^>]*>B</th><td[^>]*>draft, to be reviewed</td><td[^>]*>A</td>", page)
    assert "<svg" in graph._repr_html_()
    assert graph.svg == project.graph().svg


def test_graph_without_blocks_or_with_too_many_has_a_message() -> None:
    """The message for too many blocks refers to the table, which lists all of them."""
    assert "No blocks yet." in texts(plot_blocks("P", tree()).svg)
    many = plot_blocks("P", tree(*(block(f"B{n}") for n in range(300))))
    assert "300 blocks are too many to be drawn: the table lists them." in texts(many.svg)
    assert len(many.table) == 300


@pytest.mark.parametrize("begin", range(0, len(HOSTILE), 60))
def test_hostile_names_are_text(begin: int) -> None:
    """Names of blocks cannot add elements to the drawing."""
    blocks = [block(f"{n} {name}"[:120]) for n, name in enumerate(HOSTILE[begin : begin + 60])]
    graph = plot_blocks("<script>window.__xss++</script>", tree(*blocks))
    assert xml(graph.svg).tag.endswith("svg")
    assert (
        harms(
            graph.to_html().split("</style></rp></div>")[-1],
            DRAWING | PROSE | {"div", "rp", "img", "details", "summary"},
        )
        == []
    )


def test_two_hundred_blocks_are_drawn_fast() -> None:
    """200 blocks are drawn within a second, as an output that fits into a notebook."""
    blocks = [block(f"Block {n}", *(f"Block {n - step}" for step in (1, 7) if n >= step)) for n in range(200)]
    for attempt in within(1.0):
        with attempt:
            graph = plot_blocks("P", tree(*blocks))
    assert len(graph._repr_html_()) < 3_000_000
