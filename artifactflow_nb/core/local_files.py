"""Safe reading of files at paths that users pass: regular files only.

Opening a named pipe blocks until it has a writer, and a device may never end. Every path from a user is therefore
opened here, non-blocking, and anything but a regular file is refused. The values of a
JSON text, for example lists in a list, can take forty times its memory: JSON is read with limits on parts and nesting.
"""

import errno
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from artifactflow_nb.errors import UsageError, brief

AnyPath = str | os.PathLike[str]

_FLAGS = os.O_RDONLY
for _name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):  # each platform defines some of these
    _FLAGS |= getattr(os, _name, 0)

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def absolute_path(path: AnyPath) -> Path:
    """Return the absolute form of a path from a person, so that a later `os.chdir` does not change the path.

    Errors: `UsageError` for an unknown user after `~`, for an invalid path, and for a deleted working directory.
    """
    try:
        absolute = Path(path).expanduser().absolute()
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            absolute.lstat()  # refuses characters and lengths that no path has
    except (RuntimeError, OSError, ValueError, TypeError) as error:
        detail = reason(error) if isinstance(error, OSError | ValueError) else f"{error!s:.200}"
        value = brief(str(path) if isinstance(path, Path) else path)
        raise UsageError(f"The path {value} cannot be used: {detail}. Pass an absolute path.") from None
    return absolute


def shown_path(path: AnyPath) -> str:
    """Return a path as outputs and errors show it: relative to the working directory if the relative form is shorter.

    A saved notebook then has the same outputs on every machine.
    """
    with suppress(OSError, ValueError):  # the working directory is deleted, or on another drive of Windows
        return min(os.path.relpath(path), str(path), key=len)
    return str(path)


def open_regular(path: AnyPath) -> BinaryIO:
    """Open a regular file for reading; `OSError` for other kinds of files and for invalid characters in the path."""
    try:
        check_regular(path, Path(path).stat())  # before opening, which may trigger a device
        handle = os.open(path, _FLAGS)
    except ValueError as error:
        raise OSError(errno.EINVAL, f"a path cannot contain these characters ({_codec_problem(error)})") from error
    try:
        check_regular(path, os.fstat(handle))  # the path may have been replaced between stat and open
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def check_regular(path: AnyPath, status: os.stat_result) -> None:
    """Raise an `OSError` that names the file type, unless the file is regular."""
    if not stat.S_ISREG(status.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(status.st_mode)), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))


def read_bytes(path: AnyPath) -> bytes:
    """Read a regular file; errors as for `open_regular`."""
    with open_regular(path) as file:
        return file.read()


def read_text(path: AnyPath, subject: str) -> str:
    """Read a regular UTF-8 file and normalise its line ends to line feeds.

    `subject` begins error messages, e.g. `The template`.

    Errors: `UsageError` with the path if the file cannot be read or is not UTF-8. The error never quotes the content,
    which may be a secret that was passed by mistake.
    """
    try:
        text = read_bytes(path).decode()
    except OSError as error:
        raise UsageError(f"{subject} {path} cannot be read: {reason(error)}.") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{subject} {path} cannot be read: it is not text in UTF-8 (byte {error.start}). Save it as UTF-8."
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def reason(error: OSError | ValueError | RuntimeError) -> str:
    """Describe a path error without the path itself."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, RuntimeError):  # from `Path.resolve` before Python 3.13
        return "its links lead in a circle"
    return f"a path cannot contain these characters ({_codec_problem(error)})"


def _codec_problem(error: ValueError) -> str:
    return "a lone surrogate" if isinstance(error, UnicodeError) else str(error)


MAX_PARTS = 1_000_000
"""Maximum number of strings, brackets and commas in a text; the largest recorded runs have far fewer."""

_MAX_DEPTH = 100
_PART = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)
CONTAINERS = (Mapping, list, tuple, set, frozenset)


def loads(text: bytes | memoryview | str) -> Any:
    """Parse a JSON text; `ValueError` if it is invalid or has more parts than `MAX_PARTS`."""
    if len(text) > MAX_PARTS:
        data = text.encode() if isinstance(text, str) else bytes(text)
        # The first count includes brackets within strings; the count is fast and suffices for most texts.
        may_be_large = sum(map(data.count, (b'"', b"[", b"{", b","))) > MAX_PARTS
        if may_be_large and next(islice(_PART.finditer(data), MAX_PARTS, None), None) is not None:
            raise ValueError(f"it has more than {MAX_PARTS:,} strings, brackets and commas")
    return orjson.loads(text)


def loads_shallow(text: bytes) -> Any:
    """Parse a JSON text like `loads`; `ValueError` also if the value is nested too deeply for recursive functions."""
    value = loads(text)
    # A text with few brackets, like nearly all, cannot be nested deeply.
    if text.count(b"[") + text.count(b"{") > _MAX_DEPTH and not is_shallow(value):
        raise ValueError("it is nested too deeply")
    return value


def is_shallow(value: Any) -> bool:
    """Return whether recursive functions can process a value without reaching Python's recursion limit."""
    return not is_deeper(value, _MAX_DEPTH)


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether a value consists of more than this number of levels of containers, or contains itself."""
    containers = [value] if isinstance(value, CONTAINERS) else []
    for _ in range(levels):
        # The containers are kept by id, so that shared containers do not multiply from level to level.
        inner = {
            id(item): item
            for outer in containers
            for item in (outer.values() if isinstance(outer, Mapping) else outer)
            if type(item) is not str and isinstance(item, CONTAINERS)  # the check for `Mapping` is slow
        }
        containers = list(inner.values())
        if not containers:
            return False
    return True


def read_at_most(path: Path, n_bytes: int) -> bytes:
    """Read a regular file up to one byte more than `n_bytes`, so that the caller can recognise a longer file."""
    with open_regular(path) as file:
        return file.read(min(os.fstat(file.fileno()).st_size, n_bytes) + 1)
