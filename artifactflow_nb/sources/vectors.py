"""Vectors of passages: stored as 16-bit floats, and compared with that of a query by brute force.

The vectors are of one model. They rank passages only if a check on the person's own sources has shown that they help;
see `VectorSearch.check`.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from artifactflow_nb.errors import UsageError
from artifactflow_nb.sources.index import PassageRanges

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
        """Return a vector for each text; `ModelError` if that fails."""

    async def aclose(self) -> None:
        """Close all connections."""


@dataclass(frozen=True, slots=True)
class VectorState:
    """The stored vectors.

    Attributes:
        model: Their model.
        dimension: Numbers of a vector.
        n_changes: Grows with each change.
        helps: Whether they improve searches; None if that was not checked.
    """

    model: str
    dimension: int
    n_changes: int
    helps: bool | None


def load_state(db: sqlite3.Connection) -> VectorState | None:
    """The stored vectors; None if there are none."""
    row = db.execute("SELECT model, dimension, n_changes, helps FROM vector_models").fetchone()
    if row is None:
        return None
    helps = None if row["helps"] is None else bool(row["helps"])
    return VectorState(row["model"], row["dimension"], row["n_changes"], helps)


def count_missing(db: sqlite3.Connection, model: str) -> tuple[int, int]:
    """The number of passages that have no vector of a model, and of their characters."""
    state = load_state(db)
    has_vector = "p.passage_id IN (SELECT passage_id FROM passage_vectors)"
    missing = "" if state is None or state.model != model else f" WHERE NOT {has_vector}"
    sql = f"SELECT count(*), ifnull(sum(p.end - p.start), 0) FROM passages AS p{missing}"  # noqa: S608 - constants
    n_passages, n_chars = db.execute(sql).fetchone()
    return int(n_passages), int(n_chars)


def load_missing(db: sqlite3.Connection, after: int, limit: int) -> list[tuple[int, str]]:
    """The numbers and texts of passages without a vector, from a number on."""
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
    """Store the vectors of passages, normalised; passages that were deleted meanwhile are left out.

    Errors: `UsageError` for vectors of another length than the stored ones.
    """
    import numpy as np

    dimension = len(vectors[0])
    state = load_state(db)
    stored = dimension if state is None else state.dimension
    if wrong := next((len(vector) for vector in vectors if len(vector) != stored), None):
        raise UsageError(
            f"The embedding model {model!r} returned a vector of {wrong} numbers, and the others have {stored}. The "
            "endpoint seems to have another model under this name now. Nothing of this batch was stored."
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
        """The numbers of the passages with the most similar vectors, with the cosine of the angle; the best first."""
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
    """The numbers of the passages, in order, and their vectors."""
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
