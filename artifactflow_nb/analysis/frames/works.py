"""The frame of the works behind the sources: publications of PDF files and bibliographies."""

from pathlib import Path
from typing import TYPE_CHECKING

from artifactflow_nb.analysis.frames.columns import BOOL, ENUM, INT, TEXT
from artifactflow_nb.analysis.frames.storage import frame_from_rows
from artifactflow_nb.sources.bibliography import all_works
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
