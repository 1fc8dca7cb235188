"""Approval requests and the decisions on them: a row each, decided once.

The request is stored before anybody is asked, and the decision before the run goes on, so neither is lost with a
process. What is open is read from here, never from a graph.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from artifactflow_nb.approvals import BUDGET, ApprovalRequest, Decision, Scope
from artifactflow_nb.errors import Conflict, NotFound
from artifactflow_nb.events import MAIN_JOB
from artifactflow_nb.store.database import Database, insert
from artifactflow_nb.store.metrics import LAST_TURN
from artifactflow_nb.store.runs import RUNNING, WAITING, EventRow, StoredRun, insert_events
from artifactflow_nb.store.schema import to_us
from artifactflow_nb.store.storable import storable_text, to_json

_OLDEST_FIRST = (
    "a.asked_at, a.job_id, (SELECT position FROM tool_calls c WHERE c.tool_call_id = a.tool_call_id), a.rowid"
)
"""By when it was asked in its job: of jobs that work at the same time, which one stores first is chance."""


_FIRST = "coalesce(r.parent_run_id, r.run_id)"
"""The run that a person asked for: what holds for it, holds for the runs that it began, too."""

_CONVERSATION = f"coalesce((SELECT conversation_id FROM runs f WHERE f.run_id = {_FIRST}), r.conversation_id)"  # noqa: S608 - a constant
_FIRST_OF = f"(SELECT {_FIRST} FROM runs r WHERE r.run_id = ?)"  # noqa: S608 - a constant
_CONVERSATION_OF = f"(SELECT {_CONVERSATION} FROM runs r WHERE r.run_id = ?)"  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class Asked:
    """That something was put before somebody: the request, and its decision or None."""

    request_id: str
    decision: Decision | None


class RequestStore:
    """Reads and writes requests and decisions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(
        self,
        request: ApprovalRequest,
        job_id: str,
        asked_at: datetime,
        events: Sequence[EventRow],
        decision: Decision | None = None,
    ) -> bool:
        """Store a request with its events; with a policy's decision they tell that too.

        False, and nothing stored, if its subject was asked about before, by another job at the same moment.
        """
        settled = decision is not None
        row = {**_row(request, asked_at), "job_id": job_id, "announced": settled, "settled": settled}

        def work(db: sqlite3.Connection) -> bool:
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
        """Store decisions by request id, all or none.

        Errors: `NotFound` for an unknown request, or one that is not of the run where a run is given; `Conflict` for
            one that is decided already or whose run is over.
        """

        def work(db: sqlite3.Connection) -> list[ApprovalRequest]:
            requests = [_undecided(db, request_id, run_id) for request_id in decisions]
            last = db.execute("SELECT coalesce(max(decision_number), 0) FROM approvals").fetchone()[0]
            for number, (request_id, decision) in enumerate(decisions.items(), last + 1):
                _decide(db, request_id, decision, decided_at, number=number)
            return requests

        return await self._database.write(work)

    async def get(self, request_id: str) -> ApprovalRequest:
        """A request; `NotFound` if there is none of this id."""
        return await self._database.read(lambda db: _request(_find(db, request_id)))

    async def of_call(self, tool_call_id: str) -> ApprovalRequest | None:
        """The request of a tool call; None if nobody was asked about it."""
        sql = "SELECT * FROM approvals WHERE tool_call_id = ?"
        row: sqlite3.Row | None = await self._database.read(lambda db: db.execute(sql, (tool_call_id,)).fetchone())
        return None if row is None else _request(row)

    async def decisions(self, subjects: Sequence[str]) -> dict[str, Asked]:
        """For each subject that has a request, a tool call for example: the request's id and its decision."""
        if not subjects:
            return {}
        marks = ", ".join("?" * len(subjects))
        sql = f"SELECT * FROM approvals WHERE subject IN ({marks})"  # noqa: S608 - question marks only
        rows = await self._database.read(lambda db: db.execute(sql, tuple(subjects)).fetchall())
        return {row["subject"]: Asked(row["request_id"], decision_of(row)) for row in rows}

    async def of_budget(self, run_id: str, *, by_turn: bool = False) -> list[tuple[ApprovalRequest, Decision | None]]:
        """The requests to go on beyond a run's budget with their decisions, the oldest first.

        With `by_turn`, those that were decided when the last turn of its main job began.
        """
        until = f"AND decided_at <= ({LAST_TURN})" if by_turn else ""
        sql = f"SELECT * FROM approvals WHERE run_id = :run AND kind = 'budget' {until} ORDER BY rowid"  # noqa: S608 - constants
        these = {"run": run_id, "main": MAIN_JOB}
        rows = await self._database.read(lambda db: db.execute(sql, these).fetchall())
        return [(_request(row), decision_of(row)) for row in rows]

    async def standing(self, run: StoredRun, tool: str) -> Decision | None:
        """What a person decided on this tool for the whole run or conversation, the newest first; None if nothing."""
        sql = (
            "SELECT a.* FROM approvals a JOIN runs r USING (run_id) WHERE a.tool_name = ? AND a.decision IS NOT NULL "  # noqa: S608 - constants
            f"AND ((a.scope = 'run' AND {_FIRST} = {_FIRST_OF}) "
            f"OR (a.scope = 'conversation' AND {_CONVERSATION} = {_CONVERSATION_OF})) "
            "ORDER BY a.decision_number DESC LIMIT 1"
        )
        place = (tool, run.run_id, run.run_id)
        row = await self._database.read(lambda db: db.execute(sql, place).fetchone())
        found = None if row is None else decision_of(row)
        return found and Decision(found.approved, decided_by=found.decided_by, scope=found.scope)

    async def open_beside(self, request: ApprovalRequest, scope: Scope) -> list[ApprovalRequest]:
        """The other open requests of the same tool that a decision of this scope covers, the oldest first."""
        if scope == "once" or request.kind == BUDGET:
            return []
        sql = (
            "SELECT a.* FROM approvals a JOIN runs r USING (run_id) WHERE a.tool_name = ? AND a.kind = ? "  # noqa: S608 - constants
            "AND a.request_id <> ? AND a.decision IS NULL AND r.status IN ('running', 'waiting') "
            f"AND ({_FIRST} = {_FIRST_OF} OR (? = 'conversation' AND {_CONVERSATION} = {_CONVERSATION_OF})) "
            f"ORDER BY {_OLDEST_FIRST}"
        )
        place = (request.tool, request.kind, request.id, request.run_id, scope, request.run_id)
        rows = await self._database.read(lambda db: db.execute(sql, place).fetchall())
        return [_request(row) for row in rows]

    async def unannounced(self, run_id: str) -> list[tuple[ApprovalRequest, Decision, str]]:
        """Decisions of the run that its events do not tell yet, with their jobs, the oldest first."""
        sql = (
            "SELECT * FROM approvals WHERE run_id = ? AND decision IS NOT NULL AND NOT announced "
            "ORDER BY decision_number"
        )
        rows = await self._database.read(lambda db: db.execute(sql, (run_id,)).fetchall())
        decided = ((row, decision_of(row)) for row in rows)
        return [(_request(row), decision, row["job_id"]) for row, decision in decided if decision is not None]

    async def mark_announced(
        self, request_id: str, events: Sequence[EventRow], *, only_while_waiting: bool = False
    ) -> bool:
        """Store the event that tells a decision; False, and it is not stored, if it was told before.

        Args:
            request_id: The request.
            events: What is stored with it, and as the last the event that tells it.
            only_while_waiting: Do not tell it either if the run does not wait any more: who drives it does.
        """

        def work(db: sqlite3.Connection) -> bool:
            sql = (
                "UPDATE approvals SET announced = 1 WHERE request_id = ? AND NOT announced "
                "AND (NOT ? OR (SELECT status FROM runs r WHERE r.run_id = approvals.run_id) = 'waiting')"
            )
            first = db.execute(sql, (request_id, only_while_waiting)).rowcount == 1
            insert_events(db, events if first else events[:-1])
            return first

        return await self._database.write(work)

    async def any_decided(self, gates: Sequence[Sequence[str]]) -> bool:
        """Whether one of these gates is open by now: nothing that it waits for can be decided any more.

        All its requests are decided, or of a run that is over: one which the run that waits had begun.
        """
        sql = (
            "SELECT 1 FROM json_each(?) gate WHERE NOT EXISTS (SELECT 1 FROM json_each(gate.value) asked "
            "JOIN approvals a ON a.request_id = asked.value JOIN runs r USING (run_id) "
            "WHERE a.decision IS NULL AND r.status IN ('running', 'waiting'))"
        )
        row = await self._database.read(lambda db: db.execute(sql, (to_json(gates),)).fetchone())
        return row is not None

    async def ready(self, run_id: str) -> bool:
        """Whether a run that waits can go on: one of the gates at which it paused last is open."""
        return await self.any_decided(await self.gates(run_id))

    async def gates(self, run_id: str) -> list[list[str]]:
        """The gates at which a run paused last, each the ids of the requests that it waits for there."""
        sql = "SELECT data_json FROM events WHERE run_id = ? AND event_type = 'complete' ORDER BY seq DESC LIMIT 1"
        row = await self._database.read(lambda db: db.execute(sql, (run_id,)).fetchone())
        paused = {} if row is None else orjson.loads(row[0])
        older = [[request_id] for request_id in paused.get("pending", ())]  # a pause that does not tell its gates
        gates: list[list[str]] = paused.get("gates", older)
        return gates

    async def open_requests(self, run_id: str | None = None) -> list[ApprovalRequest]:
        """Requests without a decision, of one run and those that it began or of all that wait, the oldest first."""
        return await self._database.read(lambda db: load_open_requests(db, run_id))


