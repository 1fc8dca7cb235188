"""Display lists of runs, and of the events, approval requests and steps of runs."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from artifactflow_nb.core.approvals import ApprovalRequest
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.core.language import agent_label
from artifactflow_nb.core.text.cards import CardCell, Code, DisplayList
from artifactflow_nb.core.text.format import clip, format_local_time
from artifactflow_nb.recording.steps import Step

if TYPE_CHECKING:
    from artifactflow_nb.notebook.run import Run
    from artifactflow_nb.widgets.page.panel import Panel

_DATA_COLUMNS = 80
_STEPS_COLUMNS = 300


class EventList(DisplayList[StreamEvent]):
    """Events of a run, in order."""

    def _columns(self) -> Sequence[str]:
        return ["seq", "time", "type", "agent", "tool", "data"]

    def _cells(self, value: StreamEvent, /) -> Sequence[CardCell]:
        data = Code(clip(value.data_json(), _DATA_COLUMNS))
        return [value.seq, f"{value.timestamp:%H:%M:%S.%f}", value.type.value, value.agent, value.tool, data]

    def _nothing(self) -> str:
        return "No events yet."


class RequestList(DisplayList[ApprovalRequest]):
    """Requests that wait for a decision, the oldest request first.

    `panel` displays the requests with buttons; without a panel, a table is displayed.
    """

    def __init__(self, values: Iterable[ApprovalRequest], panel: "Panel | None" = None) -> None:
        super().__init__(values)
        self._panel = panel

    def _ipython_display_(self) -> None:
        if self._panel is None or not self._panel.is_live:
            raise NotImplementedError  # IPython then displays the table
        self._panel._ipython_display_()

    def _columns(self) -> Sequence[str]:
        return ["request", "agent", "tool", "run", "id"]

    def _cells(self, value: ApprovalRequest, /) -> Sequence[CardCell]:
        return [value.sentence, agent_label(value.agent), value.tool, Code(value.run_id), Code(value.id)]

    def _nothing(self) -> str:
        return "Nothing waits for a decision."

    def _remarks(self) -> list[str]:
        plans = [
            (request.sentence, "; ".join(title for title, *_ in request.steps)) for request in self if request.steps
        ]
        return [*(clip(f"{title}: {steps}", _STEPS_COLUMNS) for title, steps in plans), *super()._remarks()]

    def _note(self) -> str:
        return f"{self[0].advice} The run continues at once."


class StepList(DisplayList[Step]):
    """The steps of a run, ordered by start, for `run.fork(step)`."""

    def _columns(self) -> Sequence[str]:
        return ["step", "job", "agent", "action", "result"]

    def _cells(self, value: Step, /) -> Sequence[CardCell]:
        return [value.number, Code(value.path), value.agent, value.description, clip(value.outcome, _DATA_COLUMNS)]

    def _nothing(self) -> str:
        return "No steps yet."


class RunList(DisplayList["Run"]):
    """A list of run handles. `nothing` is the text of an empty list."""

    def __init__(self, runs: "Iterable[Run]", nothing: str = "No runs.") -> None:
        super().__init__(runs)
        self._empty = nothing

    def _slice(self, values: "Sequence[Run]") -> "RunList":
        return RunList(values, self._empty)

    def _columns(self) -> Sequence[str]:
        return ["status", "question", "began", "time", "tokens", "cost", "id"]

    def _cells(self, value: "Run", /) -> Sequence[CardCell]:
        entry = value.entry
        usage = [entry.time_text, entry.tokens_text, entry.cost_text]
        began = format_local_time(value.started_at)
        return [value.status, value.question, began, *usage, Code(entry.run.short_id)]

    def _nothing(self) -> str:
        return self._empty
