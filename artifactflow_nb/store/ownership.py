"""Whose run it is: every engine holds a lock on a file of its own, which its death releases.

A run that is `running` names its owner; if nobody holds the owner's lock any more, the run was interrupted.
"""

import os
import sys
from pathlib import Path
from typing import IO

from artifactflow_nb.store.runs import INTERRUPTED, RUNNING

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True


class Ownership:
    """The lock of one engine.

    Args:
        folder: Where lock files lie; the store's folder.
        owner: The engine's id.
    """

    def __init__(self, folder: Path, owner: str) -> None:
        self.owner = owner
        self._folder = folder / "owners"
        self._file: IO[bytes] | None = None

    def take(self) -> None:
        """Hold the lock from now on, and clear away what dead engines left."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.glob("*.lock"):
            if is_gone(self._folder.parent, path.stem):
                path.unlink(missing_ok=True)
        self._file = self._path(self.owner).open("ab")
        while not (_try_lock(self._file) and self._path(self.owner).exists()):  # another engine cleared it away
            self._file.close()
            self._file = self._path(self.owner).open("ab")
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """In a forked child: let go of the file, or the child would hold the lock for its parent."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def release(self) -> None:
        """Give the lock back."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._path(self.owner).unlink(missing_ok=True)

    def _path(self, owner: str) -> Path:
        return self._folder / f"{owner}.lock"


def is_gone(folder: Path, owner: str | None) -> bool:
    """Whether the engine of this id has ended, orderly or not. `folder` is the store's folder."""
    if owner is None:
        return True
    path = folder / "owners" / f"{owner}.lock"
    try:
        with path.open("r+b") as file:
            return _try_lock(file)
    except OSError:
        return not os.path.lexists(path)


def observed_status(folder: Path, status: str, owner: str | None) -> str:
    """A run's status as it is: one that is `running` in the store but whose engine has ended is `interrupted`."""
    return INTERRUPTED if status == RUNNING and is_gone(folder, owner) else status
