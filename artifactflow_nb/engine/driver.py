"""The driver of a run executes its flow until the run ends or waits; the scheduler starts, resumes and cancels drivers.

::

    start, resume_if_ready ──> acquire the run ──> load its stored events ──> a driver in a task of its own

    flow ───> an answer ─────────────────────────> complete
      ^  ├──> an exception ──────────────────────> error or cancelled
      │  ├──> the store fails ───────────────────> nothing is stored: the run is abandoned and can be resumed
      │  └──> gates ── all requests of one decided? ── no ──> complete (interrupted): the run waits
      └──────────────────── yes ──────────────────┘

A resume carries no value: the flow continues at its checkpoint and reads the decisions from the store. Only this module
ends runs.
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from artifactflow_nb.core.clock_ids import RunClock
from artifactflow_nb.core.events import MAIN_JOB, StreamEvent, StreamEventType
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.engine.feeds import EventFeeds
from artifactflow_nb.errors import Conflict, NotFound, StoreError, UsageError, describe_error, redacted
from artifactflow_nb.flows.approval import publish_decisions
from artifactflow_nb.flows.cancellation import shielded, start_task
from artifactflow_nb.flows.events import EventFeed, EventWriter
from artifactflow_nb.flows.middleware import RunMiddleware
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.store.metrics import load_metrics, load_stopped_usage
from artifactflow_nb.store.ownership import effective_status, is_owner_gone
from artifactflow_nb.store.runs import (
    ABANDONED,
    CANCELLED,
    COMPLETED,
    FAILED,
    RUNNING,
    WAITING,
    StoredRun,
    load_unfinished_subruns,
    run_exists,
)
from artifactflow_nb.tools.threads import is_task_cancelled

if TYPE_CHECKING:
    from sqlite3 import Connection

    from artifactflow_nb.engine.engine import Engine

RESTART_SKIP = 1_000_000
"""The number of event numbers that a run leaves out when the run continues after the death of its process.

The dead process may have published pieces of text after the last stored event. A reader that continues after its last
number, such as an `EventSource` that connects again, would miss new events with the numbers of these pieces.
"""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The end of a run: its status, its terminal event and the response of its message."""

    status: str
    kind: StreamEventType
    data: dict[str, Any]
    response: str | None = None

    @property
    def reason(self) -> str:
        """The reason for which unfinished plans and subruns end with the run."""
        if self.status == CANCELLED:
            return "The run was cancelled."
        return f"The run failed: {self.data.get('message', '')}"


