"""A sealed run is read without its store, and leaves no files behind."""

import gc
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from recording.conftest import SampleStore
from support import frames
from support.replies import by_agent, plan
from support.sealed_store import CITED, open_workbench, sealed_parts

import artifactflow_nb as af
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.errors import CassetteError, RunFailed, UsageError
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.notebook.sealed_run import SealedRun, open_run
from artifactflow_nb.recording.rows import redacted
from artifactflow_nb.recording.seal import write_sealed


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which temporary folders are created."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def file(samples: SampleStore, tmp_path: Path) -> Path:
    """A sealed run whose store was removed."""
    path = write_sealed(tmp_path / "run.afrun", sealed_parts(samples.path, samples.second))
    samples.path.rename(tmp_path / "hidden.db")
    return path


@pytest.fixture
def run(file: Path, scratch: Path) -> Iterator[SealedRun]:
    with open_run(file) as opened:
        yield opened


def test_sealed_run_is_complete_without_its_store(run: SealedRun) -> None:
    """The file has question, answer, artifacts, events, sources, metrics and settings."""
    assert (run.question, run.status, run.error) == ("Ask: two", "completed", None)
    assert run.response is not None
    assert run.response.startswith("Answered with")
    assert {name: artifact.version for name, artifact in run.artifacts.items()} == {"rAskone": 2, "rAsktwo": 2}
    assert run.events[0].data["question"] == "Ask: two"
    assert run.events[-1].is_terminal
    assert run.metrics.total_duration_ms > 0
    assert [source.address for source in run.sources] == [CITED]
    assert run.settings["sources"] == ["notes/"]
    assert run.file_manifest["run"]["run_id"] == run.run_id
    assert run.manifest["agents"]["lead_agent"]["prompt"] == "lead_agent"


READING = {
    "artifacts", "citation", "completed_at", "conversation_id", "entry", "error", "events", "manifest", "message_id",
    "metrics", "notices", "outcome", "pending", "question", "raise_for_status", "response", "rows", "run_id",
    "settings", "started_at", "status", "steps", "tables", "thread_id", "to_bibtex", "to_csl", "to_notebook", "verify",
    "panel",
}  # fmt: skip
"""What can be read of a run, sealed or not."""

CALLED = {"citation", "raise_for_status", "rows", "steps", "tables", "to_bibtex", "to_csl", "to_notebook"} | {
    "verify",
}  # fmt: skip
DOING = {"answer", "approve", "cancel", "deny", "fork", "instruct", "resume", "retried_as", "seal", "wait"}
"""What needs the store of the run."""
FILE = {
    "claims",
    "close",
    "crate",
    "data",
    "file_manifest",
    "literature",
    "otel",
    "path",
    "projects",
    "query",
    "sources",
    "timeline",
}


def test_sealed_run_has_the_attributes_of_a_run(samples: SampleStore, tmp_path: Path) -> None:
    """The attributes have equal values."""

    def public(value: object) -> set[str]:
        return {name for name in dir(value) if not name.startswith("_") and not name.endswith("_df")}

    with open_workbench(samples.path.parent) as wb:
        live = wb.run(samples.second)
        with open_run(live.seal(tmp_path / "run.afrun")) as sealed:
            assert public(live) == READING | DOING
            assert public(sealed) == READING | FILE
            for name in READING - CALLED - {"panel"}:
                assert getattr(sealed, name) == getattr(live, name), name
            steps = [
                [(step.number, step.place, step.agent, step.name, step.at) for step in run.steps]
                for run in (live, sealed)
            ]
            assert steps[0] == steps[1]
            assert sealed.rows().run == redacted(live.rows(), Redactor()).run


