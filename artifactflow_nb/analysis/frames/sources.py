"""The frames of sources: their publications, what a search finds with each score, and how rankings compare."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from artifactflow_nb.analysis.frames.columns import BOOL, ENUM, FLOAT, INT, TEXT
from artifactflow_nb.analysis.frames.storage import frame_from_rows
from artifactflow_nb.sources.bibliography import all_works
from artifactflow_nb.sources.values import SectionHit
from artifactflow_nb.sources.vector_search import RankingCheck
from artifactflow_nb.store.database import read_store

if TYPE_CHECKING:
    import pandas as pd

_WORKS = {
    "title": TEXT,
    "authors": TEXT,
    "year": INT,
    "venue": TEXT,
    "type": ENUM,
    "doi": TEXT,
    "arxiv_id": TEXT,
    "is_retracted": BOOL,
    "key": TEXT,
    "n_sources": INT,
    "addresses": TEXT,
    "abstract": TEXT,
}


def load_works(store: Path) -> "pd.DataFrame":
    """One row per work, those of bibliographies first."""
    rows = [
        (
            work.title or None,
            "; ".join(work.authors) or None,
            work.year,
            work.venue or None,
            work.item.get("type"),
            work.doi or None,
            work.arxiv_id or None,
            work.is_retracted,
            work.key or None,
            len(addresses),
            " ".join(addresses),
            work.abstract or None,
        )
        for addresses, work in read_store(store, all_works)
    ]
    return frame_from_rows("works", _WORKS, rows)


SearchFrame: TypeAlias = "pd.DataFrame"
"""One row per section."""

CheckFrame: TypeAlias = "pd.DataFrame"
"""One row per ranking."""

_DTYPES = {
    "rank": INT,
    "title": TEXT,
    "snippet": TEXT,
    "score": FLOAT,
    "bm25": FLOAT,
    "bm25_rank": INT,
    "similarity": FLOAT,
    "address": TEXT,
}


def search_frame(hits: Sequence[SectionHit], snippets: Sequence[str]) -> SearchFrame:
    """One row per hit, the best first; `snippets` are the excerpts that an agent gets."""
    import pandas as pd

    rows = [
        (rank, hit.title, snippet, hit.score, hit.bm25, hit.bm25_rank, hit.similarity, hit.address)
        for rank, (hit, snippet) in enumerate(zip(hits, snippets, strict=True), 1)
    ]
    return pd.DataFrame(rows, columns=list(_DTYPES)).astype(_DTYPES)


def check_frame(checks: Sequence[RankingCheck]) -> CheckFrame:
    """One row per ranking, with the shares of known sections that it found."""
    import pandas as pd

    names = ("ranking", "hit_at_1", "hit_at_5", "hit_at_10", "queries", "is_used")
    frame = pd.DataFrame([[getattr(check, name) for name in names] for check in checks], columns=list(names))
    return frame.astype(dict(zip(names, (TEXT, FLOAT, FLOAT, FLOAT, INT, BOOL), strict=True)))
