"""More runs than can be open at once wait in the start queue, in which they are stored and hold no file."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import OpenWorkbench
from support.forked_python import fast_python

from artifactflow_nb.engine.start_queue import StartQueue, max_running_runs
from artifactflow_nb.store.ownership import RunLocks, is_owner_gone

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of open files to set.")

PROGRAM = """
import asyncio, os, resource, signal, sys
import artifactflow_nb as af
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
may_answer = False

class PatientModel(af.ScriptedModel):
    async def stream(self, request):
        while not may_answer:
            await asyncio.sleep(0.01)
        async for event in super().stream(request):
            yield event

wb = af.Workbench(model=PatientModel(lambda request: "Hello."), data_dir="data", interactive=False)
runs = [wb.ask("Hello?") for _ in range(160)]
"""


def run_program(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [*fast_python(), "-c", PROGRAM + program]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=120)


def test_runs_beyond_the_limit_of_files_wait(tmp_path: Path) -> None:
    """With 128 files none of 160 runs fails, the process can open files, and a waiting run can be cancelled."""
    done = run_program(
        """
print(len(os.listdir("/dev/fd")) < 80, set(wb.runs_df()["status"]))
runs[-1].cancel()
print(runs[-1].status, runs[-2].status)
may_answer = True
print({run.wait().response for run in runs[:-1]}, len(os.listdir("data/owners")) <= 128 // 8 + 1)
wb.close()
""",
        tmp_path,
    )
    assert done.stdout.splitlines() == ["True {'running'}", "cancelled running", "{'Hello.'} True"], done.stderr[-3000:]


def test_waiting_runs_of_a_killed_process_can_be_resumed(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Running and waiting runs are interrupted, and another process resumes them."""
    assert run_program("os.kill(os.getpid(), signal.SIGKILL)", tmp_path).returncode == -signal.SIGKILL
    wb = workbench(lambda _request: "Hello again.")
    assert set(wb.runs_df()["status"]) == {"interrupted"}
    for run in (wb.runs(limit=160)[index] for index in (0, -1)):
        assert run.resume().wait().response == "Hello again."


async def test_continuing_runs_come_first() -> None:
    """A cancelled run gets no place; a run that must not wait enters although no place is free."""
    queue, entered = StartQueue(1), list[str]()

    async def enter(name: str, *, first: bool = False) -> None:
        await queue.enter(first=first)
        entered.append(name)

    await enter("running")
    waiting = [asyncio.create_task(enter(name, first=name == "continuing")) for name in ("new", "left", "continuing")]
    await asyncio.sleep(0)
    queue.enter_now()
    waiting[1].cancel()
    for expected in (1, 2, 3):
        queue.leave()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(entered) == expected
    assert entered == ["running", "continuing", "new"]


async def test_place_assigned_to_a_cancelled_run_goes_to_the_next_one() -> None:
    """The run is cancelled at the moment at which it gets the place."""
    queue = StartQueue(1)
    await queue.enter()
    waiting = [asyncio.create_task(queue.enter()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.leave()
    waiting[0].cancel()
    await asyncio.wait(waiting, timeout=5)
    assert waiting[0].cancelled()
    assert waiting[1].done()


def test_waiting_runs_share_a_lock_and_are_released_one_by_one(tmp_path: Path) -> None:
    """Above the limit of files, owners share a lock; each can be released alone, even after it got its own file."""
    locks = RunLocks(tmp_path, "eng-1", max_files=1)
    locks.open()
    first, *waiting = (locks.acquire() for _ in range(4))
    inodes = {owner: (tmp_path / "owners" / f"{owner}.lock").stat().st_ino for owner in (first, *waiting)}
    assert len(set(inodes.values())) == 2
    locks.separate(waiting[0])
    locks.release(waiting[1])
    assert [is_owner_gone(tmp_path, owner) for owner in (first, *waiting)] == [False, False, True, False]
    assert (tmp_path / "owners" / f"{waiting[0]}.lock").stat().st_ino not in inodes.values()
    locks.release(waiting[0])
    assert is_owner_gone(tmp_path, waiting[0])
    locks.close()
    assert list((tmp_path / "owners").iterdir()) == []


def test_lock_file_of_a_finished_run_is_reused(tmp_path: Path) -> None:
    """Finished runs pass their lock file on, so that only one file is created; interrupted runs keep theirs."""
    locks = RunLocks(tmp_path, "eng-1")
    locks.open()
    inodes = set()
    for _ in range(3):
        owner = locks.acquire()
        inodes.add((tmp_path / "owners" / f"{owner}.lock").stat().st_ino)
        assert not is_owner_gone(tmp_path, owner)
        locks.release(owner, is_over=True)
    interrupted = locks.acquire()
    locks.release(interrupted)
    assert len(inodes) == 1
    assert is_owner_gone(tmp_path, interrupted)
    assert list((tmp_path / "owners").iterdir()) == []
    locks.close()


def test_limit_of_files_bounds_running_runs() -> None:
    """Runs leave half of the files to the rest of the process."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        found = []
        for limit in (64, 256, before[1]):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
            found.append(max_running_runs())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert found == [8, 32, 256]
