"""Lists of what a run gives and waits for: events, requests, and runs themselves."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from artifactflow_nb.approvals import ApprovalRequest
from artifactflow_nb.events import StreamEvent
from artifactflow_nb.recordings.steps import Step
from artifactflow_nb.text.cards import Cell, Code
from artifactflow_nb.text.figures import moment
from artifactflow_nb.text.listing import Listing
from artifactflow_nb.text.width import clip

if TYPE_CHECKING:
    from artifactflow_nb.run import Run

_DATA_COLUMNS = 80
_STEPS_COLUMNS = 300


class EventList(Listing[StreamEvent]):
    """Events of a run, in order."""

    def _columns(self) -> Sequence[str]:
        return ["seq", "time", "type", "agent", "tool", "data"]

    def _cells(self, value: StreamEvent, /) -> Sequence[Cell]:
        data = Code(clip(value.data_json(), _DATA_COLUMNS))
        return [value.seq, f"{value.timestamp:%H:%M:%S.%f}", value.type.value, value.agent, value.tool, data]

    def _nothing(self) -> str:
        return "No events yet."


class RequestList(Listing[ApprovalRequest]):
    """Requests that wait for a decision, the oldest first."""

    def _columns(self) -> Sequence[str]:
        return ["request", "agent", "tool", "run", "id"]

    def _cells(self, value: ApprovalRequest, /) -> Sequence[Cell]:
        return [value.title, value.agent, value.tool, Code(value.run_id), Code(value.id)]

    def _nothing(self) -> str:
        return "Nothing waits for a decision."

    def _remarks(self) -> list[str]:
        plans = [(one.title, "; ".join(title for title, *_ in one.steps)) for one in self if one.steps]
        return [*(clip(f"{title}: {steps}", _STEPS_COLUMNS) for title, steps in plans), *super()._remarks()]

    def _note(self) -> str:
        first = self[0].id
        return f'Decide with wb.approve("{first}") or wb.deny("{first}", "why"); the run goes on at once.'


class StepList(Listing[Step]):
    """The steps of a run in the order in which they began, for `run.fork(step)`."""

    def _columns(self) -> Sequence[str]:
        return ["step", "job", "agent", "did", "what came of it"]

    def _cells(self, value: Step, /) -> Sequence[Cell]:
        return [value.number, Code(value.path), value.agent, value.told, clip(value.outcome, _DATA_COLUMNS)]

    def _nothing(self) -> str:
        return "No steps yet."


class RunList(Listing["Run"]):
    """Runs, each of which is a handle.

    Args:
        runs: What the list holds.
        nothing: What it says if it holds none.
    """

    def __init__(self, runs: "Iterable[Run]", nothing: str = "No runs.") -> None:
        super().__init__(runs)
        self._empty = nothing

    def _slice(self, values: "Sequence[Run]") -> "RunList":
        return RunList(values, self._empty)

    def _columns(self) -> Sequence[str]:
        return ["status", "question", "began", "id"]

    def _cells(self, value: "Run", /) -> Sequence[Cell]:
        return [value.status, value.question, moment(value.started_at), Code(value.run_id)]

    def _nothing(self) -> str:
        return self._empty
