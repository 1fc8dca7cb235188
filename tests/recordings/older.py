"""A store as an earlier release left it: its tables are those of that schema, and the ids of calls were drawn."""

import re
import secrets
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from artifactflow_nb.recordings.rows import TABLES
from artifactflow_nb.store.schema import _STEPS

_DRAWN = re.compile(r"\b(call|tool|req)-[0-9a-f]{16}\b")


def make_older(store: Path, steps: int) -> None:
    """Put the rows of a store into one of an earlier schema, in its place."""
    old = store.with_name("old.db")
    names: dict[str, str] = {}

    def drawn(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return _DRAWN.sub(lambda found: names.setdefault(found[0], f"{found[1]}-{secrets.token_hex(8)}"), value)

    with closing(sqlite3.connect(old, isolation_level=None)) as db:
        for step in _STEPS[:steps]:
            db.executescript(step)
        db.execute(f"PRAGMA user_version = {steps}")
        db.execute("ATTACH ? AS new", (str(store),))
        for table in TABLES:
            known = [{row[1] for row in db.execute(f"PRAGMA {name}.table_info({table})")} for name in ("main", "new")]
            if columns := sorted(known[0] & known[1]):
                marks = ", ".join("?" * len(columns))
                for row in db.execute(f"SELECT {', '.join(columns)} FROM new.{table}").fetchall():  # noqa: S608 - names
                    values = [drawn(value) for value in row]
                    db.execute(f"INSERT INTO main.{table} ({', '.join(columns)}) VALUES ({marks})", values)  # noqa: S608 - names
    for file in store.parent.glob(f"{store.name}*"):
        file.unlink()
    shutil.move(old, store)
