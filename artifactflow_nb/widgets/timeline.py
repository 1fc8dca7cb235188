"""`TimelineView`: waterfall of a run's model calls, tool calls and waits, live until the run ends."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from artifactflow_nb.analysis.plots.spans import MODEL, TOOL, WAIT, SpanLog, TimelineSpan, covered_ms, step_lane
from artifactflow_nb.analysis.plots.svg import figure
from artifactflow_nb.analysis.plots.waterfall import (
    describe_spans,
    kind_label,
    lane_label,
    span_detail,
    span_label,
    waterfall_svg,
)
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.core.language import EnglishText, status_label, translate
from artifactflow_nb.core.text.cards import CardCell, CardTable, Named
from artifactflow_nb.core.text.format import clip, translate_count, translate_duration, without_context
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.core.text.panels import panel_table, scroll_box
from artifactflow_nb.engine.run_client import RunReader
from artifactflow_nb.store.runs import ABANDONED, RUNNING, WAITING
from artifactflow_nb.widgets.chat.metrics import AgentUsage, usage_by_agent
from artifactflow_nb.widgets.page.elements import status_mark
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import SavedOutput
from artifactflow_nb.widgets.page.view import Screen, View
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.saved import status_hint
from artifactflow_nb.widgets.run.transcript import RunTranscript
from artifactflow_nb.widgets.run.view import RunView

DRAW_INTERVAL_S = 0.5
MAX_ROWS = 200
_COUNT_COLUMNS: Sequence[EnglishText] = (
    *("agent", "model calls", "tool calls", "failed", "input tokens", "output tokens"),
)
_METRIC_COLUMNS: Sequence[EnglishText] = ("model time", "tool time", "waiting for you", "cost")
_LANE_COLUMNS = 40
_TIME_COLUMNS: Sequence[EnglishText] = ("from", "took")
_SPAN_COLUMNS: Sequence[EnglishText] = ("agent", "kind", "name", *_TIME_COLUMNS, "status", "detail")


class TimelineView(RunView):
    """Timeline of one run. Without metrics, times and the drawing are omitted: the saved output is reproducible."""

    label: EnglishText = "Timeline"
    css = "af-timeline"

    def __init__(self, run: RunReader, *, with_metrics: bool = True) -> None:
        self._transcript = _SpanTranscript(run.question)
        super().__init__(run, transcript=self._transcript)
        self._with_metrics = with_metrics
        self._refresh_task: asyncio.Task[None] | None = None

    async def open(self, screen: Screen) -> None:
        """Load the stored events and follow the run."""
        await super().open(screen)
        if not self._transcript.is_ended:
            self._refresh_task = asyncio.get_running_loop().create_task(self._refresh_repeatedly())

    def _on_change(self) -> None:
        """Ignore the change: the clock of the view redraws."""

    async def _refresh_repeatedly(self) -> None:
        # Running spans grow with time, not only with events.
        while not self._transcript.is_ended:
            await asyncio.sleep(DRAW_INTERVAL_S)
            self.screen.refresh()

    def nodes(self) -> tuple[Node, ...]:
        """Return the status, the drawing, totals by agent, and a table of all spans."""
        now_ms = self._now_ms()
        svg = self._drawn(now_ms) if self._with_metrics else ""
        return self._nodes(svg, now_ms or 0.0)

    def saved_output(self) -> SavedOutput:
        """Return the saved nodes."""
        return View.saved_output(self)

    def saved_nodes(self) -> tuple[Node, ...]:
        """Return the timeline until now or the start of the pause, with hints and a fallback for the drawing."""
        is_waiting = self._transcript.status == WAITING
        until_ms = self._transcript.log.last_ms if is_waiting else self._now_ms()
        drawing = ""
        if self._with_metrics:
            description = describe_spans(self._transcript.spans, until_ms or 0.0)
            drawing = figure(self._drawn(until_ms), translate(self.label), description)
        hint = status_hint(self._transcript)
        hints = [Node("hint", f"<p>{hint}</p>", css="af-quiet", text=hint)] if hint else []
        return (*self._nodes(drawing, until_ms or 0.0), *hints)

    def _nodes(self, drawing: str, now_ms: float) -> tuple[Node, ...]:
        spans = self._transcript.spans
        agents = self._agents(spans, now_ms)
        by_agent = panel_table(agents.columns, agents.rows, translate("By agent"), numeric=agents.columns[1:])
        table = _table(spans, with_metrics=self._with_metrics)
        rows = translate("As a table: {rows}", rows=translate_count(len(spans), "row"))
        text = describe_spans(spans, now_ms) if self._with_metrics else translate_count(len(spans), "span")
        return (
            self._head(),
            *([Node("drawing", scroll_box(drawing, "af-drawing", translate(self.label)))] if drawing else []),
            *([Node("agents", by_agent)] if agents.rows else []),
            Node("rows", rows, "fold", "af-rows", children=(Node("table", table),), text=text),
        )

    def _head(self) -> Node:
        status = self._transcript.status
        label = escape(labels.run_status_label(self._transcript))
        if self._transcript.is_ended and self._with_metrics:
            label += f" · {labels.summary_line(self._transcript)}"
        question = escape_with_language(clip(self._run.question, 90))
        html = f'{status_mark(status)} <strong>{question}</strong> <span class="af-quiet">{label}</span>'
        text = translate("Timeline: {question}", question=self._run.question)
        if status == ABANDONED:
            text += f"\n\n{translate('Abandoned: its process has ended. run.resume() continues it.')}"
        return Node("head", html, css="af-meta", text=text)

    def _agents(self, spans: tuple[TimelineSpan, ...], now_ms: float) -> CardTable:
        """Build the table of totals by lane; times and cost only with metrics."""
        usage = self._transcript.usage_by_lane()
        rows: list[list[CardCell]] = []
        for lane in dict.fromkeys(span.lane for span in spans):
            lane_spans = [span for span in spans if span.lane == lane]
            totals = dict.fromkeys((MODEL, TOOL, WAIT), 0.0)
            for span in lane_spans:
                if span.kind != WAIT and not span.is_delegation:  # the time of a delegation belongs to other agents
                    totals[span.kind] += span.end_at(now_ms) - span.start_ms
            # As in the metrics, only pauses count as waits, not waits during other work.
            waits = [(span.start_ms, span.end_at(now_ms)) for span in lane_spans if span.kind == WAIT]
            totals[WAIT] = covered_ms(waits, self._transcript.pauses)
            used = usage.get(lane, AgentUsage())
            metrics = [*map(translate_duration, totals.values()), used.cost_text]
            rows.append(
                [Named(lane_label(lane), lane), *_counts(lane_spans, used), *(metrics if self._with_metrics else [])]
            )
        columns = (*_COUNT_COLUMNS, *(_METRIC_COLUMNS if self._with_metrics else ()))
        return CardTable(tuple(translate(name, context="column") for name in columns), rows)

    def _drawn(self, now_ms: float | None) -> str:
        return waterfall_svg(self._transcript.spans, now_ms)

    def _now_ms(self) -> float | None:
        """Return the milliseconds since the start of an unfinished run; None after its end."""
        is_unfinished = self._transcript.started_at and self._transcript.status in {RUNNING, WAITING}
        return self._transcript.log.ms(datetime.now(UTC)) if is_unfinished else None

    def close(self) -> None:
        """Stop following the run."""
        self._follower.close()
        if self._refresh_task:
            self._refresh_task.cancel()


class _SpanTranscript(RunTranscript):
    """Transcript with the spans of its run and its subruns, each subrun in its own lanes."""

    def __init__(self, question: str, parent_tool: str = "") -> None:
        super().__init__(question, parent_tool)
        self.log = SpanLog()

    @property
    def pauses(self) -> list[tuple[float, float]]:
        """The pauses of the run and its subruns: disjoint intervals in milliseconds since the start of this run."""
        pauses = list(self.log.pauses)
        for _, start_ms, subrun in self._known_subruns():
            pauses += [(start + start_ms, end + start_ms) for start, end in subrun.pauses]
        disjoint: list[tuple[float, float]] = []
        for start, end in sorted(pauses):
            if disjoint and start <= disjoint[-1][1]:
                disjoint[-1] = (disjoint[-1][0], max(disjoint[-1][1], end))
            else:
                disjoint.append((start, end))
        return disjoint

    @property
    def spans(self) -> tuple[TimelineSpan, ...]:
        """All spans so far, by start; the open spans of an abandoned or ended run are closed."""
        spans = list(self.log.spans)
        if self.status == ABANDONED:
            spans = [replace(span, status=ABANDONED) if span.end_ms is None else span for span in spans]
        elif self.is_ended:  # a subrun that ended with its parent did not publish the ends of its calls
            last = self.log.last_ms
            spans = [replace(span, end_ms=last, status=self.status) if span.end_ms is None else span for span in spans]
        for question, start_ms, subrun in self._known_subruns():
            for span in subrun.spans:
                end, first = (None if ms is None else ms + start_ms for ms in (span.end_ms, span.first_token_ms))
                lane, start = step_lane(span.lane, question), span.start_ms + start_ms
                spans.append(replace(span, lane=lane, start_ms=start, end_ms=end, first_token_ms=first))
        return tuple(sorted(spans, key=lambda span: span.start_ms))

    def usage_by_lane(self) -> dict[str, AgentUsage]:
        """Return the usage by lane."""
        usage = usage_by_agent([self], self.log.step_lanes)
        for question, _, subrun in self._known_subruns():
            usage |= {step_lane(name, question): used for name, used in subrun.usage_by_lane().items()}
        return usage

    def _known_subruns(self) -> "Iterator[tuple[str, float, _SpanTranscript]]":
        """Yield the subruns in this store with question and start (milliseconds since the start of this run)."""
        for subrun in self.subruns.values():
            if isinstance(subrun, _SpanTranscript) and subrun.started_at is not None:
                yield clip(without_context(subrun.question), _LANE_COLUMNS), self.log.ms(subrun.started_at), subrun

    def apply(self, event: StreamEvent) -> bool:
        """Apply the next event; return False for an event that was applied before."""
        self.log.apply(event)
        return super().apply(event)


def _counts(spans: Sequence[TimelineSpan], usage: AgentUsage) -> list[CardCell]:
    """Return the counts of a lane, in the order of `_COUNT_COLUMNS`."""
    kinds = Counter(span.kind for span in spans)
    failed = sum(span.status == "failed" for span in spans)
    return [kinds[MODEL], kinds[TOOL], failed, *usage.token_texts]


def _table(spans: tuple[TimelineSpan, ...], *, with_metrics: bool) -> str:
    columns = [translate(name, context="column") for name in _SPAN_COLUMNS if with_metrics or name not in _TIME_COLUMNS]
    numeric = [translate(name, context="column") for name in _TIME_COLUMNS]
    rows = (_row(span, with_metrics=with_metrics) for span in spans[:MAX_ROWS])
    table = panel_table(columns, rows, translate("As a table"), numeric=numeric)
    n_omitted = len(spans) - MAX_ROWS
    if n_omitted <= 0:
        return table
    rows_omitted, code = translate_count(n_omitted, "row"), "wb.llm_calls_df(), wb.tool_calls_df()"
    more = translate("… {rows} more: {code}", rows=rows_omitted, code=code)
    return f'{table}<p class="af-quiet">{more}</p>'


def _row(span: TimelineSpan, *, with_metrics: bool) -> list[CardCell]:
    time = "…" if span.end_ms is None else translate_duration(span.end_ms - span.start_ms)
    times = [translate_duration(span.start_ms), time] if with_metrics else []
    kind, status = kind_label(span.kind), status_label(span.status)
    lane, name = Named(lane_label(span.lane), span.lane), Named(span_label(span), span.name)
    return [lane, kind, name, *times, status, span_detail(span) if with_metrics else ""]
