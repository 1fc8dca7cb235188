"""The offline model in the compose flow: blocks written of quotes, edits word by word, plain requests."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile import HANDLERS, SCRIPTS

import artifactflow_nb as af
from artifactflow_nb.engine import Engine
from artifactflow_nb.models.offline import OfflineModel
from artifactflow_nb.models.offline_block_words import BLOCK_PHRASES
from artifactflow_nb.project import Project
from artifactflow_nb.text.chinese import is_chinese
from artifactflow_nb.text.sentences import collapse

CHINESE = Path(__file__).parent / "chinese"
HANDBOOK = Path(__file__).parents[2] / "data" / "handbook"
SOURCE = re.compile(r"^(\d+)\. .* — ((?:local:|@).*)$", re.MULTILINE)
QUOTE = re.compile(r"^> (.*) \[(\d+)\]$", re.MULTILINE)
RAIN = "In frost the gauge reports nothing, and snow is measured by hand."
BACKUP = "全量备份保留35天，增量备份保留7天，年底的一份存档永久保存。"
ABSENT = "Who won the football world cup in 1954?"


def opened(folder: Path, **options: Any) -> af.Workbench:
    wb = af.Workbench(model=OfflineModel(), data_dir=folder / "data", interactive=False, **options)
    wb.add_sources(HANDBOOK)
    wb.add_sources(CHINESE)
    return wb


@pytest.fixture
def wb(tmp_path: Path) -> Iterator[af.Workbench]:
    with opened(tmp_path) as workbench:
        yield workbench


def begun(wb: af.Workbench, **prompts: str) -> Project:
    """A project of blocks that write themselves, each with its prompt."""
    project = wb.project("Handbook", template="paper")
    for name, prompt in prompts.items():
        project.add(name, prompt=prompt, auto_generate=True)
    return project


def written(project: Project) -> dict[str, str]:
    project.generate().wait(60)
    return {block.name: block.content for block in project.blocks}


def quotes_of(wb: af.Workbench, text: str) -> list[str]:
    """The sentences that a text quotes, after each that cites a source was found where it is said to stand."""
    cited = dict(SOURCE.findall(text))
    engine: Engine = wb._thread.engine
    for sentence, number in QUOTE.findall(text):
        if not cited[number].startswith("@"):
            section = wb._thread.call(engine.sources.read(cited[number]))
            assert sentence in collapse(section.text)
    return [sentence for sentence, _ in QUOTE.findall(text)]


def asked(wb: af.Workbench, project: Project, question: str) -> af.Run:
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
def test_a_block_is_written_of_quotes(wb: af.Workbench, prompt: str, fact: str, note: str) -> None:
    """The text quotes the fact and cites where it stands, and says that no language model was used."""
    text = written(begun(wb, Text=prompt))["Text"]
    assert fact in quotes_of(wb, text)
    assert note in text


def test_without_a_prompt_the_names_tell_what_to_say(wb: af.Workbench) -> None:
    """A block that only has a name is about that."""
    assert RAIN in quotes_of(wb, written(begun(wb, **{"Rain gauge in frost": ""}))["Rain gauge in frost"])


def test_a_prompt_without_a_subject_takes_it_from_what_the_block_rests_on(wb: af.Workbench) -> None:
    """`Answer the question` is answered for the question in the block below, and anew when that is another."""
    project = begun(wb)
    project.add("Question", "What does the rain gauge do in frost?")
    project.add("Answer", prompt="Answer the question.", depends_on=["Question"], auto_generate=True)
    assert RAIN in quotes_of(wb, written(project)["Answer"])
    project["Question"].write("How long are cleaned tables kept?")
    project.refresh().wait(60)
    assert "Cleaned tables can be made again and are kept for ten years." in quotes_of(wb, project["Answer"].content)
    assert not project["Answer"].is_stale


def test_what_the_model_has_written_is_no_question(wb: af.Workbench) -> None:
    """A block that rests on a question and on a text of the model's own looks for the question alone."""
    project = begun(wb, Cup=ABSENT)
    project.add("Question", "What does the rain gauge do in frost?")
    project.add("Answer", prompt="Answer the question.", depends_on=["Cup", "Question"], auto_generate=True)
    run = project.generate().wait(60)
    assert RAIN in quotes_of(wb, project["Answer"].content)
    frame = wb.tool_calls_df(run)
    assert "language" not in "".join(frame.loc[frame["tool_name"] == "web_search", "args_json"])


