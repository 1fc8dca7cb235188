"""The second stage of a search in local sources: a model scores the passages that the index found.

::

    query, question, instruction ──> index ──> 30 passages, fused by rank ──> scores of a model ──> scores from 5 on

If a score is missing, the ranking of the index is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from artifactflow_nb.core.text.format import clip_words
from artifactflow_nb.sources.citations import SearchHit
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.sources.retrieval.scoring import WordCounts, fuse_ranks
from artifactflow_nb.sources.values import SectionHit

SNIPPET_COLUMNS = 300
"""Length of the excerpt of a hit."""


@dataclass(frozen=True, slots=True)
class LocalSearch:
    """Search in the local sources.

    Attributes:
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


CANDIDATES = 30
PASSAGES_PER_REQUEST = 6
LEAST_SCORE = 5.0


@dataclass(frozen=True, slots=True)
class PassageScore:
    """The score of a passage.

    Attributes:
        score: From 0 to 10.
        sentences: The most relevant sentences, verbatim.
    """

    score: float
    sentences: tuple[str, ...]


class PassageScorer(Protocol):
    """Scores passages with a model."""

    async def queries(self, query: str) -> Sequence[str]:
        """Return the texts to search for: the query first, then the question and the instruction behind it."""

    async def score(self, query: str, passages: Sequence[SectionHit]) -> Sequence[PassageScore] | None:
        """Score passages, in order, or return None if a score is missing or the budget of the run is spent."""


@dataclass(frozen=True, slots=True)
class ScoredSearch:
    """Search in the local sources with the second stage.

    Attributes:
        scorer: The second stage.
    """

    local: LocalSearch
    scorer: PassageScorer

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """Return the sections with the best scores, each with its most relevant sentences as snippet."""
        rankings = [
            await self.local.sources.search(text, CANDIDATES, self.local.scope)
            for text in await self.scorer.queries(query)
        ]
        by_address = {hit.address: hit for hits in reversed(rankings) for hit in hits}
        order = fuse_ranks([[hit.address for hit in hits] for hits in rankings])[:CANDIDATES]
        candidates = [by_address[address] for address in order]
        scores = await self.scorer.score(query, candidates) if candidates else []
        if scores is None:
            return await self.local.search(query, limit)
        best = sorted(zip(scores, candidates, strict=True), key=lambda pair: -pair[0].score)
        return [
            SearchHit(hit.title, hit.address, " … ".join(score.sentences) or clip_words(hit.snippet, SNIPPET_COLUMNS))
            for score, hit in best[:limit]
            if score.score >= LEAST_SCORE
        ]

    async def word_counts(self, query: str) -> WordCounts:
        """Count the passages of the scope in which each word occurs."""
        return await self.local.word_counts(query)
