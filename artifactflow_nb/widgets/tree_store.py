"""What the tree's panel reads of the store and has done there; all of it on the engine's loop."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.run_port import RunPort
from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.store.message_tree import MessageTree
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.store.tree_reading import TreeEntry, data_version, load_entries, load_texts
from artifactflow_nb.widgets.tree import Node
from artifactflow_nb.widgets.tree_compare import Side, comparison
from artifactflow_nb.widgets.tree_reader import Reading

PAGE_SIZE = 50


class TreeStore:
    """Conversations and their trees.

    Args:
        thread: The engine's thread.
    """

    def __init__(self, thread: EngineThread) -> None:
        self._thread = thread
        self.conversations = thread.engine.conversations

    async def listed(self, words: str, n: int) -> Sequence[Conversation]:
        """The first `n` conversations, or of those that hold all the words."""
        if words.strip():
            return await self.conversations.search(words, n)
        return await self.conversations.list_conversations(n)

    async def entries(self, conversation_id: str) -> tuple[TreeEntry, ...]:
        """The messages of a conversation."""
        engine = self._thread.engine
        return await engine.database.read(lambda db: load_entries(db, engine.folder, conversation_id))

    async def texts(self, message_ids: Iterable[str]) -> Mapping[str, tuple[str, str]]:
        """Whole questions and answers."""
        wanted = list(message_ids)
        return await self._thread.engine.database.read(lambda db: load_texts(db, wanted))

    async def version(self) -> int:
        """A number that is another after each write, whoever made it."""
        return await self._thread.engine.database.read(data_version)

    async def read(self, message_id: str, changed: Callable[[], None]) -> Reading:
        """A message to read, with all that its run has done so far; `changed` is called when there is more."""
        message = await self.conversations.message(message_id)
        runs = self._thread.engine.runs
        run = None if message.run_id is None else RunPort(self._thread, await runs.get(message.run_id))
        reading = Reading(message, run, changed)
        await reading.start()
        return reading

    async def ask(self, conversation_id: str, message_id: str, question: str) -> str:
        """Ask behind a message; the new message's id."""
        begin = self._thread.engine.controller.begin
        return await self._start(await begin(question, conversation_id=conversation_id, parent_message_id=message_id))

    async def regenerate(self, message_id: str) -> str:
        """Ask a message's question once more; the new message's id."""
        return await self._start(await self._thread.engine.controller.begin_sibling(message_id))

    async def _start(self, stored: StoredRun) -> str:
        await self._thread.engine.controller.start(stored)
        return stored.message_id

    async def compare(
        self, conversation_id: str, entries: Sequence[TreeEntry], left: str, right: str
    ) -> tuple[Node, ...]:
        """Two messages side by side; made on a thread of its own, because differences of long texts take a while."""
        tree = MessageTree(conversation_id, ((entry.message_id, entry.parent_id) for entry in entries))
        by_id = {entry.message_id: entry for entry in entries}

        async def side(message_id: str) -> Side:
            n_turns = len(tree.path(message_id))
            message = await self.conversations.message(message_id)  # raises where it was deleted meanwhile
            seen = await self._thread.engine.artifacts.list_artifacts(conversation_id, message_id=message_id)
            artifacts = {one.artifact_id: one for one in seen}
            return Side(by_id[message_id], n_turns, message.content, message.response or "", artifacts)

        return await asyncio.to_thread(comparison, await side(left), await side(right))
