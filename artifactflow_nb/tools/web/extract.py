"""Text of fetched documents: the main text of a web page as Markdown, the pages of a PDF."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from artifactflow_nb.errors import ToolError
from artifactflow_nb.sources.formats.charset import decode_body
from artifactflow_nb.sources.formats.errors import LibraryMissing, UnreadableFile
from artifactflow_nb.sources.formats.html import read_page
from artifactflow_nb.sources.formats.pdf import read_pdf
from artifactflow_nb.tools.web.http import HttpResponse

_PAGES = frozenset({"text/html", "application/xhtml+xml"})
_PDFS = frozenset({"application/pdf", "application/x-pdf"})
_TEXTS = frozenset({
    "text/plain", "text/markdown", "text/x-markdown", "application/json", "text/json", "text/xml", "application/xml",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class WebText:
    """Text of a page or document.

    Attributes:
        title: Title, or the file name in the address.
        text: The text, as Markdown for a web page.
        truncation: Description of the cut, if the text is incomplete; else empty.
    """

    title: str
    text: str
    truncation: str = ""


def is_readable(media_type: str) -> bool:
    """True if the media type can be read, or is empty and has to be detected from the bytes."""
    return not media_type or media_type in _PAGES | _PDFS or _is_text(media_type)


def _is_text(media_type: str) -> bool:
    is_structured = media_type.startswith("application/") and media_type.endswith(("+json", "+xml"))
    return media_type in _TEXTS or is_structured


def extract_text(response: HttpResponse, timeout_s: float) -> WebText:
    """Extract the text of a body. Blocking: run it in a thread.

    A PDF is read page by page for at most `timeout_s` seconds; `truncation` reports the pages left out.

    Errors: `ToolError` if the body is unreadable, has no text, or needs a library that is not installed.
    """
    url, data = response.url, response.body
    media_type = response.media_type
    if not media_type:
        head = data[:1024].lstrip().lower()
        if head.startswith(b"%pdf-"):
            media_type = "application/pdf"
        elif head.startswith((b"<!doctype html", b"<html")):
            media_type = "text/html"
        else:
            media_type = "application/octet-stream" if b"\0" in head else "text/plain"
    title, truncation = "", f"only the first {len(data):,} bytes were read" if response.truncated else ""
    try:
        if media_type in _PAGES:
            page = read_page(decode_body(data, response.charset), url)
            title, text = page.title, page.text
        elif media_type in _PDFS:
            if response.truncated:  # the cross-reference table is at the end of the file
                raise ToolError(f"{url} is a PDF of more than {len(data):,} bytes, which is too large to be read.")
            pdf = read_pdf(data, timeout_s)
            title, text, truncation = pdf.title, "\n\n".join(filter(None, pdf.pages)), pdf.truncation
        elif _is_text(media_type):
            text = decode_body(data, response.charset).replace("\r\n", "\n")
        else:
            raise ToolError(f"{url} is of the type {response.media_type!r}, which cannot be read as text.")
    except LibraryMissing as error:
        raise ToolError(str(error)) from None
    except UnreadableFile as error:
        raise ToolError(f"{url} is a PDF that {error}. Try another source.") from None
    if not text.strip():
        raise ToolError(f"{url} has no readable text. Try another source.")
    parts = urlsplit(url)
    return WebText(title or unquote(PurePosixPath(parts.path).name) or parts.netloc, text, truncation)
