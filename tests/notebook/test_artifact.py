"""The handle of an artifact in a notebook: reading, editing, display, export."""

import re
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from support.replies import call, report

import artifactflow_nb as af
from artifactflow_nb.notebook.artifact import ArtifactDiff, ArtifactHandle

FIRST = "# Report\n\nOne.\n"
HOSTILE = '<img src="https://hostile.invalid/x.png" onerror=alert(1)></details></table><script>alert(1)</script>'


@pytest.fixture
def handle(workbench: Any) -> ArtifactHandle:
    """A report that an agent wrote."""
    wb = workbench([report(FIRST), "Done."], approvals="approve")
    return wb.ask("Write.").wait(10).artifacts["research_report"]


def test_handle_has_the_fields_of_its_version(handle: ArtifactHandle) -> None:
    """Handles of the same version are equal."""
    assert (handle.artifact_id, handle.version, handle.title, handle.content) == ("research_report", 1, "Report", FIRST)
    assert (handle.content_type, handle.created_by, handle.update_type) == ("text/markdown", "lead_agent", "create")
    assert handle == handle.newest
    assert hash(handle) == hash(handle.newest)


def test_edit_writes_a_version_by_the_user(handle: ArtifactHandle) -> None:
    """The version is on the branch and names its author; the handle of the earlier version does not change."""
    edited = handle.edit(FIRST.replace("One", "Two"))
    assert (edited.version, edited.content, edited.created_by) == (2, "# Report\n\nTwo.\n", "user")
    assert (edited.update_type, edited.run_id, edited.message_id) == ("update", None, handle.message_id)
    assert (handle.content, handle.newest) == (FIRST, edited)
    assert list(handle.versions) == [1, 2]
    assert handle.versions[1] == handle


def test_edit_without_a_change_writes_nothing(handle: ArtifactHandle) -> None:
    """The same text returns the same handle; a value that is not text is an error."""
    assert handle.edit(FIRST) is handle
    assert list(handle.versions) == [1]
    with pytest.raises(af.errors.UsageError, match="new text is of type int"):
        handle.edit(7)  # type: ignore[arg-type]


def test_edit_of_an_outdated_version_is_a_conflict(handle: ArtifactHandle) -> None:
    """The error names the newer version and its author."""
    handle.edit("Faster.")
    for change in (lambda: handle.edit("Slower."), lambda: handle.restore(1), lambda: handle.rename("Slower")):
        with pytest.raises(af.errors.Conflict, match="is now at version 2, not 1: user changed it. Read it again"):
            change()
    assert handle.newest.edit("In turn.").version == 3


def test_restore_and_rename_write_versions(handle: ArtifactHandle) -> None:
    """Both write a new version by the user."""
    restored = handle.edit("Worse.").restore(1)
    assert (restored.version, restored.content, restored.update_type) == (3, FIRST, "restore")
    renamed = restored.rename("The report")
    assert (renamed.version, renamed.title, renamed.content, renamed.created_by) == (4, "The report", FIRST, "user")
    with pytest.raises(af.errors.NotFound, match="no version 9"):
        renamed.restore(9)


@pytest.mark.parametrize("number", [3, 2**70, -1, 1.5, "1"])
def test_unknown_version_lists_known_versions(handle: ArtifactHandle, number: Any) -> None:
    """The error has the value, of any type and size, and the known numbers."""
    edited = handle.edit("Changed.")
    for act in (edited.restore, edited.diff, lambda number: edited.diff(1, number)):
        with pytest.raises(af.errors.NotFound, match=f"no version {number!r} in .*; it has: 1, 2"):
            act(number)


def test_edits_belong_to_their_branch(workbench: Any) -> None:
    """An edit on one branch is not on another branch; versions of both can be compared and restored by number."""
    wb = workbench([report(FIRST), "Done.", "Left.", "Right."], approvals="approve")
    first = wb.ask("Write.").wait(10)
    left = wb.ask("Left?", conversation_id=first.conversation_id).wait(10)
    right = wb.conversation(left).edit("Right?").wait(10)
    left.artifacts["research_report"].edit("Of the left.\n")
    ours = right.artifacts["research_report"]
    assert ours.content == FIRST
    assert [run.artifacts["research_report"].version for run in (first, left, right)] == [1, 2, 1]
    assert repr(ours.diff(1, 2)).endswith("-# Report\n-\n-One.\n+Of the left.")
    restored = ours.restore(2)
    assert (restored.version, restored.content, restored.message_id) == (3, "Of the left.\n", right.message_id)


