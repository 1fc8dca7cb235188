"""A cell that awaits a run continues soon after the end of the run, in a real kernel."""

from pathlib import Path

import pytest
from notebook.test_kernel import plain, run
from support.replies import report

pytestmark = pytest.mark.usefixtures("fast_kernels")

MAKE = f"""import threading, time
import artifactflow_nb as af
replies = [{report()!r}, "It is found. " * 8, "Slowly. " * 12, "What nobody waits for. " * 200]
slow = af.ScriptedModel(replies, delay_s=0.05)
wb = af.Workbench(model=slow, approvals={{"create_artifact": "ask"}}, interactive=True)

def waited(run):
    ended = time.time() - wb.runs_df(run, columns="time")["completed_at"].iloc[0].timestamp()
    return run.status + (" at once" if ended < 3 else f" after {{ended}} s")

def decide(run):
    while not run.pending:
        time.sleep(0.05)
    time.sleep(0.5)
    run.approve()
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_awaiting_cell_continues_at_the_end_of_the_run(tmp_path: Path) -> None:
    """The cell continues within three seconds, even if the decision was made while the cell waited."""
    _, decided, alone, stopped = run(
        tmp_path,
        MAKE,
        'run = wb.ask("One?")\nthreading.Thread(target=decide, args=[run]).start()\nawait run\nwaited(run)',
        'run = wb.ask("Two?")\nawait run\nwaited(run)',
        'run = wb.ask("Three?")\nrun.cancel()\nawait run\nrun.status',
    )
    assert plain(decided) == ["'completed at once'"]
    assert plain(alone) == ["'completed at once'"]
    assert plain(stopped) == ["'cancelled'"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_interrupted_wait_says_that_the_run_goes_on(tmp_path: Path) -> None:
    """The traceback names no frame of the waiting threads and loops; the run can be cancelled and waited for."""
    interrupt = "threading.Timer(1, os.kill, [os.getpid(), signal.SIGINT]).start()\n"
    _, waited, awaited, after = run(
        tmp_path,
        f"import os, signal\n{MAKE}\nreplies[:3] = []\nrun = wb.ask('Long?')",
        f"{interrupt}run.wait()",
        f"{interrupt}await run",
        "was = run.status\nrun.cancel().wait()\n(was, run.status)",
    )
    for name, (error,) in (("KeyboardInterrupt", waited), ("CancelledError", awaited)):
        assert error["ename"] == name
        assert "the run continues. run.cancel() stops it, run.wait() waits for it again." in error["evalue"]
        assert not any(
            internal in "".join(error["traceback"]) for internal in ("_condition", "waiter", "asyncio/tasks")
        )
    assert plain(after) == ["('running', 'cancelled')"]
