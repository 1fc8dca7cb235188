"""Rows of runs with known figures, for the frame and the panel of metrics."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from artifactflow_nb.store.encoding import insert
from artifactflow_nb.store.schema import to_microseconds

DAY = datetime(2026, 3, 2, 9, tzinfo=UTC)


@dataclass(frozen=True)
class CallRow:
    """A model call; times in milliseconds. `tools` are the error types of its tool calls, "" for a success."""

    agent: str = "lead_agent"
    model: str | None = "large"
    tokens: tuple[int, int] | None = (100, 10)
    cached: int | None = None
    ttft: float | None = None
    latency: float = 100.0
    cost: float | None = None
    error: str | None = None
    estimated: bool = False
    tools: Sequence[str] = ()
    at: datetime = DAY


def add_run(
    db: sqlite3.Connection,
    number: int,
    calls: Sequence[CallRow],
    *,
    question: str = "Why?",
    conversation: str = "",
    flow: str = "research",
    status: str = "completed",
    parent: int | None = None,
    at: datetime = DAY,
) -> str:
    """Insert a run with its conversation, message, model calls and tool calls; return the id of the run."""
    run_id, message_id, conversation_id = f"run-{number}", f"msg-{number}", f"conv-{conversation or number}"
    started_at = to_microseconds(at)
    row = {"conversation_id": conversation_id, "title": question, "created_at": started_at}
    insert(db, "conversations", {**row, "active_message_id": message_id}, or_ignore=True)
    message = {"message_id": message_id, "conversation_id": conversation_id, "content": question, "status": status}
    insert(db, "messages", {**message, "created_at": started_at})
    ids = {"run_id": run_id, "conversation_id": conversation_id, "message_id": message_id, "thread_id": run_id}
    texts = {"flow": flow, "question": question, "status": status, "mode": "live", "settings_json": "{}"}
    ended_at = None if status in {"running", "waiting"} else started_at + 1_000_000
    times = {"started_at": started_at, "completed_at": ended_at, "package_version": "0"}
    insert(db, "runs", {**ids, **texts, **times, "parent_run_id": None if parent is None else f"run-{parent}"})
    for step, call in enumerate(calls, 1):
        _add_call(db, run_id, step, call)
    return run_id


def _add_call(db: sqlite3.Connection, run_id: str, step: int, call: CallRow) -> None:
    job = {"run_id": run_id, "job_id": "main", "step": step, "agent_name": call.agent, "call_id": f"{run_id}-{step}"}
    provider = "artifactflow" if call.model is None else "openai"
    model = {"provider": provider, "request_model": call.model or "", "response_model": call.model}
    n_input, n_output = call.tokens or (None, None)
    tokens = {"input_tokens": n_input, "output_tokens": n_output, "cache_read_tokens": call.cached}
    started_at = to_microseconds(call.at)
    times = {"started_at": started_at, "completed_at": started_at + round(call.latency * 1000)}
    figures = {"llm_duration_ms": call.latency, "ttft_ms": call.ttft, "cost_usd": call.cost, "error_type": call.error}
    rest = {"context_chars": 1, "attempt": 1, "cassette": "off", "request_hash": "", "request_json": "[]"}
    row = {**job, **model, **tokens, **times, **figures, **rest, "tokens_estimated": call.estimated}
    insert(db, "llm_calls", {**row, "content": "", "reasoning": ""})
    for position, error in enumerate(call.tools):
        ids = {"tool_call_id": f"{run_id}-{step}-{position}", "position": position, "tool_name": "web_fetch"}
        result = {"status": "finished", "success": not error, "error_type": error or None, "args_json": "{}"}
        ended = {"called_at": started_at, "completed_at": started_at + 1, "duration_ms": 1.0}
        insert(db, "tool_calls", {**job, **ids, **result, **ended})


def fill(db: sqlite3.Connection, n_days: int = 3) -> None:
    """Insert runs of several days, models, flows and agents, the last one still running."""
    questions = ("How fast does the Baltic Sea rise?", "Which gauges agree?", "Compare both studies.", "Write it up.")
    for number in range(4 * n_days):
        at = datetime.now(UTC) - timedelta(days=n_days - 1 - number // 4, minutes=4 - number % 4)
        n = number + 1
        lead = CallRow(
            tokens=(4000 + 310 * n, 220 + 9 * n),
            cached=1200 * (number % 3),
            ttft=310.0 + 35 * n,
            latency=1900.0 + 260 * n,
            cost=0.0123 + 0.001 * n,
            at=at,
            tools=("", "ToolError") if number % 4 == 1 else ("",),
        )
        search = CallRow(
            "search_agent", "small", (900 + 70 * n, 80), None, 140.0 + 8 * n, 620.0 + 45 * n, 0.0004 * n, at=at
        )
        failed = [CallRow(tokens=None, error="ModelUnavailable", latency=30_000.0, at=at)] if number % 5 == 2 else []
        stopped = [CallRow(tokens=(2000, 90), error="RunCancelled", cost=0.004, estimated=True, at=at)]
        calls = [lead, search, search, *failed, *(stopped if number == 6 else [])]
        status = "running" if n == 4 * n_days else "cancelled" if number == 6 else "completed"
        add_run(db, n, calls, question=questions[number % 4], flow="plan" if number % 4 == 2 else "research",
                conversation=str(number // 2), status=status, at=at)  # fmt: skip
