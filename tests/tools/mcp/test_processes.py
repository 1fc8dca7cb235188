"""The processes of MCP servers at the end of a workbench, a process or a cell; and a missing library."""

import subprocess
import sys
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager
from support.forked_python import fast_python
from support.mcp_config import alive, by_stdio, pids, until
from tools.mcp.conftest import OpenWorkbench

WAIT_S = 40


def test_closing_ends_an_unresponsive_server(tmp_path: Path, open_workbench: OpenWorkbench) -> None:
    """A server that ignores the end of its input and a signal is killed when the workbench is closed."""
    wb = open_workbench("Done.", mcp={"files": by_stdio(tmp_path, "--stubborn", is_fast=False)})
    wb.ask("Go.").wait(WAIT_S)
    [process] = alive(tmp_path)
    wb.close()
    assert process not in alive(tmp_path)


def test_ended_process_leaves_no_server(tmp_path: Path) -> None:
    """Servers end with a script, whether the script closes its workbench, leaves the workbench open, or is killed."""
    script = f"""
import os, signal, sys
import artifactflow_nb as af
wb = af.Workbench(model=af.ScriptedModel(["Done."]), mcp={{"files": {by_stdio(tmp_path)!r}}})
wb.ask("Go.").wait(40)
os.kill(os.getpid(), signal.SIGKILL) if sys.argv[1] == "kill" else None
"""
    for ending in ("leave", "kill"):
        subprocess.run([*fast_python(), "-c", script, ending], check=ending == "leave", timeout=60)
        until(lambda: not alive(tmp_path))
    assert len(pids(tmp_path)) == 2


def test_missing_library_names_the_install_command(tmp_path: Path) -> None:
    """Only a workbench with enabled servers needs the library."""
    script = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("mcp", "mcp_types"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
import artifactflow_nb as af
server = {by_stdio(tmp_path)!r}
af.Workbench(model=af.ScriptedModel(["Done."])).ask("Go.").wait(40)
af.Workbench(model=af.ScriptedModel(["Done."]), mcp={{"files": server | {{"disabled": True}}}}).ask("Go.").wait(40)
try:
    af.Workbench(model=af.ScriptedModel(["Done."]), mcp={{"files": server}})
except af.errors.UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "MCP servers need a library that is not installed: pip install 'artifactflow-nb[mcp]'.\n"


@pytest.mark.usefixtures("fast_kernels")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_interrupted_cell_stops_waiting_for_a_slow_server(tmp_path: Path) -> None:
    """The server ends, and the kernel is unchanged."""
    slowly = f"import os, time; open({str(tmp_path / 'pids')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    slow = {"command": sys.executable, "args": ["-c", slowly]}
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        client.execute(f"import artifactflow_nb as af\nwb = af.Workbench(model=af.ScriptedModel(['Done.']), "
                       f"mcp={{'slow': {slow!r}}})\nwb.ask('Go.')", stop_on_error=False)  # fmt: skip
        until(lambda: pids(tmp_path), 60)
        manager.interrupt_kernel()
        while (reply := client.get_shell_msg(timeout=20))["msg_type"] != "execute_reply":
            pass  # a slow kernel was asked several times whether it is ready
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        until(lambda: not alive(tmp_path))
        client.execute("assert len(wb.runs()) == 0\nwb.close()")
        assert client.get_shell_msg(timeout=20)["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
