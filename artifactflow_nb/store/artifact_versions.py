"""Versions of artifacts and their visibility on the branches of a conversation.

A version belongs to the message whose run wrote it. A branch sees the versions of its own messages; the current
version is the newest version of the message nearest to the end of the branch. The plan of a turn is an ordinary
artifact with the fixed id `task_plan`, visible in its own turn only.
"""

import sqlite3
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from artifactflow_nb.core.language import agent_label, translate
from artifactflow_nb.core.plan import plan_checklist
from artifactflow_nb.core.text.format import fenced
from artifactflow_nb.errors import NotFound, brief
from artifactflow_nb.store.conversations import require_conversation, require_message
from artifactflow_nb.store.encoding import from_row, storable_number

TASK_PLAN_ID = "task_plan"

DELETE = "delete"
"""The `update_type` of a version that marks a block as deleted."""

VISIBLE_VERSIONS_SQL = f"""
WITH RECURSIVE branch (message_id, parent_id, distance) AS (
    SELECT message_id, parent_id, 0 FROM messages WHERE message_id = :message_id
    UNION ALL
    SELECT m.message_id, m.parent_id, distance + 1 FROM messages m JOIN branch b ON m.message_id = b.parent_id
),
seen AS (
    SELECT v.rowid AS place, v.artifact_id, v.version - coalesce(b.distance, 1 << 30) * (1 << 31) AS nearness
    FROM artifact_versions v LEFT JOIN branch b USING (message_id)
    WHERE v.conversation_id = :conversation_id AND (:artifact_id IS NULL OR v.artifact_id = :artifact_id)
    AND (v.message_id IS NULL OR b.distance = 0 OR (b.distance > 0 AND v.artifact_id <> '{TASK_PLAN_ID}'))
),
present AS (SELECT place, max(nearness) FROM seen GROUP BY artifact_id)
"""  # noqa: S608 - constants only
"""The versions that are visible on the branch of a message (`seen`), and the current one per artifact (`present`).

`nearness` orders by distance of the message from the end of the branch, then by version. Versions without a message
come last.
"""

EDITED_BY = (
    "(SELECT decided_by FROM main.approvals AS a WHERE a.tool_call_id = v.tool_call_id AND a.decision = 'edited')"
)
"""The person who edited and approved the call that wrote a version `v`, or NULL."""

VERSIONS_SQL = f"SELECT v.*, {EDITED_BY} AS edited_by FROM artifact_versions v"  # noqa: S608 - constants only
_CURRENT = f"{VISIBLE_VERSIONS_SQL} {VERSIONS_SQL} JOIN present ON v.rowid = place WHERE "
_VISIBLE = f"{VISIBLE_VERSIONS_SQL} {VERSIONS_SQL} JOIN seen ON v.rowid = place WHERE "


CHANGE_LABELS = {
    "create": "created",
    "update": "changed",
    "rewrite": "rewritten",
    "restore": "restored",
    "rename": "renamed",
    "arrange": "arranged",
    "delete": "deleted",
}
"""Past participles for display, by `update_type`."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One version of an artifact.

    Attributes:
        artifact_id: Id, unique in the conversation.
        version: Number from 1, counted over all branches of the conversation; no number is used twice.
        content_type: Media type, `text/markdown` by default.
        update_type: `create`, `update`, `rewrite`, `restore` or `rename`; for a block also `delete`, and `arrange` for
            a change of metadata other than the name.
        created_by: The agent's name, or `USER`.
        run_id: The run that wrote the version, or None.
        message_id: The message that the run answers, or None.
        reason: The author's reason, or an empty string.
        metadata_json: Data of the plugin to which the artifact belongs, such as a block of a project, or None.
        edited_by: The person who edited and approved the call that wrote the version, or None.
    """

    artifact_id: str
    version: int
    title: str
    content_type: str
    content: str
    update_type: str
    created_at: datetime
    created_by: str
    run_id: str | None
    message_id: str | None
    reason: str
    metadata_json: str | None
    edited_by: str | None

    @property
    def author_label(self) -> str:
        """The author for readers, and the person who changed the text before the write."""
        author = agent_label(self.created_by)
        if self.edited_by is None:
            return author
        editor = agent_label(self.edited_by)
        return translate("{author}, changed by {editor} before it was written", author=author, editor=editor)

    @property
    def is_deleted(self) -> bool:
        """Whether this version marks a deletion."""
        return self.update_type == DELETE

    @property
    def event_payload(self) -> dict[str, Any]:
        """The fields of the version's events, without its text."""
        fields = ("artifact_id", "version", "title", "content_type", "update_type")
        return {name: getattr(self, name) for name in fields}

    @property
    def markdown(self) -> str:
        """The text as Markdown: unchanged, a plan as a checklist, other types in a code fence."""
        if self.content_type == "text/markdown":
            return self.content
        if (checklist := plan_checklist(self.content, self.content_type)) is not None:
            return checklist
        return fenced(self.content, "~")

    def __repr__(self) -> str:
        return f"Artifact({self.artifact_id!r}, version={self.version}, title={self.title!r})"


