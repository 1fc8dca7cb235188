"""The tools `web_search` and `web_fetch`, for local sources and, through the guarded fetcher, for web pages."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Annotated, Protocol, runtime_checkable

from pydantic import BaseModel

from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.errors import NotFound, ToolError, UsageError
from artifactflow_nb.sources.citations import SearchHit, SourceDocument, write_counts, write_documents, write_hits
from artifactflow_nb.sources.excerpt import excerpt
from artifactflow_nb.sources.manager import SCHEME, SourceManager
from artifactflow_nb.sources.retrieval.scoring import WordCounts
from artifactflow_nb.sources.retrieval.terms import parse_query
from artifactflow_nb.tools.base import ToolContext, ToolPermission, tool
from artifactflow_nb.tools.web.fetch import Fetcher
from artifactflow_nb.tools.web.guard import authority
from artifactflow_nb.tools.web.scoring import LocalSearch, PassageScorer, ScoredSearch

_MAX_RESULTS = 20
_SOURCE_CHARS = 16_000  # limit of one source; the model gets excerpts of a longer source
_ALL_CHARS = 96_000  # limit of all sources of one call
_MIN_CHARS = 2_000
_MAX_CHARS = 120_000  # limit of a whole result, including addresses and errors
_MAX_URLS = 20


class SearchProvider(Protocol):
    """A search engine for sources."""

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """Return up to `limit` hits, the best first."""


@runtime_checkable
class WordCounter(Protocol):
    """A search provider that also counts the words of a query in its sources."""

    async def word_counts(self, query: str) -> WordCounts:
        """Count the passages in which each word occurs."""


@dataclass(frozen=True, slots=True)
class CombinedSearch:
    """Search with several engines in parallel."""

    engines: Mapping[str, SearchProvider]

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """Return the best hits of all engines in alternation; `ToolError` if every engine fails."""
        hits, _ = await self.search_all(query, limit)
        return hits

    async def search_all(self, query: str, limit: int) -> tuple[list[SearchHit], list[str]]:
        """Return the hits of `search`, and a sentence for each failed engine; `ToolError` if every engine fails."""
        results = await asyncio.gather(
            *(engine.search(query, limit) for engine in self.engines.values()), return_exceptions=True
        )
        failures = [f"{name}: {error}" for name, error in zip(self.engines, results, strict=True) if _failed(error)]
        if len(failures) == len(results):
            raise ToolError("\n".join(failures))
        ranked = zip_longest(*(result for result in results if isinstance(result, list)))
        hits = {hit.address: hit for rank in reversed(list(ranked)) for hit in reversed(rank) if hit is not None}
        return list(hits.values())[::-1][: max(limit, 0)], failures


def _with_scores(provider: SearchProvider, scorer: PassageScorer) -> SearchProvider:
    """Add the second stage to the engines for local sources, and return all engines."""
    if isinstance(provider, CombinedSearch):
        return CombinedSearch({name: _with_scores(engine, scorer) for name, engine in provider.engines.items()})
    return ScoredSearch(provider, scorer) if isinstance(provider, LocalSearch) else provider


def _failed(result: list[SearchHit] | BaseException) -> bool:
    """Return whether a result is an error to which the model can react; raise any other error."""
    if isinstance(result, BaseException) and not isinstance(result, ToolError):
        raise result
    return isinstance(result, ToolError)


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The subject of `web_search` in a run.

    Attributes:
        description: The sources and engines, as a noun phrase for prompts and messages.
        action: The action that an approval request names.
        withheld: The addresses of sources, without sections, that the run must not see.
    """

    description: str
    action: str = ""
    withheld: frozenset[str] = frozenset()

    def hides(self, address: str) -> bool:
        """Return whether the address is in a source that the run must not see."""
        return address.partition("#")[0] in self.withheld


_UNKNOWN_SCOPE = SearchScope("the sources")


@tool(category="core", idempotent=True, timeout_s=300.0)  # a model may score the hits
async def web_search(
    ctx: ToolContext,
    query: Annotated[str, "What to look for: a question or a few specific words."],
    max_results: Annotated[int, "How many results at most, 1 to 20."] = 5,
) -> ToolResult:
    """Search for sources. Gives the title, address and a snippet of each; fetch an address to read the whole text."""
    if not query.strip():
        raise ToolError("The query is empty. Pass the words to look for.")
    provider: SearchProvider = ctx.service(SearchProvider)  # type: ignore[type-abstract]  # the key of a service
    if (scorer := ctx.services.get(PassageScorer)) is not None:
        provider = _with_scores(provider, scorer)
    scope = ctx.services.get(SearchScope, _UNKNOWN_SCOPE)
    limit, failures = _MAX_RESULTS if scope.withheld else min(max(max_results, 1), _MAX_RESULTS), list[str]()
    if isinstance(provider, CombinedSearch):
        hits, failures = await provider.search_all(query, limit)
    else:
        hits = await provider.search(query, limit)
    hits = [hit for hit in hits if not scope.hides(hit.address)][: max(max_results, 1)]
    nothing = f"Nothing was found for {query!r} in {scope.description}. Try other words."
    paragraphs = [write_hits(hits) if hits else nothing]
    paragraphs += [f"No answer from {failure}" for failure in failures]
    if isinstance(provider, WordCounter):
        paragraphs.append(write_counts(parse_query(query).spellings, await provider.word_counts(query)))
    results = [{"title": hit.title, "address": hit.address} for hit in hits]
    return ToolResult(success=True, data="\n\n".join(paragraphs), metadata={"query": query, "results": results})


