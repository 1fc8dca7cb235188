"""The conversation panel: the list, the tree of the chosen conversation, and a message or a comparison to read.

::

    list | title
         | tree     click a question to read it below
         | reading  its run, live; or two branches side by side
"""

import asyncio
from collections.abc import Sequence

from artifactflow_nb.core.language import EnglishText, translate
from artifactflow_nb.core.text.format import translate_count
from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.engine.run_client import MakeClient, RunClient
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import Conflict, NotFound
from artifactflow_nb.store.conversation_tree import TreeEntry, load_texts, load_tree_entries
from artifactflow_nb.store.conversations import Conversation, MessageTree
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.widgets.conversations import nodes as tree_nodes
from artifactflow_nb.widgets.conversations.compare import BranchSide, comparison
from artifactflow_nb.widgets.conversations.folding import FoldedMessages
from artifactflow_nb.widgets.conversations.layout import TreeLayout, layout_tree
from artifactflow_nb.widgets.conversations.nodes import MessageReader
from artifactflow_nb.widgets.conversations.picker import ConversationPicker
from artifactflow_nb.widgets.conversations.saved import saved_tree
from artifactflow_nb.widgets.conversations.text import question_line
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import SavedOutput, saved_output
from artifactflow_nb.widgets.page.view import PageAction, Screen
from artifactflow_nb.widgets.run.polled_view import PolledView

MessageTexts = dict[str, tuple[str, str]]

_POLLS_PER_STATUS_CHECK = 5
"""The store has no row for the end of a run's process, so running runs are checked after this number of polls."""


