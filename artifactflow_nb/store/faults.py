"""Error messages for faults of the store's files: the file, the cause and what to do.

SQLite and the operating system report the cause as a number; each cause has its own advice. No file is changed here.
"""

import errno
import json
import os
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path

from artifactflow_nb.errors import StoreError

_INTACT = "What was stored before is intact."
_FULL = f"Free some space, or have a quota or a limit on the size of files raised, then continue. {_INTACT}"
_READ_ONLY = (
    "Make the file and its folder writable for you, or choose another data_dir. "
    "What it holds can be read as it is, with the functions of artifactflow_nb.analysis.frames."
)
_UNREACHABLE = "Check that its folder is there and that you may read and write in it, or choose another data_dir."
_DAMAGED = (
    "It was not changed. Close all programs that use it, then move it away together with {name}-wal and {name}-shm if "
    "they exist; a new one is created then."
)
_SALVAGE = (
    " To recover its readable rows into a new file, use the program of sqlite.org: "
    "sqlite3 {name} .recover | sqlite3 recovered.db"
)
_BUSY = "Another process has locked it. Try again; if that does not help, end that process."

DAMAGE_ERRORS = (UnicodeError, json.JSONDecodeError)
"""Exceptions of reading a damaged store other than `sqlite3.Error`: a text is no longer UTF-8 or JSON."""

_FILES_PER_STORE = 12  # two connections, each with the log and its index, and the checkpoints
_NO_DESCRIPTORS = -1  # our own code: SQLite reports CANTOPEN
_RAISE_LIMIT = "Close workbenches and files that you do not need, or raise the limit (ulimit -n), then try again."

TOO_LARGE = "A number that was passed is too large: {}. The store holds whole numbers of 64 bits."
"""For example a huge number that was passed as an id."""

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
    _NO_DESCRIPTORS: _RAISE_LIMIT,
}
_CODES_BY_ERRNO = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EFBIG: sqlite3.SQLITE_FULL,
    errno.EIO: sqlite3.SQLITE_IOERR,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EACCES: sqlite3.SQLITE_PERM,
    errno.EPERM: sqlite3.SQLITE_PERM,
    errno.EMFILE: _NO_DESCRIPTORS,
    errno.ENFILE: _NO_DESCRIPTORS,
}
_CAUSES = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk is full or fails",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_PERM: "you have no permission",
    sqlite3.SQLITE_CORRUPT: "it is damaged",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database, or its beginning is damaged",
    _NO_DESCRIPTORS: "too many files are open",
}


def store_error(path: Path, action: str, error: Exception, *, salvage: bool = True) -> StoreError:
    """Describe an error of SQLite or the operating system with advice, as a `StoreError`.

    Args:
        path: The file.
        action: The failed action as the start of a sentence, such as `The store /x/store.db cannot be opened`.
        error: The exception.
        salvage: Whether to explain how to recover a damaged file.
    """
    code = sqlite_error_code(error)
    if code == sqlite3.SQLITE_CANTOPEN and not has_descriptors():
        code = _NO_DESCRIPTORS
    message = f"{error} ({name})" if (name := getattr(error, "sqlite_errorname", None)) else str(error)
    reason = f"{_CAUSES[code]}: {message}" if code in _CAUSES else message
    if code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
        with suppress(OSError):
            reason += f"; {shutil.disk_usage(path.parent).free / 1e6:,.1f} MB are free there"
    advice = _ADVICE.get(code, "") + (_SALVAGE if salvage and _ADVICE.get(code) is _DAMAGED else "")
    advice = advice.format(name=path.name)
    return StoreError(f"{action}: {reason}. {advice}".strip())


def sqlite_error_code(error: Exception) -> int:
    """Return SQLite's primary result code for an exception, or the nearest code for an `OSError`, or 0 if unknown."""
    # An encode error comes from an argument, not from the file.
    if isinstance(error, DAMAGE_ERRORS) and not isinstance(error, UnicodeEncodeError):
        return sqlite3.SQLITE_CORRUPT
    if isinstance(error, OSError):
        return _CODES_BY_ERRNO.get(error.errno or 0, 0)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte of an extended code is the primary code


def has_descriptors() -> bool:
    """Return whether this process can open as many files as a store needs.

    SQLite reports a lack of file descriptors like any other failure to open a file.
    """
    descriptors: list[int] = []
    try:
        descriptors.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(_FILES_PER_STORE))
    except OSError as error:
        return error.errno not in {errno.EMFILE, errno.ENFILE}
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return True
