"""The list of conversations to choose from: a search field, the matches, and a button for more of them."""

from collections.abc import Iterable, Sequence

from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.cards import CardCell, DisplayList
from artifactflow_nb.core.text.format import format_local_time
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.store.conversations import Conversation, ConversationManager
from artifactflow_nb.widgets.forms.form import Field, form_node
from artifactflow_nb.widgets.page.elements import action_attributes, button, time_html
from artifactflow_nb.widgets.page.nodes import Node


class ConversationList(DisplayList[Conversation]):
    """Conversations, the one with the latest question first.

    Args:
        conversations: The conversations, in this order.
        search: The search words that found them; None without a search. With a search, excerpts are shown.
    """

    def __init__(self, conversations: Iterable[Conversation], texts: Texts, search: str | None = None) -> None:
        super().__init__(conversations)
        self._texts, self._search = texts, search

    def _slice(self, values: Sequence[Conversation]) -> "ConversationList":
        return ConversationList(values, self._texts, self._search)

    def _columns(self) -> Sequence[str]:
        excerpt = ["found"] if self._search else []
        names = ["title", *excerpt, "messages", "branches", "artifacts", "last_question", "id"]
        return [self._texts(f"column_{name}") for name in names]

    def _cells(self, value: Conversation, /) -> Sequence[CardCell]:
        excerpt = [value.hit.excerpt if value.hit else ""] if self._search else []
        counts = [value.n_messages, value.n_branches, value.n_artifacts]
        return [value.title, *excerpt, *counts, format_local_time(value.updated_at), value.conversation_id]

    def _nothing(self) -> str:
        texts, words = self._texts, self._search
        return texts("none_holds", words=repr(words)) if words else texts("no_conversations")


_PAGE_SIZE = 50


class ConversationPicker:
    """A searchable list of conversations within a view; the view handles its actions `search`, `choose` and `more`.

    Attributes:
        conversations: The listed conversations, the one with the latest question first.
    """

    def __init__(self, store: ConversationManager, texts: Texts) -> None:
        self.conversations: Sequence[Conversation] = ()
        self._store = store
        self._texts = texts
        self._words = ""
        self._limit = _PAGE_SIZE
        self._has_more = False

    async def load(self) -> None:
        """Read the list again."""
        n = self._limit + 1  # one more than is shown tells whether there are more
        found = self._store.search(self._words, n) if self._words else self._store.list_conversations(n)
        matches = await found
        self.conversations, self._has_more = matches[: self._limit], len(matches) > self._limit

    async def search(self, words: str) -> None:
        """List the conversations that contain all the words; every conversation if there are no words."""
        self._words, self._limit = words.strip(), _PAGE_SIZE
        await self.load()

    async def load_more(self) -> None:
        """List one more page."""
        self._limit += _PAGE_SIZE
        await self.load()

    def nodes(self, chosen: str | None) -> tuple[Node, Node]:
        """The search form and the list, with the chosen conversation marked."""
        name, search = self._texts("search_conversations"), self._texts("search")
        words = Field("words", "text", label=name, placeholder=search, hide_label=True, keep=True)
        form = form_node("search", "search", search, name, [words], css="af-tree-search")
        return form, conversation_list(self.conversations, chosen, self._words, self._texts, has_more=self._has_more)


def conversation_list(
    listed: Sequence[Conversation], chosen: str | None, words: str, texts: Texts, *, has_more: bool
) -> Node:
    """The conversations as buttons that show them."""
    items = "".join(_item(entry, texts, is_chosen=entry.conversation_id == chosen) for entry in listed)
    nothing = texts("none_holds", words=repr(words)) if words else texts("no_conversations")
    html = f'<ul class="af-tree-list">{items}</ul>' if items else f'<p class="af-quiet">{escape(nothing)}</p>'
    return Node("list", html + (button(texts("show_more"), "more") if has_more else ""))


def _item(entry: Conversation, texts: Texts, *, is_chosen: bool) -> str:
    current = ' aria-current="true"' if is_chosen else ""
    excerpt = (
        f'<span class="af-tree-found">{escape_with_language(entry.hit.excerpt)}</span>'
        if entry.hit and entry.hit.excerpt
        else ""
    )
    counts = " · ".join([texts.count(entry.n_messages, "n_questions"), texts.count(entry.n_branches, "n_branches")])
    match_id = entry.hit and entry.hit.message_id  # a search opens the message that it found
    return (
        f'<li><button type="button" class="af-tree-item"{current} '
        f"{action_attributes('choose', conversation=entry.conversation_id, message=match_id)}>"
        f'<span class="af-tree-title">{escape_with_language(entry.title or texts("untitled"))}</span>{excerpt}'
        f'<span class="af-tree-counts">{counts}<br>{time_html(entry.updated_at)}</span></button></li>'
    )
