"""Conversations: trees of messages. A message is a question with its response.

A regenerated or edited question is a sibling; the active message is the end of the branch that a new question
continues. The tree of a conversation, without texts, is loaded in one query that reads an index only, and paths,
branches and siblings are computed here. A search scans all texts: 1,000 messages of 5 KB take about 8 ms, and Chinese
needs no word splitting.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from artifactflow_nb.core.clock_ids import Clock, Ids
from artifactflow_nb.core.messages import Message
from artifactflow_nb.core.text.format import clip, storable_text, without_context
from artifactflow_nb.errors import Conflict, NotFound, UsageError, brief
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import from_row, to_json, validate_row_count
from artifactflow_nb.store.schema import to_microseconds

EXCERPT_CHARS_BEFORE, EXCERPT_CHARS = 50, 160

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
class MessageHit:
    """The newest message that contains the words of a search, and the text around the first word.

    A match in the title alone has no message.
    """

    message_id: str | None = None
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation as an entry of the list.

    Attributes:
        conversation_id: Id of the conversation.
        title: Title; by default the first question.
        active_message_id: The message that a new question continues; None if there are no messages.
        created_at: Time of creation.
        updated_at: Time of the newest question.
        n_messages: Number of messages on all branches.
        n_branches: Number of branches, that is, of messages without a reply.
        n_artifacts: Number of artifacts on all branches, without plans.
        hit: The match of a search; None in a list.
    """

    conversation_id: str
    title: str
    active_message_id: str | None
    created_at: datetime
    updated_at: datetime
    n_messages: int
    n_branches: int
    n_artifacts: int
    hit: MessageHit | None = None


def load_page(
    db: sqlite3.Connection, limit: int, offset: int, hits: Mapping[str, MessageHit | None] | None = None
) -> list[Conversation]:
    """Load a page of all conversations, or of the conversations in `hits`.

    Errors: `UsageError` for an invalid limit or offset.
    """
    ids_json = None if hits is None else json.dumps(list(hits))
    rows = db.execute(_LIST, (ids_json, validate_row_count("limit", limit), validate_row_count("offset", offset)))
    return [from_row(Conversation, row, hit=(hits or {}).get(row["conversation_id"])) for row in rows]


def find_conversations(db: sqlite3.Connection, words: str) -> dict[str, MessageHit]:
    """Find the conversations in which the title and one message together contain all words, ignoring case."""
    search_words = words.casefold().split()
    hits: dict[str, MessageHit] = {}
    words_not_in_title: dict[str, list[str]] = {}
    for conversation_id, title in db.execute("SELECT conversation_id, title FROM conversations"):
        folded = title.casefold()
        words_not_in_title[conversation_id] = [word for word in search_words if word not in folded]
        if not words_not_in_title[conversation_id]:
            hits[conversation_id] = MessageHit()
    sql = "SELECT conversation_id, message_id, content, coalesce(response, '') FROM messages ORDER BY rowid"
    for conversation_id, message_id, content, response in db.execute(sql):
        text = f"{content}\n{response}"
        folded = text.casefold()
        first_word = next((word for word in search_words if word in folded), None)
        if first_word is not None and all(word in folded for word in words_not_in_title[conversation_id]):
            # Case folding makes a few letters longer (ß), so the excerpt may be off by some characters.
            hits[conversation_id] = MessageHit(message_id, _excerpt(text, folded.index(first_word)))
    return hits


def _excerpt(text: str, position: int) -> str:
    """Return the text around a position, on one line."""
    start = max(0, position - EXCERPT_CHARS_BEFORE)
    end = start + EXCERPT_CHARS
    line = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{line}{'…' if end < len(text) else ''}"


