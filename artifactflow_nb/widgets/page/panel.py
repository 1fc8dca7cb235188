"""Views in pages: `PageWidget` connects an object of the kernel to its script in the page, `Panel` a view.

A cell that displays a panel gets the saved output of a new view. In the pages of a Jupyter server the script mounts the
live view over that output; elsewhere the output has the view of the widget beside it, see `display.LiveMode`. In a
container such as `ipywidgets.VBox` the panel itself is the widget.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from threading import Lock
from typing import Any

import anywidget
import traitlets
from IPython.core.getipython import get_ipython
from ipywidgets import Layout, widget_serialization
from ipywidgets.widgets.trait_types import InstanceDict

from artifactflow_nb.core.clock_ids import RandomIds
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.widgets.page import assets
from artifactflow_nb.widgets.page.display import Display, LiveMode, show_saved
from artifactflow_nb.widgets.page.saved import SavedOutput
from artifactflow_nb.widgets.page.stream import PageStream, SavedState, SaveOutput, return_saved
from artifactflow_nb.widgets.page.view import PanelState, View

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
"""The media type of a widget's view in an output."""


class PageWidget(anywidget.AnyWidget):
    """A widget whose script and styles a page requests once, so that the state of each widget is small.

    Args:
        thread: The engine's thread. Messages arrive in the main thread or in a subshell, depending on the kernel.
    """

    def __init__(self, thread: EngineThread, **traits: Any) -> None:
        self._thread = thread
        self._esm = assets.loader(thread.language)
        self._kernel: Any = getattr(get_ipython(), "kernel", None)
        super().__init__(**traits)
        self.on_msg(self._on_message)

    def open(self) -> None:
        """Open the comm."""
        super().open()
        # Workaround for ipykernel 7.4, so that clicks work while a cell runs. ipykernel handles a comm's message in the
        # shell whose request the kernel answered last on this comm; the attribute below names this shell. Here it is
        # the main shell, which a cell may block for minutes. Without the attribute, and for messages without a parent
        # header, ipykernel uses the subshell that the page requested.
        comm: Any = self.comm
        vars(comm).pop("_reply_subshell_id", None)

    def _on_message(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        if content.get("type") == "script":
            self._thread.call_soon(self._post, assets.page_script(self._thread.language))
        else:
            self._receive(content)

    def _receive(self, content: Mapping[str, Any]) -> None:
        """Handle a message of a page, in the kernel's thread."""
        raise NotImplementedError

    def _post(self, message: Mapping[str, Any]) -> None:
        """Send a message without a parent header to the pages, see `open`."""
        comm: Any = self.comm
        session = getattr(self._kernel, "session", None)
        if comm is None or session is None:
            self.send(message)
            return
        content = {"comm_id": comm.comm_id, "data": {"method": "custom", "content": message}}
        session.send(self._kernel.iopub_socket, "comm_msg", content, parent={}, ident=comm.topic)


@cache
def _cell_layout() -> Layout:
    """Return the layout of all views in cells, which no caller can change: a saved notebook has one layout."""
    return Layout()


class _Observed(traitlets.TraitType[Any, Any]):
    """A value of a panel's `PanelState`; reading it opens the view, unless a cell that displays the panel sets it."""

    def get(self, obj: Any, cls: Any = None) -> Any:
        obj.follow()
        return super().get(obj, cls)


class Panel(PageWidget):
    """A live view in a page, and saved output elsewhere; an ipywidget.

    Every display in a cell creates a new view of the same subject, with its own saved output. In a container such as
    `ipywidgets.VBox` the panel has one view, which is open until the panel or the workbench closes.

    The values below follow the displayed run (the last run of a chat) and can be observed, as in
    `panel.observe(handler, "status")`. Handlers are called between cells, in the thread that created the panel.

    Args:
        create_view: Creates the view.
        is_live: Returns True if a page may be connected.
        mode: How cells show live views.
        notify: Announce open requests outside the view, e.g. in the page title.
        save: Writes the saved output into the cell of the view, see `PageStream`; the default writes nothing.
        report: Called on the engine's loop with changed values; by default the panel takes over the values.

    Attributes:
        run_id: Id of the run, or an empty string.
        status: Status of the run, such as `running`, `waiting` or `completed`.
        pending: Number of requests that wait for a decision.
        cost_usd: Cost so far in US dollars; None if no price is known.
    """

    key = traitlets.Unicode().tag(sync=True)
    notify = traitlets.Bool().tag(sync=True)
    # Views in an HBox share the width of the box: the content of a view has no width of its own.
    layout = InstanceDict(Layout, kw={"flex": "1 1 0%", "min_width": "0"}).tag(sync=True, **widget_serialization)
    run_id = _Observed("")
    status = _Observed("")
    pending = _Observed(0)
    cost_usd = _Observed(None, allow_none=True)

    def __init__(
        self,
        create_view: Callable[[], View],
        thread: EngineThread,
        is_live: Callable[[], bool] = lambda: True,
        *,
        mode: LiveMode = "page",
        notify: bool = True,
        save: SaveOutput = return_saved,
        report: Callable[[PanelState], object] | None = None,
    ) -> None:
        self._create_view = create_view
        self._is_live = is_live
        self._mode = mode
        self._save = save
        self._in_cell = save is not return_saved
        self._report = report or self._set_state_between_cells
        self._stream: PageStream | None = None
        self._is_followed = False
        self._n_unheard = 0
        try:
            self._cell_loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._cell_loop = None
        layout = {"layout": _cell_layout()} if self._in_cell else {}
        super().__init__(thread, key=RandomIds().new("view"), notify=notify, **layout)

    @property
    def is_live(self) -> bool:
        """True if a page may be connected."""
        return self._is_live()

    # --- as a widget --------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the comm if the view is open: a panel that no container shows has no comm."""
        if self._stream is not None and self.comm is None:
            super().open()

    @property
    def model_id(self) -> str:
        """Id of the widget; a container that asks for the id shows the panel, so the view is opened."""
        if self.comm is None:
            self.start()
        return str(super().model_id)

    def start(self) -> PageStream:
        """Open the view, once."""
        if self._stream is None:
            leave = super().close if self._in_cell else lambda: None
            self._stream = stream = PageStream(self._create_view(), self._send_message, self._save, leave, self._report)
            self.open()
            state = self._thread.call(stream.open())
            self._set_state(state)
            if self._in_cell:
                self._report(state)
        return self._stream

    def close(self) -> None:
        """Close the widget and its view."""
        super().close()
        if self._stream is not None:
            self._thread.call_soon(self._stream.close)

    @traitlets.observe("comm")
    def _close_with_comm(self, change: Mapping[str, Any]) -> None:
        """Close the panel when its comm is closed: on executing a cell again, marimo closes comms, not widgets."""
        if (comm := change["new"]) is not None:

            def close(**parts: Any) -> None:
                del comm.close
                comm.close(**parts)
                self.close()

            comm.close = close

    def follow(self) -> None:
        """Open the view unless a view in a cell already reports the state."""
        if not self._is_followed:
            self.start()

    def observe(self, handler: Any, names: Any = traitlets.All, type: Any = "change") -> None:  # noqa: A002 - as in traitlets
        """Call a handler when values change; a handler for values of the view opens the view."""
        names_list = [names] if isinstance(names, str) else names
        if names is traitlets.All or not set(names_list).isdisjoint(PanelState._fields):
            self.follow()
        super().observe(handler, names, type)

    def _receive(self, content: Mapping[str, Any]) -> None:
        if content.get("type") != "gone" or self._in_cell:  # a container may be displayed again
            self._thread.call_soon(self.start().receive, content)

    def _send_message(self, message: Mapping[str, Any]) -> None:
        """Send a message of the view; the script is sent first, as a busy kernel may not receive the request for it."""
        if self._stream and not self._stream.has_page and message["type"] == "snapshot":
            self._n_unheard += 1
            if self._n_unheard.bit_count() == 1:  # with the 1st, 2nd, 4th, 8th … snapshot
                self._post(assets.page_script(self._thread.language))
        self._post(message)

    def _set_state_between_cells(self, state: PanelState) -> None:
        if self._cell_loop is None:
            self._set_state(state)
        elif not self._cell_loop.is_closed():
            self._cell_loop.call_soon_threadsafe(self._set_state, state)

    def _set_state(self, state: PanelState) -> None:
        self._is_followed = True
        with self.hold_trait_notifications():
            for name, value in state._asdict().items():
                setattr(self, name, value)

    # --- in cells -----------------------------------------------------------------------------------------------------

    def saved_output(self) -> SavedOutput:
        """Return the current content as static output: `text/plain` and `text/html`."""

        async def render_once() -> SavedOutput:
            view = self._create_view()
            stream = PageStream(view, lambda _message: None)
            try:
                await stream.open()
                return view.saved_output()
            finally:
                stream.close()

        return self._thread.call(render_once())

    def _ipython_display_(self) -> None:
        if self._is_live():
            self.show()
        else:
            show_saved(self.saved_output())

    def show(self) -> "LiveDisplay":
        """Display a new view in the current cell."""
        return LiveDisplay(self._create_view(), self._thread, mode=self._mode, notify=self.notify, report=self._report)

    def _repr_mimebundle_(self, **_wanted: object) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Return the saved output, with the view of the widget if the front end shows live views as widgets."""
        view = {WIDGET_VIEW: widget_view(self.model_id)} if self._mode == "widget" and self._is_live() else {}
        return {**self.saved_output(), **view}, {}

    def __repr__(self) -> str:
        return self.saved_output()["text/plain"]


class LiveDisplay:
    """A view in the current cell: its saved output, which every page replaces by the live view.

    For `mode`, `notify` and `report` see `Panel`. The view may be saved before it is displayed; the output then starts
    with that state.
    """

    def __init__(
        self,
        view: View,
        thread: EngineThread,
        *,
        mode: LiveMode = "page",
        notify: bool = True,
        report: Callable[[PanelState], object] | None = None,
    ) -> None:
        self._is_widget = mode == "widget"
        self._number = 0
        self._display: Display | None = None
        self._early: SavedState | None = None
        self._lock = Lock()
        self._panel = panel = Panel(lambda: view, thread, notify=notify, save=self._save, report=report)
        self._stream = panel.start()

        async def saved_output() -> SavedOutput:
            return view.saved_output()

        output = thread.call(saved_output())
        with self._lock:
            self._display = Display(self._content(self._early or SavedState(0, output, is_last=False)))

    async def answers_ping(self) -> bool:
        """Return whether a page that shows this view responds; await the call on the engine's loop."""
        return await self._stream.answers_ping()

    @property
    def is_in_current_cell(self) -> bool:
        """Return whether the display is in the cell that is being executed."""
        return self._display is not None and self._display.is_in_current_cell

    def repeat(self, output: SavedOutput, *, is_last: bool) -> None:
        """Replace the saved output with a message of the current cell, unless a page shows the view."""
        with self._lock:
            if self._display is not None and not self._stream.has_page:
                self._display.replace_from_current_cell(self._content(SavedState(self._number, output, is_last)))

    def _save(self, output: SavedOutput, number: int, is_last: bool) -> SavedState:
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

    def _content(self, saved: SavedState) -> Mapping[str, Any]:
        if saved.is_last:  # no view is mounted over the last output: it needs no host element
            return dict(saved.content)
        if self._is_widget:
            return {**saved.content, WIDGET_VIEW: widget_view(self._panel.model_id)}
        return with_host(saved.content, self._panel.key, saved.number)


def widget_view(model_id: str) -> dict[str, Any]:
    """Return the reference to a widget in an output."""
    return {"version_major": 2, "version_minor": 0, "model_id": model_id}


def with_host(output: Mapping[str, str], key: str, number: int) -> dict[str, str]:
    """Wrap the HTML in the element that a page replaces by the live view."""
    label, _, content = output["text/html"].partition("\n")
    html = f'{label}\n<div class="af-host af-host-{key} af-output-{number}">{content}</div>'
    return {**output, "text/html": html}
