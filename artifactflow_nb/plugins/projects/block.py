"""Handles and lists of blocks, to read and to edit a project."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artifactflow_nb.core.language import agent_label
from artifactflow_nb.core.text.cards import (
    Card,
    CardCell,
    CardMixin,
    CardRows,
    CardTable,
    Details,
    DisplayList,
    MarkdownText,
)
from artifactflow_nb.notebook.artifact import ArtifactHandle, Versions
from artifactflow_nb.plugins.projects import edits as block_edits
from artifactflow_nb.plugins.projects.edits import BlockEdit, BlockPosition
from artifactflow_nb.plugins.projects.tree import PATH_SEPARATOR, Block, BlockTree
from artifactflow_nb.store.artifact_versions import require_visible
from artifactflow_nb.store.artifacts import USER

if TYPE_CHECKING:
    from artifactflow_nb.plugins.projects.handle import Project

_INDENT = "\u2003"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class BlockHandle(CardMixin, Block):
    """A snapshot of a `Block` with the methods that edit it.

    A handle does not change: each edit returns a new handle of the edited block. The reason of an edit is stored with
    the version.

    Attributes:
        project: The project of the block.
        path: The names of the block's groups and of the block.
        stale_because: The names of the dependencies that changed after the block was written.
        dependency_names: The names of the block's dependencies.
    """

    project: "Project"
    path: str = ""
    stale_because: tuple[str, ...] = ()
    dependency_names: tuple[str, ...] = ()

    @property
    def is_stale(self) -> bool:
        """True if a dependency changed since the block was written."""
        return bool(self.stale_because)

    @property
    def artifact(self) -> ArtifactHandle:
        """The current version of the block's text, to compare and to export."""
        branch = self.project.branch
        key = branch.conversation_id, self.block_id, branch.message_id
        return branch.handle(branch.read(lambda db: require_visible(db, *key, None)))

    @property
    def versions(self) -> Versions:
        """The versions of the block by number; the last version is the current version."""
        return self.artifact.versions

    def write(self, text: str, reason: str = "") -> "BlockHandle":
        """Replace the text of the block; the block is then up to date with its dependencies.

        Errors: `Conflict` if the text changed since this handle was read; `UsageError` for a group.
        """
        expected, key = self.content, self.block_id
        return self._change(lambda tree: block_edits.write_block(tree, key, text, USER, expected=expected), reason)

    def set(self, *, reason: str = "", **settings: Any) -> "BlockHandle":
        """Set `status`, `need_review`, `auto_generate`, `prompt` or `depends_on` (a list of names or blocks).

        Errors: `UsageError` for an invalid value or a circular dependency.
        """
        return self._change(lambda tree: block_edits.configure_block(tree, self.block_id, settings), reason)

    def approve(self, reason: str = "") -> "BlockHandle":
        """Set the status to completed, so that dependent blocks can be written."""
        return self.set(status="completed", reason=reason)

    def keep(self, reason: str = "") -> "BlockHandle":
        """Keep the text although its dependencies changed: the block is no longer stale."""
        return self._change(lambda tree: block_edits.mark_block_current(tree, self.block_id), reason)

    def rename(self, name: str, reason: str = "") -> "BlockHandle":
        """Rename the block; `UsageError` if a sibling has the name."""
        return self._change(lambda tree: block_edits.rename_block(tree, self.block_id, name), reason)

    def move(
        self,
        *,
        parent: "str | BlockHandle | None" = None,
        phase: str = "",
        before: "str | BlockHandle" = "",
        reason: str = "",
    ) -> "BlockHandle":
        """Move the block, with the blocks in it, to another position.

        Args:
            parent: The new group; empty for the top level, None for the current group.
            phase: The new phase, at the top level; a block in a group has the phase of the group.
            before: The block that will follow; empty for the end.
            reason: The reason of the edit.

        Errors: `UsageError` for an unknown group, phase or block.
        """

        def edit(tree: BlockTree) -> Sequence[Block]:
            group = (tree.get(self.block_id) or self).parent if parent is None else resolve_block_id(tree, parent)
            if parent is None and phase:  # without a group, a phase means its top level
                group = ""
            position = BlockPosition(phase, group, resolve_block_id(tree, before))
            return block_edits.move_block(tree, self.block_id, position)

        return self._change(edit, reason)

    def copy(self, name: str, reason: str = "") -> "BlockHandle":
        """Copy the block, with the blocks in it; the copy is placed directly after the original."""
        versions = self.project.change(lambda tree: block_edits.copy_block(tree, self.block_id, name), reason)
        return self.project.block(versions[0].artifact_id)

    def delete(self, *, anyway: bool = False, reason: str = "") -> None:
        """Delete the block with the blocks in it. The versions stay; `project.deleted` lists the block for `restore`.

        Args:
            anyway: Delete the block even if other blocks depend on it; the dependents become stale.
            reason: The reason of the edit.

        Errors: `UsageError` that names the dependents, unless `anyway` is set.
        """
        self.project.change(lambda tree: block_edits.delete_block(tree, self.block_id, anyway=anyway), reason)

    def restore(self, reason: str = "") -> "BlockHandle":
        """Restore the deleted block, with the blocks that were deleted with it."""
        return self._change(lambda tree: block_edits.restore_block(tree, self.block_id), reason)

    @property
    def dependents(self) -> "Blocks":
        """The blocks that depend on this block, directly or indirectly."""
        return self.project.select_blocks(lambda tree: tree.dependents(self.block_id), "Nothing depends on it.")

    def _change(self, edit: BlockEdit, reason: str) -> "BlockHandle":
        self.project.change(edit, reason)
        return self.project.block(self.block_id)

    @property
    def marks(self) -> str:
        """The marks of the block in lists: `stale`, `to be reviewed`, both or none."""
        needs_review = self.need_review and self.status == "draft"
        return ", ".join([*(["stale"] if self.is_stale else []), *(["to be reviewed"] if needs_review else [])])

    def _card(self) -> Card:
        rows: CardRows = [
            ("phase", self.phase),
            ("path", self.path if self.parent else ""),
            ("status", self.status),
            ("stale", f"changed since it was written: {', '.join(self.stale_because)}" if self.stale_because else ""),
            ("depends on", ", ".join(self.dependency_names)),
            ("written by itself", "yes" if self.auto_generate else ""),
            ("needs review", "yes" if self.need_review else ""),
            ("prompt", self.prompt),
            ("version", f"{self.version} by {agent_label(self.created_by)}"),
        ]
        folds = [Details("Text", MarkdownText(self.content), is_open=True)] if self.content.strip() else []
        return Card("Group" if self.is_group else "Block", self.name, rows, folds)

    def __repr__(self) -> str:
        marks = f", {self.marks}" if self.marks else ""
        return f"Block({self.path!r}, {self.status}{marks}, version={self.version})"