class MessageTree:
    """The ids of a conversation's messages as a tree.

    Args:
        conversation_id: The conversation.
        parents: Pairs of a message and its parent (None for a root), the oldest message first.
    """

    def __init__(self, conversation_id: str, parents: Iterable[tuple[str, str | None]]) -> None:
        self._conversation_id = conversation_id
        self.parents: dict[str, str | None] = dict(parents)
        self._children: dict[str | None, list[str]] = {}
        for message_id, parent_id in self.parents.items():
            self._children.setdefault(parent_id, []).append(message_id)

    def require(self, message_id: str) -> None:
        """Raise `NotFound` if the message is not in this conversation."""
        if message_id not in self.parents:
            raise NotFound(
                f"There is no message {brief(message_id)} in the conversation {self._conversation_id!r}. "
                "Pass the id of one of its messages."
            )

    def path(self, message_id: str) -> list[str]:
        """Return the messages from the root to this message, both included."""
        self.require(message_id)
        reversed_path: list[str] = []
        current: str | None = message_id
        while current is not None:
            reversed_path.append(current)
            current = self.parents[current]
        return reversed_path[::-1]

    def descendants(self, message_id: str) -> list[str]:
        """Return the message and all replies below the message, on all branches; parents before children."""
        self.require(message_id)
        subtree = [message_id]
        for current in subtree:  # grows while it is iterated
            subtree += self._children.get(current, [])
        return subtree

    def siblings(self, message_id: str) -> list[str]:
        """Return the message and the other messages with the same parent, the oldest first."""
        self.require(message_id)
        return self._children[self.parents[message_id]]

    def leaf(self, message_id: str) -> str:
        """Return the newest message of the branches through this message, or the message itself if it has no reply."""
        subtree = set(self.descendants(message_id))
        return next(newest for newest in reversed(self.parents) if newest in subtree)

    def leaf_after_removal(self, message_id: str) -> str | None:
        """Return the active message after the message and its replies are deleted.

        That is the leaf of the newest sibling. If there is no sibling, it is the parent; for the only root, None.
        """
        if others := [other for other in self.siblings(message_id) if other != message_id]:
            return self.leaf(others[-1])
        return self.parents[message_id]


def load_message_tree(db: sqlite3.Connection, conversation_id: str) -> MessageTree:
    """Load the tree of a conversation; the tree of an unknown conversation is empty."""
    sql = "SELECT message_id, parent_id FROM messages WHERE conversation_id = ? ORDER BY rowid"
    return MessageTree(conversation_id, ((row[0], row[1]) for row in db.execute(sql, (conversation_id,))))


TITLE_COLUMNS = 80
_SOURCE_ADDRESS = re.compile(r"local:([^\s<>\"'`#]+)(?:#[^\s<>\"'`]*)?")
NO_ANSWER_TEXT = "(This turn ended without an answer.)"

_MESSAGES = """
SELECT m.message_id, conversation_id, parent_id, content, response, status, created_at,
    (SELECT run_id FROM runs r WHERE r.message_id = m.message_id ORDER BY rowid DESC LIMIT 1) AS run_id
FROM json_each(?) AS wanted CROSS JOIN messages AS m ON m.message_id = wanted.value
"""
"""Messages by a JSON list of ids. SQLite does not sort the messages, because sorting would copy the texts."""
_TURNS = """
SELECT message_id, content, iif(status = 'completed', response, NULL)
FROM json_each(?) AS wanted CROSS JOIN messages AS m ON m.message_id = wanted.value
"""
"""Questions with their answers, by a JSON list of ids."""
_CHANGE_STATE = """
SELECT active_message_id, title,
    (SELECT max(rowid) FROM messages m WHERE m.conversation_id = c.conversation_id),
    (SELECT count(*) FROM messages m WHERE m.conversation_id = c.conversation_id),
    (SELECT group_concat(status) FROM messages m WHERE m.conversation_id = c.conversation_id
        AND status IN ('running', 'waiting')),
    (SELECT max(rowid) FROM artifact_versions v WHERE v.conversation_id = c.conversation_id),
    (SELECT count(*) FROM artifact_versions v WHERE v.conversation_id = c.conversation_id)
FROM conversations c WHERE conversation_id = ?
"""


class ParentSelector(Enum):
    """Type of the default for the parent of a new message: the active message. None, in contrast, makes a root."""

    ACTIVE = "active"


