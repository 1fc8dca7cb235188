"""Artifacts as a person at the notebook holds them."""

import re
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from scripts import call, report

import artifactflow_nb as af
from artifactflow_nb.artifact import ArtifactDiff, ArtifactHandle

FIRST = "# Report\n\nOne.\n"
HOSTILE = '<img src="https://hostile.invalid/x.png" onerror=alert(1)></details></table><script>alert(1)</script>'


@pytest.fixture
def held(workbench: Any) -> ArtifactHandle:
    """A report that an agent wrote."""
    wb = workbench([report(FIRST), "Done."], approvals="approve")
    return wb.ask("Write.").wait(10).artifacts["research_report"]


def test_a_handle_is_the_version(held: ArtifactHandle) -> None:
    """It has what the version has, and is equal to another handle of the same version."""
    assert (held.artifact_id, held.version, held.title, held.content) == ("research_report", 1, "Report", FIRST)
    assert (held.content_type, held.created_by, held.update_type) == ("text/markdown", "lead_agent", "create")
    assert held == held.newest
    assert hash(held) == hash(held.newest)


def test_an_edit_by_hand_is_a_version_by_the_person(held: ArtifactHandle) -> None:
    """It is written to the branch, knows who wrote it, and leaves the handle of the version before as it is."""
    edited = held.edit(FIRST.replace("One", "Two"))
    assert (edited.version, edited.content, edited.created_by) == (2, "# Report\n\nTwo.\n", "user")
    assert (edited.update_type, edited.run_id, edited.message_id) == ("update", None, held.message_id)
    assert (held.content, held.newest) == (FIRST, edited)
    assert list(held.versions) == [1, 2]
    assert held.versions[1] == held


def test_an_edit_that_changes_nothing_writes_nothing(held: ArtifactHandle) -> None:
    """The same text gives the same handle; what is no text is an error."""
    assert held.edit(FIRST) is held
    assert list(held.versions) == [1]
    with pytest.raises(af.UsageError, match="new text is int, not text"):
        held.edit(7)  # type: ignore[arg-type]


def test_who_was_faster_is_told(held: ArtifactHandle) -> None:
    """A change of a version that is not the newest is refused, with the version that came in between and its author."""
    held.edit("Faster.")
    for change in (lambda: held.edit("Slower."), lambda: held.restore(1), lambda: held.rename("Slower")):
        with pytest.raises(af.Conflict, match="is at version 2 by now, not 1: user changed it. Read it again"):
            change()
    assert held.newest.edit("In turn.").version == 3


def test_a_version_is_restored_and_a_title_changed(held: ArtifactHandle) -> None:
    """Both are new versions by the person."""
    restored = held.edit("Worse.").restore(1)
    assert (restored.version, restored.content, restored.update_type) == (3, FIRST, "restore")
    renamed = restored.rename("The report")
    assert (renamed.version, renamed.title, renamed.content, renamed.created_by) == (4, "The report", FIRST, "user")
    with pytest.raises(af.NotFound, match="no version 9"):
        renamed.restore(9)


@pytest.mark.parametrize("number", [3, 2**70, -1, 1.5, "1"])
def test_a_version_that_there_is_not_is_told(held: ArtifactHandle, number: Any) -> None:
    """Whatever stands for its number, and however large that is, the error says it and lists those that there are."""
    edited = held.edit("Changed.")
    for act in (edited.restore, edited.diff, lambda number: edited.diff(1, number)):
        with pytest.raises(af.NotFound, match=f"no version {number!r} in .*; it has: 1, 2"):
            act(number)


def test_each_branch_has_its_own_hand(workbench: Any) -> None:
    """What a person writes on one branch is not on another; both are compared and taken over by their numbers."""
    wb = workbench([report(FIRST), "Done.", "Left.", "Right."], approvals="approve")
    first = wb.ask("Write.").wait(10)
    left = wb.ask("Left?", conversation_id=first.conversation_id).wait(10)
    right = wb.edit(left, "Right?").wait(10)
    left.artifacts["research_report"].edit("Of the left.\n")
    ours = right.artifacts["research_report"]
    assert ours.content == FIRST
    assert [run.artifacts["research_report"].version for run in (first, left, right)] == [1, 2, 1]
    assert repr(ours.diff(1, 2)).endswith("-# Report\n-\n-One.\n+Of the left.")
    taken = ours.restore(2)
    assert (taken.version, taken.content, taken.message_id) == (3, "Of the left.\n", right.message_id)


