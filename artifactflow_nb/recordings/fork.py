"""A run that goes another way from a step on: what was before it is played, what comes after is made.

::

    recorded   1 ── 2 ── 3 ── 4 ── 5
    fork at 3  1 ── 2 ── 3'── 4'── ...      1 and 2 cost nothing

The change is kept in the settings of the new run, so that another process can go on with it too.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from artifactflow_nb.approvals import Decision
from artifactflow_nb.errors import UsageError
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.models.base import ModelEvent
from artifactflow_nb.recordings.change import Change
from artifactflow_nb.recordings.clock import RunClock
from artifactflow_nb.recordings.played import streamed, tell
from artifactflow_nb.recordings.steps import Step, steps_of
from artifactflow_nb.recordings.tape import Asking, Calling, LiveTape, Provenance
from artifactflow_nb.recordings.values import (
    RecordedAsk,
    RecordedCall,
    RecordedRun,
    RecordedTurn,
    call_id,
    job_ids,
    tool_call_id,
)

_MOST_LISTED = 40


def change_of(
    recording: RecordedRun,
    step: int,
    *,
    prompt: str | None = None,
    model: str | None = None,
    tool_result: str | None = None,
    decision: Decision | bool | None = None,
) -> Change:
    """A change, checked against the run: the arguments are those of `Run.fork`.

    Errors: `UsageError` for a step that the run does not have, with those that it has, and for a change that does not
        fit the step.
    """
    steps = steps_of(recording)
    if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= len(steps):
        raise UsageError(f"step is {step!r}; the run {recording.run_id} has these:\n{listed(steps)}")
    found = steps[step - 1]
    for name, value, kind in (
        ("prompt", prompt, "model"),
        ("model", model, None),
        ("tool_result", tool_result, "tool"),
        ("decision", decision, "decision"),
    ):
        if value is not None and kind not in {None, found.kind}:
            fitting = [one for one in steps if one.kind == kind]
            raise UsageError(
                f"{name} changes a {kind} step, and step {step} is none: {_line(found)}. "
                f"Steps of that kind are:\n{listed(fitting) or 'none'}"
            )
    given = Decision(decision) if isinstance(decision, bool) else decision
    told = None if given is None else _decision_json(given)
    return Change(recording.run_id, step, found.path, found.step, prompt, model, tool_result, told)


def listed(steps: Sequence[Step]) -> str:
    """Steps, a line each."""
    lines = [_line(step) for step in steps[:_MOST_LISTED]]
    return "\n".join([*lines, f"and {len(steps) - _MOST_LISTED} more"] if len(steps) > _MOST_LISTED else lines)


def _line(step: Step) -> str:
    return f"{step.number}: {step.agent} {step.told}"


def _decision_json(decision: Decision) -> dict[str, Any]:
    return {
        "approved": decision.approved,
        "instruction": decision.instruction,
        "params": None if decision.params is None else dict(decision.params),
        "scope": decision.scope,
        "instead": decision.instead,
    }


class ForkTape(LiveTape):
    """The tape of a run that is forked.

    Args:
        recording: The run that is forked.
        change: What is otherwise, and from where.
        run_id: The new run.
        clock: The new run's clock: what is played takes no time.
        is_recorded: Whether what is made goes into a cassette.
    """

    def __init__(
        self, recording: RecordedRun, change: Change, run_id: str, clock: RunClock, *, is_recorded: bool = False
    ) -> None:
        super().__init__(clock, is_recorded=is_recorded)
        self._change = change
        self._run_id = run_id
        # An attempt that failed is not made again, so that every turn is the first attempt.
        turns = tuple(replace(turn, attempt=0) for turn in recording.turns if turn.reply is not None)
        self._jobs = job_ids(run_id, turns)
        self._turns: dict[str, RecordedTurn] = {}
        self._calls: dict[str, RecordedCall] = {}
        self._asks: dict[str, RecordedAsk] = {}
        self._given: set[str] = set()
        steps = steps_of(recording)
        for step in steps[: change.number - 1]:
            self._keep(step)
        self._put(steps[change.number - 1])

    def _call_id(self, step: Step) -> str:
        return call_id(self._run_id, self._jobs[step.path], step.step, 0)

    def _subject(self, step: Step) -> str:
        return tool_call_id(self._call_id(step), step.position or 0)

    def _keep(self, step: Step) -> None:
        """Take a step as it was."""
        if step.kind == "model":
            self._turns[self._call_id(step)] = step.turn
        elif step.kind == "tool" and step.call is not None:
            self._calls[self._subject(step)] = step.call
            if step.call.ask is not None and step.call.ask.settled:
                self._asks[self._subject(step)] = step.call.ask
        elif step.ask is not None:
            self._asks[self._subject(step)] = step.ask

    def _put(self, step: Step) -> None:
        """Take the step from which on all is made, with what is given of it."""
        change = self._change
        if change.tool_result is not None and step.call is not None:
            given = ToolResult(success=True, data=change.tool_result)
            self._calls[self._subject(step)] = replace(
                step.call, result=given, notices=()
            )  # the tool did nothing that it could tell
            self._given.add(self._subject(step))
            self._asks.pop(self._subject(step), None)  # what is given is given, also where it was denied
        if change.decision is not None and step.ask is not None:
            self._asks[self._subject(step)] = replace(step.ask, decision=Decision(**change.decision))

    # --- what comes from outside -----------------------------------------------------------------------------------

    def look_up(self, asking: Asking) -> RecordedTurn | None:
        """A turn before the step, which costs nothing now."""
        turn = self._turns.get(asking.call_id)
        return turn and replace(turn, cost_usd=0.0)

    async def stream(self, asking: Asking, live: Callable[[], AsyncIterator[ModelEvent]]) -> AsyncIterator[ModelEvent]:
        """What came back then, or what the model says now."""
        turn = self._turns.get(asking.call_id)
        async for event in live() if turn is None else streamed(turn):
            yield event

    def given(self, tool_call_id: str) -> ToolResult | None:
        """The result that the change puts in its place."""
        return self._calls[tool_call_id].result if tool_call_id in self._given else None

    async def result(self, calling: Calling, live: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """What came of it then, what was given instead, or what comes of it now."""
        call = self._calls.get(calling.tool_call_id)
        if call is None or call.result is None:
            return await live()
        if calling.runs_again and calling.tool_call_id not in self._given:
            return await live()
        tell(calling, call)
        return call.result

    def provenance(self, key: str) -> Provenance:
        """`hit` for what is played."""
        return "hit" if key in self._turns or key in self._calls else super().provenance(key)

    def knows(self, subject: str) -> bool:
        """Whether it was asked, or not, before the step."""
        return subject in self._asks or subject in self._calls

    def ask(self, subject: str) -> RecordedAsk | None:
        """What was asked about it."""
        return self._asks.get(subject)

    def answers(self, *, by_code: bool) -> Sequence[tuple[str, RecordedAsk]]:
        """What was decided then, or is decided otherwise now: nobody is asked again."""
        del by_code
        known = {subject: ask for subject, ask in self._asks.items() if ask.decision is not None and not ask.settled}
        now = self.clock.read() if known else None
        return [(subject, replace(ask, decided_at=now)) for subject, ask in known.items()]

    def instruction(self, job_id: str, step: int, told: str) -> str:
        """What the job is asked, from the step on what was put in its place."""
        return self._change.instruction(self._jobs.get(self._change.path), job_id, step, told)

    def model(self, call_id: str, chosen: str | None) -> str | None:
        """The model that was chosen for what is played, and the other one for what is made."""
        return chosen if call_id in self._turns else self._change.model or chosen
