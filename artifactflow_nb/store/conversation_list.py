"""The list of conversations, and which of them hold given words.

A search reads through all texts: 1,000 messages of 5 KB take about 8 ms, and Chinese needs no rule of its own.
"""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from artifactflow_nb.store.schema import from_us
from artifactflow_nb.store.storable import row_count
from artifactflow_nb.text.cards import Card, Code, Rows, Shown
from artifactflow_nb.text.figures import moment

BEFORE, EXCERPT_CHARS = 50, 160

_LIST = """
SELECT c.*, page.*, (SELECT count(DISTINCT artifact_id) FROM artifact_versions v
                     WHERE v.conversation_id = c.conversation_id AND artifact_id <> 'task_plan') AS n_artifacts
FROM (
    SELECT c.rowid AS place, count(m.message_id) AS n_messages, coalesce(max(m.created_at), c.created_at) AS updated_at,
           count(m.message_id) - count(DISTINCT m.parent_id) AS n_branches
    FROM conversations c LEFT JOIN messages m USING (conversation_id)
    WHERE ?1 IS NULL OR c.conversation_id IN (SELECT value FROM json_each(?1))
    GROUP BY c.rowid ORDER BY updated_at DESC, place DESC LIMIT ?2 OFFSET ?3
) AS page JOIN conversations c ON c.rowid = page.place ORDER BY updated_at DESC, place DESC
"""


@dataclass(frozen=True, slots=True)
class Hit:
    """Where the words were found: the newest message that holds them, and the text around the first of them.

    A hit in the title alone names no message.
    """

    message_id: str | None = None
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class Conversation(Shown):
    """A conversation as lists show it.

    Attributes:
        conversation_id: Its id.
        title: Its title: the first question, unless it was given another.
        active_message_id: The message that a new question continues; None while there is none.
        created_at: When it was started.
        updated_at: When its newest question was asked.
        n_messages: Its messages on all branches.
        n_branches: Its branches: messages that none follows.
        n_artifacts: Its artifacts on all branches, plans not counted.
        hit: Where the words of a search were found; None in a list.
    """

    conversation_id: str
    title: str
    active_message_id: str | None
    created_at: datetime
    updated_at: datetime
    n_messages: int
    n_branches: int
    n_artifacts: int
    hit: Hit | None = None

    def _card(self) -> Card:
        rows: Rows = [
            ("messages", self.n_messages),
            ("branches", self.n_branches),
            ("artifacts", self.n_artifacts),
            ("last question", moment(self.updated_at)),
            ("found", self.hit.excerpt if self.hit else None),
            ("conversation_id", Code(self.conversation_id)),
        ]
        return Card("Conversation", self.title, rows)


def load_page(
    db: sqlite3.Connection, limit: int, offset: int, hits: Mapping[str, Hit | None] | None = None
) -> list[Conversation]:
    """A page of the list: of all conversations, or of those that are given with what was found in them.

    Errors: `UsageError` for a limit or an offset that can be no count of rows.
    """
    among = None if hits is None else json.dumps(list(hits))
    rows = db.execute(_LIST, (among, row_count("limit", limit), row_count("offset", offset)))
    return [_conversation(row, (hits or {}).get(row["conversation_id"])) for row in rows]


def _conversation(row: sqlite3.Row, hit: Hit | None) -> Conversation:
    return Conversation(
        row["conversation_id"],
        row["title"],
        row["active_message_id"],
        from_us(row["created_at"]),
        from_us(row["updated_at"]),
        row["n_messages"],
        row["n_branches"],
        row["n_artifacts"],
        hit,
    )


def find(db: sqlite3.Connection, words: str) -> dict[str, Hit]:
    """The conversations in which a message and the title hold all the words between them, whatever their case."""
    wanted = words.casefold().split()
    found: dict[str, Hit] = {}
    missing: dict[str, list[str]] = {}
    for conversation_id, title in db.execute("SELECT conversation_id, title FROM conversations"):
        folded = title.casefold()
        missing[conversation_id] = [word for word in wanted if word not in folded]
        if not missing[conversation_id]:
            found[conversation_id] = Hit()
    sql = "SELECT conversation_id, message_id, content, coalesce(response, '') FROM messages ORDER BY rowid"
    for conversation_id, message_id, content, response in db.execute(sql):
        text = f"{content}\n{response}"
        folded = text.casefold()
        shown = next((word for word in wanted if word in folded), None)
        if shown is not None and all(word in folded for word in missing[conversation_id]):
            found[conversation_id] = Hit(message_id, _around(text, folded.index(shown)))
    return found


def _around(text: str, position: int) -> str:
    """The text around a place, on one line.

    The place was found in a folded text, where a few letters of the world are longer: then it is a little beside.
    """
    start = max(0, position - BEFORE)
    end = start + EXCERPT_CHARS
    shown = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"
