"""The artifact panel: the artifacts of a branch of a conversation, with all their versions, to read and to edit.

::

    list | title, version, author
         | view modes, edit, rename, restore, copy, download
         | versions
         | text: rendered, raw, or the changes between two versions

The panel follows the branch, and shows versions that a run or another view writes. A text that is being edited does
not change, and is saved to the branch on which the edit began.
"""

import asyncio
from collections.abc import Collection, Coroutine
from functools import partial
from typing import Any, TypeVar

from artifactflow_nb.core.language import EnglishText, agent_label, translate
from artifactflow_nb.core.text.diff import Layout, diff_html
from artifactflow_nb.core.text.markdown import safe_markdown
from artifactflow_nb.engine.cited_sources import artifact_evidence
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import Conflict, NotFound, UsageError
from artifactflow_nb.export.document import artifact_document
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID, Artifact
from artifactflow_nb.store.artifacts import USER, Authorship
from artifactflow_nb.store.conversations import Conversation, load_message_tree
from artifactflow_nb.store.runs import RUNNING, SHORT_ID_CHARS, WAITING
from artifactflow_nb.widgets.artifacts import nodes as artifact_nodes
from artifactflow_nb.widgets.artifacts.nodes import (
    LAYOUTS,
    PAGE_SIZE,
    VIEW_MODES,
    ArtifactSelection,
    ArtifactTexts,
    saved_artifacts,
    version_name,
)
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.view import PageAction
from artifactflow_nb.widgets.run.cited_page import stored_citations
from artifactflow_nb.widgets.run.polled_view import PolledView

T = TypeVar("T")


