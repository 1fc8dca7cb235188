"""Files of recordings: atomic writing, locks for one writer at a time, and members as one zip file.

The comment of a zip file is the hash of all bytes before the comment, so every changed byte is detected, even in a
header, in a gap or in a padding bit. Equal members give equal bytes if zlib compresses in the same way.
"""

import hashlib
import io
import os
import secrets
import shutil
import struct
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from artifactflow_nb.core.local_files import check_regular, reason
from artifactflow_nb.errors import CassetteError, UsageError, brief
from artifactflow_nb.store.locks import lock, unlock

_TIMEOUT_S = 10.0
_RETRY_INTERVAL_S = 0.005


def write_whole(path: Path, content: bytes, *, replace: bool = True) -> None:
    """Write a file atomically: readers see the old or the new content, and an error leaves the old content.

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
    """Write a file atomically; `UsageError` if a file exists and must not be replaced, or cannot be written."""
    try:
        write_whole(path.resolve() if replace else path, data, replace=replace)
    except FileExistsError:
        raise UsageError(
            f"There is a file {brief(str(path))} already. Pass replace=True to replace it, or another path."
        ) from None
    except (OSError, ValueError, RuntimeError) as error:  # invalid characters in the path, links in a circle
        raise UsageError(f"{brief(str(path))} cannot be written: {reason(error)}. Pass another path.") from error
    return path


class OnlyWriter:
    """A lock next to a file for the process that may write the file; released by `close` and when the process dies.

    The folder must exist, the file need not. Other instances of the process share the lock: a cell that creates a
    workbench can be executed again.

    Errors: `CassetteError` if another process has the lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock_path = path.with_name(f".{path.name}.lock")
        self._pid = os.getpid()
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
            if holder == self._pid:
                return
            if self._lock_path.exists():  # without a file, the lock was released in the meantime
                process = "Another process" if holder is None else f"The process {holder}"
                raise CassetteError(
                    f"{process} records into {self._path} already, and only one process can. Wait until that process "
                    "has ended or end it, or record into another file. Nothing was written."
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


_MIB = 2**20
_PLAIN_FILE = 0o100644 << 16
_UNIX = 3
_HASH_CHARS = 64
_MOST_MEMBERS, _MOST_BYTES = 2**16 - 1, 2**31 - 1
_AGAIN = "Obtain the file again from its source."
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error,
    RuntimeError, ValueError, EOFError, OSError, LookupError, OverflowError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the size of an unpacked file.

    Attributes:
        ratio: Largest ratio of unpacked to packed size, for files that unpack to more than `free_bytes`.
        free_bytes: Unpacked size up to which any ratio is allowed.
    """

    file_bytes: int = 256 * _MIB
    members: int = 20_000
    total_bytes: int = 1024 * _MIB
    ratio: int = 200
    free_bytes: int = 64 * _MIB


def pack(members: Mapping[str, bytes]) -> bytes:
    """Pack members into a zip file, sorted by name and without times.

    Errors: `CassetteError` for more members, or larger members, than a zip file can hold.
    """
    if len(members) > _MOST_MEMBERS or sum(map(len, members.values())) > _MOST_BYTES:
        n_bytes = sum(map(len, members.values()))
        raise CassetteError(
            f"The recording has {len(members):,} members and {n_bytes:,} bytes; a sealed file can hold at most "
            f"{_MOST_MEMBERS:,} members and {_MOST_BYTES:,} bytes. Seal a run with fewer artifacts or sources."
        )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = bytes(_HASH_CHARS)
        for name in sorted(members):
            about = zipfile.ZipInfo(name)  # the date is the first date of the format
            about.create_system, about.external_attr = _UNIX, _PLAIN_FILE
            archive.writestr(about, members[name], zipfile.ZIP_DEFLATED, compresslevel=6)
    content = file.getvalue()[:-_HASH_CHARS]
    return content + hashlib.sha256(content).hexdigest().encode()


def unpack(data: bytes, limits: Limits | None = None) -> dict[str, bytes]:
    """Unpack a zip file that `pack` wrote; `CassetteError` for any other file, and beyond the limits."""
    limits = limits or Limits()
    if len(data) > limits.file_bytes:
        raise CassetteError(f"The file has more than {limits.file_bytes:,} bytes, which exceeds the limit.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _check_size(entries, len(data), limits)
            seen: set[str] = set()
            for about in entries:
                name, path = about.orig_filename, PurePosixPath(about.orig_filename)
                leads_out = path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name
                if leads_out or str(path) != name or name != about.filename or name in seen:
                    raise CassetteError(f"The name {name!a:.120} is outside of the archive, or occurs twice. {_AGAIN}")
                seen.add(name)
            members = {about.filename: _read_member(archive, about) for about in entries}  # an error names the member
    except _DAMAGE as error:
        raise CassetteError(f"The file is not a complete zip file ({error}). {_AGAIN}") from error
    if data[-_HASH_CHARS:] != hashlib.sha256(data[:-_HASH_CHARS]).hexdigest().encode():
        raise CassetteError(f"The file was modified: some bytes were changed. {_AGAIN}")
    return members


def find_member(data: bytes, name: str, limits: Limits | None = None) -> bytes:
    """Return a member of any zip file, within the limits; `CassetteError` for an unknown name."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            about = archive.getinfo(name)
            _check_size([about], len(data), limits or Limits())
            return _read_member(archive, about)
    except _DAMAGE as error:
        raise CassetteError(f"The file is not a complete zip file ({error}). {_AGAIN}") from error


def _read_member(archive: zipfile.ZipFile, about: zipfile.ZipInfo) -> bytes:
    """Unpack a member up to the length in its header, and compare the checksum at this length."""
    if about.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:  # other methods unpack without a limit
        raise CassetteError(f"{about.filename!a:.120} is compressed with an unknown method. {_AGAIN}")
    try:
        with archive.open(about) as file:
            content = file.read(about.file_size)
    except _DAMAGE as error:
        raise CassetteError(f"{about.filename!a:.120} is damaged ({error}). {_AGAIN}") from error
    if len(content) != about.file_size:
        raise CassetteError(f"The size of {about.filename!a:.120} differs from its header. {_AGAIN}")
    return content


def _check_size(entries: list[zipfile.ZipInfo], size: int, limits: Limits) -> None:
    if len(entries) > limits.members:
        raise CassetteError(f"The file has {len(entries):,} members, which exceeds the limit.")
    total = sum(about.file_size for about in entries)
    if total > min(limits.total_bytes, max(limits.free_bytes, limits.ratio * size)):
        raise CassetteError(f"The {size:,} bytes of the file would unpack to {total:,}, which exceeds the limit.")