def list_visible(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> list[Artifact]:
    """Return the current version of each artifact on a branch, by id, without deleted artifacts."""
    check_branch(db, conversation_id, message_id)
    condition = f"update_type <> '{DELETE}' ORDER BY v.artifact_id"
    return _load(db, _CURRENT + condition, conversation_id, message_id)


def list_by_type(
    db: sqlite3.Connection, conversation_id: str, message_id: str | None, content_type: str
) -> list[Artifact]:
    """Return the artifacts of `list_visible` that have a media type, without reading the texts of other artifacts."""
    check_branch(db, conversation_id, message_id)
    condition = f"content_type = :content_type AND update_type <> '{DELETE}' ORDER BY v.artifact_id"
    return _load(db, _CURRENT + condition, conversation_id, message_id, content_type=content_type)


def read_version(db: sqlite3.Connection, conversation_id: str, artifact_id: str, version: int) -> Artifact:
    """Return one version by its number, on any branch; `NotFound` lists the existing numbers."""
    sql = f"{VERSIONS_SQL} WHERE conversation_id = ? AND artifact_id = ? AND version = ?"
    row = db.execute(sql, (conversation_id, artifact_id, storable_number(version))).fetchone()
    if row is None:
        sql = "SELECT version FROM artifact_versions WHERE conversation_id = ? AND artifact_id = ? ORDER BY version"
        versions = (
            ", ".join(str(version_row[0]) for version_row in db.execute(sql, (conversation_id, artifact_id))) or "none"
        )
        raise NotFound(
            f"The artifact {brief(artifact_id)} has no version {version!r} in {conversation_id!r}; it has: {versions}."
        )
    return from_row(Artifact, row)


def check_branch(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> None:
    """Raise `NotFound` unless the conversation exists and contains the message, which may be None."""
    if message_id is None:
        require_conversation(db, conversation_id)
    else:
        require_message(db, conversation_id, message_id)


def _load(
    db: sqlite3.Connection,
    sql: str,
    conversation_id: str,
    message_id: str | None,
    artifact_id: str | None = None,
    version: int | None = None,
    content_type: str | None = None,
) -> list[Artifact]:
    parameters = {
        "conversation_id": conversation_id,
        "message_id": message_id,
        "artifact_id": artifact_id,
        "version": storable_number(version),
        "content_type": content_type,
    }
    return [from_row(Artifact, row) for row in db.execute(sql, parameters)]


def current_version(
    db: sqlite3.Connection, conversation_id: str, artifact_id: str, message_id: str | None
) -> Artifact | None:
    """Return the current version of an artifact on a branch, or None; the version may mark a deletion."""
    return next(iter(_load(db, _CURRENT + "true", conversation_id, message_id, artifact_id)), None)


def require_visible(
    db: sqlite3.Connection, conversation_id: str, artifact_id: str, message_id: str | None, version: int | None
) -> Artifact:
    """Return a version that is visible on a branch, by default the current version.

    Errors: `NotFound` that lists the versions, or the artifacts, of the branch.
    """
    check_branch(db, conversation_id, message_id)
    sql = _CURRENT + "true" if version is None else _VISIBLE + "version = :version"
    matches = _load(db, sql, conversation_id, message_id, artifact_id, version)
    if matches and not (version is None and matches[0].is_deleted):
        return matches[0]
    if version is not None and (history := _load(db, _VISIBLE + "true", conversation_id, message_id, artifact_id)):
        versions = ", ".join(map(str, sorted(artifact.version for artifact in history)))
        raise NotFound(
            f"There is no version {version!r} of the artifact {brief(artifact_id)} on this branch; it has: {versions}."
        )
    ids = ", ".join(artifact.artifact_id for artifact in list_visible(db, conversation_id, message_id))
    raise NotFound(f"There is no artifact {brief(artifact_id)} on this branch. It has: {ids or 'none'}.")


def load_history(
    db: sqlite3.Connection, conversation_id: str, artifact_id: str, message_id: str | None
) -> list[Artifact]:
    """Load the versions of an artifact that are visible on a branch, the current version last."""
    require_visible(db, conversation_id, artifact_id, message_id, None)
    return _load(db, _VISIBLE + "true ORDER BY nearness", conversation_id, message_id, artifact_id)


def load_histories(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> dict[str, list[Artifact]]:
    """Load the visible versions of all artifacts of a branch, by artifact id, without deleted artifacts.

    The last version of each list is the current version.
    """
    check_branch(db, conversation_id, message_id)
    histories: dict[str, list[Artifact]] = {}
    for artifact in _load(db, _VISIBLE + "true ORDER BY v.artifact_id, nearness", conversation_id, message_id):
        histories.setdefault(artifact.artifact_id, []).append(artifact)
    return {artifact_id: versions for artifact_id, versions in histories.items() if not versions[-1].is_deleted}
