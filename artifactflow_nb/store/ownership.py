"""Whose run it is: who drives a run holds a lock on a file for as long, which letting go and death release alike.

A run that is `running` names the owner that holds its lock; if nobody holds it any more, the run was interrupted. No
clock has a part in it, and letting go needs neither space on the disk nor a store that can be written.
"""

import os
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO

from artifactflow_nb.store.faults import fault
from artifactflow_nb.store.runs import INTERRUPTED, RUNNING

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes], *, shared: bool = False) -> bool:
        del shared  # all locks are exclusive here
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _remove(path: Path, file: IO[bytes]) -> None:
        file.close()  # a file in use cannot be removed
        with suppress(OSError):  # somebody looks at it just now: a file that nobody locks says the same
            path.unlink(missing_ok=True)

else:
    import fcntl

    def _try_lock(file: IO[bytes], *, shared: bool = False) -> bool:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _remove(path: Path, file: IO[bytes]) -> None:
        with file, suppress(OSError):  # where nothing can be removed, a file that nobody locks says the same
            path.unlink(missing_ok=True)  # while it is locked, or who has just opened it would lock what nobody finds


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
            with suppress(OSError), path.open("rb") as file:  # another engine was faster, or it is not ours to remove
                if _try_lock(file):
                    _remove(path, file)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_call, weakref.WeakMethod(self._forget)))

    def hold(self) -> str:
        """Become the owner of one more run; the owner's name. `StoreError` if the lock cannot be made."""
        for number in self._numbers:
            owner = f"{self._engine}.{number}"
            path = self._path(owner)
            try:
                file = path.open("ab")
            except OSError as error:
                raise fault(path, f"The lock {path} of a run cannot be made", error) from error
            if _try_lock(file) and path.exists():  # else another engine has it, or cleared it away just now
                break
            file.close()
        self._held[owner] = file
        return owner

    def holds(self, owner: str | None) -> bool:
        """Whether this engine is that owner now."""
        return owner in self._held

    def let_go(self, owner: str) -> None:
        """Give one lock back: whoever looks finds the run interrupted, unless the store says that it ended or waits."""
        if (file := self._held.pop(owner, None)) is not None:
            _remove(self._path(owner), file)

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
        with path.open("rb") as file:
            return _try_lock(file, shared=True)
    except OSError:
        return not os.path.lexists(path)


def observed_status(folder: Path, status: str, owner: str | None) -> str:
    """A run's status as it is: one that is `running` in the store but whose owner is gone is `interrupted`."""
    return INTERRUPTED if status == RUNNING and is_gone(folder, owner) else status
