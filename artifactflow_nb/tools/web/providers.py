"""Search engines of the web behind the `SearchProvider` protocol: SearXNG, Tavily and ddgs.

A base URL is a setting of the person, so its host may be in a local network. Results are untrusted: hits without a web
address are dropped, and texts are reduced to one line. Keys are never displayed, even if an engine repeats them.
"""

import importlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from artifactflow_nb.core.redaction.names import MASK
from artifactflow_nb.core.text.format import clip_words
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.sources.citations import SearchHit
from artifactflow_nb.tools.threads import run_with_timeout
from artifactflow_nb.tools.web.guard import RequestGuard
from artifactflow_nb.tools.web.http import HttpClient, HttpLimits, HttpRequest, HttpResponse
from artifactflow_nb.tools.web.services import OK, QUOTE_COLUMNS, SEARCH_LIMITS, SNIPPET_COLUMNS, TITLE_COLUMNS, refusal

TAVILY_URL = "https://api.tavily.com"
"""Base URL of Tavily."""

INSTALL_DDGS = "pip install 'artifactflow-nb[ddgs]'"
"""Command that installs the ddgs library."""

_DDGS_S = 25.0


class SearxngSearch:
    """Search with the JSON interface of a SearXNG server.

    Args:
        base_url: The server's address, e.g. `http://localhost:8888`.
        limits: Limits of one search.
        proxy: The address of the proxy for a public server; None for no proxy.

    Errors: `UsageError` for an invalid address.
    """

    def __init__(self, base_url: str, *, limits: HttpLimits = SEARCH_LIMITS, proxy: str | None = None) -> None:
        self._base_url, host = _split_base_url(base_url)
        self._client = HttpClient(RequestGuard((host,), proxy=proxy), limits)

    def __repr__(self) -> str:
        return f"SearxngSearch({self._base_url!r})"

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """Return the best hits of all engines that the server uses."""
        url = f"{self._base_url}/search?{urlencode({'q': query, 'format': 'json'})}"
        response = await self._client.send(HttpRequest(url, headers={"Accept": "application/json"}))
        if response.status != OK:
            raise ToolError(
                _SEARXNG_ERRORS.get(response.status, _SEARXNG_FAILED).format(self._base_url, response.reason)
            )
        payload = _json(response, f"{self._base_url} did not answer with JSON. Is it the address of a SearXNG server?")
        hits = _hits(payload, ("url", "title", "content"), limit)
        engines = payload.get("unresponsive_engines") or []  # each engine with its reason
        if not hits and engines:
            labels = [" ".join(map(str, pair)) if isinstance(pair, list) else str(pair) for pair in engines]
            silent = clip_words("; ".join(labels), QUOTE_COLUMNS)
            raise ToolError(f"The search found nothing, and these engines did not answer: {silent}. Try again later.")
        return hits


_SEARXNG_FAILED = "The search server {} answered with status {}. Try again later."
_SEARXNG_ERRORS = {
    403: "The search server {} refuses JSON (status {}). The person must add json to search.formats in its "
    "settings.yml.",
    404: "The search server {} has no /search (status {}). The person must check its address in the settings.",
    429: "The search server {} is asked too often (status {}). Try again later with fewer searches.",
}


class TavilySearch:
    """Search with Tavily.

    Errors: `UsageError` for an invalid key or address.
    """

    def __init__(self, api_key: str, *, base_url: str = TAVILY_URL, proxy: str | None = None) -> None:
        if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
            raise UsageError("The Tavily key is empty or contains characters that a key cannot contain. Copy it again.")
        self._key = api_key
        self._base_url, host = _split_base_url(base_url)
        self._client = HttpClient(RequestGuard((host,), proxy=proxy), SEARCH_LIMITS)

    def __repr__(self) -> str:
        return f"TavilySearch({MASK!r}, base_url={self._base_url!r})"

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """Return the best hits."""
        body = json.dumps({"query": query, "max_results": limit}).encode()
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        response = await self._client.send(HttpRequest(f"{self._base_url}/search", "POST", headers, body))
        if response.status != OK:
            advice = _TAVILY_ADVICE.get(response.status, "Try again later.")
            raise ToolError(refusal("Tavily", response, self._key, advice))
        payload = _json(response, f"{self._base_url} did not answer with JSON. Is it the address of Tavily?")
        return _hits(payload, ("url", "title", "content"), limit)


