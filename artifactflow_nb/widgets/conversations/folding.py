"""Folding of long conversations: the tree shows selected messages, and rows that count the hidden messages.

::

    messages ──> the most relevant ones and their branching points ──> the rest becomes folds: stretches between
                                                                       two shown messages, or whole subtrees

A fold has at most one visible successor, so the result is a tree again. Trees of up to 60 messages are not folded.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from artifactflow_nb.store.conversation_tree import TreeEntry

MAX_MESSAGES = 60
_N_RECENT = 6
"""Number of messages at the end of the active branch that are shown with the highest priority."""
_SMALLEST_FOLD = 3
"""A fold takes a row itself, so fewer messages than this are shown instead."""
_OPENED_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class FoldedMessages:
    """Hidden messages that share one row.

    Attributes:
        message_ids: Ids of the messages, the oldest first.
        n_branches: Number of branches that end in the fold.
        is_on_active_branch: Whether the active branch passes through the fold.
    """

    message_ids: tuple[str, ...]
    n_branches: int = 0
    is_on_active_branch: bool = False

    @property
    def next_to_open(self) -> tuple[str, ...]:
        """The messages to show when a reader opens the fold: the first 20 and the last 20."""
        ids = self.message_ids
        return ids if len(ids) <= 2 * _OPENED_AT_ONCE else ids[:_OPENED_AT_ONCE] + ids[-_OPENED_AT_ONCE:]


@dataclass(frozen=True, slots=True)
class TreeItem:
    """A message or a fold of the shown tree.

    Attributes:
        content: The message or the fold.
        newest_index: Index, by age, of the newest message in the item's subtree; 0 for the oldest message.
    """

    content: TreeEntry | FoldedMessages
    newest_index: int


class FoldedTree:
    """The tree of shown messages and folds.

    Args:
        entries: All messages, the oldest first.
        selected: A message that must be shown, as the active message is; None for no selection.
        opened: Further messages to show.
        limit: Maximum number of messages that are shown without folds, and number to show with folds, not counting the
            branching points.

    Attributes:
        entries: The messages by their ids, the oldest first.
        siblings: The ids of each message's children, the oldest first; the roots are below None.
    """

    def __init__(self, entries: Sequence[TreeEntry], selected: str | None, opened: Collection[str], limit: int) -> None:
        self.entries = {entry.message_id: entry for entry in entries}
        self.siblings: dict[str | None, list[str]] = {}
        for entry in entries:
            self.siblings.setdefault(entry.parent_id, []).append(entry.message_id)
        self._selected = self.entries.get(selected or "")
        # The view remembers opened messages by id; some messages may have been deleted since.
        self._opened = [message_id for message_id in opened if message_id in self.entries]
        self._limit = limit
        self._ids = list(self.entries)
        visible = set(self._ids) if len(self._ids) <= limit else self._choose_visible()
        newest = {message_id: index for index, message_id in enumerate(self._ids)}  # in the subtree of each message
        for message_id in reversed(self._ids):  # parents are older than their children: one pass is enough
            parent_id = self.entries[message_id].parent_id
            if parent_id is not None:
                newest[parent_id] = max(newest[parent_id], newest[message_id])
        # The items below each message and each fold; the key of a fold is the id of its first message.
        self._items: dict[str | None, list[TreeItem]] = {}
        members_by_id = {members[0]: members for members in self._groups(visible).values()}
        fold_ids = {member: fold_id for fold_id, members in members_by_id.items() for member in members}
        for message_id, entry in self.entries.items():
            parent = entry.parent_id if entry.parent_id is None else fold_ids.get(entry.parent_id, entry.parent_id)
            if message_id in members_by_id:
                members = members_by_id[message_id]
                n_ends = sum(not self.siblings.get(member) for member in members)
                is_on_active = any(self.entries[member].is_on_active_branch for member in members)
                fold = FoldedMessages(tuple(members), n_ends, is_on_active)
                newest_index = max(newest[member] for member in members)
                self._items.setdefault(parent, []).append(TreeItem(fold, newest_index))
            elif message_id not in fold_ids:
                self._items.setdefault(parent, []).append(TreeItem(entry, newest[message_id]))

    def children(self, parent: TreeEntry | FoldedMessages | None) -> Sequence[TreeItem]:
        """Return the items below a message or a fold, the oldest first; for None, return the roots."""
        if isinstance(parent, FoldedMessages):
            return self._items.get(parent.message_ids[0], ())
        return self._items.get(None if parent is None else parent.message_id, ())

    # --- visible messages ------------------------------------------------------------------------------------------

    def _choose_visible(self) -> set[str]:
        visible = {entry.message_id for entry in self.entries.values() if entry.is_active or entry is self._selected}
        n_more = self._limit - len(visible)
        visible.update(self._opened)  # beyond the limit: the reader opened these messages
        n_wanted = len(visible) + n_more
        newest_first = self._ids[::-1]
        branch = [message_id for message_id in newest_first if self.entries[message_id].is_on_active_branch]
        selected = [] if self._selected is None else self.siblings.get(self._selected.message_id, [])[:2]
        if self._selected is not None and self._selected.parent_id:
            selected.insert(0, self._selected.parent_id)
        forks = (  # messages with siblings or several children
            message_id
            for message_id in newest_first
            if len(self.siblings[self.entries[message_id].parent_id]) > 1 or len(self.siblings.get(message_id, ())) > 1
        )
        ends = (message_id for message_id in newest_first if not self.siblings.get(message_id))
        by_relevance = chain(
            branch[:_N_RECENT],
            self._ids[:1],
            branch[-1:],
            selected,
            islice(forks, self._limit // 2),
            islice(ends, self._limit // 4),
            newest_first,
        )
        for message_id in by_relevance:  # some ids are repeated
            if len(visible) >= n_wanted:
                break
            visible.add(message_id)
        # A message with visible messages below two or more of its children must be visible as well: a fold instead
        # would have several successors, and the shown rows would not form a tree.
        n_visible_children: dict[str | None, int] = {}
        for message_id in reversed(self._ids):
            n = n_visible_children.get(message_id, 0)
            if n > 1:
                visible.add(message_id)
            if n or message_id in visible:
                parent_id = self.entries[message_id].parent_id
                n_visible_children[parent_id] = n_visible_children.get(parent_id, 0) + 1
        for members in self._groups(visible).values():
            if len(members) < _SMALLEST_FOLD:
                visible.update(members)
        return visible

    # --- folds -----------------------------------------------------------------------------------------------------

    def _groups(self, visible: Collection[str]) -> dict[str, list[str]]:
        """Group the ids of the hidden messages into folds.

        Each chain that leads to a visible message is a separate fold. All hidden subtrees below the same visible
        message share one fold, so that 500 answers to one question take one row.
        """
        ancestors = set(visible)  # and the visible messages
        for message_id in reversed(self._ids):
            parent_id = self.entries[message_id].parent_id
            if message_id in ancestors and parent_id is not None:
                ancestors.add(parent_id)
        keys: dict[str, str] = {}
        groups: dict[str, list[str]] = {}
        for message_id in self._ids:
            if message_id in visible:
                continue
            parent_id = self.entries[message_id].parent_id
            if parent_id is not None and parent_id not in visible:
                key = keys[parent_id]
            else:
                key = message_id if message_id in ancestors else f"below {parent_id}"
            keys[message_id] = key
            groups.setdefault(key, []).append(message_id)
        return groups
