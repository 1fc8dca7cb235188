"""The contents of a store: counts and newest runs, its size, conversations to prune, and copies."""

import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from artifactflow_nb.core.approvals import DENIED_ERRORS
from artifactflow_nb.core.messages import WITHOUT_LANGUAGE_MODEL
from artifactflow_nb.core.text.format import duration, usd
from artifactflow_nb.errors import RunCancelled, StoreError, UsageError
from artifactflow_nb.store.approvals import load_open_requests
from artifactflow_nb.store.database import connect, store_errors
from artifactflow_nb.store.encoding import validate_row_count
from artifactflow_nb.store.runs import StoredRun, load_run, load_unfinished
from artifactflow_nb.store.schema import from_microseconds, stored_plugin_tables, to_microseconds

_KINDS = {
    "messages": ("conversations", "messages"),
    "runs": ("runs", "text_uses"),
    "model calls": ("llm_calls",),
    "tool calls": ("tool_calls",),
    "approvals": ("approvals",),
    "jobs": ("plan_jobs",),
    "events": ("events",),
    "artifacts": ("artifact_versions", "deleted_versions"),
    "sources": ("sources", "source_metadata", "sections", "passages", "passage_words_content", "passage_words_data",
                "passage_words_docsize", "passage_words_idx", "passage_vectors"),
}  # fmt: skip
"""Tables by kind of content; the texts that rows share are a kind of their own."""

_TEXTS = """
WITH owners AS (
    SELECT u.sha256, min(conversation_id) AS first, max(conversation_id) AS last
    FROM text_uses u JOIN runs USING (run_id) GROUP BY u.sha256
)
SELECT iif(first = last, first, NULL) AS conversation_id, count(*), sum({size})
FROM texts LEFT JOIN owners USING (sha256) GROUP BY 1
"""
"""Number and size of texts by conversation; NULL for texts that several conversations use."""

_CONVERSATIONS = """
SELECT c.conversation_id, c.title, coalesce(max(m.created_at), c.created_at) AS updated_at, count(m.message_id)
FROM conversations c LEFT JOIN messages m USING (conversation_id)
WHERE NOT EXISTS (
    SELECT 1 FROM runs r JOIN runs p ON p.run_id = r.parent_run_id WHERE r.conversation_id = c.conversation_id
)
GROUP BY c.conversation_id ORDER BY updated_at DESC, c.rowid DESC
"""
"""Conversations, the newest first, without conversations of subruns."""

_FAMILY = """
WITH RECURSIVE family (conversation_id) AS (
    SELECT ?1 UNION
    SELECT r.conversation_id FROM family f JOIN runs p USING (conversation_id) JOIN runs r ON r.parent_run_id = p.run_id
)
SELECT f.conversation_id, r.run_id, r.status FROM family f LEFT JOIN runs r USING (conversation_id) ORDER BY r.rowid
"""
"""The runs of a conversation and of the conversations of its subruns, the oldest first."""

KeptConversations = Callable[[sqlite3.Connection], Collection[str]]
KEPT_CONVERSATIONS: dict[str, KeptConversations] = {}
"""By plugin, the function that returns the ids of the conversations that are never pruned."""

_PAGE_FIGURES = ("page_size", "page_count", "freelist_count")


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """The size of one kind of content.

    Attributes:
        conversation_id: The conversation; None for content of no single conversation.
        n_rows: Number of rows; None for `free pages` and `indexes and pages`, which have no rows.
        n_bytes: Bytes of the stored values, without indexes and empty space in pages.
    """

    conversation_id: str | None
    kind: str
    n_rows: int | None
    n_bytes: int


@dataclass(frozen=True, slots=True)
class OldConversation:
    """A conversation that can be deleted, together with the conversations of its subruns."""

    conversation_ids: tuple[str, ...]
    title: str
    updated_at: datetime
    n_messages: int
    run_ids: tuple[str, ...]


