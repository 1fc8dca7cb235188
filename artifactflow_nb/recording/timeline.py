"""The timeline of a recording: the events in order, the decisions of code, and the rows at an earlier moment.

When a playback stops for a decision, the rows are inferred from the events published so far: a row is written with the
event that reports the row, so the row existed if the event was published. Rows without an event are placed by time.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Self

import orjson

from artifactflow_nb.core.events import StreamedText, StreamEvent, StreamEventType
from artifactflow_nb.core.pieces import unpack
from artifactflow_nb.errors import RunCancelled
from artifactflow_nb.recording.rows import OPEN_CALL, OPEN_PLAN_JOB, UNDECIDED, Row, RunRows, Tables
from artifactflow_nb.store.calls import FINISHED, PENDING, STARTED
from artifactflow_nb.store.runs import WAITING, read_event
from artifactflow_nb.store.schema import PLUGIN_TABLES, Table, from_microseconds

_UNFINISHED_RUN = {
    "status": WAITING,
    "owner": None,
    "error_type": None,
    "error_message": None,
    "completed_at": None,
    "outcome": None,
}
_TOOL_EVENTS = {StreamEventType.TOOL_START: STARTED, StreamEventType.TOOL_COMPLETE: FINISHED}


@dataclass(frozen=True, slots=True)
class Cut:
    """A point at which a playback waits for code.

    Attributes:
        at: The number of events before the cut.
        request_id: The request that code decided; None if code cancelled the waiting run.
    """

    at: int
    run_id: str
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The events of the runs of a recording.

    Attributes:
        events: The events, chunks included.
        cuts: The decisions of code, in order.
    """

    events: tuple[StreamEvent, ...]
    cuts: tuple[Cut, ...]

    @classmethod
    def of(cls, rows: RunRows) -> Self:
        """Build the timeline of a run and of its subruns."""
        events, cuts, waits = tuple(_merged(rows)), [], _Waits()
        by_code = {
            row["request_id"] for row in rows["approvals"] if row["decision"] and row["by_code"] and not row["settled"]
        }
        for at, event in enumerate(events):
            is_clicked = event.data.get("clicked")
            if event.type is StreamEventType.PERMISSION_RESULT and event.data["id"] in by_code:
                cuts.append(Cut(at, event.run_id, event.data["id"]))
            elif event.type is StreamEventType.CANCELLED and not is_clicked and waits.is_cut(event.run_id):
                cuts.append(Cut(at, event.run_id, None))
            waits.add(event)
        return cls(events, tuple(cuts))

    def positions(self, at: int) -> dict[str, int]:
        """Map each run that had started to the number of its last event among the first `at` events."""
        return {event.run_id: event.seq for event in self.events[:at]}


def _merged(rows: RunRows) -> list[StreamEvent]:
    """Merge the events of all runs by time; a subrun comes after the event that reports the start of the subrun."""
    by_run: list[list[StreamEvent]] = []
    for run in rows["runs"]:
        stored = [read_event(row) for row in rows["events"] if row["run_id"] == run["run_id"]]
        calls = [row for row in rows["llm_calls"] if row["run_id"] == run["run_id"]]
        last = {(row["job_id"], row["step"]): row["call_id"] for row in calls}
        chunks = {row["call_id"]: list(_chunks(row)) for row in calls if row["pieces_json"]}
        numbers = Counter(event.seq for events in (stored, *chunks.values()) for event in events)
        for row in calls:  # after a killed attempt, the next process used the event numbers of the attempt again
            attempt = chunks.get(row["call_id"], [])
            is_last = last[row["job_id"], row["step"]] == row["call_id"]
            if row["error_type"] == RunCancelled.__name__ and (
                not is_last or any(numbers[chunk.seq] > 1 for chunk in attempt)
            ):
                chunks.pop(row["call_id"], None)
        by_run.append(sorted(chain(stored, *chunks.values()), key=lambda event: event.seq))
    started = {
        event.data["run_id"]: event.timestamp for event in chain(*by_run) if event.type is StreamEventType.SUBRUN_START
    }
    placed: list[tuple[datetime, int, int, StreamEvent]] = []
    for rank, (run, events) in enumerate(zip(rows["runs"], by_run, strict=True)):
        time = started.get(run["run_id"])
        for event in events:  # parallel jobs of a run have separate clocks, but times must not decrease here
            time = event.timestamp if time is None else max(time, event.timestamp)
            placed.append((time, rank, event.seq, event))
    return [event for *_, event in sorted(placed, key=lambda entry: entry[:3])]


