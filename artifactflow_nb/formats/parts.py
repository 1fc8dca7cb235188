"""A document as its parts: what is indexed, shown and cited as one section."""

import re
from dataclasses import dataclass, field
from pathlib import PurePath

_NOT_IN_SLUG = re.compile(r"[^\w.]+")


@dataclass(frozen=True, slots=True)
class Part:
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
class Extracted:
    """A document taken apart.

    Attributes:
        title: Its title.
        parts: Its sections, in order.
        cut: Why they are not all of it; empty if they are.
    """

    title: str
    parts: tuple[Part, ...]
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Anchors:
    """Gives each section of one document an anchor of its own."""

    _taken: set[str] = field(default_factory=set)

    def unused(self, anchor: str) -> str:
        """The anchor, numbered if an earlier section had the same."""
        name, n = anchor, 1
        while name in self._taken:
            n += 1
            name = f"{anchor}-{n}"
        self._taken.add(name)
        return name


def slug(words: str, fallback: str = "section") -> str:
    """The words as a part of an address: letters and digits of any script, dots, and hyphens in place of the rest."""
    return _NOT_IN_SLUG.sub("-", words.lower()).strip("-.") or fallback


def name_of(path: PurePath) -> str:
    """The file's name as a title."""
    return path.stem.replace("_", " ").replace("-", " ")
