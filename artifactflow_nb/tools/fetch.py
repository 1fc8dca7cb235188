"""Addresses of the web as readable pages, many at once, each with its own outcome.

::

    address ──> guard ──> connection to a checked address ──> limited, unpacked body ──> text (in a thread) ──> Page
"""

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from artifactflow_nb.errors import ToolError
from artifactflow_nb.text.citations import Document
from artifactflow_nb.tools.deadline import within
from artifactflow_nb.tools.extract_web import Body, WebText, extract, readable
from artifactflow_nb.tools.guard import Guard, Resolver
from artifactflow_nb.tools.http_client import HttpAnswer, HttpClient, HttpLimits, HttpRequest

_ACCEPT = "text/html, application/xhtml+xml, text/markdown, text/plain, application/pdf, application/json, */*;q=0.1"
_ADVICE = {
    401: "It asks for a login; try another source.",
    403: "It does not let programs read it; try another source.",
    404: "Check the address or search again.",
    410: "The page is gone; search again.",
    429: "It is asked too often; try it later or another source.",
}
_READING = 0.8  # of the time for making text; the rest is for handing over what was read until then


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What fetching may cost.

    Attributes:
        http: Of one request.
        at_once: How many addresses are worked on at the same time.
        batch_s: Seconds for all addresses of one call; those that are not read by then fail, the others stay.
        extract_s: Seconds for making text of one body.
        text_chars: Characters of the text of one address.
    """

    http: HttpLimits = field(default_factory=HttpLimits)
    at_once: int = 5
    batch_s: float = 50.0
    extract_s: float = 15.0
    text_chars: int = 400_000


@dataclass(frozen=True, slots=True)
class Page:
    """The outcome for one address.

    Attributes:
        address: As it was asked for.
        url: Where it was found after redirects; empty if it was not.
        title: Its title; empty if it could not be fetched.
        text: Its text, with a last line that says so where it was cut.
        media_type: As the server named it.
        truncated: Whether there is more than the text has.
        error: Why there is no text; None if there is.
    """

    address: str
    url: str = ""
    title: str = ""
    text: str = ""
    media_type: str = ""
    truncated: bool = False
    error: str | None = None

    @property
    def document(self) -> Document:
        """The page as tools hand sources on, under the address that was asked for."""
        return Document(self.address, self.title, self.text, self.error)


class Fetcher:
    """Fetches public pages.

    Args:
        allowed_hosts: Hosts that may be fetched though they are not public: `host` or `host:port`.
        limits: What it may cost.
        resolver: Knows the addresses of names; None for the system's.
        ssl_context: For https; None for the certificates that the system trusts.

    Errors: `UsageError` for an allowed host that cannot be read.
    """

    def __init__(
        self,
        allowed_hosts: Iterable[str] = (),
        *,
        limits: FetchLimits | None = None,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._limits = limits or FetchLimits()
        self._client = HttpClient(Guard(allowed_hosts, resolver), self._limits.http, ssl_context)
        self._places = asyncio.Semaphore(self._limits.at_once)

    async def fetch_all(self, urls: Sequence[str]) -> list[Page]:
        """A page for each address, in order; never raises for one of them."""
        tasks = [asyncio.create_task(self.fetch(url)) for url in urls]
        if not tasks:
            return []
        try:
            await asyncio.wait(tasks, timeout=self._limits.batch_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [_outcome(url, task, self._limits.batch_s) for url, task in zip(urls, tasks, strict=True)]

    async def fetch(self, url: str) -> Page:
        """The page of one address; what goes wrong is its `error`."""
        try:
            async with self._places:
                answer = await self._client.send(HttpRequest(url, headers={"Accept": _ACCEPT}, accepts=readable))
                return self._page(url, answer, await self._text(answer))
        except ToolError as error:
            return Page(url, error=str(error))
        except Exception as error:  # noqa: BLE001 - whatever one page does to a library, the others are not lost
            return Page(url, error=f"It could not be read: {type(error).__name__}: {error}")

    async def _text(self, answer: HttpAnswer) -> WebText:
        if not 200 <= answer.status < 300:  # noqa: PLR2004 - the codes of success
            advice = _ADVICE.get(answer.status, "Try another source.")
            raise ToolError(f"{answer.url} answered with status {answer.reason}. {advice}")
        body = Body(answer.url, answer.media_type, answer.charset, answer.body, answer.truncated)
        limit = self._limits.extract_s
        try:
            return await within(limit, lambda: extract(body, limit * _READING), "extract")
        except TimeoutError:
            raise ToolError(f"{answer.url} was fetched, but its text was not found within {limit:g} s.") from None

    def _page(self, address: str, answer: HttpAnswer, found: WebText) -> Page:
        text, cut = found.text, found.cut
        if len(text) > self._limits.text_chars:
            cut = f"only the first {self._limits.text_chars:,} of {len(text):,} characters are given"
            text = text[: self._limits.text_chars]
        if cut:
            text = f"{text.rstrip()}\n\n[Cut here: {cut}.]"
        return Page(address, answer.url, found.title, text, answer.media_type, bool(cut))


def _outcome(url: str, task: "asyncio.Task[Page]", batch_s: float) -> Page:
    if task.cancelled():
        return Page(url, error=f"It was not read within the {batch_s:g} s for all addresses. Ask for fewer at once.")
    return task.result()