class TreeView(PolledView):
    """Shows a conversation as a tree, and lets the reader continue, compare and delete its branches.

    Args:
        conversation_id: The conversation to show first; None for the conversation with the latest question.
        with_metrics: Show tokens, costs and times in the saved output.
        make_client: Creates the clients of the runs.
    """

    label: EnglishText = "Conversations"
    css = "af-trees"

    def __init__(
        self,
        thread: EngineThread,
        conversation_id: str | None = None,
        *,
        with_metrics: bool = True,
        make_client: MakeClient = RunClient,
    ) -> None:
        super().__init__(thread.engine)
        self._make_client = make_client
        self._thread = thread
        self._conversations = thread.engine.conversations
        self._chosen = conversation_id
        self._with_metrics = with_metrics
        self._picker = ConversationPicker(self._conversations)
        self._conversation: Conversation | None = None
        self._entries: tuple[TreeEntry, ...] = ()
        self._layout = TreeLayout((), has_start=False)
        self._saved_layout = self._layout  # without a selection and opened folds
        self._selected: str | None = None
        self._opened: set[str] = set()  # messages of folds that the reader opened
        self._reader: MessageReader | None = None
        self._compared_entry: TreeEntry | None = None  # the first message of a comparison
        self._comparison: tuple[Node, ...] = ()
        self._dialog: Node | None = None
        self._drawing = Node("drawing")
        self._turn_texts: MessageTexts = {}
        self._saved: tuple[object, SavedOutput] = None, {}  # with its input
        self._renderer = MarkdownRenderer()
        self._load_lock = asyncio.Lock()
        self._n_polls = 0
        self._is_closed = False

    async def open(self, screen: Screen) -> None:
        """Load the list and the tree, and follow the store from then on."""
        await super().open(screen)
        await self._render_saved_output()

    def close(self) -> None:
        """Stop following the store and the run."""
        super().close()
        self._is_closed = True
        self._close_reader()

    @property
    def conversation_id(self) -> str | None:
        """The displayed conversation, or None."""
        return self._chosen

    # --- loading ---------------------------------------------------------------------------------------------------

    async def _change_token(self) -> object:
        self._n_polls += 1
        is_running = any(entry.status == "running" for entry in self._entries)
        return await super()._change_token(), self._n_polls // _POLLS_PER_STATUS_CHECK if is_running else 0

    async def _follow(self) -> None:
        before = self._entries
        await self.load()
        self.screen.refresh()
        if _outline(before) != _outline(self._entries):
            await self._save()

    async def load(self) -> None:
        """Read and draw the list and the tree again."""
        async with self._load_lock:  # an older load must not finish last
            await self._picker.load()
            if self._chosen is None and self._picker.conversations:
                self._chosen = self._picker.conversations[0].conversation_id
            # A message that was unfinished when its texts were read may have a longer answer now.
            unfinished = {entry.message_id for entry in self._entries if entry.status in tree_nodes.UNFINISHED_STATUSES}
            read, chosen, folder = self._engine.database.read, self._chosen, self._engine.folder
            try:
                self._conversation = await self._conversations.get(chosen) if chosen else None
                self._entries = await read(lambda db: load_tree_entries(db, folder, chosen)) if chosen else ()
            except NotFound:  # the conversation was deleted concurrently
                self._chosen, self._conversation, self._entries = None, None, ()
            ids = {entry.message_id for entry in self._entries}
            if self._selected not in ids:
                self._close_reader()
            is_plain = self._selected is None and not self._opened
            layout = await self._draw()
            self._saved_layout = layout if is_plain else await asyncio.to_thread(layout_tree, self._entries)
            rows = [row.content for row in self._saved_layout.rows]
            texts = {key: texts for key, texts in self._turn_texts.items() if key in ids - unfinished}
            missing = [row.message_id for row in rows if isinstance(row, TreeEntry) and row.message_id not in texts]
            self._turn_texts = {**texts, **await read(lambda db: load_texts(db, missing))}

    async def _draw(self) -> TreeLayout:
        """Draw the tree and return its layout.

        A thread draws the tree: 10,000 messages would block the engine's loop for a tenth of a second.
        """
        content = self._drawing_content
        entries, selected, opened = content
        layout = await asyncio.to_thread(layout_tree, entries, selected=selected, open_message_ids=opened)
        drawing = await asyncio.to_thread(tree_nodes.drawing, layout, selected)
        if content == self._drawing_content:  # changed content is drawn by the call that changed it
            self._layout, self._drawing = layout, drawing
        return layout

    @property
    def _drawing_content(self) -> tuple[Sequence[TreeEntry], str | None, frozenset[str]]:
        return self._entries, self._selected, frozenset(self._opened)

    async def _show(self, conversation_id: str | None, message_id: str | None = None) -> None:
        """Choose a conversation and, optionally, a message to read."""
        self._close_reader()
        self._compared_entry, self._comparison, self._dialog = None, (), None
        if conversation_id != self._chosen:
            self._chosen, self._opened = conversation_id, set()
        await self.load()
        if message_id is not None:
            await self._read(message_id)

    async def _read(self, message_id: str) -> None:
        message = await self._conversations.message(message_id)
        run = None
        if message.run_id is not None:
            run = self._make_client(self._thread, await self._engine.runs.get(message.run_id))
        reader = MessageReader(message, run, self.screen.refresh)
        if reader.follower is not None:
            await reader.follower.start()
        if self._is_closed:  # while the message was read
            reader.close()
            return
        self._close_reader()
        self._selected, self._reader = message_id, reader
        await self._draw()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader, self._selected = None, None

    def _entry(self, act: PageAction, name: str = "message") -> TreeEntry:
        """Return the message that an argument of the action names; `NotFound` if the message was deleted."""
        message_id = act.args.get(name)
        for entry in self._entries:
            if entry.message_id == message_id:
                return entry
        raise NotFound(f"The question {message_id} was deleted meanwhile. Choose another question in the tree.")

    # --- rendering -------------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """Return the list and, next to the list, the chosen conversation."""
        chosen: list[Node] = []
        if self._conversation is None:
            chosen.append(
                Node(
                    "nothing",
                    f"<p>{translate('Ask something with {code}.', code='<code>wb.ask(…)</code>')}</p>",
                    css="af-quiet",
                )
            )
        else:
            chosen += tree_nodes.heading(self._conversation)
            chosen += [self._dialog] if self._dialog else []
            chosen.append(self._drawing)
            chosen += [tree_nodes.comparison_prompt(self._compared_entry)] if self._compared_entry else []
            if self._comparison:
                chosen.append(tree_nodes.comparison_view(self._comparison))
            elif self._reader is not None:
                reading = self._reader.nodes()
                if entry := next((entry for entry in self._entries if entry.message_id == self._selected), None):
                    siblings = [other.message_id for other in self._entries if other.parent_id == entry.parent_id]
                    reading += tree_nodes.actions(entry, siblings)
                chosen.append(Node("reading", kind="box", css="af-tree-read", children=reading))
        return (
            Node("lists", kind="box", css="af-tree-lists", children=self._picker.nodes(self._chosen)),
            Node("chosen", kind="box", css="af-tree-chosen", children=tuple(chosen)),
        )

    async def _save(self) -> None:
        await self._render_saved_output()
        self.screen.save_soon()

    async def _render_saved_output(self) -> None:
        """Render the saved output in a thread, so that long answers do not block the engine's loop."""
        content = self._saved_content
        self._saved = content, await asyncio.to_thread(self._saved_output_of, *content)

    def saved_output(self) -> SavedOutput:
        """Return the chosen conversation, readable without a kernel."""
        content, output = self._saved
        return output if content == self._saved_content else self._saved_output_of(*self._saved_content)

    @property
    def _saved_content(self) -> tuple[Conversation | None, TreeLayout, MessageTexts]:
        return self._conversation, self._saved_layout, self._turn_texts

    def _saved_output_of(
        self, conversation: Conversation | None, layout: TreeLayout, texts: MessageTexts
    ) -> SavedOutput:
        nodes = saved_tree(conversation, layout, texts, self._renderer, with_metrics=self._with_metrics)
        return saved_output(nodes, css=self.css)

    def announcement(self) -> str:
        """Return the announcement of the displayed run, or an empty string."""
        return self._reader.announcement() if self._reader else ""

    # --- actions on conversations ----------------------------------------------------------------------------------

    async def act_search(self, act: PageAction) -> None:
        """List the conversations that contain the words; without words, list all conversations."""
        await self._picker.search(str(act.args["values"]["words"]))

    async def act_more(self, _act: PageAction) -> None:
        """List more conversations."""
        await self._picker.load_more()

    async def act_choose(self, act: PageAction) -> None:
        """Show the tree of another conversation and, after a search, the matching message."""
        await self._show(str(act.args["conversation"]), act.args.get("message"))
        await self._save()

    async def act_rename_ask(self, _act: PageAction) -> None:
        """Show the form for a new title."""
        if self._conversation is not None:
            self._dialog = tree_nodes.rename_form(self._conversation)

    async def act_rename(self, act: PageAction) -> None:
        """Rename the conversation."""
        await self._conversations.rename(str(act.args["conversation"]), str(act.args["values"]["title"]))
        self._dialog = None
        await self.load()
        await self._save()

    async def act_delete_ask(self, _act: PageAction) -> None:
        """Ask for confirmation before the conversation is deleted."""
        if (chosen := self._conversation) is not None:
            question = translate(
                "Delete “{title}” with {questions} and {artifacts}? This cannot be undone.",
                title=question_line(chosen.title, 60),
                questions=translate_count(chosen.n_messages, "question"),
                artifacts=translate_count(chosen.n_artifacts, "artifact"),
            )
            self._dialog = tree_nodes.confirmation(question, "delete", conversation=chosen.conversation_id)

    async def act_delete(self, act: PageAction) -> str:
        """Delete the conversation, and show the newest remaining conversation."""
        await self._conversations.delete_conversation(str(act.args["conversation"]))
        await self._show(None)
        await self._save()
        return translate("Deleted.")

    async def act_dismiss(self, _act: PageAction) -> None:
        """Close the form or the confirmation without a change."""
        self._dialog = None

    # --- actions on messages ---------------------------------------------------------------------------------------

    async def act_read(self, act: PageAction) -> None:
        """Show a message, or compare the message with the first message of a comparison."""
        entry = self._entry(act)
        if self._compared_entry is not None and self._compared_entry.message_id != entry.message_id:
            await self._compare(self._compared_entry, entry)
            return
        self._comparison, self._dialog = (), None
        await self._read(entry.message_id)
        self.screen.effect(act.page, "show", key=f"{entry.message_id}/head")

    async def act_unfold(self, act: PageAction) -> None:
        """Show more messages of a fold."""
        for row in self._layout.rows:
            if isinstance(row.content, FoldedMessages) and row.content.message_ids[0] == act.args.get("first"):
                self._opened.update(row.content.next_to_open)
        await self._draw()

    async def act_activate(self, act: PageAction) -> str:
        """Make the branch through a message the active branch, which the next question continues."""
        newest = await self._conversations.activate(self._entry(act).message_id)
        await self.load()
        await self._save()
        # The message may have been deleted before the tree was read again.
        question = next((entry.question for entry in self._entries if entry.message_id == newest), "")
        return (
            translate("The next question continues “{question}”.", question=question_line(question, 60))
            if question
            else ""
        )

    async def act_ask(self, act: PageAction) -> None:
        """Ask a question that follows a message, and show its run."""
        entry = self._entry(act)
        question = str(act.args["values"]["question"])
        controller, parent = self._engine.controller, entry.message_id
        await self._start(await controller.begin(question, conversation_id=self._chosen, parent_message_id=parent))

    async def act_regenerate(self, act: PageAction) -> None:
        """Ask the same question again on a new branch, and show its run."""
        await self._start(await self._engine.controller.begin_sibling(self._entry(act).message_id))

    async def _start(self, run: StoredRun) -> None:
        await self._engine.controller.start(run)
        await self._show(self._chosen, run.message_id)

    async def act_prune_ask(self, act: PageAction) -> None:
        """Ask for confirmation before a branch is deleted."""
        entry = self._entry(act)
        subtree = {entry.message_id}
        for other in self._entries:  # the oldest first, so parents come before their children
            if other.parent_id in subtree:
                subtree.add(other.message_id)
        n_more = len(subtree) - 1
        text: EnglishText = (
            "Delete “{question}”, {questions} after it, and all answers and artifacts?"
            if n_more
            else "Delete “{question}” with its answer and artifacts?"
        )
        questions = translate_count(n_more, "question")
        question = translate(text, question=question_line(entry.question, 60), questions=questions)
        self._dialog = tree_nodes.confirmation(question, "prune", message=entry.message_id)

    async def act_prune(self, act: PageAction) -> str:
        """Delete a message and all messages that follow it."""
        await self._conversations.delete_branch(self._entry(act).message_id)
        await self._show(self._chosen)
        await self._save()
        return translate("Deleted.")

    # --- comparison ------------------------------------------------------------------------------------------------

    async def act_compare(self, act: PageAction) -> None:
        """Choose the first message of a comparison; the next click chooses the second message."""
        self._compared_entry = self._entry(act)

    async def act_compare_with(self, act: PageAction) -> None:
        """Compare two messages."""
        await self._compare(self._entry(act, "other"), self._entry(act))

    async def act_compare_end(self, _act: PageAction) -> None:
        """Close the comparison."""
        self._compared_entry, self._comparison = None, ()

    async def _compare(self, first: TreeEntry, second: TreeEntry) -> None:
        """Compare two messages, the older on the left; `NotFound` if a message was deleted."""
        entries = self._entries
        conversation_id = str(self._chosen)
        tree = MessageTree(conversation_id, ((entry.message_id, entry.parent_id) for entry in entries))
        sides = []
        for entry in sorted((first, second), key=entries.index):
            message = await self._conversations.message(entry.message_id)
            artifacts = await self._engine.artifacts.list_artifacts(conversation_id, message_id=entry.message_id)
            by_id = {artifact.artifact_id: artifact for artifact in artifacts}
            n_turns = len(tree.path(entry.message_id))
            sides.append(BranchSide(entry, n_turns, message.content, message.response or "", by_id))
        # A thread compares: long texts take up to 300 ms, in which the engine's loop could continue no run.
        self._comparison = await asyncio.to_thread(comparison, sides[0], sides[1])
        self._compared_entry = None

    # --- actions on the run that is read ---------------------------------------------------------------------------

    async def act_decide(self, act: PageAction) -> None:
        """Decide an approval request of the run."""
        if self._reader is not None and self._reader.follower is not None:
            await self._reader.follower.decide(act.args)

    async def act_resume(self, _act: PageAction) -> None:
        """Resume the abandoned run; `Conflict` if no run answers the message."""
        if self._reader is None:
            return
        if self._reader.follower is None:
            raise Conflict("No run answers this question, so it cannot be resumed. Ask it again.")
        await self._reader.follower.resume()
        await self.load()

    async def act_stop(self, _act: PageAction) -> None:
        """Cancel the run; `Conflict` if no run answers the message."""
        if self._reader is None:
            return
        if self._reader.run is None:
            raise Conflict("No run answers this question, so there is nothing to stop.")
        await self._reader.run.cancel()


def _outline(entries: Sequence[TreeEntry]) -> list[tuple[str, str, bool]]:
    """Return the contents that the saved output depends on: messages, statuses, the active branch."""
    return [(entry.message_id, entry.status, entry.is_active) for entry in entries]