ParentId = str | None | ParentSelector


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of the tree.

    Attributes:
        message_id: Id of the message.
        conversation_id: Id of its conversation.
        parent_id: The previous message of the branch; None for a root.
        content: The question.
        response: The answer, or None.
        status: `running`, `waiting`, `completed`, `failed` or `cancelled`.
        created_at: Time of the question.
        run_id: The newest run that answers the question; None for a message that was added without a run.
        sibling_index: Index among the siblings, from 0 for the oldest.
        n_siblings: Number of siblings, including this message.
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


class ConversationManager:
    """Access to conversations and messages.

    Args:
        database: The store.
        clock: Source of the times of new messages.
        ids: Generator of the ids of new conversations and messages.
        mask: Removes known secrets from titles and from messages that are added without a run.

    Errors: `NotFound` for an unknown conversation and for a message that is not in the conversation.
    """

    def __init__(self, database: Database, clock: Clock, ids: Ids, mask: Callable[[str], str] = str) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._mask = mask

    def __repr__(self) -> str:
        return f"ConversationManager({str(self._database.path)!r})"

    async def start_conversation(self, title: str = "") -> str:
        """Create an empty conversation; return its id."""
        conversation_id = self._ids.new("conv")
        now, masked_title = to_microseconds(self._clock.now()), self._mask(title)
        await self._database.write(lambda db: insert_conversation(db, conversation_id, masked_title, now))
        return conversation_id

    # --- conversations ---------------------------------------------------------------------------------------------

    async def get(self, conversation_id: str) -> Conversation:
        """Return a conversation as an entry of the list."""

        def work(db: sqlite3.Connection) -> Conversation:
            require_conversation(db, conversation_id)
            return load_page(db, 1, 0, {conversation_id: None})[0]

        return await self._database.read(work)

    async def list_conversations(self, limit: int = 50, offset: int = 0) -> list[Conversation]:
        """Return a page of the conversations, by their newest question, the newest first."""
        return await self._database.read(lambda db: load_page(db, limit, offset))

    async def search(self, words: str, limit: int = 50, offset: int = 0) -> list[Conversation]:
        """Return the conversations that contain all words in the title and one message, in the order of the list.

        The search ignores case and matches parts of words. Errors: `UsageError` if there is no word.
        """
        if not words.strip():
            raise UsageError("There is no word to search for. Use list_conversations to see all conversations.")
        return await self._database.read(lambda db: load_page(db, limit, offset, dict(find_conversations(db, words))))

    async def rename(self, conversation_id: str, title: str) -> None:
        """Change a conversation's title, which is cut to 80 columns; `UsageError` for an empty title."""
        new_title = _one_line(self._mask(title))
        if not new_title:
            raise UsageError("The title is empty. Pass a title for the conversation.")

        def work(db: sqlite3.Connection) -> None:
            require_conversation(db, conversation_id)
            db.execute("UPDATE conversations SET title = ? WHERE conversation_id = ?", (new_title, conversation_id))

        await self._database.write(work)

    async def delete_conversation(self, conversation_id: str) -> None:
        """Delete a conversation with its messages, runs and artifacts; `Conflict` while one of its runs is running."""

        def work(db: sqlite3.Connection) -> None:
            require_conversation(db, conversation_id)
            remove_messages(db, load_message_tree(db, conversation_id).parents)
            db.execute("DELETE FROM conversations WHERE conversation_id = ?", (conversation_id,))

        await self._database.write(work)
        await self._database.shrink()

    # --- branches --------------------------------------------------------------------------------------------------

    async def add(
        self, conversation_id: str, content: str, response: str, *, parent: ParentId = ParentSelector.ACTIVE
    ) -> StoredMessage:
        """Add a question with its answer, without a run, and make the new branch the active branch.

        Errors: `UsageError` for an empty question; `Conflict` while the run of the parent is unfinished.
        """
        question, answer = self._mask(storable_text(content)).strip(), self._mask(storable_text(response))
        if not question:
            raise UsageError("The question is empty. Pass the text of the question.")
        message_id, now = self._ids.new("msg"), to_microseconds(self._clock.now())

        def work(db: sqlite3.Connection) -> StoredMessage:
            parent_id = resolve_parent(db, conversation_id, parent)
            insert_message(db, message_id, conversation_id, parent_id, question, now)
            sql = "UPDATE messages SET status = 'completed', response = ? WHERE message_id = ?"
            db.execute(sql, (answer, message_id))
            return _load(db, load_message_tree(db, conversation_id), [message_id])[0]

        return await self._database.write(work)

    async def branch(self, message_id: str, content: str, response: str) -> StoredMessage:
        """Add a question with its answer as a reply to any message."""
        parent = await self.message(message_id)
        return await self.add(parent.conversation_id, content, response, parent=message_id)

    async def regenerate(self, message_id: str, response: str) -> StoredMessage:
        """Add a sibling of a message with the same question and another answer."""
        return await self.edit(message_id, (await self.message(message_id)).content, response)

    async def edit(self, message_id: str, content: str, response: str) -> StoredMessage:
        """Add a sibling of a message with another question and its answer."""
        sibling = await self.message(message_id)
        return await self.add(sibling.conversation_id, content, response, parent=sibling.parent_id)

    async def activate(self, message_id: str) -> str:
        """Activate the newest message of the branches through a message; return the id of the newest message."""

        def work(db: sqlite3.Connection) -> str:
            conversation_id = conversation_id_of(db, message_id)
            leaf = load_message_tree(db, conversation_id).leaf(message_id)
            _set_active(db, conversation_id, leaf)
            return leaf

        return await self._database.write(work)

    async def delete_branch(self, message_id: str) -> None:
        """Delete a message and all its replies, with their runs and their artifact versions.

        Other branches do not change. If the active branch contained the message, the branch of the newest sibling
        becomes active, or without a sibling the parent's branch. Errors: `Conflict` while one of the runs is running.
        """

        def work(db: sqlite3.Connection) -> None:
            conversation_id = conversation_id_of(db, message_id)
            tree = load_message_tree(db, conversation_id)
            deleted_ids = tree.descendants(message_id)
            remove_messages(db, deleted_ids)
            if require_conversation(db, conversation_id)["active_message_id"] in deleted_ids:
                _set_active(db, conversation_id, tree.leaf_after_removal(message_id))

        await self._database.write(work)
        await self._database.shrink()

    # --- messages --------------------------------------------------------------------------------------------------

    async def message(self, message_id: str) -> StoredMessage:
        """Return a message; `NotFound` for an unknown id."""

        def work(db: sqlite3.Connection) -> StoredMessage:
            return _load(db, load_message_tree(db, conversation_id_of(db, message_id)), [message_id])[0]

        return await self._database.read(work)

    async def path(self, conversation_id: str, to_message_id: str | None = None) -> list[StoredMessage]:
        """Return the messages from the root to a message, by default the active message, both included."""

        def work(db: sqlite3.Connection) -> list[StoredMessage]:
            conversation, tree = require_conversation(db, conversation_id), load_message_tree(db, conversation_id)
            last = to_message_id if to_message_id is not None else conversation["active_message_id"]
            return [] if last is None else _load(db, tree, tree.path(last))

        return await self._database.read(work)

    async def messages(self, conversation_id: str) -> list[StoredMessage]:
        """Return the messages of all branches, the oldest first."""

        def work(db: sqlite3.Connection) -> list[StoredMessage]:
            require_conversation(db, conversation_id)
            tree = load_message_tree(db, conversation_id)
            return _load(db, tree, tree.parents)

        return await self._database.read(work)

    async def siblings(self, message_id: str) -> list[str]:
        """Return the ids of a message and its siblings, the oldest first."""
        return await self._database.read(
            lambda db: load_message_tree(db, conversation_id_of(db, message_id)).siblings(message_id)
        )

    async def change_token(self, conversation_id: str) -> tuple[object, ...]:
        """Return a small value that changes whenever the conversation, its messages or its artifacts change."""
        row = await self._database.fetch_one(_CHANGE_STATE, (conversation_id,))
        return tuple(row or ())

    async def format_conversation_history(self, conv_id: str, to_message_id: str | None) -> list[Message]:
        """Return the turns up to and including a message, as strictly alternating user and assistant messages.

        A turn without an answer gets a fixed note, so that an error message never appears as text of the assistant.
        """
        if to_message_id is None:
            return []

        def work(db: sqlite3.Connection) -> list[Message]:
            require_conversation(db, conv_id)
            ids = load_message_tree(db, conv_id).path(to_message_id)
            turns = {message_id: texts for message_id, *texts in db.execute(_TURNS, (to_json(ids),))}
            history: list[Message] = []
            for question, answer in map(turns.__getitem__, ids):
                history += [Message("user", question), Message("assistant", answer or NO_ANSWER_TEXT)]
            return history

        return await self._database.read(work)


