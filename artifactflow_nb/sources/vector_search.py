"""Embedding of passages, searches by words and vectors together, and the check whether vectors help.

::

    query ──> words: index, ranking ──┐
          └─> vector: nearest ────────┴──> fused by rank ──> hits

Vectors are stored as 16-bit floats and compared with the vector of a query by brute force. All come from one model.
Searches use vectors only if a check on the person's own sources has shown an improvement; see `VectorSearch.check`.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from artifactflow_nb.errors import ModelError, UsageError, brief
from artifactflow_nb.sources import index as text_index
from artifactflow_nb.sources.index import IndexHit, PassageRanges
from artifactflow_nb.sources.retrieval.scoring import fuse_ranks
from artifactflow_nb.sources.retrieval.sentences import split_sentences
from artifactflow_nb.sources.retrieval.terms import Query, parse_query
from artifactflow_nb.store.database import Database

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MISSING = """
SELECT p.passage_id,
       sources.title || '. ' || s.title || char(10) || substr(s.text, p.start + 1, p.end - p.start) AS text
FROM passages AS p JOIN sections AS s USING (section_id) JOIN sources USING (source_id)
LEFT JOIN passage_vectors USING (passage_id) WHERE vector IS NULL AND p.passage_id > ? ORDER BY p.passage_id LIMIT ?
"""
_ROWS_AT_ONCE = 8_192


class Embedder(Protocol):
    """A model that turns texts into vectors."""

    name: str

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; `ModelError` if the endpoint fails."""

    async def aclose(self) -> None:
        """Close all connections."""


@dataclass(frozen=True, slots=True)
class VectorState:
    """The stored vectors.

    Attributes:
        helps: Whether the vectors improve searches; None before a check.
    """

    model: str
    dimension: int
    n_changes: int
    helps: bool | None


def load_state(db: sqlite3.Connection) -> VectorState | None:
    """Return the state of the stored vectors, or None without vectors."""
    row = db.execute("SELECT model, dimension, n_changes, helps FROM vector_models").fetchone()
    if row is None:
        return None
    helps = None if row["helps"] is None else bool(row["helps"])
    return VectorState(row["model"], row["dimension"], row["n_changes"], helps)


def count_missing(db: sqlite3.Connection, model: str) -> tuple[int, int]:
    """Count the passages without a vector of a model, and the characters of these passages."""
    state = load_state(db)
    has_vector = "p.passage_id IN (SELECT passage_id FROM passage_vectors)"
    missing = "" if state is None or state.model != model else f" WHERE NOT {has_vector}"
    sql = f"SELECT count(*), ifnull(sum(p.end - p.start), 0) FROM passages AS p{missing}"  # noqa: S608 - constants
    n_passages, n_chars = db.execute(sql).fetchone()
    return int(n_passages), int(n_chars)


def load_missing(db: sqlite3.Connection, after: int, limit: int) -> list[tuple[int, str]]:
    """Return the numbers and texts of passages without a vector; their numbers are above `after`."""
    return [(row["passage_id"], row["text"]) for row in db.execute(_MISSING, (after, limit))]


def begin_model(db: sqlite3.Connection, model: str) -> None:
    """Remove the vectors of another model."""
    state = load_state(db)
    if state is not None and state.model != model:
        db.execute("DELETE FROM passage_vectors")
        db.execute("DELETE FROM vector_models")


def store_vectors(
    db: sqlite3.Connection, model: str, passage_ids: Sequence[int], vectors: Sequence[Sequence[float]]
) -> None:
    """Store the normalised vectors of passages; passages that were deleted in the meantime are skipped.

    Errors: `UsageError` for vectors of another length than the stored vectors.
    """
    import numpy as np

    dimension = len(vectors[0])
    state = load_state(db)
    stored = dimension if state is None else state.dimension
    if wrong := next((len(vector) for vector in vectors if len(vector) != stored), None):
        raise UsageError(
            f"The embedding model {model!r} returned a vector of {wrong} numbers, but the stored vectors have "
            f"{stored}. The endpoint may use another model under this name now. Nothing of this batch was stored."
        )
    array = np.asarray(vectors, dtype=np.float32)
    array /= np.maximum(np.linalg.norm(array, axis=1, keepdims=True), 1e-12)
    rows = [(vector.tobytes(), number) for vector, number in zip(array.astype(np.float16), passage_ids, strict=True)]
    db.executemany(
        "INSERT OR REPLACE INTO passage_vectors (vector, passage_id) SELECT ?1, ?2 "
        "WHERE EXISTS (SELECT 1 FROM passages WHERE passage_id = ?2)",
        rows,
    )
    sql = "INSERT INTO vector_models (model, dimension) VALUES (?, ?) ON CONFLICT (model) DO UPDATE SET n_changes = "
    db.execute(f"{sql}n_changes + 1", (model, dimension))


