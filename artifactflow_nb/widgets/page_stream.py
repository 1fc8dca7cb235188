"""The kernel's end of the pages that show a view: numbered patches, and nobody but the engine's thread sends.

::

    page   hello ──> snapshot      a number is missing, or the page was loaded again: hello once more
    view   refresh ──(at most 25 times a second)──> patch {seq, tree, ...}
    page   act {id, act, args} ──> view ──> patch, then told {id, message, errors}
    view   keep ──> the saved output, and kept {n}      a page in which it did not change asks for the face itself
    page   gone ──> ping; when no page answers, the view is closed, and so it is when the engine closes
    page   hold {on} ──> nothing is saved meanwhile: a word is being composed, which a new output would cut off
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.errors import ArtifactFlowError, FormError
from artifactflow_nb.widgets.tree import TreeDiff
from artifactflow_nb.widgets.view import Act, Face, View

PATCH_INTERVAL_S = 0.04
BLIND_INTERVAL_S = 1.0
KEEP_DELAY_S = 0.5
HELD_AT_MOST_S = 30.0
ALONE_AFTER_S = 3.0
_PING_INTERVAL_S = 0.2
_log = logging.getLogger(__name__)

Send = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Saved:
    """What is in the saved output: the `n`-th face, by media type; the last one is not to be mounted over again."""

    n: int
    content: Mapping[str, Any]
    is_last: bool


Save = Callable[[Face, int, bool], Saved]


def _not_saved(face: Face, n: int, is_last: bool) -> Saved:
    return Saved(n, face, is_last)


class PageStream:
    """Sends a view to its pages and hears what is pressed there; all of it on the engine's loop.

    Args:
        view: What is shown.
        send: Hands a message to the pages; a page that is not there loses it.
        save: Puts a face into the saved output, and gives what it put there.
        leave: Called once, when the view is closed: the pages show the saved output from then on.
        keep_delay_s: How long a face has to stay the same before it is saved.
        alone_after_s: How long pages have to answer when one says that its output is gone.
    """

    def __init__(
        self,
        view: View,
        send: Send,
        save: Save = _not_saved,
        leave: Callable[[], None] = lambda: None,
        *,
        keep_delay_s: float = KEEP_DELAY_S,
        alone_after_s: float = ALONE_AFTER_S,
    ) -> None:
        self._view = view
        self._send = send
        self._save = save
        self._leave = leave
        self._keep_delay_s = keep_delay_s
        self._alone_after_s = alone_after_s
        self._saved: Saved | None = None
        self._face: Face = {}
        self._held: dict[str, float] = {}
        self._diff = TreeDiff()
        self._announced = ""
        self._effects: list[Mapping[str, Any]] = []
        self._seq = 0
        self._page_seen = False
        self._finished = False
        self._closed = False
        self._staying: asyncio.Task[None] | None = None
        self._due: asyncio.TimerHandle | None = None
        self._keeping: asyncio.TimerHandle | None = None
        self._answered = asyncio.Event()
        self._acting: set[asyncio.Task[None]] = set()

    # --- from beginning to end -------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the view; it is closed when no page shows it any more, or the engine closes."""
        try:
            await self._view.open(self)
        except BaseException:
            self.close()
            raise
        self._staying = asyncio.get_running_loop().create_task(self._stay())

    async def _stay(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:  # the engine is closed: what was shown stays, for good
            if not self._closed:
                self.finish()
                self.close()
            raise

    def close(self) -> None:
        """Follow no more and send no more."""
        if self._closed:
            return
        self._closed = True
        for pending in (self._due, self._keeping, self._staying):
            if pending:
                pending.cancel()
        self._view.close()
        self._leave()

    async def _close_if_alone(self) -> None:
        """Close unless some page still shows the view: the same cell may be open in another tab."""
        if not await self.answers_ping(self._alone_after_s):
            self.close()

    # --- what the view asks for ------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Send what changed, soon."""
        if self._due is None and not self._closed:
            interval = PATCH_INTERVAL_S if self._page_seen else BLIND_INTERVAL_S
            self._due = asyncio.get_running_loop().call_later(interval, self._safely, self.flush)

    def keep(self) -> None:
        """Save the face when it has stayed the same for a moment."""
        if self._keeping:
            self._keeping.cancel()
        if not (self._finished or self._closed):
            self._keeping = asyncio.get_running_loop().call_later(self._keep_delay_s, self._safely, self._save_now)

    def finish(self) -> None:
        """Send the last patch, and put the last face in the place of the live view; once."""
        if self._finished:
            return
        self._finished = True
        self._safely(self.flush)
        self._safely(self._save_now)

    def effect(self, page: str, name: str, **parts: Any) -> None:
        """Have one page do something beside the tree, once it has the tree of this moment; see `view.Screen`."""
        self._effects.append({"type": "effect", "page": page, "name": name, **parts})
        self.refresh()

    # --- to and from the pages -------------------------------------------------------------------------------------

    def _safely(self, step: Callable[[], None]) -> None:
        """Do something whose errors nobody would hear of: the loop would print them below whatever cell runs."""
        try:
            step()
        except Exception:  # noqa: BLE001 - whatever it is, the next change is shown again
            _log.exception("The view %r could not be shown.", self._view.label)

    def flush(self) -> None:
        """Send what changed; nothing if nothing did."""
        if self._closed:
            return
        if self._due:
            self._due.cancel()
            self._due = None
        if not self._page_seen:  # its hello may be stuck behind a cell that computes, and what was sent may be lost
            self._snapshot()
            return
        tree = self._diff.patch(self._view.nodes())
        parts: dict[str, Any] = {"tree": tree} if tree else {}
        if (announcement := self._view.announcement()) != self._announced:
            parts["announce"] = self._announced = announcement
        if self._finished:
            parts["ended"] = True
        if parts:
            self._post("patch", **parts)
        effects, self._effects = self._effects, []
        for effect in effects:
            self._send(effect)

    def _snapshot(self) -> None:
        self._announced = self._view.announcement()
        self._post(
            "snapshot",
            tree=self._diff.snapshot(self._view.nodes()),
            announce=self._announced,
            label=self._view.label,
            css=self._view.css,
            ended=self._finished,
            kept=self._saved.n if self._saved else 0,
        )

    def hear(self, message: Mapping[str, Any]) -> None:
        """Act on a message of a page; one that is not understood is left alone."""
        if self._closed:
            return
        match message:
            case {"type": "hello"}:
                self._page_seen = True
                self._answered.set()
                self._safely(self._snapshot)
            case {"type": "pong"}:
                self._answered.set()
            case {"type": "face", "page": str(page)} if self._saved:
                self._send({"type": "face", "page": page, "data": self._saved.content})
            case {"type": "gone"}:
                self._begin(self._close_if_alone())
            case {"type": "hold", "page": str(page), "on": bool(on)}:
                self._held[page] = time.monotonic() + HELD_AT_MOST_S if on else 0.0
            case {"type": "act", "id": int(number), "page": str(page), "act": str(name), "args": dict(args)}:
                self._begin(self._perform(number, Act(name, args, page)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._acting.add(task)
        task.add_done_callback(self._acting.discard)

    async def _perform(self, number: int, act: Act) -> None:
        """Do what was pressed, show what came of it, and tell the control that was pressed."""
        told: dict[str, Any] = {"message": "", "failed": False, "errors": {}}
        try:
            told["message"] = await self._view.act(act)
        except FormError as error:
            told |= {"message": str(error), "failed": True, "errors": dict(error.fields)}
        except ArtifactFlowError as error:
            told |= {"message": str(error), "failed": True}
        except Exception as error:  # noqa: BLE001 - whatever went wrong, who pressed the button hears of it
            told |= {"message": f"This did not work: {type(error).__name__}: {error}", "failed": True}
        self._safely(self.flush)
        self._send({"type": "told", "page": act.page, "id": number, **told})

    async def answers_ping(self, timeout_s: float = 2.0) -> bool:
        """Whether a page is there: asks until one answers or the time is over."""
        self._answered.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._ping_until_answered()
        except TimeoutError:
            return False
        return True

    async def _ping_until_answered(self) -> None:
        # A page that has not shown the view yet loses what is sent to it, so one ping is not enough.
        while not self._answered.is_set():
            self._send({"type": "ping"})
            try:
                await asyncio.wait_for(self._answered.wait(), _PING_INTERVAL_S)
            except TimeoutError:
                continue

    def _post(self, kind: str, **parts: Any) -> None:
        self._seq += 1
        self._send({"type": kind, "seq": self._seq, "now": time.time() * 1000, **parts})

    def _save_now(self) -> None:
        """Save the face, unless it is the one that is saved; never while a reader is composing a word."""
        if self._keeping:
            self._keeping.cancel()
            self._keeping = None
        if not self._finished and max(self._held.values(), default=0.0) > time.monotonic():
            self.keep()
            return
        face = self._view.face()
        if self._saved and face == self._face and not self._finished:
            return
        self._face = face
        n = self._saved.n + 1 if self._saved else 1
        self._saved = self._save(face, n, self._finished)
        self._send({"type": "kept", "n": n, "last": self._finished})
