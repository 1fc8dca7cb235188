"""Files as sections: one extractor for each kind of file, chosen by its suffix."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from artifactflow_nb.text.blocks import Block, blocks

_PART_CHARS = 1200  # characters of a section of a plain text without headings
_TITLE_CHARS = 80
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
    """A document taken apart."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Extractor:
    """How one kind of file is read.

    Attributes:
        name: Stored with the source.
        media_type: Stored with the source.
        extract: Makes the parts of the file's path and its decoded text.
    """

    name: str
    media_type: str
    extract: Callable[[PurePath, str], Extracted]


def slug(words: str, fallback: str = "section") -> str:
    """The words as a part of an address: letters and digits of any script, dots, and hyphens in place of the rest."""
    return _NOT_IN_SLUG.sub("-", words.lower()).strip("-.") or fallback


def by_headings(path: PurePath, text: str) -> Extracted:
    """A section for each heading, from its line up to the next heading; text before the first one is `start`."""
    heads = [block for block in blocks(text) if block.kind == "heading"]
    title = _document_title(path, text, heads)
    taken: set[str] = set()
    parts = []
    for head, start, end in _stretches(text, heads):
        if text[head.end if head else start : end].strip():
            words = head.title if head else title
            parts.append(Part(_unused(slug(words) if head else "start", taken), words, text[start:end].strip("\n")))
    return Extracted(title, tuple(parts))


def _document_title(path: PurePath, text: str, heads: list[Block]) -> str:
    if heads and not text[: heads[0].start].strip():
        return heads[0].title
    return path.stem.replace("_", " ").replace("-", " ")


def _stretches(text: str, heads: list[Block]) -> Iterator[tuple[Block | None, int, int]]:
    stops = [*(head.start for head in heads), len(text)]
    if text[: stops[0]].strip():
        yield None, 0, stops[0]
    for head, stop in zip(heads, stops[1:], strict=True):
        yield head, head.start, stop


def _unused(anchor: str, taken: set[str]) -> str:
    """The anchor, numbered if an earlier heading had the same."""
    name, n = anchor, 1
    while name in taken:
        n += 1
        name = f"{anchor}-{n}"
    taken.add(name)
    return name


def plain(path: PurePath, text: str) -> Extracted:
    """A plain text: by its underlined headings if it has any, else in parts of some 1,200 characters at paragraphs."""
    found = blocks(text)
    if any(block.kind == "heading" for block in found):
        return by_headings(path, text)
    title = _document_title(path, text, [])
    groups: list[list[Block]] = []
    for block in found:
        if groups and block.end - groups[-1][0].start <= _PART_CHARS:
            groups[-1].append(block)
        else:
            groups.append([block])
    parts = (
        Part(f"part-{n}", title, text[group[0].start : group[-1].end].strip("\n")) for n, group in enumerate(groups, 1)
    )
    return Extracted(title, tuple(parts))


EXTRACTORS: Mapping[str, Extractor] = {
    ".md": Extractor("markdown", "text/markdown", by_headings),
    ".markdown": Extractor("markdown", "text/markdown", by_headings),
    ".txt": Extractor("plain", "text/plain", plain),
}
