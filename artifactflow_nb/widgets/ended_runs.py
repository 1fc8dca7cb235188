"""`EndedRuns`: buttons below the saved outputs of ended runs, while the kernel runs.

::

    page    {type: "ask", runs}     ──>  statuses of the runs that are in the store
    page    {type: "act", act, run} ──>  the answer to copy, or what takes the place of the output: a chat, or with
                                         "retry" the view of a new run

One widget serves all outputs of a page, so an ended run needs neither a view nor a widget of its own.
"""

from collections.abc import Mapping
from typing import Any

import anywidget

from artifactflow_nb.core.language import texts_in
from artifactflow_nb.engine.run_client import RunClient
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import ArtifactFlowError, NotFound
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.store.runs import COMPLETED, RUNNING, WAITING, StoredRun
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.page import assets
from artifactflow_nb.widgets.page.display import PageWidget, with_host
from artifactflow_nb.widgets.page.stream import SavedState
from artifactflow_nb.widgets.page.view import PageAction, View
from artifactflow_nb.widgets.run.view import RunView

MAX_RUNS = 200
"""Runs of one message."""


class EndedRuns(anywidget.AnyWidget):
    """Serves the buttons of ended runs; for `notify` see `PageWidget`."""

    _css = assets.all_styles()

    def __init__(self, thread: EngineThread, *, notify: bool) -> None:
        self._esm = assets.ended_runs_script(thread.engine.settings.language)
        super().__init__()
        self._thread = thread
        self._notify = notify
        self.on_msg(self._on_message)

    def _on_message(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        """Handle a message from a page, in the kernel's thread, where widgets are created."""
        try:
            match content:
                case {"type": "ask", "runs": list(run_ids)}:
                    statuses = self._thread.call(self._statuses(list(map(str, run_ids[:MAX_RUNS]))))
                    self.send({"type": "runs", "statuses": statuses})
                case {"type": "act", "act": "copy", "run": str(run_id)}:
                    self.send({"type": "copy", "text": self._thread.call(self._message(run_id)).response or ""})
                case {"type": "act", "act": "retry", "run": str(run_id)}:
                    self._retry(run_id)
                case {"type": "act", "act": "chat" | "regenerate" as act, "run": str(run_id)}:
                    self._open_chat(run_id, is_again=act == "regenerate")
        except ArtifactFlowError as error:
            self.send({"type": "failed", "message": str(error)})

    async def _statuses(self, run_ids: list[str]) -> dict[str, str]:
        """Return the statuses of those ended runs that are in the store, by id."""
        found = {}
        for run_id in run_ids:
            try:
                status = (await self._thread.engine.runs.get(run_id)).status
            except NotFound:
                continue
            if status not in {RUNNING, WAITING}:
                found[run_id] = COMPLETED if status == COMPLETED else "failed"
        return found

    async def _message(self, run_id: str) -> StoredMessage:
        run = await self._thread.engine.runs.get(run_id)
        return await self._thread.engine.conversations.message(run.message_id)

    def _retry(self, run_id: str) -> None:
        """Ask the question of a run again, and replace its output by the view of the new run."""
        controller = self._thread.engine.controller

        async def start() -> StoredRun:
            run = await controller.begin_sibling((await self._message(run_id)).message_id)
            await controller.start(run)
            return run

        run = self._thread.call(start())
        note = texts_in(self._thread.engine.settings.language)("new_run", code=f'wb.run("{run.short_id}")')
        view = RunView(RunClient(self._thread, run), note)
        page = self._page(view)

        async def open_view() -> dict[str, str]:
            await page.stream.open()
            return with_host(view.saved_output(), page.key, 0)

        self.send({"type": "output", "data": self._thread.call(open_view())})

    def _page(self, view: View) -> PageWidget:
        """Return the widget of a view, whose page writes the numbered saved outputs into the notebook."""
        page = PageWidget(
            view,
            self._thread.call_soon,
            lambda output, number, is_last: SavedState(
                number, dict(output) if is_last else with_host(output, page.key, number), is_last
            ),
            notify=self._notify,
        )
        return page

    def _open_chat(self, run_id: str, *, is_again: bool) -> None:
        """Replace the output of a run by a chat of its conversation."""
        message = self._thread.call(self._message(run_id))
        flow = self._thread.call(self._thread.engine.controller.flow_of_message(message.message_id))
        view = ChatView(self._thread, message.conversation_id, flow=flow)
        page = self._page(view)

        async def open_view() -> dict[str, str]:
            await self._thread.engine.conversations.activate(message.message_id)
            await page.stream.open()
            if is_again:
                await view.act(PageAction("regenerate", {"message": message.message_id}))
            return with_host(view.saved_output(), page.key, 0)

        self.send({"type": "output", "data": self._thread.call(open_view())})
