"""What was fetched as text to read: of a page its main text as Markdown, of a PDF the text of its pages.

Everything in a page is data. Scripts, styles, comments and what a page hides from its readers are taken out before
the main text is looked for, and a link keeps its address only if that is one of the web.
"""

import importlib
import io
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from artifactflow_nb.errors import ToolError
from artifactflow_nb.tools.charset import text_of
from artifactflow_nb.tools.tame_html import tame

INSTALL = "pip install 'artifactflow-nb[web]'"
"""What brings the libraries for pages and PDF."""

# fmt: off
_DROPPED = (
    "script", "style", "noscript", "template", "iframe", "object", "embed", "applet", "frame", "frameset", "svg",
    "canvas", "audio", "video", "map", "input", "button", "select", "textarea", "dialog",
)
_BLOCKS = frozenset({
    "p", "div", "section", "article", "h1", "h2", "h3", "h4", "h5", "h6", "li", "tr", "table", "ul", "ol", "pre",
    "blockquote", "br", "hr", "dt", "dd",
})
# fmt: on
_HIDDEN_STYLE = re.compile(r"(?i)display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|font-size\s*:\s*0(?![.\d])")
_LINEBREAKS = re.compile(r"\n[ \t]*\n\s*")
_WRITTEN_BEFORE = {"li": "- ", **{f"h{n}": "#" * n + " " for n in range(1, 7)}}
_MOST_ELEMENTS = 30_000
"""The time for finding the main text grows with the square of the elements; of a larger page all text is taken."""

_MOST_ATTRIBUTES = 100
_MOST_PAGES = 500
_MOST_TITLE = 300


@dataclass(frozen=True, slots=True)
class Body:
    """What a server sent.

    Attributes:
        url: Where it came from.
        media_type: In lower case, without parameters.
        charset: As the server named it, or empty.
        data: The unpacked bytes.
        truncated: Whether there was more.
    """

    url: str
    media_type: str
    charset: str
    data: bytes
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class WebText:
    """A page or document as text.

    Attributes:
        title: Its title.
        text: Its text, Markdown where it was a page.
        cut: Why the text is not whole; empty if it is.
    """

    title: str
    text: str
    cut: str = ""


Reader = Callable[[Body, float], WebText]


def readable(media_type: str) -> bool:
    """Whether there is a reader for the media type; one that was not given is looked for in the bytes."""
    return not media_type or _reader(media_type) is not None


def extract(body: Body, within_s: float) -> WebText:
    """The text of what was sent; blocking, for a thread.

    A PDF is read page by page for at most `within_s` seconds; the rest is left out, and `cut` says so.
    `ToolError` if it cannot be read, if it holds no text, or if the library for it is not installed.
    """
    reader = _reader(body.media_type or _looks_like(body.data))
    if reader is None:
        raise ToolError(f"{body.url} is of the type {body.media_type!r}, which cannot be read as text.")
    found = reader(body, within_s)
    if not found.text.strip():
        raise ToolError(f"{body.url} holds no text that can be read. Try another source.")
    return found


def _reader(media_type: str) -> Reader | None:
    known = _READERS.get(media_type)
    structured = media_type.startswith("application/") and media_type.endswith(("+json", "+xml"))
    return known or (_plain if structured else None)


def _looks_like(data: bytes) -> str:
    """The media type of a body that came without one."""
    head = data[:1024].lstrip().lower()
    if head.startswith(b"%pdf-"):
        return "application/pdf"
    if head.startswith((b"<!doctype html", b"<html")):
        return "text/html"
    return "application/octet-stream" if b"\0" in head else "text/plain"


# --- text as it is -------------------------------------------------------------------------------------------------


def _plain(body: Body, _within_s: float) -> WebText:
    text = text_of(body.data, body.charset).replace("\r\n", "\n")
    return WebText(_name_of(body.url), text, _cut_by_size(body))


def _cut_by_size(body: Body) -> str:
    return f"only the first {len(body.data):,} bytes were read" if body.truncated else ""


def _name_of(url: str) -> str:
    """The last part of the address, or its host."""
    parts = urlsplit(url)
    return unquote(PurePosixPath(parts.path).name) or parts.netloc


# --- pages ---------------------------------------------------------------------------------------------------------


def _page(body: Body, _within_s: float) -> WebText:
    trafilatura, lxml_html = _library("trafilatura", "a page"), _library("lxml.html", "a page")
    tree = _parsed(lxml_html, tame(text_of(body.data, body.charset)))
    if tree is None:
        return WebText(_name_of(body.url), "")
    title = _title(tree) or _name_of(body.url)
    _take_out(tree)
    _mend_links(tree, body.url)
    whole = _whole_text(tree)
    main = None
    if sum(1 for _ in tree.iter()) <= _MOST_ELEMENTS:
        main = trafilatura.extract(
            tree, url=body.url, output_format="markdown", include_links=True, include_comments=False
        )
    return WebText(title, main or whole, _cut_by_size(body))


