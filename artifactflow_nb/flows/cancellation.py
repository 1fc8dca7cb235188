"""Cooperative cancellation points: a model call, a tool, a wait.

A cancelled run continues until each worker is at a cancellation point, for at most a second. So a step between two
points is either stored completely or not started; a step that stores and publishes is shielded::

    worker   turn ──> [model call] ──> rows, events ──> [tool] ──> rows, events ──> turn ...
                           ^                               ^
                           └────── cancellation points ────┘
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

CANCEL_TIMEOUT_S = 1.0
"""The time for a cancelled run to reach its cancellation points."""


class _Worker:
    """A part of a run that works independently: the main loop, or a parallel job.

    Attributes:
        n_children: The number of workers for which this worker waits.
        is_ready: Returns whether the awaited result has arrived; None while the worker does not wait.
    """

    __slots__ = ("is_ready", "n_children")

    def __init__(self) -> None:
        self.n_children = 0
        self.is_ready: Callable[[], bool] | None = None

    @property
    def is_waiting(self) -> bool:
        return self.n_children > 0 or (self.is_ready is not None and not self.is_ready())


_current: ContextVar[_Worker | None] = ContextVar("artifactflow_worker", default=None)


class Cancellation:
    """The workers of one run, on one event loop."""

    def __init__(self) -> None:
        self._main = _Worker()
        self._workers = {self._main}
        self._cancelled: asyncio.Task[None] | None = None
        self._is_stopped = False

    @contextmanager
    def worker(self) -> Iterator[None]:
        """Register a parallel worker for which the caller waits."""
        parent, child = self._here(), _Worker()
        parent.n_children += 1
        self._workers.add(child)
        token = _current.set(child)
        try:
            yield
        finally:
            _current.reset(token)
            self._workers.discard(child)
            parent.n_children -= 1
            self._check()

    @contextmanager
    def waiting(self, is_ready: Callable[[], bool] | None = None) -> Iterator[None]:
        """Mark the worker as waiting; a waiting worker can be cancelled until `is_ready` returns true."""
        here = self._here()
        before, here.is_ready = here.is_ready, is_ready or _never
        if self._cancelled is not None:  # the check runs once the worker waits: `is_ready` may be true already
            asyncio.get_running_loop().call_soon(self._check)
        try:
            yield
        finally:
            here.is_ready = before

    async def wait_for(self, work: Awaitable[T]) -> T:
        """Await work at a cancellation point."""
        # `waiting` and `_here` are inlined, because a stream awaits each piece here.
        here = _current.get()
        if here is None or here not in self._workers:
            here = self._main
        before, here.is_ready = here.is_ready, _never
        if self._cancelled is not None:
            asyncio.get_running_loop().call_soon(self._check)
        try:
            try:
                result = await work
            except Exception:
                if self._is_stopped:
                    await self._discard_result()
                raise
            if self._is_stopped:
                await self._discard_result()
        finally:
            here.is_ready = before
        return result

    async def wait_if_cancelled(self) -> None:
        """Return at once, or wait for the end of a cancelled run."""
        if self._cancelled is not None:
            with self.waiting():
                await asyncio.Event().wait()

    @staticmethod
    async def _discard_result() -> NoReturn:
        """Raise the cancellation in place of a result that arrives while the run is being stopped."""
        task = asyncio.current_task()
        if task is None or not task.cancelling():  # a task that is cancelling has swallowed the cancellation
            await asyncio.sleep(CANCEL_TIMEOUT_S)
        raise asyncio.CancelledError

    @property
    def is_cancelled(self) -> bool:
        """Return whether the run was cancelled."""
        return self._cancelled is not None

    def cancel(self, task: "asyncio.Task[None]") -> None:
        """Cancel the task of the run when all workers wait, after a second at the latest."""
        if self._is_stopped:
            task.cancel()
        elif self._cancelled is None:
            self._cancelled = task
            asyncio.get_running_loop().call_later(CANCEL_TIMEOUT_S, self._stop)
            self._check()

    def _here(self) -> _Worker:
        here = _current.get()
        return self._main if here is None or here not in self._workers else here  # another run's

    def _check(self) -> None:
        if self._cancelled is not None and all(worker.is_waiting for worker in self._workers):
            self._stop()

    def _stop(self) -> None:
        if self._cancelled is not None and not self._is_stopped:
            self._is_stopped = True
            self._cancelled.cancel()


def _never() -> bool:
    return False


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine to its end even if the caller is cancelled; the cancellation is raised afterwards."""
    task, is_cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            is_cancelled = True
    if not is_cancelled:
        return task.result()
    if not task.cancelled():
        task.exception()  # asyncio logs an error that nobody retrieves; the end of the run reports the error
    raise asyncio.CancelledError


def start_task(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    """Start a task that nobody awaits; `tasks` keeps the task alive, because the event loop does not."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