@pytest.mark.parametrize("is_edited", [False, True])
def test_an_agent_asks_before_it_changes_what_a_person_wrote(workbench: Any, is_edited: bool) -> None:
    """A run may rewrite unasked what it made itself, but not when a person has edited it meanwhile."""
    rewrite = call("rewrite_artifact", id="research_report", content="Mine again.")
    turns = [report(FIRST), report("x", "pause"), rewrite, "Done."]
    wb = workbench(turns, approvals={"create_artifact": "ask"})
    run = wb.ask("Write.").wait(10).approve().wait(10)
    assert [request.params["id"] for request in run.pending] == ["pause"]
    if is_edited:
        run.artifacts["research_report"].edit("By hand.")
    run.approve().wait(10)
    assert [request.tool for request in run.pending] == (["rewrite_artifact"] if is_edited else [])


def test_a_difference_shows_itself(held: ArtifactHandle) -> None:
    """It has a plain, a Markdown and an HTML face; without numbers it is what the version changed."""
    edited = held.edit(FIRST.replace("One.", "Two."))
    change = edited.diff()
    assert repr(change) == (
        "--- research_report v1\n+++ research_report v2\n@@ -1,3 +1,3 @@\n # Report\n \n-One.\n+Two."
    )
    assert change._repr_markdown_() == f"```diff\n{change!r}\n```"
    assert "<del>One.</del>" in change._repr_html_()
    assert "af-diff-side-by-side" in change.side_by_side._repr_html_()
    assert repr(edited.diff(2, 1)).endswith("-Two.\n+One.")
    assert repr(edited.diff(1, 1)) == "research_report v1 → research_report v1: no difference"


def test_the_first_version_came_out_of_nothing(held: ArtifactHandle) -> None:
    """Its difference is all of its text; an unknown number is an error."""
    change = held.diff()
    assert isinstance(change, ArtifactDiff)
    assert change.before is None
    assert repr(change).startswith("--- nothing\n+++ research_report v1\n")
    with pytest.raises(af.NotFound, match="no version 5"):
        held.diff(5)


def test_a_handle_shows_title_origin_text_and_versions(held: ArtifactHandle) -> None:
    """Every face says which version of what it is, by whom and when; the list of versions is folded."""
    edited = held.edit("# Report\n\n*New.*\n")
    assert re.fullmatch(
        r"Artifact\('research_report', version=2, title='Report', created_by='user', created_at='[\d-]+ [\d:]+ UTC'\)",
        repr(edited),
    )
    page, text = edited._repr_html_(), edited._repr_markdown_()
    for face in (page, text):
        assert "Report" in face
        assert "research_report" in face.replace("\\_", "_")
        assert "version 2 · changed by user · 20" in face
        assert "<details><summary>2 versions</summary>" in face
    assert "<em>New.</em>" in page
    assert "*New.*" in text
    assert page.index("changed") < page.index("created")


def test_faces_without_a_reader_are_the_same_each_time(workbench: Any) -> None:
    """Where nobody looks they say no time."""
    wb = workbench([report(FIRST), "Done."], approvals="approve", interactive=False)
    artifacts = wb.ask("Write.").wait(10).artifacts
    one = artifacts["research_report"]
    assert repr(one) == "Artifact('research_report', version=1, title='Report', created_by='lead_agent')"
    for face in (one._repr_html_(), one._repr_markdown_(), repr(artifacts), artifacts._repr_html_()):
        assert "UTC" not in face


def test_hostile_texts_stay_texts(workbench: Any) -> None:
    """Title, id and text of a model show as text in every face."""
    turns = [call("create_artifact", id=HOSTILE, title=HOSTILE, content=HOSTILE), "Done."]
    wb = workbench(turns, approvals="approve")
    artifacts = wb.ask("Write.").wait(10).artifacts
    (one,) = artifacts.values()
    changed = one.edit(HOSTILE + " more")
    for shown in (one, artifacts, one.versions, changed.diff(), changed.diff().side_by_side):
        assert not re.search(r"<(img|script)", shown._repr_html_())
    for written in (one, artifacts, one.versions):
        assert not re.search(r"<(img|script)", written._repr_markdown_())
    assert changed.diff()._repr_markdown_().count("```") == 2


