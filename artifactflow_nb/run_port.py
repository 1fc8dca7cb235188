"""What a view sees of a run: its events, its texts, and a way to decide and to stop that returns at once.

Texts are read from the store in the caller's thread, with a connection of its own; everything else is handed to the
engine's thread.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from artifactflow_nb.approvals import Decision
from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import Conflict, NotFound
from artifactflow_nb.events import StreamEvent
from artifactflow_nb.store.artifact_versions import read_version
from artifactflow_nb.store.database import Work, connect, reading
from artifactflow_nb.store.ownership import observed_status
from artifactflow_nb.store.runs import INTERRUPTED, StoredRun, load_events, load_run
from artifactflow_nb.tools.base import Tool

T = TypeVar("T")


class RunReader:
    """What is stored of a run, as views read it; any thread may call.

    Args:
        store: The store's file.
        stored: The run's row.

    Attributes:
        run_id: The run.
        question: What was asked.
    """

    def __init__(self, store: Path, stored: StoredRun) -> None:
        self.run_id = stored.run_id
        self.question = stored.question
        self._conversation_id = stored.conversation_id
        self._store = store

    def read(self, work: Work[T]) -> T:
        """Do something with a reading connection to the store."""
        with reading(self._store), closing(connect(self._store, read_only=True)) as db:
            return work(db)

    def stored_events(self) -> Sequence[StreamEvent]:
        """The events that are stored so far, in order."""
        return self.read(lambda db: load_events(db, self.run_id))

    def subrun(self, run_id: str) -> "RunReader":
        """A run that this one began; `NotFound` if it is not in the store."""
        return RunReader(self._store, self.read(lambda db: load_run(db, run_id)))

    def status(self) -> str:
        """The run's status in the store now; `interrupted` if its process is gone."""
        status = self._observed()
        # Whoever ends or pauses a run stores that and then lets go: read between the two, it looks interrupted.
        return self._observed() if status == INTERRUPTED else status

    def _observed(self) -> str:
        stored = self.read(lambda db: load_run(db, self.run_id))
        return observed_status(self._store.parent, stored.status, stored.owner)

    def artifact_text(self, artifact_id: str, version: int) -> str:
        """The content of a version; empty if there is none."""
        try:
            return self.read(lambda db: read_version(db, self._conversation_id, artifact_id, version)).content
        except NotFound:
            return ""

    def tool_result(self, tool_call_id: str) -> str:
        """What a tool returned, or its error; empty if nothing."""
        sql = "SELECT result, error_message FROM tool_calls WHERE tool_call_id = ?"
        row = self.read(lambda db: db.execute(sql, (tool_call_id,)).fetchone())
        return str(row["result"] or row["error_message"] or "") if row else ""


class RunPort(RunReader):
    """A run as views hold it; any thread may call.

    Args:
        thread: The engine's thread.
        stored: The run's row.
    """

    def __init__(self, thread: EngineThread, stored: StoredRun) -> None:
        super().__init__(thread.engine.database.path, stored)
        self._thread = thread

    def subrun(self, run_id: str) -> "RunPort":
        """A run that this one began, with the same to be done; `NotFound` if it is not in the store."""
        return RunPort(self._thread, self.read(lambda db: load_run(db, run_id)))

    def subscribe(self, listener: Callable[[StreamEvent], None]) -> Callable[[], None]:
        """Hear the run's events, those that were stored first, on the engine's thread; returns what ends it."""
        subscribed = self._thread.submit(self._thread.engine.controller.subscribe(self.run_id, listener))

        def end(subscribing: Future[Callable[[], None]]) -> None:
            if not subscribing.cancelled() and subscribing.exception() is None:
                self.call_soon(subscribing.result())

        def stop() -> None:
            subscribed.add_done_callback(end)  # it may not be done yet; cancelled, it would leave a listener behind

        return stop

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback on the engine's loop."""
        self._thread.call_soon(callback, *args)

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Answer a request by a click, on the engine's loop; the answer comes back as an event.

        Errors as of the controller.
        """
        await self._thread.engine.controller.decide(request_id, replace(decision, by_code=False))

    async def go_on(self) -> None:
        """Go on with a run whose process is gone, or which is decided and was not gone on with; on the engine's loop.

        Errors: `Conflict` if it runs, has ended or waits for a decision.
        """
        engine = self._thread.engine
        if not await engine.controller.go_on(await engine.runs.get(self.run_id)):
            raise Conflict(
                f"The run {self.run_id} is {self.status()}; only an interrupted or decided run can be resumed."
            )

    async def cancel(self) -> None:
        """End the run by a click, on the engine's loop; `Conflict` if it has ended already."""
        await self._thread.engine.controller.cancel(self.run_id, by_code=False)

    def tool(self, name: str) -> Tool | None:
        """The tool of this name as the engine has it now; None if it has none."""
        return next((entry for entry in self._thread.engine.tools if entry.name == name), None)
