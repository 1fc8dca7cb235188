"""Model calls and tool calls with their requests and results.

The tool calls of a reply are stored with the reply, before any of them runs. A call goes from `pending` to `started` to
`finished`, so after a crash a call that may have had an effect differs from one that was never started. The
transcript of a job is read from these rows, so checkpoints do not contain it.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

import orjson

from artifactflow_nb.core.messages import Message, ToolCall, ToolResult, Usage
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import LONG_BYTES, insert, put_texts, read_row, sha256, share_text, to_json, to_row
from artifactflow_nb.store.prompts import PromptEncoder, StoredPrompt, request_hash
from artifactflow_nb.store.runs import EventRow, insert_events
from artifactflow_nb.store.schema import from_microseconds, stored_plugin_tables, to_microseconds

PENDING, STARTED, FINISHED = "pending", "started", "finished"

JobKey = tuple[str, str]
"""The ids of a run and of a job in it."""

_MAX_CACHED_JOBS = 64
"""Most jobs with results in memory, which wait for the job's next prompt; fewer jobs run in parallel."""


@dataclass(frozen=True, slots=True)
class ToolCallSettings:
    """The tool-call part of a model request.

    Attributes:
        tool_protocol: `xml` or `native`.
        tool_choice: `auto` or `none`.
        tools: The request's tool definitions as JSON; empty in the text protocol, which has definitions in the prompt.
    """

    tool_protocol: str
    tool_choice: str
    tools: str = ""


@dataclass(frozen=True, slots=True)
class LlmCall:
    """One model call, finished or failed; the frame `llm_calls` documents the fields."""

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
    tool_settings: ToolCallSettings | None = None
    n_native_calls: int = 0
    pieces: Mapping[str, Any] | None = None
    provider_fields: Mapping[str, Any] | None = None
    retry_delay_s: float | None = None

    @property
    def context_chars(self) -> int:
        """Length of the prompt in characters."""
        return sum(len(message.content) for message in self.messages)


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A tool call as it is stored.

    Attributes:
        call: The tool and its arguments as the model wrote them.
        status: `pending`, `started` or `finished`.
        result: Result; None until the call has finished.
        approval: `not_needed`, `policy`, `approved` or `denied`; None for an undecided request.
        called_at: Time of the first start, or None.
        shown_chars: Number of characters of the result in the prompt; None for all.
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
    """An unfinished tool call with the job and the agent that requested it."""

    call: StoredCall
    job_id: str
    agent: str


