"""Atomic writing of files, and locks for files that one process writes at a time."""

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from artifactflow_nb.core.local_files import check_regular, reason
from artifactflow_nb.errors import CassetteError, UsageError
from artifactflow_nb.store.locks import lock, unlock

_TIMEOUT_S = 10.0
_RETRY_INTERVAL_S = 0.005


def write_whole(path: Path, content: bytes, *, replace: bool = True) -> None:
    """Write a file atomically: readers see the old content or the new one, and an error leaves the old one.

    A symbolic link is replaced by the file unless `path` is resolved.

    Errors: `OSError`; `FileExistsError` if the file exists and must not be replaced.
    """
    draft = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace and path.exists():
            check_regular(path, path.stat())
            path.open("r+b").close()  # raises for a write-protected file
            shutil.copymode(path, draft)
        if replace:
            draft.replace(path)
        else:
            try:
                path.hardlink_to(draft)
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links: the check and the renaming are not one step
                if path.exists():
                    raise FileExistsError from None
                draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    with suppress(OSError):  # some systems cannot sync a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Exclude other threads and processes from reading and rewriting a file; `CassetteError` after a time-out."""
    lock_path, deadline = path.with_name(f".{path.name}.write"), time.monotonic() + _TIMEOUT_S
    while (file := lock(lock_path)) is None:
        if time.monotonic() > deadline:
            raise CassetteError(f"Another process has been writing {path} for more than {_TIMEOUT_S:g} s. Try again.")
        time.sleep(_RETRY_INTERVAL_S)
    try:
        yield
    finally:
        unlock(lock_path, file)


def write_bytes(path: Path, data: bytes, *, replace: bool) -> Path:
    """Write a file atomically; `UsageError` if it exists and must not be replaced, or cannot be written."""
    try:
        write_whole(path.resolve() if replace else path, data, replace=replace)
    except FileExistsError:
        raise UsageError(
            f"There is a file {str(path)!r} already. Pass replace=True to replace it, or another path."
        ) from None
    except (OSError, ValueError, RuntimeError) as error:  # invalid characters in the path, links in a circle
        raise UsageError(f"{str(path)!r} cannot be written: {reason(error)}. Pass another path.") from error
    return path


class OnlyWriter:
    """A lock next to a file for the process that may write it; released by `close` and when the process dies.

    Args:
        path: The file, in an existing folder; it does not have to exist.
        is_shared: Whether other instances of this process may share the lock: a cell that creates a workbench can be
            executed again.

    Errors: `CassetteError` if another process has the lock, or this one without `is_shared`.
    """

    def __init__(self, path: Path, *, is_shared: bool = False) -> None:
        self._path = path
        self._lock_path = path.with_name(f".{path.name}.lock")
        self._pid = os.getpid()
        self._is_shared = is_shared
        self._file: IO[bytes] | None = None
        self.closed = False
        self.renew()

    def renew(self) -> None:
        """Take over the lock of an instance of this process that was closed; errors as of the class."""
        if self._file is not None:
            return
        while (file := lock(self._lock_path)) is None:
            holder = None
            with suppress(OSError, ValueError):
                holder = int(self._lock_path.read_bytes()[:20])
            if holder == self._pid and self._is_shared:
                return
            if self._lock_path.exists():  # otherwise it was released in the meantime
                process, advice = f"The process {holder}", "Wait until it has ended or end it"
                if holder == self._pid:
                    process, advice = f"This process ({holder})", "Close the workbench that does"
                elif holder is None:
                    process = "Another process"
                raise CassetteError(
                    f"{process} records into {self._path} already, and only one may. {advice}, or record into another "
                    "file. Nothing was written."
                )
        file.truncate(0)
        file.write(str(self._pid).encode())
        file.flush()
        self._file = file

    def close(self) -> None:
        """Release the lock; a forked child only closes its copy of the file."""
        self.closed = True
        if self._file is not None:
            if self._pid != os.getpid():
                self._file.close()
            elif not self._file.closed:
                unlock(self._lock_path, self._file)
