"""Conversations are trees of messages: a message is a question with, once its run is done, the response to it.

A regenerated or edited question is a sibling; the active message names the branch that a new question continues.
"""

import sqlite3
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from artifactflow_nb.ambient import Clock, Ids
from artifactflow_nb.errors import Conflict, NotFound, UsageError
from artifactflow_nb.messages import Message
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.schema import from_us, to_us

TITLE_CHARS = 80
UNANSWERED = "(This turn ended without an answer.)"


class Parent(Enum):
    """Where a new message is hung when no message is named."""

    ACTIVE = "active"


ParentId = str | None | Parent


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of the tree.

    Attributes:
        message_id: Its id.
        conversation_id: Its conversation.
        parent_id: The message before it on its branch; None for a root.
        content: What the person asked.
        response: The answer; None while there is none.
        status: `running`, `waiting`, `completed`, `failed` or `cancelled`.
        created_at: When it was asked.
    """

    message_id: str
    conversation_id: str
    parent_id: str | None
    content: str
    response: str | None
    status: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation as lists show it."""

    conversation_id: str
    title: str
    active_message_id: str | None
    created_at: datetime
    n_messages: int


class ConversationManager:
    """Reads and writes the trees.

    Errors: `NotFound` for an unknown conversation or a message that is not in it.
    """

    def __init__(self, database: Database, clock: Clock, ids: Ids) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids

    async def start_conversation(self, title: str = "") -> str:
        """Make an empty conversation; its id."""
        conversation_id = self._ids.new("conv")
        now = to_us(self._clock.now())
        await self._database.write(lambda db: insert_conversation(db, conversation_id, title, now))
        return conversation_id

    async def list_conversations(self, limit: int = 50, offset: int = 0) -> list[Conversation]:
        """Conversations with their number of messages, the newest first."""
        rows = await self._database.read(
            lambda db: db.execute(
                "SELECT c.*, (SELECT count(*) FROM messages m WHERE m.conversation_id = c.conversation_id) n_messages "
                "FROM conversations c ORDER BY c.created_at DESC, c.rowid DESC LIMIT ? OFFSET ?",
                (limit, offset),
            ).fetchall()
        )
        return [_conversation(row) for row in rows]

    async def delete_conversation(self, conversation_id: str) -> None:
        """Delete a conversation with its messages, runs and artifacts; `Conflict` while one of its runs runs."""

        def work(db: sqlite3.Connection) -> None:
            require_conversation(db, conversation_id)
            sql = "SELECT run_id FROM runs WHERE conversation_id = ? AND status = 'running'"
            if running := db.execute(sql, (conversation_id,)).fetchone():
                raise Conflict(f"The run {running['run_id']!r} of this conversation is running; cancel it first.")
            db.execute("UPDATE messages SET parent_id = NULL WHERE conversation_id = ?", (conversation_id,))
            db.execute("DELETE FROM conversations WHERE conversation_id = ?", (conversation_id,))

        await self._database.write(work)

    async def path(self, conversation_id: str, to_message_id: str) -> list[StoredMessage]:
        """The messages from the root to this one, both included."""
        return await self._database.read(lambda db: load_path(db, conversation_id, to_message_id))

    async def messages(self, conversation_id: str) -> list[StoredMessage]:
        """All messages of all branches, the oldest first."""

        def work(db: sqlite3.Connection) -> list[StoredMessage]:
            require_conversation(db, conversation_id)
            sql = "SELECT * FROM messages WHERE conversation_id = ? ORDER BY created_at, rowid"
            return [_message(row) for row in db.execute(sql, (conversation_id,))]

        return await self._database.read(work)

    async def format_conversation_history(self, conv_id: str, to_message_id: str | None) -> list[Message]:
        """The turns up to and including a message, as user and assistant messages in strict alternation.

        A turn without an answer has a fixed note in its place, so that a failure's text never becomes the assistant's.
        """
        if to_message_id is None:
            return []
        history: list[Message] = []
        for turn in await self.path(conv_id, to_message_id):
            answer = turn.response if turn.status == "completed" and turn.response else UNANSWERED
            history += [Message("user", turn.content), Message("assistant", answer)]
        return history


