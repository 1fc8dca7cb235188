"""What looks at the store so that a view follows it."""

import pytest

from artifactflow_nb.errors import StoreError
from artifactflow_nb.widgets.watch import Watch


async def test_what_could_not_be_loaded_is_loaded_at_the_next_look() -> None:
    """A change that could not be taken over, because the store was locked, is not forgotten."""
    counts, taken = [0], []

    async def read() -> int:
        return counts[-1]

    async def changed() -> None:
        taken.append(counts[-1])
        if len(taken) == 1:
            raise StoreError("The store is locked.")

    watch = Watch(read, changed)
    await watch.start()
    counts.append(1)
    with pytest.raises(StoreError):
        await watch.look()
    await watch.look()
    await watch.look()
    watch.stop()
    assert taken == [1, 1]
