"""The list of conversations to choose from: a search field, the matches, and a button for more matches."""

from collections.abc import Iterable, Sequence

from artifactflow_nb.core.language import EnglishText, Language, in_language, translate
from artifactflow_nb.core.text.cards import CardCell, DisplayList
from artifactflow_nb.core.text.format import clip, format_local_time, translate_count
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.store.conversations import Conversation, ConversationManager
from artifactflow_nb.widgets.forms.form import Field, form_node
from artifactflow_nb.widgets.page.elements import action_attributes, button, time_html
from artifactflow_nb.widgets.page.nodes import Node


class ConversationList(DisplayList[Conversation]):
    """Conversations as a table, the conversation with the latest question first.

    Args:
        conversations: The conversations, in this order.
        language: The language of the list.
        search: The search words that found the conversations, or None. With a search, excerpts are shown.
    """

    def __init__(
        self, conversations: Iterable[Conversation], language: Language = "en", search: str | None = None
    ) -> None:
        super().__init__(conversations)
        self._language, self._search = language, search

    def _slice(self, values: Sequence[Conversation]) -> "ConversationList":
        return ConversationList(values, self._language, self._search)

    def _columns(self) -> Sequence[str]:
        excerpt: Sequence[EnglishText] = ["found"] if self._search else []
        names: Sequence[EnglishText] = ["title", *excerpt, "messages", "branches", "artifacts", "last question", "id"]
        with in_language(self._language):
            return [translate(name, context="column") for name in names]

    def _cells(self, value: Conversation, /) -> Sequence[CardCell]:
        excerpt = [value.hit.excerpt if value.hit else ""] if self._search else []
        counts = [value.n_messages, value.n_branches, value.n_artifacts]
        return [value.title, *excerpt, *counts, format_local_time(value.updated_at), value.conversation_id]

    def _nothing(self) -> str:
        with in_language(self._language):
            return _nothing_found(self._search or "")


PAGE_SIZE = 50
_TITLE_COLUMNS = 80


class ConversationPicker:
    """A searchable list of conversations within a view; the view handles the actions `search`, `choose` and `more`.

    Args:
        page_size: Number of conversations that are listed at first, and with each `more`.

    Attributes:
        conversations: The listed conversations, ordered by their latest questions, the newest first.
    """

    def __init__(self, store: ConversationManager, page_size: int = PAGE_SIZE) -> None:
        self.conversations: Sequence[Conversation] = ()
        self._store = store
        self._words = ""
        self._limit = self._page_size = page_size
        self._has_more = False

    async def load(self) -> None:
        """Read the list again."""
        n = self._limit + 1  # an extra match shows that there are more
        search = self._store.search(self._words, n) if self._words else self._store.list_conversations(n)
        matches = await search
        self.conversations, self._has_more = matches[: self._limit], len(matches) > self._limit

    async def search(self, words: str) -> None:
        """List the conversations that contain all the words; every conversation if there are no words."""
        self._words, self._limit = words.strip(), self._page_size
        await self.load()

    async def load_more(self) -> None:
        """List another page."""
        self._limit += self._page_size
        await self.load()

    def nodes(self, chosen: str | None) -> tuple[Node, Node]:
        """Build the search form and the list, with the chosen conversation marked."""
        name, search = translate("Search conversations"), translate("Search")
        words = Field("words", "text", label=name, placeholder=search, hide_label=True, keep=True)
        form = form_node("search", "search", search, name, [words], css="af-tree-search")
        return form, conversation_list(self.conversations, chosen, self._words, has_more=self._has_more)


def conversation_list(conversations: Sequence[Conversation], chosen: str | None, words: str, *, has_more: bool) -> Node:
    """Build conversations as buttons that show the conversations; `words` are the words of the search."""
    items = "".join(_item(entry, is_chosen=entry.conversation_id == chosen) for entry in conversations)
    nothing = _nothing_found(words)
    html = f'<ul class="af-tree-list">{items}</ul>' if items else f'<p class="af-quiet">{escape(nothing)}</p>'
    return Node("list", html + (button(translate("Show more"), "more") if has_more else ""))


def _nothing_found(words: str) -> str:
    if words:
        return translate("No conversation contains {words}.", words=repr(words))
    return translate("No conversations yet.")


def saved_list(conversations: Sequence[Conversation]) -> Node:
    """Build the titles of conversations of this kernel, for pages without a kernel."""
    titles = [clip(entry.title or translate("Untitled conversation"), _TITLE_COLUMNS) for entry in conversations]
    if not titles:
        note = translate("No conversations of this kernel yet.")
        return Node("list", f"<p>{note}</p>", css="af-quiet", text=note)
    items = "".join(f"<li>{escape_with_language(title)}</li>" for title in titles)
    return Node("list", f"<ul>{items}</ul>", text="\n".join([translate("Conversations:"), *titles]))


def _item(entry: Conversation, *, is_chosen: bool) -> str:
    current = ' aria-current="true"' if is_chosen else ""
    excerpt = (
        f'<span class="af-tree-found">{escape_with_language(entry.hit.excerpt)}</span>'
        if entry.hit and entry.hit.excerpt
        else ""
    )
    counts = " · ".join([translate_count(entry.n_messages, "question"), translate_count(entry.n_branches, "branch")])
    title = entry.title or translate("Untitled conversation")
    match_id = entry.hit and entry.hit.message_id  # after a search a click opens the matching message
    return (
        f'<li><button type="button" class="af-tree-item"{current} '
        f"{action_attributes('choose', conversation=entry.conversation_id, message=match_id)}>"
        f'<span class="af-tree-title">{escape_with_language(title)}</span>{excerpt}'
        f'<span class="af-tree-counts">{counts}<br>{time_html(entry.updated_at)}</span></button></li>'
    )
