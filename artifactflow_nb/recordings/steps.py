"""The steps of a recorded run, numbered as they began: model turns, tool calls and what a person was asked."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from artifactflow_nb.recordings.values import RecordedAsk, RecordedCall, RecordedRun, RecordedTurn, job_path

Kind = Literal["model", "tool", "decision"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step.

    Attributes:
        number: Its number in the run, from 1.
        kind: `model`, `tool` or `decision`.
        path: The job.
        step: The number of the model turn in the job.
        attempt: The attempt of that turn.
        position: Of a tool call and of what was asked about it: its place in the reply, from 0; None of a turn.
        agent: Who did it.
        name: The model, the tool, or the tool that was asked about.
        turn: The turn, or that which asked for the call.
        call: The call; None of a turn.
        ask: What was asked; None unless it is a decision.
        at: When it began.
    """

    number: int
    kind: Kind
    path: str
    step: int
    attempt: int
    position: int | None
    agent: str
    name: str
    turn: RecordedTurn
    call: RecordedCall | None
    ask: RecordedAsk | None
    at: datetime

    @property
    def told(self) -> str:
        """What was done in a few words."""
        return {"model": "asked ", "tool": "ran ", "decision": "waited for a decision on "}[self.kind] + self.name

    @property
    def outcome(self) -> str:
        """What came of it: the reply, the result, the decision; empty if nothing."""
        if self.ask is not None:
            decision = self.ask.decision
            return "" if decision is None else " ".join(filter(None, [decision.word, decision.instruction]))
        if self.call is not None:
            result = self.call.result
            return "" if result is None else result.data or result.error or ""
        return self.turn.reply.content if self.turn.reply is not None else ""

    @property
    def place(self) -> tuple[Kind, str, int, int | None]:
        """What makes it the same step in two runs: kind, job, turn and position."""
        return self.kind, self.path, self.step, self.position

    @property
    def job(self) -> str:
        """The path of the job that a delegating call has; that of its own job otherwise."""
        return self.path if self.position is None else job_path(self.path, self.step, self.position)


def steps_of(run: RecordedRun) -> list[Step]:
    """The steps of a run in the order in which they began; attempts that failed are none of their own."""
    found = sorted((step for turn in run.turns for step in _of_turn(turn)), key=_order)
    return [_numbered(step, number) for number, step in enumerate(found, 1)]


def _of_turn(turn: RecordedTurn) -> Iterator[Step]:
    if turn.reply is None:
        return
    here = turn.path, turn.step, turn.attempt
    yield Step(0, "model", *here, None, turn.agent, turn.prompt.model, turn, None, None, turn.started_at)
    for position, call in enumerate(turn.calls):
        at = call.called_at or turn.completed_at
        if call.ask is not None and not call.ask.settled:
            asked = call.ask.asked_at
            yield Step(0, "decision", *here, position, turn.agent, call.tool, turn, call, call.ask, asked)
        yield Step(0, "tool", *here, position, turn.agent, call.tool, turn, call, None, at)


def _order(step: Step) -> tuple[object, ...]:
    ranks = {"model": 0, "decision": 1, "tool": 2}
    within = -1 if step.position is None else step.position
    return step.at, step.path.count("/"), step.path, step.step, ranks[step.kind], within


def _numbered(step: Step, number: int) -> Step:
    values = {name: getattr(step, name) for name in Step.__slots__}
    return Step(**{**values, "number": number})
