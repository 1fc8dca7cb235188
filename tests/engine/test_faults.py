"""Runs and workbenches with a full disk, an old or damaged store, and a clock that is set: nothing is lost."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from conftest import OpenEngine
from support import frames
from support.forked_python import fast_python
from support.replies import call, report

import artifactflow_nb as af
from artifactflow_nb.core.clock_ids import RunClock, SystemClock
from artifactflow_nb.engine.engine import CHECKPOINT_FILE, Engine
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import StoreError
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.database import connect
from artifactflow_nb.testing import FakeClock
from artifactflow_nb.tools.base import ToolContext, tool

TIMES = 24
HOUR_MS = 3_600_000

posix = pytest.mark.skipif(sys.platform == "win32", reason="The size of files is limited as POSIX does it.")


def outcomes_of(case: str, *args: object) -> list[dict[str, Any]]:
    """The output lines of a case of `faulty.py`."""
    command = [*fast_python(), str(Path(__file__).parents[1] / "support" / "faults.py"), case, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


# --- a full disk ---------------------------------------------------------------------------------------------------


@posix
def test_full_disk_interrupts_a_run_without_loss(tmp_path: Path) -> None:
    """The run is abandoned with a reason, has consistent rows, and resumes without repetition."""
    outcomes = outcomes_of("run_out", tmp_path / "root", TIMES)
    assert len(outcomes) == TIMES
    abandoned = [outcome for outcome in outcomes if outcome["status"] == "abandoned"]
    assert len(abandoned) >= TIMES * 2 / 3
    for outcome in outcomes:  # the model gets an error if a tool could not write
        assert outcome["problems"] == (["versions"] if outcome["failed"] else [])
        assert (outcome["shown"], outcome["integrity"]) == ([outcome["status"]], "ok")
        assert outcome["ends"] == (["error"] if outcome in abandoned else ["complete"])
        assert outcome.get("resumed", "completed") == "completed"
    for outcome in abandoned:
        for words in (".db", "the disk is full", "MB are free", "Free some space", "run.resume()"):
            assert words in outcome["error"]


@posix
def test_decision_on_a_full_disk_can_be_repeated(tmp_path: Path) -> None:
    """Approving and cancelling raise; the request stays open and is decided later."""
    (outcome,) = outcomes_of("decide", tmp_path / "data")
    for message in (outcome["error"], outcome["cancelled"]):
        assert "store.db could not be written: the disk is full" in message
    assert (outcome["still"], outcome["answer"]) == (["waiting", 1], "Done.")


@posix
def test_opening_and_asking_on_a_full_disk_are_errors(tmp_path: Path) -> None:
    """No incomplete store is left; an existing store can be read, and a refused question leaves no rows."""
    (outcome,) = outcomes_of("begin", tmp_path / "data")
    assert "store.db cannot be opened: the disk is full" in outcome["opening"]
    assert outcome["shown"] == ["First?", "First?"]
    assert "store.db could not be written: the disk is full" in outcome["asking"]
    assert (outcome["after"], outcome["answer"], outcome["integrity"]) == (["First?"], "Two.", "ok")


@tool()
async def note(ctx: ToolContext) -> str:
    """Take a note."""
    return f"noted by {ctx.agent}"


async def limit_checkpoints(engine: Engine, pages: int) -> None:
    """Limit the number of pages of the checkpoint file: SQLite then reports a full disk."""
    await engine.checkpoints.saver.conn.execute_fetchall(f"PRAGMA max_page_count = {pages}")


async def written(engine: Engine) -> None:
    """Wait until the checkpoints of a run are written, which continues while the next node runs."""
    before = -1
    while before != (now := engine.checkpoints.saver.conn.total_changes):
        before = now
        await asyncio.sleep(0.05)


async def fill_checkpoints(engine: Engine) -> None:
    """Leave no free page in the checkpoint file."""
    await written(engine)
    with closing(connect(engine.checkpoints.path)) as db:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
        for sql in (
            "INSERT INTO checkpoints VALUES (?, '', '1', NULL, 'bytes', '', NULL)",
            "INSERT INTO writes VALUES (?, '', '1', 'task', '', 0, 'channel', 'bytes', '')",
        ):
            refused = 0
            while refused < TIMES:  # one place in an index has room when another has none
                try:
                    db.execute(sql, (uuid4().hex,))
                    refused = 0
                except sqlite3.OperationalError:
                    refused += 1
    await limit_checkpoints(engine, pages)


@pytest.mark.parametrize("n_notes", [0, 2])
async def test_full_checkpoint_file_interrupts_a_run_that_can_be_resumed(open_engine: OpenEngine, n_notes: int) -> None:
    """A run that must wait fails with the name of the full file; with space the run waits and repeats no model call."""
    engine = await open_engine([*[call("note")] * n_notes, report(), "Done."], approvals={"create_artifact": "ask"})
    engine.register_tool(note)
    await fill_checkpoints(engine)
    result = await engine.controller.execute("Take notes.")
    assert result.status == "abandoned"
    assert "checkpoints.db cannot be used: the disk is full: database or disk is full" in str(result.error_message)
    assert "repeat nothing that is finished" in str(result.error_message)
    with pytest.raises(StoreError, match=r"checkpoints.db cannot be used"):
        await engine.controller.join(result.run_id)
    await limit_checkpoints(engine, 10_000)
    assert await engine.controller.resume_if_ready(await engine.runs.get(result.run_id))
    await engine.controller.join(result.run_id)
    assert (await engine.controller.result(result.run_id)).status == "waiting"
    after = await engine.controller.resume(result.thread_id, approved=True)
    assert (after.status, after.response, after.error_message) == ("completed", "Done.", None)
    assert len(engine.model.requests) == n_notes + 2
    assert [call.tool_name for call in after.metrics.tool_calls] == [*["note"] * n_notes, "create_artifact"]


async def test_full_checkpoint_file_does_not_stop_a_run_that_never_waits(open_engine: OpenEngine) -> None:
    """Only runs that wait need a checkpoint."""
    engine = await open_engine([call("note"), "Done."])
    engine.register_tool(note)
    await fill_checkpoints(engine)
    assert (await engine.controller.execute("Take notes.")).response == "Done."


async def test_run_with_a_failed_store_can_be_resumed_by_another_engine(open_engine: OpenEngine) -> None:
    """The first engine of the run is still open."""
    ask = {"create_artifact": "ask"}
    first = await open_engine([call("note"), report(), "Never."], approvals=ask)
    second = await open_engine(["Done."], approvals=ask)
    first.register_tool(note)
    second.register_tool(note)
    await fill_checkpoints(first)
    result = await first.controller.execute("Take notes.")
    await (await second.controller.start(await second.runs.get(result.run_id)))
    assert (await second.controller.resume(result.thread_id, approved=True)).status == "completed"
    await first.controller.join(result.run_id)
    assert (await first.controller.result(result.run_id)).error_message is None


async def test_cancellation_that_cannot_be_stored_raises(open_engine: OpenEngine) -> None:
    """The run is shown as abandoned and can be cancelled later."""
    engine = await open_engine(model=ScriptedModel(["Slowly. " * 500], delay_s=0.005))
    run = await engine.controller.begin("Tell.")
    await engine.controller.start(run)
    await asyncio.sleep(0.2)
    await engine.database.write(lambda db: db.execute("ALTER TABLE messages RENAME TO elsewhere"))
    with pytest.raises(StoreError, match=r"store.db could not be written: no such table.*is abandoned"):
        await engine.controller.cancel(run.run_id)
    await engine.database.write(lambda db: db.execute("ALTER TABLE elsewhere RENAME TO messages"))
    assert (await engine.controller.result(run.run_id)).status == "abandoned"
    await engine.controller.cancel(run.run_id)
    assert (await engine.controller.result(run.run_id)).status == "cancelled"


def test_wait_raises_the_store_error_of_the_run(tmp_path: Path) -> None:
    """The error says what to do, the status is abandoned, and `run.resume()` continues the run."""
    turns = [call("note"), report(), "Done."]
    ask = {"create_artifact": "ask"}
    with af.Workbench(model=ScriptedModel(turns), data_dir=tmp_path / "data", approvals=ask) as wb:
        wb.tool(note)
        wb._thread.call(fill_checkpoints(wb._thread.engine))
        run = wb.ask("Take notes.")
        with pytest.raises(StoreError, match=r"checkpoints.db cannot be used: the disk is full.*run.resume\(\)"):
            run.wait()
        assert (run.status, str(run.response)) == ("abandoned", "")
        assert wb.runs_df()["status"].tolist() == ["abandoned"]
        wb._thread.call(limit_checkpoints(wb._thread.engine, 10_000))
        assert run.resume().wait().status == "waiting"
        assert run.approve().wait().response == "Done."


# --- damaged and older files -----------------------------------------------------------------------------------------


async def test_run_continues_without_its_checkpoints(open_engine: OpenEngine, tmp_path: Path) -> None:
    """Damaged checkpoints are an error that names the file.

    After the file is moved away, a waiting run continues from the store alone.
    """
    turns = [call("note"), call("note"), report(), "Done."]
    first = await open_engine(turns[:3], approvals={"create_artifact": "ask"})
    first.register_tool(note)
    waiting = await first.controller.execute("Write.")
    await first.aclose()
    path = tmp_path / "data" / CHECKPOINT_FILE
    path.write_bytes(b"\x00" * 100 + path.read_bytes()[100:])
    damaged = path.read_bytes()
    with pytest.raises(StoreError, match=r"checkpoints.db cannot be used: it is not an SQLite.*move it away.*start"):
        await open_engine([])
    assert path.read_bytes() == damaged
    for file in path.parent.glob(f"{CHECKPOINT_FILE}*"):
        file.rename(tmp_path / file.name)
    second = await open_engine(turns[3:])
    second.register_tool(note)
    result = await second.controller.resume(waiting.thread_id, approved=True)
    assert (result.status, result.response) == ("completed", "Done.")
    assert len(second.model.requests) == 1
    assert [entry.tool_name for entry in result.metrics.tool_calls] == ["note", "note", "create_artifact"]
    assert len(await second.artifacts.versions(result.conversation_id, "research_report")) == 1


# --- the clock -------------------------------------------------------------------------------------------------------


class SetClock(SystemClock):
    """The machine's clock, set forward or back by `shift`; its monotonic clock is unaffected."""

    def __init__(self) -> None:
        self.shift = timedelta()

    def now(self) -> datetime:
        return super().now() + self.shift


