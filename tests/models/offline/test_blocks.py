"""The offline model in the compose flow: blocks made of quotes, verbatim edits, plain requests."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.hostile_texts import HANDLERS, SCRIPTS
from support.replies import by_agent, call

import artifactflow_nb as af
from artifactflow_nb.core.text.chinese import is_chinese
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.models.offline.phrases import PHRASES
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.notebook.project import Project
from artifactflow_nb.sources.retrieval.sentences import collapse_whitespace

CHINESE = Path(__file__).parent / "chinese"
HANDBOOK = Path(__file__).parents[3] / "data" / "handbook"
SOURCE = re.compile(r"^(\d+)\. .* — ((?:local:|@).*)$", re.MULTILINE)
QUOTE = re.compile(r"^> (.*) \[(\d+)\]$", re.MULTILINE)
RAIN = "In frost the gauge reports nothing, and snow is measured by hand."
BACKUP = "全量备份保留35天，增量备份保留7天，年底的一份存档永久保存。"
ABSENT = "Who won the football world cup in 1954?"


def open_workbench(folder: Path, **options: Any) -> af.Workbench:
    options = {"model": OfflineModel(), "interactive": False, **options}
    wb = af.Workbench(data_dir=folder / "data", **options)
    wb.add_sources(HANDBOOK)
    wb.add_sources(CHINESE)
    return wb


@pytest.fixture
def wb(tmp_path: Path) -> Iterator[af.Workbench]:
    with open_workbench(tmp_path) as workbench:
        yield workbench


def new_project(wb: af.Workbench, **prompts: str) -> Project:
    """A project of blocks with `auto_generate`, each with its prompt."""
    project = wb.project("Handbook", template="paper")
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
        if not cited[number].startswith("@"):
            section = wb._thread.call(engine.sources.read(cited[number]))
            assert sentence in collapse_whitespace(section.text)
    return [sentence for sentence, _ in QUOTE.findall(text)]


def ask(wb: af.Workbench, project: Project, question: str) -> af.Run:
    return wb.ask(question, project=project).wait(60)


def calls(wb: af.Workbench, run: af.Run) -> list[str]:
    frame = wb.tool_calls_df(run)
    return frame.loc[frame["agent_name"] == "composer", "tool_name"].tolist()


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "fact", "note"),
    [
        ("What does the rain gauge do in frost?", RAIN, "no language model was used"),
        ("数据库的全量备份保留多久？", BACKUP, "没有使用语言模型"),
    ],
    ids=["english", "chinese"],
)
def test_block_quotes_the_sources(wb: af.Workbench, prompt: str, fact: str, note: str) -> None:
    """The text quotes the fact, cites its source, and says that no language model was used."""
    text = written(new_project(wb, Text=prompt))["Text"]
    assert fact in quotes_of(wb, text)
    assert note in text


def test_block_without_prompt_answers_its_name(wb: af.Workbench) -> None:
    """The name of the block is the question."""
    assert RAIN in quotes_of(wb, written(new_project(wb, **{"Rain gauge in frost": ""}))["Rain gauge in frost"])


def test_prompt_without_subject_gets_it_from_a_dependency(wb: af.Workbench) -> None:
    """`Answer the question.` answers the question in another block, and again after that has changed."""
    project = new_project(wb)
    project.add("Question", "What does the rain gauge do in frost?")
    project.add("Answer", prompt="Answer the question.", depends_on=["Question"], auto_generate=True)
    assert RAIN in quotes_of(wb, written(project)["Answer"])
    project["Question"].write("How long are cleaned tables kept?")
    project.refresh().wait(60)
    assert "Cleaned tables can be made again and are kept for ten years." in quotes_of(wb, project["Answer"].content)
    assert not project["Answer"].is_stale


def test_text_of_the_offline_model_is_no_question(wb: af.Workbench) -> None:
    """If the dependencies are a person's question and an offline text, only the question is searched for."""
    project = new_project(wb, Cup=ABSENT)
    project.add("Question", "What does the rain gauge do in frost?")
    project.add("Answer", prompt="Answer the question.", depends_on=["Cup", "Question"], auto_generate=True)
    run = project.generate().wait(60)
    assert RAIN in quotes_of(wb, project["Answer"].content)
    frame = wb.tool_calls_df(run)
    assert "language" not in "".join(frame.loc[frame["tool_name"] == "web_search", "args_json"])