@pytest.mark.parametrize("is_edited", [False, True])
def test_agent_needs_approval_to_change_a_users_version(workbench: Any, is_edited: bool) -> None:
    """A run may rewrite its own artifact without approval, but not after a user has edited it."""
    rewrite = call("rewrite_artifact", id="research_report", content="Mine again.")
    turns = [report(FIRST), report("x", "pause"), rewrite, "Done."]
    wb = workbench(turns, approvals={"create_artifact": "ask"})
    run = wb.ask("Write.").wait(10).approve().wait(10)
    assert [request.params["id"] for request in run.pending] == ["pause"]
    if is_edited:
        run.artifacts["research_report"].edit("By hand.")
    run.approve().wait(10)
    assert [request.tool for request in run.pending] == (["rewrite_artifact"] if is_edited else [])


def test_difference_is_displayable(handle: ArtifactHandle) -> None:
    """A difference has plain text and HTML; without numbers a version is compared with the previous one."""
    edited = handle.edit(FIRST.replace("One.", "Two."))
    change = edited.diff()
    assert repr(change) == (
        "--- research_report v1\n+++ research_report v2\n@@ -1,3 +1,3 @@\n # Report\n \n-One.\n+Two."
    )
    assert "<del>One</del>." in change._repr_html_()
    assert "af-diff-side-by-side" in change.side_by_side._repr_html_()
    assert repr(edited.diff(2, 1)).endswith("-Two.\n+One.")
    assert repr(edited.diff(1, 1)) == "research_report v1 → research_report v1: no difference"


def test_difference_of_the_first_version_is_its_whole_text(handle: ArtifactHandle) -> None:
    """An unknown number is an error."""
    change = handle.diff()
    assert isinstance(change, ArtifactDiff)
    assert change.before is None
    assert repr(change).startswith("--- nothing\n+++ research_report v1\n")
    with pytest.raises(af.errors.NotFound, match="no version 5"):
        handle.diff(5)


def test_display_has_title_author_text_and_versions(handle: ArtifactHandle) -> None:
    """The display names the version, its author and its time; the list of versions is folded."""
    edited = handle.edit("# Report\n\n*New.*\n")
    assert re.fullmatch(
        r"Artifact\('research_report', version=2, title='Report', created_by='user', created_at='[\d-]+ [\d:]+ UTC'\)",
        repr(edited),
    )
    page = edited._repr_html_()
    assert "Report" in page
    assert "research_report" in page
    assert "version 2 · changed by user · 20" in page
    assert "<details><summary>2 versions</summary>" in page
    assert "<em>New.</em>" in page
    assert page.index("changed") < page.index("created")


def test_unattended_displays_have_no_times(workbench: Any) -> None:
    """Unattended displays are the same in every execution."""
    wb = workbench([report(FIRST), "Done."], approvals="approve", interactive=False)
    artifacts = wb.ask("Write.").wait(10).artifacts
    artifact = artifacts["research_report"]
    assert repr(artifact) == "Artifact('research_report', version=1, title='Report', created_by='lead_agent')"
    for output in (artifact._repr_html_(), repr(artifacts), artifacts._repr_html_()):
        assert "UTC" not in output


def test_hostile_texts_are_displayed_as_text(workbench: Any) -> None:
    """Title, id and content are escaped in every format."""
    turns = [call("create_artifact", id=HOSTILE, title=HOSTILE, content=HOSTILE), "Done."]
    wb = workbench(turns, approvals="approve")
    artifacts = wb.ask("Write.").wait(10).artifacts
    (artifact,) = artifacts.values()
    changed = artifact.edit(HOSTILE + " more")
    for value in (artifact, artifacts, artifact.versions, changed.diff(), changed.diff().side_by_side):
        assert not re.search(r"<(img|script)", value._repr_html_())


