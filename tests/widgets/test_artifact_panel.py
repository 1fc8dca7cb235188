"""The panel of artifacts, pressed as a page presses it, over a real engine."""

import base64
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenWorkbench
from support.cpu_time import no_collection
from support.pages import ShownView
from support.replies import by_agent, call, plan, report

import artifactflow_nb as af
from artifactflow_nb.widgets.artifacts.view import ArtifactPanel
from artifactflow_nb.widgets.page.stream import PageStream
from artifactflow_nb.widgets.run.view import RunView

FIRST = "# Report\n\nOne is *here*.\n"
SECOND = "# Report\n\nTwo is *here*.\n"
ASK = {"create_artifact": "ask"}
HOSTILE = '<img src=x onerror="alert(1)"></details></table><script>alert(1)</script><b data-act="restore">x</b>'
REWRITE = call("rewrite_artifact", id="research_report", content="# Report\n\nBy the agent.\n")


@pytest.fixture
def workbench(workbench: OpenWorkbench) -> OpenWorkbench:
    """The workbench approves every tool call by itself."""
    return partial(workbench, approvals="approve")


def show(wb: af.Workbench, *place: str, dated: bool = True) -> ShownView:
    return ShownView(wb._thread, ArtifactPanel(wb._thread, *place, with_dates=dated))


@pytest.fixture
def written(workbench: Any) -> Any:
    """A workbench, a run that wrote a report, and the panel of the report."""
    wb = workbench([report(FIRST), "Done.", "More."])
    run = wb.ask("Write <b>it</b>.").wait(10)
    return wb, run, show(wb)


def test_artifacts_of_the_branch_are_listed(written: Any) -> None:
    """The chosen artifact is rendered, with its version, author and time."""
    _, _, page = written
    assert "research_report · v1" in page.text
    assert "<em>here</em>" in page.html["text-rendered"]
    assert re.search(r"version 1 · created by lead agent ·\s+\d{4}-\d\d-\d\d \d\d:\d\d UTC", page.text)
    assert "Write <b>it</b>." in page.text
    assert {"Rendered", "Raw", "Changes", "Edit", "Rename", "Copy the text", "Download docx: Word"} <= set(page.buttons)


def test_raw_text_is_shown(written: Any) -> None:
    """The raw view has the stored text; the reader can switch back."""
    _, _, page = written
    page.press("Raw")
    assert "One is *here*." in page.html["text-raw"]
    page.press("Rendered")
    assert "text-raw" not in page.html


def test_edit_writes_a_version_by_the_person(written: Any) -> None:
    """The form has the whole text; the new version is on the branch, by `user`."""
    _, run, page = written
    page.press("Edit")
    (form,) = [key for key, kind in page.kinds.items() if kind == "form"]
    assert page.data[form]["fields"][0]["value"] == FIRST
    result = page.submit("edit", text=SECOND)
    assert (result["message"], result["failed"]) == ("Written as version 2.", False)
    assert "<em>here</em>" in page.html["text-rendered"]
    assert "Two is" in page.text
    newest = run.artifacts["research_report"]
    assert (newest.content, newest.version, newest.created_by) == (SECOND, 2, "user")
    assert form not in page.kinds


def test_unchanged_edit_writes_nothing(written: Any) -> None:
    """Saving an unchanged text or cancelling the form writes no version."""
    _, run, page = written
    page.press("Edit")
    assert page.submit("edit", text=FIRST)["message"] == "Nothing was changed."
    page.press("Edit")
    page.do("dismiss", {})
    assert "form" not in page.kinds.values()
    assert list(run.artifacts["research_report"].versions) == [1]


def test_conflicting_edit_is_refused_and_input_is_kept(written: Any) -> None:
    """The form stays open; the reader can look at the other version and save on top."""
    _, run, page = written
    page.press("Edit")
    (form,) = [key for key, kind in page.kinds.items() if kind == "form"]
    run.artifacts["research_report"].edit("Theirs.\n")
    result = page.submit("edit", text="Mine.\n")
    assert result["failed"]
    assert "is now at version 2, not 1: user changed it" in result["message"]
    assert page.kinds[form] == "form"
    assert "Version 2 by user was written meanwhile" in page.text
    page.press("Show the other changes")
    assert "Theirs." in page.html["text-changes"]
    assert page.kinds[form] == "form"
    assert page.press("Save my text on top")["message"] == "Now save: your text becomes the next version."
    assert page.submit("edit", text="Mine.\n")["message"] == "Written as version 3."
    assert [item.content for item in run.artifacts["research_report"].versions.values()] == [
        FIRST,
        "Theirs.\n",
        "Mine.\n",
    ]