def test_artifacts_of_a_run_are_a_table(held: ArtifactHandle, workbench: Any) -> None:
    """They are named by their ids, show themselves as a table, and say what there is where one is missing."""
    wb = workbench([report("a", "a") + report("b", "b"), "Done."], approvals="approve", interactive=False)
    artifacts = wb.ask("Write.").wait(10).artifacts
    assert list(artifacts) == ["a", "b"]
    assert repr(artifacts).splitlines() == [
        "id  title   version  what     by",
        "a   Report  1        created  lead_agent",
        "b   Report  1        created  lead_agent",
    ]
    assert "<table>" in artifacts._repr_html_()
    with pytest.raises(KeyError, match=r"no artifact 'c' on this branch. It has: a, b\."):
        artifacts["c"]
    assert artifacts.get("c") is None


def test_a_run_without_artifacts_says_so(workbench: Any) -> None:
    """The empty table is a sentence."""
    artifacts = workbench(["Nothing."]).ask("What?").wait(10).artifacts
    assert (repr(artifacts), artifacts._repr_markdown_(), dict(artifacts)) == ("No artifacts.", "No artifacts.", {})


def test_a_person_may_write_while_a_run_goes_on(workbench: Any) -> None:
    """An edit on the branch of a run that waits is allowed; the run asks anew, and what it writes comes after it."""
    rewrite = call("rewrite_artifact", id="research_report", content="By the agent.")
    wb = workbench([report(FIRST), "Done.", rewrite, rewrite, "Rewritten."], approvals={"rewrite_artifact": "ask"})
    first = wb.ask("Write.").wait(10)
    second = wb.ask("Rewrite.", conversation_id=first.conversation_id).wait(10)
    assert second.status == "waiting"
    held = second.artifacts["research_report"]
    assert held.edit("By hand.").version == 2
    second.approve().wait(10)
    assert len(held.versions) == 2
    second.approve().wait(10)
    assert [one.content for one in held.versions.values()] == [FIRST, "By hand.", "By the agent."]
    with pytest.raises(af.Conflict, match="is at version 3 by now, not 1: lead_agent changed it"):
        held.edit("Late.")


def test_it_is_written_to_files(held: ArtifactHandle, tmp_path: Path) -> None:
    """Each form is written under the artifact's name, and says where."""
    (tmp_path / "out").mkdir()
    paths = [write(tmp_path / "out") for write in (held.to_markdown, held.to_html, held.to_docx, held.to_ipynb)]
    assert [path.name for path in paths] == [f"research_report.{form}" for form in ("md", "html", "docx", "ipynb")]
    assert paths[0].read_text() == FIRST
    with pytest.raises(af.UsageError, match=r"research_report.md' already. Pass overwrite=True"):
        held.to_markdown(tmp_path / "out")
    assert held.to_markdown(tmp_path / "out", overwrite=True) == paths[0]


def test_it_is_put_into_a_cell(held: ArtifactHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next cell shows the text as Markdown without anything that would be fetched; plain Python has no cells."""
    with pytest.raises(af.UsageError, match="no cell to add another to"):
        held.to_cell()
    shell = InteractiveShell.instance()
    try:
        edited = held.edit("# Report\n\n![x](https://hostile.invalid/x.png)\n")
        edited.to_cell()
        assert shell.rl_next_input == edited.cell
        assert edited.cell.startswith("%%markdown\n# Report")
        assert "![" not in edited.cell
    finally:
        InteractiveShell.clear_instance()


def test_a_closed_workbench_still_shows_and_writes_nothing(workbench: Any) -> None:
    """What was read can be shown and exported; a change says that the workbench is closed."""
    wb = workbench([report(FIRST), "Done."], approvals="approve")
    held = wb.ask("Write.").wait(10).artifacts["research_report"]
    wb.close()
    assert "One." in held._repr_html_()
    with pytest.raises(af.UsageError, match="workbench is closed"):
        held.edit("Late.")
