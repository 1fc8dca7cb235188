"""The official client in both versions of the SDK, and clients of others; each server over stdio and HTTP."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from plugins.mcp_server.servers import ENVIRONMENT, FOLDER, command, decided_by, over_http
from support.overlays import overlay_python

TOOLS = [
    "research",
    "search_sources",
    "search_runs",
    "read_run",
    "read_artifact",
    "check_claims",
    "query_runs",
    "pending",
    "decide",
]
PYTHONS = {
    "mcp1": str(overlay_python("mcp1")),
    "langchain": str(overlay_python("mcp1")),
    "fastmcp": str(overlay_python("mcp_clients")),
    "mcp2": sys.executable,
}


def used_by(client: str, server: str) -> dict[str, Any]:
    """What a client got from a server."""
    arguments = [PYTHONS[client], str(FOLDER / "clients.py"), client, server]
    done = subprocess.run(
        arguments, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("client", "server", "is_http"),
    [
        ("mcp2", "mcp1", True),
        ("mcp1", "mcp2", False),
        ("fastmcp", "mcp2", True),
        ("langchain", "mcp1", False),
    ],
)
def test_client_asks_decides_and_reads(tmp_path: Path, client: str, server: str, is_http: bool) -> None:
    """A run waits for the person, a decision is stored with the client's name, and a second decision is refused."""
    with ExitStack() as stack:
        address = json.dumps(command(tmp_path, python=PYTHONS[server]))
        if is_http:
            arguments = command(tmp_path, "--http=0", python=PYTHONS[server])
            address, _ = stack.enter_context(over_http(arguments))
        found = used_by(client, address)
    assert found["tools"] == TOOLS
    assert "The run waits for a person" in found["waiting"]
    assert f"Request {found['request']['id']}:" in found["waiting"]
    assert found["report"].startswith("It is written [1].")
    assert "The run has not read the text of these cited sources: 1." in found["report"]
    assert "already" in found["repeated"]
    assert found["note"] == "Herons wait."
    assert any("1 tool call" in sentence for sentence in found["progress"]) or client == "langchain"
    (decider,) = decided_by(tmp_path)
    assert decider.startswith("mcp:")
    assert len(decider) > len("mcp:")