class Blocks(DisplayList[BlockHandle]):
    """Blocks, in the order of the document.

    Args:
        blocks: The blocks, in this order.
        nothing: The text of an empty list.
    """

    def __init__(self, blocks: Iterable[BlockHandle], nothing: str = "No blocks yet.") -> None:
        super().__init__(blocks)
        self._empty = nothing

    def _slice(self, values: Sequence[BlockHandle]) -> "Blocks":
        return Blocks(values, self._empty)

    def _columns(self) -> Sequence[str]:
        return ["block", "phase", "status", "note", "depends on", "characters"]

    def _cells(self, value: BlockHandle, /) -> Sequence[CardCell]:
        size = None if value.is_group else len(value.content)
        name = _INDENT * value.path.count(PATH_SEPARATOR) + value.name
        return [name, value.phase, value.status, value.marks, ", ".join(value.dependency_names), size]

    def _nothing(self) -> str:
        return self._empty

    def table(self) -> CardTable:
        """Return the blocks as a table for a card."""
        return self._table()


def resolve_block_id(tree: BlockTree, block: str | BlockHandle) -> str:
    """Return the id of a block from a handle or a name; empty for an empty name."""
    if isinstance(block, BlockHandle):
        return block.block_id
    return tree.find(block).block_id if block else ""
