"""The versions of artifacts, and which of them a branch of the conversation sees.

A version knows the message whose run wrote it. A branch sees what its own messages wrote, and its present version is
the last one of the message that is nearest to its end. The plan of a turn is an ordinary artifact with the fixed id
`task_plan`, seen by its own turn only.
"""

import re
import sqlite3
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from artifactflow_nb.errors import NotFound
from artifactflow_nb.plans import checklist_of
from artifactflow_nb.store.conversations import require_conversation, require_message
from artifactflow_nb.store.schema import from_us
from artifactflow_nb.store.storable import storable_number
from artifactflow_nb.text.markdown import portable

TASK_PLAN = "task_plan"

DELETE = "delete"
"""The `update_type` of a version that says that a block was deleted."""

SEEN = f"""
WITH RECURSIVE branch (message_id, parent_id, distance) AS (
    SELECT message_id, parent_id, 0 FROM messages WHERE message_id = :message_id
    UNION ALL
    SELECT m.message_id, m.parent_id, distance + 1 FROM messages m JOIN branch b ON m.message_id = b.parent_id
),
seen AS (
    SELECT v.rowid AS place, v.artifact_id, v.version - coalesce(b.distance, 1 << 30) * (1 << 31) AS nearness
    FROM artifact_versions v LEFT JOIN branch b USING (message_id)
    WHERE v.conversation_id = :conversation_id AND (:artifact_id IS NULL OR v.artifact_id = :artifact_id)
    AND (v.message_id IS NULL OR b.distance = 0 OR (b.distance > 0 AND v.artifact_id <> '{TASK_PLAN}'))
),
present AS (SELECT place, max(nearness) FROM seen GROUP BY artifact_id)
"""  # noqa: S608 - constants only
"""The versions that the branch of a message sees, and those of them that are the state of their artifacts there.

The nearest is the newest of the message that is nearest to the end of the branch; what is on no message is behind all.
"""

_PRESENT = f"{SEEN} SELECT v.* FROM present JOIN artifact_versions v ON v.rowid = place WHERE "  # noqa: S608 - so
_VERSIONS = f"{SEEN} SELECT v.* FROM seen JOIN artifact_versions v ON v.rowid = place WHERE "  # noqa: S608 - so


@dataclass(frozen=True, slots=True)
class Artifact:
    """One version of an artifact.

    Attributes:
        artifact_id: Its id in the conversation.
        version: Counts up from 1 over all branches of the conversation; no number is given out twice.
        title: Its title.
        content_type: Its media type, `text/markdown` by default.
        content: Its text.
        update_type: `create`, `update`, `rewrite`, `restore` or `rename`; of a block also `arrange`, when something
            but its name and text was changed, and `delete`.
        created_at: When this version was written.
        created_by: Who wrote it.
        run_id: The run that wrote it, or None.
        message_id: The message whose run wrote it, or None.
        reason: Why it was written, if somebody said so.
        block_json: What it notes as a block of a project; None if it is none.
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
    block_json: str | None

    @property
    def is_deleted(self) -> bool:
        """Whether it says that the artifact was deleted."""
        return self.update_type == DELETE

    @property
    def told(self) -> dict[str, Any]:
        """What events say of it, without its text."""
        named = ("artifact_id", "version", "title", "content_type", "update_type")
        return {name: getattr(self, name) for name in named}

    @property
    def markdown(self) -> str:
        """The text, if it is Markdown; a plan as a checklist; else the text in a fence that nothing in it can close."""
        if self.content_type == "text/markdown":
            return self.content
        if (checklist := checklist_of(self.content, self.content_type)) is not None:
            return checklist
        fence = "~" * max(3, 1 + max(map(len, re.findall("~+", self.content)), default=0))
        return f"{fence}\n{self.content}\n{fence}"

    def _repr_markdown_(self) -> str:
        return portable(self.markdown)

    def __repr__(self) -> str:
        return f"Artifact({self.artifact_id!r}, version={self.version}, title={self.title!r})"


def list_seen(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> list[Artifact]:
    """The newest version of each artifact that the branch of the message sees, in the order of their ids.

    Those that were deleted there are left out.
    """
    check_branch(db, conversation_id, message_id)
    which = f"update_type <> '{DELETE}' ORDER BY v.artifact_id"
    return _load(db, _PRESENT + which, conversation_id, message_id)


def list_of_type(
    db: sqlite3.Connection, conversation_id: str, message_id: str | None, content_type: str
) -> list[Artifact]:
    """Those of a media type; no other's text is read."""
    check_branch(db, conversation_id, message_id)
    which = f"content_type = :content_type AND update_type <> '{DELETE}' ORDER BY v.artifact_id"
    return _load(db, _PRESENT + which, conversation_id, message_id, content_type=content_type)