def measure(db: sqlite3.Connection) -> list[StoredBytes]:
    """Measure the sizes of all content, then of unused pages, and of indexes with empty space in pages."""
    sizes: list[StoredBytes] = []
    of_plugins = {table.name: (table.name,) for table in stored_plugin_tables(db)}
    for kind, tables in {**_KINDS, **of_plugins}.items():
        n_rows: dict[str | None, int] = defaultdict(int)
        n_bytes: dict[str | None, int] = defaultdict(int)
        for table in tables:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            n_bytes_sql = " + ".join(f'coalesce(length(CAST(t."{name}" AS BLOB)), 0)' for name in columns)
            column, join = "t.conversation_id" if "conversation_id" in columns else "NULL", ""
            if "conversation_id" not in columns and "run_id" in columns:
                column, join = "r.conversation_id", "JOIN runs r USING (run_id)"
            sql = f"SELECT {column}, count(*), coalesce(sum({n_bytes_sql}), 0) FROM {table} t {join} GROUP BY 1"  # noqa: S608 - names of the schema
            for conversation_id, rows, size in db.execute(sql):
                n_rows[conversation_id] += rows
                n_bytes[conversation_id] += size
        sizes += (StoredBytes(key, kind, n_rows[key], n_bytes[key]) for key in n_rows if n_rows[key])
    texts = db.execute(_TEXTS.format(size="length(CAST(content AS BLOB)) + length(texts.sha256)"))
    sizes += (StoredBytes(key, "texts", rows, size) for key, rows, size in texts)
    page, total, free = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in _PAGE_FIGURES)
    content = sum(size.n_bytes for size in sizes)
    sizes.append(StoredBytes(None, "free pages", None, page * free))
    sizes.append(StoredBytes(None, "indexes and pages", None, max(page * (total - free) - content, 0)))
    return sizes


def old_conversations(db: sqlite3.Connection, before: int | None, keep: int) -> Iterator[OldConversation]:
    """Yield the conversations to prune, newest first, except those that a plugin keeps or that have unfinished runs.

    Args:
        db: A connection.
        before: Time in microseconds since 1970 before which the newest question was asked; None for any time.
        keep: Number of the newest conversations to exclude.
    """
    protected = {conversation_id for find in KEPT_CONVERSATIONS.values() for conversation_id in find(db)}
    rows = [row for row in db.execute(_CONVERSATIONS).fetchall() if row[0] not in protected]
    for conversation_id, title, updated_at, n_messages in rows[keep:]:
        if before is not None and updated_at >= before:
            continue
        family = db.execute(_FAMILY, (conversation_id,)).fetchall()
        if any(status in {"running", "waiting"} for _, _, status in family):
            continue
        yield OldConversation(
            tuple(dict.fromkeys(row[0] for row in family)),
            title,
            from_microseconds(updated_at),
            n_messages,
            tuple(row[1] for row in family if row[0] == conversation_id and row[1] is not None),
        )


