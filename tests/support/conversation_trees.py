"""Artificial conversations: trees of entries, generated from the parent of each message."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from artifactflow_nb.store.conversation_tree import TreeEntry
from artifactflow_nb.widgets.conversations.folding import FoldedMessages
from artifactflow_nb.widgets.conversations.layout import TreeLayout

START = datetime(2026, 1, 1, 9, tzinfo=UTC)


def grow(
    parents: Sequence[int | None], *, active: int | None = None, question: Callable[[int], str] = "Question {}?".format
) -> list[TreeEntry]:
    """Create a message for each number of a parent; the last message is active unless `active` names another one."""
    active = len(parents) - 1 if active is None else active
    branch: set[int] = set()
    step: int | None = active
    while step is not None and parents:
        branch.add(step)
        step = parents[step]
    return [
        TreeEntry(
            f"m{number}",
            None if parent is None else f"m{parent}",
            question(number),
            f"Answer {number}.",
            "completed",
            START + timedelta(minutes=number),
            f"run-{number}",
            "research",
            total_tokens=1_000 + number,
            total_ms=1_500.0,
            is_on_active_branch=number in branch,
            is_active=number == active,
        )
        for number, parent in enumerate(parents)
    ]


def chain(n: int) -> list[TreeEntry]:
    return grow([number - 1 if number else None for number in range(n)])


def with_last(entries: list[TreeEntry], **changes: object) -> list[TreeEntry]:
    """Copy a conversation with a changed last message."""
    return [*entries[:-1], replace(entries[-1], **changes)]


def shape(layout: TreeLayout) -> list[tuple[str, int]]:
    """The rows: a message's id or a fold's count, and the column."""
    return [
        (
            f"+{len(row.content.message_ids)}" if isinstance(row.content, FoldedMessages) else row.content.message_id,
            row.column,
        )
        for row in layout.rows
    ]
