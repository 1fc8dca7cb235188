"""The text of a PDF, page by page, and pictures of its pages, with pdfium.

pdfium is not safe in threads, so one lock guards every call, and every object is closed within it, since a finalizer
could run in any thread.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from artifactflow_nb.core.works import RETRACTED_NOTE, RETRACTED_TITLE, Work, find_arxiv_id, find_doi, parse_name
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

_LABELLED_DOI = re.compile(r"(?i)doi(?:\.org/|\s*:?\s*)(10\.\d{4,9}/\S+)")
_YEAR = r"(?:19|20)\d{2}"
_DATED = re.compile(
    rf"(?i)(?:©|\(c\)|copyright|published|accepted|vol(?:ume|\.)?\s*\d+[^\n]{{0,40}}?|\d\s?\()\D{{0,40}}?\b({_YEAR})\b"
)
_ARXIV_YEAR = re.compile(r"(\d{2})(?:0[1-9]|1[0-2])\.")
_ARXIV_STAMP = re.compile(
    r"arXiv:\d{4}\.\d{4,5}v\d+\s+\[[\w.-]+\]\s+\d{1,2} \w{3} \d{4}"
)  # at the edge of the first page
_HEAD_END = re.compile(
    r"(?im)^[^\w\n]{0,10}(?:abstract\b(?=\W*$|[.:—–-]|\s+(?-i:[A-Z]))"
    r"|(?:(?:(?:1|I)\.?\s+)?introduction|summary|zusammenfassung|résumé|references|key\s?words?|index terms)"
    r"\s*(?:$|[.:—–-]))"
)
_MAX_HEAD_COLUMNS = 500
_HEAD_LINES = 15  # after the title, if no heading follows
_OTHER_WORK = re.compile(
    r"(?i)\b(?:comment|correct|corrigend|errat|repl[iy]|respon|supplement|retract|review)|\([^)]*$"
)
"""What precedes the identifier of another work in a line."""
_PROSE = re.compile(r"\b[a-z]+ [a-z]+ [a-z]+\b")
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
_VENUE = re.compile(r"([^,;:(\d]{4,100}?)[,;:]?\s*(?:vol\.?\s*)?\d")


def find_work(title: str, info: Mapping[str, str], pages: Sequence[str]) -> Work | None:
    """Identify the work of a PDF; None if neither a title nor an identifier is found.

    Identifiers, year and notice are those of the metadata and of the head of the first page, not of references.

    Args:
        title: The title in the metadata or on the first page.
        info: Its metadata, by the names of the format: `Author`, `Subject`, `Keywords`.
        pages: The texts of its first pages, with their heads and feet.
    """
    metadata = "\n".join(info.get(name, "") for name in ("Subject", "Keywords", "Title"))
    opening, first = "\n\n".join(pages), next(iter(pages), "")
    lines = _head(title, first)
    own = [line for line in lines if not _OTHER_WORK.search(line.partition("10.")[0])]
    labelled = [
        found[1] for line in own if (found := _LABELLED_DOI.search(line)) and not _PROSE.search(line[found.end() :])
    ]
    doi = next(filter(None, map(find_doi, [metadata, *labelled])), "")
    stamp = _ARXIV_STAMP.search(first)
    arxiv_id = next(filter(None, map(find_arxiv_id, [metadata, stamp[0] if stamp else "", *own])), "")
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
    elif year := _DATED.search("\n".join(lines)):
        item["issued"] = {"date-parts": [[int(year[1])]]}
    if doi and (venue := _VENUE.match(info.get("Subject", ""))):
        item["container-title"] = venue[1].strip()
    if start := _ABSTRACT.search(opening):
        end = _ABSTRACT_END.search(opening, start.end() + _MIN_ABSTRACT_CHARS)
        abstract = " ".join(opening[start.end() : end.start() if end else None].split())
        item["abstract"] = abstract[:_MAX_ABSTRACT_CHARS]
    if any(RETRACTED_TITLE.search(line) or (line[:1].isupper() and RETRACTED_NOTE.match(line)) for line in lines):
        item["custom"] = {"is_retracted": True}
    return Work.of(item)


def _head(title: str, page: str) -> list[str]:
    """Return the lines of the first page before the abstract or the first heading."""
    words = r"\s+".join(map(re.escape, title.split()))
    named = re.search(words, page)
    after = named.end() if named else 0
    end = _HEAD_END.search(page, after)
    rest = page[after : end.start() if end else None].split("\n")
    lines = [title, *page[:after].split("\n"), *(rest if end else rest[:_HEAD_LINES])]
    return [line[:_MAX_HEAD_COLUMNS] for line in lines]


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
        title: The title in the metadata, otherwise the line in the largest type on the first page; empty without both.
        pages: The texts of its first pages, in order; empty for a page without text.
        work: The work that it contains; None if it cannot be identified.
        scanned: Numbers of the pages that are pictures without text.
        broken: Numbers of the pages that pdfium could not read.
        damaged: Numbers of the pages whose fonts do not say which letters their glyphs are.
        unread: Further parts of the file, with their number.
    """

    title: str
    pages: tuple[str, ...]
    n_pages: int
    work: Work | None = None
    scanned: tuple[int, ...] = ()
    broken: tuple[int, ...] = ()
    damaged: tuple[int, ...] = ()
    unread: str = ""

    @property
    def omitted(self) -> str:
        """The parts that were not read; empty if all were read."""
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

    Columns are read one after the other, and values of forms and typed annotations at their places; running heads and
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
    work = find_work(title, info, list(mend_words(texts[:_OPENING_PAGES])))
    return PdfText(
        title[:_MAX_TITLE_CHARS], tuple(mend_pages(texts)), count, work, scanned, broken, damaged, list_counts(unread)
    )


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
                raise UnreadableFile("is encrypted and needs a password. Add a copy without one") from None
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
    listed = ", ".join(f"{number}" for number in numbers[:_MAX_LISTED_PAGES])
    rest = f" and {len(numbers) - _MAX_LISTED_PAGES:,} more" if len(numbers) > _MAX_LISTED_PAGES else ""
    return f"page{'s' if len(numbers) > 1 else ''} {listed}{rest}"


def _extract(data: bytes, path: PurePath) -> ExtractedDocument:
    """Return a section for each page that has text."""
    pdf = read_pdf(data, _TIMEOUT_S)
    title = pdf.title or title_from_path(path)
    pages = (DocumentSection(f"page-{n}", f"page {n}", text) for n, text in enumerate(pdf.pages, 1) if text)
    return ExtractedDocument(title, tuple(pages), pdf.omitted, (("", pdf.work),) if pdf.work else ())


PDF = Extractor("pdfium", "application/pdf", RICH_BYTES, _extract)
