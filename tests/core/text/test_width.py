"""Widths in columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifactflow_nb.core.text.format import clip, clip_words, cut, width


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("备份", 4), ("备份 2 次", 9), ("é", 1), ("e\u0301", 1), ("，。「」", 8), ("“a” – …", 7), ("👍🏽", 4)],
)
def test_chinese_character_takes_two_columns(text: str, columns: int):
    """Han characters and full-width punctuation take two columns, accents none, other characters one."""
    assert width(text) == columns


def test_combined_characters_are_not_split():
    """Truncation keeps accents with their letters and joined emoji whole."""
    assert cut("数据备份", 5) == "数据"
    assert cut("ae\u0301b", 2) == "ae\u0301"
    assert cut("a👩\u200d🔬b", 4) == "a"
    assert cut("短", 10) == "短"


def test_clipped_line_fits():
    """The ellipsis is part of the width; a line that fits is unchanged."""
    assert clip("数据 备份", 9) == "数据 备份"
    assert clip("数据备份的周期", 9) == "数据备份…"
    assert clip("how often is it saved", 9) == "how ofte…"
    assert width(clip("数据备份的周期" * 20, 40)) <= 40


@pytest.mark.parametrize(
    ("text", "clipped"),
    [
        ("hello brave new world", "hello brave …"),
        ("## 备份 数据库每天凌晨两点做一次全量备份", "## 备份 数据 …"),
        ("采用加密AES-256算法", "采用加密 …"),
        ("备份", "备份"),
    ],
)
def test_words_stay_whole(text: str, clipped: str):
    """Text is truncated between words, Chinese between any two characters."""
    assert clip_words(text, 13) == clipped


@given(st.text(st.sampled_from("ab 一。ー가Ａ々〪é\u0301\u200d👩🔬🏽\uff61ｱ"), max_size=30), st.integers(-1, 40))
def test_width_is_the_sum_of_the_characters(text: str, columns: int) -> None:
    """A truncated text is a prefix that fits, or the whole text if the whole text fits."""
    assert width(text) == sum(width(character) for character in text)
    truncated = cut(text, columns)
    assert text.startswith(truncated)
    assert width(truncated) <= max(columns, 0)
    assert truncated == text or width(text) > columns
