"""A conversation as its tree is drawn: every message with how its turn went and what that took.

Four queries, whatever the size of the conversation, each over its own messages and runs alone: 1,000 take about 15 ms.
Of the texts only the beginning is read.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from artifactflow_nb.store.conversations import require_conversation
from artifactflow_nb.store.message_tree import MessageTree
from artifactflow_nb.store.ownership import observed_status
from artifactflow_nb.store.schema import from_us
from artifactflow_nb.store.storable import to_json

QUESTION_CHARS = RESPONSE_CHARS = 300

_MESSAGES = """
SELECT m.message_id, m.parent_id, substr(m.content, 1, ?2), substr(m.response, 1, ?3), m.status, m.created_at,
    r.run_id, r.flow, r.owner, r.completed_at - r.started_at, r.error_message
FROM messages m LEFT JOIN runs r ON r.rowid = (SELECT max(rowid) FROM runs WHERE message_id = m.message_id)
WHERE m.conversation_id = ?1 ORDER BY m.rowid
"""
_SPENT = """
SELECT r.run_id, sum(input_tokens + output_tokens), sum(cost_usd)
FROM runs r CROSS JOIN llm_calls c ON c.run_id = r.run_id
WHERE r.conversation_id = ? GROUP BY r.run_id
"""
_WAITED = """
SELECT run_id, sum(max(ended - began, 0)) / 1000.0
FROM (
    SELECT e.run_id, e.ts AS began,
        (SELECT ts FROM events WHERE run_id = e.run_id AND seq > e.seq ORDER BY seq LIMIT 1) AS ended
    FROM runs r CROSS JOIN events e USING (run_id)
    WHERE r.conversation_id = ? AND r.completed_at IS NOT NULL
    AND EXISTS (SELECT 1 FROM approvals WHERE run_id = r.run_id)
    AND e.event_type = 'complete' AND json_extract(e.data_json, '$.interrupted')
)
GROUP BY run_id
"""
"""The time of `metrics.WAITED`, of one conversation's ended runs: that one goes through the runs of the whole store."""
_WRITTEN = """
SELECT message_id, count(DISTINCT artifact_id) FROM artifact_versions
WHERE conversation_id = ? AND artifact_id <> 'task_plan' GROUP BY message_id
"""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A message as a node of the tree.

    Attributes:
        message_id: Its id.
        parent_id: The message before it on its branch; None for a root.
        question: The first 300 characters of what was asked.
        response: The first 300 characters of the answer; None while there is none.
        status: `running`, `waiting`, `completed`, `failed`, `cancelled`, or `interrupted`: its process is gone.
        created_at: When it was asked.
        run_id: The run that answers it; None for a turn that no run made.
        flow: The run's flow; None without a run.
        error: What the run failed of; None if it did not.
        total_tokens: Input and output tokens of all its model calls; None if unknown.
        active_ms: How long it took without the time in which it waited for a person; None until it has ended.
        cost_usd: What it cost; None if unknown.
        n_artifacts: How many artifacts were written in it, plans not counted.
        is_on_active_branch: Whether it is the active message or one before that.
        is_active: Whether it is the message that a new question continues.
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
    active_ms: float | None = None
    cost_usd: float | None = None
    n_artifacts: int = 0
    is_on_active_branch: bool = False
    is_active: bool = False


def load_entries(db: sqlite3.Connection, folder: Path, conversation_id: str) -> tuple[TreeEntry, ...]:
    """All messages of a conversation, the oldest first: roots and siblings are by age, parents before children.

    Args:
        db: A connection to the store.
        folder: The store's folder, where it can be seen which runs still have a process.
        conversation_id: The conversation.

    Errors: `NotFound` for an unknown conversation.
    """
    active = require_conversation(db, conversation_id)["active_message_id"]
    about = (conversation_id,)
    rows = db.execute(_MESSAGES, (conversation_id, QUESTION_CHARS, RESPONSE_CHARS)).fetchall()
    tree = MessageTree(conversation_id, ((row[0], row[1]) for row in rows))
    known = _Known(
        folder,
        active,
        frozenset(tree.path(active) if active else ()),
        {row[0]: (row[1], row[2]) for row in db.execute(_SPENT, about)},
        {row[0]: row[1] for row in db.execute(_WAITED, about)},
        {row[0]: row[1] for row in db.execute(_WRITTEN, about)},
    )
    return tuple(known.entry(row) for row in rows)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the rows of messages are completed with: tokens with cost, and waiting, by run; artifacts by message."""

    folder: Path
    active: str | None
    branch: frozenset[str]
    spent: Mapping[str, tuple[int | None, float | None]]
    waited: Mapping[str, float]
    written: Mapping[str, int]

    def entry(self, row: sqlite3.Row) -> TreeEntry:
        message_id, parent_id, question, response, status, created_at, run_id, flow, owner, total_us, error = row
        tokens, cost = self.spent.get(run_id, (None, None))
        return TreeEntry(
            message_id,
            parent_id,
            question,
            response,
            observed_status(self.folder, status, owner),
            from_us(created_at),
            run_id,
            flow,
            error,
            tokens,
            None if total_us is None else max(total_us / 1000 - self.waited.get(run_id, 0.0), 0.0),
            cost,
            self.written.get(message_id, 0),
            message_id in self.branch,
            message_id == self.active,
        )


def load_texts(db: sqlite3.Connection, message_ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The whole question and the whole answer, empty if there is none, of some messages."""
    sql = (
        "SELECT message_id, content, coalesce(response, '') FROM messages "
        "WHERE message_id IN (SELECT value FROM json_each(?))"
    )
    return {row[0]: (row[1], row[2]) for row in db.execute(sql, (to_json(list(message_ids)),))}


def data_version(db: sqlite3.Connection) -> int:
    """A number that is another after each write through another connection, whichever process made it."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])
