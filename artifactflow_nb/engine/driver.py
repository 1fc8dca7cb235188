"""Driver of one run: executes its flow until the run ends or waits. Only this module ends runs.

::

    flow ───> an answer ─────────────────────────> complete
      ^  ├──> an exception ──────────────────────> error or cancelled
      │  ├──> the store fails ───────────────────> nothing is stored: the run is interrupted and can be resumed
      │  └──> gates ── all requests of one decided? ── no ──> complete (interrupted): the run waits
      └──────────────────── yes ──────────────────┘

A resume carries no value: the flow continues at its checkpoint and reads the decisions from the store.
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactflow_nb.core.approvals import ApprovalPolicy
from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.events import MAIN_JOB, StreamEvent, StreamEventType
from artifactflow_nb.core.run_clock import RunClock
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.engine.checkpoints import Checkpoints
from artifactflow_nb.engine.flow_registry import BUILT_IN_FLOWS, FlowRegistry
from artifactflow_nb.engine.manifest import Manifest
from artifactflow_nb.errors import Conflict, NotFound, StoreError, describe_error, redacted
from artifactflow_nb.flows.approval import publish_decisions
from artifactflow_nb.flows.events import EventFeed, EventWriter
from artifactflow_nb.flows.middleware import RunMiddleware
from artifactflow_nb.flows.services import RunContext, Services
from artifactflow_nb.flows.subruns import SubrunRunner
from artifactflow_nb.flows.tasks import shielded
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.metrics import load_metrics
from artifactflow_nb.store.ownership import RunLocks
from artifactflow_nb.store.runs import CANCELLED, COMPLETED, FAILED, StoredRun, run_exists
from artifactflow_nb.store.subruns import load_unfinished_subruns
from artifactflow_nb.tools.threads import is_task_cancelled

if TYPE_CHECKING:
    from sqlite3 import Connection

MAX_STARTING_RUNS = 8
"""How many new runs prepare their first model call at the same time; the others wait.

200 at once would each hold half a run in memory, and the garbage collector took a fifth of the time.
"""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineServices:
    """The services of an engine that starters, schedulers and drivers share.

    Attributes:
        services: The services that flows use too.
        flows: The flows by name.
        checkpoints: The LangGraph checkpoints of the runs.
        database: The store.
        folder: The folder of the store and of the owners' locks.
        mode: The mode that the rows of new runs name.
        policy: The approval policy.
        run_locks: The locks of the runs that are driven here.
        settings_for_run: Checks the flow, budget and model of a new run and returns its settings as JSON, with which
            another process can continue it.
        sources_for_run: Returns the ids of the sources that a new run searches.
        manifest_for_run: Returns the manifest of a new run, by its flow and the model that was chosen for it.
        check_budget: Raises for a cost limit that a run with this model can never reach, because it has no price.
        check_resume: Raises for a run whose flow, model, tools or budget are not available in this engine.
        services_for_run: Returns the services with the agents as they were configured when a run started, by the
            settings of the run.
        subruns: Returns the service that starts subruns.
        start_slots: Limits how many new runs prepare their first model call at the same time.
    """

    services: Services
    flows: FlowRegistry
    checkpoints: Checkpoints
    database: Database
    folder: Path
    mode: str
    policy: ApprovalPolicy
    run_locks: RunLocks
    settings_for_run: Callable[[str, Budget | None, str | None], Awaitable[dict[str, Any]]]
    sources_for_run: Callable[[], Awaitable[list[str]]]
    manifest_for_run: Callable[[str, str | None], Awaitable[Manifest]]
    check_budget: Callable[[Budget, str | None], None]
    check_resume: Callable[[StoredRun], Awaitable[None]]
    services_for_run: Callable[[Mapping[str, Any]], Services]
    subruns: Callable[[], SubrunRunner]
    start_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_STARTING_RUNS))


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ends: its status, its terminal event and the response of its message."""

    status: str
    kind: StreamEventType
    data: Mapping[str, Any]
    response: str | None = None

    @property
    def reason(self) -> str:
        """Why unfinished plans and subruns end with the run."""
        if self.status == CANCELLED:
            return "The run was cancelled."
        return f"The run failed: {self.data.get('message', '')}"


