"""What went wrong with a file of the store, told to the person: which file, what is the matter, what to do.

SQLite and the system name the cause by a number; each kind of cause has its own advice. Nothing here changes a file.
"""

import errno
import shutil
import sqlite3
from pathlib import Path

from artifactflow_nb.errors import StoreError

_INTACT = "What was stored before is intact."
_FULL = f"Free some space, or have a quota or a limit on the size of files raised, then go on. {_INTACT}"
_READ_ONLY = (
    "Make the file and its folder writable for you, or choose another data_dir. "
    "What it holds can be read as it is, with the functions of artifactflow_nb.frames."
)
_UNREACHABLE = "Check that its folder is there and that you may read and write in it, or choose another data_dir."
_DAMAGED = (
    "It is left as it is. Close all that uses it, then move it away together with {name}-wal and {name}-shm where they "
    "are there; a new one is begun then."
)
_SALVAGE = (
    " What can be saved of it goes into a new file with the program of sqlite.org: "
    "sqlite3 {name} .recover | sqlite3 recovered.db"
)
_BUSY = "Another process keeps it locked. Try again; if that does not help, end the process that holds it."

TOO_LARGE = "A number that was passed is too large: {}. The store holds whole numbers of 64 bits."
"""Where a number stands in the place of an id, say."""

_ADVICE = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: f"{_FULL} If there is space, the disk itself may be failing.",
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: _UNREACHABLE,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
}
_OF_SYSTEM = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EFBIG: sqlite3.SQLITE_FULL,
    errno.EIO: sqlite3.SQLITE_IOERR,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EACCES: sqlite3.SQLITE_PERM,
    errno.EPERM: sqlite3.SQLITE_PERM,
}
_NAMES = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk is full or fails",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_PERM: "you have no right to it",
    sqlite3.SQLITE_CORRUPT: "it is damaged",
    sqlite3.SQLITE_NOTADB: "it is no SQLite database, or its beginning is damaged",
}


def fault(path: Path, what: str, error: Exception, *, salvage: bool = True) -> StoreError:
    """The error that tells a person what SQLite or the system said of a file.

    Args:
        path: The file.
        what: What could not be done, such as `The store /x/store.db cannot be opened`.
        error: What was raised.
        salvage: Whether to say how a damaged file can be saved.
    """
    kind = cause(error)
    said = f"{error} ({name})" if (name := getattr(error, "sqlite_errorname", None)) else str(error)
    reason = f"{_NAMES[kind]}: {said}" if kind in _NAMES else said
    if kind in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
        reason += _space(path)
    advice = _ADVICE.get(kind, "") + (_SALVAGE if salvage and _ADVICE.get(kind) is _DAMAGED else "")
    advice = advice.format(name=path.name)
    return StoreError(f"{what}: {reason}. {advice}".strip())


def cause(error: Exception) -> int:
    """SQLite's primary code of what went wrong; 0 where neither it nor the system gives one that is known."""
    if isinstance(error, OSError):
        return _OF_SYSTEM.get(error.errno or 0, 0)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _space(path: Path) -> str:
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return ""
    return f"; {free / 1e6:,.1f} MB are free there"
