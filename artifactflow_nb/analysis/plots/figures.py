"""The plots of frames: tokens, cost, latency and timelines.

Each function draws frames of a workbench on the `Axes` of `ax=`, or on a new figure, and returns the `Axes`.
"""

from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from artifactflow_nb.analysis.plots.canvas import (
    BLUE,
    GREEN,
    HATCH,
    MAX_ROWS,
    PURPLE,
    VERMILLION,
    canvas,
    finish,
    legend,
    message_only,
    name_text,
    rows_axis,
    write_beside,
)
from artifactflow_nb.analysis.plots.frame_columns import FrameColumns, in_language_of_frames, known_sum, rows_by_name
from artifactflow_nb.analysis.plots.frame_spans import spans_from_frames
from artifactflow_nb.analysis.plots.spans import MODEL, TOOL, WAIT, build_lanes, last_time_ms, time_scale
from artifactflow_nb.analysis.plots.waterfall import (
    describe_spans,
    kind_label,
    lane_label,
    legend_label,
    note,
    omission_notes,
    omitted_note,
)
from artifactflow_nb.core.language import EnglishText, agent_label, tool_label, translate, translate_list
from artifactflow_nb.core.text.format import capitalized, clip, translate_count, translate_duration, translate_time, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_RUNS = 12
_UNKNOWN = "unknown"


# --- tokens and cost -------------------------------------------------------------------------------------------------

_DIRECTIONS = (("input_tokens", "cache_read_tokens", BLUE), ("output_tokens", "reasoning_tokens", VERMILLION))
"""Column, column of the part, and colour."""
_DIRECTION_TEXTS: Sequence[Sequence[EnglishText]] = (
    ("input from a cache", "input", "{n} in", ", {n} cached"),
    ("output, reasoning", "output", "{n} out", ", {n} reasoning"),
)
"""Names of the part and of the rest, and their numbers beside the bars."""


@in_language_of_frames
def tokens(llm_calls: pd.DataFrame, *, ax: "Axes | None" = None) -> "Axes":
    """Plot the tokens of each agent, largest total first: input with its cached part, output with its reasoning part.

    Args:
        llm_calls: Rows of `wb.llm_calls_df()`, all or some.
        ax: Axes to draw on; None for a new figure.

    Errors: `UsageError` for a frame that lacks a required column, and if matplotlib is missing.
    """
    table = FrameColumns(llm_calls, "llm_calls", "af.plots.tokens", ("agent_name", "input_tokens", "output_tokens"))
    columns = {name: table.numbers(name) for direction in _DIRECTIONS for name in direction[:2]}
    estimated = [bool(value) for value in table.values("tokens_estimated")]
    agents = []
    for name, rows in rows_by_name(table.texts("agent_name", _UNKNOWN)).items():
        sums = {column: known_sum(values[row] for row in rows) for column, values in columns.items()}
        agents.append((name, sums, any(estimated[row] for row in rows)))
    agents.sort(key=lambda agent: -((agent[1]["input_tokens"] or 0) + (agent[1]["output_tokens"] or 0)))
    shown = agents[:MAX_ROWS]
    with canvas(ax, 1.6 * len(shown)) as axes:
        if not agents:
            return message_only(axes, translate("Tokens by agent"), translate("No model calls in this frame."))
        handles: dict[str, Any] = {}
        for row, (_, sums, is_estimated) in enumerate(shown):
            for offset, (column, part_column, colour), (*names, amount_text, part_text) in zip(
                (-0.2, 0.2), _DIRECTIONS, _DIRECTION_TEXTS, strict=True
            ):
                whole, part = sums[column], sums[part_column]
                drawn = min(part or 0, whole or 0)  # endpoints may report a part that is larger than the whole
                for name, left, n, hatch in zip(
                    names, (0, drawn), (drawn, (whole or 0) - drawn), (HATCH, ""), strict=True
                ):
                    if n > 0:
                        look: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.5}
                        handles[name] = axes.barh(row + offset, n, 0.36, left=left, label=translate(name), **look)
                amount = translate("unknown") if whole is None else f"{'≈ ' if is_estimated else ''}{whole:,.0f}"
                text = translate(amount_text, n=amount)
                text += translate(part_text, n=f"{part:,.0f}") if part and whole is not None else ""
                write_beside(axes, row + offset, text)
        rows_axis(axes, [capitalized(agent_label(name)) for name, *_ in shown])
        axes.xaxis.set_major_formatter(lambda value, _: axis_number(value))
        unknown = [i for i in range(len(table)) if None in (columns["input_tokens"][i], columns["output_tokens"][i])]
        calls = translate_count(len(unknown), "model call")
        notes = note(len(unknown), translate("{calls} without known tokens (failed or cancelled).", calls=calls))
        calls = translate_count(sum(estimated), "model call")
        notes += note(sum(estimated), translate("≈ Estimated, for want of figures: {calls}.", calls=calls))
        total = int(sum((sums["input_tokens"] or 0) + (sums["output_tokens"] or 0) for _, sums, _ in agents))
        description = translate(
            "{tokens} of {agents} in {calls}.",
            tokens=translate_count(total, "token"),
            agents=translate_count(len(agents), "agent"),
            calls=translate_count(len(table), "model call"),
        )
        notes += omitted_note(len(agents) - MAX_ROWS, translate_count(len(agents) - MAX_ROWS, "bar"))
        legend(axes, [handles[name] for names in _DIRECTION_TEXTS for name in names[:2] if name in handles])
        return finish(axes, translate("Tokens by agent"), description, notes)


