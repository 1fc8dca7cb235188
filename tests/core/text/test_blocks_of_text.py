"""A text as blocks: what is a heading, and how long that takes to find out."""

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
def test_hashes_that_close_a_heading_are_not_in_its_title(line: str, title: str) -> None:
    """As CommonMark has it, but that they need no space before them; a heading of hashes alone keeps one."""
    [heading] = split_blocks(line)
    assert (heading.kind, heading.title) == ("heading", title)


@pytest.mark.parametrize("line", ["#one", "####### One", "    # One", "#"])
def test_lookalike_of_a_heading_is_no_heading(line: str) -> None:
    """Hashes without a space, too many of them, or far from the margin."""
    assert [block.kind for block in split_blocks(line)] != ["heading"]


def test_a_long_line_of_hashes_takes_no_longer_than_its_length() -> None:
    """Ten times the hashes would take a hundred times as long if they were looked for from each of them."""
    line = "# One " + "#" * 20_000 + " two"
    for attempt in within(0.05):
        with attempt:
            [heading] = split_blocks(line)
    assert heading.kind == "heading"
