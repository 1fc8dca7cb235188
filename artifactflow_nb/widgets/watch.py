"""Looks at the store once a second, so that a view follows what others do: a cell, another view, another kernel."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

LOOK_EVERY_S = 1.0
_log = logging.getLogger(__name__)


class Watch:
    """Calls back when what it reads is another than before; runs on the engine's loop.

    Args:
        read: Gives something small that is another whenever there is something new, such as a count.
        changed: What to do then.
    """

    def __init__(self, read: Callable[[], Awaitable[object]], changed: Callable[[], Awaitable[None]]) -> None:
        self._read = read
        self._changed = changed
        self._seen: object = None
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    async def start(self) -> None:
        """Remember what is there now, and look on from now on, unless it was stopped meanwhile."""
        self._seen = await self._read()
        if not self._is_over:
            self._task = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - the store may be locked or full for a moment; the next look may succeed
                _log.debug("A look at the store failed.", exc_info=True)

    async def look(self) -> None:
        """Look now."""
        now = await self._read()
        if now != self._seen:
            await self._changed()
            self._seen = now

    def stop(self) -> None:
        """Look no more, for good."""
        self._is_over = True
        if self._task:
            self._task.cancel()
