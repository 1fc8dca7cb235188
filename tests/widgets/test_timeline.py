"""The timeline of a run: live, and in the saved notebook."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import OpenWorkbench
from support.pages import ShownView, visible_text
from support.played_runs import PlayedRun, Script
from support.replies import by_agent, call, report

import artifactflow_nb as af
from artifactflow_nb.analysis.plots.svg import MAX_IMAGE_CHARS
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.widgets.page.saved import SavedOutput
from artifactflow_nb.widgets.page.stream import PageStream
from artifactflow_nb.widgets.run.saved import hint_for_status
from artifactflow_nb.widgets.timeline import TimelineView


@pytest.fixture
def wb(tmp_path: Path) -> Iterator[af.Workbench]:
    model = ScriptedModel([report(), "Done."])
    workbench = af.Workbench(
        model=model, data_dir=tmp_path / "data", approvals={"create_artifact": "ask"}, interactive=True
    )
    yield workbench
    workbench.close()


def test_timeline_grows_during_run(wb: af.Workbench) -> None:
    """A waiting run shows its growing wait; after the approval, the tool's bar and the end follow without a press."""
    run = wb.ask("Write it.")
    page = ShownView(wb._thread, TimelineView(run._client))
    page.until(lambda: "waiting" in page.html["table"])
    page.until(lambda: run._client.status() == "waiting")  # then all that the run said until here is stored
    assert all("wb.pending()" in saved for saved in wb.timeline(run).saved_output().values())
    old_drawing = page.html["drawing"]
    page.until(lambda: page.html["drawing"] != old_drawing)
    run.approve()
    run.wait(10)
    page.until(lambda: "Completed" in page.html["head"])
    assert page.html["table"].count("<tr>") == 5  # heads, two model calls, the wait, the tool
    assert "create_artifact" in page.saved_outputs[-1]["text/html"]


def saved_timeline(run: PlayedRun, *, with_metrics: bool = True) -> SavedOutput:
    """The saved output of the timeline of a played run."""
    view = TimelineView(run, with_metrics=with_metrics)

    async def opened() -> SavedOutput:
        await view.open(PageStream(view, lambda _message: None))
        try:
            return view.saved_output()
        finally:
            view.close()

    return asyncio.run(opened())


def test_pending_request_shows_decision_hint_at_once(waiting: PlayedRun) -> None:
    """Every format explains how to decide an open request, even before the run reports that it waits."""
    *before, _stopped = waiting.events
    saved_form = saved_timeline(PlayedRun(before))
    assert all("wb.pending()" in saved and hint_for_status("running") not in saved for saved in saved_form.values())


def test_totals_by_agent_are_in_open_table(finished: PlayedRun) -> None:
    """The open table has the calls, failures and tokens of each agent, with or without times."""
    for measured, more in ((True, 4), (False, 0)):
        saved_form = saved_timeline(finished, with_metrics=measured)
        page = saved_form["text/html"].split("</style>")[1].split("<details")[0]
        rows = re.findall("<tr><th[^>]*>(.*?)</th>(.*?)</tr>", page.split("<tbody>")[1])
        totals = {name: re.findall("<td>(.*?)</td>", cells) for name, cells in rows}
        assert {name: cells[:5] for name, cells in totals.items()} == {
            "Lead agent": ["3", "2", "0", "300", "60"],
            "Search agent": ["2", "1", "0", "200", "40"],
        }
        assert {len(cells) for cells in totals.values()} == {5 + more}


def test_failed_calls_are_counted(script: Script) -> None:
    """A call that failed counts as a call and as a failure; a call that a person denied is not a failure."""
    script.add("agent_start", job_id="main", step=1, instruction="", model="m")
    script.call("web_search", "tc-1", {}, success=False, error="No network.")
    script.call("web_fetch", "tc-2", {}, success=False, metadata={"error_type": "PermissionDenied"})
    script.add("complete", None, success=True, response="", interrupted=False)
    saved = saved_timeline(PlayedRun(script.events), with_metrics=False)["text/html"]
    assert "Lead agent 1 2 1 0 0 " in visible_text(saved)


def test_large_drawing_has_no_image_fallback(script: Script) -> None:
    """A drawing above the size limit has a sentence instead of a fallback image."""
    for number in range(1200):
        if number >= 10:
            ended = number - 10
            script.add("tool_complete", f"agent {ended % 12}", "web_search", tool_call_id=f"tc-{ended}", success=True)
        script.add("tool_start", f"agent {number % 12}", "web_search", tool_call_id=f"tc-{number}")
    script.add("complete", None, success=True, response="", interrupted=False)
    page = saved_timeline(PlayedRun(script.events))["text/html"]
    assert len(page) > MAX_IMAGE_CHARS
    assert "<img" not in page
    assert '<div class="af-still"><p>' in page


def test_timeline_of_ended_run_is_readable_without_kernel(wb: af.Workbench) -> None:
    """The saved timeline lists every span without times, and saving twice gives the same output."""
    run = wb.ask("Write it.")
    page = ShownView(wb._thread, TimelineView(run._client))
    page.until(lambda: "waiting" in page.html["table"])
    run.approve().wait(10)
    first, second = (wb.timeline(run).saved_output() for _ in range(2))
    assert first == second
    assert "create_artifact" in first["text/html"]
    assert not re.search(r"\d ms|\d s\b", first["text/html"].split("</style>")[1])
    assert repr(wb.timeline()) == first["text/plain"]


def test_timeline_without_run_is_an_error(wb: af.Workbench) -> None:
    """An empty store has no newest run, and the error says what to do."""
    with pytest.raises(af.errors.NotFound, match="Ask something first"):
        wb.timeline()


def test_steps_of_plans_have_their_tokens(workbench: OpenWorkbench) -> None:
    """The lane of a step has the tokens of the jobs of this step."""
    turns = by_agent(
        agent=[call("plan_create", title="Tides", steps=[{"title": "Find"}, {"title": "Compare"}]), "Done."],
        executor=["Found.", "Compared."],
        summarizer=["Summed up."],
    )
    wb = workbench(turns, interactive=False)
    run = wb.ask("How high?", flow="plan").wait(10)
    text = visible_text(wb.timeline(run).saved_output()["text/html"])
    calls = wb.llm_calls_df(run)
    for title, n_tokens in zip(
        ("Find", "Compare"), calls["input_tokens"][calls["agent_name"] == "executor"], strict=True
    ):
        assert f"Executor: {title} 1 0 0 {n_tokens:,} " in text