@dataclass(frozen=True, slots=True)
class StoredReply:
    """The reply of a model call.

    Attributes:
        text: The text without tool calls.
        ignored_calls: Names of tools that the agent called when it had to answer.
        outcome: Outcome of the answer, or None.
    """

    text: str
    reasoning: str
    finish_reason: str
    ignored_calls: tuple[str, ...] = ()
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """One model turn of a job with its tool calls, in order.

    Attributes:
        n_native_calls: Number of tool calls that are not part of the content.
        provider_fields: Fields that the model expects back in the next request, or None.
    """

    call_id: str
    step: int
    content: str
    calls: tuple[StoredCall, ...] = ()
    n_native_calls: int = 0
    provider_fields: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TurnProgress:
    """Progress of an incomplete turn: whether `agent_start` was published, and the errors of failed attempts."""

    is_published: bool = False
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolRun:
    """An executed tool call: its result and times."""

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
SELECT json_extract(stored_text(args_json), '$.instruction') FROM tool_calls WHERE tool_call_id = ?1
"""

# The event has the parsed text. Parsing the stored content again could give another result, because only the tools
# that the agent had been shown can be called.
_REPLY = """
SELECT stored_text(data_json) AS event, stored_text(reasoning) AS reasoning, finish_reason
FROM llm_calls JOIN events USING (run_id)
WHERE llm_calls.call_id = ?1 AND event_type = 'llm_complete' AND json_extract(event, '$.call_id') = ?1
"""

# An endpoint that ignores tools may answer a native request with calls in its text.
_TEXT_AGENTS = """
SELECT DISTINCT agent_name FROM llm_calls l WHERE run_id = ? AND error_type IS NULL AND (
    json_extract(offer_json, '$.tool_protocol') = 'xml' OR json_extract(offer_json, '$.n_native_calls') = 0
    AND EXISTS (SELECT 1 FROM tool_calls t WHERE t.call_id = l.call_id)
)
"""

_JOB_OF_CALL = "SELECT run_id, job_id FROM tool_calls WHERE tool_call_id = ?"

_FINISHED = "SELECT * FROM tool_calls WHERE run_id = ? AND status = 'finished' ORDER BY called_at, tool_call_id"

_UNFINISHED = """
SELECT t.* FROM tool_calls t WHERE t.run_id = ? AND t.status <> 'finished'
AND t.step = (SELECT max(c.step) FROM llm_calls c WHERE c.run_id = t.run_id AND c.job_id = t.job_id)
ORDER BY t.rowid
"""


class CallStore:
    """Access to the calls of runs. Each write stores its events in the same transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._prompts = PromptEncoder()
        self._results: OrderedDict[JobKey, list[tuple[str, str]]] = OrderedDict()

    async def record_model_call(
        self, model_call: LlmCall, tool_calls: Sequence[tuple[str, ToolCall]], events: Sequence[EventRow]
    ) -> None:
        """Store a model call, failed or not, and the tool calls of its reply, as pairs of id and call."""
        job = model_call.run_id, model_call.job_id
        pending = [_tool_row(model_call, position, *call) for position, call in enumerate(tool_calls)]
        usage, settings = model_call.usage, model_call.tool_settings
        tools = settings.tools or None if settings is not None else None
        offer = settings and {
            "tool_protocol": settings.tool_protocol,
            "tool_choice": settings.tool_choice,
            "tools": tools and sha256(tools),
            "n_native_calls": model_call.n_native_calls,
        }

        results = self._results.pop(job, ())  # the results of the last calls: the new prompt contains slices of them

        def work(db: sqlite3.Connection) -> StoredPrompt:
            prompt = self._prompts.encode(db, job, model_call.call_id, model_call.messages)
            offered = [] if tools is None else [(sha256(tools), tools)]
            put_texts(db, [*prompt.texts, *offered], results)
            row = to_row(
                model_call,
                omit=("messages", "usage", "tool_settings", "n_native_calls", "pieces", "provider_fields"),
                input_tokens=usage and usage.input_tokens,
                output_tokens=usage and usage.output_tokens,
                reasoning_tokens=usage and usage.reasoning_tokens,
                cache_read_tokens=usage and usage.cache_read_tokens,
                tokens_estimated=usage and usage.estimated,
                context_chars=model_call.context_chars,
                offer_json=None if offer is None else to_json(offer),
                pieces_json=None if model_call.pieces is None else to_json(model_call.pieces),
                provider_json=None if model_call.provider_fields is None else to_json(model_call.provider_fields),
                request_hash=request_hash(model_call.request_model, model_call.temperature, prompt.entries),
                request_base=prompt.base,
                request_json=prompt.parts,
            )
            insert(db, "llm_calls", row)
            for call in pending:
                insert(db, "tool_calls", call)
            insert_events(db, events)
            return prompt

        prompt = await self._database.write(work)
        if tool_calls or model_call.error_type is not None:
            self._prompts.remember(job, prompt)
        else:  # a reply without tool calls ends the job
            self._prompts.forget(job)

    async def transcript(self, run_id: str, job_id: str, after: int = 0) -> list[StoredTurn]:
        """Return the successful turns of a job after a step, with their tool calls."""
        return await self._database.read(lambda db: load_transcript(db, run_id, job_id, after))

    async def turn_progress(self, run_id: str, job_id: str, step: int) -> "TurnProgress":
        """Return the stored progress of an incomplete turn."""
        turn = run_id, job_id, step
        failed = "SELECT error_type FROM llm_calls WHERE run_id = ? AND job_id = ? AND step = ? ORDER BY rowid"
        started = (
            "SELECT stored_text(data_json) AS event FROM events WHERE run_id = ? AND event_type = 'agent_start' "
            "AND json_extract(event, '$.job_id') = ? AND json_extract(event, '$.step') = ?"
        )

        def work(db: sqlite3.Connection) -> TurnProgress:
            is_published = db.execute(started, turn).fetchone() is not None
            return TurnProgress(is_published, tuple(row[0] for row in db.execute(failed, turn)))

        return await self._database.read(work)

    async def calls_of_reply(self, call_id: str) -> tuple[StoredCall, ...]:
        """Return the tool calls of one reply, in order."""
        sql = "SELECT * FROM tool_calls WHERE call_id = ? ORDER BY position"
        return tuple(await self._stored_calls(sql, (call_id,)))

    async def call(self, tool_call_id: str) -> StoredCall:
        """Return an existing tool call by its id."""
        sql = "SELECT * FROM tool_calls WHERE tool_call_id = ?"
        (call,) = await self._stored_calls(sql, (tool_call_id,))
        return call

    async def _stored_calls(self, sql: str, parameters: tuple[str, ...]) -> list[StoredCall]:
        return await self._database.read(lambda db: [_stored_call(db, row) for row in db.execute(sql, parameters)])

    async def finished_rows(self, run_id: str) -> list[dict[str, Any]]:
        """Return the rows of a run's finished tool calls, by start time."""

        def work(db: sqlite3.Connection) -> list[dict[str, Any]]:
            return [read_row(db, row) for row in db.execute(_FINISHED, (run_id,))]

        return await self._database.read(work)

    async def text_agents(self, run_id: str) -> list[str]:
        """Return the names of a run's agents that write their calls into the text of replies."""
        return [row[0] for row in await self._database.fetch_all(_TEXT_AGENTS, (run_id,))]

    async def last_step(self, run_id: str, job_id: str) -> int:
        """Return the number of a job's last turn, including failed turns; 0 before the first turn."""
        sql = "SELECT coalesce(max(step), 0) FROM llm_calls WHERE run_id = ? AND job_id = ?"
        ((step,),) = await self._database.fetch_all(sql, (run_id, job_id))
        return int(step)

    async def unfinished(self, run_id: str) -> list[OpenCall]:
        """Return the unfinished tool calls of each job's last turn, in order."""

        def work(db: sqlite3.Connection) -> list[OpenCall]:
            rows = db.execute(_UNFINISHED, (run_id,))
            return [OpenCall(_stored_call(db, row), row["job_id"], row["agent_name"]) for row in rows]

        return await self._database.read(work)

    async def ids_of_tool(self, run_id: str, job_id: str, tool: str) -> list[str]:
        """Return the ids of a job's calls of a tool, in order."""
        sql = (
            "SELECT tool_call_id FROM tool_calls WHERE run_id = ? AND job_id = ? AND tool_name = ? "
            "ORDER BY called_at, tool_call_id"
        )
        return [str(row[0]) for row in await self._database.fetch_all(sql, (run_id, job_id, tool))]

    async def reply(self, call_id: str) -> StoredReply:
        """Return the reply of one model call."""
        row = (await self._database.fetch_all(_REPLY, (call_id,)))[0]
        event = orjson.loads(row["event"])
        ignored = tuple(event.get("ignored_calls", ()))
        return StoredReply(event["text"], row["reasoning"], row["finish_reason"], ignored, event.get("outcome"))

    async def instruction(self, job_id: str) -> str:
        """Return the instruction of a delegated job, a plan job or a block job, or an empty string."""

        def work(db: sqlite3.Connection) -> str:
            jobs = [table.name for table in stored_plugin_tables(db) if table.holds_jobs]
            of_plugins = (f"SELECT instruction FROM {name} WHERE job_id = ?1 UNION ALL" for name in jobs)  # noqa: S608 - names
            row = db.execute(" ".join([*of_plugins, _INSTRUCTION]), (job_id,)).fetchone()
            return "" if row is None else str(row[0] or "")

        return await self._database.read(work)

    async def start(
        self, tool_call_id: str, called_at: datetime, events: Sequence[EventRow], approval: str | None = None
    ) -> None:
        """Mark a call as started before it runs: from now on the call may have had an effect."""

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE tool_calls SET status = 'started', called_at = coalesce(called_at, ?), "
                "approval = coalesce(?, approval) WHERE tool_call_id = ?",
                (to_microseconds(called_at), approval, tool_call_id),
            )
            insert_events(db, events)

        await self._database.write(work)

    async def finish(self, runs: Sequence[ToolRun]) -> None:
        """Store the results of executed calls with their events."""
        rows = []
        for run in runs:
            result, metadata = run.result, dict(run.result.metadata)
            error_type = None if result.success else metadata.pop("error_type", "ToolError")
            row = to_row(
                run,
                omit=("result", "events"),
                success=result.success,
                result=None,
                metadata_json=to_json(metadata),
                error_type=error_type,
                error_message=result.error,
            )
            rows.append(row)
        texts = [run.result.data for run in runs]

        def work(db: sqlite3.Connection) -> list[JobKey]:
            jobs = [tuple(db.execute(_JOB_OF_CALL, (run.tool_call_id,)).fetchone()) for run in runs]
            for row, text, (run_id, _) in zip(rows, texts, jobs, strict=True):
                row["result"] = text and share_text(db, run_id, text)
            db.executemany(
                "UPDATE tool_calls SET status = 'finished', approval = :approval, success = :success, "
                "result = :result, metadata_json = :metadata_json, error_type = :error_type, "
                "error_message = :error_message, called_at = coalesce(called_at, :called_at), "
                "completed_at = :completed_at, duration_ms = :duration_ms, shown_chars = :shown_chars, "
                "cassette = :cassette WHERE tool_call_id = :tool_call_id",
                rows,
            )
            for run in runs:
                insert_events(db, run.events)
            return jobs

        for job, text in zip(await self._database.write(work), texts, strict=True):
            if text and len(text) >= LONG_BYTES:
                self._results.setdefault(job, []).append((sha256(text), text))
                self._results.move_to_end(job)
        while len(self._results) > _MAX_CACHED_JOBS:
            self._results.popitem(last=False)


