"""Files as sections: one extractor for each kind of file, chosen by its suffix."""

import io
import tokenize
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from artifactflow_nb.formats.charset import text_of
from artifactflow_nb.formats.code import by_definitions
from artifactflow_nb.formats.notebook import by_cells
from artifactflow_nb.formats.page import PageText, read_page
from artifactflow_nb.formats.parts import Extracted, Part, name_of
from artifactflow_nb.formats.pdf import read_pdf
from artifactflow_nb.formats.plain_page import read_plain_page
from artifactflow_nb.formats.prose import by_headings, plain
from artifactflow_nb.formats.unreadable import Unreadable, installed

KINDS = (".md", ".markdown", ".txt", ".html", ".htm", ".xhtml", ".pdf", ".py", ".ipynb")

_TEXT_BYTES, _RICH_BYTES = 10_000_000, 50_000_000
_PDF_S = 60.0
_LOOKED_AT = 4096  # characters that tell whether it is text
_FOREIGN = 0.02  # the share of characters that no text has, from which on it is none
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


@dataclass(frozen=True, slots=True)
class Extractor:
    """How one kind of file is read.

    Attributes:
        name: Stored with the source.
        media_type: Stored with the source.
        most_bytes: A larger file is not read.
        extract: Makes the parts of the file's bytes, with its path for a title; `Unreadable` if it cannot.
    """

    name: str
    media_type: str
    most_bytes: int
    extract: Callable[[bytes, PurePath], Extracted]


def extractors() -> Mapping[str, Extractor]:
    """An extractor for each suffix; that of pages by the libraries that are installed now."""
    prose = Extractor("markdown", "text/markdown", _TEXT_BYTES, lambda data, path: by_headings(decoded(data), path))
    rich = installed("trafilatura")
    page = Extractor("page" if rich else "plain-page", "text/html", _TEXT_BYTES, _main_text if rich else _all_text)
    return {
        **dict.fromkeys((".md", ".markdown"), prose),
        ".txt": Extractor("plain", "text/plain", _TEXT_BYTES, lambda data, path: plain(decoded(data), path)),
        **dict.fromkeys((".html", ".htm", ".xhtml"), page),
        ".pdf": Extractor("pdf", "application/pdf", _RICH_BYTES, _pages),
        ".py": Extractor("python", "text/x-python", _TEXT_BYTES, _python),
        ".ipynb": Extractor("notebook", "application/x-ipynb+json", _RICH_BYTES, by_cells),
    }


def decoded(data: bytes, charset: str = "") -> str:
    """The bytes as text with plain line ends; `Unreadable` for what is no text."""
    if b"\0" in data and not data.startswith(_WIDE_MARKS):
        raise Unreadable("is binary, not text")
    text = text_of(data, charset)
    seen = text[:_LOOKED_AT]
    foreign = sum(unicodedata.category(c) in {"Cc", "Cn", "Co"} and not c.isspace() and c != "\x1b" for c in seen)
    if foreign + seen.count("\ufffd") > _FOREIGN * len(seen):
        raise Unreadable("is binary, not text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _python(data: bytes, path: PurePath) -> Extracted:
    try:
        charset = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except (SyntaxError, UnicodeDecodeError):
        charset = ""
    return by_definitions(decoded(data, "" if charset.startswith("utf-8") else charset), path)


def _main_text(data: bytes, path: PurePath) -> Extracted:
    return _page(read_page(decoded(data)), path)


def _all_text(data: bytes, path: PurePath) -> Extracted:
    return _page(read_plain_page(decoded(data)), path)


def _page(page: PageText, path: PurePath) -> Extracted:
    found = by_headings(page.text, path)
    return Extracted(page.title or found.title, found.parts)


def _pages(data: bytes, path: PurePath) -> Extracted:
    """A section for each page that holds text."""
    found = read_pdf(data, _PDF_S)
    title = found.title or name_of(path)
    parts = (Part(f"page-{n}", f"page {n}", text) for n, text in enumerate(found.pages, 1) if text)
    return Extracted(title, tuple(parts), found.cut)
