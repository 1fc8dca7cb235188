"""Comparison of texts down to words."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cpu_time import within

from artifactflow_nb.core.text.comparison import DiffLine, DiffSection, compare_texts

WORDS = st.lists(
    st.sampled_from(["a", "b", "word", " ", "\t", "\n", "\r\n", "中", "é", "👩\u200d💻", ",", "-"]), max_size=30
)
TEXTS = st.one_of(WORDS.map("".join), st.text(max_size=60))


def lines_of(stretches: tuple[DiffSection, ...], side: str) -> list[tuple[int, str]]:
    """Return the numbered lines of one of the two texts."""
    numbered: list[tuple[int, str]] = []
    for stretch in stretches:
        start = stretch.old_start if side == "old" else stretch.new_start
        numbered += [(start + n, text) for n, text in enumerate(stretch.unchanged_lines, 1)]
        numbered += [(line.number, line.text) for row in stretch.rows if (line := getattr(row, side)) is not None]
    return numbered


def marked(line: DiffLine | None) -> str | None:
    return None if line is None else "".join(f"[{text}]" if changed else text for text, changed in line.spans)


def rows(old: str, new: str) -> list[tuple[str | None, str | None]]:
    """Return the changed lines, with the differing parts in brackets."""
    return [(marked(row.old), marked(row.new)) for stretch in compare_texts(old, new) for row in stretch.rows]


@given(TEXTS, TEXTS)
@settings(max_examples=300)
def test_comparison_contains_both_texts(old: str, new: str) -> None:
    """Every line of both texts appears once, in order and with its number; unmarked parts are in both."""
    sections = compare_texts(old, new)
    for side, text in (("old", old), ("new", new)):
        lines = text.removesuffix("\n").split("\n") if text else []
        assert lines_of(sections, side) == list(enumerate(lines, 1))
    for stretch in sections:
        for row in stretch.rows:
            if row.is_similar and row.old and row.new:
                unmarked = ["".join(text for text, changed in line.spans if not changed) for line in (row.old, row.new)]
                assert unmarked[0] == unmarked[1]
    assert (not any(stretch.rows for stretch in sections)) == (old == new)


def test_differing_words_are_marked() -> None:
    """Only the differing words of an edited line are marked; a new line is marked as a whole."""
    old = "The quick brown fox\njumps over the dog.\nkept\n"
    new = "The quick red fox\njumps over the lazy dog.\nA line that was not there.\nkept\n"
    assert rows(old, new) == [
        ("The quick [brown ]fox", "The quick [red ]fox"),
        ("jumps over the dog.", "jumps over the [lazy ]dog."),
        (None, "[A line that was not there.]"),
    ]


def test_chinese_is_compared_by_character() -> None:
    """Text without spaces is compared character by character."""
    assert rows("温度计每年校准一次。\n", "温度计每月校准一次。\n") == [
        ("温度计每[年]校准一次。", "温度计每[月]校准一次。")
    ]


def test_combined_characters_are_marked_as_a_whole() -> None:
    """Accents, joined emoji and vowel signs stay with their character."""
    assert rows("cafe au lait", "cafe\u0301 au lait") == [("[cafe ]au lait", "[cafe\u0301 ]au lait")]
    assert rows("us 👩\u200d💻 two", "us 👩\u200d🔬 two") == [("us [👩\u200d💻] two", "us [👩\u200d🔬] two")]
    assert rows("यह किताब है", "यह कीताब है") == [("यह [किताब ]है", "यह [कीताब ]है")]


def test_lines_without_common_words_are_marked_as_a_whole() -> None:
    """Lines without common words are in one row, but are not compared by word."""
    (stretch,) = compare_texts("alpha beta gamma\n", "one two three\n")
    assert not stretch.rows[0].is_similar
    assert rows("alpha beta gamma\n", "one two three\n") == [("[alpha beta gamma]", "[one two three]")]


def test_missing_line_feed_is_a_difference() -> None:
    """A missing line feed at the end is a difference, and so is a carriage return."""
    ((row,),) = [stretch.rows for stretch in compare_texts("a\nb", "a\nb\n") if stretch.rows]
    assert row.old is not None
    assert row.new is not None
    assert (row.old.has_newline, row.new.has_newline, row.old.text) == (False, True, "b")
    assert rows("word one\r\n", "word one\n") == [("word one[\r]", "word one")]


def prose(seed: int, size: int = 100_000) -> str:
    chance = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    words = [f"w{min(int(chance.expovariate(0.005)), 2999)}" for _ in range(size // 5)]
    return re.sub(r"((?:\S+ ){9}\S+) ", r"\1\n", " ".join(words))[:size]


def numbers(kinds: int, n: int, seed: int) -> str:
    chance = random.Random(seed)  # noqa: S311 - the same
    return "".join(f"{chance.randrange(kinds):05d}\n" for _ in range(n))


def wrapped(text: str, columns: int) -> str:
    return re.sub(f"(.{{{columns}}})", r"\1\n", text)


CHINESE = "".join(chr(0x4E00 + random.Random(5).randrange(3000)) for _ in range(33_000))  # noqa: S311 - the same
PROSE = prose(1)


@pytest.mark.timed
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("".join(f"a {n}\n" for n in range(14_000)), "".join(f"b {n}\n" for n in range(14_000))),
        ("".join(f"old line {n % 7}\n" for n in range(9_000)), "".join(f"new line {n % 5}\n" for n in range(9_000))),
        ("x\n" * 50_000, "y\n" * 50_000),
        ("x\ny\n" * 25_000, "y\ny\nx\n" * 16_000),
        (numbers(2, 16_000, 1), numbers(2, 16_000, 2)),
        (numbers(1_000, 16_000, 1), numbers(1_000, 16_000, 2)),
        ("a" * 100_000, "b" * 100_000),
        ("a b " * 25_000, "b a " * 25_000),
        ("+-\n" * 33_000, "-*\n" * 33_000),
        (PROSE, prose(2)),
        (PROSE, re.sub(r"w(\d*[13579])\b", r"X\1", PROSE)),
        (PROSE.replace("\n", " "), prose(2).replace("\n", " ")),
        (wrapped(PROSE.replace("\n", " "), 80), wrapped(PROSE.replace("\n", " "), 70)),
        (wrapped(CHINESE, 30), wrapped(CHINESE[7:], 30)),
        (PROSE, PROSE.replace("\n", "\r\n")),
    ],
    ids=[
        "short pairs",
        "few pairs",
        "all one",
        "interleaved",
        "two kinds",
        "many kinds",
        "one word",
        "two words",
        "signs",
        "prose",
        "half changed",
        "one line",
        "wrapped anew",
        "chinese",
        "carriage returns",
    ],
)
def test_cost_of_a_word_diff_is_bounded(old: str, new: str) -> None:
    """Two texts of 100 KB take less than 300 ms of CPU time, with any content."""
    for attempt in within(0.3):
        with attempt:
            compare_texts(old, new)
