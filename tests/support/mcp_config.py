"""The server of `mcp_server.py` as a configuration, and the state of its processes."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.forked_python import fast_python
from support.overlays import main_python

SERVER = str(Path(__file__).with_name("mcp_server.py"))
PYTHON = str(main_python())
"""The interpreter of servers: they are written for version 2 of the SDK, also where the client has version 1."""

LIBRARIES = ("mcp.server.mcpserver", "mcp.server.stdio", "mcp.server.streamable_http_manager", "uvicorn")

TOKEN = "tok-very-secret-0123456789"  # noqa: S105 - it opens nothing


def where_libraries_are() -> dict[str, str]:
    """The import path for a server, which does not inherit the environment."""
    return {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}


def by_stdio(
    folder: Path, *options: str, is_fast: bool = True, env: dict[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    """A server over standard input and output, which writes its calls and process id into a folder.

    A fast one starts in milliseconds; it may outlive the command for a moment if that is killed.
    """
    command, *first = fast_python(LIBRARIES, PYTHON) if is_fast else (PYTHON,)
    args = [*first, SERVER, "--notes", str(folder), *options]
    return {"command": command, "args": args, "env": {**where_libraries_are(), **(env or {})}, **more}


@contextmanager
def over_http(folder: Path, *options: str, port: int = 0, env: dict[str, str] | None = None) -> Iterator[int]:
    """Start a server on loopback in its own process; yield its port."""
    port_file = folder / "port"
    port_file.unlink(missing_ok=True)
    server = [*fast_python(LIBRARIES, PYTHON), SERVER, "--notes", str(folder)]
    args = [*server, "--http", str(port_file), "--port", str(port), *options]
    with subprocess.Popen(args, env={**os.environ, **(env or {})}) as process:
        try:
            until(lambda: port_file.exists() and port_file.read_text() != "")
            yield int(port_file.read_text())
        finally:
            process.kill()


def pids(folder: Path) -> list[int]:
    """The ids of the started processes, in order."""
    file = folder / "pids"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def alive(folder: Path) -> list[int]:
    """The ids of the running processes."""
    return [pid for pid in pids(folder) if _is_there(pid)]


def _is_there(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def until(holds: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until a condition is true."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it never came to hold"
        time.sleep(0.02)
