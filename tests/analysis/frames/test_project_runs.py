"""The frame of the runs of projects."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pandas as pd
import pytest
from support.replies import by_agent, call

import artifactflow_nb as af
from artifactflow_nb.analysis.frames.runs import RUNS
from artifactflow_nb.models.scripted import ScriptedModel

OpenWorkbench = Callable[..., af.Workbench]


@pytest.fixture
def wb(open_workbench: OpenWorkbench) -> Any:
    """A workbench with two projects; one has a talk, a writing run, an evaluation and a run of another conversation."""
    model = by_agent(
        lead=["Elsewhere.", "It is here."],
        composer=[call("generate_field_content", field_name="One"), "Done.", "Nothing to do."],
        writer=["Written.", "Written, too.", "And this."],
        grader=[call("grade", score=7, evidence=["Written"]), "So it is."],
    )
    with open_workbench(model=ScriptedModel(model)) as opened:
        book = opened.projects.start("Book", template="paper")
        for name in ("One", "Two", "Three"):
            book.add(name, auto_generate=True)
        talk = book.ask("Write One.").wait()
        book.generate().wait()
        book.evaluate(["One"], ["clarity"]).wait()
        opened.projects.start("目录").ask("What about it?").wait()
        opened.ask("Unrelated?").wait()
        found = opened.ask("Where is it?").wait()
        with closing(sqlite3.connect(opened.data_dir / "store.db")) as db:
            db.execute("UPDATE runs SET parent_run_id = ? WHERE run_id = ?", (talk.run_id, found.run_id))
            db.commit()
        yield opened


def test_row_has_work_and_results(wb: af.Workbench) -> None:
    """A row has the kind of work and the numbers of blocks and grades; a child run has its own row."""
    rows = wb.projects.runs_df("Book")
    assert rows["work"].tolist() == ["talk", "write", "evaluate", "research"]
    assert rows["n_blocks"].tolist() == [1, 2, 0, 0]
    assert rows["n_block_versions"].tolist() == [1, 2, 0, 0]
    assert rows["n_grades"].tolist() == [0, 0, 1, 0]
    assert set(rows["project"]) == {"Book"}
    assert set(rows["project_id"]) == {wb.projects.start("Book").conversation_id}
    assert rows["conversation_id"].nunique() == 2
    assert rows["parent_run_id"].fillna("").tolist() == ["", "", "", rows["run_id"][0]]


def test_columns_of_runs_have_the_same_values(wb: af.Workbench) -> None:
    """Runs without a project have no row."""
    names = [column.name for column in RUNS.select_columns(None)]
    found, runs = wb.projects.runs_df(), wb.runs_df(columns="all")
    assert runs.loc[~runs["run_id"].isin(found["run_id"]), "question"].tolist() == ["Unrelated?"]
    same = runs[runs["run_id"].isin(found["run_id"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(found[names], same, check_categorical=False)


def test_filters_by_project_run_status_and_time(wb: af.Workbench) -> None:
    """Sums cover the filtered runs; an unknown project is an error."""
    whole = wb.projects.runs_df().set_index("run_id")
    assert whole["project"].value_counts().to_dict() == {"Book": 4, "目录": 1}
    for filtered in (
        wb.projects.runs_df(["Book", wb.projects.start("目录")]),
        wb.projects.runs_df(wb.projects),
        wb.projects.runs_df(status="completed"),
    ):
        pd.testing.assert_frame_equal(filtered.set_index("run_id"), whole)
    single = wb.projects.runs_df(run=whole.index[1]).set_index("run_id")
    pd.testing.assert_frame_equal(single, whole.iloc[[1]], check_categorical=False)
    assert wb.projects.runs_df("目录", columns="counts")["n_llm_calls"].tolist() == [1]
    assert len(wb.projects.runs_df("Book", since=whole["started_at"].iloc[2])) == 2
    assert len(wb.projects.runs_df("Book", status="failed")) == 0
    with pytest.raises(af.errors.NotFound, match="no project 'Bok'"):
        wb.projects.runs_df("Bok")


def test_tool_time_excludes_delegated_work(wb: af.Workbench) -> None:
    """A delegating call lasts as long as its job; this time is not the time of a tool."""
    delegating = {"generate_field_content", "run_evaluation", "grade_field"}
    calls = wb.tool_calls_df()
    own = calls[~calls["tool_name"].isin(delegating)].groupby("run_id")["duration_ms"].sum()
    rows = wb.projects.runs_df("Book").set_index("run_id")
    assert delegating == set(calls["tool_name"]) & delegating
    assert rows["tool_ms"].fillna(0.0).to_dict() == pytest.approx({key: own.get(key, 0.0) for key in rows.index})


def test_query_reads_project_runs(wb: af.Workbench) -> None:
    """SQL sums by project; a name may contain NUL."""
    wb.projects.start("a\x00b").ask("And this?").wait()
    found = wb.query("SELECT project, count(*) AS n, sum(n_blocks) AS blocks FROM project_runs GROUP BY 1 ORDER BY 1")
    assert found["project"].tolist() == ["Book", "a\x00b", "目录"]
    assert found["blocks"].tolist() == [3, 0, 0]
