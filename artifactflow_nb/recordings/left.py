"""Where a run stands whose process is gone, read from its rows: so another process goes on with it in the run's time.

A call that was begun and is not over counts for nothing: it goes on from its beginning, or is made anew.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime

import orjson

from artifactflow_nb.delegating import DELEGATING
from artifactflow_nb.events import StreamEvent, StreamEventType
from artifactflow_nb.recordings.clock import RUN, Left
from artifactflow_nb.recordings.values import is_of_a_plan, lane_of_call
from artifactflow_nb.store.calls import FINISHED, STARTED
from artifactflow_nb.store.runs import load_events
from artifactflow_nb.store.schema import from_us, to_us

_OF_CALLS = {StreamEventType.TOOL_START, StreamEventType.TOOL_COMPLETE}


def load_left(db: sqlite3.Connection, run_id: str) -> Left:
    """Where a run stands."""
    events = db.execute("SELECT * FROM events WHERE run_id = ? ORDER BY seq", (run_id,)).fetchall()
    pause = max((n for n, event in enumerate(events) if event["event_type"] == StreamEventType.COMPLETE), default=0)
    since = opened_at(load_events(db, run_id))
    moments: dict[str, int] = {}
    for lane, at in [*_of_events(db, run_id, events[pause + 1 :]), *_of_calls(db, run_id)]:
        if at >= to_us(since):
            moments[lane] = max(at, moments.get(lane, at))
    return Left(since, {lane: from_us(at) for lane, at in moments.items()})


def opened_at(events: Sequence[StreamEvent]) -> datetime:
    """When a run could go on after its last pause: the time of the first answer that opened a gate.

    Of answers that came at nearly the same moment it is chance which of them the run goes on with.
    """
    pause = max((n for n, event in enumerate(events) if event.type is StreamEventType.COMPLETE), default=0)
    waits = events[pause].data
    gates = waits.get("gates", [[asked] for asked in waits.get("pending", ())])
    decided: set[str] = set()
    for event in events[pause:]:
        if event.type is StreamEventType.PERMISSION_RESULT:
            decided.add(event.data["id"])
            if any(decided.issuperset(gate) for gate in gates):
                return event.timestamp
    return events[pause].timestamp


def _of_events(db: sqlite3.Connection, run_id: str, events: list[sqlite3.Row]) -> Iterator[tuple[str, int]]:
    """The lanes of events, each with its time; none of what a call told that is not over."""
    sql = "SELECT tool_name, tool_call_id FROM tool_calls WHERE run_id = ? AND status = ?"
    is_open = {key for name, key in db.execute(sql, (run_id, STARTED)) if name not in DELEGATING}
    held: set[str] = set()
    for event in events:
        data = orjson.loads(event["data_json"])
        lane, key = data.get("job_id", RUN), data.get("tool_call_id", "")
        if is_of_a_plan(event):
            lane = key
        elif event["event_type"] in _OF_CALLS:
            lane = lane_of_call(event["tool_name"], key, lane)
            held |= {lane} if key in is_open else set()
        if lane not in held and event["event_type"] != StreamEventType.PERMISSION_RESULT:
            yield lane, event["ts"]


def _of_calls(db: sqlite3.Connection, run_id: str) -> Iterator[tuple[str, int]]:
    """The lanes of calls that are over, each with the time at which it was."""
    yield from map(tuple, db.execute("SELECT job_id, completed_at FROM llm_calls WHERE run_id = ?", (run_id,)))
    sql = "SELECT tool_name, tool_call_id, job_id, completed_at FROM tool_calls WHERE run_id = ? AND status = ?"
    for name, key, job_id, at in db.execute(sql, (run_id, FINISHED)):
        yield lane_of_call(name, key, job_id), at