web_search = replace(web_search, request_action=lambda ctx: ctx.services.get(SearchScope, _UNKNOWN_SCOPE).action)


async def _auto_for_local(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """Allow calls that only read the person's own sources; require an approval for the network.

    Errors: `ToolError` for an address that is rejected even with an approval.
    """
    remote = _remote(ctx, args.urls)  # type: ignore[attr-defined]  # this tool's model
    return ToolPermission.CONFIRM if remote else ToolPermission.AUTO


def _not_local(urls: Sequence[str]) -> list[str]:
    return [url for url in dict.fromkeys(map(str.strip, urls)) if url and not url.startswith(SCHEME)]


def _hosts(args: BaseModel) -> tuple[str, ...]:
    """Return the hosts of a call of `web_fetch`, sorted; `ToolError` for an address that cannot be fetched."""
    return tuple(sorted({authority(url) for url in _not_local(args.urls)}))  # type: ignore[attr-defined]  # as above


def _remote(ctx: ToolContext, urls: Sequence[str]) -> list[str]:
    """Return the addresses that are not local; `ToolError` if any is rejected, since a call is approved as a whole."""
    remote = _not_local(urls)
    if not remote:
        return []
    reasons = {url: ctx.service(Fetcher).refusal(url) for url in remote}
    if refused := [f"{url}: {reason}" for url, reason in reasons.items() if reason]:
        advice = ["Nothing was read. Call it again without these addresses."] if len(refused) < len(urls) else []
        raise ToolError("\n".join([*refused, *advice]))
    return remote


@tool(permission=_auto_for_local, category="core", idempotent=True, max_result_chars=_MAX_CHARS)
async def web_fetch(
    ctx: ToolContext,
    urls: Annotated[list[str], "The addresses to read, as a search gave them."],
    focus: Annotated[str, "What you want to know; of a long source the parts nearest to it are given."] = "",
) -> ToolResult:
    """Read sources, local ones and pages of the web: each comes with its title and its text."""
    addresses = list(dict.fromkeys(url.strip() for url in urls if url.strip()))
    if not addresses:
        raise ToolError("The call has no address. Pass addresses that web_search has returned.")
    if len(addresses) > _MAX_URLS:
        raise ToolError(f"{len(addresses)} addresses are too many for one call. Pass at most {_MAX_URLS}.")
    scope = ctx.services.get(SearchScope, _UNKNOWN_SCOPE)
    hidden = {address for address in addresses if scope.hides(address)}
    remote = _remote(ctx, [address for address in addresses if address not in hidden])
    read = {address: SourceDocument(address, error="It cannot be read. Try another source.") for address in hidden}
    for address in (address for address in addresses if address.startswith(SCHEME) and address not in hidden):
        try:
            section = await ctx.service(SourceManager).read(address)
            read[address] = SourceDocument(section.address, section.title, section.text)
        except (NotFound, UsageError) as error:
            read[address] = SourceDocument(address, error=str(error))
    pages = await ctx.service(Fetcher).fetch_all(remote) if remote else []
    read |= {page.address: page.document for page in pages}
    redirected = {page.address: {"url": page.url} for page in pages if page.url != page.address}
    max_chars = min(max(_ALL_CHARS // len(addresses), _MIN_CHARS), _SOURCE_CHARS)
    documents, results, failed = [], [], []
    for document in (read[address] for address in addresses):
        if document.error is None:
            text = await asyncio.to_thread(excerpt, document.text, focus, max_chars)
            documents.append(replace(document, text=text))
            found = {"title": document.title, "address": document.address}
            results.append(found | redirected.get(document.address, {}))
        else:
            documents.append(document)
            failed.append({"address": document.address, "error": document.error})
    if not results:
        raise ToolError("\n".join(f"{document.address}: {document.error}" for document in documents))
    return ToolResult(success=True, data=write_documents(documents), metadata={"results": results, "failed": failed})


web_fetch = replace(web_fetch, hosts=_hosts)
