"""The shape of one conversation: which message follows which, without their texts.

It is loaded in one query that reads an index only, and walked here: paths, branches, siblings.
"""

import sqlite3
from collections.abc import Iterable

from artifactflow_nb.errors import NotFound


class MessageTree:
    """The ids of a conversation's messages as a tree.

    Args:
        conversation_id: The conversation.
        parents: Each message with its parent (None for a root), the oldest first.
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
                f"There is no message {message_id!r} in the conversation {self._conversation_id!r}. "
                "Pass the id of one of its messages."
            )

    def path(self, message_id: str) -> list[str]:
        """The messages from the root to this one, both included."""
        self.require(message_id)
        found: list[str] = []
        step: str | None = message_id
        while step is not None:
            found.append(step)
            step = self.parents[step]
        return found[::-1]

    def below(self, message_id: str) -> list[str]:
        """The message and all that follow from it, on whatever branch; parents before children."""
        self.require(message_id)
        found = [message_id]
        for step in found:
            found += self._children.get(step, [])
        return found

    def siblings(self, message_id: str) -> list[str]:
        """The message and the others in its place, the oldest first."""
        self.require(message_id)
        return self._children[self.parents[message_id]]

    def leaf(self, message_id: str) -> str:
        """The newest message of the branches that lead through this one; itself if nothing follows it."""
        below = set(self.below(message_id))
        return next(newest for newest in reversed(self.parents) if newest in below)

    def leaf_without(self, message_id: str) -> str | None:
        """Where the branch goes on when this message and all below it are gone: to what is left, as near as can be."""
        if others := [other for other in self.siblings(message_id) if other != message_id]:
            return self.leaf(others[-1])
        return self.parents[message_id]


def load_tree(db: sqlite3.Connection, conversation_id: str) -> MessageTree:
    """The tree of a conversation; empty if there is none."""
    sql = "SELECT message_id, parent_id FROM messages WHERE conversation_id = ? ORDER BY rowid"
    return MessageTree(conversation_id, ((row[0], row[1]) for row in db.execute(sql, (conversation_id,))))