class ArtifactPanel(PolledView):
    """Shows the artifacts of a branch.

    Args:
        conversation_id: The conversation; None for the conversation with the latest question.
        message_id: The last message of the branch; None to follow the active branch.
        artifact_id: Show only this artifact, without the list and the rename button; empty for all artifacts.
        with_dates: Show in the saved output when versions were written.
        has_cells: Whether the page is a notebook, into whose cells a text can be copied.
    """

    label: EnglishText = "Artifacts"
    css = "af-artifacts"

    def __init__(
        self,
        thread: EngineThread,
        conversation_id: str | None = None,
        message_id: str | None = None,
        *,
        artifact_id: str = "",
        with_dates: bool = True,
        has_cells: bool = True,
    ) -> None:
        super().__init__(thread.engine)
        self._single_id = artifact_id
        self._conversation_id = conversation_id
        self._fixed_message_id = message_id
        self._message_id = message_id
        self._with_dates = with_dates
        self._has_cells = has_cells
        self._title = ""
        self._status = ""
        self._histories: dict[str, list[Artifact]] = {}
        self._chosen = ""
        self._is_by_person = False  # whether a person chose the artifact
        self._number: int | None = None  # of the displayed version; None: the current version
        self._before: int | None = None  # of the version to compare with; None: the version before
        self._n_listed = PAGE_SIZE
        self._view_mode = "rendered"
        self._layout: Layout = "inline"
        self._html = ""
        self._form: Node | None = None
        self._base: Artifact | None = None  # the version that the form edits
        self._is_branch_inactive = False  # whether another branch became active during an edit
        self._announcement = ""
        self._rendered_texts = ArtifactTexts(partial(stored_citations, self._engine.database.path))
        self._load_lock = asyncio.Lock()

    @property
    def conversation_id(self) -> str | None:
        """The displayed conversation, or None."""
        return self._conversation_id

    # --- loading ---------------------------------------------------------------------------------------------------

    async def _change_token(self) -> object:
        if self._conversation_id is None:
            return await self._newest()
        return await self._engine.conversations.change_token(self._conversation_id)

    async def _newest(self) -> str | None:
        newest = await self._engine.conversations.list_conversations(limit=1)
        return newest[0].conversation_id if newest else None

    async def _follow(self) -> None:
        before = {name: history[-1] for name, history in self._histories.items()}
        await self.load()
        for name, history in self._histories.items():
            if before.get(name) != history[-1]:
                version, author = history[-1], agent_label(history[-1].created_by)
                title, number = version.title if self._single_id else name, version.version
                self._announcement = translate(
                    "{name}: version {version} by {author}.", name=title, version=number, author=author
                )
        self.screen.refresh()
        self.screen.save_soon()

    async def load(self) -> None:
        """Load the versions of the artifacts."""
        async with self._load_lock:  # an older load must not finish last
            self._conversation_id = self._conversation_id or await self._newest()
            try:
                if (key := self._conversation_id) is not None:
                    conversation = await self._engine.conversations.get(key)
                    self._title = conversation.title
                    if self._fixed_message_id is None:
                        await self._choose_branch(conversation)
                    if self._message_id is not None:
                        message = await self._engine.conversations.message(self._message_id)
                        self._status = message.status
                        run_id = message.run_id if message.status in {RUNNING, WAITING} else None
                        await self._run_listener.listen_to(self._engine.controller, run_id)
                    self._histories = await self._engine.artifacts.histories(key, message_id=self._message_id)
            except NotFound:  # the conversation or the branch was deleted
                self._histories, self._status, self._title = {}, "", ""
            self._ensure_choice()
            await self._render()

    async def _choose_branch(self, conversation: Conversation) -> None:
        """Choose the branch to show: the active branch, or the branch of an unfinished edit.

        During an edit the edited branch remains chosen even if another branch becomes active, unless it was deleted.
        """
        current, active = self._message_id, conversation.active_message_id
        self._is_branch_inactive = False
        if self._form is not None and current is not None and active is not None and current != active:
            tree = await self._engine.database.read(lambda db: load_message_tree(db, conversation.conversation_id))
            self._is_branch_inactive = current in tree.parents and current not in tree.path(active)
        self._message_id = current if self._is_branch_inactive else active

    def _ensure_choice(self) -> None:
        """Choose the newest artifact if no artifact is chosen, or only a plan that the view chose by default."""
        if self._single_id:
            self._histories = {key: history for key, history in self._histories.items() if key == self._single_id}
        is_replaced = self._chosen == TASK_PLAN_ID and not self._is_by_person and self._form is None
        if self._chosen in self._histories and not (is_replaced and len(self._histories) > 1):
            return
        self._chosen, self._form = "", None
        self._show_current_version()
        current = [history[-1] for history in self._histories.values()]
        if current:
            newest = max(current, key=lambda version: (version.artifact_id != TASK_PLAN_ID, version.created_at))
            self._chosen = newest.artifact_id

    @property
    def _shown(self) -> ArtifactSelection | None:
        history = self._histories.get(self._chosen)
        if history is None:
            return None
        version = self._version(self._number) if self._number else history[-1]
        index = history.index(version)
        before = history[index - 1] if index else None
        if self._before is not None:
            before = self._version(self._before)
        return ArtifactSelection(history, version, self._view_mode, before, self._layout, self._n_listed)

    def _show_current_version(self) -> None:
        self._number, self._before, self._n_listed = None, None, PAGE_SIZE

    def _version(self, number: int) -> Artifact:
        history = self._histories[self._chosen]
        return next((version for version in history if version.version == number), history[-1])

    async def _render(self) -> None:
        """Render the text or the changes, and the texts of the saved output, in a thread."""
        shown, html = self._shown, ""
        current = [history[-1] for history in self._histories.values()]
        await self._rendered_texts.prepare([*current, *([shown.version] if shown else [])])
        if shown is not None and shown.view_mode == "changes":
            before, after = shown.before, shown.version
            old, new = before.content if before else "", after.content
            name = translate("v{number}", number=before.version) if before else translate("nothing")
            names = name, translate("v{number}", number=after.version)
            html = await asyncio.to_thread(diff_html, old, new, layout=shown.layout, names=names)
        elif shown is not None:
            html = artifact_nodes.text_html(shown.version, shown.view_mode, self._rendered_texts)
        if shown == self._shown:  # a changed selection is rendered by its action
            self._html = html

    # --- rendering -------------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """Return the list of artifacts and, next to the list, the chosen artifact."""
        heading = artifact_nodes.heading(self._title, self._status)
        shown = self._shown
        if shown is None:
            return (heading, Node("nothing", f"<p>{translate('No artifacts yet.')}</p>", css="af-quiet"))
        if self._single_id:
            return tuple(self._detail(shown))
        current = [history[-1] for history in self._histories.values()]
        plan_last = sorted(current, key=lambda artifact: artifact.artifact_id == TASK_PLAN_ID)
        artifacts = artifact_nodes.artifact_list(plan_last, self._chosen)
        detail = Node("detail", kind="box", css="af-art-detail", children=tuple(self._detail(shown)))
        return (heading, Node("both", kind="box", css="af-art-both", children=(artifacts, detail)))

    def _detail(self, shown: ArtifactSelection) -> list[Node]:
        nodes = [
            artifact_nodes.title(shown, with_id=not self._single_id),
            artifact_nodes.view_mode_buttons(shown, can_rename=not self._single_id),
            artifact_nodes.download_buttons(has_cells=self._has_cells),
            artifact_nodes.versions(shown.history, shown),
        ]
        if self._form is not None and self._base is not None:
            if self._is_branch_inactive:
                nodes.append(artifact_nodes.inactive_branch_note())
            if shown.current.version != self._base.version:
                nodes.append(artifact_nodes.conflict_note(self._base, shown.current))
            nodes.append(self._form)
        if shown.view_mode == "changes":
            nodes += artifact_nodes.comparison_controls(shown)
        css = {"rendered": "af-md af-page af-art-text"}.get(shown.view_mode, "af-art-text")
        css += " af-art-frames" * self._has_cells  # the page adds buttons for `act_table` to tables
        # A key per view mode: the page takes the text for another element and does not patch rendered into raw text.
        nodes.append(Node(f"text-{shown.view_mode}", self._html, css=css))
        return nodes

    def saved_nodes(self) -> tuple[Node, ...]:
        """Return all artifacts, readable without a kernel."""
        changes = self._html if self._view_mode == "changes" else ""
        return saved_artifacts(
            self._title, self._histories, self._shown, changes, self._rendered_texts, with_dates=self._with_dates
        )

    def announcement(self) -> str:
        """Announce the version that was written last."""
        return self._announcement

    # --- actions that change the selection -------------------------------------------------------------------------

    async def act_choose(self, act: PageAction) -> None:
        """Show another artifact; `UsageError` during an edit."""
        if self._form is not None:
            raise UsageError(translate("You are editing a text. Save or cancel the edit first."))
        self._chosen, self._is_by_person = str(act.args["artifact"]), True
        self._show_current_version()
        self._ensure_choice()
        await self._update()

    async def act_look(self, act: PageAction) -> None:
        """Switch the view mode: rendered, raw or changes."""
        self._view_mode = _known_choice(VIEW_MODES, act.args["look"])
        await self._update()

    async def act_layout(self, act: PageAction) -> None:
        """Switch the layout of the changes."""
        self._layout = _known_choice(LAYOUTS, act.args["layout"])
        await self._update()

    async def act_show(self, act: PageAction) -> None:
        """Show another version."""
        self._number, self._before = self._number_of(act.args["version"]), None
        await self._update()

    async def act_older(self, _act: PageAction) -> None:
        """List more of the earlier versions."""
        self._n_listed += PAGE_SIZE

    async def act_compare(self, act: PageAction) -> None:
        """Show the changes between two versions."""
        self._before = int(act.args["before"])
        self._number = self._number_of(act.args["after"])
        self._view_mode = "changes"
        await self._update()

    async def act_compare_form(self, act: PageAction) -> None:
        """Show the changes between the two versions that were chosen in the form."""
        numbers = {version_name(version): version.version for version in self._histories.get(self._chosen, ())}
        values = act.args["values"]
        self._before = numbers.get(values["before"])
        self._number = self._number_of(numbers.get(values["after"]))
        await self._update()

    def _number_of(self, number: object) -> int | None:
        """Return the number of a version, or None for the current version, so that the panel follows newer versions."""
        history = self._histories.get(self._chosen, ())
        return number if isinstance(number, int) and history and history[-1].version != number else None

    async def _update(self) -> None:
        await self._render()
        self.screen.save_soon()

    # --- actions that write versions -------------------------------------------------------------------------------

    async def act_edit_ask(self, _act: PageAction) -> None:
        """Open the form for the text."""
        if (shown := self._shown) is not None:
            self._base, self._form = shown.current, artifact_nodes.edit_form(shown.current)

    async def act_rename_ask(self, _act: PageAction) -> None:
        """Open the form for the title."""
        if (shown := self._shown) is not None:
            self._base, self._form = shown.current, artifact_nodes.rename_form(shown.current)

    async def act_dismiss(self, _act: PageAction) -> None:
        """Close the form without a change, and return to the active branch."""
        self._base, self._form = None, None
        if self._is_branch_inactive:
            await self.load()

    async def act_edit(self, act: PageAction) -> str:
        """Write a version with the text of the form; `Conflict` if another version was written during the edit."""
        base, text = await self._edited_version(), str(act.args["values"]["text"])
        if text == base.content:
            await self.act_dismiss(act)
            return translate("Nothing was changed.")
        store = self._engine.artifacts
        return await self._write(
            store.revise(self._authorship, base.artifact_id, text, update_type="update", expected_version=base.version)
        )

    async def act_rename(self, act: PageAction) -> str:
        """Write a version with the title of the form; `Conflict` if another version was written during the edit."""
        base, title = await self._edited_version(), str(act.args["values"]["title"])
        store = self._engine.artifacts
        return await self._write(store.rename(self._authorship, base.artifact_id, title, expected_version=base.version))

    async def act_restore(self, act: PageAction) -> str:
        """Write a version with the text of an earlier version."""
        shown = self._shown
        if shown is None:
            raise NotFound(translate("This artifact was deleted meanwhile. Choose another artifact."))
        current, number = shown.current, int(act.args["version"])
        store = self._engine.artifacts
        return await self._write(
            store.restore(self._authorship, current.artifact_id, number, expected_version=current.version)
        )

    async def act_rebase(self, act: PageAction) -> str:
        """Base the edit on the version that was written during the edit, so that the edit can replace that version."""
        shown = self._shown
        if shown is not None and shown.current.version == act.args["version"]:
            self._base = shown.current
        return translate("Now save: your text becomes the next version.")

    async def _edited_version(self) -> Artifact:
        """Return the version that the form edits; `UsageError` if the form was closed.

        The branch is loaded first, so that the version is written to the displayed branch.
        """
        await self.load()
        if self._base is None or self._form is None:
            raise UsageError(translate("This form is closed. Open it again."))
        return self._base

    @property
    def _authorship(self) -> Authorship:
        return Authorship(str(self._conversation_id), self._message_id, USER)

    async def _write(self, write: Coroutine[Any, Any, Artifact]) -> str:
        """Await the write, show the new version and return the confirmation; on `Conflict` show the other version."""
        try:
            version = await write
        except Conflict:
            await self.load()  # the form stays open, below the note about the conflict
            raise
        sentence: EnglishText = (
            "Written as version {number} on the branch on which the edit began."
            if self._is_branch_inactive
            else "Written as version {number}."
        )
        self._base, self._form, self._number, self._before = None, None, None, None
        await self.load()
        self.screen.save_soon()
        return translate(sentence, number=version.version)

    # --- actions that copy and download ----------------------------------------------------------------------------

    async def act_copy(self, act: PageAction) -> None:
        """Copy the text to the reader's clipboard."""
        if (shown := self._shown) is not None:
            self.screen.effect(act.page, "copy", text=shown.version.content)

    async def act_cell(self, act: PageAction) -> None:
        """Copy the text to a new cell: Python as code, any other text as Markdown without active content."""
        if (shown := self._shown) is None:
            return
        version = shown.version
        is_code = version.content_type == "text/x-python"
        source = version.content if is_code else await asyncio.to_thread(safe_markdown, version.markdown)
        self.screen.effect(act.page, "cell", source=source, cell_type="code" if is_code else "markdown")

    async def act_table(self, act: PageAction) -> None:
        """Add a cell that returns one table of the displayed version as a frame; `index` selects the table."""
        shown = self._shown
        writer = next((version.run_id for version in reversed(shown.history if shown else ()) if version.run_id), None)
        if shown is None or writer is None:  # only an artifact of a run can be named in a line
            raise UsageError(translate("No run wrote this artifact, so no code can name its table. Use Copy instead."))
        artifact = f'wb.run("{writer[:SHORT_ID_CHARS]}").artifacts[{shown.version.artifact_id!r}]'
        source = f"table = {artifact}.versions[{shown.version.version}].tables[{int(act.args['index'])}]\ntable"
        self.screen.effect(act.page, "cell", source=source, cell_type="code")

    async def act_download(self, act: PageAction) -> str:
        """Download the displayed version as a file."""
        if self._shown is None:
            return ""
        version = self._shown.version
        evidence = await self._engine.database.read(lambda db: artifact_evidence(db, version))
        return await self.download(act, artifact_document(version, evidence))


def _known_choice(choices: Collection[T], value: object) -> T:
    """Return the value from the page; `UsageError` unless the value is a choice."""
    for choice in choices:
        if choice == value:
            return choice
    raise UsageError(f"Unknown choice {value!r}. Known: {', '.join(map(str, choices))}.")
