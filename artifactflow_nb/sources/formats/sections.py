"""Sections of documents: the units that are indexed, displayed and cited; and the errors of their extraction.

The errors do not reach a caller of the package: tools report them to the model, sources list them as skipped files.
"""

import importlib
import importlib.util
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

from artifactflow_nb.core.text.format import count

RICH_BYTES = 50_000_000
"""The largest file with pictures or outputs that is read."""

SIDE_FILES = ("-wal", "-journal")
"""Files beside an SQLite database in use: changes that the database does not contain yet, or that are being undone."""

Metadata = tuple[tuple[str, Mapping[str, Any]], ...]
"""The metadata of a file and its sections: JSON objects, each with the anchor of a section, or ""."""

_NOT_IN_SLUG = re.compile(r"[^\w.]+")


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """A section of a document.

    Attributes:
        anchor: Name in addresses, unique in the document.
        text: Verbatim text, including the heading.
    """

    anchor: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class ExtractedDocument:
    """A document split into sections.

    Attributes:
        omitted: The parts that no section contains, such as `2 pictures`; empty for a complete document.
    """

    title: str
    sections: tuple[DocumentSection, ...]
    omitted: str = ""
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True)
class Extractor:
    """Reader for one kind of file.

    Attributes:
        max_bytes: Size limit; larger files are not read.
        extract: Splits the file's bytes into sections; the path provides a title. Raises `UnreadableFile`.
        describe: Converts the metadata of the document to the metadata that the store keeps.
        is_in_folders: Whether a file is read if its folder is added; otherwise a person adds each file.
    """

    name: str
    media_type: str
    max_bytes: int
    extract: Callable[[bytes, PurePath], ExtractedDocument]
    describe: Callable[[Metadata], Metadata] = tuple
    is_in_folders: bool = True


Extractors = Mapping[str, Extractor]
"""Extractors by kind of file: a suffix such as `.md`, or a whole name, in lower case."""


def kind_of(path: PurePath, extractors: Extractors) -> str:
    """Return the kind of a file: the whole name if it has an extractor, or else the suffix, which may be unknown."""
    name = path.name.lower()
    return name if name in extractors else path.suffix.lower()


@dataclass(frozen=True, slots=True)
class AnchorAllocator:
    """Assigns each section of a document a unique anchor."""

    _used: set[str] = field(default_factory=set)

    def allocate(self, anchor: str) -> str:
        """Return the anchor, with a number appended if an earlier section has the same anchor."""
        name = unused_name(anchor, self._used.__contains__)
        self._used.add(name)
        return name


def unused_name(name: str, is_used: Callable[[str], bool]) -> str:
    """Return the name, with a number appended if it is in use."""
    candidate, n = name, 1
    while is_used(candidate):
        n += 1
        candidate = f"{name}-{n}"
    return candidate


def slug(text: str, fallback: str = "section") -> str:
    """Convert a text to an anchor: lower-case letters and digits of any script, dots, and hyphens for the rest."""
    return name_slug(text.lower(), fallback)


def name_slug(name: str, fallback: str) -> str:
    """Convert the name of a file or folder to a part of an address: like `slug`, but with upper case."""
    return _NOT_IN_SLUG.sub("-", name).strip("-.") or fallback


def side_files(path: Path) -> list[Path]:
    """Return the files beside an SQLite database that contain a part of its content; empty for other files."""
    names = (path.with_name(f"{path.name}{suffix}") for suffix in SIDE_FILES)
    return [file for file in names if file.is_file()] if path.suffix.lower() == ".sqlite" else []


def title_from_path(path: PurePath) -> str:
    """Return the file's name as a title."""
    return path.stem.replace("_", " ").replace("-", " ")


def list_counts(counts: Counter[str]) -> str:
    """List nouns with their counts, except counts of 0: `2 pictures, 1 comment`."""
    return ", ".join(count(number, noun) for noun, number in counts.items() if number)


INSTALL_COMMAND = "pip install 'artifactflow-nb[{extra}]'"
"""Template of the command that installs an extra: `web` for pages and PDF, `cite` for BibTeX."""


class UnreadableFile(Exception):
    """A file has no readable text; the message completes a sentence after the file's name: `asks for a password`."""


class LibraryMissing(Exception):
    """Reading needs a library that is not installed; the message contains the command for the installation."""


def is_installed(name: str) -> bool:
    """Return whether the library can be imported, without importing it."""
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # the module is loaded without a spec, or blocked by None in sys.modules
        return False


def import_library(name: str, file_kind: str, extra: str = "web") -> ModuleType:
    """Import a library; `LibraryMissing` names the kind of file that needs the library, and the extra to install.

    A null handler keeps the log messages of the library out of standard error, which a cell displays.
    """
    try:
        library = importlib.import_module(name)
    except ImportError:
        command = INSTALL_COMMAND.format(extra=extra)
        raise LibraryMissing(f"Reading {file_kind} needs a library that is not installed: {command}") from None
    log = logging.getLogger(name.partition(".")[0])
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    return library
