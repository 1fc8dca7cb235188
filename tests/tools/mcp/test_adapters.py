"""Version 1 of the MCP SDK, which other packages need: a graph with the tools of langchain-mcp-adapters.

`make test` runs this folder in an environment with both versions, see `tests/support/overlays.py`.
"""

import asyncio
import importlib
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.graphs import ai_message, react_agent
from support.mcp_config import by_stdio
from support.replies import call
from tools.mcp.conftest import OpenWorkbench, calls

import artifactflow_nb as af

WAIT_S = 40


@pytest.mark.parametrize("version", ["1.24.0", "1.29.0", "2.3.0"])
def test_extra_accepts_both_versions_of_the_sdk(version: str) -> None:
    """jupyter-ai and langchain-mcp-adapters need a version below 2."""
    requirements = map(Requirement, requires("artifactflow-nb") or ())
    extra = [entry for entry in requirements if entry.name == "mcp" and entry.marker.evaluate({"extra": "mcp"})]
    assert [version in entry.specifier for entry in extra] == [True]


@pytest.mark.parametrize("module", ["mcp.client.streamable_http", "jsonschema"])
def test_missing_or_old_package_is_one_sentence_with_the_install_command(tmp_path: Path, module: str) -> None:
    """The first run raises the error before anything is stored, even if only a requirement of the SDK is missing."""
    script = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
import artifactflow_nb as af
wb = af.Workbench(model=af.ScriptedModel(["Done."]), mcp={{"files": {by_stdio(tmp_path)!r}}})
try:
    wb.ask("Go.")
except af.errors.UsageError as error:
    print(error, len(wb.runs()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path
    )
    reason = f"No module named {module!r}"
    assert done.stdout == (
        f"MCP servers need packages that are missing or too old ({reason}): pip install 'artifactflow-nb[mcp]'. 0\n"
    )


def test_graph_with_tools_of_langchain_mcp_adapters(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """One server serves an adapted graph and the workbench's own agents in one environment."""
    pytest.importorskip("langchain_mcp_adapters")
    client = importlib.import_module("langchain_mcp_adapters.client")
    server = by_stdio(tmp_path)
    connection = {"transport": "stdio", **{name: server[name] for name in ("command", "args", "env")}}
    tools = asyncio.run(client.MultiServerMCPClient({"files": connection}).get_tools())
    graph = react_agent([ai_message("", ("note", {"text": "theirs"})), ai_message("Noted.")], *tools)
    own = {"files": by_stdio(tmp_path, permission="auto")}
    wb = open_workbench(call("note", text="ours"), "Done.", mcp=own)
    assert wb.ask("Go.", flow=af.adapt(graph, name="theirs")).wait(WAIT_S).response == "Noted."
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert (tmp_path / "notes").read_text() == "theirs\nours\n"
    assert all(entry.success for entry in calls(wb))
