"""Steps of a run are numbered by start, and a change is checked against the steps."""

from pathlib import Path

import pytest
from support.recorded_scenes import open_workbench, script

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.fork import change_of
from artifactflow_nb.recording.rows import RunRows, load_run_rows
from artifactflow_nb.recording.steps import steps_of


@pytest.fixture
def rows(tmp_path: Path) -> RunRows:
    """A run with two parallel jobs, tool calls and a decision."""
    with open_workbench(tmp_path, model=ScriptedModel(script), record=tmp_path / "c.jsonl") as wb:
        run = wb.ask("Fruit?").wait(20).approve().wait(20)
        found = wb._thread.call(wb._thread.engine.database.read(lambda db: load_run_rows(db, run.run_id)))
        assert isinstance(found, RunRows)
        assert [step.place for step in steps_of(found)] == [step.place for step in run.steps]
        return found


def test_steps_are_numbered_in_order(rows: RunRows) -> None:
    steps = steps_of(rows)
    assert [step.number for step in steps] == list(range(1, 14))
    assert [(step.path, step.kind, step.name) for step in steps[-3:]] == [
        ("main", "decision", "create_artifact"),
        ("main", "tool", "create_artifact"),
        ("main", "model", "scripted"),
    ]
    assert steps[-1].outcome == "Done."
    assert steps[-3].outcome == "approved"


def test_unknown_step_lists_known_steps(rows: RunRows) -> None:
    for number in (0, 14, True):
        with pytest.raises(af.errors.UsageError, match=r"1: lead_agent asked scripted"):
            change_of(rows, number)


def test_change_that_does_not_fit_the_step_is_refused(rows: RunRows) -> None:
    with pytest.raises(af.errors.UsageError, match="tool_result changes a tool step, and step 1 is a model step"):
        change_of(rows, 1, tool_result="x")
    assert change_of(rows, 11, decision=False).decision == {
        "approved": False,
        "instruction": "",
        "params": None,
        "scope": "once",
        "instead": False,
    }