@pytest.mark.parametrize("end", ["save", "cancel"])
def test_edit_stays_on_its_branch(workbench: Any, end: str) -> None:
    """If another branch becomes active meanwhile, a note says so, and the active branch is shown after the edit."""
    wb = workbench([report(FIRST), "Done.", "Left.", "Right."])
    first = wb.ask("Write.").wait(10)
    left = wb.ask("Left?", conversation_id=first).wait(10)
    page = show(wb)
    page.press("Edit")
    right = wb.conversation(left).edit("Right?").wait(10)
    page.until(lambda: "Another branch of the conversation was activated meanwhile" in page.text)
    assert "was written meanwhile" not in page.text
    if end == "save":
        result = page.submit("edit", text=SECOND)
        assert result["message"] == "Written as version 2 on the branch on which the edit began."
        assert left.artifacts["research_report"].content == SECOND
    else:
        page.do("dismiss", {})
    assert right.artifacts["research_report"].content == FIRST
    assert "Another branch" not in page.text
    assert "One is" in page.text


def test_edit_follows_its_growing_branch(workbench: Any) -> None:
    """The panel follows a new question on the branch; a version that the question's run writes is a conflict."""
    wb = workbench([report(FIRST), "Done.", REWRITE, "Rewritten."])
    first = wb.ask("Write.").wait(10)
    page = show(wb)
    page.press("Edit")
    further = wb.ask("Rewrite.", conversation_id=first).wait(10)
    assert "is now at version 2, not 1" in page.submit("edit", text=SECOND)["message"]
    assert "Another branch" not in page.text
    page.press("Save my text on top")
    assert page.submit("edit", text=SECOND)["message"] == "Written as version 3."
    assert further.artifacts["research_report"].content == SECOND


def test_older_versions_can_be_listed(written: Any) -> None:
    """The newest 50 versions are listed; a button lists more versions to show, compare and restore."""
    _, run, page = written
    edited = run.artifacts["research_report"]
    for number in range(2, 111):
        edited = edited.edit(f"Text {number}.")
    page.until(lambda: "110 versions" in page.text)
    assert "Show version 61" in page.buttons
    assert "Show version 60" not in page.buttons
    page.press("Show 50 of 60 earlier versions")
    page.press("Show 10 of 10 earlier versions")
    assert not any("earlier versions" in name for name in page.buttons)
    page.press("Show version 1")
    assert page.press("Restore version 1 as the newest")["message"] == "Written as version 111."
    assert run.artifacts["research_report"].content == FIRST


def test_versions_are_shown_compared_and_restored(written: Any) -> None:
    """Any two versions can be compared in two layouts; restoring an earlier version writes a new version."""
    _, run, page = written
    run.artifacts["research_report"].edit(SECOND).edit("# Other\n")
    page.until(lambda: "3 versions" in page.text)
    page.press("Show version 1")
    assert "an earlier version" in page.text
    assert "One is" in page.html["text-rendered"]
    page.press("Compare version 2 with version 1")
    assert "<del>Two </del>" in page.html["text-changes"]
    page.submit("compare_form", before="v1, created by lead agent", after="v2, changed by user")
    assert "<del>One </del>" in page.html["text-changes"]
    page.press("Side by side")
    assert "af-diff-side-by-side" in page.html["text-changes"]
    page.submit("compare_form", before="the version before", after="v3, changed by user")
    assert "v2 → v3" in page.text
    page.press("Show version 1")
    assert page.press("Restore version 1 as the newest")["message"] == "Written as version 4."
    assert run.artifacts["research_report"].content == FIRST
    assert run.artifacts["research_report"].update_type == "restore"


def test_title_is_changed(written: Any) -> None:
    """The new title is a version; the form refuses an empty title."""
    _, run, page = written
    page.press("Rename")
    assert "title is empty" in page.submit("rename", title="  ")["message"]
    assert page.submit("rename", title="The final report")["message"] == "Written as version 2."
    assert run.artifacts["research_report"].title == "The final report"
    assert "The final report" in page.html["list"]


