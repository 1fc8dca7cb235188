"""Conversations are trees of messages: a message is a question with, once its run is done, the response to it.

A regenerated or edited question is a sibling; the active message names the branch that a new question continues.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from artifactflow_nb.ambient import Clock, Ids
from artifactflow_nb.errors import Conflict, NotFound, UsageError
from artifactflow_nb.messages import Message
from artifactflow_nb.store.conversation_list import Conversation, find, load_page
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.message_tree import MessageTree, load_tree
from artifactflow_nb.store.removal import remove_messages
from artifactflow_nb.store.schema import from_us, to_us
from artifactflow_nb.store.storable import storable_text, to_json
from artifactflow_nb.text.cards import Card, Code, Fold, Prose, Rows, Shown
from artifactflow_nb.text.figures import moment
from artifactflow_nb.text.width import clip

TITLE_COLUMNS = 80
UNANSWERED = "(This turn ended without an answer.)"

_MESSAGES = """
SELECT m.message_id, conversation_id, parent_id, content, response, status, created_at,
    (SELECT run_id FROM runs r WHERE r.message_id = m.message_id ORDER BY rowid DESC LIMIT 1)
FROM json_each(?) AS wanted CROSS JOIN messages AS m ON m.message_id = wanted.value
"""
_TURNS = """
SELECT m.message_id, content, response, status
FROM json_each(?) AS wanted CROSS JOIN messages AS m ON m.message_id = wanted.value
"""
"""Messages that a JSON list names; to have SQLite sort them would copy their texts."""
_STATE = """
SELECT active_message_id, title,
    (SELECT max(rowid) FROM messages m WHERE m.conversation_id = c.conversation_id),
    (SELECT count(*) FROM messages m WHERE m.conversation_id = c.conversation_id),
    (SELECT group_concat(status) FROM messages m WHERE m.conversation_id = c.conversation_id
        AND status IN ('running', 'waiting')),
    (SELECT max(rowid) FROM artifact_versions v WHERE v.conversation_id = c.conversation_id),
    (SELECT count(*) FROM artifact_versions v WHERE v.conversation_id = c.conversation_id)
