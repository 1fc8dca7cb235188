"""Members as one zip file and back, within limits.

The comment of the file is the hash of everything before it, so no byte can be changed unnoticed, be it in a header, in
a gap or in a padding bit. The same members give the same bytes, as long as zlib compresses in the same way.
"""

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from artifactflow_nb.errors import CassetteError

_MIB = 2**20
_PLAIN_FILE = 0o100644 << 16
_UNIX = 3
_HASH_CHARS = 64
_MOST_MEMBERS, _MOST_BYTES = 2**16 - 1, 2**31 - 1
_AGAIN = "Get it again from where it came."
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error,
    RuntimeError, ValueError, EOFError, OSError, LookupError, OverflowError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a file may be.

    Attributes:
        file_bytes: The file.
        members: The number of members.
        total_bytes: All members, unpacked.
        ratio: Largest ratio of unpacked to packed size, for files that unpack to more than `free_bytes`.
        free_bytes: Unpacked size up to which any ratio is allowed.
    """

    file_bytes: int = 256 * _MIB
    members: int = 20_000
    total_bytes: int = 1024 * _MIB
    ratio: int = 200
    free_bytes: int = 64 * _MIB


def pack(members: Mapping[str, bytes]) -> bytes:
    """A zip of the members, sorted by name and without times.

    Errors: `CassetteError` for more members, or larger ones, than a zip file can hold.
    """
    if len(members) > _MOST_MEMBERS or sum(map(len, members.values())) > _MOST_BYTES:
        raise CassetteError(f"A zip file cannot hold {len(members):,} members, or more than 2 GiB.")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = bytes(_HASH_CHARS)
        for name in sorted(members):
            about = zipfile.ZipInfo(name)  # with the first date of the format
            about.create_system, about.external_attr = _UNIX, _PLAIN_FILE
            archive.writestr(about, members[name], zipfile.ZIP_DEFLATED, compresslevel=6)
    content = file.getvalue()[:-_HASH_CHARS]
    return content + hashlib.sha256(content).hexdigest().encode()


def unpack(data: bytes, limits: Limits | None = None) -> dict[str, bytes]:
    """The members of a zip file that `pack` wrote; `CassetteError` for any other, and beyond the limits."""
    limits = limits or Limits()
    if len(data) > limits.file_bytes:
        raise CassetteError(f"It has more than {limits.file_bytes:,} bytes, which is more than is read.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = archive.infolist()
            _check_size(listed, len(data), limits)
            seen: set[str] = set()
            for about in listed:
                name, path = about.orig_filename, PurePosixPath(about.orig_filename)
                leads_out = path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name
                if leads_out or str(path) != name or name != about.filename or name in seen:
                    raise CassetteError(f"{name!a:.120}: its name leads out of the file, or occurs twice. {_AGAIN}")
                seen.add(name)
            members = {about.filename: _read_member(archive, about) for about in listed}  # names a damaged member
    except _DAMAGE as error:
        raise CassetteError(f"It is not a complete zip file ({error}). {_AGAIN}") from error
    if data[-_HASH_CHARS:] != hashlib.sha256(data[:-_HASH_CHARS]).hexdigest().encode():
        raise CassetteError(f"It is not as it was written: bytes of it were changed. {_AGAIN}")
    return members


def find_member(data: bytes, name: str, limits: Limits | None = None) -> bytes:
    """A member of any zip file, within the limits; `CassetteError` if there is none of this name."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            about = archive.getinfo(name)
            _check_size([about], len(data), limits or Limits())
            return _read_member(archive, about)
    except _DAMAGE as error:
        raise CassetteError(f"It is not a complete zip file ({error}). {_AGAIN}") from error


def _read_member(archive: zipfile.ZipFile, about: zipfile.ZipInfo) -> bytes:
    """Unpack a member up to the length in its header, and compare its checksum at that length."""
    if about.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:  # others unpack without a limit
        raise CassetteError(f"{about.filename!a:.120}: it is compressed in an unknown way. {_AGAIN}")
    try:
        with archive.open(about) as file:
            content = file.read(about.file_size)
    except _DAMAGE as error:
        raise CassetteError(f"{about.filename!a:.120}: it is damaged ({error}). {_AGAIN}") from error
    if len(content) != about.file_size:
        raise CassetteError(f"{about.filename!a:.120}: its size is not the one that its header says. {_AGAIN}")
    return content


def _check_size(listed: list[zipfile.ZipInfo], size: int, limits: Limits) -> None:
    if len(listed) > limits.members:
        raise CassetteError(f"It has {len(listed):,} members, which is more than is read.")
    total = sum(about.file_size for about in listed)
    if total > min(limits.total_bytes, max(limits.free_bytes, limits.ratio * size)):
        raise CassetteError(f"Its {size:,} bytes would unpack to {total:,}, which is more than is read.")
