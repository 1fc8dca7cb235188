"""Emphasis and formulas beside scripts without spaces, and the direction of blocks of text."""

import re

import pytest

from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.core.text.scripts import is_right_to_left


@pytest.fixture(scope="module")
def markdown() -> MarkdownRenderer:
    return MarkdownRenderer()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**注意：**正文", "<strong>注意：</strong>正文"),
        ("含**「重点」**内容", "含<strong>「重点」</strong>内容"),
        ("これは**「強調」**です", "これは<strong>「強調」</strong>です"),
        ("**결론:**입니다", "<strong>결론:</strong>입니다"),
        ("价格**（含税）**为五元", "价格<strong>（含税）</strong>为五元"),
        ("说**“好”**了", "说<strong>“好”</strong>了"),
        ("*斜体。*后面", "<em>斜体。</em>后面"),
        ("~~删除。~~后面", "<s>删除。</s>后面"),
        ("**粗*斜。*体**了", "<strong>粗<em>斜。</em>体</strong>了"),
        ("全角 ** 空格", "全角 ** 空格"),
        ("2**3**4 and a * b", "2<strong>3</strong>4 and a * b"),
        ("snake_case_name, 文_件_名 and __init__", "snake_case_name, 文_件_名 and __init__"),
        ('**"a"**b', '**"a"**b'),
    ],
)
def test_emphasis_beside_scripts_without_spaces(markdown: MarkdownRenderer, text: str, shown: str) -> None:
    """Chinese, Japanese and Korean need no space beside a mark; other scripts follow CommonMark."""
    assert re.sub(' lang="[^"]*"', "", markdown.html(text)).strip() == f"<p>{shown}</p>"


@pytest.mark.parametrize("text", ["速度$v$为常数", "当$x=1$时", "それは$y^2$です", "값은$z$입니다"])
def test_formula_beside_scripts_without_spaces(markdown: MarkdownRenderer, text: str) -> None:
    """A dollar sign within Latin letters still starts no formula."""
    assert "<math" in markdown.html(text)
    assert "<math" not in markdown.html("US$5 and US$6, a$b$c")


ARABIC = (
    "# البحيرة\n\nمالك `wait()` عند $x$.\n\n- أولا\n\n| المحطة |\n| --- |\n| ألدر |\n\n> اقتباس\n\n"
    "```python\nx = 1\n```\n"
)


def test_blocks_of_text_have_their_own_direction(markdown: MarkdownRenderer) -> None:
    """Lists and tables are laid out from right to left; code and formulas stay left to right."""
    html = markdown.html(ARABIC)
    for tag in ("h1", "p", "li", "th", "td", "blockquote"):
        assert set(re.findall(rf"<{tag}\b[^>]*>", html)) == {f'<{tag} dir="auto">'}
    assert '<ul dir="rtl">' in html
    assert '<table tabindex="0" dir="rtl">' in html
    assert '<code dir="ltr">wait()</code>' in html
    assert all('dir="ltr"' in tag for tag in re.findall("<math[^>]*>", html))


def test_text_from_left_to_right_has_no_direction(markdown: MarkdownRenderer) -> None:
    """The direction of the page holds, so that saved notebooks do not grow."""
    assert "dir=" not in markdown.html("# Title\n\nA *b*.\n\n- c\n\n中文。\n")
    mixed = markdown.html("English first, then עברית.")
    assert '<p dir="auto">' in mixed


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1. مرحبا", True), ("שלום world", True), ("world שלום", False), ("12", False), ("你好", False)],
)
def test_first_letter_decides_the_direction(text: str, expected: bool) -> None:
    assert is_right_to_left(text) is expected
