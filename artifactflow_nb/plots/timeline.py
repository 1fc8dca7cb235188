"""The timeline of one run or several over the frames: the waterfall, and the same for Vega-Lite."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from artifactflow_nb.plots.chart import Chart, empty_chart, vega_spec
from artifactflow_nb.plots.columns import FLOAT, TEXT, typed_frame
from artifactflow_nb.plots.frame_spans import spans_of_frames
from artifactflow_nb.plots.lanes import MAX_LANES, Cluster, Lane, clusters, lanes_of, left_out
from artifactflow_nb.plots.spans import MODEL, TOOL, WAIT, Span, last_moment
from artifactflow_nb.plots.svg import BLUE, INK, ORANGE, PURPLE, VERMILLION, text_px
from artifactflow_nb.plots.timescale import TimeScale, time_scale
from artifactflow_nb.plots.waterfall import describe, waterfall_svg
from artifactflow_nb.text.figures import count, duration
from artifactflow_nb.text.width import clip

TITLE = "Timeline"
MAX_RUNS = 12
_WIDTH = 640
_KINDS = {MODEL: BLUE, TOOL: ORANGE, "delegation": "#b8b8b8", WAIT: PURPLE}


def plot_timeline(
    llm_calls: pd.DataFrame | None,
    tool_calls: pd.DataFrame | None = None,
    approvals: pd.DataFrame | None = None,
    plan_steps: pd.DataFrame | None = None,
) -> Chart:
    """Who did what when: a waterfall with a lane per agent, in seconds since the run's first call.

    Args:
        llm_calls: Rows of `wb.llm_calls_df()`, all or some; None for none.
        tool_calls: Rows of `wb.tool_calls_df()`.
        approvals: Rows of `wb.approvals_df()`. Without it the waits for a person are those that `tool_calls` tells of.
        plan_steps: Rows of `wb.plan_steps_df()`, so that each step of a plan has a lane of its own.

    Several runs (12 at most) stand one below the other, each from its own beginning.
    Errors: `UsageError` for a frame that lacks a column that is needed.
    """
    spans = spans_of_frames(llm_calls, tool_calls, approvals, plan_steps)
    if not spans:
        return empty_chart(TITLE, "No calls in these frames.", _table(()))
    runs = list(dict.fromkeys(span.group for span in spans))
    drawn = [span for span in spans if span.group in set(runs[:MAX_RUNS])]
    if len(runs) == 1:
        drawn = [replace(span, group="") for span in drawn]
    n_more = len(runs) - MAX_RUNS
    of_runs = (f"{count(n_more, 'more run')} not drawn: pick some with a filter on run_id.",) if n_more > 0 else ()
    now_ms = last_moment(drawn)
    told = describe(drawn, now_ms)
    lanes = lanes_of(drawn, now_ms)
    notes = (*left_out(lanes), *of_runs)
    scale = time_scale(drawn, now_ms)
    drawing = waterfall_svg(drawn, now_ms, title=TITLE, notes=of_runs)
    return Chart(TITLE, told, _vega(lanes, scale, now_ms, told, notes), drawing, _table(spans), notes)


def _table(spans: Sequence[Span]) -> pd.DataFrame:
    """The spans as a frame."""
    return typed_frame(
        {
            "run_id": (TEXT, [span.group for span in spans]),
            "agent_name": (TEXT, [span.lane for span in spans]),
            "kind": (TEXT, [span.kind for span in spans]),
            "name": (TEXT, [span.name for span in spans]),
            "start_ms": (FLOAT, [span.start_ms for span in spans]),
            "duration_ms": (FLOAT, [_since_start(span, span.end_ms) for span in spans]),
            "ttft_ms": (FLOAT, [_since_start(span, span.first_token_ms) for span in spans]),
            "status": (TEXT, [span.status for span in spans]),
            "detail": (TEXT, [span.detail for span in spans]),
        }
    )


def _since_start(span: Span, ms: float | None) -> float | None:
    return None if ms is None else ms - span.start_ms


def _vega(lanes: Sequence[Lane], scale: TimeScale, now_ms: float, told: str, notes: Sequence[str]) -> dict[str, Any]:
    """The waterfall for Vega-Lite: a row of its axis for each row of a lane, moments as the folded scale shows them."""
    rows = list(_vega_rows(lanes[:MAX_LANES], scale, now_ms))
    names = list(dict.fromkeys(row["row"] for row in rows))
    y_axis = {"labelExpr": "slice(datum.label, 5)", "title": None, "ticks": False, "domain": False}
    y = {"field": "row", "type": "nominal", "scale": {"domain": names}, "axis": y_axis}
    domain = {"domain": [0, scale.shown_ms / 1000 or 1.0], "nice": False}
    x = {"field": "start", "type": "quantitative", "scale": domain, "axis": _x_axis(scale)}
    layers = [_bars(), _first_tokens(), _names()]
    marks = "White tick: first token. Dashed: waiting or delegated. Red outline: failed or denied."
    spec = vega_spec(TITLE, told, rows, (marks, *notes), width=_WIDTH, height={"step": 18})
    return {**spec, "layer": layers, "encoding": {"x": x, "y": y}}


def _x_axis(scale: TimeScale) -> dict[str, Any]:
    """Seconds, at the places where the folded scale has them, and a mark for each fold."""
    ticks = [(scale.at(tick) / 1000, f"{tick / 1000:g} s") for tick in scale.ticks(8)]
    for fold in scale.folds:
        middle = scale.at((fold.start_ms + fold.end_ms) / 2) / 1000
        ticks.append((middle, f"⋯ {duration(fold.end_ms - fold.start_ms)} ⋯"))
    places, words = json.dumps([place for place, _ in ticks]), json.dumps([word for _, word in ticks])
    label = f"{words}[indexof({places}, datum.value)]"
    return {"values": json.loads(places), "labelExpr": label, "labelOverlap": False, "title": None}


def _bars() -> dict[str, Any]:
    """The mark for spans."""
    colours = {"domain": list(_KINDS), "range": list(_KINDS.values())}
    encoding = {
        "x2": {"field": "end"},
        "color": {"field": "kind", "type": "nominal", "scale": colours},
        "stroke": {
            "condition": [{"test": _IS_BAD, "value": VERMILLION}, {"test": _IS_OUTLINED, "value": INK}],
            "value": None,
        },
        "strokeDash": {"condition": {"test": _IS_OUTLINED, "value": [3, 2]}, "value": [1, 0]},
        "fillOpacity": {"condition": {"test": _IS_OUTLINED, "value": 0.55}, "value": 1},
        "tooltip": [{"field": name, "title": title} for name, title in _TIPS.items()],
    }
    return {
        "mark": {"type": "bar", "height": 13, "cornerRadius": 2, "minBandSize": 1, "strokeWidth": 1.5},
        "encoding": encoding,
    }


def _first_tokens() -> dict[str, Any]:
    """The mark for the first text of a model call."""
    return {
        "transform": [{"filter": "isValid(datum.first)"}],
        "mark": {"type": "tick", "color": "#ffffff", "thickness": 2, "height": 13},
        "encoding": {"x": {"field": "first", "type": "quantitative"}},
    }


def _names() -> dict[str, Any]:
    """The names of those spans that have room for it."""
    dark = {"test": "datum.kind == 'tool'", "value": "#1f2328"}
    colour = {"condition": [{"test": "datum.kind == 'model'", "value": "#ffffff"}, dark], "value": INK}
    return {
        "transform": [{"filter": "datum.label != ''"}],
        "mark": {"type": "text", "align": "left", "dx": 4, "baseline": "middle", "fontSize": 10},
        "encoding": {
            "x": {"field": "label_at", "type": "quantitative"},
            "text": {"field": "label"},
            "color": colour,
        },
    }


_IS_BAD = "datum.kind != 'wait' && indexof(['failed', 'denied', 'cancelled'], datum.status) >= 0"
_IS_OUTLINED = "datum.kind == 'wait' || datum.kind == 'delegation'"
_TIPS = {
    "agent": "agent",
    "kind": "kind",
    "name": "name",
    "start_s": "start (s)",
    "duration_ms": "duration (ms)",
    "ttft_ms": "first token after (ms)",
    "status": "status",
    "detail": "detail",
}


def _vega_rows(lanes: Sequence[Lane], scale: TimeScale, now_ms: float) -> Iterator[dict[str, Any]]:
    number = 0
    narrow_ms = scale.shown_ms / _WIDTH
    for lane in lanes:
        name = f"{clip(lane.group, 20)} {lane.name}".strip()
        for place, row in enumerate(lane.rows):
            number += 1
            key = f"{number:04d}|{clip(name, 36) if place == 0 else ''}"
            yield from (_vega_row(cluster, key, scale) for cluster in clusters(row, now_ms, narrow_ms))


def _vega_row(cluster: Cluster, row: str, scale: TimeScale) -> dict[str, Any]:
    span, n = cluster.spans[0], len(cluster.spans)
    first = span.first_token_ms if n == 1 else None
    end, label_at = scale.at(cluster.end_ms), scale.at(first if first is not None else cluster.start_ms)
    words = clip(span.detail if span.is_delegation and span.detail else span.name, 60)
    fits = n == 1 and text_px(words) + 8 < (end - label_at) * _WIDTH / (scale.shown_ms or 1.0)
    return {
        "row": row,
        "agent": clip(span.lane, 60),
        "kind": "delegation" if span.is_delegation else span.kind,
        "name": clip(span.name, 60) + (f" and {n - 1:,} more" if n > 1 else ""),
        "start": scale.at(cluster.start_ms) / 1000,
        "end": end / 1000,
        "label": words if fits else "",
        "label_at": label_at / 1000,
        "first": None if first is None else scale.at(first) / 1000,
        "start_s": round(cluster.start_ms / 1000, 3),
        "duration_ms": round(cluster.end_ms - cluster.start_ms, 1),
        "ttft_ms": None if first is None else round(first - span.start_ms, 1),
        "status": next((each.status for each in cluster.spans if each.status != "ok"), span.status),
        "detail": span.detail if n == 1 else "",
    }
