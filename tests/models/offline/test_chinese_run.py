"""Chinese in the index, in a run with the offline model and in the saved notebook."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import artifactflow_nb as af
from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.sources.retrieval.sentences import collapse_whitespace
from artifactflow_nb.store.database import Database
from artifactflow_nb.widgets.run.saved import saved_run

FOLDER = Path(__file__).parent / "chinese"
QUESTION = "数据库的全量备份保留多久？"
FACT = "全量备份保留35天，增量备份保留7天，年底的一份存档永久保存。"
ADDRESS = "local:chinese/数据备份.md#备份周期"


@pytest.fixture
def workbench(tmp_path: Path) -> Iterator[af.Workbench]:
    wb = af.Workbench(model=OfflineModel(), data_dir=tmp_path / "data", approvals="approve")
    wb.sources.add(FOLDER)
    yield wb
    wb.close()


@pytest.fixture
async def sources(tmp_path: Path) -> Any:
    database = Database(tmp_path / "store.db")
    await database.open()
    manager = SourceManager(database, SystemClock())
    await manager.add_folder(FOLDER)
    yield manager
    await database.close()


@pytest.mark.parametrize(
    ("query", "section"),
    [
        ("调休", "休假.md#调休"),  # two characters
        ("转子", "实验室/离心机.md#"),
        ("税", "报销制度.md#发票"),  # one
        ("batch_query", "接口文档.md#限流"),  # a name between Chinese words
        ("query", "接口文档.md#限流"),  # its part
        ("HDMI 2", "会议室.txt#"),
        ("Python 3.11", "接口文档.md#版本与环境"),  # a version
        ("ＡＥＳ－２５６", "数据备份.md#存放地点"),  # full width
        ("谁备份，谁不得持有密钥", "数据备份.md#存放地点"),  # a phrase
        ("「有機」、「無機」", "實驗室安全.md#化學品"),  # traditional, in quotation marks
        ("4 ℃", "实验室/离心机.md#运行"),  # a unit
    ],
)
async def test_words_of_any_length_are_found(sources: SourceManager, query: str, section: str) -> None:
    """One character, two, names among Chinese words, versions, phrases and traditional characters are found."""
    assert (await sources.search(query))[0].address.startswith(f"local:chinese/{section}")


async def test_word_is_found_across_a_line_break(sources: SourceManager, tmp_path: Path) -> None:
    """A word in a wrapped text is found; a numbered heading does not name the file."""
    folder = tmp_path / "wrapped"
    folder.mkdir()
    (folder / "说明.txt").write_text("第一章 仪器\n分光光度\n计要预热半小时。\n", encoding="utf-8")
    await sources.add_folder(folder)
    (hit,) = await sources.search("光度计", scope=["wrapped/说明.txt"])
    assert hit.address == "local:wrapped/说明.txt#第一章-仪器"
    assert "分光光度\n计" in (await sources.read(hit.address)).text
    assert hit.title == "说明: 第一章 仪器"


async def test_separate_characters_are_no_word(sources: SourceManager) -> None:
    """A pair of characters is a word; a text that contains both characters apart does not match the word."""
    assert (await sources.word_counts("假年")).counts["假年"] == 0
    assert await sources.search("假年") == []


def test_chinese_question_gets_a_chinese_report(workbench: af.Workbench) -> None:
    """Headings, note and plan are Chinese, and every quote is in the cited file."""
    run = workbench.ask(QUESTION).wait()
    assert run.status == "completed"
    assert f"> {FACT} [1]" in run.response
    report = run.artifacts["research_report"]
    assert report.title == QUESTION
    assert report.content.startswith(f"# {QUESTION}\n\n## 结果\n\n> ")
    assert f"## 来源\n\n1. 数据备份: 备份周期 — {ADDRESS}" in report.content
    assert "没有使用语言模型" in report.content
    assert run.artifacts["task_plan"].title == f"计划：{QUESTION}"
    quotes = re.findall(r"^> (.*) \[\d+\]$", report.content, re.MULTILINE)
    files = [collapse_whitespace(file.read_text(encoding="utf-8")) for file in FOLDER.rglob("*.*")]
    assert quotes
    assert all(any(quote in text for text in files) for quote in quotes)


def test_chinese_question_without_answer_gets_a_chinese_reply(workbench: af.Workbench) -> None:
    """Nothing is made up, and no sentence is English."""
    answer = str(workbench.ask("食堂的午饭几点开始供应？").wait().response)
    assert answer.startswith("对于这个问题，资料中没有可以引用的说明。")
    assert not re.search("[a-z]", answer.partition("没有使用语言模型")[0].replace("local:chinese", ""))


def test_follow_up_uses_the_earlier_question(workbench: af.Workbench) -> None:
    """A question that refers back is understood with the words of the earlier question."""
    workbench.ask(QUESTION).wait()
    assert "增量备份" in str(workbench.ask("那增量的呢？").wait().response)


def test_long_title_is_cut_between_characters(workbench: af.Workbench) -> None:
    """A conversation's title has at most 80 columns and ends with an ellipsis."""
    question = "请问" + "数据备份的周期和存放地点" * 10 + "是什么？"
    workbench.ask(question).wait()
    (conversation,) = workbench.conversations()
    assert conversation.title == question[:39] + "…"


def test_saved_output_marks_chinese_text(workbench: af.Workbench) -> None:
    """All forms contain question and quote; the HTML marks the Chinese parts, and no other parts."""
    bundle = saved_run(workbench.ask(QUESTION).wait()._client)
    assert all(QUESTION in output and FACT in output for output in bundle.values())
    html = bundle["text/html"]
    assert f'<strong><span lang="zh">{QUESTION}</span></strong>' in html
    assert f'<span class="af-title"><span lang="zh">{QUESTION}</span></span>' in html
    quote = re.search(r'<blockquote lang="zh">&#10;<p>(.*?)</p>', html)
    assert quote is not None
    assert FACT in re.sub(r"<[^>]+>", "", quote[1])
    english = saved_run(workbench.ask("What is an AES key, and how long is it?").wait()._client)["text/html"]
    assert "<strong>What is an AES key, and how long is it?</strong>" in english
