"""Extraction of sections from files, with one extractor per kind of file, chosen by suffix."""

import io
import tokenize
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath

from artifactflow_nb.sources.formats.bibliography import Bibliography, read_bibtex, read_csl, read_ris, read_zotero
from artifactflow_nb.sources.formats.charset import decode_text
from artifactflow_nb.sources.formats.code import split_by_cells, split_by_definitions
from artifactflow_nb.sources.formats.html import read_page, read_plain_page
from artifactflow_nb.sources.formats.markdown import split_by_headings, split_by_underlines, split_plain_text
from artifactflow_nb.sources.formats.pdf import PDF
from artifactflow_nb.sources.formats.sections import (
    RICH_BYTES,
    ZOTERO_FILE,
    AnchorAllocator,
    DocumentSection,
    ExtractedDocument,
    Extractor,
    is_installed,
    name_slug,
    title_from_path,
)
from artifactflow_nb.sources.formats.word import WORD_TYPE, read_word

SUFFIXES = (
    *(".md", ".markdown", ".rst", ".txt", ".html", ".htm", ".xhtml", ".pdf", ".docx", ".py", ".ipynb"),
    *(".bib", ".ris", ZOTERO_FILE),
)
FILE_SUFFIXES = (*SUFFIXES, ".json")
"""The kinds that are read if a single file is added: most JSON files are not bibliographies."""

_TEXT_BYTES, _DATABASE_BYTES = 10_000_000, 1_000_000_000


def extractors() -> Mapping[str, Extractor]:
    """Return the extractors by suffix; HTML pages are read with trafilatura if it is installed."""
    prose = Extractor(
        "markdown", "text/markdown", _TEXT_BYTES, lambda data, path: split_by_headings(decode_text(data), path)
    )
    name, read = ("page", read_page) if is_installed("trafilatura") else ("plain-page", read_plain_page)

    def extract_page(data: bytes, path: PurePath) -> ExtractedDocument:
        page = read(decode_text(data))
        document = split_by_headings(page.text, path)
        return ExtractedDocument(page.title or document.title, document.sections)

    return {
        **dict.fromkeys((".md", ".markdown"), prose),
        ".rst": Extractor(
            "rst", "text/x-rst", _TEXT_BYTES, lambda data, path: split_by_underlines(decode_text(data), path)
        ),
        ".txt": Extractor(
            "plain", "text/plain", _TEXT_BYTES, lambda data, path: split_plain_text(decode_text(data), path)
        ),
        **dict.fromkeys((".html", ".htm", ".xhtml"), Extractor(name, "text/html", _TEXT_BYTES, extract_page)),
        ".bib": Extractor("bibtex", "text/x-bibtex", _TEXT_BYTES, partial(_bibliography, read_bibtex)),
        ".ris": Extractor("ris", "application/x-research-info-systems", _TEXT_BYTES, partial(_bibliography, read_ris)),
        ".json": Extractor(
            "csl", "application/vnd.citationstyles.csl+json", RICH_BYTES, partial(_bibliography, read_csl)
        ),
        ZOTERO_FILE: Extractor(
            "zotero", "application/x-sqlite3", _DATABASE_BYTES, lambda *file: _listed(read_zotero(*file), "Zotero")
        ),
        ".pdf": PDF,
        ".docx": Extractor("word", WORD_TYPE, RICH_BYTES, _word),
        ".py": Extractor("python", "text/x-python", _TEXT_BYTES, _python),
        ".ipynb": Extractor("notebook", "application/x-ipynb+json", RICH_BYTES, split_by_cells),
    }


def _python(data: bytes, path: PurePath) -> ExtractedDocument:
    try:
        charset = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except (SyntaxError, UnicodeDecodeError):
        charset = ""
    return split_by_definitions(decode_text(data, "" if charset.startswith("utf-8") else charset), path)


def _word(data: bytes, path: PurePath) -> ExtractedDocument:
    """Extract a Word document, with a section for each heading, and one for headers and footers."""
    document = read_word(data)
    body = split_by_headings(document.text, path)
    margins = DocumentSection("header-and-footer", "Header and footer", document.margins)
    sections = (*body.sections, margins) if document.margins else body.sections
    return ExtractedDocument(document.title or body.title, sections, document.omitted)


def _bibliography(read: Callable[[str], Bibliography], data: bytes, path: PurePath) -> ExtractedDocument:
    return _listed(read(decode_text(data)), title_from_path(path))


def _listed(bibliography: Bibliography, title: str) -> ExtractedDocument:
    """Extract a bibliography, with a section for each work."""
    anchors = AnchorAllocator()
    works = tuple((anchors.allocate(name_slug(work.key, "work")), work) for work in bibliography.works)
    sections = (DocumentSection(anchor, work.title or work.key, work.reference()) for anchor, work in works)
    return ExtractedDocument(title, tuple(sections), bibliography.truncation, works)