def test_text_is_copied_and_downloaded(written: Any) -> None:
    """Copy gives the stored text, a cell Markdown without active content, a download the bytes of the file."""
    _, run, page = written
    run.artifacts["research_report"].edit("# R\n\n![x](https://hostile.invalid/x.png)\n")
    page.until(lambda: "2 versions" in page.text)
    page.press("Copy the text")
    page.press("Copy to a cell below this cell")
    assert page.press("Download md: Markdown")["message"] == "Downloaded as research_report.md."
    for name in ("html: HTML", "docx: Word", "ipynb: Notebook"):
        page.press(f"Download {name}")
    copied, cell, *downloads = page.effects
    assert copied["text"] == "# R\n\n![x](https://hostile.invalid/x.png)\n"
    assert (cell["cell_type"], "![" in cell["source"]) == ("markdown", False)
    assert [item["filename"].rpartition(".")[2] for item in downloads] == ["md", "html", "docx", "ipynb"]
    assert base64.b64decode(downloads[0]["base64"]).decode() == copied["text"]
    assert base64.b64decode(downloads[2]["base64"]).startswith(b"PK")
    assert downloads[2]["media_type"].endswith("wordprocessingml.document")


def test_table_opens_as_a_frame(workbench: Any) -> None:
    """The cell below reads the table of the displayed version."""
    table = "\n\n| n |\n|---|\n| {} |\n"
    wb = workbench([report("One:" + table.format(7) + table.format(8)), "Done."])
    run = wb.ask("Write.").wait(10)
    page = show(wb)
    run.artifacts["research_report"].edit("Two:" + table.format(9))
    page.until(lambda: "2 versions" in page.text)
    page.press("Show version 1")
    page.do("table", {"index": 1})
    effect = page.effects[-1]
    assert (effect["name"], effect["cell_type"]) == ("cell", "code")
    names = {"wb": wb}
    exec(effect["source"].removesuffix("table"), names)  # noqa: S102 - the code of the cell
    assert names["table"].to_dict("list") == {"n": [8]}
    assert run.artifacts["research_report"].tables[0].to_dict("list") == {"n": [9]}


def test_panel_follows_a_run(workbench: Any) -> None:
    """A version that a run writes appears, is announced, and leaves an open form unchanged."""
    wb = workbench([report(FIRST), "Done.", REWRITE, "Rewritten."], approvals={"rewrite_artifact": "ask"})
    first = wb.ask("Write.").wait(10)
    page = show(wb, first.conversation_id)
    second = wb.ask("Rewrite.", conversation_id=first.conversation_id).wait(10)
    page.until(lambda: "The run is waiting." in page.text)
    page.press("Edit")
    second.approve().wait(10)
    page.until(lambda: "By the agent." in page.text)
    assert page.announced == "research_report: version 2 by lead agent."
    assert "Version 2 by lead agent was written meanwhile" in page.text
    assert "form" in page.kinds.values()
    page.until(lambda: "The run is" not in page.text)
    page.until(lambda: page.saved_outputs)


def test_panel_shows_the_requested_branch(workbench: Any) -> None:
    """A conversation id shows the active branch; a message id shows the branch of that message."""
    wb = workbench([report(FIRST), "Done.", REWRITE, "Left.", "Right."])
    first = wb.ask("Write.").wait(10)
    left = wb.ask("Left?", conversation_id=first.conversation_id).wait(10)
    of_left, of_active = show(wb, left.conversation_id, left.message_id), show(wb, left.conversation_id)
    wb.conversation(left).edit("Right?").wait(10)
    of_active.until(lambda: "One is" in of_active.text)
    assert "By the agent." in of_left.text
    wb.conversation(left).activate()
    of_active.until(lambda: "By the agent." in of_active.text)


def test_versions_of_other_branches_are_not_missing(workbench: Any) -> None:
    """If an earlier version is on another branch, the count says that it counts the versions of this branch."""
    wb = workbench([report(FIRST), "Left.", report("Anew."), "Right."])
    run = wb.ask("Write.").wait(10)
    page = show(wb, run.conversation_id)
    assert "1 version" in page.text
    assert "on this branch" not in page.text
    wb.conversation(run).edit("Write anew.").wait(10)
    page.until(lambda: "Anew." in page.text)
    assert "version 2" in page.text
    assert "1 version on this branch" in page.text


