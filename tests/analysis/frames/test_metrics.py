"""The frame of metrics over rows with known figures: sums, quantiles, shares, groups, filters and order."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest
from support.metric_rows import DAY, CallRow, add_run

import artifactflow_nb as af

LATENCIES = (100.0, 200.0, 300.0, 400.0, 1000.0)


def write(wb: af.Workbench, work: Callable[[sqlite3.Connection], object]) -> None:
    wb._thread.call(wb._thread.engine.database.write(work))


@pytest.fixture
def wb(tmp_path: Path) -> Iterator[af.Workbench]:
    """Two runs of two agents; the second has a subrun of another flow, a failed, a stopped and a denied call."""

    def fill(db: sqlite3.Connection) -> None:
        calls = [
            CallRow(tokens=(1000, 100), cached=n * 100, ttft=10.0 * n, latency=ms, cost=0.01)
            for n, ms in enumerate(LATENCIES, 1)
        ]
        add_run(db, 1, calls, question="First?")
        later = DAY + timedelta(days=2)
        failed = CallRow("search_agent", "small", None, latency=9000.0, error="ModelUnavailable", at=later)
        estimate = CallRow("search_agent", "small", (50, 5), 0, 5.0, 8000.0, 0.5, "RunCancelled", estimated=True)
        stopped = replace(estimate, at=later)
        tools = ("", "ToolError", "TimeoutError", "PermissionDenied", "Instructed", "RunCancelled")
        worked = CallRow("search_agent", "small", (20, 2), 5, 7.0, 70.0, 0.25, tools=tools, at=later)
        add_run(db, 2, [failed, stopped, worked], question="Second?", status="cancelled", at=later)
        free = CallRow("writer", "local", (7, 3), latency=30.0, at=later)
        computed = CallRow("writer", None, (0, 0), latency=0.1, at=later)
        add_run(db, 3, [free, computed], flow="compose", parent=2, at=later)
        add_run(db, 4, [], question="Third?", conversation="1", status="failed", at=later)

    with af.Workbench(model=af.ScriptedModel([]), data_dir=tmp_path, interactive=False) as wb:
        write(wb, fill)
        yield wb


def row(frame: pd.DataFrame, **values: object) -> dict[str, object]:
    """The one row with these values, without unknown ones."""
    for name, value in values.items():
        frame = frame[frame[name] == value]
    (found,) = frame.to_dict("records")
    return {name: value for name, value in found.items() if not pd.isna(value)}


def test_group_has_sums_quantiles_and_shares(wb: af.Workbench) -> None:
    """Quantiles are interpolated; the cached share leaves out calls whose endpoint reports no cache."""
    lead = row(wb.metrics_df(), agent_name="lead_agent")
    assert lead == {
        "agent_name": "lead_agent", "n_runs": 1, "n_llm_calls": 5, "total_tokens": 5500,
        "cached_share": pytest.approx(1500 / 5000), "ttft_p50_ms": 30.0, "ttft_p95_ms": pytest.approx(48.0),
        "latency_p50_ms": 300.0, "latency_p95_ms": pytest.approx(880.0), "cost_usd": pytest.approx(0.05),
        "n_failures": 0, "tokens_estimated": False, "n_unpriced": 0,
    }  # fmt: skip


def test_failures_and_estimates_of_stopped_calls_count(wb: af.Workbench) -> None:
    """A stopped call has estimated tokens and cost but no latency; denied, instructed and stopped calls do not fail."""
    search = row(wb.metrics_df(), agent_name="search_agent")
    assert (search["n_llm_calls"], search["n_failures"]) == (1, 3)
    assert (search["total_tokens"], search["cost_usd"], search["tokens_estimated"]) == (77, 0.75, True)
    assert (search["ttft_p50_ms"], search["latency_p95_ms"]) == (7.0, 70.0)
    assert search["cached_share"] == pytest.approx(5 / 70)


def test_unknown_values_are_missing_and_calls_without_a_price_are_counted(wb: af.Workbench) -> None:
    """A cost without a price is missing, not 0; calls without a language model have neither model nor latency."""
    writer = row(wb.metrics_df(), agent_name="writer")
    assert "cost_usd" not in writer
    assert "cached_share" not in writer
    assert "ttft_p50_ms" not in writer
    assert (writer["n_unpriced"], writer["latency_p95_ms"], writer["n_llm_calls"]) == (1, 30.0, 2)
    assert wb.metrics_df(by="model")["model"].tolist() == ["large", "small", "local"]


def test_subrun_counts_for_the_run_that_started_it(wb: af.Workbench) -> None:
    """The tokens are in the groups of the starting run and of its conversation; a run without calls has a row, too."""
    runs = wb.metrics_df(by="run")
    assert runs["question"].tolist() == ["Third?", "Second?", "First?"]
    assert "n_runs" not in runs
    assert row(runs, run_id="run-2")["total_tokens"] == 87
    assert row(runs, run_id="run-4") == {
        "question": "Third?", "status": "failed", "started_at": pd.Timestamp(DAY + timedelta(days=2)), "n_llm_calls": 0,
        "n_failures": 0, "tokens_estimated": False, "n_unpriced": 0, "run_id": "run-4", "conversation_id": "conv-1",
        "message_id": "msg-4",
    }  # fmt: skip
    conversations = wb.metrics_df(by="conversation")
    assert conversations[["title", "n_runs", "conversation_id"]].to_numpy().tolist() == [
        ["First?", 2, "conv-1"], ["Second?", 1, "conv-2"],
    ]  # fmt: skip
    flows = wb.metrics_df(by="flow")
    assert dict(zip(flows["flow"], flows["total_tokens"], strict=True)) == {"research": 5577, "compose": 10}


def test_days_are_those_of_this_computer(wb: af.Workbench) -> None:
    """The newest day is first, whatever its usage."""
    days = [f"{time.astimezone():%Y-%m-%d}" for time in (DAY + timedelta(days=2), DAY)]
    frame = wb.metrics_df(by="day")
    assert frame["day"].tolist() == days
    assert frame["total_tokens"].tolist() == [87, 5500]


def test_filters_limit_the_calls(wb: af.Workbench) -> None:
    """Filters by run, conversation, agent, model, flow and time work alone and together."""
    assert wb.metrics_df("run-1")["agent_name"].tolist() == ["lead_agent"]
    assert wb.metrics_df(["run-1", "run-2"], by="run")["run_id"].tolist() == ["run-2", "run-1"]
    assert wb.metrics_df(conversation="conv-2")["agent_name"].tolist() == ["search_agent", "writer"]
    assert wb.metrics_df(by="run", agent="writer")["run_id"].tolist() == ["run-2"]
    assert wb.metrics_df(by="agent", model=["large", "local"])["agent_name"].tolist() == ["lead_agent", "writer"]
    assert wb.metrics_df(flow="compose")["total_tokens"].tolist() == [10]
    since = DAY + timedelta(days=1)
    assert wb.metrics_df(since=since)["agent_name"].tolist() == ["search_agent", "writer"]
    assert wb.metrics_df(until=since)["agent_name"].tolist() == ["lead_agent"]


def test_search_finds_the_names_that_readers_see(wb: af.Workbench) -> None:
    """Every word must occur in the name in code or the name for readers."""
    assert wb.metrics_df(search="Search Agent")["agent_name"].tolist() == ["search_agent"]
    assert wb.metrics_df(search="lead_agent")["agent_name"].tolist() == ["lead_agent"]
    assert wb.metrics_df(by="run", search="sec")["question"].tolist() == ["Second?"]
    assert wb.metrics_df(search="nobody").empty


def test_order_has_unknown_values_at_the_end(wb: af.Workbench) -> None:
    """Unknown values come last in both directions."""
    assert wb.metrics_df(sort="cost_usd")["agent_name"].tolist() == ["search_agent", "lead_agent", "writer"]
    rising = wb.metrics_df(sort="cost_usd", ascending=True)
    assert rising["agent_name"].tolist() == ["lead_agent", "search_agent", "writer"]
    assert wb.metrics_df(sort="agent_name", ascending=True)["agent_name"].is_monotonic_increasing


def test_invalid_arguments_say_what_is_valid(wb: af.Workbench) -> None:
    """The message names the value and the choices."""
    with pytest.raises(af.errors.UsageError, match="by is 'agents'; it must be one of agent, model, flow"):
        wb.metrics_df(by="agents")
    with pytest.raises(af.errors.UsageError, match="sort is 'cost'. Did you mean cost_usd?"):
        wb.metrics_df(sort="cost")
    with pytest.raises(af.errors.UsageError, match="search is 1; it must be text."):
        wb.metrics_df(search=1)  # type: ignore[arg-type]
    with pytest.raises(af.errors.NotFound, match="There is no run 'run-9'"):
        wb.metrics_df("run-9")


def test_empty_store_has_the_same_columns(wb: af.Workbench, tmp_path: Path) -> None:
    """The columns have the same types, so that code for frames with rows also works for empty frames."""
    with af.Workbench(model=af.ScriptedModel([]), data_dir=tmp_path / "empty", interactive=False) as empty:
        for by in ("agent", "model", "flow", "conversation", "day", "run"):
            frame, full = empty.metrics_df(by=by), wb.metrics_df(by=by)
            assert frame.empty
            assert list(frame.columns) == list(full.columns)
            assert {k: v.name for k, v in frame.dtypes.items()} == {k: v.name for k, v in full.dtypes.items()}


def test_runs_of_real_models_agree_with_their_own_frame(tmp_path: Path) -> None:
    """The sums per run are those of `runs_df`."""
    with af.Workbench(data_dir=tmp_path, interactive=False) as wb:
        run = wb.ask("What does del do to a name?").wait()
        own = wb.runs_df(run, columns="all").iloc[0]
        found = wb.metrics_df(by="run").iloc[0]
    for name in ("n_llm_calls", "total_tokens", "cost_usd", "tokens_estimated", "started_at"):
        assert found[name] == own[name]
    assert datetime.now(UTC) > found["started_at"]
