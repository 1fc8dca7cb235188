"""Members as one zip file and back, within limits; the same members give the same bytes, and no other bytes are read.

A file is opened only if it is, byte for byte, what `pack` makes of its members in their compressed form. Its comment is
the hash of everything before it. So no byte can be changed unnoticed, be it in a header, a gap, or a padding bit.
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
_DAMAGE = (zipfile.BadZipFile, RuntimeError, ValueError, EOFError, OSError, LookupError, OverflowError)


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a file may be.

    Attributes:
        file_bytes: The file.
        members: The number of members.
        total_bytes: All members, unpacked.
        ratio: How many times its own size a file may hold, where that is more than `free_bytes`.
        free_bytes: What every file may hold, however small it is.
    """

    file_bytes: int = 256 * _MIB
    members: int = 20_000
    total_bytes: int = 1024 * _MIB
    ratio: int = 200
    free_bytes: int = 64 * _MIB


def pack(members: Mapping[str, bytes]) -> bytes:
    """A zip of the members, sorted by name and without times.

    Another build of zlib may compress otherwise, so `unpack` takes the compressed members of a file as they are.

    Errors: `CassetteError` for more members, or larger ones, than a zip file can hold.
    """
    if len(members) > _MOST_MEMBERS or sum(map(len, members.values())) > _MOST_BYTES:
        raise CassetteError(f"A zip file cannot hold {len(members):,} members, or more than 2 GiB.")
    return _zipped({name: (data, zlib.compress(data, 6, wbits=-15)) for name, data in members.items()})


def _zipped(members: Mapping[str, tuple[bytes, bytes]]) -> bytes:
    """The bytes of a zip file of members, each with its data and its compressed data."""
    body, directory = io.BytesIO(), io.BytesIO()
    for name in sorted(members):
        data, packed = members[name]
        encoded = name.encode()
        common = struct.pack(
            "<HHHHHLLLHH", 20, 0x800, zipfile.ZIP_DEFLATED, 0, 0x21, zlib.crc32(data), len(packed), len(data),
            len(encoded), 0,
        )  # fmt: skip
        offset = body.tell()
        body.write(b"PK\x03\x04" + common + encoded + packed)
        about = struct.pack("<HHHLL", 0, 0, 0, _PLAIN_FILE, offset)
        directory.write(b"PK\x01\x02" + struct.pack("<BB", 20, _UNIX) + common + about + encoded)
    listed = directory.getvalue()
    numbers = 0, 0, len(members), len(members), len(listed), body.tell(), _HASH_CHARS
    file = body.getvalue() + listed + b"PK\x05\x06" + struct.pack("<HHHHLLH", *numbers)
    return file + hashlib.sha256(file).hexdigest().encode()


def find_member(data: bytes, name: str, limits: Limits | None = None) -> bytes:
    """A member of any zip file, within the limits; `CassetteError` if there is none of this name."""
    limits = limits or Limits()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            about = archive.getinfo(name)
            _check_size([about], len(data), limits)
            return _unpacked(_packed(data, about), about)
    except (*_DAMAGE, struct.error) as error:
        raise CassetteError(f"It is no whole zip file ({error}). {_AGAIN}") from error


def unpack(data: bytes, limits: Limits | None = None) -> dict[str, bytes]:
    """The members of a zip file that `pack` wrote; `CassetteError` for any other, and beyond the limits."""
    limits = limits or Limits()
    if len(data) > limits.file_bytes:
        raise CassetteError(f"It has more than {limits.file_bytes:,} bytes, which is more than is read.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = archive.infolist()
            _check_size(listed, len(data), limits)
            _check_names(listed)
            packed = {about.filename: _packed(data, about) for about in listed}
    except _DAMAGE as error:
        raise CassetteError(f"It is no whole zip file ({error}). {_AGAIN}") from error
    except struct.error as error:
        raise CassetteError(f"Its list of members is damaged ({error}). {_AGAIN}") from error
    members = {about.filename: _unpacked(packed[about.filename], about) for about in listed}
    if _zipped({name: (members[name], packed[name]) for name in members}) != data:
        raise CassetteError(f"It is not as it was written: bytes of it were changed. {_AGAIN}")
    return members


def _packed(data: bytes, about: zipfile.ZipInfo) -> bytes:
    """The compressed bytes of a member, as they stand behind its header."""
    name, extra = struct.unpack_from("<HH", data, about.header_offset + 26)
    start = about.header_offset + 30 + name + extra
    return data[start : start + about.compress_size]


def _unpacked(packed: bytes, about: zipfile.ZipInfo) -> bytes:
    """A member, of which no more is unpacked than its header says."""
    stream = zlib.decompressobj(-15)
    try:
        content = stream.decompress(packed, about.file_size + 1)
    except zlib.error as error:
        raise CassetteError(f"{about.filename!a:.120}: it is damaged ({error}). {_AGAIN}") from error
    if len(content) != about.file_size or not stream.eof or stream.unused_data:
        raise CassetteError(f"{about.filename!a:.120}: its size is not the one that its header says. {_AGAIN}")
    return content


def _check_size(listed: list[zipfile.ZipInfo], size: int, limits: Limits) -> None:
    if len(listed) > limits.members:
        raise CassetteError(f"It has {len(listed):,} members, which is more than is read.")
    total = sum(about.file_size for about in listed)
    if total > min(limits.total_bytes, max(limits.free_bytes, limits.ratio * size)):
        raise CassetteError(f"Its {size:,} bytes would unpack to {total:,}, which is more than is read.")


def _check_names(listed: list[zipfile.ZipInfo]) -> None:
    """Refuse names that lead out of the file, and names that are there twice."""
    seen: set[str] = set()
    for about in listed:
        name, path = about.orig_filename, PurePosixPath(about.orig_filename)
        leads_out = path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name
        if leads_out or str(path) != name or name != about.filename or name in seen:
            raise CassetteError(f"{name!a:.120}: its name leads out of the file, or is there twice. {_AGAIN}")
        seen.add(name)