def test_a_summary_quotes_how_the_texts_begin(wb: af.Workbench) -> None:
    """It names the blocks, keeps the addresses of their sources, and cites a person's sentence with its block."""
    project = begun(wb, Rain="What does the rain gauge do in frost?")
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


def test_a_summary_of_a_summary_keeps_the_sources(wb: af.Workbench) -> None:
    """What is quoted at third hand has the address of its first, and no remark of the model is quoted."""
    project = begun(wb, Rain="What does the rain gauge do in frost?", Cup=ABSENT)
    project.add("Summary", depends_on=["Cup", "Rain"], auto_generate=True)
    project.add("结论", depends_on=["Summary"], auto_generate=True)
    texts = written(project)
    assert quotes_of(wb, texts["结论"]) == quotes_of(wb, texts["Summary"]) == quotes_of(wb, texts["Rain"])[:2]
    assert SOURCE.findall(texts["结论"]) == SOURCE.findall(texts["Summary"])
    assert "引自“Summary”" in texts["结论"]


def test_what_the_sources_do_not_say_may_stand_in_a_block_below(wb: af.Workbench) -> None:
    """A sentence of the person's own answers where the sources are silent, and is cited with its block."""
    project = begun(wb)
    project.add("Facts", "Germany won the football world cup in 1954. The cup was held in Switzerland.")
    project.add("Cup", prompt=ABSENT, depends_on=["Facts"], auto_generate=True)
    text = written(project)["Cup"]
    assert "Germany won the football world cup in 1954." in quotes_of(wb, text)
    assert "Facts — @Facts" in text


@pytest.mark.parametrize("prompt", [ABSENT, "食堂的午饭几点开始供应？"])
def test_what_nobody_says_is_not_written(wb: af.Workbench, prompt: str) -> None:
    """The block says that nothing could be quoted, in its language, and cites nothing."""
    text = written(begun(wb, Text=prompt))["Text"]
    assert text == f"*{BLOCK_PHRASES['zh' if is_chinese(prompt) else 'en']['absent']}*"


def test_a_search_that_fails_is_told(tmp_path: Path) -> None:
    """A block says what kept its writer from looking, beside that there is nothing."""
    with opened(tmp_path, approvals={"web_search": "deny"}) as wb:
        text = written(begun(wb, Text="What does the rain gauge do in frost?"))["Text"]
    assert "Permission denied" in text
    assert not QUOTE.findall(text)


def test_a_block_does_not_repeat_what_it_rests_on(wb: af.Workbench) -> None:
    """What stands in a block below is left out; if there is nothing else to say, it is said again."""
    project = begun(wb)
    project.add("Known", RAIN)
    project.add("Rain", prompt="What does the rain gauge do in frost?", depends_on=["Known"], auto_generate=True)
    said = quotes_of(wb, written(project)["Rain"])
    assert said
    assert RAIN not in said
    project["Known"].write(" ".join([RAIN, *said]))
    project.refresh().wait(60)
    assert RAIN in quotes_of(wb, project["Rain"].content)


def test_an_address_in_a_prompt_is_what_is_read(wb: af.Workbench) -> None:
    """A prompt can name its source; nothing else is quoted."""
    text = written(begun(wb, Text="How is data kept? See local:handbook/storage.md#how-long-data-is-kept"))["Text"]
    assert quotes_of(wb, text)
    assert {address for _, address in SOURCE.findall(text)} == {"local:handbook/storage.md#how-long-data-is-kept"}


def test_the_same_is_written_each_time(tmp_path: Path) -> None:
    """Two stores come to the same texts, though blocks are written at the same time."""
    prompts = {"Rain": "What does the rain gauge do in frost?", "Kept": "How long is data kept?", "备份": "全量备份"}
    texts = []
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        with opened(tmp_path / folder) as wb:
            project = begun(wb, **prompts)
            project.add("Summary", depends_on=[*prompts], auto_generate=True)
            texts.append(written(project))
    assert texts[0] == texts[1]


def test_a_draft_is_made_shorter_as_the_person_says(wb: af.Workbench) -> None:
    """Denied with a number of sentences, or as too long, it has so many, or half; what cannot be done it says."""
    project = begun(wb, Text="How is data kept and deleted?")
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
def test_hostile_texts_do_not_change_who_plays(wb: af.Workbench, hostile: str) -> None:
    """Whatever stands in names, prompts and texts, the writer writes, and the composer tells the state."""
    name = collapse(hostile).replace("/", "|")[:100]
    project = begun(wb, **{name: f"{hostile}\n\nWhat does the rain gauge do in frost?"})
    project.add("Below", f"{hostile}\n\nWhat it rests on:\n{hostile}")
    project.add("Summary", depends_on=[name, "Below"], auto_generate=True)
    run = project.generate().wait(60)
    assert run.response == f"Written: {name}, Summary."
    assert "no language model was used" in project["Summary"].content
    assert f"- {name}: question, completed" in asked(wb, project, "What is the state?").response


