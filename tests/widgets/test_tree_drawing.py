"""The tree as SVG, Markdown and plain text."""

import random
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt
from spent import within
from widgets.grown import chain, grow, with_last
from widgets.played import acting_tokens

from artifactflow_nb.store.tree_reading import TreeEntry
from artifactflow_nb.widgets.tree_drawing import tree_svg
from artifactflow_nb.widgets.tree_folding import Fold
from artifactflow_nb.widgets.tree_layout import lay_out
from artifactflow_nb.widgets.tree_text import tree_markdown, tree_plain

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</text><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "![x](https://evil.invalid/x.png) [y](javascript:alert(1))",
    "~~~ <b>fence",
    "]]> --> <!-- & &amp; &#0; \x00\x1b[31m",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 上下文管理器 \u202egnol",
    "x" * 10_000,
    "# heading",
]


def acting(what: TreeEntry | Fold) -> str:
    return f'data-act="{"open" if isinstance(what, Fold) else "read"}"'


def nodes(svg: str) -> list[ET.Element]:
    return [group for group in ET.fromstring(svg).findall(f"{SVG}g") if "af-node" in group.get("class", "")]  # noqa: S314 - our own


def test_a_node_says_everything_to_those_who_hear_it() -> None:
    """Its label has the question and all facts; the place among the columns is its level."""
    entries = grow([None, 0, 0])
    entries[1] = replace(
        entries[1], status="failed", error="no such model", flow="plan", cost_usd=0.0123, n_artifacts=2
    )
    first, beside, last = nodes(tree_svg(lay_out(entries)))
    assert first.get("aria-label") == (
        "Question 1: Question 0? (Completed, 1,000 tokens, 1.5 s, 2026-01-01 09:00 UTC, on the active branch)"
    )
    assert beside.get("aria-label") == (
        "Question 2: Question 1? (Failed, plan, no such model, 1,001 tokens, 1.5 s, 2 artifacts, variant 1 of 2, "
        "0.0123 USD, 2026-01-01 09:01 UTC)"
    )
    assert last.get("aria-label", "").endswith("09:02 UTC, the next question continues here)")
    assert [node.get("aria-level") for node in (first, beside, last)] == ["1", "2", "1"]


def test_a_drawing_that_acts_is_a_tree_with_one_tab_stop() -> None:
    """Tab leads to the selected message, without one to the active one; the view's attributes are on every node."""
    layout = lay_out(grow([None, 0, 1]))
    svg = tree_svg(layout, selected="m1", attributes=acting)
    assert ET.fromstring(svg).get("role") == "tree"  # noqa: S314 - our own
    found = nodes(svg)
    assert {node.get("role") for node in found} == {"treeitem"}
    assert [node.get("tabindex") for node in found] == ["-1", "0", "-1"]
    assert [node.get("aria-selected") for node in found] == ["false", "true", "false"]
    assert [node.get("data-act") for node in found] == ["read"] * 3
    assert [node.get("tabindex") for node in nodes(tree_svg(layout, attributes=acting))] == ["-1", "-1", "0"]


def test_a_drawing_that_stays_is_a_list() -> None:
    """Without attributes nothing can be focused or pressed."""
    svg = tree_svg(lay_out(grow([None, 0])))
    assert {node.get("role") for node in nodes(svg)} == {"listitem"}
    assert "tabindex" not in svg
    assert "data-act" not in svg


@pytest.mark.parametrize(
    ("status", "sign", "word"),
    [
        ("running", "●", "Running"),
        ("waiting", "?", "Waiting for you"),
        ("failed", "✕", "Failed"),
        ("cancelled", "–", "Cancelled"),
        ("interrupted", "!", "Interrupted"),
    ],
)
def test_a_state_is_a_sign_and_a_word(status: str, sign: str, word: str) -> None:
    """Meaning does not hang on colour: each state has its sign, and all but success their word."""
    layout = lay_out(with_last(grow([None]), status=status, total_tokens=None, active_ms=None))
    assert [text for text in ET.fromstring(tree_svg(layout)).itertext() if text in {sign, f"active · {word}"}] == [  # noqa: S314 - our own
        sign, f"active · {word}",
    ]  # fmt: skip
    assert tree_plain(layout).startswith(f"{sign} Question 0? · active · {word}")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_question_is_a_text_and_nothing_else(hostile: str) -> None:
    """Whatever was asked, the drawing is well-formed and holds only its own elements; the Markdown does nothing."""
    entries = with_last(grow([None, 0, 0], question=lambda _number: hostile), status="failed", error=hostile)
    layout = lay_out(entries)
    svg = tree_svg(layout, attributes=acting)
    tags = {element.tag.removeprefix(SVG) for element in ET.fromstring(svg).iter()}  # noqa: S314 - our own
    assert tags <= {"svg", "g", "path", "rect", "circle", "text", "tspan"}
    assert len(svg) < 8_000
    written = tree_markdown(layout)
    assert acting_tokens(written) == []
    assert len(written.splitlines()) == len(tree_plain(layout).splitlines()) == 3
    items = [token for token in MarkdownIt().parse(written) if token.type == "list_item_open"]
    assert len(items) == 3


