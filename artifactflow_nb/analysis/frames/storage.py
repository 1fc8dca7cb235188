"""The frames of the space that a store takes, and of the conversations that were pruned."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from artifactflow_nb.analysis.frames.columns import ENUM, INT, TEXT, TIME
from artifactflow_nb.analysis.frames.reading import schema_name
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.migrations import to_microseconds
from artifactflow_nb.store.storage import OldConversation, measure

if TYPE_CHECKING:
    import pandas as pd

PrunedFrame: TypeAlias = "pd.DataFrame"
"""One row per conversation that was deleted, or would be."""

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


def load_storage(store: Path) -> "pd.DataFrame":
    """One row per conversation and kind of content, the largest first."""

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
    """The bytes of each conversation's own content."""
    n_bytes: dict[str, int] = {}
    for size in read_store(store, measure):
        if size.conversation_id is not None:
            n_bytes[size.conversation_id] = n_bytes.get(size.conversation_id, 0) + size.n_bytes
    return n_bytes


def pruned_frame(
    conversations: Sequence[OldConversation], n_bytes: Mapping[str, int], n_sealed: Mapping[str, int]
) -> PrunedFrame:
    """Return one row per conversation.

    Args:
        conversations: The conversations that were deleted, or would be.
        n_bytes: Sizes by conversation id, also of the conversations of subruns.
        n_sealed: Numbers of sealed runs by conversation id.
    """
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
    """The frame of rows that no SQL selects; `columns` are their pandas types by name."""
    from artifactflow_nb.analysis.frames.packing import as_frame, pack

    with closing(sqlite3.connect(":memory:")) as db:  # packing reads a cursor
        db.execute(f"CREATE TABLE frame ({', '.join(columns)})")
        db.executemany(f"INSERT INTO frame VALUES ({', '.join('?' * len(columns))})", rows)  # noqa: S608 - only `?`
        arrays = pack(db.execute("SELECT * FROM frame ORDER BY rowid"), list(columns.values()))
    return as_frame(list(columns), arrays, schema_name(name))
