"""The seam between a run and what comes from outside: its models, its tools, the person, the time, the numbers.

::

    a run ──> Tape ──> LiveTape: the world as it is
                  └──> Player:   the world as it was recorded
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from artifactflow_nb.approvals import Decision
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.recordings.clock import RunClock
from artifactflow_nb.recordings.pieces import Piece
from artifactflow_nb.recordings.values import RecordedAsk, RecordedTurn

Provenance = Literal["off", "recorded", "hit"]


@dataclass(frozen=True, slots=True)
class Asking:
    """A model call that is about to be made.

    Attributes:
        call_id: Its id.
        agent: Who asks.
        job_id: For which job.
        step: In which step of it.
        model: The name of the model that is asked.
        request: What it is asked for.
    """

    call_id: str
    agent: str
    job_id: str
    step: int
    model: str
    request: ModelRequest


@dataclass(frozen=True, slots=True)
class GivenUp:
    """That an attempt at a model call was given up when the run's process was closed; the next is another's.

    Attributes:
        pieces: What had arrived.
        partial: The answer text of it.
    """

    pieces: Sequence[Piece]
    partial: str


@dataclass(frozen=True, slots=True)
class Calling:
    """A tool call that is about to be made.

    Attributes:
        tool_call_id: Its id.
        agent: Who calls.
        tool: The tool's name.
        args: Its parameters as the model wrote them.
        runs_again: Whether a replay runs it too, because what it does is kept in the store of the run.
        notify: Tells those who listen, as the tool itself does: event type and payload.
    """

    tool_call_id: str
    agent: str
    tool: str
    args: Mapping[str, Any]
    runs_again: bool
    notify: Callable[[str, Mapping[str, Any]], None]


class Numbers(Protocol):
    """Where the numbers of a run's events come from."""

    def next(self, lane: str) -> int:
        """The number of the next event of a lane."""

    def is_due(self, seq: int) -> bool:
        """Whether the event of this number is to be told now, and is taken as told; else others come before it."""


class CountedNumbers:
    """Events are numbered as they happen.

    Args:
        last: The number of the last event so far.
    """

    def __init__(self, last: int) -> None:
        self._last = last

    def next(self, lane: str) -> int:
        """One more than the last."""
        del lane
        self._last += 1
        return self._last

    def is_due(self, seq: int) -> bool:
        """Always: they come in order."""
        del seq
        return True


