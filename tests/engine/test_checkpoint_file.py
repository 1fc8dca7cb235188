"""The checkpoint file among engines, processes and failures: never locked, never lost, never in the way."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenEngine
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import END, START, MessagesState, StateGraph
from support.forked_python import fast_python

import artifactflow_nb as af
from artifactflow_nb.engine.checkpoints import NewestCheckpointSaver
from artifactflow_nb.engine.engine import CHECKPOINT_FILE, Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.database import connect

ROUNDS = 12
KILLED_IN = 6
STEPS = 200

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL.")


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[NewestCheckpointSaver]:
    """A saver on a file of its own."""
    opened = await NewestCheckpointSaver.open(tmp_path / CHECKPOINT_FILE)
    yield opened
    await opened.conn.close()


async def store(saver: NewestCheckpointSaver, thread_id: str, n: int) -> None:
    """Store a checkpoint of the thread, and a write after it."""
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    if (before := await saver.aget_tuple(config)) is not None:
        config = before.config
    stored = await saver.aput(config, empty_checkpoint(), {"step": n}, {})
    await saver.aput_writes(stored, [("count", n), ("text", "x" * 5_000)], "task")


def n_rows(path: Path) -> tuple[int, int]:
    """The number of checkpoints and of writes in the file."""
    with closing(connect(path)) as db:
        row = db.execute("SELECT (SELECT count(*) FROM checkpoints), (SELECT count(*) FROM writes)").fetchone()
        return tuple(row)


def is_writable(path: Path) -> bool:
    """True if another connection may write at once."""
    with closing(sqlite3.connect(path, timeout=0)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True


async def test_step_that_is_cancelled_anywhere_leaves_the_file_unlocked(
    saver: NewestCheckpointSaver, tmp_path: Path
) -> None:
    """After a cancellation in any turn of the event loop another process may write, and the next step is stored."""
    path, cancelled = tmp_path / CHECKPOINT_FILE, 0
    for turn in range(60):
        step = asyncio.create_task(store(saver, f"thread {turn}", 1))
        for _ in range(turn):
            await asyncio.sleep(0)
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        cancelled += step.cancelled()
        await saver.has_thread("any")  # what the cancelled step had asked for is done
        assert is_writable(path), turn
    assert cancelled
    await store(saver, "last", 1)
    assert await saver.has_thread("last")


async def test_step_on_a_full_disk_leaves_the_file_unlocked(saver: NewestCheckpointSaver, tmp_path: Path) -> None:
    """The step raises SQLite's error, and stores nothing."""
    await store(saver, "first", 1)
    await saver.conn.execute_fetchall("PRAGMA max_page_count = 1")
    for _ in range(3):
        with pytest.raises(sqlite3.OperationalError, match="full"):
            await store(saver, "second", 1)
        assert is_writable(tmp_path / CHECKPOINT_FILE)
    await saver.conn.execute_fetchall("PRAGMA max_page_count = 10000")
    await store(saver, "second", 1)
    assert await saver.thread_ids() == {"first", "second"}


async def test_steps_of_many_threads_at_once_keep_one_checkpoint_each(
    saver: NewestCheckpointSaver, tmp_path: Path
) -> None:
    """40 LangGraph threads that store their steps at the same time do not mix."""
    for n in range(5):
        await asyncio.gather(*(store(saver, str(thread), n) for thread in range(40)))
    assert n_rows(tmp_path / CHECKPOINT_FILE) == (40, 80)
    for thread in range(40):
        stored = await saver.aget_tuple({"configurable": {"thread_id": str(thread), "checkpoint_ns": ""}})
        assert stored is not None
        assert [value for _, channel, value in stored.pending_writes or () if channel == "count"] == [4]


STORES = """
import asyncio, sys
sys.path[:0] = [sys.argv[2]]
from pathlib import Path
from engine.test_checkpoint_file import STEPS, store
from artifactflow_nb.engine.checkpoints import NewestCheckpointSaver

async def main():
    saver = await NewestCheckpointSaver.open(Path(sys.argv[1]))
    for n in range(STEPS):
        await store(saver, sys.argv[3], n)
    await saver.conn.close()

asyncio.run(main())
"""


async def test_processes_share_the_file(tmp_path: Path) -> None:
    """Two processes that create the file and store their steps at the same time both succeed."""
    path = tmp_path / CHECKPOINT_FILE
    tests = Path(__file__).parents[1]
    processes = [
        await asyncio.create_subprocess_exec(*fast_python(), "-c", STORES, path, tests, name) for name in ("a", "b")
    ]
    assert [await process.wait() for process in processes] == [0, 0]
    assert n_rows(path) == (2, 4)