def test_frames_of_a_sealed_run_equal_the_frames_of_its_store(
    samples: SampleStore, file: Path, run: SealedRun, tmp_path: Path
) -> None:
    """Each frame has the rows of the run and of the earlier runs."""
    ids = [samples.first, samples.second]
    hidden = tmp_path / "hidden.db"
    expected = {
        frame.name: frames.load_frame(hidden, frame, *([ids] if "run" in frame.filters else []))
        for frame in frames.all_frames()
        if {"run", "conversation"} & frame.filters.keys()  # the others are of the whole store
    }
    found = {
        "runs": run.runs_df(columns="all"),
        "llm_calls": run.llm_calls_df(),
        "tool_calls": run.tool_calls_df(),
        "plan_steps": run.plan_steps_df(),
        "events": run.events_df(),
        "messages": run.messages_df(),
        "artifacts": run.artifacts_df(),
        "blocks": run.projects.blocks_df(),
        "evaluations": run.projects.evaluations_df(),
        "project_runs": run.projects.runs_df(),
        "approvals": run.approvals_df(),
        "sources": run.sources_df(),
        "claims": run.claims_df(),
        "evidence": run.data.evidence_df(),
    }
    branch_columns = {"n_siblings", "is_active", "sibling_index"}  # other branches are not in the file
    for name, frame in expected.items():
        columns = [column for column in frame.columns if column not in branch_columns]
        assert len(frame) > 0 or name in {"plan_steps", "blocks", "evaluations", "project_runs", "claims", "evidence"}
        pd.testing.assert_frame_equal(found[name][columns], frame[columns])


def test_plan_is_in_the_sealed_run(tmp_path: Path) -> None:
    """The steps of the plan are present after opening, and after an import into another store."""
    script = by_agent(agent=[plan("Find", "Compare"), "Done."], executor=["A.", "B."], summarizer=["Both."])
    with af.Workbench(model=ScriptedModel(script), data_dir=tmp_path / "one", interactive=False) as wb:
        planned = wb.ask("Plan it.", flow="plan").wait()
        expected, steps = wb.plan_steps_df(), [step.path for step in planned.steps]
        path = planned.seal(tmp_path / "plan.afrun")
    found = open_run(path)
    pd.testing.assert_frame_equal(found.plan_steps_df(), expected)
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "two", interactive=False) as wb:
        imported = wb.store.import_run(path)
        pd.testing.assert_frame_equal(wb.plan_steps_df(imported), expected)
        assert [step.path for step in imported.steps] == steps


def test_sealed_run_can_be_queried_and_not_changed_by_sql(run: SealedRun) -> None:
    """Frames and tables can be queried as in a workbench."""
    counted = run.query("SELECT agent_name, count(*) AS n FROM llm_calls GROUP BY 1 ORDER BY 1")
    assert list(counted["agent_name"]) == ["crawl_agent", "lead_agent"]
    with pytest.raises(UsageError, match="would do more than read"):
        run.query("DELETE FROM main.runs")


def test_artifacts_of_a_sealed_run_can_be_read_and_not_written(run: SealedRun, tmp_path: Path) -> None:
    """Versions, differences and exports work; an edit is refused with advice."""
    artifact = run.artifacts["rAsktwo"]
    assert list(artifact.versions) == [1, 2]
    assert "+Read local:notes" in repr(artifact.diff())
    assert artifact.to_markdown(tmp_path / "out.md").read_text(encoding="utf-8") == artifact.content
    with pytest.raises(UsageError, match=r"cannot be changed.*wb\.store\.import_run"):
        artifact.edit("Mine.")


def test_card_of_a_sealed_run_has_question_status_releases_and_hash(run: SealedRun) -> None:
    """The view of a sealed run equals the view of an ended run."""
    text, page = run._card().plain(), run._repr_html_()
    for output in (text, page):
        assert "Ask: two" in output
        assert run.file_manifest["sha256"] in output
        assert "artifactflow-nb" in output
    assert "Answered with" in page
    assert repr(run).startswith("SealedRun('Ask: two', status='completed', path=")
    bundle = run.panel._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert "Answered with" in bundle["text/html"]
    assert "Reading agent" in bundle["text/html"]
    assert repr(run.panel) == bundle["text/plain"]