def insert_conversation(db: sqlite3.Connection, conversation_id: str, title: str, now_us: int) -> None:
    """Insert an empty conversation."""
    db.execute(
        "INSERT INTO conversations (conversation_id, title, created_at) VALUES (?, ?, ?)",
        (conversation_id, _one_line(title), now_us),
    )


def require_conversation(db: sqlite3.Connection, conversation_id: str) -> sqlite3.Row:
    """Return the row of a conversation; `NotFound` for an unknown conversation."""
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM conversations WHERE conversation_id = ?", (conversation_id,)
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no conversation {brief(conversation_id)} in this store. Pass None to start another.")
    return row


def conversation_id_of(db: sqlite3.Connection, message_id: str) -> str:
    """Return the id of a message's conversation; `NotFound` for an unknown message."""
    row = db.execute("SELECT conversation_id FROM messages WHERE message_id = ?", (message_id,)).fetchone()
    if row is None:
        raise NotFound(f"There is no message {brief(message_id)} in this store. Pass the id of one of its messages.")
    return str(row["conversation_id"])


def require_message(db: sqlite3.Connection, conversation_id: str, message_id: str) -> None:
    """Raise `NotFound` unless the message is in the conversation."""
    if conversation_id_of(db, message_id) != conversation_id:
        raise NotFound(f"There is no message {brief(message_id)} in the conversation {brief(conversation_id)}.")


