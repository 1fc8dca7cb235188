"""`PageStream`: kernel side of the protocol between a view and its pages.

::

    page   hello ──> snapshot      sent again after a reload, or when a patch number is missing
    view   refresh ──(at most 25 times a second)──> patch {seq, tree, ...}
    page   act {id, act, args} ──> received {id}, then view ──> patch, then result {id, message, errors}
    view   save_soon ──> the saved output, and saved {n}    a page whose output did not change requests it with `output`
    page   gone ──> ping; if no page answers, the view is closed; it is also closed with the engine
    page   hold {on} ──> saving is deferred: replacing the output would interrupt an input method's composition

Only the engine's thread sends messages.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.core.language import translate
from artifactflow_nb.errors import ArtifactFlowError, FormError
from artifactflow_nb.flows.cancellation import start_task
from artifactflow_nb.widgets.page.nodes import TreeDiff
from artifactflow_nb.widgets.page.saved import SavedOutput
from artifactflow_nb.widgets.page.view import PageAction, PanelState, View

PATCH_INTERVAL_S = 0.04
# Until a page has said hello, the whole tree is sent each time, so it is sent less often.
BLIND_INTERVAL_S = 1.0
SAVE_DELAY_S = 0.5
# A page that was closed during a composition never releases its hold.
MAX_HOLD_S = 30.0
DISCONNECT_AFTER_S = 3.0
_PING_INTERVAL_S = 0.2
_log = logging.getLogger(__name__)

SendMessage = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class SavedState:
    """The saved output that the cell contains.

    Attributes:
        number: Number of the save, from 1.
        content: The output, by media type.
        is_last: True for the final output, which pages do not replace by a live view.
    """

    number: int
    content: Mapping[str, Any]
    is_last: bool


SaveOutput = Callable[[SavedOutput, int, bool], SavedState]


def return_saved(output: SavedOutput, number: int, is_last: bool) -> SavedState:
    """Save the output of a view that no cell displays."""
    return SavedState(number, output, is_last)


class PageStream:
    """Sends a view to its pages and receives their messages; runs on the engine's loop.

    Args:
        send: Sends a message to the pages; disconnected pages miss it.
        save: Writes the numbered output into the cell and returns what the cell then contains.
        leave: Called once when the view is closed; from then on the pages show the saved output.
        report: Called with the state of the view if the state has changed since the opening.
        save_delay_s: Seconds without another `save_soon` before the output is saved.
        disconnect_after_s: Seconds to wait for another page after a page has removed its output.
    """

    def __init__(
        self,
        view: View,
        send: SendMessage,
        save: SaveOutput = return_saved,
        leave: Callable[[], None] = lambda: None,
        report: Callable[[PanelState], object] = lambda _state: None,
        *,
        save_delay_s: float = SAVE_DELAY_S,
        disconnect_after_s: float = DISCONNECT_AFTER_S,
    ) -> None:
        self._view = view
        self._send = send
        self._save = save
        self._leave = leave
        self._report = report
        self._state = PanelState()
        self._save_delay_s = save_delay_s
        self._disconnect_after_s = disconnect_after_s
        self._saved: SavedState | None = None
        self._saved_output: SavedOutput = {}
        self._held_until: dict[str, float] = {}
        self._diff = TreeDiff()
        self._announced = self._css = ""
        self._effects: list[Mapping[str, Any]] = []
        self._seq = 0
        self._page_seen = False
        self._finished = False
        self._closed = False
        self._lifetime: asyncio.Task[None] | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._save_timer: asyncio.TimerHandle | None = None
        self._page_responded = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def has_page(self) -> bool:
        """True if a page has mounted the view at least once."""
        return self._page_seen

    # --- life cycle -------------------------------------------------------------------------------------------------

    async def open(self) -> PanelState:
        """Open the view and return its state; the view closes with its last page or with the engine."""
        try:
            await self._view.open(self)
        except BaseException:
            self.close()
            raise
        self._lifetime = asyncio.get_running_loop().create_task(self._finish_with_engine())
        self._state = self._view.state()
        return self._state

    async def _finish_with_engine(self) -> None:
        # A closing engine cancels the tasks of its loop; this task only waits for the cancellation.
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not self._closed:
                self.finish()
                self.close()
            raise

    def close(self) -> None:
        """Close the view and stop sending; idempotent."""
        if self._closed:
            return
        self._closed = True
        for pending in (self._flush_timer, self._save_timer, self._lifetime):
            if pending:
                pending.cancel()
        self._view.close()
        self._leave()

    async def _close_if_disconnected(self) -> None:
        """Close unless a page responds: the same cell may be open in another tab."""
        if not await self.answers_ping(self._disconnect_after_s):
            self.close()

    # --- requests of the view, see `view.Screen` --------------------------------------------------------------------

    def refresh(self) -> None:
        """Send changes to the pages soon."""
        if self._flush_timer is None and not self._closed:
            interval = PATCH_INTERVAL_S if self._page_seen else BLIND_INTERVAL_S
            self._flush_timer = asyncio.get_running_loop().call_later(interval, self._log_errors, self.flush)

    def save_soon(self) -> None:
        """Save the output after `save_delay_s` seconds without another call."""
        if self._save_timer:
            self._save_timer.cancel()
        if not (self._finished or self._closed):
            loop = asyncio.get_running_loop()
            self._save_timer = loop.call_later(self._save_delay_s, self._log_errors, self._save_now)

    def finish(self) -> None:
        """Send the last patch and replace the live view by the last saved output; idempotent."""
        if self._finished:
            return
        self._finished = True
        self._log_errors(self.flush)
        self._log_errors(self._save_now)

    def effect(self, page: str, name: str, **arguments: Any) -> None:
        """Run a browser effect on one page with the next flush; see `view.Screen`."""
        self._effects.append({"type": "effect", "page": page, "name": name, **arguments})
        self.refresh()

    # --- messages to and from the pages -----------------------------------------------------------------------------

    def _log_errors(self, step: Callable[[], None]) -> None:
        """Call `step` and log its errors, which the loop would print below an arbitrary cell."""
        try:
            step()
        except Exception:  # noqa: BLE001 - one failed update must not end the view: the next change is sent again
            _log.exception("The view %r could not be shown.", self._view.label)

    def flush(self) -> None:
        """Send changes now, if there are any."""
        if self._closed:
            return
        if self._flush_timer:
            self._flush_timer.cancel()
            self._flush_timer = None
        if (state := self._view.state()) != self._state:
            self._state = state
            self._report(state)
        # A page's hello may be queued behind a running cell, and messages before the hello may be lost: send no patch.
        if not self._page_seen:
            self._snapshot()
            return
        tree = self._diff.patch(self._view.nodes())
        changes: dict[str, Any] = {"tree": tree} if tree else {}
        if (announcement := self._view.announcement()) != self._announced:
            changes["announce"] = self._announced = announcement
        if self._view.css != self._css:
            changes["css"] = self._css = self._view.css
        if self._finished:
            changes["ended"] = True
        if changes:
            self._post("patch", **changes)
        effects, self._effects = self._effects, []
        for effect in effects:
            self._send(effect)

    def _snapshot(self) -> None:
        self._announced, self._css = self._view.announcement(), self._view.css
        self._post(
            "snapshot",
            tree=self._diff.snapshot(self._view.nodes()),
            announce=self._announced,
            label=translate(self._view.label),
            css=self._css,
            ended=self._finished,
            saved=self._saved.number if self._saved else 0,
        )

    def receive(self, message: Mapping[str, Any]) -> None:
        """Handle a message from a page; malformed messages are ignored."""
        if self._closed:
            return
        match message:
            case {"type": "hello"}:
                self._page_seen = True
                self._page_responded.set()
                self._log_errors(self._snapshot)
            case {"type": "pong"}:
                self._page_responded.set()
            case {"type": "output", "page": str(page)} if self._saved:
                self._send({"type": "output", "page": page, "data": self._saved.content})
            case {"type": "gone"}:
                start_task(self._tasks, self._close_if_disconnected())
            case {"type": "hold", "page": str(page), "on": bool(on)}:
                self._held_until[page] = time.monotonic() + MAX_HOLD_S if on else 0.0
            case {"type": "act", "id": int(number), "page": str(page), "act": str(name), "args": dict(args)}:
                self._send({"type": "received", "page": page, "id": number})
                start_task(self._tasks, self._perform(number, PageAction(name, args, page)))

    async def _perform(self, number: int, act: PageAction) -> None:
        """Perform an action, send the changes, then the result for its control."""
        result: dict[str, Any] = {"message": "", "failed": False, "errors": {}}
        try:
            result["message"] = await self._view.act(act)
        except FormError as error:
            result |= {"message": str(error), "failed": True, "errors": dict(error.fields)}
        except ArtifactFlowError as error:
            result |= {"message": str(error), "failed": True}
        except Exception as error:  # noqa: BLE001 - show every error to the person who pressed the button
            result |= {"message": f"This did not work: {type(error).__name__}: {error}", "failed": True}
        self._log_errors(self.flush)
        self._send({"type": "result", "page": act.page, "id": number, **result})

    async def answers_ping(self, timeout_s: float = 5.0) -> bool:
        """Return whether a page responds within `timeout_s` seconds."""
        self._page_responded.clear()
        try:
            async with asyncio.timeout(timeout_s):
                # A page that has not mounted the view yet misses messages, so the ping is repeated.
                while not self._page_responded.is_set():
                    self._send({"type": "ping"})
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._page_responded.wait(), _PING_INTERVAL_S)
        except TimeoutError:
            return False
        return True

    def _post(self, kind: str, **fields: Any) -> None:
        self._seq += 1
        self._send({"type": kind, "seq": self._seq, "now": time.time() * 1000, **fields})

    def _save_now(self) -> None:
        """Save the output if it has changed; a page can defer the save."""
        if self._save_timer:
            self._save_timer.cancel()
            self._save_timer = None
        if not self._finished and max(self._held_until.values(), default=0.0) > time.monotonic():
            self.save_soon()
            return
        output = self._view.saved_output()
        # The last output is written even if it is unchanged: its host element must go.
        if self._saved and output == self._saved_output and not self._finished:
            return
        self._saved_output = output
        number = self._saved.number + 1 if self._saved else 1
        self._saved = self._save(output, number, self._finished)
        self._send({"type": "saved", "n": number, "last": self._finished})
