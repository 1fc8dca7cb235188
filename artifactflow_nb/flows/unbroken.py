"""Work that is not cut short: what was stored is told, too, also when the run is cancelled at that moment."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """What the work gives; it comes to its end even if who waits for it is cancelled, and only then learns that."""
    task, is_cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            is_cancelled = True
    if not is_cancelled:
        return task.result()
    if not task.cancelled():
        task.exception()  # it is the end of the run that meets a store that fails
    raise asyncio.CancelledError
