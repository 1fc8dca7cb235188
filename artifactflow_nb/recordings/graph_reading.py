"""The steps of an adapted graph, read from the rows and events of its run."""

import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import orjson

from artifactflow_nb.events import BESIDE, StreamEventType
from artifactflow_nb.recordings.clock import RUN
from artifactflow_nb.recordings.counted import each
from artifactflow_nb.recordings.graph_steps import FAIL, HELD, LEFT, OF_ASKS, OF_TOOLS, GraphStep, of_turn, path_of_job
from artifactflow_nb.recordings.values import job_path
from artifactflow_nb.store.schema import from_us

_TOLD_BY_OTHERS = {
    StreamEventType.METADATA,
    StreamEventType.AGENT_COMPLETE,  # comes with the reply
    StreamEventType.MIDDLEWARE_ERROR,
    StreamEventType.COMPLETE,
    StreamEventType.CANCELLED,
    StreamEventType.ERROR,
}
_END_A_TURN = {StreamEventType.LLM_COMPLETE, StreamEventType.RETRY}


class _Silent(NamedTuple):
    """A model call that failed without an event, and the step that it is."""

    turn: sqlite3.Row
    step: GraphStep


class GraphRows:
    """The rows of a run that an adapted graph made.

    Args:
        events: Its events in their order.
        turns: Its model calls in the order in which they were stored.
        calls: Its tool calls.
        asks: What was asked in it, by subject.

    Attributes:
        paths: The paths of its jobs by their ids, each tool call's too.
    """

    def __init__(
        self,
        events: Sequence[sqlite3.Row],
        turns: Sequence[sqlite3.Row],
        calls: Sequence[sqlite3.Row],
        asks: Mapping[str, sqlite3.Row],
    ) -> None:
        self._events = [(event, orjson.loads(event["data_json"])) for event in events]
        self._turns = {turn["call_id"]: turn for turn in turns}
        self._places = {key: place for place, key in enumerate(self._turns)}
        self._calls = {call["tool_call_id"]: call for call in calls}
        self._subjects = {ask["request_id"]: subject for subject, ask in asks.items()}
        self._settled = {ask["request_id"] for ask in asks.values() if ask["settled"]}
        self.paths: dict[str, str] = {}
        for job_id in [*(turn["job_id"] for turn in turns), *self._calls]:
            self._find_path(job_id)
        self._begun = self._beginnings()
        self._ended = {data.get("call_id") for event, data in self._events if event["event_type"] in _END_A_TURN}
        self._left = {key for key, turn in self._turns.items() if self._is_left(turn)}

    def _beginnings(self) -> dict[tuple[Any, Any], int]:
        """The numbers of the events that tell the beginning of a stored turn, by job and step.

        One that tells it of a turn whose process was killed is followed by another.
        """
        stored = {(turn["job_id"], turn["step"]) for turn in self._turns.values()}
        begun = ((event, data) for event, data in self._events if event["event_type"] == StreamEventType.AGENT_START)
        told = {(data.get("job_id"), data.get("step")): int(event["seq"]) for event, data in begun}
        return {place: told[place] for place in told.keys() & stored}

    def _find_path(self, job_id: str) -> str:
        if job_id not in self.paths:
            base, beside, _ = job_id.partition(BESIDE)
            call = self._calls.get(job_id)
            if beside:
                self._find_path(base)
            if call is not None:
                self.paths[job_id] = job_path(self._find_path(call["job_id"]), call["step"], call["position"])
            else:
                self.paths[job_id] = path_of_job(job_id, self.paths)
        return self.paths[job_id]

    def _is_left(self, turn: sqlite3.Row) -> bool:
        """Whether another process went on with the numbers of what a call had said that no event ends."""
        if turn["call_id"] in self._ended or not turn["pieces_json"]:
            return False
        last, over = max(accumulate(each(orjson.loads(turn["pieces_json"])["seq"]))), turn["completed_at"]
        return any(event["seq"] <= last and event["ts"] > over for event, _ in self._events)

    def lane(self, event: sqlite3.Row, data: Mapping[str, Any]) -> str:
        """The path of an event's lane; a decision that a person took later has one of its own."""
        name = "tool_call_id" if event["event_type"] in OF_TOOLS else "job_id"
        job_id = data.get(name, RUN)
        return RUN if job_id == RUN else self.paths.get(job_id) or path_of_job(job_id, self.paths)

    def steps(self, run_id: str) -> Iterator[GraphStep]:
        """The steps in the order of their events; subjects without the run's id."""
        silent = deque(self._silent())
        for event, data in self._events:
            while silent and self._is_over(silent[0].turn, event, data):
                yield silent.popleft().step
            step = None if event["event_type"] in _TOLD_BY_OTHERS else self._step(event, data, run_id)
            if step is not None:
                yield step
        yield from (failed.step for failed in silent)

    def _silent(self) -> Iterator[_Silent]:
        """The model calls that failed without an event, in the order in which they were stored."""
        for key, turn in self._turns.items():
            if key not in self._ended:
                kind = LEFT if key in self._left else FAIL
                yield _Silent(turn, GraphStep(kind, from_us(turn["completed_at"]), about=self._of_turn(turn)))

    def _is_over(self, failed: sqlite3.Row, event: sqlite3.Row, data: Mapping[str, Any]) -> bool:
        """Whether a call had failed before an event: it is later, or tells the end of a call that was stored later."""
        ends = self._places.get(data.get("call_id", "")) if event["event_type"] in _END_A_TURN else None
        is_stored_later = ends is not None and ends > self._places[failed["call_id"]]
        return is_stored_later or bool(event["ts"] > failed["completed_at"])

    def _of_turn(self, turn: Mapping[str, Any] | sqlite3.Row) -> str:
        return of_turn(self.paths[turn["job_id"]], turn["step"])

    def _step(self, event: sqlite3.Row, data: dict[str, Any], run_id: str) -> GraphStep | None:
        """The step that an event tells; None if it tells none, or one of what is not stored."""
        kind, at, seq = event["event_type"], from_us(event["ts"]), event["seq"]
        who = {"agent": event["agent_name"], "tool": event["tool_name"]}
        about = self._about(kind, data, seq).replace(run_id, "")
        if kind == StreamEventType.PERMISSION_REQUEST and about:
            asked = {"job": self.lane(event, data), "title": data.get("title", ""), "message": data.get("message", "")}
            return GraphStep(kind, at, seq, about, **who, data=asked)
        if about:
            return GraphStep(kind, at, seq, about)
        return GraphStep(kind, at, seq, **who, data=data) if kind in HELD else None

    def _about(self, kind: str, data: Mapping[str, Any], seq: int) -> str:
        """What an event tells of: a turn, a tool call, a question; empty if that is not stored, or told otherwise."""
        if kind in OF_ASKS:
            is_told = kind == StreamEventType.PERMISSION_RESULT and data["id"] in self._settled
            return "" if is_told else self._subjects.get(data["id"], "")
        if kind in OF_TOOLS:
            return self.paths[data["tool_call_id"]] if data["tool_call_id"] in self._calls else ""
        if kind == StreamEventType.AGENT_START:
            return self._of_turn(data) if self._begun.get((data.get("job_id"), data.get("step"))) == seq else ""
        turn = self._turns.get(data.get("call_id", "")) if kind in _END_A_TURN else None
        return "" if turn is None else self._of_turn(turn)
