"""Long conversations, stored without runs."""

from contextlib import closing

import artifactflow_nb as af
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.store.database import connect


def add_conversation(wb: af.Workbench, n_messages: int, answer: str) -> str:
    """Store a conversation of one branch, `Question 0?` and so on with the same answer; return its id."""
    with closing(connect(wb.data_dir / STORE_FILE)) as db:
        db.execute("INSERT INTO conversations VALUES ('conv-1', 'Long', ?, 0)", (f"m{n_messages - 1}",))
        rows = ((f"m{n}", f"m{n - 1}" if n else None, f"Question {n}?", answer, n) for n in range(n_messages))
        db.execute("BEGIN")
        db.executemany("INSERT INTO messages VALUES (?, 'conv-1', ?, ?, ?, 'completed', ?)", rows)
        db.execute("COMMIT")
    return "conv-1"
