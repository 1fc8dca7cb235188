"""Model calls and tool calls: what was sent, what came back, what ran.

The tool calls of a reply are stored with it, before any of them runs: they are the ledger. A call goes from `pending`
to `started` to `finished`, and one that started and never finished is known as such after a crash. The transcript of a
job is read from here, so that a checkpoint never carries it.
"""

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

import orjson

from artifactflow_nb.messages import Message, ToolCall, ToolResult, Usage
from artifactflow_nb.store.database import Database, insert
from artifactflow_nb.store.runs import EventRow, insert_events
from artifactflow_nb.store.schema import from_us, to_us
from artifactflow_nb.store.storable import to_json

PENDING, STARTED, FINISHED = "pending", "started", "finished"


@dataclass(frozen=True, slots=True)
class Offer:
    """How a model was told to call tools.

    Attributes:
        tool_protocol: `xml` or `native`.
        tool_choice: `auto` or `none`.
        tools: The tools that it was told of beside the prompt, as JSON; empty in the text protocol.
    """

    tool_protocol: str
    tool_choice: str
    tools: str = ""


@dataclass(frozen=True, slots=True)
class LlmCall:
    """One model call, finished or failed; see frames' `llm_calls` for the meaning of the fields."""

    call_id: str
    run_id: str
    job_id: str
    step: int
    agent_name: str
    provider: str
    request_model: str
    messages: tuple[Message, ...]
    started_at: datetime
    completed_at: datetime
    llm_duration_ms: float
    temperature: float | None = None
    response_model: str | None = None
    finish_reason: str | None = None
    ttft_ms: float | None = None
    usage: Usage | None = None
    attempt: int = 1
    content: str = ""
    reasoning: str = ""
    error_type: str | None = None
    error_message: str | None = None
    cost_usd: float | None = None
    cassette: str = "off"
    offer: Offer | None = None
    n_native_calls: int = 0
    pieces: Mapping[str, Any] | None = None
    retry_delay_s: float | None = None

    @property
    def context_chars(self) -> int:
        """Characters of the prompt."""
        return sum(len(message.content) for message in self.messages)


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A tool call as the ledger has it.

    Attributes:
        tool_call_id: Its id.
        call: What the model wrote.
        status: `pending`, `started` or `finished`.
        result: What came of it; None until it finished.
        approval: `not_needed`, `policy`, `approved` or `denied`; None while that is open.
        called_at: When it started first; None if it did not.
        shown_chars: How many characters of its result the model is shown; None for all.
    """

    tool_call_id: str
    call: ToolCall
    status: str
    result: ToolResult | None = None
    approval: str | None = None
    called_at: datetime | None = None
    shown_chars: int | None = None


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A tool call that is not finished, in the job and of the agent whose reply asked for it."""

    call: StoredCall
    job_id: str
    agent: str


