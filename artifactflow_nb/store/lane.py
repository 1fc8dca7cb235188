"""A thread that does what coroutines ask of it, in order, and as much at once as has come in meanwhile.

::

    coroutines ──> queue ──> thread: does all that waits ──> wakes the event loop once ──> tells each coroutine

Waking the event loop is most of what a hop to a thread and back costs; runs that work at the same time share it. What
is done in one go can share more: writes share a commit.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

LARGEST_BATCH = 64
"""How much is done in one go: nobody waits for more than this besides what it asked for."""


class Job:
    """Something to do, and what came of it.

    Attributes:
        work: What to do.
        answer: Where the coroutine waits.
        result: What the work gave.
        error: What it raised; None if it did not.
    """

    __slots__ = ("answer", "error", "result", "work")

    def __init__(self, work: Callable[..., Any], answer: "asyncio.Future[Any]") -> None:
        self.work = work
        self.answer = answer
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self, do: Callable[[Callable[..., Any]], Any]) -> None:
        """Do it, in the way that `do` does works, and keep what that gives or raises."""
        try:
            self.result, self.error = do(self.work), None
        except BaseException as error:  # noqa: BLE001 - the coroutine that asked is who has to know
            self.result, self.error = None, error


class Lane:
    """The thread.

    Args:
        name: The thread's name.
        serve: Runs jobs, on the thread; what it raises itself is told to all of them.
    """

    def __init__(self, name: str, serve: Callable[[Sequence[Job]], None]) -> None:
        self._serve = serve
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._waiting: list[Job] = []
        self._busy = False

    def ask(self, work: Callable[..., T]) -> "asyncio.Future[T]":
        """Have something done; what it gives or raises. `RuntimeError` if the lane is closed or the process ends.

        It is not begun if the future is cancelled before its turn comes.
        """
        job = Job(work, asyncio.get_running_loop().create_future())
        with self._lock:
            if not self._busy:
                self._pool.submit(self._work)
                self._busy = True
            self._waiting.append(job)
        return job.answer

    def _work(self) -> None:
        while True:
            with self._lock:
                jobs, self._waiting = self._waiting[:LARGEST_BATCH], self._waiting[LARGEST_BATCH:]
                if not jobs:
                    self._busy = False
                    return
            wanted = [job for job in jobs if not job.answer.cancelled()]
            if wanted:
                self._do(wanted)
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    wanted[0].answer.get_loop().call_soon_threadsafe(_tell, wanted)

    def _do(self, jobs: Sequence[Job]) -> None:
        try:
            self._serve(jobs)
        except BaseException as error:  # noqa: BLE001 - nobody may be left waiting
            for job in jobs:
                job.result, job.error = None, error

    def close(self) -> None:
        """Take no more, and return when all that was asked for is done."""
        self._pool.shutdown()


def _tell(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.answer.done():  # cancelled meanwhile
            continue
        if job.error is None:
            job.answer.set_result(job.result)
        else:
            job.answer.set_exception(job.error)
