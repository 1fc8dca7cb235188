"""The cost of frames of a large store, in CPU time and in steps of SQLite."""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support import frames

from artifactflow_nb.analysis.frames.reading import open_store
from artifactflow_nb.core.plan import PLAN_MEDIA_TYPE, Plan, PlanStep
from artifactflow_nb.plugins.projects.grades import Grade
from artifactflow_nb.plugins.projects.project import PROJECT_ID, PROJECT_MEDIA_TYPE, ProjectInfo, ProjectTemplate
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import insert
from artifactflow_nb.store.frames import bind_filters

MESSAGES, VERSIONS, RUNS = 10_000, 1_000, 400
TEXT = "".join(f"A line of an artifact, number {number}.\n" for number in range(290))  # 10 KB


def fill(db: Any) -> None:
    insert(db, "conversations", {"conversation_id": "c", "title": "", "created_at": 0, "active_message_id": "9999"})
    for number in range(MESSAGES):
        message = {"message_id": str(number), "conversation_id": "c", "content": "Why? " * 40, "status": "completed"}
        insert(db, "messages", {**message, "parent_id": str(number - 1) if number else None, "created_at": number})
    version = dict.fromkeys(("title", "content_type", "sha256", "update_type", "created_by"), "x")
    for number in range(VERSIONS):
        counts = {"version": number + 1, "lines_added": 1, "lines_removed": 0, "created_at": number}
        insert(
            db, "artifact_versions", {"conversation_id": "c", "artifact_id": "a", "content": TEXT, **version, **counts}
        )


def add_run(db: Any, number: int) -> None:
    """Add a run in a conversation of its own, with one row in every table."""
    key = str(number)
    ids = {"run_id": key, "conversation_id": key, "message_id": key, "thread_id": key}
    job_ids = {"run_id": key, "job_id": "main", "agent_name": "a"}
    call = {**job_ids, "call_id": key, "step": 1, "completed_at": number}
    insert(db, "conversations", {"conversation_id": key, "title": "", "created_at": 0, "active_message_id": key})
    message = {"message_id": key, "conversation_id": key, "content": "Why?", "status": "completed"}
    insert(db, "messages", {**message, "created_at": number})
    texts = dict.fromkeys(("flow", "question", "status", "mode", "settings_json", "package_version"), "x")
    insert(db, "runs", {**ids, **texts, "started_at": number})
    request = dict.fromkeys(("provider", "request_model", "cassette", "request_hash", "request_json"), "x")
    figures = {"started_at": number, "llm_duration_ms": 1.0, "context_chars": 1, "attempt": 1}
    insert(db, "llm_calls", {**call, **request, **figures, "content": "", "reasoning": ""})
    tool_call = {"tool_call_id": key, "tool_name": "t", "args_json": "{}"}
    insert(db, "tool_calls", {**call, **tool_call, "position": 0, "status": "finished", "called_at": number})
    texts = dict.fromkeys(("kind", "tool_name", "title", "preview", "message", "params_json"), "x")
    insert(db, "approvals", {**job_ids, **texts, "request_id": key, "subject": key, "asked_at": number})
    insert(db, "events", {"run_id": key, "seq": 1, "ts": number, "event_type": "complete", "data_json": "{}"})
    texts = dict.fromkeys(("title", "content_type", "content", "sha256", "update_type", "created_by"), "x")
    counts = {"version": 1, "lines_added": 1, "lines_removed": 0, "created_at": number}
    of_run = {"conversation_id": key, "run_id": key, "message_id": key}
    insert(db, "artifact_versions", {"artifact_id": "a", **of_run, **texts, **counts})
    plan = {"content_type": PLAN_MEDIA_TYPE, "content": Plan(key, "x", (PlanStep("1", "x"),)).to_json()}
    insert(db, "artifact_versions", {"artifact_id": "task_plan", **of_run, **texts, **counts, **plan})
    grade = {"content_type": Grade.media_type, "content": Grade("a", 1, "clarity", "", 5, (), "").format()}
    insert(db, "artifact_versions", {"artifact_id": "g", **of_run, **texts, **counts, **grade, "tool_call_id": key})
    head = ProjectInfo.create("p", ProjectTemplate.load())
    project = {"content_type": PROJECT_MEDIA_TYPE, "content": head.to_json(), "run_id": None}
    insert(db, "artifact_versions", {"artifact_id": PROJECT_ID, **of_run, **texts, **counts, **project})
    check = {**dict.fromkeys(("text", "kind", "status", "checker"), "x"), "n": 0, "n_figures": 0, "claim_id": key}
    of_call = {"check_id": f"{key}/0", "tool_call_id": key, "run_id": key, "conversation_id": key, "artifact_id": "g"}
    insert(db, "claims", {**check, **of_call})
    result = {**dict.fromkeys(("evidence_id", "title", "sql", "tables", "result_json"), "x"), "n_rows": 1}
    figures = {"duration_ms": 1.0, "created_at": number}
    insert(db, "data_results", {**result, **figures, "tool_call_id": key, "run_id": key})
    job = {**dict.fromkeys(("agent_name", "instruction"), "x"), "kind": "execute", "step_id": "1", "attempt": 1, "n": 1}
    insert(db, "plan_jobs", {**job, "job_id": key, "plan_id": key, "run_id": key, "tool_call_id": key, "started_at": 1})


