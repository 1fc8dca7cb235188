"""Search services with a documented HTTP interface: Brave, OpenAlex, Crossref, arXiv and PubMed.

A `SearchService` describes a service: its addresses, its requests, and how to read its answers. `ServiceSearch`
sends the requests, keeps the requested pause between requests, and converts failures to advice. Formats and limits
follow the services' documentation of autumn 2026.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from html import unescape
from urllib.parse import quote, urlencode, urlsplit

from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from artifactflow_nb.core.redaction.names import MASK
from artifactflow_nb.core.text.format import clip_words
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.sources.citations import SearchHit
from artifactflow_nb.tools.web.guard import RequestGuard
from artifactflow_nb.tools.web.http import HttpClient, HttpLimits, HttpRequest, HttpResponse

SEARCH_LIMITS = HttpLimits(max_wire_bytes=5_000_000, max_decoded_bytes=5_000_000)
OK = 200
_MOST_AUTHORS = 3
SNIPPET_COLUMNS, TITLE_COLUMNS = 300, 200
QUOTE_COLUMNS = 200  # limit of an engine's own message in an error
_TAG = re.compile(r"<[^<>]*>")
_ATOM = "{http://www.w3.org/2005/Atom}"


@dataclass(frozen=True, slots=True)
class ServiceAccess:
    """How a person may use a service.

    Attributes:
        key: The person's key, or an empty string. Never displayed.
        contact: The person's e-mail address, which Crossref, OpenAlex and PubMed ask for, or an empty string.
        proxy: The address of the person's proxy; None for no proxy. Never displayed.
    """

    key: str = field(default="", repr=False)
    contact: str = ""
    proxy: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SearchService:
    """A search service.

    Attributes:
        request: Returns the path with the query, and the headers, of a search.
        read: Returns the hits in a response; may raise any error for a response of another format.
        follow: Returns the path of a second request from the answer to the first; None if one request suffices.
        needs_key: Whether the service rejects requests without a key.
        pause_s: Seconds between two requests.
        credit_header: The header with the remaining credit of the day, in US dollars.
    """

    name: str
    label: str
    base_url: str
    request: Callable[[str, int, ServiceAccess], tuple[str, Mapping[str, str]]]
    read: Callable[[bytes], Sequence[SearchHit]]
    follow: Callable[[bytes, ServiceAccess], str] | None = None
    needs_key: bool = False
    pause_s: float = 0.0
    credit_header: str = ""


class ServiceSearch:
    """Search with a service.

    Args:
        service: The service.
        access: The person's key and e-mail address.
        base_url: Another address of the service, such as a mirror; empty for the service's own.
        limits: Limits of one request.

    Errors: `UsageError` if the service needs a key and `access` has no key.
    """

    def __init__(
        self,
        service: SearchService,
        access: ServiceAccess | None = None,
        *,
        base_url: str = "",
        limits: HttpLimits = SEARCH_LIMITS,
    ) -> None:
        self._service = service
        self._access = access or ServiceAccess()
        if service.needs_key and not self._access.key:
            raise UsageError(f"{service.label} needs a key. Pass ServiceAccess(key=...).")
        self._base_url = (base_url or service.base_url).rstrip("/")
        self._client = HttpClient(RequestGuard((urlsplit(self._base_url).netloc,), proxy=self._access.proxy), limits)
        self._next_at = 0.0
        self._turn: asyncio.Lock | None = None

    def __repr__(self) -> str:
        return f"ServiceSearch({self._service.name!r})"

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """Return the best hits with different addresses; `ToolError` explains a failure."""
        path, headers = self._service.request(query, limit, self._access)
        body = await self._get(path, headers)
        try:
            if self._service.follow is not None:
                if not (path := self._service.follow(body, self._access)):
                    return []
                body = await self._get(path, headers)
            hits = self._service.read(body)
        except (ValueError, KeyError, TypeError, AttributeError, SyntaxError, DefusedXmlException):
            # SyntaxError is the base class of XML's ParseError.
            raise ToolError(f"{self._service.label} sent an answer that cannot be read. Try again later.") from None
        return list({hit.address: hit for hit in reversed(hits) if hit.address}.values())[::-1][: max(limit, 0)]

    async def _get(self, path: str, headers: Mapping[str, str]) -> bytes:
        self._turn = self._turn or asyncio.Lock()
        async with self._turn:
            clock = asyncio.get_running_loop().time
            await asyncio.sleep(self._next_at - clock())
            try:
                response = await self._client.send(HttpRequest(f"{self._base_url}{path}", headers=headers))
            finally:
                self._next_at = clock() + self._service.pause_s
        if response.status == OK:
            return response.body
        advice = _ADVICE.get(response.status, _LATER)
        with suppress(KeyError, ValueError):
            if float(response.headers[self._service.credit_header]) <= 0:
                advice = "The credit of the day is spent: search elsewhere until tomorrow."
        raise ToolError(refusal(self._service.label, response, self._access.key, advice))


def refusal(label: str, response: HttpResponse, key: str, advice: str) -> str:
    """Write the error message for a response whose status is not 200; quote the engine's message without the key."""
    try:
        message = json.loads(response.body)
    except ValueError:
        message = None
    while isinstance(message, Mapping):  # the message may be at any depth
        message = next((message[name] for name in ("error", "message", "detail") if message.get(name)), None)
    reason = ""
    if isinstance(message, str):
        reason = f": {clip_words(message.replace(key, MASK) if key else message, QUOTE_COLUMNS).rstrip('.')}"
    return f"{label} answered with status {response.reason}{reason}. {advice}"


