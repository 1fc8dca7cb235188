"""The waterfall: positions, labels and the cost of drawing."""

import random
import re
from itertools import pairwise

import pytest
from support.charts import HOSTILE, SVG, texts, tips, xml
from support.cpu_time import within

from artifactflow_nb.analysis.plots.spans import MAX_LANES, MAX_ROWS, TimelineSpan, build_lanes, time_scale
from artifactflow_nb.analysis.plots.svg import text_px
from artifactflow_nb.analysis.plots.waterfall import waterfall_svg

RUN = (
    TimelineSpan("lead_agent", "model", "large", 0, 2000, 500, "ok", "1,000 tokens in, 200 out"),
    TimelineSpan("lead_agent", "tool", "call_subagent", 2000, 6000, None, "ok", "search_agent"),
    TimelineSpan("search_agent", "model", "small", 2100, 4000, None, "ok"),
    TimelineSpan("search_agent", "tool", "web_search", 4000, 6000, None, "failed", "No network."),
    TimelineSpan("lead_agent", "wait", "create_artifact", 6000, 9000, None, "approved"),
    TimelineSpan("lead_agent", "tool", "create_artifact", 9000, 10_000, None, "ok"),
)


def bars(svg: str) -> dict[str, tuple[float, float]]:
    """The tooltip of each bar, with its left edge and its width."""
    return {
        node.findtext(f"{SVG}title") or "": (float(node.attrib["x"]), float(node.attrib["width"]))
        for node in xml(svg).iter(f"{SVG}rect")
        if len(node)
    }


def test_bars_are_proportional_to_time() -> None:
    """Left edges and widths of bars are in proportion to the times of their spans."""
    drawn = bars(waterfall_svg(RUN))
    places = {tip.split(",")[0].split(":")[0]: place for tip, place in drawn.items()}
    x0, model = places["model large"]
    wait_x, wait = places["wait Write artifact"]
    assert wait == pytest.approx(model * 1.5, abs=0.2)
    assert wait_x - x0 == pytest.approx(model * 3, abs=0.2)
    assert len(drawn) == len(RUN)


def test_bars_have_labels_and_tooltips() -> None:
    """Each bar has kind, name, status, times and detail; labels name lanes, calls and the axis in seconds."""
    svg = waterfall_svg(RUN)
    assert "model large, done: 0 ms + 2.0 s; first token after 500 ms; 1,000 tokens in, 200 out" in tips(svg)
    assert "tool Search, failed: 4.0 s + 2.0 s; No network." in tips(svg)
    labels = texts(svg)
    assert {"Lead agent", "Search agent", "large", "small", "Search", "Write artifact", "0 s", "10 s"} <= {*labels}
    assert {"model", "tool", "waiting for a person", "first token", "failed, denied", "delegated"} <= {*labels}


def test_drawing_has_a_title_and_a_description() -> None:
    """A screen reader finds an image with a title and a sentence that describes it."""
    root = xml(waterfall_svg(RUN))
    assert root.attrib["role"] == "img"
    named = {node.attrib["id"]: node.text for node in root if node.tag in {f"{SVG}title", f"{SVG}desc"}}
    assert list(named) == root.attrib["aria-labelledby"].split()
    title, description = named.values()
    assert title == "Timeline"
    assert description == "10.0 s; 2 lanes: 2 model calls (3.9 s), 3 tool calls (3.0 s), 1 wait (3.0 s); 1 failed."


def test_colours_follow_the_page() -> None:
    """Ink and paper are those of the theme, with black on white as fallback; a narrow container scales the drawing."""
    svg = waterfall_svg(RUN)
    root = xml(svg)
    assert "color:var(--jp-content-font-color1,#1f2328)" in root.attrib["style"]
    assert "max-width:100%" in root.attrib["style"]
    assert root.attrib["viewBox"].startswith("0 0 860 ")
    paper = next(root.iter(f"{SVG}rect"))
    assert (paper.attrib["fill"], paper.attrib["style"]) == ("#ffffff", "fill:var(--jp-layout-color0,#ffffff)")
    named = set(re.findall(r'id="([^"]+)"', svg))
    assert set(re.findall(r"url\(#([^)]+)\)", svg)) <= named


def test_different_drawings_share_no_ids() -> None:
    """Different drawings have different ids, since ids are global in a page; equal drawings have equal ids."""
    whole, part = waterfall_svg(RUN), waterfall_svg(RUN[:5])
    ids = [set(re.findall(r'id="([^"]+)"', svg)) for svg in (whole, part)]
    assert not ids[0] & ids[1]
    assert waterfall_svg(RUN) == whole


def test_parallel_spans_have_rows_of_their_own() -> None:
    """Overlapping spans of an agent get a row each; a span that starts at the end of another shares its row."""
    spans = [
        TimelineSpan("a", "tool", name, start, end) for name, start, end in (("p", 0, 10), ("q", 5, 20), ("r", 10, 30))
    ]
    (lane,) = build_lanes(spans, 30)
    assert [[span.name for span in row] for row in lane.rows] == [["p", "r"], ["q"]]


def test_running_span_extends_to_now() -> None:
    """A running span is drawn up to the current time."""
    spans = [TimelineSpan("a", "model", "m", 0, 1000), TimelineSpan("a", "tool", "slow", 1000)]
    (*_, soon), (*_, later) = (list(bars(waterfall_svg(spans, now)).items()) for now in (1500, 4000))
    assert "running: 1.0 s + 500 ms" in soon[0]
    assert "running: 1.0 s + 3.0 s" in later[0]
    assert later[1][1] > soon[1][1]


