"""Artifacts: documents of a conversation, every version kept.

A version knows the message that wrote it, so each branch of the conversation sees its own state. The plan of a turn is
an ordinary artifact with the fixed id `task_plan`, seen by its own turn only.
"""

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from difflib import unified_diff
from typing import Any

from artifactflow_nb.ambient import Clock
from artifactflow_nb.errors import Conflict, NotFound, UsageError
from artifactflow_nb.store.database import Database, insert
from artifactflow_nb.store.schema import from_us, to_us
from artifactflow_nb.text.markdown import portable

TASK_PLAN = "task_plan"

_BRANCH = """
WITH RECURSIVE branch (message_id, parent_id) AS (
    SELECT message_id, parent_id FROM messages WHERE message_id = :message_id
    UNION ALL
    SELECT m.message_id, m.parent_id FROM messages m JOIN branch b ON m.message_id = b.parent_id
)
"""
_SEEN = """
(v.message_id IS NULL OR v.message_id = :message_id
 OR (v.artifact_id <> 'task_plan' AND v.message_id IN (SELECT message_id FROM branch)))
"""


@dataclass(frozen=True, slots=True)
class Authorship:
    """Who writes a version, and from where.

    Attributes:
        conversation_id: The conversation that holds the artifact.
        message_id: The message whose run writes; it decides which branch sees the version.
        created_by: An agent's name, or `user`.
        run_id: The run, or None for a person.
        tool_call_id: The call: a second write by the same call changes nothing and gives back the first.
    """

    conversation_id: str
    message_id: str | None
    created_by: str
    run_id: str | None = None
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """One version of an artifact.

    Attributes:
        artifact_id: Its id in the conversation.
        version: Counts up from 1 over all branches of the conversation.
        title: Its title.
        content_type: Its media type, `text/markdown` by default.
        content: Its text.
        update_type: `create`, `update` or `rewrite`.
        created_at: When this version was written.
        created_by: Who wrote it.
        run_id: The run that wrote it, or None.
        message_id: The message whose run wrote it, or None.
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

    def _repr_markdown_(self) -> str:
        return portable(self.content if self.content_type == "text/markdown" else f"~~~~~~\n{self.content}\n~~~~~~")

    def __repr__(self) -> str:
        return f"Artifact({self.artifact_id!r}, version={self.version}, title={self.title!r})"


class ArtifactManager:
    """Reads and writes artifacts.

    Errors: `NotFound` for an artifact or version that the branch does not see, `Conflict` for one that exists already
    or that changed since it was read.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def create(
        self, by: Authorship, artifact_id: str, title: str, content: str, content_type: str = "text/markdown"
    ) -> Artifact:
        """Write the first version."""
        if not artifact_id.strip():
            raise UsageError("An artifact needs an id, for example 'research_report'.")

        def work(db: sqlite3.Connection) -> Artifact:
            if (present := _current(db, by.conversation_id, artifact_id, by.message_id)) is not None:
                raise Conflict(
                    f"The artifact {artifact_id!r} exists (version {present['version']}). "
                    "Change it with update_artifact or rewrite_artifact, or choose another id."
                )
            return self._append(db, by, artifact_id, title, content, content_type, "create", None)

        return await self._write_once(by, work)

    async def revise(
        self, by: Authorship, artifact_id: str, content: str, *, update_type: str, expected_version: int | None = None
    ) -> Artifact:
        """Write a further version; `Conflict` if the branch's version is no longer the expected one."""

        def work(db: sqlite3.Connection) -> Artifact:
            present = _require(db, by.conversation_id, artifact_id, by.message_id, None)
            if expected_version is not None and present["version"] != expected_version:
                raise Conflict(
                    f"The artifact {artifact_id!r} is at version {present['version']} by now, not {expected_version}. "
                    "Read it again and repeat the change."
                )
            title, content_type = present["title"], present["content_type"]
            return self._append(db, by, artifact_id, title, content, content_type, update_type, present["content"])

        return await self._write_once(by, work)

    async def _write_once(self, by: Authorship, work: Callable[[sqlite3.Connection], Artifact]) -> Artifact:
        def once(db: sqlite3.Connection) -> Artifact:
            sql = "SELECT * FROM artifact_versions WHERE tool_call_id = ?"
            row = db.execute(sql, (by.tool_call_id,)).fetchone()
            return work(db) if row is None else _artifact(row)

        return await self._database.write(once)

    def _append(
        self,
        db: sqlite3.Connection,
        by: Authorship,
        artifact_id: str,
        title: str,
        content: str,
        content_type: str,
        update_type: str,
        before: str | None,
    ) -> Artifact:
        added, removed = _line_changes(before or "", content)
        version = db.execute(
            "SELECT coalesce(max(version), 0) + 1 FROM artifact_versions WHERE conversation_id = ? AND artifact_id = ?",
            (by.conversation_id, artifact_id),
        ).fetchone()[0]
        row = {
            "conversation_id": by.conversation_id,
            "artifact_id": artifact_id,
            "version": version,
            "title": title,
            "content_type": content_type,
            "content": content,
            "sha256": hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest(),
            "lines_added": added,
            "lines_removed": removed,
            "update_type": update_type,
            "created_at": to_us(self._clock.now()),
            "created_by": by.created_by,
            "run_id": by.run_id,
            "message_id": by.message_id,
            "tool_call_id": by.tool_call_id,
        }
        insert(db, "artifact_versions", row)
        return _artifact(row)

    async def read(
        self, conversation_id: str, artifact_id: str, version: int | None = None, *, message_id: str | None
    ) -> Artifact:
        """A version as the branch of the message sees it; without a number the newest that it sees."""

        def work(db: sqlite3.Connection) -> Artifact:
            return _artifact(_require(db, conversation_id, artifact_id, message_id, version))

        return await self._database.read(work)

    async def list_artifacts(self, conversation_id: str, *, message_id: str | None) -> list[Artifact]:
        """The newest version of each artifact that the branch of the message sees, in the order of their ids."""
        return await self._database.read(lambda db: list_seen(db, conversation_id, message_id))

    async def versions(self, conversation_id: str, artifact_id: str) -> list[Artifact]:
        """All versions on all branches, the oldest first."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            sql = "SELECT * FROM artifact_versions WHERE conversation_id = ? AND artifact_id = ? ORDER BY version"
            return [_artifact(row) for row in db.execute(sql, (conversation_id, artifact_id))]

        return await self._database.read(work)

    async def diff(self, conversation_id: str, artifact_id: str, before: int, after: int) -> str:
        """The unified diff between two versions."""
        found = {version.version: version for version in await self.versions(conversation_id, artifact_id)}
        for version in (before, after):
            if version not in found:
                raise NotFound(f"{artifact_id!r} has no version {version}; it has {sorted(found)}.")
        old, new = (found[version].content.splitlines(keepends=True) for version in (before, after))
        return "".join(unified_diff(old, new, f"{artifact_id} v{before}", f"{artifact_id} v{after}"))

    async def written_by_call(self, tool_call_id: str) -> Artifact | None:
        """The version that a tool call wrote; None if it has written none."""
        sql = "SELECT * FROM artifact_versions WHERE tool_call_id = ?"
        row = await self._database.read(lambda db: db.execute(sql, (tool_call_id,)).fetchone())
        return None if row is None else _artifact(row)

    async def written_by_run(self, run_id: str, artifact_id: str) -> bool:
        """Whether this run made the artifact."""
        sql = "SELECT 1 FROM artifact_versions WHERE run_id = ? AND artifact_id = ? AND update_type = 'create'"
        row = await self._database.read(lambda db: db.execute(sql, (run_id, artifact_id)).fetchone())
        return row is not None


def list_seen(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> list[Artifact]:
    """The newest version of each artifact that the branch of the message sees."""
    rows = db.execute(
        f"{_BRANCH} SELECT v.*, max(v.version) FROM artifact_versions v "  # noqa: S608 - the parts are constants
        f"WHERE v.conversation_id = :conversation_id AND {_SEEN} GROUP BY v.artifact_id ORDER BY v.artifact_id",
        {"conversation_id": conversation_id, "message_id": message_id},
    )
    return [_artifact(row) for row in rows]


def read_version(db: sqlite3.Connection, conversation_id: str, artifact_id: str, version: int) -> Artifact:
    """One version by its number, whichever branch wrote it."""
    sql = "SELECT * FROM artifact_versions WHERE conversation_id = ? AND artifact_id = ? AND version = ?"
    row = db.execute(sql, (conversation_id, artifact_id, version)).fetchone()
    if row is None:
        raise NotFound(f"The artifact {artifact_id!r} has no version {version} in {conversation_id!r}.")
    return _artifact(row)


def _current(
    db: sqlite3.Connection, conversation_id: str, artifact_id: str, message_id: str | None, version: int | None = None
) -> sqlite3.Row | None:
    row: sqlite3.Row | None = db.execute(
        f"{_BRANCH} SELECT v.* FROM artifact_versions v "  # noqa: S608 - the parts are constants
        "WHERE v.conversation_id = :conversation_id AND v.artifact_id = :artifact_id "
        f"AND (:version IS NULL OR v.version = :version) AND {_SEEN} ORDER BY v.version DESC LIMIT 1",
        {
            "conversation_id": conversation_id,
            "artifact_id": artifact_id,
            "message_id": message_id,
            "version": version,
        },
    ).fetchone()
    return row


def _require(
    db: sqlite3.Connection, conversation_id: str, artifact_id: str, message_id: str | None, version: int | None
) -> sqlite3.Row:
    row = _current(db, conversation_id, artifact_id, message_id, version)
    if row is None:
        known = [artifact.artifact_id for artifact in list_seen(db, conversation_id, message_id)]
        which = f"version {version} of the artifact" if version is not None else "artifact"
        raise NotFound(f"There is no {which} {artifact_id!r} on this branch. It has: {', '.join(known) or 'none'}.")
    return row


def _line_changes(before: str, after: str) -> tuple[int, int]:
    """Lines added and removed, counted as multisets: linear in the length, and a moved line is no change."""
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return (new - old).total(), (old - new).total()


def _artifact(row: sqlite3.Row | dict[str, Any]) -> Artifact:
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
    )