# --- talking ---------------------------------------------------------------------------------------------------------


def test_plain_requests_are_carried_out(wb: af.Workbench) -> None:
    """Blocks are added, written, shown and renamed in the conversation, in two languages."""
    project = begun(wb)
    assert asked(wb, project, "Please add a group 'Report'.").response.startswith("'Report' is added.")
    asked(wb, project, "在“Report”下添加块“全量备份”")
    assert project["Report / 全量备份"].phase == "question"
    asked(wb, project, "写“全量备份”，一句话。")
    assert len(QUOTE.findall(project["全量备份"].content)) == 1
    shown = asked(wb, project, "Show me 全量备份.").response
    assert project["全量备份"].content in shown
    asked(wb, project, "把全量备份改名为备份")
    assert [block.path for block in project.blocks] == ["Report", "Report / 备份"]
    assert asked(wb, project, "Go on to the next phase").response.startswith(
        "The project is in the phase 'literature'."
    )
    assert "没有使用语言模型" in asked(wb, project, "现在的状态如何？").response


def test_a_block_is_removed_when_the_person_agrees(wb: af.Workbench) -> None:
    """The request waits as it does for any model; denied, the answer says so and the block stays."""
    project = begun(wb, Text="")
    run = asked(wb, project, "Remove the block Text.")
    assert [request.tool for request in run.pending] == ["manage_architecture"]
    assert "Permission denied" in run.deny().wait(60).response
    asked(wb, project, "Remove the block Text.").approve().wait(60)
    assert not project.blocks


def test_a_whole_document_is_written_on_request(wb: af.Workbench) -> None:
    """`Write everything` writes what is empty, one resting on the other; then nothing is left to do."""
    project = begun(wb, Rain="What does the rain gauge do in frost?")
    project.add("Summary", depends_on=["Rain"])
    run = asked(wb, project, "Write everything.")
    assert calls(wb, run) == ["generate_field_content"] * 2
    assert {block.status for block in project.blocks} == {"completed"}
    assert asked(wb, project, "写完所有空的块").response.startswith("没有空白或过时的块。")


@pytest.mark.parametrize(
    "question", ["Make it nicer.", "How do generators work?", "写得漂亮一些", "Add more details.", "Write."]
)
def test_what_is_not_plain_is_answered_with_what_is(wb: af.Workbench, question: str) -> None:
    """Nothing is called; the answer lists what is understood, and how to configure a language model."""
    project = begun(wb, Text="")
    run = asked(wb, project, question)
    assert calls(wb, run) == []
    assert run.response.endswith(BLOCK_PHRASES["zh" if is_chinese(question) else "en"]["can"])


def test_a_name_that_is_not_there_is_told(wb: af.Workbench) -> None:
    """The answer names the blocks that there are."""
    project = begun(wb, Method="", Results="")
    run = asked(wb, project, "Write Methdo.")
    assert run.response.startswith("There is no block 'Methdo'. There are: Method")
    assert calls(wb, run) == []


# --- editing ---------------------------------------------------------------------------------------------------------


def test_edits_word_by_word_are_put_before_the_person(wb: af.Workbench) -> None:
    """They wait as a diff, and are written when the person agrees."""
    project = begun(wb)
    project.add("Text", "The gauge is old.\n\nIt rests in frost.")
    run = asked(wb, project, "In Text replace 'old' by “new” and remove 'It rests in frost.'")
    assert "+The gauge is new.\n" in run.pending[0].preview
    assert run.approve().wait(60).response.startswith(BLOCK_PHRASES["en"]["edited"])
    assert project["Text"].content == "The gauge is new.\n\n"


@pytest.mark.parametrize(
    ("question", "told"),
    [("In Text replace 'new' by 'old'.", "does not stand there"), ("从Text中删除“e”", "stands more than once")],
)
def test_an_edit_that_does_not_fit_is_told(wb: af.Workbench, question: str, told: str) -> None:
    """Nobody is asked, nothing is changed, and the answer says why."""
    project = begun(wb)
    project.add("Text", "The gauge here.")
    run = asked(wb, project, question)
    assert (run.status, project["Text"].content) == ("completed", "The gauge here.")
    assert told in run.response
