"""Counts of a store's contents, and its newest runs."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from artifactflow_nb.core.approvals import DENIED_ERRORS
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.core.text.format import duration, usd
from artifactflow_nb.errors import RunCancelled
from artifactflow_nb.store.approvals import load_open_requests
from artifactflow_nb.store.encoding import validate_row_count
from artifactflow_nb.store.migrations import to_microseconds
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


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run in a list, with the usage of its calls and those of its subruns; the cost is None if one is unknown.

    `n_failed` counts the tool calls that failed, without those that were denied or cancelled.
    """

    run: StoredRun
    n_tokens: int
    is_estimated: bool
    cost_usd: float | None
    n_failed: int

    @property
    def time_text(self) -> str:
        """The time from start to end; empty for an unfinished run."""
        return "" if self.time_ms is None else duration(self.time_ms)

    @property
    def time_ms(self) -> float | None:
        """Milliseconds from start to end; None for an unfinished run."""
        run = self.run
        return (run.completed_at - run.started_at).total_seconds() * 1000 if run.completed_at else None

    @property
    def tokens_text(self) -> str:
        """The number of tokens, marked if it is estimated."""
        return f"{'≈ ' if self.is_estimated else ''}{self.n_tokens:,}"

    @property
    def cost_text(self) -> str:
        """The cost; a dash if it is unknown."""
        return "–" if self.cost_usd is None else usd(self.cost_usd)


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The calls of a model, their tokens and their cost; None if one is unknown."""

    model: str
    n_calls: int
    n_tokens: int
    is_estimated: bool
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Home:
    """The contents of a store at a glance.

    Attributes:
        unfinished: The running and waiting runs, the oldest first.
        runs: The newest runs, without subruns.
        today: The usage of each model since midnight.
    """

    unfinished: Sequence[StoredRun]
    runs: Sequence[RunEntry]
    today: Sequence[ModelUsage]


_USAGE = """coalesce(sum(input_tokens + output_tokens), 0) AS n_tokens,
    coalesce(max(tokens_estimated), 0) AS is_estimated,
    iif(count(*) = count(cost_usd), sum(cost_usd), NULL) AS cost_usd"""


def load_home(db: sqlite3.Connection, limit: int, since: datetime) -> Home:
    """Load the home with at most `limit` runs, and the usage since a time."""
    newest = "SELECT run_id FROM runs WHERE parent_run_id IS NULL ORDER BY rowid DESC LIMIT ?"
    return Home(
        unfinished=load_unfinished(db),
        runs=[load_run_entry(db, row["run_id"]) for row in db.execute(newest, (limit,)).fetchall()],
        today=_load_usage(db, since),
    )


def load_run_entry(db: sqlite3.Connection, run_id: str) -> RunEntry:
    """Load a run with its usage; `NotFound` for an unknown id."""
    with_subruns = "run_id IN (SELECT ?1 UNION ALL SELECT run_id FROM runs WHERE parent_run_id = ?1)"
    usage = f"SELECT {_USAGE} FROM llm_calls WHERE error_type IS NULL AND {with_subruns}"  # noqa: S608 - constants only
    used = db.execute(usage, (run_id,)).fetchone()
    not_failed = json.dumps([*DENIED_ERRORS, RunCancelled.__name__])
    failed = f"SELECT count(*) FROM tool_calls WHERE success = 0 AND {with_subruns}"  # noqa: S608 - constants only
    failed += " AND coalesce(error_type, '') NOT IN (SELECT value FROM json_each(?2))"
    n_failed = db.execute(failed, (run_id, not_failed)).fetchone()[0]
    return RunEntry(load_run(db, run_id), used["n_tokens"], bool(used["is_estimated"]), used["cost_usd"], n_failed)


def load_conversation_costs(db: sqlite3.Connection, conversation_ids: Sequence[str]) -> dict[str, float | None]:
    """The cost of all calls of each conversation; None if one is unknown. A conversation without calls is missing."""
    sql = f"""
        SELECT runs.conversation_id, {_USAGE} FROM llm_calls JOIN runs USING (run_id)
        WHERE llm_calls.error_type IS NULL AND runs.conversation_id IN (SELECT value FROM json_each(?)) GROUP BY 1
    """  # noqa: S608 - constants only
    rows = db.execute(sql, (json.dumps(list(conversation_ids)),))
    return {row["conversation_id"]: row["cost_usd"] for row in rows}


def _load_usage(db: sqlite3.Connection, since: datetime) -> list[ModelUsage]:
    sql = f"""
        SELECT coalesce(response_model, request_model) AS model, count(*) AS n_calls, {_USAGE} FROM llm_calls
        WHERE started_at >= ? AND provider <> ? AND error_type IS NULL GROUP BY 1 ORDER BY n_tokens DESC
    """  # noqa: S608 - constants only
    rows = db.execute(sql, (to_microseconds(since), COMPUTED_PROVIDER))
    return [
        ModelUsage(row["model"], row["n_calls"], row["n_tokens"], bool(row["is_estimated"]), row["cost_usd"])
        for row in rows
    ]


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