def steps(path: Path, frame: frames.Frame, filters: Mapping[str, object]) -> int:
    """Number of steps of SQLite's virtual machine that it takes to read the rows."""
    n_steps = count()
    values = bind_filters(frame, filters)
    with open_store(path) as db:
        db.set_progress_handler(lambda: next(n_steps) < 0, 1)
        assert db.execute(frame.select(frame.columns, values), values).fetchall()
    return next(n_steps)


def stored(path: Path, fill: Callable[[Any], None]) -> Path:
    async def write() -> None:
        database = Database(path)
        await database.open()
        await database.write(fill)
        await database.close()

    asyncio.run(write())
    return path


@pytest.fixture
def large(tmp_path: Path) -> Path:
    return stored(tmp_path / "store.db", fill)


def add_runs(n: int, db: Any) -> None:
    for number in range(n):
        add_run(db, number)


@pytest.fixture(scope="module")
def few_and_many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Stores of 10 and of 400 runs, which the tests only read."""
    folder = tmp_path_factory.mktemp("runs")
    few = stored(folder / "few.db", partial(add_runs, 10))
    return few, stored(folder / "many.db", partial(add_runs, RUNS))


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of the faster of two calls, since the first one may load a library."""
    seconds = []
    for _ in range(2):
        started = time.thread_time()
        work()
        seconds.append(time.thread_time() - started)
    return min(seconds)


@pytest.mark.timed
def test_many_messages_and_versions_are_loaded_fast(large: Path) -> None:
    """10,000 messages in a chain take half a second at most, 1,000 versions of 10 KB one second."""
    assert len(frames.load_frame(large, frames.MESSAGES)) == MESSAGES
    assert frames.load_frame(large, frames.MESSAGES)["depth"].max() == MESSAGES - 1
    assert len(frames.load_frame(large, frames.ARTIFACTS)) == VERSIONS
    assert cpu_s(lambda: frames.load_frame(large, frames.MESSAGES)) < 0.5
    assert cpu_s(lambda: frames.load_frame(large, frames.MESSAGES, conversation="c", status="completed")) < 0.5
    assert cpu_s(lambda: frames.query(large, "SELECT max(depth) FROM messages WHERE is_active")) < 0.5
    assert cpu_s(lambda: frames.load_frame(large, frames.ARTIFACTS)) < 1.0


@pytest.mark.parametrize(
    "frame", [frame for frame in frames.all_frames() if "run" in frame.filters], ids=lambda f: f.name
)
@pytest.mark.parametrize("filters", [{"run": "7"}, {"conversation": "7"}, {"run": ["7", "8"], "until": "2026-01-01"}])
def test_cost_of_a_filter_is_independent_of_other_runs(
    few_and_many: tuple[Path, Path], frame: frames.Frame, filters: Any
) -> None:
    """The work for one run does not grow with the number of other runs."""
    few, many = (steps(path, frame, filters) for path in few_and_many)
    assert many <= 1.2 * few
    assert steps(few_and_many[1], frame, {}) > 10 * many