def load_transcript(db: sqlite3.Connection, run_id: str, job_id: str, after: int = 0) -> list[StoredTurn]:
    """Load the successful turns of a job after a step, with their tool calls."""
    parameters = run_id, job_id, after
    turns = db.execute(
        "SELECT call_id, step, stored_text(content) AS content, offer_json, stored_text(provider_json) AS provider "
        "FROM llm_calls "
        "WHERE run_id = ? AND job_id = ? AND step > ? AND error_type IS NULL ORDER BY step",
        parameters,
    ).fetchall()
    rows = db.execute(
        "SELECT * FROM tool_calls WHERE run_id = ? AND job_id = ? AND step > ? ORDER BY step, position", parameters
    )
    calls = {
        key: tuple(_stored_call(db, row) for row in group)
        for key, group in groupby(rows, key=lambda row: row["call_id"])
    }
    transcript = []
    for turn in turns:
        of_turn = turn["call_id"], turn["step"], turn["content"], calls.get(turn["call_id"], ())
        n_native_calls = orjson.loads(turn["offer_json"] or "{}").get("n_native_calls", 0)
        fields = turn["provider"] and orjson.loads(turn["provider"])
        transcript.append(StoredTurn(*of_turn, n_native_calls, fields))
    return transcript


def _stored_call(db: sqlite3.Connection, stored: sqlite3.Row) -> StoredCall:
    row = read_row(db, stored)
    args = orjson.loads(row["args_json"])
    parse_error = row["error_message"] if row["error_type"] == "Unreadable" else None
    result = None
    if row["status"] == FINISHED:
        metadata = orjson.loads(row["metadata_json"])
        if row["error_type"] is not None:  # `finish` moved the type to its column
            metadata["error_type"] = row["error_type"]
        result = ToolResult(bool(row["success"]), row["result"] or "", row["error_message"], metadata)
    # The metadata column of an unfinished call holds the flag of `_tool_row`, later the metadata of the result.
    needs_approval = row["status"] != FINISHED and bool(orjson.loads(row["metadata_json"] or "{}").get("asks"))
    call = ToolCall(row["tool_name"], args, parse_error, needs_approval)
    called_at = None if row["called_at"] is None else from_microseconds(row["called_at"])
    return StoredCall(row["tool_call_id"], call, row["status"], result, row["approval"], called_at, row["shown_chars"])


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
        "metadata_json": to_json({"asks": True}) if call.needs_approval else None,
        "error_type": "Unreadable" if call.error else None,
        "error_message": call.error,
    }
