"""A blocking function in a thread of its own, for a limited time.

A thread cannot be stopped. One that is late is left to itself: it is a daemon and belongs to no pool, so that it keeps
neither the next call nor the end of the process waiting.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[[], T], timeout_s: float) -> T:
    """What the function returns or raises; `TimeoutError` after `timeout_s` seconds."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(function)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the waiting side has to hear of it
            _tell(loop, outcome, outcome.set_exception, error)
        else:
            _tell(loop, outcome, outcome.set_result, result)

    threading.Thread(target=work, name="artifactflow-work", daemon=True).start()
    async with asyncio.timeout(timeout_s):
        return await outcome


def _tell(
    loop: asyncio.AbstractEventLoop, outcome: "asyncio.Future[T]", settle: Callable[..., None], value: object
) -> None:
    """Settle the future on its loop, unless nobody waits any more or the loop has ended."""

    def settle_if_open() -> None:
        if not outcome.done():
            settle(value)

    try:
        loop.call_soon_threadsafe(settle_if_open)
    except RuntimeError:  # the loop is closed: the work came too late for anybody
        return
