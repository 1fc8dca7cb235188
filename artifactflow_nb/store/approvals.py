"""Approval requests and their decisions, one row each; a request is decided once.

A request is stored before it is displayed, and a decision before the run continues, so neither is lost if the process
dies. These rows, not the graph's checkpoint, determine which requests are open.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from artifactflow_nb.core.approvals import BUDGET_KIND, ApprovalRequest, Decision
from artifactflow_nb.core.events import MAIN_JOB
from artifactflow_nb.core.text.format import format_local_time, storable_text
from artifactflow_nb.errors import Conflict, NotFound, brief
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import insert, to_json, unpack_text
from artifactflow_nb.store.metrics import LAST_TURN_SQL
from artifactflow_nb.store.runs import RUNNING, START_LOCK, WAITING, EventRow, StoredRun, insert_events
from artifactflow_nb.store.schema import from_microseconds, to_microseconds

_OLDEST_FIRST = (
    "a.asked_at, a.job_id, (SELECT position FROM tool_calls c WHERE c.tool_call_id = a.tool_call_id), a.rowid"
)
"""Order of open requests, by time, job and position: parallel jobs store their requests in a random order."""

_ROOT_RUN = "coalesce(r.parent_run_id, r.run_id)"
"""The run that a person started: a decision for the whole run also covers its subruns."""

_CONVERSATION = f"coalesce((SELECT conversation_id FROM runs f WHERE f.run_id = {_ROOT_RUN}), r.conversation_id)"  # noqa: S608 - a constant
_ROOT_RUN_OF = f"(SELECT {_ROOT_RUN} FROM runs r WHERE r.run_id = ?)"  # noqa: S608 - a constant
_CONVERSATION_OF = f"(SELECT {_CONVERSATION} FROM runs r WHERE r.run_id = ?)"  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class RequestState:
    """A stored request: its id, and its decision or None."""

    request_id: str
    decision: Decision | None


class ApprovalStore:
    """Access to requests and decisions.

    Attributes:
        counts_since: Returns the time from which standing decisions count, or None if all of them count.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.counts_since: Callable[[], datetime | None] = lambda: None

    async def create(
        self,
        request: ApprovalRequest,
        job_id: str,
        asked_at: datetime,
        earlier: Sequence[EventRow],
        events: Sequence[EventRow],
        decision: Decision | None = None,
    ) -> bool:
        """Store a request with its events and, if a policy decided the request, with the decision.

        Returns False and stores only the `earlier` events if a parallel job has stored a request for the same
        subject.
        """
        settled = decision is not None
        row = {**_row(request, asked_at), "job_id": job_id, "published": settled, "settled": settled}

        def work(db: sqlite3.Connection) -> bool:
            insert_events(db, earlier)
            if not insert(db, "approvals", row, or_ignore=True):
                return False
            if decision is not None:
                _decide(db, request.id, decision, asked_at, number=None)
            insert_events(db, events)
            return True

        return await self._database.write(work)

    async def decide(
        self, decisions: Mapping[str, Decision], decided_at: datetime, *, run_id: str | None = None
    ) -> list[ApprovalRequest]:
        """Store decisions by request id, all or none; return the requests.

        Errors: `NotFound` for an unknown request, and for a request of another run if `run_id` is passed; `Conflict`
            for a decided request and for a request of a run that has ended.
        """

        def work(db: sqlite3.Connection) -> list[ApprovalRequest]:
            requests = [_require_undecided(db, request_id, run_id) for request_id in decisions]
            last = db.execute("SELECT coalesce(max(decision_number), 0) FROM approvals").fetchone()[0]
            for number, (request_id, decision) in enumerate(decisions.items(), last + 1):
                _decide(db, request_id, decision, decided_at, number=number)
            return requests

        return await self._database.write(work)

    async def require_undecided(self, request_id: str, run_id: str | None = None) -> None:
        """Raise the errors of `decide` if a request cannot be decided."""
        await self._database.read(lambda db: _require_undecided(db, request_id, run_id))

    async def get(self, request_id: str) -> ApprovalRequest:
        """Return a request by its id; `NotFound` for an unknown id."""
        return await self._database.read(lambda db: _request(_find(db, request_id)))

    async def n_requests(self, run_id: str, kind: str) -> int:
        """Count the requests of a kind in a run, both open and decided."""
        row = await self._database.fetch_one(
            "SELECT count(*) FROM approvals WHERE run_id = ? AND kind = ?", (run_id, kind)
        )
        return 0 if row is None else int(row[0])

    async def get_by_call(self, tool_call_id: str) -> ApprovalRequest | None:
        """Return the approval request of a tool call, or None."""
        sql = "SELECT * FROM approvals WHERE tool_call_id = ?"
        row = await self._database.fetch_one(sql, (tool_call_id,))
        return None if row is None else _request(row)

    async def decisions(self, subjects: Sequence[str]) -> dict[str, RequestState]:
        """Map subjects, such as tool call ids, to their requests; subjects without a request are omitted."""
        if not subjects:
            return {}
        placeholders = ", ".join("?" * len(subjects))
        sql = f"SELECT * FROM approvals WHERE subject IN ({placeholders})"  # noqa: S608 - question marks only
        rows = await self._database.fetch_all(sql, tuple(subjects))
        return {row["subject"]: RequestState(row["request_id"], parse_decision(row)) for row in rows}

    async def budget_requests(
        self, run_id: str, *, at_last_turn: bool = False
    ) -> list[tuple[ApprovalRequest, Decision | None]]:
        """Return a run's requests for more budget, each with the decision or None, the oldest first.

        With `at_last_turn`, only requests that were decided before the last turn of the run's main job started.
        """
        until = f"AND decided_at <= ({LAST_TURN_SQL})" if at_last_turn else ""
        sql = f"SELECT * FROM approvals WHERE run_id = :run AND kind = 'budget' {until} ORDER BY rowid"  # noqa: S608 - constants
        parameters = {"run": run_id, "main": MAIN_JOB}
        rows = await self._database.fetch_all(sql, parameters)
        return [(_request(row), parse_decision(row)) for row in rows]

    async def standing_decision(self, run: StoredRun, request: ApprovalRequest) -> Decision | None:
        """Return the newest decision that covers a request, or None.

        The decision was made on the tool for the whole run or conversation. If the request is about hosts, a person's
        newest decision on each host applies: all hosts must be approved, and one denied host denies the request.
        """
        about_hosts = "AND a.hosts = ''"
        if request.hosts:
            about_hosts = "AND a.decision_number IS NOT NULL AND a.decision IN ('approved', 'denied') AND a.hosts <> ''"
        sql = (
            "SELECT a.* FROM approvals a JOIN runs r USING (run_id) WHERE a.tool_name = ?1 AND a.decision IS NOT NULL "  # noqa: S608 - constants
            f"AND ((a.scope IN ('run', ?3) AND {_ROOT_RUN} = {_ROOT_RUN_OF.replace('?', '?2')}) OR a.scope = 'always' "
            f"OR (a.scope = 'conversation' AND {_CONVERSATION} = {_CONVERSATION_OF.replace('?', '?2')})) "
            f"{about_hosts} AND a.decided_at >= ?4 ORDER BY a.decision_number DESC"
        )
        since = self.counts_since()
        earliest = 0 if since is None else to_microseconds(since)
        scope = "once" if request.hosts else "run"
        rows = await self._database.fetch_all(sql, (request.tool, run.run_id, scope, earliest))
        newest: list[Decision] = []
        for subject in request.hosts or ("",):
            row = next((row for row in rows if not subject or subject in row["hosts"].split()), None)
            if row is None or (decision := parse_decision(row)) is None:
                continue
            newest.append(decision)
        if len(newest) < max(len(request.hosts), 1) and all(decision.approved for decision in newest):
            return None
        decision = next((decision for decision in newest if not decision.approved), newest[0])
        # Edited arguments and instructions belong to the one call that was decided.
        return Decision(decision.approved, decided_by=decision.decided_by, scope=decision.scope)

    async def withdraw(self, host: str) -> int:
        """Limit the decisions on a host for all runs to the run of each decision; return the number of decisions."""
        sql = "SELECT request_id, hosts FROM approvals WHERE scope = 'always' AND decision_number IS NOT NULL"

        def work(db: sqlite3.Connection) -> int:
            ids = [row["request_id"] for row in db.execute(sql) if host in row["hosts"].split()]
            db.executemany("UPDATE approvals SET scope = 'run' WHERE request_id = ?", [(key,) for key in ids])
            return len(ids)

        return await self._database.write(work)

    async def open_of_same_tool(self, request: ApprovalRequest, decision: Decision) -> list[ApprovalRequest]:
        """Return the open requests of the same tool, except `request`, that a decision covers, the oldest first."""
        scope = decision.scope
        if (scope == "once" and not request.hosts) or request.kind == BUDGET_KIND:
            return []
        sql = (
            "SELECT a.* FROM approvals a JOIN runs r USING (run_id) WHERE a.tool_name = ? AND a.kind = ? "  # noqa: S608 - constants
            "AND a.request_id <> ? AND a.decision IS NULL AND r.status IN ('running', 'waiting') "
            f"AND ({_ROOT_RUN} = {_ROOT_RUN_OF} OR (? = 'conversation' AND {_CONVERSATION} = {_CONVERSATION_OF}) "
            f"OR ? = 'always') ORDER BY {_OLDEST_FIRST}"
        )
        parameters = (request.tool, request.kind, request.id, request.run_id, scope, request.run_id, scope)
        rows = await self._database.fetch_all(sql, parameters)
        return [other for other in map(_request, rows) if request.covers(other, decision)]

    async def unpublished_decisions(self, run_id: str) -> list[tuple[ApprovalRequest, Decision, str]]:
        """Return the decisions of a run that have no event yet, with request and job id, the oldest first."""
        sql = (
            "SELECT * FROM approvals WHERE run_id = ? AND decision IS NOT NULL AND NOT published "
            "ORDER BY decision_number"
        )
        rows = await self._database.fetch_all(sql, (run_id,))
        decided = ((row, parse_decision(row)) for row in rows)
        return [(_request(row), decision, row["job_id"]) for row, decision in decided if decision is not None]

    async def mark_published(
        self, request_id: str, events: Sequence[EventRow], *, only_while_waiting: bool = False
    ) -> bool:
        """Store the event of a decision; return False if the event is not stored, because it was stored before.

        Args:
            request_id: The request.
            events: Events that are always stored, followed by the event of the decision.
            only_while_waiting: Store nothing unless the run waits, because a running driver publishes the decision.
        """

        def work(db: sqlite3.Connection) -> bool:
            sql = (
                "UPDATE approvals SET published = 1 WHERE request_id = ? AND NOT published "
                "AND (NOT ? OR (SELECT status FROM runs r WHERE r.run_id = approvals.run_id) = 'waiting')"
            )
            is_first = db.execute(sql, (request_id, only_while_waiting)).rowcount == 1
            insert_events(db, events if is_first else events[:-1])
            return is_first

        return await self._database.write(work)

    async def is_any_gate_decided(self, gates: Sequence[Sequence[str]]) -> bool:
        """Return whether any gate, a list of request ids, has only decided requests.

        Requests of subruns that have ended are ignored, because nobody can decide such requests any more.
        """
        sql = (
            "SELECT 1 FROM json_each(?) gate WHERE NOT EXISTS (SELECT 1 FROM json_each(gate.value) asked "
            "JOIN approvals a ON a.request_id = asked.value JOIN runs r USING (run_id) "
            "WHERE a.decision IS NULL AND r.status IN ('running', 'waiting'))"
        )
        return await self._database.fetch_one(sql, (to_json(gates),)) is not None

    async def can_resume(self, run_id: str) -> bool:
        """Return whether a waiting run can continue: one of the gates of its last pause is decided."""
        return await self.is_any_gate_decided(await self.gates(run_id))

    async def gates(self, run_id: str) -> list[list[str]]:
        """Return the gates of a run's last pause, each a list of request ids."""
        sql = "SELECT data_json FROM events WHERE run_id = ? AND event_type = 'complete' ORDER BY seq DESC LIMIT 1"
        row = await self._database.fetch_one(sql, (run_id,))
        gates: list[list[str]] = [] if row is None else orjson.loads(unpack_text(row[0])).get("gates", [])
        return gates

    async def open_requests(self, run_id: str | None = None) -> list[ApprovalRequest]:
        """Return the undecided requests of one run and its subruns, or of all unfinished runs, the oldest first."""
        return await self._database.read(lambda db: load_open_requests(db, run_id))