def copy_store(store: Path, target: Path) -> None:
    """Copy the state of a store at one moment to a file, while engines may write to the store.

    Errors: `UsageError` if the target exists or its folder is missing; `StoreError`.
    """
    if target.exists():
        raise UsageError(f"{target} exists already. Choose another path, or remove it first.")
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}. Choose another path.") from error
    try:
        with store_errors(store), closing(connect(store, read_only=True)) as db:
            try:
                with closing(sqlite3.connect(target)) as copy:
                    db.backup(copy)  # all pages in one step: one snapshot, which does not wait for writers
                    copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a write-ahead log
            except sqlite3.Error as error:
                raise StoreError(
                    f"The copy {target} could not be written ({error}) and was removed. Try another path."
                ) from error
    except BaseException:
        for name in (target, target.with_name(f"{target.name}-wal"), target.with_name(f"{target.name}-shm")):
            with suppress(OSError):
                name.unlink()
        raise


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run in a list, with the usage of its calls and subruns; the cost is None if the cost of a call is unknown.

    `n_failed` counts the tool calls that failed, without denied and cancelled calls.
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
        """The number of tokens, with a mark for an estimate; a dash if no language model was used."""
        return f"{'≈ ' if self.is_estimated else ''}{self.n_tokens:,}" if self.n_tokens else "–"

    @property
    def cost_text(self) -> str:
        """The cost, or a dash for an unknown cost."""
        return "–" if self.cost_usd is None else f"{'≈ ' if self.is_estimated else ''}{usd(self.cost_usd)}"


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The calls of a model with their tokens and cost; the cost is None if the cost of a call is unknown."""

    model: str
    n_calls: int
    n_tokens: int
    is_estimated: bool
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Home:
    """The contents of a store for the home panel and the card of a workbench.

    Attributes:
        unfinished: The running and waiting runs, the oldest first.
        runs: The newest runs, without subruns.
        today: The usage of each model since midnight.
        n_requests: The number of open requests.
    """

    unfinished: Sequence[StoredRun]
    runs: Sequence[RunEntry]
    today: Sequence[ModelUsage]
    n_conversations: int
    n_sources: int
    n_requests: int


_USAGE = f"""coalesce(sum(input_tokens + output_tokens)
    FILTER (WHERE provider NOT IN {WITHOUT_LANGUAGE_MODEL}), 0) AS n_tokens,
    coalesce(max(tokens_estimated), 0) AS is_estimated,
    iif(count(*) = count(cost_usd), sum(cost_usd), NULL) AS cost_usd"""


def load_home(db: sqlite3.Connection, limit: int, since: datetime) -> Home:
    """Load the contents for the home panel: at most `limit` runs, and the usage since a time."""
    counts = "SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM sources)"
    n_conversations, n_sources = db.execute(counts).fetchone()
    newest = "SELECT run_id FROM runs WHERE parent_run_id IS NULL ORDER BY rowid DESC LIMIT ?"
    usage = f"""
        SELECT coalesce(response_model, request_model) AS model, count(*) AS n_calls, {_USAGE} FROM llm_calls
        WHERE started_at >= ? AND provider NOT IN {WITHOUT_LANGUAGE_MODEL} AND input_tokens IS NOT NULL
        GROUP BY 1 ORDER BY n_tokens DESC
    """  # noqa: S608 - constants only
    return Home(
        unfinished=load_unfinished(db),
        runs=[load_run_entry(db, row["run_id"]) for row in db.execute(newest, (limit,)).fetchall()],
        today=[
            ModelUsage(row["model"], row["n_calls"], row["n_tokens"], bool(row["is_estimated"]), row["cost_usd"])
            for row in db.execute(usage, (to_microseconds(since),))
        ],
        n_conversations=n_conversations,
        n_sources=n_sources,
        n_requests=len(load_open_requests(db)),
    )


def load_run_entry(db: sqlite3.Connection, run_id: str) -> RunEntry:
    """Load a run with its usage; `NotFound` for an unknown id."""
    with_subruns = "run_id IN (SELECT ?1 UNION ALL SELECT run_id FROM runs WHERE parent_run_id = ?1)"
    usage = f"SELECT {_USAGE} FROM llm_calls WHERE input_tokens IS NOT NULL AND {with_subruns}"  # noqa: S608 - constants only
    used = db.execute(usage, (run_id,)).fetchone()
    not_failed = json.dumps([*DENIED_ERRORS, RunCancelled.__name__])
    failed = f"SELECT count(*) FROM tool_calls WHERE success = 0 AND {with_subruns}"  # noqa: S608 - constants only
    failed += " AND coalesce(error_type, '') NOT IN (SELECT value FROM json_each(?2))"
    n_failed = db.execute(failed, (run_id, not_failed)).fetchone()[0]
    return RunEntry(load_run(db, run_id), used["n_tokens"], bool(used["is_estimated"]), used["cost_usd"], n_failed)


def load_newest(db: sqlite3.Connection, limit: int) -> list[StoredRun]:
    """Load the newest runs, the newest first; `UsageError` for an invalid limit."""
    parameters = (validate_row_count("limit", limit),)
    rows = db.execute("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT ?", parameters).fetchall()
    return [load_run(db, row["run_id"]) for row in rows]


def load_models(db: sqlite3.Connection, providers: Collection[str]) -> list[str]:
    """Load the names of the models that past requests to the providers used."""
    models = "SELECT DISTINCT provider, request_model FROM llm_calls ORDER BY 2"
    return [row["request_model"] for row in db.execute(models) if row["provider"] in providers]