def _chunks(row: Row) -> Iterator[StreamEvent]:
    """Restore the chunks in which a reply was streamed."""
    texts = {"answer": row["content"], "reasoning": row["reasoning"]}
    protocol = orjson.loads(row["offer_json"] or "{}").get("tool_protocol", "xml")
    so_far = {kind: StreamedText() for kind in ("answer", "reasoning", "call")}
    for piece in unpack(orjson.loads(row["pieces_json"]), from_microseconds(row["started_at"]), texts):
        kind = piece.kind
        data = {"job_id": row["job_id"], "call_id": row["call_id"], "kind": kind, "delta": piece.text}
        data["tool_protocol"] = protocol
        text = so_far[kind]
        yield StreamEvent(
            StreamEventType.LLM_CHUNK,
            piece.at,
            piece.seq,
            row["run_id"],
            row["agent_name"],
            piece.tool or None,
            data,
            text,
            text.append(piece.text),
        )


# --- decisions of code -----------------------------------------------------------------------------------------------


class _Waits:
    """The runs that wait, according to their events."""

    def __init__(self) -> None:
        self._gates: dict[str, list[set[str]]] = {}
        self._parents: dict[str, str] = {}
        self._over: set[str] = set()

    def is_cut(self, run_id: str) -> bool:
        """Return whether the run waits, unless it waits only because its parent run has just ended."""
        return bool(self._gates.get(run_id)) and self._parents.get(run_id) not in self._over

    def add(self, event: StreamEvent) -> None:
        """Apply the next event."""
        if event.is_terminal:
            self._over.add(event.run_id)
            self._gates.pop(event.run_id, None)
        elif event.type is StreamEventType.COMPLETE:
            self._gates[event.run_id] = [set(gate) for gate in event.data["gates"]]
        elif event.type is StreamEventType.PERMISSION_RESULT:
            for run_id, gates in self._gates.items():
                for gate in gates:
                    gate.discard(event.data["id"])
                if not all(gates):  # the run continues
                    self._gates[run_id] = []
        elif event.type is StreamEventType.SUBRUN_START:
            self._parents[event.data["run_id"]] = event.run_id
        elif event.type is not StreamEventType.LLM_CHUNK:
            self._gates.pop(event.run_id, None)


# --- rows at an earlier moment ---------------------------------------------------------------------------------------


class _RunState:
    """The rows of a run that existed when an event of the run was published."""

    def __init__(self, events: Sequence[Row], seq: int) -> None:
        self._reported: set[tuple[str, str]] = set()
        self._published: set[tuple[str, str]] = set()
        self._until = 0
        for event in events:
            kind, data = event["event_type"], orjson.loads(event["data_json"])
            keys = [("job", str(data["job_id"]))] if "job_id" in data else []
            if kind in {StreamEventType.LLM_COMPLETE, StreamEventType.RETRY}:
                keys.append(("call", str(data["call_id"])))
            elif kind in _TOOL_EVENTS:
                keys.append((_TOOL_EVENTS[StreamEventType(kind)], str(data["tool_call_id"])))
            elif kind == StreamEventType.PERMISSION_REQUEST:
                keys.append(("request", str(data["id"])))
            elif kind == StreamEventType.PERMISSION_RESULT:
                keys.append(("decision", str(data["id"])))
            elif kind == StreamEventType.ARTIFACT_CHANGED:
                keys.append(("version", f"{data['artifact_id']} {data['version']}"))
            elif kind == StreamEventType.STEP_COMPLETE:
                keys.append(("step", str(data["job_id"])))
            self._reported.update(keys)
            if event["seq"] <= seq:
                self._published.update(keys)
                self._until = max(self._until, event["ts"])

    def has(self, kind: str, key: str, at: int | None) -> bool:
        """Return whether a row existed, by the event that reports the row, or by the time of a row without an event."""
        if (kind, key) in self._reported:
            return (kind, key) in self._published
        return at is not None and at <= self._until

    def has_event(self, kind: str, key: str) -> bool:
        """Return whether the event that reports a row was published."""
        return (kind, key) in self._published