_WITHDRAWALS = frozenset({"retraction", "removal", "withdrawal"})
_LATER = "Try again later."
_ADVICE = {
    400: "Write the query in other words.",
    401: "The person must check the key in the settings.",
    402: "The credit of the person's key is spent.",
    403: "The person must check what the key is allowed to do.",
    422: "The person must check the key in the settings.",
    429: "It is asked too often, or the credit of the day is spent. Search elsewhere, or later.",
}


# --- works ---------------------------------------------------------------------------------------------------------


def _work(
    title: str, address: str, authors: Sequence[str], year: object, venue: str, text: str, *, is_withdrawn: bool = False
) -> SearchHit:
    """Create the hit for a scientific work: authors, year and venue precede the abstract."""
    names = ", ".join(authors[:_MOST_AUTHORS]) + (" et al." if len(authors) > _MOST_AUTHORS else "")
    origin = "; ".join(filter(None, [names, str(year or ""), venue]))
    snippet = clip_words(". ".join(filter(None, [origin, _plain(text)])), SNIPPET_COLUMNS)
    label = ("RETRACTED: " if is_withdrawn else "") + (clip_words(_plain(title), TITLE_COLUMNS) or address)
    return SearchHit(label, address if address.startswith(("https://", "http://")) else "", snippet)


def _plain(text: str) -> str:
    """Convert a text to one line without markup."""
    return " ".join(unescape(_TAG.sub(" ", text)).split())


def _query(path: str, **values: object) -> str:
    return f"{path}?{urlencode({name: value for name, value in values.items() if value})}"


# --- Brave ---------------------------------------------------------------------------------------------------------


def _brave_request(query: str, limit: int, access: ServiceAccess) -> tuple[str, Mapping[str, str]]:
    headers = {"Accept": "application/json", "X-Subscription-Token": access.key}
    return _query("/res/v1/web/search", q=query, count=min(limit, 20)), headers


def _read_brave(body: bytes) -> list[SearchHit]:
    results = (json.loads(body).get("web") or {}).get("results") or []
    return [
        _work(entry.get("title") or "", entry["url"], (), entry.get("page_age", "")[:10], "", entry["description"])
        for entry in results
    ]


BRAVE = SearchService(
    "brave", "Brave Search", "https://api.search.brave.com", _brave_request, _read_brave, needs_key=True, pause_s=1.0
)

# --- OpenAlex ------------------------------------------------------------------------------------------------------


def _openalex_request(query: str, limit: int, access: ServiceAccess) -> tuple[str, Mapping[str, str]]:
    path = _query("/works", search=query, **{"per-page": min(limit, 200)}, api_key=access.key, mailto=access.contact)
    return path, {"Accept": "application/json"}


def _read_openalex(body: bytes) -> list[SearchHit]:
    hits = []
    for work in json.loads(body)["results"]:
        words = {n: word for word, positions in (work.get("abstract_inverted_index") or {}).items() for n in positions}
        location = work.get("primary_location") or {}
        hits.append(
            _work(
                work.get("display_name") or "",
                (work.get("open_access") or {}).get("oa_url") or work.get("doi") or work["id"],
                [entry["author"]["display_name"] for entry in work.get("authorships") or []],
                work.get("publication_year"),
                (location.get("source") or {}).get("display_name") or "",
                " ".join(words[n] for n in sorted(words)),
                is_withdrawn=bool(work.get("is_retracted")),
            )
        )
    return hits


