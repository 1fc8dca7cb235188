"""A project as a person holds it: its blocks, to read, write and arrange, and the phase that it is in.

What is asked of a project is always what its store says now; what a person changes is a version like any other.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactflow_nb import block_edits
from artifactflow_nb.artifact import Branch
from artifactflow_nb.block_edits import BlockEdit, NewBlock, Place
from artifactflow_nb.block_handle import BlockHandle, Blocks, id_of
from artifactflow_nb.block_names import plain
from artifactflow_nb.block_order import writing_of
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.budget import Budget
from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.export import AnyPath, TakenAlong, project_document, write_document
from artifactflow_nb.flows.state import COMPOSE
from artifactflow_nb.plots.block_graph import BlockGraph
from artifactflow_nb.project_belongings import Dimensions, Personas, Skills, evaluation_of
from artifactflow_nb.projects import ProjectHead, checked_project_name, project_conversation
from artifactflow_nb.run import Run
from artifactflow_nb.skills import FOLDER
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import USER, Authorship
from artifactflow_nb.store.belongings import BelongingStore
from artifactflow_nb.store.block_rows import load_head, load_project
from artifactflow_nb.store.blocks import BlockStore
from artifactflow_nb.store.conversations import require_conversation
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.text.cards import Card, Fold, Rows, Shown, Table
from artifactflow_nb.text.figures import count

if TYPE_CHECKING:
    from artifactflow_nb.widgets.panel import Panel

Limits = Budget | Mapping[str, Any] | None
Show = Callable[[str], "Panel"]
Start = Callable[[Callable[[], Awaitable[StoredRun]], str], Run]


@dataclass(frozen=True, slots=True, repr=False)
class Advance(Shown):
    """A step of a project into another phase.

    Attributes:
        before: The phase that it was in.
        after: The phase that it is in now.
        open: The paths of the blocks that the phases before it leave open, each with what is missing.
    """

    before: str
    after: str
    open: Mapping[str, str]

    def _card(self) -> Card:
        rows: Rows = [("from", self.before), ("to", self.after), ("left open", count(len(self.open), "block"))]
        table = Table.of(["block", "is"], [[path, what] for path, what in self.open.items()])
        return Card("Phase", self.after, rows, [Fold("Left open", table, is_open=True)] if self.open else [])

    def __repr__(self) -> str:
        return f"Advance({self.before!r} -> {self.after!r}, open={len(self.open)})"


class Project(TakenAlong, Shown):
    """A document of blocks, written phase by phase; `wb.project(name)` begins it or goes on with it.

    Args:
        thread: The engine's thread, which writes; reading is done in the caller's.
        name: Its name.
        start: Begins a run of a flow and gives its handle.
        show: Gives the board of the project that a conversation holds.
        dated: Whether outputs say when something was written; without, they are the same each time.

    Attributes:
        name: Its name.
        conversation_id: The conversation that holds it.

    Errors: `NotFound` if there is no project of this name.
    """

    def __init__(self, thread: EngineThread, name: str, start: Start, show: Show, *, dated: bool = True) -> None:
        self.name = checked_project_name(name)
        self.conversation_id = project_conversation(self.name)
        self._thread = thread
        self._start = start
        self._show = show
        self._dated = dated
        try:
            self._head()
        except NotFound:
            raise NotFound(f"There is no project {self.name!r}. Begin it with wb.project({self.name!r}).") from None

    @property
    def branch(self) -> Branch:
        """The active branch of its conversation, where it is read and written."""
        whole = Branch(self._thread, self.conversation_id, None, self._dated)
        row = whole.read(lambda db: require_conversation(db, self.conversation_id))
        return Branch(self._thread, self.conversation_id, row["active_message_id"], self._dated)

    def _head(self) -> ProjectHead:
        where = self.branch
        return where.read(lambda db: load_head(db, where.conversation_id, where.message_id))

    def _load(self) -> tuple[ProjectHead, BlockTree]:
        where = self.branch
        return where.read(lambda db: load_project(db, where.conversation_id, where.message_id))

    @property
    def _store(self) -> BlockStore:
        return self._thread.engine.blocks

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def tree(self) -> BlockTree:
        """The blocks as values, with what rests on what."""
        return self._load()[1]

    @property
    def blocks(self) -> Blocks:
        """All blocks, in the order of the document."""
        return self.listed(tuple)

    @property
    def stale(self) -> Blocks:
        """The blocks that are stale, each after what it rests on."""
        return self.listed(lambda tree: [tree[key] for key in tree.stale], "No block is stale.")

    @property
    def deleted(self) -> Blocks:
        """The blocks that were deleted; `restore()` brings one back."""
        return self.listed(lambda tree: tree.deleted.values(), "No block was deleted.")

    def __getitem__(self, name: str) -> BlockHandle:
        tree = self.tree
        return _handle(self, tree, tree.find(name))

    def block(self, block_id: str) -> BlockHandle:
        """The block of an id; `NotFound` if there is none."""
        tree = self.tree
        found = tree.get(block_id) or tree.deleted.get(block_id)
        if found is None:
            raise NotFound(f"There is no block with the id {block_id!r} in the project {self.name!r}.")
        return _handle(self, tree, found)

    def listed(self, which: Callable[[BlockTree], Iterable[Block]], nothing: str = "No blocks yet.") -> Blocks:
        """The blocks that a function of the tree gives."""
        tree = self.tree
        return Blocks((_handle(self, tree, block) for block in which(tree)), nothing)

    @property
    def phase(self) -> str:
        """The phase that it is in."""
        return self._head().phase

    @property
    def phases(self) -> tuple[str, ...]:
        """Its phases, in order."""
        return self._head().phase_names

    @property
    def profile(self) -> str:
        """What those who write for it know of its creator."""
        return self._head().profile

    @property
    def personas(self) -> Personas:
        """Those for whom it is written: `personas.add(...)`, `change(...)`, `remove(...)`."""
        return Personas(self)

    @property
    def skills(self) -> Skills:
        """The instructions that can be used: `skills.add(...)`, `change(...)`, `remove(...)`, `share(...)`."""
        return Skills(self)

    @property
    def skill_folder(self) -> Path:
        """The folder of the skills that all projects share: a Markdown file with front matter for each."""
        return self._thread.engine.folder / FOLDER

    @property
    def dimensions(self) -> Dimensions:
        """By what its blocks are judged: `dimensions.add(...)`, `load(...)`, `change(...)`, `remove(...)`."""
        return Dimensions(self)

    # --- writing -----------------------------------------------------------------------------------------------------

    def add(
        self,
        name: str,
        text: str = "",
        *,
        phase: str = "",
        parent: str | BlockHandle = "",
        before: str | BlockHandle = "",
        is_group: bool = False,
        why: str = "",
        **settings: Any,
    ) -> BlockHandle:
        """Add a block.

        Args:
            name: Its name; no other in the same place has it.
            text: Its text, if there is one already.
            phase: Its phase, at the top; the one that the project is in if left out. In a group it is the group's.
            parent: The group that it goes into.
            before: The block in front of which it stands; the end if left out.
            is_group: Whether it only holds others.
            why: Why.
            settings: `depends_on`, `need_review`, `auto_generate`, `prompt`.

        Errors: `UsageError` for a name, a place or a setting that cannot be.
        """
        here = phase or ("" if parent else self.phase)
        given = {**settings, **({"is_group": True} if is_group else {})}

        def new(tree: BlockTree) -> NewBlock:
            return NewBlock(name, Place(here, id_of(tree, parent), id_of(tree, before)), given, text, USER)

        return self.block(self.change(lambda tree: block_edits.added(tree, new(tree)), why)[0].artifact_id)

    def change(self, edit: BlockEdit, why: str = "") -> list[Artifact]:
        """Make an edit by hand; the versions that it wrote."""
        return self._thread.call(self._store.change(self._by(why), edit))

    def write_belongings(
        self, work: Callable[[BelongingStore, Authorship], Coroutine[Any, Any, list[Artifact]]], why: str
    ) -> list[Artifact]:
        """Change by hand what belongs to it beside its blocks; the versions that this wrote."""
        return self._thread.call(work(self._thread.engine.belongings, self._by(why)))

    def _by(self, why: str) -> Authorship:
        return Authorship(self.conversation_id, self.branch.message_id, USER, reason=why)

    def set_profile(self, profile: str, why: str = "") -> None:
        """Say who its creator is, for those who write for it."""
        self._set(lambda head: replace(head, profile=plain(profile).strip()), why)

    def advance_to_phase(self, phase: str | None = None, why: str = "") -> Advance:
        """Go on to a phase, or to the next one; what is left open is told, and stays as it is.

        Errors: `UsageError` for a phase that there is not, or if the last is reached.
        """
        before, tree = self._load()
        wanted = phase or before.next_phase
        if wanted is None:
            raise UsageError(f"{before.phase!r} is the last phase of {self.name!r}. Name the phase to go back to.")
        self._set(lambda head: head.in_phase(wanted), why)
        passed = before.phase_names[: before.phase_names.index(wanted)]
        return Advance(before.phase, wanted, tree.left_open(passed))

    def generate(self, *, budget: Limits = None, model: str | None = None) -> Run:
        """Have all blocks written that write themselves and are empty, each once what it rests on is ready.

        Blocks that do not rest on each other are written at the same time. A block that needs review waits for your
        decision before others are written from it: approve it, change it, or deny it with what shall be otherwise.

        Args:
            budget: What the run may spend; None for what is configured.
            model: The name of the model that writes; None for what is configured.

        Errors: `UsageError` if there is nothing to write.
        """
        return self._writing(budget, model, is_anew=False)

    def refresh(self, *, budget: Limits = None, model: str | None = None) -> Run:
        """Have all stale blocks written anew, each after what it rests on; `stale` lists them first.

        Arguments and errors as for `generate`.
        """
        return self._writing(budget, model, is_anew=True)

    def evaluate(
        self,
        blocks: str | BlockHandle | Sequence[str | BlockHandle] = (),
        dimensions: str | Sequence[str] = (),
        *,
        persona: str = "",
        budget: Limits = None,
        model: str | None = None,
    ) -> Run:
        """Have texts judged, each by each dimension, with scores from 1 to 10.

        `wb.evaluations_df(project)` has them, `af.plot_evaluations` draws that.

        Args:
            blocks: The blocks, or the one, by names or handles; all that have a text if left out.
            dimensions: By what, one or several; all of `dimensions` if left out.
            persona: The persona from whose view they are judged, if it is from one.
            budget: As for `generate`.
            model: As for `generate`.

        Errors: `UsageError` if there is no text to judge, or for a block, a dimension or a persona that there is not.
        """
        tree = self.tree
        wanted = [blocks] if isinstance(blocks, str | BlockHandle) else blocks
        by = [dimensions] if isinstance(dimensions, str) else dimensions
        work = evaluation_of(self, [id_of(tree, one) for one in wanted], by, persona)
        return self._work({"evaluate": work}, f"Judge: {', '.join(work['target_fields'])}.", budget, model)

    def _writing(self, budget: Limits, model: str | None, *, is_anew: bool) -> Run:
        question, wanted = writing_of(self.name, self.tree, is_anew=is_anew)
        return self._work({"write": list(wanted)}, question, budget, model)

    def _work(self, work: Mapping[str, Any], question: str, budget: Limits, model: str | None) -> Run:
        controller = self._thread.engine.controller
        return self._start(
            lambda: controller.begin(
                question,
                conversation_id=self.conversation_id,
                flow=COMPOSE,
                budget=budget,
                model=model,
                work=work,
            ),
            COMPOSE,
        )

    def _set(self, edit: Callable[[ProjectHead], ProjectHead], why: str) -> None:
        self._thread.call(self._store.set_head(self._by(why), edit))

    def _write(self, form: str, path: AnyPath | None, *, overwrite: bool) -> Path:
        where = self.branch
        document = where.read(project_document(where.conversation_id, where.message_id))
        return write_document(document, form, path, overwrite=overwrite)

    def graph(self) -> BlockGraph:
        """What rests on what, as a drawing with a table: what is stale or empty is marked."""
        return BlockGraph(self.name, self.tree)

    def board(self) -> "Panel":
        """Its phases as columns, its blocks as cards: to read, edit, approve, compare, move; it follows the store."""
        return self._show(self.conversation_id)

    # --- faces -------------------------------------------------------------------------------------------------------

    def _card(self) -> Card:
        head, blocks = self._head(), self.blocks
        texts = [block for block in blocks if not block.is_group]
        done = sum(block.status == "completed" for block in texts)
        stale = sum(block.is_stale for block in texts)
        rows: Rows = [
            ("phase", f"{head.phase} ({head.phase_names.index(head.phase) + 1} of {len(head.phases)})"),
            ("blocks", f"{count(len(texts), 'text')}, {done} completed, {stale} stale" if texts else "none yet"),
            ("template", head.template),
            ("creator", head.profile),
        ]
        table = Table.of(blocks._columns(), [blocks._cells(block) for block in blocks])  # noqa: SLF001 - its own list
        folds = [Fold("Blocks", table, is_open=True)] if texts else []
        note = "" if blocks else f'Add a block with wb.project({self.name!r}).add("...").'
        return Card("Project", self.name, rows, folds, note)

    def __repr__(self) -> str:
        head, tree = self._load()
        return f"Project({self.name!r}, phase={head.phase!r}, blocks={len(tree)})"


def _handle(project: Project, tree: BlockTree, block: Block) -> BlockHandle:
    values = {field.name: getattr(block, field.name) for field in fields(Block)}
    values["status"] = tree.status(block.block_id) if block.block_id in tree else block.status
    needs = tuple(map(tree.name, block.depends_on))
    behind = tree.stale.get(block.block_id, ())
    path = tree.path(block.block_id) or block.name
    return BlockHandle(**values, project=project, path=path, behind=behind, needs=needs)
