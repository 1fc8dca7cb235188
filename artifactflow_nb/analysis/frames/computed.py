"""Frames that Python computes: searches, the size of a store, pruned conversations, Markdown tables."""

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from artifactflow_nb.analysis.frames.reading import schema_name
from artifactflow_nb.sources.values import SectionHit
from artifactflow_nb.sources.vector_search import RankingCheck
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.frames import BOOL, ENUM, FLOAT, INT, TEXT, TIME
from artifactflow_nb.store.schema import to_microseconds
from artifactflow_nb.store.storage import OldConversation, measure

if TYPE_CHECKING:
    import pandas as pd

PrunedFrame: TypeAlias = "pd.DataFrame"
"""One row per conversation that was deleted or would be deleted."""

StorageFrame: TypeAlias = "pd.DataFrame"
"""One row per conversation and kind of content."""

TableFrames: TypeAlias = "list[pd.DataFrame]"

_STORAGE = {"conversation_id": TEXT, "title": TEXT, "kind": ENUM, "n_rows": INT, "n_bytes": INT}
_PRUNED = {
    "conversation_id": TEXT,
    "title": TEXT,
    "updated_at": TIME,
    "n_messages": INT,
    "n_runs": INT,
    "n_bytes": INT,
    "n_sealed": INT,
}


def load_storage(store: Path) -> StorageFrame:
    """Load the size of a store: one row per conversation and kind of content, the largest first."""

    def load(db: sqlite3.Connection) -> list[tuple[object, ...]]:
        titles = dict(db.execute("SELECT conversation_id, title FROM conversations").fetchall())
        sizes = sorted(measure(db), key=lambda size: -size.n_bytes)
        return [(s.conversation_id, titles.get(s.conversation_id or ""), s.kind, s.n_rows, s.n_bytes) for s in sizes]

    rows = read_store(store, load)
    side_files = (("checkpoints", "checkpoints.db"), ("write-ahead log", f"{store.name}-wal"))
    for kind, name in side_files:
        if (file := store.with_name(name)).exists():
            rows.append((None, None, kind, None, file.stat().st_size))
    return frame_from_rows("storage", _STORAGE, rows)


def conversation_bytes(store: Path) -> Mapping[str, int]:
    """Return the bytes of each conversation's own content, by conversation id."""
    n_bytes: dict[str, int] = {}
    for size in read_store(store, measure):
        if size.conversation_id is not None:
            n_bytes[size.conversation_id] = n_bytes.get(size.conversation_id, 0) + size.n_bytes
    return n_bytes


def pruned_frame(
    conversations: Sequence[OldConversation], n_bytes: Mapping[str, int], n_sealed: Mapping[str, int]
) -> PrunedFrame:
    """Build a frame with one row per pruned conversation; `n_bytes` and `n_sealed` are by conversation id."""
    return frame_from_rows(
        "pruned",
        _PRUNED,
        [
            (
                old.conversation_ids[0],
                old.title,
                to_microseconds(old.updated_at),
                old.n_messages,
                len(old.run_ids),
                sum(n_bytes.get(key, 0) for key in old.conversation_ids),
                n_sealed.get(old.conversation_ids[0], 0),
            )
            for old in conversations
        ],
    )


def frame_from_rows(name: str, columns: Mapping[str, str], rows: Sequence[tuple[object, ...]]) -> "pd.DataFrame":
    """Build a frame from rows that are not loaded by SQL; `columns` maps each column to its pandas type."""
    from artifactflow_nb.analysis.frames.packing import as_frame, pack

    return as_frame(list(columns), pack(rows, list(columns.values())), schema_name(name))


SearchFrame: TypeAlias = "pd.DataFrame"
"""One row per section."""

CheckFrame: TypeAlias = "pd.DataFrame"
"""One row per ranking."""

_DTYPES = {
    "rank": INT,
    "title": TEXT,
    "snippet": TEXT,
    "score": FLOAT,
    "similarity": FLOAT,
    "address": TEXT,
}


def search_frame(hits: Sequence[SectionHit], snippets: Sequence[str]) -> SearchFrame:
    """Build the frame of search results, best first; `snippets` are the excerpts that an agent gets."""
    import pandas as pd

    rows = [
        (rank, hit.title, snippet, hit.score, hit.similarity, hit.address)
        for rank, (hit, snippet) in enumerate(zip(hits, snippets, strict=True), 1)
    ]
    return pd.DataFrame(rows, columns=list(_DTYPES)).astype(_DTYPES)


def check_frame(checks: Sequence[RankingCheck]) -> CheckFrame:
    """Build the frame of a ranking check: one row per ranking, with the shares of expected sections among its hits."""
    import pandas as pd

    names = ("ranking", "hit_at_1", "hit_at_5", "hit_at_10", "queries", "is_used")
    frame = pd.DataFrame([[getattr(check, name) for name in names] for check in checks], columns=list(names))
    return frame.astype(dict(zip(names, (TEXT, FLOAT, FLOAT, FLOAT, INT, BOOL), strict=True)))


def markdown_tables(text: str) -> TableFrames:
    """Return the tables of a text, in order; columns that contain only numbers are numeric."""
    import pandas as pd
    from markdown_it import MarkdownIt

    tables: list[list[list[str]]] = []
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for before, token in pairwise([*tokens[:1], *tokens]):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif before.type in {"th_open", "td_open"}:
            tables[-1][-1].append("".join(child.content for child in token.children or ()).strip())
    frames = []
    for header, *rows in tables:
        frame = pd.DataFrame(rows, columns=header)
        for position in range(len(header)):
            numbers = pd.to_numeric(frame.iloc[:, position].str.replace(",", ""), errors="coerce")
            if len(frame) and numbers.notna().all():
                frame.isetitem(position, numbers.to_numpy())
        frames.append(frame)
    return frames
