"""Front ends on loopback ports: JupyterLab, Notebook 7, Voila and others, each with its own configuration."""

import itertools
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import Any

import nbformat
from support.forked_python import fast_python, write_kernelspec
from support.overlays import overlay_python

START_TIMEOUT_S = 60.0

_SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
    "@jupyterlab/completer-extension:manager": {"autoCompletion": False},
}


@dataclass(frozen=True)
class FrontEnd:
    """A program that displays notebooks.

    Attributes:
        module: The Python module to run.
        page: The path of a notebook's page, with `{name}` and `{token}`.
        options: Command-line options.
        environment: The overlay environment; empty for the environment of the tests.
        ignored: Parts of error messages and foreign addresses that come from the program itself.
    """

    module: str
    page: str
    options: Mapping[str, object]
    environment: str = ""
    ignored: tuple[str, ...] = ()


_SOCKETS = {"KernelManager.transport": "ipc"}
"""Kernels use socket files: another test may take a port before its kernel does, and a kernel without the port for its
output never becomes idle."""
_SERVER = {
    "ServerApp.ip": "127.0.0.1",
    "ServerApp.port_retries": 0,
    "LabApp.extension_manager": "readonly",
    **_SOCKETS,
}
_LAB = {
    "LabApp.expose_app_in_browser": True,
    "LabApp.news_url": "None",
    "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
}
_CLOSED_ELSEWHERE = "Comm not found for comm id"
"""JupyterLab logs this when the kernel closes a view that only an earlier page of the notebook displayed."""
JUPYTERLAB = FrontEnd("jupyterlab", "doc/tree/{name}?token={token}&reset", _SERVER | _LAB, ignored=(_CLOSED_ELSEWHERE,))
JUPYTERLAB_6 = FrontEnd(
    "jupyterlab", "doc/tree/{name}?token={token}&reset", _SERVER | _LAB, "ipykernel6", ignored=(_CLOSED_ELSEWHERE,)
)
"""JupyterLab whose kernels are of ipykernel 6.31."""
NOTEBOOK_7 = FrontEnd(
    "notebook",
    "notebooks/{name}?token={token}",
    _SERVER | {**_LAB, "JupyterNotebookApp.expose_app_in_browser": True},
    "notebook7",
    ignored=(
        "(reading 'schema')",
        _CLOSED_ELSEWHERE,
    ),  # its shortcuts need settings of plugins that it lacks
)
JUPYTER_AI = FrontEnd(
    "jupyterlab",
    "lab?token={token}&reset",
    # Its server of MCP would listen on a port that another test may use.
    _SERVER | _LAB | {"ServerApp.jpserver_extensions": {"jupyter_server_mcp": False}},
    "jupyter_ai",
)
"""JupyterLab with Jupyter AI; its page is a launcher."""
VOILA = FrontEnd(
    "voila",
    "voila/render/{name}?token={token}",
    {"Voila.ip": "127.0.0.1", **_SOCKETS},
    "voila",
    # The first is in its page template; Voila lacks a module that the second imports.
    ignored=("cdn.jsdelivr.net/npm/@fortawesome", "labextensions/jupyterlab-jupytext"),
)


@dataclass
class LabServer:
    """A running server.

    Attributes:
        address: Without path.
        token: The access token.
        root: The folder with the notebooks.
        front_end: The program.
        helpers: Threads that end kernels while the next test runs.
    """

    address: str
    token: str
    root: Path
    front_end: FrontEnd = JUPYTERLAB
    helpers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2))
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def url(self, notebook: str) -> str:
        """The address of the page of a notebook."""
        return f"{self.address}/{self.front_end.page.format(name=notebook, token=self.token)}"

    def folder(self) -> Path:
        """Make a new folder for one notebook."""
        folder = self.root / f"run-{next(self._numbers)}"
        folder.mkdir()
        return folder


@contextmanager
def lab_server(
    home: Path, env: Mapping[str, str] | None = None, front_end: FrontEnd = JUPYTERLAB
) -> Iterator[LabServer]:
    """Start a front end with its own configuration; on exit stop it and its kernels.

    Args:
        home: An empty folder for the files of the front end.
        env: Additional environment variables.
        front_end: The program to start.
    """
    root = home / "root"
    root.mkdir(parents=True)
    server = LabServer(f"http://127.0.0.1:{free_port()}", secrets.token_hex(16), root, front_end)
    python = str(overlay_python(front_end.environment)) if front_end.environment else sys.executable
    write_kernelspec(home / "path", fast_python(python=python))
    # The path of a socket has at most 107 bytes.
    with (
        TemporaryDirectory(prefix="af-", ignore_cleanup_errors=True) as sockets,
        (home / "server.log").open("w") as log,
    ):
        options: dict[str, Any] = {"cwd": root, "stdout": log, "stderr": log, "start_new_session": True}
        options["env"] = _environment(home) | {"JUPYTER_RUNTIME_DIR": sockets, **(env or {})}
        process = subprocess.Popen([python, *_arguments(server)], **options)
        try:
            _wait_until_up(server, process, home / "server.log")
            yield server
        finally:
            server.helpers.shutdown(wait=False, cancel_futures=True)
            _stop(process)


