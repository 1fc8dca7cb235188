"""The rows from which the tree of a conversation is drawn."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from store.conftest import AddTurn
from support.cpu_time import within
from support.replies import report

import artifactflow_nb as af
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.errors import NotFound
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.conversation_tree import TreeEntry, load_tree_entries
from artifactflow_nb.store.database import Database, connect


def read(path: Path, conversation_id: str) -> tuple[TreeEntry, ...]:
    with closing(connect(path, read_only=True)) as db:
        return load_tree_entries(db, path.parent, conversation_id)


@pytest.fixture
def workbench(tmp_path: Path) -> Iterator[af.Workbench]:
    turns = [report("Base."), "Written.", "Second.", "Again.", af.errors.ModelRejected("no such model")]
    with af.Workbench(
        model=ScriptedModel(turns), data_dir=tmp_path / "data", approvals={"create_artifact": "ask"}
    ) as wb:
        yield wb


async def test_messages_have_their_place_in_the_tree(database: Database, add_turn: AddTurn) -> None:
    """The oldest message is first; each message has its parent, and a flag for the active branch."""
    root = await add_turn("root")
    left = await add_turn("left")
    right = await add_turn("right", root)
    again = await add_turn("root, again", None)
    await add_turn("elsewhere", conversation="conv-2")
    entries = read(database.path, "conv-1")
    assert [(entry.message_id, entry.parent_id) for entry in entries] == [
        (root, None), (left, root), (right, root), (again, None),
    ]  # fmt: skip
    assert [entry.is_on_active_branch for entry in entries] == [False, False, False, True]
    assert [entry.is_active for entry in entries] == [False, False, False, True]


async def test_message_of_a_dead_process_is_abandoned(database: Database, add_turn: AddTurn) -> None:
    """The store still has the status running."""
    await add_turn("running", answer=None)
    (entry,) = read(database.path, "conv-1")
    assert (entry.status, entry.response, entry.total_ms) == ("abandoned", None, None)


async def test_long_texts_are_truncated(database: Database, add_turn: AddTurn) -> None:
    """Question and answer are cut at 300 characters."""
    await add_turn("q" * 1_000, answer="a" * 1_000)
    (entry,) = read(database.path, "conv-1")
    assert (entry.question, entry.response) == ("q" * 300, "a" * 300)


async def test_unknown_conversation_is_an_error(database: Database) -> None:
    """The error names the conversation; an empty conversation has no entries."""
    with pytest.raises(NotFound, match="no conversation 'conv-x'"):
        read(database.path, "conv-x")


def test_figures_equal_those_of_the_frames(workbench: af.Workbench) -> None:
    """Tokens, cost, status and active time equal the figures in the frame of runs."""
    first = workbench.ask("Write.").wait(10)
    assert first.status == "waiting"
    time.sleep(0.3)
    first.approve()
    first.wait(10)
    workbench.ask("Second?", conversation_id=first.conversation_id).wait(10)
    workbench.conversation(first).regenerate().wait(10)
    workbench.ask("Fails.", conversation_id=first.conversation_id).wait(10)
    entries = read(workbench.data_dir / STORE_FILE, first.conversation_id)
    frame = workbench.runs_df(columns="all").set_index("message_id")
    assert [entry.status for entry in entries] == ["completed", "completed", "completed", "failed"]
    for entry in entries:
        row = frame.loc[entry.message_id]
        assert (entry.run_id, entry.flow, entry.status) == (row["run_id"], row["flow"], row["status"])
        assert entry.total_tokens == (None if row.isna()["total_tokens"] else row["total_tokens"])
        assert entry.total_ms == pytest.approx(row["total_duration_ms"])
    assert frame.loc[first.message_id]["wait_ms"] >= 300
    assert [entry.n_artifacts for entry in entries] == [1, 0, 0, 0]
    assert entries[-1].error == "no such model"


def test_turn_without_a_run_has_no_figures(database: Database) -> None:
    with closing(connect(database.path)) as db:
        db.execute("INSERT INTO conversations VALUES ('conv-1', 'By hand', 'msg-1', 0)")
        db.execute("INSERT INTO messages VALUES ('msg-1', 'conv-1', NULL, 'Why?', 'So.', 'completed', 0)")
    (entry,) = read(database.path, "conv-1")
    assert (entry.run_id, entry.flow, entry.total_tokens, entry.total_ms, entry.cost_usd) == (None,) * 5
    assert (entry.n_artifacts, entry.is_active) == (0, True)


@pytest.mark.timed
async def test_reading_a_thousand_messages_is_quick(database: Database) -> None:
    """The messages, each with a run of five approved calls, are read in 50 ms, beside 1,000 other messages."""

    def fill(db: sqlite3.Connection) -> None:
        for name in ("wanted", "other"):
            db.execute("INSERT INTO conversations VALUES (?, ?, ?, 0)", (name, name, f"{name}-999"))
            for number in range(1_000):
                _fill_turn(db, name, number)

    await database.write(fill)

    for attempt in within(0.05):
        with attempt:
            entries = read(database.path, "wanted")
        assert (len(entries), entries[500].total_tokens, entries[500].total_ms) == (1_000, 5 * 120, 5_000.0)


def _fill_turn(db: sqlite3.Connection, name: str, number: int) -> None:
    key, above = f"{name}-{number}", f"{name}-{number - 1}" if number else None
    texts = "Why so? " * 60, "Because. " * 250
    db.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, 'completed', 0)", (key, name, above, *texts))
    db.execute(
        "INSERT INTO runs (run_id, conversation_id, message_id, thread_id, flow, question, status, mode, "
        "settings_json, started_at, completed_at, package_version) "
        "VALUES (?1, ?2, ?1, ?1, 'research', '', 'completed', 'live', '{}', 0, 5000000, '0')",
        (key, name),
    )
    for step in range(5):
        db.execute(
            "INSERT INTO llm_calls (call_id, run_id, job_id, step, agent_name, provider, request_model, started_at, "
            "completed_at, llm_duration_ms, input_tokens, output_tokens, context_chars, attempt, cassette, "
            "request_hash, request_json, content, reasoning) "
            "VALUES (?, ?, 'main', ?, 'lead', 'p', 'm', 0, 0, 1.0, 100, 20, 0, 1, 'off', '', '[]', ?, '')",
            (f"{key}.{step}", key, step, texts[1]),
        )
    db.execute(
        "INSERT INTO approvals (request_id, run_id, subject, job_id, kind, agent_name, tool_name, title, preview, "
        "message, params_json, asked_at) VALUES (?1, ?1, ?1, 'main', 'tool', 'lead', 't', '', '', '', '{}', 0)",
        (key,),
    )
    for seq, (kind, data) in enumerate([("metadata", "{}"), ("complete", '{"interrupted":true}'), ("x", "{}")]):
        db.execute("INSERT INTO events VALUES (?, ?, ?, ?, NULL, NULL, ?)", (key, seq, seq * 2_000_000, kind, data))
