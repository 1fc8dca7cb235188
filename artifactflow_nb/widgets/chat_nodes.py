"""Small pieces of the chat: an entry of the list of conversations, and the notes of its face."""

from collections.abc import Sequence

from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.width import clip
from artifactflow_nb.widgets.controls import button

TITLE_COLUMNS = 60


def noted(notes: Sequence[str]) -> str:
    """Notes that stand before the questions; they are ours, and hold no markup."""
    return "".join(f'<p class="af-empty af-quiet">{note}</p>' for note in notes)


def conversation_entry(entry: Conversation) -> str:
    """A conversation to open, with how much was asked in it."""
    title = clip(entry.title, TITLE_COLUMNS) or "Untitled"
    n = count(entry.n_messages, "question")
    return (
        f'{button(title, "open", css="af-entry", conversation=entry.conversation_id)} <span class="af-quiet">{n}</span>'
    )
