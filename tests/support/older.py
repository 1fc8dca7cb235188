"""Stores of earlier releases, with their schema."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from artifactflow_nb.recording.rows import TABLES
from artifactflow_nb.store.database import connect
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.store.migrations import steps_between
from artifactflow_nb.store.prompts import resolve

RELEASE_0_1_0 = 9
"""The schema version of that release."""

NAMES_NOW = {"announced": "published"}
"""Columns of earlier schemas that have another name now."""


def make_older(store: Path, version: int) -> None:
    """Replace a store by one with the same rows in an earlier schema."""
    old = store.with_name("old.db")
    with closing(sqlite3.connect(old, isolation_level=None)) as db:
        for step in steps_between(0, version):
            db.executescript(step)
        db.execute(f"PRAGMA user_version = {version}")
        write_prompts_whole(store)
        db.execute("ATTACH ? AS new", (str(store),))
        for table in (*TABLES, "sources", "sections"):
            known = [{row[1] for row in db.execute(f"PRAGMA {name}.table_info({table})")} for name in ("main", "new")]
            columns = {name: now for name in sorted(known[0]) if (now := NAMES_NOW.get(name, name)) in known[1]}
            if columns:
                marks = ", ".join("?" * len(columns))
                for row in db.execute(f"SELECT {', '.join(columns.values())} FROM new.{table}").fetchall():  # noqa: S608 - names
                    db.execute(f"INSERT INTO main.{table} ({', '.join(columns)}) VALUES ({marks})", tuple(row))  # noqa: S608 - names
    for file in store.parent.glob(f"{store.name}*"):
        file.unlink()
    shutil.move(old, store)


def write_prompts_whole(store: Path) -> None:
    """Store every prompt as a list of all its messages, as releases up to 0.1.0 did."""
    with closing(connect(store)) as db:
        rows = db.execute("SELECT call_id, request_base, request_json FROM llm_calls ORDER BY rowid").fetchall()
        whole = [(to_json(prompt), key) for key, prompt in resolve(map(dict, rows), list).items()]
        db.executemany("UPDATE llm_calls SET request_base = NULL, request_json = ? WHERE call_id = ?", whole)
