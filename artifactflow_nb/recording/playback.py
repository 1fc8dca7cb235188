"""Playback of one recording: rows are stored and events published until the next decision that code must make.

::

    play ──> next cut ──> rows ──> the events before the cut ──> code decides ──> play ...
               └ none ──> the rows of the recording ──> the last events
"""

import asyncio
import sqlite3
from collections.abc import Collection, Mapping
from typing import Any

import orjson

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.runs import GRAPH_SETTING
from artifactflow_nb.engine.feeds import EventFeeds
from artifactflow_nb.recording.rows import ENDED, NO_PROCESS, Row, RunRows, Tables, upsert
from artifactflow_nb.recording.timeline import Cut, Timeline, rows_at
from artifactflow_nb.store.approvals import parse_decision
from artifactflow_nb.store.calls import FINISHED
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.store.runs import RUNNING, WAITING

_EVENTS_AT_ONCE = 64
"""Number of events that are published before other tasks of the loop have their turn."""


class Playback:
    """Plays the recording of a run and of its subruns.

    Args:
        rows: The recording.
        database: The store, which has the run already; the first event of the run is published.
        feeds: The feeds of the engine.
        mode: The mode of the played runs: `replay`, `verify` or `auto`.
        owner: The owner of the runs while they are played.

    Attributes:
        task: The task that plays the current segment, or played the last segment.
        lock: Held while a decision is compared with the recording.
    """

    def __init__(self, rows: RunRows, database: Database, feeds: EventFeeds, mode: str, owner: str) -> None:
        self.rows = rows
        self.owner = owner
        self.task: asyncio.Task[None] | None = None
        self.lock = asyncio.Lock()
        self._database = database
        self._feeds = feeds
        self._mode = mode
        self._timeline = Timeline.of(rows)
        self._at = 1
        self._decided: set[str] = set()
        self._approvals = {row["request_id"]: row for row in rows["approvals"]}
        self._is_cancelled = False

    @property
    def cut(self) -> Cut | None:
        """The cut at which the playback waits for code; None while the playback plays or after its end."""
        return next((cut for cut in self._timeline.cuts if cut.at == self._at and self._is_open(cut)), None)

    @property
    def is_closed(self) -> bool:
        """Whether all events were published."""
        return self._at >= len(self._timeline.events)

    @property
    def has_ended(self) -> bool:
        """Whether all events were published and no recorded run waits for a decision."""
        return self.is_closed and all(row["status"] in ENDED for row in self.rows["runs"])

    @property
    def run_ids(self) -> list[str]:
        """The runs that have started so far."""
        return list(self._timeline.positions(self._at))

    def decision(self, request_id: str) -> Decision | None:
        """Return the recorded decision on a request, or None."""
        row = self._approvals.get(request_id)
        return None if row is None else parse_decision(row)

    @property
    def is_graph(self) -> bool:
        """Whether the run is of an adapted graph, which cannot continue live, since its state is unknown."""
        return GRAPH_SETTING in orjson.loads(self.rows.run["settings_json"])

    @property
    def cancelled_at_work(self) -> set[str]:
        """The runs that were cancelled while they ran; the playback ends before code cancels the runs again."""
        waited = {cut.run_id for cut in self._timeline.cuts if cut.request_id is None}
        ends = (event for event in self._timeline.events if event.type is StreamEventType.CANCELLED)
        return {end.run_id for end in ends} - waited

    async def accept(self, request_ids: Collection[str]) -> None:
        """Store the recorded decisions on these requests, which code has made again."""
        self._decided.update(request_ids)
        decided = [
            {**_of_its_run(self._approvals[key]), "published": 0} for key in request_ids if key in self._approvals
        ]

        def work(db: sqlite3.Connection) -> None:
            upsert(db, {"approvals": tuple(decided)})
            if self.cut is None:  # the next segment is playing already
                self._set_status(db, WAITING, RUNNING, self.owner)

        await self._database.write(work)

    def cancel(self) -> None:
        """Record that code has cancelled the run that waits at the current cut."""
        self._is_cancelled = True

    async def settled(self) -> None:
        """Return when the current segment has been played."""
        if self.task is not None:
            await asyncio.wait([self.task])

    async def play(self) -> None:
        """Play until the next decision that code must make, or until the end."""
        cuts = (cut.at for cut in self._timeline.cuts if cut.at >= self._at and self._is_open(cut))
        end = next(cuts, len(self._timeline.events))
        self._is_cancelled = False
        events = self._timeline.events[self._at : end]
        started = set(self._timeline.positions(self._at))
        await self._database.write(lambda db: upsert(db, self._tables_at(end)))
        for run_id in {event.run_id for event in events} - started:
            self._feeds.open(run_id)
        self._at = end
        for n, event in enumerate(events):
            feed = await self._feeds.get(event.run_id)
            if event.seq > feed.last_seq:  # the feed has earlier events from the store
                feed.publish(event)
            if n % _EVENTS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _is_open(self, cut: Cut) -> bool:
        """Return whether code has not yet made the decision of a cut."""
        if cut.request_id is None:
            return not (self._is_cancelled and cut.at == self._at)
        return cut.request_id not in self._decided

    # --- rows --------------------------------------------------------------------------------------------------------

    def _tables_at(self, end: int) -> Tables:
        """Return the rows to store when the events before a cut are published.

        The rows have the mode of the playback. Manual edits are omitted, because code repeats manual edits.
        """
        is_over = end == len(self._timeline.events)
        tables = self.rows.tables if is_over else rows_at(self.rows, self._timeline.positions(end))
        root = self.rows.run["conversation_id"]
        changed: Mapping[str, Any] = {
            "runs": tuple({**row, "mode": self._mode, "owner": None} for row in tables["runs"]),
            "llm_calls": tuple({**row, "cassette": "hit"} for row in tables["llm_calls"]),
            "tool_calls": tuple(
                {**row, "cassette": "hit" if row["status"] == FINISHED else "off"} for row in tables["tool_calls"]
            ),
            "approvals": tuple(
                {**_of_its_run(self._approvals[row["request_id"]]), "published": row["published"]}
                if row["request_id"] in self._decided
                else _of_its_run(row)
                for row in tables["approvals"]
            ),
            "conversations": tuple(row for row in tables["conversations"] if row["conversation_id"] != root),
            "artifact_versions": tuple(row for row in tables["artifact_versions"] if row["run_id"] is not None),
        }
        return {**tables, **changed}

    def take_over(self, db: sqlite3.Connection, manifests: Mapping[str, str]) -> None:
        """Leave the runs unfinished, as after the death of a process, so that an engine can resume the runs."""
        rows = [(manifest, run_id) for run_id, manifest in manifests.items()]
        db.executemany("UPDATE runs SET manifest_json = ? WHERE run_id = ?", rows)
        self._set_status(db, WAITING, RUNNING, NO_PROCESS)

    def _set_status(self, db: sqlite3.Connection, before: str, now: str, owner: str | None) -> None:
        """Replace the status `before` of the runs and of their messages by the status `now`."""
        runs = to_json(self.run_ids)
        db.execute(
            "UPDATE messages SET status = :now WHERE message_id IN (SELECT message_id FROM runs "
            "WHERE status = :before AND run_id IN (SELECT value FROM json_each(:runs)))",
            {"now": now, "before": before, "runs": runs},
        )
        db.execute(
            "UPDATE runs SET status = :now, owner = :owner "
            "WHERE status = :before AND run_id IN (SELECT value FROM json_each(:runs))",
            {"now": now, "before": before, "owner": owner, "runs": runs},
        )


def _of_its_run(row: Row) -> Row:
    """Limit an approval to its run: an approval for all runs is valid only in the store in which it was given."""
    return {**row, "scope": "run"} if row["scope"] == "always" else row