def rows_at(rows: RunRows, positions: Mapping[str, int]) -> Tables:
    """Return the rows at the time when each run in `positions` had published the event of this number.

    Other runs had not started. The status of runs that had not ended is `waiting`.
    """
    events: dict[str, list[Row]] = {}
    for event in rows["events"]:
        events.setdefault(event["run_id"], []).append(event)
    states = {run_id: _RunState(events.get(run_id, ()), seq) for run_id, seq in positions.items()}
    has_ended = {run_id for run_id, seq in positions.items() if seq >= events[run_id][-1]["seq"]}
    messages = {row["message_id"]: row["run_id"] for row in rows["runs"]}
    conversations = {row["conversation_id"] for row in rows["runs"] if row["run_id"] in states}
    present = {
        table: [row for row in rows[table] if row["run_id"] in states]
        for table in ("runs", "llm_calls", "plan_jobs", "approvals", "events", "artifact_versions")
    }

    def has(row: Row, kind: str, key: str, time: str) -> bool:
        return states[row["run_id"]].has(kind, key, row[time])

    def of_plugin(table: Table) -> Iterator[Row]:
        for row in rows[table.name]:
            if row["run_id"] in states and table.holds_jobs:
                if has(row, "job", row["job_id"], "started_at"):
                    yield row
            elif row.get("tool_call_id", row.get("job_id")) in started:
                yield row

    llm_calls = [row for row in present["llm_calls"] if has(row, "call", row["call_id"], "completed_at")]
    replied = {row["call_id"] for row in llm_calls}
    tool_calls: list[Row] = []
    for row in rows["tool_calls"]:
        if row["call_id"] in replied:
            if has(row, FINISHED, row["tool_call_id"], "completed_at"):
                tool_calls.append(row)
            elif has(row, STARTED, row["tool_call_id"], "called_at"):
                tool_calls.append({**row, **OPEN_CALL, "status": STARTED})
            else:
                tool_calls.append({**row, **OPEN_CALL, "status": PENDING, "called_at": None})
    started = {row["tool_call_id"] for row in tool_calls if row["status"] != PENDING}
    return {
        "conversations": tuple(row for row in rows["conversations"] if row["conversation_id"] in conversations),
        "messages": tuple(
            row if messages[row["message_id"]] in has_ended else {**row, "status": WAITING, "response": None}
            for row in rows["messages"]
            if messages.get(row["message_id"]) in states
        ),
        "runs": tuple(row if row["run_id"] in has_ended else {**row, **_UNFINISHED_RUN} for row in present["runs"]),
        "texts": rows["texts"],
        "llm_calls": tuple(llm_calls),
        "tool_calls": tuple(tool_calls),
        "plan_jobs": tuple(
            row if has(row, "step", row["job_id"], "completed_at") else {**row, **OPEN_PLAN_JOB}
            for row in present["plan_jobs"]
            if has(row, "job", row["job_id"], "started_at")
        ),
        **{table.name: tuple(of_plugin(table)) for table in PLUGIN_TABLES.values()},
        "approvals": tuple(
            row if states[row["run_id"]].has_event("decision", row["request_id"]) else {**row, **UNDECIDED}
            for row in present["approvals"]
            if has(row, "request", row["request_id"], "asked_at")
        ),
        "events": tuple(row for row in present["events"] if row["seq"] <= positions[row["run_id"]]),
        "artifact_versions": tuple(
            row
            for row in present["artifact_versions"]
            if has(row, "version", f"{row['artifact_id']} {row['version']}", "created_at")
        ),
    }