FROM conversations c WHERE conversation_id = ?
"""


class Parent(Enum):
    """Where a new message is hung when no message is named."""

    ACTIVE = "active"


ParentId = str | None | Parent


@dataclass(frozen=True, slots=True)
class StoredMessage(Shown):
    """A message of the tree.

    Attributes:
        message_id: Its id.
        conversation_id: Its conversation.
        parent_id: The message before it on its branch; None for a root.
        content: What the person asked.
        response: The answer; None while there is none.
        status: `running`, `waiting`, `completed`, `failed` or `cancelled`.
        created_at: When it was asked.
        run_id: The run that answers it; None for a turn that no run made.
        sibling_index: Which of the messages in its place it is, the oldest being 0.
        n_siblings: How many messages stand in its place, itself included.
    """

    message_id: str
    conversation_id: str
    parent_id: str | None
    content: str
    response: str | None
    status: str
    created_at: datetime
    run_id: str | None
    sibling_index: int
    n_siblings: int

    def _card(self) -> Card:
        place = f"{self.sibling_index + 1} of {self.n_siblings}" if self.n_siblings > 1 else None
        rows: Rows = [
            ("status", self.status),
            ("asked", moment(self.created_at)),
            ("version", place),
            ("message_id", Code(self.message_id)),
            ("follows", self.parent_id and Code(self.parent_id)),
            ("run", self.run_id and Code(self.run_id)),
        ]
        folds = [Fold("The answer", Prose(self.response))] if self.response else []
        return Card("Message", self.content, rows, folds)


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

    # --- conversations ---------------------------------------------------------------------------------------------

    async def get(self, conversation_id: str) -> Conversation:
        """One conversation as the list shows it."""

        def work(db: sqlite3.Connection) -> Conversation:
            require_conversation(db, conversation_id)
            return load_page(db, 1, 0, {conversation_id: None})[0]

        return await self._database.read(work)

    async def list_conversations(self, limit: int = 50, offset: int = 0) -> list[Conversation]:
        """Conversations with their counts, those first in which was asked last."""
        return await self._database.read(lambda db: load_page(db, limit, offset))

    async def search(self, words: str, limit: int = 50, offset: int = 0) -> list[Conversation]:
        """The conversations that hold all the words, in one message or the title, in the order of the list.

        Case does not matter; a word may be part of a longer one. Errors: `UsageError` if there is no word.
        """
        if not words.strip():
            raise UsageError("There is no word to search for. Use list_conversations to see all.")
        return await self._database.read(lambda db: load_page(db, limit, offset, dict(find(db, words))))

    async def rename(self, conversation_id: str, title: str) -> None:
        """Give a conversation another title, cut to 80 columns; `UsageError` for an empty one."""
        wanted = _one_line(title)
        if not wanted:
            raise UsageError("The title is empty. Write what the conversation should be called.")

        def work(db: sqlite3.Connection) -> None:
            require_conversation(db, conversation_id)
            db.execute("UPDATE conversations SET title = ? WHERE conversation_id = ?", (wanted, conversation_id))

        await self._database.write(work)

    async def delete_conversation(self, conversation_id: str) -> None:
        """Delete a conversation with its messages, runs and artifacts; `Conflict` while one of its runs runs."""

        def work(db: sqlite3.Connection) -> None:
            require_conversation(db, conversation_id)
            remove_messages(db, load_tree(db, conversation_id).parents)
            db.execute("DELETE FROM conversations WHERE conversation_id = ?", (conversation_id,))

        await self._database.write(work)

    # --- branches --------------------------------------------------------------------------------------------------

    async def add(
        self, conversation_id: str, content: str, response: str, *, parent: ParentId = Parent.ACTIVE
    ) -> StoredMessage:
        """Add a turn that no run made, a question with its answer, and make its branch the active one.

        Errors: `UsageError` for an empty question; `Conflict` while the message before it has no answer.
        """
        question, answer = storable_text(content).strip(), storable_text(response)
        if not question:
            raise UsageError("The question is empty. Write what was asked.")
        message_id, now = self._ids.new("msg"), to_us(self._clock.now())

        def work(db: sqlite3.Connection) -> StoredMessage:
            parent_id = resolve_parent(db, conversation_id, parent)
            insert_message(db, message_id, conversation_id, parent_id, question, now)
            sql = "UPDATE messages SET status = 'completed', response = ? WHERE message_id = ?"
            db.execute(sql, (answer, message_id))
            return _load(db, load_tree(db, conversation_id), [message_id])[0]

        return await self._database.write(work)

    async def branch(self, message_id: str, content: str, response: str) -> StoredMessage:
        """Add a turn behind any message, whichever branch is active."""
        before = await self.message(message_id)
        return await self.add(before.conversation_id, content, response, parent=message_id)

    async def regenerate(self, message_id: str, response: str) -> StoredMessage:
        """Add another answer to a message's question, as its sibling."""
        return await self.edit(message_id, (await self.message(message_id)).content, response)

    async def edit(self, message_id: str, content: str, response: str) -> StoredMessage:
        """Add another question in a message's place, as its sibling, with its answer."""
        there = await self.message(message_id)
        return await self.add(there.conversation_id, content, response, parent=there.parent_id)

    async def activate(self, message_id: str) -> str:
        """Make the branch through a message the active one; the id of its newest message, which comes to be active."""

        def work(db: sqlite3.Connection) -> str:
            conversation_id = conversation_of(db, message_id)
            leaf = load_tree(db, conversation_id).leaf(message_id)
            _set_active(db, conversation_id, leaf)
            return leaf

        return await self._database.write(work)

    async def delete_branch(self, message_id: str) -> None:
        """Delete a message and all that follow from it, with their runs and the artifact versions that these wrote.

        Other branches see what they saw. If the active branch went through it, its newest sibling's becomes active,
        without siblings the one that ends before it. Errors: `Conflict` while one of the runs runs.
        """

        def work(db: sqlite3.Connection) -> None:
            conversation_id = conversation_of(db, message_id)
            tree = load_tree(db, conversation_id)
            gone = tree.below(message_id)
            remove_messages(db, gone)
            if require_conversation(db, conversation_id)["active_message_id"] in gone:
                _set_active(db, conversation_id, tree.leaf_without(message_id))

        await self._database.write(work)

    # --- messages --------------------------------------------------------------------------------------------------

    async def message(self, message_id: str) -> StoredMessage:
        """One message."""

        def work(db: sqlite3.Connection) -> StoredMessage:
            return _load(db, load_tree(db, conversation_of(db, message_id)), [message_id])[0]

        return await self._database.read(work)

    async def path(self, conversation_id: str, to_message_id: str | None = None) -> list[StoredMessage]:
        """The messages from the root to this one, both included; to the active one if it is left out."""

        def work(db: sqlite3.Connection) -> list[StoredMessage]:
            conversation, tree = require_conversation(db, conversation_id), load_tree(db, conversation_id)
            last = to_message_id if to_message_id is not None else conversation["active_message_id"]
            return [] if last is None else _load(db, tree, tree.path(last))

        return await self._database.read(work)

    async def messages(self, conversation_id: str) -> list[StoredMessage]:
        """All messages of all branches, the oldest first."""

        def work(db: sqlite3.Connection) -> list[StoredMessage]:
            require_conversation(db, conversation_id)
            tree = load_tree(db, conversation_id)
            return _load(db, tree, tree.parents)

        return await self._database.read(work)

    async def siblings(self, message_id: str) -> list[str]:
        """The ids of a message and of the others in its place, the oldest first."""
        return await self._database.read(lambda db: load_tree(db, conversation_of(db, message_id)).siblings(message_id))

    async def state(self, conversation_id: str) -> tuple[object, ...]:
        """Something small that is another whenever the conversation, one of its messages or artifacts is."""
        row = await self._database.read(lambda db: db.execute(_STATE, (conversation_id,)).fetchone())
        return tuple(row or ())

    async def format_conversation_history(self, conv_id: str, to_message_id: str | None) -> list[Message]:
        """The turns up to and including a message, as user and assistant messages in strict alternation.

        A turn without an answer has a fixed note in its place, so that a failure's text never becomes the assistant's.
        """
        if to_message_id is None:
            return []

        def work(db: sqlite3.Connection) -> list[Message]:
            require_conversation(db, conv_id)
            history: list[Message] = []
            for _, content, response, status in _rows(db, _TURNS, load_tree(db, conv_id).path(to_message_id)):
                answer = response if status == "completed" and response else UNANSWERED
                history += [Message("user", content), Message("assistant", answer)]
            return history

        return await self._database.read(work)


