"""File locks that the operating system releases when the process dies; a lock file is removed with its lock.

On network file systems, which `network_file_system` recognises, locks may not reach other hosts, and SQLite's
write-ahead log does not work.
"""

import os
import re
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import IO

from artifactflow_nb.errors import UsageError

if sys.platform == "win32":
    import msvcrt

    _LOCKED_BYTE = 2**30
    """Offset of the byte that is locked, beyond the end of any lock file: Windows locks are mandatory for readers."""

    def _try_lock(file: IO[bytes], *, shared: bool = False) -> bool:
        del shared  # msvcrt has exclusive locks only
        file.seek(_LOCKED_BYTE)  # does not affect writes: the file is opened for appending
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(path: Path, file: IO[bytes]) -> None:
        """Release a lock taken by `lock` and remove its file."""
        file.close()  # Windows cannot remove an open file
        with suppress(OSError):  # another process has opened the file; an unlocked file counts as missing
            path.unlink(missing_ok=True)

else:
    import fcntl

    def _try_lock(file: IO[bytes], *, shared: bool = False) -> bool:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(path: Path, file: IO[bytes]) -> None:
        """Release a lock taken by `lock` and remove its file."""
        with file, suppress(OSError):  # the folder is read-only now; an unlocked file counts as missing
            path.unlink(missing_ok=True)  # before the release, or another process could lock the removed file


def lock(path: Path) -> IO[bytes] | None:
    """Lock a file, which is created if necessary; return None if this process or another has locked the file.

    Errors: `OSError` if the file cannot be created.
    """
    while True:
        # Path.open cannot set the mode of a new file.
        file = open(path, "a+b", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
        if not _try_lock(file):
            file.close()
            return None
        with suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()  # the holder removed the file between our open and lock: try again with a new one


def is_locked(path: Path) -> bool:
    """Return whether a file is locked; `OSError` if the file cannot be opened."""
    with path.open("rb") as file:
        return not _try_lock(file, shared=True)


MOUNTS = Path("/proc/self/mounts")
"""The table of mounted file systems on Linux, a line each: device, folder, type. Other systems have no such file."""

_TYPES = frozenset({
    "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "afs", "coda", "9p", "davfs", "sshfs", "s3fs", "gcsfuse",
    "rclone", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "panfs", "wekafs", "orangefs",
})  # fmt: skip


def network_file_system(folder: Path) -> str | None:
    """Return the type of the network file system of a folder, or None for a local or unknown type.

    The folder need not exist.
    """
    try:
        table = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    path, best, name = folder.resolve(), -1, ""
    for line in table.splitlines():
        _, mount, kind, *_ = line.split(" ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), mount))
        if path.is_relative_to(point) and len(point.parts) >= best:  # of two mounts on a folder, the later is visible
            best, name = len(point.parts), kind
    return name if name.removeprefix("fuse.") in _TYPES else None


_open: Counter[Path] = Counter()
_inherited: set[Path] = set()

ADVICE = (
    "SQLite and threads do not survive a fork. Start the process with the spawn start method, "
    'multiprocessing.get_context("spawn"), and make a Workbench of its own there.'
)


def register_opening(folder: Path) -> None:
    """Register one more engine of this process that has the folder open."""
    _open[folder.resolve()] += 1


def register_closing(folder: Path) -> None:
    """Register that one engine of this process has closed the folder."""
    _open[folder.resolve()] -= 1


def check_not_forked(folder: Path) -> None:
    """Raise `UsageError` if the folder was open in the parent process at the time of the fork."""
    if _inherited and folder.resolve() in _inherited:
        raise UsageError(
            f"The data folder {folder} was open in the parent process of this process, {os.getpid()}. {ADVICE}"
        )


def _mark_inherited() -> None:
    _inherited.update(+_open)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_inherited)
