"""A run that an earlier release made: sealed, opened, imported, replayed and forked like one of today."""

from pathlib import Path

import pytest
from recordings.conftest import Worked
from recordings.older import make_older
from recordings.worked import bench

import artifactflow_nb as af

FIRST, BEFORE_RECORDINGS = 1, 5
"""Versions of the schema."""


@pytest.fixture(params=[FIRST, BEFORE_RECORDINGS])
def sealed(request: pytest.FixtureRequest, worked: Worked, tmp_path: Path) -> Path:
    make_older(worked.store, request.param)
    with bench(worked.store.parent) as wb:
        return wb.run(worked.second).seal(tmp_path / "run.afrun")


def test_it_shows_all_that_was_kept(sealed: Path) -> None:
    """Answer, artifacts, steps, frames and decisions are there; what that release did not keep is not known."""
    with af.open_run(sealed) as run:
        assert str(run.response).startswith("Answered with")
        assert {name: one.version for name, one in run.artifacts.items()} == {"rAskone": 2, "rAsktwo": 2}
        assert [step.kind for step in run.steps].count("tool") == 6
        assert len(run.llm_calls_df(run)) == 8
        assert run.approvals_df()["decision"].tolist() == ["approved", "approved"]
        assert run.manifest == {}
        assert run.events[-1].is_terminal
        assert "Answered with" in run._repr_html_()
        assert run.cassette.startswith(b'{"cassette": 2')


def test_it_comes_out_the_same_when_it_is_run_again(sealed: Path) -> None:
    """Its calls have other ids in a replay, which follow from their places: that is no difference."""
    with af.open_run(sealed) as run:
        found = run.replay()
    assert (found.differences, found.prompts) == ((), ())


def test_it_goes_on_elsewhere(worked: Worked, sealed: Path, tmp_path: Path) -> None:
    """Imported into another workbench it has its frames, and can be forked, continued and sealed again."""
    with bench(tmp_path / "mine") as wb:
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
        assert (after.run_id, after.response) == (worked.second, before.response)
