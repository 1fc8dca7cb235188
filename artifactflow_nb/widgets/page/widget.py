"""The anywidget behind a view: one comm, and the scripts that a page needs.

The output of the cell is plain HTML that is readable without a kernel. The widget itself is never displayed: its script
finds that HTML in the page and mounts the live view over it. So the saved output is always readable, and a reloaded
page, a second tab and a copy of the output each mount the view themselves.
"""

from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import traitlets
from IPython.core.getipython import get_ipython

from artifactflow_nb.core.clock_ids import RandomIds
from artifactflow_nb.widgets.page import assets
from artifactflow_nb.widgets.page.stream import PageStream, SaveOutput
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
        view: The view to show.
        call_soon: Schedules a callback on the engine's loop. Messages arrive in the main thread or in a subshell,
            depending on the kernel, and are only passed on.
        save: See `PageStream`.
        notify: Say outside the view that a request waits.
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