class RunDriver:
    """Drives one run while this process owns it.

    Args:
        engine: The services of the engine.
        run: The run's row when the process acquired it.
        feed: The run's events so far, and its listeners.
        clock: The run's clock.
        owner: The owner that the run's row names; the owner's lock is released when this process stops driving the run.
        is_new: Whether the run is new: nothing was decided, and the graph has no checkpoint yet.
        skip: The number of event numbers to leave out; see `RESTART_SKIP`.

    Attributes:
        lock: Orders decisions and pauses: `is_driving` does not change while the lock is held.
        is_driving: Whether the run is driven, so that this driver reads new decisions.
        is_detached: Set before the task is cancelled, if the run stays unfinished and can be resumed later.
        is_clicked: Set before the task is cancelled by a click, as opposed to code.
        is_ended: Whether this driver has ended the run.
        storage_problem: The error of the store after which the run was abandoned, with advice, or None.
    """

    def __init__(
        self,
        engine: "Engine",
        run: StoredRun,
        feed: EventFeed,
        clock: RunClock,
        owner: str,
        *,
        is_new: bool,
        skip: int = 0,
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
        self._event_writer = EventWriter(run.run_id, clock, engine.services.runs, feed, skip=skip)
        services, parent = engine.agent_registry.services_for(engine.services, run.settings), run.parent_call
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
                services.secrets.redact,
                services.plans,
            ),
            subruns=engine.controller.subruns,
            is_new=is_new,
            secrets=services.secrets.current,
            flow=engine.flows.specs.get(run.flow),
        )
        self.cancellation = self._context.jobs.cancellation
        self._place: asyncio.Semaphore | None = None

    async def drive(self) -> None:
        """Drive the run until it ends or waits; an error ends the run and is not raised.

        If the store fails, the run does not end: the run is abandoned and can be resumed.
        """
        try:
            await self._wait_for_start()
            outcome = await self._until_end_or_pause()
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
                if logger.isEnabledFor(logging.DEBUG):  # without exc_info, whose output could not be masked
                    trace = "".join(traceback.format_exception(error))
                    logger.debug("Run %s failed\n%s", self.run.run_id, self._engine.services.secrets.redact(trace))
                data = {
                    "error_type": type(error).__name__,
                    "message": storable_text(describe_error(self._masked(error))),
                }
                outcome = RunOutcome(FAILED, StreamEventType.ERROR, data)
        if outcome is not None:
            await self.end(outcome)

    async def _wait_for_start(self) -> None:
        """Wait for a place among the running runs.

        Runs that continue do not wait for new runs. A subrun needs no place, because the parent run has a place.
        """
        places = self._engine.places_of_new_runs if self._is_new else self._engine.places_of_continuing_runs
        with self.cancellation.waiting():
            if self.run.parent_call is None:
                await places.acquire()
                self._place = places
        await self.cancellation.wait_if_cancelled()

    async def _until_end_or_pause(self) -> RunOutcome | None:
        """Advance the flow until the run ends or waits; return the outcome, or None if the run waits."""
        checkpoints, approvals = self._engine.checkpoints, self._engine.services.approvals
        if not self._is_new:
            self._context.text_agents.update(await self._engine.services.calls.text_agents(self.run.run_id))
        while True:
            if not self._is_new:
                await self.publish_decisions()
            async with checkpoints.translate_errors():
                has_checkpoint = not self._is_new and await checkpoints.saver.has_thread(self.run.thread_id)
                flow = self._engine.flows.for_run(self.run.run_id, self.run.flow)
                progress = await flow.advance(self._context, has_checkpoint=has_checkpoint)
            if not progress.gates:
                data = {"success": True, "response": progress.response, "execution_metrics": None, "interrupted": False}
                if progress.notices:
                    data["notices"] = list(progress.notices)
                if progress.answer_outcome is not None:
                    data["outcome"] = progress.answer_outcome
                return RunOutcome(COMPLETED, StreamEventType.COMPLETE, data, progress.response)
            self._is_new, self._context = False, replace(self._context, is_new=False)
            # The lock is held while a decision may restart the run, so that the run does not count as abandoned.
            with self._engine.run_locks.starting(f"start-{self.run.run_id}"):
                async with self.lock:
                    has_paused = False
                    while not has_paused:
                        await self.publish_decisions()
                        if await approvals.is_any_gate_decided(progress.gates):
                            break
                        has_paused = await self._pause(progress.gates)
                    if has_paused:
                        await self.publish_decisions(only_while_waiting=True)
                        is_decided = await approvals.is_any_gate_decided(progress.gates)
                        if not (is_decided and await self._engine.services.runs.acquire(self.run.run_id, self.owner)):
                            self._stop(is_over=True)
                            return None

    async def publish_decisions(self, *, only_while_waiting: bool = False) -> None:
        """Publish the decisions on the run that are stored and not yet published."""
        requests, run_id = self._engine.services.approvals, self.run.run_id
        await publish_decisions(requests, self._event_writer, run_id, only_while_waiting=only_while_waiting)

    async def _pause(self, gates: Sequence[Sequence[str]]) -> bool:
        """Store and publish that the run waits at these gates; return False if a decision arrived meanwhile."""
        services, run_id = self._engine.services, self.run.run_id
        await self._event_writer.flush()
        pending = [request.id for request in await services.approvals.open_requests(run_id)]
        until = self._clock.now()
        metrics = await self._engine.database.read(lambda db: load_metrics(db, run_id, until).as_json())
        data: dict[str, Any] = {"success": False, "response": "", "execution_metrics": metrics}
        data |= {"interrupted": True, "pending": pending}
        # Another process that decides later reads from the gates whether the run can continue.
        data["gates"] = sorted([request for request in gate if request in pending] for gate in gates)
        if not all(data["gates"]):  # a subrun has continued meanwhile
            return False

        async def store() -> bool:
            with self._event_writer.storing():
                event = self._event_writer.stamp(StreamEventType.COMPLETE, data)
                has_paused = await services.runs.pause(run_id, event)
                if has_paused:
                    self._event_writer.publish(event)
            return has_paused

        return await shielded(store())

    def _cancelled(self) -> RunOutcome:
        """Build the outcome of a cancelled run, with the partial answer and whether a click cancelled the run."""
        partial = storable_text(self._feed.arriving_text(MAIN_JOB))
        clicked = {"clicked": True} if self.is_clicked else {}
        return RunOutcome(CANCELLED, StreamEventType.CANCELLED, {"partial": partial, **clicked}, partial or None)

    def _masked(self, error: Exception) -> Exception:
        """Redact the message of an error, since third-party code may write secrets into the message."""
        return redacted(error, self._engine.services.secrets.redact)

    async def cancel(self) -> None:
        """Cancel a run that waits, and store its end."""
        await self.end(self._cancelled())

    async def end(self, outcome: RunOutcome) -> None:
        """End the run, even if the task is cancelled meanwhile."""
        self.is_ended = True
        with suppress(asyncio.CancelledError):
            await shielded(self._end(outcome))
        self._stop(is_over=True)

    async def close(self) -> None:
        """Store the remaining events of a run that is left unfinished."""
        await self._event_writer.close()

    def _stop(self, *, is_over: bool = False) -> None:
        """Stop driving. With `is_over`, the run has ended or waits, and the run's row names no owner."""
        self.is_driving = False
        if self._place is not None:
            self._place.release()
            self._place = None
        self._engine.run_locks.release(self.owner, is_over=is_over)

    async def _end(self, outcome: RunOutcome) -> None:
        """Store and publish the end; if the end cannot be stored, the run is abandoned."""
        services, run_id = self._engine.services, self.run.run_id
        if outcome.status != COMPLETED:
            with suppress(StoreError):  # storing the end below reports the error
                await self.publish_decisions()
        try:
            flow, abort_writes = self._context.flow, None
            if outcome.status != COMPLETED and flow is not None and flow.abort is not None:
                abort_writes = await flow.abort(self._context, outcome.reason)
            subruns: list[str] = []
            event = self._event_writer.stamp(outcome.kind, outcome.data)
            await self._event_writer.flush()

            def also_write(db: "Connection") -> list[StreamEvent]:
                subruns[:] = load_unfinished_subruns(db, run_id)
                if "execution_metrics" in outcome.data:  # the event has the same mapping, and is stored afterwards
                    outcome.data["execution_metrics"] = load_metrics(db, run_id, event.timestamp).as_json()
                if outcome.status == CANCELLED and (usage := load_stopped_usage(db, run_id)):
                    outcome.data["stopped_usage"] = usage
                return [] if abort_writes is None else abort_writes(db)

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
        for key, asking in tuple(services.asking_calls.items()):
            if asking.run_id == run_id:
                services.asking_calls.pop(key).work.cancel()
        await self._engine.controller.subruns.cancel_subruns(subruns, by_code=not outcome.data.get("clicked"))
        if not self._is_new or flow is None:  # a new run of a flow has not waited, so it has no checkpoint
            await self._engine.checkpoints.drop(self.run.thread_id)

    async def _interrupt(self, error: Exception) -> None:
        """Stop driving the run and publish the reason; the stored state can be resumed."""
        with suppress(StoreError):  # the reason is published below
            await self._event_writer.flush()
        self.storage_problem = f"{describe_error(self._masked(error))} {await self._advice()}"
        self._engine.flows.release(self.run.run_id)  # the repair may be to register another graph
        self._stop()
        data = {"error_type": type(error).__name__, "message": self.storage_problem}
        self._event_writer.publish(self._event_writer.stamp(StreamEventType.ERROR, data))

    async def _advice(self) -> str:
        """Return advice on how to continue the run, or the sentence that the run was deleted."""
        run_id = self.run.run_id
        with suppress(StoreError):
            if not await self._engine.database.read(lambda db: run_exists(db, run_id)):
                return f"The run {run_id} was deleted."
        return (
            f"The run {run_id} is abandoned. Solve this problem, then call run.resume(): the run continues, and no "
            "stored step is repeated."
        )


