"""Projects and their blocks as they are stored: versions of artifacts in a conversation of the project's own.

A change is one transaction: it is made to the blocks as they are then, and either all of it is written or nothing.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from artifactflow_nb.block_edits import BlockEdit
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.errors import UsageError
from artifactflow_nb.project_template import ProjectTemplate
from artifactflow_nb.projects import PROJECT, PROJECT_TYPE, ProjectHead, checked_project_name, project_conversation
from artifactflow_nb.store.artifact_versions import DELETE, Artifact, check_branch, current, to_artifact
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship, NewVersion
from artifactflow_nb.store.block_rows import block_of_version, load_head, load_project, load_tree
from artifactflow_nb.store.conversations import insert_conversation
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.schema import to_us

TEXT_TYPE = "text/markdown"

_EXISTS = "SELECT 1 FROM conversations WHERE conversation_id = ?"
_WROTE = "SELECT * FROM artifact_versions WHERE tool_call_id = ?"

_PROJECTS = """
SELECT conversation_id, content FROM conversations c JOIN artifact_versions v USING (conversation_id)
WHERE v.artifact_id = 'project' AND v.version = 1 AND v.content_type = ? ORDER BY c.rowid
"""


class BlockStore:
    """Reads and writes projects.

    Args:
        database: Where.
        artifacts: What writes versions.
        mask: Takes secrets out of the names of which ids are made.
    """

    def __init__(self, database: Database, artifacts: ArtifactManager, mask: Callable[[str], str] = str) -> None:
        self._database = database
        self._artifacts = artifacts
        self._mask = mask

    async def begin(self, name: str, template: ProjectTemplate, created_by: str) -> bool:
        """Make a project of this name with the blocks of its template; False, and nothing changed, if there is one."""
        head = ProjectHead.begun(checked_project_name(name), template)
        conversation_id = project_conversation(head.name)
        by = Authorship(conversation_id, None, created_by, reason="The project was begun.")

        def work(db: sqlite3.Connection) -> bool:
            if db.execute(_EXISTS, (conversation_id,)).fetchone() is not None:
                return False
            at = self._artifacts.when(by, PROJECT, "create", head.to_json())
            insert_conversation(db, conversation_id, head.name, to_us(at))
            self._artifacts.put(db, replace(by, at=at), PROJECT, head.name, head.to_json(), PROJECT_TYPE)
            self._change(db, by, lambda _none: tuple(template.first_blocks))
            return True

        return await self._database.write(work)

    async def head(self, conversation_id: str, message_id: str | None) -> ProjectHead:
        """The project of a conversation, without its blocks."""
        return await self._database.read(lambda db: load_head(db, conversation_id, message_id))

    async def project(self, conversation_id: str, message_id: str | None) -> tuple[ProjectHead, BlockTree]:
        """The same with the blocks that a branch sees, both as they were at one moment."""
        return await self._database.read(lambda db: load_project(db, conversation_id, message_id))

    async def tree(self, conversation_id: str, message_id: str | None) -> BlockTree:
        """The blocks that a branch sees."""
        return await self._database.read(lambda db: load_tree(db, conversation_id, message_id))

    async def set_head(self, by: Authorship, edit: Callable[[ProjectHead], ProjectHead]) -> ProjectHead:
        """Change what a project is beside its blocks; what it is then."""

        def work(db: sqlite3.Connection) -> ProjectHead:
            head = load_head(db, by.conversation_id, by.message_id)
            if (changed := edit(head)) != head:
                self._artifacts.put(db, by, PROJECT, changed.name, changed.to_json(), PROJECT_TYPE)
            return changed

        changed = await self._database.write(work)
        await self._artifacts.wrote(by)
        return changed

    async def change(self, by: Authorship, edit: BlockEdit) -> list[Artifact]:
        """Make an edit and write a version of each block that it changes; these versions, in its order.

        A second change by the same tool call changes nothing and gives the first version that it wrote.

        Errors: those of the edit; then nothing was written.
        """

        def once(db: sqlite3.Connection) -> list[Artifact]:
            check_branch(db, by.conversation_id, by.message_id)
            there = None if by.tool_call_id is None else db.execute(_WROTE, (by.tool_call_id,)).fetchone()
            return self._change(db, by, edit) if there is None else [to_artifact(there)]

        written = await self._database.write(once)
        await self._artifacts.wrote(by)
        return written

    def _change(self, db: sqlite3.Connection, by: Authorship, edit: BlockEdit) -> list[Artifact]:
        tree = load_tree(db, by.conversation_id, by.message_id, self._mask)
        made = []
        for block in edit(tree):
            before = current(db, by.conversation_id, block.block_id, by.message_id)
            if before is not None and before.block_json is None:
                raise UsageError(f"{block.block_id!r} is an artifact that is no block. Choose another name.")
            if (version := _version_of(before, block)) is not None:
                made.append(self._artifacts.append(db, by, before, version))
                by = replace(by, tool_call_id=None)  # a call is noted once
        return made


def _version_of(before: Artifact | None, block: Block) -> NewVersion | None:
    """The version that says what a block is now; None if the one before says so."""
    kind = "create" if before is None else _change_of(before, block)
    if kind is None:
        return None
    return NewVersion(block.block_id, block.name, block.content, TEXT_TYPE, kind, block.noted)


def _change_of(before: Artifact, block: Block) -> str | None:
    """What was done to a block, in the words of `update_type`; None for nothing."""
    was = block_of_version(before)
    if block.is_deleted:
        return None if was.is_deleted else DELETE
    if was.is_deleted:
        return "restore"
    if was.content != block.content:
        return "rewrite" if was.content else "update"
    if was.place() == block.place() and (was.status, was.basis, was.writer) == (
        block.status,
        block.basis,
        block.writer,
    ):
        return None
    return "rename" if was.name != block.name and replace(was, name=block.name).place() == block.place() else "arrange"


def list_projects(db: sqlite3.Connection) -> list[str]:
    """The names of the projects, in the order in which they were begun; what only looks like one is passed over."""
    names = []
    for conversation_id, content in db.execute(_PROJECTS, (PROJECT_TYPE,)):
        with suppress(UsageError):
            names += [
                name for name in [ProjectHead.from_json(content).name] if project_conversation(name) == conversation_id
            ]
    return names
