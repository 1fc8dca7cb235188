"""Layout of a conversation's tree: one row per message, time running down, one column per branch.

::

    o  What is tea?           the active branch has the first column
    ├─ o  And coffee?         a branch is placed between its parent question and the next question;
    │  o  With milk?          branches of a branch are one column further to the right
    o  Where does it grow?

The rows of a branch are contiguous even if its questions alternated with questions of other branches.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from artifactflow_nb.store.conversation_tree import TreeEntry
from artifactflow_nb.widgets.conversations.folding import MAX_MESSAGES, FoldedMessages, FoldedTree, TreeItem

_PlacedItem = tuple[TreeItem, int, int, bool]
"""An item, the index of the row that it follows, its column, and whether the item begins the column."""


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A node of the tree.

    Attributes:
        content: The message, or a fold of several messages.
        column: Column; 0 for the active branch.
        parent: Index of the parent's row; -1 for a first question.
        starts_branch: Whether the row begins a column of its own, next to the parent's row.
        depth: Number of the question, or of a fold's first question, on the branch, from 1.
        sibling: Number among the messages with the same parent, 1 for the oldest; 1 for a fold.
        n_siblings: Number of messages with the same parent; 1 for a fold.
    """

    content: TreeEntry | FoldedMessages
    column: int
    parent: int
    starts_branch: bool
    depth: int
    sibling: int = 1
    n_siblings: int = 1


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Rows of a tree.

    Attributes:
        rows: The rows, from top to bottom.
        has_start: Whether a start node is drawn above the rows to join several first questions.
    """

    rows: tuple[TreeRow, ...]
    has_start: bool


def layout_tree(
    entries: Sequence[TreeEntry],
    *,
    selected: str | None = None,
    open_message_ids: Collection[str] = (),
    limit: int = MAX_MESSAGES,
) -> TreeLayout:
    """Arrange a conversation.

    Args:
        entries: All messages of the conversation, the oldest first.
        selected: A message that gets its own row, as the active message does.
        open_message_ids: Messages of folds that a reader opened (`FoldedMessages.next_to_open`).
        limit: Maximum number of messages that are shown without folds, and approximate number of rows with folds.
    """
    tree = FoldedTree(entries, selected, open_message_ids, limit)
    depths: dict[str | None, int] = {None: 0}
    for entry in entries:  # the oldest first, so the depth of a parent is known
        depths[entry.message_id] = depths[entry.parent_id] + 1

    def place_children(parent: TreeEntry | FoldedMessages | None, row: int, column: int) -> list[_PlacedItem]:
        """Order children by age, but put the child that keeps the column last: the active or newest branch."""
        items = list(tree.children(parent))
        if not items:
            return []
        straight = max(items, key=lambda item: (item.content.is_on_active_branch, item.newest_index))
        items.remove(straight)
        return [*((item, row, column + 1, True) for item in items), (straight, row, column, False)]

    rows: list[TreeRow] = []
    roots = place_children(None, -1, 0)
    # A stack instead of recursion: a conversation may be deeper than Python's recursion limit.
    stack = roots[::-1]
    while stack:
        item, parent, column, starts_branch = stack.pop()
        content = item.content
        if isinstance(content, FoldedMessages):
            row = TreeRow(content, column, parent, starts_branch, depths[content.message_ids[0]])
        else:
            siblings = tree.siblings[content.parent_id]
            number, depth = siblings.index(content.message_id) + 1, depths[content.message_id]
            row = TreeRow(content, column, parent, starts_branch, depth, number, len(siblings))
        stack += place_children(content, len(rows), column)[::-1]
        rows.append(row)
    return TreeLayout(tuple(rows), len(roots) > 1)
