"""Run locks: an engine holds a file lock for each run that it drives.

A `running` run names its owner, and the owner holds a lock of that name. If the lock is free, the process died or the
engine was closed, and the run is `interrupted`. Unlike a heartbeat, this needs no clock, and releasing a lock needs
neither disk space nor a writable store.

The locks of runs that wait for their start are hard links to one locked file, so that thousands of them need one file
descriptor. On a file system without hard links, each is a file of its own. The lock file of a finished run is renamed
for the next owner, since creating a file takes 20 times as long.
"""

import os
import socket
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO

from artifactflow_nb.errors import StoreError
from artifactflow_nb.store import process_forks
from artifactflow_nb.store.database import make_private
from artifactflow_nb.store.faults import store_error
from artifactflow_nb.store.locks import is_locked, lock, network_file_system, share_lock, unlock
from artifactflow_nb.store.runs import INTERRUPTED, RUNNING, WAITING

_instances: "weakref.WeakSet[RunLocks]" = weakref.WeakSet()


def _close_in_child() -> None:
    """Close the lock files in a forked child, or they would stay locked after the death of the parent."""
    for locks in _instances:
        locks.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


class RunLocks:
    """The run locks of one engine.

    Args:
        folder: The store's folder; lock files are in its subfolder `owners`.
        engine: The engine's id, the first part of its owners' names.
        max_files: Number of open lock files above which new owners share one.
    """

    def __init__(self, folder: Path, engine: str, max_files: int = 256) -> None:
        self._folder = folder / "owners"
        self._engine = engine
        self._numbers = count(1)
        self._files: dict[str, IO[bytes]] = {}
        self._free: dict[str, IO[bytes]] = {}  # of owners that no row names
        self._max_files = max_files
        self._shared: set[str] = set()  # the owners whose lock is a hard link to the engine's lock file
        self._is_open = False
        _instances.add(self)

    def open(self) -> None:
        """Create the folder and remove the lock files of dead processes.

        Errors: `OSError` if the folder cannot be used; `UsageError` in a process that was forked while the folder was
        open; `StoreError` if it lies on a network file system and is open on another host.
        """
        process_forks.check_not_forked(self._folder.parent)
        make_private(self._folder.parent)
        make_private(self._folder)
        if file_system := network_file_system(self._folder):
            self._claim_for_host(file_system)
        process_forks.opened(self._folder.parent)
        self._is_open = True
        for path in self._folder.glob("*.lock"):
            with suppress(OSError):  # no permission to remove it
                if (file := lock(path)) is not None:  # None: its engine is running
                    unlock(path, file)

    def _claim_for_host(self, file_system: str) -> None:
        """Claim the folder for this host; `StoreError` if another host has claimed it.

        The host is in the names of lock files, since a lock itself may not reach other hosts.
        """
        host = socket.gethostname()
        claim = f"{self._engine}@{host}"
        if (file := lock(self._path(claim))) is not None:
            self._files[claim] = file
        # Claim first, then look: of two hosts that open the folder at once, at least one sees the other.
        foreign = [path for path in self._folder.glob("*@*.lock") if path.stem.partition("@")[2] != host]
        if foreign:
            self.release(claim)
            raise StoreError(
                f"The data folder {self._folder.parent} is on a network file system ({file_system}) and is open on "
                f"the host {foreign[0].stem.partition('@')[2]}; only one host at a time can use it. Close the "
                f"workbench there, or delete {foreign[0]} if it is no longer running. A data_dir on a local disk "
                "avoids this."
            )

    def acquire(self) -> str:
        """Create and lock an owner for one more run; return the owner's name.

        Errors: `StoreError` if the lock file cannot be created.
        """
        while True:
            owner = f"{self._engine}.{next(self._numbers)}"
            path = self._path(owner)
            try:
                file = self._renamed(path)
                if file is None and len(self._files) >= self._max_files and self._share(path):
                    self._shared.add(owner)
                    return owner
                file = file or lock(path)
            except OSError as error:
                raise store_error(path, f"The lock {path} of a run cannot be created", error) from error
            if file is not None:  # None: another engine holds it for a moment to see whether it can be removed
                self._files[owner] = file
                return owner

    def _renamed(self, path: Path) -> IO[bytes] | None:
        """Rename the locked file of an earlier owner; None if there is none, or if the system cannot."""
        if not self._free:
            return None
        earlier, file = self._free.popitem()
        try:
            self._path(earlier).replace(path)
        except OSError:
            unlock(self._path(earlier), file)
            return None
        return file

    def _share(self, path: Path) -> bool:
        """Make a path a hard link to the engine's lock file; False if that is not possible."""
        shared = self._path(self._engine)
        if self._engine not in self._files and (file := lock(shared)) is not None:
            self._files[self._engine] = file
        return self._engine in self._files and share_lock(shared, path)

    def separate(self, owner: str) -> None:
        """Replace an owner's shared lock by a lock file of its own, which can be released in a read-only folder too.

        Errors: `StoreError` if the lock file cannot be created.
        """
        if owner not in self._shared:
            return
        path, new = self._path(owner), self._path(f"{owner}.own")
        try:
            if (file := self._renamed(path)) is None:
                while file is None:  # another engine holds it for a moment to see whether it can be removed
                    file = lock(new)
                new.replace(path)
        except OSError as error:
            raise store_error(path, f"The lock {path} of a run cannot be created", error) from error
        self._files[owner] = file
        self._shared.discard(owner)

    def owns(self, owner: str | None) -> bool:
        """Return whether this engine holds the lock of that owner."""
        return owner in self._shared or owner in self._files

    def release(self, owner: str, *, is_over: bool = False) -> None:
        """Release a lock: from now on a run of this owner that is `running` in the store is interrupted.

        With `is_over`, no run names the owner any longer, so that the next owner can reuse its file.
        """
        if owner in self._shared:
            self._shared.discard(owner)
            with suppress(OSError):  # the folder is read-only now: closing the engine releases the lock
                self._path(owner).unlink(missing_ok=True)
        elif (file := self._files.pop(owner, None)) is not None:
            if is_over and self._is_open:
                self._free[owner] = file
            else:
                unlock(self._path(owner), file)

    @contextmanager
    def starting(self, start_lock: str) -> Iterator[None]:
        """Hold the start lock of a waiting run unless it is locked, so that the run does not appear as interrupted."""
        file = None
        with suppress(OSError):  # without the lock the run looks interrupted to others for a moment
            file = lock(self._path(start_lock))
        if file is not None:
            self._files[start_lock] = file
        try:
            yield
        finally:
            if file is not None:
                self.release(start_lock)

    def close(self) -> None:
        """Release all locks."""
        if self._is_open:
            self._is_open = False
            process_forks.closed(self._folder.parent)
        self._files |= self._free
        self._free.clear()
        for owner in (*self._shared, *self._files):
            self.release(owner)

    def abandon(self) -> None:
        """Close the lock files without releasing the locks, which belong to the parent process."""
        self._is_open = False
        for file in (*self._files.values(), *self._free.values()):
            file.close()
        self._files.clear()
        self._free.clear()
        self._shared.clear()

    def _path(self, owner: str) -> Path:
        return self._folder / f"{owner}.lock"


def is_owner_gone(folder: Path, owner: str | None) -> bool:
    """Return whether no process holds the lock of this owner. `folder` is the store's folder."""
    if owner is None:
        return True
    path = folder / "owners" / f"{owner}.lock"
    try:
        return not is_locked(path)
    except OSError:
        return not os.path.lexists(path)


def effective_status(folder: Path, status: str, owner: str | None, start_lock: str | None = None) -> str:
    """Return a run's status; `interrupted` for a run that could continue but that no process drives.

    Args:
        folder: The store's folder.
        status: The stored status.
        owner: The stored owner.
        start_lock: The lock of the engine that resumes it, if it waits and everything is decided; see `START_LOCK`.
    """
    is_abandoned = (status == RUNNING and is_owner_gone(folder, owner)) or (
        status == WAITING and start_lock is not None and is_owner_gone(folder, start_lock)
    )
    return INTERRUPTED if is_abandoned else status
