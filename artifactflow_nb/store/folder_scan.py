"""The files of a folder, with what tells cheaply whether one changed: its size and the time of its last change.

Links to folders are not followed, nor links to files outside; so no loop has an end to be looked for, and nothing is
read that lies elsewhere.
"""

import errno
import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote_from_bytes, unquote_to_bytes

from artifactflow_nb.errors import UsageError
from artifactflow_nb.store.source_values import Skipped

_LEFT_OUT = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
_MARK_OF_VENV = "pyvenv.cfg"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as the scan saw it.

    Attributes:
        path: Where it is.
        relative: Its path below the folder; empty for the file that was asked for itself.
        uri: Its address.
        size: Its bytes.
        mtime_ns: When it was last changed, in nanoseconds since 1970.
    """

    path: Path
    relative: PurePosixPath
    uri: str
    size: int
    mtime_ns: int

    @property
    def suffix(self) -> str:
        """Its suffix in lower case."""
        return self.path.suffix.lower()


@dataclass(frozen=True, slots=True)
class Scan:
    """What was found.

    Attributes:
        root: The folder or file, absolute.
        files: The files of a kind that can be read, by path.
        skipped: What could not be looked at.
    """

    root: Path
    files: tuple[FoundFile, ...]
    skipped: tuple[Skipped, ...]


def scan(path: str | Path, kinds: Collection[str]) -> Scan:
    """Look at every file below the path that has one of these suffixes; nothing is opened.

    Hidden files and folders, `node_modules`, `__pycache__` and virtual environments are left out.

    Errors: `UsageError` for a path that does not exist, a file of another kind, a folder that must not be listed.
    """
    root = Path(path).expanduser().resolve()
    if not root.exists():
        raise UsageError(f"The folder {root} does not exist. Pass the path of a folder or of a file.")
    if root.is_file():
        if root.suffix.lower() not in kinds:
            raise UsageError(f"The file {root} is of a kind that cannot be read. Kinds that can: {', '.join(kinds)}.")
        return Scan(root, (found_file(root, root.as_uri(), PurePosixPath()),), ())
    try:
        next(root.iterdir(), None)
    except OSError as error:
        raise UsageError(f"{root} cannot be read ({error.strerror}). Check its permissions.") from error
    found = list(_below(root, tuple(kinds)))
    files = sorted((one for one in found if isinstance(one, FoundFile)), key=lambda one: one.relative.parts)
    return Scan(root, tuple(files), tuple(sorted((one for one in found if isinstance(one, Skipped)), key=str)))


def found_file(path: Path, uri: str, relative: PurePosixPath) -> FoundFile:
    """The file as it is now; `OSError` if it is not there, or is a pipe or the like: opening one may never end."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "is no file", str(path))
    return FoundFile(path, relative, uri, found.st_size, found.st_mtime_ns)


def root_of(path: Path, source_id: str) -> Path:
    """The folder with which a file was found, from the id that its source got: the file itself if it was alone."""
    depth = source_id.count("/")
    return path.parents[depth - 1] if depth else path


def leads_out(path: Path, root: Path) -> bool:
    """Whether the path goes through a link to somewhere outside the folder; `OSError`, `RuntimeError` as `resolve`."""
    return not path.resolve().is_relative_to(root)


def path_of(uri: str) -> Path | None:
    """The path of a `file:` address; None for any other."""
    if not uri.startswith("file://"):
        return None
    written = os.fsdecode(unquote_to_bytes(uri.removeprefix("file://")))
    if os.name == "nt":
        return Path(written.removeprefix("/") if written.startswith("/") else f"//{written}")
    return Path(written)


def readable_name(path: str | os.PathLike[str]) -> str:
    """The path as text that can be shown and stored, whatever bytes it is made of."""
    return os.fsencode(path).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path
    relative: PurePosixPath


def _below(root: Path, kinds: tuple[str, ...]) -> Iterator[FoundFile | Skipped]:
    waiting = [_Folder(root, PurePosixPath())]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder.path) as listing:
                entries = list(listing)
        except OSError as error:
            yield Skipped(readable_name(folder.relative), f"cannot be listed ({error.strerror})")
            continue
        if folder.relative.parts and any(entry.name == _MARK_OF_VENV for entry in entries):
            continue
        uri = folder.path.as_uri().rstrip("/")
        for entry in entries:
            if not entry.name.startswith(".") and entry.name not in _LEFT_OUT:
                found = _entry(root, entry, folder.relative / entry.name, uri, kinds)
                if isinstance(found, _Folder):
                    waiting.append(found)
                elif found is not None:
                    yield found


def _entry(
    root: Path, entry: os.DirEntry[str], relative: PurePosixPath, uri: str, kinds: tuple[str, ...]
) -> FoundFile | Skipped | _Folder | None:
    try:
        if entry.is_dir(follow_symlinks=False):
            return _Folder(Path(entry.path), relative)
        if reason := _reason_against(root, entry, kinds):
            return Skipped(readable_name(relative), reason)
        if not entry.name.lower().endswith(kinds):
            return None
        return found_file(Path(entry.path), f"{uri}/{quote_from_bytes(os.fsencode(entry.name))}", relative)
    except (OSError, RuntimeError) as error:  # a link that leads to itself is a RuntimeError to pathlib
        reason = (error.strerror if isinstance(error, OSError) else None) or "it leads to itself"
        return Skipped(readable_name(relative), f"cannot be read ({reason})")


def _reason_against(root: Path, entry: os.DirEntry[str], kinds: tuple[str, ...]) -> str:
    """Why an entry that is no folder is not read though it looks like a source; else empty."""
    if entry.is_symlink() and entry.is_dir():
        return "is a link to a folder, which is not followed"
    if not entry.name.lower().endswith(kinds):
        return ""
    if entry.is_symlink() and leads_out(Path(entry.path), root):
        return "is a link that leads out of the folder"
    return "" if entry.is_file() else "is no file, or a link to nothing"
