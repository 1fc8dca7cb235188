"""The rows of a run: read from one store, written into another."""

from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recording.conftest import SampleStore
from support.sample_recordings import with_row
from support.sealed_store import CITED, open_workbench, scratch_connection, sealed_parts

from artifactflow_nb.errors import Conflict, NotFound
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.rows import RunRows, import_rows, load_branch_rows
from artifactflow_nb.store.database import Database, connect
from artifactflow_nb.store.prompts import resolve


def rows_of(samples: SampleStore, run_id: str | None = None) -> RunRows:
    with scratch_connection(samples.path) as db:
        return load_branch_rows(db, run_id or samples.second)


def contents(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(connect(path, read_only=True)) as db:
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: sorted(map(tuple, db.execute(f"SELECT * FROM {name}")), key=repr)  # noqa: S608 - names of the schema
                for name in names}  # fmt: skip


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Database]:
    """The empty store of another workbench."""
    database = Database(tmp_path / "other" / "store.db")
    await database.open()
    yield database
    await database.close()


# --- reading ---------------------------------------------------------------------------------------------------------


def test_branch_has_the_runs_before_and_nothing_of_siblings(samples: SampleStore) -> None:
    rows = rows_of(samples)
    assert [row["content"] for row in rows["messages"]] == ["Ask: one", "Ask: two"]
    for table in ("runs", "llm_calls", "tool_calls", "events"):
        assert {row["run_id"] for row in rows[table]} == {samples.first, samples.second}
    versions = [(row["artifact_id"], row["version"]) for row in rows["artifact_versions"]]
    assert versions == [("rAskone", 1), ("rAskone", 2), ("rAsktwo", 1), ("rAsktwo", 2)]
    assert len(rows["approvals"]) == 2
    assert rows.run["question"] == "Ask: two"
    assert "Answered" in rows.message["response"]


def test_every_text_of_a_prompt_is_stored_once(samples: SampleStore) -> None:
    """A prompt can be put together from the rows alone."""
    rows = rows_of(samples)
    texts = {row["sha256"] for row in rows["texts"]}
    named = {key for prompt in resolve(rows["llm_calls"], list).values() for _, key, *_ in prompt}
    assert named <= texts
    assert len(texts) == len(rows["texts"])


def test_source_is_stored_once_as_agents_read_it(samples: SampleStore) -> None:
    """A source that was read several times is stored once, with the cited section."""
    parts = sealed_parts(samples.path, samples.second)
    (source,) = parts.sources
    assert (source.address, source.title, source.uri.split(":")[0]) == (CITED, "Letters", "file")
    assert source.text == "# Letters\n\nA letter is sent once."
    assert [row["anchor"] for row in parts.local_sources["sections"]] == ["letters"]


def test_run_that_waits_and_unknown_run_cannot_be_read_as_a_branch(samples: SampleStore) -> None:
    with open_workbench(samples.path.parent) as wb:
        waiting = wb.ask("Ask: later").wait().run_id
    with scratch_connection(samples.path) as db, pytest.raises(Conflict, match=f"{waiting} is waiting"):
        load_branch_rows(db, waiting)
    with scratch_connection(samples.path) as db, pytest.raises(NotFound, match="no run 'run-no'"):
        load_branch_rows(db, "run-no")


def test_failed_run_has_no_answer(tmp_path: Path) -> None:
    with open_workbench(tmp_path / "data", model=ScriptedModel([""])) as wb:
        failed = wb.ask("Fail.").wait()
        assert failed.status == "failed"
    rows = sealed_parts(tmp_path / "data" / "store.db", failed.run_id).rows
    assert (rows.run["status"], rows.message["response"]) == ("failed", None)


# --- importing -------------------------------------------------------------------------------------------------------


async def test_imported_rows_are_the_same_in_the_other_store(samples: SampleStore, other: Database) -> None:
    """Only decisions for a whole conversation change, and become decisions for the run."""
    rows = rows_of(samples)
    assert await other.write(lambda db: import_rows(db, rows)) == sum(map(len, rows.tables.values()))
    with scratch_connection(other.path) as db:
        again = load_branch_rows(db, samples.second)
    narrowed = [{**row, "scope": row["scope"] and "run"} for row in rows["approvals"]]
    assert again == replace(rows, tables={**rows.tables, "approvals": tuple(narrowed)})


async def test_importing_twice_or_into_the_same_store_changes_nothing(samples: SampleStore, other: Database) -> None:
    rows = rows_of(samples)
    await other.write(lambda db: import_rows(db, rows))
    before = contents(other.path)
    assert await other.write(lambda db: import_rows(db, rows)) == 0
    assert contents(other.path) == before
    home = Database(samples.path)
    await home.open()
    assert await home.write(lambda db: import_rows(db, rows)) == 0
    await home.close()


async def test_second_branch_joins_the_first_and_the_active_one_stays(samples: SampleStore, other: Database) -> None:
    await other.write(lambda db: import_rows(db, rows_of(samples)))
    assert await other.write(lambda db: import_rows(db, rows_of(samples, samples.sibling))) > 0
    found = contents(other.path)
    assert len(found["runs"]) == 3
    assert len(found["conversations"]) == 1
    assert rows_of(samples).message["message_id"] in found["conversations"][0]


async def test_other_content_under_the_same_id_is_a_conflict(samples: SampleStore, other: Database) -> None:
    """The row is named, and nothing is written, not even new rows."""
    rows = rows_of(samples, samples.first)
    await other.write(lambda db: import_rows(db, rows))
    before = contents(other.path)
    more = with_row(rows_of(samples), "messages", 0, content="Ask: something else")
    with pytest.raises(Conflict, match=f"messages {rows.message['message_id']}.*Nothing was imported"):
        await other.write(lambda db: import_rows(db, more))
    assert contents(other.path) == before


async def test_thread_of_another_run_is_a_conflict(samples: SampleStore, other: Database) -> None:
    rows = rows_of(samples, samples.first)
    await other.write(lambda db: import_rows(db, rows))
    before = contents(other.path)
    twin = with_row(rows_of(samples, samples.sibling), "runs", thread_id=rows.run["thread_id"])
    with pytest.raises(Conflict, match=r"runs .*UNIQUE constraint failed: runs.thread_id.*Nothing was imported"):
        await other.write(lambda db: import_rows(db, twin))
    assert contents(other.path) == before


async def test_decision_for_a_conversation_approves_nothing_after_the_import(
    samples: SampleStore, tmp_path: Path
) -> None:
    rows = rows_of(samples, samples.first)
    assert {row["scope"] for row in rows["approvals"]} == {"conversation"}
    (tmp_path / "mine").mkdir()
    database = Database(tmp_path / "mine" / "store.db")
    await database.open()
    await database.write(lambda db: import_rows(db, rows))
    await database.close()
    with open_workbench(tmp_path / "mine") as wb:
        assert wb.ask("Ask: two", conversation_id=rows.run["conversation_id"]).wait().status == "waiting"


async def test_import_adds_nothing_to_the_index_of_sources(samples: SampleStore, other: Database) -> None:
    await other.write(lambda db: import_rows(db, rows_of(samples)))
    assert not contents(other.path)["sources"]