class RunScheduler:
    """Schedules the runs of one engine.

    Args:
        engine: The services of the engine.
        after_drive: Awaited with a run's id in the run's task, after the run has ended or started to wait, before
            `join` returns or the run is resumed.
    """

    def __init__(self, engine: "Engine", after_drive: Callable[[str], Awaitable[None]] | None = None) -> None:
        self.feeds = EventFeeds(engine.services.runs)
        self._engine = engine
        self._services = engine.services
        self._after_drive = after_drive
        self._drivers: dict[str, RunDriver] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._storage_problems: dict[str, str] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._starting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def is_driving(self, run_id: str) -> bool:
        """Return whether this process drives the run."""
        return run_id in self._drivers

    async def start(self, run: StoredRun) -> "asyncio.Task[None]":
        """Drive a run and return its task.

        The task ends when the run ends, waits or is abandoned, and raises only errors that the run's events report.

        Errors: `Conflict` if another process drives the run or the run has ended; `StoreError` if the store cannot be
            written; `UsageError` if the run's flow, model or budget is not available here.
        """
        async with self._lock_of(run.run_id):
            if (task := self._tasks.get(run.run_id)) is not None and not task.done():
                if (driver := self._drivers[run.run_id]).is_driving:
                    await driver.publish_decisions()
                    return task
                await asyncio.wait([task])
            if not self._engine.run_locks.owns(run.owner):  # the rows of own runs are current
                run = await self._services.runs.get(run.run_id)
                await self._engine.run_config.check_resume(run)
            driver = await self._acquire(run)
            self._storage_problems.pop(run.run_id, None)
            return self._run_in_task(driver, driver.drive)

    def _lock_of(self, run_id: str) -> asyncio.Lock:
        """Return the lock for starting or ending a run, which exists as long as a task holds or awaits the lock."""
        return self._starting.setdefault(run_id, asyncio.Lock())

    def _run_in_task(self, driver: RunDriver, work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        """Run a driver's coroutine in a task; until the task ends, no other driver of this process drives the run."""
        run_id = driver.run.run_id

        async def drive() -> None:
            await work()
            if self._after_drive is not None and not driver.is_detached:
                await self._after_drive(run_id)

        task = asyncio.create_task(drive(), name=run_id)
        self._drivers[run_id], self._tasks[run_id] = driver, task
        self.feeds.local_runs.add(run_id)
        task.add_done_callback(lambda _: self._forget(run_id, driver))
        return task

    async def resume_if_ready(self, run: StoredRun) -> bool:
        """Start a run whose requests are decided or whose process has died; return whether the run was started."""
        is_decided = run.status == WAITING and await self._services.approvals.can_resume(run.run_id)
        if not is_decided and not (run.status == RUNNING and is_owner_gone(self._engine.folder, run.owner)):
            return False
        try:
            await self.start(run)
        except Conflict:  # another process has acquired the run
            return False
        return True

    async def continue_after_decision(self, run_id: str) -> None:
        """Resume a run after a decision if the run is ready; if not, publish the decision to listeners."""
        driver = self._drivers.get(run_id)
        if driver is not None:
            async with driver.lock:
                if driver.is_driving:
                    with suppress(StoreError):  # the resumed run publishes the decision
                        await driver.publish_decisions()
                    return
        if await self.resume_if_ready(await self._services.runs.get(run_id)):
            return
        async with self._lock_of(run_id):
            if run_id not in self._drivers:
                with suppress(StoreError):  # after an error, the process that resumes the run publishes the decision
                    feed = await self.feeds.get_current(run_id)
                    clock = RunClock(self._services.clock, feed.last_at)
                    event_writer = EventWriter(run_id, clock, self._services.runs, feed)
                    await publish_decisions(self._services.approvals, event_writer, run_id, only_while_waiting=True)

    async def join(self, run_id: str) -> None:
        """Return when this process no longer drives the run: the run has ended, waits, or is driven elsewhere.

        Errors: `StoreError` with the reason and advice if the store failed and the run was abandoned.
        """
        while (task := self._tasks.get(run_id)) is not None and not task.done():
            await asyncio.wait([task])
        if (problem := self._storage_problems.get(run_id)) is not None:
            run = await self._services.runs.get(run_id)
            if effective_status(self._engine.folder, run.status, run.owner) == ABANDONED:
                raise StoreError(problem)

    async def _acquire(self, run: StoredRun) -> RunDriver:
        """Acquire a run for this process, unless the process owns the run already, and create a driver."""
        is_ours, gone_owner = self._engine.run_locks.owns(run.owner), None
        if is_ours and run.owner:
            owner = run.owner
        else:
            gone_owner = run.owner if run.status == RUNNING and is_owner_gone(self._engine.folder, run.owner) else None
            owner = self._engine.run_locks.acquire()
        try:
            if owner != run.owner and not await self._services.runs.acquire(run.run_id, owner, gone_owner=gone_owner):
                present = await self._services.runs.get(run.run_id)
                reason = "another process runs it" if present.status == RUNNING else f"its status is {present.status}"
                raise Conflict(f"The run {run.run_id!r} cannot be continued here: {reason}.")
            feed = await (self.feeds.get if is_ours else self.feeds.get_current)(run.run_id)
        except BaseException:
            self._engine.run_locks.release(owner)
            raise
        clock = RunClock(self._services.clock, feed.last_at)
        is_new, skip = is_ours and feed.last_seq == 1, RESTART_SKIP if gone_owner else 0
        return RunDriver(self._engine, run, feed, clock, owner, is_new=is_new, skip=skip)

    def _forget(self, run_id: str, driver: RunDriver) -> None:
        """Remove a driver whose task is done, and wake the parent run that waits for the run."""
        if self._drivers.get(run_id) is not driver:
            return
        del self._drivers[run_id], self._tasks[run_id]
        self.feeds.local_runs.discard(run_id)
        if driver.is_ended:
            self._engine.flows.release(run_id)
        if driver.storage_problem:
            self._storage_problems[run_id] = driver.storage_problem
        self.feeds.drop_ended(run_id)
        if driver.run.parent_call is not None and not self._is_closing:
            start_task(self._background, self._wake(driver.run.parent_call.run_id))

    async def _wake(self, run_id: str) -> None:
        try:
            await self.resume_if_ready(await self._services.runs.get(run_id))
        except NotFound:  # the parent was deleted, or only the subrun was imported
            return
        except (StoreError, UsageError):
            logger.debug("The run %s was not resumed", run_id, exc_info=True)

    async def cancel(self, run_id: str, *, by_code: bool = True) -> None:
        """Cancel a run. Its artifacts stay, and the partial answer is stored and marked as partial.

        `by_code` is true for `run.cancel()` in a cell, false for a click.

        Errors: `Conflict` if the run has ended already; `StoreError` if the end could not be stored.
        """
        is_over = False
        while not is_over:  # a task that is cancelled before its first step, or while it pauses, does not end the run
            async with self._lock_of(run_id):  # a decision at this moment must not start the run again
                if (running := self._tasks.get(run_id)) is not None and not running.done():
                    driver, task = self._drivers[run_id], running
                    driver.is_clicked = not by_code
                    driver.cancellation.cancel(task)
                else:
                    run = await self._services.runs.get(run_id)
                    if run.status not in {WAITING, RUNNING}:
                        raise Conflict(f"The run {run_id!r} has ended already: {run.status}.")
                    driver = await self._acquire(run)
                    driver.is_clicked = not by_code
                    task = self._run_in_task(driver, driver.cancel)
            await asyncio.wait([task])
            is_over = driver.is_ended or driver.storage_problem is not None
        self._forget(run_id, driver)
        if driver.storage_problem:
            raise StoreError(driver.storage_problem)

    def storage_problem(self, run_id: str) -> str | None:
        """Return the error of the store after which a run that was driven here was abandoned, or None."""
        return self._storage_problems.get(run_id)

    async def aclose(self) -> None:
        """Stop driving. Unfinished runs stay unchanged and can be resumed."""
        self._is_closing = True
        drivers, tasks = list(self._drivers.values()), [*self._tasks.values(), *self._background]
        for run_id, driver in self._drivers.items():
            if driver.is_driving and not driver.is_ended:  # else the task only records what is stored already
                driver.is_detached = not driver.cancellation.is_cancelled
                self._tasks[run_id].cancel()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for driver in drivers:
            await driver.close()
        await self.feeds.aclose()
