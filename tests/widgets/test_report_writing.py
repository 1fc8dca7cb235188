"""The report in the view of a run: while it is written, with its title, and beside an answer that repeats it."""

import json
from pathlib import Path

from conftest import OpenWorkbench
from support.pages import ShownView
from support.played_runs import PlayedRun, Script, pieces

import artifactflow_nb as af
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.widgets.home.view import HomeView
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.pending import PendingView
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.transcript import RunTranscript
from artifactflow_nb.widgets.run.view import RunView

REPORT = "# Tides\n\nThe gauge at Brest has been read **since 1711**.\n\n" + "\n".join(
    f"- Station {n} reports every {n} minutes to the office in the harbour." for n in range(1, 9)
)


def started() -> Script:
    script = Script()
    script.add("metadata", question="How old are tide gauges?")
    script.add("agent_start", job_id="main", step=1)
    return script


def add_report_call(script: Script, text: str) -> None:
    for piece in pieces(text):
        script.add("llm_chunk", tool="create_artifact", job_id="main", call_id="c1", kind="call", delta=piece)


def completed(answer: str, report: str = REPORT) -> PlayedRun:
    script = started()
    script.say("", "", call="c1")
    script.call("create_artifact", "t1", {"id": "tides", "content": report}, metadata={"artifact_id": "tides"})
    changed = {"artifact_id": "tides", "version": 1, "title": "Tides", "content_type": "text/markdown"}
    script.add("artifact_changed", tool_call_id="t1", **changed)
    script.say(answer, answer, call="c2")
    script.add("complete", success=True, interrupted=False, response=answer, execution_metrics={})
    run = PlayedRun(script.events)
    run.artifacts["tides", 1] = report
    return run


def nodes(run: PlayedRun) -> dict[str, Node]:
    transcript = RunTranscript()
    for event in run.events:
        transcript.apply(event)

    def all_nodes(parts: tuple[Node, ...]) -> list[Node]:
        return [node for part in parts for node in (part, *all_nodes(part.children))]

    return {node.key: node for node in all_nodes(RunRenderer(run).nodes(transcript))}


def test_report_is_displayed_while_it_is_written() -> None:
    """The text is shown as Markdown below the answer, without the part of the call around it."""
    script = started()
    call = json.dumps({"id": "tides", "content": REPORT})
    add_report_call(script, call[: call.index("Station 2")])
    writing = nodes(PlayedRun(script.events))["writing"]
    html = "".join(child.html for child in writing.children)
    assert "<h1>Tides</h1>" in html
    assert "<strong>since 1711</strong>" in html
    assert "Station 1 reports" in html
    assert "tides&quot;" not in html


def test_written_report_replaces_the_text_in_progress() -> None:
    """Once the call is complete, the text is displayed once."""
    found = nodes(completed("Since 1711."))
    assert "writing" not in found
    assert found["art-tides"].is_open


def test_title_is_displayed_once() -> None:
    """A first heading that repeats the title is left out; another heading stays."""
    assert "<h1>" not in nodes(completed("Since 1711."))["arttext-tides"].html
    other = completed("Since 1711.", REPORT.replace("# Tides", "# Tide gauges"))
    assert "<h1>Tide gauges</h1>" in nodes(other)["arttext-tides"].html


def test_answer_that_repeats_the_report_is_folded() -> None:
    """An answer with the same lines is folded; an answer with a summary of its own stays open."""
    repeated = nodes(completed(REPORT))
    assert (repeated["repeats"].kind, repeated["repeats"].is_open) == ("fold", False)
    assert "repeats" not in nodes(completed("The gauge at Brest is the oldest. " * 30))


def test_preview_of_a_report_shows_the_cited_passages(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The card of a report shows the cited passages before the run has ended."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "cats.md").write_text("# Cats\n\nCats sleep for sixteen hours of the day.\n")
    wb = workbench(model=OfflineModel(), approvals={"create_artifact": "ask"})
    wb.sources.add(tmp_path / "notes")
    run = wb.ask("How long do cats sleep?").wait(20)
    page = ShownView(wb._thread, RunView(run._client))
    [card] = [html for key, html in page.html.items() if key.startswith("approval-")]
    assert 'class="af-cite-mark"' in card
    assert "<mark>Cats sleep for sixteen hours of the day.</mark>" in card


LISTED = "Tides are old [1].\n\n1. Brest: https://brest.example/tides\n"


def test_citations_open_while_text_arrives() -> None:
    """Marks of a growing answer and of a growing report are citations as soon as their source is listed."""
    script = started()
    add_report_call(script, json.dumps({"id": "tides", "content": LISTED + "2. Kobe"})[:-2])
    written = "".join(child.html for child in nodes(PlayedRun(script.events))["writing"].children)
    assert written.count('class="af-cite-mark') == 1
    script = started()
    for piece, n_marks in (("Tides are old [1].\n\n", 0), ("1. Brest: https://brest.exa", 0), ("mple/tides\n", 1)):
        script.add("llm_chunk", job_id="main", call_id="c1", kind="answer", delta=piece)
        answer = nodes(PlayedRun(script.events))["answer"]
        assert "".join(child.html for child in answer.children).count('class="af-cite-mark') == n_marks


def test_citations_open_in_cards_of_home_and_approvals(workbench: OpenWorkbench) -> None:
    """The preview of a report that waits for approval shows the passages of its sources in both lists of requests."""
    writing = af.ToolCall("create_artifact", {"id": "tides", "title": "Tides", "content": LISTED})
    wb = workbench([writing, "Done."], approvals={"create_artifact": "ask"}, language="zh")
    wb.ask("How old are tides?").wait(10)
    for view in (HomeView(wb._thread), PendingView(wb._thread.engine)):
        page = ShownView(wb._thread, view)
        page.until(lambda page=page: "approval" in page.kinds.values())
        (card,) = [html for key, html in page.html.items() if page.kinds[key] == "approval"]
        assert 'aria-label="[1] Brest，本次任务未读取"' in card
        assert "打开来源" in card
