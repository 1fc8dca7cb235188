"""What a store holds, in figures, and its newest runs."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from artifactflow_nb.store.plans import load_plans
from artifactflow_nb.store.requests import load_open_requests
from artifactflow_nb.store.runs import StoredRun, load_run, load_unfinished
from artifactflow_nb.store.storable import row_count


@dataclass(frozen=True, slots=True)
class Overview:
    """A store in figures.

    Attributes:
        n_conversations: Its conversations.
        n_sources: Its indexed sources.
        n_requests: The requests that wait for a decision.
        unfinished: The runs that run or wait, the oldest first.
        newest: The newest runs, the newest first.
        tokens: Input and output tokens of these, by run.
        plans: How far the plans of these are, by run; empty for one without.
    """

    n_conversations: int
    n_sources: int
    n_requests: int
    unfinished: Sequence[StoredRun]
    newest: Sequence[StoredRun]
    tokens: Sequence[int]
    plans: Sequence[str]


def load_overview(db: sqlite3.Connection, n_newest: int) -> Overview:
    """The figures, and so many of the newest runs."""
    newest = load_newest(db, n_newest)
    return Overview(
        n_conversations=_number(db, "SELECT count(*) FROM conversations"),
        n_sources=_number(db, "SELECT count(*) FROM sources"),
        n_requests=len(load_open_requests(db)),
        unfinished=load_unfinished(db),
        newest=newest,
        tokens=[_tokens(db, run.run_id) for run in newest],
        plans=[", ".join(plan.progress for plan in load_plans(db, run.run_id)) for run in newest],
    )


def load_newest(db: sqlite3.Connection, limit: int) -> list[StoredRun]:
    """The newest runs, the newest first; `UsageError` for a limit that can be no count of rows."""
    wanted = (row_count("limit", limit),)
    rows = db.execute("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT ?", wanted).fetchall()
    return [load_run(db, row["run_id"]) for row in rows]


def load_models(db: sqlite3.Connection) -> list[str]:
    """The names of the models that past calls asked for."""
    return [row[0] for row in db.execute("SELECT DISTINCT request_model FROM llm_calls ORDER BY 1")]


def _tokens(db: sqlite3.Connection, run_id: str) -> int:
    sql = "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM llm_calls WHERE run_id = ?"
    return _number(db, sql, run_id)


def _number(db: sqlite3.Connection, sql: str, *values: str) -> int:
    return int(db.execute(sql, values).fetchone()[0])
