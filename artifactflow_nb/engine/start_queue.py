"""The start queue: limits how many runs of an engine are driven at once. Waiting runs have no open file."""

import asyncio
import sys
from collections import deque

MAX_RUNNING_RUNS = 256
"""Most runs that are driven at once, however many files the process may open."""

_FILES_PER_RUN = 4
"""Open files of a usual run: its lock, the connection of its model call, and those of two parallel jobs."""


def max_running_runs() -> int:
    """Return the number of runs that an engine may drive at once: they may use half of the file descriptors."""
    if sys.platform == "win32":  # there is no limit of open files to respect
        return MAX_RUNNING_RUNS
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MAX_RUNNING_RUNS
    return max(1, min(MAX_RUNNING_RUNS, limit // 2 // _FILES_PER_RUN))


class StartQueue:
    """A limited number of places for running runs, and a queue of runs that wait for one."""

    def __init__(self, n_places: int) -> None:
        self._n_free = n_places
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self, *, first: bool = False) -> None:
        """Wait for a place; with `first`, at the front of the queue."""
        if self._n_free > 0:
            self._n_free -= 1
            return
        place = asyncio.get_running_loop().create_future()
        if first:
            self._waiting.appendleft(place)
        else:
            self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # the place was assigned at the moment of the cancellation
                self.leave()
            raise

    def enter_now(self) -> None:
        """Enter without waiting, even if no place is free; the next free places are then not assigned."""
        self._n_free -= 1

    def leave(self) -> None:
        """Free a place, and assign it to the first waiting run."""
        self._n_free += 1
        while self._n_free > 0 and self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                self._n_free -= 1
                place.set_result(None)