_TAVILY_ADVICE = {
    400: "Write the query in other words.",
    401: "The person must check the Tavily key in the settings.",
    403: "The person must check what the Tavily key is allowed to do.",
    429: "It is asked too often; try again later with fewer searches.",
    432: "The searches of the person's plan are used up.",
    433: "The spending limit of the person's plan is reached.",
}


class TextSearch(Protocol):
    """The method of `ddgs.DDGS` that is used; its results have `title`, `href` and `body`."""

    def text(self, query: str, *, max_results: int) -> Iterable[Mapping[str, Any]]:
        """Return the results; blocking."""


class DdgsSearch:
    """Search with the `ddgs` library (an extra), which queries several public engines.

    Args:
        client: A `ddgs.DDGS` or a substitute; None for a new `ddgs.DDGS`.
        timeout_s: Seconds for one search.
        proxy: The address of the proxy; None for no proxy.
    """

    def __init__(
        self, client: TextSearch | None = None, *, timeout_s: float = _DDGS_S, proxy: str | None = None
    ) -> None:
        self._proxy = proxy
        self._client = client
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return "DdgsSearch()"

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """Return the best hits."""
        try:
            client: TextSearch = self._client or importlib.import_module("ddgs").DDGS(proxy=self._proxy)
        except ImportError:
            raise ToolError(f"Searching with ddgs needs a library that is not installed: {INSTALL_DDGS}") from None
        try:
            results = await run_with_timeout(
                self._timeout_s, lambda: list(client.text(query, max_results=limit)), "ddgs"
            )
        except TimeoutError:
            raise ToolError(f"The search took longer than {self._timeout_s:g} s. Try again later.") from None
        except Exception as error:  # noqa: BLE001 - the library passes on any error of its engines and its parser
            if str(error).startswith("No results"):
                return []
            kind, message = type(error).__name__, clip_words(str(error), QUOTE_COLUMNS)
            is_limited = "Ratelimit" in kind
            advice = "Wait a while before the next search." if is_limited else "Try other words or try again later."
            raise ToolError(f"The search failed: {kind}: {message}. {advice}") from None
        return _hits({"results": results}, ("href", "title", "body"), limit)


def _split_base_url(url: str) -> tuple[str, str]:
    """Return the address without final slash, and its host with port."""
    address = urlsplit(url.strip())
    if address.scheme not in {"http", "https"} or not address.hostname or "@" in address.netloc or address.query:
        base = f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"
        raise UsageError(
            f"The search server's address {base!r} cannot be used: it must look like http://localhost:8888, "
            "without user name, password and query."
        )
    return url.strip().rstrip("/"), address.netloc


def _json(response: HttpResponse, message: str) -> Mapping[str, Any]:
    try:
        payload = json.loads(response.body)
    except ValueError:
        payload = None
    if not isinstance(payload, Mapping):
        raise ToolError(message)
    return payload


def _hits(payload: Mapping[str, Any], keys: tuple[str, str, str], limit: int) -> list[SearchHit]:
    """Return up to `limit` hits with different addresses; `keys` are the engine's names of address, title and text."""
    hits: dict[str, SearchHit] = {}
    results = payload.get("results")
    for result in results if isinstance(results, list) else []:
        address, title, text = (
            (str(result.get(key) or "") for key in keys) if isinstance(result, Mapping) else ("",) * 3
        )
        address = address.strip()
        if address.startswith(("http://", "https://")) and not any(map(str.isspace, address)):
            label = clip_words(title, TITLE_COLUMNS) or address
            hits.setdefault(address, SearchHit(label, address, clip_words(text, SNIPPET_COLUMNS)))
    return list(hits.values())[: max(limit, 0)]
