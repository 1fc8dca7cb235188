"""Storage of projects and their blocks, as versions of artifacts in a conversation of the project's own.

A change is one transaction on the current blocks: either all of it is written or nothing.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from artifactflow_nb.core.document.edits import BlockEdit
from artifactflow_nb.core.document.project import (
    PROJECT_ID,
    PROJECT_MEDIA_TYPE,
    ProjectInfo,
    ProjectTemplate,
    project_conversation_id,
    validate_project_name,
)
from artifactflow_nb.core.document.tree import Block, BlockTree
from artifactflow_nb.errors import UsageError
from artifactflow_nb.store.artifact_versions import DELETE, Artifact, current_version
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship, NewVersion
from artifactflow_nb.store.conversations import insert_conversation
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.document_rows import block_from_version, load_block_tree, load_project, load_project_info
from artifactflow_nb.store.migrations import to_microseconds

TEXT_MEDIA_TYPE = "text/markdown"

_EXISTS = "SELECT 1 FROM conversations WHERE conversation_id = ?"

_PROJECTS = """
SELECT conversation_id, content FROM conversations c JOIN artifact_versions v USING (conversation_id)
WHERE v.artifact_id = 'project' AND v.version = 1 AND v.content_type = ? ORDER BY c.rowid
"""


class ProjectStore:
    """Access to projects.

    Args:
        database: The store.
        artifacts: Writes the versions.
        redact: Removes secrets from names before ids are derived from them.
    """

    def __init__(self, database: Database, artifacts: ArtifactManager, redact: Callable[[str], str] = str) -> None:
        self._database = database
        self._artifacts = artifacts
        self._redact = redact

    async def create(self, name: str, template: ProjectTemplate, created_by: str) -> bool:
        """Create a project with the blocks of a template; return False, without a change, if the name is in use."""
        info = ProjectInfo.create(validate_project_name(name), template)
        conversation_id = project_conversation_id(info.name)
        by = Authorship(conversation_id, None, created_by, reason="The project was started.")

        def work(db: sqlite3.Connection) -> bool:
            if db.execute(_EXISTS, (conversation_id,)).fetchone() is not None:
                return False
            at = self._artifacts.edit_time(by, PROJECT_ID, "create", info.to_json())
            insert_conversation(db, conversation_id, info.name, to_microseconds(at))
            self._artifacts.put(db, replace(by, at=at), PROJECT_ID, info.name, info.to_json(), PROJECT_MEDIA_TYPE)
            self._change(db, by, lambda _empty_tree: tuple(template.initial_blocks))
            return True

        return await self._database.write(work)

    async def info(self, conversation_id: str, message_id: str | None) -> ProjectInfo:
        """The project of a conversation without its blocks."""
        return await self._database.read(lambda db: load_project_info(db, conversation_id, message_id))

    async def project(self, conversation_id: str, message_id: str | None) -> tuple[ProjectInfo, BlockTree]:
        """The project of a conversation and the blocks of a branch, from one snapshot of the store."""
        return await self._database.read(lambda db: load_project(db, conversation_id, message_id))

    async def tree(self, conversation_id: str, message_id: str | None) -> BlockTree:
        """The blocks of a branch."""
        return await self._database.read(lambda db: load_block_tree(db, conversation_id, message_id))

    async def set_info(self, by: Authorship, edit: Callable[[ProjectInfo], ProjectInfo]) -> ProjectInfo:
        """Change a project's properties, apart from its blocks; return the new properties."""

        def work(db: sqlite3.Connection) -> ProjectInfo:
            info = load_project_info(db, by.conversation_id, by.message_id)
            if (changed := edit(info)) != info:
                self._artifacts.put(db, by, PROJECT_ID, changed.name, changed.to_json(), PROJECT_MEDIA_TYPE)
            return changed

        changed = await self._database.write(work)
        await self._artifacts.record_manual_edit(by)
        return changed

    async def change(self, by: Authorship, edit: BlockEdit) -> list[Artifact]:
        """Apply an edit and write a version of each block that it changes; return these versions in its order.

        A second change by the same tool call changes nothing and returns the first version that the call wrote.

        Errors: those of the edit, without any write.
        """
        return await self._artifacts.write_once(by, lambda db: self._change(db, by, edit))

    def _change(self, db: sqlite3.Connection, by: Authorship, edit: BlockEdit) -> list[Artifact]:
        tree = load_block_tree(db, by.conversation_id, by.message_id, self._redact)
        versions = []
        for block in edit(tree):
            before = current_version(db, by.conversation_id, block.block_id, by.message_id)
            if before is not None and before.block_json is None:
                raise UsageError(f"{block.block_id!r} is an artifact that is not a block. Choose another name.")
            update_type = "create" if before is None else _update_type(before, block)
            if update_type is not None:
                version = NewVersion(
                    block.block_id, block.name, block.content, TEXT_MEDIA_TYPE, update_type, block.metadata_json
                )
                versions.append(self._artifacts.append(db, by, before, version))
                by = replace(by, tool_call_id=None)  # the column is unique: the first version names the call
        return versions


def _update_type(before: Artifact, block: Block) -> str | None:
    """Return the `update_type` of the change from a stored version to a block; None for no change."""
    was = block_from_version(before)
    if block.is_deleted:
        return None if was.is_deleted else DELETE
    if was.is_deleted:
        return "restore"
    if was.content != block.content:
        return "rewrite" if was.content else "update"
    if was.without_text() == block.without_text() and (was.status, was.basis, was.writer) == (
        block.status,
        block.basis,
        block.writer,
    ):
        return None
    return (
        "rename"
        if was.name != block.name and replace(was, name=block.name).without_text() == block.without_text()
        else "arrange"
    )


def list_projects(db: sqlite3.Connection) -> list[str]:
    """The names of the projects, in order of creation."""
    names = []
    for conversation_id, content in db.execute(_PROJECTS, (PROJECT_MEDIA_TYPE,)):
        with suppress(UsageError):  # an artifact that has the id of a project but is none
            name = ProjectInfo.from_json(content).name
            if project_conversation_id(name) == conversation_id:
                names.append(name)
    return names
