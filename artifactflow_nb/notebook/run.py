"""The handle of a run: displays the run, waits for its end, decides its requests.

A handle does not copy the run. The handle reads the store in the caller's thread, so it works while the engine is busy.
A sealed run has the same properties (`RunRecord`).
"""

import asyncio
import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import CancelledError
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from artifactflow_nb.core.approvals import QUESTION_KIND, Decision, Scope
from artifactflow_nb.core.events import ExecutionMetrics
from artifactflow_nb.core.language import in_language
from artifactflow_nb.core.local_files import absolute_path
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.core.runs import Outcome
from artifactflow_nb.core.suggestions import SuggestsNames
from artifactflow_nb.core.text.cards import card_frame, cell_html
from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.core.text.shortened import ANSWER_LOCATION, shown_html
from artifactflow_nb.engine.cited_sources import CitedTexts, load_evidence
from artifactflow_nb.engine.run_client import RunClient, RunReader
from artifactflow_nb.errors import NotFound, RunCancelled, RunError, RunFailed, UsageError, brief
from artifactflow_nb.export.report import write_report
from artifactflow_nb.notebook.artifact import Artifacts, Branch
from artifactflow_nb.notebook.citation import CitesSources
from artifactflow_nb.notebook.display import CellDisplay
from artifactflow_nb.notebook.lists import EventList, RequestList, StepList
from artifactflow_nb.recording.engine import RecordingThread
from artifactflow_nb.recording.fork import change_of
from artifactflow_nb.recording.rows import RunRows, load_branch_rows, load_run_rows
from artifactflow_nb.recording.seal import SealedParts, load_parts, write_sealed
from artifactflow_nb.recording.steps import steps_of
from artifactflow_nb.recording.verify import VerificationReport
from artifactflow_nb.store.approvals import load_open_requests
from artifactflow_nb.store.conversation_tree import load_retry
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.metrics import load_metrics
from artifactflow_nb.store.ownership import effective_status
from artifactflow_nb.store.provenance import load_manifest
from artifactflow_nb.store.runs import (
    ABANDONED,
    CANCELLED,
    COMPLETED,
    DELETED,
    FAILED,
    RUNNING,
    WAITING,
    StoredRun,
    load_run,
)
from artifactflow_nb.store.storage import RunEntry, load_run_entry

if TYPE_CHECKING:
    from artifactflow_nb.analysis.frames.computed import TableFrames
    from artifactflow_nb.widgets.page.panel import LiveDisplay, Panel


STILL_RUNNING = "The wait was interrupted; the run continues. run.cancel() stops it, run.wait() waits for it again."
HOW_TO_RESUME = "The process of the run has ended. Call run.resume() to continue the run."