def load_open_requests(db: sqlite3.Connection, run_id: str | None = None) -> list[ApprovalRequest]:
    """Return the undecided requests of one run and its subruns, or of all unfinished runs, the oldest first."""
    rows = db.execute(
        "SELECT a.* FROM approvals a JOIN runs r USING (run_id) WHERE a.decision IS NULL "  # noqa: S608 - a constant
        f"AND r.status IN ('running', 'waiting') AND (?1 IS NULL OR ?1 IN (r.run_id, r.parent_run_id)) "
        f"ORDER BY {_OLDEST_FIRST}",
        (run_id,),
    )
    return [_request(row) for row in rows]


def _find(db: sqlite3.Connection, request_id: str) -> sqlite3.Row:
    row: sqlite3.Row | None = db.execute(
        f"SELECT a.*, r.status AS run_status, r.parent_run_id, {START_LOCK} AS start_lock "  # noqa: S608 - a constant
        "FROM approvals a JOIN runs r USING (run_id) WHERE request_id = ?",
        (request_id,),
    ).fetchone()
    if row is None:
        raise NotFound(
            f"There is no approval request {brief(request_id)} in this store. wb.pending() lists the open requests."
        )
    return row


def _require_undecided(db: sqlite3.Connection, request_id: str, run_id: str | None) -> ApprovalRequest:
    row = _find(db, request_id)
    if run_id is not None and run_id not in {row["run_id"], row["parent_run_id"]}:
        other = f"it is a request of the run {row['run_id']!r}"
        raise NotFound(f"The run {brief(run_id)} has no request {brief(request_id)}: {other}. Nothing was decided.")
    if row["decision"] is not None:
        advice = " Its run did not continue: run.resume() resumes it." if row["start_lock"] else ""
        decided = (
            f"{row['decision']}, by {row['decided_by']} at {format_local_time(from_microseconds(row['decided_at']))}"
        )
        raise Conflict(f"The request {request_id!r} was decided already: {decided}. A decision is final.{advice}")
    if row["run_status"] not in {RUNNING, WAITING}:
        raise Conflict(f"The request {brief(request_id)} belongs to a run that has ended: {row['run_status']}.")
    return _request(row)


