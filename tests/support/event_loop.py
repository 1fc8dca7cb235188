"""Whether an event loop goes on while something else is awaited on it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Ticks:
    """Counts how often the loop came round."""

    n = 0


@asynccontextmanager
async def ticking(interval_s: float) -> AsyncIterator[Ticks]:
    """Have the loop count, once in an interval as long as it is free to."""
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
