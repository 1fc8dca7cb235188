"""Scheduler: starts, resumes, cancels and awaits the runs that this process drives.

::

    start, resume_if_ready ──> claim the run ──> load its stored events ──> a driver in a task of its own
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from artifactflow_nb.core.run_clock import RunClock
from artifactflow_nb.engine.driver import EngineServices, RunDriver
from artifactflow_nb.engine.feeds import EventFeeds
from artifactflow_nb.errors import Conflict, NotFound, StoreError, UsageError
from artifactflow_nb.flows.approval import publish_decisions
from artifactflow_nb.flows.events import EventWriter
from artifactflow_nb.store.ownership import effective_status, is_owner_gone
from artifactflow_nb.store.runs import INTERRUPTED, RUNNING, WAITING, StoredRun

logger = logging.getLogger(__name__)


class RunScheduler:
    """Schedules the runs of one engine.

    Args:
        engine: The services of the engine.
        after_drive: Awaited with a run's id in the run's task, after the run has ended or begun to wait; `join` and
            a resume wait for it.

    Attributes:
        feeds: The events of the runs.
    """

    def __init__(self, engine: EngineServices, after_drive: Callable[[str], Awaitable[None]] | None = None) -> None:
        self.feeds = EventFeeds(engine.services.runs)
        self._engine = engine
        self._services = engine.services
        self._after_drive = after_drive
        self._drivers: dict[str, RunDriver] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._storage_problems: dict[str, str] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._starting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def is_driving(self, run_id: str) -> bool:
        """True while this process drives the run."""
        return run_id in self._drivers

    async def start(self, run: StoredRun) -> "asyncio.Task[None]":
        """Drive a run, and return the task that does.

        The task ends when the run ends, waits or is interrupted. It raises nothing that the run's events do not report.

        Errors: `Conflict` if another process drives it or it has ended; `StoreError` if the store cannot be written;
            `UsageError` if its flow, model or budget is not available here.
        """
        async with self._lock_of(run.run_id):
            if (task := self._tasks.get(run.run_id)) is not None and not task.done():
                if (driver := self._drivers[run.run_id]).is_driving:
                    await driver.publish_decisions()
                    return task
                await asyncio.wait([task])
            if not self._engine.run_locks.owns(run.owner):  # of its own runs the process has the current rows
                run = await self._services.runs.get(run.run_id)
                await self._engine.check_resume(run)
            driver = await self._claim(run)
            self._storage_problems.pop(run.run_id, None)
            return self._run_in_task(driver, driver.drive)

    def _lock_of(self, run_id: str) -> asyncio.Lock:
        """The lock to hold while starting or ending a run; it exists as long as somebody holds it or waits for it."""
        return self._starting.setdefault(run_id, asyncio.Lock())

    def _run_in_task(self, driver: RunDriver, work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        """Run a driver's work in a task; until it ends, no other driver of this process drives the run."""
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
        """Start a run whose requests are decided or whose process is gone; True if it was started."""
        is_decided = run.status == WAITING and await self._services.approvals.can_resume(run.run_id)
        if not is_decided and not (run.status == RUNNING and is_owner_gone(self._engine.folder, run.owner)):
            return False
        try:
            await self.start(run)
        except Conflict:  # another process has claimed it
            return False
        return True

    async def continue_after_decision(self, run_id: str) -> None:
        """Resume a run after a decision if it is ready; otherwise publish the decision to its listeners."""
        driver = self._drivers.get(run_id)
        if driver is not None:
            async with driver.lock:
                if driver.is_driving:
                    with suppress(StoreError):  # the resume publishes it
                        await driver.publish_decisions()
                    return
        if await self.resume_if_ready(await self._services.runs.get(run_id)):
            return
        async with self._lock_of(run_id):
            if run_id not in self._drivers:
                with suppress(StoreError):  # then the process that resumes the run publishes it
                    feed = await self.feeds.get_current(run_id)
                    clock = RunClock(self._services.clock, feed.last_at)
                    event_writer = EventWriter(run_id, clock, self._services.runs, feed)
                    await publish_decisions(self._services.approvals, event_writer, run_id, only_while_waiting=True)

    async def join(self, run_id: str) -> None:
        """Return when this process no longer drives the run: it has ended, waits, or is driven elsewhere.

        Errors: `StoreError` with the reason and advice if the store failed and the run was interrupted.
        """
        while (task := self._tasks.get(run_id)) is not None and not task.done():
            await asyncio.wait([task])
        if (problem := self._storage_problems.get(run_id)) is not None:
            run = await self._services.runs.get(run_id)
            if effective_status(self._engine.folder, run.status, run.owner) == INTERRUPTED:
                raise StoreError(problem)

    async def _claim(self, run: StoredRun) -> RunDriver:
        """Claim a run for this process unless it owns it already, and make its driver."""
        is_ours = self._engine.run_locks.owns(run.owner)
        if is_ours and run.owner:
            owner = run.owner
        else:
            gone_owner = run.owner if run.status == RUNNING and is_owner_gone(self._engine.folder, run.owner) else None
            owner = self._engine.run_locks.acquire()
        try:
            if owner != run.owner and not await self._services.runs.claim(run.run_id, owner, gone_owner=gone_owner):
                present = await self._services.runs.get(run.run_id)
                reason = "another process runs it" if present.status == RUNNING else f"it is {present.status}"
                raise Conflict(f"The run {run.run_id!r} cannot be continued here: {reason}.")
            feed = await self.feeds.get_current(run.run_id)
        except BaseException:
            self._engine.run_locks.release(owner)
            raise
        clock = RunClock(self._services.clock, feed.last_at)
        return RunDriver(self._engine, run, feed, clock, owner, is_new=is_ours and feed.last_seq == 1)

    def _forget(self, run_id: str, driver: RunDriver) -> None:
        """Forget a driver whose task is done, and wake the run that waits for this one."""
        if self._drivers.get(run_id) is not driver:
            return
        del self._drivers[run_id], self._tasks[run_id]
        self.feeds.local_runs.discard(run_id)
        if driver.is_ended:
            self._engine.flows.release(run_id)
        if driver.storage_problem:
            self._storage_problems[run_id] = driver.storage_problem
        self.feeds.drop_ended(run_id)
        if driver.run.parent_call is not None and not driver.is_detached:
            task = asyncio.create_task(self._wake(driver.run.parent_call.run_id))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _wake(self, run_id: str) -> None:
        try:
            await self.resume_if_ready(await self._services.runs.get(run_id))
        except NotFound:  # it was deleted, or only the subrun was imported
            return
        except (StoreError, UsageError):
            logger.debug("The run %s was not resumed", run_id, exc_info=True)

    async def cancel(self, run_id: str, *, by_code: bool = True) -> None:
        """End a run. Its artifacts stay, and the answer text so far is stored and marked as partial.

        Args:
            run_id: The run.
            by_code: True for `run.cancel()` in a cell, False for a click.

        Errors: `Conflict` if it has ended already; `StoreError` if its end could not be stored.
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
                    driver = await self._claim(run)
                    driver.is_clicked = not by_code
                    task = self._run_in_task(driver, driver.cancel)
            await asyncio.wait([task])
            is_over = driver.is_ended or driver.storage_problem is not None
        self._forget(run_id, driver)
        if driver.storage_problem:
            raise StoreError(driver.storage_problem)

    def storage_problem(self, run_id: str) -> str | None:
        """Say why the store interrupted a run that was driven here; None if it did not."""
        return self._storage_problems.get(run_id)

    async def aclose(self) -> None:
        """Stop driving. Unfinished runs stay as they are and can be resumed."""
        drivers, tasks = list(self._drivers.values()), list(self._tasks.values())
        for driver in drivers:
            driver.is_detached = not driver.cancellation.is_cancelled
        tasks += self._background
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for driver in drivers:
            await driver.close()
        await self.feeds.aclose()
