"""The recorded run of an adapted graph, played as a whole: the graph does not run, its steps are taken one by one."""

import heapq
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from artifactflow_nb.ambient import Clock
from artifactflow_nb.approvals import Decision
from artifactflow_nb.errors import CassetteMiss
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.recordings.clock import RUN, Times
from artifactflow_nb.recordings.graph_steps import FAIL, GraphStep, job_of_path, left_turns, of_turn, rounds
from artifactflow_nb.recordings.pieces import Piece
from artifactflow_nb.recordings.player import Player
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.recordings.values import RecordedCall, RecordedRun, RecordedTurn, call_id, job_path, tool_call_id

AS_A_WHOLE = (
    'A graph of your own is played as a whole. To let it go another way, record its run anew with mode="record".'
)


class PlayedTurn(NamedTuple):
    """A model call that is played: its id, its job's, and what is recorded of it."""

    call_id: str
    job_id: str
    turn: RecordedTurn


class PlayedCall(NamedTuple):
    """A tool call that is played: its id, its job's, who asked for it, and what is recorded of it."""

    tool_call_id: str
    job_id: str
    agent: str
    call: RecordedCall


class GraphPlayer(Player):
    """The tape of a recorded run of an adapted graph. It stands where the run does, also after a pause.

    Args:
        recording: The run.
        clock: The clock for what is not recorded.
        audits: As for `Player`; it is strict in any case.
        masker: As for `Player`.

    Attributes:
        step: The next step; None after the last.
    """

    def __init__(
        self, recording: RecordedRun, clock: Clock, *, audits: bool = False, masker: Masker | None = None
    ) -> None:
        super().__init__(recording, clock, is_strict=True, audits=audits, masker=masker)
        self._by_about = {of_turn(turn.path, turn.step): self._played(turn) for turn in recording.turns}
        self._call_of = dict(self._played_calls())
        left = left_turns(recording.graph_steps)
        told = (played for played in self._by_about.values() if played.turn.place not in left)
        self._arriving = heapq.merge(*map(_pieces, told), key=lambda one: one[1].seq)
        self._piece = next(self._arriving, None)
        own = (step.seq for step in recording.graph_steps if step.kind != StreamEventType.PERMISSION_RESULT)
        self._last_seq = max(own, default=0)
        self._steps = iter(recording.graph_steps)
        self.step = next(self._steps, None)

    def advance(self) -> None:
        """Go on to the next step."""
        self.step = next(self._steps, None)

    @property
    def _has_more(self) -> bool:
        """Whether a step is left beside the decisions, which are told by who drives the run."""
        return self.step is not None and self.step.seq <= self._last_seq

    def turn(self, step: GraphStep) -> PlayedTurn:
        """The model call that a step is about."""
        return self._by_about[step.about]

    def call(self, step: GraphStep) -> PlayedCall:
        """The tool call that a step is about."""
        return self._call_of[step.about]

    def job_of(self, path: str) -> str:
        """The id of a job by its path."""
        return self._jobs.get(path) or job_of_path(path, self._jobs)

    def arrived(self, step: GraphStep) -> Iterator[tuple[PlayedTurn, Piece]]:
        """The pieces of replies that arrived before a step, in order, each once."""
        until = step.seq
        if step.kind == FAIL:
            until = max((piece.seq + 1 for piece in self.turn(step).turn.pieces), default=0)
        while self._piece is not None and self._piece[1].seq < until:
            yield self._piece
            self._piece = next(self._arriving, None)

    def decided(self, subject: str, decision: Decision) -> datetime | None:
        """When this decision was taken in the recording; `CassetteMiss` for a different one."""
        try:
            return super().decided(subject, decision)
        except CassetteMiss as miss:
            raise CassetteMiss(f"{miss}\n{AS_A_WHOLE}") from None

    def _played(self, turn: RecordedTurn) -> PlayedTurn:
        job_id = self._jobs[turn.path]
        return PlayedTurn(call_id(self.recording.run_id, job_id, turn.step, turn.attempt), job_id, turn)

    def _played_calls(self) -> Iterator[tuple[str, PlayedCall]]:
        for key, job_id, turn in self._by_about.values():
            for position, call in enumerate(turn.calls):
                played = PlayedCall(tool_call_id(key, position), job_id, turn.agent, call)
                yield job_path(turn.path, turn.step, position), played

    # --- what the recording tells ------------------------------------------------------------------------------------

    def _works_after(self, pause: datetime | None) -> bool:
        own = [seq for seq, lane in enumerate(self.recording.order, 1) if lane == RUN]  # the first is the beginning
        last = next(iter(own[len(self._pauses) :]), 0)
        steps = (step for step in self.recording.graph_steps if step.kind != StreamEventType.PERMISSION_RESULT)
        return pause is None or any(step.seq > last for step in steps)

    def _spans(self) -> dict[str, Times]:
        begun = ((key, call.called_at) for key, call in self._calls.items() if call.completed_at is None)
        return super()._spans() | {key: Times(at, at, 0.0) for key, at in begun if at is not None}

    def _gates(self) -> list[list[str]]:
        run_id = self.recording.run_id
        return [[step.subject(run_id) for step in asked] for asked in rounds(self.recording.graph_steps)]

    def _lane(self, lane: str) -> str:
        return super()._lane(lane) or (lane and self.job_of(lane))


def _pieces(played: PlayedTurn) -> Iterator[tuple[PlayedTurn, Piece]]:
    return ((played, piece) for piece in played.turn.pieces)