def resolve_parent(db: sqlite3.Connection, conversation_id: str, parent: ParentId) -> str | None:
    """Return the id of the parent of a new message, or None for a root.

    Errors: `NotFound` for a parent outside the conversation; `Conflict` while the parent's run is unfinished.
    """
    conversation = require_conversation(db, conversation_id)
    parent_id = conversation["active_message_id"] if isinstance(parent, ParentSelector) else parent
    if parent_id is None:
        return None
    require_message(db, conversation_id, parent_id)
    status = db.execute("SELECT status FROM messages WHERE message_id = ?", (parent_id,)).fetchone()["status"]
    if status in {"running", "waiting"}:
        raise Conflict(
            f"The message {brief(parent_id)} is still {status}. Wait for its run, decide or cancel it, "
            "or pass parent_message_id to branch from an earlier message."
        )
    return str(parent_id)


def insert_message(
    db: sqlite3.Connection, message_id: str, conversation_id: str, parent_id: str | None, content: str, now_us: int
) -> None:
    """Insert a running message, which becomes the active message; the first question becomes the conversation's title.

    In the title, addresses of sources are replaced by their titles or file names.
    """

    def title_of(address: re.Match[str]) -> str:
        source_id = address[1].rstrip(".,;:!?)]")
        row = db.execute("SELECT title FROM sources WHERE source_id = ?", (source_id,)).fetchone()
        return (row[0] if row else source_id.rpartition("/")[2]) + address[1][len(source_id) :]

    try:
        db.execute(
            "INSERT INTO messages (message_id, conversation_id, parent_id, content, status, created_at) "
            "VALUES (?, ?, ?, ?, 'running', ?)",
            (message_id, conversation_id, parent_id, content, now_us),
        )
    except sqlite3.IntegrityError as error:
        raise UsageError(f"A message {brief(message_id)} exists already; omit message_id to get a new id.") from error
    title = _SOURCE_ADDRESS.sub(title_of, content)
    db.execute(
        "UPDATE conversations SET active_message_id = ?, title = CASE title WHEN '' THEN ? ELSE title END "
        "WHERE conversation_id = ?",
        (message_id, _one_line(title), conversation_id),
    )


