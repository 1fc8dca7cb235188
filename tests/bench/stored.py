"""Reading much that is stored, against plain sqlite3 reading the same rows of the same file.

- The history of a conversation of 1,000 messages (questions of 200 characters, answers of 2 KB), along one deep branch
  and along a branch of a tree with as many siblings: `format_conversation_history` on the store's reading thread,
  against a SELECT of all the conversation's questions and answers on a connection like that thread's.
- The frames of 100,000 model calls and as many tool calls, opening the file included, against `fetchall` of the frame's
  own query on a connection like the store's, which has the SQL functions of the query.
"""

import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.figures import Figure, cpu_seconds
from support import frames

from artifactflow_nb.core.clock_ids import RandomIds, SystemClock
from artifactflow_nb.store.conversations import ConversationManager
from artifactflow_nb.store.database import Database, connect
from artifactflow_nb.store.encoding import insert

MESSAGES = 1_000
CALLS = 100_000
HISTORY_TARGET = 3.0
FRAME_TARGET = 1.5

_NOW = 1_767_225_600_000_000
_QUESTION, _ANSWER = "Why? " * 40, "Because. " * 227
_PLAIN = "SELECT content, response FROM messages WHERE conversation_id = ?"
_TURNS = 10
_HISTORY_REPEATS = 25
_FRAME_REPEATS = 5


async def figures() -> AsyncIterator[Figure]:
    """Histories and frames."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        database = Database(path)
        await database.open()
        await database.write(_fill)
        async for figure in _histories(database):
            yield figure
        await database.close()
        async for figure in _frames(path):
            yield figure


async def _histories(database: Database) -> AsyncIterator[Figure]:
    conversations = ConversationManager(database, SystemClock(), RandomIds())
    for name, on_branch in {"deep": MESSAGES, "wide": MESSAGES // 2}.items():
        last = f"{name}-{MESSAGES - 2 if name == 'wide' else MESSAGES - 1}"

        async def history(name: str = name, last: str = last) -> object:
            return await conversations.format_conversation_history(name, last)

        async def plain(name: str = name) -> object:
            return await database.read(lambda db: db.execute(_PLAIN, (name,)).fetchall())

        if (found := len(await conversations.path(name, last))) != on_branch:
            raise AssertionError(f"The branch has {found} messages instead of {on_branch}.")
        seconds = await cpu_seconds({"plain": plain, "history": history}, repeats=_HISTORY_REPEATS)
        label = f"history of {on_branch} of {MESSAGES} messages / scan"
        yield Figure(label, seconds["history"] * 1000, seconds["plain"] * 1000, "ms", HISTORY_TARGET)


async def _frames(path: Path) -> AsyncIterator[Figure]:
    for frame in (frames.LLM_CALLS, frames.TOOL_CALLS):

        async def fetched(query: str = frame.query) -> None:
            with closing(connect(path, read_only=True)) as db:
                rows = db.execute(query, {"run_id": None}).fetchall()
            _check(len(rows))

        async def loaded(frame: frames.Frame = frame) -> None:
            _check(len(frames.load_frame(path, frame)))

        sides: Mapping[str, Callable[[], Awaitable[None]]] = {"floor": fetched, "frame": loaded}
        seconds = await cpu_seconds(sides, repeats=_FRAME_REPEATS)
        label = f"frame of {CALLS:,} {frame.name} / fetchall"
        yield Figure(label, seconds["frame"] * 1000, seconds["floor"] * 1000, "ms", FRAME_TARGET)


def _check(rows: int) -> None:
    if rows != CALLS:
        raise AssertionError(f"{rows} of {CALLS} rows came.")


# --- what is stored ------------------------------------------------------------------------------------------------


def _fill(db: sqlite3.Connection) -> None:
    """A deep conversation, a wide one in which every message has a sibling, and the calls of runs of ten turns each."""
    for name, above in {"deep": lambda index: index - 1, "wide": lambda index: index - 2 - index % 2}.items():
        insert(db, "conversations", {"conversation_id": name, "title": name, "created_at": _NOW})
        for index in range(MESSAGES):
            insert(db, "messages", _message(name, index, above(index)))
    insert(db, "conversations", {"conversation_id": "runs", "title": "runs", "created_at": _NOW})
    insert(db, "messages", _message("runs", 0, -1))
    for number in range(CALLS // _TURNS):
        insert(db, "runs", _run(number))
    for index in range(CALLS):
        insert(db, "llm_calls", _llm_call(index))
        insert(db, "tool_calls", _tool_call(index))


def _message(conversation_id: str, index: int, above: int) -> dict[str, Any]:
    return {
        "message_id": f"{conversation_id}-{index}",
        "conversation_id": conversation_id,
        "parent_id": f"{conversation_id}-{above}" if above >= 0 else None,
        "content": _QUESTION,
        "response": _ANSWER,
        "status": "completed",
        "created_at": _NOW + index,
    }


def _run(number: int) -> dict[str, Any]:
    return {
        "run_id": f"run-{number:016x}",
        "conversation_id": "runs",
        "message_id": "runs-0",
        "thread_id": f"thd-{number:016x}",
        "flow": "research",
        "question": _QUESTION,
        "status": "completed",
        "mode": "live",
        "settings_json": "{}",
        "started_at": _NOW,
        "package_version": "0",
    }


def _turn(index: int) -> dict[str, Any]:
    """The common columns of a model call and its tool call."""
    return {
        "call_id": f"call-{index:016x}",
        "run_id": f"run-{index // _TURNS:016x}",
        "job_id": "main",
        "step": index % _TURNS + 1,
        "agent_name": ("lead_agent", "search_agent", "crawl_agent")[index % 3],
        "completed_at": _NOW + index * 1_000 + 900,
    }


def _llm_call(index: int) -> dict[str, Any]:
    return _turn(index) | {
        "provider": "openai",
        "request_model": "model",
        "response_model": "model-2026",
        "temperature": 0.7,
        "finish_reason": "stop",
        "started_at": _NOW + index * 1_000,
        "llm_duration_ms": 900.0 + index % 7,
        "ttft_ms": 100.5 + index % 5 if index % 4 else None,
        "input_tokens": 1_000 + index % 100,
        "output_tokens": 200,
        "cache_read_tokens": index % 50,
        "tokens_estimated": index % 2,
        "context_chars": 4_000,
        "cost_usd": 0.001 * (index % 9),
        "attempt": 1,
        "cassette": "off",
        "request_hash": f"{index:064x}",
        "request_json": "[]",
        "content": _QUESTION,
        "reasoning": "",
    }


def _tool_call(index: int) -> dict[str, Any]:
    return _turn(index) | {
        "tool_call_id": f"tool-{index:016x}",
        "position": 0,
        "tool_name": ("web_search", "read_artifact")[index % 2],
        "args_json": '{"query":"context managers"}',
        "status": "finished",
        "approval": "not_needed",
        "success": index % 10 > 0,
        "result": _QUESTION,
        "metadata_json": "{}",
        "error_message": None if index % 10 else "Nothing was found.",
        "called_at": _NOW + index * 1_000,
        "duration_ms": 12.5,
    }
