"""`DebugMiddleware`: a live table of model and tool calls with agent, time, tokens, prompts and results.

::

    debug = af.DebugMiddleware()
    wb = af.Workbench(middleware=[debug])
    debug                                    # updates in the output of this cell
"""

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock, Timer

from artifactflow_nb.core.middleware import CallError, Middleware, ModelCall, ModelOutcome, ToolInvocation, ToolOutcome
from artifactflow_nb.core.text.cards import Card, CardCell, CardMixin, CardRows, CardTable, Code, Details
from artifactflow_nb.core.text.format import count, duration
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.flows.compression import cut_text
from artifactflow_nb.widgets.page.display import Display, has_kernel

REDRAW_INTERVAL_S = 0.3
"""Calls within this interval are displayed together."""

_TEXT_CHARS = 6_000  # per prompt, reply and result, so that the output of the cell stays small
_COLUMNS = ("agent", "step", "call", "outcome", "time", "input tokens", "output tokens")

ObservedCall = ModelCall | ToolInvocation
CallOutcome = ModelOutcome | ToolOutcome | CallError


@dataclass(slots=True)
class _CallRow:
    """A call with its outcome; the outcome of a running call is None."""

    call: ObservedCall
    outcome: CallOutcome | None

    def cells(self) -> tuple[CardCell, ...]:
        """Return the row of the table, see `_COLUMNS`."""
        call, outcome = self.call, self.outcome
        subject = (call.step, Code(call.model)) if isinstance(call, ModelCall) else (None, Code(call.tool))
        usage = outcome.usage if isinstance(outcome, ModelOutcome) else None
        tokens = (None, None) if usage is None else (usage.input_tokens, usage.output_tokens)
        time = None if outcome is None or outcome.duration_ms is None else duration(outcome.duration_ms)
        status = "running" if outcome is None else outcome.error_type if isinstance(outcome, CallError) else "ok"
        return (call.agent, *subject, status, time, *tokens)

    def text(self) -> str:
        """Return the prompt or the parameters, then the reply, result or error."""
        call, outcome = self.call, self.outcome
        if isinstance(call, ModelCall):
            request = call.prompt
        else:
            request = "\n".join(f"{name}: {value}" for name, value in call.params.items())
        if isinstance(outcome, ModelOutcome):
            reasoning = f"[reasoning]\n{outcome.reasoning}\n\n" if outcome.reasoning else ""
            result = f"{reasoning}[reply]\n{outcome.content}"
        elif isinstance(outcome, ToolOutcome):
            result = f"[result]\n{outcome.data}"
        else:
            result = f"[{outcome.error_type}]\n{outcome.message}" if outcome else ""
        return "\n\n".join(cut_text(text, _TEXT_CHARS) for text in (request, result) if text)

    @property
    def title(self) -> str:
        """Summary line of the collapsible text."""
        call = self.call
        if isinstance(call, ToolInvocation):
            return f"{call.agent}: {call.tool}"
        size = f"{count(len(call.messages), 'message')}, {count(len(call.prompt), 'character')}"
        return f"{call.agent}, step {call.step}: prompt of {size}"


