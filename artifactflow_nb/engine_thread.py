"""The engine's own thread: the one place where calls cross between threads.

A cell that computes holds the kernel's event loop; a stream on that loop would stand still. So the engine has a loop of
its own in a daemon thread, and everybody else hands it work.
"""

import asyncio
import atexit
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from artifactflow_nb.engine import Engine
from artifactflow_nb.errors import UsageError

T = TypeVar("T")

CLOSE_TIMEOUT_S = 10.0
"""An MCP server that minds neither the end of its input nor a signal takes four of these seconds to be killed."""

logging.getLogger("artifactflow_nb").addHandler(logging.NullHandler())
# Without a handler, Python prints warnings to standard error: from this thread, below whatever cell comes next.

_FOLLOW_EVERY_S = 0.1


class EngineThread:
    """An open engine with its thread; closed by `close`, when it is collected, or at the end of the process.

    Args:
        make: Makes the engine; called on the new thread, which opens it. What it raises is raised here.
    """

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="artifactflow-engine", daemon=True)
        self._thread.start()
        try:
            self.engine = self.call(_open(make))
        except BaseException:
            _stop(self._loop, self._thread)
            raise
        self._finalizer = weakref.finalize(self, _close, self.engine, self._loop, self._thread)
        atexit.register(self._finalizer)

    @property
    def is_open(self) -> bool:
        """Whether work is taken."""
        return not self._loop.is_closed() and self._thread.is_alive()

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine on the engine's loop; its future."""
        if not self.is_open:
            work.close()
            raise UsageError("This workbench is closed. Make a new one: its data are still there.")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a short coroutine on the engine's loop and wait for what it gives or raises."""
        return self._begin(work).result()

    def follow(self, work: Coroutine[Any, Any, T], meanwhile: Callable[[], object]) -> T:
        """The same for a long one: `meanwhile` is called ten times a second, and interrupting the cell cancels it."""
        working = self._begin(work)
        try:
            while not wait([working], _FOLLOW_EVERY_S).done:
                meanwhile()
        except BaseException:
            working.cancel()
            raise
        return working.result()

    def _begin(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        if threading.current_thread() is self._thread:
            work.close()
            raise UsageError("This was called on the engine's own thread, where waiting for it would never end.")
        return self.submit(work)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback on the engine's loop; does nothing once the engine is closed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *args)

    def close(self) -> None:
        """Close the engine and end its thread."""
        self._finalizer()
        atexit.unregister(self._finalizer)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


async def _open(make: Callable[[], Engine]) -> Engine:
    return await make().open()


async def _close_all(engine: Engine) -> None:
    """Close the engine, and end everything that still waits on its loop."""
    await engine.aclose()
    waiting = asyncio.all_tasks() - {asyncio.current_task()}
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def _close(engine: Engine, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
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
