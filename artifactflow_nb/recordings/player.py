"""A run that was recorded, played again: models, tools, person and time are as they were.

The run really runs: it builds its prompts, reads the replies, writes its artifacts. What it asks for is looked up by
its place in the run and compared with what was asked there; a difference is a finding, and never answered otherwise.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from artifactflow_nb.ambient import Clock
from artifactflow_nb.approvals import BUDGET, Decision
from artifactflow_nb.errors import CassetteMiss
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.models.base import ModelEvent, RetryNotice
from artifactflow_nb.plans import PLAN_CREATE
from artifactflow_nb.recordings.answers import PATIENCE_S, Answers
from artifactflow_nb.recordings.change import Change
from artifactflow_nb.recordings.clock import RUN, RecordedClock, Times
from artifactflow_nb.recordings.likeness import count_otherwise, has_masks, told_of_masked_call
from artifactflow_nb.recordings.misses import told_of_decision, told_of_prompt, told_of_unknown
from artifactflow_nb.recordings.numbers import RecordedNumbers
from artifactflow_nb.recordings.played import places_of_answers, prompt_of, raised, spans, streamed, tell, works_after
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.recordings.tape import Asking, Calling, GivenUp, Numbers, Provenance
from artifactflow_nb.recordings.values import (
    RecordedCall,
    RecordedRun,
    RecordedTurn,
    call_id,
    given_up,
    job_ids,
    lane_of_answer,
    planned_job,
    tool_call_id,
)

CANCELLED = "cancelled"
_NEVER = (-1, 0)
_ENDED = {"completed", "failed", CANCELLED}


class Player(Answers):
    """The tape of a recorded run.

    Args:
        recording: The run.
        clock: The clock for what is not recorded.
        is_strict: Whether what was not recorded is an error; otherwise it is made anew, and with it what follows.
        audits: Whether a request that differs is noted, and given what was recorded all the same; and decisions that
            code took are taken too, since no code is there that takes them again.
        masker: Compares what is with what was recorded, from which secrets were taken; None for one that knows none.

    Attributes:
        clock: Its time.
        differences: What an audit noted.
        is_cut: Whether the run was cancelled while it was at work: the replay then ends there by itself.
        was_stopped: Whether a click ended the run.
        ends_by_itself: Whether the replay ends it where it was cancelled; else code that cancelled it does so again.
    """

    def __init__(
        self,
        recording: RecordedRun,
        clock: Clock,
        *,
        is_strict: bool = True,
        audits: bool = False,
        masker: Masker | None = None,
    ) -> None:
        super().__init__(recording, audits=audits)
        self._is_strict = is_strict
        self.differences: list[str] = []
        self._masker = masker or Masker()
        self._change = Change.of_settings(recording.settings)
        self._jobs = job_ids(recording.run_id, recording.turns)
        self._turns = {self._id_of(turn): turn for turn in recording.turns}
        self._given_up = given_up(recording.turns)
        self._calls = {
            tool_call_id(key, position): call
            for key, turn in self._turns.items()
            for position, call in enumerate(turn.calls)
        }
        self._asks |= {key: call.ask for key, call in self._calls.items() if call.ask is not None}
        self._asks |= {self._budget(n): ask for n, ask in enumerate(recording.budget_asks)}
        self._asks |= recording.interrupts
        self._looked_up: dict[str, RecordedTurn | CassetteMiss] = {}
        self._hits: set[str] = set()
        self._numbers: RecordedNumbers | None = None
        has_ended = recording.status in _ENDED
        self._pauses = recording.ends[:-1] if has_ended else recording.ends
        self._told = places_of_answers(self._asks, self._pauses, map(self._lane, recording.order))
        self.clock = RecordedClock(clock, recording.started_at, self._spans(), self._reads())
        has_begun = recording.status != CANCELLED or set(recording.order) != {RUN}
        works_on = self._works_after(max(self._pauses, default=None)) or recording.subruns_worked
        was_at_work = has_begun and works_on
        self.is_cut = recording.status == CANCELLED and (was_at_work or self._is_open())
        self.was_stopped, self.ends_by_itself = recording.was_stopped, self.is_cut or not has_begun
        self._may_stop = recording.status == CANCELLED and not was_at_work
        self._cuts = {key for key, turn in self._turns.items() if turn.was_cut and turn.place not in self._given_up}
        self._cuts |= {key for key, call in self._calls.items() if call.called_at and call.is_open}
        self._stands = False
        self._cancel: Callable[[], object] = lambda: None

    def _works_after(self, pause: datetime | None) -> bool:
        return works_after(self._turns, self._calls, pause)

    def _spans(self) -> dict[str, Times]:
        return spans(self._turns, self._calls)

    def _is_open(self) -> bool:
        """Whether the recording tells after its last pause that all of a reply's calls, or the budget, were decided."""
        return any(
            all(self._asks[key].decision is not None for key in gate)
            and any(self._told.get(key, _NEVER)[0] == len(self._pauses) for key in gate)
            for gate in self._gates()
        )

    def _gates(self) -> list[list[str]]:
        """The subjects of what was asked at the same time."""
        gates = [[key for key in self._calls_of(turn) if key in self._asks] for turn in self._turns.values()]
        return gates + [[self._budget(n)] for n in range(len(self.recording.budget_asks))]

    def _calls_of(self, turn: RecordedTurn) -> list[str]:
        return [tool_call_id(self._id_of(turn), position) for position in range(len(turn.calls))]

    def _id_of(self, turn: RecordedTurn) -> str:
        return call_id(self.recording.run_id, self._jobs[turn.path], turn.step, turn.attempt)

    def _path(self, job_id: str) -> str:
        """The path of a job; its id if it is not recorded."""
        return next((path for path, known in self._jobs.items() if known == job_id), job_id)

    def _budget(self, n: int) -> str:
        return f"{BUDGET}:{self.recording.run_id}:{n}"

    def _reads(self) -> Mapping[str, Sequence[datetime]]:
        told = {lane_of_answer(subject): [ask.told_at] for subject, ask in self._asks.items() if ask.told_at}
        return {RUN: self.recording.ends, **told}

    def _lane(self, lane: str) -> str:
        """The lane of a path as the run that is played has it."""
        if lane.startswith(lane_of_answer("")):
            path = lane.removeprefix(lane_of_answer(""))
            return lane_of_answer(self._jobs.get(path) or path.replace("::", f":{self.recording.run_id}:"))
        return lane if lane in {RUN, ""} else self._jobs.get(lane) or planned_job(lane, self._jobs)

    def numbers(self, last: int) -> Numbers:
        """The recorded numbers."""
        order = [] if self.parted_at else [self._lane(lane) for lane in self.recording.order]
        plans = {key for key, call in self._calls.items() if call.tool == PLAN_CREATE}
        self._numbers = RecordedNumbers(order, last, self._end_if_over, plans)
        return self._numbers

    def driven_by(self, cancel: Callable[[], object]) -> None:
        """Note how the run is cancelled."""
        self._cancel = cancel

    async def _cut(self, key: str) -> None:
        """Stand still here, as the recorded run did; it is cancelled once all of it that was at work does."""
        self._cuts.discard(key)
        self._stands = True
        self._end_if_over()
        await asyncio.sleep(PATIENCE_S)  # what the recording tells besides does not come: it was cut short elsewhere
        self._cancel()
        await asyncio.Event().wait()

    def _end_if_over(self) -> None:
        """Cancel the run where it stands, once all that was told in the recording is told."""
        if self._stands and not self._cuts and (self._numbers is None or not self._numbers.has_more):
            self._cancel()

    # --- models ------------------------------------------------------------------------------------------------------

    def look_up(self, asking: Asking) -> RecordedTurn | None:
        """What was recorded at this place, if what is asked is the same; None if the model has to be asked."""
        turn = self._turns.get(asking.call_id)
        if turn is not None:
            recorded, now = self._masker.compared(turn.prompt, prompt_of(asking))
            found = told_of_prompt(asking, replace(turn, prompt=recorded), now)
            if found is not None and self._audits:
                self.differences.append(found)
            if found is None or self._audits:
                self._looked_up[asking.call_id] = turn
                self._hits.add(asking.call_id)
                return turn
        elif self.is_cut:
            return None
        else:
            now = self._masker.masked(prompt_of(asking))
            found = told_of_unknown(asking, self._path(asking.job_id), now, self._masker.run(self.recording))
        self._part(asking.call_id, f"{asking.agent}, step {asking.step}")
        if self._is_strict:
            self._looked_up[asking.call_id] = CassetteMiss(found)
        return None

    def instruction(self, job_id: str, step: int, told: str) -> str:
        """What it was told: a fork says otherwise in the settings of its run, which are recorded."""
        change = self._change
        return told if change is None else change.instruction(self._jobs.get(change.path), job_id, step, told)

    def model(self, call_id: str, chosen: str | None) -> str | None:
        """The one that was chosen, or that of the fork where the recording has that."""
        turn, change = self._turns.get(call_id), self._change
        has_changed = change is not None and turn is not None and turn.prompt.model == change.model
        return change.model if change is not None and has_changed else chosen

    async def stream(
        self, asking: Asking, live: Callable[[], AsyncIterator[ModelEvent]]
    ) -> AsyncIterator[ModelEvent | GivenUp]:
        """What came back at this place; what is not recorded is asked of the model, or is a `CassetteMiss`."""
        n_failed, key = 0, asking.call_id
        while (found := self._looked_up.pop(key, None)) is not None:
            if isinstance(found, CassetteMiss):
                raise found
            n_failed += 1
            if found.failure is not None and found.place in self._given_up:
                yield GivenUp(found.pieces, found.failure.partial)
            else:
                async for event in streamed(found):
                    yield event
                if (failure := found.failure) is None:
                    return
                if self.is_cut and found.was_cut:
                    await self._cut(key)
                if failure.retry_delay_s is None:
                    raise raised(failure)
                yield RetryNotice(n_failed, failure.retry_delay_s, failure.message)
            key = call_id(self.recording.run_id, asking.job_id, asking.step, found.attempt + 1)
        if self.is_cut and not self.parted_at:
            await self._cut(key)
        async for event in live():
            yield event

    # --- tools -------------------------------------------------------------------------------------------------------

    def given(self, tool_call_id: str) -> ToolResult | None:
        """What the fork that is played put in its place."""
        call = self._calls.get(tool_call_id)
        return call.result if call is not None and self._is_given(call) else None

    async def result(self, calling: Calling, live: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """What came of the call; a tool that works in the store runs again, and has to give the same."""
        call = self._calls.get(calling.tool_call_id)
        if call is None or call.result is None:
            if self._is_strict:
                raise CassetteMiss(self._told_of_call(calling, call, None) or calling.tool)
            self._part(calling.tool_call_id, f"{calling.agent}, {calling.tool}")
            return await live()
        result = await live() if calling.runs_again and not self._is_given(call) else call.result
        if result is not call.result and self._differs_by_masks(call.result, result):
            result = call.result
        if found := self._told_of_call(calling, call, result):
            if self._audits:
                self.differences.append(found)
                return result
            if self._is_strict:
                raise CassetteMiss(found)
            self._part(calling.tool_call_id, f"{calling.agent}, {calling.tool}")
            return result if calling.runs_again else await live()
        self._hits.add(calling.tool_call_id)
        if not calling.runs_again:
            tell(calling, call)
        return result

    def _told_of_call(self, calling: Calling, call: RecordedCall | None, result: ToolResult | None) -> str | None:
        return told_of_masked_call(self._masker, calling, call, result, self.recording)

    def _differs_by_masks(self, before: ToolResult, now: ToolResult) -> bool:
        """Whether a result counts otherwise because what is counted was written with secrets, which are masked here."""
        return count_otherwise(self._masker, before, now) and has_masks(self.recording)

    def _is_given(self, call: RecordedCall) -> bool:
        """Whether a fork gave this result instead of the tool, which then did not run."""
        given = None if self._change is None else self._change.tool_result
        result = call.result
        return given is not None and result is not None and result.success and result.data == given

    def provenance(self, key: str) -> Provenance:
        """`hit` for what the recording gave; what is made anew is recorded, unless nothing may be made anew."""
        return "hit" if key in self._hits or self._is_strict else "recorded"

    # --- the person --------------------------------------------------------------------------------------------------

    def knows(self, subject: str) -> bool:
        """Whether the recording has this call, or this question about the budget."""
        return subject in self._calls or subject in self._asks

    async def within(self, key: str) -> None:
        """Stand still if the recorded run was cut off within this tool call, or before it asked this of a model."""
        call = self._calls.get(key)
        was_over = key in self._turns or (call is not None and not call.is_open)
        if self.is_cut and not self.parted_at and not was_over:
            await self._cut(key)

    async def before(self, tool_call_id: str) -> None:
        """Stand still if the recorded run was cut off before it made this tool call."""
        call = self._calls.get(tool_call_id)
        if self.is_cut and not self.parted_at and call is not None and call.called_at is None and call.result is None:
            await self._cut(tool_call_id)

    @property
    def stops(self) -> bool:
        """Whether all is decided that was, and the run was cancelled before it did anything else, or anything at all.

        Code that cancelled it while it waited is there to do so again.
        """
        return self.is_at_end and (self.ends_by_itself or self.was_stopped or self._audits)

    @property
    def is_at_end(self) -> bool:
        """Whether all is decided that was, and the run was cancelled, by whomever, before it did anything else."""
        is_paused = self._may_stop and self._n_pauses == len(self._pauses)
        return is_paused and self._told.keys() <= self._answered and not self.parted_at

    @property
    def ends_unpaused(self) -> bool:
        """Whether all is decided that was, nothing is left to be done, and the run paused no more."""
        is_last = self.recording.status == CANCELLED and self._n_pauses == len(self._pauses)
        return is_last and self._told.keys() <= self._answered and not self.parted_at and not self._has_more

    @property
    def _has_more(self) -> bool:
        """Whether anything was at work when the run was cancelled that has not come to that point."""
        return bool(self._cuts)

    def decided(self, subject: str, decision: Decision) -> datetime | None:
        """When this decision was taken in the recording; a different one parts the ways."""
        self._answered.add(subject)
        self.wake()
        if (ask := self._asks.get(subject)) is None or ask.decision is None:
            return None
        recorded, now = self._masker.compared(ask.decision, decision)
        if found := told_of_decision(replace(ask, decision=recorded), now):
            if self._is_strict:
                raise CassetteMiss(found)
            self._part(subject, "a decision")
            return None
        self._claimed.add(subject)
        return ask.decided_at

    # --- another way -------------------------------------------------------------------------------------------------

    def _part(self, key: str, place: str) -> None:
        """Note that the run goes another way from a call on: its own calls are not those that are recorded."""
        self.parted_at = self.parted_at or place
        self.wake()
        turn = self._turns.pop(key, None)
        calls = () if turn is None else range(len(turn.calls))
        for gone in (key, *(tool_call_id(key, position) for position in calls)):
            self.clock.forget(gone)
            self._calls.pop(gone, None)
            self._asks.pop(gone, None)
        self.clock.part()
        if self._numbers is not None:
            self._numbers.forget()
