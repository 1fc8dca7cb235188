"""The plots of frames: what they show, the frames that they accept, and how they fit into the figures of others."""

import io
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from support.charts import HOSTILE, START, drawn_texts, llm_frame, run_parallel_jobs, seconds, tool_frame

import artifactflow_nb as af
from artifactflow_nb.analysis.plots import canvas
from artifactflow_nb.plugins.projects.evaluation_plot import plot_evaluations

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLOTS: dict[str, Callable[..., "Axes"]] = {
    "timeline": lambda n=None, **more: af.plots.timeline(llm_frame()[:n], tool_frame()[:n], **more),
    "tokens": lambda n=None, **more: af.plots.tokens(llm_frame()[:n], **more),
    "latency": lambda n=None, **more: af.plots.latency(llm_frame()[:n], tool_frame()[:n], **more),
    "cost": lambda n=None, **more: af.plots.cost(llm_frame()[:n], **more),
    "evaluations": lambda n=None, **more: plot_evaluations(grades(("A", "clarity", 3))[:n], **more),
}

pytestmark = pytest.mark.usefixtures("figures")


def grades(*scores: tuple[str, str, int], **columns: Any) -> pd.DataFrame:
    """A frame of grades, an hour apart, from block, dimension and score."""
    rows = [
        {
            "conversation_id": "conv-1",
            "block_id": block.lower(),
            "block": block,
            "dimension": dimension,
            "persona": None,
            "score": score,
            "evidence_json": f'["passage {n}"]',
            "created_at": START + pd.Timedelta(hours=n),
        }
        for n, (block, dimension, score) in enumerate(scores)
    ]
    return pd.DataFrame(rows).assign(**columns)


@pytest.mark.parametrize("name", PLOTS)
def test_plot_draws_on_given_axes_or_on_a_new_figure(name: str) -> None:
    """As in pandas, the Axes of `ax=` are returned; their figure gets no other Axes."""
    figure, (left, _right) = plt.subplots(1, 2)
    assert PLOTS[name](ax=left) is left
    assert len(figure.axes) == 2
    assert PLOTS[name]().figure is not figure


@pytest.mark.parametrize("name", PLOTS)
def test_plot_has_a_text_alternative_with_its_title(name: str) -> None:
    """The text alternative of a plot without rows is the message that the drawing shows."""
    axes = PLOTS[name]()
    title = axes.get_title(loc="left")
    assert af.plots.alt_text(axes).startswith(f"{title}. ")
    empty = PLOTS[name](n=0)
    message = af.plots.alt_text(empty).removeprefix(f"{title}. ")
    assert message in drawn_texts(empty)


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", [canvas.BLUE, canvas.VERMILLION, canvas.GREEN, canvas.PURPLE])
def test_colours_of_data_are_visible_on_white_and_on_black(colour: str) -> None:
    """The contrast is 3:1 at least, as WCAG asks for parts of drawings."""
    assert 1.05 / (luminance(colour) + 0.05) >= 3
    assert (luminance(colour) + 0.05) / 0.05 >= 3


@pytest.mark.parametrize("name", PLOTS)
def test_ink_is_that_of_the_style(name: str) -> None:
    """In a dark style each text outside of coloured cells is light."""
    with plt.style.context("dark_background"):
        axes = PLOTS[name]()
        right_texts = [text for text in axes.texts if text.get_transform() != axes.transData]
        texts = [axes.title, *axes.get_yticklabels(), *axes.get_xticklabels(), *right_texts]
        assert {text.get_color() for text in texts} == {"white"}


def test_tokens_are_summed_by_agent() -> None:
    """Each agent has input with its cached part and output with its reasoning part; unknown values are counted."""
    axes = af.plots.tokens(llm_frame())
    labels = drawn_texts(axes)
    assert {"1,000 in, 400 cached", "200 out, 80 reasoning", "≈ 300 in", "≈ 50 out"} <= {*labels}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Lead agent", "Search agent"]
    assert [bar.get_width() for bar in axes.patches][:4] == [400, 600, 80, 120]
    assert af.plots.alt_text(axes) == "Tokens by agent. 1,550 tokens of 2 agents in 3 model calls."
    assert len(axes.get_xlabel().splitlines()) == 2
    assert {"unknown in", "unknown out"} <= {*drawn_texts(af.plots.tokens(llm_frame()[2:]))}


