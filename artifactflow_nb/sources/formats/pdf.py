"""The text of a PDF, page by page."""

import io
import time
from dataclasses import dataclass

from artifactflow_nb.sources.formats.errors import UnreadableFile, import_library

MAX_PAGES = 500
_MAX_TITLE_CHARS = 300
_MAX_REASON_CHARS = 250


@dataclass(frozen=True, slots=True)
class PdfText:
    """The text of a PDF.

    Attributes:
        title: The title in its metadata; empty without one.
        pages: The texts of its first pages, in order; empty for a page without text.
        n_pages: Number of pages in the file.
    """

    title: str
    pages: tuple[str, ...]
    n_pages: int

    @property
    def truncation(self) -> str:
        """Description of the pages that were not read; empty if all were."""
        read = len(self.pages)
        return f"only the first {read} of {self.n_pages} pages were read" if read < self.n_pages else ""


def read_pdf(data: bytes, timeout_s: float) -> PdfText:
    """Read pages until the time is over, at most `MAX_PAGES`.

    Errors: `UnreadableFile` for a broken or encrypted file; `LibraryMissing` without pypdf.
    """
    pypdf = import_library("pypdf", "a PDF")
    end = time.monotonic() + timeout_s
    try:
        document = pypdf.PdfReader(io.BytesIO(data))
        if document.is_encrypted and not document.decrypt(""):
            raise UnreadableFile("asks for a password")
        pages: list[str] = []
        count = len(document.pages)
        for page in document.pages:
            if len(pages) >= MAX_PAGES or time.monotonic() > end:
                break
            pages.append(page.extract_text().strip())
        title = str((document.metadata or {}).get("/Title") or "").strip()
    except UnreadableFile:
        raise
    except Exception as error:  # noqa: BLE001 - a broken file makes pypdf raise almost anything
        raise UnreadableFile(f"cannot be read: {type(error).__name__}: {error}"[:_MAX_REASON_CHARS]) from None
    return PdfText(title[:_MAX_TITLE_CHARS], tuple(pages), count)
