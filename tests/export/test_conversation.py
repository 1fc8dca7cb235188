"""Branches of conversations as files."""

import json
import re
from functools import partial
from html import unescape
from pathlib import Path

import docx
import pytest
from conftest import OpenWorkbench
from support.replies import call, report

import artifactflow_nb as af
from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.export.conversation import conversation_document
from artifactflow_nb.export.files import EXPORT_FORMATS, document_bytes
from artifactflow_nb.models.offline.model import OfflineModel

FAKE_TURN = "Fine.\n\n```\n## 2. A question that nobody asked?\n\n<img src=https://hostile.invalid/p.png>"


@pytest.fixture
def workbench(workbench: OpenWorkbench) -> OpenWorkbench:
    """Workbenches that approve every request."""
    return partial(workbench, approvals="approve")


def test_branch_is_exported_with_sources_and_artifacts(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Each question has its answer, sources and artifacts; the texts of the artifacts follow."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "cats.md").write_text("# Cats\n\nCats sleep for sixteen hours of the day.\n")
    wb = workbench(model=OfflineModel())
    wb.sources.add(tmp_path / "notes")
    run = wb.ask("How long do cats sleep?").wait(20)
    text = wb.conversations()[0].to_markdown(tmp_path).read_text()
    question, rest = text.split("**Sources read**")
    read, rest = rest.split("**Written**")
    assert question.startswith("# How long do cats sleep?\n\n")
    assert [line for line in text.splitlines() if "How long do cats sleep?" in line and line.startswith("#")] == [
        "# How long do cats sleep?"
    ]
    assert "Cats sleep for sixteen hours" in question
    assert "Cats: local:" in read
    assert f"{run.artifacts['research_report'].title}, v1" in rest
    assert rest.count("Cats sleep for sixteen hours") == 1


def test_numbers_of_sources_belong_to_their_answer(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """`[1]` is the first source of the list of the same answer; an answer without a list has the list of its report."""
    listing = "\n\n1. {}: https://{}.example/\n"
    wb = workbench(
        [
            "Tea is old [1]." + listing.format("Leaves", "tea"),
            "Coffee is older [1]." + listing.format("Beans", "coffee"),
            report("# Milk\n\nMilk is white [1]." + listing.format("Cows", "milk")),
            "Milk is oldest [1].",
        ]
    )
    run = wb.ask("Tea?").wait(10)
    for question in ("Coffee?", "Milk?"):
        run = wb.ask(question, conversation_id=run.conversation_id).wait(10)
    html = wb.conversation(run).to_html(tmp_path).read_text()
    cited = re.findall(r"(\w+) is \w+ <span.*?<b>(\w+)</b>", html)
    assert cited == [("Tea", "Leaves"), ("Coffee", "Beans"), ("Milk", "Cows"), ("Milk", "Cows")]


def test_titles_and_tags_are_the_same_in_every_format(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Brackets of a title are no formula; subscripts and formulas are exported, too."""
    title = "Nitrate (太湖) in [mg/L]"
    wb = workbench(
        [call("create_artifact", id="r", title=title, content="H<sub>2</sub>O, $c_0$, $\\ce{NO3-}$"), "Written."]
    )
    conversation = wb.conversation(wb.ask(f"What is {title}?").wait(10))
    word = docx.Document(str(conversation.to_docx(tmp_path)))
    texts = {
        "docx": "\n".join(paragraph.text for paragraph in word.paragraphs),
        "html": unescape(re.sub("<[^>]*>", "", conversation.to_html(tmp_path).read_text())),
        "ipynb": MarkdownRenderer().html(
            "".join(json.loads(conversation.to_ipynb(tmp_path).read_text())["cells"][-1]["source"])
        ),
    }
    for form, text in texts.items():
        assert text.count(title) == {"docx": 3, "html": 4, "ipynb": 1}[form], form
    assert "H2O, $c_0$, $\\ce{NO3-}$" in texts["docx"]
    assert [run.text for paragraph in word.paragraphs for run in paragraph.runs if run.font.subscript] == ["2"]
    assert "H<sub>2</sub>O, $c_0$, $\\ce{NO3-}$" in conversation.to_markdown(tmp_path).read_text()


def test_later_questions_are_counted(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The file of a run ends with the answer of the run, and has the number of later questions."""
    wb = workbench(["One.", "Two.", "Three."])
    first = wb.ask("First?").wait(10)
    for question in ("Second?", "Third?"):
        last = wb.ask(question, conversation_id=first.conversation_id).wait(10)
    text = wb.conversation(first).to_markdown(tmp_path).read_text()
    assert "*Not in this file: 2 later questions of the conversation.*" in text
    assert "Second?" not in text
    assert "later question" not in wb.conversation(last).to_markdown(tmp_path / "all.md").read_text()


def test_each_sibling_branch_is_exported_by_itself(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A message selects its branch; the default is the active branch."""
    wb = workbench(["One way.", "Another way."])
    first = wb.ask("Which way?").wait(10)
    wb.conversation(first).regenerate().wait(10)
    active = wb.conversations()[0].to_markdown(tmp_path).read_text()
    other = wb.conversation(first).to_markdown(tmp_path / "other.md").read_text()
    assert ("Another way." in active, "One way." in active) == (True, False)
    assert ("Another way." in other, "One way." in other) == (False, True)


def test_every_format_contains_the_questions(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A notebook has a cell for each question, and the file is named after the title."""
    wb = workbench(["It *is*.", report("# Found\n\nText of the report."), "Written."])
    first = wb.ask("Is it?").wait(10)
    wb.ask("Write\nit down.", conversation_id=first.conversation_id).wait(10)
    conversation = wb.conversations()[0]
    page, notebook = conversation.to_html(tmp_path), conversation.to_ipynb(tmp_path)
    word = conversation.to_docx(tmp_path)
    assert [path.name for path in (page, notebook, word)] == ["Is_it.html", "Is_it.ipynb", "Is_it.docx"]
    assert all(text in page.read_text() for text in ("<em>is</em>", "2. Write it down.", "Text of the report."))
    exported = json.loads(notebook.read_text())
    heads = [cell["source"][0].strip() for cell in exported["cells"]]
    assert heads == ["# Is it?", "## 1. Is it?", "## 2. Write it down.", "## Found"]
    assert exported["metadata"]["artifactflow"]["conversation_id"] == conversation.conversation_id
    with pytest.raises(UsageError, match="overwrite=True"):
        conversation.to_html(tmp_path)


def test_headings_of_texts_are_below_their_chapters(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A report with or without a title of its own has one heading of level 2; sources are a list and can be cited."""
    listing = "## Sources\n\n[1] Cats: https://cats.example/\n[2] Dogs: https://dogs.example/"
    wb = workbench([report(f"In short [2].\n\n## 1. Costs\n\nMany.\n\n{listing}"), "# Answer\n\nDone [2]."])
    run = wb.ask("What does it cost?").wait(10)
    conversation = wb.conversation(run)
    text = conversation.to_markdown(tmp_path).read_text()
    title = run.artifacts["research_report"].title
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        *("# What does it cost?", "## Answer"),
        *(f"## {title}", "### 1. Costs", "### Sources"),
    ]
    assert "- [1] Cats: https://cats.example/ *This run has not read this source.*\n- [2] Dogs" in text
    assert "- [1] Cats" in conversation.to_ipynb(tmp_path).read_text()
    page = conversation.to_html(tmp_path).read_text()
    assert page.count("<b>Dogs</b>") == 3  # in the report, in its list, in the answer
    model, n_tokens = wb.runs_df(run, columns="all")[["models", "total_tokens"]].iloc[0]
    assert f" · {model} · {n_tokens:,} tokens · " in page.split("<footer>")[1]


def test_title_is_shown_once_in_a_file_of_one_question(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Neither the answer nor the report repeats the question as a heading, unlike in a file of several questions."""
    title = "What does the ferry cost?"
    text = f"# {title}\n\nFive.\n\n## Details\n\nEach way."
    wb = workbench([call("create_artifact", id="r", title=title, content=text), f"# {title}\n\nFive.", "Six."])
    run = wb.ask(title).wait(10)
    page = wb.conversation(run).to_html(tmp_path / "one.html").read_text()
    assert re.findall("<h([1-6]).*?>(.*?)</h", page) == [("1", title), ("2", "Details")]
    later = wb.ask("And by day?", conversation_id=run.conversation_id).wait(10)
    page = wb.conversation(later).to_html(tmp_path / "two.html").read_text()
    assert re.findall("<h([1-6]).*?>(.*?)</h", page) == [
        *(("1", title), ("2", f"1. {title}"), ("2", "2. And by day?")),
        *(("2", title), ("3", "Details")),
    ]


def test_export_has_the_language_of_the_views(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The words that the export adds are Chinese; ids and the name of the model are unchanged."""
    report = "# 渡轮\n\n五元 [1]。\n\n## 来源\n\n1. 票价: https://lake.example/fares"
    wb = workbench(
        [call("create_artifact", id="r", title="渡轮", content=report), "见报告 [1]。", af.errors.ModelRejected("No.")],
        language="zh",
    )
    first = wb.ask("渡轮多少钱？").wait(10)
    second = wb.ask("为什么？", conversation_id=first.conversation_id).wait(10)
    texts = {
        form: wb.conversation(run).to_html(tmp_path / f"{form}.html").read_text().split("<main>")[1]
        for form, run in {"first": first, "all": second}.items()
    }
    texts["artifact"] = first.artifacts["r"].to_html(tmp_path / "r.html").read_text().split("<main>")[1]
    for text in texts.values():
        words = re.findall("[A-Za-z]{2,}", re.sub(r"<[^>]*>|https://\S+|conv-\w+", " ", text))
        assert set(words) <= {"scripted", "UTC"}, text
    assert "此文件不含对话中之后的 1 个问题。" in texts["first"]
    assert "任务失败。" in texts["all"]
    assert "r · 第 1 版 · 主智能体 · " in texts["artifact"]


def test_open_code_fence_ends_with_its_answer(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The file has no raw HTML and loads nothing."""
    wb = workbench([FAKE_TURN, "Second answer."])
    first = wb.ask("First <script>?").wait(10)
    wb.ask("Second?", conversation_id=first.conversation_id).wait(10)
    conversation = wb.conversations()[0]
    _, *heads = conversation.to_html(tmp_path).read_text().split("<h2>")
    assert [head.split("</h2>")[0] for head in heads] == ["1. First &lt;script&gt;?", "2. Second?"]
    assert "<img" not in (tmp_path / "First_script.html").read_text()


def test_unanswered_questions_are_marked(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A failed question and an empty branch are exported; a deleted conversation is not."""
    wb = workbench([af.errors.ModelRejected("No such model.")])
    wb.ask("Why?").wait(10)
    conversation = wb.conversations()[0]
    assert "*Run failed.*" in conversation.to_markdown(tmp_path).read_text()
    wb.conversation(conversation.conversation_id).delete()
    with pytest.raises(NotFound):
        conversation.to_markdown(tmp_path, overwrite=True)


def test_empty_conversation_is_exported_as_its_title(workbench: OpenWorkbench) -> None:
    wb = workbench(["Never said."])
    engine = wb._thread.engine
    empty = wb._thread.call(engine.conversations.start_conversation("Empty"))
    document = wb._thread.call(conversation_document(engine, empty))
    assert document.markdown == "# Empty\n"
    assert all(document_bytes(document, form) for form in EXPORT_FORMATS)
