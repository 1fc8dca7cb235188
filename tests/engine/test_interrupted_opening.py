"""Ctrl+C while a workbench is made leaves no thread and no output, and the data folder can be opened again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MOMENTS = 48

PROGRAM = """
import os, signal, sys, threading, time
import artifactflow_nb as af

def make():
    return af.Workbench(model=af.ScriptedModel(["Hello."]), data_dir="data", interactive=False)

def left():
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("artifactflow")]
    assert names.count("artifactflow-engine") == 1  # the thread of all workbenches, which stays
    return [name for name in names if name != "artifactflow-engine"]

def interrupted_after(seconds):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    wb = None
    try:
        timer.start()
        wb = make()
        timer.join()
    except KeyboardInterrupt as interrupt:
        errors.append(interrupt)  # a notebook keeps its traceback, and so the frames of what was half made
    finally:
        if wb is not None:
            wb.close()

make().close()
errors = []
began = time.monotonic()
make().close()
takes_s = time.monotonic() - began
for moment in range(MOMENTS):
    interrupted_after(moment * takes_s / MOMENTS)
    until = time.monotonic() + 5
    while left() and time.monotonic() < until:
        time.sleep(0.01)
    assert not left(), (moment, left())
    with make() as wb:
        assert wb.ask("Hello?").wait().status == "completed", moment
print(len(errors))
""".replace("MOMENTS", str(MOMENTS))


@pytest.mark.skipif(os.name == "nt", reason="The test sends SIGINT to itself; this system cannot.")
def test_interrupted_opening_leaves_no_thread(tmp_path: Path) -> None:
    """The opening is interrupted at 48 moments; no thread is left, and the data folder can be opened again."""
    command = [sys.executable, "-W", "always::RuntimeWarning", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=240)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-3000:]
    assert int(done.stdout) >= MOMENTS / 8, "The interrupts came too late."