@pytest.mark.parametrize("hours", [-5, 5])
async def test_clock_set_during_a_run_makes_no_negative_durations(
    open_engine: OpenEngine, tmp_path: Path, hours: int
) -> None:
    """The clock is set during a tool call and while a person decides.

    Durations are the time that passed, and times follow `seq`.
    """
    clock = SetClock()

    @tool()
    async def travel(ctx: ToolContext) -> str:
        """Set the clock."""
        await asyncio.sleep(0.05)
        clock.shift += timedelta(hours=hours)
        return ctx.agent

    turns = [call("travel") + call("travel"), report(), "Done."]
    engine = await open_engine(turns, clock=clock, approvals={"create_artifact": "ask"})
    engine.register_tool(travel)
    waiting = await engine.controller.execute("Travel.")
    clock.shift += timedelta(hours=hours)
    assert waiting.metrics.total_duration_ms >= 100
    result = await engine.controller.resume(waiting.thread_id, approved=True)
    metrics = result.metrics
    assert result.status == "completed"
    assert min(metrics.total_duration_ms, metrics.active_ms) >= 100
    assert metrics.wait_ms >= 0
    assert all(50 <= entry.duration_ms < HOUR_MS for entry in metrics.tool_calls[:2])
    events = await engine.runs.events(result.run_id)
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    assert [event.timestamp for event in events] == sorted(event.timestamp for event in events)
    store = tmp_path / "data" / STORE_FILE
    run = frames.load_frame(store, frames.RUNS).iloc[0]
    assert run[["total_duration_ms", "active_ms", "wait_ms", "llm_ms", "tool_ms", "ttft_ms"]].min() >= 0
    if hours < 0:
        assert run["total_duration_ms"] < HOUR_MS
    for frame in (frames.LLM_CALLS, frames.TOOL_CALLS):
        rows = frames.load_frame(store, frame)
        assert (rows[[name for name in rows if name.endswith("duration_ms")]] >= 0).all().all()
    assert (frames.load_frame(store, frames.EVENTS)["t_rel_ms"] >= 0).all()