def load_open_requests(db: sqlite3.Connection, run_id: str | None = None) -> list[ApprovalRequest]:
    """Requests without a decision, of one run and those that it began or of all unfinished ones, the oldest first."""
    rows = db.execute(
        "SELECT a.* FROM approvals a JOIN runs r USING (run_id) WHERE a.decision IS NULL "  # noqa: S608 - a constant
        f"AND r.status IN ('running', 'waiting') AND (?1 IS NULL OR ?1 IN (r.run_id, r.parent_run_id)) "
        f"ORDER BY {_OLDEST_FIRST}",
        (run_id,),
    )
    return [_request(row) for row in rows]


def _find(db: sqlite3.Connection, request_id: str) -> sqlite3.Row:
    row: sqlite3.Row | None = db.execute(
        "SELECT a.*, r.status AS run_status, r.parent_run_id FROM approvals a JOIN runs r USING (run_id) "
        "WHERE request_id = ?",
        (request_id,),
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no approval request {request_id!r} in this store.")
    return row


def _undecided(db: sqlite3.Connection, request_id: str, run_id: str | None) -> ApprovalRequest:
    row = _find(db, request_id)
    if run_id is not None and run_id not in {row["run_id"], row["parent_run_id"]}:
        raise NotFound(f"The request {request_id!r} is not of the run {run_id!r}; nothing was decided.")
    if row["decision"] is not None:
        raise Conflict(f"The request {request_id!r} was decided already: {row['decision']}. It stays so.")
    if row["run_status"] not in {RUNNING, WAITING}:
        raise Conflict(f"The request {request_id!r} is of a run that is over: {row['run_status']}.")
    return _request(row)


def _decide(
    db: sqlite3.Connection, request_id: str, decision: Decision, decided_at: datetime, *, number: int | None
) -> None:
    """Store a decision; those of persons have a number, by which they are in order."""
    db.execute(
        "UPDATE approvals SET decision = ?, decided_at = max(asked_at, ?), decided_by = ?, instruction = ?, scope = ?, "
        "edited_json = ?, by_code = ?, decision_number = ? WHERE request_id = ?",
        (
            decision.word,
            to_us(decided_at),
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
        "asked_at": to_us(asked_at),
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
    )


def decision_of(row: sqlite3.Row | Mapping[str, Any]) -> Decision | None:
    """The decision of a row of `approvals`; None if there is none yet."""
    if row["decision"] is None:
        return None
    return Decision(
        approved=row["decision"] in {"approved", "edited"},
        instruction=row["instruction"] or "",
        decided_by=row["decided_by"],
        params=None if row["edited_json"] is None else orjson.loads(row["edited_json"]),
        scope=row["scope"],
        instead=row["decision"] == "instructed",
        by_code=bool(row["by_code"]),
    )
