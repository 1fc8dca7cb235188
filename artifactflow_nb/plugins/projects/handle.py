"""The handle of a project: its phases, and its blocks to read, write and arrange.

Every property reads the store; every change is stored as a version of an artifact, like changes by agents.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.language import in_language
from artifactflow_nb.core.local_files import AnyPath
from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, Details
from artifactflow_nb.core.text.format import count, storable_text
from artifactflow_nb.errors import NotFound, check_text
from artifactflow_nb.export.files import ExportMixin, write_document
from artifactflow_nb.notebook.artifact import Branch
from artifactflow_nb.notebook.display import CellDisplay
from artifactflow_nb.notebook.run import Run, start_run
from artifactflow_nb.notebook.sources import BudgetLike
from artifactflow_nb.plugins.projects import edits as block_edits
from artifactflow_nb.plugins.projects.block import BlockHandle, Blocks, resolve_block_id
from artifactflow_nb.plugins.projects.document import project_document
from artifactflow_nb.plugins.projects.edits import BlockEdit, BlockPosition, NewBlock
from artifactflow_nb.plugins.projects.grades import EvaluationTask
from artifactflow_nb.plugins.projects.named_text_lists import Dimensions, Personas, Skills
from artifactflow_nb.plugins.projects.named_text_store import NamedTextStore
from artifactflow_nb.plugins.projects.named_texts import SKILLS_FOLDER
from artifactflow_nb.plugins.projects.project import (
    COMPOSE,
    PhaseChange,
    ProjectInfo,
    project_conversation_id,
    validate_project_name,
)
from artifactflow_nb.plugins.projects.schedule import writing_request
from artifactflow_nb.plugins.projects.store import ProjectStore, load_project, load_project_info
from artifactflow_nb.plugins.projects.tree import Block, BlockTree
from artifactflow_nb.recording.engine import RecordingThread
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import USER, Authorship
from artifactflow_nb.store.conversations import ParentId, ParentSelector, require_conversation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from artifactflow_nb.widgets.page.panel import Panel


class Project(ExportMixin, CardMixin):
    """A document of blocks, written phase by phase: `wb.projects.start(name)`, later `wb.projects[name]`.

    Args:
        thread: The engine's thread, which writes; reading happens in the caller's thread.
        name: The name.
        display: The display settings of the workbench.

    Attributes:
        name: The name.
        conversation_id: The conversation of the project.

    Errors: `NotFound` if there is no project of this name.
    """

    def __init__(self, thread: RecordingThread, name: str, display: CellDisplay) -> None:
        self.name = validate_project_name(name)
        self.conversation_id = project_conversation_id(self.name)
        self._thread = thread
        self._display = display
        try:
            self._info()
        except NotFound:
            raise NotFound(
                f"There is no project {self.name!r}. Create it with wb.projects.start({self.name!r})."
            ) from None

    @property
    def branch(self) -> Branch:
        """The active branch of the project's conversation, on which blocks are read and written."""
        whole = Branch(self._thread, self.conversation_id, None, self._display.is_attended)
        row = whole.read(lambda db: require_conversation(db, self.conversation_id))
        return replace(whole, message_id=row["active_message_id"])

    def _info(self) -> ProjectInfo:
        branch = self.branch
        return branch.read(lambda db: load_project_info(db, branch.conversation_id, branch.message_id))

    def _load(self) -> tuple[ProjectInfo, BlockTree]:
        branch = self.branch
        return branch.read(lambda db: load_project(db, branch.conversation_id, branch.message_id))

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def tree(self) -> BlockTree:
        """The blocks as values, with their dependencies."""
        return self._load()[1]

    @property
    def blocks(self) -> Blocks:
        """All blocks, in the order of the document."""
        return self.select_blocks(tuple)

    @property
    def stale(self) -> Blocks:
        """The stale blocks, each after its dependencies."""
        return self.select_blocks(lambda tree: [tree[key] for key in tree.stale], "No block is stale.")

    @property
    def deleted(self) -> Blocks:
        """The deleted blocks; `restore()` of a block undoes its deletion."""
        return self.select_blocks(lambda tree: tree.deleted.values(), "No block was deleted.")

    def _ipython_key_completions_(self) -> list[str]:
        """Return the paths of the blocks, for completion after `[`."""
        tree = self.tree
        return [tree.path(block.block_id) for block in tree]

    def __getitem__(self, name: str) -> BlockHandle:
        tree = self.tree
        return _handle(self, tree, tree.find(name))

    def block(self, block_id: str) -> BlockHandle:
        """Return the block with this id, even a deleted block; `NotFound` for an unknown id."""
        tree = self.tree
        block = tree.get(block_id) or tree.deleted.get(block_id)
        if block is None:
            raise NotFound(f"There is no block {block_id!r} in the project {self.name!r}. project.blocks lists them.")
        return _handle(self, tree, block)

    def select_blocks(self, select: Callable[[BlockTree], Iterable[Block]], nothing: str = "No blocks yet.") -> Blocks:
        """Return the blocks that a function selects from the tree; `nothing` is the text of an empty list."""
        tree = self.tree
        return Blocks((_handle(self, tree, block) for block in select(tree)), nothing)

    @property
    def phase(self) -> str:
        """The current phase."""
        return self._info().phase

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases, in order."""
        return self._info().phase_names

    @property
    def profile(self) -> str:
        """The description of the project's creator, which the writing agents get."""
        return self._info().profile

    @property
    def personas(self) -> Personas:
        """The readers of the document: `personas.add(...)`, `change(...)`, `remove(...)`."""
        return Personas(self)

    @property
    def skills(self) -> Skills:
        """Reusable instructions: `skills.add(...)`, `change(...)`, `remove(...)`, `share(...)`."""
        return Skills(self)

    @property
    def skill_folder(self) -> Path:
        """The folder of the skills that all projects share: one Markdown file with front matter per skill."""
        return self._thread.engine.folder / SKILLS_FOLDER

    @property
    def dimensions(self) -> Dimensions:
        """The criteria of evaluations: `dimensions.add(...)`, `load(...)`, `change(...)`, `remove(...)`."""
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
        reason: str = "",
        **settings: Any,
    ) -> BlockHandle:
        """Add a block.

        Args:
            name: The name, which is unique within its group or phase.
            text: The initial text.
            phase: The phase of a block at the top level, by name or display name; by default the current phase. A
                block in a group has the phase of the group.
            parent: The group of the block; empty for the top level.
            before: The block that will follow; empty for the end.
            is_group: Whether the block is a group of blocks, without a text of its own.
            reason: The reason of the edit, which is stored with the version.
            settings: `depends_on`, `need_review`, `auto_generate`, `prompt`.

        Errors: `UsageError` for an invalid name, position or setting.
        """
        block_phase = phase or ("" if parent else self.phase)
        fields = {**settings, "is_group": True} if is_group else settings

        def edit(tree: BlockTree) -> Sequence[Block]:
            position = BlockPosition(block_phase, resolve_block_id(tree, parent), resolve_block_id(tree, before))
            return block_edits.add_block(tree, NewBlock(name, position, fields, text, USER))

        return self.block(self.change(edit, reason)[0].artifact_id)

    def change(self, edit: BlockEdit, reason: str = "") -> list[Artifact]:
        """Apply a manual edit, and return the written versions."""
        return self._thread.call(self._thread.engine.service(ProjectStore).change(self._authorship(reason), edit))

    def write_texts(
        self, work: Callable[[NamedTextStore, Authorship], Coroutine[Any, Any, list[Artifact]]], reason: str
    ) -> list[Artifact]:
        """Apply a manual change of the named texts, and return the written versions."""
        return self._thread.call(work(self._thread.engine.service(NamedTextStore), self._authorship(reason)))

    def _authorship(self, reason: str) -> Authorship:
        return Authorship(self.conversation_id, self.branch.message_id, USER, reason=reason)

    def set_profile(self, profile: str, reason: str = "") -> None:
        """Set the description of the project's creator, which the writing agents get."""
        projects, text = self._thread.engine.service(ProjectStore), storable_text(profile).strip()
        self._thread.call(projects.set_info(self._authorship(reason), lambda info: replace(info, profile=text)))

    def advance_to_phase(self, phase: str | None = None, reason: str = "") -> PhaseChange:
        """Change to another phase, by default to the next phase; the result lists the unfinished blocks.

        A phase is named by its name or a display name: `research`, `Research`, `消费者调研`.

        Errors: `UsageError` for an unknown phase, or after the last phase.
        """
        return self._thread.call(self._thread.engine.service(ProjectStore).advance(self._authorship(reason), phase))

    def ask(
        self,
        question: str,
        *,
        parent_message_id: ParentId = ParentSelector.ACTIVE,
        budget: BudgetLike = None,
        model: str | None = None,
    ) -> Run:
        """Ask the composer, which discusses the document and delegates to arrange, write and change blocks.

        `@Findings` in the question includes the block Findings, `@skill:concise` the skill concise.

        Args:
            question: The question.
            parent_message_id: The message to continue from; by default the branch's last message; None for a new root.
            budget: The limits of the run, such as `af.Budget(tokens=50_000)`; None for the configured budget.
            model: The name of the model; None for the configured model.

        Errors: `UsageError` for an empty question, or an unknown block or skill in the question; `Conflict` while the
            branch waits for an earlier answer.
        """
        check_text("question", question)
        return self._start(question, budget, model, parent_message_id=parent_message_id)

    def chat(self, *, budget: BudgetLike = None, model: str | None = None) -> "Panel":
        """Show the conversation with the composer, to read and to continue; arguments as for `ask`."""
        from artifactflow_nb.widgets.chat.view import ChatView

        limits = None if budget is None else Budget.from_limits(budget)
        options: dict[str, Any] = {"flow": COMPOSE, "budget": limits, "model": model}
        return self._display.panel(
            lambda is_live: ChatView(self._thread, self.conversation_id, with_metrics=is_live, **options)
        )

    def generate(self, *, budget: BudgetLike = None, model: str | None = None) -> Run:
        """Let agents write all empty blocks with `auto_generate`, each block when its dependencies are ready.

        Independent blocks are written in parallel. A block that needs review waits for your decision before dependent
        blocks are written: approve or edit the text, or deny it with instructions for another draft.

        Args:
            budget: The limits of the run; None for the configured budget.
            model: The name of the model; None for the configured model.

        Errors: `UsageError` if there is nothing to write.
        """
        return self._write_blocks(budget, model, is_refresh=False)

    def refresh(self, *, budget: BudgetLike = None, model: str | None = None) -> Run:
        """Let agents rewrite all stale blocks, each block after its dependencies; `stale` lists the blocks.

        Arguments and errors as for `generate`.
        """
        return self._write_blocks(budget, model, is_refresh=True)

    def _write_blocks(self, budget: BudgetLike, model: str | None, *, is_refresh: bool) -> Run:
        question, block_ids = writing_request(self.name, self.tree, is_refresh=is_refresh)
        return self._start(question, budget, model, work={"write": list(block_ids)})

    def evaluate(
        self,
        blocks: str | BlockHandle | Sequence[str | BlockHandle] = (),
        dimensions: str | Sequence[str] = (),
        *,
        persona: str = "",
        budget: BudgetLike = None,
        model: str | None = None,
    ) -> Run:
        """Let agents grade texts in each dimension, with scores from 1 to 10.

        `wb.projects.evaluations_df(project)` returns the grades, `wb.projects.plot_evaluations` draws the grades.

        Args:
            blocks: One or several blocks, by name or handle; by default all blocks with a text.
            dimensions: One or several names of dimensions; by default all.
            persona: The name of the persona whose view the graders take; empty for no persona.
            budget: As for `generate`.
            model: As for `generate`.

        Errors: `UsageError` if there is no text to evaluate, or for an unknown block, dimension or persona.
        """
        tree = self.tree
        selected = [blocks] if isinstance(blocks, str | BlockHandle) else blocks
        names = [dimensions] if isinstance(dimensions, str) else dimensions
        paths = [tree.path(resolve_block_id(tree, block)) for block in selected]
        targets = paths or [tree.path(block.block_id) for block in tree if block.sha256]
        criteria = tuple(self.dimensions), tuple(self.personas)
        task = EvaluationTask.resolve(tree, targets, names, persona, criteria)
        params: dict[str, Any] = {"target_fields": targets}
        if names:
            params["eval_dimensions"] = [dimension.name for dimension in task.dimensions]
        if task.persona is not None:
            params["persona"] = task.persona.name
        return self._start(f"Judge: {', '.join(targets)}.", budget, model, work={"evaluate": params})

    def _start(self, question: str, budget: BudgetLike, model: str | None, **options: Any) -> Run:
        begin, conversation_id = self._thread.engine.controller.begin, self.conversation_id
        options |= {"conversation_id": conversation_id, "flow": COMPOSE, "budget": budget, "model": model}
        return start_run(self._thread, self._display, lambda: begin(question, **options), COMPOSE)

    def _write(self, form: str, path: AnyPath | None, *, overwrite: bool) -> Path:
        branch = self.branch
        with in_language(self._thread.language):
            document = branch.read(project_document(branch.conversation_id, branch.message_id))
            return write_document(document, form, path, overwrite=overwrite)

    def graph(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the dependency graph of the blocks on `ax` or in a new figure; stale and empty blocks are marked."""
        from artifactflow_nb.plugins.projects.graph import plot_blocks

        with in_language(self._thread.language):
            return plot_blocks(self.name, self.tree, ax)

    def board(self) -> "Panel":
        """Show the phases as columns and the blocks as cards: to read, edit, approve, compare and move."""
        from artifactflow_nb.plugins.projects.board import BoardView

        return self._display.panel(lambda is_live: BoardView(self._thread, self.conversation_id, with_dates=is_live))

    # --- display -----------------------------------------------------------------------------------------------------

    def _card(self) -> Card:
        info, blocks = self._info(), self.blocks
        texts = [block for block in blocks if not block.is_group]
        n_completed = sum(block.status == "completed" for block in texts)
        n_stale = sum(block.is_stale for block in texts)
        rows: CardRows = [
            ("phase", f"{info.phase} ({info.phase_names.index(info.phase) + 1} of {len(info.phases)})"),
            (
                "blocks",
                f"{count(len(texts), 'text')}, {n_completed} completed, {n_stale} stale" if texts else "none yet",
            ),
            ("template", info.template),
            ("creator", info.profile),
        ]
        folds = [Details("Blocks", blocks.table(), is_open=True)] if texts else []
        note = "" if blocks else f'Add a block with wb.projects[{self.name!r}].add("...").'
        return Card("Project", self.name, rows, folds, note)

    def __repr__(self) -> str:
        info, tree = self._load()
        return f"Project({self.name!r}, phase={info.phase!r}, blocks={len(tree)})"


def _handle(project: Project, tree: BlockTree, block: Block) -> BlockHandle:
    values = {field.name: getattr(block, field.name) for field in fields(Block)}
    values["status"] = tree.status(block.block_id) if block.block_id in tree else block.status
    return BlockHandle(
        **values,
        project=project,
        path=tree.path(block.block_id) or block.name,
        stale_because=tree.stale.get(block.block_id, ()),
        dependency_names=tuple(map(tree.block_name, block.depends_on)),
    )
