"""Reading and splitting of files. This slow part of indexing needs no database and runs in a thread.

A file with the size and modification time of its source is not opened. A file that was modified less than two seconds
ago may change again within the same tick of the file system's clock, so the file is read again the next time.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from artifactflow_nb.core.local_files import open_regular
from artifactflow_nb.sources import index as text_index
from artifactflow_nb.sources.formats.sections import (
    DocumentSection,
    ExtractedDocument,
    Extractor,
    LibraryMissing,
    Metadata,
    UnreadableFile,
    side_files,
)
from artifactflow_nb.sources.scanner import FoundFile, printable_path, stat_file

INDEX_VERSION = 8  # increased when sections or terms are made differently, so that all files are indexed again

_UNSETTLED_NS = 2_000_000_000
_BATCH_FILES, _BATCH_BYTES = 32, 256 * 1024  # of one transaction: 20 to 40 ms of the store's only writer


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """The indexed state of a file; size and time are None if equal values might hide a later change."""

    source_id: str
    sha256: str
    extractor: str
    size: int | None
    mtime_ns: int | None


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document ready to be stored.

    Attributes:
        preferred_id: The path below the added folder, from which the source id is derived.
        size: Size of the file in bytes; None if equal size and time might hide a later change.
        mtime_ns: Modification time of the file; None if the size is None.
        omitted: The parts that no section contains, as in `ExtractedDocument`.
    """

    uri: str
    preferred_id: PurePosixPath
    title: str
    media_type: str
    extractor: str
    sha256: str
    sections: tuple[text_index.PreparedSection, ...]
    size: int | None = None
    mtime_ns: int | None = None
    omitted: str = ""
    metadata: Metadata = ()

    @property
    def n_chars(self) -> int:
        """Length of its text in characters."""
        return sum(len(section.text) for section in self.sections)


@dataclass(frozen=True, slots=True)
class UnchangedFile:
    """A file with unchanged content, with the current size and modification time."""

    uri: str
    size: int | None
    mtime_ns: int | None


@dataclass(frozen=True, slots=True)
class RejectedFile:
    """A file that could not be read.

    Attributes:
        reason: The reason as the end of a sentence that starts with the file's name.
        is_permanent: Whether reading will fail again until the file changes.
    """

    file: FoundFile
    extractor: str
    reason: str
    is_permanent: bool


ReadOutcome = PreparedDocument | UnchangedFile | RejectedFile


def extractor_name(extractor: Extractor) -> str:
    """Return the stored name of an extractor, with the index version."""
    return f"{extractor.name}/{INDEX_VERSION}"


def is_unchanged(file: FoundFile, known: IndexedFile | None, extractor: Extractor) -> bool:
    """Return whether size, modification time and extractor of a file equal the stored values of the source."""
    return known is not None and (known.size, known.mtime_ns, known.extractor) == (
        file.size,
        file.mtime_ns,
        extractor_name(extractor),
    )


def batches(files: Sequence[FoundFile]) -> Iterator[list[FoundFile]]:
    """Group files into batches; each batch is one transaction."""
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


def read_file(
    file: FoundFile, known: IndexedFile | None, extractor: Extractor, mask: Callable[[str], str] = str
) -> ReadOutcome:
    """Read a file and split the text into masked sections, unless the content is indexed already; never raise."""
    name = extractor_name(extractor)
    try:
        if file.size > extractor.max_bytes:
            size_mb, max_mb = file.size / 1e6, extractor.max_bytes / 1e6
            raise UnreadableFile(f"is too large: {size_mb:,.1f} MB, and at most {max_mb:g} MB are read of its kind")
        with open_regular(file.path) as opened:
            state = stat_file(file.path, file.uri, file.relative)
            data = opened.read(extractor.max_bytes)
        size, mtime_ns = (state.size, state.mtime_ns) if is_mtime_settled(state.mtime_ns) else (None, None)
        content = hashlib.sha256(data)
        for side in side_files(file.path):
            content.update(side.read_bytes())
        digest = content.hexdigest()
        if known is not None and (known.sha256, known.extractor) == (digest, name):
            return UnchangedFile(file.uri, size, mtime_ns)
        if not data.strip():
            raise UnreadableFile("is empty")
        extracted = extractor.extract(data, file.path.with_name(printable_path(file.path.name)))
        if not extracted.sections:
            raise UnreadableFile("contains no text")
        masked = tuple(DocumentSection(part.anchor, mask(part.title), mask(part.text)) for part in extracted.sections)
        metadata = _masked_metadata(extracted.metadata, mask)
        document = replace(extracted, title=mask(extracted.title), sections=masked, metadata=metadata)
    except OSError as error:
        return RejectedFile(file, name, f"cannot be read ({error.strerror})", is_permanent=False)
    except UnreadableFile as error:
        return RejectedFile(file, name, str(error), is_permanent=True)
    except LibraryMissing as error:
        return RejectedFile(file, name, f"was not read: {error}", is_permanent=False)
    except Exception as error:  # noqa: BLE001 - a parser that fails on one file must not stop the indexing of others
        return RejectedFile(file, name, f"cannot be read ({type(error).__name__}: {error})"[:300], is_permanent=True)
    sections = tuple(text_index.prepare(document))
    return PreparedDocument(
        file.uri, file.relative, document.title, extractor.media_type, name, digest, sections, size, mtime_ns,
        document.omitted, document.metadata,
    )  # fmt: skip


def mask_document(document: PreparedDocument, mask: Callable[[str], str]) -> PreparedDocument:
    """Mask known secrets in a document; a document with a secret is split again."""
    title = mask(document.title)
    sections = tuple(DocumentSection(part.anchor, mask(part.title), mask(part.text)) for part in document.sections)
    metadata = _masked_metadata(document.metadata, mask)
    before = [(part.title, part.text) for part in document.sections]
    if title == document.title and before == [(part.title, part.text) for part in sections]:
        return replace(document, metadata=metadata)
    prepared = tuple(text_index.prepare(ExtractedDocument(title, sections)))
    return replace(document, title=title, sections=prepared, metadata=metadata)


def _masked_metadata(metadata: Metadata, mask: Callable[[str], str]) -> Metadata:
    def masked(value: Any) -> Any:
        if isinstance(value, str):
            return mask(value)
        if isinstance(value, Mapping):
            return {name: masked(item) for name, item in value.items()}
        return [masked(item) for item in value] if isinstance(value, list | tuple) else value

    return tuple((anchor, masked(item)) for anchor, item in metadata)


def described(document: PreparedDocument, extractor: Extractor) -> PreparedDocument:
    """Return the document with the metadata for the store; no metadata if the conversion fails."""
    try:
        return replace(document, metadata=extractor.describe(document.metadata))
    except Exception:  # noqa: BLE001 - the text of a file with odd metadata is indexed, as the files after it are
        return replace(document, metadata=())


def is_mtime_settled(mtime_ns: int) -> bool:
    """Return whether the next change of a file will change its modification time."""
    # The system's clock is used, not the injected clock, because the file system's times come from it.
    return time.time_ns() - mtime_ns > _UNSETTLED_NS
