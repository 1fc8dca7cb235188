"""Conversion between the blocks of a project and versions of artifacts.

Also derives the metadata of a block's version after an edit that knows only names and texts.
"""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from artifactflow_nb.core.document.edits import rename_block, write_block
from artifactflow_nb.core.document.project import PROJECT_ID, ProjectInfo, phases_by_label
from artifactflow_nb.core.document.tree import Block, BlockTree, parse_block, text_hash
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.store.artifact_versions import (
    DELETE,
    VISIBLE_VERSIONS_SQL,
    Artifact,
    check_branch,
    current_version,
    list_visible,
)
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.store.migrations import to_microseconds

_IDS = "SELECT DISTINCT artifact_id FROM artifact_versions WHERE conversation_id = ?"

_BLOCKS = f"""
{VISIBLE_VERSIONS_SQL}
SELECT v.artifact_id, title, content, block_json, sha256, version, created_by, update_type
FROM present JOIN artifact_versions v ON v.rowid = place WHERE block_json IS NOT NULL
"""  # noqa: S608 - constants only


def block_from_version(artifact: Artifact) -> Block:
    """Convert a version to a block."""
    return parse_block(
        artifact.artifact_id,
        artifact.title,
        artifact.content,
        artifact.block_json or "",
        text_hash(artifact.content),
        artifact.version,
        artifact.created_by,
        is_deleted=artifact.is_deleted,
    )


def load_project_info(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> ProjectInfo:
    """Load the project of a conversation on a branch; `NotFound` if the conversation belongs to no project."""
    version = current_version(db, conversation_id, PROJECT_ID, message_id)
    if version is None:
        raise NotFound(f"The conversation {conversation_id!r} belongs to no project. Begin one with wb.project(name).")
    return ProjectInfo.from_json(version.content)


def load_project(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> tuple[ProjectInfo, BlockTree]:
    """Load the project of a conversation and its blocks on a branch; errors as for `load_project_info`."""
    info = load_project_info(db, conversation_id, message_id)
    return info, BlockTree(
        _blocks(db, conversation_id, message_id), info.phase_names, phases_by_label=phases_by_label(info.phases)
    )


def load_block_tree(
    db: sqlite3.Connection, conversation_id: str, message_id: str | None, redact: Callable[[str], str] = str
) -> BlockTree:
    """Load the blocks of a branch, with the ids that new blocks must not use; errors as for `load_project_info`."""
    info = load_project_info(db, conversation_id, message_id)
    return BlockTree(
        _blocks(db, conversation_id, message_id),
        info.phase_names,
        used_artifact_ids(db, conversation_id),
        redact,
        phases_by_label(info.phases),
    )


def used_artifact_ids(db: sqlite3.Connection, conversation_id: str) -> list[str]:
    """Return the ids of the artifacts of a conversation on all branches."""
    return [str(row[0]) for row in db.execute(_IDS, (conversation_id,))]


def _blocks(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> Iterator[Block]:
    """Return the blocks of a branch, including deleted ones."""
    check_branch(db, conversation_id, message_id)
    parameters = {"conversation_id": conversation_id, "message_id": message_id, "artifact_id": None}
    for row in db.execute(_BLOCKS, parameters):
        block_id, name, content, block_json, sha256, version, created_by, update_type = row
        # The stored hash saves hashing every text on each reading; blank texts have none, as in `text_hash`.
        content_hash = sha256 if content and not content.isspace() else ""
        is_deleted = update_type == DELETE
        yield parse_block(block_id, name, content, block_json, content_hash, version, created_by, is_deleted=is_deleted)


def block_payloads(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> list[dict[str, Any]]:
    """Return the rows of the `blocks` frame for a branch, in document order; empty without a readable project."""
    try:
        info, tree = load_project(db, conversation_id, message_id)
    except (NotFound, UsageError):
        return []
    versions = {artifact.artifact_id: artifact for artifact in list_visible(db, conversation_id, message_id)}
    fields = ("block_id", "name", "phase", "need_review", "auto_generate", "is_group", "version", "created_by")
    payloads = []
    for position, block in enumerate(tree, 1):
        version, changed_dependencies = versions[block.block_id], tree.stale.get(block.block_id, ())
        payload = {
            **{name: getattr(block, name) for name in fields},
            "project": info.name,
            "path": tree.path(block.block_id),
            "parent_id": block.parent or None,
            "position": position,
            "depends_on_json": to_json(block.depends_on),
            "status": tree.status(block.block_id),
            "is_stale": bool(changed_dependencies),
            "stale_because_json": to_json(changed_dependencies),
            "n_chars": len(block.content),
            "updated_at": to_microseconds(version.created_at),
            "reason": version.reason or None,
        }
        payloads.append(payload)
    return payloads


def block_json_after_edit(
    db: sqlite3.Connection,
    conversation_id: str,
    message_id: str | None,
    before: Artifact,
    title: str,
    content: str,
    writer: str,
) -> str:
    """Derive the metadata of a block after a change of its name or text; the basis are its current dependencies.

    Errors: `UsageError` for a name that a sibling has.
    """
    block_id, block_json = before.artifact_id, str(before.block_json)
    if (title, content) == (before.title, before.content):
        return block_json
    tree = load_block_tree(db, conversation_id, message_id)
    if block_id not in tree:  # it was deleted: a new text restores it
        tree = BlockTree([*tree, replace(block_from_version(before), is_deleted=False)], tree.phases)
    if title != before.title:
        rename_block(tree, block_id, title)
    if content != before.content:
        block_json = write_block(tree, block_id, content, writer)[0].metadata_json
    return block_json


def block_json_after_restore(current: Artifact | None, old: Artifact) -> str | None:
    """Derive the metadata of a block after an old text is restored; None if the old version is not a block.

    The block stays at its current place, with the status, writer and basis that belong to the old text.
    """
    if old.block_json is None:
        return None
    old_block = block_from_version(old)
    if current is None or current.block_json is None or current.is_deleted:
        return old.block_json
    restored = replace(
        block_from_version(current), status=old_block.status, writer=old_block.writer, basis=old_block.basis
    )
    return restored.metadata_json
