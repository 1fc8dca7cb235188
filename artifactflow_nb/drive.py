"""Driving one run's flow to its end or to a pause; the one place that ends a run.

::

    flow ───> an answer ───────────────────────────────> complete
      ^  ├──> an exception ────────────────────────────> error, cancelled
      │  └──> the store fails ─────────────────────────> nothing is stored: the run is interrupted, and can be resumed
      └ yes ─ is a gate's last request decided by now? ─ no ──> complete (interrupted): the run waits

A resume carries no value: the flow goes on where it stopped, and reads the decisions from the store.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from artifactflow_nb.approvals import ApprovalPolicy
from artifactflow_nb.budget import Budget
from artifactflow_nb.checkpoints import Checkpoints
from artifactflow_nb.errors import Conflict, NotFound, StoreError, masked, told
from artifactflow_nb.events import MAIN_JOB, StreamEvent, StreamEventType
from artifactflow_nb.flow_registry import FlowRegistry
from artifactflow_nb.flows.flow import Standing
from artifactflow_nb.flows.journal import Feed, Journal
from artifactflow_nb.flows.permission import announce_decisions, take_answers
from artifactflow_nb.flows.plan_desk import broken_off
from artifactflow_nb.flows.services import RunContext, Services
from artifactflow_nb.flows.subruns import Subruns
from artifactflow_nb.flows.unbroken import unbroken
from artifactflow_nb.recordings.deck import Deck
from artifactflow_nb.recordings.left import load_left
from artifactflow_nb.recordings.tape import Tape
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.metrics import load_metrics
from artifactflow_nb.store.ownership import Ownership
from artifactflow_nb.store.runs import CANCELLED, COMPLETED, FAILED, WAITING, StoredRun
from artifactflow_nb.store.storable import storable_text
from artifactflow_nb.store.subruns import load_begun
from artifactflow_nb.tools.threads import is_cancelled
from artifactflow_nb.xml_calls import parse_reply

if TYPE_CHECKING:
    from sqlite3 import Connection

RAMP = 8
"""How many new runs make their way to their first model call at the same time; the others wait for their turn.

All of them at once would each hold half a run in memory: with 200, the garbage collector took a fifth of the time.
"""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rooms:
    """What every driver of an engine works with.

    Attributes:
        services: The engine's rooms.
        flows: The flows by name.
        checkpoints: How far runs have come.
        database: The store.
        policy: Who answers before a person is asked.
        ownership: The locks of the runs that are driven here.
        choices_for_run: What a new run of such a flow, with such a budget, and with such a model in the place of the
            configured one, keeps, so that another process can go on with it: JSON.
        sources_for_run: The sources that a new run searches, as they are when it begins.
        check_budget: Refuses a budget that would never be reached in a run with such a model.
        check_resumed: Refuses a run that was begun with a flow, a model or a budget that this engine cannot keep to.
        deck: What runs are played from and recorded into.
        services_for_run: The services of a run: with the agents as they were configured when it was begun.
        offer_recorded: Offers agents, where runs are played, what MCP servers offered to a run with this manifest.
        subruns: What runs begin others by.
        ramp: Lets new runs through to their first model call, a few at a time.
    """

    services: Services
    flows: FlowRegistry
    checkpoints: Checkpoints
    database: Database
    policy: ApprovalPolicy
    ownership: Ownership
    choices_for_run: Callable[[str, Budget | None, str | None], Awaitable[dict[str, Any]]]
    sources_for_run: Callable[[], Awaitable[list[str]]]
    check_budget: Callable[[Budget, str | None], None]
    check_resumed: Callable[[StoredRun], Awaitable[None]]
    deck: Deck
    services_for_run: Callable[[StoredRun], Services]
    subruns: Callable[[], Subruns]
    offer_recorded: Callable[[Mapping[str, Any]], None] = lambda _manifest: None
    ramp: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(RAMP))


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends: its status, its terminal event and what becomes the message's response."""

    status: str
    kind: StreamEventType
    data: Mapping[str, Any]
    response: str | None = None

    @property
    def why(self) -> str:
        """Why what is not over ends with the run."""
        if self.status == CANCELLED:
            return "The run was cancelled."
        return f"The run failed: {self.data.get('message', '')}"


