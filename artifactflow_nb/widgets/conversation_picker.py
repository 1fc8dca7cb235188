"""The list of conversations to choose one from: a field that searches, what was found, and more of it."""

from collections.abc import Sequence

from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.widgets.tree import Node
from artifactflow_nb.widgets.tree_nodes import conversation_list, search_form
from artifactflow_nb.widgets.tree_store import PAGE_SIZE, TreeStore


class ConversationPicker:
    """Conversations as a view lists them; its form does `search`, its buttons `choose` and `more`.

    Args:
        store: Where they are read, on the engine's loop.

    Attributes:
        listed: The conversations that are listed, those first in which was asked last.
    """

    def __init__(self, store: TreeStore) -> None:
        self.listed: Sequence[Conversation] = ()
        self._store = store
        self._words = ""
        self._n_wanted = PAGE_SIZE
        self._has_more = False

    async def load(self) -> None:
        """Read the list again."""
        found = await self._store.listed(self._words, self._n_wanted + 1)
        self.listed, self._has_more = found[: self._n_wanted], len(found) > self._n_wanted

    async def search(self, words: str) -> None:
        """List the conversations that hold the words; all, if there are none."""
        self._words, self._n_wanted = words.strip(), PAGE_SIZE
        await self.load()

    async def more(self) -> None:
        """List more of them."""
        self._n_wanted += PAGE_SIZE
        await self.load()

    def nodes(self, chosen: str | None) -> tuple[Node, Node]:
        """The field and the list, in which one may be the chosen."""
        return search_form(), conversation_list(self.listed, chosen, self._words, has_more=self._has_more)
