"""The panel of conversations: the list, the tree of the chosen one, and what is read or compared in it.

::

    list | title
         | tree          press a question: it is read below
         | what is read  its run, followed while it goes on; or two branches side by side
"""

import asyncio
from collections.abc import Collection, Sequence

from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import NotFound
from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.store.tree_reading import TreeEntry
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.markdown import MarkdownRenderer
from artifactflow_nb.widgets import tree_nodes
from artifactflow_nb.widgets.conversation_picker import ConversationPicker
from artifactflow_nb.widgets.tree import Node
from artifactflow_nb.widgets.tree_face import empty_face, tree_face
from artifactflow_nb.widgets.tree_folding import Fold
from artifactflow_nb.widgets.tree_layout import TreeLayout, lay_out
from artifactflow_nb.widgets.tree_reader import Reading
from artifactflow_nb.widgets.tree_store import TreeStore
from artifactflow_nb.widgets.tree_text import one_line
from artifactflow_nb.widgets.view import Act, Face, Screen
from artifactflow_nb.widgets.watched_view import WatchedView

Texts = dict[str, tuple[str, str]]

_GONE_AFTER_LOOKS = 5
"""That a run's process is gone is not written anywhere: while a run runs, it is looked at again after so many looks."""


class TreeView(WatchedView):
    """Shows a conversation and lets the reader go on with it.

    Args:
        thread: The engine's thread.
        conversation_id: The conversation to show first; None for the one in which was asked last.
        measured: Show tokens, costs and times in the face.
    """

    label = "Conversations"
    css = "af-trees"

    def __init__(self, thread: EngineThread, conversation_id: str | None = None, *, measured: bool = True) -> None:
        super().__init__()
        self._store = TreeStore(thread)
        self._chosen = conversation_id
        self._measured = measured
        self._picker = ConversationPicker(self._store)
        self._conversation: Conversation | None = None
        self._entries: tuple[TreeEntry, ...] = ()
        self._layout = self._kept_layout = TreeLayout((), (), False)
        self._selected: str | None = None
        self._opened: set[str] = set()
        self._reading: Reading | None = None
        self._comparing: TreeEntry | None = None
        self._compared: tuple[Node, ...] = ()
        self._question: Node | None = None
        self._drawing = Node("drawing")
        self._texts: Texts = {}
        self._prepared: tuple[object, Face] = None, {}
        self._renderer = MarkdownRenderer()
        self._loading = asyncio.Lock()
        self._n_looks = 0
        self._is_over = False

    async def open(self, screen: Screen) -> None:
        """Load the list and the tree, and follow the store from then on."""
        await super().open(screen)
        await self._prepare()

    def close(self) -> None:
        """Stop following."""
        super().close()
        self._is_over = True
        self._read_no_more()

    # --- what is loaded --------------------------------------------------------------------------------------------

    async def _state(self) -> object:
        self._n_looks += 1
        runs = any(entry.status == "running" for entry in self._entries)
        return await self._store.version(), self._n_looks // _GONE_AFTER_LOOKS if runs else 0

    async def _follow(self) -> None:
        before = self._entries
        await self._load()
        self.screen.refresh()
        if _kept(before) != _kept(self._entries):
            await self._keep()

    async def _load(self) -> None:
        """Read the list and the tree again, and draw both."""
        async with self._loading:  # what was read first must not come to stand last
            await self._picker.load()
            if self._chosen is None and self._picker.listed:
                self._chosen = self._picker.listed[0].conversation_id
            await self._load_tree()

    async def _load_tree(self) -> None:
        unended = {entry.message_id for entry in self._entries if entry.status in tree_nodes.UNENDED}
        try:
            self._conversation = await self._store.conversations.get(self._chosen) if self._chosen else None
            self._entries = await self._store.entries(self._chosen) if self._chosen else ()
        except NotFound:  # somebody deleted it
            self._chosen, self._conversation, self._entries = None, None, ()
        known = {entry.message_id for entry in self._entries}
        if self._selected not in known:
            self._read_no_more()
        is_plain = self._selected is None and not self._opened
        layout = await self._draw()
        self._kept_layout = layout if is_plain else await asyncio.to_thread(lay_out, self._entries)
        self._texts = {key: texts for key, texts in self._texts.items() if key in known - unended}
        wanted = (row.what.message_id for row in self._kept_layout.rows if isinstance(row.what, TreeEntry))
        self._texts = {**self._texts, **await self._store.texts(key for key in wanted if key not in self._texts)}

    async def _draw(self) -> TreeLayout:
        """Make the drawing beside the loop, which 10,000 messages would hold up for a tenth of a second; its layout."""
        wanted = self._wanted
        layout, drawing = await asyncio.to_thread(_drawn, *wanted)
        if wanted == self._wanted:  # else it is drawn anew by whoever changed that
            self._layout, self._drawing = layout, drawing
        return layout

    @property
    def _wanted(self) -> tuple[Sequence[TreeEntry], str | None, frozenset[str]]:
        """What the drawing is made of."""
        return self._entries, self._selected, frozenset(self._opened)

    async def _show(self, conversation_id: str | None, message_id: str | None = None) -> None:
        """Choose a conversation and, in it, a message to read."""
        self._read_no_more()
        self._comparing, self._compared, self._question = None, (), None
        if conversation_id != self._chosen:
            self._chosen, self._opened = conversation_id, set()
        await self._load()
        if message_id is not None:
            await self._read(message_id)

    async def _read(self, message_id: str) -> None:
        reading = await self._store.read(message_id, self.screen.refresh)
        if self._is_over:  # closed while it was read
            reading.close()
            return
        self._read_no_more()
        self._selected, self._reading = message_id, reading
        await self._draw()

    def _read_no_more(self) -> None:
        if self._reading is not None:
            self._reading.close()
        self._reading, self._selected = None, None

    def _entry(self, act: Act, name: str = "message") -> TreeEntry:
        wanted = act.args.get(name)
        for entry in self._entries:
            if entry.message_id == wanted:
                return entry
        raise NotFound("This question is not in the conversation any more.")

    # --- what is shown ---------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """The list, and beside it the chosen conversation."""
        listed = self._picker.nodes(self._chosen)
        return (
            Node("lists", kind="box", css="af-tree-lists", children=listed),
            Node("chosen", kind="box", css="af-tree-chosen", children=tuple(self._chosen_nodes())),
        )

    def _chosen_nodes(self) -> list[Node]:
        if self._conversation is None:
            return [Node("nothing", "<p>Ask something with <code>wb.ask(…)</code>.</p>", css="af-quiet")]
        made = [*tree_nodes.heading(self._conversation)]
        made += [self._question] if self._question else []
        made.append(self._drawing)
        made += [tree_nodes.choosing(self._comparing)] if self._comparing else []
        if self._compared:
            made.append(tree_nodes.compared(self._compared))
        elif self._reading is not None:
            made.append(Node("reading", kind="box", css="af-tree-read", children=self._read_nodes(self._reading)))
        return made

    def _read_nodes(self, reading: Reading) -> tuple[Node, ...]:
        entry = next((entry for entry in self._entries if entry.message_id == self._selected), None)
        if entry is None:
            return reading.nodes()
        together = [other.message_id for other in self._entries if other.parent_id == entry.parent_id]
        return (*reading.nodes(), *tree_nodes.actions(entry, together))

    async def _keep(self) -> None:
        """Have the face saved."""
        await self._prepare()
        self.screen.keep()

    async def _prepare(self) -> None:
        """Make the face beside the loop."""
        of = self._told
        self._prepared = of, await asyncio.to_thread(self._face_of, *of)

    def face(self) -> Face:
        """The chosen conversation, to be read without a kernel."""
        of, face = self._prepared
        return face if of == self._told else self._face_of(*self._told)

    @property
    def _told(self) -> tuple[Conversation | None, TreeLayout, Texts]:
        """What the face is made of."""
        return self._conversation, self._kept_layout, self._texts

    def _face_of(self, conversation: Conversation | None, layout: TreeLayout, texts: Texts) -> Face:
        if conversation is None:
            return empty_face(self.css)
        return tree_face(conversation, layout, texts, self._renderer, css=self.css, measured=self._measured)

    def announcement(self) -> str:
        """What happens in the run that is read."""
        return self._reading.announcement() if self._reading else ""

    # --- conversations ---------------------------------------------------------------------------------------------

    async def act_search(self, act: Act) -> None:
        """List the conversations that hold the words; all, if there are none."""
        await self._picker.search(str(act.args["values"]["words"]))

    async def act_more(self, _act: Act) -> None:
        """List more of them."""
        await self._picker.more()

    async def act_choose(self, act: Act) -> None:
        """Show the tree of another conversation and, if it was searched for, the message that was found."""
        await self._show(str(act.args["conversation"]), act.args.get("message"))
        await self._keep()

    async def act_rename_ask(self, _act: Act) -> None:
        """Show the form for a new title."""
        if self._conversation is not None:
            self._question = tree_nodes.rename_form(self._conversation)

    async def act_rename(self, act: Act) -> None:
        """Give the conversation another title."""
        await self._store.conversations.rename(str(act.args["conversation"]), str(act.args["values"]["title"]))
        self._question = None
        await self._load()
        await self._keep()

    async def act_delete_ask(self, _act: Act) -> None:
        """Ask whether the conversation is to go."""
        if (chosen := self._conversation) is not None:
            held = f"{count(chosen.n_messages, 'question')} and {count(chosen.n_artifacts, 'artifact')}"
            asked = f"Delete “{one_line(chosen.title, 60)}” with {held}? This cannot be undone."
            self._question = tree_nodes.confirmation(asked, "delete", conversation=chosen.conversation_id)

    async def act_delete(self, act: Act) -> str:
        """Delete the conversation, and show the newest of the others."""
        await self._store.conversations.delete_conversation(str(act.args["conversation"]))
        await self._show(None)
        await self._keep()
        return "Deleted."

    async def act_dismiss(self, _act: Act) -> None:
        """Leave everything as it is."""
        self._question = None

    # --- messages --------------------------------------------------------------------------------------------------

    async def act_read(self, act: Act) -> None:
        """Read a message; while the second one of a comparison is chosen, that is the one."""
        entry = self._entry(act)
        if self._comparing is not None and self._comparing.message_id != entry.message_id:
            await self._compare(self._comparing, entry)
            return
        self._compared, self._question = (), None
        await self._read(entry.message_id)
        self.screen.effect(act.page, "show", key=f"{entry.message_id}/head")

    async def act_unfold(self, act: Act) -> None:
        """Show more of the messages that a fold stands for."""
        for row in self._layout.rows:
            if isinstance(row.what, Fold) and row.what.message_ids[0] == act.args.get("first"):
                self._opened.update(row.what.first_to_open)
        await self._draw()

    async def act_activate(self, act: Act) -> str:
        """Let the next question continue the branch through a message."""
        newest = await self._store.conversations.activate(self._entry(act).message_id)
        await self._load()
        await self._keep()
        asked = next((entry.question for entry in self._entries if entry.message_id == newest), "")
        return f"The next question continues “{one_line(asked, 60)}”." if asked else ""  # it may be gone again by now

    async def act_ask(self, act: Act) -> None:
        """Ask behind a message, and read what comes of it."""
        entry = self._entry(act)
        asked = await self._store.ask(str(self._chosen), entry.message_id, str(act.args["values"]["question"]))
        await self._show(self._chosen, asked)

    async def act_regenerate(self, act: Act) -> None:
        """Ask the same once more on a branch of its own, and read what comes of it."""
        asked = await self._store.regenerate(self._entry(act).message_id)
        await self._show(self._chosen, asked)

    async def act_prune_ask(self, act: Act) -> None:
        """Ask whether a branch is to go."""
        entry = self._entry(act)
        gone = {entry.message_id}
        for other in self._entries:
            if other.parent_id in gone:
                gone.add(other.message_id)
        n_more = len(gone) - 1
        more = f" with {count(n_more, 'question')} that follow{'s' if n_more == 1 else ''} it," if n_more else ""
        asked = f"Delete “{one_line(entry.question, 60)}”{more} and all that was answered and written there?"
        self._question = tree_nodes.confirmation(asked, "prune", message=entry.message_id)

    async def act_prune(self, act: Act) -> str:
        """Delete a message and all that follow it."""
        await self._store.conversations.delete_branch(self._entry(act).message_id)
        await self._show(self._chosen)
        await self._keep()
        return "Deleted."

    # --- comparing -------------------------------------------------------------------------------------------------

    async def act_compare(self, act: Act) -> None:
        """Have the reader choose the other message."""
        self._comparing = self._entry(act)

    async def act_compare_with(self, act: Act) -> None:
        """Compare two messages."""
        await self._compare(self._entry(act, "other"), self._entry(act))

    async def act_compare_end(self, _act: Act) -> None:
        """Go back to reading."""
        self._comparing, self._compared = None, ()

    async def _compare(self, one: TreeEntry, other: TreeEntry) -> None:
        """Show what was asked first on the left."""
        left, right = sorted((one, other), key=self._entries.index)
        ids = left.message_id, right.message_id
        self._compared = await self._store.compare(str(self._chosen), self._entries, *ids)
        self._comparing = None

    # --- the run that is read --------------------------------------------------------------------------------------

    async def act_decide(self, act: Act) -> None:
        """Answer a request of the run."""
        if self._reading is not None:
            await self._reading.decide(act)

    async def act_resume(self, _act: Act) -> None:
        """Go on with the run, whose process is gone."""
        if self._reading is not None:
            await self._reading.go_on()
            await self._load()

    async def act_stop(self, _act: Act) -> None:
        """End the run."""
        if self._reading is not None:
            await self._reading.cancel()


def _drawn(entries: Sequence[TreeEntry], selected: str | None, opened: Collection[str]) -> tuple[TreeLayout, Node]:
    layout = lay_out(entries, selected=selected, opened=opened)
    return layout, tree_nodes.drawing(layout, selected, measured=True)


def _kept(entries: Sequence[TreeEntry]) -> list[tuple[str, str, bool]]:
    """What of a tree is worth a new face when it changes: messages come and go, end, or another branch is active."""
    return [(entry.message_id, entry.status, entry.is_active) for entry in entries]