def _parsed(lxml_html: ModuleType, text: str) -> Any:
    """The page as a tree; None for one without elements. The parser itself drops what is nested too deep."""
    parser = lxml_html.HTMLParser(remove_comments=True, remove_pis=True, encoding="utf-8")
    try:
        return lxml_html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (importlib.import_module("lxml.etree").ParserError, AssertionError):
        return None


def _title(tree: Any) -> str:
    """What the page calls itself: its title, else its first heading."""
    for path in ("//title", "//h1"):
        for element in tree.xpath(path):
            if words := " ".join(element.text_content().split()):
                return words[:_MOST_TITLE]
    return ""


def _take_out(tree: Any) -> None:
    """Remove what is no text for a reader, and what is hidden from one; the text that follows it stays."""
    for element in tree.iter():
        if len(element.attrib) > _MOST_ATTRIBUTES:
            element.attrib.clear()
    for element in list(tree.iter(*_DROPPED)):
        _drop(element)
    for element in tree.xpath("//body//*[@hidden or @aria-hidden='true' or @style]"):
        hidden = element.get("hidden") is not None or element.get("aria-hidden") == "true"
        if hidden or _HIDDEN_STYLE.search(element.get("style", "")):
            _drop(element)


def _drop(element: Any) -> None:
    if element.getparent() is not None:
        element.drop_tree()


def _mend_links(tree: Any, url: str) -> None:
    """Make links absolute; one that leads elsewhere than to the web keeps its words only."""
    for link in list(tree.iter("a")):
        try:
            target = urljoin(url, link.get("href", "").strip())
            usable = bool(link.get("href")) and urlsplit(target).scheme in {"http", "https"}
        except ValueError:
            usable = False
        if usable:
            link.set("href", target)
        else:
            link.drop_tag()


def _whole_text(tree: Any) -> str:
    """All text of the page, a line for each block: for pages in which no main text is found."""
    pieces: list[str] = []
    for event, element in _walk(tree):
        starts, link = event == "start", element.get("href") if element.tag == "a" else None
        if element.tag in _BLOCKS:
            pieces.append("\n\n" + _WRITTEN_BEFORE.get(element.tag, "") * starts)
        if link:
            pieces.append("[" if starts else f"]({link})")
        pieces.append((element.text if starts else element.tail) or "")
    lines = (" ".join(line.split()) for line in _LINEBREAKS.sub("\n\n", "".join(pieces)).split("\n\n"))
    return "\n\n".join(line for line in lines if line)


def _walk(tree: Any) -> Iterator[tuple[str, Any]]:
    body = tree.find("body")
    etree: Any = importlib.import_module("lxml.etree")
    return iter(etree.iterwalk(tree if body is None else body, events=("start", "end")))


# --- PDF -----------------------------------------------------------------------------------------------------------


def _pdf(body: Body, within_s: float) -> WebText:
    pypdf = _library("pypdf", "a PDF")
    if body.truncated:
        raise ToolError(f"{body.url} is a PDF of more than {len(body.data):,} bytes, which is too large to be read.")
    end = time.monotonic() + within_s
    try:
        document = pypdf.PdfReader(io.BytesIO(body.data))
        if document.is_encrypted and not document.decrypt(""):
            raise ToolError(f"{body.url} is a PDF that asks for a password. Try another source.")
        pages: list[str] = []
        count = len(document.pages)
        for page in document.pages:
            if len(pages) >= _MOST_PAGES or time.monotonic() > end:
                break
            pages.append(page.extract_text().strip())
        title = str((document.metadata or {}).get("/Title") or "").strip()
    except ToolError:
        raise
    except Exception as error:  # noqa: BLE001 - a broken file makes pypdf raise almost anything
        raise ToolError(f"{body.url} is a PDF that cannot be read: {type(error).__name__}: {error}"[:300]) from None
    cut = f"only the first {len(pages)} of {count} pages were read" if len(pages) < count else ""
    return WebText(title[:_MOST_TITLE] or _name_of(body.url), "\n\n".join(filter(None, pages)), cut)


def _library(name: str, what: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ToolError(f"Reading {what} needs a library that is not installed: {INSTALL}") from None


_READERS: dict[str, Reader] = {
    "text/html": _page,
    "application/xhtml+xml": _page,
    "application/pdf": _pdf,
    "application/x-pdf": _pdf,
    **dict.fromkeys(
        ("text/plain", "text/markdown", "text/x-markdown", "application/json", "text/json", "text/xml"), _plain
    ),
    "application/xml": _plain,
}
