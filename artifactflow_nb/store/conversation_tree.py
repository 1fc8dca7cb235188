"""The entries of a conversation's tree panel: every message with its status, tokens, time and cost.

A conversation of any size takes four queries, each limited to its own messages and runs: 1,000 messages take about 15
ms. Only the first characters of texts are read.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from artifactflow_nb.core.messages import WITHOUT_LANGUAGE_MODEL
from artifactflow_nb.store.conversations import MessageTree, require_conversation
from artifactflow_nb.store.encoding import from_row, to_json
from artifactflow_nb.store.ownership import effective_status
from artifactflow_nb.store.runs import START_LOCK

QUESTION_CHARS = RESPONSE_CHARS = 300

_MESSAGES = f"""
SELECT m.message_id, m.parent_id, substr(m.content, 1, ?2) AS question, substr(m.response, 1, ?3) AS response, m.status,
    m.created_at, r.run_id, r.flow, r.error_message AS error, r.owner, {START_LOCK} AS start_lock,
    (r.completed_at - r.started_at) / 1000.0 AS total_ms
FROM messages m LEFT JOIN runs r ON r.rowid = (SELECT max(rowid) FROM runs WHERE message_id = m.message_id)
WHERE m.conversation_id = ?1 ORDER BY m.rowid
"""  # noqa: S608 - a constant
_USAGE = f"""
SELECT r.run_id, sum(iif(provider IN {WITHOUT_LANGUAGE_MODEL}, 0, input_tokens + output_tokens)), sum(cost_usd),
    coalesce(max(tokens_estimated), 0)
FROM runs r CROSS JOIN llm_calls c ON c.run_id = r.run_id
WHERE r.conversation_id = ? GROUP BY r.run_id
"""  # noqa: S608 - a constant
_ARTIFACT_COUNTS = """
SELECT message_id, count(DISTINCT artifact_id) FROM artifact_versions
WHERE conversation_id = ? AND artifact_id <> 'task_plan' GROUP BY message_id
"""


def load_retry(db: sqlite3.Connection, message_id: str) -> str | None:
    """Return the newest run that answers the question of a message again, on a later branch, or None."""
    sql = """
        SELECT r.run_id FROM messages q JOIN messages m ON m.conversation_id = q.conversation_id
            AND m.parent_id IS q.parent_id AND m.content = q.content AND m.rowid > q.rowid
        JOIN runs r ON r.message_id = m.message_id WHERE q.message_id = ? ORDER BY r.rowid DESC LIMIT 1
    """
    row = db.execute(sql, (message_id,)).fetchone()
    return None if row is None else str(row["run_id"])


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A message as a node of the tree.

    Attributes:
        parent_id: The previous message of the branch; None for a root.
        question: The first 300 characters of the question.
        response: The first 300 characters of the answer, or None.
        status: `running`, `waiting`, `completed`, `failed`, `cancelled` or `abandoned`.
        run_id: The run that answers the question; None for a message that was added without a run.
        flow: The run's flow, or None.
        error: The run's error message, or None.
        total_tokens: Input and output tokens of all model calls of the run; None if unknown.
        total_ms: Time of the run from its start to its end, with waits; None until it has ended.
        cost_usd: Cost of the run; None if unknown.
        is_estimated: Whether the tokens and the cost contain estimates.
        n_artifacts: Number of artifacts that the run wrote, without plans.
        is_on_active_branch: Whether the message is the active message or above the active message.
        is_active: Whether a new question continues this message.
    """

    message_id: str
    parent_id: str | None
    question: str
    response: str | None
    status: str
    created_at: datetime
    run_id: str | None = None
    flow: str | None = None
    error: str | None = None
    total_tokens: int | None = None
    total_ms: float | None = None
    cost_usd: float | None = None
    is_estimated: bool = False
    n_artifacts: int = 0
    is_on_active_branch: bool = False
    is_active: bool = False


def load_tree_entries(db: sqlite3.Connection, folder: Path, conversation_id: str) -> tuple[TreeEntry, ...]:
    """Load all messages of a conversation, the oldest first, so parents come before children.

    Args:
        db: A connection to the store.
        folder: The store's folder, whose locks determine which runs are abandoned.
        conversation_id: The conversation.

    Errors: `NotFound` for an unknown conversation.
    """
    active = require_conversation(db, conversation_id)["active_message_id"]
    parameters = (conversation_id,)
    rows = db.execute(_MESSAGES, (conversation_id, QUESTION_CHARS, RESPONSE_CHARS)).fetchall()
    tree = MessageTree(conversation_id, ((row["message_id"], row["parent_id"]) for row in rows))
    branch = frozenset(tree.path(active) if active else ())
    usage = {run_id: used for run_id, *used in db.execute(_USAGE, parameters)}
    artifact_counts = dict(db.execute(_ARTIFACT_COUNTS, parameters).fetchall())
    entries = []
    for row in rows:
        message_id, run_id = row["message_id"], row["run_id"]
        tokens, cost, is_estimated = usage.get(run_id, (None, None, 0))
        entry = from_row(
            TreeEntry,
            row,
            status=effective_status(folder, row["status"], row["owner"], row["start_lock"]),
            total_tokens=tokens,
            cost_usd=cost,
            is_estimated=bool(is_estimated),
            n_artifacts=artifact_counts.get(message_id, 0),
            is_on_active_branch=message_id in branch,
            is_active=message_id == active,
        )
        entries.append(entry)
    return tuple(entries)


def load_texts(db: sqlite3.Connection, message_ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Load the full question and answer of messages, by message id; a missing answer is an empty string."""
    sql = (
        "SELECT message_id, content, coalesce(response, '') FROM messages "
        "WHERE message_id IN (SELECT value FROM json_each(?))"
    )
    return {row[0]: (row[1], row[2]) for row in db.execute(sql, (to_json(list(message_ids)),))}


def data_version(db: sqlite3.Connection) -> int:
    """Return a number that changes after each write through another connection, including other processes."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])
