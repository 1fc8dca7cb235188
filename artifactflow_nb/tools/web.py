"""Searching and fetching: local sources by their addresses, and pages of the web through the guarded fetcher."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Protocol, runtime_checkable

from pydantic import BaseModel

from artifactflow_nb.errors import NotFound, ToolError
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.store.sources import SCHEME, SourceManager
from artifactflow_nb.text.citations import Document, SearchHit, write_counts, write_documents, write_hits
from artifactflow_nb.text.excerpt import excerpt
from artifactflow_nb.text.relevance import WordCounts
from artifactflow_nb.text.width import clip_words
from artifactflow_nb.text.words import query_of
from artifactflow_nb.tools.base import ToolContext, ToolPermission, tool
from artifactflow_nb.tools.fetch import Fetcher

_MOST_RESULTS = 20
_SNIPPET_COLUMNS = 300
_SOURCE_CHARS = 16_000  # of one source; a longer one is shown in parts
_ALL_CHARS = 96_000  # of all sources of one call
_LEAST_CHARS = 2_000
_MOST_CHARS = 120_000  # of all that a fetch says, addresses and errors included
_MOST_URLS = 20


class SearchProvider(Protocol):
    """Anything that finds sources for words."""

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """The best hits, best first, at most `limit`."""


@runtime_checkable
class CountsWords(Protocol):
    """A provider that can also say how common the words of a query are in what it searches."""

    async def word_counts(self, query: str) -> WordCounts:
        """In how many passages each word occurs."""


@dataclass(frozen=True, slots=True)
class LocalSearch:
    """Searches local sources.

    Attributes:
        sources: The index.
        scope: Ids of the sources to search; None for all.
    """

    sources: SourceManager
    scope: Sequence[str] | None = None

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """The best sections, each with the beginning of its best passage."""
        hits = await self.sources.search(query, limit, self.scope)
        return [SearchHit(hit.title, hit.address, clip_words(hit.snippet, _SNIPPET_COLUMNS)) for hit in hits]

    async def word_counts(self, query: str) -> WordCounts:
        """In how many passages of the scope each word occurs."""
        return await self.sources.word_counts(query, self.scope)


@tool(category="core", idempotent=True)
async def web_search(
    ctx: ToolContext,
    query: Annotated[str, "What to look for: a question or a few specific words."],
    max_results: Annotated[int, "How many results at most, 1 to 20."] = 5,
) -> ToolResult:
    """Search for sources. Gives the title, address and a snippet of each; fetch an address to read the whole text."""
    if not query.strip():
        raise ToolError("The query is empty. Pass the words to look for.")
    provider: SearchProvider = ctx.service(SearchProvider)  # type: ignore[type-abstract]  # the key of a service
    hits = await provider.search(query, min(max(max_results, 1), _MOST_RESULTS))
    parts = [write_hits(hits) if hits else f"Nothing was found for {query!r}. Try other words."]
    if isinstance(provider, CountsWords):
        parts.append(write_counts(query_of(query).spelled, await provider.word_counts(query)))
    results = [{"title": hit.title, "address": hit.address} for hit in hits]
    return ToolResult(success=True, data="\n\n".join(parts), metadata={"query": query, "results": results})


async def _local_is_free(_ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """Reading what the person added needs no question; the network does."""
    local = all(url.strip().startswith(SCHEME) for url in args.urls)  # type: ignore[attr-defined]  # this tool's model
    return ToolPermission.AUTO if local else ToolPermission.CONFIRM


@tool(permission=_local_is_free, category="core", idempotent=True, max_result_chars=_MOST_CHARS)
async def web_fetch(
    ctx: ToolContext,
    urls: Annotated[list[str], "The addresses to read, as a search gave them."],
    focus: Annotated[str, "What you want to know; of a long source the parts nearest to it are given."] = "",
) -> ToolResult:
    """Read sources, local ones and pages of the web: each comes with its title and its text."""
    wanted = list(dict.fromkeys(url.strip() for url in urls if url.strip()))
    if not wanted:
        raise ToolError("No address was given. Pass the addresses that web_search gave.")
    if len(wanted) > _MOST_URLS:
        raise ToolError(f"{len(wanted)} addresses are too many for one call. Pass at most {_MOST_URLS}.")
    documents = await _documents(ctx, wanted, max(_ALL_CHARS // len(wanted), _LEAST_CHARS), focus)
    if all(document.error for document in documents):
        raise ToolError("\n".join(f"{document.address}: {document.error}" for document in documents))
    results = [{"title": one.title, "address": one.address} for one in documents if one.error is None]
    failed = [{"address": one.address, "error": one.error} for one in documents if one.error is not None]
    return ToolResult(success=True, data=write_documents(documents), metadata={"results": results, "failed": failed})


async def _documents(ctx: ToolContext, urls: Sequence[str], chars: int, focus: str) -> list[Document]:
    """A document for each address, in order, each with at most so many characters: the parts nearest to the focus."""
    local = [url for url in urls if url.startswith(SCHEME)]
    remote = [url for url in urls if not url.startswith(SCHEME)]
    read = [await _read(ctx.service(SourceManager), url) for url in local]
    if remote:
        read += [page.document for page in await ctx.service(Fetcher).fetch_all(remote)]
    found = dict(zip([*local, *remote], read, strict=True))
    return [await asyncio.to_thread(_shown, found[url], focus, min(chars, _SOURCE_CHARS)) for url in urls]


async def _read(sources: SourceManager, url: str) -> Document:
    try:
        section = await sources.read(url)
    except NotFound as error:
        return Document(url, error=str(error))
    return Document(section.address, section.title, section.text)


def _shown(document: Document, focus: str, chars: int) -> Document:
    return document if document.error else replace(document, text=excerpt(document.text, focus, chars))
