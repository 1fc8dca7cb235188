"""Extraction of sections from files, with one extractor per kind of file, chosen by suffix."""

import io
import tokenize
from pathlib import PurePath

from artifactflow_nb.sources.formats.charset import decode_text
from artifactflow_nb.sources.formats.code import split_by_cells, split_by_definitions
from artifactflow_nb.sources.formats.html import read_page, read_plain_page
from artifactflow_nb.sources.formats.markdown import split_by_headings, split_by_underlines, split_plain_text
from artifactflow_nb.sources.formats.pdf import PDF
from artifactflow_nb.sources.formats.sections import (
    RICH_BYTES,
    DocumentSection,
    ExtractedDocument,
    Extractor,
    Extractors,
    is_installed,
)
from artifactflow_nb.sources.formats.word import WORD_TYPE, read_word

_TEXT_BYTES = 10_000_000


def extractors() -> Extractors:
    """Return the extractors of the package; HTML pages are read with trafilatura if it is installed."""
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
    """Extract a Word document, with a section for each heading, and a section for headers and footers."""
    document = read_word(data)
    body = split_by_headings(document.text, path)
    margins = DocumentSection("header-and-footer", "Header and footer", document.margins)
    sections = (*body.sections, margins) if document.margins else body.sections
    return ExtractedDocument(document.title or body.title, sections, document.omitted)
