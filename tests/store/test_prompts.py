"""Prompts are stored as changes to the previous call's prompt, and read back in full."""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store.conftest import AddTurn

from artifactflow_nb.core.messages import Message, ToolCall
from artifactflow_nb.errors import StoreError
from artifactflow_nb.store.calls import CallStore, LlmCall
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.prompts import MAX_CHAIN, resolve, shared_parts

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def run_id(database: Database, add_turn: AddTurn) -> str:
    await add_turn("question")
    return str(await database.read(lambda db: db.execute("SELECT run_id FROM runs").fetchone()[0]))


async def record(calls: CallStore, run_id: str, step: int, prompt: Sequence[Message]) -> None:
    """Store a call with this prompt, and with one tool call."""
    call = LlmCall(f"call-{step}", run_id, "main", step, "lead_agent", "test", "m", tuple(prompt), NOW, NOW, 1.0)
    await calls.record_model_call(call, [(f"tool-{step}", ToolCall("look", {}))], [])


async def stored(database: Database) -> list[sqlite3.Row]:
    return await database.read(lambda db: db.execute("SELECT * FROM llm_calls ORDER BY rowid").fetchall())


def text_of(db: sqlite3.Connection, sha256: str) -> str:
    return str(db.execute("SELECT content FROM texts WHERE sha256 = ?", (sha256,)).fetchone()[0])


async def read(database: Database, call_id: str) -> list[tuple[str, str]]:
    def work(db: sqlite3.Connection) -> list[tuple[str, str]]:
        rows = [dict(row) for row in db.execute("SELECT * FROM llm_calls ORDER BY rowid")]
        return [(role, text_of(db, key)) for role, key in resolve(rows, list)[call_id]]

    return await database.read(work)


def conversation(n: int, first: int = 0) -> list[Message]:
    rounds = [Message("assistant" if i % 2 else "tool", f"message {i}") for i in range(first, n)]
    return [Message("system", "Be brief."), Message("user", "question"), *rounds]


async def test_chains_are_bounded_and_every_prompt_reads_back(database: Database, run_id: str) -> None:
    """Calls store the new part of their prompts; after a number of calls a prompt is stored in full."""
    calls, n_calls = CallStore(database), 2 * MAX_CHAIN + 10
    for step in range(1, n_calls + 1):
        await record(calls, run_id, step, conversation(2 * step))
    rows = await stored(database)
    whole = [row["step"] for row in rows if row["request_base"] is None]
    assert whole == [1, MAX_CHAIN + 2, 2 * MAX_CHAIN + 3]
    assert max(len(row["request_json"]) for row in rows if row["request_base"] is not None) < 400
    for step in (1, MAX_CHAIN, MAX_CHAIN + 1, MAX_CHAIN + 2, n_calls):
        assert await read(database, f"call-{step}") == [(m.role, m.content) for m in conversation(2 * step)]


async def test_sliding_prompt_stores_only_new_messages(database: Database, run_id: str) -> None:
    """A prompt that has lost its oldest messages is stored as ranges of the previous prompt."""
    calls = CallStore(database)
    messages = conversation(200)
    for step in range(1, 6):
        await record(calls, run_id, step, [*messages[:2], *messages[2 + 4 * step : 100 + 4 * step]])
    assert max(len(row["request_json"]) for row in (await stored(database))[1:]) < 500
    expected = [(m.role, m.content) for m in [*messages[:2], *messages[22:120]]]
    assert await read(database, "call-5") == expected


async def test_another_process_continues_the_chain(database: Database, run_id: str) -> None:
    """A reopened store reads the last prompt once, and then stores the new part of the next prompt."""
    await record(CallStore(database), run_id, 1, conversation(40))
    await record(CallStore(database), run_id, 2, conversation(42))
    last = (await stored(database))[-1]
    assert last["request_base"] == "call-1"
    assert await read(database, "call-2") == [(m.role, m.content) for m in conversation(42)]


async def test_prompt_that_shares_little_is_stored_in_full(database: Database, run_id: str) -> None:
    """After compression changed most of a prompt, the prompt is read without the previous prompt."""
    calls = CallStore(database)
    await record(calls, run_id, 1, conversation(40))
    await record(calls, run_id, 2, conversation(80, first=40))
    assert (await stored(database))[-1]["request_base"] is None


async def test_equal_requests_have_equal_hashes(database: Database, run_id: str) -> None:
    """The hash of a request does not depend on the storage of its prompt."""
    calls = CallStore(database)
    for step, n in enumerate([40, 42, 40, 42], 1):
        await record(calls, run_id, step, conversation(n))
    hashes = [row["request_hash"] for row in await stored(database)]
    assert hashes[0] == hashes[2] != hashes[1] == hashes[3]
    assert hashes[0] == "774a847c67b5f4b17e3d9a0324d820bf5d8c4332d22953585fa136d04aeedb2b"


async def test_chain_without_its_start_is_an_error(database: Database, run_id: str) -> None:
    """The error names the missing call; the prompt is not returned incomplete."""
    rows = [{"call_id": "call-2", "request_base": "call-1", "request_json": "[[0,2]]"}]
    with pytest.raises(StoreError, match="call-2 is based on call-1, which is missing"):
        resolve(rows, list)


@given(before=st.lists(st.integers(0, 9)), now=st.lists(st.integers(0, 9)))
def test_ranges_and_new_messages_restore_the_list(before: list[int], now: list[int]) -> None:
    """Ranges are in order and do not overlap, so the result has at most the previous and the new messages."""
    old, new = [str(n) for n in before], [str(n) for n in now]
    parts = shared_parts(old, new)
    restored = [entry for part in parts for entry in ([new[part]] if isinstance(part, int) else old[part[0] : part[1]])]
    assert restored == new
    ends = [end for part in parts if not isinstance(part, int) for end in part]
    assert ends == sorted(ends)
