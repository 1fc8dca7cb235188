"""Scan of a folder: its readable files with size and modification time.

Links to folders and links to files outside the folder are not followed, so there are no loops, and no file outside the
folder is read.
"""

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import quote_from_bytes, unquote_to_bytes

from artifactflow_nb.core.local_files import absolute_path, check_regular, reason
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.sources.formats.sections import Extractors, kind_of, side_files
from artifactflow_nb.sources.values import SkippedFile

_IGNORED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
_VENV_MARKER = "pyvenv.cfg"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file at the time of the scan.

    Attributes:
        relative: Path below the folder; empty if the scan had this file only.
        mtime_ns: Modification time in nanoseconds since 1970.
    """

    path: Path
    relative: PurePosixPath
    uri: str
    size: int
    mtime_ns: int

    @property
    def suffix(self) -> str:
        """The suffix of the file in lower case."""
        return self.path.suffix.lower()


@dataclass(frozen=True, slots=True)
class FolderScan:
    """The result of a scan.

    Attributes:
        root: The absolute path of the folder or file.
        files: The files with a readable suffix, by path.
        skipped: Files and folders that could not be accessed.
        unsupported: Number of files of other kinds by suffix, the most frequent first; "" for files without a suffix.
    """

    root: Path
    files: tuple[FoundFile, ...]
    skipped: tuple[SkippedFile, ...]
    unsupported: Mapping[str, int] = field(default_factory=dict)


def scan_folder(path: str | Path, extractors: Extractors) -> FolderScan:
    """List the files below a path that an extractor reads, without opening them.

    Hidden files and folders, `node_modules`, `__pycache__` and virtual environments are ignored.

    Errors: `UsageError` for a path that does not exist, a file with another suffix and a folder that cannot be listed.
    """
    try:
        root = absolute_path(path).resolve()
        is_there = root.exists()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"{brief(str(path))} cannot be read: {reason(error)}. Pass the path of a folder or of a file."
        ) from None
    if not is_there:
        raise UsageError(f"The folder {root} does not exist. Pass the path of a folder or of a file.")
    if root.is_file():
        if kind_of(root, extractors) not in extractors:
            names = ", ".join(extractors)
            raise UsageError(f"The file {root} is of a kind that cannot be read. Readable kinds: {names}.")
        return FolderScan(root, (stat_file(root, root.as_uri(), PurePosixPath()),), ())
    try:
        if not root.is_dir():
            check_regular(root, root.stat())
        next(root.iterdir(), None)
    except OSError as error:
        raise UsageError(f"{root} cannot be read ({error.strerror}). Check its permissions.") from error
    unsupported: Counter[str] = Counter()
    entries = list(_walk(root, extractors, unsupported))
    files = sorted((entry for entry in entries if isinstance(entry, FoundFile)), key=lambda file: file.relative.parts)
    skipped = sorted((entry for entry in entries if isinstance(entry, SkippedFile)), key=str)
    by_number = dict(sorted(unsupported.items(), key=lambda entry: (-entry[1], entry[0])))
    return FolderScan(root, tuple(files), tuple(skipped), by_number)


def stat_file(path: Path, uri: str, relative: PurePosixPath) -> FoundFile:
    """Return the current state of a file and of its side files; `OSError` for a missing file and for a folder."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # opening a pipe or a device may block forever
        raise OSError(errno.EINVAL, "is not a file", str(path))
    states = [status, *(side.stat() for side in side_files(path))]
    size, mtime_ns = sum(state.st_size for state in states), max(state.st_mtime_ns for state in states)
    return FoundFile(path, relative, uri, size, mtime_ns)


def scan_root(path: Path, source_id: str) -> Path:
    """Return the folder whose scan found a file, by the source id; a file that was added alone is its own root."""
    depth = source_id.count("/")
    return path.parents[depth - 1] if depth else path


def is_outside_root(path: Path, root: Path) -> bool:
    """Return whether a path leaves the folder through a link; raises `OSError` and `RuntimeError` like `resolve`."""
    return not path.resolve().is_relative_to(root)


def path_from_uri(uri: str) -> Path | None:
    """Return the path of a `file:` URI, or None for another URI."""
    if not uri.startswith("file://"):
        return None
    written = os.fsdecode(unquote_to_bytes(uri.removeprefix("file://")))
    if os.name == "nt":
        return Path(written.removeprefix("/") if written.startswith("/") else f"//{written}")
    return Path(written)


def printable_path(path: str | os.PathLike[str]) -> str:
    """Convert a path to text without surrogates for display and storage; undecodable bytes are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def _walk(root: Path, extractors: Extractors, unsupported: Counter[str]) -> Iterator[FoundFile | SkippedFile]:
    """Yield the readable files below the root, and the entries that look like a source but cannot be read.

    Count the files of other kinds by suffix in `unsupported`.
    """
    waiting = [(root, PurePosixPath())]
    while waiting:
        folder, below = waiting.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError as error:
            yield SkippedFile(printable_path(below), f"cannot be listed ({error.strerror})")
            continue
        if below.parts and any(entry.name == _VENV_MARKER for entry in entries):
            continue
        uri = folder.as_uri().rstrip("/")
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _IGNORED_FOLDERS:
                continue
            path, relative = Path(entry.path), below / entry.name
            extractor = extractors.get(kind_of(path, extractors))
            try:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((path, relative))
                elif entry.is_symlink() and entry.is_dir():
                    yield SkippedFile(printable_path(relative), "is a link to a folder, which is not followed")
                elif extractor is None or not extractor.is_in_folders:
                    unsupported[path.suffix.lower()] += 1
                elif entry.is_symlink() and is_outside_root(path, root):
                    yield SkippedFile(printable_path(relative), "is a link that leads out of the folder")
                elif not entry.is_file():
                    yield SkippedFile(printable_path(relative), "is not a file, or a link to nothing")
                else:
                    yield stat_file(path, f"{uri}/{quote_from_bytes(os.fsencode(entry.name))}", relative)
            except (OSError, RuntimeError) as error:  # a link that leads to itself is a RuntimeError to pathlib
                problem = (error.strerror if isinstance(error, OSError) else None) or "it leads to itself"
                yield SkippedFile(printable_path(relative), f"cannot be read ({problem})")
