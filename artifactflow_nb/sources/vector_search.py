"""Embedding of passages, searches by words and vectors together, and the check whether vectors help.

::

    query ──> words: index, ranking ──┐
          └─> vector: nearest ────────┴──> fused by rank ──> hits
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from artifactflow_nb.errors import ModelError, UsageError
from artifactflow_nb.sources import index as text_index
from artifactflow_nb.sources import vectors as vector_rows
from artifactflow_nb.sources.index import IndexHit, PassageRanges
from artifactflow_nb.sources.retrieval.scoring import fuse_ranks
from artifactflow_nb.sources.retrieval.sentences import split_sentences
from artifactflow_nb.sources.retrieval.terms import Query, parse_query
from artifactflow_nb.sources.vectors import Embedder, VectorIndex
from artifactflow_nb.store.database import Database

_DEPTH = 150
_PASSAGES_PER_WRITE = 64
_CHARS_PER_TOKEN = 4
_QUERY_TIMEOUT_S = 15.0
_CHECKED_RANKS = (1, 5, 10)
_LEAST_WORDS, _MOST_WORDS, _RAREST_LEFT_OUT = 3, 5, 1


@dataclass(frozen=True, slots=True)
class EmbeddingForecast:
    """The passages without a vector, and the cost of embedding them.

    Attributes:
        model: The model.
        passages: Number of passages without a vector.
        tokens: Their tokens, estimated at four characters each.
        usd: Their cost in US dollars; None without a price of the model.
    """

    model: str
    passages: int
    tokens: int
    usd: float | None = None

    def __str__(self) -> str:
        cost = "its price is not known" if self.usd is None else f"about ${self.usd:.4f}"
        return f"{self.passages:,} passages to embed with {self.model}: about {self.tokens:,} tokens, {cost}"


@dataclass(frozen=True, slots=True)
class RankingCheck:
    """The quality of a ranking on known passages.

    Attributes:
        ranking: `words`, or `words and vectors`.
        hit_at_1: Share of the queries whose section came first.
        hit_at_5: Share of those whose section was among the first 5.
        hit_at_10: Share of those whose section was among the first 10.
        queries: Number of queries.
        is_used: Whether searches use this ranking from now on.
    """

    ranking: str
    hit_at_1: float
    hit_at_5: float
    hit_at_10: float
    queries: int
    is_used: bool


class VectorSearch:
    """The vectors of the sources of a store."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database = database
        self._embedder = embedder
        self._index = VectorIndex()

    async def forecast(self) -> EmbeddingForecast:
        """The work and the cost of the next `embed`."""
        count = partial(vector_rows.count_missing, model=self._embedder.name)
        n_passages, n_chars = await self._database.read(count)
        return EmbeddingForecast(self._embedder.name, n_passages, -(-n_chars // _CHARS_PER_TOKEN))

    async def embed(self, progress: Callable[[int, int, str], object]) -> None:
        """Embed the passages that have no vector of the model, in batches; each finished batch stays.

        Args:
            progress: Called with the number of finished passages, the number of all, and the model's name.

        Errors: `ModelError` if the endpoint fails, with the number of embedded passages; call it again to continue.
            `UsageError` for vectors of another length.
        """
        model, total = self._embedder.name, (await self.forecast()).passages
        await self._database.write(partial(vector_rows.begin_model, model=model))
        done, last = 0, 0
        while batch := await self._database.read(
            partial(vector_rows.load_missing, after=last, limit=_PASSAGES_PER_WRITE)
        ):
            numbers = [number for number, _ in batch]
            try:
                vectors = await self._embedder.embed([text for _, text in batch])
                await self._database.write(
                    partial(vector_rows.store_vectors, model=model, passage_ids=numbers, vectors=vectors)
                )
            except (ModelError, UsageError) as error:
                note = f"{done:,} of {total:,} passages have a vector; call wb.embed_sources() again to continue."
                error.args = (f"{error} {note}",)
                raise
            done, last = done + len(batch), numbers[-1]
            progress(done, total, model)

    async def vector(self, query: str) -> Sequence[float] | None:
        """The vector of a query; None if vectors have not been shown to help, or the endpoint does not answer."""
        state = await self._database.read(vector_rows.load_state)
        if state is None or state.model != self._embedder.name or not state.helps:
            return None
        with suppress(ModelError, TimeoutError):  # the search by words needs no endpoint
            async with asyncio.timeout(_QUERY_TIMEOUT_S):
                return (await self._embedder.embed([query]))[0]
        return None

    async def aclose(self) -> None:
        """Close the connections of the model."""
        await self._embedder.aclose()

    def find(
        self, db: sqlite3.Connection, query: Query, vector: Sequence[float], limit: int, within: PassageRanges
    ) -> list[IndexHit]:
        """The best sections by words and vectors, fused by rank."""
        by_words = text_index.find(db, query, _DEPTH, within)
        nearest = self._index.nearest(db, vector, within, _DEPTH)
        by_vectors = text_index.sections_of(db, nearest)
        similarities = {(hit.source_id, hit.anchor): hit.similarity for hit in by_vectors}
        hits = {(hit.source_id, hit.anchor): hit for hit in (*by_vectors, *by_words)}
        order = fuse_ranks([[(hit.source_id, hit.anchor) for hit in found] for found in (by_words, by_vectors)])
        return [replace(hits[key], similarity=similarities.get(key)) for key in order[:limit]]

    async def check(self, n_queries: int, scope: Sequence[str] | None) -> list[RankingCheck]:
        """Search for known passages by words, and by words and vectors, and keep the better ranking for all searches.

        Errors: `UsageError` if there are no vectors, or too few passages; `ModelError` if the endpoint fails.
        """
        model = self._embedder.name
        state = await self._database.read(vector_rows.load_state)
        if state is None or state.model != model:
            raise UsageError(f"The sources have no vectors of {model!r}. Call wb.embed_sources() first.")
        known = await self._database.read(partial(_known_items, n_queries=n_queries, scope=scope))
        if not known:
            raise UsageError(
                "The sources have no passages that queries can be made of. Add more with wb.add_sources()."
            )
        vectors = await self._embedder.embed([query for query, _ in known])

        def ranks(db: sqlite3.Connection) -> tuple[list[int], list[int]]:
            within = text_index.ranges(db, scope)
            by_words: list[int] = []
            by_both: list[int] = []
            for (text, expected), vector in zip(known, vectors, strict=True):
                query = parse_query(text)
                by_words.append(_rank(expected, text_index.find(db, query, _CHECKED_RANKS[-1], within)))
                by_both.append(_rank(expected, self.find(db, query, vector, _CHECKED_RANKS[-1], within)))
            return by_words, by_both

        by_words, by_both = await self._database.read(ranks)
        words = [_share(by_words, rank) for rank in _CHECKED_RANKS]
        both = [_share(by_both, rank) for rank in _CHECKED_RANKS]
        helps = both[1] > words[1] and both[0] >= words[0]
        await self._database.write(partial(vector_rows.store_check, model=model, helps=helps))
        return [
            RankingCheck("words", words[0], words[1], words[2], len(known), not helps),
            RankingCheck("words and vectors", both[0], both[1], both[2], len(known), helps),
        ]


def _known_items(
    db: sqlite3.Connection, n_queries: int, scope: Sequence[str] | None
) -> list[tuple[str, tuple[str, str]]]:
    """Queries with the section that each is made of, from passages that lie evenly over the sources.

    A query has a few words of a sentence, without the rarest one, because a person seldom remembers the very word, and
    in alphabetical order, so that no phrase of the sentence remains.
    """
    within = text_index.ranges(db, scope)
    numbers = [
        row[0]
        for limits in within
        for row in db.execute("SELECT passage_id FROM passages WHERE passage_id BETWEEN ? AND ? ORDER BY 1", limits)
    ]
    step = max(len(numbers) // max(n_queries, 1), 1)
    known: list[tuple[str, tuple[str, str]]] = []
    for hit in text_index.sections_of(db, [(number, 0.0) for number in numbers[::step]]):
        sentence = max((sentence.quote for sentence in split_sentences(hit.passage)), key=len, default="")
        query = parse_query(sentence)
        counts = text_index.count(db, query, within).counts
        words = sorted(query.terms, key=lambda term: counts.get(term, 0))[_RAREST_LEFT_OUT:][:_MOST_WORDS]
        if len(words) >= _LEAST_WORDS:
            spelled = sorted(query.spellings.get(word, word) for word in words)
            known.append((" ".join(spelled), (hit.source_id, hit.anchor)))
    return known[:n_queries]


def _rank(expected: tuple[str, str], hits: Sequence[IndexHit]) -> int:
    """The rank of a section among hits, from 1; 0 if it is not among them."""
    return next((rank for rank, hit in enumerate(hits, 1) if (hit.source_id, hit.anchor) == expected), 0)


def _share(ranks: Sequence[int], limit: int) -> float:
    return sum(0 < rank <= limit for rank in ranks) / len(ranks)