class RunDriver:
    """Drives one run while this process owns it.

    Args:
        rooms: What drivers work with.
        run: The run's row as it was when the process took it.
        feed: The run's events so far, and who is told of those to come.
        tape: What comes to the run from outside.
        owner: The owner that the run's row names; its lock is let go when the run is driven no longer.
        is_new: Whether the run was just begun here: nothing was decided on it, and it stands nowhere in its graph yet.

    Attributes:
        lock: Orders decisions and pauses: who holds it can rely on whether the run is driven.
        driving: Whether the run is driven; a decision that comes while it is will be seen.
        detached: Set before cancelling the task to leave the run as it stands, to be resumed later.
        clicked: Set before cancelling it because somebody clicked.
        halting: Cuts it short where its work stands.
        ended: Whether the run was brought to its end here.
        unstored: Why the run was left interrupted: what went wrong with the store, and what to do; None if it was not.
        unrecorded: Why the run, which is stored, is not in the cassette; None if it is, or has not to be.
    """

    def __init__(self, rooms: Rooms, run: StoredRun, feed: Feed, tape: Tape, owner: str, *, is_new: bool) -> None:
        self.run = run
        self.owner = owner
        self.lock = asyncio.Lock()
        self.driving = True
        self.detached = False
        self.clicked = False
        self.ended = False
        self.unstored: str | None = None
        self.unrecorded: str | None = None
        self._rooms = rooms
        self._feed = feed
        self._is_new = is_new
        self._tape = tape
        self._journal = Journal(run.run_id, self._tape, rooms.services.runs, feed)
        services = rooms.services_for_run(run)
        watch = services.watchers.of_run(run, self._journal, services.mask, services.plans)
        given = services, self._tape, watch, rooms.subruns(), self._leave_ramp
        self._context = RunContext(run, rooms.policy, self._journal, *given, is_new=is_new)
        self.halting = self._context.beside.halting
        self._on_ramp = False

    async def drive(self) -> None:
        """Drive until the run ends or waits. What goes wrong becomes the run's end, never an exception.

        A store that fails is no end: the run is left to be resumed.
        """
        if (task := asyncio.current_task()) is not None:
            self._tape.driven_by(partial(self.halting.halt, task))
        try:
            ending = await self._drive()
        except asyncio.CancelledError:
            if self.detached:
                raise
            ending = self._cancelled()
        except Exception as error:  # noqa: BLE001 - whatever a flow raises has to end the run, and to be told
            if is_cancelled() and self.detached:
                return
            if _is_of_the_store(error) and not is_cancelled():
                await self._interrupt(error)
                return
            ending = self._cancelled() if is_cancelled() else self._failed(error)
        if ending is not None:
            await self.end(ending)

    async def _drive(self) -> Ending | None:
        """The run's end; None if it waits."""
        if self._is_new:
            if self._tape.stops:
                return self._cancelled()
            with self.halting.stands():
                self._on_ramp = await self._rooms.ramp.acquire()
        try:
            if self._is_new:
                await self.halting.unless_halted()
            return await self._to_an_end()
        finally:
            self._leave_ramp()

    def _leave_ramp(self) -> None:
        if self._on_ramp:
            self._on_ramp = False
            self._rooms.ramp.release()

    async def _to_an_end(self) -> Ending | None:
        has_paused = not self._is_new and not await self._take_up()
        while True:
            if not self._is_new:
                await self.announce()
            if has_paused:
                self._tape.clock.go_on(self._feed.opened_at)
            if self._tape.stops:
                return self._cancelled()
            standing = await self._go_on()
            self._is_new = False
            if standing.failure is not None:
                return _failure(standing.failure.error_type, standing.failure.message)
            if not (gates := standing.gates):
                return await self._completed(standing.response)
            async with self.lock:
                has_paused = False
                while not has_paused and not await self._hear(gates):
                    if self._tape.ends_unpaused:
                        return self._cancelled()
                    has_paused = await self._pause(gates)
                if has_paused and not await self._goes_on(gates):
                    return None

    async def _take_up(self) -> bool:
        """Go on in the run's time if its process ended while it was at work; whether that was so."""
        if self.run.status == WAITING:
            return False
        left = await self._rooms.database.read(lambda db: load_left(db, self.run.run_id))
        if left.moments:
            self._tape.clock.take_up(left)
        return bool(left.moments)

    async def announce(self, *, only_while_waiting: bool = False) -> None:
        """Say the decisions that were taken while the run is driven."""
        requests, run_id = self._rooms.services.requests, self.run.run_id
        await announce_decisions(requests, self._journal, run_id, only_while_waiting=only_while_waiting)

    async def _go_on(self) -> Standing:
        """Let the flow go on from where it stands."""
        checkpoints = self._rooms.checkpoints
        async with checkpoints.using():
            is_begun = not self._is_new and await checkpoints.knows(self.run.thread_id)
            return await self._rooms.flows.of_run(self.run).go_on(self._context, is_begun=is_begun)

    async def _hear(self, gates: Sequence[Sequence[str]]) -> bool:
        """Take the decisions that are recorded, and say all that were taken; whether the run can go on."""
        requests = self._rooms.services.requests
        await take_answers(requests, self._tape, by_code=True)
        await self.announce()
        return await requests.any_decided(gates)

    async def _pause(self, gates: Sequence[Sequence[str]]) -> bool:
        """Let the run wait at these gates; False if somebody decided something at the last moment."""
        services, run_id = self._rooms.services, self.run.run_id
        await self._journal.flush()
        pending = [request.id for request in await services.requests.open_requests(run_id)]
        data = {**await self._outcome(success=False, response=""), "interrupted": True, "pending": pending}
        # Whoever decides later, in whatever process, reads from the gates whether the run can go on.
        data["gates"] = sorted([asked for asked in gate if asked in pending] for gate in gates)
        if not all(data["gates"]):  # a run that this one began went on at this moment
            return False
        return await unbroken(self._rest(self._journal.stamp(StreamEventType.COMPLETE, data)))

    async def _rest(self, event: StreamEvent) -> bool:
        """Store that the run waits, and say it; False if it does not."""
        if not await self._rooms.services.runs.pause(self.run.run_id, event):
            return False
        self._journal.publish(event)
        self._tape.paused()
        return True

    async def _goes_on(self, gates: Sequence[Sequence[str]]) -> bool:
        """Whether somebody has decided by now, and the run, which waits, is ours again; else it rests."""
        is_ended = await self._rooms.subruns().answer_at_pause(self.run, gates)
        await self.announce(only_while_waiting=True)
        is_over = is_ended or await self._rooms.services.requests.any_decided(gates)
        if is_over and await self._rooms.services.runs.claim(self.run.run_id, self.owner):
            return True
        self._stop()
        await self._keep()
        return False

    async def _keep(self) -> None:
        """Put the run as it rests into the cassette; a cassette that cannot be written does not hurt the run."""
        run_id = self.run.run_id
        if self._rooms.deck.file is None:  # as for most runs: the store is not even asked
            return
        try:
            recording = await self._rooms.database.read(lambda db: self._rooms.deck.loaded(db, run_id))
            await self._rooms.deck.keep(recording)
        except StoreError as error:
            self.unrecorded = str(error)

    async def _completed(self, response: str) -> Ending:
        data = {**await self._outcome(success=True, response=response), "interrupted": False}
        return Ending(COMPLETED, StreamEventType.COMPLETE, data, response)

    async def _outcome(self, *, success: bool, response: str) -> dict[str, Any]:
        until = self._tape.clock.read()
        metrics = await self._rooms.database.read(lambda db: load_metrics(db, self.run.run_id, until))
        return {"success": success, "response": response, "execution_metrics": metrics.as_json()}

    def _cancelled(self) -> Ending:
        """The end of a cancelled run, with the prose that had arrived, and whether it was a click."""
        partial = storable_text(parse_reply(self._feed.arriving_text(MAIN_JOB)).text)
        clicked = {"clicked": True} if self.clicked or self._tape.was_stopped else {}
        return Ending(CANCELLED, StreamEventType.CANCELLED, {"partial": partial, **clicked}, partial or None)

    def _failed(self, error: Exception) -> Ending:
        logger.debug("Run %s failed", self.run.run_id, exc_info=error)
        return _failure(type(error).__name__, told(self._masked(error)))

    def _masked(self, error: Exception) -> Exception:
        """An error that is to be told: whatever was called in the run may have said secrets in it."""
        return masked(error, self._rooms.services.mask)

    async def cancel(self) -> None:
        """End a run that waits."""
        await self.end(self._cancelled())

    async def end(self, ending: Ending) -> None:
        """End the run, whoever asks meanwhile to cancel it: an end that has begun is not cut short."""
        self.ended = True
        task = asyncio.create_task(self._end(ending))
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                continue
        self._stop()

    async def close(self) -> None:
        """Store what the run has said, now that it is left as it stands."""
        await self._journal.close()

    def _stop(self) -> None:
        self.driving = False
        self._rooms.ownership.let_go(self.owner)

    async def _end(self, ending: Ending) -> None:
        """Store the end and say it; an end that cannot be stored is none."""
        services, run_id = self._rooms.services, self.run.run_id
        if ending.status != COMPLETED:  # whose time its outcome was reckoned with
            with suppress(StoreError):  # which storing the end meets too
                await self.announce()
            self._tape.clock.read()
        try:
            plans = [] if ending.status == COMPLETED else await broken_off(self._context, ending.why)
            begun: list[str] = []

            def along(db: "Connection") -> list[StreamEvent]:
                begun.extend(load_begun(db, run_id))
                return [told for plan in plans for told in services.plans.write(db, plan)]

            event = self._journal.stamp(ending.kind, ending.data)
            await self._journal.flush()
            events = await services.runs.finish(
                run_id,
                ending.status,
                event,
                response=ending.response,
                along=along,
            )
        except Conflict:
            self._feed.publish_all(await services.runs.events(run_id, self._feed.last_seq))
            return
        except Exception as error:  # noqa: BLE001 - a store that fails must not leave people waiting
            await self._interrupt(error)
            return
        for event in events:
            self._journal.publish(event)
        await self._rooms.subruns().end(begun, by_code=not ending.data.get("clicked"))
        await self._rooms.checkpoints.drop(self.run.thread_id)
        await self._keep()

    async def _interrupt(self, error: Exception) -> None:
        """Leave the run as the store has it, to be resumed, and say why to those who listen."""
        with suppress(StoreError):  # what has happened so far, if that can be stored; why not is being told
            await self._journal.flush()
        self.unstored = (
            f"{told(self._masked(error))} The run {self.run.run_id} is interrupted. Once that is put right, "
            "run.resume() goes on with it and repeats nothing that is stored."
        )
        self._rooms.flows.let_go(self.run.run_id)  # to put it right may mean to register another graph
        self._stop()
        data = {"error_type": type(error).__name__, "message": self.unstored}
        self._journal.publish(self._journal.stamp(StreamEventType.ERROR, data))


def _failure(error_type: str, message: str) -> Ending:
    return Ending(FAILED, StreamEventType.ERROR, {"error_type": error_type, "message": storable_text(message)})


def _is_of_the_store(error: Exception) -> bool:
    """Whether the store itself failed, as opposed to refusing a step."""
    return isinstance(error, StoreError) and not isinstance(error, (NotFound, Conflict))
