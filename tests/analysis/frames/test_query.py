"""SQL over the frames: names, types, limits and errors."""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import frames

import artifactflow_nb as af

MOVING = "wait_ms"
"""Grows as long as a run waits."""

ENDLESS = "WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT sum(n) FROM t"


@pytest.mark.parametrize("frame", frames.all_frames(), ids=lambda frame: frame.name)
def test_bare_name_is_the_frame(sample_store: Path, frame: frames.Frame) -> None:
    """A bare name gives the frame with its columns and types."""
    key = ", ".join(column.name for column in frame.select_columns([]))
    loaded = frames.load_frame(sample_store, frame).sort_values(key.split(", ")).reset_index(drop=True)
    found = frames.query(sample_store, f"SELECT * FROM {frame.name} ORDER BY {key}")  # noqa: S608 - names of the frame
    pd.testing.assert_frame_equal(
        found.drop(columns=MOVING, errors="ignore"), loaded.drop(columns=MOVING, errors="ignore")
    )
    nothing = frames.query(sample_store, f"SELECT * FROM {frame.name} WHERE FALSE")  # noqa: S608 - the same
    assert nothing.dtypes.astype(str).tolist() == [column.dtype for column in frame.select_columns(None)]


def test_frames_are_grouped_and_joined(sample_store: Path, open_workbench: Callable[..., af.Workbench]) -> None:
    """A computed column gets its type from its values; a column of a frame keeps its type, also for min and max."""
    with open_workbench() as wb:
        found = wb.query("""
            SELECT agent_name, sum(l.total_tokens) AS tokens, avg(l.llm_duration_ms) AS mean_ms, max(l.started_at),
                count(*) AS n, min(r.question) AS question, 'x' || agent_name AS named
            FROM llm_calls AS l JOIN runs AS r USING (run_id) GROUP BY agent_name ORDER BY agent_name
        """)
        calls = wb.llm_calls_df()
    assert found.dtypes.astype(str).to_dict() == {
        "agent_name": "category",
        "tokens": "Int64",
        "mean_ms": "Float64",
        "max(l.started_at)": "datetime64[us, UTC]",
        "n": "Int64",
        "question": "string",
        "named": "string",
    }
    expected = calls.groupby("agent_name", observed=True)["total_tokens"].sum()
    assert found.set_index("agent_name")["tokens"].to_dict() == expected.to_dict()
    assert found["max(l.started_at)"].max() == calls["started_at"].max()
    assert found.attrs["schema"] == "artifactflow_nb/query/1"


def test_tables_of_the_store_can_be_read(sample_store: Path) -> None:
    """The schema `main` selects a table with the name of a frame; JSON functions and full-text search work."""
    (settings,) = frames.query(sample_store, "SELECT settings_json FROM main.runs LIMIT 1")["settings_json"]
    assert settings.startswith("{")
    assert len(frames.query(sample_store, "SELECT title FROM conversations")) == 5
    agents = frames.query(
        sample_store, "SELECT j.value FROM tool_calls, json_each(args_json) AS j WHERE j.key = 'agent_name'"
    )
    assert set(agents["value"]) == {"search_agent"}
    assert len(frames.query(sample_store, "SELECT body FROM passage_words WHERE passage_words MATCH 'letter'")) == 1
    assert "total_tokens" in set(frames.query(sample_store, "PRAGMA table_info(runs)")["name"])


def test_types_follow_the_column_name_only_if_values_fit(sample_store: Path) -> None:
    """Other values keep their type, and columns of the same name get a suffix."""
    found = frames.query(
        sample_store,
        "SELECT 2.5 AS started_at, 7 AS success, 1 AS success, 3 AS status, x'00' AS b, NULL AS n, 'a' AS n_2, 1 AS n "
        "UNION ALL SELECT 2, 0, 0, 'x', NULL, NULL, NULL, 2.5",
    )
    assert found.dtypes.astype(str).to_dict() == {
        "started_at": "Float64",
        "success": "Int64",
        "success_2": "boolean",
        "status": "object",
        "b": "object",
        "n": "Int64",
        "n_2": "string",
        "n_3": "Float64",
    }


def test_parameters_are_positional_or_named(sample_store: Path) -> None:
    """A datetime compares with stored times, and numbers of numpy are accepted."""
    everything = frames.load_frame(sample_store, frames.RUNS)
    last = everything["started_at"].max()
    later = frames.query(sample_store, "SELECT run_id FROM runs WHERE started_at >= :since", {"since": last})
    assert later["run_id"].tolist() == everything["run_id"][everything["started_at"] >= last].tolist()
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    row = frames.query(
        sample_store, "SELECT ? AS n, ? AS x, ? AS ts, ? AS s", [np.int64(3), np.float64(0.5), moment, "it's"]
    )
    assert row.iloc[0].tolist() == [3, 0.5, pd.Timestamp(moment), "it's"]


