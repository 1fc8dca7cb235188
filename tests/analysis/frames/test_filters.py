"""Filters of frames: each gives the rows that filtering the whole frame gives."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support import frames

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.frames import bind_filters

OpenWorkbench = Callable[..., af.Workbench]
TIMES = {
    "runs": "started_at",
    "llm_calls": "started_at",
    "tool_calls": "called_at",
    "events": "ts",
    "messages": "created_at",
    "artifacts": "created_at",
    "blocks": "updated_at",
    "evaluations": "created_at",
    "project_runs": "started_at",
    "approvals": "asked_at",
    "sources": "fetched_at",
    "claims": "checked_at",
    "evidence": "created_at",
}
OF_RUNS = [frame for frame in frames.all_frames() if "run" in frame.filters]
WITH_TIMES = [frame for frame in frames.all_frames() if "since" in frame.filters]


def same(narrowed: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Assert that two frames have the same rows; unused categories are ignored."""
    pd.testing.assert_frame_equal(
        narrowed.drop(columns="wait_ms", errors="ignore"),
        expected.drop(columns="wait_ms", errors="ignore").reset_index(drop=True),
        check_categorical=False,
    )


def plan_starts(steps: pd.DataFrame) -> pd.Series:
    """Start of the plan of each step."""
    return steps.groupby("plan_id")["started_at"].transform("min")


def ids(frame: frames.Frame) -> str:
    return frame.name


@pytest.mark.parametrize("frame", OF_RUNS, ids=ids)
def test_run_filter_accepts_one_several_or_none(sample_store: Path, frame: frames.Frame) -> None:
    """The filter accepts one run, several in a list or a Series, or none; aggregates cover the filtered runs."""
    everything, runs = frames.load_frame(sample_store, frame), frames.load_frame(sample_store, frames.RUNS)["run_id"]
    for some in (runs[:1], runs[1:], runs[:0]):
        expected = everything[everything["run_id"].isin(some)]
        same(frames.load_frame(sample_store, frame, list(some)), expected)
        same(frames.load_frame(sample_store, frame, some), expected)
    same(frames.load_frame(sample_store, frame, runs[0]), everything[everything["run_id"] == runs[0]])


@pytest.mark.parametrize("frame", OF_RUNS, ids=ids)
def test_conversation_filter_selects_all_its_runs(sample_store: Path, frame: frames.Frame) -> None:
    """A conversation selects all its runs."""
    everything, runs = frames.load_frame(sample_store, frame), frames.load_frame(sample_store, frames.RUNS)
    for conversation, found in runs.groupby("conversation_id"):
        expected = everything[everything["run_id"].isin(found["run_id"])]
        if "conversation_id" in everything:  # manual edits belong to no run
            expected = everything[everything["conversation_id"] == conversation]
        is_in_one = frame.name in {"plan_steps", "evaluations", "project_runs", "claims", "evidence"}
        assert len(expected) < len(everything) or is_in_one
        same(frames.load_frame(sample_store, frame, conversation=conversation), expected)
    ids = runs["conversation_id"].unique()
    has_own = "conversation_id" in everything
    expected = everything[everything["conversation_id"].isin(ids)] if has_own else everything.dropna(subset="run_id")
    same(frames.load_frame(sample_store, frame, conversation=ids), expected)