def test_parts_of_a_bar_differ_without_colour() -> None:
    """A cached or reasoning part is hatched, and named in the legend."""
    axes = af.plots.tokens(llm_frame())
    assert [bool(bar.get_hatch()) for bar in axes.patches][:4] == [True, False, True, False]
    legend = axes.get_legend()
    assert legend is not None
    names = ["input from a cache", "input", "output, reasoning", "output"]
    assert [text.get_text() for text in legend.get_texts()] == names
    plain = af.plots.tokens(llm_frame(cache_read_tokens=None, reasoning_tokens=None)).get_legend()
    assert plain is not None
    assert [text.get_text() for text in plain.get_texts()] == ["input", "output"]


def test_latency_has_median_and_95th_percentile() -> None:
    """Failed calls are only counted; the quantiles are those of pandas."""
    durations = [float(ms) for ms in range(1, 102)]
    frame = pd.concat([tool_frame()[:1]] * 101).assign(duration_ms=durations)
    axes = af.plots.latency(None, frame)
    assert "p50 51 ms, p95 96 ms, n 101" in drawn_texts(axes)
    assert [line.get_xdata()[0] for line in axes.lines] == [51, 96]  # type: ignore[index]
    both = af.plots.latency(llm_frame(), tool_frame())
    assert [label.get_text() for label in both.get_yticklabels()][:2] == ["large", "small"]
    assert "failed" in "".join(drawn_texts(both))
    assert both.get_xscale() == "linear"
    assert axes.get_xscale() == "log"


def test_many_calls_are_drawn_as_a_sample() -> None:
    """Of 5,000 calls 300 are drawn, the shortest and the longest among them."""
    frame = pd.concat([tool_frame()[:1]] * 5000).assign(duration_ms=[100.0 + i for i in range(5000)])
    axes = af.plots.latency(None, frame)
    (dots,) = axes.collections
    xs = dots.get_offsets()[:, 0].tolist()  # type: ignore[call-overload, index]
    assert (len(xs), xs[0], xs[-1]) == (300, 100, 5099)


def test_unknown_cost_is_not_zero() -> None:
    """A model without a known cost has the label unknown."""
    axes = af.plots.cost(llm_frame())
    assert "unknown, 1 call" in drawn_texts(axes)
    assert "0.75 USD for 3 calls of 2 models" in af.plots.alt_text(axes)
    assert "Unknown for 3 calls of 2 models." in af.plots.alt_text(af.plots.cost(llm_frame(cost_usd=[None] * 3)))


def test_evaluations_show_scores_over_time_lowest_mean_first() -> None:
    """A cell has the scores in order; the text alternative has the evidence of the lowest score."""
    axes = plot_evaluations(grades(("A", "clarity", 7), ("B", "clarity", 3), ("B", "evidence", 6), ("B", "clarity", 5)))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["B", "A"]
    assert {"3 → 5", "7", "–", "5.5"} <= {*drawn_texts(axes)}
    assert "B by clarity, 5: “passage 3”" in af.plots.alt_text(axes)
    readers = grades(("Old", "clarity", 3), ("Old", "clarity", 7), persona=[None, "Builders"])
    names = [label.get_text() for label in plot_evaluations(readers).get_yticklabels()]
    assert names == ["Old", "Old for Builders"]


