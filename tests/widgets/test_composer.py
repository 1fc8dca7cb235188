"""The composer of a chat: pickers, commands, references, attached files, example questions and the queue."""

import asyncio
import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.pages import ShownView
from support.replies import report

import artifactflow_nb as af
from artifactflow_nb.widgets.chat.composer import COMMANDS, example_question
from artifactflow_nb.widgets.chat.view import ChatView

Open = Callable[..., tuple[af.Workbench, ShownView]]


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Open]:
    opened: list[af.Workbench] = []

    def make(turns: Any = (), *, is_served: bool = False, **options: Any) -> tuple[af.Workbench, ShownView]:
        sources = options.pop("sources", None)
        delay_s = options.pop("delay_s", 0.0)
        model = TwoModels(turns, delay_s=delay_s)
        wb = af.Workbench(model=model, data_dir=tmp_path / "data", approvals="approve", **options)
        opened.append(wb)
        if sources:
            wb.sources.add(sources)
        return wb, ShownView(wb._thread, ChatView(wb._thread, is_served=is_served))

    yield make
    for wb in opened:
        wb.close()


class TwoModels(af.ScriptedModel):
    """An endpoint with two models."""

    async def list_models(self) -> list[str]:
        return ["scripted", "large"]


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    """A folder with two sources of several sections."""
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "storage.md").write_text("# Storage\n\nDisks.\n\n## Backups\n\n" + "Every night. " * 9, encoding="utf-8")
    (folder / "people.md").write_text("# People\n\n## Holidays\n\nThirty days a year.", encoding="utf-8")
    return folder


def options(page: ShownView, mark: str, words: str = "") -> list[Mapping[str, str]]:
    """The completions that the page gets for a word."""
    assert not page.do("complete", {"mark": mark, "words": words})["failed"]
    effect = page.effects[-1]
    assert (effect["name"], effect["key"], effect["word"]) == ("complete", "composer", f"{mark}{words}")
    found: list[Mapping[str, str]] = effect["options"]
    return found


def fields(page: ShownView) -> dict[str, Any]:
    return {field["name"]: field for field in page.data["composer"]["fields"]}


def test_question_waits_for_the_running_answer(chat: Open) -> None:
    """The question is shown as queued, also in the saved output, and then asked. A removed question is not asked."""
    wb, page = chat(["word " * 150, "Two."], delay_s=0.01)
    page.submit("send", text="First?")
    page.until(lambda: "word word" in page.text)
    page.submit("send", text="Second?")
    page.submit("send", text="Third?")
    assert "Queued: Second?" in page.view.saved_output()["text/plain"]
    page.press("Remove: Third?")
    assert len(wb.runs()) == 1
    page.until(lambda: "Two." in page.text)
    assert "queued-0" not in page.kinds
    assert [run.question for run in wb.runs()] == ["Second?", "First?"]


def test_queued_question_that_cannot_be_asked_says_why(chat: Open) -> None:
    """The reason is displayed below the question until the person removes it."""
    wb, page = chat(["word " * 150], delay_s=0.01)
    page.submit("send", text="First?")
    page.until(lambda: "word word" in page.text)
    page.view._model = "missing"  # type: ignore[attr-defined]  # a model that the endpoint no longer has
    page.submit("send", text="Second?")
    page.until(lambda: "missing" in page.html["queued-0-text"])
    assert len(wb.runs()) == 1
    page.press("Remove: Second?")
    assert "Second?" not in page.text


def test_pickers_choose_model_and_depth(chat: Open) -> None:
    """The form has a picker for each choice; the pickers keep their values, which become settings of the run."""
    wb, page = chat(["One.", "Two."], prices={"large": {"input": 1, "output": 1}})
    assert fields(page)["model"]["choices"] == ["scripted", "large"]
    assert fields(page)["depth"]["choices"] == ["quick", "standard", "deep"]
    assert all(fields(page)[name]["keep"] for name in ("model", "depth"))
    page.submit("send", text="First?", model="scripted", depth="standard")
    page.until(lambda: "One." in page.text and "Stop this run" not in page.buttons)
    page.submit("send", text="Second?", model="large", depth="quick")
    page.until(lambda: "Two." in page.text)
    sql = "SELECT settings_json ->> 'model' AS model, settings_json ->> 'depth' AS depth FROM main.runs ORDER BY rowid"
    settings = wb.query(sql)
    assert settings["model"].isna().tolist() == settings["depth"].isna().tolist() == [True, False]
    assert (settings["model"][1], settings["depth"][1]) == ("large", "quick")


