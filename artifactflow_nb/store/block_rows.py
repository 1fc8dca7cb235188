"""The blocks of a project as versions of artifacts; and what a version notes when only its name or text is changed."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from artifactflow_nb.block_edits import renamed, written
from artifactflow_nb.blocks import Block, BlockTree, block_of, text_hash
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.projects import PROJECT, ProjectHead
from artifactflow_nb.store.artifact_versions import DELETE, SEEN, Artifact, check_branch, current, list_seen
from artifactflow_nb.store.schema import to_us
from artifactflow_nb.store.storable import to_json

_IDS = "SELECT DISTINCT artifact_id FROM artifact_versions WHERE conversation_id = ?"

_BLOCKS = f"""
{SEEN}
SELECT v.artifact_id, title, content, block_json, sha256, version, created_by, update_type
FROM present JOIN artifact_versions v ON v.rowid = place WHERE block_json IS NOT NULL
"""  # noqa: S608 - constants only


def block_of_version(artifact: Artifact) -> Block:
    """The block that a version is."""
    return block_of(
        artifact.artifact_id,
        artifact.title,
        artifact.content,
        artifact.block_json or "",
        text_hash(artifact.content),
        artifact.version,
        artifact.created_by,
        is_deleted=artifact.is_deleted,
    )


def load_head(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> ProjectHead:
    """The project of a conversation as a branch sees it; `NotFound` if the conversation has none."""
    found = current(db, conversation_id, PROJECT, message_id)
    if found is None:
        raise NotFound(f"The conversation {conversation_id!r} belongs to no project. Begin one with wb.project(name).")
    return ProjectHead.from_json(found.content)


def load_project(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> tuple[ProjectHead, BlockTree]:
    """The project of a conversation and its blocks as a branch sees them; errors as of `load_head`."""
    head = load_head(db, conversation_id, message_id)
    return head, BlockTree(_blocks(db, conversation_id, message_id), head.phase_names)


def load_tree(
    db: sqlite3.Connection, conversation_id: str, message_id: str | None, mask: Callable[[str], str] = str
) -> BlockTree:
    """The blocks that a branch sees, and the ids that no further one can have; errors as of `load_head`."""
    phases = load_head(db, conversation_id, message_id).phase_names
    return BlockTree(_blocks(db, conversation_id, message_id), phases, taken_ids(db, conversation_id), mask)


def taken_ids(db: sqlite3.Connection, conversation_id: str) -> list[str]:
    """The ids of the artifacts of a conversation, on whichever branch they are."""
    return [str(row[0]) for row in db.execute(_IDS, (conversation_id,))]


def _blocks(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> Iterator[Block]:
    """The blocks that a branch sees, deleted ones too; nothing is hashed for that."""
    check_branch(db, conversation_id, message_id)
    names = {"conversation_id": conversation_id, "message_id": message_id, "artifact_id": None}
    for block_id, name, content, noted, sha256, version, created_by, kind in db.execute(_BLOCKS, names):
        known = sha256 if content and not content.isspace() else ""
        yield block_of(block_id, name, content, noted, known, version, created_by, is_deleted=kind == DELETE)


def told_blocks(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> list[dict[str, Any]]:
    """What a branch says of each block of its project, in the order of the document; none if it has no project."""
    try:
        head, tree = load_project(db, conversation_id, message_id)
    except (NotFound, UsageError):
        return []
    versions = {one.artifact_id: one for one in list_seen(db, conversation_id, message_id)}
    return [_told(head.name, tree, block, n, versions[block.block_id]) for n, block in enumerate(tree, 1)]


def _told(project: str, tree: BlockTree, block: Block, position: int, version: Artifact) -> dict[str, Any]:
    behind = tree.stale.get(block.block_id, ())
    named = ("block_id", "name", "phase", "need_review", "auto_generate", "is_group", "version", "created_by")
    return {
        **{name: getattr(block, name) for name in named},
        "project": project,
        "path": tree.path(block.block_id),
        "parent_id": block.parent or None,
        "position": position,
        "depends_on_json": to_json(block.depends_on),
        "status": tree.status(block.block_id),
        "is_stale": bool(behind),
        "stale_because_json": to_json(behind),
        "n_chars": len(block.content),
        "updated_at": to_us(version.created_at),
        "reason": version.reason or None,
    }


def followed_block(
    db: sqlite3.Connection,
    conversation_id: str,
    message_id: str | None,
    before: Artifact,
    title: str,
    content: str,
    writer: str,
) -> str:
    """What a version notes that gives a block another name or text, written in view of what there is now.

    Errors: `UsageError` for a name that another block in its place has.
    """
    block_id, noted = before.artifact_id, str(before.block_json)
    if (title, content) == (before.title, before.content):
        return noted
    tree = load_tree(db, conversation_id, message_id)
    if block_id not in tree:  # it was deleted: a text for it brings it back
        tree = BlockTree([*tree, replace(block_of_version(before), is_deleted=False)], tree.phases)
    if title != before.title:
        renamed(tree, block_id, title)
    if content != before.content:
        noted = written(tree, block_id, content, writer)[0].noted
    return noted


def restored_block(present: Artifact | None, old: Artifact) -> str | None:
    """What a version notes that brings an older text back: the block is where it is, and was written from what it was.

    None if the older one is no block.
    """
    if old.block_json is None:
        return None
    then = block_of_version(old)
    if present is None or present.block_json is None or present.is_deleted:
        return old.block_json
    return replace(block_of_version(present), status=then.status, writer=then.writer, basis=then.basis).noted
