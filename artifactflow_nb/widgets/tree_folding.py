"""Which messages of a long conversation its tree shows, and which it folds away into a row that counts them.

::

    messages ──> the most telling ones, and where their branches part ──> the rest: folds, between two of them or below

A fold has at most one way on, so that what is left is a tree again. Up to 60 messages none is folded.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from artifactflow_nb.store.tree_reading import TreeEntry

LIMIT = 60
_NEAR = 6
"""How many messages before the active one are shown first of all."""
_SMALLEST_FOLD = 3
_OPENED_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Fold:
    """Messages that are not shown.

    Attributes:
        message_ids: Their ids, the oldest first.
        n_branches: How many branches end among them.
        is_on_active_branch: Whether the active branch leads through it.
    """

    message_ids: tuple[str, ...]
    n_branches: int = 0
    is_on_active_branch: bool = False

    @property
    def first_to_open(self) -> tuple[str, ...]:
        """The messages to show when a reader opens the fold: 20 at its beginning and 20 at its end."""
        ids = self.message_ids
        return ids if len(ids) <= 2 * _OPENED_AT_ONCE else ids[:_OPENED_AT_ONCE] + ids[-_OPENED_AT_ONCE:]


@dataclass(frozen=True, slots=True)
class Item:
    """A message or a fold, and how many messages are older than the newest one at or below it."""

    what: TreeEntry | Fold
    newest: int


@dataclass(slots=True)
class _Group:
    """A fold in the making."""

    owner: str | None
    members: list[str] = field(default_factory=list)


class FoldedTree:
    """The tree that is shown.

    Args:
        entries: All messages, the oldest first.
        selected: A message that has to be shown, like the active one; None if none is selected.
        opened: More messages to show.
        limit: Up to how many messages none is folded; else about so many are shown.

    Attributes:
        entries: The messages by their ids.
        siblings: The ids of a message's children, the oldest first; under None those of the roots.
    """

    def __init__(self, entries: Sequence[TreeEntry], selected: str | None, opened: Collection[str], limit: int) -> None:
        self.entries = {entry.message_id: entry for entry in entries}
        self.siblings: dict[str | None, list[str]] = {}
        for entry in entries:
            self.siblings.setdefault(entry.parent_id, []).append(entry.message_id)
        self._selected = self.entries.get(selected or "")
        self._opened = [message_id for message_id in opened if message_id in self.entries]
        self._limit = limit
        self._ids = list(self.entries)
        self._newest = self._newest_below()
        self._shown = set(self._ids) if len(self._ids) <= limit else self._choose()
        self._items = self._arrange()

    def below(self, what: TreeEntry | Fold | None) -> Sequence[Item]:
        """What follows a message or a fold, the oldest first; None for the roots."""
        return self._items.get(_name(what), ())

    def _newest_below(self) -> dict[str, int]:
        newest = {message_id: place for place, message_id in enumerate(self._ids)}
        for message_id in reversed(self._ids):
            parent_id = self.entries[message_id].parent_id
            if parent_id is not None:
                newest[parent_id] = max(newest[parent_id], newest[message_id])
        return newest

    # --- what is shown ---------------------------------------------------------------------------------------------

    def _choose(self) -> set[str]:
        shown = {entry.message_id for entry in self.entries.values() if entry.is_active or entry is self._selected}
        n_more = self._limit - len(shown)
        shown.update(self._opened)
        enough = len(shown) + n_more
        for message_id in self._wishes():
            if len(shown) >= enough:
                break
            shown.add(message_id)
        self._add_partings(shown)
        for group in self._groups(shown).values():
            if len(group.members) < _SMALLEST_FOLD:
                shown.update(group.members)
        return shown

    def _wishes(self) -> Iterator[str]:
        """The messages, those first that tell most; some come twice."""
        newest_first = self._ids[::-1]
        branch = [message_id for message_id in newest_first if self.entries[message_id].is_on_active_branch]
        yield from branch[:_NEAR]
        yield from self._ids[:1]
        yield from branch[-1:]
        if self._selected is not None:
            yield from [self._selected.parent_id] if self._selected.parent_id else []
            yield from self.siblings.get(self._selected.message_id, [])[:2]
        heads = (one for one in newest_first if self._is_head(one))
        ends = (one for one in newest_first if not self.siblings.get(one))
        yield from islice(heads, self._limit // 2)
        yield from islice(ends, self._limit // 4)
        yield from newest_first

    def _is_head(self, message_id: str) -> bool:
        """Whether a branch begins here, or one that ends elsewhere leaves it."""
        together = self.siblings[self.entries[message_id].parent_id]
        return len(together) > 1 or len(self.siblings.get(message_id, ())) > 1

    def _add_partings(self, shown: set[str]) -> None:
        """Show every message from which two or more ways lead to messages that are shown."""
        n_ways: dict[str | None, int] = {}
        for message_id in reversed(self._ids):
            n = n_ways.get(message_id, 0)
            if n > 1:
                shown.add(message_id)
            if n or message_id in shown:
                parent_id = self.entries[message_id].parent_id
                n_ways[parent_id] = n_ways.get(parent_id, 0) + 1

    # --- what is folded --------------------------------------------------------------------------------------------

    def _groups(self, shown: Collection[str]) -> dict[str, _Group]:
        """The folds: stretches between two messages that are shown, and all that hangs below one of them together."""
        leading = set(shown)
        for message_id in reversed(self._ids):
            parent_id = self.entries[message_id].parent_id
            if message_id in leading and parent_id is not None:
                leading.add(parent_id)
        names: dict[str, str] = {}
        groups: dict[str, _Group] = {}
        for message_id in self._ids:
            if message_id in shown:
                continue
            owner = self.entries[message_id].parent_id
            begins = owner is None or owner in shown
            beside = "" if message_id in leading else f"below {owner}"
            names[message_id] = name = (beside or message_id) if begins else names[owner or ""]
            groups.setdefault(name, _Group(owner)).members.append(message_id)
        return groups

    def _arrange(self) -> dict[str | None, list[Item]]:
        """The items that follow each message and each fold; both are named by their first message."""
        groups = self._groups(self._shown)
        folded = {member: group.members[0] for group in groups.values() for member in group.members}
        firsts = {group.members[0]: group for group in groups.values()}
        items: dict[str | None, list[Item]] = {}
        for message_id, entry in self.entries.items():
            parent = entry.parent_id if entry.parent_id is None else folded.get(entry.parent_id, entry.parent_id)
            if message_id in firsts:
                members = firsts[message_id].members
                newest = max(self._newest[member] for member in members)
                items.setdefault(parent, []).append(Item(self._fold(members), newest))
            elif message_id not in folded:
                items.setdefault(parent, []).append(Item(entry, self._newest[message_id]))
        return items

    def _fold(self, members: list[str]) -> Fold:
        ends = sum(not self.siblings.get(member) for member in members)
        return Fold(tuple(members), ends, any(self.entries[member].is_on_active_branch for member in members))


def _name(what: TreeEntry | Fold | None) -> str | None:
    if what is None:
        return None
    return what.message_ids[0] if isinstance(what, Fold) else what.message_id