def store_check(db: sqlite3.Connection, model: str, *, helps: bool) -> None:
    """Store whether the vectors of a model help."""
    db.execute("UPDATE vector_models SET helps = ? WHERE model = ?", (helps, model))


class VectorIndex:
    """The vectors of a store in memory, read again when they have changed."""

    def __init__(self) -> None:
        self._loaded: tuple[VectorState, Any, Any] | None = None

    def nearest(
        self, db: sqlite3.Connection, vector: Sequence[float], within: PassageRanges, limit: int
    ) -> list[tuple[int, float]]:
        """Return the numbers of the passages with the most similar vectors, with the cosine similarity, best first."""
        import numpy as np

        state = load_state(db)
        if state is None or len(vector) != state.dimension:
            return []
        if self._loaded is None or self._loaded[0] != state:
            self._loaded = (state, *_load(db, state.dimension))
        numbers, vectors = self._loaded[1:]
        query = np.asarray(vector, dtype=np.float32)
        query /= max(float(np.linalg.norm(query)), 1e-12)
        selected = [slice(*np.searchsorted(numbers, (first, last + 1))) for first, last in within]
        similarities = np.concatenate([vectors[part] @ query for part in selected] or [np.empty(0, np.float32)])
        inside = np.concatenate([numbers[part] for part in selected] or [np.empty(0, np.int64)])
        best = np.argsort(-similarities, kind="stable")[:limit]
        return [(int(inside[at]), float(similarities[at])) for at in best]


