"""The runs that are driven here: letting them go on, cancelling them, waiting for them.

::

    start, go_on ──> claim the run ──> catch up with what is stored ──> a driver in a task of its own
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from artifactflow_nb.drive import Rooms, RunDriver
from artifactflow_nb.errors import CassetteError, Conflict, StoreError
from artifactflow_nb.flows.journal import Feed, Journal, Listener
from artifactflow_nb.flows.permission import announce_decisions
from artifactflow_nb.follow import Feeds
from artifactflow_nb.recordings.change import Change
from artifactflow_nb.recordings.clock import RunClock
from artifactflow_nb.recordings.reading import load_recording
from artifactflow_nb.recordings.tape import Tape
from artifactflow_nb.store.ownership import is_gone, observed_status
from artifactflow_nb.store.runs import INTERRUPTED, RUNNING, WAITING, StoredRun


class DrivenRuns:
    """The runs of one engine that are under way.

    Args:
        rooms: What drivers work with.
        folder: The store's folder, where owners' locks lie.
    """

    def __init__(self, rooms: Rooms, folder: Path) -> None:
        self._rooms = rooms
        self._services = rooms.services
        self._folder = folder
        self._drivers: dict[str, RunDriver] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unstored: dict[str, str] = {}
        self._unrecorded: dict[str, str] = {}
        self._asides: set[asyncio.Task[None]] = set()
        self._starting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._feeds = Feeds(rooms.services.runs, self._drivers.__contains__)

    async def subscribe(self, run_id: str, listener: Listener) -> Callable[[], None]:
        """Hear a run's events, those that were stored first; the function that is returned ends it.

        What another process does with the run is heard too, as it is stored.
        """
        return await self._feeds.subscribe(run_id, listener)

    async def start(self, run: StoredRun) -> "asyncio.Task[None]":
        """Let a run go on.

        The task ends when the run ends, waits or is interrupted; it raises nothing that the run's events do not say.

        Errors: `Conflict` if another process drives it or it has ended; `StoreError` if the store cannot be written;
            `UsageError` if it was begun with a model or a budget that cannot be kept to here.
        """
        async with self._lock_of(run.run_id):
            if (task := self._tasks.get(run.run_id)) is not None and not task.done():
                if (driver := self._drivers[run.run_id]).driving:
                    await driver.announce()
                    return task
                await asyncio.wait([task])
            if not self._is_ours(run):  # what is ours nobody else changes
                run = await self._services.runs.get(run.run_id)
                await self._rooms.check_resumed(run)
            driver = await self._driver(run)
            self._unstored.pop(run.run_id, None)
            return self._under_way(driver, driver.drive())

    def _lock_of(self, run_id: str) -> asyncio.Lock:
        """Held by who is about to drive the run or to end it; there as long as somebody holds it or waits for it."""
        return self._starting.setdefault(run_id, asyncio.Lock())

    def _under_way(self, driver: RunDriver, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """The task of what a driver does; until it ends, nobody else here drives the run."""
        run_id = driver.run.run_id
        task = asyncio.create_task(work, name=run_id)
        self._drivers[run_id], self._tasks[run_id] = driver, task
        task.add_done_callback(lambda _: self._forget(run_id, driver))
        return task

    async def go_on(self, run: StoredRun) -> bool:
        """Start a run that can go on: one whose requests are decided, or whose engine is gone; whether it could."""
        decided = run.status == WAITING and await self._services.requests.ready(run.run_id)
        if not decided and not (run.status == RUNNING and is_gone(self._folder, run.owner)):
            return False
        try:
            await self.start(run)
        except Conflict:  # somebody else was faster and goes on with it
            return False
        return True

    async def announce_waiting(self, run_id: str) -> None:
        """Say the decisions on a run that goes on waiting, because others are open: who looks on is to see them."""
        async with self._lock_of(run_id):
            if run_id in self._drivers:
                return
            feed = await self._feeds.caught_up(run_id)
            tape = await self._tape(await self._services.runs.get(run_id), feed)
            journal = Journal(run_id, tape, self._services.runs, feed)
            await announce_decisions(self._services.requests, journal, run_id, only_while_waiting=True)

    async def join(self, run_id: str) -> None:
        """Return when the run is not driven here any more: it has ended, or waits, or is driven elsewhere.

        Errors: `StoreError` if the store failed and the run was left interrupted, with the reason and what to do.
        """
        while (task := self._tasks.get(run_id)) is not None and not task.done():
            await asyncio.wait([task])
        if (why := self._unrecorded.pop(run_id, None)) is not None:
            raise CassetteError(why)
        if (why := self._unstored.get(run_id)) is not None:
            run = await self._services.runs.get(run_id)
            if observed_status(self._folder, run.status, run.owner) == INTERRUPTED:
                raise StoreError(why)

    async def join_or_decide(self, run_id: str) -> bool:
        """Wait as `join` does; in a replay only until code has to decide while the run is driven.

        Where that was recorded, the run had paused before, which clicks end by themselves now.

        Returns:
            Whether code has to decide.
        """
        if (player := self._rooms.deck.player(run_id)) is None:
            await self.join(run_id)
            return False
        joined = asyncio.ensure_future(self.join(run_id))
        left_to_code = asyncio.ensure_future(player.until_left_to_code())
        try:
            await asyncio.wait([joined, left_to_code], return_when=asyncio.FIRST_COMPLETED)
            if joined.done():
                joined.result()
            return not joined.done()
        finally:
            joined.cancel()
            left_to_code.cancel()

    async def _driver(self, run: StoredRun) -> RunDriver:
        """A driver for a run that is ours from now on."""
        is_ours = self._is_ours(run)
        owner = run.owner if is_ours and run.owner else await self._claim(run)
        try:
            feed = await self._feeds.caught_up(run.run_id)
            tape = await self._tape(run, feed)
        except BaseException:
            self._rooms.ownership.let_go(owner)
            raise
        return RunDriver(self._rooms, run, feed, tape, owner, is_new=is_ours and feed.last_seq == 1)

    async def _tape(self, run: StoredRun, feed: Feed) -> Tape:
        """What comes to a run from outside: from the world, from a cassette, or up to a step from the forked run."""
        deck, change = self._rooms.deck, Change.of_settings(run.settings)
        if change is None or deck.player(run.run_id) is not None:
            return deck.tape_of(run.run_id, self._services.clock, feed.last_at)
        forked = await self._rooms.database.read(lambda db: load_recording(db, change.of))
        return deck.fork_tape(run.run_id, forked, change, RunClock(self._services.clock, feed.last_at))

    def _is_ours(self, run: StoredRun) -> bool:
        return run.status == RUNNING and self._rooms.ownership.holds(run.owner)

    async def _claim(self, run: StoredRun) -> str:
        """Become the run's owner; the owner's name."""
        gone = run.owner if run.status == RUNNING and is_gone(self._folder, run.owner) else None
        owner = self._rooms.ownership.hold()
        try:
            if not await self._services.runs.claim(run.run_id, owner, gone_owner=gone):
                present = await self._services.runs.get(run.run_id)
                why = "another process runs it" if present.status == RUNNING else f"it is {present.status}"
                raise Conflict(f"The run {run.run_id!r} cannot go on here: {why}.")
        except BaseException:
            self._rooms.ownership.let_go(owner)
            raise
        return owner

    def _forget(self, run_id: str, driver: RunDriver) -> None:
        if self._drivers.get(run_id) is driver:
            del self._drivers[run_id], self._tasks[run_id]
        if driver.ended:
            self._rooms.flows.let_go(run_id)
        if driver.unstored:
            self._unstored[run_id] = driver.unstored
        if driver.unrecorded:
            self._unrecorded[run_id] = driver.unrecorded
        self._feeds.forget_ended(run_id)

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that nobody waits for, until the engine is closed."""
        task = asyncio.create_task(work)
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    async def cancel(self, run_id: str, *, by_code: bool = True) -> None:
        """End a run: what it has written stays, the text that had arrived is kept and marked.

        A replay of a run that was cancelled at work, or by a click, ends by itself where that did.

        Args:
            run_id: The run.
            by_code: Whether code ends it, as `run.cancel()` in a cell does, which does so again in a replay.

        Errors: `Conflict` if it has ended already; `StoreError` if it was stopped and its end could not be stored.
        """
        if (player := self._rooms.deck.player(run_id)) is not None and player.ends_by_itself and not player.parted_at:
            await self.join(run_id)
            return
        ended = False
        while not ended:  # a task that is cancelled before its first step, or as it pauses, leaves the run as it is
            async with self._lock_of(run_id):  # a decision that comes at this moment must not start it beside us
                driver, task = await self._ending(run_id, by_code)
            await asyncio.wait([task])
            ended = driver.ended or driver.unstored is not None
        self._forget(run_id, driver)
        if driver.unstored:
            raise StoreError(driver.unstored)

    async def _ending(self, run_id: str, by_code: bool) -> "tuple[RunDriver, asyncio.Task[None]]":
        """Cut short what drives the run, or begin to end it; who does it, and the task that is over then."""
        if (task := self._tasks.get(run_id)) is not None and not task.done():
            driver = self._drivers[run_id]
            driver.clicked = not by_code
            driver.halting.halt(task)
            return driver, task
        run = await self._services.runs.get(run_id)
        if run.status not in {WAITING, RUNNING}:
            raise Conflict(f"The run {run_id!r} has ended already: {run.status}.")
        driver = await self._driver(run)
        driver.clicked = not by_code
        return driver, self._under_way(driver, driver.cancel())

    def why_unstored(self, run_id: str) -> str | None:
        """Why a run that was driven here was left interrupted; None if that did not happen."""
        return self._unstored.get(run_id)

    async def aclose(self) -> None:
        """Stop driving; runs that were going on stay as they are and can be resumed."""
        drivers, tasks = list(self._drivers.values()), list(self._tasks.values())
        for driver in drivers:
            driver.detached = not driver.halting.is_halted
        tasks += self._asides
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for driver in drivers:
            await driver.close()
        await self._feeds.aclose()
