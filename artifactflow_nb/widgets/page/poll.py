"""Polls the store once a second, so that a view follows changes by cells, other views and other kernels."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

POLL_INTERVAL_S = 1.0
_log = logging.getLogger(__name__)


class StorePoller:
    """Calls back when a value read from the store changes; runs on the engine's loop.

    Args:
        read: Returns a small value that differs after every change, for example a count.
        changed: Called when the value differs from the last value.
    """

    def __init__(self, read: Callable[[], Awaitable[object]], changed: Callable[[], Awaitable[None]]) -> None:
        self._read = read
        self._changed = changed
        self._last_value: object = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    async def start(self) -> None:
        """Read the current value, then poll until `stop`, which may be called before the first poll."""
        self._last_value = await self._read()
        if not self._is_stopped:
            self._task = asyncio.get_running_loop().create_task(self._poll_repeatedly())

    async def _poll_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            try:
                await self.poll()
            except Exception:  # noqa: BLE001 - the store may be locked or full for a moment; the next poll may succeed
                _log.debug("Polling the store failed.", exc_info=True)

    async def poll(self) -> None:
        """Poll immediately."""
        value = await self._read()
        if value != self._last_value:
            await self._changed()
            self._last_value = value  # after the callback: if the callback fails, the next poll repeats it

    def stop(self) -> None:
        """Stop polling for good."""
        self._is_stopped = True
        if self._task:
            self._task.cancel()
