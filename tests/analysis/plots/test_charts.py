"""The figures of the charts for small frames, and the frames that charts accept."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from support.charts import HOSTILE, known, llm_frame, run_parallel_jobs, seconds, texts, tips, tool_frame, xml

import artifactflow_nb as af
from artifactflow_nb.analysis.plots.chart import Chart
from artifactflow_nb.errors import UsageError

CHARTS: dict[str, Callable[[], Chart]] = {
    "timeline": lambda: af.plot_timeline(llm_frame(), tool_frame()),
    "tokens": lambda: af.plot_tokens(llm_frame()),
    "latency": lambda: af.plot_latency(llm_frame(), tool_frame()),
    "cost": lambda: af.plot_cost(llm_frame()),
    "tokens over time": lambda: af.plot_tokens_over_time(llm_frame()),
}
EMPTY: dict[str, Callable[[], Chart]] = {
    "timeline": lambda: af.plot_timeline(llm_frame()[:0], tool_frame()[:0], None),
    "tokens": lambda: af.plot_tokens(llm_frame()[:0]),
    "latency": lambda: af.plot_latency(llm_frame()[:0], tool_frame()[:0]),
    "cost": lambda: af.plot_cost(llm_frame()[:0]),
    "tokens over time": lambda: af.plot_tokens_over_time(llm_frame()[:0]),
}


def test_timeline_lists_every_call() -> None:
    """Model calls, tool calls and the wait are in milliseconds since the first call, sorted by start."""
    chart = af.plot_timeline(llm_frame(), tool_frame())
    rows = known(chart.table[["kind", "name", "start_ms", "duration_ms", "status"]])
    assert rows == [
        ["model", "large-2026", 0.0, 1500.0, "ok"],
        ["tool", "call_subagent", 1500.0, 3500.0, "ok"],
        ["model", "small", 2000.0, 1000.0, "ok"],
        ["tool", "web_search", 3000.0, 800.0, "failed"],
        ["model", "large-2026", 5000.0, 2500.0, "failed"],
        ["wait", "create_artifact", 8000.0, 1000.0, "denied"],
        ["tool", "create_artifact", 9000.0, 0.0, "denied"],
    ]
    assert chart.table["ttft_ms"].tolist()[:3] == [500.0, pd.NA, 250.0]
    assert len(tips(chart.svg)) == 7


def test_timeline_draws_each_run_from_its_start() -> None:
    """Two runs a day apart both start at zero; only the first twelve runs are drawn."""
    later = llm_frame(run_id=["run-2"] * 3, started_at=seconds(86_400, 86_402, 86_405))
    chart = af.plot_timeline(pd.concat([later, llm_frame()]))
    assert chart.table["run_id"].tolist() == ["run-1"] * 3 + ["run-2"] * 3
    assert chart.table["start_ms"].tolist() == [0.0, 2000.0, 5000.0] * 2
    many = af.plot_timeline(pd.concat([llm_frame(run_id=[f"run-{i}"] * 3) for i in range(15)]))
    assert many.notes == ("Not drawn: 3 more runs. Pick some with a filter on run_id.",)
    assert "Not drawn: 3 more runs. Pick some with a filter on run_id." in texts(many.svg)
    assert len(many.table) == 45


def test_open_wait_at_the_end_is_visible() -> None:
    """An open wait has a visible bar and no duration."""
    requests = {"run_id": ["run-1"], "agent_name": ["lead_agent"], "tool_name": ["write"], "asked_at": seconds(10)}
    approvals = pd.DataFrame({**requests, "decided_at": seconds(None)})
    chart = af.plot_timeline(llm_frame(), None, approvals)
    (wait,) = [tip for tip in tips(chart.svg) if tip.startswith("wait")]
    assert wait == "wait Write, waiting for you: 10.0 s + 500 ms"
    assert chart.table["duration_ms"].isna().tolist() == [False] * 3 + [True]


def test_tokens_are_summed_by_agent() -> None:
    """Each agent has input with its cached part and output with its reasoning part; unknown values are counted."""
    chart = af.plot_tokens(llm_frame())
    assert known(chart.table) == [
        ["lead_agent", 2, 1000, 400, 200, 80, 1],
        ["search_agent", 1, 300, None, 50, None, 0],
    ]
    labels = texts(chart.svg)
    assert {"1,000 in, 400 cached", "200 out, 80 reasoning", "≈ 300 in", "≈ 50 out"} <= {*labels}
    assert {"Lead agent input: 600", "Lead agent input from a cache: 400"} <= {*tips(chart.svg)}
    assert chart.description == "1,550 tokens of 2 agents in 3 model calls."
    assert len(chart.notes) == 2
    assert all(note in labels for note in chart.notes)
    assert "output, reasoning: 80" in tips(chart.svg)


def test_unknown_tokens_of_an_agent_are_labelled() -> None:
    """An agent without known tokens has the label unknown, and NA in the table."""
    chart = af.plot_tokens(llm_frame()[2:])
    assert {"unknown in", "unknown out"} <= {*texts(chart.svg)}
    assert chart.table["input_tokens"].isna().all()


def test_tokens_over_time_grow_with_each_call() -> None:
    """Each call with known tokens adds a step at its end; each run starts at zero."""
    chart = af.plot_tokens_over_time(llm_frame())
    assert known(chart.table) == [
        ["run-1", "lead_agent", 1500.0, 1000, 200, 1000, 200],
        ["run-1", "search_agent", 3000.0, 300, 50, 1300, 250],
    ]
    assert chart.description == "1,550 tokens of 1 run in 3.0 s."
    assert "Search agent after 3.0 s: 300 in, 50 out; so far 1,300 in, 250 out" in tips(chart.svg)
    assert chart.notes == ("1 model call without known tokens (failed or cancelled).",)
    later = llm_frame(run_id=["run-2"] * 3, started_at=seconds(86_400, 86_402, 86_405))
    both = af.plot_tokens_over_time(pd.concat([later, llm_frame()]))
    assert sorted(both.table["end_ms"].tolist()) == [1500.0, 1500.0, 3000.0, 3000.0]


def test_legends_have_only_categories_that_occur() -> None:
    """Without cached input, reasoning, tools, waits or failures the legends do not name them."""
    plain = llm_frame(cache_read_tokens=[None] * 3, reasoning_tokens=[None] * 3)[:2]
    labels = texts(af.plot_tokens(plain).svg)
    assert {"input", "output"} <= {*labels}
    assert not {"input from a cache", "output, reasoning"} & {*labels}
    labels = texts(af.plot_timeline(plain).svg)
    assert {"model", "first token"} <= {*labels}
    assert not {"tool", "waiting for a person", "failed, denied", "delegated"} & {*labels}
    assert "tool call" not in texts(af.plot_latency(plain).svg)


@pytest.mark.parametrize("name", [*CHARTS, "empty"])
def test_charts_have_one_width(name: str) -> None:
    """All charts are equally wide, also those without data."""
    chart = EMPTY["cost"]() if name == "empty" else CHARTS[name]()
    assert xml(chart.svg).get("viewBox", "").split()[2] == "860"


def test_latency_has_median_and_95th_percentile() -> None:
    """p50 and p95 are those of the successful calls; the failed ones are counted."""
    frame = pd.DataFrame({"request_model": ["m"] * 101, "llm_duration_ms": [float(i * 10) for i in range(101)]})
    (row,) = af.plot_latency(frame).table.to_dict("records")
    assert row == {
        "kind": "model", "name": "m", "n_calls": 101, "n_failed": 0, "p50_ms": 500.0, "p95_ms": 950.0, "max_ms": 1000.0
    }  # fmt: skip
    chart = af.plot_latency(llm_frame(), tool_frame())
    rows = known(chart.table[["name", "n_calls", "n_failed", "p50_ms"]])
    assert rows == [
        ["large-2026", 1, 1, 1500.0],
        ["small", 1, 0, 1000.0],
        ["call_subagent", 1, 0, 3500.0],
        ["web_search", 0, 1, None],
        ["create_artifact", 0, 1, None],
    ]
    assert "p50 1.5 s, p95 1.5 s, n 1, 1 failed" in texts(chart.svg)
    assert "none succeeded, 1 failed" in texts(chart.svg)


def test_latency_quantiles_equal_those_of_pandas() -> None:
    """The quantiles are those of `Series.quantile`."""
    values = pd.Series([3.0, 1.0, 4.0, 1.5, 9.0, 2.6, 5.3])
    frame = pd.DataFrame({"tool_name": ["t"] * 7, "duration_ms": values})
    (row,) = af.plot_latency(None, frame).table.to_dict("records")
    assert (row["p50_ms"], row["p95_ms"]) == pytest.approx((values.quantile(0.5), values.quantile(0.95)))


def test_many_calls_are_drawn_as_a_sample() -> None:
    """300 of ten thousand calls are drawn as dots, and a note has that number."""
    frame = pd.DataFrame({"tool_name": "t", "duration_ms": [float(i) for i in range(10_000)]})
    chart = af.plot_latency(None, frame)
    assert chart.svg.count('r="2.6"') == 300
    assert chart.table["n_calls"].tolist() == [10_000]
    assert "Of more than 300 calls, 300 are drawn" in chart.notes[0]


def test_unknown_cost_is_not_zero() -> None:
    """Known costs are summed by model; a model without a price is labelled unknown."""
    chart = af.plot_cost(llm_frame())
    assert known(chart.table) == [["large-2026", 2, 0, 0.75], ["small", 1, 1, None]]
    assert {"0.75 USD, 2 calls", "unknown, 1 call"} <= {*texts(chart.svg)}
    assert chart.notes[0].startswith("The cost of 1 call is unknown")
    assert "small" in chart.notes[0]
    assert set(chart.notes) <= {*texts(chart.svg)}
    assert af.plot_cost(llm_frame(cost_usd=[None] * 3)).description == "Unknown for 3 calls of 2 models."


@pytest.mark.parametrize("name", EMPTY)
def test_empty_frame_gives_a_chart_with_a_message(name: str) -> None:
    """The chart of an empty frame has a message, and a table with the same columns and types."""
    empty, full = EMPTY[name](), CHARTS[name]()
    assert len(texts(empty.svg)) == 2
    assert texts(empty.svg)[0] == empty.title == full.title
    assert empty.table.dtypes.equals(full.table.dtypes)
    assert len(empty.table) == 0
    assert "(no rows)" in repr(empty)
    assert empty.description in repr(empty)


def test_each_frame_is_optional() -> None:
    """Charts of two frames accept one of them."""
    assert af.plot_timeline(None, tool_frame()).table["kind"].tolist() == ["tool", "tool", "wait", "tool"]
    assert af.plot_timeline(llm_frame()[:1]).table["kind"].tolist() == ["model"]
    assert af.plot_latency(None, tool_frame()).table["kind"].unique().tolist() == ["tool"]
    assert len(af.plot_latency(None).table) == 0


def test_filtered_and_reordered_frames_work() -> None:
    """A subset of rows and columns in any order is drawn."""
    some = llm_frame().iloc[[2, 0]][["output_tokens", "agent_name", "input_tokens"]]
    assert af.plot_tokens(some).table["n_llm_calls"].tolist() == [2]
    naive = llm_frame(started_at=pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"]))
    assert af.plot_timeline(naive).table["start_ms"].tolist() == [0.0, 86_400_000.0, 172_800_000.0]


@pytest.mark.parametrize(
    ("draw", "lacks"),
    [
        (lambda: af.plot_timeline(llm_frame().drop(columns="run_id")), "this frame lacks run_id"),
        (lambda: af.plot_timeline(None, tool_frame()[["run_id", "tool_name"]]), "lacks agent_name, called_at"),
        (lambda: af.plot_timeline(None, None, llm_frame()), "of approvals; this frame lacks tool_name, asked_at"),
        (lambda: af.plot_tokens(tool_frame()), "this frame lacks input_tokens, output_tokens"),
        (lambda: af.plot_latency(tool_frame()), "this frame lacks request_model, llm_duration_ms"),
        (lambda: af.plot_latency(llm_frame(), llm_frame()), r"wb.tool_calls_df\(\) loads all of them"),
        (lambda: af.plot_cost(pd.DataFrame()), r"lacks request_model, cost_usd \(it has: none\)"),
        (lambda: af.plot_cost([1, 2]), r"a DataFrame of llm_calls, not list. Pass wb.llm_calls_df\(\)"),
    ],
)
def test_frame_without_required_columns_is_an_error(draw: Callable[[], Chart], lacks: str) -> None:
    """The error names the missing columns and the method that loads them."""
    with pytest.raises(UsageError, match=lacks):
        draw()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name: str) -> None:
    """Names of agents, models and tools cannot add elements or handlers to a chart."""
    llm = llm_frame(
        agent_name=[name] * 3, request_model=[name] * 3, response_model=[name] * 3, error_message=[name] * 3
    )
    tools = tool_frame(agent_name=[name] * 3, tool_name=[name] * 3, error_message=[name] * 3)
    charts = [af.plot_timeline(llm, tools), af.plot_tokens(llm), af.plot_latency(llm, tools), af.plot_cost(llm)]
    for chart in charts:
        assert all(not key.startswith("on") for node in xml(chart.svg).iter() for key in node.attrib)
        assert {node.tag.rpartition("}")[2] for node in xml(chart.svg).iter()}.isdisjoint({"script", "a", "image"})
        assert "<script" not in chart.to_html()
        assert all(len(line) < 400 for line in repr(chart).splitlines())


def test_frames_of_a_workbench_are_drawn(tmp_path: Path) -> None:
    """All four charts accept the frames of a workbench."""
    run = run_parallel_jobs(tmp_path)
    timeline = af.plot_timeline(run.llm_calls, run.tool_calls, run.approvals)
    assert timeline.table["kind"].value_counts().to_dict() == {"model": 8, "tool": 7, "wait": 2}
    assert af.plot_tokens(run.llm_calls).table["n_llm_calls"].sum() == 8
    assert af.plot_latency(run.llm_calls, run.tool_calls).table["n_failed"].sum() == 2
    assert af.plot_cost(run.llm_calls).table["n_unknown"].sum() == 8