@contextmanager
def marimo_server(home: Path, cells: Sequence[str]) -> Iterator[str]:
    """Start marimo with a notebook of these cells and yield the address of its page."""
    python = overlay_python("marimo")
    body = "\n".join(f"@app.cell\ndef _():\n{indent(cell, '    ')}\n    return\n" for cell in cells)
    (home / "run.py").write_text(f"import marimo\napp = marimo.App()\n\n{body}", encoding="utf-8")
    environment = _environment(home) | {"HOME": str(home), "AF_APPROVALS": "ask"}
    server = LabServer(f"http://127.0.0.1:{free_port()}", "", home, FrontEnd("marimo", "", {}))
    options = ["--headless", "--no-token", "--skip-update-check", "--port", server.address.rpartition(":")[2]]
    with (home / "server.log").open("w") as log:
        process = subprocess.Popen(
            [python, "-m", "marimo", "edit", "run.py", *options],
            cwd=home, env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            _wait_until_up(server, process, home / "server.log")
            yield server.address
        finally:
            _stop(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _arguments(server: LabServer) -> list[str]:
    end = server.front_end
    port = server.address.rpartition(":")[2]
    if end is VOILA:
        own = {"port": port, "Voila.token": server.token}
    else:
        own = {"ServerApp.port": port, "IdentityProvider.token": server.token, "ServerApp.root_dir": server.root}
    options = [f"--{name}={value}" for name, value in {**end.options, **own}.items()]
    alone = [str(server.root)] if end is VOILA else ["--allow-root"]
    return ["-m", end.module, "--no-browser", *options, *alone]


def _environment(home: Path) -> dict[str, str]:
    """Return the caller's environment with every folder of Jupyter and IPython below `home`."""
    settings = home / "settings"
    for plugin, values in _SETTINGS.items():
        package, name = plugin.split(":")
        target = settings / package / f"{name}.jupyterlab-settings"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(values))
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "JUPYTER_PATH": "path",
        "IPYTHONDIR": "ipython",
    }
    moved = {variable: str(home / folder) for variable, folder in folders.items()}
    return {**os.environ, **moved}


def call_api(server: LabServer, method: str, path: str, body: object = None) -> Any:
    """Send a request with a JSON body and return the JSON of the response; None for an empty response."""
    connection = HTTPConnection(server.address.removeprefix("http://"), timeout=20)
    try:
        connection.request(method, f"/api/{path}?token={server.token}", None if body is None else json.dumps(body))
        answer = connection.getresponse().read()
    finally:
        connection.close()
    return json.loads(answer) if answer else None


def start_kernel(server: LabServer, name: str) -> None:
    """Start the kernel of a notebook without a kernel, so that the kernel starts in parallel with the page."""
    if not any(session["path"] == name for session in call_api(server, "GET", "sessions")):
        session = {"path": name, "type": "notebook", "name": Path(name).name, "kernel": {"name": "python3"}}
        call_api(server, "POST", "sessions", session)


def end_kernels(server: LabServer, name: str) -> None:
    """Shut down the kernels of a notebook in the background."""
    for session in call_api(server, "GET", "sessions"):
        if session["path"] == name:
            server.helpers.submit(call_api, server, "DELETE", f"sessions/{session['id']}")


def _is_up(server: LabServer) -> bool:
    connection = HTTPConnection(server.address.removeprefix("http://"), timeout=20)
    try:
        connection.request("GET", f"/?token={server.token}")
        connection.getresponse().read()
    except OSError:
        return False
    finally:
        connection.close()
    return True


def _wait_until_up(server: LabServer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        if _is_up(server):
            return
        time.sleep(0.2)
    name = server.front_end.module
    raise RuntimeError(f"{name} did not start; its log ends with:\n{log.read_text()[-3000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the server and its process group."""
    for sign, patience_s in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, sign)
            process.wait(patience_s)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def new_notebook(server: LabServer, *cells: str) -> str:
    """Write a notebook of code cells into a new folder; return its path on the server."""
    name = f"{server.folder().name}/run.ipynb"
    write_notebook(server, name, cells)
    return name


def write_notebook(server: LabServer, name: str, cells: Sequence[str]) -> None:
    """Write a notebook of code cells into the server's folder."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, server.root / name)
