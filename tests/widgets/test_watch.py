"""Polling of the store by views."""

import asyncio

import pytest

from artifactflow_nb.errors import StoreError
from artifactflow_nb.widgets.run.polled_view import StorePoller


async def test_poller_stopped_during_start_does_not_poll() -> None:
    """A view that is closed while it opens does not poll."""
    n_looks, is_read = 0, asyncio.Event()

    async def read() -> int:
        nonlocal n_looks
        n_looks += 1
        await is_read.wait()
        return n_looks

    async def changed() -> None:
        pass

    watching = StorePoller(read, changed)
    starting = asyncio.create_task(watching.start())
    await asyncio.sleep(0)
    watching.stop()
    is_read.set()
    await starting
    await asyncio.sleep(0.05)
    assert n_looks == 1


async def test_failed_callback_is_retried_at_next_poll() -> None:
    """A change that could not be loaded, because the store was locked, is loaded later."""
    counts, durations = [0], []

    async def read() -> int:
        return counts[-1]

    async def changed() -> None:
        durations.append(counts[-1])
        if len(durations) == 1:
            raise StoreError("The store is locked.")

    watching = StorePoller(read, changed)
    await watching.start()
    counts.append(1)
    with pytest.raises(StoreError):
        await watching.poll()
    await watching.poll()
    await watching.poll()
    watching.stop()
    assert durations == [1, 1]
