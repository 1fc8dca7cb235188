"""A thread that runs the functions that coroutines submit, in order and in batches.

::

    coroutines ──> queue ──> thread runs all queued functions ──> one wake-up of the event loop ──> futures resolve

Waking the event loop is most of the cost of a switch to a thread and back; parallel runs share it. Writes of a batch
also share a commit.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")

MAX_BATCH = 64
"""Most functions in a batch: the limit bounds the time that a caller waits for the work of others."""


class QueuedWork:
    """A queued function and its outcome. The function runs in the context of its coroutine, as with `to_thread`.

    Attributes:
        future: The future on which the coroutine waits.
        result: The function's return value.
        error: The exception that the function raised, or None.
    """

    __slots__ = ("_context", "error", "future", "result", "work")

    def __init__(self, work: Callable[..., Any], future: "asyncio.Future[Any]") -> None:
        self._context = copy_context()
        self.work = work
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self, runner: Callable[[Callable[..., Any]], Any]) -> None:
        """Call `runner` with the function and store the result or the exception."""
        try:
            self.result, self.error = self._context.run(runner, self.work), None
        except BaseException as error:  # noqa: BLE001 - raised in the waiting coroutine instead
            self.result, self.error = None, error


class BatchingThread:
    """A single thread with a queue.

    Args:
        name: The thread's name.
        run_batch: Runs queued functions, on the thread; an exception of `run_batch` becomes the error of all functions.
    """

    def __init__(self, name: str, run_batch: Callable[[Sequence[QueuedWork]], None]) -> None:
        self._run_batch = run_batch
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._queue: list[QueuedWork] = []
        self._is_running = False

    def submit(self, work: Callable[..., T]) -> "asyncio.Future[T]":
        """Queue a function; return the future of the result.

        A function whose future is cancelled before its turn is not run.

        Errors: `RuntimeError` after `close` and at interpreter shutdown.
        """
        job = QueuedWork(work, asyncio.get_running_loop().create_future())
        with self._lock:
            if not self._is_running:
                self._pool.submit(self._drain_queue)
                self._is_running = True
            self._queue.append(job)
        return job.future

    def _drain_queue(self) -> None:
        while True:
            with self._lock:
                batch, self._queue = self._queue[:MAX_BATCH], self._queue[MAX_BATCH:]
                if not batch:
                    self._is_running = False
                    return
            jobs = [job for job in batch if not job.future.cancelled()]
            if not jobs:
                continue
            try:
                self._run_batch(jobs)
            except BaseException as error:  # noqa: BLE001 - every waiting coroutine must be resumed
                for job in jobs:
                    job.result, job.error = None, error
            with suppress(RuntimeError):  # the event loop is closed: no coroutine is waiting
                jobs[0].future.get_loop().call_soon_threadsafe(_resolve_futures, jobs)

    def close(self) -> None:
        """Reject further functions and return when the queued functions have run."""
        self._pool.shutdown()


def _resolve_futures(jobs: Sequence[QueuedWork]) -> None:
    for job in jobs:
        if job.future.done():  # cancelled in the meantime
            continue
        if job.error is None:
            job.future.set_result(job.result)
        else:
            job.future.set_exception(job.error)