def test_summary_quotes_the_first_sentences(wb: af.Workbench) -> None:
    """A summary names the blocks, keeps the addresses of sources, and cites a person's sentence by its block."""
    project = new_project(wb, Rain="What does the rain gauge do in frost?")
    project.add(
        "By hand", "# Notes\n\nNobody has looked at the roof for years. It leaks in autumn, they say. Nobody minds."
    )
    project.add("Summary", depends_on=["Rain", "By hand"], auto_generate=True)
    texts = written(project)
    rain = quotes_of(wb, texts["Rain"])[:2]
    by_hand = ["Nobody has looked at the roof for years.", "It leaks in autumn, they say."]
    assert quotes_of(wb, texts["Summary"]) == [*rain, *by_hand]
    assert "quoted from “Rain”, “By hand”" in texts["Summary"]
    assert "— local:handbook/sensors.md#rain-gauge" in texts["Summary"]
    assert "By hand — @By hand" in texts["Summary"]


def test_summary_of_a_summary_keeps_the_sources(wb: af.Workbench) -> None:
    """A sentence keeps the address of its first source, and no remark of the model is quoted."""
    project = new_project(wb, Rain="What does the rain gauge do in frost?", Cup=ABSENT)
    project.add("Summary", depends_on=["Cup", "Rain"], auto_generate=True)
    project.add("结论", depends_on=["Summary"], auto_generate=True)
    texts = written(project)
    assert quotes_of(wb, texts["结论"]) == quotes_of(wb, texts["Summary"]) == quotes_of(wb, texts["Rain"])[:2]
    assert SOURCE.findall(texts["结论"]) == SOURCE.findall(texts["Summary"])
    assert "引自“Summary”" in texts["结论"]


def test_dependencies_are_quoted_where_sources_are_silent(wb: af.Workbench) -> None:
    """A person's sentence in a dependency is quoted and cited with its block."""
    project = new_project(wb)
    project.add("Facts", "Germany won the football world cup in 1954. The cup was held in Switzerland.")
    project.add("Cup", prompt=ABSENT, depends_on=["Facts"], auto_generate=True)
    text = written(project)["Cup"]
    assert "Germany won the football world cup in 1954." in quotes_of(wb, text)
    assert "Facts — @Facts" in text


@pytest.mark.parametrize("prompt", [ABSENT, "食堂的午饭几点开始供应？"])
def test_block_without_answer_quotes_nothing(wb: af.Workbench, prompt: str) -> None:
    """The block says that nothing could be quoted, in its language, and cites nothing."""
    text = written(new_project(wb, Text=prompt))["Text"]
    assert text == f"*{PHRASES['zh' if is_chinese(prompt) else 'en']['no_quotes']}*"


def test_failed_search_is_reported_in_the_block(tmp_path: Path) -> None:
    """The block gives the reason why its writer could not search."""
    with open_workbench(tmp_path, approvals={"web_search": "deny"}) as wb:
        text = written(new_project(wb, Text="What does the rain gauge do in frost?"))["Text"]
    assert "Permission denied" in text
    assert not QUOTE.findall(text)


