"""A deleted run is shown as deleted, without advice to resume the run."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from conftest import OpenWorkbench
from support.mcp_config import until
from support.pages import ShownView
from support.replies import report

import artifactflow_nb as af
from artifactflow_nb.widgets.run import polled_view
from artifactflow_nb.widgets.run.saved import saved_run
from artifactflow_nb.widgets.run.view import RunView


def test_handle_and_saved_output_of_a_deleted_run(workbench: OpenWorkbench) -> None:
    """repr, status and saved output say that the run was deleted.

    Methods that need rows of the run raise an error that says so.
    """
    wb = workbench([report()], approvals={"create_artifact": "ask"}, interactive=False)
    run = wb.ask("Write.").wait()
    wb.conversation(run).delete()
    assert (repr(run), run.status) == ("Run('Write.', status='deleted')", "deleted")
    for text in saved_run(run._client).values():
        assert "eleted" in text
        assert "run.resume" not in text
        assert "approve" not in text
    for use in (run.resume, run.wait, run.approve, run.cancel):
        with pytest.raises(af.errors.NotFound, match="it was deleted"):
            use()


def test_live_view_of_a_deleted_run(workbench: OpenWorkbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view of a waiting run shows at the next poll that the run was deleted, and no longer has a form."""
    monkeypatch.setattr(polled_view, "POLL_INTERVAL_S", 0.02)
    wb = workbench([report()], approvals={"create_artifact": "ask"}, interactive=False)
    run = wb.ask("Write.").wait()
    view = ShownView(wb._thread, RunView(run._client))
    assert "approval" in view.kinds.values()
    wb.conversation(run).delete()
    until(lambda: "Deleted" in "".join(view.html.values()))
    assert "approval" not in view.kinds.values()


def test_error_of_a_run_that_is_deleted_while_it_runs(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Another program deletes the rows of a run: the error says that the run was deleted, without advice to resume."""
    wb = workbench(model=af.ScriptedModel(["One word and more. " * 200], delay_s=0.01), interactive=False)
    run = wb.ask("Tell me.")
    until(lambda: any(event.type == "llm_chunk" or event.seq > 1 for event in run.events))
    with closing(sqlite3.connect(tmp_path / "data" / "store.db", isolation_level=None)) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM messages")
    with pytest.raises(af.errors.NotFound, match="it was deleted"):
        run.wait(30)
    problem = wb._thread.engine.controller.scheduler.storage_problem(run.run_id)
    assert problem is not None
    assert problem.endswith(f"The run {run.run_id} was deleted.")
