"""How a view follows a run: by its events, by a look at whether its process is still there, and with its face kept.

A process that is killed says nothing, so who shows the run looks once a second. When somebody goes on with it, here or
elsewhere, the look tells that too, and the events go on. The runs that it begins are followed in the same way.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from artifactflow_nb.errors import NotFound, StoreError
from artifactflow_nb.events import StreamEvent, StreamEventType
from artifactflow_nb.store.runs import INTERRUPTED
from artifactflow_nb.widgets.base import ViewedRun
from artifactflow_nb.widgets.transcript import Transcript
from artifactflow_nb.widgets.watch import Watch

KEEP_EVERY_S = 10.0
_STEPS = frozenset({StreamEventType.LLM_COMPLETE, StreamEventType.TOOL_COMPLETE})


class Follower:
    """Brings a transcript to where its run is, and has it go along; runs on the engine's loop.

    Args:
        run: The run.
        transcript: Its state.
        changed: Called when the transcript has changed.
        keep: Called when it is worth saving: it waits, has ended, was interrupted, or a step of it is over; for steps
            at most every ten seconds.
    """

    def __init__(
        self, run: ViewedRun, transcript: Transcript, changed: Callable[[], None], keep: Callable[[], None]
    ) -> None:
        self._run = run
        self._transcript = transcript
        self._changed = changed
        self._keep = keep
        self._stop: Callable[[], None] = lambda: None
        self._n_observed = 0
        self._watch = Watch(self._look, self._tell)
        self._next_keep = 0.0
        self._keeping: asyncio.TimerHandle | None = None
        self._below: dict[str, Follower] = {}
        self._beginning = asyncio.Lock()
        self._working: set[asyncio.Task[None]] = set()
        self._is_over = False

    async def start(self) -> None:
        """Take in what happened so far, without a word, and follow from then on unless it has ended."""
        await self._load()
        await self.follow_below()
        if self._transcript.ended:
            return
        await self._watch.start()
        if not self._is_over:  # closed meanwhile
            self._stop = self._run.subscribe(self.take)

    async def _load(self) -> None:
        for event in await asyncio.to_thread(self._run.stored_events):
            self._transcript.apply(event)

    async def follow_below(self) -> None:
        """Take in what the runs did that it began so far, and follow those that have not ended."""
        async with self._beginning:
            for run_id, subrun in list(self._transcript.subruns.items()):
                if run_id in self._below or self._is_over:
                    continue
                with suppress(NotFound):  # it was deleted, or only this one of them was brought here
                    run = await asyncio.to_thread(self._run.subrun, run_id)
                    follower = Follower(run, subrun.transcript, self._changed, self._keep_below)
                    await follower.start()
                    self._below[run_id] = follower
        if self._is_over:  # closed meanwhile
            self.close()

    def take(self, event: StreamEvent) -> None:
        """Take in an event of the run; one that it had taken in already changes nothing."""
        if not self._transcript.apply(event):
            return
        self._changed()
        if event.type is StreamEventType.SUBRUN_START:
            self._begin(self._follow_new())
        if self._transcript.ended and self._transcript.subruns:
            self._begin(self._end())
        elif self._transcript.ended:
            self.close()
            self._keep()
        elif self._transcript.status == "waiting":  # it may be long until somebody decides
            self._keep()
        elif event.type in _STEPS:
            self._keep_soon()

    def _keep_below(self) -> None:
        if not self._transcript.ended:  # then it is kept when all of them have told their ends
            self._keep()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _follow_new(self) -> None:
        with suppress(StoreError):  # the next look tries again
            await self.follow_below()
            self._changed()

    async def _end(self) -> None:
        """End with all that the runs did that it began, some of which may be heard of later than its end."""
        with suppress(StoreError):
            await self.catch_up()
        if not self._is_over:
            self._changed()
            self.close()
            self._keep()

    async def catch_up(self) -> None:
        """Take in what is stored by now, of the runs that it began too."""
        await self._load()
        await self.follow_below()
        for follower in self._below.values():
            await follower.catch_up()

    def _keep_soon(self) -> None:
        """Save it now, or once ten seconds have passed since the last time."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._next_keep:
            self._keep_now()
        elif self._keeping is None:
            self._keeping = loop.call_at(self._next_keep, self._keep_now)

    def _keep_now(self) -> None:
        self._keeping = None
        self._next_keep = asyncio.get_running_loop().time() + KEEP_EVERY_S
        self._keep()

    async def _look(self) -> int:
        """See whether the process is gone or there again; how often that has changed."""
        await self.follow_below()
        is_gone = await asyncio.to_thread(self._run.status) == INTERRUPTED
        self._n_observed += self._transcript.observe(is_gone=is_gone)
        return self._n_observed

    async def _tell(self) -> None:
        self._changed()
        self._keep()

    async def go_on(self) -> None:
        """Have the run go on here whose process is gone; `Conflict` if it cannot."""
        await self._run.go_on()
        await self._watch.look()

    def close(self) -> None:
        """Follow no more, for good."""
        self._is_over = True
        self._stop()
        self._watch.stop()
        for follower in self._below.values():
            follower.close()
        if self._keeping:
            self._keeping.cancel()
