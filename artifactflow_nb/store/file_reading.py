"""Files read and taken apart: the slow part of indexing, which needs no database and runs in a thread.

A file whose size and time of change are those of its source is not opened. One that was changed less than two seconds
ago may change again within the same tick of the file system's clock; it is looked at again the next time.
"""

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from artifactflow_nb.formats.parts import Extracted
from artifactflow_nb.formats.unreadable import LibraryMissing, Unreadable
from artifactflow_nb.store import text_index
from artifactflow_nb.store.extract import Extractor
from artifactflow_nb.store.folder_scan import FoundFile, readable_name

INDEX_VERSION = 4  # raised when sections or terms are made differently, so that known files are indexed again

_UNSETTLED_NS = 2_000_000_000
_BATCH_FILES, _BATCH_BYTES = 32, 256 * 1024  # of one transaction: 20 to 40 ms of the store's only writer


@dataclass(frozen=True, slots=True)
class KnownFile:
    """What the store holds of a file; size and time are None if it may have changed since without telling."""

    source_id: str
    sha256: str
    extractor: str
    size: int | None
    mtime_ns: int | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document ready to be stored.

    Attributes:
        uri: Where it is from.
        wanted_id: Its path below its folder, of which its id is made.
        title: Its title.
        media_type: Stored with the source.
        extractor: Stored with the source.
        sha256: Of its bytes.
        sections: Its sections.
        size: Its bytes; None if they may change without telling.
        mtime_ns: The time of its last change; None with the size.
        cut: What of it was left out; empty for nothing.
    """

    uri: str
    wanted_id: PurePosixPath
    title: str
    media_type: str
    extractor: str
    sha256: str
    sections: tuple[text_index.PreparedSection, ...]
    size: int | None = None
    mtime_ns: int | None = None
    cut: str = ""

    @property
    def n_chars(self) -> int:
        """Characters of its text."""
        return sum(len(section.text) for section in self.sections)


@dataclass(frozen=True, slots=True)
class Same:
    """A file that holds what it held, and how it looks now."""

    uri: str
    size: int | None
    mtime_ns: int | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that gives no source.

    Attributes:
        file: The file.
        extractor: What tried to read it.
        reason: Why it could not, to go on after the name.
        lasting: Whether it will not until it is changed.
    """

    file: FoundFile
    extractor: str
    reason: str
    lasting: bool


Outcome = Prepared | Same | Refused


def extractor_name(extractor: Extractor) -> str:
    """How the source's `extractor` names it."""
    return f"{extractor.name}/{INDEX_VERSION}"


def looks_unchanged(file: FoundFile, known: KnownFile | None, extractor: Extractor) -> bool:
    """Whether nothing speaks for reading the file again."""
    return known is not None and (known.size, known.mtime_ns, known.extractor) == (
        file.size,
        file.mtime_ns,
        extractor_name(extractor),
    )


def batches(files: Sequence[FoundFile]) -> Iterator[list[FoundFile]]:
    """The files in groups small enough for one transaction."""
    group: list[FoundFile] = []
    size = 0
    for file in files:
        if group and (len(group) == _BATCH_FILES or size + file.size > _BATCH_BYTES):
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield group


def read(file: FoundFile, known: KnownFile | None, extractor: Extractor) -> Outcome:
    """Read the file and take it apart, if it does not hold what is known of it."""
    name = extractor_name(extractor)
    try:
        data, size, mtime_ns = _bytes_of(file, extractor.most_bytes)
        digest = hashlib.sha256(data).hexdigest()
        if known is not None and (known.sha256, known.extractor) == (digest, name):
            return Same(file.uri, size, mtime_ns)
        document = _extracted(data, file, extractor)
    except OSError as error:
        return Refused(file, name, f"cannot be read ({error.strerror})", lasting=False)
    except Unreadable as error:
        return Refused(file, name, str(error), lasting=True)
    except LibraryMissing as error:
        return Refused(file, name, f"was not read: {error}", lasting=False)
    except Exception as error:  # noqa: BLE001 - whatever one file does to a parser, the others are not lost
        return Refused(file, name, f"cannot be read ({type(error).__name__}: {error})"[:300], lasting=True)
    sections = tuple(text_index.prepare(document))
    return Prepared(
        file.uri, file.relative, document.title, extractor.media_type, name, digest, sections, size, mtime_ns,
        document.cut,
    )  # fmt: skip


def _bytes_of(file: FoundFile, most: int) -> tuple[bytes, int | None, int | None]:
    """What the file holds, and its size and time of change if they will tell of the next change."""
    if file.size > most:
        raise Unreadable(f"is too large: {file.size / 1e6:,.1f} MB, and at most {most / 1e6:g} MB are read of its kind")
    with file.path.open("rb") as opened:
        stat = os.fstat(opened.fileno())
        data = opened.read(most)
    return (data, stat.st_size, stat.st_mtime_ns) if is_settled(stat.st_mtime_ns) else (data, None, None)


def is_settled(mtime_ns: int) -> bool:
    """Whether the next change will show in the time of change; the file system's clock decides, not that of the run."""
    return time.time_ns() - mtime_ns > _UNSETTLED_NS


def _extracted(data: bytes, file: FoundFile, extractor: Extractor) -> Extracted:
    if not data.strip():
        raise Unreadable("is empty")
    document = extractor.extract(data, file.path.with_name(readable_name(file.path.name)))
    if not document.parts:
        raise Unreadable("holds no text")
    return document
