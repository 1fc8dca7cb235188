"""The progress of a study: killed kernels, further attempts, budgets, decisions, and changes of the plan."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import OpenWorkbench
from support.forked_python import fast_python

import artifactflow_nb as af
from artifactflow_nb.errors import ModelRejected, ModelUnavailable, UsageError

QUESTIONS = [f"Question {number}?" for number in range(6)]

DRIVING = """
import os, signal, sys
import artifactflow_nb as af
from artifactflow_nb.store.database import Database

last, n_writes, write_one = int(sys.argv[2]), 0, Database._write_one

def write_and_die(*args):
    global n_writes
    n_writes += 1
    if n_writes == last and last % 2:
        os.kill(os.getpid(), signal.SIGKILL)
    result = write_one(*args)
    if n_writes == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

Database._write_one = write_and_die
model = af.ScriptedModel(lambda request: "It is so.")
with af.Workbench(model=model, data_dir=sys.argv[1], interactive=False) as wb:
    questions = [f"Question {number}?" for number in range(6)]
    study = wb.studies.start(questions, vary={"depth": ["quick", "deep"]}, repeats=6, name="killed", at_once=4)
    study.wait()
"""


def reply(_request: Any) -> str:
    return "It is so."


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="The test forks; this system cannot.")
def test_killed_kernels_leave_one_run_for_each_cell(tmp_path: Path) -> None:
    """Kernels die before or after a write, at 20 moments; then the frame is that of a study without deaths."""
    command = [*fast_python(), "-c", DRIVING, str(tmp_path / "data")]
    for number in range(20):
        killed = subprocess.run([*command, str(number + 1)], capture_output=True, text=True, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = subprocess.run([*command, "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with af.Workbench(model=af.ScriptedModel(reply), data_dir=tmp_path / "data", interactive=False) as wb:
        frame = wb.studies["killed"].df
        assert len(frame) == frame["run_id"].nunique() == 72
        assert set(frame["state"]) == {"done"}
        assert set(frame["attempts"]) == {1}
        assert set(frame["answer"]) == {"It is so."}
        assert len(wb.runs(200)) == 72


def test_unavailable_model_is_asked_again_and_every_attempt_stays_a_run(workbench: OpenWorkbench) -> None:
    turns = iter([ModelUnavailable("Away."), ModelUnavailable("Away."), "It is so."])
    wb = workbench(lambda _request: next(turns), interactive=False)
    study = wb.studies.start(["Who?"], name="again").wait(20)
    assert study.df[["state", "attempts", "answer"]].to_numpy().tolist() == [["done", 3, "It is so."]]
    assert [run.status for run in wb.runs()] == ["completed", "failed", "failed"]
    assert wb.query("SELECT json_array_length(earlier_runs_json) AS n FROM study_cells")["n"].tolist() == [2]


def test_cell_fails_after_three_attempts_and_can_be_retried(workbench: OpenWorkbench) -> None:
    is_away = True

    def answer(_request: Any) -> Any:
        return ModelUnavailable("Away.") if is_away else "It is so."

    wb = workbench(answer, interactive=False)
    study = wb.studies.start(["Who?"], name="again").wait(20)
    assert study.df[["state", "attempts", "error"]].to_numpy().tolist() == [["failed", 3, "Away."]]
    is_away = False
    study.retry("failed").wait(20)
    assert study.df[["state", "attempts"]].to_numpy().tolist() == [["done", 4]]
    assert study.df["error"].isna().all()
    assert len(wb.runs()) == 4
    with pytest.raises(UsageError, match="states is \\['done'\\]; cells that are 'failed' or 'cancelled'"):
        study.retry("done")


def test_rejected_question_is_not_asked_again(workbench: OpenWorkbench) -> None:
    wb = workbench(lambda _request: ModelRejected("No such model."), interactive=False)
    frame = wb.studies.start(["Who?"], name="once").wait(20).df
    assert frame[["state", "attempts", "error"]].to_numpy().tolist() == [["failed", 1, "No such model."]]


def test_extension_keeps_the_cells(workbench: OpenWorkbench) -> None:
    wb = workbench(reply, interactive=False)
    study = wb.studies.start(pd.DataFrame({"question": ["Who?"], "topic": ["a"]}), name="more").wait(20)
    first = study.df
    study.extend(repeats=2).wait(20)
    study.extend(questions=pd.DataFrame({"question": ["How?"], "topic": ["b"]})).wait(20)
    frame = study.df
    assert frame[["question", "topic", "repeat", "state"]].to_numpy().tolist() == [
        ["Who?", "a", 0, "done"],
        ["Who?", "a", 1, "done"],
        ["How?", "b", 0, "done"],
        ["How?", "b", 1, "done"],
    ]
    assert frame["run_id"][0] == first["run_id"][0]
    with pytest.raises(UsageError, match="repeats is 1; it must be a whole number from 2"):
        study.extend(repeats=1)


def test_cancellation_ends_the_runs_and_can_be_taken_back(workbench: OpenWorkbench, tmp_path: Path) -> None:
    gate = tmp_path / "open"

    def answer(_request: Any) -> Any:
        if not gate.exists():
            time.sleep(0.02)
            return ModelUnavailable("Away.")
        return "It is so."

    wb = workbench(answer, interactive=False, approvals="approve")
    study = wb.studies.start(QUESTIONS, name="stopped", at_once=1)
    study.cancel().wait(20)
    assert study.state == "cancelled"
    assert set(study.df["state"]) <= {"cancelled", "failed", "done"}
    gate.touch()
    study.retry(["cancelled", "failed"]).wait(20)
    assert set(study.df["state"]) == {"done"}


def test_budget_stops_the_study_and_more_budget_lets_it_go_on(workbench: OpenWorkbench) -> None:
    """A cell is started only if the budget covers it; a run of this model takes about 2,100 tokens."""
    wb = workbench(reply, interactive=False)
    limits = {"budget": af.Budget(tokens=7_000), "each": af.Budget(tokens=3_000)}
    study = wb.studies.start(QUESTIONS, name="thrifty", at_once=4, **limits).wait(20)
    frame = study.df
    assert frame["tokens"].sum() <= 7_000
    assert frame["state"].value_counts().to_dict() == {"planned": 4, "done": 2}
    assert "4 cells planned: the budget does not cover another cell." in study._repr_html_()
    study.extend(budget=af.Budget(tokens=100_000)).wait(20)
    assert set(study.df["state"]) == {"done"}


def asking(request: Any) -> Any:
    if request.messages[-1].role == "user":
        return af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": "Text"})
    return "It is written."


def test_cells_wait_until_their_tool_is_decided_for_the_study(workbench: OpenWorkbench) -> None:
    wb = workbench(asking, interactive=False, approvals={"create_artifact": "ask"})
    study = wb.studies.start(QUESTIONS, name="asking", at_once=2).wait(20)
    assert set(study.df["state"]) == {"waiting"}
    assert "6 cells waiting for a decision: write artifact." in study._repr_html_()
    wb.run(study.df["run_id"][0]).approve()
    wait_for(lambda: study.df["state"][0] == "done")
    study.decide("create_artifact", approved=True)
    wait_for(lambda: set(study.df["state"]) == {"done"})
    assert study.wait(20).state == "done"
    assert len(wb.runs()) == 6


def test_two_kernels_do_not_drive_a_study_twice(workbench: OpenWorkbench) -> None:
    def slow(_request: Any) -> str:
        time.sleep(0.01)
        return "It is so."

    first, second = workbench(slow, interactive=False), workbench(slow, interactive=False)
    study = first.studies.start(QUESTIONS, name="shared", repeats=4, at_once=2)
    frame = second.studies["shared"].wait(20).df
    assert set(frame["state"]) == {"done"}
    assert len(second.runs(100)) == 24
    pd.testing.assert_frame_equal(study.wait(20).df, frame)
