"""An open database, and turns in it, for the tests of the store."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.store.conversations import ParentId, ParentSelector
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.runs import COMPLETED, NewRun, RunStore
from artifactflow_nb.testing import FakeIds

AddTurn = Callable[..., Awaitable[str]]


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(tmp_path / "store.db")
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def add_turn(database: Database) -> AddTurn:
    """Store a question with its run and, unless `answer` is None, an answer; return the message's id."""
    runs, ids = RunStore(database), FakeIds()

    async def add(
        question: str,
        parent: ParentId = ParentSelector.ACTIVE,
        *,
        conversation: str = "conv-1",
        answer: str | None = "yes",
    ) -> str:
        known = await database.read(
            lambda db: db.execute("SELECT 1 FROM conversations WHERE conversation_id = ?", (conversation,)).fetchone()
        )
        run = NewRun(
            run_id=ids.new("run"),
            conversation_id=conversation if known else None,
            message_id=ids.new("msg"),
            thread_id=ids.new("thd"),
            parent=parent,
            question=question,
            flow="research",
            owner="eng-1",
            package_version="0",
            started_at=SystemClock().now(),
        )
        await runs.create(run, conversation)
        if answer is not None:
            end = StreamEvent(StreamEventType.COMPLETE, SystemClock().now(), 2, run.run_id)
            await runs.finish(run.run_id, COMPLETED, end, response=answer)
        return run.message_id

    return add
