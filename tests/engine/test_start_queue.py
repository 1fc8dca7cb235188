"""More runs than can be open at once wait in the start queue; runs in the queue are stored and hold no file."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from conftest import OpenEngine, OpenWorkbench
from support.forked_python import fast_python
from support.replies import call

from artifactflow_nb.engine.engine import max_running_runs
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
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
print({run.wait().response for run in runs[:-1]}, len(os.listdir("data/owners")))
wb.close()
""",
        tmp_path,
    )
    assert done.stdout.splitlines() == ["True {'running'}", "cancelled running", "{'Hello.'} 1"], done.stderr[-3000:]


def test_waiting_runs_of_a_killed_process_can_be_resumed(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Running and waiting runs are abandoned, and another process resumes them."""
    assert run_program("os.kill(os.getpid(), signal.SIGKILL)", tmp_path).returncode == -signal.SIGKILL
    wb = workbench(lambda _request: "Hello again.")
    assert set(wb.runs_df()["status"]) == {"abandoned"}
    for run in (wb.runs(limit=160)[index] for index in (0, -1)):
        assert run.resume().wait().response == "Hello again."


async def test_run_that_continues_does_not_wait_for_new_runs(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one place, a decided run completes while a new run has the place and another new run waits."""
    monkeypatch.setattr("artifactflow_nb.engine.engine.max_running_runs", lambda: 1)
    is_free, is_busy, n_busy = asyncio.Event(), asyncio.Event(), 0

    class PatientModel(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            nonlocal n_busy
            if "Wait." in request.messages[-1].content:
                n_busy += 1
                is_busy.set()
                await is_free.wait()
            async for event in super().stream(request):
                yield event

    def reply(request: ModelRequest) -> str:
        is_first = "Write." in request.messages[-1].content
        return call("create_artifact", id="a", title="A", content="x") if is_first else "Ok."

    engine = await open_engine(model=PatientModel(reply), approvals={"create_artifact": "ask"})
    waiting = await engine.controller.execute("Write.")
    new = [asyncio.create_task(engine.controller.execute("Wait.")) for _ in range(2)]
    await is_busy.wait()
    decided = await engine.controller.resume(waiting.thread_id, decisions={waiting.pending[0].id: True})
    assert (decided.status, n_busy) == ("completed", 1)
    is_free.set()
    assert [(await task).response for task in new] == ["Ok.", "Ok."]


def test_runs_of_an_engine_share_a_lock_and_are_released_one_by_one(tmp_path: Path) -> None:
    """One file is locked for all runs; a run that is released unfinished is abandoned, and other runs continue."""
    locks = RunLocks(tmp_path, "eng-1")
    locks.open()
    owners = [locks.acquire() for _ in range(1000)]
    assert [path.name for path in (tmp_path / "owners").iterdir()] == ["eng-1.lock"]
    locks.release(owners[1])
    locks.release(owners[2], is_over=True)
    assert [is_owner_gone(tmp_path, owner) for owner in owners[:4]] == [False, True, False, False]
    assert [locks.owns(owner) for owner in owners[:4]] == [True, False, False, True]
    locks.close()
    assert all(is_owner_gone(tmp_path, owner) for owner in owners[:4])
    assert list((tmp_path / "owners").iterdir()) == []


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
    assert found == [4, 16, 256]
