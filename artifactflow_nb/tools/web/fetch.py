"""Concurrent fetching and extraction of web pages, each with its own result or error.

::

    address ──> guard ──> connection to a checked address ──> limited body ──> text (in a thread) ──> FetchedPage
"""

import asyncio
import re
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from artifactflow_nb.errors import ToolError
from artifactflow_nb.sources.citations import SourceDocument
from artifactflow_nb.sources.formats.charset import decode_text
from artifactflow_nb.sources.formats.html import read_page
from artifactflow_nb.sources.formats.pdf import read_pdf
from artifactflow_nb.sources.formats.sections import LibraryMissing, UnreadableFile
from artifactflow_nb.sources.formats.word import read_word
from artifactflow_nb.tools.threads import run_with_timeout
from artifactflow_nb.tools.web.guard import RequestGuard, Resolver
from artifactflow_nb.tools.web.http import HttpClient, HttpLimits, HttpRequest, HttpResponse

_UNREADABLE = ("image/", "audio/", "video/", "font/", "application/zip", "application/gzip")
_PAGES = frozenset({"text/html", "application/xhtml+xml"})
_PDF, _ARCHIVE = b"%PDF-", b"PK\x03\x04"
_HEAD_BYTES = 1024
_PAGE_HEAD = re.compile(rb"(?i)\s*(?:<!--.*?-->\s*|<\?xml[^>]*>\s*)*<(?:!doctype html|html|head|body)\b", re.DOTALL)
_TAG = re.compile(rb"<[a-zA-Z!/]")


@dataclass(frozen=True, slots=True)
class WebText:
    """Text of a page or document.

    Attributes:
        truncation: Description of what is missing, or an empty string for a complete text.
    """

    title: str
    text: str
    truncation: str = ""


def is_readable(media_type: str) -> bool:
    """Return whether the type may be text; servers declare many types for PDF, CSV and pages."""
    return not media_type.startswith(_UNREADABLE)


def extract_text(response: HttpResponse, timeout_s: float) -> WebText:
    """Extract the text of a body by its content, whatever its type. This blocks: run it in a thread.

    A PDF is read page by page for at most `timeout_s` seconds; `truncation` reports the omitted pages.

    Errors: `ToolError` if the body is unreadable, has no text, or needs a library that is not installed.
    """
    url, data = response.url, response.body
    title, truncation = "", f"only the first {len(data):,} bytes were read" if response.truncated else ""
    kind = ""
    try:
        if _PDF in data[:_HEAD_BYTES]:
            kind = "a PDF that"
            if response.truncated:  # the cross-reference table is at the end of the file
                raise UnreadableFile(f"is too large to be read: more than {len(data):,} bytes")
            pdf = read_pdf(data, timeout_s)
            title, text, truncation = pdf.title, "\n\n".join(filter(None, pdf.pages)), pdf.omitted
        elif data.startswith(_ARCHIVE):
            kind = "an archive that"
            word = read_word(data)
            title, text, truncation = word.title, word.text, word.omitted
        else:
            kind = f"of the type {response.media_type!r}, which"
            text = decode_text(data, response.charset)
            if _PAGE_HEAD.match(data) or (response.media_type in _PAGES and _TAG.search(data)):
                page = read_page(text, url)
                title, text = page.title, page.text
    except LibraryMissing as error:
        raise ToolError(str(error)) from None
    except UnreadableFile as error:
        raise ToolError(f"{url} is {kind} {error}. Try another source.") from None
    if not text.strip():
        raise ToolError(f"{url} has no readable text. Try another source.")
    address = urlsplit(url)
    return WebText(title or unquote(PurePosixPath(address.path).name) or address.netloc, text, truncation)


