"""The list of conversations as a cell shows it: one row each, as text and as a table."""

from collections.abc import Iterable, Sequence

from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.text.cards import MAX_ROWS, Cell
from artifactflow_nb.text.figures import count, moment
from artifactflow_nb.text.listing import Listing
from artifactflow_nb.text.width import clip, pad

_TITLE_COLUMNS = 50


class ConversationList(Listing[Conversation]):
    """Conversations, those first in which was asked last; indexing gives one of them.

    Args:
        conversations: What the list holds.
        search: The words that they were searched for; None if they were not.
    """

    def __init__(self, conversations: Iterable[Conversation], search: str | None = None) -> None:
        super().__init__(conversations)
        self._search = search

    def _slice(self, values: Sequence[Conversation]) -> "ConversationList":
        return ConversationList(values, self._search)

    def _columns(self) -> Sequence[str]:
        found = ["found"] if self._search else []
        return ["title", *found, "messages", "branches", "artifacts", "last question", "id"]

    def _cells(self, value: Conversation, /) -> Sequence[Cell]:
        found = [value.hit.excerpt if value.hit else ""] if self._search else []
        counts = [value.n_messages, value.n_branches, value.n_artifacts]
        return [value.title, *found, *counts, moment(value.updated_at), value.conversation_id]

    def _lines(self) -> list[str]:
        return [*map(_line, self[:MAX_ROWS]), *filter(None, [self._table().more])]

    def _nothing(self) -> str:
        return f"No conversation holds {self._search!r}." if self._search else "No conversations yet."


def _line(entry: Conversation) -> str:
    title = pad(clip(entry.title, _TITLE_COLUMNS), _TITLE_COLUMNS)
    counts = (entry.n_messages, "message"), (entry.n_branches, "branch"), (entry.n_artifacts, "artifact")
    told = ", ".join(count(number, noun) for number, noun in counts)
    line = f"{entry.conversation_id}  {title}  {told}, {moment(entry.updated_at)}"
    return f"{line}\n    {entry.hit.excerpt}" if entry.hit and entry.hit.excerpt else line
