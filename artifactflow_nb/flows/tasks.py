"""Shield a store-then-publish step from cancellation."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Await work to its end even if the caller is cancelled meanwhile; the cancellation is raised afterwards."""
    task, is_cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            is_cancelled = True
    if not is_cancelled:
        return task.result()
    if not task.cancelled():
        task.exception()  # retrieve it; the end of the run will report the store's failure
    raise asyncio.CancelledError
