"""The text of a Word document as Markdown, with python-docx."""

import io
import re
import zipfile
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.sources.formats.sections import UnreadableFile, import_library

WORD_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
"""The media type of .docx files."""

_MAX_UNPACKED_BYTES = 200_000_000  # a small archive may unpack to any size
_MAX_TITLE_CHARS = 300
_MAX_REASON_CHARS = 250
_HEADING = re.compile(r"heading ([1-6])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WordText:
    """The text of a Word document.

    Attributes:
        title: The title in its properties; empty without one.
        text: Headings, paragraphs, lists and tables as Markdown; headers, footers, notes and pictures are omitted.
    """

    title: str
    text: str


def read_word(data: bytes) -> WordText:
    """Read a Word document.

    Errors: `UnreadableFile` for a broken, encrypted or too large file; `LibraryMissing` without python-docx.
    """
    docx = import_library("docx", "a Word document", "docx")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > _MAX_UNPACKED_BYTES:
            raise UnreadableFile(f"is too large: it unpacks to {size / 1e6:,.0f} MB")
        document = docx.Document(io.BytesIO(data))
        blocks = [_markdown(block) for block in document.iter_inner_content()]
        title = str(document.core_properties.title or "").strip()
    except UnreadableFile:
        raise
    except zipfile.BadZipFile:  # an encrypted document is not an archive either
        raise UnreadableFile("is not a Word document, or asks for a password") from None
    except Exception as error:  # noqa: BLE001 - a broken file makes the library raise almost anything
        raise UnreadableFile(f"cannot be read: {type(error).__name__}: {error}"[:_MAX_REASON_CHARS]) from None
    return WordText(title[:_MAX_TITLE_CHARS], "\n\n".join(filter(None, blocks)))


def _markdown(block: Any) -> str:
    """Convert a paragraph or a table to Markdown; line breaks in cells become spaces."""
    if hasattr(block, "rows"):
        rows = [[" ".join(cell.text.split()) for cell in row.cells] for row in block.rows]
        lines = [f"| {' | '.join(cells)} |" for cells in rows]
        return "\n".join([*lines[:1], "|" + " --- |" * len(rows[0]), *lines[1:]]) if rows else ""
    text, style = block.text.strip(), str(block.style.name if block.style is not None else "")
    heading = _HEADING.fullmatch(style)
    if not text:
        return ""
    if heading or style == "Title":
        return f"{'#' * (int(heading[1]) if heading else 1)} {' '.join(text.split())}"
    return f"- {text}" if style.startswith("List") else text
