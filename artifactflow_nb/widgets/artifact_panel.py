"""The panel of artifacts: what a branch of a conversation has written, in all its versions, to read and to change.

::

    list | title, version, by whom
         | how it is shown, what can be done, how to take it along
         | versions
         | text: rendered, raw, or what changed between two versions

It follows the branch: what a run writes, or another view, appears here; a text that is being edited stays as it is,
and on the branch on which that was begun.
"""

import asyncio
import base64
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import Conflict, NotFound, UsageError
from artifactflow_nb.export import FORMS, artifact_bytes, file_name
from artifactflow_nb.store.artifact_versions import TASK_PLAN, Artifact
from artifactflow_nb.store.artifacts import USER, Authorship
from artifactflow_nb.store.block_jobs import UNENDED
from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.store.message_tree import load_tree
from artifactflow_nb.text.diff_html import Layout, diff_html
from artifactflow_nb.widgets import artifact_nodes
from artifactflow_nb.widgets.artifact_face import CSS, NOTHING, ArtifactFace
from artifactflow_nb.widgets.artifact_nodes import LAYOUTS, LOOKS, PAGE_SIZE, Shown, version_name
from artifactflow_nb.widgets.artifact_texts import ArtifactTexts
from artifactflow_nb.widgets.tree import Node
from artifactflow_nb.widgets.view import Act, Face
from artifactflow_nb.widgets.watched_view import WatchedView

T = TypeVar("T")


