"""A notebook in a browser: in JupyterLab, Notebook 7 or Voila."""

import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
from browser.servers import LabServer, call_api, lab_server, new_notebook, start_kernel, write_notebook
from playwright.sync_api import ConsoleMessage, Error, Locator, Page, Request, expect

__all__ = [
    "CHROMIUM_ARGS", "LabPage", "LabServer", "call_api", "expect_growth", "find_chromium", "lab_server", "new_notebook",
    "watch", "write_notebook",
]  # fmt: skip

CELL_TIMEOUT_MS = 60_000

_NUMBERED = re.compile(r"\[\d+\]:")
_IDLE = """() => {
    const context = window.jupyterapp?.shell.currentWidget?.sessionContext;
    const kernel = context?.session?.kernel;
    return context?.isReady && kernel?.status === "idle" && kernel.connectionStatus === "connected";
}"""

_OPEN = """async (path) => {
    const { commands, shell } = window.jupyterapp;
    const opened = await commands.execute("docmanager:open", { path });
    [...shell.widgets("main")].filter((widget) => widget !== opened).forEach((launcher) => launcher.close());
}"""
"""Opens a notebook in a page that displays a launcher."""

_CLOSE_ALL = """() => {
    [...window.jupyterapp.shell.widgets("main")].forEach((widget) => widget.dispose());
    sessionStorage.clear();
}"""
"""Closes all documents without the question whether to save them."""

_IS_CLEAR = """() => !document.querySelector(".jp-Notebook, .jp-CodeConsole, .jp-Dialog")"""

_HAS_THEME = "() => getComputedStyle(document.body).getPropertyValue('--jp-layout-color0')"
"""True if the style sheet of the theme is loaded; for a moment after a switch there is none."""

_WAIT_FRAMES = """async () => {
    for (let i = 0; i < 20; i++) await new Promise(requestAnimationFrame);
}"""
"""After a run, `place.js` scrolls the answer to its place for 12 frames (`SETTLE_FRAMES`)."""

_ALL_RUN = r"""() => {
    const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].map((node) => node.textContent);
    const started = /\[\d+\]/.test(prompts[0]) && !prompts.some((prompt) => prompt.includes("*"));
    return started && !document.querySelector(".af-live");
}"""


def expect_growth(text: Locator, n_times: int = 3, timeout_s: float = 30.0) -> None:
    """Wait until the text of an element has grown `n_times`; `AssertionError` after the timeout."""
    lengths = [len(text.inner_text())]
    deadline = time.monotonic() + timeout_s
    while sum(after > before for before, after in pairwise(lengths)) < n_times:
        assert time.monotonic() < deadline, f"The text has not grown {n_times} times: {lengths}"
        text.page.wait_for_timeout(100)
        lengths.append(len(text.inner_text()))


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