def insert_conversation(db: sqlite3.Connection, conversation_id: str, title: str, now_us: int) -> None:
    """Add an empty conversation."""
    db.execute(
        "INSERT INTO conversations (conversation_id, title, created_at) VALUES (?, ?, ?)",
        (conversation_id, _one_line(title), now_us),
    )


def require_conversation(db: sqlite3.Connection, conversation_id: str) -> sqlite3.Row:
    """The conversation's row."""
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM conversations WHERE conversation_id = ?", (conversation_id,)
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no conversation {conversation_id!r} in this store. Leave it out to start a new one.")
    return row


def conversation_of(db: sqlite3.Connection, message_id: str) -> str:
    """The id of the conversation that holds a message."""
    row = db.execute("SELECT conversation_id FROM messages WHERE message_id = ?", (message_id,)).fetchone()
    if row is None:
        raise NotFound(f"There is no message {message_id!r} in this store. Pass the id of one of its messages.")
    return str(row["conversation_id"])


def require_message(db: sqlite3.Connection, conversation_id: str, message_id: str) -> None:
    """Raise `NotFound` unless the message is in this conversation."""
    if conversation_of(db, message_id) != conversation_id:
        raise NotFound(f"There is no message {message_id!r} in the conversation {conversation_id!r}.")


def resolve_parent(db: sqlite3.Connection, conversation_id: str, parent: ParentId) -> str | None:
    """The id of the parent for a new message, checked: it is in this conversation and its turn has ended."""
    conversation = require_conversation(db, conversation_id)
    parent_id = conversation["active_message_id"] if isinstance(parent, Parent) else parent
    if parent_id is None:
        return None
    require_message(db, conversation_id, parent_id)
    status = db.execute("SELECT status FROM messages WHERE message_id = ?", (parent_id,)).fetchone()["status"]
    if status in {"running", "waiting"}:
        raise Conflict(
            f"The message {parent_id!r} is still {status}. Wait for its run, decide or cancel it, "
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
        (message_id, _one_line(content), conversation_id),
    )


def _one_line(title: str) -> str:
    return clip(storable_text(title), TITLE_COLUMNS)


def _set_active(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> None:
    sql = "UPDATE conversations SET active_message_id = ? WHERE conversation_id = ?"
    db.execute(sql, (message_id, conversation_id))


def _load(db: sqlite3.Connection, tree: MessageTree, message_ids: Iterable[str]) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    for row in _rows(db, _MESSAGES, message_ids):
        message_id, conversation_id, parent_id, content, response, status, created_at, run_id = row
        siblings = tree.siblings(message_id)
        found.append(
            StoredMessage(
                message_id,
                conversation_id,
                parent_id,
                content,
                response,
                status,
                from_us(created_at),
                run_id,
                siblings.index(message_id),
                len(siblings),
            )
        )
    return found


def _rows(db: sqlite3.Connection, sql: str, message_ids: Iterable[str]) -> list[sqlite3.Row]:
    """The rows of messages, in the order of their ids; `sql` is one of the queries above."""
    wanted = list(message_ids)
    rows = {row[0]: row for row in db.execute(sql, (to_json(wanted),))}
    return [rows[message_id] for message_id in wanted]