OPENALEX = SearchService(
    "openalex",
    "OpenAlex",
    "https://api.openalex.org",
    _openalex_request,
    _read_openalex,
    needs_key=True,
    credit_header="x-ratelimit-remaining-usd",
)

# --- Crossref ------------------------------------------------------------------------------------------------------


def _crossref_request(query: str, limit: int, access: ServiceAccess) -> tuple[str, Mapping[str, str]]:
    return _query("/works", query=query, rows=min(limit, 100), mailto=access.contact), {"Accept": "application/json"}


def _read_crossref(body: bytes) -> list[SearchHit]:
    hits = []
    for work in json.loads(body)["message"]["items"]:
        dates = (work.get("issued") or {}).get("date-parts") or [[None]]
        names = [
            " ".join(filter(None, (author.get("given"), author.get("family")))) or author.get("name", "")
            for author in work.get("author") or []
        ]
        hits.append(
            _work(
                next(iter(work.get("title") or ()), ""),
                f"https://doi.org/{quote(work['DOI'], safe='/')}",
                names,
                next(iter(dates[0]), None),
                next(iter(work.get("container-title") or ()), ""),
                work.get("abstract") or "",
                is_withdrawn=any(entry.get("type") in _WITHDRAWALS for entry in work.get("updated-by") or ()),
            )
        )
    return hits


CROSSREF = SearchService("crossref", "Crossref", "https://api.crossref.org", _crossref_request, _read_crossref)

# --- arXiv ---------------------------------------------------------------------------------------------------------


def _arxiv_request(query: str, limit: int, _access: ServiceAccess) -> tuple[str, Mapping[str, str]]:
    words = " AND ".join(f"all:{word}" for word in re.findall(r"\w+", query))
    return _query("/api/query", search_query=words, max_results=min(limit, 100)), {"Accept": "application/atom+xml"}


def _read_arxiv(body: bytes) -> list[SearchHit]:
    hits = []
    for entry in ElementTree.fromstring(body).iter(f"{_ATOM}entry"):
        authors = [name.text or "" for name in entry.iterfind(f"{_ATOM}author/{_ATOM}name")]
        address = entry.findtext(f"{_ATOM}id", "").replace("http://", "https://", 1)
        if "/api/errors" in address:
            raise ValueError("the query was refused")
        year = entry.findtext(f"{_ATOM}published", "")[:4]
        title, text = entry.findtext(f"{_ATOM}title", ""), entry.findtext(f"{_ATOM}summary", "")
        hits.append(_work(title, address, authors, year, "arXiv", text))
    return hits


ARXIV = SearchService("arxiv", "arXiv", "https://export.arxiv.org", _arxiv_request, _read_arxiv, pause_s=3.0)

# --- PubMed --------------------------------------------------------------------------------------------------------


def _pubmed_path(path: str, access: ServiceAccess, **values: object) -> str:
    common = {
        "db": "pubmed",
        "retmode": "json",
        "api_key": access.key,
        "tool": "artifactflow-nb",
        "email": access.contact,
    }
    return _query(f"/entrez/eutils/{path}.fcgi", **common, **values)


def _pubmed_request(query: str, limit: int, access: ServiceAccess) -> tuple[str, Mapping[str, str]]:
    return _pubmed_path("esearch", access, term=query, retmax=min(limit, 100), sort="relevance"), {}


def _pubmed_summaries(body: bytes, access: ServiceAccess) -> str:
    ids = json.loads(body)["esearchresult"]["idlist"]
    return _pubmed_path("esummary", access, id=",".join(map(str, ids))) if ids else ""


def _read_pubmed(body: bytes) -> list[SearchHit]:
    result = json.loads(body)["result"]
    hits = []
    for name in result["uids"]:
        work = result[name]
        hits.append(
            _work(
                work.get("title") or "",
                f"https://pubmed.ncbi.nlm.nih.gov/{quote(str(name))}/",
                [author["name"] for author in work.get("authors") or []],
                str(work.get("pubdate") or "")[:4],
                work.get("source") or "",
                "",
                is_withdrawn="Retracted Publication" in (work.get("pubtype") or ()),
            )
        )
    return hits


PUBMED = SearchService(
    "pubmed",
    "PubMed",
    "https://eutils.ncbi.nlm.nih.gov",
    _pubmed_request,
    _read_pubmed,
    follow=_pubmed_summaries,
    pause_s=0.4,  # three requests a second without a key
)

SERVICES: Mapping[str, SearchService] = {
    service.name: service for service in (BRAVE, OPENALEX, CROSSREF, ARXIV, PUBMED)
}
"""All services by name."""