def test_timeline_has_a_lane_per_agent_and_the_waits() -> None:
    """Bars are in seconds since the start; several runs are drawn one below the other; a long wait is shortened."""
    axes = af.plots.timeline(llm_frame(), tool_frame())
    assert [label.get_text() for label in axes.get_yticklabels() if label.get_text()] == ["Lead agent", "Search agent"]
    assert {"model", "tool", "delegated", "waiting for a person", "failed, denied"} <= {*drawn_texts(axes)}
    assert min(bar.get_x() for bar in axes.patches) == 0
    later = llm_frame(run_id=["run-2"] * 3, started_at=seconds(86_400, 86_402, 86_405))
    both = af.plots.timeline(pd.concat([later, llm_frame()]))
    names = [label.get_text() for label in both.get_yticklabels() if label.get_text()]
    assert names == ["run-1 · Lead agent", "run-1 · Search agent", "run-2 · Lead agent", "run-2 · Search agent"]
    waited = tool_frame(called_at=seconds(1.5, 3, 900), approval_wait_ms=[None, None, 800_000.0])
    assert [text for text in drawn_texts(af.plots.timeline(llm_frame(), waited)) if text.startswith("⋯")]


def test_frames_of_a_workbench_are_drawn(tmp_path: Path) -> None:
    """Each plot draws the frames of a real run with parallel jobs, a failing tool and two decisions."""
    run = run_parallel_jobs(tmp_path)
    timeline = af.plots.timeline(run.llm_calls, run.tool_calls, run.approvals)
    assert "8 model calls" in af.plots.alt_text(timeline)
    assert "in 8 model calls" in af.plots.alt_text(af.plots.tokens(run.llm_calls))
    assert "2 failed" in "".join(drawn_texts(af.plots.latency(run.llm_calls, run.tool_calls))).replace(
        "2 calls", "2 failed"
    )
    assert "8 calls" in af.plots.alt_text(af.plots.cost(run.llm_calls))


@pytest.mark.parametrize(
    ("draw", "lacks"),
    [
        (lambda: af.plots.timeline(llm_frame().drop(columns="run_id")), "this frame lacks run_id"),
        (lambda: af.plots.timeline(None, None, llm_frame()), "of approvals; this frame lacks tool_name, asked_a"),
        (lambda: af.plots.tokens(tool_frame()), "this frame lacks input_tokens, output_tokens"),
        (lambda: af.plots.latency(llm_frame(), llm_frame()), r"wb.tool_calls_df\(\) loads all of them"),
        (lambda: af.plots.cost(pd.DataFrame()), r"lacks request_model, cost_usd \(it has: none\)"),
        (lambda: af.plots.cost([1, 2]), r"a DataFrame of llm_calls, not list. Pass wb.llm_calls_df\(\)"),
        (lambda: plot_evaluations(grades(("A", "b", 1)).drop(columns="score")), "this frame lacks score"),
    ],
)
def test_frame_without_required_columns_is_an_error(draw: Callable[[], "Axes"], lacks: str) -> None:
    """The error names the plot, the missing columns and the method that loads them."""
    with pytest.raises(af.errors.UsageError, match=lacks):
        draw()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_drawn_as_text(name: str) -> None:
    """No name is a formula, breaks a line or stops the drawing."""
    llm = llm_frame(agent_name=[name] * 3, request_model=[name] * 3, response_model=[name] * 3)
    tools = tool_frame(agent_name=[name] * 3, tool_name=[name] * 3)
    plots = [af.plots.timeline(llm, tools), af.plots.tokens(llm), af.plots.latency(llm, tools), af.plots.cost(llm)]
    plots.append(plot_evaluations(grades((name, name, 3))))
    for axes in plots:
        assert all("\n" not in label.get_text() for label in axes.get_yticklabels())
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # emoji have none in the fonts of a server
            axes.figure.savefig(io.BytesIO())


def test_without_matplotlib_one_line_has_the_command() -> None:
    """Importing the package and its plots imports no matplotlib; drawing says how to install it."""
    code = """
import sys
sys.modules["matplotlib"] = None
import pandas as pd
import artifactflow_nb as af
assert af.plots.cost
try:
    af.plots.cost(pd.DataFrame({"request_model": ["m"], "cost_usd": [1.0]}))
except af.errors.UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Plots need matplotlib, which is not installed: pip install 'artifactflow-nb[plots]'\n"
