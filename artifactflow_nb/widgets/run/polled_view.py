"""`PolledView`: a view of stored data that is loaded again whenever the store changes."""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable

from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.engine.controller import ExecutionController
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.store.conversation_tree import data_version
from artifactflow_nb.widgets.page.view import PageAction, Screen, View
from artifactflow_nb.widgets.run.cited_page import show_cited_page

_RELOAD_EVENTS = frozenset(
    {
        # TOOL_START is not listed: the job of a tool call is stored after TOOL_START and before its first AGENT_START.
        StreamEventType.AGENT_START,
        StreamEventType.TOOL_COMPLETE,
        StreamEventType.ARTIFACT_CHANGED,
        StreamEventType.PERMISSION_REQUEST,
        StreamEventType.PERMISSION_RESULT,
        StreamEventType.COMPLETE,
        StreamEventType.ERROR,
        StreamEventType.CANCELLED,
    }
)
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


class RunListener:
    """Calls back on events of one run that change stored data; runs on the engine's loop.

    Args:
        reload: Reloads from the store.
    """

    def __init__(self, reload: Callable[[], Awaitable[None]]) -> None:
        self._reload = reload
        self._run_id: str | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._reload_task: asyncio.Task[None] | None = None
        self._has_new_events = False
        self._is_closed = False

    async def listen_to(self, controller: ExecutionController, run_id: str | None) -> None:
        """Listen to this run instead of the previous run; None to stop listening."""
        if run_id == self._run_id or self._is_closed:
            return
        self._unsubscribe()
        self._unsubscribe, self._run_id = (lambda: None), run_id
        if run_id is None:
            return
        unsubscribe = await controller.subscribe(run_id, self._on_event)
        if self._run_id == run_id and not self._is_closed:
            self._unsubscribe = unsubscribe
        else:  # closed, or another run was chosen meanwhile
            unsubscribe()

    def _on_event(self, event: StreamEvent) -> None:
        if event.type not in _RELOAD_EVENTS:
            return
        self._has_new_events = True
        if self._reload_task is None or self._reload_task.done():
            self._reload_task = asyncio.get_running_loop().create_task(self._reload_until_current())

    async def _reload_until_current(self) -> None:
        """Reload, and once more if events arrived meanwhile: a burst of events causes two reloads."""
        while self._has_new_events and not self._is_closed:
            self._has_new_events = False
            try:
                await self._reload()
            except Exception:  # noqa: BLE001 - the store may be locked for a moment; the poller tries again
                _log.debug("Reloading from the store failed.", exc_info=True)

    def close(self) -> None:
        """Unsubscribe for good: `listen_to` has no effect afterwards."""
        self._is_closed = True
        self._unsubscribe()


class PolledView(View):
    """Follows the store by polling, and at once on events of the run that `_run_listener` listens to."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._poller = StorePoller(self._change_token, self._follow)
        self._run_listener = RunListener(self._poller.poll)

    async def open(self, screen: Screen) -> None:
        """Load the content and follow the store from then on."""
        await super().open(screen)
        await self._poller.start()  # before loading: the next poll sees changes during the load
        await self.load()

    def close(self) -> None:
        """Stop following the store."""
        self._poller.stop()
        self._run_listener.close()

    async def act_cited_page(self, act: PageAction) -> None:
        """Show the picture of the page that a citation names."""
        await show_cited_page(self.screen, act, self._engine.database.path)

    async def _change_token(self) -> object:
        """Return a small value that differs after every change; by default, after any change in the store."""
        return await self._engine.database.read(data_version)

    @abstractmethod
    async def load(self) -> None:
        """Load the content from the store."""

    async def _follow(self) -> None:
        """Load again after a change, refresh the pages and save."""
        await self.load()
        self.screen.refresh()
        self.screen.save_soon()