@dataclass(frozen=True, slots=True)
class StoredReply:
    """What came back of a model call: its text with the calls that are written in it, and why it stopped."""

    content: str
    reasoning: str
    finish_reason: str


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """One model turn of a job with its tool calls, in order."""

    call_id: str
    step: int
    content: str
    calls: tuple[StoredCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Begun:
    """How far a turn has come that was not taken yet.

    Attributes:
        is_announced: Whether the run's events tell that it began.
        failed: The kinds of error of its attempts so far, in order.
    """

    is_announced: bool = False
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A tool call that has run: its result and when."""

    tool_call_id: str
    result: ToolResult
    approval: str
    called_at: datetime
    completed_at: datetime
    duration_ms: float
    events: Sequence[EventRow] = field(default=())
    shown_chars: int | None = None
    cassette: str = "off"


_INSTRUCTION = """
SELECT instruction FROM plan_jobs WHERE job_id = ?1 UNION ALL
SELECT instruction FROM block_jobs WHERE job_id = ?1 UNION ALL
SELECT json_extract(args_json, '$.instruction') FROM tool_calls WHERE tool_call_id = ?1
"""


_UNFINISHED = """
SELECT t.* FROM tool_calls t WHERE t.run_id = ? AND t.status <> 'finished'
AND t.step = (SELECT max(c.step) FROM llm_calls c WHERE c.run_id = t.run_id AND c.job_id = t.job_id)
ORDER BY t.rowid
"""


class CallStore:
    """Reads and writes the calls of runs. Each write takes the events that belong to it into its transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record_turn(
        self, turn: LlmCall, calls: Sequence[tuple[str, ToolCall]], events: Sequence[EventRow]
    ) -> None:
        """Store a model call and the tool calls of its reply, given with their ids."""
        row, texts = _llm_row(turn)
        pending = [_tool_row(turn, position, *call) for position, call in enumerate(calls)]

        def work(db: sqlite3.Connection) -> None:
            db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", texts)
            insert(db, "llm_calls", row)
            for call in pending:
                insert(db, "tool_calls", call)
            insert_events(db, events)

        await self._database.write(work)

    async def transcript(self, run_id: str, job_id: str) -> list[StoredTurn]:
        """The turns of a job that did not fail, with their tool calls."""
        return await self._database.read(lambda db: load_transcript(db, run_id, job_id))

    async def begun(self, run_id: str, job_id: str, step: int) -> "Begun":
        """What is stored of a turn that was not taken yet."""
        place = run_id, job_id, step
        failed = "SELECT error_type FROM llm_calls WHERE run_id = ? AND job_id = ? AND step = ? ORDER BY rowid"
        started = (
            "SELECT 1 FROM events WHERE run_id = ? AND event_type = 'agent_start' "
            "AND json_extract(data_json, '$.job_id') = ? AND json_extract(data_json, '$.step') = ?"
        )

        def work(db: sqlite3.Connection) -> Begun:
            is_announced = db.execute(started, place).fetchone() is not None
            return Begun(is_announced, tuple(row[0] for row in db.execute(failed, place)))

        return await self._database.read(work)

    async def calls_of(self, call_id: str) -> tuple[StoredCall, ...]:
        """The tool calls of one reply, in order."""
        sql = "SELECT * FROM tool_calls WHERE call_id = ? ORDER BY position"
        rows = await self._database.read(lambda db: db.execute(sql, (call_id,)).fetchall())
        return tuple(map(_stored_call, rows))

    async def call(self, tool_call_id: str) -> StoredCall:
        """A tool call that there is."""
        sql = "SELECT * FROM tool_calls WHERE tool_call_id = ?"
        return _stored_call(await self._database.read(lambda db: db.execute(sql, (tool_call_id,)).fetchone()))

    async def last_step(self, run_id: str, job_id: str) -> int:
        """The number of a job's last turn, failed ones included; 0 if there is none."""
        sql = "SELECT coalesce(max(step), 0) FROM llm_calls WHERE run_id = ? AND job_id = ?"
        row = await self._database.read(lambda db: db.execute(sql, (run_id, job_id)).fetchone())
        return int(row[0])

    async def unfinished(self, run_id: str) -> list[OpenCall]:
        """The tool calls of each job's last turn that are not finished, in order."""
        rows = await self._database.read(lambda db: db.execute(_UNFINISHED, (run_id,)).fetchall())
        return [OpenCall(_stored_call(row), row["job_id"], row["agent_name"]) for row in rows]

    async def reply(self, call_id: str) -> StoredReply:
        """What came back of one model call."""
        sql = "SELECT content, reasoning, finish_reason FROM llm_calls WHERE call_id = ?"
        row = await self._database.read(lambda db: db.execute(sql, (call_id,)).fetchone())
        return StoredReply(row["content"], row["reasoning"], row["finish_reason"])

    async def instruction(self, job_id: str) -> str:
        """What the delegating call of a job asks for, or what it was told to do for a plan or with a block."""
        row = await self._database.read(lambda db: db.execute(_INSTRUCTION, (job_id,)).fetchone())
        return str(row[0] or "")

    async def start(self, tool_call_id: str, called_at: datetime, events: Sequence[EventRow]) -> None:
        """Note that the call starts now: from here on its effect may have happened."""

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE tool_calls SET status = 'started', called_at = coalesce(called_at, ?) WHERE tool_call_id = ?",
                (to_us(called_at), tool_call_id),
            )
            insert_events(db, events)

        await self._database.write(work)

    async def finish(self, runs: Sequence[ToolRun]) -> None:
        """Store the results of calls with their events."""
        rows = [_finished(run) for run in runs]

        def work(db: sqlite3.Connection) -> None:
            db.executemany(
                "UPDATE tool_calls SET status = 'finished', approval = ?, success = ?, result = ?, metadata_json = ?, "
                "error_type = ?, error_message = ?, called_at = coalesce(called_at, ?), completed_at = ?, "
                "duration_ms = ?, shown_chars = ?, cassette = ? WHERE tool_call_id = ?",
                rows,
            )
            for run in runs:
                insert_events(db, run.events)

        await self._database.write(work)


