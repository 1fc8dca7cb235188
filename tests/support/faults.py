"""A full disk, missing permissions and a clock that is set back, in processes: `python faults.py CASE FOLDER [...]`.

A disk is full where no file may grow beyond a size: SQLite then meets the system's error in the middle of its writes. A
line of JSON says what a person sees.
"""

import asyncio
import json
import os
import resource
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

import pandas as pd  # noqa: F401 - frames load it when one is made; by then its files may be closed to this user
from support import frames
from support.killed_engine import engine, finish, forked, problems
from support.replies import report

import artifactflow_nb as af
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import StoreError
from artifactflow_nb.models.scripted import ScriptedModel

NOBODY = 65534
INDEX_OF_THE_LOG = 32_768
"""The bytes of the side files that SQLite needs to open a store."""


@contextmanager
def full_disk(folder: Path, spare: int = 0) -> Iterator[None]:
    """Limit the size of files to that of the store's log plus `spare` bytes, so that nothing can be appended."""
    log = folder / f"{STORE_FILE}-wal"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((log.stat().st_size if log.exists() else 0) + spare, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def write_notes(folder: Path) -> None:
    """Write a short source: with the language reference the store would be so large that any log fits."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.md").write_text("# Letters\n\nA letter is sent once.\n", encoding="utf-8")


def print_result(**result: Any) -> None:
    print(json.dumps(result), flush=True)  # noqa: T201 - the result


def raised(work: Any) -> str:
    """The text of the `StoreError` that `work` raises; empty if it raises none."""
    try:
        work()
    except StoreError as error:
        return str(error)
    return ""


def integrity(folder: Path) -> str:
    with closing(sqlite3.connect(folder / STORE_FILE)) as db:
        return str(db.execute("PRAGMA integrity_check").fetchone()[0])


def failed_calls(folder: Path) -> list[str]:
    """The tools whose result says that the store could not be written."""
    with closing(sqlite3.connect(folder / STORE_FILE)) as db:
        return [row[0] for row in db.execute("SELECT tool_name FROM tool_calls WHERE error_type = 'StoreError'")]


async def fill_up(folder: Path, spare: int, resume_here: bool) -> dict[str, Any]:
    """A run during which the disk becomes full and later has space again."""
    async with engine(folder) as working:
        await working.add_sources(folder / "notes.md")
        controller = working.controller
        run = await controller.begin("Send two letters.")
        events: list[Any] = []
        await controller.subscribe(run.run_id, events.append)
        with full_disk(folder, spare):
            await (await controller.start(run))
            result = await controller.result(run.run_id)
            outcome = {
                "status": result.status,
                "error": result.error_message,
                "ends": [event.type.value for event in events if event.is_terminal],
                "shown": frames.load_frame(folder / STORE_FILE, frames.RUNS)["status"].tolist(),
                "integrity": integrity(folder),
                "log": (folder / f"{STORE_FILE}-wal").stat().st_size,
            }
        if resume_here and result.status == "abandoned":
            assert await controller.resume_if_ready(await working.runs.get(run.run_id))
            await controller.join(run.run_id)
            outcome["resumed"] = (await controller.result(run.run_id)).status
    return outcome


def run_out(root: Path, times: int) -> None:
    """Fill the disk at many moments of a run; every other run continues in the same process."""
    write_notes(root)
    asyncio.run(open_once(root))
    whole = asyncio.run(fill_up(copied(root, "whole"), 1 << 30, resume_here=False))
    if problems(root.with_name("whole")) or whole["status"] != "completed":
        raise AssertionError(whole)
    for number in range(times):
        folder = copied(root, f"{number:03d}")
        outcome = asyncio.run(fill_up(folder, whole["log"] * number // times, resume_here=bool(number % 2)))
        for _ in range(2):  # the second opening sweeps what the first may have left
            os.waitpid(forked(finish, folder), 0)
        print_result(**outcome, problems=problems(folder), failed=failed_calls(folder))


async def open_once(folder: Path) -> None:
    async with engine(folder) as working:
        await working.add_sources(folder / "notes.md")


def copied(root: Path, name: str) -> Path:
    return Path(shutil.copytree(root, root.with_name(name)))


def workbench(folder: Path, *turns: str, **options: Any) -> af.Workbench:
    write_notes(folder)
    wb = af.Workbench(model=ScriptedModel(turns), data_dir=folder, interactive=False, **options)
    wb.sources.add(folder / "notes.md")
    return wb


def decide(folder: Path) -> None:
    """Decide a request while the disk is full, and again when there is space."""
    with workbench(folder, report(), "Done.", approvals={"create_artifact": "ask"}) as wb:
        run = wb.ask("Write.").wait()
        with full_disk(folder):
            error = raised(run.approve)
            cancelled = raised(run.cancel)
            still = (run.status, len(run.pending))
        print_result(error=error, cancelled=cancelled, still=still, answer=run.approve().wait().response)


def begin(folder: Path) -> None:
    """Open a new and an existing store and ask, first on a full disk, then again when there is space."""
    with full_disk(folder, 5_000):
        opening = raised(lambda: af.Workbench(model=ScriptedModel([]), data_dir=folder))
    with workbench(folder, "One.") as wb:
        wb.ask("First?").wait()
    with full_disk(folder):
        closed = frames.load_frame(folder / STORE_FILE, frames.RUNS)["question"].tolist()
    with full_disk(folder, INDEX_OF_THE_LOG):
        wb = af.Workbench(model=ScriptedModel(["Two."]), data_dir=folder)
        shown = wb.runs_df()["question"].tolist()
        asking = raised(lambda: wb.ask("Second?"))
    after = wb.runs_df()["question"].tolist()
    answer = wb.ask("Second?").wait().response
    wb.close()
    print_result(
        opening=opening, shown=[*closed, *shown], asking=asking, after=after, answer=answer, integrity=integrity(folder)
    )


def set_back(folder: Path, *hours: int) -> None:
    """Continue a run several times, each time in a process whose clock is ahead by a number of hours."""
    turns = [report("A", "a"), report("B", "b"), report("C", "c"), "Done."]
    real = time.time_ns
    for turn, ahead in zip(turns, hours, strict=True):
        time.time_ns = lambda ahead=ahead: real() + ahead * 3_600_000_000_000
        os.waitpid(forked(partial(one_approval, turn), folder), 0)


async def one_approval(turn: str, folder: Path) -> None:
    """Start the run or approve its request; the model replies with `turn`; print the result."""
    model = ScriptedModel([turn])
    async with Engine(Settings.load(data_dir=folder), model=model, approvals={"create_artifact": "ask"}) as engine:
        if unfinished := await engine.runs.unfinished():
            result = await engine.controller.resume(unfinished[0].thread_id, approved=True)
        else:
            result = await engine.controller.execute("Write.")
        print_result(result=[result.status, result.response, len(model.requests), len(result.metrics.tool_calls)])


def look(folder: Path) -> None:
    """Open and read an existing store without write permission."""
    store, workbench_class = folder / STORE_FILE, af.Workbench  # named to be imported: only root may read the library
    if os.getuid() == 0:  # whom no mode of a file stops
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    found: dict[str, Any] = {"opening": raised(lambda: workbench_class(model=ScriptedModel([]), data_dir=folder))}
    found["reading"] = raised(lambda: found.update(shown=frames.load_frame(store, frames.RUNS)["status"].tolist()))
    print_result(**found)


if __name__ == "__main__":
    case, where, *more = sys.argv[1:]
    cases: dict[str, Any] = {"run_out": run_out, "decide": decide, "begin": begin, "look": look, "set_back": set_back}
    cases[case](Path(where), *map(int, more))
