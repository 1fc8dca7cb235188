"""The tools in the MCP server of Jupyter Server (jupyter-server-mcp), which finds them by their entry point."""

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from support.overlays import overlay_python

CLIENT = """
import asyncio, json, sys
from fastmcp import Client

async def main():
    async with Client(sys.argv[1]) as client:
        tools = {tool.name: tool.input_schema for tool in await client.list_tools()}
        results = []
        for name, arguments in json.loads(sys.argv[2]):
            result = await client.call_tool(name, arguments, raise_on_error=False)
            results.append([result.is_error, result.content[0].text])
        print(json.dumps([tools, results]))

asyncio.run(main())
"""
WAIT_S = 60


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_jupyter_server_offers_the_tools_over_the_store_of_its_folder(tmp_path: Path) -> None:
    """Schemas with bounds, results and sentences of errors are those of the command; nobody decides without a token.

    The run is driven by the engine of the page in the same server.
    """
    python, port, log = str(overlay_python("mcp_clients")), free_port(), tmp_path / "log"
    options = [
        f"--ServerApp.port={free_port()}",
        f"--ServerApp.root_dir={tmp_path}",
        "--ServerApp.jpserver_extensions={'artifactflow_nb': True, 'jupyter_server_mcp': True}",
        f"--MCPExtensionApp.mcp_port={port}",
        *["--allow-root"] * (os.geteuid() == 0),
    ]
    variables = {**os.environ, "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    calls = [
        ("research", {"question": "What is a generator in Python?"}),
        ("query_runs", {"sql": "SELECT status FROM runs"}),
        ("decide", {"request_id": "r", "decision": "approved"}),
        ("query_runs", {"sql": "SELECT 1", "limit": 10**9}),
        ("read_artifact", {"run_id": "run-0", "artifact_id": "../x"}),
    ]
    command = [python, "-m", "jupyter_server", "--no-browser", *options]
    with log.open("w") as output, subprocess.Popen(command, env=variables, stdout=output, stderr=output) as server:
        try:
            deadline = time.monotonic() + WAIT_S
            while "MCP server started" not in log.read_text():
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            arguments = [python, "-c", CLIENT, f"http://localhost:{port}/mcp", json.dumps(calls)]
            done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=WAIT_S)
            assert done.returncode == 0, done.stderr
        finally:
            server.send_signal(signal.SIGKILL)
    tools, (research, query, decide, limit, artifact) = json.loads(done.stdout)
    assert {"research", "read_run", "check_claims"} <= tools.keys()
    assert "decide" not in tools
    assert decide[0]
    assert tools["research"]["properties"]["question"]["maxLength"] == 20_000
    assert tools["read_artifact"]["required"] == ["run_id", "artifact_id"]
    assert not research[0], research
    assert json.loads(research[1])["citations"]
    assert json.loads(query[1])["rows"] == [{"status": "completed"}]
    assert limit[0]
    assert "limit" in limit[1]
    assert artifact[0]
    assert "There is no run 'run-0'" in artifact[1]
    assert (tmp_path / ".artifactflow" / "store.db").exists()
