"""Differences as HTML, Markdown and text."""

import re
from html.parser import HTMLParser

import pytest

from artifactflow_nb.core.text.diff import Layout, TextDiff, diff_html, styled_diff
from artifactflow_nb.errors import UsageError

LAYOUTS: list[Layout] = ["inline", "side_by_side"]
HOSTILE = '</td></table><script>alert(1)</script><img src=x onerror=alert(2)> <b data-act="x">'
OLD = "".join(f"line {n}\n" for n in range(1, 61))
NEW = OLD.replace("line 30\n", "line thirty\n").replace("line 50\n", "")


class Seen(HTMLParser):
    """What a page holds: its elements, and the texts of some."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data


@pytest.mark.parametrize("layout", LAYOUTS)
def test_texts_stay_texts(layout: Layout) -> None:
    """Nothing that the texts hold becomes an element, and every element is closed."""
    seen = Seen(diff_html(f"kept\n{HOSTILE}\n", f"kept\n{HOSTILE} more\n", layout=layout, names=(HOSTILE, HOSTILE)))
    assert set(seen.tags) <= {"div", "p", "table", "tbody", "tr", "td", "ins", "del", "span", "details", "summary"}
    assert seen.open == []
    assert "".join(seen.texts["div"]).count(HOSTILE) == 4


@pytest.mark.parametrize("layout", LAYOUTS)
def test_added_and_removed_words_are_marked(layout: Layout) -> None:
    """Words that went are in del, words that came in ins; the counts say it in a sentence."""
    seen = Seen(diff_html("one two three\n", "one four three\nfive six\n", layout=layout))
    assert (seen.texts["del"], seen.texts["ins"]) == (["two"], ["four", "five six"])
    assert seen.texts["p"] == ["before → after: 1 line changed, 1 line added"]


def test_lines_are_numbered_and_signed() -> None:
    """Inline, a row has both numbers, and a sign that says what colour says; beside each other, each has its own."""
    seen = Seen(diff_html("one two\nsame\n", "one three\nsame\n"))
    assert seen.texts["tr"] == ["1−one two", "1+one three", "22same"]
    assert 'aria-label="removed">−' in diff_html("one two\n", "one three\n")
    assert Seen(diff_html("one two\n", "one three\n", layout="side_by_side")).texts["tr"] == ["1one two1one three"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_unchanged_lines_are_collapsed(layout: Layout) -> None:
    """Three lines around a change are shown, and longer stretches are folded, with all their lines in the fold."""
    seen = Seen(diff_html(OLD, NEW, layout=layout))
    assert seen.texts["summary"] == ["… 26 unchanged lines", "… 13 unchanged lines", "… 7 unchanged lines"]
    assert all(f"line {n}" in "".join(seen.texts["div"]) for n in range(1, 61))


def test_short_gap_is_not_collapsed() -> None:
    """A fold that would hide fewer lines than it is worth is not made."""
    old = "".join(f"{n}\n" for n in range(12))
    assert "<details" not in diff_html(old, old.replace("0\n", "x\n", 1).replace("10\n", "y\n"))


def test_invisible_characters_are_shown_by_code_point() -> None:
    """A character without a shape, or one that turns the text around, is named."""
    seen = Seen(diff_html("same day\n", "same\u200b \u202eyad\x07\n"))
    assert "[U+200B]" in seen.texts["ins"][0]
    assert "[U+202E]yad[U+0007]" in "".join(seen.texts["ins"])
    assert "(no line feed at the end)" in diff_html("a\n", "a")


def test_the_same_texts_say_so() -> None:
    """Where nothing differs one sentence says it."""
    assert Seen(diff_html(OLD, OLD, names=("v1", "v2"))).texts["div"] == ["v1 → v2: no difference"]
    assert TextDiff("a", "a", ("v1", "v2")).plain() == "v1 → v2: no difference"


def test_a_very_long_difference_is_cut() -> None:
    """The page holds the first 2,000 changed lines, and says how many more there are; folds are cut as well."""
    page = diff_html("x\n" * 50_000, "y\n" * 50_000)
    assert "… 48,000 further changed lines" in page
    assert len(page) < 1_000_000
    page = diff_html("same\n" * 50_000 + "end", "same\n" * 50_000 + "END")
    assert "… 47,997 lines more" in page
    assert len(page) < 1_000_000


def test_chinese_is_marked_as_such() -> None:
    """The element says its language, so that the characters have the right shapes."""
    assert '<div class="af-diff af-diff-inline" lang="zh">' in diff_html("温度计每年校准一次。", "温度计每月校准一次。")


def test_markdown_is_a_fence_that_nothing_closes() -> None:
    """The difference stands in a fence longer than any in the texts."""
    fenced = TextDiff("```\nold\n```\n", "````\nnew\n````\n")._repr_markdown_()
    assert fenced.startswith("`````diff\n--- a\n+++ b\n")
    assert fenced.endswith("\n`````")
    assert "\n`````" not in fenced[:-6]


def test_another_layout_is_an_error() -> None:
    """The error names the layouts that there are."""
    with pytest.raises(UsageError, match="layout is 'split'; it must be 'inline' or 'side_by_side'"):
        diff_html("a", "b", layout="split")  # type: ignore[arg-type]


def test_every_rule_is_within_the_views() -> None:
    """No rule of the style reaches beyond `.af-run`, and every class that the HTML has begins with `af-diff`."""
    style = styled_diff("").partition("<style>")[2].partition("</style>")[0]
    plain = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    heads = [head for head in re.findall(r"([^{}]+)\{", plain) if not head.strip().startswith("@")]
    assert all(".af-run" in selector for head in heads for selector in head.split(","))
    page = diff_html(OLD, NEW) + diff_html(OLD, NEW, layout="side_by_side")
    names = {name for named in re.findall('class="(.*?)"', page) for name in named.split()}
    assert {name for name in names if not name.startswith("af-diff")} == set()
