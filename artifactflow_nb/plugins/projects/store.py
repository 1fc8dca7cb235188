"""Storage of projects and their blocks, as versions of artifacts in a conversation of the project's own.

A change is one transaction on the current blocks: the whole change is written, or nothing.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.plugins.projects.edits import BlockEdit, rename_block, write_block
from artifactflow_nb.plugins.projects.project import (
    PROJECT_ID,
    PROJECT_MEDIA_TYPE,
    PhaseChange,
    ProjectInfo,
    ProjectTemplate,
    phases_by_label,
    project_conversation_id,
    validate_project_name,
)
from artifactflow_nb.plugins.projects.tree import Block, BlockTree, parse_block, text_hash
from artifactflow_nb.store.artifact_versions import (
    DELETE,
    VISIBLE_VERSIONS_SQL,
    Artifact,
    check_branch,
    current_version,
    list_visible,
)
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship, NewVersion
from artifactflow_nb.store.calls import FINISHED
from artifactflow_nb.store.conversations import insert_conversation
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import from_row, insert, to_json, to_row
from artifactflow_nb.store.ownership import effective_status
from artifactflow_nb.store.runs import RUNNING, START_LOCK, WAITING
from artifactflow_nb.store.schema import Table, to_microseconds

_IDS = "SELECT DISTINCT artifact_id FROM artifact_versions WHERE conversation_id = ?"

_BLOCKS = f"""
{VISIBLE_VERSIONS_SQL}
SELECT v.artifact_id, title, content, metadata_json, sha256, version, created_by, update_type
FROM present JOIN artifact_versions v ON v.rowid = place WHERE metadata_json IS NOT NULL
"""  # noqa: S608 - constants only


def block_from_version(artifact: Artifact) -> Block:
    """Convert a version to a block."""
    return parse_block(
        artifact.artifact_id,
        artifact.title,
        artifact.content,
        artifact.metadata_json or "",
        text_hash(artifact.content),
        artifact.version,
        artifact.created_by,
        is_deleted=artifact.is_deleted,
    )


def load_project_info(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> ProjectInfo:
    """Load the project of a conversation on a branch; `NotFound` if the conversation belongs to no project."""
    version = current_version(db, conversation_id, PROJECT_ID, message_id)
    if version is None:
        raise NotFound(
            f"The conversation {conversation_id!r} belongs to no project. Create one with wb.projects.start(name)."
        )
    return ProjectInfo.from_json(version.content)


def load_project(
    db: sqlite3.Connection, conversation_id: str, message_id: str | None, redact: Callable[[str], str] = str
) -> tuple[ProjectInfo, BlockTree]:
    """Load the project of a conversation and its blocks on a branch; errors as for `load_project_info`."""
    info = load_project_info(db, conversation_id, message_id)
    blocks, used_ids = _blocks(db, conversation_id, message_id), used_artifact_ids(db, conversation_id)
    return info, BlockTree(blocks, info.phase_names, used_ids, redact, phases_by_label(info.phases))


def used_artifact_ids(db: sqlite3.Connection, conversation_id: str) -> list[str]:
    """Return the ids of the artifacts of a conversation on all branches."""
    return [str(row[0]) for row in db.execute(_IDS, (conversation_id,))]


def _blocks(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> Iterator[Block]:
    """Return the blocks of a branch, including deleted blocks."""
    check_branch(db, conversation_id, message_id)
    parameters = {"conversation_id": conversation_id, "message_id": message_id, "artifact_id": None}
    for row in db.execute(_BLOCKS, parameters):
        block_id, name, content, metadata_json, sha256, version, created_by, update_type = row
        # The stored hash saves hashing every text on each reading; a blank text has no hash, as in `text_hash`.
        content_hash = sha256 if content and not content.isspace() else ""
        is_deleted = update_type == DELETE
        yield parse_block(
            block_id, name, content, metadata_json, content_hash, version, created_by, is_deleted=is_deleted
        )


def block_payloads(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> list[dict[str, Any]]:
    """Return the rows of the `blocks` frame for a branch, in document order; empty if no project can be read."""
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


def block_metadata(db: sqlite3.Connection, by: Authorship, before: Artifact | None, version: NewVersion) -> str | None:
    """Derive the metadata of a block that is edited, renamed or restored like an artifact; see `ArtifactHook`.

    Errors: `UsageError` for the name of a sibling.
    """
    if version.metadata_json is not None:
        if version.update_type != "restore" or before is None or before.metadata_json is None or before.is_deleted:
            return version.metadata_json
        # The block stays at its current position, with the status, writer and basis of the old text.
        old = parse_block(version.artifact_id, version.title, version.content, version.metadata_json)
        block = block_from_version(before)
        return replace(block, status=old.status, writer=old.writer, basis=old.basis).metadata_json
    if before is None or before.metadata_json is None:
        return None
    block_id, metadata_json = before.artifact_id, before.metadata_json
    tree = load_project(db, by.conversation_id, by.message_id)[1]
    if block_id not in tree:  # a new text restores a deleted block
        tree = BlockTree([*tree, replace(block_from_version(before), is_deleted=False)], tree.phases)
    if version.title != before.title:
        rename_block(tree, block_id, version.title)
    if version.content != before.content:  # the new text is based on the current dependencies
        metadata_json = write_block(tree, block_id, version.content, by.created_by)[0].metadata_json
    return metadata_json


UNFINISHED_STATUSES = (RUNNING, WAITING)

BLOCK_JOBS = Table(
    "block_jobs",
    """
    job_id TEXT NOT NULL,
    block_id TEXT NOT NULL,
    agent_name TEXT NOT NULL,
    instruction TEXT NOT NULL,
    seen TEXT NOT NULL,
    basis_json TEXT NOT NULL,
    started_at INTEGER NOT NULL
    """,
    key="job_id",
    holds_jobs=True,
)

_UNFINISHED_JOBS = f"""
SELECT j.block_id, r.status, r.owner, {START_LOCK} AS start_lock FROM runs r JOIN block_jobs j USING (run_id)
JOIN tool_calls c ON c.tool_call_id = j.job_id
WHERE r.conversation_id = ? AND r.status IN (?, ?) AND c.status <> ? ORDER BY j.started_at
"""  # noqa: S608 - a constant
_JOBS = "SELECT *, agent_name AS agent, seen AS original_text FROM block_jobs WHERE job_id ="
_JOB_OF_CALL = "(SELECT job_id FROM tool_calls WHERE tool_call_id = ?)"


@dataclass(frozen=True, slots=True)
class BlockJob:
    """A job on a block or on the whole document.

    Attributes:
        job_id: The id of the job, a loop of an agent.
        block_id: The block; empty for the whole document.
        original_text: The block's text when the job was created.
        basis: Hashes of the texts of the block's dependencies when the job was created. For a dependency that
            the agent does not see: the hash that the block is based on.
    """

    job_id: str
    run_id: str
    block_id: str
    agent: str
    instruction: str
    original_text: str
    basis: Mapping[str, str]


class BlockJobStore:
    """Stores jobs on blocks, and finds them by their ids and calls."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, job: BlockJob, at: datetime) -> None:
        """Store a job before it starts."""
        row = to_row(
            job,
            omit=("agent", "original_text", "basis"),
            agent_name=job.agent,
            seen=job.original_text,
            basis_json=to_json(dict(job.basis)),
            started_at=to_microseconds(at),
        )
        await self._database.write(lambda db: insert(db, "block_jobs", row))

    async def get(self, job_id: str) -> BlockJob | None:
        """Return the block job with an id; None for another kind of job."""
        return await self._load(f"{_JOBS} ?", job_id)

    async def get_by_call(self, tool_call_id: str) -> BlockJob | None:
        """Return the block job that made a tool call; None for another kind of job."""
        return await self._load(f"{_JOBS} {_JOB_OF_CALL}", tool_call_id)

    async def blocks_by_job(self, run_id: str) -> dict[str, str]:
        """Return the block ids of a run's block jobs, by job id."""
        sql = "SELECT job_id, block_id FROM block_jobs WHERE run_id = ?"
        rows = await self._database.fetch_all(sql, (run_id,))
        return {row["job_id"]: row["block_id"] for row in rows}

    async def blocks_in_progress(self, conversation_id: str) -> dict[str, str]:
        """Return the blocks of unfinished jobs in a conversation: the status of the run by block id.

        The status is `running`, `waiting` or `abandoned`.
        """
        folder = self._database.path.parent

        def work(db: sqlite3.Connection) -> dict[str, str]:
            rows = db.execute(_UNFINISHED_JOBS, (conversation_id, *UNFINISHED_STATUSES, FINISHED)).fetchall()
            return {row[0]: effective_status(folder, *row[1:]) for row in rows}

        return await self._database.read(work)

    async def _load(self, sql: str, key: str) -> BlockJob | None:
        row = await self._database.fetch_one(sql, (key,))
        return None if row is None else from_row(BlockJob, row, basis=orjson.loads(row["basis_json"]))


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
            self._change(db, by, lambda _empty_tree: template.initial_blocks)
            return True

        return await self._database.write(work)

    async def info(self, conversation_id: str, message_id: str | None) -> ProjectInfo:
        """Load the project of a conversation without the blocks."""
        return await self._database.read(lambda db: load_project_info(db, conversation_id, message_id))

    async def project(self, conversation_id: str, message_id: str | None) -> tuple[ProjectInfo, BlockTree]:
        """Load the project of a conversation and the blocks of a branch, from one snapshot of the store."""
        return await self._database.read(lambda db: load_project(db, conversation_id, message_id))

    async def tree(self, conversation_id: str, message_id: str | None) -> BlockTree:
        """Load the blocks of a branch."""
        return await self._database.read(lambda db: load_project(db, conversation_id, message_id)[1])

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

    async def advance(self, by: Authorship, phase: str | None) -> PhaseChange:
        """Change a project to another phase, by default to the next phase; errors as for `ProjectInfo.advanced`."""
        before, tree = await self.project(by.conversation_id, by.message_id)
        after = await self.set_info(by, lambda info: info.advanced(phase or before.advanced(None).phase))
        earlier = after.phase_names[: after.phase_names.index(after.phase)]
        return PhaseChange(before.phase, after.phase, tree.unfinished(earlier))

    async def change(self, by: Authorship, edit: BlockEdit) -> list[Artifact]:
        """Apply an edit, write a version of each changed block, and return the versions in the order of the edit.

        A second change by the same tool call changes nothing and returns the first version that the call wrote.

        Errors: the errors of the edit; nothing is written on an error.
        """
        return await self._artifacts.write_once(by, lambda db: self._change(db, by, edit))

    def _change(self, db: sqlite3.Connection, by: Authorship, edit: BlockEdit) -> list[Artifact]:
        tree = load_project(db, by.conversation_id, by.message_id, self._redact)[1]
        versions = []
        for block in edit(tree):
            before = current_version(db, by.conversation_id, block.block_id, by.message_id)
            if before is not None and before.metadata_json is None:
                raise UsageError(f"{block.block_id!r} is an artifact that is not a block. Choose another name.")
            update_type = "create" if before is None else _update_type(before, block)
            if update_type is not None:
                version = NewVersion(
                    block.block_id, block.name, block.content, TEXT_MEDIA_TYPE, update_type, block.metadata_json
                )
                versions.append(self._artifacts.append(db, by, before, version))
                by = replace(by, tool_call_id=None)  # the column is unique: only the first version names the call
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
    """List the names of the projects, in order of creation."""
    names = []
    for conversation_id, content in db.execute(_PROJECTS, (PROJECT_MEDIA_TYPE,)):
        with suppress(UsageError):  # an artifact has the id of a project, but no project
            name = ProjectInfo.from_json(content).name
            if project_conversation_id(name) == conversation_id:
                names.append(name)
    return names
