"""Run locks: an engine holds one file lock for all runs that it drives.

A `running` run names its owner: the engine and a number. If the engine's lock is free, the engine was closed or its
process died, and the run is `abandoned`. Unlike a heartbeat, a lock needs no clock. If the engine releases a run
before the end, its process sees `abandoned` at once; other processes see `abandoned` when the engine is closed.
"""

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO

from artifactflow_nb.store.database import make_private
from artifactflow_nb.store.locks import check_not_forked, is_locked, lock, register_closing, register_opening, unlock
from artifactflow_nb.store.runs import ABANDONED, RUNNING, WAITING

_instances: "weakref.WeakSet[RunLocks]" = weakref.WeakSet()


def _close_in_child() -> None:
    """Close the lock files in a forked child; otherwise the files would stay locked after the death of the parent."""
    for locks in _instances:
        locks.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


class RunLocks:
    """The run locks of one engine.

    Args:
        folder: The store's folder; lock files are in its subfolder `owners`.
        engine: The engine's id, the first part of its owners' names.

    Attributes:
        released: The owners whose runs the engine left unfinished.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        self._folder = folder / "owners"
        self._engine = engine
        self._numbers = count(1)
        self._owners: set[str] = set()
        self._files: dict[Path, IO[bytes]] = {}
        self.released: set[str] = set()
        self._is_open = False
        _instances.add(self)

    def open(self) -> None:
        """Create the folder, lock the engine's file and remove the lock files of dead processes.

        Errors: `OSError` if the folder cannot be used; `UsageError` in a process that was forked while the folder was
        open.
        """
        check_not_forked(self._folder.parent)
        make_private(self._folder.parent)
        make_private(self._folder)
        for number in count(2):
            path = self._folder / f"{self._engine}.lock"
            if (file := lock(path)) is not None:
                self._files[path] = file
                break
            self._engine = f"{self._engine.partition('+')[0]}+{number}"  # another engine has the same id
        register_opening(self._folder.parent)
        self._is_open = True
        for path in self._folder.glob("*.lock"):
            with suppress(OSError):  # no permission to remove the file
                if (file := lock(path)) is not None:  # None: the engine is running
                    unlock(path, file)

    def acquire(self) -> str:
        """Return the name of an owner for one more run."""
        owner = f"{self._engine}.{next(self._numbers)}"
        self._owners.add(owner)
        return owner

    def owns(self, owner: str | None) -> bool:
        """Return whether this engine drives the runs of an owner."""
        return owner in self._owners

    def release(self, owner: str, *, is_over: bool = False) -> None:
        """Release an owner: from now on a run of this owner that is `running` in the store is abandoned.

        If `is_over` is true, no run names the owner any longer.
        """
        if owner in self._owners:
            self._owners.discard(owner)
            if not is_over:
                self.released.add(owner)

    @contextmanager
    def starting(self, start_lock: str) -> Iterator[None]:
        """Hold the start lock of a waiting run, if the lock is free, so that the run does not appear as abandoned."""
        file, path = None, self._folder / f"{start_lock}.lock"
        with suppress(OSError):  # without the lock the run looks abandoned to others for a moment
            file = lock(path)
        if file is not None:
            self._files[path] = file
        try:
            yield
        finally:
            if file is not None and self._files.pop(path, None) is not None:
                unlock(path, file)

    def close(self) -> None:
        """Release all locks."""
        if self._is_open:
            self._is_open = False
            register_closing(self._folder.parent)
        self._owners.clear()
        while self._files:
            unlock(*self._files.popitem())

    def abandon(self) -> None:
        """Close the lock files without releasing the locks, which belong to the parent process."""
        self._is_open = False
        self._owners.clear()
        while self._files:
            self._files.popitem()[1].close()


def is_owner_gone(folder: Path, owner: str | None) -> bool:
    """Return whether no engine drives the runs of this owner. `folder` is the store's folder."""
    if owner is None or any(owner in locks.released for locks in _instances):
        return True
    path = folder / "owners" / f"{owner.partition('.')[0]}.lock"
    try:
        return not is_locked(path)
    except OSError:
        return not os.path.lexists(path)


def effective_status(folder: Path, status: str, owner: str | None, start_lock: str | None = None) -> str:
    """Return a run's status, or `abandoned` if the run could continue but no process drives the run.

    Args:
        folder: The store's folder.
        status: The stored status.
        owner: The stored owner.
        start_lock: The lock of the engine that resumes a waiting run without open requests; see `START_LOCK`.
    """
    is_abandoned = (status == RUNNING and is_owner_gone(folder, owner)) or (
        status == WAITING and start_lock is not None and is_owner_gone(folder, start_lock)
    )
    return ABANDONED if is_abandoned else status
