"""A run in a store of an earlier release can be sealed, scratch_connection, verified, imported and forked."""

from pathlib import Path

import pytest
from recording.conftest import SampleStore
from support.older import RELEASE_0_1_0, make_older
from support.sealed_store import open_workbench, scratch_connection

import artifactflow_nb as af
from artifactflow_nb.recording.rows import load_branch_rows
from artifactflow_nb.recording.schema import check_rows


@pytest.fixture
def sealed(samples: SampleStore, tmp_path: Path) -> Path:
    make_older(samples.path, RELEASE_0_1_0)
    with open_workbench(samples.path.parent) as wb:
        return wb.run(samples.second).seal(tmp_path / "run.afrun")


def test_sealed_run_has_everything_that_the_release_stored(sealed: Path) -> None:
    """Answer, artifacts, steps, frames and decisions are present."""
    with af.open_run(sealed) as run:
        assert str(run.response).startswith("Answered with")
        assert {name: artifact.version for name, artifact in run.artifacts.items()} == {"rAskone": 2, "rAsktwo": 2}
        assert [step.kind for step in run.steps].count("tool") == 6
        assert len(run.llm_calls_df(run)) == 8
        assert run.approvals_df()["decision"].tolist() == ["approved", "approved"]
        assert run.manifest
        assert run.events[-1].is_terminal
        assert "Answered with" in run._repr_html_()


def test_sealed_run_comes_out_the_same_when_it_is_verified(sealed: Path) -> None:
    with af.open_run(sealed) as run:
        found = run.verify()
    assert (found.differences, found.prompts) == ((), ())


def test_imported_run_can_be_forked_continued_and_sealed_again(
    samples: SampleStore, sealed: Path, tmp_path: Path
) -> None:
    with open_workbench(tmp_path / "mine") as wb:
        run = wb.import_run(sealed)
        assert list(wb.runs_df()["question"]) == ["Ask: one", "Ask: two"]
        forked = run.fork(2).wait(20)
        if forked.pending:
            forked.approve().wait(20)
        assert forked.status == "completed"
        more = wb.ask("Ask: four", conversation_id=run.conversation_id).wait(20).approve().wait(20)
        assert more.status == "completed"
        again = run.seal(tmp_path / "again.afrun")
    with af.open_run(sealed) as before, af.open_run(again) as after:
        assert (after.run_id, after.response) == (samples.second, before.response)


def test_renamed_column_keeps_its_values_in_a_store_and_in_a_recording(samples: SampleStore) -> None:
    """Schema 16 renames `announced`; a recording has the names of the schema with which it was written."""
    with scratch_connection(samples.path) as db:
        values = [row["published"] for row in load_branch_rows(db, samples.second)["approvals"]]
    make_older(samples.path, 15)
    with scratch_connection(samples.path) as db:
        recorded = load_branch_rows(db, samples.second)
    assert [row["announced"] for row in recorded["approvals"]] == values == [1, 1]
    assert [row["published"] for row in check_rows(recorded)["approvals"]] == values
    with open_workbench(samples.path.parent), scratch_connection(samples.path) as db:
        assert [row["published"] for row in load_branch_rows(db, samples.second)["approvals"]] == values