def test_artifacts_of_a_run_are_displayed_as_a_table(handle: ArtifactHandle, workbench: Any) -> None:
    """Artifacts are accessed by id; the error for an unknown id lists the known ids."""
    wb = workbench([report("a", "a") + report("b", "b"), "Done."], approvals="approve", interactive=False)
    artifacts = wb.ask("Write.").wait(10).artifacts
    assert list(artifacts) == ["a", "b"]
    assert repr(artifacts).splitlines() == [
        "id  title   version  what     by",
        "a   Report  1        created  lead agent",
        "b   Report  1        created  lead agent",
    ]
    assert "<table>" in artifacts._repr_html_()
    with pytest.raises(KeyError, match=r"no artifact 'c' on this branch. It has: a, b\."):
        artifacts["c"]
    assert artifacts.get("c") is None


def test_no_artifacts_are_displayed_as_a_sentence(workbench: Any) -> None:
    """An empty table would say nothing."""
    artifacts = workbench(["Nothing."]).ask("What?").wait(10).artifacts
    assert (repr(artifacts), dict(artifacts)) == ("No artifacts.", {})
    assert "<p>No artifacts.</p>" in artifacts._repr_html_()


def test_user_may_edit_while_a_run_waits(workbench: Any) -> None:
    """The run asks for approval again, and its version follows the edit."""
    rewrite = call("rewrite_artifact", id="research_report", content="By the agent.")
    wb = workbench([report(FIRST), "Done.", rewrite, rewrite, "Rewritten."], approvals={"rewrite_artifact": "ask"})
    first = wb.ask("Write.").wait(10)
    second = wb.ask("Rewrite.", conversation_id=first.conversation_id).wait(10)
    assert second.status == "waiting"
    handle = second.artifacts["research_report"]
    assert handle.edit("By hand.").version == 2
    second.approve().wait(10)
    assert len(handle.versions) == 2
    second.approve().wait(10)
    assert [version.content for version in handle.versions.values()] == [FIRST, "By hand.", "By the agent."]
    with pytest.raises(af.errors.Conflict, match="is now at version 3, not 1: lead_agent changed it"):
        handle.edit("Late.")


def test_artifact_is_exported_to_files(handle: ArtifactHandle, tmp_path: Path) -> None:
    """Each format has the name of the artifact, and the path is returned."""
    (tmp_path / "out").mkdir()
    paths = [write(tmp_path / "out") for write in (handle.to_markdown, handle.to_html, handle.to_docx, handle.to_ipynb)]
    assert [path.name for path in paths] == [f"research_report.{form}" for form in ("md", "html", "docx", "ipynb")]
    assert paths[0].read_text() == FIRST
    with pytest.raises(af.errors.UsageError, match=r"research_report.md' already. Pass overwrite=True"):
        handle.to_markdown(tmp_path / "out")
    assert handle.to_markdown(tmp_path / "out", overwrite=True) == paths[0]


def test_artifact_is_inserted_as_a_cell(handle: ArtifactHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next cell is sanitised Markdown without remote content; plain Python has no cells."""
    with pytest.raises(af.errors.UsageError, match="Cells can be added in IPython only"):
        handle.to_cell()
    shell = InteractiveShell.instance()
    try:
        edited = handle.edit("# Report\n\n![x](https://hostile.invalid/x.png)\n")
        edited.to_cell()
        assert shell.rl_next_input == edited.cell
        assert edited.cell.startswith("%%markdown\n# Report")
        assert "![" not in edited.cell
    finally:
        InteractiveShell.clear_instance()


def test_artifact_of_a_closed_workbench_is_read_only(workbench: Any) -> None:
    """Such an artifact can be displayed and exported; an edit is an error."""
    wb = workbench([report(FIRST), "Done."], approvals="approve")
    handle = wb.ask("Write.").wait(10).artifacts["research_report"]
    wb.close()
    assert "One." in handle._repr_html_()
    with pytest.raises(af.errors.UsageError, match="workbench is closed"):
        handle.edit("Late.")
