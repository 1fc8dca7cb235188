"""Tracing by LangSmith: LANGSMITH_TRACING=true sends neither runs of built-in flows nor replays."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.loopback_server import ThreadedServer

TESTS = Path(__file__).parents[1]

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import artifactflow_nb as af
from support.graphs import ai_message, react_agent
from langchain_core.tracers.langchain import wait_for_all_tracers

flows, cassette = sys.argv[2:], Path("runs.jsonl")

def ask(flow, **options):
    with af.Workbench(approvals="approve", interactive=False, **options) as wb:
        if flow == "compose":
            project = wb.projects.start("Essay", template="paper")
            target = {"conversation_id": project.conversation_id, "flow": flow}
        else:
            graph = react_agent([ai_message("It is 3.")])
            target = {"flow": flow if flow != "adapted" else af.adapt(graph, name="mine")}
        print(flow, wb.ask("What does del do to a name?", **target).wait().status)

for flow in flows:
    if flow == "adapted" and cassette.exists():
        ask(flow, replay=cassette)
    else:
        ask(flow, **({"record": cassette} if flow == "adapted" else {}))
wait_for_all_tracers()
"""


class TracingServer(ThreadedServer):
    """Accepts and counts the requests of LangSmith's client."""

    requests = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await _head(reader):
            self.requests += 1
            length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
            await reader.readexactly(int(length.partition(b":")[2]))
            writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
            await writer.drain()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def requests_of(*flows: str, folder: Path, variable: str = "LANGSMITH_TRACING") -> int:
    """Return the number of requests of a process that runs the flows with tracing, one after the other."""
    with TracingServer() as server:
        tracing = {"LANGSMITH_ENDPOINT": f"http://127.0.0.1:{server.port}", "LANGSMITH_API_KEY": "key"}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(TESTS), *flows],
            env={**os.environ, **tracing, variable: "true"},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        completed = "".join(f"{flow} completed\n" for flow in flows)
        assert (done.returncode, done.stdout) == (0, completed), done.stderr[-2000:]
        return server.requests


@pytest.mark.parametrize("variable", ["LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"])
def test_built_in_flows_send_no_traces(tmp_path: Path, variable: str) -> None:
    """Runs of the built-in flows send LangSmith's server nothing, whichever variable switches tracing on."""
    assert requests_of("research", "plan", "compose", folder=tmp_path, variable=variable) == 0


def test_only_live_adapted_graphs_send_traces(tmp_path: Path) -> None:
    """A user's own graph is traced as outside of the workbench; the replay of the graph is not traced."""
    assert requests_of("adapted", folder=tmp_path) > 0
    assert requests_of("adapted", folder=tmp_path) == 0
