"""The recording of a run, read from the store: everything is there, whether it was to be recorded or not."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Any

import orjson

from artifactflow_nb.approvals import BUDGET
from artifactflow_nb.errors import ContextOverflow
from artifactflow_nb.events import MAIN_JOB, StreamEventType
from artifactflow_nb.messages import Message, ToolCall, ToolResult, Usage
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.recordings.clock import RUN
from artifactflow_nb.recordings.graph_reading import GraphRows
from artifactflow_nb.recordings.graph_steps import GRAPH, left_turns
from artifactflow_nb.recordings.grown import Grown
from artifactflow_nb.recordings.pieces import KeptPieces
from artifactflow_nb.recordings.values import (
    Failure,
    HandWritten,
    Prompt,
    RecordedAsk,
    RecordedCall,
    RecordedNotice,
    RecordedRun,
    RecordedTurn,
    given_up,
    is_of_a_plan,
    job_path,
    lane_of_answer,
    lane_of_call,
    plan_job_path,
)
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.store.calls import FINISHED
from artifactflow_nb.store.requests import decision_of
from artifactflow_nb.store.runs import load_run
from artifactflow_nb.store.schema import from_us

_NOT_OF_TOOLS = {
    StreamEventType.PERMISSION_REQUEST,
    StreamEventType.PERMISSION_RESULT,
    StreamEventType.MIDDLEWARE_ERROR,
}

_OF_CALLS = {StreamEventType.TOOL_START, StreamEventType.TOOL_COMPLETE}
_ENDS = {StreamEventType.COMPLETE, StreamEventType.CANCELLED, StreamEventType.ERROR}


def load_recording(db: sqlite3.Connection, run_id: str) -> RecordedRun:
    """What is known of a run; `NotFound` for an unknown one.

    Of a run that a release before this one made, how its texts arrived is not known: each comes in one piece.
    """
    return _Reader(db, run_id).run()


def load_branch(db: sqlite3.Connection, run_id: str) -> list[RecordedRun]:
    """A run and those that its prompts rest on: the runs of its branch, from the root on, and those that each began."""
    branch = [load_recording(db, run_id)]
    while (before := _run_of(db, branch[-1].parent_message_id)) is not None:
        branch.append(load_recording(db, before))
    return [one for run in branch[::-1] for one in (run, *_begun_by(db, run.run_id))]


def _begun_by(db: sqlite3.Connection, run_id: str) -> Iterator[RecordedRun]:
    """The runs that a run began, in order."""
    for row in db.execute("SELECT run_id FROM runs WHERE parent_run_id = ? ORDER BY rowid", (run_id,)).fetchall():
        yield load_recording(db, row["run_id"])


def _run_of(db: sqlite3.Connection, message_id: str | None) -> str | None:
    """The run that answered a message last; None if there is none."""
    sql = "SELECT run_id FROM runs WHERE message_id = ? ORDER BY rowid DESC LIMIT 1"
    row = db.execute(sql, (message_id,)).fetchone()
    return None if row is None else str(row["run_id"])


class _Reader:
    """Reads one run.

    Args:
        db: A connection to the store.
        run_id: The run.
    """

    def __init__(self, db: sqlite3.Connection, run_id: str) -> None:
        self._db = db
        self._run_id = run_id
        self._row = db.execute("SELECT * FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        self._run = load_run(db, run_id)
        self._events = db.execute(
            "SELECT seq, ts, event_type, agent_name, tool_name, data_json FROM events WHERE run_id = ? ORDER BY seq",
            (run_id,),
        ).fetchall()
        self._calls = self._rows("SELECT * FROM tool_calls WHERE run_id = ? ORDER BY step, position")
        self._calls_of: dict[str, list[sqlite3.Row]] = {}
        for call in self._calls:
            self._calls_of.setdefault(call["call_id"], []).append(call)
        self._asks = {row["subject"]: row for row in self._rows("SELECT * FROM approvals WHERE run_id = ?")}
        self._told: dict[str, int] = {}
        self._at_work: dict[tuple[str, str], str] = {}
        self._notices: dict[str, list[RecordedNotice]] = {}
        self._metadata: dict[str, dict[str, Any] | None] = {}
        self._messages: dict[bytes, Message] = {}
        self._sent = Grown(self._message)
        self._graph = self._graph_rows() if GRAPH in self._run.settings else None
        self._paths = self._job_paths() if self._graph is None else self._graph.paths

    def _rows(self, sql: str) -> list[sqlite3.Row]:
        return self._db.execute(sql, (self._run_id,)).fetchall()

    def _graph_rows(self) -> GraphRows:
        turns = self._rows("SELECT * FROM llm_calls WHERE run_id = ? ORDER BY rowid")
        return GraphRows(self._events, turns, self._calls, self._asks)

    def _job_paths(self) -> dict[str, str]:
        """The paths of jobs by their ids, each call's too: it may be a job."""
        paths = {MAIN_JOB: MAIN_JOB}
        left = list(self._calls)
        plans: dict[str, list[sqlite3.Row]] = {}
        for job in self._rows("SELECT * FROM plan_jobs WHERE run_id = ?"):
            plans.setdefault(job["tool_call_id"], []).append(job)
        while known := [row for row in left if row["job_id"] in paths]:
            for row in known:
                path = paths[row["tool_call_id"]] = job_path(paths[row["job_id"]], row["step"], row["position"])
                paths |= {job["job_id"]: plan_job_path(path, job["n"]) for job in plans.get(row["tool_call_id"], ())}
            left = [row for row in left if row["tool_call_id"] not in paths]
        return paths

    def run(self) -> RecordedRun:
        """All of it."""
        lanes = dict(self._lanes())
        turns = tuple(self._turns())
        steps = () if self._graph is None else tuple(self._graph.steps(self._run_id))
        left = given_up(turns) | left_turns(steps)  # what had arrived of these has the numbers of what was told later
        for turn in turns:
            if isinstance(turn.pieces, KeptPieces) and turn.place not in left:
                lanes.update(dict.fromkeys(turn.pieces.numbers, turn.path))
        run, row = self._run, self._row
        budget = [self._ask(ask["subject"]) for ask in self._asks.values() if ask["kind"] == BUDGET]
        return RecordedRun(
            run_id=run.run_id,
            conversation_id=run.conversation_id,
            message_id=run.message_id,
            thread_id=run.thread_id,
            parent_message_id=run.parent_message_id,
            is_new_conversation=self._is_first(),
            question=run.question,
            flow=run.flow,
            settings=run.settings,
            status=run.status,
            started_at=run.started_at,
            ends=tuple(from_us(event["ts"]) for event in self._events if event["event_type"] in _ENDS),
            turns=turns,
            budget_asks=tuple(ask for ask in budget if ask is not None),
            order=tuple(map(lanes.get, range(1, max(lanes, default=0) + 1), repeat(""))),
            response=run.response,
            error_type=run.error_type,
            error_message=run.error_message,
            package_version=row["package_version"],
            was_stopped=bool(orjson.loads(self._events[-1]["data_json"]).get("clicked")),
            by_hand=tuple(self._by_hand("message_id = ?", self._run.message_id)),
            beforehand=tuple(self._beforehand()),
            manifest=orjson.loads(row["manifest_json"]),
            graph_steps=steps,
            graph_asks=tuple(self._asked(step.subject(self._run_id)) for step in steps if step.is_interrupt),
            subrun_waits=self._subrun_waits(),
            subruns_worked=self._subruns_worked(),
        )

    def _subrun_waits(self) -> tuple[tuple[str, ...], ...]:
        ours = {ask["request_id"] for ask in self._asks.values()}
        told = [orjson.loads(event["data_json"]) for event in self._events if event["event_type"] in _ENDS]
        open_then = (data.get("pending") if isinstance(data.get("pending"), list) else [] for data in told)
        waits = [tuple(key for key in keys if isinstance(key, str) and key not in ours) for keys in open_then]
        return tuple(waits) if any(waits) else ()

    def _subruns_worked(self) -> bool:
        told = [event for event in self._events if event["event_type"] == "complete"]
        pauses = [event["ts"] for event in told if orjson.loads(event["data_json"]).get("interrupted")]
        sql = (
            "SELECT 1 FROM runs r JOIN events e USING (run_id) WHERE r.parent_run_id = ? AND e.ts > ? "
            "AND e.event_type NOT IN ('permission_result', 'cancelled')"
        )
        return bool(pauses) and self._db.execute(sql, (self._run_id, pauses[-1])).fetchone() is not None

    def _by_hand(self, where: str, of: str) -> Iterator[HandWritten]:
        sql = f"SELECT * FROM artifact_versions WHERE {where} AND run_id IS NULL AND created_by = ? ORDER BY rowid"  # noqa: S608 - a condition of this class
        for row in self._db.execute(sql, (of, USER)):
            yield HandWritten(row["artifact_id"], row["update_type"], row["sha256"], from_us(row["created_at"]))

    def _beforehand(self) -> Iterator[HandWritten]:
        if self._is_first():
            yield from self._by_hand("conversation_id = ? AND message_id IS NULL", self._run.conversation_id)

    def _is_first(self) -> bool:
        sql = "SELECT run_id FROM runs WHERE conversation_id = ? ORDER BY rowid LIMIT 1"
        return bool(self._db.execute(sql, (self._run.conversation_id,)).fetchone()[0] == self._run_id)

    def _lanes(self) -> Iterator[tuple[int, str]]:
        """The lane of each stored event, by its number."""
        for event in self._events:
            data = orjson.loads(event["data_json"])
            self._note(event["event_type"], event["tool_name"], data)
            yield event["seq"], self._lane(event, data)

    def _note(self, kind: str, tool: str | None, data: dict[str, Any]) -> None:
        """Keep what is known of a call by its events alone: its metadata as they were, and what its tool told."""
        if tool is None or kind in _NOT_OF_TOOLS:
            return
        where = data.get("job_id", RUN), tool
        if kind == StreamEventType.TOOL_START:
            self._at_work[where] = data["tool_call_id"]
        elif kind == StreamEventType.TOOL_COMPLETE:
            self._metadata[data["tool_call_id"]] = data.get("metadata")
        elif (key := self._at_work.get(where)) is not None:
            said = {name: value for name, value in data.items() if name != "job_id"}
            self._notices.setdefault(key, []).append(RecordedNotice(kind, said))

    def _lane(self, event: sqlite3.Row, data: Mapping[str, Any]) -> str:
        kind, job = event["event_type"], data.get("job_id", RUN)
        if kind == StreamEventType.MIDDLEWARE_ERROR:  # which does not come again where another middleware watches
            return ""
        if kind == StreamEventType.PERMISSION_RESULT:
            ask = next((ask for ask in self._asks.values() if ask["request_id"] == data.get("id")), None)
            if ask is not None and not ask["settled"]:
                self._told[ask["subject"]] = event["ts"]
                return lane_of_answer(self._subject_path(ask["subject"]))
        if self._graph is not None:
            return self._graph.lane(event, data)
        if is_of_a_plan(event):
            job = data.get("tool_call_id", "")
        if kind in _OF_CALLS:
            job = lane_of_call(event["tool_name"] or "", data.get("tool_call_id", ""), job)
        return RUN if job == RUN else self._paths.get(job, "")

    def _subject_path(self, subject: str) -> str:
        return self._paths.get(subject) or subject.replace(self._run_id, "")

    def _turns(self) -> Iterator[RecordedTurn]:
        attempts, overflows = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
        for row in self._rows("SELECT * FROM llm_calls WHERE run_id = ? ORDER BY step, rowid"):
            if (path := self._paths.get(row["job_id"])) is None:
                continue
            place = path, row["step"]
            turn = self._turn(row, path, attempts[place], overflows[place])
            overflows[place] += row["error_type"] == ContextOverflow.__name__
            attempts[place] += 1
            yield turn

    def _turn(self, row: sqlite3.Row, path: str, attempt: int, overflows: int) -> RecordedTurn:
        calls = self._calls_of.get(row["call_id"], [])
        offer = orjson.loads(row["offer_json"]) if row["offer_json"] else {}
        prompt = self._prompt(row, offer)
        has_failed = row["error_type"] is not None
        failure = Failure(row["error_type"], row["error_message"] or "", row["content"], row["retry_delay_s"])
        return RecordedTurn(
            path=path,
            step=row["step"],
            attempt=attempt,
            agent=row["agent_name"],
            provider=row["provider"],
            prompt=prompt,
            started_at=from_us(row["started_at"]),
            completed_at=from_us(row["completed_at"]),
            duration_ms=row["llm_duration_ms"],
            reply=None if has_failed else _reply(row, calls[: offer.get("n_native_calls", 0)], overflows),
            failure=failure if has_failed else None,
            pieces=_pieces(row),
            cost_usd=row["cost_usd"],
            calls=tuple(map(self._call, calls)),
        )

    def _prompt(self, row: sqlite3.Row, offer: Mapping[str, Any]) -> Prompt:
        return Prompt(
            messages=self._sent(orjson.loads(row["request_json"])),
            model=row["request_model"],
            temperature=row["temperature"],
            tool_protocol=offer.get("tool_protocol", "xml"),
            tool_choice=offer.get("tool_choice", "auto"),
            tools=tuple(orjson.loads(self._text(offer["tools"]))) if offer.get("tools") else (),
        )

    def _message(self, sent: list[Any]) -> Message:
        """A message as it was sent; most were sent in several turns, and are the same object there."""
        key = orjson.dumps(sent)
        if (known := self._messages.get(key)) is None:
            role, text, *calls = sent
            made = tuple(ToolCall(name, params) for name, params in (calls[0] if calls else ()))
            known = self._messages[key] = Message(role, self._text(text), made)
        return known

    def _text(self, sha256: str) -> str:
        row = self._db.execute("SELECT content FROM texts WHERE sha256 = ?", (sha256,)).fetchone()
        return str(row["content"])

    def _call(self, row: sqlite3.Row) -> RecordedCall:
        is_over = row["status"] == FINISHED
        unreadable = row["error_message"] if row["error_type"] == "Unreadable" else None
        return RecordedCall(
            tool=row["tool_name"],
            args=orjson.loads(row["args_json"]),
            unreadable=unreadable,
            result=_result(row, self._metadata.get(row["tool_call_id"])) if is_over else None,
            called_at=None if row["called_at"] is None else from_us(row["called_at"]),
            completed_at=from_us(row["completed_at"]) if is_over else None,
            duration_ms=row["duration_ms"] if is_over else 0.0,
            ask=self._ask(row["tool_call_id"]),
            notices=tuple(self._notices.get(row["tool_call_id"], ())),
        )

    def _ask(self, subject: str) -> RecordedAsk | None:
        return self._asked(subject) if subject in self._asks else None

    def _asked(self, subject: str) -> RecordedAsk:
        row = self._asks[subject]
        told = self._told.get(subject)
        return RecordedAsk(
            kind=row["kind"],
            preview=row["preview"],
            asked_at=from_us(row["asked_at"]),
            decided_at=None if row["decided_at"] is None else from_us(row["decided_at"]),
            decision=decision_of(row),
            settled=bool(row["settled"]),
            by_code=bool(row["by_code"]),
            told_at=None if told is None else from_us(told),
            params=orjson.loads(row["params_json"]),
        )