def test_empty_panel_fills(workbench: Any) -> None:
    """The panel is empty before the first conversation and shows its artifacts once they are written."""
    wb = workbench([report(FIRST), "Done."])
    page = show(wb)
    assert "No artifacts yet." in page.text
    wb.ask("Write.").wait(10)
    page.until(lambda: "research_report · v1" in page.text)


def test_deleted_conversation_leaves_an_empty_panel(written: Any) -> None:
    """The artifacts of the conversation are no longer shown."""
    wb, run, page = written
    wb.conversation(run).delete()
    page.until(lambda: "No artifacts yet." in page.text)


def test_plan_is_listed_last(workbench: Any) -> None:
    """The plan is listed after the results, and is not chosen first."""
    wb = workbench([call("create_artifact", id="task_plan", title="Plan", content="- [ ] x") + report(FIRST), "Done."])
    wb.ask("Write.").wait(10)
    page = show(wb)
    assert page.html["list"].index("research_report") < page.html["list"].index("task_plan")
    assert "One is" in page.text
    page.do("choose", {"artifact": "task_plan"})
    assert "Plan" in page.html["title"]


def test_choosing_another_artifact_is_refused_during_an_edit(written: Any) -> None:
    """The panel refuses to change the artifact, because the input would be lost."""
    _, _, page = written
    page.press("Edit")
    message = page.do("choose", {"artifact": "research_report"})["message"]
    assert message == "You are editing a text. Save or cancel the edit first."


def test_hostile_texts_stay_text(workbench: Any) -> None:
    """Titles, ids, authors and contents never become elements, live or saved, in any view mode."""
    wb = workbench([call("create_artifact", id=HOSTILE, title=HOSTILE, content=HOSTILE), "Done."])
    run = wb.ask(HOSTILE).wait(10)
    run.artifacts[HOSTILE].edit(HOSTILE + " more")
    page = show(wb)
    for look in ("Rendered", "Raw", "Changes", "Side by side"):
        page.press(look)
        shown = [*page.html.values(), page.view.saved_output()["text/html"]]
        for saved_form in shown:
            assert not re.search(r"<(img|script|b )", saved_form)
            assert set(re.findall(r"<(\w+)[^>]*\sdata-act=", saved_form)) <= {"button"}


def test_saved_output_has_texts_and_versions(written: Any) -> None:
    """Each artifact is a fold; there is nothing to click, and saving twice gives the same output."""
    wb, run, _ = written
    run.artifacts["research_report"].edit(SECOND)
    panel = show(wb, dated=False)
    saved_form = panel.view.saved_output()
    assert saved_form["text/plain"] == "Artifacts: Write <b>it</b>.\n  research_report v2: Report"
    html = saved_form["text/html"]
    assert "<button" not in html
    assert "version 2 · changed by user" in html
    assert "created by lead agent" in html
    assert "UTC" not in html
    assert "Two is <em>here</em>." in saved_form["text/html"]
    assert "2 versions" in saved_form["text/html"]


def test_panel_is_a_value_with_a_text(written: Any) -> None:
    """`wb.artifact_panel()` takes a run, an id or the newest conversation, and its text names the artifacts."""
    wb, run, _ = written
    expected = "Artifacts: Write <b>it</b>.\n  research_report v1: Report"
    assert repr(wb.artifact_panel()) == expected
    for of in (run, run.run_id, run.message_id, run.conversation_id, wb.conversations()[0]):
        assert repr(wb.artifact_panel(of)) == expected
        assert list(wb.artifacts(of)) == ["research_report"]
    assert list(wb.artifacts()) == ["research_report"]
    for unknown in ("conv-x", "msg-x", "run-x"):
        with pytest.raises(af.errors.NotFound):
            wb.artifact_panel(unknown)


def test_panel_is_empty_without_a_conversation(workbench: Any) -> None:
    """The panel is empty, and `artifacts` raises an error that says what to do."""
    wb = workbench()
    assert repr(wb.artifact_panel()) == "Artifacts\n  No artifacts yet."
    with pytest.raises(af.errors.NotFound, match="no conversation yet. Ask something first"):
        wb.artifacts()