def _decide(
    db: sqlite3.Connection, request_id: str, decision: Decision, decided_at: datetime, *, number: int | None
) -> None:
    """Store a decision; `number` gives the order of people's decisions even if the clock is set back."""
    db.execute(
        "UPDATE approvals SET decision = ?, decided_at = max(asked_at, ?), decided_by = ?, instruction = ?, scope = ?, "
        "edited_json = ?, by_code = ?, decision_number = ? WHERE request_id = ?",
        (
            decision.choice,
            to_microseconds(decided_at),
            decision.decided_by,
            storable_text(decision.instruction) or None,
            decision.scope,
            None if decision.params is None else to_json(decision.params),
            decision.by_code,
            number,
            request_id,
        ),
    )


def _row(request: ApprovalRequest, asked_at: datetime) -> dict[str, object]:
    return {
        "request_id": request.id,
        "run_id": request.run_id,
        "subject": request.subject,
        "tool_call_id": request.tool_call_id or None,
        "kind": request.kind,
        "agent_name": request.agent,
        "tool_name": request.tool,
        "title": storable_text(request.title),
        "preview": storable_text(request.preview),
        "message": request.message,
        "params_json": to_json(dict(request.params)),
        "asked_at": to_microseconds(asked_at),
        "allowed": " ".join(request.allowed),
        "hosts": " ".join(request.hosts),
    }


def _request(row: sqlite3.Row) -> ApprovalRequest:
    return ApprovalRequest(
        id=row["request_id"],
        run_id=row["run_id"],
        kind=row["kind"],
        agent=row["agent_name"],
        tool=row["tool_name"],
        params=orjson.loads(row["params_json"]),
        title=row["title"],
        preview=row["preview"],
        message=row["message"],
        tool_call_id=row["tool_call_id"] or "",
        about=row["subject"],
        allowed=tuple(row["allowed"].split()),
        hosts=tuple(row["hosts"].split()),
    )


def parse_decision(row: sqlite3.Row | Mapping[str, Any]) -> Decision | None:
    """Parse the decision in a row of `approvals`; return None for an undecided request."""
    if row["decision"] is None:
        return None
    return Decision(
        approved=row["decision"] in {"approved", "edited"},
        instruction=row["instruction"] or "",
        decided_by=row["decided_by"],
        params=None if row["edited_json"] is None else orjson.loads(row["edited_json"]),
        scope=row["scope"],
        replaces_call=row["decision"] == "instructed",
        by_code=bool(row["by_code"]),
    )
