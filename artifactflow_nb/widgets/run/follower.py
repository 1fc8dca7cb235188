"""`RunFollower`: keeps a transcript up to date with its run.

The follower subscribes to the events of the run, and polls the status every second, because a killed process publishes
no event. The poll also notices when the run is resumed, here or in another process. Subruns are followed, too.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.engine.run_client import RunReader
from artifactflow_nb.errors import NotFound, StoreError
from artifactflow_nb.flows.cancellation import start_task
from artifactflow_nb.store.runs import ABANDONED, DELETED
from artifactflow_nb.widgets.run.approval_card import read_decision
from artifactflow_nb.widgets.run.polled_view import StorePoller
from artifactflow_nb.widgets.run.transcript import RunTranscript

SAVE_INTERVAL_S = 10.0
_STEPS = frozenset({StreamEventType.LLM_COMPLETE, StreamEventType.TOOL_COMPLETE})


class RunFollower:
    """Feeds a transcript with the events of its run; runs on the engine's loop.

    Args:
        changed: Called when the transcript has changed.
        save: Called when the state should be saved: the run waits, has ended or was abandoned, or a step has ended.
            Steps cause at most one call per `SAVE_INTERVAL_S`.
    """

    def __init__(
        self, run: RunReader, transcript: RunTranscript, changed: Callable[[], None], save: Callable[[], None]
    ) -> None:
        self._run = run
        self._transcript = transcript
        self._changed = changed
        self._save = save
        self._unsubscribe: Callable[[], None] = lambda: None
        self._n_process_changes = 0
        self._poller = StorePoller(self._poll_status, self._on_status_change)
        self._next_save = 0.0
        self._save_timer: asyncio.TimerHandle | None = None
        self._subrun_followers: dict[str, RunFollower] = {}
        self._subrun_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def start(self) -> None:
        """Apply the stored events without callbacks, then follow the run unless it has ended."""
        await self._load()
        await self.follow_subruns()
        if self._transcript.is_ended:
            return
        self._transcript.usual_ms = await asyncio.to_thread(self._run.usual_ms)
        await self._poller.start()
        if not self._is_closed:  # `close` may have been called meanwhile
            self._unsubscribe = self._run.subscribe(self.apply)

    async def _load(self) -> None:
        for event in await asyncio.to_thread(self._run.stored_events):
            self._transcript.apply(event)

    async def follow_subruns(self) -> None:
        """Start a follower for each subrun without a follower."""
        async with self._subrun_lock:
            for run_id, transcript in list(self._transcript.subruns.items()):
                if run_id in self._subrun_followers or self._is_closed:
                    continue
                with suppress(NotFound):  # deleted, or not imported with the parent run
                    run = await asyncio.to_thread(self._run.subrun, run_id)
                    follower = RunFollower(run, transcript, self._changed, self._save_with_subrun)
                    await follower.start()
                    self._subrun_followers[run_id] = follower
        if self._is_closed:  # `close` was called meanwhile and did not see the new followers
            self.close()

    def apply(self, event: StreamEvent) -> None:
        """Apply an event of the run, unless it was applied before."""
        if not self._transcript.apply(event):
            return
        self._changed()
        if event.type is StreamEventType.SUBRUN_START:
            start_task(self._tasks, self._follow_new_subrun())
        if self._transcript.is_ended and self._transcript.subruns:
            start_task(self._tasks, self._finish_with_subruns())
        elif self._transcript.is_ended:
            self.close()
            self._save()
        elif self._transcript.status == "waiting":  # a person may decide late
            self._save()
        elif event.type in _STEPS:  # save now, or when `SAVE_INTERVAL_S` has passed since the last save of a step
            loop = asyncio.get_running_loop()
            if loop.time() >= self._next_save:
                self._save_now()
            elif self._save_timer is None:
                self._save_timer = loop.call_at(self._next_save, self._save_now)

    def _save_with_subrun(self) -> None:
        if not self._transcript.is_ended:  # otherwise `_finish_with_subruns` saves the complete state
            self._save()

    async def _follow_new_subrun(self) -> None:
        with suppress(StoreError):  # the next poll tries again
            await self.follow_subruns()
            self._changed()

    async def _finish_with_subruns(self) -> None:
        """Load the last events of the subruns, which may arrive after the end of this run, then finish."""
        with suppress(StoreError):
            await self.catch_up()
        if not self._is_closed:
            self._changed()
            self.close()
            self._save()

    async def catch_up(self) -> None:
        """Apply all stored events of the run and its subruns."""
        await self._load()
        await self.follow_subruns()
        for follower in self._subrun_followers.values():
            await follower.catch_up()

    def _save_now(self) -> None:
        self._save_timer = None
        self._next_save = asyncio.get_running_loop().time() + SAVE_INTERVAL_S
        self._save()

    async def _poll_status(self) -> int | str:
        """Update the transcript from the stored status; return a value that changes with the transcript."""
        await self.follow_subruns()
        status = await asyncio.to_thread(self._run.status)
        if status == DELETED:
            self._transcript.delete()
            return DELETED
        self._n_process_changes += self._transcript.set_gone(is_gone=status == ABANDONED)
        return self._n_process_changes

    async def _on_status_change(self) -> None:
        self._changed()
        if self._transcript.is_ended:  # a deleted run publishes no more events
            self.close()
        self._save()

    async def decide(self, args: Mapping[str, Any]) -> None:
        """Decide a permission request of the run or a subrun with the arguments that its card sends.

        Errors: `NotFound` for an unknown request.
        """
        request = self._transcript.find_request(str(args.get("request")))
        if request is None:
            raise NotFound(f"The run {self._run.run_id} has no request {args.get('request')!r}.")
        await self._run.decide(request.id, read_decision(args, request, self._run.tool(request.tool)))

    async def resume(self) -> None:
        """Resume the abandoned run in this process.

        Errors: `Conflict` if the run cannot be resumed.
        """
        await self._run.resume()
        await self._poller.poll()

    def close(self) -> None:
        """Stop following, permanently; idempotent."""
        self._is_closed = True
        self._unsubscribe()
        self._poller.stop()
        for follower in self._subrun_followers.values():
            follower.close()
        if self._save_timer:
            self._save_timer.cancel()
