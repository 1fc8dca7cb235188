"""The start queue: how many runs of an engine are driven at once. The others wait, and hold no open file."""

import asyncio
import sys
from collections import deque

MAX_RUNNING_RUNS = 256
"""Most runs that are driven at once, however many files the process may open."""

_FILES_PER_RUN = 4
"""Most open files of a usual run: its lock, the connection of a model call, and those of two parallel jobs."""


def max_running_runs() -> int:
    """How many runs may be driven at once, so that they leave half of the file descriptors to the rest of the process.

    Two workbenches at work in one process still leave a quarter.
    """
    if sys.platform == "win32":  # there is no limit of open files to respect
        return MAX_RUNNING_RUNS
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MAX_RUNNING_RUNS
    return max(1, min(MAX_RUNNING_RUNS, limit // 2 // _FILES_PER_RUN))


class StartQueue:
    """Places for runs that are driven.

    Args:
        n_places: How many there are.
    """

    def __init__(self, n_places: int) -> None:
        self._n_free = n_places
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self, *, first: bool = False) -> None:
        """Wait for a place; with `first`, before those that wait already."""
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
            if not place.cancelled():  # it became free at that moment
                self.leave()
            raise

    def enter_now(self) -> None:
        """Take a place even if none is free; later runs wait the longer."""
        self._n_free -= 1

    def leave(self) -> None:
        """Give a place back."""
        self._n_free += 1
        while self._n_free > 0 and self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                self._n_free -= 1
                place.set_result(None)
