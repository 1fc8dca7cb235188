"""Shows every model call and every tool call in the notebook while they happen: who, how long, tokens, prompt.

::

    debug = af.DebugMiddleware()
    wb = af.Workbench(middleware=[debug])
    debug                                    # grows in the output of this cell
"""

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock, Timer
from typing import Any

from artifactflow_nb.errors import UsageError
from artifactflow_nb.flows.context import cut_text
from artifactflow_nb.middleware import CallError, Middleware, ModelCall, ModelOutcome, ToolInvocation, ToolOutcome
from artifactflow_nb.text.cards import Card, Cell, Code, Fold, Rows, Table
from artifactflow_nb.text.figures import count, duration
from artifactflow_nb.widgets.display import Display, has_kernel, show_still

REDRAWN_AFTER_S = 0.3
"""How long what has happened waits for more to be shown with it."""

_TEXT_CHARS = 6_000  # of a prompt, a reply or a result: with many calls the output of the cell stays small
_COLUMNS = ("agent", "step", "call", "outcome", "time", "input tokens", "output tokens")

Call = ModelCall | ToolInvocation
Outcome = ModelOutcome | ToolOutcome | CallError


@dataclass(slots=True)
class _Seen:
    """A call with what came of it."""

    call: Call
    outcome: Outcome | None

    def cells(self) -> tuple[Cell, ...]:
        """Its row of the table."""
        call, outcome = self.call, self.outcome
        what = (call.step, Code(call.model)) if isinstance(call, ModelCall) else (None, Code(call.tool))
        usage = outcome.usage if isinstance(outcome, ModelOutcome) else None
        tokens = (None, None) if usage is None else (usage.input_tokens, usage.output_tokens)
        took = None if outcome is None or outcome.duration_ms is None else duration(outcome.duration_ms)
        said = "running" if outcome is None else outcome.error_type if isinstance(outcome, CallError) else "ok"
        return (call.agent, *what, said, took, *tokens)

    def text(self) -> str:
        """What was sent and what came back."""
        call = self.call
        sent = call.prompt if isinstance(call, ModelCall) else _params(call)
        return "\n\n".join(cut_text(text, _TEXT_CHARS) for text in (sent, self._came_back()) if text)

    def _came_back(self) -> str:
        outcome = self.outcome
        if isinstance(outcome, ModelOutcome):
            reasoning = f"[reasoning]\n{outcome.reasoning}\n\n" if outcome.reasoning else ""
            return f"{reasoning}[reply]\n{outcome.content}"
        if isinstance(outcome, ToolOutcome):
            return f"[result]\n{outcome.data}"
        return f"[{outcome.error_type}]\n{outcome.message}" if outcome else ""

    @property
    def title(self) -> str:
        """What is folded away, in a line."""
        call = self.call
        if isinstance(call, ToolInvocation):
            return f"{call.agent}: {call.tool}"
        sent = f"{count(len(call.messages), 'message')}, {count(len(call.prompt), 'character')}"
        return f"{call.agent}, step {call.step}: prompt of {sent}"


