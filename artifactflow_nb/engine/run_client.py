"""Access to a run for views: events and texts of the run, and decisions and cancellation by a click.

Texts are read from the store in the caller's thread, with a separate connection; everything else runs on the engine's
thread.
"""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.core.language import Language
from artifactflow_nb.engine.cited_sources import load_evidence, load_marks, source_link
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import Conflict, NotFound
from artifactflow_nb.sources.values import Evidence
from artifactflow_nb.store.artifact_versions import read_version
from artifactflow_nb.store.database import DatabaseWork, read_store
from artifactflow_nb.store.metrics import load_usual_ms
from artifactflow_nb.store.ownership import effective_status
from artifactflow_nb.store.runs import ABANDONED, DELETED, StoredRun, load_events, load_run
from artifactflow_nb.tools.base import Tool

T = TypeVar("T")


READ_ONLY = "A sealed run cannot be changed. Import the run with wb.store.import_run(path), and continue it there."


class RunReader:
    """A run in a store that no engine has open, for views; usable from any thread. Every change is refused.

    Attributes:
        language: The language of the views; English without an engine.
    """

    language: Language = "en"

    def __init__(self, store: Path, stored: StoredRun) -> None:
        self.run_id = stored.run_id
        self.question = stored.question
        self._conversation_id = stored.conversation_id
        self.store = store

    def read(self, work: DatabaseWork[T]) -> T:
        """Call a function with a read-only connection to the store, and return its result."""
        return read_store(self.store, work)

    def stored_events(self) -> Sequence[StreamEvent]:
        """Return the stored events, in order."""
        return self.read(lambda db: load_events(db, self.run_id))

    def subrun(self, run_id: str) -> "RunReader":
        """Return the reader of a subrun; `NotFound` if the subrun is not in the store."""
        return RunReader(self.store, self.read(lambda db: load_run(db, run_id)))

    def status(self) -> str:
        """Return the stored status; `abandoned` if the run's process has died, `deleted` if the run was deleted."""
        status = ""
        for _ in range(2):
            try:
                run = self.read(lambda db: load_run(db, self.run_id))
            except NotFound:
                return DELETED
            status = effective_status(self.store.parent, run.status, run.owner, run.start_lock)
            # A driver stores the end or pause of a run and then releases its lock. If both happen after the row was
            # read and before the lock is checked, the run seems abandoned: a second read gives the stored status.
            if status != ABANDONED:
                break
        return status

    def artifact_text(self, artifact_id: str, version: int) -> str:
        """Return the text of an artifact's version; empty for an unknown version."""
        try:
            return self.read(lambda db: read_version(db, self._conversation_id, artifact_id, version)).content
        except NotFound:
            return ""

    def tool_result(self, tool_call_id: str) -> str:
        """Return the result or the error of a tool call; empty for a call that has not finished."""
        sql = "SELECT stored_text(result) AS result, error_message FROM tool_calls WHERE tool_call_id = ?"
        row = self.read(lambda db: db.execute(sql, (tool_call_id,)).fetchone())
        return str(row["result"] or row["error_message"] or "") if row else ""

    def evidence(self, cited: Collection[str]) -> Evidence:
        """Return the texts that the run has read of the sources with these addresses, with the marks of its texts."""
        marks = self.read(lambda db: load_marks(db, self.run_id))
        return replace(self.read(lambda db: load_evidence(db, self.run_id, cited)), marks=marks)

    def usual_ms(self) -> float | None:
        """Return the time that earlier runs of this kind took, in milliseconds, or None if there are no such runs."""
        return self.read(lambda db: load_usual_ms(db, self.run_id))

    def source_link(self, address: str, passage: str) -> str:
        """Return the web address of a source, or the relative path of a file near the working folder, or an empty text.

        A path leads to the passage if a viewer of the file can open the file at a passage.
        """
        return self.read(lambda db: source_link(db, address, passage))

    def subscribe(self, listener: Callable[[StreamEvent], None]) -> Callable[[], None]:
        """Pass the stored events to a listener; the returned function does nothing, since no new events arrive here."""
        for event in self.stored_events():
            listener(event)
        return lambda: None

    async def decide(self, _request_id: str, _decision: Decision) -> None:
        """Refuse a decision with `Conflict`: the run cannot be changed."""
        raise Conflict(READ_ONLY)

    async def resume(self) -> None:
        """Refuse to continue the run."""
        raise Conflict(READ_ONLY)

    async def cancel(self) -> None:
        """Refuse to cancel the run."""
        raise Conflict(READ_ONLY)

    def tool(self, _name: str) -> Tool | None:
        """Return the current tool of this name, or None."""
        return None


class RunClient(RunReader):
    """Access to a run for live views; usable from any thread."""

    def __init__(self, thread: EngineThread, stored: StoredRun) -> None:
        super().__init__(thread.engine.database.path, stored)
        self._thread = thread
        self.language = thread.engine.settings.language

    def subrun(self, run_id: str) -> "RunClient":
        """Return the client of a subrun; `NotFound` if the subrun is not in the store."""
        return RunClient(self._thread, self.read(lambda db: load_run(db, run_id)))

    def subscribe(self, listener: Callable[[StreamEvent], None]) -> Callable[[], None]:
        """Call a listener on the engine's thread with all events, until the returned function is called."""
        subscribed = self._thread.submit(self._thread.engine.controller.subscribe(self.run_id, listener))

        def end(subscribing: Future[Callable[[], None]]) -> None:
            if not subscribing.cancelled() and subscribing.exception() is None:
                self.call_soon(subscribing.result())

        def stop() -> None:
            subscribed.add_done_callback(end)  # to cancel an unfinished call would leave a listener behind

        return stop

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback on the engine's loop."""
        self._thread.call_soon(callback, *args)

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Store a decision made by a click, on the engine's loop; errors as for `ExecutionController.decide`."""
        await self._thread.engine.controller.decide(request_id, replace(decision, by_code=False))

    async def resume(self) -> None:
        """Continue an abandoned or decided run, on the engine's loop; `Conflict` for a run in another state."""
        engine = self._thread.engine
        if not await engine.controller.resume_if_ready(await engine.runs.get(self.run_id)):
            raise Conflict(
                f"The run {self.run_id} is {self.status()}; only an abandoned or decided run can be resumed."
            )

    async def cancel(self) -> None:
        """Cancel the run by a click, on the engine's loop; `Conflict` if the run has ended already."""
        await self._thread.engine.controller.cancel(self.run_id, by_code=False)

    def tool(self, name: str) -> Tool | None:
        """Return the current tool of this name in the form that agents get, or None."""
        return offered_tool(self._thread.engine, name)


def offered_tool(engine: Engine, name: str) -> Tool | None:
    """Return the current tool of this name in the form that agents get, or None."""
    entry = next((entry for entry in engine.tools if entry.name == name), None)
    offered = (each for agent in engine.agents.values() for each in agent.tools if each.name == name)
    return entry and next(offered, entry)


MakeClient = Callable[[EngineThread, StoredRun], RunClient]
"""Makes the client of a run; the client of a server decides in the name of the user."""