@pytest.mark.parametrize("frame", WITH_TIMES, ids=ids)
def test_time_filter_includes_since_and_excludes_until(sample_store: Path, frame: frames.Frame) -> None:
    """`since` is inclusive, `until` exclusive; rows without a time are dropped."""
    everything = frames.load_frame(sample_store, frame)
    moments = plan_starts(everything) if frame is frames.PLAN_STEPS else everything[TIMES[frame.name]]
    middle = moments.dropna().sort_values().iloc[len(moments.dropna()) // 2]
    same(frames.load_frame(sample_store, frame, since=middle), everything[moments >= middle])
    same(frames.load_frame(sample_store, frame, until=middle), everything[moments < middle])
    later = middle + pd.Timedelta(microseconds=1)
    same(frames.load_frame(sample_store, frame, since=middle, until=later), everything[moments == middle])


@pytest.mark.parametrize("frame", [frames.RUNS, frames.MESSAGES], ids=ids)
def test_status_filter_accepts_one_or_several(sample_store: Path, frame: frames.Frame) -> None:
    """The filter accepts one status or several."""
    everything = frames.load_frame(sample_store, frame)
    assert set(everything["status"]) == {"completed", "waiting"}
    for status in ("completed", "waiting", "failed"):
        same(frames.load_frame(sample_store, frame, status=status), everything[everything["status"] == status])
    same(frames.load_frame(sample_store, frame, status=["waiting", "completed"]), everything)


def test_filters_are_combined(sample_store: Path) -> None:
    """Only rows that match every filter are loaded."""
    runs = frames.load_frame(sample_store, frames.RUNS)
    last = runs.iloc[-1]
    picked = frames.load_frame(
        sample_store, frames.RUNS, list(runs["run_id"]), conversation=last["conversation_id"], since=last["started_at"]
    )
    assert picked["run_id"].tolist() == [last["run_id"]]
    assert len(frames.load_frame(sample_store, frames.RUNS, last["run_id"], status="failed")) == 0


def test_handles_are_accepted_as_filters(open_workbench: OpenWorkbench) -> None:
    """Runs and conversations are accepted instead of their ids, alone and in lists."""
    with open_workbench(model=ScriptedModel(["One.", "Two."])) as wb:
        first, second = wb.ask("First?").wait(), wb.ask("Second?").wait()
        assert wb.runs_df(second)["question"].tolist() == ["Second?"]
        assert wb.llm_calls_df(first.run_id)["run_id"].tolist() == [first.run_id]
        assert set(wb.events_df(run=[second])["run_id"]) == {second.run_id}
        assert len(wb.tool_calls_df(first)) == 0
        assert wb.messages_df(conversation=first)["content"].tolist() == ["First?"]
        assert wb.runs_df(conversation=wb.conversations())["question"].tolist() == ["First?", "Second?"]
        assert len(wb.approvals_df(first)) == len(wb.artifacts_df([first, second.run_id])) == 0
        assert len(wb.sources_df(since=timedelta(days=1))) == 1


@pytest.mark.parametrize(
    "same_moment",
    [
        datetime(2026, 3, 1, 12, tzinfo=UTC),
        datetime(2026, 3, 1, 12),  # noqa: DTZ001 - naive, which is UTC
        datetime(2026, 3, 1, 13, tzinfo=timezone(timedelta(hours=1))),
        "2026-03-01T12:00",
        "2026-03-01 12:00:00Z",
        "2026-03-01T13:00:00+01:00",
        pd.Timestamp("2026-03-01T12:00"),
        pd.Timestamp("2026-03-01T13:00", tz="Europe/Berlin"),
    ],
    ids=repr,
)
def test_formats_of_a_time_are_equivalent(same_moment: Any) -> None:
    """A time is an aware datetime, a naive datetime in UTC, or an ISO string."""
    assert bind_filters(frames.RUNS, {"since": same_moment}) == {"since": 1_772_366_400_000_000}


def test_timedelta_counts_back_from_now() -> None:
    """A timedelta is subtracted from the current time."""
    before = datetime.now(UTC)
    since = bind_filters(frames.RUNS, {"since": timedelta(hours=1)})["since"]
    after = datetime.now(UTC)
    assert before <= datetime.fromtimestamp(int(since) / 1e6, UTC) + timedelta(hours=1) <= after


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"run": 5}, "run is 5, which is int; pass a Run, the id of a run, or a list"),
        ({"run": [pd.NA]}, "run is <NA>, which is NAType"),
        ({"conversation": True}, "conversation is True, which is bool; pass the id of a conversation"),
        ({"status": "done"}, "status is 'done'; pass one or several of running, waiting"),
        ({"since": "yesterday"}, "since is 'yesterday', which is not a time. Pass a datetime .* or a timedelta"),
        ({"since": 1_772_366_400}, "since is 1772366400, which is not a time"),
        ({"until": pd.NaT}, "until is NaT, which is not a time"),
        ({"since": timedelta.max}, "which is not a time"),
        ({"since": "2026-03-02", "until": "2026-03-01"}, "since is '2026-03-02', later than until, '2026-03-01'"),
        (
            {"columns": "tim"},
            "runs has no column or group 'tim'. Its groups: all, summary, what, .* Its columns: question, ",
        ),
        ({"columns": ["time", 5]}, "no column or group 5"),
        ({"columns": 5}, "no column or group 5"),
    ],
)
def test_invalid_filter_value_is_an_error(sample_store: Path, filters: dict[str, Any], message: str) -> None:
    """The error has the value and the accepted values."""
    with pytest.raises(af.errors.UsageError, match=message):
        frames.load_frame(sample_store, frames.RUNS, **filters)


