"""The list of conversations as a cell shows it: one row each, as text and as a table."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import overload

from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.text.markdown import escape
from artifactflow_nb.text.width import clip, pad

_TITLE_COLUMNS = 50


class ConversationList(Sequence[Conversation]):
    """Conversations, those first in which was asked last; indexing gives one of them.

    Args:
        conversations: What the list holds.
        search: The words that they were searched for; None if they were not.
    """

    def __init__(self, conversations: Iterable[Conversation], search: str | None = None) -> None:
        self._conversations = tuple(conversations)
        self._search = search

    @overload
    def __getitem__(self, index: int) -> Conversation: ...

    @overload
    def __getitem__(self, index: slice) -> "ConversationList": ...

    def __getitem__(self, index: int | slice) -> "Conversation | ConversationList":
        if isinstance(index, slice):
            return ConversationList(self._conversations[index], self._search)
        return self._conversations[index]

    def __len__(self) -> int:
        return len(self._conversations)

    def __repr__(self) -> str:
        return "\n".join(map(_line, self)) or self._nothing()

    def _repr_html_(self) -> str:
        if not self:
            return f"<p>{escape(self._nothing())}</p>"
        found = ["found"] if self._search else []
        columns = ["title", *found, "messages", "branches", "artifacts", "last question", "id"]
        head = "".join(f"<th>{column}</th>" for column in columns)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(map(self._row, self))}</tbody></table>"

    def _row(self, entry: Conversation) -> str:
        found = [entry.hit.excerpt if entry.hit else ""] if self._search else []
        counts = [entry.n_messages, entry.n_branches, entry.n_artifacts]
        cells = [entry.title, *found, *counts, _time(entry.updated_at), entry.conversation_id]
        return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"

    def _nothing(self) -> str:
        return f"No conversation holds {self._search!r}." if self._search else "No conversations yet."


def _line(entry: Conversation) -> str:
    title = pad(clip(entry.title, _TITLE_COLUMNS), _TITLE_COLUMNS)
    line = f"{entry.conversation_id}  {title}  {_counts(entry)}, {_time(entry.updated_at)}"
    return f"{line}\n    {entry.hit.excerpt}" if entry.hit and entry.hit.excerpt else line


def _counts(entry: Conversation) -> str:
    counts = (entry.n_messages, "message"), (entry.n_branches, "branch"), (entry.n_artifacts, "artifact")
    plural = {"branch": "branches"}
    return ", ".join(f"{n} {name if n == 1 else plural.get(name, name + 's')}" for n, name in counts)


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
