"""Writes that come together share a commit, and nothing else."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from artifactflow_nb.errors import StoreError, UsageError
from artifactflow_nb.store.database import Database, insert

AT_ONCE = 100


async def opened(path: Path) -> Database:
    database = Database(path)
    await database.open()
    return database


def adding(key: str, then: Exception | None = None) -> object:
    def work(db: sqlite3.Connection) -> str:
        insert(db, "texts", {"sha256": key, "content": key})
        if then is not None:
            raise then
        return key

    return work


async def keys(database: Database) -> set[str]:
    rows = await database.read(lambda db: db.execute("SELECT sha256 FROM texts").fetchall())
    return {row["sha256"] for row in rows}


async def test_each_write_keeps_its_own_outcome(tmp_path: Path) -> None:
    """Among many writes at once, those that raise leave nothing and the others everything, each told its own."""
    database = await opened(tmp_path / "store.db")
    errors = {number: UsageError(f"no {number}") for number in range(0, AT_ONCE, 7)}
    works = [adding(f"k{number}", errors.get(number)) for number in range(AT_ONCE)]
    told = await asyncio.gather(*map(database.write, works), return_exceptions=True)
    assert told == [errors.get(number, f"k{number}") for number in range(AT_ONCE)]
    assert await keys(database) == {f"k{number}" for number in range(AT_ONCE) if number not in errors}
    await database.close()


async def test_what_the_database_refuses_is_told_to_that_write_alone(tmp_path: Path) -> None:
    """A row that is there already is an error of the store for the second that adds it, and for nobody else."""
    database = await opened(tmp_path / "store.db")
    told = await asyncio.gather(*(database.write(adding(key)) for key in "abcac"), return_exceptions=True)
    assert told[:3] == ["a", "b", "c"]
    assert all(isinstance(error, StoreError) and "UNIQUE" in str(error) for error in told[3:])
    assert await keys(database) == {"a", "b", "c"}
    await database.close()


async def test_a_lost_transaction_is_made_good(tmp_path: Path) -> None:
    """A work that ends the shared transaction takes no other work's rows with it."""
    database = await opened(tmp_path / "store.db")

    def losing(db: sqlite3.Connection) -> None:
        db.execute("ROLLBACK")
        raise UsageError("lost")

    works = [adding("a"), losing, adding("b")]
    told = await asyncio.gather(*map(database.write, works), return_exceptions=True)
    assert (told[0], told[2]) == ("a", "b")
    assert isinstance(told[1], UsageError)
    assert await keys(database) == {"a", "b"}
    await database.close()


async def test_a_cancelled_write_leaves_nothing_open(tmp_path: Path) -> None:
    """Cancelling some of many writes leaves each of them whole or absent, and the others done."""
    database = await opened(tmp_path / "store.db")
    tasks = [asyncio.create_task(database.write(adding(f"k{number}"))) for number in range(AT_ONCE)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await keys(database) >= {f"k{number}" for number in range(1, AT_ONCE, 2)}
    await database.close()


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """A write after the end is refused with the path; one that was asked for before it is done."""
    database = await opened(tmp_path / "store.db")
    asked = asyncio.ensure_future(database.write(adding("a")))
    await asyncio.sleep(0)
    await database.close()
    assert await asked == "a"
    with pytest.raises(StoreError, match=r"store\.db is closed"):
        await database.write(adding("b"))
