"""A real JupyterLab on a loopback port, and a page in it as a person would use it."""

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request, expect

START_TIMEOUT_S = 60.0
CELL_TIMEOUT_MS = 60_000

_NUMBERED = re.compile(r"\[\d+\]:")
_IDLE = """() => {
    const context = window.jupyterapp?.shell.currentWidget?.sessionContext;
    const kernel = context?.session?.kernel;
    return context?.isReady && kernel?.status === "idle" && kernel.connectionStatus === "connected";
}"""

_SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
    "@jupyterlab/completer-extension:manager": {"autoCompletion": False},
}


_ALL_RUN = r"""() => {
    const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].map((node) => node.textContent);
    const started = /\[\d+\]/.test(prompts[0]) && !prompts.some((prompt) => prompt.includes("*"));
    return started && !document.querySelector(".af-live");
}"""


@dataclass(frozen=True)
class LabServer:
    """A running server: its address without path, its token, and the folder that it shows."""

    address: str
    token: str
    root: Path

    def url(self, notebook: str) -> str:
        """The address of a notebook, alone in the simple interface."""
        return f"{self.address}/doc/tree/{notebook}?token={self.token}&reset"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def lab_server(home: Path, env: dict[str, str] | None = None) -> Iterator[LabServer]:
    """Start JupyterLab with a configuration of its own, and stop it for certain, kernels included."""
    root = home / "root"
    root.mkdir(parents=True)
    port, token = free_port(), secrets.token_hex(16)
    log = (home / "server.log").open("w")
    process = subprocess.Popen(
        _command(port, token, root),
        env=_environment(home) | (env or {}),
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    server = LabServer(f"http://127.0.0.1:{port}", token, root)
    try:
        _wait_until_up(server, process, home / "server.log")
        yield server
    finally:
        _stop(process)
        log.close()


def _command(port: int, token: str, root: Path) -> list[str]:
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "IdentityProvider.token": token,
        "ServerApp.root_dir": root,
        "LabApp.expose_app_in_browser": True,
        "LabApp.news_url": "None",
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "LabApp.extension_manager": "readonly",
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    return [*command, *(f"--{name}={value}" for name, value in options.items())]


def _environment(home: Path) -> dict[str, str]:
    """The caller's environment with every folder of Jupyter and IPython moved below `home`."""
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
        "IPYTHONDIR": "ipython",
    }
    moved = {variable: str(home / folder) for variable, folder in folders.items()}
    return {**os.environ, **moved}


def call_api(server: LabServer, method: str, path: str) -> Any:
    """The server's answer to a request, as JSON; None if it is empty."""
    connection = HTTPConnection(server.address.removeprefix("http://"), timeout=20)
    try:
        connection.request(method, f"/api/{path}?token={server.token}")
        body = connection.getresponse().read()
    finally:
        connection.close()
    return json.loads(body) if body else None


def _wait_until_up(server: LabServer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            call_api(server, "GET", "status")
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"JupyterLab did not come up; its log ends with:\n{log.read_text()[-3000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and what it started: they are one process group."""
    for sign, patience_s in ((signal.SIGINT, 1), (signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, sign)
            process.wait(patience_s)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def find_chromium() -> str | None:
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


CHROMIUM_ARGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def write_notebook(server: LabServer, name: str, cells: Sequence[str]) -> None:
    """A notebook of code cells in the server's folder."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, server.root / name)


@dataclass
class LabPage:
    """A notebook in a browser, with what its page asked for and complained about."""

    page: Page
    server: LabServer
    name: str
    requested: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def cells(self) -> Locator:
        return self.page.locator(".jp-Notebook .jp-CodeCell")

    def output(self, index: int) -> Locator:
        """The output area of the code cell with this index, from 0."""
        return self.cells.nth(index).locator(".jp-OutputArea-output")

    def open(self, *, with_kernel: bool = True) -> None:
        """Open the notebook; wait until its kernel is idle."""
        self.page.goto(self.server.url(self.name))
        expect(self.cells.first).to_be_visible(timeout=CELL_TIMEOUT_MS)
        if with_kernel:
            self.wait_idle()

    def wait_idle(self, timeout_ms: int = CELL_TIMEOUT_MS) -> None:
        """Wait until the kernel is connected and has nothing to do."""
        self.page.wait_for_function(_IDLE, timeout=timeout_ms)

    def run_cell(self, index: int) -> None:
        """Run a cell; return when it has been started."""
        self.cells.nth(index).locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Control+Enter")

    def wait_done(self, index: int, timeout_ms: int = CELL_TIMEOUT_MS) -> None:
        """Wait until the cell has a number, which it gets when it has run."""
        prompt = self.cells.nth(index).locator(".jp-InputPrompt")
        expect(prompt).to_have_text(_NUMBERED, timeout=timeout_ms)

    def approve_until_done(self, timeout_s: float = 60.0) -> None:
        """Approve whatever asks, until the cells that were started have run and no run is shown live."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            asking = self.page.locator(".af-ask .af-primary:enabled")
            if asking.count():
                asking.first.click()
            elif self.page.evaluate(_ALL_RUN) and self.page.evaluate(_IDLE):
                return
            self.page.wait_for_timeout(250)
        raise AssertionError(f"The notebook was still busy after {timeout_s} s.")

    def command(self, command: str, args: dict[str, Any] | None = None) -> None:
        """Run a command of JupyterLab by its id."""
        self.page.evaluate("([id, args]) => window.jupyterapp.commands.execute(id, args)", [command, args or {}])

    def run_all(self) -> None:
        """Start all cells, and return at once."""
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")

    def dark(self) -> None:
        """Switch to the dark theme."""
        self.command("apputils:change-theme", {"theme": "JupyterLab Dark"})
        expect(self.page.locator('body[data-jp-theme-light="false"]')).to_be_attached()

    def save(self) -> None:
        self.command("docmanager:save")

    def shutdown_kernel(self) -> None:
        """End the kernel of this notebook through the server."""
        for session in call_api(self.server, "GET", "sessions"):
            if session["path"] == self.name:
                call_api(self.server, "DELETE", f"sessions/{session['id']}")

    def foreign_requests(self) -> list[str]:
        """Addresses outside the server that the page asked for."""
        own = (self.server.address, self.server.address.replace("http", "ws", 1), "data:", "blob:", "about:")
        return [address for address in self.requested if not address.startswith(own)]


def watch(context: BrowserContext, server: LabServer, name: str) -> LabPage:
    """A page whose requests and errors are noted down."""
    lab = LabPage(context.new_page(), server, name)

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            lab.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def on_request(request: Request) -> None:
        lab.requested.append(request.url)

    lab.page.on("console", on_console)
    lab.page.on("pageerror", lambda error: lab.errors.append(str(error)))
    lab.page.on("request", on_request)
    return lab