def test_long_wait_is_folded() -> None:
    """A wait of three hours is drawn as a narrow band with its duration; the other bars stay readable."""
    slow = (
        TimelineSpan("a", "model", "m", 0, 4000),
        TimelineSpan("a", "wait", "t", 4000, 10_804_000),
        TimelineSpan("a", "tool", "t", 10_804_000, 10_806_000),
    )
    scale = time_scale(slow, 0)
    (fold,) = scale.folds
    assert (fold.start_ms, fold.end_ms) == (4000, 10_804_000)
    assert scale.position(4000) == 4000
    assert scale.drawn_ms == pytest.approx(6000 + fold.drawn_ms)
    assert fold.drawn_ms < 1000
    assert scale.position(7_404_000) == pytest.approx(4000 + fold.drawn_ms * 7_400_000 / 10_800_000)
    assert "⋯ 3 h 00 min ⋯" in texts(waterfall_svg(slow))
    assert all(not 4000 < tick < 10_804_000 for tick in scale.ticks(8))


@pytest.mark.parametrize("wait_s", [5, 43, 10_800])
def test_labels_of_the_axis_do_not_overlap(wait_s: int) -> None:
    """A tick is left out if its label would overlap the label of a pause."""
    spans = (
        TimelineSpan("a", "model", "m", 0, 4000, None, "ok"),
        TimelineSpan("a", "wait", "t", 4000, 4000 + wait_s * 1000, None, "ok"),
        TimelineSpan("a", "model", "m", 4000 + wait_s * 1000, 6000 + wait_s * 1000, None, "ok"),
    )
    nodes = [node for node in xml(waterfall_svg(spans)).iter(f"{SVG}text") if node.get("text-anchor") == "middle"]
    extents = sorted(
        (float(node.attrib["x"]) - half, float(node.attrib["x"]) + half)
        for node in nodes
        for half in [text_px(node.text or "") / 2]
    )
    assert len(extents) > 2
    assert all(right < left for (_, right), (left, _) in pairwise(extents))


def test_time_scale_folds_no_work() -> None:
    """A scale has no folds if there are no gaps, or if the only span is a wait."""
    assert time_scale(RUN[:4], 0).folds == ()
    assert time_scale([TimelineSpan("a", "wait", "t", 0, 1e7)], 0).folds == ()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name: str) -> None:
    """Names of agents, tools, details and runs cannot add elements or handlers to the drawing."""
    spans = [
        TimelineSpan(name, kind, name, i * 1000, i * 1000 + 900, None, "ok", name, name)
        for i, kind in enumerate(("model", "tool"))
    ]
    svg = waterfall_svg([*spans, TimelineSpan(name, "tool", "call_subagent", 0, 9, detail=name)])
    tags = {node.tag.removeprefix(SVG) for node in xml(svg).iter()}
    assert tags <= {"svg", "title", "desc", "rect", "g", "text", "path", "defs", "pattern"}
    assert all(not key.startswith("on") for node in xml(svg).iter() for key in node.attrib)
    assert all(len(label) < 100 for label in texts(svg))


def test_truncated_label_has_a_tooltip() -> None:
    """A label that is cut has the whole name as tooltip; a label that fits has none."""
    lane = "executor: Find out what there is to be found"
    svg = waterfall_svg([TimelineSpan(lane, "model", "m", 0, 9), TimelineSpan("agent", "model", "m", 9, 20)])
    assert "Executor: Find out wh…" in texts(svg)
    assert [node.findtext(f"{SVG}title") for node in xml(svg).iter(f"{SVG}text") if len(node)] == [f"E{lane[1:]}"]


def test_drawing_without_spans_has_a_message() -> None:
    """Without spans the drawing shows that there is nothing yet."""
    assert texts(waterfall_svg(())) == ["Timeline", "Nothing has taken any time yet."]


def test_span_without_duration_is_drawn() -> None:
    """A run whose only span has no duration causes no division by zero."""
    assert len(bars(waterfall_svg([TimelineSpan("a", "tool", "t", 0, 0)]))) == 1


@pytest.mark.timed
def test_a_thousand_spans_are_drawn_fast() -> None:
    """Drawing a thousand spans takes less than 50 ms of processor time."""
    chance = random.Random(1)  # noqa: S311 - a drawing, not a secret
    spans = []
    for number in range(1000):
        start = chance.random() * 120_000
        agent = f"agent_{number % 5}"
        spans.append(
            TimelineSpan(
                agent, chance.choice(["model", "tool"]), "web_search", start, start + chance.expovariate(0.001)
            )
        )
    for attempt in within(0.05):
        with attempt:
            svg = waterfall_svg(spans)
    assert len(svg) < 400_000


def test_narrow_neighbours_merge_into_one_bar() -> None:
    """Neighbours that would be thinner than a line are drawn as one bar with their number."""
    spans = [TimelineSpan("a", "tool", f"t{i % 3}", i * 10, i * 10 + 5) for i in range(1000)]
    spans.append(TimelineSpan("a", "model", "m", 10_000, 1_000_000))
    assert tips(waterfall_svg(spans))[0].startswith("1,000 tool calls: T0, T1, T2; 0 ms + 10.0 s")


def test_omitted_rows_and_lanes_are_counted() -> None:
    """The notes have the numbers of the rows and lanes that are not drawn."""
    crowd = [TimelineSpan("a", "tool", "t", 0, 1000) for _ in range(MAX_ROWS + 7)]
    assert f"Not drawn: 7 bars (more than {MAX_ROWS} at once)." in texts(waterfall_svg(crowd))
    many = [TimelineSpan(f"agent {i}", "tool", "t", i, i + 1000) for i in range(MAX_LANES + 2)]
    assert "Not drawn: 2 more lanes." in texts(waterfall_svg(many))