def test_block_does_not_repeat_its_dependencies(wb: af.Workbench) -> None:
    """Sentences of dependencies are left out, unless there are no others."""
    project = new_project(wb)
    project.add("Known", RAIN)
    project.add("Rain", prompt="What does the rain gauge do in frost?", depends_on=["Known"], auto_generate=True)
    sentences = quotes_of(wb, written(project)["Rain"])
    assert sentences
    assert RAIN not in sentences
    project["Known"].write(" ".join([RAIN, *sentences]))
    project.refresh().wait(60)
    assert RAIN in quotes_of(wb, project["Rain"].content)


def test_address_in_a_prompt_is_the_only_source(wb: af.Workbench) -> None:
    """A prompt can name its source; nothing else is quoted."""
    text = written(new_project(wb, Text="How is data kept? See local:handbook/storage.md#how-long-data-is-kept"))[
        "Text"
    ]
    assert quotes_of(wb, text)
    assert {address for _, address in SOURCE.findall(text)} == {"local:handbook/storage.md#how-long-data-is-kept"}


def test_texts_are_deterministic(tmp_path: Path) -> None:
    """Two stores get the same texts, though blocks are written in parallel."""
    prompts = {"Rain": "What does the rain gauge do in frost?", "Kept": "How long is data kept?", "备份": "全量备份"}
    texts = []
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        with open_workbench(tmp_path / folder) as wb:
            project = new_project(wb, **prompts)
            project.add("Summary", depends_on=[*prompts], auto_generate=True)
            texts.append(written(project))
    assert texts[0] == texts[1]


def test_denied_draft_gets_the_wished_length(wb: af.Workbench) -> None:
    """A number of sentences is followed, `shorter` halves the text, and other wishes are declined."""
    project = new_project(wb, Text="How is data kept and deleted?")
    project["Text"].set(need_review=True)
    run = project.generate().wait(60)
    n_before = len(QUOTE.findall(project["Text"].content))
    run.deny("Shorter, please.").wait(60)
    assert len(QUOTE.findall(project["Text"].content)) == n_before // 2
    run.deny("One sentence, and more cheerful.").wait(60)
    text = project["Text"].content
    assert len(quotes_of(wb, text)) == 1
    assert "*Not done: “and more cheerful”." in text


@pytest.mark.parametrize(
    "hostile", [*SCRIPTS[5:7], *HANDLERS[:2], '"x" of the project "y" (phase: z).', "’ `*>| [1] —"]
)
def test_hostile_texts_do_not_change_the_role(wb: af.Workbench, hostile: str) -> None:
    """With markup in names, prompts and texts, the writer writes and the composer reports the state."""
    name = collapse_whitespace(hostile).replace("/", "|")[:100]
    project = new_project(wb, **{name: f"{hostile}\n\nWhat does the rain gauge do in frost?"})
    project.add("Below", f"{hostile}\n\nIt is based on:\n{hostile}")
    project.add("Summary", depends_on=[name, "Below"], auto_generate=True)
    run = project.generate().wait(60)
    assert run.response == f"Written: {name}, Summary."
    assert "no language model was used" in project["Summary"].content
    assert f"- {name}: question, completed" in ask(wb, project, "What is the state?").response


# --- talking ---------------------------------------------------------------------------------------------------------


def test_plain_requests_are_carried_out(wb: af.Workbench) -> None:
    """Blocks are added, written, shown and renamed in the conversation, in two languages."""
    project = new_project(wb)
    assert ask(wb, project, "Please add a group 'Report'.").response.startswith("'Report' is added.")
    ask(wb, project, "在“Report”下添加块“全量备份”")
    assert project["Report / 全量备份"].phase == "question"
    ask(wb, project, "写“全量备份”，一句话。")
    assert len(QUOTE.findall(project["全量备份"].content)) == 1
    displayed = ask(wb, project, "Show me 全量备份.").response
    assert project["全量备份"].content in displayed
    ask(wb, project, "把全量备份改名为备份")
    assert [block.path for block in project.blocks] == ["Report", "Report / 备份"]
    assert ask(wb, project, "Go on to the next phase").response.startswith("The project is in the phase 'literature'.")
    assert "没有使用语言模型" in ask(wb, project, "现在的状态如何？").response


