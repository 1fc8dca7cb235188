"""Compressed bodies, unpacked only as far as there is room: a few kilobytes may hold gigabytes.

A decoder is fed piece by piece and told how much more is wanted. It gives no more than that, and is not asked again
once the room is full.
"""

import importlib
import zlib
from types import ModuleType
from typing import Protocol

from artifactflow_nb.errors import ToolError

_RAW, _ZLIB, _GZIP = -zlib.MAX_WBITS, zlib.MAX_WBITS, zlib.MAX_WBITS | 16
_GZIP_MAGIC = b"\x1f\x8b"
_DEFLATE = 8
_FRAME_BYTES = 2


class Decoder(Protocol):
    """One coding of one body."""

    def feed(self, data: bytes, room: int) -> bytes:
        """The next bytes of the plain body, about `room` (at least 1) at most; what did not fit is lost."""

    @property
    def complete(self) -> bool:
        """Whether the end of the coded body was seen."""


class _Identity:
    complete = True

    def feed(self, data: bytes, room: int) -> bytes:
        return data[:room]


class _Gzip:
    """One or several gzip members, one after the other; what follows them and is none is ignored."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._between = b""  # what came after a member and is too short to tell

    @property
    def complete(self) -> bool:
        return self._member.eof

    def feed(self, data: bytes, room: int) -> bytes:
        plain = b""
        data = self._between + data
        self._between = b""
        while data and len(plain) < room:
            if self._member.eof:
                if not data.startswith(_GZIP_MAGIC):
                    self._between = data[: len(_GZIP_MAGIC)]
                    break
                self._member = zlib.decompressobj(_GZIP)
            plain += self._member.decompress(data, room - len(plain))
            data = self._member.unused_data
        return plain


class _Deflate:
    """The coding `deflate`, which some servers send as it is specified and some without its frame."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_ZLIB)
        self._head = b""
        self._begun = False

    @property
    def complete(self) -> bool:
        return self._stream.eof

    def feed(self, data: bytes, room: int) -> bytes:
        if not self._begun:
            data = self._head + data
            if len(data) < _FRAME_BYTES:
                self._head = data
                return b""
            framed = data[0] & 0x0F == _DEFLATE and int.from_bytes(data[:_FRAME_BYTES], "big") % 31 == 0
            self._stream, self._begun = zlib.decompressobj(_ZLIB if framed else _RAW), True
        return self._stream.decompress(data, room)


class _Brotli:
    def __init__(self, library: ModuleType) -> None:
        self._stream = library.Decompressor()

    @property
    def complete(self) -> bool:
        return bool(self._stream.is_finished())

    def feed(self, data: bytes, room: int) -> bytes:
        plain: bytes = self._stream.process(data, output_buffer_limit=room)
        while len(plain) < room and not self._stream.can_accept_more_data():
            plain += self._stream.process(b"", output_buffer_limit=room - len(plain))
        return plain


def _brotli() -> ModuleType | None:
    """The brotli library, if it is there and can stop while it unpacks (from 1.2 on)."""
    try:
        library = importlib.import_module("brotli")
    except ImportError:
        return None
    return library if hasattr(library.Decompressor, "can_accept_more_data") else None


def accepted() -> str:
    """The codings to offer to a server, as the header Accept-Encoding has them."""
    return "gzip, deflate, br" if _brotli() else "gzip, deflate"


def decoder(coding: str) -> Decoder:
    """The decoder for a Content-Encoding; `ToolError` for one that cannot be read here."""
    name = coding.strip().lower()
    if name in {"", "identity"}:
        return _Identity()
    if name in {"gzip", "x-gzip"}:
        return _Gzip()
    if name == "deflate":
        return _Deflate()
    if name == "br" and (library := _brotli()):
        return _Brotli(library)
    raise ToolError(f"The answer is packed as {coding[:40]!r}, which cannot be read here. Try another source.")


def broken_coding() -> tuple[type[Exception], ...]:
    """What feeding a decoder raises when the body is not what its coding says."""
    library = _brotli()
    return (zlib.error, library.error) if library else (zlib.error,)