def newest_step(path: Path) -> int:
    """The number of the step whose checkpoint is the newest."""
    with closing(connect(path)) as db:
        steps = [json.loads(row[0])["step"] for row in db.execute("SELECT metadata FROM checkpoints")]
    return max(steps, default=-1)


def counting(folder: Path, killed_in: int = 0) -> Any:
    """A graph of 12 rounds, each with a line in a file; the process is killed in one round."""

    class Counted(MessagesState):
        count: int

    def count(state: Counted) -> dict[str, Any]:
        n = state.get("count", 0) + 1
        with (folder / "rounds").open("a", encoding="utf-8") as file:
            file.write(f"{n}\n")
        if n == killed_in:
            while newest_step(folder / "data" / CHECKPOINT_FILE) < n - 1:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return {"count": n, "messages": [("ai", f"Round {n}.")]}

    graph = StateGraph(Counted).add_node("count", count).add_edge(START, "count")
    return graph.add_conditional_edges("count", lambda state: END if state["count"] >= ROUNDS else "count").compile()


KILLED = """
import asyncio, os, signal, sys
sys.path[:0] = [sys.argv[2]]
from pathlib import Path
import artifactflow_nb as af
from artifactflow_nb.engine.checkpoints import NewestCheckpointSaver
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from engine.test_checkpoint_file import KILLED_IN, counting

store_writes = NewestCheckpointSaver.aput_writes

async def store_writes_of_last_round(self, config, writes, *task):
    await store_writes(self, config, writes, *task)
    if ("count", KILLED_IN) in writes:
        os.kill(os.getpid(), signal.SIGKILL)

NewestCheckpointSaver.aput_writes = store_writes_of_last_round

async def main():
    folder = Path(sys.argv[1])
    async with Engine(Settings.load(data_dir=folder / "data")) as engine:
        engine.flows.register("mine", af.adapt(counting(folder, int(sys.argv[3]))))
        await engine.controller.execute("Count.", flow="mine")

asyncio.run(main())
"""


@posix
@pytest.mark.parametrize("killed_in", [KILLED_IN, 0], ids=["in a round", "after the writes of a round"])
async def test_graph_continues_after_its_process_was_killed(
    open_engine: OpenEngine, tmp_path: Path, killed_in: int
) -> None:
    """Another process continues at the newest checkpoint, repeats a round that was running, and omits no round."""
    code = [*fast_python(), "-c", KILLED, str(tmp_path), str(Path(__file__).parents[1]), str(killed_in)]
    process = await asyncio.create_subprocess_exec(*code)
    assert await process.wait() == -signal.SIGKILL
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(counting(tmp_path)))
    [killed] = await engine.runs.unfinished()
    await (await engine.controller.start(killed))
    result = await engine.controller.result(killed.run_id)
    assert (result.status, result.response) == ("completed", f"Round {ROUNDS}.")
    rounds = [int(line) for line in (tmp_path / "rounds").read_text(encoding="utf-8").split()]
    # Checkpoints are stored beside the rounds, so the newest one may be some rounds old.
    start = next((i for i in range(1, len(rounds)) if rounds[i] <= rounds[i - 1]), KILLED_IN)
    before, resumed = rounds[:start], rounds[start:]
    assert before == list(range(1, len(before) + 1))
    assert resumed == list(range(resumed[0], ROUNDS + 1))
    assert resumed[0] <= (killed_in or len(before) + 1)
    assert n_rows(engine.checkpoints.path) == (0, 0)


UNCLOSED = """
import asyncio, sys
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.scripted import ScriptedModel

async def main():
    engine = await Engine(Settings.load(data_dir=sys.argv[1]), model=ScriptedModel(["Here."])).open()
    print((await engine.controller.execute("Where?")).response)

asyncio.run(main())
"""


def test_engine_that_is_not_closed_lets_its_process_end(tmp_path: Path) -> None:
    """The thread of the file does not keep the process alive."""
    code = [*fast_python(), "-c", UNCLOSED, str(tmp_path)]
    done = subprocess.run(code, capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("Here.\n", "")


async def test_cancelled_run_and_closed_engine_leave_the_file_unlocked(tmp_path: Path) -> None:
    """While an engine is open, and after runs of a graph were cancelled, another engine opens and writes the file."""
    settings = Settings.load(data_dir=tmp_path / "data")
    async with Engine(settings, model=ScriptedModel([])) as first:
        first.flows.register("mine", af.adapt(counting(tmp_path)))
        for _ in range(5):
            run = await first.controller.begin("Count.", flow="mine")
            await first.controller.start(run)
            await first.controller.cancel(run.run_id)
        assert is_writable(first.checkpoints.path)
        async with Engine(settings, model=ScriptedModel([])) as second:
            second.flows.register("mine", af.adapt(counting(tmp_path)))
            assert (await second.controller.execute("Count.", flow="mine")).status == "completed"