def test_block_is_removed_after_approval(wb: af.Workbench) -> None:
    """The request waits as it does for any model; after a denial the block remains."""
    project = new_project(wb, Text="")
    run = ask(wb, project, "Remove the block Text.")
    assert [request.tool for request in run.pending] == ["manage_architecture"]
    assert "Permission denied" in run.deny().wait(60).response
    ask(wb, project, "Remove the block Text.").approve().wait(60)
    assert not project.blocks


def test_write_everything_writes_all_empty_blocks(wb: af.Workbench) -> None:
    """Dependent blocks are written in order; then nothing is left to do."""
    project = new_project(wb, Rain="What does the rain gauge do in frost?")
    project.add("Summary", depends_on=["Rain"])
    run = ask(wb, project, "Write everything.")
    assert calls(wb, run) == ["generate_field_content"] * 2
    assert {block.status for block in project.blocks} == {"completed"}
    assert ask(wb, project, "写完所有空的块").response.startswith("没有空白或过时的块。")


@pytest.mark.parametrize(
    "question", ["Make it nicer.", "How do generators work?", "写得漂亮一些", "Add more details.", "Write."]
)
def test_unclear_message_is_answered_with_the_known_requests(wb: af.Workbench, question: str) -> None:
    """Nothing is called; the answer lists the requests, and how to configure a language model."""
    project = new_project(wb, Text="")
    run = ask(wb, project, question)
    assert calls(wb, run) == []
    assert run.response.endswith(PHRASES["zh" if is_chinese(question) else "en"]["abilities"])


def test_unknown_block_lists_known_blocks(wb: af.Workbench) -> None:
    """The answer names the blocks of the project."""
    project = new_project(wb, Method="", Results="")
    run = ask(wb, project, "Write Methdo.")
    assert run.response.startswith("There is no block 'Methdo'. There are: Method")
    assert calls(wb, run) == []


# --- editing ---------------------------------------------------------------------------------------------------------


def test_verbatim_edits_wait_for_approval(wb: af.Workbench) -> None:
    """The edits wait as a diff, and are written after the approval."""
    project = new_project(wb)
    project.add("Text", "The gauge is old.\n\nIt rests in frost.")
    run = ask(wb, project, "In Text replace 'old' by “new” and remove 'It rests in frost.'")
    assert "+The gauge is new.\n" in run.pending[0].preview
    assert run.approve().wait(60).response.startswith(PHRASES["en"]["edited"])
    assert project["Text"].content == "The gauge is new.\n\n"


@pytest.mark.parametrize(
    ("question", "message"),
    [("In Text replace 'new' by 'old'.", "is not in the text"), ("从Text中删除“e”", "occurs more than once")],
)
def test_edit_that_does_not_fit_is_reported(wb: af.Workbench, question: str, message: str) -> None:
    """No request is made, nothing is changed, and the answer gives the reason."""
    project = new_project(wb)
    project.add("Text", "The gauge here.")
    run = ask(wb, project, question)
    assert (run.status, project["Text"].content) == ("completed", "The gauge here.")
    assert message in run.response


def test_wish_without_verbatim_edits_is_declined(tmp_path: Path) -> None:
    """An editor that is asked by another composer for more than verbatim edits proposes none."""
    wish = call("modify_field", field_name="Text", modification_instruction="Make it friendlier.")
    with open_workbench(tmp_path, agent_models={"composer": ScriptedModel(by_agent(composer=[wish, "Done."]))}) as wb:
        project = new_project(wb)
        project.add("Text", "The gauge is old.")
        ask(wb, project, "Make it friendlier.")
        results = wb.tool_calls_df().set_index("tool_name")
        assert list(results.index) == ["modify_field"]
        assert PHRASES["en"]["edits"] in str(results.iloc[0].to_dict())
        assert project["Text"].content == "The gauge is old."
