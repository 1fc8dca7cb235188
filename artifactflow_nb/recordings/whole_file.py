"""Files that are written whole or not at all, and one process at a time."""

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Self

from artifactflow_nb.errors import CassetteError
from artifactflow_nb.store.locks import lock, unlock

_WAIT_S = 10.0
_LOOK_EVERY_S = 0.005


def write_whole(place: Path, content: bytes) -> None:
    """Put a file in its place at once, on the disk before it is there: whoever looks finds the old one or the new.

    `OSError` if it cannot be written; what was there before stays then. A link stays one if `place` is resolved.
    """
    draft = place.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            place.open("r+b").close()  # raises for a file that is protected against writing
            shutil.copymode(place, draft)
        draft.replace(place)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(place.parent)


def _sync_folder(folder: Path) -> None:
    """Put the folder's new entry on the disk; some systems have no such thing."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def one_at_a_time(place: Path) -> Iterator[None]:
    """Hold others off who read a file to write it anew, also in this process; `CassetteError` if they take too long."""
    path, until = place.with_name(f".{place.name}.write"), time.monotonic() + _WAIT_S
    while (file := lock(path)) is None:
        if time.monotonic() > until:
            raise CassetteError(f"{place} is being written by somebody else for more than {_WAIT_S:g} s. Try again.")
        time.sleep(_LOOK_EVERY_S)
    try:
        yield
    finally:
        unlock(path, file)


class OnlyWriter:
    """A lock beside a file, held by the process that may write it; letting go and death release it alike.

    Args:
        place: The file, which need not be there yet; its folder must be.
        is_shared: Whether others in this process may hold it too: a cell that makes a workbench is executed again.
    """

    def __init__(self, place: Path, *, is_shared: bool = False) -> None:
        self._place = place
        self._path = place.with_name(f".{place.name}.lock")
        self._pid = os.getpid()
        self._is_shared = is_shared
        self._file: IO[bytes] | None = None
        self.closed = False
        self.renew()

    def renew(self) -> None:
        """Take the lock if another of this process held it and let it go; `CassetteError` if another process has it."""
        if self._file is None and (file := self._locked()) is not None:
            file.truncate(0)
            file.write(str(self._pid).encode())
            file.flush()
            self._file = file

    def _locked(self) -> IO[bytes] | None:
        """The locked file; None if it is shared with one of this process that has it."""
        while (file := lock(self._path)) is None:
            if (holder := _holder(self._path)) == self._pid and self._is_shared:
                return None
            if self._path.exists():  # else whoever had it let it go just now
                raise CassetteError(_told(self._place, holder))
        return file

    def close(self) -> None:
        """Let go; in a forked child, of what it inherited only."""
        self.closed = True
        if self._file is not None:
            if self._pid != os.getpid():
                self._file.close()
            elif not self._file.closed:
                unlock(self._path, self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _holder(path: Path) -> int | None:
    """Who wrote its number into a lock; None if that cannot be read."""
    try:
        return int(path.read_bytes()[:20])
    except (OSError, ValueError):
        return None


def _told(place: Path, pid: int | None) -> str:
    if pid == os.getpid():
        who, how = f"This process ({pid})", "Close the workbench that does, or record into another file."
    else:
        who = "Another process" if pid is None else f"The process {pid}"
        how = "Wait until it has ended or end it, or record into another file."
    return f"{who} records into {place} already, and only one may. {how} Nothing was written."