class RunDriver:
    """Drives one run while this process owns it.

    Args:
        engine: The services of the engine.
        run: The run's row when the process claimed it.
        feed: The run's events so far, and its listeners.
        clock: The run's clock.
        owner: The owner that the run's row names; its lock is released when the run is driven no longer.
        is_new: Whether the run was just started here: nothing was decided, and its graph has no checkpoint yet.

    Attributes:
        lock: Orders decisions and pauses: its holder can rely on `is_driving`.
        is_driving: Whether the run is driven; a decision that is taken meanwhile will be seen.
        is_detached: Set before the task is cancelled to leave the run as it is, to be resumed later.
        is_clicked: Set before the task is cancelled by a click, as opposed to code.
        is_ended: Whether the run was brought to its end here.
        cancellation: Where the run can be cut short.
        storage_problem: Why the store failed and the run was left interrupted, with advice; None if it was not.
    """

    def __init__(
        self, engine: EngineServices, run: StoredRun, feed: EventFeed, clock: RunClock, owner: str, *, is_new: bool
    ) -> None:
        self.run = run
        self.owner = owner
        self.lock = asyncio.Lock()
        self.is_driving = True
        self.is_detached = False
        self.is_clicked = False
        self.is_ended = False
        self.storage_problem: str | None = None
        self._engine = engine
        self._feed = feed
        self._is_new = is_new
        self._clock = clock
        self._event_writer = EventWriter(run.run_id, clock, engine.services.runs, feed)
        services, parent = engine.services_for_run(run.settings), run.parent_call
        self._context = RunContext(
            run=run,
            policy=engine.policy,
            event_writer=self._event_writer,
            services=services,
            clock=clock,
            middleware=RunMiddleware(
                services.middleware,
                run.run_id,
                "" if parent is None else parent.tool_call_id,
                self._event_writer,
                services.redact,
                services.plans,
            ),
            subruns=engine.subruns(),
            on_model_call=self._release_start_slot,
            is_new=is_new,
            secrets=services.secrets.current,
            flow=BUILT_IN_FLOWS.get(run.flow),
        )
        self.cancellation = self._context.jobs.cancellation
        self._holds_start_slot = False

    async def drive(self) -> None:
        """Drive until the run ends or waits. An error becomes the run's end and is not raised.

        If the store fails, the run does not end: it is left to be resumed.
        """
        try:
            try:
                if self._is_new:
                    with self.cancellation.waiting():
                        self._holds_start_slot = await self._engine.start_slots.acquire()
                    await self.cancellation.wait_if_cancelled()
                outcome = await self._until_end_or_pause()
            finally:
                self._release_start_slot()
        except asyncio.CancelledError:
            if self.is_detached:
                raise
            outcome = self._cancelled()
        except Exception as error:  # noqa: BLE001 - whatever a flow raises ends the run and is published
            if is_task_cancelled() and self.is_detached:
                return
            has_store_failed = isinstance(error, StoreError) and not isinstance(error, (NotFound, Conflict))
            if has_store_failed and not is_task_cancelled():
                await self._interrupt(error)
                return
            if is_task_cancelled():
                outcome = self._cancelled()
            else:
                if logger.isEnabledFor(logging.DEBUG):  # without exc_info: nobody could mask what it prints
                    trace = "".join(traceback.format_exception(error))
                    logger.debug("Run %s failed\n%s", self.run.run_id, self._engine.services.redact(trace))
                data = {
                    "error_type": type(error).__name__,
                    "message": storable_text(describe_error(self._masked(error))),
                }
                outcome = RunOutcome(FAILED, StreamEventType.ERROR, data)
        if outcome is not None:
            await self.end(outcome)

    def _release_start_slot(self) -> None:
        if self._holds_start_slot:
            self._holds_start_slot = False
            self._engine.start_slots.release()

    async def _until_end_or_pause(self) -> RunOutcome | None:
        """Advance the flow until the run ends or waits; return the run's end, or None if it waits."""
        checkpoints, approvals = self._engine.checkpoints, self._engine.services.approvals
        while True:
            if not self._is_new:
                await self.publish_decisions()
            async with checkpoints.translate_errors():
                has_checkpoint = not self._is_new and await checkpoints.saver.has_thread(self.run.thread_id)
                flow = self._engine.flows.for_run(self.run.run_id, self.run.flow)
                progress = await flow.advance(self._context, has_checkpoint=has_checkpoint)
            self._is_new = False
            if not progress.gates:
                data = {**await self._result(success=True, response=progress.response), "interrupted": False}
                return RunOutcome(COMPLETED, StreamEventType.COMPLETE, data, progress.response)
            # Held while a decision may restart the run, so that nobody takes it for interrupted.
            with self._engine.run_locks.starting(f"start-{self.run.run_id}"):
                async with self.lock:
                    has_paused = False
                    while not has_paused:
                        await self.publish_decisions()
                        if await approvals.is_any_gate_open(progress.gates):
                            break
                        has_paused = await self._pause(progress.gates)
                    if has_paused:
                        await self.publish_decisions(only_while_waiting=True)
                        is_open = await approvals.is_any_gate_open(progress.gates)
                        if not (is_open and await self._engine.services.runs.claim(self.run.run_id, self.owner)):
                            self._stop()
                            return None

    async def publish_decisions(self, *, only_while_waiting: bool = False) -> None:
        """Publish the decisions that were taken on the run and are not published yet."""
        requests, run_id = self._engine.services.approvals, self.run.run_id
        await publish_decisions(requests, self._event_writer, run_id, only_while_waiting=only_while_waiting)

    async def _pause(self, gates: Sequence[Sequence[str]]) -> bool:
        """Store and publish that the run waits at these gates; False if a decision came at the last moment."""
        services, run_id = self._engine.services, self.run.run_id
        await self._event_writer.flush()
        pending = [request.id for request in await services.approvals.open_requests(run_id)]
        data = {**await self._result(success=False, response=""), "interrupted": True, "pending": pending}
        # Another process that decides later reads from the gates whether the run can continue.
        data["gates"] = sorted([request for request in gate if request in pending] for gate in gates)
        if not all(data["gates"]):  # a subrun has continued meanwhile
            return False
        event = self._event_writer.stamp(StreamEventType.COMPLETE, data)

        async def store() -> bool:
            has_paused = await services.runs.pause(run_id, event)
            if has_paused:
                self._event_writer.publish(event)
            return has_paused

        return await shielded(store())

    async def _result(self, *, success: bool, response: str) -> dict[str, Any]:
        until = self._clock.now()
        metrics = await self._engine.database.read(lambda db: load_metrics(db, self.run.run_id, until))
        return {"success": success, "response": response, "execution_metrics": metrics.as_json()}

    def _cancelled(self) -> RunOutcome:
        """The end of a cancelled run, with the answer text so far, and whether it was cancelled by a click."""
        partial = storable_text(self._feed.arriving_text(MAIN_JOB))
        clicked = {"clicked": True} if self.is_clicked else {}
        return RunOutcome(CANCELLED, StreamEventType.CANCELLED, {"partial": partial, **clicked}, partial or None)

    def _masked(self, error: Exception) -> Exception:
        """An error without secrets: code of others that the run called may have put some into its message."""
        return redacted(error, self._engine.services.redact)

    async def cancel(self) -> None:
        """End a run that waits."""
        await self.end(self._cancelled())

    async def end(self, outcome: RunOutcome) -> None:
        """End the run; a cancellation does not interrupt this."""
        self.is_ended = True
        task = asyncio.create_task(self._end(outcome))
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                continue
        self._stop()

    async def close(self) -> None:
        """Store the events that are not stored yet, because the run is left as it is."""
        await self._event_writer.close()

    def _stop(self) -> None:
        self.is_driving = False
        self._engine.run_locks.release(self.owner)

    async def _end(self, outcome: RunOutcome) -> None:
        """Store the end and publish it; if it cannot be stored, the run is interrupted instead."""
        services, run_id = self._engine.services, self.run.run_id
        if outcome.status != COMPLETED:
            with suppress(StoreError):  # storing the end reports it
                await self.publish_decisions()
        try:
            flow, abort_writes = self._context.flow, None
            if outcome.status != COMPLETED and flow is not None and flow.abort is not None:
                abort_writes = await flow.abort(self._context, outcome.reason)
            subruns: list[str] = []

            def also_write(db: "Connection") -> list[StreamEvent]:
                subruns.extend(load_unfinished_subruns(db, run_id))
                return [] if abort_writes is None else abort_writes(db)

            event = self._event_writer.stamp(outcome.kind, outcome.data)
            await self._event_writer.flush()
            events = await services.runs.finish(
                run_id, outcome.status, event, response=outcome.response, also_write=also_write
            )
        except Conflict:
            self._feed.publish_all(await services.runs.events(run_id, self._feed.last_seq))
            return
        except Exception as error:  # noqa: BLE001 - a store that fails must not leave people waiting
            await self._interrupt(error)
            return
        for event in events:
            self._event_writer.publish(event)
        await self._engine.subruns().cancel_subruns(subruns, by_code=not outcome.data.get("clicked"))
        await self._engine.checkpoints.drop(self.run.thread_id)

    async def _interrupt(self, error: Exception) -> None:
        """Leave the run as the store has it, to be resumed, and publish why."""
        with suppress(StoreError):  # the reason is published below
            await self._event_writer.flush()
        self.storage_problem = f"{describe_error(self._masked(error))} {await self._advice()}"
        self._engine.flows.release(self.run.run_id)  # the repair may be to register another graph
        self._stop()
        data = {"error_type": type(error).__name__, "message": self.storage_problem}
        self._event_writer.publish(self._event_writer.stamp(StreamEventType.ERROR, data))

    async def _advice(self) -> str:
        """Say how the run is continued, unless it was deleted."""
        run_id = self.run.run_id
        with suppress(StoreError):
            if not await self._engine.database.read(lambda db: run_exists(db, run_id)):
                return f"The run {run_id} was deleted."
        return (
            f"The run {run_id} is interrupted. Once that is repaired, run.resume() continues it and repeats nothing "
            "that is stored."
        )
