"""The text of a PDF, page by page."""

import io
import time
from dataclasses import dataclass

from artifactflow_nb.formats.unreadable import Unreadable, library

MOST_PAGES = 500
_MOST_TITLE = 300
_MOST_REASON = 250


@dataclass(frozen=True, slots=True)
class PdfText:
    """What was read of a PDF.

    Attributes:
        title: What it calls itself; empty if it does not.
        pages: The text of its first pages, one after the other; empty for a page without text.
        count: How many pages it has.
    """

    title: str
    pages: tuple[str, ...]
    count: int

    @property
    def cut(self) -> str:
        """Why this is not all of it; empty if it is."""
        read = len(self.pages)
        return f"only the first {read} of {self.count} pages were read" if read < self.count else ""


def read_pdf(data: bytes, within_s: float) -> PdfText:
    """Read as many pages as there is time for, and at most `MOST_PAGES`.

    Errors: `Unreadable` for a broken one or one with a password; `LibraryMissing`.
    """
    pypdf = library("pypdf", "a PDF")
    end = time.monotonic() + within_s
    try:
        document = pypdf.PdfReader(io.BytesIO(data))
        if document.is_encrypted and not document.decrypt(""):
            raise Unreadable("asks for a password")
        pages: list[str] = []
        count = len(document.pages)
        for page in document.pages:
            if len(pages) >= MOST_PAGES or time.monotonic() > end:
                break
            pages.append(page.extract_text().strip())
        title = str((document.metadata or {}).get("/Title") or "").strip()
    except Unreadable:
        raise
    except Exception as error:  # noqa: BLE001 - a broken file makes pypdf raise almost anything
        raise Unreadable(f"cannot be read: {type(error).__name__}: {error}"[:_MOST_REASON]) from None
    return PdfText(title[:_MOST_TITLE], tuple(pages), count)
