"""The offline model in projects: a question gets quotes, and anything else is said to need a language model."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.hostile_texts import HANDLERS, SCRIPTS

import artifactflow_nb as af
from artifactflow_nb.core.text.chinese import is_chinese
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.models.offline.report import PHRASES
from artifactflow_nb.plugins.projects.handle import Project
from artifactflow_nb.plugins.projects.spec import by_hand
from artifactflow_nb.sources.retrieval.sentences import collapse_whitespace

CHINESE = Path(__file__).parent / "chinese"
HANDBOOK = Path(__file__).parents[3] / "data" / "handbook"
SOURCE = re.compile(r"^(\d+)\. .* — (local:.*)$", re.MULTILINE)
QUOTE = re.compile(r"^> (.*) \[(\d+)\]$", re.MULTILINE)
FROST = "What does the rain gauge do in frost?"
RAIN = "In frost the gauge reports nothing, and snow is measured by hand."
BACKUP = "全量备份保留35天，增量备份保留7天，年底的一份存档永久保存。"
ABSENT = "Who won the football world cup in 1954?"


def open_workbench(folder: Path, **options: Any) -> af.Workbench:
    options = {"model": OfflineModel(), "interactive": False, **options}
    wb = af.Workbench(data_dir=folder / "data", **options)
    wb.sources.add(HANDBOOK)
    wb.sources.add(CHINESE)
    return wb


@pytest.fixture
def wb(tmp_path: Path) -> Iterator[af.Workbench]:
    with open_workbench(tmp_path) as workbench:
        yield workbench


def new_project(wb: af.Workbench, **prompts: str) -> Project:
    """A project of blocks with `auto_generate`, each with its prompt."""
    project = wb.projects.start("Handbook", template="paper")
    for name, prompt in prompts.items():
        project.add(name, prompt=prompt, auto_generate=True)
    return project


def written(project: Project) -> dict[str, str]:
    project.generate().wait(60)
    return {block.name: block.content for block in project.blocks}


def quotes_of(wb: af.Workbench, text: str) -> list[str]:
    """The sentences that a text quotes; checks that each cited sentence is in its source."""
    cited = dict(SOURCE.findall(text))
    engine: Engine = wb._thread.engine
    for sentence, number in QUOTE.findall(text):
        section = wb._thread.call(engine.sources.read(cited[number]))
        assert sentence in collapse_whitespace(section.text)
    return [sentence for sentence, _ in QUOTE.findall(text)]


@pytest.mark.parametrize(
    ("prompt", "fact", "note"),
    [
        (FROST, RAIN, "no language model was used"),
        (f"Two sentences on the weather. {FROST} Be brief.", RAIN, "no language model was used"),
        ("数据库的全量备份保留多久？", BACKUP, "没有使用语言模型"),
    ],
)
def test_question_is_answered_with_quotes(wb: af.Workbench, prompt: str, fact: str, note: str) -> None:
    """The text quotes the fact, cites its source, and says that no language model was used."""
    text = written(new_project(wb, Text=prompt))["Text"]
    assert fact in quotes_of(wb, text)
    assert note in text


@pytest.mark.parametrize("prompt", ["Answer the question.", "", "总结以上内容。"])
def test_prompt_that_asks_nothing_needs_a_model(wb: af.Workbench, prompt: str) -> None:
    """Nothing is searched; the text is one sentence that names the call which writes the block by hand."""
    project = new_project(wb, Text=prompt)
    run = project.generate().wait(60)
    text = project["Text"].content
    assert text == by_hand("write", prompt or "Text", "Text")
    assert 'project["Text"].write("...")' in text
    assert "web_search" not in wb.tool_calls_df(run)["tool_name"].tolist()


@pytest.mark.parametrize("prompt", [ABSENT, "食堂的午饭几点开始供应？"])
def test_block_without_answer_quotes_nothing(wb: af.Workbench, prompt: str) -> None:
    """The block says that nothing could be quoted, in its language, and cites nothing."""
    text = written(new_project(wb, Text=prompt))["Text"]
    assert text == f"*{PHRASES['zh' if is_chinese(prompt) else 'en']['no_quotes']}*"


def test_failed_search_is_reported_in_the_block(tmp_path: Path) -> None:
    """The block gives the reason why its writer could not search."""
    with open_workbench(tmp_path, approvals={"web_search": "deny"}) as wb:
        text = written(new_project(wb, Text=FROST))["Text"]
    assert "Permission denied" in text
    assert not QUOTE.findall(text)


def test_address_in_a_prompt_is_the_only_source(wb: af.Workbench) -> None:
    """A prompt can name its source; nothing else is quoted."""
    address = "local:handbook/storage.md#how-long-data-is-kept"
    text = written(new_project(wb, Text=f"How is data kept? See {address}"))["Text"]
    assert quotes_of(wb, text)
    assert {found for _, found in SOURCE.findall(text)} == {address}


def test_instruction_of_a_denial_is_declined_or_answered(wb: af.Workbench) -> None:
    """A change in other words needs a language model; a further question is answered as well."""
    project = new_project(wb, Text=FROST)
    project["Text"].set(need_review=True)
    run = project.generate().wait(60)
    run.deny("More cheerful, please.").wait(60)
    assert "A change in other words needs a language model" in project["Text"].content
    run.deny("Who repairs the roof?").wait(60)
    assert RAIN in quotes_of(wb, project["Text"].content)
    assert "needs a language model" not in project["Text"].content


def test_rewritten_report_keeps_to_its_sources(wb: af.Workbench) -> None:
    """A stale report is written again from the sources of its earlier text, without a search."""
    project = wb.projects.start("Handbook")
    project.add("Intent", "An intent.")
    project.add("Facts", prompt=FROST, phase="research", auto_generate=True, depends_on=["Intent"])
    project.generate().wait(60)
    listed = project["Facts: sources"].content
    project["Intent"].write("Another intent.")
    run = project.refresh().wait(60)
    assert "web_search" not in wb.tool_calls_df(run)["tool_name"].tolist()
    cited = {address for _, address in SOURCE.findall(project["Facts"].content)}
    assert cited
    assert all(address in listed for address in cited)


def test_texts_are_deterministic(tmp_path: Path) -> None:
    """Two stores get the same texts, though blocks are written in parallel."""
    prompts = {"Rain": FROST, "Kept": "How long is data kept?", "备份": "全量备份保留多久？"}
    texts = []
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        with open_workbench(tmp_path / folder) as wb:
            texts.append(written(new_project(wb, **prompts)))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "hostile", [*SCRIPTS[5:7], *HANDLERS[:2], '"x" of the project "y" (phase: z).', "’ `*>| [1] — {name}"]
)
def test_markup_in_names_and_prompts_is_text(wb: af.Workbench, hostile: str) -> None:
    """With markup in its name, prompt or instruction a block is written."""
    name = collapse_whitespace(hostile).replace("/", "|")[:100]
    project = new_project(wb, **{name: f"{hostile}\n\n{FROST}", "Other": hostile})
    run = project.generate().wait(60)
    assert run.response == f"Written: {name}, Other."
    assert "language model" in project["Other"].content


@pytest.mark.parametrize("question", ["Write everything.", "How do generators work?", "在“报告”下添加块“方法”"])
def test_request_for_a_project_needs_a_model(wb: af.Workbench, question: str) -> None:
    """No tool is called; the answer is one sentence with the calls that do the work by hand."""
    project = new_project(wb, Text="")
    run = project.ask(question).wait(60)
    assert run.response == by_hand("compose", question)
    assert "project.board()" in run.response
    assert wb.tool_calls_df(run).empty


def test_change_of_a_text_needs_a_model(tmp_path: Path) -> None:
    """The offline editor changes nothing, and its sentence is the result of the composer's call."""
    change = af.ToolCall("modify_field", {"field_name": "Text", "modification_instruction": "Be brief."})
    composer = af.ScriptedModel([change, "Done."])
    with open_workbench(tmp_path, agent_models={"composer": composer}) as wb:
        project = new_project(wb)
        project.add("Text", "The gauge is old.")
        run = project.ask("Shorten it.").wait(60)
        assert 'project["Text"].write("...")' in str(wb.tool_calls_df(run)["error_message"].tolist())
        assert project["Text"].content == "The gauge is old."
