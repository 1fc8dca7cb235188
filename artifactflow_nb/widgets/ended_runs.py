"""`EndedRuns`: buttons below the saved outputs of ended runs, while the kernel runs.

::

    page    {type: "ask", runs}     ──>  statuses of the runs that are in the store
    page    {type: "act", act, run} ──>  the answer to copy, or the view that replaces the output: a chat, or after
                                         "retry" the view of a new run

One widget serves all outputs of a page, so an ended run needs neither a view nor a widget of its own.
"""

from collections.abc import Mapping
from typing import Any

from artifactflow_nb.core.language import in_language, translate
from artifactflow_nb.engine.run_client import RunClient
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import ArtifactFlowError, NotFound
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.store.runs import COMPLETED, RUNNING, WAITING, StoredRun
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.page.panel import PageWidget, Panel, with_host
from artifactflow_nb.widgets.page.saved import SavedOutput
from artifactflow_nb.widgets.page.stream import SavedState
from artifactflow_nb.widgets.page.view import PageAction, View
from artifactflow_nb.widgets.run.view import RunView

MAX_RUNS = 200
"""Runs of one message."""


class EndedRuns(PageWidget):
    """Serves the buttons of ended runs; for `notify` see `Panel`."""

    def __init__(self, thread: EngineThread, *, notify: bool) -> None:
        super().__init__(thread)
        self._notify = notify

    def _receive(self, content: Mapping[str, Any]) -> None:
        try:
            match content:
                case {"type": "ask", "runs": list(run_ids)}:
                    statuses = self._thread.call(self._statuses(list(map(str, run_ids[:MAX_RUNS]))))
                    self.send({"type": "runs", "statuses": statuses})
                case {"type": "act", "act": "copy", "run": str(run_id)}:
                    self.send({"type": "copy", "text": self._thread.call(self._message(run_id)).response or ""})
                case {"type": "act", "act": "copy_report", "run": str(run_id)}:
                    self.send({"type": "copy", "text": self._thread.call(self._report(run_id))})
                case {"type": "act", "act": "retry", "run": str(run_id)}:
                    self._retry(run_id)
                case {"type": "act", "act": "chat" | "regenerate" as act, "run": str(run_id)}:
                    self._open_chat(run_id, is_again=act == "regenerate")
        except ArtifactFlowError as error:
            self.send({"type": "failed", "message": str(error)})

    async def _statuses(self, run_ids: list[str]) -> dict[str, str]:
        """Return the statuses of the ended runs that are in the store, by id."""
        statuses = {}
        for run_id in run_ids:
            try:
                status = (await self._thread.engine.runs.get(run_id)).status
            except NotFound:
                continue
            if status not in {RUNNING, WAITING}:
                statuses[run_id] = COMPLETED if status == COMPLETED else "failed"
        return statuses

    async def _message(self, run_id: str) -> StoredMessage:
        run = await self._thread.engine.runs.get(run_id)
        return await self._thread.engine.conversations.message(run.message_id)

    async def _report(self, run_id: str) -> str:
        """Return the newest text of an artifact that a run wrote, except the plan, or an empty string."""
        run = await self._thread.engine.runs.get(run_id)
        histories = await self._thread.engine.artifacts.histories(run.conversation_id, message_id=run.message_id)
        histories.pop(TASK_PLAN_ID, None)
        own = [versions[-1] for versions in histories.values() if any(each.run_id == run_id for each in versions)]
        return max(own, key=lambda artifact: artifact.created_at).content if own else ""

    def _retry(self, run_id: str) -> None:
        """Ask the question of a run again, and replace its output by the view of the new run."""
        controller = self._thread.engine.controller

        async def start() -> StoredRun:
            run = await controller.begin_sibling((await self._message(run_id)).message_id)
            await controller.start(run)
            return run

        run = self._thread.call(start())
        with in_language(self._thread.language):
            note = translate(
                "This is a new run, {code}. A variable of this cell still has the earlier run.",
                code=f'wb.run("{run.short_id}")',
            )
        self._replace_output(RunView(RunClient(self._thread, run), note))

    def _open_chat(self, run_id: str, *, is_again: bool) -> None:
        """Replace the output of a run by a chat of its conversation."""
        message = self._thread.call(self._message(run_id))
        flow = self._thread.call(self._thread.engine.controller.flow_of_message(message.message_id))
        self._thread.call(self._thread.engine.conversations.activate(message.message_id))
        view = ChatView(self._thread, message.conversation_id, flow=flow)
        self._replace_output(view, PageAction("regenerate", {"message": message.message_id}) if is_again else None)

    def _replace_output(self, view: View, act: PageAction | None = None) -> None:
        """Replace the output of a run by a view that has performed an action; the page saves the new output."""

        def save(output: SavedOutput, number: int, is_last: bool) -> SavedState:
            return SavedState(number, output if is_last else with_host(output, panel.key, number), is_last)

        async def saved_output() -> SavedOutput:
            if act is not None:
                await view.act(act)
            return with_host(view.saved_output(), panel.key, 0)

        panel = Panel(lambda: view, self._thread, notify=self._notify, save=save)
        panel.start()
        self.send({"type": "output", "data": self._thread.call(saved_output())})
