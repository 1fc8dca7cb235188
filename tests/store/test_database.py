"""The file of a store: transactions, migration, errors."""

import asyncio
import gc
import sqlite3
import threading
from pathlib import Path

import pytest

from artifactflow_nb.errors import StoreError
from artifactflow_nb.store.database import Database, connect
from artifactflow_nb.store.schema import create_schema, from_microseconds, to_microseconds


async def open_database(path: Path) -> Database:
    database = Database(path)
    await database.open()
    return database


async def test_write_that_raises_stores_nothing(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "store.db")

    def work(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO conversations VALUES ('conv-1', '', NULL, 0)")
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        await database.write(work)
    rows = await database.read(lambda db: db.execute("SELECT count(*) FROM conversations").fetchone()[0])
    await database.close()
    assert rows == 0


async def test_cancelled_write_does_not_block_the_next(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "store.db")

    started, cancelled = threading.Event(), threading.Event()

    def slow(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO conversations VALUES ('conv-1', '', NULL, 0)")
        started.set()
        assert cancelled.wait(30)

    task = asyncio.create_task(database.write(slow))
    assert await asyncio.to_thread(started.wait, 30)
    task.cancel()
    cancelled.set()
    await asyncio.wait([task])
    assert task.cancelled()
    await database.write(lambda db: db.execute("INSERT INTO conversations VALUES ('conv-2', '', NULL, 0)"))
    rows = await database.read(lambda db: [row[0] for row in db.execute("SELECT conversation_id FROM conversations")])
    await database.close()
    assert rows == ["conv-1", "conv-2"]


@pytest.mark.parametrize("fails", [False, True])
async def test_queued_write_of_a_cancelled_caller_is_executed(
    tmp_path: Path, fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The events of the write may be published already. A failure of the write is not logged."""
    database = await open_database(tmp_path / "store.db")
    may_go_on = threading.Event()

    def later(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO conversations VALUES ('conv-1', '', NULL, 0)")
        if fails:
            raise ValueError("half way")

    before = asyncio.create_task(database.write(lambda _db: may_go_on.wait(30)))
    task = asyncio.create_task(database.write(later))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    may_go_on.set()
    await before
    rows = await database.read(lambda db: db.execute("SELECT count(*) FROM conversations").fetchone()[0])
    await database.close()
    del task
    gc.collect()
    assert rows == (0 if fails else 1)
    assert caplog.text == ""


async def test_every_connection_enforces_foreign_keys(tmp_path: Path) -> None:
    """The writer, the reader and other connections have foreign keys switched on."""
    database = await open_database(tmp_path / "store.db")
    ask = "PRAGMA foreign_keys"
    answers = [
        await database.write(lambda db: db.execute(ask).fetchone()[0]),
        await database.read(lambda db: db.execute(ask).fetchone()[0]),
    ]
    await database.close()
    other = connect(tmp_path / "store.db")
    answers.append(other.execute(ask).fetchone()[0])
    other.close()
    assert answers == [1, 1, 1]


async def test_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("not a database, but a letter to one. " * 100)
    with pytest.raises(StoreError, match="store.db cannot be opened"):
        await open_database(path)


def test_migration_runs_once(tmp_path: Path) -> None:
    """Opening a store a second time changes nothing."""
    db = connect(tmp_path / "store.db")
    create_schema(db)
    before = db.execute("SELECT name FROM sqlite_master ORDER BY 1").fetchall()
    create_schema(db)
    after = db.execute("SELECT name FROM sqlite_master ORDER BY 1").fetchall()
    db.close()
    assert [row["name"] for row in before] == [row["name"] for row in after]


@pytest.mark.parametrize("us", [0, 1, 1_790_000_000_123_456])
def test_times_are_stored_to_the_microsecond(us: int) -> None:
    assert to_microseconds(from_microseconds(us)) == us
