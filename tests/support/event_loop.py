"""Checks that an event loop is not blocked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Ticks:
    """The number of iterations of the loop."""

    n = 0


@asynccontextmanager
async def ticking(interval_s: float) -> AsyncIterator[Ticks]:
    """Count once per interval while the loop is not blocked."""
    ticks = Ticks()

    async def tick() -> None:
        while True:
            await asyncio.sleep(interval_s)
            ticks.n += 1

    task = asyncio.create_task(tick())
    try:
        yield ticks
    finally:
        task.cancel()
