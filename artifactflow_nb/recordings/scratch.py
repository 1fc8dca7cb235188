"""Stores for a moment: to hold rows of a file against, and to look at them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from artifactflow_nb.recordings.row_import import import_rows
from artifactflow_nb.recordings.rows import Rows
from artifactflow_nb.store.database import connect
from artifactflow_nb.store.schema import migrate


@contextmanager
def empty_store() -> Iterator[sqlite3.Connection]:
    """A store in memory without any rows."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.row_factory = sqlite3.Row
        migrate(db)
        yield db


def make_store(path: Path, rows: Rows) -> None:
    """Make a store that holds these rows just as they are; errors as of `import_rows`."""
    with closing(connect(path)) as db:
        db.execute("PRAGMA synchronous = OFF")  # it lives no longer than who looks at it
        migrate(db)
        db.execute("BEGIN")
        import_rows(db, rows, alone=True)
        db.execute("COMMIT")
