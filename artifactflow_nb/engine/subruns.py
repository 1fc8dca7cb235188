"""Subruns: runs that carry out a tool call of a parent run; a subrun ends with the parent run at the latest."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.runs import ParentCall
from artifactflow_nb.engine.driver import RunScheduler
from artifactflow_nb.errors import Conflict, NotFound, StoreError
from artifactflow_nb.flows.services import Services, SubrunPause
from artifactflow_nb.store.runs import RUNNING, WAITING, StoredRun

_LAST_OF_SEGMENT = {StreamEventType.COMPLETE, StreamEventType.CANCELLED, StreamEventType.ERROR}

POLL_INTERVAL_S = 2.0
"""Interval at which a waiting run checks whether the process that drives its subrun still exists."""


class SubrunService:
    """Starts runs for other runs, as the `SubrunRunner` of flows. `begin` is `ExecutionController.begin`."""

    def __init__(self, services: Services, begin: Callable[..., Awaitable[StoredRun]], scheduler: RunScheduler) -> None:
        self._services = services
        self._begin = begin
        self._scheduler = scheduler

    async def begin_subrun(self, parent_call: ParentCall, question: str, flow: str, **chosen: Any) -> StoredRun:
        """Start a run for a tool call, in a conversation of its own."""
        run = await self._begin(question, flow=flow, parent_call=parent_call, **chosen)
        await self._scheduler.start(run)
        return run

    async def wait_until_idle(self, run_id: str) -> SubrunPause:
        """Drive a run and return when the run has ended or waits; see `flows.services.SubrunRunner`."""
        runs, approvals, scheduler = self._services.runs, self._services.approvals, self._scheduler
        queue: asyncio.Queue[StreamEvent] = asyncio.Queue()
        stop = await scheduler.feeds.subscribe(
            run_id, lambda event: queue.put_nowait(event) if event.type in _LAST_OF_SEGMENT else None
        )
        try:
            last_seq = 0
            while not queue.empty():
                last_seq = queue.get_nowait().seq
            run = await runs.get(run_id)
            if run.status not in {RUNNING, WAITING}:
                return SubrunPause(run, ())
            if run.status == WAITING and last_seq and not await approvals.can_resume(run_id):
                return SubrunPause(run, await approvals.gates(run_id))
            await scheduler.resume_if_ready(run)
            event = None
            while event is None or event.seq <= last_seq:
                try:
                    event = await asyncio.wait_for(queue.get(), POLL_INTERVAL_S)
                except TimeoutError:  # if the process that drives the run has died, this process continues the run
                    await scheduler.resume_if_ready(await runs.get(run_id))
            run = await runs.get(run_id)
            if event.type is StreamEventType.COMPLETE and event.data.get("interrupted"):
                return SubrunPause(run, event.data["gates"])
            if run.status in {RUNNING, WAITING}:  # the end was published, but could not be stored
                raise StoreError(str(event.data.get("message") or f"The run {run_id} was abandoned."))
            return SubrunPause(run, ())
        finally:
            stop()

    async def cancel_subruns(self, run_ids: Sequence[str], *, by_code: bool) -> None:
        """Cancel runs whose parent run has ended."""

        async def cancel(run_id: str) -> None:
            with suppress(Conflict, NotFound, StoreError):  # the subrun has ended already, or reports the problem
                await self._scheduler.cancel(run_id, by_code=by_code)

        await asyncio.gather(*(cancel(run_id) for run_id in run_ids))