class ArtifactPanel(WatchedView):
    """Shows the artifacts of a branch.

    Args:
        thread: The engine's thread.
        conversation_id: The conversation; None for that in which was asked last.
        message_id: The last message of the branch; None for the active branch, whichever that is by then.
        only: The one artifact that is shown, without the list and a way to rename it; empty for all.
        dated: Say in the face when versions were written.
    """

    label = "Artifacts"
    css = CSS

    def __init__(
        self,
        thread: EngineThread,
        conversation_id: str | None = None,
        message_id: str | None = None,
        *,
        only: str = "",
        dated: bool = True,
    ) -> None:
        super().__init__()
        self._only = only
        self._engine = thread.engine
        self._conversation_id = conversation_id
        self._fixed = message_id
        self._message_id = message_id
        self._dated = dated
        self._title = ""
        self._status = ""
        self._histories: dict[str, list[Artifact]] = {}
        self._chosen = ""
        self._number: int | None = None  # of an earlier version that is shown
        self._before: int | None = None  # the version that changes are shown since, where the reader chose one
        self._n_listed = PAGE_SIZE
        self._look = "rendered"
        self._layout: Layout = "inline"
        self._html = ""
        self._form: Node | None = None
        self._base: Artifact | None = None  # the version that the form is about
        self._is_left = False  # whether another branch became active meanwhile
        self._news = ""
        self._texts = ArtifactTexts()
        self._loading = asyncio.Lock()

    # --- what is loaded --------------------------------------------------------------------------------------------

    async def _state(self) -> object:
        if self._conversation_id is None:
            return await self._newest()
        return await self._engine.conversations.state(self._conversation_id)

    async def _newest(self) -> str | None:
        newest = await self._engine.conversations.list_conversations(limit=1)
        return newest[0].conversation_id if newest else None

    async def _follow(self) -> None:
        before = {name: history[-1] for name, history in self._histories.items()}
        await self._load()
        for name, history in self._histories.items():
            if before.get(name) != history[-1]:
                self._news = f"{name}: version {history[-1].version} by {history[-1].created_by}."
        self.screen.refresh()
        self.screen.keep()

    async def _load(self) -> None:
        async with self._loading:
            self._conversation_id = self._conversation_id or await self._newest()
            try:
                await self._load_branch()
            except NotFound:  # the conversation, or the branch, was deleted
                self._histories, self._status, self._title = {}, "", ""
            self._choose_one()
            await self._draw()

    async def _load_branch(self) -> None:
        if self._conversation_id is None:
            return
        conversation = await self._engine.conversations.get(self._conversation_id)
        self._message_id = self._fixed or await self._followed(conversation)
        self._title = conversation.title
        if self._message_id is not None:
            last = await self._engine.conversations.message(self._message_id)
            self._status = last.status
            heard = last.run_id if last.status in UNENDED else None
            await self._run_news.hear(self._engine.controller, heard)
        self._histories = await self._engine.artifacts.histories(self._conversation_id, message_id=self._message_id)

    async def _followed(self, conversation: Conversation) -> str | None:
        """The active branch; while something is edited the one that it was begun on, unless that one goes on.

        What is edited on a branch that somebody deleted has none to stay on.
        """
        begun, active = self._message_id, conversation.active_message_id
        self._is_left = False
        if self._form is None or begun is None or active is None or begun == active:
            return active
        tree = await self._engine.database.read(lambda db: load_tree(db, conversation.conversation_id))
        self._is_left = begun in tree.parents and begun not in tree.path(active)
        return begun if self._is_left else active

    def _choose_one(self) -> None:
        """Keep the artifact that was chosen; else the newest that is no plan."""
        if self._only:
            self._histories = {key: history for key, history in self._histories.items() if key == self._only}
        if self._chosen in self._histories:
            return
        self._chosen, self._form = "", None
        self._look_at_present()
        present = [history[-1] for history in self._histories.values()]
        if present:
            self._chosen = max(present, key=lambda one: (one.artifact_id != TASK_PLAN, one.created_at)).artifact_id

    @property
    def _shown(self) -> Shown | None:
        history = self._histories.get(self._chosen)
        if history is None:
            return None
        version = self._version(self._number) if self._number else history[-1]
        at = history.index(version)
        before = history[at - 1] if at else None
        if self._before is not None:
            before = self._version(self._before)
        return Shown(history, version, self._look, before, self._layout, self._n_listed)

    def _look_at_present(self) -> None:
        self._number, self._before, self._n_listed = None, None, PAGE_SIZE

    def _version(self, number: int) -> Artifact:
        history = self._histories[self._chosen]
        return next((one for one in history if one.version == number), history[-1])

    async def _draw(self) -> None:
        """Make the HTML of what is shown, and what the face is made of; all that takes its time beside the loop."""
        shown, html = self._shown, ""
        present = [history[-1] for history in self._histories.values()]
        await self._texts.prepare([*present, *([shown.version] if shown else [])])
        if shown is not None and shown.look == "changes":
            html = await asyncio.to_thread(_difference, shown)
        elif shown is not None:
            html = artifact_nodes.text_html(shown.version, shown.look, self._texts)
        if shown == self._shown:  # else something was pressed meanwhile, and is drawn by now
            self._html = html

    # --- what is shown ---------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """The list, and beside it the chosen artifact."""
        head = artifact_nodes.heading(self._title, self._status)
        shown = self._shown
        if shown is None:
            return (head, Node("nothing", f"<p>{NOTHING}</p>", css="af-quiet"))
        if self._only:
            return tuple(self._detail(shown))
        present = [history[-1] for history in self._histories.values()]
        listed = artifact_nodes.artifact_list(_plan_last(present), self._chosen)
        detail = Node("detail", kind="box", css="af-art-detail", children=tuple(self._detail(shown)))
        return (head, Node("both", kind="box", css="af-art-both", children=(listed, detail)))

    def _detail(self, shown: Shown) -> list[Node]:
        looks = artifact_nodes.looks(shown, is_renamed=not self._only)
        made = [artifact_nodes.title(shown), looks, artifact_nodes.taking(), artifact_nodes.versions(shown)]
        if self._form is not None and self._base is not None:
            if self._is_left:
                made.append(artifact_nodes.elsewhere())
            if shown.present.version != self._base.version:
                made.append(artifact_nodes.between(self._base, shown.present))
            made.append(self._form)
        if shown.look == "changes":
            made += artifact_nodes.comparing(shown)
        css = {"rendered": "af-md af-page af-art-text"}.get(shown.look, "af-art-text")
        made.append(Node(f"text-{shown.look}", self._html, css=css))
        return made

    def face(self) -> Face:
        """The artifacts, to be read without a kernel."""
        changes = self._html if self._look == "changes" else ""
        made = ArtifactFace(self._title, self._histories, self._shown, changes, self._texts, dated=self._dated)
        return made.face()

    def announcement(self) -> str:
        """Which version came last."""
        return self._news

    # --- what is looked at -----------------------------------------------------------------------------------------

    async def act_choose(self, act: Act) -> None:
        """Show another artifact."""
        if self._form is not None:
            raise UsageError("You are editing. Save or cancel that first.")
        self._chosen = str(act.args["artifact"])
        self._look_at_present()
        self._choose_one()
        await self._shown_anew()

    async def act_look(self, act: Act) -> None:
        """Show it rendered, raw, or what changed."""
        self._look = _one_of(LOOKS, act.args["look"])
        await self._shown_anew()

    async def act_layout(self, act: Act) -> None:
        """Show changes in another layout."""
        self._layout = _one_of(LAYOUTS, act.args["layout"])
        await self._shown_anew()

    async def act_show(self, act: Act) -> None:
        """Show another version."""
        self._number, self._before = self._number_of(act.args["version"]), None
        await self._shown_anew()

    async def act_older(self, _act: Act) -> None:
        """List more of the earlier versions."""
        self._n_listed += PAGE_SIZE

    async def act_compare(self, act: Act) -> None:
        """Show what changed between two versions."""
        self._before = int(act.args["before"])
        self._number = self._number_of(act.args["after"])
        self._look = "changes"
        await self._shown_anew()

    async def act_compare_form(self, act: Act) -> None:
        """The same for two that were chosen in the form."""
        numbers = {version_name(one): one.version for one in self._histories.get(self._chosen, ())}
        values = act.args["values"]
        self._before = numbers.get(values["before"])
        self._number = self._number_of(numbers.get(values["after"]))
        await self._shown_anew()

    def _number_of(self, number: object) -> int | None:
        """The number, or None for the present version, so that a newer one is shown when it comes."""
        history = self._histories.get(self._chosen, ())
        return number if isinstance(number, int) and history and history[-1].version != number else None

    async def _shown_anew(self) -> None:
        await self._draw()
        self.screen.keep()

    # --- what is changed -------------------------------------------------------------------------------------------

    async def act_edit_ask(self, _act: Act) -> None:
        """Show the text in a form."""
        if (shown := self._shown) is not None:
            self._base, self._form = shown.present, artifact_nodes.edit_form(shown.present)

    async def act_rename_ask(self, _act: Act) -> None:
        """Show the title in a form."""
        if (shown := self._shown) is not None:
            self._base, self._form = shown.present, artifact_nodes.rename_form(shown.present)

    async def act_dismiss(self, _act: Act) -> None:
        """Leave everything as it is."""
        self._base, self._form = None, None
        if self._is_left:
            await self._load()

    async def act_edit(self, act: Act) -> str:
        """Write a version with the text of the form; that another came in between is told."""
        base, text = await self._edited(), str(act.args["values"]["text"])
        if text == base.content:
            await self.act_dismiss(act)
            return "Nothing was changed."
        store = self._engine.artifacts
        return await self._written(
            store.revise(self._by, base.artifact_id, text, update_type="update", expected_version=base.version)
        )

    async def act_rename(self, act: Act) -> str:
        """Write a version with the title of the form."""
        base, title = await self._edited(), str(act.args["values"]["title"])
        store = self._engine.artifacts
        return await self._written(store.rename(self._by, base.artifact_id, title, expected_version=base.version))

    async def act_restore(self, act: Act) -> str:
        """Write a version with the text of an earlier one."""
        shown = self._shown
        if shown is None:
            raise NotFound("This artifact is not there any more.")
        present, number = shown.present, int(act.args["version"])
        store = self._engine.artifacts
        return await self._written(
            store.restore(self._by, present.artifact_id, number, expected_version=present.version)
        )

    async def act_rebase(self, act: Act) -> str:
        """Let what is edited go on top of the version that came in between."""
        shown = self._shown
        if shown is not None and shown.present.version == act.args["version"]:
            self._base = shown.present
        return "Now save: yours becomes the version after it."

    async def _edited(self) -> Artifact:
        """The version that the form is about, on the branch as it is at this moment."""
        await self._load()
        if self._base is None or self._form is None:
            raise UsageError("This form is closed. Open it again.")
        return self._base

    @property
    def _by(self) -> Authorship:
        return Authorship(str(self._conversation_id), self._message_id, USER)

    async def _written(self, writing: Coroutine[Any, Any, Artifact]) -> str:
        """Show the version that is written; of one that came in between the panel shows what to do."""
        try:
            written = await writing
        except Conflict:
            await self._load()
            raise
        where = " on the branch on which you began" if self._is_left else ""
        self._base, self._form, self._number, self._before = None, None, None, None
        await self._load()
        self.screen.keep()
        return f"Written as version {written.version}{where}."

    # --- what is taken along ---------------------------------------------------------------------------------------

    async def act_copy(self, act: Act) -> None:
        """Put the text into the reader's clipboard."""
        if (shown := self._shown) is not None:
            self.screen.effect(act.page, "copy", text=shown.version.content)

    async def act_cell(self, act: Act) -> None:
        """Put the text into a new cell: Python as code, everything else as harmless Markdown."""
        if (shown := self._shown) is None:
            return
        one = shown.version
        is_code = one.content_type == "text/x-python"
        source = one.content if is_code else self._texts.of(one).markdown
        self.screen.effect(act.page, "cell", source=source, cell_type="code" if is_code else "markdown")

    async def act_download(self, act: Act) -> str:
        """Have the page save a file; a large document is made beside the loop."""
        if (shown := self._shown) is None:
            return ""
        form, one = _one_of(FORMS, act.args["form"]), shown.version
        content = await asyncio.to_thread(artifact_bytes, one, form)
        name = file_name(one, form)
        data = base64.b64encode(content).decode()
        self.screen.effect(act.page, "download", filename=name, media_type=FORMS[form].media_type, base64=data)
        return f"Downloaded as {name}."


def _difference(shown: Shown) -> str:
    before, after = shown.before, shown.version
    names = (f"v{before.version}" if before else "nothing"), f"v{after.version}"
    return diff_html(before.content if before else "", after.content, layout=shown.layout, names=names)


def _plan_last(artifacts: Sequence[Artifact]) -> list[Artifact]:
    return sorted(artifacts, key=lambda one: one.artifact_id == TASK_PLAN)


def _one_of(known: Mapping[T, object], wanted: object) -> T:
    """The one of the known that a page asked for."""
    for one in known:
        if one == wanted:
            return one
    raise UsageError(f"There is no {wanted!r}; known are: {', '.join(map(str, known))}.")
