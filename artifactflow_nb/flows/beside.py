"""Jobs at the same time, one of which may need what comes of another: it waits for that, in the same step of the graph.

A job that waits for a person ends the step only when all others of it have ended, so those that wait for it wait for
that person, too.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")  # read when LangGraph is imported

from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from artifactflow_nb.flows.halting import Halting


class Beside:
    """The jobs of a run that are at work in this process.

    Attributes:
        halting: Where each of them may be cut short.
    """

    def __init__(self) -> None:
        self.halting = Halting()
        self._ends: dict[str, asyncio.Future[GraphInterrupt | None]] = {}
        self._begun: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def begin(self) -> None:
        """Forget those that were at work before the run paused."""
        self._ends.clear()
        self._begun.clear()

    @contextmanager
    def at_work(self, key: str) -> Iterator[None]:
        """Note that the job of a call is at work; whoever waits goes on when it has ended, however it does."""
        with self.halting.thread():  # it ends last: those that wait for the job go on before that
            try:
                yield
            except GraphInterrupt as stop:
                self._end(key, stop)
                raise
            except BaseException:
                self._end(key, None)
                raise
            self._end(key, None)

    def begun(self, key: str) -> None:
        """Note that the job of a call has begun: what its agent is told is settled."""
        self._begun[key].set()

    async def until_begun(self, key: str) -> None:
        """Wait until the job of a call that is at work, or will be in this step, has begun, or ended without that."""
        begun = self._begun[key]
        with self.halting.stands(begun.is_set):
            await begun.wait()

    async def ended(self, key: str) -> None:
        """Wait until the job of a call that is at work, or will be in this step, has ended."""
        end = self._future(key)
        with self.halting.stands(end.done):
            stop = await end
        if stop is not None:
            interrupt(stop.args[0][0].value)  # raises: what it waits for, this job waits for

    def _end(self, key: str, stop: GraphInterrupt | None) -> None:
        self.begun(key)
        if not (end := self._future(key)).done():
            end.set_result(stop)

    def _future(self, key: str) -> "asyncio.Future[GraphInterrupt | None]":
        if key not in self._ends:
            self._ends[key] = asyncio.get_running_loop().create_future()
        return self._ends[key]