class DebugMiddleware(CardMixin, Middleware):
    """Middleware that displays the last calls; a notebook updates the most recent display.

    Args:
        last: Maximum number of displayed calls.

    Errors: `UsageError` unless `last` is a positive integer.
    """

    def __init__(self, last: int = 50) -> None:
        if isinstance(last, bool) or not isinstance(last, int) or last < 1:
            raise UsageError(f"last is {brief(last)}; it must be the number of displayed calls, a whole number from 1.")
        self._last = last
        self._rows: list[_CallRow] = []
        self._dropped_ids: set[str] = set()
        self._n_dropped = 0
        self._lock = Lock()
        self._display: Display | None = None
        self._timer: Timer | None = None

    async def after_model(self, call: ObservedCall, outcome: CallOutcome | None = None) -> None:
        """Add a running call, and drop the oldest call above the limit; or add the outcome of a displayed call."""
        with self._lock:
            row = next((row for row in reversed(self._rows) if _id(row.call) == _id(call)), None)
            if row is not None:
                row.outcome = outcome
            elif _id(call) in self._dropped_ids:
                self._dropped_ids.discard(_id(call))
            else:
                self._rows.append(_CallRow(call, outcome))
                if len(self._rows) > self._last:
                    first = min(self._rows, key=lambda row: row.call.at)  # calls may arrive in any order
                    self._rows.remove(first)
                    self._n_dropped += 1
                    if first.outcome is None:  # its outcome must not add the call again
                        self._dropped_ids.add(_id(first.call))
            self._redraw_soon()

    async def on_model_error(self, call: ObservedCall, error: CallError) -> None:
        """Add the error of a call."""
        await self.after_model(call, error)

    before_model = before_tool = after_tool = after_model
    on_tool_error = on_model_error

    def _redraw_soon(self) -> None:
        """Redraw after `REDRAW_INTERVAL_S`, unless a redraw is scheduled."""
        if self._display is not None and self._timer is None:
            self._timer = Timer(REDRAW_INTERVAL_S, self._redraw)
            self._timer.daemon = True  # the timer must not delay the end of the process
            self._timer.start()

    def _redraw(self) -> None:
        with self._lock:
            self._timer, display = None, self._display
        if display is not None:
            display.replace(self._card().output)

    def _ipython_display_(self) -> None:
        if not has_kernel():
            raise NotImplementedError  # IPython then displays the card
        display = Display(self._card().output)
        with self._lock:
            self._display = display
            self._redraw_soon()  # calls since the output was rendered

    def __repr__(self) -> str:
        return f"DebugMiddleware(last={self._last})"

    def _card(self) -> Card:
        with self._lock:
            calls, n_dropped = list(_nested(self._rows)), self._n_dropped
        outcomes = [row.outcome for row in calls if isinstance(row.outcome, ModelOutcome)]
        rows: CardRows = [
            ("tokens", sum(outcome.usage.total_tokens for outcome in outcomes)),
            ("time of models", duration(sum(outcome.duration_ms for outcome in outcomes))),
            ("earlier calls", n_dropped or None),
        ]
        if not calls:
            return Card("Calls", "none yet", note="Every call of a run is shown here as it happens.")
        table = CardTable(_COLUMNS, [row.cells() for row in calls])
        n_models = sum(isinstance(row.call, ModelCall) for row in calls)
        summary = f"{count(n_models, 'model call')}, {count(len(calls) - n_models, 'tool call')}"
        folds = (Details(row.title, Code(row.text())) for row in calls)
        return Card("Calls", summary, rows, [Details("Calls", table, is_open=True), *folds])


def _nested(rows: list[_CallRow]) -> Iterator[_CallRow]:
    """Yield the calls of each job in order, and the calls of a delegated job after the delegating call.

    The order is the same in every replay, although parallel jobs may finish in any order.
    """
    jobs: dict[tuple[str, str], list[_CallRow]] = {}
    for row in rows:
        jobs.setdefault((row.call.run_id, row.call.job_id), []).append(row)
    call_ids = {_id(row.call) for row in rows}
    jobs_by_caller: dict[str, list[tuple[str, str]]] = {}
    for key, (first, *_) in sorted(jobs.items(), key=lambda job: (job[1][0].call.at, job[0])):
        caller = first.call.caller_id
        jobs_by_caller.setdefault(caller if caller in call_ids else "", []).append(key)

    def walk(key: tuple[str, str]) -> Iterator[_CallRow]:
        for row in jobs[key]:
            yield row
            for job in jobs_by_caller.get(_id(row.call), ()):
                yield from walk(job)

    for key in jobs_by_caller.get("", ()):
        yield from walk(key)


def _id(call: ObservedCall) -> str:
    return call.call_id if isinstance(call, ModelCall) else call.tool_call_id