def test_form_is_never_rebuilt(chat: Open, handbook: Path) -> None:
    """The data of the form stay equal while questions are asked and files added, so that draft and focus stay."""
    wb, page = chat(["One."])
    before = page.data["composer"]
    page.submit("send", text="First?")
    wb.sources.add(handbook)
    page.until(lambda: "One." in page.text)
    assert page.data["composer"] == before


def test_commands_are_completed_and_carried_out(chat: Open) -> None:
    """A slash lists the commands; each has the effect of its button; the error for an unknown command lists all."""
    wb, page = chat(["One.", "Uno."])
    assert [entry["insert"] for entry in options(page, "/")] == [f"/{name}" for name in COMMANDS]
    assert [entry["label"] for entry in options(page, "/", "re")] == ["/retry"]
    assert "/retry has nothing to do" in page.submit("send", text="/retry")["message"]
    assert "Known: /new, /retry" in page.submit("send", text="/nonsense")["message"]
    page.submit("send", text="First?")
    page.until(lambda: "One." in page.text and "Stop this run" not in page.buttons)
    page.submit("send", text="/retry")
    page.until(lambda: "Uno." in page.text)
    page.submit("send", text="/export")
    assert "md" in page.html["downloads"]
    page.submit("send", text="/new ")
    assert "Uno." not in page.text
    assert len(wb.runs()) == 2


def test_references_name_sources_and_artifacts(chat: Open, handbook: Path) -> None:
    """A reference is the address or id that the tools accept."""
    _, page = chat([report(), "Done."], sources=handbook)
    page.submit("send", text="Write.")
    page.until(lambda: "Done." in page.text and "Stop this run" not in page.buttons)
    assert [entry["insert"] for entry in options(page, "@")] == [
        "research_report",
        "local:handbook/people.md",
        "local:handbook/storage.md",
    ]
    assert [entry["label"] for entry in options(page, "@", "STOR")] == ["Storage"]


def test_references_name_blocks_of_a_project(tmp_path: Path) -> None:
    """In the chat of a project, references to blocks have the form that the agents accept."""
    with af.Workbench(model=af.ScriptedModel([]), data_dir=tmp_path) as wb:
        project = wb.projects.start("Essay")
        project.add("Question", "Why?")
        page = ShownView(wb._thread, ChatView(wb._thread, project.conversation_id, flow="compose"))
        assert {"insert": "@Question", "label": "Question", "detail": "block"} in options(page, "@", "que")
        assert "depth" not in fields(page)


def test_examples_are_questions_about_the_sources(chat: Open, handbook: Path) -> None:
    """Up to three examples come from the longest sections; a button fills the form. Without sources there is a hint."""
    _, page = chat([], sources=handbook)
    assert page.buttons[-2:] == ["What does “People” say about Holidays?", "What does “Storage” say about Backups?"]
    page.press("What does “Storage” say about Backups?")
    expected = {"name": "fill", "key": "composer", "text": "What does “Storage” say about Backups?"}
    assert expected.items() <= page.effects[-1].items()
    page.view.saved_output()["text/html"].index("Nothing has been asked yet.")


@pytest.mark.parametrize(
    ("title", "heading", "question"),
    [
        ("The Baltic", "2.1 Tide gauges", "What does “The Baltic” say about Tide gauges?"),
        ("The Baltic", "Why does it rise?", "Why does it rise?"),
        ("太湖", "二、化肥", "《太湖》关于“化肥”说了什么？"),
        ("Causes", "化肥", ""),
        ("太湖", "Causes", ""),
        ("The Baltic", "page 12", ""),
        ("The Baltic", "Introduction", ""),
        ("The Baltic", "How gauges are read", ""),
        ("The Baltic", "First look at the gauge. Then write.", ""),
        ("The Baltic", "read_gauge(name)", ""),
        ("The Baltic", "3.2", ""),
        ("太湖", "第3页", ""),
        ("太湖", "1. 参考文献", ""),
    ],
)
def test_examples_have_a_subject_in_one_language(title: str, heading: str, question: str) -> None:
    """Headings that name no subject, or are in a language unlike the title of the source, give no example."""
    assert example_question(title, heading) == question