class DebugMiddleware(Middleware):
    """Shows the last calls of a workbench's runs; in a notebook it grows where it was displayed last.

    Args:
        last: How many calls are kept and shown.

    Errors: `UsageError` if that is no whole number from 1.
    """

    def __init__(self, last: int = 50) -> None:
        if isinstance(last, bool) or not isinstance(last, int) or last < 1:
            raise UsageError(f"last is {last!r}; it must be a whole number from 1: how many calls are shown.")
        self._last = last
        self._seen: list[_Seen] = []
        self._left_out: set[str] = set()
        self._n_left_out = 0
        self._lock = Lock()
        self._display: Display | None = None
        self._timer: Timer | None = None

    async def before_model(self, call: ModelCall) -> None:
        """Show that a model is asked."""
        self._note(call, None)

    async def after_model(self, call: ModelCall, outcome: ModelOutcome) -> None:
        """Show what it replied."""
        self._note(call, outcome)

    async def on_model_error(self, call: ModelCall, error: CallError) -> None:
        """Show why it did not."""
        self._note(call, error)

    async def before_tool(self, call: ToolInvocation) -> None:
        """Show that a tool runs."""
        self._note(call, None)

    async def after_tool(self, call: ToolInvocation, outcome: ToolOutcome) -> None:
        """Show what it gave."""
        self._note(call, outcome)

    async def on_tool_error(self, call: ToolInvocation, error: CallError) -> None:
        """Show why it did not."""
        self._note(call, error)

    def _note(self, call: Call, outcome: Outcome | None) -> None:
        """Keep a call, or what came of it; one that is not kept any more is let go."""
        with self._lock:
            known = next((seen for seen in reversed(self._seen) if _id(seen.call) == _id(call)), None)
            if known is not None:
                known.outcome = outcome
            elif _id(call) in self._left_out:
                self._left_out.discard(_id(call))
            else:
                self._seen.append(_Seen(call, outcome))
                self._leave_out()
            self._redraw_soon()

    def _leave_out(self) -> None:
        """Keep no more than the last: those that began latest, in whatever order they are told."""
        if len(self._seen) <= self._last:
            return
        first = min(self._seen, key=lambda seen: seen.call.at)
        self._seen.remove(first)
        self._n_left_out += 1
        if first.outcome is None:  # which is still to come
            self._left_out.add(_id(first.call))

    def _redraw_soon(self) -> None:
        """Draw shortly, with what comes until then; the timer is no thread that an end of the process waits for."""
        if self._display is not None and self._timer is None:
            self._timer = Timer(REDRAWN_AFTER_S, self._redraw)
            self._timer.daemon = True
            self._timer.start()

    def _redraw(self) -> None:
        with self._lock:
            self._timer, display = None, self._display
        if display is not None:
            display.replace(self._face())

    def _ipython_display_(self) -> None:
        if not has_kernel():
            show_still(self._face())
            return
        display = Display(self._face())
        with self._lock:
            self._display = display
            self._redraw_soon()  # what happened between the face and now

    def _face(self) -> dict[str, Any]:
        card = self._card()
        return {"text/plain": card.plain(), "text/markdown": card.markdown(), "text/html": card.html()}

    def __repr__(self) -> str:
        return f"DebugMiddleware(last={self._last})"

    def _card(self) -> Card:
        with self._lock:
            seen, n_left_out = list(_nested(self._seen)), self._n_left_out
        models = [one.outcome for one in seen if isinstance(one.outcome, ModelOutcome)]
        rows: Rows = [
            ("tokens", sum(one.usage.total_tokens for one in models)),
            ("time of models", duration(sum(one.duration_ms for one in models))),
            ("earlier calls", n_left_out or None),
        ]
        if not seen:
            return Card("Calls", "none yet", note="Every call of a run is shown here as it happens.")
        table = Table(_COLUMNS, [one.cells() for one in seen])
        n_models = sum(isinstance(one.call, ModelCall) for one in seen)
        told = f"{count(n_models, 'model call')}, {count(len(seen) - n_models, 'tool call')}"
        return Card("Calls", told, rows, [Fold("Calls", table, is_open=True), *_folds(seen)])


def _nested(seen: list[_Seen]) -> Iterator[_Seen]:
    """Each job's calls in their order, those of the jobs that work for a call behind it.

    So they stand in the same places in each replay, whichever job is faster.
    """
    jobs: dict[tuple[str, str], list[_Seen]] = {}
    for one in seen:
        jobs.setdefault((one.call.run_id, one.call.job_id), []).append(one)
    calls = {_id(one.call) for one in seen}
    below: dict[str, list[tuple[str, str]]] = {}
    for key, (first, *_) in sorted(jobs.items(), key=lambda job: (job[1][0].call.at, job[0])):
        caller = first.call.caller_id
        below.setdefault(caller if caller in calls else "", []).append(key)

    def walk(key: tuple[str, str]) -> Iterator[_Seen]:
        for one in jobs[key]:
            yield one
            for job in below.get(_id(one.call), ()):
                yield from walk(job)

    for key in below.get("", ()):
        yield from walk(key)


def _folds(seen: list[_Seen]) -> Iterator[Fold]:
    return (Fold(one.title, Code(one.text())) for one in seen)


def _id(call: Call) -> str:
    return call.call_id if isinstance(call, ModelCall) else call.tool_call_id


def _params(call: ToolInvocation) -> str:
    return "\n".join(f"{name}: {value}" for name, value in call.params.items())
