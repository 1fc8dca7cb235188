"""What was fetched as text to read: of a page its main text as Markdown, of a PDF the text of its pages."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from artifactflow_nb.errors import ToolError
from artifactflow_nb.formats.charset import text_of
from artifactflow_nb.formats.page import read_page
from artifactflow_nb.formats.pdf import read_pdf
from artifactflow_nb.formats.unreadable import LibraryMissing, Unreadable


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
    try:
        found = reader(body, within_s)
    except LibraryMissing as error:
        raise ToolError(str(error)) from None
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


def _plain(body: Body, _within_s: float) -> WebText:
    text = text_of(body.data, body.charset).replace("\r\n", "\n")
    return WebText(_name_of(body.url), text, _cut_by_size(body))


def _cut_by_size(body: Body) -> str:
    return f"only the first {len(body.data):,} bytes were read" if body.truncated else ""


def _name_of(url: str) -> str:
    """The last part of the address, or its host."""
    parts = urlsplit(url)
    return unquote(PurePosixPath(parts.path).name) or parts.netloc


def _page(body: Body, _within_s: float) -> WebText:
    found = read_page(text_of(body.data, body.charset), body.url)
    return WebText(found.title or _name_of(body.url), found.text, _cut_by_size(body))


def _pdf(body: Body, within_s: float) -> WebText:
    if body.truncated:
        raise ToolError(f"{body.url} is a PDF of more than {len(body.data):,} bytes, which is too large to be read.")
    try:
        found = read_pdf(body.data, within_s)
    except Unreadable as error:
        raise ToolError(f"{body.url} is a PDF that {error}. Try another source.") from None
    return WebText(found.title or _name_of(body.url), "\n\n".join(filter(None, found.pages)), found.cut)


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
