"""The feeds of runs: one for each run that is listened to or driven here, with what is stored of it.

A run that another process drives is looked at while somebody listens, and what the store says is new is told.
"""

import asyncio
import logging
from collections.abc import Callable

from artifactflow_nb.errors import StoreError
from artifactflow_nb.flows.journal import Feed, Listener
from artifactflow_nb.store.runs import RunStore

FOLLOW_INTERVAL_S = 0.5
"""How often a run that another process drives is looked at while somebody listens."""

logger = logging.getLogger(__name__)


class Feeds:
    """The feeds of runs that are not over.

    Args:
        runs: Where events are stored.
        is_driven: Whether a run, by its id, is driven here: then its driver tells what happens.
    """

    def __init__(self, runs: RunStore, is_driven: Callable[[str], bool]) -> None:
        self._runs = runs
        self._is_driven = is_driven
        self._feeds: dict[str, Feed] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}

    async def get(self, run_id: str) -> Feed:
        """The run's feed; kept while the run is not over. `NotFound` for an unknown run."""
        if (feed := self._feeds.get(run_id)) is not None:
            return feed
        events = await self._runs.events(run_id)
        if not events:  # every run has one
            await self._runs.get(run_id)
        loaded = Feed(events)
        return loaded if loaded.ended else self._feeds.setdefault(run_id, loaded)

    async def caught_up(self, run_id: str) -> Feed:
        """The run's feed with everything that is stored, so that numbers go on where they ended."""
        if (feed := self._feeds.get(run_id)) is None:
            return await self.get(run_id)
        await self._catch_up(run_id, feed)
        return feed

    async def subscribe(self, run_id: str, listener: Listener) -> Callable[[], None]:
        """Hear a run's events, those that were stored first; the function that is returned ends it."""
        feed = await self.get(run_id)
        stop = feed.subscribe(listener)
        if not feed.ended and run_id not in self._followers:
            follower = asyncio.create_task(self._follow(run_id, feed))
            self._followers[run_id] = follower
            follower.add_done_callback(lambda _: self._followers.pop(run_id, None))
        return stop

    async def _follow(self, run_id: str, feed: Feed) -> None:
        """While somebody listens to a run that is not driven here, tell what the store says is new."""
        while feed.is_heard and not feed.ended:
            await asyncio.sleep(FOLLOW_INTERVAL_S)
            if self._is_driven(run_id):
                continue
            try:
                await self._catch_up(run_id, feed)
            except StoreError:
                logger.debug("The run %s is looked at again later", run_id, exc_info=True)

    async def _catch_up(self, run_id: str, feed: Feed) -> None:
        events = await self._runs.events(run_id, feed.last_seq)
        if not self._is_driven(run_id):
            feed.publish_all([event for event in events if event.seq > feed.last_seq])

    def forget_ended(self, run_id: str) -> None:
        """Keep the feed of a run no longer if it told the run's end; who listens has heard all of it."""
        if (feed := self._feeds.get(run_id)) is not None and feed.ended:
            del self._feeds[run_id]

    async def aclose(self) -> None:
        """Stop following."""
        followers = list(self._followers.values())
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
