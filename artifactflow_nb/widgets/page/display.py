"""Displays views in cells: the saved output, which pages replace by the live view.

A newer saved output replaces the older one with a single `update_display_data` message. The message is sent from the
engine's thread with the parent header of the cell's own request, so it cannot land in another cell. nbclient
(papermill, nbconvert, jupytext) drops such a message once it executes the next cell; `LiveDisplay.repeat` is for that.
"""

from collections.abc import Callable, Coroutine, Mapping
from threading import Lock
from typing import Any, Protocol, TypeVar

import anywidget
import traitlets
from IPython.core.getipython import get_ipython

from artifactflow_nb.core.clock_ids import RandomIds
from artifactflow_nb.errors import UsageError
from artifactflow_nb.widgets.page import assets
from artifactflow_nb.widgets.page.saved import SavedOutput
from artifactflow_nb.widgets.page.stream import PageStream, SavedState, SaveOutput
from artifactflow_nb.widgets.page.view import View

CallSoon = Callable[..., None]


def _let_page_choose_subshell(comm: Any) -> None:
    """Handle messages of the page in the subshell that it requests, so that clicks work while a cell runs."""
    # Workaround for ipykernel 7.4: it handles comm messages in the shell whose request the kernel's last message on the
    # comm answered, here the main shell, which a cell may block for minutes. It stores that shell in this attribute.
    # Without the attribute, and with messages that have no parent header, the subshell requested by the page is used.
    vars(comm).pop("_reply_subshell_id", None)