def _one_line(title: str) -> str:
    return clip(without_context(storable_text(title)), TITLE_COLUMNS)


def _set_active(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> None:
    sql = "UPDATE conversations SET active_message_id = ? WHERE conversation_id = ?"
    db.execute(sql, (message_id, conversation_id))


def _load(db: sqlite3.Connection, tree: MessageTree, message_ids: Iterable[str]) -> list[StoredMessage]:
    """Load the messages of a tree, in the order of the ids."""
    ids = list(message_ids)
    rows = {row["message_id"]: row for row in db.execute(_MESSAGES, (to_json(ids),))}
    messages: list[StoredMessage] = []
    for message_id in ids:
        siblings = tree.siblings(message_id)
        index = siblings.index(message_id)
        messages.append(from_row(StoredMessage, rows[message_id], sibling_index=index, n_siblings=len(siblings)))
    return messages


_THESE = "(SELECT value FROM json_each(?))"
_RUNS = f"(SELECT run_id FROM runs WHERE message_id IN {_THESE})"  # noqa: S608 - the parts are constants
_SPLIT_PAIRS = (
    "SELECT subrun.run_id, subrun.parent_run_id "  # noqa: S608 - constants
    "FROM runs subrun JOIN runs caller ON caller.run_id = subrun.parent_run_id "
    f"WHERE (subrun.run_id IN {_RUNS.replace('?', '?1')}) <> (caller.run_id IN {_RUNS.replace('?', '?1')}) "
    "AND subrun.status IN ('running', 'waiting') AND caller.status IN ('running', 'waiting')"
)
"""Pairs of an unfinished subrun and its unfinished parent of which only one would be deleted."""

_UNUSED_TEXTS = (
    f"DELETE FROM texts WHERE sha256 IN {_THESE} "  # noqa: S608 - constants
    "AND NOT EXISTS (SELECT 1 FROM text_uses u WHERE u.sha256 = texts.sha256) "
    "AND NOT EXISTS (SELECT 1 FROM text_parts p WHERE p.part = texts.sha256)"
)


def remove_messages(db: sqlite3.Connection, message_ids: Iterable[str]) -> None:
    """Delete messages with their runs and artifact versions, including waiting runs.

    The caller must pass each message together with its replies. The numbers of deleted versions are not used again.

    Errors: `Conflict` while one of the runs is running, and if only one of a waiting run and its subrun would be
    deleted.
    """
    ids = (json.dumps(list(message_ids)),)
    sql = f"SELECT run_id FROM runs WHERE status = 'running' AND run_id IN {_RUNS}"  # noqa: S608 - constants
    if running := db.execute(sql, ids).fetchone():
        raise Conflict(f"The run {running['run_id']!r} of this conversation is running; cancel it first.")
    if split := db.execute(_SPLIT_PAIRS, ids).fetchone():
        raise Conflict(
            f"The run {split['run_id']!r} is a subrun of {split['parent_run_id']!r}, which has not ended. "
            f"Cancel {split['parent_run_id']!r} first."
        )
    texts = [row[0] for row in db.execute(f"SELECT DISTINCT sha256 FROM text_uses WHERE run_id IN {_RUNS}", ids)]  # noqa: S608
    db.execute(
        "INSERT INTO deleted_versions SELECT conversation_id, artifact_id, max(version) FROM artifact_versions "  # noqa: S608
        f"WHERE message_id IN {_THESE} GROUP BY conversation_id, artifact_id "
        "ON CONFLICT DO UPDATE SET last_version = max(last_version, excluded.last_version)",
        ids,
    )
    db.execute(f"DELETE FROM messages WHERE message_id IN {_THESE}", ids)  # noqa: S608 - constants
    while texts:  # other runs may use the same texts, for example the system prompt
        rows = db.execute(f"SELECT DISTINCT part FROM text_parts WHERE sha256 IN {_THESE}", (json.dumps(texts),))  # noqa: S608
        candidates = [row[0] for row in rows]
        db.execute(_UNUSED_TEXTS, (json.dumps(texts),))
        texts = candidates
