"""Spans of a run (model calls, tool calls and waits for a person), and their layout on a time scale.

Spans are built from events one by one, so that a view can draw a running run; the stored events of a finished run give
the same spans. In a layout each agent has a lane, with a row per parallel activity.

A person may take three hours to decide on a request that came after three seconds. On a linear scale only the wait
would be visible, so long gaps without work are drawn as narrow bands.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from artifactflow_nb.analysis.plots.svg import tick_step
from artifactflow_nb.core.approvals import DENIED_ERRORS
from artifactflow_nb.core.events import MAIN_JOB, StreamEvent, StreamEventType
from artifactflow_nb.core.plan import DELEGATING_TOOLS
from artifactflow_nb.core.text.format import clip

MODEL, TOOL, WAIT = "model", "tool", "wait"
_DETAIL_COLUMNS = 160
_RUNNING_MARGIN = 1.05
_ENDINGS = {StreamEventType.COMPLETE: "ok", StreamEventType.CANCELLED: "cancelled", StreamEventType.ERROR: "failed"}


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """An interval in a run. All times are milliseconds since the start of the run.

    Attributes:
        lane: Name of the agent, and the title of a plan step or the question of a child run, if any.
        kind: `model`, `tool` or `wait` (for a person).
        name: Name of the model, or of the called or requested tool.
        end_ms: End; None for a running span.
        first_token_ms: Time of a model's first text; None before the text, and for other kinds.
        status: `running`; for a model or tool then `ok`, `failed`, `denied` or `cancelled`; for a wait `waiting`, then
            the decision (`approved`, `edited`, `denied`, `instructed`) or `cancelled`.
        group: The run if several runs are drawn, or an empty string.
        tokens: Input and output tokens of a model call; None if unknown.
    """

    lane: str
    kind: str
    name: str
    start_ms: float
    end_ms: float | None = None
    first_token_ms: float | None = None
    status: str = "running"
    detail: str = ""
    group: str = ""
    tokens: tuple[int | None, int | None] = (None, None)

    @property
    def is_delegation(self) -> bool:
        """Whether the span covers the spans of another agent or run."""
        return self.kind == TOOL and DELEGATING_TOOLS.get(self.name) is not None

    def end_at(self, now_ms: float) -> float:
        """Return the end of the span, or `now_ms` for a running span."""
        return max(now_ms if self.end_ms is None else self.end_ms, self.start_ms)


def last_time_ms(spans: Sequence[TimelineSpan]) -> float:
    """Return the latest time in the spans, plus a margin that makes a running span visible."""
    last = max((max(span.start_ms, span.end_ms or 0.0) for span in spans), default=0.0)
    return last if all(span.end_ms is not None for span in spans) else max(last * _RUNNING_MARGIN, last + 1.0)


def covered_ms(spans: Sequence[tuple[float, float]], within: Sequence[tuple[float, float]]) -> float:
    """Return the milliseconds of `within`, disjoint intervals, that at least one of the spans covers."""
    total = 0.0
    for start, end in within:
        covered_until = start
        for span_start, span_end in sorted(spans):
            total += max(min(span_end, end) - max(span_start, covered_until), 0.0)
            covered_until = max(covered_until, min(span_end, end))
    return total


def step_lane(agent: str, title: str) -> str:
    """Return the lane of an agent in a plan step or in a child run."""
    return f"{agent}: {title}"


def detail_line(text: object) -> str:
    """Convert a value to one line, cut to the width of a detail."""
    return clip(str(text or ""), _DETAIL_COLUMNS)


class SpanLog:
    """Builds spans from the events of a run; text chunks may be missing.

    The time per event does not depend on the length of the run.

    Attributes:
        last_ms: Time of the latest event, in milliseconds since the start of the run.
        pauses: The pauses that have ended: start and end, in milliseconds since the start of the run.
        step_lanes: The lanes of the steps of plans, by job.
    """

    def __init__(self) -> None:
        self.pauses: list[tuple[float, float]] = []
        self._paused_at_ms: float | None = None
        self._spans: dict[str, TimelineSpan] = {}
        self._started_at: datetime | None = None
        self._model_spans: dict[str, str] = {}  # key of the running model span, by job
        self.step_lanes: dict[str, str] = {}
        self._n_calls = 0
        self._seq = 0
        self.last_ms = 0.0

    @property
    def spans(self) -> tuple[TimelineSpan, ...]:
        """All spans, sorted by start."""
        return tuple(sorted(self._spans.values(), key=lambda span: span.start_ms))

    def ms(self, moment: datetime) -> float:
        """Return the milliseconds from the start of the run to a time, or 0 before the first event."""
        return 0.0 if self._started_at is None else max((moment - self._started_at).total_seconds() * 1000, 0.0)

    def apply(self, event: StreamEvent) -> None:
        """Apply the next event; an event that was applied before is ignored."""
        if event.seq <= self._seq:
            return
        self._seq = event.seq
        self._started_at = self._started_at or event.timestamp
        self.last_ms = max(self.last_ms, self.ms(event.timestamp))
        now_ms = self.ms(event.timestamp)
        if self._paused_at_ms is not None:
            self.pauses.append((self._paused_at_ms, max(now_ms, self._paused_at_ms)))
        is_pause = event.type is StreamEventType.COMPLETE and not event.is_terminal
        self._paused_at_ms = now_ms if is_pause else None
        if event.is_terminal:
            for key, span in self._spans.items():
                if span.end_ms is None:
                    status = "cancelled" if span.kind == WAIT else _ENDINGS[event.type]
                    start_ms = min(span.start_ms, now_ms)  # a retry may start later
                    self._spans[key] = replace(span, start_ms=start_ms, end_ms=now_ms, status=status)
            return
        data, job = event.data, str(event.data.get("job_id") or MAIN_JOB)
        lane = self.step_lanes.get(job) or event.agent or ""
        match event.type:
            case StreamEventType.STEP_START:
                self.step_lanes[job] = step_lane(event.agent or "", str(data.get("title") or ""))
            case (
                StreamEventType.AGENT_START
                | StreamEventType.LLM_CHUNK
                | StreamEventType.RETRY
                | StreamEventType.LLM_COMPLETE
            ):
                self._apply_to_model_call(event, job, lane, now_ms)
            case StreamEventType.TOOL_START | StreamEventType.TOOL_COMPLETE:
                key, tool = f"tool {data['tool_call_id']}", event.tool or ""
                if key not in self._spans:  # a call that is repeated after a crash keeps its first start
                    title = (data.get("params") or {}).get(DELEGATING_TOOLS.get(tool))
                    self._spans[key] = TimelineSpan(lane, TOOL, tool, now_ms, detail=detail_line(title))
                if event.type is StreamEventType.TOOL_COMPLETE:
                    is_denied = (data.get("metadata") or {}).get("error_type") in DENIED_ERRORS
                    status = "ok" if data.get("success") else "denied" if is_denied else "failed"
                    detail = detail_line(data.get("error")) or self._spans[key].detail
                    self._spans[key] = replace(self._spans[key], end_ms=now_ms, status=status, detail=detail)
            case StreamEventType.PERMISSION_REQUEST:  # each resume publishes the open requests again
                wait = TimelineSpan(lane, WAIT, event.tool or "", now_ms, status="waiting")
                self._spans.setdefault(f"wait {data['id']}", wait)
            case StreamEventType.PERMISSION_RESULT if (key := f"wait {data['id']}") in self._spans:
                if data.get("decided_by") in {"policy", "reviewer"}:  # nobody had to wait
                    del self._spans[key]
                    return
                decision = data.get("decision") or ("approved" if data.get("approved") else "denied")
                detail = detail_line(data.get("instruction"))
                self._spans[key] = replace(self._spans[key], end_ms=now_ms, status=str(decision), detail=detail)

    def _start_model_call(self, job: str, lane: str, model: str, now_ms: float) -> str:
        """Start the model span of a job, and return its key."""
        self._n_calls += 1
        key = f"model {self._n_calls}"
        self._model_spans[job] = key
        self._spans[key] = TimelineSpan(lane, MODEL, model, now_ms)
        return key

    def _apply_to_model_call(self, event: StreamEvent, job: str, lane: str, now_ms: float) -> None:
        key, data = self._model_spans.get(job), event.data
        if event.type is StreamEventType.AGENT_START:
            if key is not None:  # the process died in this turn, which a resume starts again
                del self._spans[key]
            self._start_model_call(job, lane, str(data.get("model") or MODEL), now_ms)
        elif event.type is StreamEventType.LLM_COMPLETE:
            key = key or self._start_model_call(job, lane, MODEL, now_ms)
            del self._model_spans[job]
            span = self._spans[key]
            duration_ms, ttft_ms, usage = data.get("duration_ms"), data.get("ttft_ms"), data.get("token_usage") or {}
            start_ms = span.start_ms if duration_ms is None else max(now_ms - duration_ms, 0.0)
            self._spans[key] = replace(
                span,
                name=str(data.get("model") or span.name),
                start_ms=start_ms,
                end_ms=now_ms,
                first_token_ms=span.first_token_ms if ttft_ms is None else min(start_ms + ttft_ms, now_ms),
                status="ok",
                tokens=(usage.get("input_tokens"), usage.get("output_tokens")),
            )
        elif key is not None and event.type is StreamEventType.RETRY:
            failed = replace(self._spans[key], end_ms=now_ms, status="failed", detail=detail_line(data.get("reason")))
            self._spans[key] = failed
            self._start_model_call(job, lane, failed.name, now_ms + 1000 * float(data.get("delay_s") or 0))
        elif key is not None and self._spans[key].first_token_ms is None:
            self._spans[key] = replace(self._spans[key], first_token_ms=now_ms)


# A gap longer than this length and this share of the work time becomes a band, which takes `_BAND_SHARE` of the time.
_MIN_FOLD_MS = 2000
_MIN_FOLD_SHARE = 0.6
_BAND_SHARE = 0.12


@dataclass(frozen=True, slots=True)
class IdleGap:
    """A folded gap without work: its start, its end and its drawn length, in milliseconds."""

    start_ms: float
    end_ms: float
    drawn_ms: float

    @property
    def saved_ms(self) -> float:
        """Difference between the actual and the drawn length."""
        return self.end_ms - self.start_ms - self.drawn_ms


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Mapping of times to positions, both in milliseconds since the start of the run.

    Attributes:
        folds: Folded gaps, in order.
    """

    end_ms: float
    folds: tuple[IdleGap, ...] = ()

    @property
    def drawn_ms(self) -> float:
        """Drawn length of the whole scale."""
        return self.position(self.end_ms)

    def position(self, ms: float) -> float:
        """Return the position of a time on the scale."""
        position = ms
        for fold in self.folds:
            if ms >= fold.end_ms:
                position -= fold.saved_ms
            elif ms > fold.start_ms:
                part = (ms - fold.start_ms) / (fold.end_ms - fold.start_ms)
                return position - (ms - fold.start_ms) + part * fold.drawn_ms
        return position

    def ticks(self, n_most: int) -> list[float]:
        """Return about `n_most` round times outside the folds."""
        if self.end_ms <= 0:
            return [0.0]
        step = tick_step(self.drawn_ms / 1000, n_most) * 1000
        edges = [0.0, *(edge for fold in self.folds for edge in (fold.start_ms, fold.end_ms)), self.end_ms]
        ticks = []
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            first, last = -int(-start // step), int((end + 1e-6) // step)  # the first is rounded up
            ticks += [number * step for number in range(first, last + 1)]
        return ticks


def time_scale(spans: Sequence[TimelineSpan], now_ms: float) -> TimeScale:
    """Build the scale for spans; running spans extend to `now_ms`."""
    end = max((span.end_at(now_ms) for span in spans), default=0.0)
    # A delegation is left out, because the spans of the delegated job show when work was done.
    working = (span for span in spans if span.kind != WAIT and not span.is_delegation)
    gaps, free_from = [], 0.0
    for start, stop in [*sorted((span.start_ms, span.end_at(now_ms)) for span in working), (end, end)]:
        if start > free_from:
            gaps.append((free_from, start))
        free_from = max(free_from, stop)
    work_ms = end - sum(stop - start for start, stop in gaps)
    band_ms = max(work_ms * _BAND_SHARE, 1.0)
    longest = max(work_ms * _MIN_FOLD_SHARE, _MIN_FOLD_MS)
    folds = (IdleGap(start, stop, band_ms) for start, stop in gaps if stop - start > longest and work_ms > 0)
    return TimeScale(end, tuple(folds))


MAX_ROWS = 10
MAX_LANES = 60
_OVERLAP_MS = 1.0
"""Tolerance for an overlap: start and end may come from two clocks."""


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """Spans of one agent in one run.

    Attributes:
        group: The run if several runs are drawn, or an empty string.
        rows: Spans in rows without overlaps.
        n_left_out: Number of spans that are not drawn, since more than `MAX_ROWS` overlap.
    """

    group: str
    name: str
    rows: tuple[tuple[TimelineSpan, ...], ...]
    n_left_out: int = 0


@dataclass(frozen=True, slots=True)
class SpanCluster:
    """Spans drawn as one bar: a single span, or neighbours that are too narrow to distinguish."""

    spans: tuple[TimelineSpan, ...]
    start_ms: float
    end_ms: float


def build_lanes(spans: Sequence[TimelineSpan], now_ms: float) -> tuple[TimelineLane, ...]:
    """Arrange spans, sorted by start, in lanes; runs and agents are in the order of their first span."""
    by_lane: dict[tuple[str, str], list[TimelineSpan]] = {}
    groups = dict.fromkeys(span.group for span in spans)
    for span in spans:
        by_lane.setdefault((span.group, span.lane), []).append(span)
    order = {group: index for index, group in enumerate(groups)}
    keys = sorted(by_lane, key=lambda key: order[key[0]])
    return tuple(_lane(*key, by_lane[key], now_ms) for key in keys)


def _lane(group: str, name: str, spans: Sequence[TimelineSpan], now_ms: float) -> TimelineLane:
    rows: list[list[TimelineSpan]] = []
    free_from: list[float] = []
    n_left_out = 0
    for span in spans:
        index = next((i for i, free in enumerate(free_from) if free <= span.start_ms + _OVERLAP_MS), len(rows))
        if index == MAX_ROWS:
            n_left_out += 1
            continue
        if index == len(rows):
            rows.append([])
            free_from.append(0.0)
        rows[index].append(span)
        free_from[index] = span.end_at(now_ms)
    return TimelineLane(group, name, tuple(map(tuple, rows)), n_left_out)


def clusters(row: Sequence[TimelineSpan], now_ms: float, narrow_ms: float) -> Iterator[SpanCluster]:
    """Group a row into bars: neighbours of a kind merge if both spans and the gap are below `narrow_ms`."""
    pending: list[TimelineSpan] = []
    for span in row:
        if pending:
            last = pending[-1]
            joins = (
                span.kind == last.kind
                and span.start_ms - last.end_at(now_ms) <= narrow_ms
                and span.end_at(now_ms) - span.start_ms <= narrow_ms
                and last.end_at(now_ms) - last.start_ms <= narrow_ms
            )
            if not joins:
                yield _cluster(pending, now_ms)
                pending = []
        pending.append(span)
    if pending:
        yield _cluster(pending, now_ms)


def _cluster(spans: Sequence[TimelineSpan], now_ms: float) -> SpanCluster:
    return SpanCluster(tuple(spans), spans[0].start_ms, spans[-1].end_at(now_ms))
