"""The controller: begins runs, lets them run, takes decisions, cancels. Driving and ending is `drive`'s.

Every way in is the same: a question is stored as a message with its run (`begin`), and `start` lets any run go on that
can: a new one, one whose requests are decided, one whose process is gone.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifactflow_nb import __version__
from artifactflow_nb.approvals import ApprovalRequest, Decision
from artifactflow_nb.drive import Rooms, RunDriver
from artifactflow_nb.errors import Conflict, NotFound, ToolError, UsageError
from artifactflow_nb.events import ExecutionMetrics, StreamEvent
from artifactflow_nb.flows.journal import Feed, Listener
from artifactflow_nb.store.conversations import Parent, ParentId
from artifactflow_nb.store.metrics import load_metrics
from artifactflow_nb.store.ownership import is_gone
from artifactflow_nb.store.runs import COMPLETED, RUNNING, WAITING, NewRun, StoredRun

FOLLOW_INTERVAL_S = 0.5
"""How often a run that another process drives is looked at while somebody listens."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of a run so far.

    Attributes:
        status: `completed`, `failed`, `cancelled` or `waiting`.
        response: The answer; None if there is none.
        pending: The requests that wait for a person.
        metrics: What it cost so far.
    """

    run_id: str
    conversation_id: str
    message_id: str
    thread_id: str
    status: str
    response: str | None
    error_type: str | None
    error_message: str | None
    pending: tuple[ApprovalRequest, ...]
    metrics: ExecutionMetrics


class ExecutionController:
    """Runs questions through flows.

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
        self._feeds: dict[str, Feed] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._unstored: dict[str, str] = {}
        self._starting = asyncio.Lock()

    async def stream_execute(
        self,
        content: str | None = None,
        *,
        conversation_id: str | None = None,
        parent_message_id: ParentId = Parent.ACTIVE,
        message_id: str | None = None,
        thread_id: str | None = None,
        resume_data: Mapping[str, bool | Decision] | None = None,
        flow: str = "research",
    ) -> AsyncIterator[StreamEvent]:
        """Run a question, or go on with a waiting run, and yield its events until it ends or waits.

        Args:
            content: The question; None to resume.
            conversation_id: The conversation; None for a new one.
            parent_message_id: The message to continue from; None for a new root, left out for the active branch.
            message_id: The id for the new message, or the message of the run to resume.
            thread_id: The id for the run's thread, or the thread to resume.
            resume_data: Decisions by request id, to resume.
            flow: Which flow.
        """
        if content is not None:
            run = await self.begin(
                content,
                conversation_id=conversation_id,
                parent_message_id=parent_message_id,
                message_id=message_id,
                thread_id=thread_id,
                flow=flow,
            )
        else:
            run = await self._decide_all(thread_id, message_id, resume_data or {})
        queue: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        seen = 0 if content is not None else (await self._feed(run.run_id)).last_seq
        stop = await self.subscribe(run.run_id, lambda event: queue.put_nowait(event) if event.seq > seen else None)
        task = await self.start(run)
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            stop()

    async def execute(self, content: str, **where: Any) -> RunResult:
        """Run a question until it ends or waits; the arguments are those of `begin`."""
        run = await self.begin(content, **where)
        await asyncio.shield(await self.start(run))
        return await self.result(run.run_id)

    async def resume(
        self,
        thread_id: str,
        message_id: str | None = None,
        decisions: Mapping[str, bool | Decision] | None = None,
        *,
        approved: bool | None = None,
    ) -> RunResult:
        """Decide and go on with a waiting run until it ends or waits again.

        Args:
            thread_id: The run's thread.
            message_id: The run's message, as a check; None for none.
            decisions: Decisions by request id.
            approved: The decision on the one request that is open, instead of `decisions`.
        """
        if approved is not None:
            run = await self._services.runs.by_thread(thread_id)
            decisions = {(await self.single_request(run.run_id)).id: approved}
        run = await self._decide_all(thread_id, message_id, decisions or {})
        await asyncio.shield(await self.start(run))
        return await self.result(run.run_id)

    async def begin(
        self,
        content: str,
        *,
        conversation_id: str | None = None,
        parent_message_id: ParentId = Parent.ACTIVE,
        message_id: str | None = None,
        thread_id: str | None = None,
        flow: str = "research",
    ) -> StoredRun:
        """Check and store a question as a message with its run; `start` lets it run."""
        question = content.encode("utf-8", "replace").decode().strip()
        if not question:
            raise UsageError("The question is empty. Write what you want to know.")
        if flow not in self._rooms.flows:
            raise UsageError(f"There is no flow {flow!r}; known are: {', '.join(self._rooms.flows)}.")
        ids = self._services.ids
        settings = await self._rooms.settings_for_run()
        run = NewRun(
            run_id=ids.new("run"),
            conversation_id=conversation_id,
            message_id=message_id or ids.new("msg"),
            thread_id=thread_id or ids.new("thd"),
            parent=parent_message_id,
            question=question,
            flow=flow,
            owner=self._rooms.owner,
            package_version=__version__,
            settings=settings,
        )
        return await self._services.runs.begin(run, ids.new("conv"))

    async def start(self, run: StoredRun) -> "asyncio.Task[None]":
        """Let a run go on; `Conflict` if another process drives it or it has ended.

        The task ends when the run ends or waits; it raises nothing that the run's events do not say.
        """
        async with self._starting:
            if (task := self._tasks.get(run.run_id)) is not None and not task.done():
                if (driver := self._drivers[run.run_id]).driving:
                    await driver.announce()
                    return task
                await asyncio.wait([task])
            present = await self._services.runs.get(run.run_id)
            if not (present.owner == self._rooms.owner and present.status == RUNNING):
                await self._claim(present)
            driver = RunDriver(self._rooms, present, await self._caught_up(run.run_id))
            self._drivers[run.run_id] = driver
            task = asyncio.create_task(driver.drive(), name=run.run_id)
            self._tasks[run.run_id] = task
            task.add_done_callback(lambda _: self._forget(run.run_id, driver))
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

    async def join(self, run_id: str) -> None:
        """Return when the run is not driven here any more: it has ended, or waits, or is driven elsewhere."""
        while (task := self._tasks.get(run_id)) is not None and not task.done():
            await asyncio.wait([task])

    async def _claim(self, run: StoredRun) -> None:
        gone = run.owner if run.status == RUNNING and is_gone(self._folder, run.owner) else None
        if not await self._services.runs.claim(run.run_id, self._rooms.owner, gone_owner=gone):
            present = await self._services.runs.get(run.run_id)
            why = "another process runs it" if present.status == RUNNING else f"it is {present.status}"
            raise Conflict(f"The run {run.run_id!r} cannot go on here: {why}.")

    def _forget(self, run_id: str, driver: RunDriver) -> None:
        if self._drivers.get(run_id) is driver:
            del self._drivers[run_id], self._tasks[run_id]
        if driver.unstored:
            self._unstored[run_id] = driver.unstored
        if (feed := self._feeds.get(run_id)) is not None and feed.ended:
            del self._feeds[run_id]

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Store a decision the moment it is taken, and go on with the run as soon as it can.

        While the run is driven here, because other jobs of it still work, the decision waits for them.

        Errors: `NotFound`, `Conflict` as for the store; `UsageError` if the tool that waits is not registered here.
        """
        await self._check_decidable(request_id, decision)
        (request,) = await self._services.requests.decide({request_id: decision}, self._services.clock.now())
        driver = self._drivers.get(request.run_id)
        if driver is not None:
            async with driver.lock:
                if driver.driving:
                    await driver.announce()
                    return
        await self.go_on(await self._services.runs.get(request.run_id))

    async def _check_decidable(self, request_id: str, decision: Decision) -> None:
        request = await self._services.requests.get(request_id)
        if decision.approved and request.tool not in {entry.name for entry in self._services.tools}:
            raise UsageError(f"The tool {request.tool!r} is not registered here: register it first, then approve.")
        if decision.params is not None:
            try:
                self._services.tools.select([request.tool])[0].bind(decision.params)
            except ToolError as error:
                raise UsageError(f"The edited parameters do not fit, and nothing was decided: {error}") from error

    async def _decide_all(
        self, thread_id: str | None, message_id: str | None, decisions: Mapping[str, bool | Decision]
    ) -> StoredRun:
        """Take decisions on a run that is named by its thread, all or none; the run, ready to be started."""
        if thread_id is None:
            raise UsageError("Nothing to do: pass a question as content, or thread_id to resume a run.")
        run = await self._services.runs.by_thread(thread_id)
        if message_id is not None and message_id != run.message_id:
            raise NotFound(f"The thread {thread_id!r} answers {run.message_id!r}, not {message_id!r}.")
        given = {key: one if isinstance(one, Decision) else Decision(one) for key, one in decisions.items()}
        for request_id, decision in given.items():
            await self._check_decidable(request_id, decision)
        await self._services.requests.decide(given, self._services.clock.now(), run_id=run.run_id)
        return await self._services.runs.get(run.run_id)

    async def cancel(self, run_id: str) -> None:
        """End a run: what it has written stays, the text that had arrived is kept and marked."""
        if (task := self._tasks.get(run_id)) is not None and not task.done():
            driver = self._drivers[run_id]
            task.cancel()
            await asyncio.wait([task])
            if not driver.ended:  # it was cancelled before it took its first step, or while it paused
                await driver.cancel()
            return
        run = await self._services.runs.get(run_id)
        if run.status not in {WAITING, RUNNING}:
            raise Conflict(f"The run {run_id!r} has ended already: {run.status}.")
        await self._claim(run)
        await RunDriver(self._rooms, run, await self._caught_up(run_id)).cancel()
        self._feeds.pop(run_id, None)

    async def subscribe(self, run_id: str, listener: Listener) -> Callable[[], None]:
        """Hear a run's events, those that were stored first; the function that is returned ends it.

        What another process does with the run is heard too, as it is stored.
        """
        feed = await self._feed(run_id)
        stop = feed.subscribe(listener)
        if not feed.ended and run_id not in self._followers:
            follower = asyncio.create_task(self._follow(run_id, feed))
            self._followers[run_id] = follower
            follower.add_done_callback(lambda _: self._followers.pop(run_id, None))
        return stop

    async def _follow(self, run_id: str, feed: Feed) -> None:
        """While somebody listens to a run that is not driven here, tell what the store says is new."""
        while feed.is_heard and not feed.ended:
            await asyncio.sleep(FOLLOW_INTERVAL_S)
            if run_id not in self._drivers:
                await self._catch_up(run_id, feed)

    async def _catch_up(self, run_id: str, feed: Feed) -> None:
        events = await self._services.runs.events(run_id, feed.last_seq)
        if run_id not in self._drivers:
            feed.publish_all([event for event in events if event.seq > feed.last_seq])

    async def _caught_up(self, run_id: str) -> Feed:
        """The run's feed with everything that is stored, so that numbers go on where they ended."""
        feed = await self._feed(run_id)
        await self._catch_up(run_id, feed)
        return feed

    def why_unstored(self, run_id: str) -> str | None:
        """Why the end of a run that was driven here could not be stored; None if that did not happen."""
        return self._unstored.get(run_id)

    async def result(self, run_id: str) -> RunResult:
        """What came of a run so far."""
        run = await self._services.runs.get(run_id)
        pending = await self._services.requests.open_requests(run_id)
        until = run.completed_at or self._services.clock.now()
        metrics = await self._rooms.database.read(lambda db: load_metrics(db, run_id, until))
        return RunResult(
            run.run_id,
            run.conversation_id,
            run.message_id,
            run.thread_id,
            run.status,
            run.response if run.status == COMPLETED else None,
            run.error_type,
            run.error_message,
            tuple(pending),
            metrics,
        )

    async def single_request(self, run_id: str) -> ApprovalRequest:
        """The one open request of a run; `UsageError` that lists them if there are several, `NotFound` if none."""
        pending = await self._services.requests.open_requests(run_id)
        if not pending:
            raise NotFound(f"The run {run_id!r} waits for no decision.")
        if len(pending) > 1:
            listed = "; ".join(f"{request.id}: {request.title}" for request in pending)
            raise UsageError(f"{len(pending)} requests are open; name the one that you mean. {listed}")
        return pending[0]

    async def _feed(self, run_id: str) -> Feed:
        """The run's feed; kept while the run is not over."""
        if (feed := self._feeds.get(run_id)) is not None:
            return feed
        await self._services.runs.get(run_id)
        loaded = Feed(await self._services.runs.events(run_id))
        return loaded if loaded.ended else self._feeds.setdefault(run_id, loaded)

    async def aclose(self) -> None:
        """Stop driving; runs that were going on stay as they are and can be resumed."""
        for driver in self._drivers.values():
            driver.detached = True
        tasks = [*self._tasks.values(), *self._followers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
