"""Differences as HTML, Markdown and text."""

import re
from html.parser import HTMLParser

import pytest

from artifactflow_nb.core.text.diff import Layout, TextDiff, diff_html
from artifactflow_nb.core.text.panels import stylesheet
from artifactflow_nb.errors import UsageError

LAYOUTS: list[Layout] = ["inline", "side_by_side"]
HOSTILE = '</td></table><script>alert(1)</script><img src=x onerror=alert(2)> <b data-act="x">'
OLD = "".join(f"line {n}\n" for n in range(1, 61))
NEW = OLD.replace("line 30\n", "line thirty\n").replace("line 50\n", "")


class Seen(HTMLParser):
    """The elements of a page, and the texts of some of them."""

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
def test_hostile_text_is_escaped(layout: Layout) -> None:
    """The texts add no elements, and every element is closed."""
    seen = Seen(diff_html(f"kept\n{HOSTILE}\n", f"kept\n{HOSTILE} more\n", layout=layout, names=(HOSTILE, HOSTILE)))
    assert set(seen.tags) <= {"div", "p", "table", "tbody", "tr", "td", "ins", "del", "span", "details", "summary"}
    assert seen.open == []
    assert "".join(seen.texts["div"]).count(HOSTILE) == 4


@pytest.mark.parametrize("layout", LAYOUTS)
def test_added_and_removed_words_are_marked(layout: Layout) -> None:
    """Removed words are in `del`, added words in `ins`; a sentence has the counts."""
    seen = Seen(diff_html("one two three\n", "one four three\nfive six\n", layout=layout))
    assert (seen.texts["del"], seen.texts["ins"]) == (["two "], ["four ", "five six"])
    assert seen.texts["p"] == ["before → after: 1 line changed, 1 line added"]


def test_lines_are_numbered_and_signed() -> None:
    """An inline row has both numbers and a sign besides the colour; side by side, each side has its number."""
    seen = Seen(diff_html("one two\nsame\n", "one three\nsame\n"))
    assert seen.texts["tr"] == ["1−one two", "1+one three", "22same"]
    assert 'aria-label="removed">−' in diff_html("one two\n", "one three\n")
    assert Seen(diff_html("one two\n", "one three\n", layout="side_by_side")).texts["tr"] == ["1one two1one three"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_unchanged_lines_are_collapsed(layout: Layout) -> None:
    """Three lines around a change are visible; longer unchanged sections are folded with all their lines."""
    seen = Seen(diff_html(OLD, NEW, layout=layout))
    assert seen.texts["summary"] == ["… 26 unchanged lines", "… 13 unchanged lines", "… 7 unchanged lines"]
    assert all(f"line {n}" in "".join(seen.texts["div"]) for n in range(1, 61))


def test_short_gap_is_not_collapsed() -> None:
    """A fold that hides fewer than four lines is not worth it."""
    old = "".join(f"{n}\n" for n in range(12))
    assert "<details" not in diff_html(old, old.replace("0\n", "x\n", 1).replace("10\n", "y\n"))


def test_invisible_characters_are_shown_by_code_point() -> None:
    """Invisible characters and changes of direction are shown by code point."""
    seen = Seen(diff_html("same day\n", "same\u200b \u202eyad\x07\n"))
    assert "[U+200B]" in seen.texts["ins"][0]
    assert "[U+202E]yad[U+0007]" in "".join(seen.texts["ins"])
    assert "(no line feed at the end)" in diff_html("a\n", "a")


def test_equal_texts_have_no_difference() -> None:
    """The heading has the words `no difference`."""
    assert Seen(diff_html(OLD, OLD, names=("v1", "v2"))).texts["div"] == ["v1 → v2: no difference"]
    assert TextDiff("a", "a", ("v1", "v2")).plain() == "v1 → v2: no difference"


def test_very_long_diff_is_truncated() -> None:
    """The first 2,000 changed lines are shown, with the number of omitted lines; folds are truncated too."""
    page = diff_html("x\n" * 50_000, "y\n" * 50_000)
    assert "… 48,000 further changed lines" in page
    assert len(page) < 1_000_000
    page = diff_html("same\n" * 50_000 + "end", "same\n" * 50_000 + "END")
    assert "… 47,997 lines more" in page
    assert len(page) < 1_000_000


def test_chinese_has_a_language_attribute() -> None:
    """Browsers choose the shapes of the characters by the attribute."""
    assert '<div class="af-diff af-diff-inline" lang="zh">' in diff_html("温度计每年校准一次。", "温度计每月校准一次。")


def test_unknown_layout_is_an_error() -> None:
    """The error names the known layouts."""
    with pytest.raises(UsageError, match="layout is 'split'; it must be 'inline' or 'side_by_side'"):
        diff_html("a", "b", layout="split")  # type: ignore[arg-type]


def test_style_is_scoped_to_the_views() -> None:
    """Every rule of the style starts at `.af-run`, and every class of the HTML with `af-diff`."""
    style = stylesheet("diff.css").removeprefix(stylesheet())
    heads = [head for head in re.findall(r"([^{}]+)\{", style) if not head.strip().startswith("@")]
    assert all(".af-run" in selector for head in heads for selector in head.split(","))
    page = diff_html(OLD, NEW) + diff_html(OLD, NEW, layout="side_by_side")
    names = {name for named in re.findall('class="(.*?)"', page) for name in named.split()}
    assert {name for name in names if not name.startswith("af-diff")} == set()