def test_failed_sealed_run_has_its_error(tmp_path: Path, scratch: Path) -> None:
    """The response has the reason, and `raise_for_status` raises the error, as for a stored run."""
    with open_workbench(tmp_path / "data", model=ScriptedModel([""])) as wb:
        failed = wb.ask("Fail.").wait().run_id
    path = write_sealed(tmp_path / "failed.afrun", sealed_parts(tmp_path / "data" / "store.db", failed))
    with open_run(path) as run:
        assert run.status == "failed"
        assert "empty answer" in run.response.reason
        with pytest.raises(RunFailed, match="empty answer"):
            run.raise_for_status()
        assert "empty answer" in str(run.error)
        assert "empty answer" in run._repr_html_()
        assert "empty answer" in repr(run.panel)


# --- what stays behind ----------------------------------------------------------------------------------------------


def test_closing_removes_the_temporary_store(file: Path, scratch: Path) -> None:
    """The folder is removed by `close`, by the `with` block and with the last handle; closing twice is allowed."""
    run = open_run(file)
    assert len(list(scratch.iterdir())) == 1
    run.close()
    run.close()
    assert not list(scratch.iterdir())
    with open_run(file):
        assert list(scratch.iterdir())
    assert not list(scratch.iterdir())
    artifacts = open_run(file).artifacts
    gc.collect()
    assert list(artifacts["rAsktwo"].versions) == [1, 2]  # what still reads the store keeps it
    del artifacts
    gc.collect()
    assert not list(scratch.iterdir())


def test_end_of_the_process_removes_the_temporary_store(file: Path, scratch: Path) -> None:
    """The store is removed without a message, even if no handle was closed."""
    code = (
        f"import artifactflow_nb.notebook.sealed_run as o; run = o.open_run({str(file)!r}); print(len(run.events) > 5)"
    )
    environment = {"TMPDIR": str(scratch), "PYTHONPATH": ":".join(sys.path), "HOME": str(scratch.parent)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert not list(scratch.iterdir())


def test_closed_run_says_to_open_it_again(file: Path, scratch: Path) -> None:
    """Values that were read before stay available."""
    run = open_run(file)
    run.close()
    assert run.question == "Ask: two"
    with pytest.raises(UsageError, match=r"This run was closed. Open it again with af\.open_run"):
        run.runs_df()
    with pytest.raises(UsageError, match="was closed"):
        _ = run.artifacts


def test_unusable_file_leaves_no_folder(file: Path, scratch: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CassetteError, match=r"run\.afrun cannot be used"):
        open_run(file)
    gc.collect()
    assert not list(scratch.iterdir())


def test_opening_uses_no_network_thread_or_program(file: Path, scratch: Path) -> None:
    code = (
        "import sys, threading, artifactflow_nb.notebook.sealed_run as o\n"
        "def look():\n"
        f"    with o.open_run({str(file)!r}) as run: return len(run.events), run.panel, run._repr_html_()\n"
        "look(); events = []\n"  # what it needs is imported by now
        "uses = {'socket.connect', 'subprocess.Popen', 'os.system', 'exec', 'compile', 'import', 'pickle.find_class'}\n"
        "sys.addaudithook(lambda name, args: events.append((name, args)) if name in uses else None)\n"
        "look(); print(threading.active_count(), events)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1 []\n"


# --- into a workbench -----------------------------------------------------------------------------------------------


def test_imported_run_can_be_continued(samples: SampleStore, file: Path, tmp_path: Path) -> None:
    """The other workbench has frames, answer and artifacts of the run, and can ask a follow-up."""
    with open_workbench(tmp_path / "mine") as wb:
        wb.ask("Ask: mine").wait()
        assert wb.store.import_run(file).run_id == samples.second
    with open_workbench(tmp_path / "mine") as wb:
        assert list(wb.runs_df()["question"]) == ["Ask: mine", "Ask: one", "Ask: two"]
        run = wb.run(samples.second)
        assert str(run.response).startswith("Answered with")
        assert run.artifacts["rAsktwo"].edit("Mine.").version == 3
        more = wb.ask("Ask: four", conversation_id=run.conversation_id).wait().approve().wait()
        assert more.status == "completed"
        assert "rAsktwo" in more.artifacts


def test_temporary_store_passes_integrity_checks(file: Path, run: SealedRun) -> None:
    copied = shutil.copy(run._store, run._store.with_name("copy.db"))
    with closing(sqlite3.connect(copied)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