@dataclass
class LabPage:
    """A notebook in a browser, with the requests and errors of its page."""

    page: Page
    server: LabServer
    name: str
    requested: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    listeners: dict[str, Callable[..., None]] = field(default_factory=dict)
    opened: bool = False

    @property
    def cells(self) -> Locator:
        return self.page.locator(".jp-Notebook .jp-CodeCell")

    def output(self, index: int) -> Locator:
        """The output area of the code cell with this index, from 0."""
        return self.cells.nth(index).locator(".jp-OutputArea-output")

    def visible_run(self, index: int) -> Locator:
        """The visible form of the run in a cell's output: the live view, or else the saved output."""
        return self.output(index).locator(".af-run:visible")

    def open(self, *, with_kernel: bool = True) -> None:
        """Open the notebook, or load its page again if it is open; wait until its kernel is idle."""
        if with_kernel:
            start_kernel(self.server, self.name)
        if not self.opened and self.page.evaluate("'jupyterapp' in window"):
            self.page.evaluate(_OPEN, self.name)
        else:
            self.page.goto(self.server.url(self.name))
        self.opened = True
        expect(self.cells.first).to_be_visible(timeout=CELL_TIMEOUT_MS)
        if with_kernel:
            self.wait_idle()

    def close(self) -> None:
        """Close the notebook without saving; the page stays open for the next notebook."""
        self.page.evaluate(_CLOSE_ALL)
        self.page.wait_for_function(_IS_CLEAR)
        self.opened = False

    def open_elsewhere(self) -> None:
        """Open the notebook untrusted and without a kernel, as on a machine that lacks its kernel."""
        notebook = nbformat.read(self._file, as_version=4)
        unknown = {"name": "unknown", "display_name": "Unknown", "language": "unknown"}
        notebook.metadata.update({"kernelspec": unknown, "language_info": {"name": "unknown"}})
        nbformat.write(notebook, self._file)
        if self.opened:
            self.close()
        self.open(with_kernel=False)
        self.page.locator(".jp-Dialog button", has_text="No Kernel").click(timeout=CELL_TIMEOUT_MS)
        expect(self.page.locator(".jp-Dialog")).to_have_count(0)

    def wait_idle(self, timeout_ms: int = CELL_TIMEOUT_MS) -> None:
        """Wait until the kernel is connected and idle."""
        self.page.wait_for_function(_IDLE, timeout=timeout_ms)

    def run_cell(self, index: int) -> None:
        """Start a cell without waiting for its end."""
        self.cells.nth(index).locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Control+Enter")

    def wait_done(self, index: int, timeout_ms: int = CELL_TIMEOUT_MS) -> None:
        """Wait until the cell has an execution count, which it gets when it has run."""
        prompt = self.cells.nth(index).locator(".jp-InputPrompt")
        expect(prompt).to_have_text(_NUMBERED, timeout=timeout_ms)

    def wait_saved(self, index: int, text: str) -> Locator:
        """Wait until a saved output with this text has replaced the live view of a run, and no longer moves."""
        saved = self.output(index).locator(".af-saved:visible")
        expect(saved).to_contain_text(text, timeout=CELL_TIMEOUT_MS)
        expect(self.output(index).locator(".af-live")).to_have_count(0, timeout=CELL_TIMEOUT_MS)
        self.page.evaluate(_WAIT_FRAMES)
        return saved

    def approve_until_done(self, timeout_s: float = 60.0) -> None:
        """Approve every request until all started cells have run and there is no live view."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            asking = self.page.locator(".af-approval .af-primary:enabled")
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
        """Start all cells without waiting for their end."""
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")

    def dark(self) -> None:
        """Switch to the dark theme."""
        self.theme(light=False)

    def is_light(self) -> bool:
        """True if the page has the light theme."""
        return bool(self.page.locator("body[data-jp-theme-light=true]").count())

    def theme(self, *, light: bool) -> None:
        """Switch to the light or the dark theme; a switch takes seconds."""
        if light == self.is_light():
            return
        self.command("apputils:change-theme", {"theme": "JupyterLab Light" if light else "JupyterLab Dark"})
        body = self.page.locator(f'body[data-jp-theme-light="{str(light).lower()}"]')
        expect(body).to_be_attached(timeout=CELL_TIMEOUT_MS)
        self.page.wait_for_function(_HAS_THEME)

    def save(self) -> None:
        self.command("docmanager:save")

    def saved_outputs(self, index: int) -> list[Any]:
        """Save the notebook and return the outputs of a cell in the file."""
        before = self._file.stat().st_mtime_ns
        self.save()
        deadline = time.monotonic() + CELL_TIMEOUT_MS / 1000
        while self._file.stat().st_mtime_ns == before and time.monotonic() < deadline:
            self.page.wait_for_timeout(100)
        outputs: list[Any] = nbformat.read(self._file, as_version=4).cells[index].outputs
        return outputs

    def wait_output(self, index: int, text: str) -> None:
        """Wait until the output of a cell in the file has this text."""
        deadline = time.monotonic() + CELL_TIMEOUT_MS / 1000
        while not any(text in output.get("data", {}).get("text/html", "") for output in self.saved_outputs(index)):
            assert time.monotonic() < deadline, f"The file has no output of cell {index} with {text!r}."

    @property
    def _file(self) -> Path:
        return self.server.root / self.name

    def file_in_folder(self, name: str) -> Path:
        """The path of a file in the folder of the notebook, the working folder of its kernel."""
        return self._file.with_name(name)

    def wait_for_file(self, name: str, timeout_ms: int = CELL_TIMEOUT_MS) -> None:
        """Wait until there is a file of this name in the folder of the notebook."""
        deadline = time.monotonic() + timeout_ms / 1000
        while not self.file_in_folder(name).exists():
            assert time.monotonic() < deadline, f"There is no {name!r} after {timeout_ms / 1000} s."
            self.page.wait_for_timeout(100)

    def sessions(self) -> list[Any]:
        """The sessions of this notebook on the server: one or none."""
        return [session for session in call_api(self.server, "GET", "sessions") if session["path"] == self.name]

    def interrupt_kernel(self) -> None:
        """Interrupt the kernel, as the Stop button of the toolbar does."""
        for session in self.sessions():
            call_api(self.server, "POST", f"kernels/{session['kernel']['id']}/interrupt")

    def restart_kernel(self) -> None:
        """Restart the kernel, as the menu does after confirmation."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
        self.wait_idle()

    def shutdown_kernel(self) -> None:
        """End the kernel of this notebook through the server."""
        for session in self.sessions():
            call_api(self.server, "DELETE", f"sessions/{session['id']}")

    def foreign_requests(self) -> list[str]:
        """The requested addresses outside the server."""
        own = (self.server.address, self.server.address.replace("http", "ws", 1), "data:", "blob:", "about:")
        foreign = [address for address in self.requested if not address.startswith(own)]
        return [address for address in foreign if not any(part in address for part in self.server.front_end.ignored)]


_SPLASH = re.compile(r"NotFoundError: .*removeChild.* is not a child of this node\.\n\s+at \S+/jlab_core\.\S+\s*")
"""JupyterLab removes its splash screen a moment after loading, sometimes twice."""

_CLOSED = re.compile(
    r"TypeError: Cannot read properties of null \(reading 'footer'\)"
    r"\n\s+at \S+\._ensureFocus .*\n\s+at \S+\.onActivateRequest .*(\n\s+at .*/jlab_core\..*)+"
)
"""JupyterLab gives the focus to a notebook that was closed meanwhile."""


def watch(page: Page, server: LabServer, name: str) -> LabPage:
    """Record the requests and errors of a page until its notebook is released."""
    lab = LabPage(page, server, name)

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            report(f"{message.text} ({message.location.get('url', '')})")

    def report(text: str) -> None:
        is_known = any(known.fullmatch(text) for known in (_SPLASH, _CLOSED))
        if not is_known and not any(known in text for known in server.front_end.ignored):
            lab.errors.append(text)

    def on_error(error: Error) -> None:
        report(error.stack or str(error))

    def on_request(request: Request) -> None:
        lab.requested.append(request.url)

    lab.listeners.update({"console": on_console, "pageerror": on_error, "request": on_request})
    for event, listener in lab.listeners.items():
        page.on(event, listener)  # type: ignore[call-overload]  # the event names are literals above
    return lab
