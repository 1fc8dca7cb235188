"""The frames: typed, from the store, the same after a restart."""

from pathlib import Path

import pandas as pd
import pytest
from scripts import call, delegate, report

import artifactflow_nb as af
from artifactflow_nb import frames
from artifactflow_nb.models.scripted import ScriptedModel

ALL = {"runs": frames.RUNS, "llm_calls": frames.LLM_CALLS, "tool_calls": frames.TOOL_CALLS, "events": frames.EVENTS}


def read(wb: af.Workbench) -> dict[str, pd.DataFrame]:
    return {name: getattr(wb, f"{name}_df")() for name in ALL}


def worked(folder: Path) -> dict[str, pd.DataFrame]:
    def script(request: object) -> str:
        system, *rest = request.messages  # type: ignore[attr-defined]
        if "search agent" in system.content:
            return "Here."
        turns = [delegate("search_agent", "look") + call("read_artifact", id="nothing"), report(), "Done."]
        return turns[len(rest) // 2]

    with af.Workbench(model=ScriptedModel(script), approvals={"create_artifact": "ask"}, data_dir=folder) as wb:
        wb.ask("Look.").wait().approve().wait()
        return read(wb)


def test_empty_frames_have_the_same_types(tmp_path: Path) -> None:
    """Columns and types do not depend on whether there are rows."""
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "empty") as wb:
        empty = read(wb)
    full = worked(tmp_path / "full")
    for name, frame in full.items():
        assert len(empty[name]) == 0
        assert len(frame) > 0
        assert [(column, str(kind)) for column, kind in empty[name].dtypes.items()] == [
            (column, str(kind)) for column, kind in frame.dtypes.items()
        ]
        assert frame.attrs["schema"] == f"artifactflow_nb/{name}/1"


def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    """The frames are made from stored rows: another process sees the same."""
    before = worked(tmp_path / "data")
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data") as wb:
        after = read(wb)
    for name, frame in before.items():
        pd.testing.assert_frame_equal(frame, after[name])


@pytest.mark.parametrize("name", list(ALL))
def test_columns_follow_the_conventions(tmp_path: Path, name: str) -> None:
    """Names are snake case, times are aware, every column says what it means, and none is there twice."""
    columns = ALL[name].columns
    assert len({column.name for column in columns}) == len(columns)
    assert all(column.name == column.name.lower() and column.meaning.endswith(".") for column in columns)
    assert all(column.dtype == frames.TIME for column in columns if column.name.endswith("_at"))
    assert all(column.dtype == frames.FLOAT for column in columns if column.name.endswith("_ms"))


def test_the_rows_say_what_happened(tmp_path: Path) -> None:
    """One row for each run, model call, tool call and event; unknown is NA and never 0."""
    found = worked(tmp_path / "data")
    run = found["runs"].iloc[0]
    assert (run["status"], run["n_llm_calls"], run["n_tool_calls"], run["n_tool_errors"]) == ("completed", 4, 3, 1)
    assert (run["n_interrupts"], run["n_artifacts"], run["n_retries"]) == (1, 1, 0)
    assert run["wait_ms"] > 0
    assert run["active_ms"] == pytest.approx(run["total_duration_ms"] - run["wait_ms"])
    assert run["total_tokens"] == found["llm_calls"]["total_tokens"].sum()
    assert pd.isna(run["cost_usd"])
    tools = found["tool_calls"]
    assert tools["tool_name"].tolist() == ["call_subagent", "read_artifact", "create_artifact"]
    assert tools["success"].tolist() == [True, False, True]
    assert tools["approval"].tolist() == ["not_needed", "not_needed", "approved"]
    assert tools["decided_by"].iloc[2] == "user"
    assert tools["approval_wait_ms"].isna().tolist() == [True, True, False]
    calls = found["llm_calls"]
    assert calls["agent_name"].tolist() == ["lead_agent", "search_agent", "lead_agent", "lead_agent"]
    assert calls["request_hash"].nunique() == 4
    events = found["events"]
    assert events["seq"].is_monotonic_increasing
    assert (events["t_rel_ms"] >= 0).all()
    assert "llm_chunk" not in events["event_type"].tolist()


def test_one_run_can_be_picked(tmp_path: Path) -> None:
    """With a run, each frame has that run's rows only."""
    with af.Workbench(model=ScriptedModel(["One.", "Two."]), data_dir=tmp_path / "data") as wb:
        first = wb.ask("First?").wait()
        second = wb.ask("Second?").wait()
        assert wb.runs_df(second)["question"].tolist() == ["Second?"]
        assert wb.llm_calls_df(first.run_id)["run_id"].tolist() == [first.run_id]
        assert set(wb.events_df(second)["run_id"]) == {second.run_id}
        assert len(wb.tool_calls_df(first)) == 0


def test_a_run_whose_process_is_gone_is_interrupted(tmp_path: Path) -> None:
    """A row that says running, and whose engine has ended, shows as interrupted."""
    wb = af.Workbench(model=ScriptedModel(["Slowly. " * 100], delay_s=0.02), data_dir=tmp_path / "data")
    run = wb.ask("Tell.")
    assert wb.runs_df(run)["status"].tolist() == ["running"]
    wb.close()
    with af.Workbench(model=ScriptedModel(["Done."]), data_dir=tmp_path / "data") as later:
        assert later.runs_df()["status"].tolist() == ["interrupted"]
        again = later.run(run.run_id)
        assert again.status == "interrupted"
        assert [unfinished.run_id for unfinished in later.unfinished()] == [run.run_id]
        assert again.resume().wait().response == "Done."
        assert later.runs_df()["status"].tolist() == ["completed"]
