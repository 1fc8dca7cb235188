"""Folds in Markdown: `<details>` is an element, and its content is Markdown."""

import pytest
from support.cpu_time import within

from artifactflow_nb.core.text.markdown import MarkdownRenderer, plain_line
from artifactflow_nb.core.text.markdown_stream import MAX_BLOCK_CHARS, MarkdownStream


def html(text: str) -> str:
    return MarkdownRenderer().html(text).replace("\n", "")


def test_fold_contains_markdown() -> None:
    """Lists, tables and code in a fold are rendered, blank lines do not end the fold, and tags in code are code."""
    text = "Intro.\n<details open onclick='x'>\n<summary>The <b>method</b></summary>\n\n1. *one*\n\n"
    shown = html(f"{text}```\n</details>\n```\n\n| a |\n|---|\n| 1 |\n\nUse `</details>`.\n\n</details>\n\nAfter.")
    assert shown.startswith("<p>Intro.</p><details><summary>The method</summary><ol><li><em>one</em></li></ol><pre")
    assert "&lt;/details&gt;</code></pre><table" in shown
    assert shown.endswith("<p>Use <code>&lt;/details&gt;</code>.</p></details><p>After.</p>")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<details><summary>S</summary>in</details> out", "<details><summary>S</summary><p>in</p></details><p>out</p>"),
        ("<details>\n\nin\n\n</details>\nout", "<details><p>in</p></details><p>out</p>"),
        (
            "<details><summary>A</summary>\n\n<DETAILS><summary>B</summary>\nin\n</DETAILS>\n\nout\n</details>",
            "<details><summary>A</summary><details><summary>B</summary><p>in</p></details><p>out</p></details>",
        ),
        (
            "- one\n  <details><summary>S</summary>\n\n  in\n\n  </details>\n- two",
            "<ul><li>one<details><summary>S</summary><p>in</p></details></li><li>two</li></ul>",
        ),
        ("> <details>\n> in\n> </details>\n\nout", "<blockquote><details><p>in</p></details></blockquote><p>out</p>"),
        ("<details>\n<summary>arriv", "<details><summary>arriv</summary></details>"),
        (
            "<details>\n<summary>方法</summary>\n先查文献。",
            '<details lang="zh"><summary>方法</summary><p>先查文献。</p></details>',
        ),
        ("Write <details> or `<details>`.", "<p>Write &lt;details&gt; or <code>&lt;details&gt;</code>.</p>"),
    ],
)
def test_folds_end_where_their_tag_ends(text: str, shown: str) -> None:
    """Folds may be in one line, in each other, in lists and quotations, and unfinished; tags within a line are text."""
    assert html(text) == shown


@pytest.mark.parametrize("line", ["A sentence of the fold.\n\n", "```\nx = 1\n```\n\n"])
def test_long_fold_goes_on_with_its_summary(line: str) -> None:
    """A fold beyond the limit of a block is split into folds with one summary; later text is outside of all folds."""
    text = "<details>\n<summary>All</summary>\n\n" + line * 500 + "</details>\n\nAfter."
    blocks = MarkdownStream(text).blocks
    assert max(len(block.source) for block in blocks) <= MAX_BLOCK_CHARS
    shown = html(text)
    assert shown.count("<details><summary>All</summary>") == shown.count("</details>") == len(blocks) - 1 > 1
    assert shown.count(line.split("\n")[-4 if "x" in line else 0]) == 500
    assert shown.endswith("</details><p>After.</p>")


def test_arriving_tag_waits() -> None:
    """No part of a tag is displayed while a text arrives."""
    for tag in ("<details>", "</details>", "<summary>"):
        for n in range(1, len(tag)):
            assert MarkdownStream(f"One.\n{tag[:n]}").blocks[-1].settled_markdown.strip() == "One."


@pytest.mark.timed
@pytest.mark.parametrize(
    "piece", ["<details>", "<details>\n", "<details><summary>", "</details>\n", "<details></details>"]
)
def test_hostile_folds_are_quick(piece: str) -> None:
    """The time for many tags is linear in the length of the text, and the elements are balanced."""
    for attempt in within(1):
        with attempt:
            shown = html(piece * 10_000)
    assert shown.count("<details>") == shown.count("</details>")


def test_plain_line_separates_summary() -> None:
    """A summary does not run into the text of its fold."""
    assert plain_line("<details><summary>A</summary>B</details>") == "A B"
