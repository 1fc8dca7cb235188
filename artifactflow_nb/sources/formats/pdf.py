"""The text of a PDF, page by page, and pictures of its pages, with pdfium.

pdfium is not safe in threads, so one lock guards every call, and every object is closed within it, since a finalizer
could run in any thread.
"""

import ctypes
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from artifactflow_nb.core.works import Work, find_arxiv_id, find_doi, parse_name
from artifactflow_nb.sources.formats.pdf_layout import (
    Fragment,
    PlacedLine,
    mark_paragraphs,
    may_have_columns,
    mend_pages,
    mend_words,
    read_columns,
    title_of,
)
from artifactflow_nb.sources.formats.sections import (
    RICH_BYTES,
    DocumentSection,
    ExtractedDocument,
    Extractor,
    UnreadableFile,
    import_library,
    title_from_path,
)

_LABELLED_DOI = re.compile(r"(?i)doi(?:\.org/|\s*:?\s*)(10\.\d{4,9}/\S+)")
_YEAR = r"(?:19|20)\d{2}"
_DATED = re.compile(
    rf"(?i)(?:©|\(c\)|copyright|published|accepted|vol(?:ume|\.)?\s*\d+[^\n]{{0,40}}?|\d\s?\()\D{{0,40}}?\b({_YEAR})\b"
)
_ARXIV_YEAR = re.compile(r"(\d{2})(?:0[1-9]|1[0-2])\.")
_CREATED = re.compile(rf"D:({_YEAR})")
_ABSTRACT = re.compile(r"(?im)^\W*(?:abstract|summary|zusammenfassung|résumé)\b\W*")
_ABSTRACT_END = re.compile(
    r"(?im)^\W*(?:key\s?words?|index terms|(?:(?:1|I)\.?\s+)?introduction|background|contents)\b"
    r"|\n\s*\n(?=\d?\.?\s*[A-Z][^\n]{0,60}\n)"
)
_MAX_ABSTRACT_CHARS = 5_000
_MIN_ABSTRACT_CHARS = 40
_NAME_LIST = re.compile(r"[^\W\d_][\w.'’-]*(?:\s+[^\W\d_][\w.'’-]*){1,4}")
_NAME_END = re.compile(r"[\d*†‡§¶∗,\s]+$")
_NAME_SEPARATOR = re.compile(r"\s*(?:;|\band\b|\bund\b|\bet\b|&|,(?!\s*(?:Jr|Sr|II|III)\b))\s*")
_NOT_NAMES = re.compile(
    r"(?i)\b(?:abstract|university|universität|institute?|department|journal|volume|proceedings|introduction|school|"
    r"received|version|draft|report|for|the|of|in|on|with|from)\b|@|https?:"
)
_NOT_AUTHORS = re.compile(r"(?i)^(?:admin\w*|user|unknown|author|root|\W*|.*(?:microsoft|latex|adobe|acrobat).*)$")
_RETRACTED = re.compile(
    r"(?i)\bretracted(?: article)?\s*[:.\n]|\bthis (?:article|paper) (?:has been|was|is) retracted\b"
)
_VENUE = re.compile(r"([^,;:(\d]{4,100}?)[,;:]?\s*(?:vol\.?\s*)?\d")


def find_work(title: str, info: Mapping[str, str], opening: str) -> Work | None:
    """Identify the work of a PDF; None if neither a title nor an identifier is found.

    Args:
        title: The title in the metadata or on the first page.
        info: Its metadata, by the names of the format: `Author`, `Subject`, `Keywords`, `CreationDate`.
        opening: The text of its first pages, with their heads and feet.
    """
    metadata = "\n".join(info.get(name, "") for name in ("Subject", "Keywords", "Title"))
    labelled = _LABELLED_DOI.search(metadata) or _LABELLED_DOI.search(opening)
    doi = find_doi(labelled[1]) if labelled else find_doi(metadata)
    arxiv_id = find_arxiv_id(metadata) or find_arxiv_id(opening)
    if not (title or doi or arxiv_id):
        return None
    item: dict[str, Any] = {
        "type": "article-journal" if doi and not arxiv_id else "document",
        "title": title,
        "DOI": doi,
    }
    if arxiv_id:
        item |= {"type": "article", "number": f"arXiv:{arxiv_id}", "publisher": "arXiv"}
    item["author"] = _authors(info.get("Author", ""), title, opening)
    if number := _ARXIV_YEAR.match(arxiv_id):
        item["issued"] = {"date-parts": [[2000 + int(number[1])]]}
    elif year := _DATED.search(opening) or _CREATED.match(info.get("CreationDate", "")):
        item["issued"] = {"date-parts": [[int(year[1])]]}
    if doi and (venue := _VENUE.match(info.get("Subject", ""))):
        item["container-title"] = venue[1].strip()
    if start := _ABSTRACT.search(opening):
        end = _ABSTRACT_END.search(opening, start.end() + _MIN_ABSTRACT_CHARS)
        abstract = " ".join(opening[start.end() : end.start() if end else None].split())
        item["abstract"] = abstract[:_MAX_ABSTRACT_CHARS]
    if _RETRACTED.search(f"{title}\n{opening}"):
        item["custom"] = {"is_retracted": True}
    return Work.of(item)


