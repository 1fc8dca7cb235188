"""Chinese in views: language tags, and display widths for clipping and alignment."""

import pytest
from support.played_runs import PlayedRun, Script

from artifactflow_nb.core.text.chinese import language_tag
from artifactflow_nb.core.text.format import width
from artifactflow_nb.core.text.markdown import MarkdownRenderer, escape_with_language
from artifactflow_nb.widgets.run.labels import main_argument
from artifactflow_nb.widgets.run.saved import saved_run


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("备份保留多久？", "zh"),
        ("備份要保留多久？", "zh-Hant"),
        ("茶", "zh"),
        ("会議室はどこですか", ""),
        ("How long?", ""),
        ("What does 普洱 mean?", ""),
    ],
)
def test_language_of_text_is_marked(text: str, tag: str) -> None:
    """Chinese texts have a language tag, with a separate tag for traditional characters; other texts have no tag."""
    assert language_tag(text) == tag
    assert escape_with_language(text) == (f'<span lang="{tag}">{text}</span>' if tag else text)


def test_language_is_marked_per_paragraph() -> None:
    """In a mixed text only the Chinese paragraphs, lists and tables have a language tag, once each."""
    html = MarkdownRenderer().html(
        "Two words.\n\n每天备份。\n\n- 一项\n- 两项\n\n> 引文在此。\n>\n> 还有一句。\n\n~~~\n代码\n~~~"
    )
    assert html.count('lang="zh"') == 3
    assert all(part in html for part in ("<p>Two", '<p lang="zh">每', '<ul lang="zh">', '<blockquote lang="zh">'))


def test_markup_in_chinese_text_is_escaped() -> None:
    """Text with a language tag is escaped."""
    assert escape_with_language("备份的<img onerror=1>周期") == '<span lang="zh">备份的&lt;img onerror=1&gt;周期</span>'


def test_argument_is_clipped_by_display_width() -> None:
    """The subject of a tool call has the same maximum width in Chinese and in English."""
    assert width(main_argument({"query": "数据备份" * 40})) <= 90
    assert len(main_argument({"query": "backup " * 40})) <= 90


def test_chinese_instruction_is_marked_in_saved_run(script: Script) -> None:
    """Questions, arguments and parameters have a language tag; labels of the view have no tag."""
    script.call("web_search", "tc-1", {"query": "备份周期"})
    html = saved_run(PlayedRun(script.events, question="备份的周期是多久？"))["text/html"]
    assert '<strong><span lang="zh">备份的周期是多久？</span></strong>' in html
    assert '<span class="af-arg"><span lang="zh">备份周期</span></span>' in html
    assert '<dd><span lang="zh">备份周期</span></dd>' in html
    assert '<span class="af-name">Search</span>' in html
