"""Failures and unread sources that the status `completed` does not show, over a real engine."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.pages import ShownView, place_nodes, visible_text

import artifactflow_nb as af
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.home.view import HomeView
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.saved import saved_run
from artifactflow_nb.widgets.run.transcript import RunTranscript

MISSING = "local:missing/page"
ANSWER = f"It is so [1]. It is not so [2].\n\n1. One: {MISSING}\n2. Two: https://two.example/\n"
DELEGATION = af.ToolCall("call_subagent", {"agent_name": "crawl_agent", "instruction": "Read it."})
READING = af.ToolCall("web_fetch", {"urls": [MISSING]})


def ask(tmp_path: Path, *replies: object, **options: object) -> tuple[af.Workbench, af.Run]:
    model = af.ScriptedModel([*replies])  # type: ignore[list-item]
    folder = options.pop("setup", None)
    wb = af.Workbench(model=model, data_dir=tmp_path, **{"approvals": "approve", "interactive": False, **options})  # type: ignore[arg-type]
    if isinstance(folder, Path):
        wb.sources.add(folder)
    return wb, wb.ask("Is it so?").wait(20)


def summaries(run: af.Run) -> dict[str, str]:
    """The lines of the calls by tool, a delegation by its agent."""
    transcript = RunTranscript(run.question)
    for event in run.events:
        transcript.apply(event)
    nodes = [place.node for place in place_nodes(RunRenderer(run._client).nodes(transcript))]
    calls: list[Node] = [node for node in nodes if node.css.startswith("af-tool")]
    return {"agent" if "af-job" in node.css else "call": node.html for node in calls}


def test_failed_reading_is_visible_without_opening(tmp_path: Path) -> None:
    """The status, the agent whose calls all failed, and the call name the failure, live and saved, in chat and home."""
    wb, run = ask(tmp_path, DELEGATION, READING, "I could not.", "Nobody knows.")
    with wb:
        lines = summaries(run)
        assert "af-warning" in lines["agent"]
        assert ">reading failed</span>" in lines["agent"]
        assert "af-failed" in lines["call"]
        assert "missing" in lines["call"].split("af-out")[1]
        saved = saved_run(run._client)["text/html"]
        assert "2 tool calls · 1 failed call" in saved
        assert "reading failed" in saved
        chat = ShownView(wb._thread, ChatView(wb._thread, run.conversation_id))
        chat.until(lambda: any("1 failed call<" in html for html in chat.html.values()))
        home = ShownView(wb._thread, HomeView(wb._thread))
        assert "1 failed call<" in home.html["run-table"]
        assert "Completed: Is it so? · 1 failed call" in home.view.saved_output()["text/plain"]


def test_agent_with_a_successful_call_has_no_warning(tmp_path: Path) -> None:
    """One failed call among others is counted, and marked only at the call."""
    search = af.ToolCall("web_search", {"query": "with statement"})
    delegation = replace(DELEGATION, params={**DELEGATION.params, "agent_name": "search_agent"})
    wb, run = ask(tmp_path, delegation, READING, search, "I found it.", "It is.")
    with wb:
        assert "af-warning" not in summaries(run)["agent"]
        assert "1 failed call" in saved_run(run._client)["text/html"]


def test_reading_that_failed_in_part_says_how_much_was_read(tmp_path: Path) -> None:
    """The call and its agent are amber, since neither failed as a whole."""
    (tmp_path / "notes.md").write_text("# Notes\n\nIt is so.", encoding="utf-8")
    reading = replace(READING, params={"urls": [MISSING, "local:notes.md#notes", "local:missing/too"]})
    wb, run = ask(tmp_path / "data", DELEGATION, reading, "I read one.", "It is.", setup=tmp_path / "notes.md")
    with wb:
        for line in summaries(run).values():
            assert "af-warning" in line
            assert ">1 of 3 read</span>" in line
        assert "failed call" not in visible_text(saved_run(run._client)["text/html"])


def test_denied_call_is_no_failure(tmp_path: Path) -> None:
    """An agent whose calls were all denied says that, and the status counts no failure."""
    reading = replace(READING, params={"urls": ["https://docs.python.org/3/"]})
    wb, run = ask(tmp_path, DELEGATION, reading, "I may not.", "Nobody knows.", approvals="deny")
    with wb:
        lines = summaries(run)
        assert ">denied</span>" in lines["agent"]
        assert "af-denied" in lines["call"]
        assert "af-failed" not in lines["call"]
        assert "failed call" not in visible_text(saved_run(run._client)["text/html"])
        assert "failed" not in ShownView(wb._thread, HomeView(wb._thread)).html["run-table"]


@pytest.mark.parametrize(
    ("language", "sentence"),
    [("en", "2 of 2 cited sources were not read by this run."), ("zh", "2 个引用来源中有 2 个未被此任务读取。")],
)
def test_unread_sources_have_a_line(tmp_path: Path, language: str, sentence: str) -> None:
    """The line is below the answer: in the page, in the saved HTML, Markdown and text, and in a chat."""
    wb, run = ask(tmp_path, ANSWER, language=language)
    with wb:
        for text in saved_run(run._client).values():
            assert sentence in text
        chat = ShownView(wb._thread, ChatView(wb._thread, run.conversation_id))
        chat.until(lambda: sentence in chat.text)


def test_number_of_unread_sources_is_exact(tmp_path: Path) -> None:
    """A source that the question names is not counted; without an unread source there is no line."""
    model = af.ScriptedModel([ANSWER.replace("two.example", "named.example"), "Yes."])
    with af.Workbench(model=model, data_dir=tmp_path, interactive=False) as wb:
        first = wb.ask("Is https://named.example/ right?").wait(20)
        second = wb.ask("Is it so?").wait(20)
        assert "1 of 2 cited sources was not read by this run." in saved_run(first._client)["text/plain"]
        assert "cited source" not in saved_run(second._client)["text/plain"]


def test_exports_say_which_share_was_not_read(tmp_path: Path) -> None:
    """The exports are a conversation as Markdown and as HTML, and a report as a page."""
    report = af.ToolCall(
        "create_artifact",
        {"id": "found", "content_type": "text/markdown", "title": "Found", "content": f"# Found\n\n{ANSWER}"},
    )
    wb, run = ask(tmp_path, report, "It is written.")
    sentence = "2 of 2 cited sources were not read by this run."
    with wb:
        conversation = wb.conversation(run)
        for path in (conversation.to_markdown(tmp_path), conversation.to_html(tmp_path)):
            assert path.read_text().count(sentence) == 1  # after the answer, for it and its reports together
        assert run.artifacts["found"].to_html(tmp_path).read_text().count(sentence) == 1
        assert sentence in saved_run(run._client)["text/html"]