async def test_clock_set_back_between_processes_makes_no_negative_durations(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """A waiting run continues in a process whose clock is five hours behind."""
    ahead = SetClock()
    ahead.shift = timedelta(hours=5)
    first = await open_engine([report()], clock=ahead, approvals={"create_artifact": "ask"})
    waiting = await first.controller.execute("Write.")
    await first.aclose()
    second = await open_engine(["Done."])
    still = await second.controller.result(waiting.run_id)
    assert min(still.metrics.total_duration_ms, still.metrics.active_ms, still.metrics.wait_ms) >= 0
    result = await second.controller.resume(waiting.thread_id, approved=True)
    assert min(result.metrics.total_duration_ms, result.metrics.active_ms, result.metrics.wait_ms) >= 0
    run = frames.load_frame(tmp_path / "data" / STORE_FILE, frames.RUNS).iloc[0]
    assert run["completed_at"] >= run["started_at"]
    assert run[["total_duration_ms", "active_ms", "wait_ms"]].min() >= 0


@pytest.mark.parametrize("hours", [-5, 5])
async def test_clock_set_between_turns_does_not_change_their_order(open_engine: OpenEngine, hours: int) -> None:
    """History, branches and versions have the order in which they were written."""
    clock = SetClock()
    engine = await open_engine([report("One."), "First.", "Second."], clock=clock)
    first = await engine.controller.execute("One?")
    clock.shift += timedelta(hours=hours)
    second = await engine.controller.execute("Two?", conversation_id=first.conversation_id)
    path = await engine.conversations.path(first.conversation_id, second.message_id)
    assert [message.content for message in path] == ["One?", "Two?"]
    assert [message.response for message in path] == ["First.", "Second."]
    assert [entry.content for entry in engine.model.requests[-1].messages[1:]] == ["One?", "First.", "Two?"]


def test_checkpoints_are_found_after_the_clock_is_set_back(tmp_path: Path) -> None:
    """Checkpoints are numbered by the time of day.

    A run continues through restarts with the clock set back each time.
    """
    assert [outcome["result"] for outcome in outcomes_of("set_back", tmp_path / "data", 15, 10, 5, 0)] == [
        ["waiting", None, 1, 0],
        ["waiting", None, 1, 1],
        ["waiting", None, 1, 2],
        ["completed", "Done.", 1, 3],
    ]


def test_run_clock_follows_the_time_of_day_but_never_goes_back() -> None:
    """The run clock follows a clock that is set forward.

    After a clock is set back, the run clock continues with the time that passes. Its earliest time is the last event.
    """
    inner = FakeClock(step_ms=1000)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert RunClock(inner, start).now() < start + timedelta(seconds=5)
    later = start + timedelta(hours=1)
    clock = RunClock(inner, later)
    times = [clock.now() for _ in range(3)]
    assert times == sorted(set(times))
    assert later <= times[0] < times[-1] < later + timedelta(seconds=10)


def test_file_in_place_of_the_data_folder_is_named(tmp_path: Path) -> None:
    """The error has its path."""
    (tmp_path / "data").write_text("not a folder", encoding="utf-8")

    async def open_it() -> None:
        await Engine(Settings.load(data_dir=tmp_path / "data"), model=ScriptedModel([])).open()

    with pytest.raises(StoreError, match=r"The data folder .*data cannot be used"):
        asyncio.run(open_it())
