"""Headings in a text, and the time that it takes to find them."""

import pytest
from support.cpu_time import within

from artifactflow_nb.sources.retrieval.passages import split_blocks


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# One", "One"),
        ("## One two ##", "One two"),
        ("### One # two #", "One # two"),
        ("# C#", "C"),
        ("# #", "#"),
        ("# ###", "#"),
        ("# 1#2##", "1#2"),
    ],
)
def test_closing_hashes_are_not_part_of_a_heading(line: str, title: str) -> None:
    """The rule is CommonMark's, but no space is needed before the hashes; a heading of hashes alone keeps one hash."""
    [heading] = split_blocks(line)
    assert (heading.kind, heading.title) == ("heading", title)


@pytest.mark.parametrize("line", ["#one", "####### One", "    # One", "#"])
def test_lookalike_of_a_heading_is_no_heading(line: str) -> None:
    """Hashes without a space, more than six hashes, and indented hashes are not headings."""
    assert [block.kind for block in split_blocks(line)] != ["heading"]


@pytest.mark.timed
def test_long_line_of_hashes_takes_linear_time() -> None:
    """Ten times as many hashes do not take a hundred times as long."""
    line = "# One " + "#" * 20_000 + " two"
    for attempt in within(0.05):
        with attempt:
            [heading] = split_blocks(line)
    assert heading.kind == "heading"
