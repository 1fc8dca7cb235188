"""What a view hears of a run: that something was made, is asked or has ended, at the moment when it is.

A view of what lies in the store looks at it every second; with this it looks at once where that is worth it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from artifactflow_nb.controller import ExecutionController
from artifactflow_nb.events import StreamEvent, StreamEventType

_NEWS = frozenset(
    {
        StreamEventType.AGENT_START,  # by then the job that a call began is stored; when the call started it was not
        StreamEventType.TOOL_COMPLETE,
        StreamEventType.ARTIFACT_CHANGED,
        StreamEventType.PERMISSION_REQUEST,
        StreamEventType.PERMISSION_RESULT,
        StreamEventType.COMPLETE,
        StreamEventType.ERROR,
        StreamEventType.CANCELLED,
    }
)
_log = logging.getLogger(__name__)


class RunNews:
    """Hears one run at a time; runs on the engine's loop.

    Args:
        look: Looks at the store.
    """

    def __init__(self, look: Callable[[], Awaitable[None]]) -> None:
        self._look = look
        self._run_id: str | None = None
        self._stop: Callable[[], None] = lambda: None
        self._looking: asyncio.Task[None] | None = None
        self._has_more = False
        self._is_over = False

    async def hear(self, controller: ExecutionController, run_id: str | None) -> None:
        """Hear this run from now on, and no other; None for none."""
        if run_id == self._run_id or self._is_over:
            return
        self._stop()
        self._stop, self._run_id = (lambda: None), run_id
        if run_id is None:
            return
        stop = await controller.subscribe(run_id, self._take)
        if self._run_id == run_id and not self._is_over:
            self._stop = stop
        else:  # closed, or at another run, meanwhile
            stop()

    def _take(self, event: StreamEvent) -> None:
        if event.type not in _NEWS:
            return
        self._has_more = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look_on())

    async def _look_on(self) -> None:
        """Look, and again as long as there was more meanwhile: many events at once cost two looks."""
        while self._has_more and not self._is_over:
            self._has_more = False
            try:
                await self._look()
            except Exception:  # noqa: BLE001 - as for the look of every second, which comes anyway
                _log.debug("A look at the store failed.", exc_info=True)

    def close(self) -> None:
        """Hear no more, for good."""
        self._is_over = True
        self._stop()
