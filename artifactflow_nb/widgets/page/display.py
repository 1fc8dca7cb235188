"""Displays views in cells: the saved output, over which pages mount the live view.

A newer saved output replaces the older one with a single `update_display_data` message. The message is sent from the
engine's thread with the parent header of the cell's own request, so it cannot land in another cell.
"""

from collections.abc import Callable, Coroutine, Mapping
from threading import Lock
from typing import Any, Protocol, TypeVar

from IPython.core.getipython import get_ipython

from artifactflow_nb.core.clock_ids import RandomIds
from artifactflow_nb.errors import UsageError
from artifactflow_nb.widgets.page.saved import SavedOutput
from artifactflow_nb.widgets.page.stream import SavedState
from artifactflow_nb.widgets.page.view import View
from artifactflow_nb.widgets.page.widget import PageWidget

T = TypeVar("T")


class LoopCaller(Protocol):
    """Access to the engine's event loop from another thread."""

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Schedule a callback on the loop."""


class Display:
    """Output of one cell that can be replaced later.

    Args:
        content: The output, by media type.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._publisher = _publisher()
        self._transient = {"display_id": RandomIds().new("artifactflow")}
        self._parent = dict(self._publisher.parent_header)
        self._publisher.publish(dict(content), transient=self._transient)

    def replace(self, content: Mapping[str, str]) -> None:
        """Replace the displayed content; may be called from any thread."""
        # The publisher's own `publish(update=True)` would use the parent header of whatever cell runs now.
        message = {"data": dict(content), "metadata": {}, "transient": self._transient}
        session = self._publisher.session
        session.send(
            self._publisher.pub_socket,
            session.msg("update_display_data", message, parent=self._parent),
            ident=self._publisher.topic,
        )


def _publisher() -> Any:
    """Display publisher of the current IPython shell.

    Errors: `UsageError` outside IPython.
    """
    shell = get_ipython()
    if shell is None:
        raise UsageError("There is no cell to display in: this is plain Python. Print run.response instead.")
    return shell.display_pub


def has_kernel() -> bool:
    """True if this code runs in a Jupyter kernel, so a page may be connected."""
    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def show_saved(output: SavedOutput) -> None:
    """Display a saved output in the current cell; it is never updated."""
    _publisher().publish(dict(output))


def show_live(view: View, thread: LoopCaller) -> PageWidget:
    """Display a view in the current cell: its saved output, over which every page mounts the live view."""
    output = _CellOutput()
    page = PageWidget(view, thread.call_soon, output.save)

    async def open_view() -> SavedOutput:
        await page.stream.open()
        return view.saved_output()

    output.show(thread.call(open_view()), page.key)
    return page


class _CellOutput:
    """Output of the cell that shows a view.

    `save` may be called before `show`; the output then starts with the state saved early.
    """

    def __init__(self) -> None:
        self._key = ""
        self._display: Display | None = None
        self._early: SavedState | None = None
        self._lock = Lock()

    def show(self, output: SavedOutput, key: str) -> None:
        """Display the saved output, or the newer one that `save` received first."""
        with self._lock:
            self._key = key
            early = self._early
            content = _with_host(output, key, 0) if early is None else self._content(early)
            self._display = Display(content)

    def save(self, output: SavedOutput, number: int, is_last: bool) -> SavedState:
        """Write a saved output into the cell; called on the engine's loop."""
        saved = SavedState(number, output, is_last)
        with self._lock:
            if self._display is None:
                self._early = saved
                return saved
            content = self._content(saved)
            self._display.replace(content)
        return SavedState(number, content, is_last)

    def _content(self, saved: SavedState) -> Mapping[str, str]:
        output = dict(saved.content)
        # No page mounts a view over the last output, so it needs no host element.
        return output if saved.is_last else _with_host(output, self._key, saved.number)


def _with_host(output: Mapping[str, str], key: str, number: int) -> dict[str, str]:
    """Wrap the HTML in the element over which a page mounts the view."""
    label, _, content = output["text/html"].partition("\n")
    html = f'{label}\n<div class="af-host af-host-{key} af-output-{number}">{content}</div>'
    return {**output, "text/html": html}
