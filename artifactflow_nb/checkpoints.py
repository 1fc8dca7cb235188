"""How far unfinished runs have come in their graphs: LangGraph's program counters, in a file of their own.

The store is the record: a run whose counter is old or lost passes through its graph again, and repeats nothing that
the store has.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from artifactflow_nb.errors import StoreError
from artifactflow_nb.saver import LaneSaver
from artifactflow_nb.store.faults import fault

logger = logging.getLogger(__name__)


class Checkpoints:
    """The counters of an engine's runs; it lives on the event loop that opened it.

    Args:
        path: The file.

    Attributes:
        saver: What graphs are compiled with; there once it is open.

    Errors: `StoreError` that names the file, says what is lost without it, and what to do.
    """

    saver: LaneSaver

    def __init__(self, path: Path) -> None:
        self.path = path

    async def open(self) -> None:
        """Open the file, or begin it."""
        async with self.using():
            self.saver = await asyncio.to_thread(LaneSaver.open, self.path)

    async def sweep(self, unfinished: Collection[str]) -> None:
        """Forget all threads but these: what killed processes left of runs that are over."""
        async with self.using():
            for thread_id in await self.saver.threads() - set(unfinished):
                await self.saver.adelete_thread(thread_id)

    async def knows(self, thread_id: str) -> bool:
        """Whether the thread can go on where its counter stands; without one, it has to begin again.

        LangGraph numbers counters by the time of day and takes the highest number for the newest. After the clock was
        set back between two processes that is an old one; entering the graph there repeats nothing either.
        """
        return await self.saver.knows(thread_id)

    async def drop(self, thread_id: str) -> None:
        """Forget the thread; what cannot be dropped is swept when the file is opened again."""
        try:
            async with self.using():
                await self.saver.adelete_thread(thread_id)
        except StoreError:
            logger.debug("The checkpoints of %s are left for later", thread_id, exc_info=True)

    @asynccontextmanager
    async def using(self) -> AsyncIterator[None]:
        """Tell what goes wrong with the file while something works with it."""
        try:
            yield
        except sqlite3.Error as error:
            told = fault(self.path, f"{self.path} cannot be used", error, salvage=False)
            raise StoreError(
                f"{told} It holds only how far unfinished runs have come: without it they begin again from what the "
                "store has of them, and repeat nothing that is finished."
            ) from error

    async def close(self) -> None:
        """Close the file."""
        if hasattr(self, "saver"):
            self.saver.close()
