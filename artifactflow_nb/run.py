"""The handle of a run that a person holds: it shows the run, waits for it, decides for it, and keeps nothing itself.

What it says is read from the store in the caller's thread, so it works while the engine is busy.
"""

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable, Generator, Mapping
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from artifactflow_nb.approvals import STEP_COLUMNS, Decision, Scope
from artifactflow_nb.artifact import Artifacts, Branch, is_watched
from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import RunError, UsageError
from artifactflow_nb.export.report_notebook import write_report
from artifactflow_nb.recordings.cassette_file import cassette_bytes
from artifactflow_nb.recordings.fork import change_of
from artifactflow_nb.recordings.reading import load_branch
from artifactflow_nb.recordings.sealed import Parts, write_sealed
from artifactflow_nb.recordings.sealing import parts_of
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.run_port import RunPort
from artifactflow_nb.run_record import RunRecord
from artifactflow_nb.store.ownership import observed_status
from artifactflow_nb.store.plans import load_plans
from artifactflow_nb.store.runs import RUNNING, WAITING, StoredRun, load_run
from artifactflow_nb.text.cards import Card, Code, Fold, Prose, Rows, Table
from artifactflow_nb.text.figures import duration

if TYPE_CHECKING:
    from artifactflow_nb.widgets.panel import Panel

HEARTBEAT_S = 0.25
"""How often a waiting cell lets the kernel look at its Stop button, and a waiting run at the store."""

Ping = Callable[[], Awaitable[bool]]