def test_a_question_is_cut_for_each_width() -> None:
    """Its pieces make up the whole; behind each stands an ellipsis, of which all but the last are hidden at first."""
    words = "How do context managers behave when the exit method raises an exception of its own? " * 2
    svg = tree_svg(lay_out(grow([None], question=lambda _number: words)))
    asked = next(text for text in ET.fromstring(svg).iter(f"{SVG}text") if text.get("class") == "af-asked")  # noqa: S314 - our own
    ends = [piece for piece in asked if piece.text == "…"]
    assert [piece.get("display") for piece in ends] == ["none", "none", "none", None]
    whole = (asked.text or "") + "".join(piece.text or "" for piece in asked if piece.text != "…")
    assert words.startswith(whole)
    assert 60 < len(whole) < len(words)


def test_chinese_is_marked_as_such() -> None:
    """A Chinese question says its language, for the shapes of its characters and the voice of a reader."""
    svg = tree_svg(lay_out(grow([None], question=lambda _number: "上下文管理器如何处理异常？")))
    assert 'lang="zh"' in svg


def test_the_text_shows_the_branches() -> None:
    """Plain text draws them; Markdown nests them, with an arrow where one begins."""
    layout = lay_out(grow([None, 0, 1, 1, 0]))
    assert tree_plain(layout, measured=False).splitlines() == [
        "✓ Question 0?",
        "├─ ✓ Question 1? · variant 1 of 2",
        "│  ├─ ✓ Question 2? · variant 1 of 2",
        "│  ✓ Question 3? · variant 2 of 2",
        "✓ Question 4? · active · variant 2 of 2",
    ]
    assert tree_markdown(layout, measured=False).splitlines() == [
        "- ✓ Question 0?",
        "  - ↳ ✓ Question 1? · variant 1 of 2",
        "    - ↳ ✓ Question 2? · variant 1 of 2",
        "  - ✓ Question 3? · variant 2 of 2",
        "- ✓ Question 4? · active · variant 2 of 2",
    ]
    assert tree_plain(lay_out(grow([None, None])), measured=False).splitlines()[:2] == [
        "Start", "├─ ✓ Question 0? · variant 1 of 2",
    ]  # fmt: skip


def test_what_was_measured_can_be_left_out() -> None:
    """A drawing for a notebook that is compared byte for byte holds no tokens, costs or times."""
    entries = with_last(grow([None, 0]), cost_usd=0.5)
    layout = lay_out(entries)
    later = lay_out([replace(e, created_at=e.created_at.replace(year=2027), total_tokens=7) for e in entries])
    assert "UTC" not in tree_svg(layout, measured=False)
    assert tree_svg(layout, measured=False) == tree_svg(later, measured=False)
    assert tree_plain(layout, measured=False) == tree_plain(later, measured=False)


def test_an_empty_conversation_says_so() -> None:
    """There is a sentence instead of nothing."""
    layout = lay_out([])
    assert "No questions yet." in tree_svg(layout, attributes=acting)
    assert tree_plain(layout) == "No questions yet."
    assert tree_markdown(layout) == "*No questions yet.*"


def test_a_fold_can_be_opened() -> None:
    """It is a node of its own that says how much it stands for."""
    layout = lay_out(chain(1_000))
    fold = nodes(tree_svg(layout, attributes=acting))[1]
    assert fold.get("aria-label") == "940 questions not shown, on the active branch"
    assert fold.get("data-act") == "open"
    assert "… 940 questions" in tree_plain(layout)


@pytest.mark.parametrize("bushy", [False, True])
def test_a_thousand_messages_are_drawn_at_once(bushy: bool) -> None:
    """Arranging and drawing take less than 50 ms, and the drawing less than 300 KB."""
    chance = random.Random(1)  # noqa: S311 - a tree, not a secret
    rule = chance.randrange if bushy else (lambda number: number - 1)
    entries = grow([rule(number) if number else None for number in range(1_000)], question=lambda _n: "Why so? " * 30)
    for attempt in within(0.05):
        with attempt:
            svg = tree_svg(lay_out(entries, selected="m500"), selected="m500", attributes=acting)
    assert len(svg.encode()) < 300_000
