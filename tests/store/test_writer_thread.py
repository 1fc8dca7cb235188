"""Writes that are queued at the same time share a commit, and nothing else."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from artifactflow_nb.errors import StoreError, UsageError
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import insert

AT_ONCE = 100


async def open_database(path: Path) -> Database:
    database = Database(path)
    await database.open()
    return database


def insert_text(key: str, error: Exception | None = None) -> object:
    def work(db: sqlite3.Connection) -> str:
        insert(db, "texts", {"sha256": key, "content": key})
        if error is not None:
            raise error
        return key

    return work


async def keys(database: Database) -> set[str]:
    rows = await database.read(lambda db: db.execute("SELECT sha256 FROM texts").fetchall())
    return {row["sha256"] for row in rows}


async def test_each_write_of_a_batch_has_its_own_result(tmp_path: Path) -> None:
    """A write that raises stores nothing; other writes of the batch are stored, and each caller gets its own result."""
    database = await open_database(tmp_path / "store.db")
    errors = {number: UsageError(f"no {number}") for number in range(0, AT_ONCE, 7)}
    works = [insert_text(f"k{number}", errors.get(number)) for number in range(AT_ONCE)]
    results = await asyncio.gather(*map(database.write, works), return_exceptions=True)
    assert results == [errors.get(number, f"k{number}") for number in range(AT_ONCE)]
    assert await keys(database) == {f"k{number}" for number in range(AT_ONCE) if number not in errors}
    await database.close()


async def test_database_error_reaches_only_its_own_write(tmp_path: Path) -> None:
    """A duplicate key fails only the write that inserts the key again, and no other write of the batch."""
    database = await open_database(tmp_path / "store.db")
    results = await asyncio.gather(*(database.write(insert_text(key)) for key in "abcac"), return_exceptions=True)
    assert results[:3] == ["a", "b", "c"]
    assert all(isinstance(error, StoreError) and "UNIQUE" in str(error) for error in results[3:])
    assert await keys(database) == {"a", "b", "c"}
    await database.close()


async def test_writes_of_a_failed_batch_are_repeated(tmp_path: Path) -> None:
    """A write that ends the shared transaction does not lose the rows of the other writes."""
    database = await open_database(tmp_path / "store.db")

    def roll_back(db: sqlite3.Connection) -> None:
        db.execute("ROLLBACK")
        raise UsageError("lost")

    works = [insert_text("a"), roll_back, insert_text("b")]
    results = await asyncio.gather(*map(database.write, works), return_exceptions=True)
    assert (results[0], results[2]) == ("a", "b")
    assert isinstance(results[1], UsageError)
    assert await keys(database) == {"a", "b"}
    await database.close()


async def test_cancelled_write_leaves_no_transaction_open(tmp_path: Path) -> None:
    """Cancelled writes of a batch are stored whole or not at all, and the other writes are stored."""
    database = await open_database(tmp_path / "store.db")
    tasks = [asyncio.create_task(database.write(insert_text(f"k{number}"))) for number in range(AT_ONCE)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await keys(database) >= {f"k{number}" for number in range(1, AT_ONCE, 2)}
    await database.close()


async def test_write_after_close_is_an_error(tmp_path: Path) -> None:
    """The error names the path; a write that was queued before the end is stored."""
    database = await open_database(tmp_path / "store.db")
    pending = asyncio.ensure_future(database.write(insert_text("a")))
    await asyncio.sleep(0)
    await database.close()
    assert await pending == "a"
    with pytest.raises(StoreError, match=r"store\.db is closed"):
        await database.write(insert_text("b"))