class Run(RunRecord):
    """One question on its way to its answer.

    Args:
        thread: The engine's thread.
        stored: The run's row.
        interactive: Whether a person is there to decide: True, False, or None to ask the page.
        display: Shows the run in the current cell.
        panel: Gives what `view` gives.

    Attributes:
        pings: Each asks a view whether somebody sees it; awaited on the engine's loop.
        waited_for: Whether somebody waited for the run through this handle, or it had ended before.
    """

    def __init__(
        self,
        thread: EngineThread,
        stored: StoredRun,
        *,
        interactive: bool | None = None,
        display: "Callable[[Run], None] | None" = None,
        panel: "Callable[[Run], Panel] | None" = None,
    ) -> None:
        super().__init__(stored)
        self.pings: list[Ping] = []
        self.waited_for = stored.status != RUNNING
        self._port = RunPort(thread, stored)
        self._thread = thread
        self._folder = thread.engine.folder
        self._interactive = interactive
        self._display = display
        self._panel = panel

    @property
    def port(self) -> RunPort:
        """What views are made from."""
        return self._port

    @property
    def status(self) -> str:
        """`running`, `waiting`, `completed`, `failed`, `cancelled`, or `interrupted`: its process is gone."""
        return self.port.status()

    @property
    def error(self) -> str | None:
        """Why the run failed or was interrupted here; None if neither."""
        return super().error or self._thread.engine.controller.why_unstored(self.run_id)

    @property
    def artifacts(self) -> Artifacts:
        """The newest version of each artifact that this run's branch sees, by id; what is written goes there too."""
        dated = is_watched(self._thread.engine.settings, self._interactive)
        return Artifacts(Branch(self._thread, self.conversation_id, self.message_id, dated))

    def _stored(self) -> StoredRun:
        return self.port.read(lambda db: load_run(db, self.run_id))

    def approve(
        self,
        request_id: str | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        note: str = "",
        scope: Scope = "once",
    ) -> Self:
        """Let the call run that waits; returns at once, and the run goes on.

        Args:
            request_id: Which, if several are open.
            params: All its parameters, to run it with these instead; the agent is told.
            note: What the agent is told along with the result.
            scope: `run` or `conversation` to approve all later calls of this tool there too.

        Errors: `UsageError` that lists the open requests if there are several, or for parameters that do not fit;
            `NotFound` if none is open; `Conflict` if it was decided already, which stays so.
        """
        return self._decide(request_id, Decision(approved=True, instruction=note, params=params, scope=scope))

    def deny(self, reason: str = "", request_id: str | None = None, *, scope: Scope = "once") -> Self:
        """Do not let the call run; the agent is told, with the reason. Errors and scope as for `approve`."""
        return self._decide(request_id, Decision(approved=False, instruction=reason, scope=scope))

    def instruct(self, instruction: str, request_id: str | None = None) -> Self:
        """Answer with an instruction instead: the call does not run, and the agent goes on with what you say."""
        return self._decide(request_id, Decision(approved=False, instruction=instruction, instead=True))

    def _decide(self, request_id: str | None, decision: Decision) -> Self:
        controller = self._thread.engine.controller

        async def decide() -> None:
            chosen = request_id or (await controller.single_request(self.run_id)).id
            await controller.decide(chosen, decision)

        self._thread.call(decide())
        return self

    def cancel(self) -> Self:
        """End the run; what it has written stays. `Conflict` if it has ended already."""
        self._thread.call(self._thread.engine.controller.cancel(self.run_id))
        return self

    def resume(self) -> Self:
        """Go on with a run whose process is gone, or which is decided and was not gone on with.

        Errors: `Conflict` if it runs, has ended or waits for a decision.
        """
        self._thread.call(self.port.go_on())
        return self

    def wait(self, timeout_s: float | None = None) -> Self:
        """Wait until the run has ended, or waits for a person and nobody is there.

        Args:
            timeout_s: Seconds after which to give up waiting; the run goes on.

        Errors: `TimeoutError`.
        """
        settled = self._thread.submit(self._settled())
        try:
            settled.result(timeout_s)
        except CancelledError:
            raise self._closed() from None
        except TimeoutError:
            settled.cancel()
            raise TimeoutError(f"The run {self.run_id} is {self.status} after {timeout_s} s; it goes on.") from None
        self.waited_for = True
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self._wait_in_loop().__await__()

    async def _wait_in_loop(self) -> Self:
        """Wait without holding the loop. Stopping the cell detaches: the run goes on."""
        settled = asyncio.wrap_future(self._thread.submit(self._settled()))
        try:
            while not settled.done():
                await asyncio.wait([settled], timeout=HEARTBEAT_S)
        finally:
            settled.cancel()
        if settled.cancelled():
            raise self._closed()
        settled.result()
        self.waited_for = True
        return self

    def _closed(self) -> RunError:
        return RunError(f"The workbench was closed; the run {self.run_id} can be resumed by another one.")

    async def _settled(self) -> None:
        """Return when the run has ended, or waits and nobody is there; runs on the engine's loop."""
        engine = self._thread.engine
        while True:
            has_to_decide = await engine.controller.join_or_decide(self.run_id)
            stored = await engine.runs.get(self.run_id)
            status = observed_status(self._folder, stored.status, stored.owner)
            needs_nobody = status not in {WAITING, RUNNING}
            if needs_nobody or ((status == WAITING or has_to_decide) and not await self._somebody_is_there()):
                return
            await asyncio.sleep(HEARTBEAT_S)

    async def _somebody_is_there(self) -> bool:
        if self._interactive is not None:
            return self._interactive
        return any([await ping() for ping in self.pings])

    def fork(
        self,
        step: int,
        *,
        prompt: str | None = None,
        model: str | None = None,
        tool_result: str | None = None,
        decision: Decision | bool | None = None,
    ) -> "Run":
        """Run it once more from a step on, on a branch of its own: what was before is played, and costs nothing.

        Args:
            step: The number of the first step that is made anew; `run.steps` lists them.
            prompt: What the agent of that step is asked instead, from that turn of its job on.
            model: The name of the model that is asked from there on; agents with a model of their own keep it.
            tool_result: What the tool of that step gives instead of running.
            decision: What is decided instead in that step: True, False or a `Decision`.

        Errors: `UsageError` for a step that there is not, with those that there are, and for a change that does not
            fit the step.
        """
        change = change_of(
            self.recording(), step, prompt=prompt, model=model, tool_result=tool_result, decision=decision
        )
        controller = self._thread.engine.controller

        async def start() -> StoredRun:
            stored = await controller.begin_sibling(self.message_id, change=change)
            await controller.start(stored)
            return stored

        forked = self._thread.call(start())
        return Run(self._thread, forked, interactive=self._interactive, display=self._display, panel=self._panel)

    def seal(self, path: str | os.PathLike[str], *, replace: bool = False) -> Path:
        """Write one file with everything of the run, for `af.open_run`: question, prompts, sources, results, decisions.

        Secrets are taken out. The runs that its prompts rest on, those before it on its branch, are in it too.

        Args:
            path: The file, `report.afrun` for example.
            replace: Whether a file that is there is replaced.

        Returns:
            The file's path.

        Errors: `Conflict` for a run that has not ended; `CassetteError` for a file that is there or cannot be written.
        """
        engine = self._thread.engine
        masker = Masker.of(engine.settings, os.environ, engine.model_keys)

        def parts(db: sqlite3.Connection) -> Parts:
            db.execute("BEGIN")  # so that everything is of one moment
            try:
                return parts_of(db, self.run_id, cassette_bytes(load_branch(db, self.run_id), masker), masker.text)
            finally:
                db.execute("ROLLBACK")

        return write_sealed(Path(path), self.port.read(parts), replace=replace)

    def to_notebook(
        self, path: str | os.PathLike[str], *, sealed: str | os.PathLike[str] | None = None, replace: bool = False
    ) -> Path:
        """Write a notebook that reads as a report, and the sealed run from which its cells compute frames and plots.

        Args:
            path: The notebook, `report.ipynb` for example; the sealed run goes beside it as `report.afrun`.
            sealed: What `seal` wrote before, to be used instead.
            replace: Whether files that are there are replaced.

        Returns:
            The notebook's path.

        Errors: as for `seal`; `UsageError` for a notebook that is there or cannot be written or executed.
        """
        before = None if sealed is None else Path(sealed)
        return write_report(
            Path(path), self.run_id, lambda beside: self.seal(beside, replace=replace), sealed=before, replace=replace
        )

    def view(self) -> "Panel":
        """The run to be shown live by the current cell, also one that has ended: to copy, ask again, ask otherwise.

        Errors: `UsageError` for a handle without a workbench.
        """
        if self._panel is None:
            raise UsageError("This handle was made without a workbench, and cannot be shown. Use wb.run(run_id).")
        return self._panel(self)

    def _ipython_display_(self) -> None:
        if self._display is None:
            print(repr(self))  # noqa: T201 - a handle without a face shows its text
        else:
            self._display(self)

    def __repr__(self) -> str:
        return f"Run({self.question!r}, status={self.status!r})"

    def _card(self) -> Card:
        stored, metrics, pending = self._stored(), self.metrics, self.pending
        plans = self.port.read(lambda db: load_plans(db, self.run_id))
        titles = [f"{artifact.title} (v{artifact.version})" for artifact in self.artifacts.values()]
        rows: Rows = [
            ("status", self.status),
            ("error", self.error),
            ("waits for", ", ".join(request.title for request in pending)),
            ("plan", ", ".join(f"{plan.title} ({plan.progress})" for plan in plans)),
            ("artifacts", ", ".join(titles)),
            ("time", duration(metrics.total_duration_ms)),
            ("tokens", metrics.total_tokens),
            ("run_id", Code(self.run_id)),
        ]
        folds = [Fold("The answer", Prose(stored.response), is_open=True)] if stored.response else []
        folds += [Fold(asked.title, Table(STEP_COLUMNS, asked.steps), is_open=True) for asked in pending if asked.steps]
        return Card(
            "Run", self.question, rows, folds, f'Decide with run.approve("{pending[0].id}").' if pending else ""
        )