class Markdown(str):
    """A Markdown text that a notebook displays as sanitised HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from artifactflow_nb.widgets.page.saved import saved_text

        return saved_text(shown_html(self, MarkdownRenderer(), ANSWER_LOCATION))


class NoAnswer(Markdown):
    """The response of a run without an answer: an empty text that displays the reason.

    Attributes:
        reason: The state of the run, and what to do.
        partial: The partial answer of a cancelled run; empty for other runs.
    """

    __slots__ = ("partial", "reason")

    reason: str
    partial: str

    def __new__(cls, reason: str, partial: str = "") -> Self:
        """Create the empty text with the reason."""
        response = super().__new__(cls)
        response.reason, response.partial = reason, partial
        return response

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.reason, self.partial)

    def __repr__(self) -> str:
        return f"NoAnswer({self.reason!r})"

    def _repr_html_(self) -> str:
        return card_frame(f"<p><em>No answer.</em> {cell_html(self.reason)}</p>")


class RunRecord(SuggestsNames, CitesSources, ABC):
    """The stored data of a run: question, response, events, metrics, steps.

    Attributes:
        thread_id: Id of the LangGraph thread, by which a later process resumes the run.
        settings: Settings of the run, such as the budget, the model and the searched folders.
    """

    _meanings: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("text", "answer_text", "content", "output", "result", "reply"), "run.response"),
        **dict.fromkeys(
            ("cost", "cost_usd", "tokens", "usage"), 'wb.runs_df(run), with the columns "cost_usd" and more'
        ),
        **dict.fromkeys(("messages", "llm_calls", "tool_calls"), "run.steps, or wb.llm_calls_df(run)"),
        "report": 'run.artifacts["research_report"]',
        "sources": "run.citation(1), or wb.sources_df()",
        **dict.fromkeys(("retried", "retry_run", "regenerated"), "run.retried_as"),
        "retry": "wb.conversation(run).regenerate()",
        "ask": 'wb.ask("...", conversation_id=run)',
        "chat": "wb.chat(run)",
        "timeline": "wb.timeline(run)",
        "tree": "wb.tree(run)",
    }

    def __init__(self, stored: StoredRun) -> None:
        self.run_id: str = stored.run_id
        self.conversation_id = stored.conversation_id
        self.message_id = stored.message_id
        self.thread_id = stored.thread_id
        self.question = stored.question
        self.started_at = stored.started_at
        self.settings: Mapping[str, Any] = MappingProxyType(stored.settings)

    def __reduce__(self) -> NoReturn:
        """Refuse copies and pickles."""
        raise UsageError(
            f"A {type(self).__name__} cannot be copied or pickled. Keep the id, and open the run where you need it: "
            f"{self._how_to_open()}. Values can be pickled: run.response, run.metrics, wb.runs_df(run)."
        )

    @abstractmethod
    def _how_to_open(self) -> str:
        """Return the code that opens the run."""

    @property
    @abstractmethod
    def _client(self) -> RunReader:
        """The reader of the stored run, also for views."""

    @property
    @abstractmethod
    def artifacts(self) -> Artifacts:
        """The current version of each artifact on the run's branch, by id."""

    def _stored(self) -> StoredRun:
        return self._client.read(lambda db: load_run(db, self.run_id))

    @property
    def status(self) -> str:
        """`running`, `waiting`, `completed`, `failed`, `cancelled`, or `abandoned` if its process ended."""
        return self._stored().status

    @property
    def response(self) -> Markdown:
        """The answer in Markdown, or a `NoAnswer`: an empty text that displays the reason why there is no answer."""
        try:
            stored = self._stored()
        except NotFound:
            return NoAnswer(self._problem())
        if stored.status == COMPLETED:
            return Markdown(stored.response or "")
        return NoAnswer(self._problem(), stored.response or "")

    def raise_for_status(self) -> Self:
        """Return the run; `RunFailed` or `RunCancelled`, with the partial text, if the run ended without an answer."""
        status = self.status
        if status == FAILED:
            raise RunFailed(f"{self.error} (run {self.run_id})")
        if status == CANCELLED:
            raise RunCancelled(f"The run {self.run_id} was cancelled.", partial=self._stored().response or "")
        return self

    def _problem(self) -> str:
        """Return the reason why the run has no answer, and what to do; empty for a completed run."""
        status = self.status
        if status == WAITING and (pending := self.pending):
            titles, run = "; ".join(request.sentence for request in pending), self._how_to_open()
            if pending[0].kind == QUESTION_KIND:
                return f'The run waits for your answer: {titles} Answer with {run}.answer("...") or {run}.deny().'
            return (
                f'The run waits for a decision: {titles}. Decide with {run}.approve("{pending[0].id}") or {run}.deny().'
            )
        if status == FAILED:
            return f"The run failed: {self.error}"
        return {
            COMPLETED: "",
            CANCELLED: "The run was cancelled.",
            DELETED: "The run was deleted from the store.",
            ABANDONED: HOW_TO_RESUME,
        }.get(status, f"The run is {status}. Wait with `await run` or run.wait().")

    def _cited_texts(self) -> CitedTexts:
        return CitedTexts(self._texts(), self._client.read, lambda db, cited: load_evidence(db, self.run_id, cited))

    def _texts(self) -> list[str]:
        """Return the answer, then the Markdown artifacts that the run wrote, the newest artifact first."""
        written = (artifact for artifact in self.artifacts.values() if artifact.run_id == self.run_id)
        newest_first = sorted(written, key=lambda artifact: artifact.created_at, reverse=True)
        return [
            self._stored().response or "",
            *(artifact.content for artifact in newest_first if "markdown" in artifact.content_type),
        ]

    @property
    def tables(self) -> "TableFrames":
        """The tables of the answer and of the Markdown artifacts that the run wrote, as frames."""
        from artifactflow_nb.analysis.frames.computed import markdown_tables

        return [table for text in self._texts() for table in markdown_tables(text)]

    @property
    def error(self) -> str | None:
        """The message of the error that ended the run, or None."""
        return self._stored().error_message

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences about the answer, such as "This answer names no source."; empty for most runs."""
        events = reversed(self._client.stored_events())
        return next((tuple(event.data["notices"]) for event in events if event.data.get("notices")), ())

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the answer: `answered`, `partly`, `not_in_sources`; None if the lead reports none."""
        return self._stored().outcome

    @property
    def completed_at(self) -> datetime | None:
        """Time of the end; None for an unfinished run."""
        return self._stored().completed_at

    @property
    def events(self) -> EventList:
        """The stored events, in order; chunks of text are not stored."""
        return EventList(self._client.stored_events())

    @property
    def pending(self) -> RequestList:
        """The requests that wait for a decision, the oldest request first."""
        return RequestList(self._client.read(lambda db: load_open_requests(db, self.run_id)))

    @property
    def metrics(self) -> ExecutionMetrics:
        """The tokens, times and costs so far."""
        until = self.completed_at or datetime.now(UTC)
        return self._client.read(lambda db: load_metrics(db, self.run_id, until))

    @property
    def entry(self) -> RunEntry:
        """The run with tokens and cost, as an entry of lists."""
        return self._client.read(lambda db: load_run_entry(db, self.run_id))

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The versions, agents and models that produced the run, and hashes of prompts, tools and sources."""
        return self._client.read(lambda db: load_manifest(db, self.run_id))

    @property
    def steps(self) -> StepList:
        """The numbered steps of the run, for `fork`: model turns, tool calls and decisions."""
        return StepList(steps_of(self.rows()))

    def rows(self) -> RunRows:
        """Return the stored rows of the run and of its subruns so far."""
        return self._client.read(lambda db: load_run_rows(db, self.run_id))


def start_run(
    thread: RecordingThread,
    display: CellDisplay,
    begin: Callable[[], Coroutine[Any, Any, StoredRun]],
    flow: str | None = None,
) -> "Run":
    """Store and start a new run; return the handle of the run.

    `begin` stores the run, on the thread of the engine. The MCP servers of `flow` are started first.
    """
    engine = thread.engine
    if flow is not None and engine.settings.mcp:  # servers may be slow to start, so the cell can be interrupted
        thread.call_interruptible(engine.mcp.open(flow), lambda: None)

    async def start() -> StoredRun:
        stored = await begin()
        await engine.controller.start(stored)
        return stored

    return Run(thread, thread.call(start()), display)


HEARTBEAT_S = 0.25
"""Interval at which a waiting cell lets the kernel notice the Stop button, and a waiting run reads the store."""


def run_access(owner: Any, run: RunRecord | str) -> tuple[Path, str, Redactor]:
    """Return the store and the id of a run, and the redactor, for a plugin; `owner` has the accessor of the plugin."""
    thread = getattr(owner, "_thread", None)  # a sealed run has no engine, which knows the secrets by value
    redactor = Redactor() if thread is None else thread.engine.secrets.refresh().redactor
    store, run_id = (owner._store, run) if isinstance(run, str) else (run._client.store, run.run_id)  # noqa: SLF001
    return store, run_id, redactor


class Run(RunRecord):
    """A run: one question, from its start to its answer.

    Args:
        thread: The engine's thread.
        stored: The run's row.
        display: The display settings of the workbench.
    """

    def __init__(self, thread: RecordingThread, stored: StoredRun, display: CellDisplay) -> None:
        super().__init__(stored)
        self._thread = thread
        self._run_client = RunClient(thread, stored)
        self._display = display
        self._live_displays: list[LiveDisplay] = []
        self._displays: list[LiveDisplay] = []  # includes displays of the requests alone
        self._has_waited = stored.status != RUNNING

    def _how_to_open(self) -> str:
        return f"wb.run({self.run_id!r})"

    @property
    def _client(self) -> RunClient:
        return self._run_client

    @property
    def status(self) -> str:
        """`running`, `waiting`, `completed`, `failed`, `cancelled`, `deleted` or `abandoned`; see `resume`."""
        return self._client.status()

    @property
    def error(self) -> str | None:
        """The message of the error with which the run ended or was abandoned, or None."""
        return super().error or self._thread.engine.controller.scheduler.storage_problem(self.run_id)

    @property
    def artifacts(self) -> Artifacts:
        """The current version of each artifact on the run's branch, by id; edits are written to that branch."""
        branch = Branch(self._thread, self.conversation_id, self.message_id, self._display.is_attended)
        return Artifacts(branch, self._problem)

    @property
    def retried_as(self) -> "Run | None":
        """The newest run that Retry or Regenerate started for the same question, or None."""
        run_id = read_store(self._client.store, lambda db: load_retry(db, self.message_id))
        if run_id is None:
            return None
        return Run(self._thread, self._thread.call(self._thread.engine.runs.get(run_id)), self._display)

    def approve(
        self,
        request_id: str | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        note: str = "",
        scope: Scope = "once",
    ) -> Self:
        """Approve a request and return at once; the run continues.

        Args:
            request_id: Id of the request; not needed if only one request is open.
            params: A complete set of parameters that replaces the requested parameters; the agent is informed.
            note: A message to the agent that accompanies the result.
            scope: `run` or `conversation` to approve all later calls of this tool in the run or conversation. A request
                to read pages is approved for the hosts of the pages in this run, in the `conversation`, or `always`.

        Errors: `UsageError` that lists the open requests if there are several, or for invalid parameters; `NotFound` if
        no request is open, and for a request of another run; `Conflict` if the request was decided before: the earlier
        decision remains valid.
        """
        return self._decide(request_id, Decision(approved=True, instruction=note, params=params, scope=scope))

    def deny(self, reason: str = "", request_id: str | None = None, *, scope: Scope = "once") -> Self:
        """Deny a request: the call does not run, and the agent gets the reason. Errors and scope as for `approve`."""
        return self._decide(request_id, Decision(approved=False, instruction=reason, scope=scope))

    def answer(self, answer: str, request_id: str | None = None) -> Self:
        """Answer a question of the run, and return at once; the run continues. `deny` leaves the question open.

        Args:
            answer: One of the choices, or any other text.
            request_id: Id of the request; not needed if only one request is open.

        Errors: as for `approve`; `UsageError` for an empty answer.
        """
        if not isinstance(answer, str) or not answer.strip():
            raise UsageError(f"The answer is {brief(answer)}; write an answer, or leave the question open: run.deny().")
        return self.instruct(answer.strip(), request_id)

    def instruct(self, instruction: str, request_id: str | None = None) -> Self:
        """Answer a request with an instruction: the call does not run, and the agent follows the instruction."""
        return self._decide(request_id, Decision(approved=False, instruction=instruction, replaces_call=True))

    def _decide(self, request_id: str | None, decision: Decision) -> Self:
        engine = self._thread.engine

        async def decide() -> None:
            if request_id is not None:
                await engine.approvals.require_undecided(request_id, self.run_id)
            request = request_id or (await engine.controller.single_request(self.run_id)).id
            await engine.controller.decide(request, decision)

        self._thread.call(decide())
        return self

    def cancel(self) -> Self:
        """Cancel the run; the artifacts remain. `Conflict` if the run has ended."""
        self._thread.call(self._thread.engine.controller.cancel(self.run_id))
        return self

    def resume(self) -> Self:
        """Resume a run whose process ended, or whose requests were decided elsewhere.

        Errors: `Conflict` if the run is running, has ended or waits for a decision.
        """
        self._thread.call(self._client.resume())
        return self

    def wait(self, timeout_s: float | None = None) -> Self:
        """Wait until the run ends, or needs a decision that no page shows; interrupting the cell ends the wait.

        In a notebook, `await run` shows the request for a decision and waits for the decision.

        Args:
            timeout_s: Seconds before `TimeoutError` ends the wait; the run continues.

        Errors: `TimeoutError`; `RunError` if the workbench is closed during the wait.
        """
        settled = self._thread.submit(self._settled())
        try:
            settled.result(None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))
        except CancelledError:
            raise self._closed() from None
        except TimeoutError:
            settled.cancel()
            raise TimeoutError(f"The run {self.run_id} is {self.status} after {timeout_s} s and continues.") from None
        except KeyboardInterrupt:
            settled.cancel()
            raise KeyboardInterrupt(STILL_RUNNING) from None  # without the stack of the thread that waited
        self._finish_wait()
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self._wait_in_loop().__await__()

    async def _wait_in_loop(self) -> Self:
        """Wait without blocking the event loop. An interrupted cell stops waiting; the run continues.

        The awaiting cell displays open requests too, since the cell of the run may be far above.
        """
        settled = asyncio.wrap_future(self._thread.submit(self._settled()))
        try:
            while not settled.done():
                await asyncio.wait([settled], timeout=HEARTBEAT_S)
                if settled.done() and not settled.cancelled() and self._asks_nowhere():
                    self._show_requests()
                    settled = asyncio.wrap_future(self._thread.submit(self._settled()))
                elif not settled.done() and await self._asks_in_another_cell():
                    self._show_requests()
        except asyncio.CancelledError:
            raise asyncio.CancelledError(STILL_RUNNING) from None  # a KeyboardInterrupt would end the kernel's loop
        finally:
            settled.cancel()
        if settled.cancelled():
            raise self._closed()
        settled.result()
        self._finish_wait()
        return self

    async def _asks_in_another_cell(self) -> bool:
        """Return whether a waiting request is displayed on a page, but not in the current cell."""
        if not self._display.is_live or any(display.is_in_current_cell for display in self._displays):
            return False
        return bool(self.pending) and await asyncio.wrap_future(self._thread.submit(self._is_on_page()))

    def _asks_nowhere(self) -> bool:
        """Return whether a request waits that no cell has displayed, although a page may be connected."""
        from artifactflow_nb.widgets.page.display import is_in_session

        return not self._displays and self._display.is_live and is_in_session() and bool(self.pending)

    def _show_requests(self) -> None:
        """Display the open requests of the run in the current cell."""
        from artifactflow_nb.widgets.pending import PendingView

        self._displays.append(self._display.show(PendingView(self._thread.engine, run_id=self.run_id)))

    async def _is_on_page(self) -> bool:
        """Return whether a page shows the run or its requests; called on the engine's loop."""
        return any([await display.answers_ping() for display in self._displays])

    def _finish_wait(self) -> None:
        """Record that the run has ended or waits, and update the displays by messages of the awaiting cell.

        A front end stores a message with the cell that sends the message, so the saved notebook has the end of the run.
        """
        from artifactflow_nb.widgets.run.saved import saved_run

        self._has_waited = True
        if self._live_displays:
            output, is_last = saved_run(self._client), self.completed_at is not None
            for display in self._live_displays:
                display.repeat(output, is_last=is_last)

    def _closed(self) -> RunError:
        return RunError(f"The workbench was closed; another workbench can resume the run {self.run_id}.")

    async def _settled(self) -> None:
        """Return when the run has ended, or when it waits and no person is present; called on the engine's loop."""
        engine, is_recheck = self._thread.engine, False
        while True:
            await engine.controller.join(self.run_id)
            stored = await engine.runs.get(self.run_id)
            status = effective_status(engine.folder, stored.status, stored.owner, stored.start_lock)
            if stored.status == WAITING and status == ABANDONED and not is_recheck:
                is_recheck = True  # another engine may be resuming the run at this moment
            elif status == WAITING:
                is_present = self._display.interactive
                if not (await self._is_on_page() if is_present is None else is_present):
                    return
            elif status != RUNNING:
                return
            await asyncio.sleep(HEARTBEAT_S)

    def fork(
        self,
        step: int,
        *,
        prompt: str | None = None,
        model: str | None = None,
        tool_result: str | None = None,
        decision: Decision | bool | None = None,
    ) -> "Run":
        """Repeat the run with a change from one step on, on a new branch; the earlier steps cost nothing.

        Args:
            step: Number of the first step that is executed again; `run.steps` lists the numbers.
            prompt: Another prompt for the agent of the step, starting with the turn of the step.
            model: Name of the model from the step on, for agents without a model of their own.
            tool_result: Result for the tool call of the step; the tool does not run.
            decision: Another decision for the step: True, False or a `Decision`.

        Errors: `UsageError` with the known steps for an unknown step, and for a change that does not fit the step.
        """
        change = change_of(self.rows(), step, prompt=prompt, model=model, tool_result=tool_result, decision=decision)
        return start_run(self._thread, self._display, lambda: self._thread.engine.controller.fork(change))

    def seal(self, path: str | os.PathLike[str], *, replace: bool = False) -> Path:
        """Write the whole run to one file, for `af.open_run`: question, prompts, sources, results, decisions.

        Secrets are redacted. The file includes the earlier runs of the branch, on which the prompts depend.

        Args:
            path: The file, such as `report.afrun`.
            replace: Replace an existing file.

        Returns:
            The path of the file.

        Errors: `Conflict` for an unfinished run; `CassetteError` for a file that exists or cannot be written.
        """
        store, run_id, redactor = run_access(self, self)

        def parts(db: sqlite3.Connection) -> SealedParts:
            db.execute("BEGIN")  # one snapshot for all queries, until the connection is closed
            return load_parts(db, run_id, redactor)

        return write_sealed(absolute_path(path), read_store(store, parts), replace=replace)

    def verify(self) -> VerificationReport:
        """Execute the run again with the recorded model replies, results and decisions, and compare.

        Tools, agents and prompts are taken from this workbench, so a changed prompt is reported with the difference.
        Nothing is stored, no model is called and no network is used.

        Errors: `Conflict` if the run, or an earlier run on the branch, is unfinished.
        """
        return self._thread.engine.verify(self._client.read(lambda db: load_branch_rows(db, self.run_id)))

    def to_notebook(
        self, path: str | os.PathLike[str], *, sealed: str | os.PathLike[str] | None = None, replace: bool = False
    ) -> Path:
        """Write a report as a notebook, and the sealed run from which the cells compute frames and plots.

        Args:
            path: The notebook, such as `report.ipynb`; the sealed run is written next to it as `report.afrun`.
            sealed: An existing sealed file of this run, which the cells then read.
            replace: Replace existing files.

        Returns:
            The path of the notebook.

        Errors: as for `seal`; `UsageError` for a notebook that exists or cannot be written or executed.
        """
        with in_language(self._thread.language):
            existing = None if sealed is None else absolute_path(sealed)
            seal = partial(self.seal, replace=replace)
            return write_report(absolute_path(path), self.run_id, seal, sealed=existing, replace=replace)

    @cached_property
    def panel(self) -> "Panel":
        """The run as a live panel, even after its end: to copy the answer, to ask again, to edit the question."""
        from artifactflow_nb.widgets.chat.view import ChatView

        return self._display.panel(
            lambda is_live: ChatView(
                self._thread, self.conversation_id, single_message_id=self.message_id, with_metrics=is_live
            )
        )

    def _ipython_display_(self) -> None:
        from artifactflow_nb.widgets.page.display import show_saved
        from artifactflow_nb.widgets.run.saved import saved_run, saved_running
        from artifactflow_nb.widgets.run.view import RunView

        if self._has_waited and any(display.is_in_current_cell for display in self._live_displays):
            return  # `_finish_wait` has updated the display in this cell
        if self._display.is_live:
            self._display.offer_actions()
            events = self.events
            if events and events[-1].is_terminal:
                show_saved(saved_run(self._client))
            else:
                self._live_displays.append(self._display.show(RunView(self._client)))
                self._displays.append(self._live_displays[-1])
        elif self._has_waited:
            show_saved(saved_run(self._client, with_metrics=False))
        else:  # the progress so far would differ from one execution of the notebook to the next
            with in_language(self._client.language):
                show_saved(saved_running(self.question))

    def _display_(self) -> object:
        return self.panel  # marimo displays the returned value

    def _repr_html_(self) -> str:
        """Return the saved view, for programs that ask for HTML."""
        from artifactflow_nb.widgets.run.saved import saved_run

        return saved_run(self._client)["text/html"]

    def __repr__(self) -> str:
        return f"Run({self.question!r}, status={self.status!r})"
