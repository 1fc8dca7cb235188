"""Truncation of very long texts, with a line about the omitted rest."""

import re
import time
from itertools import pairwise

import pytest
from support.cpu_time import no_collection

from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.core.text.shortened import (
    SHOWN_CHARS,
    SHOWN_LINES,
    GrowingText,
    html_blocks,
    shown_html,
    shown_plain,
)

PARAGRAPHS = "".join(f"Paragraph {n} says one thing.\n\n" for n in range(5_000))
ONE_LINE = "word " * 40_000
FENCE = "```python\n" + "x = 1\n" * 5_000 + "```\n"


def test_short_text_is_shown_whole() -> None:
    """A text within the limits is rendered as without limits."""
    text = "# Title\n\nOne *thing*.\n\n| a |\n|---|\n| 1 |\n"
    renderer = MarkdownRenderer()
    assert shown_html(text, renderer) == renderer.html(text)
    assert shown_plain(text) == text


@pytest.mark.parametrize("text", [PARAGRAPHS, ONE_LINE, FENCE], ids=["paragraphs", "one line", "fence"])
def test_long_text_ends_with_a_line_about_the_rest(text: str) -> None:
    """Every form ends at the limit, with the number of omitted characters and the place of the whole text."""
    for shown in (
        shown_html(text, MarkdownRenderer(), "Look there."),
        shown_plain(text, "Look there."),
    ):
        assert "Look there." in shown[-80:]
        assert "more characters" in shown[-80:]
        assert shown.count("says one thing") <= SHOWN_LINES
        assert len(shown) < 2 * SHOWN_CHARS


def test_note_is_outside_of_a_truncated_fence() -> None:
    """A truncated code block is closed before the line about the rest."""
    assert "</code></pre><p" in shown_html(FENCE, MarkdownRenderer()).replace("\n", "")


def test_growing_text_shows_the_same_as_the_whole_text() -> None:
    """A text in pieces has the same displayed part, length and rest as the whole text."""
    whole, grown = GrowingText(PARAGRAPHS), GrowingText()
    for at in range(0, len(PARAGRAPHS), 777):
        grown.append(PARAGRAPHS[at : at + 777])
    assert grown.blocks == whole.blocks
    assert (grown.text, grown.n_chars, grown.n_left) == (PARAGRAPHS, len(PARAGRAPHS), whole.n_left)
    assert sum(len(block.source) for block in grown.blocks) + grown.n_left == len(PARAGRAPHS)
    assert grown.end(10) == PARAGRAPHS[-10:]
    assert not grown.is_blank
    assert GrowingText(" \n").is_blank


@pytest.mark.timed
def test_piece_beyond_the_limit_costs_its_own_length() -> None:
    """The last thousand pieces of a long text take no longer than a thousand pieces in the middle."""
    text, piece = GrowingText(PARAGRAPHS), PARAGRAPHS[:1000]

    def thousand() -> float:
        began = time.process_time()
        for _ in range(1000):
            text.append(piece)
            assert text.blocks
        return time.process_time() - began

    with no_collection():
        first = min(thousand() for _ in range(3))
        for _ in range(20):
            thousand()
        assert min(thousand() for _ in range(3)) < 3 * first + 0.05


ARRIVING = r"""The rate $\frac{a}{b}$ costs $5 or `$x$` more, and $HOME stays where the person is, \(y^2\) too.

$$
\sum_{i=1}^n x_i
$$

| Station | Rise |
|---|---|
| Brest | $r_1$ |

```python
a = "|"
```

Then see[^note] and[^station.brest:2020-winter].
"""


def test_unfinished_end_of_arriving_text_is_held_back() -> None:
    """While a text arrives, no mark of a formula, table, fence or footnote shows as text, and nothing is taken back."""
    renderer, text, shown = MarkdownRenderer(), GrowingText(), [""]
    for character in ARRIVING:
        text.append(character)
        html = "".join(html_blocks(text, renderer, is_arriving=True))
        html = re.sub("<math.*?</math>", "", html)
        shown.append(re.sub("<[^>]*>|\\s", "", html))
    for before, after in pairwise(shown):
        assert after.startswith(before)
    prose = re.sub(r"\$5|\$x\$|\$HOME|\"\|\"", "", shown[-1])
    assert not re.search(r"[$\\|`^]", prose)
    assert "".join(html_blocks(text, renderer, is_arriving=True)) == renderer.html(ARRIVING)


@pytest.mark.parametrize("end", ["It costs $5", "| one line", "the \\", "a `", "``", "see [", "$$a"])
def test_end_of_complete_text_is_shown(end: str) -> None:
    """Characters that a stream holds back, because more may follow, are part of a complete text."""
    text = GrowingText(end)
    whole = re.sub("<[^>]*>", "", "".join(html_blocks(text, MarkdownRenderer())))
    assert whole.strip() == end
    assert len("".join(html_blocks(text, MarkdownRenderer(), is_arriving=True))) <= len(f"<p>{end}</p>\n")


def test_arriving_prose_between_marks_is_shown() -> None:
    """Prices, variables of a shell, brackets and bars in prose wait for a few words at most."""
    for end in ("from $5 to 6", "$HOME is where the", r"a \(note for some readers", "| a\nb", "x | y", "$ 5"):
        html = "".join(html_blocks(GrowingText(end), MarkdownRenderer(), is_arriving=True))
        assert end.split()[-1] in html
