"""Search engines of the web behind the `SearchProvider` protocol: SearXNG, Tavily and ddgs.

A base URL is the person's own setting, so its host may be anywhere. What an engine answers is data: hits that are no
web addresses are left out, texts are put on one line. A key is never shown, also not where an engine repeats it.
"""

import importlib
import json
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.text.citations import SearchHit
from artifactflow_nb.text.width import clip_words
from artifactflow_nb.tools.deadline import within
from artifactflow_nb.tools.guard import Guard
from artifactflow_nb.tools.http_client import HttpAnswer, HttpClient, HttpLimits, HttpRequest

TAVILY = "https://api.tavily.com"
"""Where Tavily answers."""

INSTALL_DDGS = "pip install 'artifactflow-nb[ddgs]'"
"""What brings the ddgs library."""

_MASK = "***"
_SNIPPET_COLUMNS = 300
_TITLE_COLUMNS = 200
_QUOTED_COLUMNS = 200  # of an engine's own words in an error
_LIMITS = HttpLimits(wire_bytes=5_000_000, decoded_bytes=5_000_000)
_DDGS_S = 25.0


class SearxngSearch:
    """Searches with a SearXNG server, through its JSON answers.

    Args:
        base_url: The server's address, as `http://localhost:8888`.
        limits: What one search may cost.
        ssl_context: For https; None for the certificates that the system trusts.

    Errors: `UsageError` for an address that is none.
    """

    def __init__(
        self, base_url: str, *, limits: HttpLimits = _LIMITS, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self._base_url, host = _base(base_url)
        self._client = HttpClient(Guard((host,)), limits, ssl_context)

    def __repr__(self) -> str:
        return f"SearxngSearch({self._base_url!r})"

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """The best hits of all engines that the server asks."""
        url = f"{self._base_url}/search?{urlencode({'q': query, 'format': 'json'})}"
        answer = await self._client.send(HttpRequest(url, headers={"Accept": "application/json"}))
        if answer.status != 200:  # noqa: PLR2004 - the one code of success
            raise ToolError(_SEARXNG_SAYS.get(answer.status, _SEARXNG_FAILED).format(self._base_url, answer.reason))
        found = _json(answer, f"{self._base_url} did not answer with JSON. Is it the address of a SearXNG server?")
        hits = _hits(found, ("url", "title", "content"), limit)
        if not hits and (silent := _unresponsive(found)):
            raise ToolError(f"The search found nothing, and these engines did not answer: {silent}. Try again later.")
        return hits


_SEARXNG_FAILED = "The search server {} answered with status {}. Try again later."
_SEARXNG_SAYS = {
    403: "The search server {} refuses JSON (status {}). The person has to add json to search.formats in its "
    "settings.yml.",
    404: "The search server {} has no /search (status {}). The person has to check its address in the settings.",
    429: "The search server {} is asked too often (status {}). Try again later with fewer searches.",
}


class TavilySearch:
    """Searches with Tavily.

    Args:
        api_key: The key; never shown.
        base_url: Where it answers.
        limits: What one search may cost.
        ssl_context: For https; None for the certificates that the system trusts.

    Errors: `UsageError` for a key that cannot be sent, or an address that is none.
    """

    def __init__(
        self,
        api_key: str,
        *,
        base_url: str = TAVILY,
        limits: HttpLimits = _LIMITS,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
            raise UsageError("The Tavily key is empty or has characters that no key has. Copy it again.")
        self._key = api_key
        self._base_url, host = _base(base_url)
        self._client = HttpClient(Guard((host,)), limits, ssl_context)

    def __repr__(self) -> str:
        return f"TavilySearch({_MASK!r}, base_url={self._base_url!r})"

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """The best hits."""
        body = json.dumps({"query": query, "max_results": limit}).encode()
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        answer = await self._client.send(HttpRequest(f"{self._base_url}/search", "POST", headers, body))
        if answer.status != 200:  # noqa: PLR2004 - the one code of success
            advice = _TAVILY_ADVICE.get(answer.status, "Try again later.")
            raise ToolError(f"Tavily answered with status {answer.reason}{self._said(answer)}. {advice}")
        found = _json(answer, f"{self._base_url} did not answer with JSON. Is it the address of Tavily?")
        return _hits(found, ("url", "title", "content"), limit)

    def _said(self, answer: HttpAnswer) -> str:
        """The engine's own words, without the key, should it repeat it."""
        try:
            said = _innermost(json.loads(answer.body))
        except ValueError:
            return ""
        return f": {clip_words(said.replace(self._key, _MASK), _QUOTED_COLUMNS).rstrip('.')}" if said else ""


_TAVILY_ADVICE = {
    400: "Write the query in other words.",
    401: "The person has to check the Tavily key in the settings.",
    403: "The person has to check what the Tavily key is allowed to do.",
    429: "It is asked too often; try again later with fewer searches.",
    432: "The searches of the person's plan are used up.",
    433: "The spending limit of the person's plan is reached.",
}


class TextSearch(Protocol):
    """What is needed of a `ddgs.DDGS`: results with `title`, `href` and `body`."""

    def text(self, query: str, *, max_results: int) -> Iterable[Mapping[str, Any]]:
        """The results; blocking."""


class DdgsSearch:
    """Searches with the `ddgs` library, which asks several public engines; an extra.

    Args:
        client: Made by the library itself if left out.
        timeout_s: Seconds for one search.
    """

    def __init__(self, client: TextSearch | None = None, *, timeout_s: float = _DDGS_S) -> None:
        self._client = client
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return "DdgsSearch()"

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """The best hits."""
        client = self._client or _ddgs()
        try:
            found = await within(self._timeout_s, lambda: list(client.text(query, max_results=limit)), "ddgs")
        except TimeoutError:
            raise ToolError(f"The search took longer than {self._timeout_s:g} s. Try again later.") from None
        except Exception as error:  # noqa: BLE001 - the library hands on what its engines and its own parser raise
            return _nothing_or_raise(error)
        return _hits({"results": found}, ("href", "title", "body"), limit)


def _ddgs() -> TextSearch:
    try:
        client: TextSearch = importlib.import_module("ddgs").DDGS()
    except ImportError:
        raise ToolError(f"Searching with ddgs needs a library that is not installed: {INSTALL_DDGS}") from None
    return client


def _nothing_or_raise(error: Exception) -> list[SearchHit]:
    """The library raises for no results, too; that is an answer."""
    if str(error).startswith("No results"):
        return []
    kind, said = type(error).__name__, clip_words(str(error), _QUOTED_COLUMNS)
    advice = "Wait a while before the next search." if "Ratelimit" in kind else "Try other words or try again later."
    raise ToolError(f"The search failed: {kind}: {said}. {advice}") from None


def _base(url: str) -> tuple[str, str]:
    """The address without a final slash, and its host with its port."""
    parts = urlsplit(url.strip())
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc or parts.query:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise UsageError(
            f"The search server's address {shown!r} cannot be used: it has to be like http://localhost:8888, "
            "without user name, password and query."
        )
    return url.strip().rstrip("/"), parts.netloc


def _json(answer: HttpAnswer, otherwise: str) -> Mapping[str, Any]:
    try:
        found = json.loads(answer.body)
    except ValueError:
        found = None
    if not isinstance(found, Mapping):
        raise ToolError(otherwise)
    return found


def _hits(found: Mapping[str, Any], keys: tuple[str, str, str], limit: int) -> list[SearchHit]:
    """At most `limit` hits, each address once, from the results of an engine and the names that it uses."""
    hits: dict[str, SearchHit] = {}
    results = found.get("results")
    for result in results if isinstance(results, list) else []:
        address, title, text = (
            (str(result.get(key) or "") for key in keys) if isinstance(result, Mapping) else ("",) * 3
        )
        address = address.strip()
        if address.startswith(("http://", "https://")) and not any(map(str.isspace, address)):
            shown = clip_words(title, _TITLE_COLUMNS) or address
            hits.setdefault(address, SearchHit(shown, address, clip_words(text, _SNIPPET_COLUMNS)))
    return list(hits.values())[: max(limit, 0)]


def _unresponsive(found: Mapping[str, Any]) -> str:
    """The engines behind a SearXNG server that gave no answer, with their reasons."""
    pairs = found.get("unresponsive_engines")
    named = [" ".join(map(str, pair)) if isinstance(pair, list) else str(pair) for pair in pairs or []]
    return clip_words("; ".join(named), _QUOTED_COLUMNS)


def _innermost(said: Any) -> str:
    """The message in an error body, however deep it lies."""
    while isinstance(said, Mapping):
        said = next((said[key] for key in ("detail", "error", "message") if said.get(key)), "")
    return said if isinstance(said, str) else ""
