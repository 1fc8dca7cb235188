"""The cost of a deletion, and what it leaves of texts that other runs use."""

import secrets
from datetime import UTC, datetime

from store.conftest import AddTurn

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.core.messages import Message
from artifactflow_nb.store.calls import CallStore, LlmCall
from artifactflow_nb.store.conversations import ConversationManager
from artifactflow_nb.store.database import Database
from artifactflow_nb.testing import FakeIds

SYSTEM = "You are the lead agent, and you answer from sources.\n" * 40


async def add_runs(database: Database, add_turn: AddTurn, first: int, last: int) -> None:
    """Store conversations of one run with three model calls each; all prompts begin with the same text."""
    calls = CallStore(database)
    for n in range(first, last):
        await add_turn(f"Question {n}?", conversation=f"conv-{n}")
        run_id = (await database.fetch_all("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT 1"))[0][0]
        messages = [Message("system", SYSTEM), Message("user", f"Question {n}?")]
        for step in range(1, 4):
            now = datetime.now(UTC)
            call = LlmCall(f"call-{n}-{step}", run_id, "main", step, "lead", "p", "m", tuple(messages), now, now, 1.0)
            await calls.record_model_call(call, [], [])
            messages.append(Message("assistant", f"Step {step} of {n}: {secrets.token_hex(400)}"))


async def steps_of_deletion(database: Database, conversation_id: str) -> int:
    """Return how many tens of instructions SQLite executes for a deletion."""
    ticks: list[None] = []
    await database.write(lambda db: db.set_progress_handler(lambda: ticks.append(None), 10))
    conversations = ConversationManager(database, SystemClock(), FakeIds())
    await conversations.delete_conversation(conversation_id)
    await database.write(lambda db: db.set_progress_handler(None, 10))
    return len(ticks)


async def test_cost_of_a_deletion_does_not_grow_with_the_store(database: Database, add_turn: AddTurn) -> None:
    await add_runs(database, add_turn, 0, 50)
    few = await steps_of_deletion(database, "conv-20")
    await add_runs(database, add_turn, 50, 1_000)
    many = await steps_of_deletion(database, "conv-500")
    assert many < 2 * few


async def test_deletion_keeps_texts_of_other_runs(database: Database, add_turn: AddTurn) -> None:
    await add_runs(database, add_turn, 0, 2)
    before = (await database.fetch_all("SELECT count(*) FROM texts"))[0][0]
    await steps_of_deletion(database, "conv-0")
    left = await database.fetch_all("SELECT stored_text(content) AS text FROM texts")
    assert len(left) == (before - 1) // 2 + 1
    assert SYSTEM in [row["text"] for row in left]
    await steps_of_deletion(database, "conv-1")
    assert await database.fetch_all("SELECT * FROM texts") == []
    assert await database.fetch_all("SELECT * FROM text_uses") == []
