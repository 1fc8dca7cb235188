"""Libraries that the first run needs are imported in the background, and never delay a fork or an exit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MAKE = """
import os, sys, threading, time
import artifactflow_nb as af

assert threading.active_count() == 1  # the import of the package starts no thread
wb = af.Workbench(base_url="http://127.0.0.1:9/v1", api_key="k", model="m", data_dir=sys.argv[1], interactive=False)
loading = [thread for thread in threading.enumerate() if thread.name == "artifactflow-imports"]
"""


def run(program: str, folder: Path) -> str:
    command = [sys.executable, "-W", "ignore", "-c", MAKE + program, str(folder / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_client_library_is_loaded_before_the_first_run(tmp_path: Path) -> None:
    """Half a second of imports is not a part of the first model call; a second workbench starts no thread."""
    program = """
loading[0].join()
before = set(sys.modules)
assert wb.ask("Hello?").wait().status == "failed"
print(sorted(name for name in set(sys.modules) - before if name.partition(".")[0] in {"openai", "httpx", "httpx2"}))
second = af.Workbench(base_url="http://127.0.0.1:9/v1", model="m", data_dir=sys.argv[1] + "2", interactive=False)
print([thread.name for thread in threading.enumerate() if thread.name == "artifactflow-imports"])
"""
    assert run(program, tmp_path) == "[]\n[]\n"


def test_process_can_end_during_background_imports(tmp_path: Path) -> None:
    """The thread stops between two modules without any output."""
    assert run("print(loading[0].is_alive())", tmp_path) == "True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="The test forks; this system cannot.")
def test_process_forked_during_background_imports_can_import_the_same_modules(tmp_path: Path) -> None:
    """The child does not inherit the lock of a half-imported module."""
    program = """
assert loading[0].is_alive()
child = os.fork()
if not child:
    import openai.resources.chat.completions
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(program, tmp_path) == "7\n"
