"""A forked child cannot use the parent's store and workbench, and the child's end leaves the parent's files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.forked_python import fast_python

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="The tests fork; this system cannot.")

PARENT = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")  # of Python 3.12: a process with threads is forked
from pathlib import Path
import artifactflow_nb as af

def make(**where):
    return af.Workbench(model=af.ScriptedModel(["Hello."] * 9), interactive=False, **where)

wb = make(data_dir="data")
run = wb.ask("Hello?").wait()

def in_child(work):
    "What a forked child says: the error of the work, or what it gives."
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(30)
        try:
            output = repr(work())
        except BaseException as error:
            output = f"{type(error).__name__}: {error}"
        os.write(writer, output.encode())
        EXIT
    os.close(writer)
    output = os.fdopen(reader).read()
    assert os.waitpid(child, 0)[1] == 0, output
    return output
"""
ADVICE = 'Start the process with the spawn start method, multiprocessing.get_context("spawn")'


def output_of(program: str, folder: Path, end: str = "os._exit(0)") -> str:
    command = [*fast_python(), "-c", PARENT.replace("EXIT", end) + program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


USES = (
    'make(data_dir="data")',
    'make(data_dir=Path("data").absolute())',
    'wb.ask("And you?")',
    "wb.runs_df()",
    "wb.run(run.run_id)",
    "run.status",
    "run.cancel()",
    "run.wait()",
)


def test_forked_child_gets_an_error_with_advice(tmp_path: Path) -> None:
    """Each use of its parent's folder or workbench is an error that names the spawn method."""
    lines = output_of("".join(f"print(in_child(lambda: {use}))\n" for use in USES), tmp_path).splitlines()
    assert len(lines) == len(USES)
    for use, error in zip(USES, lines, strict=True):
        assert error.startswith("UsageError: "), use
        assert ADVICE in error, use


def test_parent_continues_after_the_end_of_its_child(tmp_path: Path) -> None:
    """The exit of a child closes no file and removes no folder of the parent process."""
    program = """
played = make(record="runs.jsonl")
played.ask("One?").wait()
played.close()
replaying = make(replay="runs.jsonl")
print(in_child(lambda: "nothing"))
print(replaying.data_dir.is_dir(), replaying.ask("One?").wait().status, wb.ask("Again?").wait().status)
"""
    assert output_of(program, tmp_path, "sys.exit(0)").splitlines() == ["'nothing'", "True completed completed"]


def test_child_may_open_other_folders(tmp_path: Path) -> None:
    """Only the folders that were open at the fork are refused."""
    program = """
def ask(folder):
    with make(data_dir=folder) as own:
        return own.ask("Hello?").wait().status

print(in_child(lambda: ask("other")))
wb.close()
print(in_child(lambda: ask("data")))
"""
    assert output_of(program, tmp_path).splitlines() == ["'completed'", "'completed'"]


def test_spawned_process_may_open_the_same_folder(tmp_path: Path) -> None:
    """The advice of the error works: a spawned process opens the folder while the parent has the folder open."""
    (tmp_path / "program.py").write_text(
        """
import multiprocessing
import artifactflow_nb as af

def ask():
    with af.Workbench(model=af.ScriptedModel(["Hello."]), data_dir="data", interactive=False) as own:
        assert own.ask("Hello?").wait().status == "completed"

if __name__ == "__main__":
    with af.Workbench(model=af.ScriptedModel(["Hello."]), data_dir="data", interactive=False):
        child = multiprocessing.get_context("spawn").Process(target=ask)
        child.start()
        child.join()
        print(child.exitcode)
""",
        encoding="utf-8",
    )
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    assert done.stdout == "0\n", done.stderr[-3000:]
