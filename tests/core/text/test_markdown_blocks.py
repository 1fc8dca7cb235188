"""Splitting of streaming Markdown into blocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu_time import within

from artifactflow_nb.core.text.markdown_stream import MAX_BLOCK_CHARS, MarkdownStream

MIXED = """# Title
Intro that goes
on.

- one

  inside one
- two

1) a
2) b

```python
x = 1

# not a heading
```
After.

| a | b |
|---|---|
| 1 | 2 |

> quote
"""

KINDS = [
    "\n",
    "text\n",
    "- item\n",
    "  more\n",
    "```\n",
    "~~~~py\n",
    "# h\n",
    "| a |\n",
    "|--|\n",
    "> q\n",
    "1. n\n",
    "<details>\n",
    "<summary>s</summary>\n",
    "</details>\n",
]
LINES = st.sampled_from([*KINDS, "x" * 5000])


def sources(text: str) -> list[str]:
    return [block.source for block in MarkdownStream(text).blocks]


def test_text_is_split_between_blocks() -> None:
    """Paragraphs, lists, fences and tables are one block each, also with blank lines inside."""
    starts = [source.split("\n")[0] for source in sources(MIXED)]
    assert starts == ["# Title", "Intro that goes", "- one", "```python", "After.", "| a | b |", "> quote"]


@given(st.lists(LINES, max_size=30), st.integers(1, 40))
def test_pieces_give_the_same_blocks_as_the_whole(lines: list[str], size: int) -> None:
    """For any pieces the blocks join to the text, and none is longer than the limit."""
    text = "".join(lines)
    grown = MarkdownStream()
    for i in range(0, len(text), size):
        grown.append(text[i : i + size])
    assert grown.text == text
    assert all(len(block.source) <= MAX_BLOCK_CHARS for block in grown.blocks)


@given(st.lists(st.sampled_from(KINDS), max_size=30), st.integers(1, 40))
def test_finished_blocks_never_change(lines: list[str], size: int) -> None:
    """While text arrives, only the last block changes."""
    text, grown, before = "".join(lines), MarkdownStream(), []
    for i in range(0, len(text), size):
        grown.append(text[i : i + size])
        blocks = grown.blocks
        finished = before[:-1]
        assert blocks[: len(finished)] == finished
        before = blocks


def test_split_fence_continues_as_code() -> None:
    """The continuation of a fence starts with its opening line."""
    blocks = MarkdownStream("```python\n" + "x = 1\n" * 2000 + "```\nafter\n").blocks
    assert len(blocks) > 2
    assert blocks[0].closing == "```"
    assert {block.opening for block in blocks[1:-1]} == {"```python\n"}
    assert blocks[-1].markdown == "after\n"


def test_split_table_keeps_its_head() -> None:
    """The continuation of a table has the same head row."""
    blocks = MarkdownStream("| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 1000).blocks
    assert len(blocks) > 2
    assert all(block.markdown.startswith("| a | b |\n|---|---|\n") for block in blocks)


@pytest.mark.timed
def test_splitting_is_linear() -> None:
    """Splitting 400 KB in small pieces takes much less time than rereading the text for each piece."""
    for attempt in within(2):
        grown = MarkdownStream()
        with attempt:
            for _ in range(40_000):
                grown.append("some text ")
        assert len(grown.text) == 400_000


def test_open_tag_is_not_shown_as_text() -> None:
    """While a text arrives, a supported tag is left out until the tag ends; `<` of a comparison is displayed."""
    shown = ["H", "H", "H", "H", "H<sub>2</sub>", "H<sub>2</sub>O, a < b"]
    arriving = ["H<", "H<su", "H<sub>2", "H<sub>2</su", "H<sub>2</sub>", "H<sub>2</sub>O, a < b"]
    assert [MarkdownStream(text).blocks[0].settled_markdown for text in arriving] == shown
