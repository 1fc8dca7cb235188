"""Outputs of cells, by media type, and how the front end of this kernel shows live views.

A newer saved output replaces the older one with a single `update_display_data` message. The message is sent from the
engine's thread with the parent header of the cell's own request, so it cannot land in another cell. nbclient
(papermill, nbconvert, jupytext) drops the message if it already executes the next cell, hence `LiveDisplay.repeat`.
"""

import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from IPython.core.getipython import get_ipython

from artifactflow_nb.core.clock_ids import RandomIds
from artifactflow_nb.errors import UsageError
from artifactflow_nb.widgets.page.saved import SavedOutput

LiveMode = Literal["page", "widget", "off"]
"""How live views are shown: by a script of the page over the saved output, as widgets in its place, or not at all."""

_VSCODE_VARIABLES = ("VSCODE_PID", "VSCODE_CWD")
_SESSION_VARIABLE = "JPY_SESSION_NAME"
"""Set by Jupyter Server in the kernels of its sessions, also if the server was started by VS Code."""


@cache
def live_mode() -> LiveMode:
    """Return how the front end of this kernel shows live views; the answer is cached."""
    shell = get_ipython()
    marimo = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        return "widget"
    if shell is None or not hasattr(shell, "kernel"):
        return "off"
    is_vscode = any(name in os.environ for name in _VSCODE_VARIABLES) and not is_in_session()
    if is_vscode or "__vsc_ipynb_file__" in shell.user_ns or "google.colab" in sys.modules:
        return "widget"
    return "page"


def is_in_session() -> bool:
    """Return whether a Jupyter server started this kernel for a page."""
    return _SESSION_VARIABLE in os.environ


class Display:
    """Output of one cell, by media type, that can be replaced later."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._publisher = _publisher()
        self._transient = {"display_id": RandomIds().new("artifactflow")}
        self._parent = dict(self._publisher.parent_header)
        self._metadata: Mapping[str, Any] = {}
        self._publisher.register_hook(self._keep_metadata)
        try:
            self._publisher.publish(dict(content), transient=self._transient)
        finally:
            self._publisher.unregister_hook(self._keep_metadata)

    def _keep_metadata(self, message: dict[str, Any]) -> dict[str, Any]:
        """Keep the metadata that a front end adds to the first message, such as Colab's widget manager."""
        self._metadata = message["content"]["metadata"]
        return message

    def replace(self, content: Mapping[str, Any]) -> None:
        """Replace the displayed content; may be called from any thread."""
        # The publisher's own `publish(update=True)` would use the parent header of the running cell.
        message = {"data": dict(content), "metadata": self._metadata, "transient": self._transient}
        session = self._publisher.session
        session.send(
            self._publisher.pub_socket,
            session.msg("update_display_data", message, parent=self._parent),
            ident=self._publisher.topic,
        )

    def replace_from_current_cell(self, content: Mapping[str, Any]) -> None:
        """Replace the displayed content with a message of the current cell; call this in the thread of the cell."""
        self._publisher.publish(dict(content), transient=self._transient, update=True)

    @property
    def is_in_current_cell(self) -> bool:
        """Return whether the display is in the cell that is being executed."""
        return bool(self._publisher.parent_header.get("msg_id") == self._parent.get("msg_id"))


def _publisher() -> Any:
    """Return the display publisher of the current IPython shell.

    Errors: `UsageError` outside IPython.
    """
    shell = get_ipython()
    if shell is None:
        raise UsageError("Views are displayed in IPython only. Print run.response instead.")
    return shell.display_pub


def has_kernel() -> bool:
    """Return whether this code runs in a Jupyter kernel, whose outputs can be replaced."""
    return hasattr(get_ipython(), "kernel")


def show_saved(output: SavedOutput) -> None:
    """Display a saved output in the current cell; the output is never updated."""
    _publisher().publish(dict(output))