@pytest.mark.timed
def test_large_text_does_not_block_the_loop(workbench: Any) -> None:
    """The engine's loop keeps running while a large text is rendered and saved.

    The test measures the CPU time of the loop's thread as a share of that of the whole work.
    """
    text = "\n\n".join(f"Paragraph {n} with **bold**, `code` and [a link](https://example.org)." for n in range(1000))
    wb = workbench([report(text), "Done."])
    wb.ask("Write.").wait(60)

    async def share_of_loop() -> float:
        panel = ArtifactPanel(wb._thread)
        of_loop, of_all = time.thread_time(), time.process_time()
        await panel.open(PageStream(panel, lambda _message: None))
        assert "Paragraph 999" in panel.saved_output()["text/html"]
        panel.close()
        return (time.thread_time() - of_loop) / (time.process_time() - of_all)

    with no_collection():
        assert wb._thread.call(share_of_loop()) < 0.25  # the share is 1 if the loop does all the work


def test_plan_is_a_checklist_with_line_changes(workbench: Any) -> None:
    """Each step has a mark; the changes between versions highlight the changed fields."""
    script = by_agent(agent=[plan(HOSTILE, "Write"), "Done."], executor=[HOSTILE, "Written."], summarizer=["Both."])
    wb = workbench(script)
    wb.ask("Plan it.", flow="plan").wait(10)
    page = show(wb)
    assert "<li>☑ Write" in page.html["text-rendered"]
    assert not re.search(r"<(img|script|b )", page.html["text-rendered"])
    page.press("Changes")
    (changes,) = (html for key, html in page.html.items() if "changes" in key)
    assert re.search(r"running.*completed.*Written\.", changes, re.DOTALL)
    assert "Both." not in changes


def test_text_that_a_person_changed_in_the_card_names_the_person(workbench: Any, tmp_path: Path) -> None:
    """The handle, the panel, the frame, an export and the view of the run say that the agent's text was changed."""
    wb = workbench([report(FIRST), report(FIRST, artifact_id="other"), "Done."], approvals={"create_artifact": "ask"})
    run = wb.ask("Write it.").wait(10)
    run.approve(params={**run.pending[0].params, "content": SECOND}).wait(10).approve().wait(10)
    changed, other = run.artifacts["research_report"], run.artifacts["other"]
    note = "lead agent, changed by user before it was written"
    assert (changed.content, changed.created_by, changed.edited_by) == (SECOND, "lead_agent", "user")
    assert f"created by {note}" in changed._repr_html_()
    assert note in changed.to_html(tmp_path / "report.html").read_text("utf-8")
    assert (other.edited_by, "before it was written" in other._repr_html_()) == (None, False)
    versions = wb.artifacts_df(run).set_index("artifact_id")["edited_by"]
    assert (versions["research_report"], versions.isna()["other"]) == ("user", True)
    panel = ShownView(wb._thread, ArtifactPanel(wb._thread, run.conversation_id, artifact_id="research_report"))
    assert f"version 1 · created by {note}" in panel.text
    html = ShownView(wb._thread, RunView(run._client)).html
    assert "v1 · changed by user before it was written" in html["art-research_report"]
    assert "changed by" not in html["art-other"]
    edited = changed.edit(FIRST)
    assert (edited.created_by, edited.edited_by) == ("user", None)


def test_report_takes_the_place_of_the_plan(workbench: Any) -> None:
    """The plan of a run is shown until there is a report, and afterwards only if the reader chooses it."""
    planned = call("create_artifact", id="task_plan", title="Plan", content="1. Write it.")
    wb = workbench([planned, report(FIRST), "Done."], approvals=ASK)
    run = wb.ask("Write it.").wait(10)
    page = show(wb, run.conversation_id)
    assert "Write it." in page.html["text-rendered"]
    run.approve().wait(10)
    page.until(lambda: "<em>here</em>" in page.html["text-rendered"])
    page.do("choose", {"artifact": "task_plan"})
    run.artifacts["research_report"].edit("Two.")
    page.until(lambda: "research_report · v2" in page.text)
    assert "Write it." in page.html["text-rendered"]
