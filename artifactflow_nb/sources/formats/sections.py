"""Sections of documents: the units that are indexed, displayed and cited."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath

from artifactflow_nb.core.works import Work

ZOTERO_FILE = "zotero.sqlite"
"""A kind of file by its whole name."""

RICH_BYTES = 50_000_000
"""The largest file with pictures or outputs that is read."""

_NOT_IN_SLUG = re.compile(r"[^\w.]+")


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """A section of a document.

    Attributes:
        anchor: Its name in addresses, unique in the document.
        title: Its heading, or the document's title.
        text: Its text, verbatim, heading included.
    """

    anchor: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class ExtractedDocument:
    """A document split into sections.

    Attributes:
        title: Its title.
        sections: Its sections, in order.
        truncation: Description of the part that was not read; empty for a complete document.
        works: The works that it is or lists, each with the anchor of its section, empty for the document.
    """

    title: str
    sections: tuple[DocumentSection, ...]
    truncation: str = ""
    works: tuple[tuple[str, Work], ...] = ()


@dataclass(frozen=True, slots=True)
class Extractor:
    """The way to read one kind of file.

    Attributes:
        name: Stored with the source.
        media_type: Stored with the source.
        max_bytes: A larger file is not read.
        extract: Splits the file's bytes into sections; the path is used for a title. Raises `UnreadableFile`.
    """

    name: str
    media_type: str
    max_bytes: int
    extract: Callable[[bytes, PurePath], ExtractedDocument]


@dataclass(frozen=True, slots=True)
class AnchorAllocator:
    """Gives each section of one document an anchor of its own."""

    _used: set[str] = field(default_factory=set)

    def allocate(self, anchor: str) -> str:
        """The anchor, numbered if an earlier section had the same."""
        name = unused_name(anchor, self._used.__contains__)
        self._used.add(name)
        return name


def unused_name(name: str, is_used: Callable[[str], bool]) -> str:
    """The name, with a number appended if it is used."""
    candidate, n = name, 1
    while is_used(candidate):
        n += 1
        candidate = f"{name}-{n}"
    return candidate


def slug(text: str, fallback: str = "section") -> str:
    """Convert a text to an anchor: lower-case letters and digits of any script, dots, and hyphens for the rest."""
    return name_slug(text.lower(), fallback)


def name_slug(name: str, fallback: str) -> str:
    """Convert the name of a file or folder to a part of an address: like `slug`, but upper case is kept."""
    return _NOT_IN_SLUG.sub("-", name).strip("-.") or fallback


def title_from_path(path: PurePath) -> str:
    """The file's name as a title."""
    return path.stem.replace("_", " ").replace("-", " ")