def _load(db: sqlite3.Connection, dimension: int) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
    """Return the numbers of the passages, in order, and their vectors."""
    import numpy as np

    count = db.execute("SELECT count(*) FROM passage_vectors").fetchone()[0]
    numbers, vectors = np.empty(count, np.int64), np.empty((count, dimension), np.float32)
    rows = db.execute("SELECT passage_id, vector FROM passage_vectors ORDER BY passage_id")
    start = 0
    while block := rows.fetchmany(_ROWS_AT_ONCE):
        end = start + len(block)
        numbers[start:end] = [row[0] for row in block]
        vectors[start:end] = np.frombuffer(b"".join(row[1] for row in block), np.float16).reshape(-1, dimension)
        start = end
    return numbers, vectors


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
        tokens: Number of tokens, estimated at four characters each.
        usd: Cost in US dollars; None without a price of the model.
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
        hit_at_1: Share of the queries whose section was the first result.
        hit_at_5: Share of the queries whose section was among the first 5.
        hit_at_10: Share of the queries whose section was among the first 10.
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
        """Estimate the work and the cost of the next `embed`."""
        count = partial(count_missing, model=self._embedder.name)
        n_passages, n_chars = await self._database.read(count)
        return EmbeddingForecast(self._embedder.name, n_passages, -(-n_chars // _CHARS_PER_TOKEN))

    async def embed(self, progress: Callable[[int, int, str], object]) -> None:
        """Embed the passages that have no vector of the model, in batches; finished batches remain stored.

        Args:
            progress: Called with the number of finished passages, the number of all passages, and the model's name.

        Errors: `ModelError` if the endpoint fails, with the number of embedded passages; another call continues.
            `UsageError` for vectors of another length.
        """
        model, total = self._embedder.name, (await self.forecast()).passages
        await self._database.write(partial(begin_model, model=model))
        done, last = 0, 0
        while batch := await self._database.read(partial(load_missing, after=last, limit=_PASSAGES_PER_WRITE)):
            numbers = [number for number, _ in batch]
            try:
                vectors = await self._embedder.embed([text for _, text in batch])
                await self._database.write(partial(store_vectors, model=model, passage_ids=numbers, vectors=vectors))
            except (ModelError, UsageError) as error:
                note = f"{done:,} of {total:,} passages have a vector; call wb.sources.embed() again to continue."
                error.args = (f"{error} {note}",)
                raise
            done, last = done + len(batch), numbers[-1]
            progress(done, total, model)

    async def vector(self, query: str) -> Sequence[float] | None:
        """Return the vector of a query, or None if no check showed an improvement or the endpoint does not answer."""
        state = await self._database.read(load_state)
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
        """Find the best sections by words and vectors, merged by rank."""
        by_words = text_index.find(db, query, _DEPTH, within)
        nearest = self._index.nearest(db, vector, within, _DEPTH)
        by_vectors = text_index.sections_of(db, nearest)
        similarities = {(hit.source_id, hit.anchor): hit.similarity for hit in by_vectors}
        hits = {(hit.source_id, hit.anchor): hit for hit in (*by_vectors, *by_words)}
        order = fuse_ranks([[(hit.source_id, hit.anchor) for hit in ranking] for ranking in (by_words, by_vectors)])
        return [replace(hits[key], similarity=similarities.get(key)) for key in order[:limit]]

    async def check(self, n_queries: int, scope: Sequence[str] | None) -> list[RankingCheck]:
        """Compare searches for known passages with and without vectors, and use the better ranking from now on.

        Errors: `UsageError` if there are no vectors, or too few passages; `ModelError` if the endpoint fails.
        """
        model = self._embedder.name
        state = await self._database.read(load_state)
        if state is None or state.model != model:
            raise UsageError(f"The sources have no vectors of {brief(model)}. Call wb.sources.embed() first.")
        items = await self._database.read(partial(_known_items, n_queries=n_queries, scope=scope))
        if not items:
            raise UsageError(
                "The sources have no passages from which queries can be created. Add more files with wb.sources.add()."
            )
        vectors = await self._embedder.embed([query for query, _ in items])

        def ranks(db: sqlite3.Connection) -> tuple[list[int], list[int]]:
            within = text_index.ranges(db, scope)
            by_words: list[int] = []
            by_both: list[int] = []
            for (text, expected), vector in zip(items, vectors, strict=True):
                query = parse_query(text)
                by_words.append(_rank(expected, text_index.find(db, query, _CHECKED_RANKS[-1], within)))
                by_both.append(_rank(expected, self.find(db, query, vector, _CHECKED_RANKS[-1], within)))
            return by_words, by_both

        by_words, by_both = await self._database.read(ranks)
        words = [_share(by_words, rank) for rank in _CHECKED_RANKS]
        both = [_share(by_both, rank) for rank in _CHECKED_RANKS]
        helps = both[1] > words[1] and both[0] >= words[0]
        await self._database.write(partial(store_check, model=model, helps=helps))
        return [
            RankingCheck("words", words[0], words[1], words[2], len(items), not helps),
            RankingCheck("words and vectors", both[0], both[1], both[2], len(items), helps),
        ]


def _known_items(
    db: sqlite3.Connection, n_queries: int, scope: Sequence[str] | None
) -> list[tuple[str, tuple[str, str]]]:
    """Create queries from passages that are spread evenly over the sources, each with its expected section.

    A query has a few words of a sentence, without the rarest word, because a person seldom remembers the exact word.
    The words are in alphabetical order, so that no phrase of the sentence remains.
    """
    within = text_index.ranges(db, scope)
    numbers = [
        row[0]
        for limits in within
        for row in db.execute("SELECT passage_id FROM passages WHERE passage_id BETWEEN ? AND ? ORDER BY 1", limits)
    ]
    step = max(len(numbers) // max(n_queries, 1), 1)
    items: list[tuple[str, tuple[str, str]]] = []
    for hit in text_index.sections_of(db, [(number, 0.0) for number in numbers[::step]]):
        sentence = max((sentence.quote for sentence in split_sentences(hit.passage)), key=len, default="")
        query = parse_query(sentence)
        counts = text_index.count(db, query, within).counts
        words = sorted(query.terms, key=lambda term: counts.get(term, 0))[_RAREST_LEFT_OUT:][:_MOST_WORDS]
        if len(words) >= _LEAST_WORDS:
            spelled = sorted(query.spellings.get(word, word) for word in words)
            items.append((" ".join(spelled), (hit.source_id, hit.anchor)))
    return items[:n_queries]


def _rank(expected: tuple[str, str], hits: Sequence[IndexHit]) -> int:
    """Return the rank of a section among hits, from 1, or 0 for a section that was not found."""
    return next((rank for rank, hit in enumerate(hits, 1) if (hit.source_id, hit.anchor) == expected), 0)


def _share(ranks: Sequence[int], limit: int) -> float:
    return sum(0 < rank <= limit for rank in ranks) / len(ranks)