class Tape(Protocol):
    """What a run takes from outside."""

    @property
    def clock(self) -> RunClock:
        """Its time."""

    def driven_by(self, cancel: Callable[[], object]) -> None:
        """Note how the run is cancelled: a recording may say when."""

    def numbers(self, last: int) -> Numbers:
        """The numbers of the events after the one with this number."""

    def look_up(self, asking: Asking) -> RecordedTurn | None:
        """What is recorded of a model call that is about to be made; None if it has to be made."""

    def instruction(self, job_id: str, step: int, told: str) -> str:
        """What a job is asked in a step: what it was told, or what is put in the place of that."""

    def model(self, call_id: str, chosen: str | None) -> str | None:
        """The model that is asked in a call: the one that was chosen for the run, or another."""

    def stream(
        self, asking: Asking, live: Callable[[], AsyncIterator[ModelEvent]]
    ) -> AsyncIterator[ModelEvent | GivenUp]:
        """Take a model turn, after it was looked up; `live` asks the model itself."""

    async def result(self, calling: Calling, live: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Carry out a tool call; `live` runs the tool itself."""

    def given(self, tool_call_id: str) -> ToolResult | None:
        """What is put in the place of a call's result, which is not carried out then; None for most."""

    def provenance(self, key: str) -> Provenance:
        """Where the result of a call, by its id, comes from."""

    def knows(self, subject: str) -> bool:
        """Whether it is recorded if something was asked about a subject, and what was decided."""

    def ask(self, subject: str) -> RecordedAsk | None:
        """What was asked about a subject that is known; None if nothing was."""

    def answers(self, *, by_code: bool) -> Sequence[tuple[str, RecordedAsk]]:
        """What a person decided until the run pauses next, by subject and in order, so far as it was not taken.

        Unless what code decided is asked for too, the first such ends it: the code is there to do so again.
        """

    async def until_code(self, asked: RecordedAsk, is_decided: Callable[[], Awaitable[bool]]) -> None:
        """Give code the time to decide this, if it had."""

    async def until_taken(self, subjects: Sequence[str]) -> None:
        """Return when none of these is left that a click decides before the run pauses next."""

    def paused(self) -> None:
        """Note that the run pauses."""

    @property
    def stops(self) -> bool:
        """Whether the run ends here by itself: it was cancelled before anything else happened."""

    @property
    def ends_unpaused(self) -> bool:
        """Whether the run, which is about to wait, ends instead: it was cancelled before it came to that."""

    @property
    def was_stopped(self) -> bool:
        """Whether a click ended the run."""

    def waits_for(self, request_id: str) -> bool:
        """Whether the run pauses while this request of a run that it began is open, or goes on beside it."""

    async def before(self, tool_call_id: str) -> None:
        """Return, unless the run was cut off before it made this tool call."""

    async def within(self, key: str) -> None:
        """Return, unless the run was cut off within this tool call, or before it made this model call."""

    def took(self, subject: str) -> None:
        """Note that a decision was taken from the recording."""

    def decided(self, subject: str, decision: Decision) -> datetime | None:
        """When this decision, which somebody takes now, was taken; None if it is a new one."""


class LiveTape:
    """The world as it is.

    Args:
        clock: The run's clock.
        is_recorded: Whether what comes of it goes into a cassette.
    """

    def __init__(self, clock: RunClock, *, is_recorded: bool = False) -> None:
        self.clock = clock
        self._provenance: Provenance = "recorded" if is_recorded else "off"

    def driven_by(self, cancel: Callable[[], object]) -> None:
        """Whoever cancels a run does it by themselves."""

    def numbers(self, last: int) -> Numbers:
        """Counted on from the last."""
        return CountedNumbers(last)

    def look_up(self, asking: Asking) -> RecordedTurn | None:
        """Nothing is recorded."""
        del asking
        return None

    def instruction(self, job_id: str, step: int, told: str) -> str:
        """What it was told."""
        del job_id, step
        return told

    def model(self, call_id: str, chosen: str | None) -> str | None:
        """The one that was chosen."""
        del call_id
        return chosen

    def stream(self, asking: Asking, live: Callable[[], AsyncIterator[ModelEvent]]) -> AsyncIterator[ModelEvent]:
        """Ask the model."""
        del asking
        return live()

    async def result(self, calling: Calling, live: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Run the tool."""
        del calling
        return await live()

    def given(self, tool_call_id: str) -> ToolResult | None:
        """Nothing."""
        del tool_call_id
        return None

    def provenance(self, key: str) -> Provenance:
        """The same for all calls."""
        del key
        return self._provenance

    def knows(self, subject: str) -> bool:
        """Nothing is known."""
        del subject
        return False

    def ask(self, subject: str) -> RecordedAsk | None:
        """Nothing was asked."""
        del subject
        return None

    def answers(self, *, by_code: bool) -> Sequence[tuple[str, RecordedAsk]]:
        """The person answers by themselves."""
        del by_code
        return ()

    async def until_code(self, asked: RecordedAsk, is_decided: Callable[[], Awaitable[bool]]) -> None:
        """Nothing is recorded."""

    async def until_taken(self, subjects: Sequence[str]) -> None:
        """Decisions come when they come."""
        del subjects

    def paused(self) -> None:
        """Nothing depends on it."""

    @property
    def stops(self) -> bool:
        """Whoever cancels a run does it by themselves."""
        return False

    @property
    def ends_unpaused(self) -> bool:
        """The same."""
        return False

    @property
    def was_stopped(self) -> bool:
        """Whoever does so says it."""
        return False

    def waits_for(self, request_id: str) -> bool:
        """It pauses."""
        del request_id
        return True

    async def before(self, tool_call_id: str) -> None:
        """Nothing is recorded."""

    async def within(self, key: str) -> None:
        """Nothing is recorded."""

    def took(self, subject: str) -> None:
        """Nothing is recorded."""

    def decided(self, subject: str, decision: Decision) -> datetime | None:
        """All decisions are new."""
        del subject, decision
        return None
