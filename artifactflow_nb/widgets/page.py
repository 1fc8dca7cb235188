"""The widget behind a view: one comm, and the scripts that a page needs.

The output of the cell is plain HTML that reads without any kernel. The widget is never displayed: its script looks for
that HTML in the page and mounts the live view over it. So what is saved is always readable, and a page that is loaded
again, a second tab or a copy of the output each mount the view anew.
"""

from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import traitlets
from IPython.core.getipython import get_ipython

from artifactflow_nb.ambient import RandomIds
from artifactflow_nb.widgets import assets
from artifactflow_nb.widgets.page_stream import PageStream, Save
from artifactflow_nb.widgets.view import View

CallSoon = Callable[..., None]


def _let_page_choose_shell(comm: Any) -> None:
    """Have messages of the page handled by the shell that it asks for, so that a click is heard while a cell computes.

    ipykernel 7.4 instead has them handled by the shell whose request the kernel's last message on the comm answered:
    the one that opened it, which is that of the cells and may be busy for minutes. It notes that in this attribute;
    without it, and with messages that answer no request, the page's own choice holds.
    """
    vars(comm).pop("_reply_subshell_id", None)


class Page(anywidget.AnyWidget):
    """The widget: the pages' end of a `PageStream`.

    Args:
        view: What is shown.
        call_soon: Runs a callback on the engine's loop. A callback of the page runs in the main thread or in a
            subshell, depending on the kernel; it only hands its message over.
        save: As for `PageStream`.
    """

    _esm = assets.script()
    _css = assets.all_styles()
    key = traitlets.Unicode().tag(sync=True)

    def __init__(self, view: View, call_soon: CallSoon, save: Save) -> None:
        super().__init__(key=RandomIds().new("view"))
        _let_page_choose_shell(self.comm)
        self._kernel: Any = getattr(get_ipython(), "kernel", None)
        self._call_soon = call_soon
        self.stream = PageStream(view, self._post, save, self.close)
        self.on_msg(self._on_message)

    def _on_message(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        self._call_soon(self.stream.hear, content)

    def _post(self, message: Mapping[str, Any]) -> None:
        """Send a message to the pages, as an answer to no request: see `_let_page_choose_shell`."""
        comm: Any = self.comm
        session = getattr(self._kernel, "session", None)
        if comm is None or session is None:
            self.send(message)
            return
        content = {"comm_id": comm.comm_id, "data": {"method": "custom", "content": message}}
        session.send(self._kernel.iopub_socket, "comm_msg", content, parent={}, ident=comm.topic)

    async def answers_ping(self, timeout_s: float = 2.0) -> bool:
        """Whether a page shows this view; to be awaited on the engine's loop."""
        return await self.stream.answers_ping(timeout_s)
