"""The thread of the engines, and the only module in which calls cross between threads.

A running cell blocks the kernel's event loop, and would block streams on that loop. Engines therefore have an event
loop in a daemon thread, to which other threads submit coroutines. All engines of a process share the loop, and the loop
outlives the engines: the HTTP clients of libraries such as LangChain exist once in a process, and a connection belongs
to the loop that opened it.
"""

import asyncio
import atexit
import contextvars
import errno
import logging
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self, TypeVar

from artifactflow_nb.core.language import Language, in_language
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.errors import StoreError, UsageError
from artifactflow_nb.store.faults import has_descriptors, store_error
from artifactflow_nb.store.locks import ADVICE

T = TypeVar("T")
Tasks = weakref.WeakSet[asyncio.Task[Any]]

CLOSE_TIMEOUT_S = 10.0
"""Time limit for closing; killing an MCP server that ignores the end of its input and signals takes four seconds."""

logging.getLogger("artifactflow_nb").addHandler(logging.NullHandler())
# Without a handler, Python prints warnings to standard error, and warnings of this thread land below any cell.

_CHECK_INTERVAL_S = 0.1
"""Interval at which a waiting thread checks for an interrupt, or calls `on_tick`."""

_engine_tasks: contextvars.ContextVar[Tasks | None] = contextvars.ContextVar("engine_tasks", default=None)
"""The tasks of the engine to which the running code belongs."""