class PageWidget(anywidget.AnyWidget):
    """Connects a `PageStream` to the pages through a comm.

    Args:
        call_soon: Schedules a callback on the engine's loop. Messages arrive in the main thread or in a subshell,
            depending on the kernel, and are only passed on.
        save: See `PageStream`.
        notify: Announce open requests outside the view, e.g. in the page title.
    """

    _css = assets.all_styles()
    key = traitlets.Unicode().tag(sync=True)
    notify = traitlets.Bool().tag(sync=True)

    def __init__(self, view: View, call_soon: CallSoon, save: SaveOutput, *, notify: bool = True) -> None:
        self._esm = assets.script(view.texts.language)
        super().__init__(key=RandomIds().new("view"), notify=notify)
        _let_page_choose_subshell(self.comm)
        self._kernel: Any = getattr(get_ipython(), "kernel", None)
        self._call_soon = call_soon
        self.stream = PageStream(view, self._post, save, self.close)
        self.on_msg(self._on_message)

    def _on_message(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        self._call_soon(self.stream.receive, content)

    def _post(self, message: Mapping[str, Any]) -> None:
        """Send a message without a parent header to the pages; see `_let_page_choose_subshell`."""
        comm: Any = self.comm
        session = getattr(self._kernel, "session", None)
        if comm is None or session is None:
            self.send(message)
            return
        content = {"comm_id": comm.comm_id, "data": {"method": "custom", "content": message}}
        session.send(self._kernel.iopub_socket, "comm_msg", content, parent={}, ident=comm.topic)


T = TypeVar("T")


class LoopCaller(Protocol):
    """Access to the engine's event loop from another thread."""

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Schedule a callback on the loop."""


class Display:
    """Output of one cell, by media type, that can be replaced later."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._publisher = _publisher()
        self._transient = {"display_id": RandomIds().new("artifactflow")}
        self._parent = dict(self._publisher.parent_header)
        self._publisher.publish(dict(content), transient=self._transient)

    def replace(self, content: Mapping[str, str]) -> None:
        """Replace the displayed content; may be called from any thread."""
        # The publisher's own `publish(update=True)` would use the parent header of the running cell.
        message = {"data": dict(content), "metadata": {}, "transient": self._transient}
        session = self._publisher.session
        session.send(
            self._publisher.pub_socket,
            session.msg("update_display_data", message, parent=self._parent),
            ident=self._publisher.topic,
        )

    def replace_from_current_cell(self, content: Mapping[str, str]) -> None:
        """Replace the displayed content with a message of the current cell; call it in the thread of that cell."""
        self._publisher.publish(dict(content), transient=self._transient, update=True)

    @property
    def is_in_current_cell(self) -> bool:
        """Return whether the display is in the cell that is being executed."""
        return bool(self._publisher.parent_header.get("msg_id") == self._parent.get("msg_id"))


def _publisher() -> Any:
    """Display publisher of the current IPython shell.

    Errors: `UsageError` outside IPython.
    """
    shell = get_ipython()
    if shell is None:
        raise UsageError("Views are displayed in IPython only. Print run.response instead.")
    return shell.display_pub


def has_kernel() -> bool:
    """Return whether this code runs in a Jupyter kernel, so that a page may be connected."""
    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def show_saved(output: SavedOutput) -> None:
    """Display a saved output in the current cell; it is never updated."""
    _publisher().publish(dict(output))


class LiveDisplay:
    """A view in the current cell: its saved output, which every page replaces by the live view.

    For `notify` see `PageWidget`.
    """

    def __init__(self, view: View, thread: LoopCaller, *, notify: bool = True) -> None:
        self._output = output = _CellOutput()
        self._page = page = PageWidget(view, thread.call_soon, output.save, notify=notify)

        async def open_view() -> SavedOutput:
            await page.stream.open()
            return view.saved_output()

        output.show(thread.call(open_view()), page.key)

    async def answers_ping(self) -> bool:
        """Return whether a page that shows this view responds; await it on the engine's loop."""
        return await self._page.stream.answers_ping()

    @property
    def is_in_current_cell(self) -> bool:
        """Return whether the display is in the cell that is being executed."""
        return self._output.is_in_current_cell

    def repeat(self, output: SavedOutput, *, is_last: bool) -> None:
        """Replace the saved output with a message of the current cell, unless a page shows the view."""
        if not self._page.stream.has_page:
            self._output.replace_from_current_cell(output, is_last=is_last)


class _CellOutput:
    """Output of the cell that shows a view.

    `save` may be called before `show`; the output then starts with the state saved early.
    """

    def __init__(self) -> None:
        self._key = ""
        self._number = 0
        self._display: Display | None = None
        self._early: SavedState | None = None
        self._lock = Lock()

    def show(self, output: SavedOutput, key: str) -> None:
        """Display the saved output, or the newer one that `save` received first."""
        with self._lock:
            self._key = key
            early = self._early
            content = with_host(output, key, 0) if early is None else self._content(early)
            self._display = Display(content)

    def save(self, output: SavedOutput, number: int, is_last: bool) -> SavedState:
        """Write a saved output into the cell; called on the engine's loop."""
        saved = SavedState(number, output, is_last)
        with self._lock:
            self._number = number
            if self._display is None:
                self._early = saved
                return saved
            content = self._content(saved)
            self._display.replace(content)
        return SavedState(number, content, is_last)

    def replace_from_current_cell(self, output: SavedOutput, *, is_last: bool) -> None:
        """Write a saved output into the cell by a message of the cell that is being executed."""
        with self._lock:
            if self._display is not None:
                self._display.replace_from_current_cell(self._content(SavedState(self._number, output, is_last)))

    @property
    def is_in_current_cell(self) -> bool:
        """Return whether the output is in the cell that is being executed."""
        return self._display is not None and self._display.is_in_current_cell

    def _content(self, saved: SavedState) -> Mapping[str, str]:
        output = dict(saved.content)
        # No page mounts a view over the last output, so it needs no host element.
        return output if saved.is_last else with_host(output, self._key, saved.number)


def with_host(output: Mapping[str, str], key: str, number: int) -> dict[str, str]:
    """Wrap the HTML in the element that a page replaces by the live view."""
    label, _, content = output["text/html"].partition("\n")
    html = f'{label}\n<div class="af-host af-host-{key} af-output-{number}">{content}</div>'
    return {**output, "text/html": html}
