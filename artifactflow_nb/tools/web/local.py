"""The local sources as a search engine."""

from collections.abc import Sequence
from dataclasses import dataclass

from artifactflow_nb.core.text.format import clip_words
from artifactflow_nb.sources.citations import SearchHit
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.sources.retrieval.scoring import WordCounts

SNIPPET_COLUMNS = 300
"""Length of the excerpt of a hit."""


@dataclass(frozen=True, slots=True)
class LocalSearch:
    """Search in the local sources.

    Attributes:
        sources: The index of sources.
        scope: Ids of the sources to search; None for all.
    """

    sources: SourceManager
    scope: Sequence[str] | None = None

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """Return the best sections, each with the start of its best passage as snippet."""
        hits = await self.sources.search(query, limit, self.scope)
        return [SearchHit(hit.title, hit.address, clip_words(hit.snippet, SNIPPET_COLUMNS)) for hit in hits]

    async def word_counts(self, query: str) -> WordCounts:
        """Count the passages of the scope in which each word occurs."""
        return await self.sources.word_counts(query, self.scope)