def axis_number(number: float) -> str:
    """Format a number for an axis: `950`, `1.2k`, `34k`, `5.6M`."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


@in_language_of_frames
def cost(llm_calls: pd.DataFrame, *, ax: "Axes | None" = None) -> "Axes":
    """Plot the cost of each model in US dollars, highest first, with the number of calls whose cost is unknown.

    Args:
        llm_calls: Rows of `wb.llm_calls_df()`, all or some.
        ax: Axes to draw on; None for a new figure.

    Errors: `UsageError` for a frame that lacks a required column, and if matplotlib is missing.
    """
    table = FrameColumns(llm_calls, "llm_calls", "af.plots.cost", ("request_model", "cost_usd"))
    costs = table.numbers("cost_usd")
    models = [
        (name, known_sum(costs[row] for row in rows), len(rows), sum(costs[row] is None for row in rows))
        for name, rows in rows_by_name(table.models()).items()
    ]
    models.sort(key=lambda model: -(model[1] or 0.0))
    shown = models[:MAX_ROWS]
    with canvas(ax, len(shown)) as axes:
        if not models:
            return message_only(axes, translate("Cost by model"), translate("No model calls in this frame."))
        for row, (_, amount, n_calls, n_unknown) in enumerate(shown):
            axes.barh(row, amount or 0.0, 0.6, color=GREEN)
            missing = translate(", {n} unknown", n=f"{n_unknown:,}") if n_unknown and amount is not None else ""
            text, calls = translate("unknown") if amount is None else usd(amount), translate_count(n_calls, "call")
            write_beside(axes, row, translate("{cost}, {calls}{missing}", cost=text, calls=calls, missing=missing))
        rows_axis(axes, [name for name, *_ in shown])
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(lambda value, _: usd(value))
        notes = omitted_note(len(models) - MAX_ROWS, translate_count(len(models) - MAX_ROWS, "bar"))
        if n_unknown := sum(model[3] for model in models):
            unpriced = [clip(name, 40) for name, amount, *_ in models if amount is None]
            names = translate(" Unknown cost: {models}.", models=translate_list(unpriced[:3])) if unpriced else ""
            notes.append(
                translate(
                    "The cost of {calls} is unknown: no price is set for the model, or the call failed.{models}",
                    calls=translate_count(n_unknown, "call"),
                    models=names,
                )
            )
        total = known_sum(amount for _, amount, *_ in models)
        description = translate(
            "{cost} for {calls} of {models}.",
            cost=capitalized(translate("unknown")) if total is None else usd(total),
            calls=translate_count(len(table), "call"),
            models=translate_count(len(models), "model"),
        )
        return finish(axes, translate("Cost by model"), description, notes)


# --- latency ---------------------------------------------------------------------------------------------------------

_MAX_DOTS = 300
_LOG_RATIO = 30  # the scale is logarithmic if the longest call takes this many times as long as the shortest
_GOLDEN = 0.618034  # multiples of the golden ratio spread the dots evenly and reproducibly
_KINDS = {MODEL: (BLUE, "o"), TOOL: (VERMILLION, "D"), WAIT: (PURPLE, "s")}
"""Colour and mark of each kind of span."""


@dataclass(frozen=True, slots=True)
class _CallGroup:
    """Calls of one model or tool: durations of successful calls, and the number of failed calls."""

    kind: str
    name: str
    durations_ms: pd.Series
    n_failed: int

    def quantile(self, share: float) -> float:
        """Return the quantile with linear interpolation, or 0 without values."""
        return float(self.durations_ms.quantile(share)) if len(self.durations_ms) else 0.0

    @property
    def dots(self) -> list[float]:
        """Durations to draw: all, or an even sample that includes the shortest and the longest."""
        values, n = sorted(self.durations_ms), len(self.durations_ms)
        return values if n <= _MAX_DOTS else [values[i * (n - 1) // (_MAX_DOTS - 1)] for i in range(_MAX_DOTS)]

    def summary(self) -> str:
        """Write p50, p95, and the numbers of calls."""
        failed = translate(", {n} failed", n=f"{self.n_failed:,}") if self.n_failed else ""
        if not len(self.durations_ms):
            return translate("none succeeded{failed}", failed=failed)
        p50, p95 = (translate_duration(self.quantile(share)) for share in (0.5, 0.95))
        n = f"{len(self.durations_ms):,}"
        return translate("p50 {p50}, p95 {p95}, n {n}{failed}", p50=p50, p95=p95, n=n, failed=failed)


@in_language_of_frames
def latency(
    llm_calls: pd.DataFrame | None, tool_calls: pd.DataFrame | None = None, *, ax: "Axes | None" = None
) -> "Axes":
    """Plot durations by model and tool, slowest first, with p50 and p95; failed calls are only counted.

    Args:
        llm_calls: Rows of `wb.llm_calls_df()`, all or some; None for no model calls.
        tool_calls: Rows of `wb.tool_calls_df()`.
        ax: Axes to draw on; None for a new figure.

    Errors: `UsageError` for a frame that lacks a required column, and if matplotlib is missing.
    """
    groups = _call_groups(llm_calls, tool_calls)
    shown = groups[:MAX_ROWS]
    with canvas(ax, len(shown)) as axes:
        if not groups:
            return message_only(
                axes, translate("Latency by model and tool"), translate("These frames have no finished calls.")
            )
        ink = axes.title.get_color()
        handles: dict[str, Any] = {}
        for row, group in enumerate(shown):
            colour, mark = _KINDS[group.kind]
            spread = [row + ((i * _GOLDEN) % 1 - 0.5) * 0.5 for i in range(len(group.dots))]
            look: dict[str, Any] = {"color": colour, "marker": mark, "s": 14, "alpha": 0.6, "linewidths": 0}
            handles[group.kind] = axes.scatter(group.dots, spread, label=kind_label(group.kind), **look)
            for label, share, line in ((translate("p50 (median)"), 0.5, "-"), ("p95", 0.95, ":")):
                if len(group.durations_ms):
                    x = group.quantile(share)
                    (handles[label],) = axes.plot([x, x], [row - 0.38, row + 0.38], line, color=ink, lw=2, label=label)
            write_beside(axes, row, group.summary())
        rows_axis(axes, [group.name if group.kind == MODEL else capitalized(tool_label(group.name)) for group in shown])
        values = [ms for group in shown for ms in group.durations_ms if ms > 0]
        is_log = bool(values) and max(values) / min(values) >= _LOG_RATIO
        if is_log:
            axes.set_xscale("log")
            axes.xaxis.set_minor_formatter(lambda *_: "")
        else:
            axes.set_xlim(left=0)
        as_here = copy_context().run  # in the language of the frames when the figure is drawn
        axes.xaxis.set_major_formatter(
            lambda value, _: as_here(translate_duration, value) if value > 0 or not is_log else ""
        )
        n_failed = sum(group.n_failed for group in groups)
        calls = translate_count(n_failed, "call")
        notes = note(n_failed, translate("Left out, because failed or denied: {calls}.", calls=calls))
        is_sampled = any(len(group.durations_ms) > _MAX_DOTS for group in shown)
        notes += note(is_sampled, translate("Of more than {most} calls, {most} are drawn.", most=_MAX_DOTS))
        notes += omitted_note(len(groups) - MAX_ROWS, translate_count(len(groups) - MAX_ROWS, "row"))
        described = [
            translate(
                "{title}: {text}",
                title=name_text(capitalized(tool_label(group.name)) if group.kind == TOOL else group.name),
                text=group.summary(),
            )
            for group in groups[:5]
        ]
        legend(axes, list(handles.values()))
        return finish(
            axes,
            translate("Latency by model and tool"),
            "; ".join(described),
            notes,
            translate("logarithmic scale") if is_log else "",
        )


def _call_groups(llm_calls: pd.DataFrame | None, tool_calls: pd.DataFrame | None) -> list[_CallGroup]:
    models = FrameColumns(llm_calls, "llm_calls", "af.plots.latency", ("request_model", "llm_duration_ms"))
    tools = FrameColumns(tool_calls, "tool_calls", "af.plots.latency", ("tool_name", "duration_ms"))
    failed_models = [error is not None for error in models.values("error_type")]
    # An unknown success counts as success; the value may be a numpy bool, which is not the object False.
    failed_tools = [success is not None and not success for success in tools.values("success")]
    groups = []
    for kind, names, durations_ms, failed in (
        (MODEL, models.models(), models.numbers("llm_duration_ms"), failed_models),
        (TOOL, tools.texts("tool_name", _UNKNOWN), tools.numbers("duration_ms"), failed_tools),
    ):
        for name, rows in rows_by_name(names).items():
            ended = [row for row in rows if durations_ms[row] is not None]
            succeeded = [durations_ms[row] for row in ended if not failed[row]]
            if ended:
                values = pd.Series(succeeded, dtype=float)
                groups.append(_CallGroup(kind, name, values, len(ended) - len(succeeded)))
    return sorted(groups, key=lambda group: (group.kind, -group.quantile(0.5)))


# --- timeline --------------------------------------------------------------------------------------------------------

_BAD = {"failed", "denied"}


@in_language_of_frames
def timeline(
    llm_calls: pd.DataFrame | None,
    tool_calls: pd.DataFrame | None = None,
    approvals: pd.DataFrame | None = None,
    plan_steps: pd.DataFrame | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot the calls of runs with a lane per agent, in seconds since the first call of the run.

    Args:
        llm_calls: Rows of `wb.llm_calls_df()`, all or some; None for no model calls.
        tool_calls: Rows of `wb.tool_calls_df()`.
        approvals: Rows of `wb.approvals_df()`; None derives the waits for a person from `tool_calls`.
        plan_steps: Rows of `wb.plan_steps_df()`, which give each plan step a lane of its own.
        ax: Axes to draw on; None for a new figure.

    Several runs (12 at most) are drawn one below the other, each from its own start. Long waits are shortened.

    Errors: `UsageError` for a frame that lacks a required column, and if matplotlib is missing.
    """
    spans = spans_from_frames(llm_calls, tool_calls, approvals, plan_steps)
    runs = list(dict.fromkeys(span.group for span in spans))
    drawn = [
        replace(span, group=span.group if len(runs) > 1 else "") for span in spans if span.group in runs[:MAX_RUNS]
    ]
    now_ms = last_time_ms(drawn) if drawn else 0.0
    lanes = build_lanes(drawn, now_ms)
    rows = [(lane, row) for lane in lanes[:_MAX_LANES] for row in lane.rows]
    with canvas(ax, len(rows)) as axes:
        if not spans:
            return message_only(axes, translate("Timeline"), translate("No calls in these frames."))
        scale, ink = time_scale(drawn, now_ms), axes.title.get_color()
        handles: dict[str, Any] = {}
        for y, (_, row) in enumerate(rows):
            for span in row:
                left, right = scale.position(span.start_ms), scale.position(span.end_at(now_ms))
                name, colour = legend_label(span.kind), _KINDS[span.kind][0]
                look: dict[str, Any] = {"facecolor": colour, "edgecolor": colour}
                if span.is_delegation:
                    name, look = translate("delegated"), {"facecolor": "none", "edgecolor": colour, "linestyle": "--"}
                elif span.kind == WAIT:
                    look |= {"hatch": HATCH, "edgecolor": "white"}
                handles[name] = axes.barh(y, right - left, 0.7, left=left, label=name, **look)
                if span.status in _BAD:
                    look = {"color": ink, "marker": "x", "linestyle": "", "label": translate("failed, denied")}
                    (handles["span_failed"],) = axes.plot(right, y, **look)
                if span.first_token_ms is not None:
                    x = scale.position(span.first_token_ms)
                    look = {"color": ink, "marker": "|", "linestyle": "", "label": translate("first token")}
                    (handles["span_first_token"],) = axes.plot(x, y, **look)
        first_rows = [y for y, (lane, row) in enumerate(rows) if row is lane.rows[0]]
        names = [" · ".join(filter(None, [rows[y][0].group[:12], lane_label(rows[y][0].name)])) for y in first_rows]
        rows_axis(axes, [""] * len(rows))
        axes.set_yticks(first_rows, [name_text(name) for name in names])
        for fold in scale.folds:
            edges = scale.position(fold.start_ms), scale.position(fold.end_ms)
            axes.axvspan(*edges, facecolor="none", edgecolor="gray", linestyle=":")
            look = {"ha": "center", "va": "top", "fontsize": "small", "transform": axes.get_xaxis_transform()}
            axes.text(sum(edges) / 2, 1.0, f"⋯ {translate_duration(fold.end_ms - fold.start_ms)} ⋯", **look)
        marks = scale.ticks(8)
        axes.set_xticks([scale.position(ms) for ms in marks], [translate_time(f"{ms / 1000:g} s") for ms in marks])
        n_more = len(runs) - MAX_RUNS
        notes = omission_notes(lanes)
        more = translate_count(n_more, "more run")
        notes += note(n_more, translate("Not drawn: {runs}. Pick some with a filter on run_id.", runs=more))
        legend(axes, list(handles.values()))
        return finish(axes, translate("Timeline"), describe_spans(drawn, now_ms), notes)


_MAX_LANES = 60