@pytest.mark.parametrize(
    "moment",
    [
        date(2000, 1, 1),
        np.datetime64("2000-01-01"),
        np.datetime64("2000-01-01T00:00"),
        np.datetime64("2000-01-01T00:00:00.000000000"),
        pd.Timestamp("2000-01-01"),
    ],
    ids=repr,
)
def test_types_of_times_are_equivalent(sample_store: Path, moment: object) -> None:
    """A date means its midnight, and the unit of a numpy time does not matter."""
    (n_since, n_before) = frames.query(
        sample_store, "SELECT sum(started_at >= :t), sum(started_at < :t) FROM runs", {"t": moment}
    ).iloc[0]
    assert (n_since, n_before) == (5, 0)
    assert frames.query(sample_store, "SELECT ? AS ts", [moment]).iloc[0, 0] == pd.Timestamp("2000-01-01", tz="UTC")


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM main.runs",
        "DELETE FROM runs",
        "DELETE FROM main.runs RETURNING run_id",
        "UPDATE main.runs SET status = 'completed'",
        "INSERT INTO main.texts VALUES ('a', 'b')",
        "UPDATE sqlite_master SET sql = ''",
        "UPDATE sqlite_temp_master SET sql = ''",
        "DROP VIEW runs",
        "CREATE TABLE t (a)",
        "CREATE TEMP TABLE t (a)",
        "ATTACH 'other.db' AS other",
        "ATTACH ':memory:' AS other",
        "DETACH main",
        "VACUUM",
        "VACUUM INTO 'other.db'",
        "REINDEX",
        "ANALYZE",
        "BEGIN",
        "COMMIT",
        "SAVEPOINT a",
        "PRAGMA user_version = 1",
        "PRAGMA writable_schema = 1",
        "PRAGMA query_only",
        "PRAGMA journal_mode = DELETE",
        "SELECT load_extension('x')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT 1; DELETE FROM main.runs",
        "INSERT INTO passage_words (passage_words) VALUES ('delete-all')",
    ],
)
def test_query_can_only_read(sample_store: Path, sql: str) -> None:
    """Statements that write, attach a file or change a setting are rejected."""
    with closing(sqlite3.connect(sample_store)) as db:
        before = list(db.iterdump())
    with pytest.raises(af.errors.UsageError, match="The SQL"):
        frames.query(sample_store, sql)
    with closing(sqlite3.connect(sample_store)) as db:
        assert list(db.iterdump()) == before
    assert not Path("other.db").exists()


@pytest.mark.parametrize(
    ("sql", "params", "message"),
    [
        ("SELECT foo FROM runs", None, "no such column: foo. It sees the frames runs, llm_calls, .* main.runs"),
        ("SELECT * FROM nope", None, "no such table: nope. It sees the frames"),
        ("SELCT 1", None, 'near "SELCT": syntax error.'),
        ("", None, "is no query; pass a SELECT: ''"),
        ("DELETE FROM runs", None, "would do more than read .* nothing was done"),
        ("-- nothing", None, "pass a SELECT"),
        ("SELECT 1; SELECT 2", None, "one statement at a time"),
        (5, None, "must be str, not int"),
        ("SELECT '\ud800'", None, "surrogates"),
        ("SELECT ?", None, "bindings"),
        ("SELECT :a", {"b": 1}, "binding parameter :a"),
        ("SELECT ?", "a", "params is 'a'; pass a list"),
        ("SELECT ?", [object()], "type 'object' is not supported"),
        ("SELECT ?", [2**70], "too large"),
        ("SELECT ?", [pd.NaT], "NaT, which is not a time"),
        ("SELECT ?", [np.array([1, 2])], "an array of 2 values. Pass one value for each"),
    ],
)
def test_invalid_sql_raises_usage_error_with_the_reason(
    sample_store: Path, sql: Any, params: Any, message: str
) -> None:
    """The error has the message of SQLite, and for an unknown name the known names."""
    with pytest.raises(af.errors.UsageError, match=message):
        frames.query(sample_store, sql, params)


def test_query_ends_at_the_time_limit(sample_store: Path) -> None:
    """An endless statement raises `TimeoutError`; an invalid limit is an error."""
    with pytest.raises(TimeoutError, match="not ended after 0.2 s. Narrow it down"):
        frames.query(sample_store, ENDLESS, timeout_s=0.2)
    assert len(frames.query(sample_store, "SELECT 1", timeout_s=5)) == 1
    for limit in (0, -1, float("nan"), "1"):
        with pytest.raises(af.errors.UsageError, match="timeout_s is "):
            frames.query(sample_store, ENDLESS, timeout_s=limit)  # type: ignore[arg-type]  # what a caller may pass all the same


def test_interrupt_ends_a_query(sample_store: Path) -> None:
    """The interrupt signal of a kernel ends a running statement."""
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        frames.query(sample_store, ENDLESS, timeout_s=20)
    assert len(frames.query(sample_store, "SELECT 1")) == 1


@pytest.mark.parametrize("is_stopped", [True, False])
@pytest.mark.timed
def test_long_function_does_not_block_the_caller(sample_store: Path, is_stopped: bool) -> None:
    """SQLite cannot interrupt a function, so the interrupt and the time limit end only the wait."""
    long = "SELECT printf('%.*c', 150000, 'a') LIKE '%' || printf('%.*c', 30000, 'a') || 'b%'"
    started = time.process_time()  # only the function still computes in this process
    if is_stopped:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt if is_stopped else TimeoutError):
        frames.query(sample_store, long, timeout_s=None if is_stopped else 0.3)
    assert time.process_time() - started < 1.3
    assert len(frames.query(sample_store, "SELECT 1")) == 1


def test_missing_store_is_not_an_sql_error(tmp_path: Path) -> None:
    """A missing file is reported as an error of the store, not of the SQL."""
    with pytest.raises(af.errors.StoreError, match="There is no store"):
        frames.query(tmp_path / "none.db", "SELECT 1")