def load_transcript(db: sqlite3.Connection, run_id: str, job_id: str) -> list[StoredTurn]:
    """The turns of a job that did not fail, with their tool calls."""
    turns = db.execute(
        "SELECT call_id, step, content FROM llm_calls WHERE run_id = ? AND job_id = ? AND error_type IS NULL "
        "ORDER BY step",
        (run_id, job_id),
    ).fetchall()
    rows = db.execute(
        "SELECT * FROM tool_calls WHERE run_id = ? AND job_id = ? ORDER BY step, position", (run_id, job_id)
    )
    calls = {key: tuple(map(_stored_call, group)) for key, group in groupby(rows, key=lambda row: row["call_id"])}
    return [
        StoredTurn(turn["call_id"], turn["step"], turn["content"], calls.get(turn["call_id"], ())) for turn in turns
    ]


def _stored_call(row: sqlite3.Row) -> StoredCall:
    args = orjson.loads(row["args_json"])
    unreadable = row["error_message"] if row["error_type"] == "Unreadable" else None
    result = None
    if row["status"] == FINISHED:
        metadata = orjson.loads(row["metadata_json"])
        result = ToolResult(bool(row["success"]), row["result"] or "", row["error_message"], metadata)
    call = ToolCall(row["tool_name"], args, unreadable)
    called_at = None if row["called_at"] is None else from_us(row["called_at"])
    return StoredCall(row["tool_call_id"], call, row["status"], result, row["approval"], called_at, row["shown_chars"])


def _llm_row(turn: LlmCall) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    texts = [(_sha256(message.content), message.content) for message in turn.messages]
    if turn.offer is not None and turn.offer.tools:
        texts.append((_sha256(turn.offer.tools), turn.offer.tools))
    request = to_json([_sent(message, key) for message, (key, _) in zip(turn.messages, texts, strict=False)])
    usage = turn.usage
    row = {
        "call_id": turn.call_id,
        "run_id": turn.run_id,
        "job_id": turn.job_id,
        "step": turn.step,
        "agent_name": turn.agent_name,
        "provider": turn.provider,
        "request_model": turn.request_model,
        "response_model": turn.response_model,
        "temperature": turn.temperature,
        "finish_reason": turn.finish_reason,
        "started_at": to_us(turn.started_at),
        "completed_at": to_us(turn.completed_at),
        "llm_duration_ms": turn.llm_duration_ms,
        "ttft_ms": turn.ttft_ms,
        "input_tokens": usage and usage.input_tokens,
        "output_tokens": usage and usage.output_tokens,
        "reasoning_tokens": usage and usage.reasoning_tokens,
        "cache_read_tokens": usage and usage.cache_read_tokens,
        "tokens_estimated": usage and usage.estimated,
        "context_chars": turn.context_chars,
        "attempt": turn.attempt,
        "cost_usd": turn.cost_usd,
        "cassette": turn.cassette,
        "offer_json": None if turn.offer is None else _offer_json(turn.offer, turn.n_native_calls),
        "pieces_json": None if turn.pieces is None else to_json(turn.pieces),
        "retry_delay_s": turn.retry_delay_s,
        "request_hash": _sha256(f"{turn.request_model}|{turn.temperature}|{request}"),
        "request_json": request,
        "content": turn.content,
        "reasoning": turn.reasoning,
        "error_type": turn.error_type,
        "error_message": turn.error_message,
    }
    return row, texts


def _offer_json(offer: Offer, n_native_calls: int) -> str:
    """How the model was told to call tools, and how many of its calls came that way: others stand in its text."""
    tools = _sha256(offer.tools) if offer.tools else None
    told = {"tool_protocol": offer.tool_protocol, "tool_choice": offer.tool_choice, "tools": tools}
    return to_json({**told, "n_native_calls": n_native_calls})


def _sent(message: Message, key: str) -> list[Any]:
    """A message of a request: its role, the hash of its text and, where it has them, its native calls."""
    calls = [[call.name, dict(call.params)] for call in message.calls]
    return [message.role, key, calls] if calls else [message.role, key]


def _tool_row(turn: LlmCall, position: int, tool_call_id: str, call: ToolCall) -> dict[str, Any]:
    return {
        "tool_call_id": tool_call_id,
        "run_id": turn.run_id,
        "call_id": turn.call_id,
        "job_id": turn.job_id,
        "step": turn.step,
        "position": position,
        "agent_name": turn.agent_name,
        "tool_name": call.name,
        "args_json": to_json(dict(call.params)),
        "status": PENDING,
        "error_type": "Unreadable" if call.error else None,
        "error_message": call.error,
    }


def _finished(run: ToolRun) -> tuple[Any, ...]:
    metadata = dict(run.result.metadata)
    error_type = None if run.result.success else metadata.pop("error_type", "ToolError")
    return (
        run.approval,
        run.result.success,
        run.result.data,
        to_json(metadata),
        error_type,
        run.result.error,
        to_us(run.called_at),
        to_us(run.completed_at),
        run.duration_ms,
        run.shown_chars,
        run.cassette,
        run.tool_call_id,
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
