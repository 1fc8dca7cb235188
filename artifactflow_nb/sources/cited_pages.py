"""Cited sections of local sources: their text, their file, and the picture of a page of a PDF."""

import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.sources.formats.pdf_picture import page_picture
from artifactflow_nb.sources.rows import SCHEME
from artifactflow_nb.sources.scanner import path_from_uri

_PAGE = re.compile(r"page-(\d+)\Z")


@dataclass(frozen=True, slots=True)
class CitedSection:
    """A section of a local source.

    Attributes:
        text: Its text in the index.
        path: Its file; None for the language reference.
        page: The number of the page of a PDF; 0 for other sections.
    """

    text: str
    path: Path | None
    page: int

    def picture(self, passage: str) -> bytes:
        """The page as PNG with a passage marked.

        Errors: `UsageError` unless it is a page of a PDF; `NotFound` if its file is missing.
        """
        if self.path is None or not self.page:
            raise UsageError("Only pages of PDF files have a picture; this source is not one. Read its text instead.")
        return page_picture(self.path, self.page, passage)


def cited_section(db: sqlite3.Connection, address: str) -> CitedSection:
    """The section at an address; `NotFound` if it is not in the index."""
    source_id, _, anchor = address.removeprefix(SCHEME).partition("#")
    row = db.execute(
        "SELECT s.text, uri, media_type FROM sections AS s JOIN sources USING (source_id) "
        "WHERE source_id = ? AND anchor = ?",
        (source_id, anchor),
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no source section {address!r} in the index. Add its folder with wb.add_sources().")
    page = _PAGE.match(anchor) if row["media_type"] == "application/pdf" else None
    return CitedSection(row["text"], path_from_uri(row["uri"]), int(page[1]) if page else 0)
