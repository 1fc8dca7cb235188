"""The tree as nested lists, Markdown and plain text."""

import random
import re
import time
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from support.conversation_trees import chain, grow, with_last
from support.cpu_time import within

from artifactflow_nb.store.conversation_tree import TreeEntry
from artifactflow_nb.widgets.conversations.folding import FoldedMessages
from artifactflow_nb.widgets.conversations.layout import layout_tree
from artifactflow_nb.widgets.conversations.text import tree_text
from artifactflow_nb.widgets.conversations.tree import tree_html

HOSTILE = [
    "</li></ul><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "![x](https://evil.invalid/x.png) [y](javascript:alert(1))",
    "~~~ <b>fence",
    "]]> --> <!-- & &amp; &#0; \x00\x1b[31m",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 上下文管理器 \u202egnol",
    "x" * 10_000,
    "# heading",
]


def acting(part: TreeEntry | FoldedMessages) -> str:
    return f'data-act="{"open" if isinstance(part, FoldedMessages) else "read"}"'


def nodes(html: str) -> list[ET.Element]:
    """The rows that the keyboard reaches."""
    return [row for row in ET.fromstring(html).iter("div") if row.get("role") == "treeitem"]  # noqa: S314 - our own


def name(row: ET.Element) -> str:
    """The name of a row for screen readers."""
    return row.findtext("span[@class='af-announcer']") or ""


def levels(html: str) -> list[tuple[int, str]]:
    """The questions, each with the number of lists around it."""
    depth, found = 0, []
    for mark, text in re.findall(r'<(/?ul)\b|<span class="af-node-question">([^<]*)', html):
        depth += {"ul": 1, "/ul": -1}.get(mark, 0)
        found += [(depth, text)] if text else []
    assert depth == 0
    return found


def test_times_are_those_of_this_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times are local, as in the home; frames have UTC."""
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    try:
        (node,) = nodes(tree_html(layout_tree(grow([None])), attributes=acting))
        assert "2026-01-01 04:00 EST" in name(node)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_node_label_contains_question_and_facts() -> None:
    """The accessible name of a node has its question, status, flow and cost."""
    entries = grow([None, 0, 0])
    entries[1] = replace(
        entries[1], status="failed", error="no such model", flow="plan", cost_usd=0.0123, n_artifacts=2
    )
    first, sibling, last = nodes(tree_html(layout_tree(entries), attributes=acting))
    assert name(first) == (
        "Question 1: Question 0? (Completed, 1,000 tokens, 1.5 s, 2026-01-01 09:00 UTC, on the active branch)"
    )
    assert name(sibling) == (
        "Question 2: Question 1? (Failed, plan, no such model, 1,001 tokens, 1.5 s, 2 artifacts, variant 1 of 2, "
        "0.0123 USD, 2026-01-01 09:01 UTC)"
    )
    assert name(last).endswith("09:02 UTC, the next question continues here)")


def test_branch_is_a_list_in_the_question_that_it_follows() -> None:
    """The column of a node is its level; two branches of one question are two lists."""
    assert levels(tree_html(layout_tree(chain(3)))) == [(1, f"Question {n}?") for n in range(3)]
    html = tree_html(layout_tree(grow([None, 0, 1, 0, 3, 2])))
    assert levels(html) == [(depth, f"Question {n}?") for n, depth in ((0, 1), (3, 2), (4, 2), (1, 1), (2, 1), (5, 1))]
    root = ET.fromstring(tree_html(layout_tree(grow([None, 0, 0, 0]))))  # noqa: S314 - our own
    assert [len(item.findall("ul")) for item in root] == [2, 0]
    two_roots = tree_html(layout_tree(grow([None, None])))
    assert levels(two_roots) == [(2, "Question 0?"), (1, "Question 1?")]
    assert two_roots.count("Start") == 1


def test_interactive_tree_has_one_tab_stop() -> None:
    """The tab stop is the selected message, or else the active message; every node has the view's attributes."""
    layout = layout_tree(grow([None, 0, 1]))
    html = tree_html(layout, selected="m1", attributes=acting)
    assert ET.fromstring(html).get("role") == "tree"  # noqa: S314 - our own
    found = nodes(html)
    assert [node.get("tabindex") for node in found] == ["-1", "0", "-1"]
    assert [node.get("aria-selected") for node in found] == ["false", "true", "false"]
    assert [node.get("data-act") for node in found] == ["read"] * 3
    assert [node.get("tabindex") for node in nodes(tree_html(layout, attributes=acting))] == ["-1", "-1", "0"]
    branched = tree_html(layout_tree(grow([None, None, 0])), attributes=acting)
    assert {item.get("role") for item in ET.fromstring(branched).iter("ul")} == {"tree", "group"}  # noqa: S314 - our own


def test_static_tree_is_a_list() -> None:
    """Without attributes no node can be focused or clicked."""
    html = tree_html(layout_tree(grow([None, 0, 0])))
    assert "role" not in html
    assert "tabindex" not in html
    assert "data-act" not in html


@pytest.mark.parametrize(
    ("status", "sign", "word"),
    [
        ("running", "●", "Running"),
        ("waiting", "?", "Waiting for you"),
        ("failed", "✕", "Failed"),
        ("cancelled", "–", "Cancelled"),
        ("abandoned", "!", "Abandoned"),
    ],
)
def test_status_is_a_mark_and_a_word(status: str, sign: str, word: str) -> None:
    """The status does not depend on colour: each status has a mark, and each status but success a word."""
    layout = layout_tree(with_last(grow([None]), status=status, total_tokens=None, total_ms=None))
    text = "".join(ET.fromstring(tree_html(layout, with_metrics=False)).itertext())  # noqa: S314 - our own
    assert text == f"{sign} Question 0? · active · {word}"
    assert tree_text(layout) == text


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_question_stays_text(hostile: str) -> None:
    """The tree is well-formed and has only its own elements."""
    entries = with_last(grow([None, 0, 0], question=lambda _number: hostile), status="failed", error=hostile)
    layout = layout_tree(entries)
    html = tree_html(layout, attributes=acting)
    assert {element.tag for element in ET.fromstring(html).iter()} <= {"ul", "li", "div", "span"}  # noqa: S314 - our own
    assert len(html) < 8_000
    assert len(tree_text(layout).splitlines()) == html.count("<li") == 3


def test_chinese_question_has_language_tag() -> None:
    """Fonts and screen readers need the language of a Chinese question."""
    html = tree_html(layout_tree(grow([None], question=lambda _number: "上下文管理器如何处理异常？")))
    assert 'lang="zh"' in html


def test_plain_text_shows_branches() -> None:
    """The text nests the branches, with an arrow at the first message of each."""
    layout = layout_tree(grow([None, 0, 1, 1, 0]))
    lines = [
        "✓ Question 0?",
        "  ↳ ✓ Question 1? · variant 1 of 2",
        "    ↳ ✓ Question 2? · variant 1 of 2",
        "  ✓ Question 3? · variant 2 of 2",
        "✓ Question 4? · active · variant 2 of 2",
    ]
    assert tree_text(layout).splitlines() == lines
    assert tree_text(layout_tree(grow([None, None]))).splitlines() == [
        "Start", "  ↳ ✓ Question 0? · variant 1 of 2", "✓ Question 1? · active · variant 2 of 2",
    ]  # fmt: skip


def test_metrics_can_be_left_out() -> None:
    """A tree for notebooks that are compared byte for byte has no tokens, costs or times."""
    entries = with_last(grow([None, 0]), cost_usd=0.5)
    layout = layout_tree(entries)
    later = layout_tree([replace(e, created_at=e.created_at.replace(year=2027), total_tokens=7) for e in entries])
    assert "UTC" not in tree_html(layout, with_metrics=False)
    assert tree_html(layout, with_metrics=False) == tree_html(later, with_metrics=False)
    assert tree_text(layout) == tree_text(later)


def test_empty_conversation_has_placeholder_text() -> None:
    """Each format has a sentence in place of the tree."""
    layout = layout_tree([])
    assert "No questions yet." in tree_html(layout, attributes=acting)
    assert tree_text(layout) == "No questions yet."


def test_fold_is_a_clickable_node() -> None:
    """The label of a fold counts the hidden messages."""
    layout = layout_tree(chain(1_000))
    fold = nodes(tree_html(layout, attributes=acting))[1]
    assert name(fold) == "940 questions not shown, on the active branch"
    assert fold.get("data-act") == "open"
    assert "… 940 questions" in tree_text(layout)


@pytest.mark.timed
@pytest.mark.parametrize("bushy", [False, True])
def test_thousand_messages_are_drawn_within_50_ms(bushy: bool) -> None:
    """Layout and tree together take less than 50 ms, and the tree has less than 300 KB."""
    chance = random.Random(1)  # noqa: S311 - a tree, not a secret
    rule = chance.randrange if bushy else (lambda number: number - 1)
    entries = grow([rule(number) if number else None for number in range(1_000)], question=lambda _n: "Why so? " * 30)
    for attempt in within(0.05):
        with attempt:
            html = tree_html(layout_tree(entries, selected="m500"), selected="m500", attributes=acting)
    assert len(html.encode()) < 300_000