def _authors(metadata: str, title: str, opening: str) -> list[dict[str, str]]:
    """Return the names in the metadata, otherwise in the lines below the title of the first page."""
    if metadata.strip() and not _NOT_AUTHORS.match(metadata.strip()):
        if ";" not in metadata and re.fullmatch(r"[^,;]+,[^,;]+", metadata):  # `Doe, Jane`
            return [parse_name(metadata)]
        separator = re.compile(r"\s*;\s*") if ";" in metadata else _NAME_SEPARATOR
        return [parse_name(name) for name in separator.split(metadata.strip()) if name]
    words = r"\s+".join(map(re.escape, title.split()))
    below = re.search(words, opening) if words else None
    for line in opening[below.end() :].strip().split("\n")[:3] if below else ():
        names = [
            _NAME_END.sub("", name) for name in _NAME_SEPARATOR.split(line.strip()) if name.strip("0123456789*†‡ ")
        ]
        if names and not _NOT_NAMES.search(line) and all(map(_NAME_LIST.fullmatch, names)):
            return [parse_name(name) for name in names]
    return []


MAX_PAGES = 5_000
_TIMEOUT_S = 60.0
_OPENING_PAGES = 2  # that may describe the work
_INFO = ("Title", "Author", "Subject", "Keywords", "CreationDate")
_MAX_TITLE_CHARS = 300
_MAX_LISTED_PAGES = 5
_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD
_SECURITY_ERROR = 5  # FPDF_ERR_SECURITY
_IMAGE = 3  # FPDF_PAGEOBJ_IMAGE
_MAX_FRAGMENTS = 4_000  # a page with more is a drawing
_PLACEHOLDER_TITLE = re.compile(
    r"untitled\b.*|microsoft \w+ - .*|(?:slide|page|title|document)\s*\d*|[\W\d_]*"
    r"|.*\.(?:docx?|dvi|tex|pdf|indd|qxd|pptx?|rtf)",
    re.IGNORECASE,
)
_JOINED = "\ufffe"  # in a word that pdfium joined from two lines
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class PdfText:
    """The text of a PDF.

    Attributes:
        title: The title in the metadata, otherwise the line in the largest type on the first page; empty without both.
        pages: The texts of its first pages, in order; empty for a page without text.
        work: The work that it contains; None if it cannot be identified.
        scanned: Numbers of the pages that are pictures without text.
        broken: Numbers of the pages that pdfium could not read.
    """

    title: str
    pages: tuple[str, ...]
    n_pages: int
    work: Work | None = None
    scanned: tuple[int, ...] = ()
    broken: tuple[int, ...] = ()

    @property
    def truncation(self) -> str:
        """Description of the pages whose text was not read; empty if all were read."""
        read = len(self.pages)
        parts = [f"only the first {read:,} of {self.n_pages:,} pages were read"] if read < self.n_pages else []
        if self.scanned:
            parts.append(f"needs OCR for {_list_pages(self.scanned)}, pictures without text")
        if self.broken:
            parts.append(f"{_list_pages(self.broken)} cannot be read")
        return "; ".join(parts)


def read_pdf(data: bytes, timeout_s: float) -> PdfText:
    """Read pages until the time is over, at most `MAX_PAGES`.

    Columns are read one after the other; running heads and page numbers are omitted, and words that are hyphenated at
    the end of a line are joined.

    Errors: `UnreadableFile` for a broken or encrypted file and for a scan without text; `LibraryMissing` without
    pypdfium2.
    """
    end = time.monotonic() + timeout_s
    texts: list[str] = []
    scanned: list[int] = []
    broken: list[int] = []
    raw = import_library("pypdfium2.raw", "a PDF")
    with open_pdf(data) as document:
        count = len(document)
        info = {name: str(document.get_metadata_value(name) or "").strip() for name in _INFO}
        title = info["Title"]
        if _PLACEHOLDER_TITLE.fullmatch(title):
            title = ""
        for number in range(1, min(count, MAX_PAGES) + 1):
            if time.monotonic() > end:
                break
            try:
                with open_page(document, number) as (page, text_page):
                    lines = _read_lines(raw, text_page)
                    if number == 1 and not title:
                        title = title_of([(line.text, _height(raw, text_page, index)) for line, index in lines])
                    placed = [line for line, _ in lines]
                    text = mark_paragraphs(_in_columns(raw, text_page, placed) or placed)
                    if not text and next(iter(page.get_objects(filter=[_IMAGE], max_depth=3)), None) is not None:
                        scanned.append(number)
            except _pdfium().PdfiumError:
                text = ""
                broken.append(number)
            texts.append(text)
    if scanned and not any(texts):
        pages = "1 page is a picture" if count == 1 else f"{count:,} pages are pictures"
        raise UnreadableFile(f"needs OCR: its {pages} without text. Add a copy with a text layer")
    if broken and len(broken) == len(texts):
        raise UnreadableFile("cannot be read: all its pages are broken")
    work = find_work(title, info, "\n\n".join(mend_words(texts[:_OPENING_PAGES])))
    return PdfText(title[:_MAX_TITLE_CHARS], tuple(mend_pages(texts)), count, work, tuple(scanned), tuple(broken))


