"""A block as a person holds it, and lists of blocks: what it says, what it rests on, and what can be done with it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artifactflow_nb import block_edits
from artifactflow_nb.artifact import ArtifactHandle, Versions
from artifactflow_nb.block_edits import BlockEdit, Place
from artifactflow_nb.blocks import SEPARATOR, Block, BlockTree
from artifactflow_nb.store.artifact_versions import require_seen
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.text.cards import Card, Cell, Fold, Prose, Rows, Shown
from artifactflow_nb.text.listing import Listing

if TYPE_CHECKING:
    from artifactflow_nb.project import Project

_INDENT = "\u2003"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class BlockHandle(Shown, Block):
    """A block as it was when it was read, with all that a `Block` has, and what a person can do with it.

    Whatever changes it gives the block as it is then.

    Attributes:
        project: The project that it belongs to.
        path: The names from the top to it.
        behind: The names of what was changed since it was written, for which it is stale; empty if it is not.
        needs: The names of what it depends on.
    """

    project: "Project"
    path: str = ""
    behind: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def is_stale(self) -> bool:
        """Whether something that it rests on is other than when it was written."""
        return bool(self.behind)

    @property
    def artifact(self) -> ArtifactHandle:
        """Its present version, to compare and to take along."""
        where = self.project.branch
        found = where.read(lambda db: require_seen(db, where.conversation_id, self.block_id, where.message_id, None))
        return where.hold(found)

    @property
    def versions(self) -> Versions:
        """Its versions, by number; the last is its present one."""
        return self.artifact.versions

    def write(self, text: str, why: str = "") -> "BlockHandle":
        """Give it another text, written by hand in view of what it rests on now.

        Errors: `Conflict` if its text is another by now than the one of this handle; `UsageError` for a group.
        """
        seen, key = self.content, self.block_id
        return self._change(lambda tree: block_edits.written(tree, key, text, USER, expected=seen), why)

    def set(self, *, why: str = "", **settings: Any) -> "BlockHandle":
        """Set `status`, `need_review`, `auto_generate`, `prompt` or `depends_on`, a list of names or blocks.

        Errors: `UsageError` for a value that cannot be, and for blocks that would rest on themselves.
        """
        return self._change(lambda tree: block_edits.configured(tree, self.block_id, settings), why)

    def approve(self, why: str = "") -> "BlockHandle":
        """Say that its text holds: it is completed, and what waits for it can be written."""
        return self.set(status="completed", why=why)

    def keep(self, why: str = "") -> "BlockHandle":
        """Say that its text holds although what it rests on was changed: it is no longer stale."""
        return self._change(lambda tree: block_edits.kept(tree, self.block_id), why)

    def rename(self, name: str, why: str = "") -> "BlockHandle":
        """Call it otherwise; `UsageError` for a name that another block in its place has."""
        return self._change(lambda tree: block_edits.renamed(tree, self.block_id, name), why)

    def move(
        self,
        *,
        parent: "str | BlockHandle | None" = None,
        phase: str = "",
        before: "str | BlockHandle" = "",
        why: str = "",
    ) -> "BlockHandle":
        """Put it, with all that is in it, into another place.

        Args:
            parent: The group that it goes into; empty for the top, None for where it is.
            phase: The phase, at the top; in a group it is that of the group.
            before: The block in front of which it stands; the end if left out.
            why: Why.

        Errors: `UsageError` for a place that there is not.
        """

        def edit(tree: BlockTree) -> Sequence[Block]:
            there = (tree.get(self.block_id) or self).parent if parent is None else id_of(tree, parent)
            if parent is None and phase:
                there = ""
            return block_edits.moved(tree, self.block_id, Place(phase, there, id_of(tree, before)))

        return self._change(edit, why)

    def copy(self, name: str, why: str = "") -> "BlockHandle":
        """A copy of it, with all that is in it, behind it."""
        made = self.project.change(lambda tree: block_edits.copied(tree, self.block_id, name), why)
        return self.project.block(made[0].artifact_id)

    def delete(self, *, anyway: bool = False, why: str = "") -> None:
        """Delete it, with all that is in it; its versions are kept, and `project.deleted` brings it back.

        Errors: `UsageError` that names what depends on it, unless it is to go anyway; that is stale then.
        """
        self.project.change(lambda tree: block_edits.deleted(tree, self.block_id, anyway=anyway), why)

    def restore(self, why: str = "") -> "BlockHandle":
        """Bring it back after it was deleted, with what went with it."""
        return self._change(lambda tree: block_edits.restored(tree, self.block_id), why)

    @property
    def dependents(self) -> "Blocks":
        """The blocks that rest on it, at first or at second hand."""
        return self.project.listed(lambda tree: tree.dependents(self.block_id), "Nothing depends on it.")

    def _change(self, edit: BlockEdit, why: str) -> "BlockHandle":
        self.project.change(edit, why)
        return self.project.block(self.block_id)

    @property
    def marks(self) -> str:
        """What is to be noted of it, in words."""
        waits = self.need_review and self.status == "draft"
        return ", ".join([*(["stale"] if self.is_stale else []), *(["to be reviewed"] if waits else [])])

    def _card(self) -> Card:
        rows: Rows = [
            ("phase", self.phase),
            ("path", self.path if self.parent else ""),
            ("status", self.status),
            ("stale", f"changed since it was written: {', '.join(self.behind)}" if self.behind else ""),
            ("depends on", ", ".join(self.needs)),
            ("written by itself", "yes" if self.auto_generate else ""),
            ("needs review", "yes" if self.need_review else ""),
            ("prompt", self.prompt),
            ("version", f"{self.version} by {self.created_by}"),
        ]
        folds = [Fold("Text", Prose(self.content), is_open=True)] if self.content.strip() else []
        return Card("Group" if self.is_group else "Block", self.name, rows, folds)

    def __repr__(self) -> str:
        marks = f", {self.marks}" if self.marks else ""
        return f"Block({self.path!r}, {self.status}{marks}, version={self.version})"


class Blocks(Listing[BlockHandle]):
    """Blocks, in the order of the document.

    Args:
        blocks: What the list holds.
        nothing: What it says if it holds none.
    """

    def __init__(self, blocks: Iterable[BlockHandle], nothing: str = "No blocks yet.") -> None:
        super().__init__(blocks)
        self._empty = nothing

    def _slice(self, values: Sequence[BlockHandle]) -> "Blocks":
        return Blocks(values, self._empty)

    def _columns(self) -> Sequence[str]:
        return ["block", "phase", "status", "note", "depends on", "characters"]

    def _cells(self, value: BlockHandle, /) -> Sequence[Cell]:
        size = None if value.is_group else len(value.content)
        return [_indented(value), value.phase, value.status, value.marks, ", ".join(value.needs), size]

    def _nothing(self) -> str:
        return self._empty


def _indented(block: BlockHandle) -> str:
    return _INDENT * block.path.count(SEPARATOR) + block.name


def id_of(tree: BlockTree, block: str | BlockHandle) -> str:
    """The id of a block that is named or held; empty for nothing."""
    if isinstance(block, BlockHandle):
        return block.block_id
    return tree.find(block).block_id if block else ""
