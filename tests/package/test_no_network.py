"""The guard under which notebooks are tested: no network outside this machine, and no keys."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

GUARD = Path(__file__).parents[1] / "no_network"
ELSEWHERE = "192.0.2.1"  # reserved for documentation: no machine has it
CONNECT = f"""import socket
socket.create_connection(("{ELSEWHERE}", 80), timeout=1)"""
CAUGHT = f"""import socket
try:
    socket.create_connection(("{ELSEWHERE}", 80), timeout=1)
except OSError:
    pass"""
ECHO = """import asyncio
async def echo(reader, writer):
    writer.write(await reader.readline())
    writer.close()
async def ask(serving, connect):
    async with await serving as server:
        reader, writer = await connect(server.sockets[0].getsockname())
        writer.write(b"hello\\n")
        assert await reader.readline() == b"hello\\n"
        writer.close()
"""
TCP = 'ask(asyncio.start_server(echo, "127.0.0.1", 0), lambda name: asyncio.open_connection(*name))'
UNIX = 'ask(asyncio.start_unix_server(echo, "socket"), asyncio.open_unix_connection)'
SECRETS = {"OPENAI_API_KEY": "key", "TAVILY_API_KEY": "key", "OPENAI_BASE_URL": "http://x", "HTTPS_PROXY": "http://x"}


def guarded(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(GUARD), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **SECRETS, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def compared(folder: Path, *cells: str) -> subprocess.CompletedProcess[str]:
    """The output of nbval for a notebook without outputs, with the options of `make test`."""
    code = [nbformat.v4.new_code_cell(source) for source in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=code), folder / "page.ipynb")
    options = ["-p", "refusals", "-n", "1", "--dist", "loadfile", "--nbval"]
    return guarded("-m", "pytest", *options, "page.ipynb", folder=folder)


def test_cell_that_connects_fails_with_the_address(tmp_path: Path) -> None:
    """The error of the cell names the address; local servers are reachable, and no key is set."""
    keys = f"import os\nassert not {set(SECRETS)} & os.environ.keys()"
    done = compared(tmp_path, f"{ECHO}await {TCP}", keys, CONNECT)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 2 passed" in done.stdout
    assert f"socket.connect to ('{ELSEWHERE}', 80) is refused: notebooks are tested without a network." in done.stdout


def test_caught_connection_error_fails_the_session(tmp_path: Path) -> None:
    """A cell that catches the error passes, but the session fails with the refused address."""
    done = compared(tmp_path, CAUGHT)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 passed" in done.stdout
    assert "Refused connections" in done.stdout
    assert f"socket.connect to ('{ELSEWHERE}', 80) is refused" in done.stdout


WAYS_OUT = [
    f'socket.socket().connect_ex(("{ELSEWHERE}", 80))',
    f'socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("{ELSEWHERE}", 53))',
    'socket.socket(socket.AF_INET6).connect(("2001:db8::1", 80))',
    'socket.socket(socket.AF_INET6).connect(("::ffff:192.0.2.1", 80))',
    'socket.getaddrinfo("example.org", 80)',
    'socket.gethostbyname("example.org")',
    'asyncio.run(asyncio.open_connection("example.org", 80))',
    'urllib.request.urlopen("http://192.0.2.1/")',
]
WAYS_WITHIN = [
    f"asyncio.run({TCP})",
    f"asyncio.run({UNIX})",
    'assert socket.socket(socket.AF_INET6).connect_ex(("::1", 1))',
    'assert socket.socket(socket.AF_INET6).connect_ex(("::ffff:127.0.0.1", 1))',
    'assert socket.getaddrinfo("localhost", 80)',
    'a, b = socket.socketpair()\na.sendmsg([b"x"])\nassert b.recv(1) == b"x"',
]
ATTEMPT = f"""import json, socket, sys, urllib.request
{ECHO}
for attempt in json.loads(sys.argv[1]):
    try:
        exec(attempt)
    except Exception as error:
        print(json.dumps(repr(error)))
    else:
        print(json.dumps(None))
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """The error of each attempt in one guarded process; None if it succeeded."""
    attempts = [*WAYS_OUT, *WAYS_WITHIN]
    done = guarded("-c", ATTEMPT, json.dumps(attempts), folder=tmp_path_factory.mktemp("attempts"))
    assert done.returncode == 0, done.stderr
    return dict(zip(attempts, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("attempt", WAYS_OUT)
def test_foreign_connections_are_refused(attempt: str, errors: dict[str, str | None]) -> None:
    """Every kind of connection and name resolution is refused before it starts."""
    assert "is refused: notebooks are tested without a network." in (errors[attempt] or "It succeeded.")


@pytest.mark.parametrize("attempt", WAYS_WITHIN)
def test_local_connections_are_allowed(attempt: str, errors: dict[str, str | None]) -> None:
    """Unix sockets, IPv6 loopback and `localhost` are allowed."""
    assert errors[attempt] is None
