"""The text of a PDF, page by page, and pictures of its pages, with pdfium.

pdfium is not safe in threads, so one lock guards every call, and every object is closed under the lock, since a
finalizer could run in any thread.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from artifactflow_nb.sources.formats.pdf_layout import mark_paragraphs, mend_pages, mend_words, title_of
from artifactflow_nb.sources.formats.pdf_page import read_lines
from artifactflow_nb.sources.formats.sections import (
    RICH_BYTES,
    DocumentSection,
    ExtractedDocument,
    Extractor,
    UnreadableFile,
    import_library,
    list_counts,
    title_from_path,
)

MAX_PAGES = 5_000
_TIMEOUT_S = 60.0
_OPENING_PAGES = 2  # that may describe the file
_INFO = ("Title", "Author", "Subject", "Keywords")
_MAX_TITLE_CHARS = 300
_MAX_LISTED_PAGES = 5
_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD
_SECURITY_ERROR = 5  # FPDF_ERR_SECURITY
_IMAGE = 3  # FPDF_PAGEOBJ_IMAGE
_PLACEHOLDER_TITLE = re.compile(
    r"untitled\b.*|microsoft \w+ - .*|(?:slide|page|title|document)\s*\d*|[\W\d_]*"
    r"|.*\.(?:docx?|dvi|tex|pdf|indd|qxd|pptx?|rtf)",
    re.IGNORECASE,
)
_XFA = 2  # FORMTYPE_XFA_FULL
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class PdfText:
    """The text of a PDF.

    Attributes:
        title: The title in the metadata, or else the line in the largest type on the first page, or an empty string.
        pages: The texts of the first pages, in order; the text of a page without text is empty.
        info: The metadata of the file by the names of the format: `Title`, `Author`, `Subject`, `Keywords`.
        opening: The texts of the first two pages, with running heads and feet.
        scanned: Numbers of the pages that are pictures without text.
        broken: Numbers of the pages that pdfium could not read.
        damaged: Numbers of the pages with fonts that do not map glyphs to letters.
        unread: The parts of the file that are never read, such as `2 comments`, or an empty string.
    """

    title: str
    pages: tuple[str, ...]
    n_pages: int
    info: Mapping[str, str] = field(default_factory=dict)
    opening: tuple[str, ...] = ()
    scanned: tuple[int, ...] = ()
    broken: tuple[int, ...] = ()
    damaged: tuple[int, ...] = ()
    unread: str = ""

    @property
    def omitted(self) -> str:
        """The parts that were not read; empty if all parts were read."""
        read = len(self.pages)
        parts = [f"only the first {read:,} of {self.n_pages:,} pages were read"] if read < self.n_pages else []
        if self.scanned:
            parts.append(f"needs OCR for {_list_pages(self.scanned)}, pictures without text")
        if self.broken:
            parts.append(f"{_list_pages(self.broken)} cannot be read")
        if self.damaged:
            parts.append(f"damaged text on {_list_pages(self.damaged)}: their fonts do not name all letters")
        return "; ".join([*parts, *filter(None, [self.unread])])


def read_pdf(data: bytes, timeout_s: float) -> PdfText:
    """Read pages until the time is over, at most `MAX_PAGES`.

    Columns are read one after another, and values of forms and typed annotations at their places; running heads and
    page numbers are omitted, and words that are hyphenated at the end of a line are joined.

    Errors: `UnreadableFile` for a broken or encrypted file and for a scan without text; `LibraryMissing` without
    pypdfium2.
    """
    end = time.monotonic() + timeout_s
    texts: list[str] = []
    faulty: dict[str, list[int]] = {"scanned": [], "broken": [], "damaged": []}
    unread: Counter[str] = Counter()
    with open_pdf(data) as document:
        count = len(document)
        info = {name: str(document.get_metadata_value(name) or "").strip() for name in _INFO}
        title = "" if _PLACEHOLDER_TITLE.fullmatch(info["Title"]) else info["Title"]
        unread["attached file"] = document.count_attachments()
        unread["XFA form"] = document.get_formtype() == _XFA
        document.init_forms()
        for number in range(1, min(count, MAX_PAGES) + 1):
            if time.monotonic() > end:
                break
            text = ""
            try:
                with open_page(document, number) as (page, text_page):
                    read = read_lines(document, page, text_page, with_sizes=number == 1 and not title)
                    text, title = mark_paragraphs(read.lines), title or title_of(read.sizes)
                    unread["comment"] += read.n_comments
                    faulty["damaged"] += [number] if read.is_damaged else []
                    if not text and next(iter(page.get_objects(filter=[_IMAGE], max_depth=3)), None) is not None:
                        faulty["scanned"].append(number)
            except _pdfium().PdfiumError:
                faulty["broken"].append(number)
            texts.append(text)
    scanned, broken, damaged = map(tuple, faulty.values())
    if scanned and not any(texts):
        pages = "1 page is a picture" if count == 1 else f"{count:,} pages are pictures"
        raise UnreadableFile(f"needs OCR: its {pages} without text. Add a copy with a text layer")
    if broken and len(broken) == len(texts):
        raise UnreadableFile("cannot be read: all its pages are broken")
    opening = tuple(mend_words(texts[:_OPENING_PAGES]))
    return PdfText(
        title[:_MAX_TITLE_CHARS], tuple(mend_pages(texts)), count, info, opening, scanned, broken, damaged,
        list_counts(unread),
    )  # fmt: skip


@contextmanager
def open_pdf(data: bytes) -> Iterator[Any]:
    """Open a PDF as pypdfium2's `PdfDocument` while other threads wait.

    Errors: as for `read_pdf`, except for scans.
    """
    pdfium = _pdfium()
    with _LOCK, ExitStack() as opened:
        try:
            document = pdfium.PdfDocument(data)
            opened.callback(document.close)
            yield document
        except pdfium.PdfiumError as error:
            if error.err_code == _PASSWORD_ERROR:
                raise UnreadableFile("is encrypted and needs a password. Add a copy without a password") from None
            if error.err_code == _SECURITY_ERROR:
                raise UnreadableFile(
                    "is encrypted in a way that cannot be read. Add a copy without encryption"
                ) from None
            raise UnreadableFile("cannot be read: it is not a PDF, or it is broken") from None


def _pdfium() -> Any:
    return import_library("pypdfium2", "a PDF")


@contextmanager
def open_page(document: Any, number: int) -> Iterator[tuple[Any, Any]]:
    """Open a page and its text as pypdfium2's `PdfPage` and `PdfTextPage`, and close both at the end."""
    with ExitStack() as opened:
        page = document[number - 1]
        opened.callback(page.close)
        text_page = page.get_textpage()
        opened.callback(text_page.close)
        yield page, text_page


def _list_pages(numbers: tuple[int, ...]) -> str:
    first = ", ".join(f"{number}" for number in numbers[:_MAX_LISTED_PAGES])
    rest = f" and {len(numbers) - _MAX_LISTED_PAGES:,} more" if len(numbers) > _MAX_LISTED_PAGES else ""
    return f"page{'s' if len(numbers) > 1 else ''} {first}{rest}"


def _extract(data: bytes, path: PurePath) -> ExtractedDocument:
    """Return a section for each page that has text."""
    pdf = read_pdf(data, _TIMEOUT_S)
    title = pdf.title or title_from_path(path)
    pages = (DocumentSection(f"page-{n}", f"page {n}", text) for n, text in enumerate(pdf.pages, 1) if text)
    metadata = {"title": pdf.title, "info": pdf.info, "opening": pdf.opening}
    return ExtractedDocument(title, tuple(pages), pdf.omitted, (("", metadata),))


PDF = Extractor("pdfium", "application/pdf", RICH_BYTES, _extract, describe=lambda _metadata: ())