def test_file_names_are_no_titles_in_examples(chat: Open, tmp_path: Path) -> None:
    """A source without a title of its own is not the subject of an example."""
    file = tmp_path / "sources" / "wells_2024.md"
    file.parent.mkdir()
    file.write_text("Text.\n\n## Deep wells\n\nMore text.\n", encoding="utf-8")
    _, page = chat([], sources=file)
    assert not any("wells" in name for name in page.buttons)


def test_attached_files_become_sources(chat: Open, tmp_path: Path) -> None:
    """A file is kept in the data folder and searched from then on; an unreadable file is refused and removed."""
    wb, page = chat([])
    assert "paper clip" in page.text
    content = base64.b64encode(b"# Tides\n\n## Gauges\n\nThey rise by 3.3 mm a year.").decode()
    result = page.do("attach", {"files": [{"name": "../tides.md", "base64": content}]})
    assert result["message"] == "Added tides.md; the next question searches 1 new file."
    assert (tmp_path / "data" / "attached" / "tides.md").exists()
    assert wb._thread.engine.source_scope
    assert "What does “Tides” say about Gauges?" in page.buttons
    assert page.do("attach", {"files": [{"name": "a.exe", "base64": content}]})["failed"]
    assert not (tmp_path / "data" / "attached" / "a.exe").exists()
    assert page.do("attach", {"files": [{"name": "a.md", "base64": "!"}]})["failed"]
    assert page.do("attach", {"files": "x"})["failed"]


def test_served_chat_has_neither_models_nor_files(chat: Open) -> None:
    """Users of a server choose a depth, but no model, and add no sources."""
    _, page = chat([], is_served=True, prices={"large": {"input": 1, "output": 1}})
    assert list(fields(page)) == ["text", "depth"]
    assert "attach" not in page.data["composer"]
    assert page.do("attach", {"files": []})["failed"]


class EndpointWithModels(af.ScriptedModel):
    """An endpoint whose list of models arrives late, and not at all while it is down."""

    is_down = False

    async def list_models(self) -> list[str]:
        await asyncio.sleep(0.1)
        if self.is_down:
            raise af.errors.ModelError("The endpoint does not answer.")
        return ["scripted", "large", "tiny"]


def test_picker_offers_all_models_of_the_endpoint(tmp_path: Path) -> None:
    """The picker has more than the configured and used models; without a picker, the chat names its model."""
    with af.Workbench(model=EndpointWithModels([]), data_dir=tmp_path, interactive=True) as wb:
        page = ShownView(wb._thread, ChatView(wb._thread))
        assert fields(page)["model"]["choices"] == ["scripted", "large", "tiny"]
        assert "model" not in page.html
        served = ShownView(wb._thread, ChatView(wb._thread, is_served=True))
        assert "model" not in fields(served)
        assert served.html["model"] == "scripted"


def test_endpoint_that_was_down_is_asked_for_its_models_again(tmp_path: Path) -> None:
    """The next page offers the models, without a new workbench."""
    model = EndpointWithModels([])
    model.is_down = True
    with af.Workbench(model=model, data_dir=tmp_path, interactive=True) as wb:
        assert "model" not in fields(ShownView(wb._thread, ChatView(wb._thread)))
        model.is_down = False
        page = ShownView(wb._thread, ChatView(wb._thread))
        assert fields(page)["model"]["choices"] == ["scripted", "large", "tiny"]


def test_last_question_is_recalled(chat: Open) -> None:
    """The page requests the last question when ArrowUp is pressed in the empty form."""
    _wb, page = chat(["One."])
    assert not page.do("recall", {})["failed"]
    assert not page.effects
    page.submit("send", text="What is @this?")
    page.until(lambda: "One." in page.text)
    page.do("recall", {})
    effect = page.effects[-1]
    assert (effect["name"], effect["key"], effect["text"]) == ("fill", "composer", "What is @this?")