@contextmanager
def open_pdf(data: bytes) -> Iterator[Any]:
    """Open a PDF as pypdfium2's `PdfDocument` while other threads wait.

    Errors: as those of `read_pdf`, except for scans.
    """
    pdfium = _pdfium()
    with _LOCK, ExitStack() as opened:
        try:
            document = pdfium.PdfDocument(data)
            opened.callback(document.close)
            yield document
        except pdfium.PdfiumError as error:
            if error.err_code == _PASSWORD_ERROR:
                raise UnreadableFile("is encrypted and asks for a password. Add a copy without one") from None
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


def _in_columns(raw: Any, text_page: Any, lines: Sequence[PlacedLine]) -> list[PlacedLine]:
    """Return the lines of a page column by column if the file has them row by row; otherwise empty."""
    count = raw.FPDFText_CountRects(text_page, 0, -1)
    if count > _MAX_FRAGMENTS or not may_have_columns([line.x for line in lines], count - len(lines)):
        return []
    left, top, right, bottom = (ctypes.c_double() for _ in range(4))
    places = [ctypes.byref(value) for value in (left, top, right, bottom)]
    boxes = []
    handle = text_page.raw
    for index in range(count):  # the wrapper of pypdfium2 takes twice the time
        raw.FPDFText_GetRect(handle, index, *places)
        boxes.append(Fragment(left.value, bottom.value, right.value, top.value))
    ordered = []
    for box in read_columns(boxes):
        margin = (box.top - box.bottom) / 20  # the lines above and below may touch the box
        text = text_page.get_text_bounded(box.left, box.bottom + margin, box.right, box.top - margin)
        ordered.append(PlacedLine(" ".join(str(text).split()), box.left, box.bottom, box.bottom))
    return [line for line in ordered if line.text]


def _read_lines(raw: Any, text_page: Any) -> list[tuple[PlacedLine, int]]:
    """Return the lines of a page in the order of the file, each with the index of its first character."""
    handle = text_page.raw
    x, y = ctypes.c_double(), ctypes.c_double()
    places = ctypes.byref(x), ctypes.byref(y)
    page_text = str(text_page.get_text_range())
    is_whole = len(page_text) == text_page.count_chars()  # the text has all characters of the page, as on most

    def place(text_index: int) -> tuple[float, float, int]:
        index = text_index if is_whole else raw.FPDFText_GetCharIndexFromTextIndex(handle, text_index)
        raw.FPDFText_GetCharOrigin(handle, index, *places)
        return x.value, y.value, index

    lines = []
    start = 0
    for line in page_text.split("\r\n"):
        if text := line.strip():
            first = start + line.index(text[0])
            left, top, index = place(first)
            bottom = place(first + len(text) - 1)[1] if _JOINED in text else top
            lines.append((PlacedLine(text, left, top, bottom), index))
        start += len(line) + 2
    return lines


def _height(raw: Any, text_page: Any, index: int) -> float:
    """Return the height of the font at a character, independent of the letter."""
    box = raw.FS_RECTF()
    raw.FPDFText_GetLooseCharBox(text_page, index, ctypes.byref(box))
    return float(abs(box.top - box.bottom))


def _list_pages(numbers: tuple[int, ...]) -> str:
    listed = ", ".join(f"{number}" for number in numbers[:_MAX_LISTED_PAGES])
    rest = f" and {len(numbers) - _MAX_LISTED_PAGES:,} more" if len(numbers) > _MAX_LISTED_PAGES else ""
    return f"page{'s' if len(numbers) > 1 else ''} {listed}{rest}"


def _extract(data: bytes, path: PurePath) -> ExtractedDocument:
    """Return a section for each page that has text."""
    pdf = read_pdf(data, _TIMEOUT_S)
    title = pdf.title or title_from_path(path)
    pages = (DocumentSection(f"page-{n}", f"page {n}", text) for n, text in enumerate(pdf.pages, 1) if text)
    return ExtractedDocument(title, tuple(pages), pdf.truncation, (("", pdf.work),) if pdf.work else ())


PDF = Extractor("pdfium", "application/pdf", RICH_BYTES, _extract)