def test_unknown_filter_lists_known_filters(sample_store: Path) -> None:
    """The error lists the filters of the frame."""
    with pytest.raises(
        af.errors.UsageError, match="llm_calls has no filter 'status'; it has: run, conversation, since, until"
    ):
        frames.load_frame(sample_store, frames.LLM_CALLS, status="failed")


@pytest.mark.parametrize("name", ["run", "conversation"])
def test_unknown_id_is_an_error(sample_store: Path, name: str) -> None:
    """An empty frame would suggest that nothing happened."""
    with pytest.raises(af.errors.NotFound, match=f"no {name} 'nowhere' in this store"):
        frames.load_frame(sample_store, frames.LLM_CALLS, **{name: ["nowhere"]})


def test_columns_are_selected_by_group_and_name(sample_store: Path) -> None:
    """The ids are always included, in the frame's order, with the same values and types."""
    everything = frames.load_frame(sample_store, frames.LLM_CALLS)
    some = frames.load_frame(sample_store, frames.LLM_CALLS, columns=["total_tokens", "time", "run_id"])
    assert some.columns.tolist() == [
        *("llm_duration_ms", "ttft_ms", "tokens_per_s", "total_tokens", "started_at", "completed_at"),
        *("call_id", "run_id"),
    ]
    pd.testing.assert_frame_equal(some, everything[some.columns])
    assert frames.load_frame(sample_store, frames.LLM_CALLS, columns="cost").columns.tolist() == [
        "cost_usd",
        "call_id",
        "run_id",
    ]
    assert frames.load_frame(sample_store, frames.LLM_CALLS, columns=[]).columns.tolist() == ["call_id", "run_id"]


def test_runs_df_has_eight_columns_that_people_read(workbench: Any) -> None:
    """The time is in seconds; `columns="all"` has the ids and the figures, and `query` knows all columns."""
    wb = workbench(["Blue."])
    run = wb.ask("Which colour?").wait(10)
    summary = ["question", "status", "outcome", "started_at", "total_duration_s", "total_tokens", "cost_usd", "run_id"]
    assert wb.runs_df().columns.tolist() == wb.runs_df(columns="summary").columns.tolist() == summary
    everything = wb.runs_df(run, columns="all")
    assert everything.columns.tolist() == [column.name for column in frames.RUNS.columns if column.name != "answer"]
    assert everything["total_duration_s"][0] == round(everything["total_duration_ms"][0] / 1000, 3)
    assert wb.query("SELECT * FROM runs").columns.tolist() == everything.columns.tolist()
    assert wb.runs_df(columns=["summary", "time"])["active_ms"].notna().all()


def test_runs_df_has_answers_on_request(workbench: Any) -> None:
    """Answers are long, so the frame has them only with `answer=True` or if `columns` names the column."""
    wb = workbench(["Blue.", af.errors.ModelRejected("No key.")])
    for question in ("Which colour?", "Why?"):
        wb.ask(question).wait(10)
    assert "answer" not in wb.runs_df()
    with_answer = wb.runs_df(answer=True)
    assert with_answer.columns.tolist()[:3] == ["question", "answer", "status"]
    assert with_answer["answer"].isna().tolist() == [False, True]
    assert with_answer["answer"][0] == "Blue."
    assert "answer" in wb.runs_df(columns=["time"], answer=True)
    assert "answer" not in wb.runs_df(columns="what")
    assert wb.runs_df(columns=["answer"]).columns.tolist()[0] == "answer"
