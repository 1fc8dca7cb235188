"""A blocking function for a limited time. A thread cannot be stopped: one that is late is left to itself."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from artifactflow_nb.tools.threads import in_thread

T = TypeVar("T")


async def within(timeout_s: float, work: Callable[[], T], name: str) -> T:
    """What the function returns or raises; `TimeoutError` after `timeout_s` seconds. The name is the thread's."""
    async with asyncio.timeout(timeout_s):
        return await in_thread(work, f"tool-{name}")