def insert_conversation(db: sqlite3.Connection, conversation_id: str, title: str, now_us: int) -> None:
    """Add an empty conversation."""
    db.execute(
        "INSERT INTO conversations (conversation_id, title, created_at) VALUES (?, ?, ?)",
        (conversation_id, " ".join(title.split())[:TITLE_CHARS], now_us),
    )


def require_conversation(db: sqlite3.Connection, conversation_id: str) -> sqlite3.Row:
    """The conversation's row."""
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM conversations WHERE conversation_id = ?", (conversation_id,)
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no conversation {conversation_id!r} in this store. Leave it out to start a new one.")
    return row


def resolve_parent(db: sqlite3.Connection, conversation_id: str, parent: ParentId) -> str | None:
    """The id of the parent for a new message, checked: it is in this conversation and its turn has ended."""
    conversation = require_conversation(db, conversation_id)
    parent_id = conversation["active_message_id"] if isinstance(parent, Parent) else parent
    if parent_id is None:
        return None
    row = db.execute("SELECT status, conversation_id FROM messages WHERE message_id = ?", (parent_id,)).fetchone()
    if row is None or row["conversation_id"] != conversation_id:
        where = "in this store" if row is None else f"in the conversation {conversation_id!r}"
        raise NotFound(f"There is no message {parent_id!r} {where}. Pass the id of one of its messages, or None.")
    if row["status"] in {"running", "waiting"}:
        raise Conflict(
            f"The message {parent_id!r} is still {row['status']}. Wait for its run, decide or cancel it, "
            "or pass parent_message_id to branch from an earlier message."
        )
    return str(parent_id)


def insert_message(
    db: sqlite3.Connection, message_id: str, conversation_id: str, parent_id: str | None, content: str, now_us: int
) -> None:
    """Add a message whose run starts now, and make its branch the active one."""
    try:
        db.execute(
            "INSERT INTO messages (message_id, conversation_id, parent_id, content, status, created_at) "
            "VALUES (?, ?, ?, ?, 'running', ?)",
            (message_id, conversation_id, parent_id, content, now_us),
        )
    except sqlite3.IntegrityError as error:
        raise UsageError(f"A message {message_id!r} exists already; leave message_id out to get a new id.") from error
    db.execute(
        "UPDATE conversations SET active_message_id = ?, title = CASE title WHEN '' THEN ? ELSE title END "
        "WHERE conversation_id = ?",
        (message_id, " ".join(content.split())[:TITLE_CHARS], conversation_id),
    )


def load_path(db: sqlite3.Connection, conversation_id: str, to_message_id: str) -> list[StoredMessage]:
    """The messages from the root to this one; ids are loaded in one query and walked here."""
    require_conversation(db, conversation_id)
    ids = "SELECT message_id, parent_id FROM messages WHERE conversation_id = ?"
    parents: dict[str, str | None] = dict(db.execute(ids, (conversation_id,)).fetchall())
    if to_message_id not in parents:
        raise NotFound(f"There is no message {to_message_id!r} in the conversation {conversation_id!r}.")
    wanted: list[str] = []
    step: str | None = to_message_id
    while step is not None:
        wanted.append(step)
        step = parents[step]
    on_path = set(wanted)
    sql = "SELECT * FROM messages WHERE conversation_id = ?"
    rows = {row["message_id"]: row for row in db.execute(sql, (conversation_id,)) if row["message_id"] in on_path}
    return [_message(rows[key]) for key in reversed(wanted)]


def _message(row: sqlite3.Row) -> StoredMessage:
    return StoredMessage(
        row["message_id"],
        row["conversation_id"],
        row["parent_id"],
        row["content"],
        row["response"],
        row["status"],
        from_us(row["created_at"]),
    )


def _conversation(row: sqlite3.Row) -> Conversation:
    return Conversation(
        row["conversation_id"], row["title"], row["active_message_id"], from_us(row["created_at"]), row["n_messages"]
    )
