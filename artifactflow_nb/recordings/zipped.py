"""Members as one zip, the same bytes for the same members, and back: bounded, and without touching the disk."""

import io
import os
import secrets
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from artifactflow_nb.errors import UsageError

_MIB = 2**20
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = 0o100644 << 16
_UNIX = 3
_UTF8 = 0x800
_AGAIN = "Get it again from where it came."


class Flaw(Exception):
    """What is wrong with a member of a file, or with the file as a whole.

    Args:
        member: Which member; empty for the file.
        what: What is wrong, as a sentence.
        advice: What to do; None for getting the file again.
    """

    def __init__(self, member: str, what: str, *, advice: str | None = None) -> None:
        super().__init__(" ".join(filter(None, [member and f"{member!a:.120}:", what, advice or _AGAIN])))


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a file may be.

    Attributes:
        file_bytes: The file itself.
        members: How many members it has.
        member_bytes: One member, unpacked.
        total_bytes: All members, unpacked.
        ratio: How many times its own size a file may hold, where that is more than `free_bytes`.
        free_bytes: What every file may hold, however small it is.
    """

    file_bytes: int = 256 * _MIB
    members: int = 20_000
    member_bytes: int = 512 * _MIB
    total_bytes: int = 1024 * _MIB
    ratio: int = 200
    free_bytes: int = 64 * _MIB


def zipped(members: Mapping[str, bytes]) -> bytes:
    """A zip of the members, sorted by name, without the time of day."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, allowZip64=False, compresslevel=6) as archive:
        for name in sorted(members):
            about = zipfile.ZipInfo(name, _NO_TIME)
            about.create_system, about.external_attr = _UNIX, _PLAIN_FILE
            about.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(about, members[name])
    return packed.getvalue()


def unzip(data: bytes, limits: Limits) -> dict[str, bytes]:
    """The members of a zip by name; `Flaw` for one that is damaged, too large, or has what ours never have."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = archive.infolist()
            if archive.comment:
                raise Flaw("", "It has a comment, which sealed files have not.")
            _check_size(listed, len(data), limits)
            _check_names(listed)
            return {about.filename: _unpacked(archive, about) for about in listed}
    except zipfile.BadZipFile as error:
        raise Flaw("", f"It is no whole zip file ({error}).") from error
    except (RuntimeError, ValueError, EOFError, OSError, LookupError, OverflowError, struct.error) as error:
        raise Flaw("", f"Its list of members is damaged ({error}).") from error


def _check_size(listed: list[zipfile.ZipInfo], size: int, limits: Limits) -> None:
    advice = "If you trust it, read it with artifactflow_nb.recordings.sealed.read_sealed and other limits."
    if len(listed) > limits.members:
        raise Flaw("", f"It has {len(listed):,} members; {limits.members:,} are allowed.", advice=advice)
    total = 0
    for about in listed:
        total += about.file_size
        if about.file_size > limits.member_bytes:
            raise Flaw(about.filename, f"it would unpack to {about.file_size:,} bytes.", advice=advice)
    if total > min(limits.total_bytes, max(limits.free_bytes, limits.ratio * size)):
        raise Flaw("", f"Its {size:,} bytes would unpack to {total:,}.", advice=advice)


def _check_names(listed: list[zipfile.ZipInfo]) -> None:
    """Refuse what no sealed file has: names that lead elsewhere, twins, other kinds of packing."""
    seen: set[str] = set()
    for about in listed:
        name = about.orig_filename
        path = PurePosixPath(name)
        if name != about.filename or path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
            raise Flaw(name, "its name leads out of the file.")
        if str(path) != name or name in seen:
            raise Flaw(name, "its name is there twice, or is no plain name.")
        seen.add(name)
        plain = about.compress_type in {zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED} and not about.flag_bits & ~_UTF8
        if not plain or about.extra or about.comment:
            raise Flaw(name, "it is packed in a way in which sealed files are not.")


def _unpacked(archive: zipfile.ZipFile, about: zipfile.ZipInfo) -> bytes:
    try:
        data = archive.read(about)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError, struct.error) as error:
        raise Flaw(about.filename, f"it is damaged ({error}).") from error
    if len(data) != about.file_size:
        raise Flaw(about.filename, f"it has {len(data):,} bytes, not {about.file_size:,}.")
    return data


def read_bytes(path: Path, limits: Limits) -> bytes:
    """A file, if it is not too large; `Flaw` if it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(limits.file_bytes + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Flaw("", f"It cannot be read: {why}.", advice="Check the path.") from error
    if len(data) > limits.file_bytes:
        raise Flaw("", f"It is larger than {limits.file_bytes:,} bytes.")
    return data


def write_bytes(path: Path, data: bytes, *, replace: bool) -> Path:
    """Write a file whole or not at all; `UsageError` if it is there and not to be replaced, or cannot be written."""
    try:
        _put(path.resolve() if replace else path, data, replace=replace)  # a link stays one
    except FileExistsError:
        raise UsageError(
            f"There is a file {str(path)!r} already. Pass replace=True to replace it, or another path."
        ) from None
    except (OSError, ValueError, RuntimeError) as error:  # characters that no path can have, links in a circle
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{str(path)!r} cannot be written: {why}. Pass another path.") from error
    return path


def _put(target: Path, data: bytes, *, replace: bool) -> None:
    draft = target.with_name(f"{secrets.token_hex(8)}.part")
    try:
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            draft.replace(target)
        else:
            _take(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _take(draft: Path, path: Path) -> None:
    """Give a file its name, which nobody else may have taken by then."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:  # a disk without links: here somebody else might come between the look and the step
        if path.exists():
            raise FileExistsError from None
        draft.replace(path)