def _reply(row: sqlite3.Row, native: list[sqlite3.Row], n_overflows: int) -> ModelReply:
    calls = tuple(
        ToolCall(
            call["tool_name"],
            orjson.loads(call["args_json"]),
            call["error_message"] if call["error_type"] == "Unreadable" else None,
        )
        for call in native
    )
    usage = Usage(
        row["input_tokens"] or 0,
        row["output_tokens"] or 0,
        reasoning_tokens=row["reasoning_tokens"],
        cache_read_tokens=row["cache_read_tokens"],
        estimated=bool(row["tokens_estimated"]),
    )
    return ModelReply(
        row["content"],
        usage,
        row["finish_reason"],
        row["response_model"],
        calls,
        row["reasoning"],
        row["ttft_ms"],
        row["attempt"] - n_overflows,
    )


def _result(row: sqlite3.Row, metadata: dict[str, Any] | None) -> ToolResult:
    success = bool(row["success"])
    if metadata is None:  # its event was not stored
        metadata = orjson.loads(row["metadata_json"])
        metadata |= {"error_type": row["error_type"]} if not success and row["error_type"] else {}
    return ToolResult(success, row["result"] or "", row["error_message"], metadata)


def _pieces(row: sqlite3.Row) -> KeptPieces | tuple[()]:
    if not row["pieces_json"]:
        return ()
    texts = {"answer": row["content"], "reasoning": row["reasoning"]}
    return KeptPieces(orjson.loads(row["pieces_json"]), from_us(row["started_at"]), texts)
