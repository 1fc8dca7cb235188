"""The feeds of runs: a feed for each run that has a listener or is driven here, with the stored events.

The store is polled for new events of a run that another process drives, as long as the run has a listener.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.errors import StoreError
from artifactflow_nb.flows.events import EventFeed, Listener
from artifactflow_nb.store.runs import RunStore

FOLLOW_INTERVAL_S = 0.5
"""Interval in which the store is polled for events of a run that another process drives."""

logger = logging.getLogger(__name__)


class EventFeeds:
    """The feeds of unfinished runs.

    Attributes:
        local_runs: The ids of the runs whose events this process publishes, so that the store is not polled.
    """

    def __init__(self, runs: RunStore) -> None:
        self.local_runs: set[str] = set()
        self._runs = runs
        self._feeds: dict[str, EventFeed] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}

    def open(self, run_id: str, events: Sequence[StreamEvent] = ()) -> None:
        """Open a feed with the events so far; a run that is played publishes its recorded events later."""
        self._feeds.setdefault(run_id, EventFeed(events))

    async def get(self, run_id: str) -> EventFeed:
        """Return the run's feed, which is the same object until the run ends; `NotFound` for an unknown run."""
        if (feed := self._feeds.get(run_id)) is not None:
            return feed
        events = await self._runs.events(run_id)
        if not events:  # every run has an event, so the run is unknown
            await self._runs.get(run_id)
        loaded = EventFeed(events)
        return loaded if loaded.is_ended else self._feeds.setdefault(run_id, loaded)

    async def get_current(self, run_id: str) -> EventFeed:
        """Return the run's feed with all stored events, so that new events get the next numbers."""
        if (feed := self._feeds.get(run_id)) is None:
            return await self.get(run_id)
        await self._catch_up(run_id, feed)
        return feed

    async def subscribe(self, run_id: str, listener: Listener) -> Callable[[], None]:
        """Call a listener with a run's stored events, then new events; return a function that ends the subscription."""
        feed = await self.get(run_id)
        stop = feed.subscribe(listener)
        if not feed.is_ended and run_id not in self._followers:
            follower = asyncio.create_task(self._follow(run_id, feed))
            self._followers[run_id] = follower
            follower.add_done_callback(lambda _: self._followers.pop(run_id, None))
        return stop

    async def _follow(self, run_id: str, feed: EventFeed) -> None:
        """Publish new events of a run that another engine drives, while the run has listeners."""
        while feed.has_listeners and not feed.is_ended:
            await asyncio.sleep(FOLLOW_INTERVAL_S)
            if run_id in self.local_runs:
                continue
            try:
                await self._catch_up(run_id, feed)
            except StoreError:
                logger.debug("The events of run %s are read again later", run_id, exc_info=True)

    async def _catch_up(self, run_id: str, feed: EventFeed) -> None:
        events = await self._runs.events(run_id, feed.last_seq)
        if run_id not in self.local_runs:
            feed.publish_all([event for event in events if event.seq > feed.last_seq])

    def drop_ended(self, run_id: str) -> None:
        """Drop the feed of a run that has ended; the listeners have received all events."""
        if (feed := self._feeds.get(run_id)) is not None and feed.is_ended:
            del self._feeds[run_id]

    async def aclose(self) -> None:
        """Stop polling."""
        followers = list(self._followers.values())
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