class DeferredInterrupts:
    """Defers SIGINT within a `with` block of the main thread; at the end of the block the usual handler is called.

    Attributes:
        interrupted_at: The time of the first interrupt, by `time.monotonic`, or None.
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


def _create_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    """Create a task of the loop and add the task to the tasks of an engine (task factory)."""
    task = asyncio.Task(work, loop=loop, **options)
    if (tasks := _engine_tasks.get()) is not None:
        tasks.add(task)
    return task


class EngineLoop:
    """An event loop in a daemon thread, which runs until the process ends.

    Each task belongs to the engine of the code that created the task, so that an engine is closed with all its tasks.
    """

    _shared: "EngineLoop | None" = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_task_factory(_create_task)
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="artifactflow-engine", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    @classmethod
    def shared(cls) -> "EngineLoop":
        """Return the loop of this process, which the first call starts.

        Errors: `OSError` if there are not enough file descriptors.
        """
        # An interrupt or a lack of descriptors here would leave a half-built loop, which prints warnings at its end.
        with DeferredInterrupts(), cls._lock:
            if cls._shared is None:
                if not has_descriptors():
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                cls._shared = cls()
            return cls._shared

    @classmethod
    def forget(cls) -> None:
        """Drop the loop in a forked child, which has the file descriptors but not the thread of the loop."""
        if cls._shared is not None:
            atexit.unregister(cls._shared.stop)
        cls._shared, cls._lock = None, threading.Lock()

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller is on the thread of the loop."""
        return threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, T], tasks: Tasks) -> "Future[T]":
        """Run a coroutine in a task; the task, and tasks that the coroutine creates, are added to `tasks`."""
        return self._context(tasks).run(asyncio.run_coroutine_threadsafe, work, self._loop)

    def call_soon(self, tasks: Tasks, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback; the tasks that the callback creates are added to `tasks`."""
        self._context(tasks).run(self._loop.call_soon_threadsafe, callback, *args)

    def _context(self, tasks: Tasks) -> contextvars.Context:
        """Copy the caller's context and add the engine's tasks; callbacks and tasks inherit the copy."""
        context = contextvars.copy_context()
        context.run(_engine_tasks.set, tasks)
        return context

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._is_stopped:
            # asyncio raises both errors out of the loop, and in the code that awaits the task. A call of sys.exit() in
            # a node of a user's graph must end the run of the graph, not the engines of the process.
            with suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()
        self._loop.close()

    def stop(self) -> None:
        """Stop the loop and its thread; called at the end of the process."""
        self._is_stopped = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_TIMEOUT_S)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=EngineLoop.forget)


class EngineThread:
    """An open engine on the shared loop; closed by `close`, by garbage collection, or at the end of the process.

    Args:
        make: Creates the engine; called on the thread of the loop, which then opens the engine. Errors are raised here.

    An interrupt of the main thread is deferred until the engine is open, for ten seconds at most. The engine is then
    closed again.

    Errors: `UsageError` in a process that was forked from the process of the engine.
    """

    def __init__(self, make: Callable[[], Engine]) -> None:
        try:
            self._loop = EngineLoop.shared()
        except OSError as error:
            raise _not_opened(error) from error
        self._pid = os.getpid()
        self._tasks = Tasks()
        self._finalizer: weakref.finalize[..., EngineThread] | None = None
        try:
            with DeferredInterrupts() as deferred:
                self.engine = self._opened(make, deferred)
                self._finalizer = weakref.finalize(self, _close, self.engine, self._loop, self._tasks, self._pid)
                atexit.register(self._finalizer)
        except BaseException:
            with DeferredInterrupts():
                self.close()
            raise

    def _opened(self, make: Callable[[], Engine], deferred: DeferredInterrupts) -> Engine:
        opening = self._loop.submit(_open(make), self._tasks)
        while not wait([opening], _CHECK_INTERVAL_S).done:
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
    def language(self) -> Language:
        """Language of the views, in which the work of the engine runs."""
        return self.engine.settings.language

    @property
    def is_open(self) -> bool:
        """Whether work can be submitted."""
        return self._pid == os.getpid() and self._finalizer is not None and self._finalizer.alive

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine on the engine's loop; return its future."""
        if self._pid != os.getpid():
            work.close()
            raise UsageError(
                f"This workbench was created in process {self._pid}, from which this process was forked. {ADVICE}"
            )
        if not self.is_open:
            work.close()
            raise UsageError("This workbench is closed. Create a new workbench; the data are still stored.")
        with in_language(self.language):  # tasks inherit the language from the code that creates them
            return self._loop.submit(work, self._tasks)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a short coroutine on the engine's loop; return the result or raise the error of the coroutine."""
        return self._begin(work).result()

    def call_interruptible(self, work: Coroutine[Any, Any, T], on_tick: Callable[[], object]) -> T:
        """Run a long coroutine: `on_tick` is called ten times a second; interrupting the cell cancels the coroutine."""
        working = self._begin(work)
        try:
            while not wait([working], _CHECK_INTERVAL_S).done:
                on_tick()
        except BaseException:
            working.cancel()
            raise
        return working.result()

    def _begin(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        if self._loop.is_current_thread:
            work.close()
            raise UsageError(
                "This method was called on the engine's own thread, which would wait for itself forever. Call the "
                "method from a cell, or await the method of the engine instead."
            )
        return self.submit(work)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback on the engine's loop, unless the engine is closed."""
        if self.is_open:
            with in_language(self.language):
                self._loop.call_soon(self._tasks, callback, *args)

    def close(self) -> None:
        """Close the engine and cancel its tasks."""
        if self._finalizer is not None:  # without a finalizer, the engine was never open
            self._finalizer()
            atexit.unregister(self._finalizer)


async def _open(make: Callable[[], Engine]) -> Engine:
    try:
        return await make().open()
    except OSError as error:
        raise _not_opened(error) from error


def _not_opened(error: OSError) -> StoreError:
    """Create the error for an engine that cannot be opened, mostly for lack of file descriptors."""
    return store_error(Path(error.filename or "."), "The workbench cannot be opened", error, salvage=False)


async def _close_all(engine: Engine, tasks: Tasks) -> None:
    """Close the engine, then cancel its remaining tasks."""
    try:
        await engine.aclose()
    finally:
        waiting = set(tasks) - {asyncio.current_task()}
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _close(engine: Engine, loop: EngineLoop, tasks: Tasks, pid: int) -> None:
    if pid != os.getpid():  # a forked child has the parent's files of the loop, but not the thread
        return
    closing = loop.submit(_close_all(engine, tasks), tasks)
    if loop.is_current_thread:  # garbage was collected on the loop's thread, which must not wait for itself
        return
    try:
        closing.result(CLOSE_TIMEOUT_S)
    except TimeoutError:
        closing.cancel()