def read_version(db: sqlite3.Connection, conversation_id: str, artifact_id: str, version: int) -> Artifact:
    """One version by its number, whichever branch wrote it."""
    sql = "SELECT * FROM artifact_versions WHERE conversation_id = ? AND artifact_id = ? AND version = ?"
    row = db.execute(sql, (conversation_id, artifact_id, storable_number(version))).fetchone()
    if row is None:
        sql = "SELECT version FROM artifact_versions WHERE conversation_id = ? AND artifact_id = ? ORDER BY version"
        known = ", ".join(str(found[0]) for found in db.execute(sql, (conversation_id, artifact_id))) or "none"
        raise NotFound(
            f"The artifact {artifact_id!r} has no version {version!r} in {conversation_id!r}; it has: {known}."
        )
    return to_artifact(row)


def check_branch(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> None:
    """Raise `NotFound` unless there are this conversation and, in it, this message."""
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
    names = {"conversation_id": conversation_id, "message_id": message_id, "artifact_id": artifact_id}
    names["content_type"] = content_type
    return [to_artifact(row) for row in db.execute(sql, {**names, "version": storable_number(version)})]


def current(db: sqlite3.Connection, conversation_id: str, artifact_id: str, message_id: str | None) -> Artifact | None:
    """The branch's present version of an artifact; None if it sees none."""
    return next(iter(_load(db, _PRESENT + "true", conversation_id, message_id, artifact_id)), None)


def require_seen(
    db: sqlite3.Connection, conversation_id: str, artifact_id: str, message_id: str | None, version: int | None
) -> Artifact:
    """A version as the branch sees it, its present one if no number is given; `NotFound` says what it has."""
    check_branch(db, conversation_id, message_id)
    sql = _PRESENT + "true" if version is None else _VERSIONS + "version = :version"
    found = _load(db, sql, conversation_id, message_id, artifact_id, version)
    if found and not (version is None and found[0].is_deleted):
        return found[0]
    if version is not None and (history := _load(db, _VERSIONS + "true", conversation_id, message_id, artifact_id)):
        known = ", ".join(map(str, sorted(one.version for one in history)))
        raise NotFound(
            f"There is no version {version!r} of the artifact {artifact_id!r} on this branch; it has: {known}."
        )
    known = ", ".join(artifact.artifact_id for artifact in list_seen(db, conversation_id, message_id))
    raise NotFound(f"There is no artifact {artifact_id!r} on this branch. It has: {known or 'none'}.")


def load_history(
    db: sqlite3.Connection, conversation_id: str, artifact_id: str, message_id: str | None
) -> list[Artifact]:
    """The versions that the branch sees; the last is its present one."""
    require_seen(db, conversation_id, artifact_id, message_id, None)
    return _load(db, _VERSIONS + "true ORDER BY nearness", conversation_id, message_id, artifact_id)


def load_histories(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> dict[str, list[Artifact]]:
    """The versions that the branch sees of each of its artifacts, by id; the last of each is its present one.

    Artifacts that were deleted there are left out.
    """
    check_branch(db, conversation_id, message_id)
    found: dict[str, list[Artifact]] = {}
    for artifact in _load(db, _VERSIONS + "true ORDER BY v.artifact_id, nearness", conversation_id, message_id):
        found.setdefault(artifact.artifact_id, []).append(artifact)
    return {key: versions for key, versions in found.items() if not versions[-1].is_deleted}


def to_artifact(row: sqlite3.Row | dict[str, Any]) -> Artifact:
    """The version of a row."""
    return Artifact(
        row["artifact_id"],
        row["version"],
        row["title"],
        row["content_type"],
        row["content"],
        row["update_type"],
        from_us(row["created_at"]),
        row["created_by"],
        row["run_id"],
        row["message_id"],
        row["reason"],
        row["block_json"],
    )
