"""Where the work of a run is cut short: in a model call, in a tool, in a wait.

A run that is cancelled goes on for the moment that it takes until each of its threads of work stands in such a place;
only where that takes longer than a second it is cut wherever it is. So a recording tells where it ended, and a replay
can end there, too::

    thread   turn ──> [model call] ──> rows, events ──> [tool] ──> rows, events ──> turn ...
                           ^                               ^
                           └───── here it may be cut ──────┘        [ ]: it stands
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

HALT_S = 1.0
"""How long a run that is cancelled may go on to places where it can be cut short."""


class _Thread:
    """A thread of work: the main loop, or a job beside others.

    Attributes:
        n_at_work: How many threads work for this one, which stands as long as they do.
        goes_on: Whether what it stands for has come; None where it does not stand.
    """

    __slots__ = ("goes_on", "n_at_work")

    def __init__(self) -> None:
        self.n_at_work = 0
        self.goes_on: Callable[[], bool] | None = None

    @property
    def stands(self) -> bool:
        return self.n_at_work > 0 or (self.goes_on is not None and not self.goes_on())


_current: ContextVar[_Thread | None] = ContextVar("artifactflow_thread_of_work", default=None)


class Halting:
    """The threads of work of one run, on one event loop."""

    def __init__(self) -> None:
        self._main = _Thread()
        self._threads = {self._main}
        self._halted: asyncio.Task[None] | None = None
        self._is_cut = False

    @contextmanager
    def thread(self) -> Iterator[None]:
        """Work in a thread beside others, for the one that this is called in."""
        parent, mine = self._here(), _Thread()
        parent.n_at_work += 1
        self._threads.add(mine)
        token = _current.set(mine)
        try:
            yield
        finally:
            _current.reset(token)
            self._threads.discard(mine)
            parent.n_at_work -= 1
            self._look()

    @contextmanager
    def stands(self, goes_on: Callable[[], bool] | None = None) -> Iterator[None]:
        """Wait for something; from the moment on when it has come, the thread does not stand any more."""
        here = self._here()
        before, here.goes_on = here.goes_on, goes_on or _never
        self._look_soon()
        try:
            yield
        finally:
            here.goes_on = before

    async def wait_for(self, work: Awaitable[T]) -> T:
        """What something gives or raises, which is waited for."""
        with self.stands():
            try:
                given = await work
            except Exception:
                await self._unless_cut()
                raise
            await self._unless_cut()
        return given

    async def next(self, events: AsyncIterator[T]) -> T | None:
        """The next of some events, which is waited for; None after the last."""
        return await self.wait_for(anext(events, None))

    async def unless_halted(self) -> None:
        """Return, unless the run is to end: then stand here until it does."""
        if self._halted is not None:
            with self.stands():
                await asyncio.Event().wait()

    async def _unless_cut(self) -> None:
        """Return, unless the run is being cut short at this moment: what came since is not heard any more."""
        if not self._is_cut:
            return
        task = asyncio.current_task()
        if task is None or not task.cancelling():  # else it was told, and has swallowed that
            await asyncio.sleep(HALT_S)
        raise asyncio.CancelledError

    @property
    def is_halted(self) -> bool:
        """Whether the run is to end."""
        return self._halted is not None

    def halt(self, task: "asyncio.Task[None]") -> None:
        """Have every thread stand where it comes to, and cancel the task of their run when all do; soon in any case."""
        if self._is_cut:
            task.cancel()
        elif self._halted is None:
            self._halted = task
            asyncio.get_running_loop().call_later(HALT_S, self._cut)
            self._look()

    def _here(self) -> _Thread:
        here = _current.get()
        return self._main if here is None or here not in self._threads else here  # it may be another run's

    def _look_soon(self) -> None:
        """Look when whoever begins to stand has been let to: what it waits for may be there already."""
        if self._halted is not None:
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        if self._halted is not None and all(thread.stands for thread in self._threads):
            self._cut()

    def _cut(self) -> None:
        if self._halted is not None and not self._is_cut:
            self._is_cut = True
            self._halted.cancel()


def _never() -> bool:
    return False
