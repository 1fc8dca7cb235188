"""How a view appears in a cell: as its readable face, over which pages mount the live view.

A newer face replaces the older by one message, made for the display that the cell already has. It is sent from the
engine's thread, with the header of the cell's own request, so that it cannot land in another cell.
"""

from collections.abc import Callable, Coroutine, Mapping
from threading import Lock
from typing import Any, Protocol, TypeVar

from IPython.core.getipython import get_ipython

from artifactflow_nb.ambient import RandomIds
from artifactflow_nb.errors import UsageError
from artifactflow_nb.widgets.page import Page
from artifactflow_nb.widgets.page_stream import PageStream, Saved
from artifactflow_nb.widgets.view import Face, View

T = TypeVar("T")


class Loop(Protocol):
    """The engine's loop, from another thread."""

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback there."""


class Display:
    """The output of one cell, which a later message can replace.

    Args:
        content: The output by media type.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._publisher = _publisher()
        self._transient = {"display_id": RandomIds().new("artifactflow")}
        self._parent = dict(self._publisher.parent_header)
        self._publisher.publish(dict(content), transient=self._transient)

    def replace(self, content: Mapping[str, str]) -> None:
        """Show this instead; may be called from any thread.

        The publisher's own method would take the header of whatever cell runs now.
        """
        message = {"data": dict(content), "metadata": {}, "transient": self._transient}
        session = self._publisher.session
        session.send(
            self._publisher.pub_socket,
            session.msg("update_display_data", message, parent=self._parent),
            ident=self._publisher.topic,
        )


def _publisher() -> Any:
    """Where the output of the current cell goes, or the terminal's of a plain IPython."""
    shell = get_ipython()
    if shell is None:
        raise UsageError("There is no cell to display in: this is plain Python. Print run.response instead.")
    return shell.display_pub


def has_kernel() -> bool:
    """Whether this code runs in a notebook's kernel, so that a page may be there."""
    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def show_still(face: Face) -> None:
    """Display a face in the current cell, for good."""
    _publisher().publish(dict(face))


def show_live(view: View, thread: Loop) -> Page:
    """Display a view in the current cell: its face, with the live view mounted over it in every page that shows it."""
    output = _Output()
    page = Page(view, thread.call_soon, output.save)
    face = thread.call(_opened(view, page.stream))
    output.show(face, page.key)
    return page


async def _opened(view: View, stream: PageStream) -> Face:
    await stream.open()
    return view.face()


class _Output:
    """The output of the cell that shows a view; what is saved before it is there, it begins with."""

    def __init__(self) -> None:
        self._key = ""
        self._display: Display | None = None
        self._early: Saved | None = None
        self._lock = Lock()

    def show(self, face: Face, key: str) -> None:
        """Display the face, unless a newer one was saved before."""
        with self._lock:
            self._key = key
            early = self._early
            content = _hosted(face, key, 0) if early is None else self._content(early)
            self._display = Display(content)

    def save(self, face: Face, n: int, is_last: bool) -> Saved:
        """Put a face into the output; called on the engine's loop."""
        saved = Saved(n, face, is_last)
        with self._lock:
            if self._display is None:
                self._early = saved
                return saved
            content = self._content(saved)
            self._display.replace(content)
        return Saved(n, content, is_last)

    def _content(self, saved: Saved) -> Mapping[str, str]:
        face = dict(saved.content)
        return face if saved.is_last else _hosted(face, self._key, saved.n)


def _hosted(face: Mapping[str, str], key: str, n: int) -> dict[str, str]:
    """The face as something that a page mounts a view over."""
    html = f'<div class="af-host af-host-{key} af-face-{n}">{face["text/html"]}</div>'
    return {**face, "text/html": html}
