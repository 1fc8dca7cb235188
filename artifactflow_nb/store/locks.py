"""Locks on files, which letting go and the death of a process release alike; the file goes when its lock does."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt

    _BEYOND = 2**30
    """Which byte is locked: one that no lock file has, since what is locked cannot be read by others here."""

    def _try(file: IO[bytes], *, shared: bool = False) -> bool:
        del shared  # all locks are exclusive here
        file.seek(_BEYOND)  # which a file that is opened for appending does not heed when it writes
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(path: Path, file: IO[bytes]) -> None:
        """Let go of a lock that `lock` gave, and remove its file."""
        file.close()  # a file in use cannot be removed
        with suppress(OSError):  # somebody looks at it just now: a file that nobody locks says the same
            path.unlink(missing_ok=True)

else:
    import fcntl

    def _try(file: IO[bytes], *, shared: bool = False) -> bool:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(path: Path, file: IO[bytes]) -> None:
        """Let go of a lock that `lock` gave, and remove its file."""
        with file, suppress(OSError):  # where nothing can be removed, a file that nobody locks says the same
            path.unlink(missing_ok=True)  # while it is locked, or who has just opened it would lock what nobody finds


def lock(path: Path) -> IO[bytes] | None:
    """Lock a file, which is made if it is not there; None if somebody has it, in this process too.

    `OSError` if it cannot be made.
    """
    while True:
        file = path.open("a+b")
        if not _try(file):
            file.close()
            return None
        if _is_at(file, path):
            return file
        file.close()  # whoever had it removed it just now


def is_locked(path: Path) -> bool:
    """Whether somebody has the lock of a file; `OSError` if the file cannot be looked at."""
    with path.open("rb") as file:
        return not _try(file, shared=True)


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False
