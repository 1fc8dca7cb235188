"""Cited sections of local sources: text, file, place in the file, and the picture of a page of a PDF."""

import ctypes
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from artifactflow_nb.core.local_files import open_regular
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.sources.formats.charset import decode_text
from artifactflow_nb.sources.formats.pdf import open_page, open_pdf
from artifactflow_nb.sources.formats.sections import LibraryMissing, UnreadableFile, import_library
from artifactflow_nb.sources.retrieval.passages import split_blocks
from artifactflow_nb.sources.rows import SCHEME
from artifactflow_nb.sources.scanner import path_from_uri

_WIDTH = 1000  # pixels
_MAX_SCALE = 2.0
_MAX_PIXELS = 4_000_000
_MIN_WORDS = 3  # of a part of a passage that is marked separately
_MARK = bytes(value * 2 // 5 for value in range(256))  # for blue values: white becomes yellow, black stays black


def page_picture(path: Path, number: int, passage: str = "") -> bytes:
    """Render a page as a picture, at most 1,000 pixels wide.

    Args:
        path: The PDF.
        number: The page, from 1.
        passage: A text on the page to mark; differences in spaces, hyphens and punctuation are ignored.

    Errors: `NotFound` for a missing file or page; `UsageError` for an unreadable file.
    """
    try:
        with open_regular(path) as file:
            data = file.read()
        with open_pdf(data) as document:
            if not 1 <= number <= len(document):
                raise NotFound(f"{path.name} has no page {number}; its last page is {len(document)}.")
            with open_page(document, number) as (page, text_page):
                width, height = page.get_size()
                scale = min(_MAX_SCALE, _WIDTH / width, (_MAX_PIXELS / (width * height)) ** 0.5)
                bitmap = page.render(scale=scale, rev_byteorder=True)
                try:
                    for box in _boxes(text_page, passage) if passage.strip() else ():
                        _mark(bitmap, page, box)
                    return _png(bitmap)
                finally:
                    bitmap.close()
    except FileNotFoundError:
        raise NotFound(
            f"The file {path} is missing, so page {number} cannot be shown. Put the file back, "
            "or read the text of the passage."
        ) from None
    except OSError as error:
        raise UsageError(f"The file {path} cannot be read ({error.strerror}). Check its permissions.") from error
    except UnreadableFile as error:
        raise UsageError(f"{path.name} {error}.") from None
    except LibraryMissing as error:
        raise UsageError(str(error)) from None


def _boxes(text_page: Any, passage: str) -> Iterator[tuple[float, float, float, float]]:
    """Return the boxes (left, top, right, bottom) of a passage in points; y grows upwards."""
    raw = import_library("pypdfium2.raw", "a PDF")
    # Indices count characters of the page; a text has two characters for one beyond the basic plane.
    text = [chr(raw.FPDFText_GetUnicode(text_page, index)) for index in range(text_page.count_chars())]
    positions = [position for position, letter in enumerate(text) if letter.isalnum()]
    letters = "".join(text[position].casefold()[:1] for position in positions)
    values = [ctypes.c_double() for _ in range(4)]
    for start, end in _find(letters, passage.split()):
        first, last = positions[start], positions[end - 1]
        for index in range(raw.FPDFText_CountRects(text_page, first, last - first + 1)):
            raw.FPDFText_GetRect(text_page, index, *map(ctypes.byref, values))
            left, top, right, bottom = (value.value for value in values)
            yield left, top, right, bottom


def _find(letters: str, words: list[str]) -> Iterator[tuple[int, int]]:
    """Find words among the letters of a page; if other letters interrupt the words, find each half separately."""
    phrase = "".join(letter.casefold()[:1] for word in words for letter in word if letter.isalnum())
    start = letters.find(phrase) if phrase else -1
    if start >= 0:
        yield start, start + len(phrase)
    elif len(words) >= 2 * _MIN_WORDS:
        middle = len(words) // 2
        yield from _find(letters, words[:middle])
        yield from _find(letters, words[middle:])


def _mark(bitmap: Any, page: Any, box: tuple[float, float, float, float]) -> None:
    """Colour a box of a page yellow."""
    position = bitmap.get_posconv(page)
    (x1, y1), (x2, y2) = position.to_bitmap(box[0], box[1]), position.to_bitmap(box[2], box[3])
    left, right = max(min(x1, x2) - 1, 0), min(max(x1, x2) + 1, bitmap.width)
    for row in range(max(min(y1, y2) - 1, 0), min(max(y1, y2) + 1, bitmap.height)):
        start, end = row * bitmap.stride + bitmap.n_channels * left, row * bitmap.stride + bitmap.n_channels * right
        blue = slice(start + 2, end, bitmap.n_channels)
        bitmap.buffer[blue] = list(bytes(bitmap.buffer[blue]).translate(_MARK))


def _png(bitmap: Any) -> bytes:
    """Convert an RGB bitmap to PNG."""
    data, row = bytes(bitmap.buffer), bitmap.n_channels * bitmap.width
    rows = b"".join(
        b"\0" + data[start : start + row] for start in range(0, bitmap.height * bitmap.stride, bitmap.stride)
    )

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    colour = {1: 0, 3: 2, 4: 6}[bitmap.n_channels]
    header = struct.pack(">IIBBBBB", bitmap.width, bitmap.height, 8, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


_PAGE = re.compile(r"page-(\d+)\Z")


@dataclass(frozen=True, slots=True)
class CitedSection:
    """A section of a local source.

    Attributes:
        text: Text of the section in the index.
        path: Path of the file; None for the language reference.
        page: The number of the page of a PDF; 0 for other sections.
    """

    text: str
    path: Path | None
    page: int

    def picture(self, passage: str) -> bytes:
        """Render the page as PNG with a passage marked.

        Errors: `UsageError` unless the section is a page of a PDF; `NotFound` for a missing file.
        """
        if self.path is None or not self.page:
            raise UsageError("Only pages of PDF files have a picture; this source is no PDF. Read the text instead.")
        return page_picture(self.path, self.page, passage)


def cited_section(db: sqlite3.Connection, address: str) -> CitedSection:
    """Return the section at an address; `NotFound` for an address that is not in the index."""
    source_id, _, anchor = address.removeprefix(SCHEME).partition("#")
    row = db.execute(
        "SELECT s.text, uri, media_type FROM sections AS s JOIN sources USING (source_id) "
        "WHERE source_id = ? AND anchor = ?",
        (source_id, anchor),
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no source section {address!r} in the index. Add its folder with wb.sources.add().")
    page = _PAGE.match(anchor) if row["media_type"] == "application/pdf" else None
    return CitedSection(row["text"], path_from_uri(row["uri"]), int(page[1]) if page else 0)


_LINE_SUFFIXES = frozenset({".txt", ".rst", ".py", ".bib", ".ris"})
"""Files that JupyterLab opens in its editor."""
_MAX_SEARCH_WORDS = 12  # of a passage, which is found by its beginning
_HEADING_MARKUP = re.compile(r"[*_`]")


def place_in_file(path: Path, anchor: str, passage: str) -> str:
    """Return the fragment of an address with which JupyterLab's viewers show a passage of a file.

    The fragment names a page of a PDF, a cell of a notebook, a heading of Markdown, or a line of a text.

    Args:
        path: The file.
        anchor: The section of the file in the index.
        passage: A sentence of the section; white space may differ.

    Returns:
        The fragment without `#`, or an empty string if the file cannot be read, has changed or is of another kind.
    """
    suffix = path.suffix.lower()
    if suffix == ".pdf":
        return anchor.replace("-", "=", 1)
    try:
        text = _read_text(path, path.stat().st_mtime_ns)
    except (OSError, UnreadableFile):
        return ""
    if suffix == ".ipynb":
        try:
            return f"cell-id={quote(orjson.loads(text)['cells'][int(anchor.removeprefix('cell-')) - 1]['id'])}"
        except (ValueError, LookupError, TypeError):  # the file has changed, or its cells have no ids
            return ""
    words = passage.split()[:_MAX_SEARCH_WORDS]
    match = re.search(r"\s+".join(map(re.escape, words)), text) if words else None
    if match is None:
        return ""
    if suffix in _LINE_SUFFIXES:
        return f"line={text.count(chr(10), 0, match.start())}"
    line_end = text.find("\n", match.end())  # a section begins with its heading
    above = text if line_end < 0 else text[:line_end]
    headings = [block for block in split_blocks(above) if block.kind == "heading"]
    return quote(_HEADING_MARKUP.sub("", headings[-1].title).replace(" ", "-")) if headings else ""


@lru_cache(8)
def _read_text(path: Path, _changed_at: int) -> str:
    if path.suffix.lower() not in {*_LINE_SUFFIXES, ".md", ".markdown", ".ipynb"}:
        return ""
    with open_regular(path) as file:
        return decode_text(file.read())
