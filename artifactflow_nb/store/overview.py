"""Counts of a store's contents, and its newest runs."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.store.approvals import load_open_requests
from artifactflow_nb.store.encoding import validate_row_count
from artifactflow_nb.store.plans import load_plans
from artifactflow_nb.store.runs import StoredRun, load_run, load_unfinished


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts of a store's contents, and its newest runs.

    Attributes:
        n_conversations: Number of conversations.
        n_sources: Number of indexed sources.
        n_requests: Number of open approval requests.
        unfinished: The running and waiting runs, the oldest first.
        newest: The newest runs, the newest first.
        tokens: Input and output tokens of each run in `newest`.
        plans: Progress of the plans of each run in `newest`; empty for a run without plans.
    """

    n_conversations: int
    n_sources: int
    n_requests: int
    unfinished: Sequence[StoredRun]
    newest: Sequence[StoredRun]
    tokens: Sequence[int]
    plans: Sequence[str]


def load_overview(db: sqlite3.Connection, n_newest: int) -> Overview:
    """Load the overview with the `n_newest` newest runs."""
    newest = load_newest(db, n_newest)
    counts = "SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM sources)"
    n_conversations, n_sources = db.execute(counts).fetchone()
    tokens = "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM llm_calls WHERE run_id = ?"
    return Overview(
        n_conversations=n_conversations,
        n_sources=n_sources,
        n_requests=len(load_open_requests(db)),
        unfinished=load_unfinished(db),
        newest=newest,
        tokens=[db.execute(tokens, (run.run_id,)).fetchone()[0] for run in newest],
        plans=[", ".join(plan.progress for plan in load_plans(db, run.run_id)) for run in newest],
    )


def load_newest(db: sqlite3.Connection, limit: int) -> list[StoredRun]:
    """The newest runs, the newest first; `UsageError` for an invalid limit."""
    parameters = (validate_row_count("limit", limit),)
    rows = db.execute("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT ?", parameters).fetchall()
    return [load_run(db, row["run_id"]) for row in rows]


def load_models(db: sqlite3.Connection) -> list[str]:
    """The names of the models in past requests."""
    models = "SELECT DISTINCT request_model FROM llm_calls WHERE provider <> ? ORDER BY 1"
    return [row[0] for row in db.execute(models, (COMPUTED_PROVIDER,))]
