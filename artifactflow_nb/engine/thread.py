"""The engine's own thread: the one place where calls cross between threads.

A cell that computes blocks the kernel's event loop, and a stream on that loop would stop meanwhile. So the engine has
an event loop of its own in a daemon thread, to which other threads submit work.
"""

import asyncio
import atexit
import errno
import logging
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self, TypeVar

from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.errors import StoreError, UsageError
from artifactflow_nb.store.faults import has_descriptors, store_error
from artifactflow_nb.store.forks import ADVICE

T = TypeVar("T")

CLOSE_TIMEOUT_S = 10.0
"""Time limit for closing; killing an MCP server that ignores the end of its input and signals takes four seconds."""

logging.getLogger("artifactflow_nb").addHandler(logging.NullHandler())
# Without a handler, Python prints warnings to standard error, and from this thread they land below any cell.

_FOLLOW_EVERY_S = 0.1


class DeferredInterrupts:
    """Defers SIGINT within a `with` block of the main thread; at its end the usual handler is called.

    Attributes:
        interrupted_at: The time of the first interrupt, by `time.monotonic`; None without one.
    """

    def __init__(self) -> None:
        self.interrupted_at: float | None = None
        self._handler: Callable[[int, FrameType | None], Any] | None = None

    def __enter__(self) -> Self:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and threading.current_thread() is threading.main_thread():
            self._handler = handler
            signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.interrupted_at = self.interrupted_at or time.monotonic()

    def __exit__(self, *_exc: object) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            if self.interrupted_at is not None:
                self._handler(signal.SIGINT, None)


class EngineThread:
    """An open engine with its thread; closed by `close`, by garbage collection, or at the end of the process.

    Args:
        make: Makes the engine; called on the new thread, which opens the engine. Its errors are raised here.

    An interrupt of the main thread is deferred until the engine is open, which is then closed again, but for ten
    seconds at most.

    Errors: `UsageError` in a process that was forked from the one that created this.
    """

    def __init__(self, make: Callable[[], Engine]) -> None:
        if not has_descriptors():  # asyncio would leave half of a loop behind
            raise _not_opened(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        with DeferredInterrupts():  # half of a loop complains when it is collected
            self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="artifactflow-engine", daemon=True)
        self._pid = os.getpid()
        self._finalizer: weakref.finalize[..., EngineThread] | None = None
        try:
            with DeferredInterrupts() as deferred:
                self._thread.start()
                self.engine = self._opened(make, deferred)
                self._finalizer = weakref.finalize(self, _close, self.engine, self._loop, self._thread, self._pid)
                atexit.register(self._finalizer)
        except BaseException:
            with DeferredInterrupts():
                self.close()
            raise

    def _opened(self, make: Callable[[], Engine], deferred: DeferredInterrupts) -> Engine:
        opening = self._begin(_open(make))
        while not wait([opening], _FOLLOW_EVERY_S).done:
            if deferred.interrupted_at is not None and time.monotonic() > deferred.interrupted_at + CLOSE_TIMEOUT_S:
                opening.cancel()
                raise KeyboardInterrupt
        return opening.result()

    def __reduce__(self) -> NoReturn:
        """Refuse copies and pickles, also of handles that use the engine."""
        raise UsageError(
            "This object belongs to the engine of a workbench, and cannot be copied or pickled. Keep its id or name, "
            "or its values, such as texts and frames."
        )

    @property
    def is_open(self) -> bool:
        """True while work can be submitted."""
        return self._pid == os.getpid() and not self._loop.is_closed() and self._thread.is_alive()

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine on the engine's loop; return its future."""
        if self._pid != os.getpid():
            work.close()
            raise UsageError(
                f"This workbench was made in process {self._pid}, which this one was forked from. {ADVICE}"
            )
        if not self.is_open:
            work.close()
            raise UsageError("This workbench is closed. Make a new one: its data are still there.")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a short coroutine on the engine's loop, and return its result or raise its error."""
        return self._begin(work).result()

    def call_interruptible(self, work: Coroutine[Any, Any, T], on_tick: Callable[[], object]) -> T:
        """Run a long coroutine: `on_tick` is called ten times a second, and interrupting the cell cancels it."""
        working = self._begin(work)
        try:
            while not wait([working], _FOLLOW_EVERY_S).done:
                on_tick()
        except BaseException:
            working.cancel()
            raise
        return working.result()

    def _begin(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        if threading.current_thread() is self._thread:
            work.close()
            raise UsageError(
                "This was called on the engine's own thread, which would wait for itself forever. Call it from a cell, "
                "or await the method of the engine instead."
            )
        return self.submit(work)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback on the engine's loop; does nothing once the engine is closed."""
        if self._pid == os.getpid() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *args)

    def close(self) -> None:
        """Close the engine and end its thread."""
        if self._finalizer is None:  # it was never open
            _stop(self._loop, self._thread)
            return
        self._finalizer()
        atexit.unregister(self._finalizer)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


async def _open(make: Callable[[], Engine]) -> Engine:
    try:
        return await make().open()
    except OSError as error:
        raise _not_opened(error) from error


def _not_opened(error: OSError) -> StoreError:
    """The error if the engine cannot be opened, mostly for lack of file descriptors."""
    return store_error(Path(error.filename or "."), "The workbench cannot be opened", error, salvage=False)


async def _close_all(engine: Engine) -> None:
    """Close the engine, and cancel all tasks that are left on its loop."""
    await engine.aclose()
    waiting = asyncio.all_tasks() - {asyncio.current_task()}
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def _close(engine: Engine, loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int) -> None:
    if pid != os.getpid():  # a forked child has the parent's files of the loop, but not the thread
        return
    if thread.is_alive() and thread is not threading.current_thread():
        closing = asyncio.run_coroutine_threadsafe(_close_all(engine), loop)
        try:
            closing.result(CLOSE_TIMEOUT_S)
        except TimeoutError:
            closing.cancel()
    _stop(loop, thread)


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if thread.is_alive():
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(CLOSE_TIMEOUT_S)
    elif not loop.is_closed():  # it was never started
        loop.close()
