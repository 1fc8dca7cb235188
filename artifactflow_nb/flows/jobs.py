"""Parallel jobs of a run, which may depend on one another within one step of the graph.

A job that waits for a person ends the step only when all other jobs have ended; the jobs that depend on it then wait
for the same person.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from artifactflow_nb.flows.cancellation import Cancellation


class JobBoard:
    """The jobs of a run that are running in this process.

    Attributes:
        cancellation: Their cancellation points.
    """

    def __init__(self) -> None:
        self.cancellation = Cancellation()
        self._ends: dict[str, asyncio.Future[GraphInterrupt | None]] = {}
        self._started: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def reset(self) -> None:
        """Forget the jobs from before a pause of the run."""
        self._ends.clear()
        self._started.clear()

    @contextmanager
    def track(self, key: str) -> Iterator[None]:
        """Run the job of a call; jobs that wait for it continue when it has ended, also by an error."""
        with self.cancellation.worker():  # ends last: jobs that wait for this one continue before that
            try:
                yield
            except GraphInterrupt as stop:
                self._end(key, stop)
                raise
            except BaseException:
                self._end(key, None)
                raise
            self._end(key, None)

    def mark_started(self, key: str) -> None:
        """Note that the job of a call has started: its instruction is final."""
        self._started[key].set()

    async def wait_started(self, key: str) -> None:
        """Wait until the job of a call of this step has started, or has ended without starting."""
        started = self._started[key]
        with self.cancellation.waiting(started.is_set):
            await started.wait()

    async def wait_ended(self, key: str) -> None:
        """Wait until the job of a call of this step has ended."""
        end = self._future(key)
        with self.cancellation.waiting(end.done):
            stop = await end
        if stop is not None:
            interrupt(stop.args[0][0].value)  # raises: this job waits at the same gates

    def _end(self, key: str, stop: GraphInterrupt | None) -> None:
        self.mark_started(key)
        if not (end := self._future(key)).done():
            end.set_result(stop)

    def _future(self, key: str) -> "asyncio.Future[GraphInterrupt | None]":
        if key not in self._ends:
            self._ends[key] = asyncio.get_running_loop().create_future()
        return self._ends[key]