_ACCEPT = "text/html, application/xhtml+xml, text/markdown, text/plain, application/pdf, application/json, */*;q=0.1"
_ADVICE = {
    401: "It asks for a login; try another source.",
    403: "It does not let programs read it; try another source.",
    404: "Check the address or search again.",
    410: "The page is gone; search again.",
    429: "It is asked too often; try it later or another source.",
}
_EXTRACT_SHARE = 0.8  # share of the time limit: the reader stops early enough to return the pages that it has


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of fetching.

    Attributes:
        max_concurrent: Maximum number of simultaneous fetches.
        batch_timeout_s: Seconds for all addresses of one call. Unfinished addresses fail; the others are returned.
        max_text_chars: Maximum characters of the text of one page.
    """

    http: HttpLimits = field(default_factory=HttpLimits)
    max_concurrent: int = 5
    batch_timeout_s: float = 50.0
    extract_timeout_s: float = 15.0
    max_text_chars: int = 400_000


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """The page at one address, or the error of fetching it.

    Attributes:
        url: The address after redirects; empty after an error.
        title: Title; empty after an error.
        text: The text; the last line of a text that was cut reports the cut.
        truncated: Whether the text is incomplete.
        error: Message of the failure; None after success.
    """

    address: str
    url: str = ""
    title: str = ""
    text: str = ""
    media_type: str = ""
    truncated: bool = False
    error: str | None = None

    @property
    def document(self) -> SourceDocument:
        """The page as a source document under the requested address."""
        return SourceDocument(self.address, self.title, self.text, self.error)


class Fetcher:
    """Fetcher of public web pages.

    Args:
        allowed_hosts: Hosts that need not be public: `host` or `host:port`.
        limits: Limits of time, size and concurrency.
        resolver: Resolver of host names; None for the system's resolver.
        ssl_context: TLS settings; None for the certificates that the system trusts.
        proxy: The address of the proxy for public hosts; None for no proxy.

    Errors: `UsageError` for an invalid entry in `allowed_hosts`.
    """

    def __init__(
        self,
        allowed_hosts: Iterable[str] = (),
        *,
        limits: FetchLimits | None = None,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        proxy: str | None = None,
    ) -> None:
        self._limits = limits or FetchLimits()
        self._guard = RequestGuard(allowed_hosts, resolver, proxy)
        self._client = HttpClient(self._guard, self._limits.http, ssl_context)
        self._slots = asyncio.Semaphore(self._limits.max_concurrent)

    def refusal(self, url: str) -> str | None:
        """Return why the guard rejects an address without resolving its host, or None."""
        try:
            self._guard.check_text(url)
        except ToolError as error:
            return str(error)
        return None

    async def fetch_all(self, urls: Sequence[str]) -> list[FetchedPage]:
        """Fetch all addresses and return their pages in order; a failure becomes the page's `error`."""
        tasks = [asyncio.create_task(self.fetch(url)) for url in urls]
        if not tasks:
            return []
        try:
            await asyncio.wait(tasks, timeout=self._limits.batch_timeout_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        late = (
            f"It was not read within the {self._limits.batch_timeout_s:g} s for all addresses. Ask for fewer at once."
        )
        return [
            FetchedPage(url, error=late) if task.cancelled() else task.result()
            for url, task in zip(urls, tasks, strict=True)
        ]

    async def fetch(self, url: str) -> FetchedPage:
        """Fetch one page; a failure becomes the `error` of the page."""
        try:
            async with self._slots:
                response = await self._client.send(HttpRequest(url, headers={"Accept": _ACCEPT}, accepts=is_readable))
                return await self._page(url, response)
        except ToolError as error:
            return FetchedPage(url, error=str(error))
        except Exception as error:  # noqa: BLE001 - a page that breaks a library must not affect the others
            return FetchedPage(url, error=f"It could not be read: {type(error).__name__}: {error}")

    async def _page(self, address: str, response: HttpResponse) -> FetchedPage:
        """Extract the text of a response, up to the limits."""
        if not 200 <= response.status < 300:  # noqa: PLR2004 - the codes of success
            advice = _ADVICE.get(response.status, "Try another source.")
            raise ToolError(f"{response.url} answered with status {response.reason}. {advice}")
        limit_s, max_chars = self._limits.extract_timeout_s, self._limits.max_text_chars
        try:
            document = await run_with_timeout(
                limit_s, lambda: extract_text(response, limit_s * _EXTRACT_SHARE), "extract"
            )
        except TimeoutError:
            raise ToolError(
                f"{response.url} was fetched, but its text was not extracted within {limit_s:g} s. Try another source."
            ) from None
        text, truncation = document.text, document.truncation
        if len(text) > max_chars:
            truncation = f"only the first {max_chars:,} of {len(text):,} characters are given"
            text = text[:max_chars]
        if truncation:
            text = f"{text.rstrip()}\n\n[Cut here: {truncation}.]"
        return FetchedPage(address, response.url, document.title, text, response.media_type, bool(truncation))
