"""The list of conversations as a cell output: one row per conversation, as text and as a table."""

from collections.abc import Iterable, Sequence

from artifactflow_nb.core.text.cards import MAX_ROWS, CardCell
from artifactflow_nb.core.text.format import clip, count, format_local_time, pad
from artifactflow_nb.core.text.listing import DisplayList
from artifactflow_nb.store.conversations import Conversation

_TITLE_COLUMNS = 50


class ConversationList(DisplayList[Conversation]):
    """Conversations, the one with the latest question first.

    Args:
        conversations: The conversations, in this order.
        search: The search words that found them; None without a search. With a search, excerpts are shown.
    """

    def __init__(self, conversations: Iterable[Conversation], search: str | None = None) -> None:
        super().__init__(conversations)
        self._search = search

    def _slice(self, values: Sequence[Conversation]) -> "ConversationList":
        return ConversationList(values, self._search)

    def _columns(self) -> Sequence[str]:
        excerpt = ["found"] if self._search else []
        return ["title", *excerpt, "messages", "branches", "artifacts", "last question", "id"]

    def _cells(self, value: Conversation, /) -> Sequence[CardCell]:
        excerpt = [value.hit.excerpt if value.hit else ""] if self._search else []
        counts = [value.n_messages, value.n_branches, value.n_artifacts]
        return [value.title, *excerpt, *counts, format_local_time(value.updated_at), value.conversation_id]

    def _lines(self) -> list[str]:
        return [*map(_line, self[:MAX_ROWS]), *filter(None, [self._table().more_text])]

    def _nothing(self) -> str:
        return f"No conversation holds {self._search!r}." if self._search else "No conversations yet."


def _line(entry: Conversation) -> str:
    title = pad(clip(entry.title, _TITLE_COLUMNS), _TITLE_COLUMNS)
    counts = (entry.n_messages, "message"), (entry.n_branches, "branch"), (entry.n_artifacts, "artifact")
    sizes = ", ".join(count(number, noun) for number, noun in counts)
    line = f"{entry.conversation_id}  {title}  {sizes}, {format_local_time(entry.updated_at)}"
    return f"{line}\n    {entry.hit.excerpt}" if entry.hit and entry.hit.excerpt else line
