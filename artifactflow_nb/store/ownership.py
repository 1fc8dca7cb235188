"""Whose run it is: who drives a run holds a lock on a file for as long, which letting go and death release alike.

A run that is `running` names the owner that holds its lock; if nobody holds it any more, the run was interrupted. No
clock has a part in it, and letting go needs neither space on the disk nor a store that can be written.
"""

import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO

from artifactflow_nb.store.faults import fault
from artifactflow_nb.store.locks import is_locked, lock, unlock
from artifactflow_nb.store.runs import INTERRUPTED, RUNNING


def _call(method: "weakref.WeakMethod[Callable[[], None]]") -> None:
    """Call a method if its object still is: what is registered for forks stays for good, an engine does not."""
    if (alive := method()) is not None:
        alive()


class Ownership:
    """The locks of one engine, one for each run that it drives.

    Args:
        folder: The store's folder; lock files lie in `owners` there.
        engine: The engine's id; owners are named after it.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        self._folder = folder / "owners"
        self._engine = engine
        self._numbers = count(1)
        self._held: dict[str, IO[bytes]] = {}

    def open(self) -> None:
        """Make the folder, and clear away what dead engines left; `OSError` if the folder cannot be used."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.glob("*.lock"):
            with suppress(OSError):  # it is not ours to remove
                if (file := lock(path)) is not None:  # else it is at work
                    unlock(path, file)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_call, weakref.WeakMethod(self._forget)))

    def hold(self) -> str:
        """Become the owner of one more run; the owner's name. `StoreError` if the lock cannot be made."""
        while True:
            owner = f"{self._engine}.{next(self._numbers)}"
            path = self._path(owner)
            try:
                file = lock(path)
            except OSError as error:
                raise fault(path, f"The lock {path} of a run cannot be made", error) from error
            if file is not None:  # else another engine looks whether it can be cleared away
                self._held[owner] = file
                return owner

    def holds(self, owner: str | None) -> bool:
        """Whether this engine is that owner now."""
        return owner in self._held

    def let_go(self, owner: str) -> None:
        """Give one lock back: whoever looks finds the run interrupted, unless the store says that it ended or waits."""
        if (file := self._held.pop(owner, None)) is not None:
            unlock(self._path(owner), file)

    def close(self) -> None:
        """Give all locks back."""
        for owner in tuple(self._held):
            self.let_go(owner)

    def _forget(self) -> None:
        """In a forked child: let go of the files, or the child would hold the locks for its parent."""
        for file in self._held.values():
            file.close()
        self._held.clear()

    def _path(self, owner: str) -> Path:
        return self._folder / f"{owner}.lock"


def is_gone(folder: Path, owner: str | None) -> bool:
    """Whether the owner of this name has let go or died. `folder` is the store's folder."""
    if owner is None:
        return True
    path = folder / "owners" / f"{owner}.lock"
    try:
        return not is_locked(path)
    except OSError:
        return not os.path.lexists(path)


def observed_status(folder: Path, status: str, owner: str | None) -> str:
    """A run's status as it is: one that is `running` in the store but whose owner is gone is `interrupted`."""
    return INTERRUPTED if status == RUNNING and is_gone(folder, owner) else status
