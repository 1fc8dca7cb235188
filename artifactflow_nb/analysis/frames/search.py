"""The frame of a search: what an agent would see, and the score of each stage that put it there."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from artifactflow_nb.analysis.frames.columns import FLOAT, INT, TEXT
from artifactflow_nb.sources.values import SectionHit

if TYPE_CHECKING:
    import pandas as pd

SearchFrame: TypeAlias = "pd.DataFrame"
"""One row per section."""

_DTYPES = {
    "rank": INT,
    "title": TEXT,
    "snippet": TEXT,
    "score": FLOAT,
    "bm25": FLOAT,
    "bm25_rank": INT,
    "address": TEXT,
}


def search_frame(hits: Sequence[SectionHit], snippets: Sequence[str]) -> SearchFrame:
    """One row per hit, the best first; `snippets` are the excerpts that an agent gets."""
    import pandas as pd

    rows = [
        (rank, hit.title, snippet, hit.score, hit.bm25, hit.bm25_rank, hit.address)
        for rank, (hit, snippet) in enumerate(zip(hits, snippets, strict=True), 1)
    ]
    return pd.DataFrame(rows, columns=list(_DTYPES)).astype(_DTYPES)
