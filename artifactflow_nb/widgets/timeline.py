"""The timeline of a run: what each agent did when, growing while the run goes on."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from artifactflow_nb.events import StreamEvent
from artifactflow_nb.plots.spans import MODEL, TOOL, WAIT, Span, SpanLog, step_lane
from artifactflow_nb.plots.still import drawn, image
from artifactflow_nb.plots.waterfall import describe, waterfall_svg
from artifactflow_nb.store.runs import INTERRUPTED, RUNNING, WAITING
from artifactflow_nb.text.cards import Cell, Table, html_text, visible
from artifactflow_nb.text.figures import count, duration
from artifactflow_nb.text.framing import without_context
from artifactflow_nb.text.markdown import escape, portable_line, speak
from artifactflow_nb.text.width import clip
from artifactflow_nb.widgets import labels
from artifactflow_nb.widgets.base import ViewedRun
from artifactflow_nb.widgets.following import Follower
from artifactflow_nb.widgets.frozen import HOW_TO_DECIDE, STILL_RUNNING, framed, reachable_status
from artifactflow_nb.widgets.gauges import AgentUse, uses
from artifactflow_nb.widgets.pieces import mark, scrolling
from artifactflow_nb.widgets.run_view import announcement
from artifactflow_nb.widgets.transcript import Transcript
from artifactflow_nb.widgets.tree import Node, static_html
from artifactflow_nb.widgets.view import Face, Screen, View

DRAW_EVERY_S = 0.5
MOST_ROWS = 200
IMAGE_CHARS = 100_000
"""Up to how long a drawing stands in a saved notebook as an image too."""
_HINTS = {RUNNING: STILL_RUNNING, WAITING: HOW_TO_DECIDE, INTERRUPTED: labels.INTERRUPTED}
_COUNTED = ("agent", "model calls", "tool calls", "failed", "input tokens", "output tokens")
_TIMED = ("model time", "tool time", "waiting for you")
_LANE_COLUMNS = 40
_HEADS = ("agent", "kind", "name", "from", "took", "status", "")


class TimelineView(View):
    """Draws a run until it ends.

    Args:
        run: The run.
        measured: Show times, and draw them; without them the same run has the same face each time.
    """

    label = "Timeline"
    css = "af-timeline"

    def __init__(self, run: ViewedRun, *, measured: bool = True) -> None:
        self._run = run
        self._measured = measured
        self._transcript = _Spanned(run.question)
        self._follower = Follower(run, self._transcript, lambda: None, self._keep)
        self._drawing: asyncio.Task[None] | None = None

    async def open(self, screen: Screen) -> None:
        """Take in what happened so far, and follow."""
        await super().open(screen)
        await self._follower.start()
        if not self._transcript.ended:
            self._drawing = asyncio.get_running_loop().create_task(self._draw_on())

    def _keep(self) -> None:
        if self._transcript.ended:
            self.close()
            self.screen.finish()
        else:
            self.screen.keep()

    async def _draw_on(self) -> None:
        """A drawing grows with time, not with events: it is made anew twice a second."""
        while True:
            await asyncio.sleep(DRAW_EVERY_S)
            self.screen.refresh()

    def nodes(self) -> tuple[Node, ...]:
        """The state of the run, the drawing, what each agent did, and every span in a table."""
        spans = self._transcript.spans
        now_ms = self._now_ms()
        return self._nodes(spans, waterfall_svg(spans, now_ms) if self._measured else "", now_ms)

    def _nodes(self, spans: tuple[Span, ...], drawing: str, now_ms: float | None) -> tuple[Node, ...]:
        agents = self._agents(spans, now_ms or 0.0)
        rows = Node("table", scrolling(_table(spans, measured=self._measured), "af-timeline-rows", "As a table"))
        return (
            Node("head", self._head(), css="af-meta"),
            *([Node("drawing", scrolling(drawing, "af-drawing", "Timeline"))] if drawing else []),
            *([Node("agents", scrolling(_agents_html(agents), "af-drawing", "By agent"))] if agents.rows else []),
            Node("rows", f"As a table: {count(len(spans), 'row')}", "fold", "af-rows", children=(rows,)),
        )

    def _head(self) -> str:
        status = self._transcript.status
        said = labels.state(status)
        if self._transcript.ended and self._measured:
            said += f" · {labels.summary_line(self._transcript)}"
        if below := labels.waits_below(self._transcript):
            said += f" · {escape(below)}"
        question = speak(clip(self._run.question, 90))
        return f'{mark(status)} <strong>{question}</strong> <span class="af-quiet">{said}</span>'

    def _agents(self, spans: tuple[Span, ...], now_ms: float) -> Table:
        """What each agent did; times only if they are shown."""
        used = self._transcript.used()
        rows: list[list[Cell]] = []
        for lane in dict.fromkeys(span.lane for span in spans):
            own = [span for span in spans if span.lane == lane]
            times = [duration(_spent_ms(own, kind, now_ms)) for kind in (MODEL, TOOL, WAIT)]
            rows.append([lane, *_figures(own, used.get(lane, AgentUse())), *(times if self._measured else [])])
        return Table((*_COUNTED, *(_TIMED if self._measured else ())), rows)

    def _now_ms(self) -> float | None:
        goes_on = self._transcript.started_at and self._transcript.status in {RUNNING, WAITING}
        return self._transcript.log.ms(datetime.now(UTC)) if goes_on else None

    def _kept_ms(self) -> float | None:
        """Up to when what is kept of a run that goes on is drawn; one that waits stands still since it does."""
        return self._transcript.log.last_ms if self._transcript.status == WAITING else self._now_ms()

    def face(self) -> Face:
        """The drawing as it stands, and the tables."""
        spans, now_ms = self._transcript.spans, self._kept_ms()
        told = describe(spans, now_ms or 0.0) if self._measured else count(len(spans), "span")
        hint = _HINTS.get(reachable_status(self._transcript), "")
        hints = [hint] if hint else []
        agents = [self._agents(spans, now_ms or 0.0).markdown()] if spans else []
        title = f"**Timeline: {portable_line(clip(self._run.question, 200))}**"
        return {
            "text/plain": visible("\n\n".join([f"Timeline: {self._run.question}", told, *hints])),
            "text/markdown": "\n\n".join([title, portable_line(told), *agents, *hints]),
            "text/html": self._page(spans, told, hint),
        }

    def _page(self, spans: tuple[Span, ...], told: str, hint: str) -> str:
        drawing = ""
        if self._measured:
            svg = waterfall_svg(spans, self._kept_ms())
            drawing = drawn(
                svg, image(svg, f"Timeline. {told}") if len(svg) <= IMAGE_CHARS else f"<p>{escape(told)}</p>"
            )
        note = (
            f'<p class="af-quiet">{hint}</p>' if hint in {STILL_RUNNING, HOW_TO_DECIDE} else ""
        )  # the head says the other
        return framed(static_html(self._nodes(spans, drawing, self._kept_ms())) + note, "timeline.css", css=self.css)

    def announcement(self) -> str:
        """That a decision is needed, and how the run ended."""
        return announcement(self._transcript)

    def close(self) -> None:
        """Follow no more."""
        self._follower.close()
        if self._drawing:
            self._drawing.cancel()


class _Spanned(Transcript):
    """A transcript with the spans of its run, and of those that work for its calls, in lanes of their own."""

    def __init__(self, question: str, within: str = "") -> None:
        super().__init__(question, within)
        self.log = SpanLog()

    @property
    def spans(self) -> tuple[Span, ...]:
        """All spans so far, as they began; what a lost process left open goes on no more."""
        found = list(self.log.spans)
        if self.status == INTERRUPTED:
            found = [replace(span, status=INTERRUPTED) if span.end_ms is None else span for span in found]
        elif self.ended:  # of a run that ended with the one above it, before it could say so
            last = self.log.last_ms
            found = [replace(span, end_ms=last, status=self.status) if span.end_ms is None else span for span in found]
        for about, began, below in self._below():
            found += (_moved(span, began, step_lane(span.lane, about)) for span in below.spans)
        return tuple(sorted(found, key=lambda span: span.start_ms))

    def used(self) -> dict[str, AgentUse]:
        """What was used in each lane."""
        found = uses([self])
        for about, _, below in self._below():
            found |= {step_lane(name, about): use for name, use in below.used().items()}
        return found

    def _below(self) -> "Iterator[tuple[str, float, _Spanned]]":
        """The runs that work for calls, each with what it is about and when it began, in milliseconds of this run."""
        for subrun in self.subruns.values():
            below = subrun.transcript
            if isinstance(below, _Spanned) and below.started_at is not None:
                yield clip(without_context(below.question), _LANE_COLUMNS), self.log.ms(below.started_at), below

    def apply(self, event: StreamEvent) -> bool:
        """Take in the next event; whether it is new."""
        self.log.apply(event)
        return super().apply(event)


def _moved(span: Span, by_ms: float, lane: str) -> Span:
    """A span of a run that began so much later, in another lane."""
    end, first = (None if ms is None else ms + by_ms for ms in (span.end_ms, span.first_token_ms))
    return replace(span, lane=lane, start_ms=span.start_ms + by_ms, end_ms=end, first_token_ms=first)


def _figures(spans: Sequence[Span], use: AgentUse) -> list[int]:
    """The numbers of an agent, as `_COUNTED` names them."""
    kinds = Counter(span.kind for span in spans)
    failed = sum(span.status == "failed" for span in spans)
    return [kinds[MODEL], kinds[TOOL], failed, use.input_tokens, use.output_tokens]


def _spent_ms(spans: Sequence[Span], kind: str, now_ms: float) -> float:
    """How long spans of a kind took together; what was delegated is the time of others."""
    return sum(span.until(now_ms) - span.start_ms for span in spans if span.kind == kind and not span.is_delegation)


def _agents_html(agents: Table) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in agents.columns)
    rows = "".join(
        f'<tr><th scope="row">{html_text(name)}</th>{"".join(f"<td>{html_text(cell)}</td>" for cell in cells)}</tr>'
        for name, *cells in agents.rows
    )
    return f'<table class="af-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _table(spans: tuple[Span, ...], *, measured: bool) -> str:
    heads = [head for head in _HEADS if measured or head not in {"from", "took"}]
    rows = "".join(_row(span, measured=measured) for span in spans[:MOST_ROWS])
    left = len(spans) - MOST_ROWS
    more = f'<p class="af-quiet">… {count(left, "row")} more: wb.llm_calls_df(), wb.tool_calls_df()</p>'
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    return f'<table class="af-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>' + more * (left > 0)


def _row(span: Span, *, measured: bool) -> str:
    took = "…" if span.end_ms is None else duration(span.end_ms - span.start_ms)
    times = [duration(span.start_ms), took] if measured else []
    cells = [span.lane, span.kind, span.name, *times, span.status, span.detail if measured else ""]
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
