"""Driving one run's graph to its end or to a pause; the one place that ends a run.

::

    graph ──> all loops done ──────────────────────────> complete
      ^  └──> an exception ────────────────────────────> error, cancelled
      └ yes ─ is a gate's last request decided by now? ─ no ──> complete (interrupted): the run waits

A resume carries no value: the graph is entered again where it stopped, and the gate reads the decisions from the store.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.approvals import ApprovalPolicy
from artifactflow_nb.errors import ArtifactFlowError
from artifactflow_nb.events import MAIN_JOB, StreamEvent, StreamEventType
from artifactflow_nb.flows.journal import Feed, Journal
from artifactflow_nb.flows.loop import RECURSION_LIMIT, LoopGraph, final_text
from artifactflow_nb.flows.permission import announce_decisions
from artifactflow_nb.flows.services import RunContext, Services
from artifactflow_nb.flows.state import initial_state
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.metrics import load_metrics
from artifactflow_nb.store.runs import CANCELLED, COMPLETED, FAILED, StoredRun

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # isort: skip - flows.loop sets its strict mode first

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Flow:
    """A compiled flow and the agent that its main loop runs."""

    graph: LoopGraph
    agent: str


@dataclass(frozen=True, slots=True)
class Rooms:
    """What every driver of an engine works with.

    Attributes:
        services: The engine's rooms.
        flows: The flows by name.
        saver: Where LangGraph keeps its program counters.
        database: The store.
        policy: Who answers before a person is asked.
        owner: The engine's id, as its lock file names it.
    """

    services: Services
    flows: Mapping[str, Flow]
    saver: AsyncSqliteSaver
    database: Database
    policy: ApprovalPolicy
    owner: str


class RunDriver:
    """Drives one run while this process owns it.

    Attributes:
        run: The run's row as it was when the process took it.
        lock: Orders decisions and pauses: who holds it can rely on whether the run is driven.
        driving: Whether the run is driven; a decision that comes while it is will be seen.
        detached: Set before cancelling the task to leave the run as it stands, to be resumed later.
    """

    def __init__(self, rooms: Rooms, run: StoredRun, feed: Feed) -> None:
        self.run = run
        self.lock = asyncio.Lock()
        self.driving = True
        self.detached = False
        self._rooms = rooms
        self._feed = feed
        self._flow = rooms.flows[run.flow]
        self._journal = Journal(run.run_id, rooms.services.clock, rooms.services.runs, feed)
        self._context = RunContext(run, rooms.policy, self._journal, rooms.services)

    async def drive(self, *, resumed: bool) -> None:
        """Drive until the run ends or waits. What goes wrong becomes the run's end, never an exception."""
        try:
            await self._drive(resumed)
        except asyncio.CancelledError:
            if self.detached:
                raise
            await self.cancel()
        except Exception as error:  # noqa: BLE001 - whatever a flow raises has to end the run, and to be told
            await self._fail(error)
        finally:
            self.driving = False

    async def _drive(self, resumed: bool) -> None:
        if not resumed:
            self._say_hello()
        while True:
            await self.announce()
            state = await self._run_graph()
            if "__interrupt__" not in state:
                await self._complete(state)
                return
            async with self.lock:
                if not await self._ready() and not await self._pause():
                    return

    def _say_hello(self) -> None:
        run = self.run
        data = {
            "conversation_id": run.conversation_id,
            "message_id": run.message_id,
            "thread_id": run.thread_id,
            "flow": run.flow,
            "question": run.question,
        }
        self._journal.emit(StreamEventType.METADATA, data)

    async def announce(self) -> None:
        """Say the decisions that were taken while the run is driven."""
        await announce_decisions(self._context)

    async def _run_graph(self) -> dict[str, Any]:
        """Enter the graph where it stands: at its start, or where its last checkpoint says."""
        config: Any = {"configurable": {"thread_id": self.run.thread_id}, "recursion_limit": RECURSION_LIMIT}
        known = await self._rooms.saver.aget_tuple(config)
        start = None if known else self._initial_state()
        return await self._flow.graph.ainvoke(start, config, context=self._context, durability="async")

    def _initial_state(self) -> Any:
        run = self.run
        return initial_state(
            task=run.question,
            agent=self._flow.agent,
            session_id=run.conversation_id,
            thread_id=run.thread_id,
            user_message_id=run.message_id,
        )

    async def _ready(self) -> bool:
        return await self._rooms.services.requests.ready(self.run.run_id)

    async def _pause(self) -> bool:
        """Let the run wait; True if somebody decided at the last moment and the run is ours again."""
        services, run_id = self._rooms.services, self.run.run_id
        await self._journal.flush()
        pending = [request.id for request in await services.requests.open_requests(run_id)]
        data = {**await self._outcome(success=False, response=""), "interrupted": True, "pending": pending}
        event = self._journal.stamp(StreamEventType.COMPLETE, data)
        await services.runs.pause(run_id, event)
        if await self._ready() and await services.runs.claim(run_id, self._rooms.owner):
            return True
        self.driving = False
        self._journal.publish(event)
        return False

    async def _complete(self, state: Mapping[str, Any]) -> None:
        response = await final_text(self._context, MAIN_JOB, state["graph_response"])
        data = {**await self._outcome(success=True, response=response), "interrupted": False}
        await self._end(COMPLETED, self._journal.stamp(StreamEventType.COMPLETE, data), response)

    async def _outcome(self, *, success: bool, response: str) -> dict[str, Any]:
        until = self._rooms.services.clock.now()
        metrics = await self._rooms.database.read(lambda db: load_metrics(db, self.run.run_id, until))
        return {"success": success, "response": response, "execution_metrics": metrics.as_json()}

    async def cancel(self) -> None:
        """End the run as cancelled, with the text that had arrived."""
        partial = self._feed.arriving_text(MAIN_JOB)
        event = self._journal.stamp(StreamEventType.CANCELLED, {"partial": partial})
        await self._end_safely(CANCELLED, event, partial or None)

    async def _fail(self, error: Exception) -> None:
        logger.debug("Run %s failed", self.run.run_id, exc_info=error)
        told = str(error) if isinstance(error, ArtifactFlowError) else f"{type(error).__name__}: {error}"
        data = {"error_type": type(error).__name__, "message": told}
        await self._end_safely(FAILED, self._journal.stamp(StreamEventType.ERROR, data), None)

    async def _end_safely(self, status: str, event: StreamEvent, response: str | None) -> None:
        """End the run; if even that cannot be stored, those who listen are told all the same."""
        try:
            await self._end(status, event, response)
        except ArtifactFlowError as error:
            data = {"error_type": type(error).__name__, "message": str(error)}
            self._journal.publish(self._journal.stamp(StreamEventType.ERROR, data))

    async def _end(self, status: str, event: StreamEvent, response: str | None) -> None:
        await self._journal.flush()
        await self._rooms.services.runs.finish(self.run.run_id, status, event, response=response)
        await self._rooms.saver.adelete_thread(self.run.thread_id)
        self.driving = False
        self._journal.publish(event)
