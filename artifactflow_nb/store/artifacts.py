"""Artifacts: documents of a conversation, every version kept.

A write is one transaction: what it rests on is what is there when it happens, and who had read something older is
told. Which version a branch of the conversation has is for `artifact_versions` to say.
"""

import asyncio
import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from artifactflow_nb.ambient import Clock
from artifactflow_nb.errors import Conflict, UsageError
from artifactflow_nb.store.artifact_versions import (
    Artifact,
    check_branch,
    current,
    list_seen,
    load_histories,
    load_history,
    read_version,
    require_seen,
    to_artifact,
)
from artifactflow_nb.store.block_rows import followed_block, restored_block
from artifactflow_nb.store.database import Database, insert
from artifactflow_nb.store.schema import to_us
from artifactflow_nb.store.storable import storable_text
from artifactflow_nb.text.lines import unified_diff

_NEXT_VERSION = """
SELECT 1 + max(coalesce(max(version), 0), coalesce((SELECT last_version FROM deleted_versions d
    WHERE d.conversation_id = ?1 AND d.artifact_id = ?2), 0))
FROM artifact_versions WHERE conversation_id = ?1 AND artifact_id = ?2
"""

_OWN = """
SELECT 1 FROM artifact_versions made WHERE run_id = ? AND artifact_id = ? AND update_type = 'create' AND NOT EXISTS (
    SELECT 1 FROM artifact_versions later WHERE later.conversation_id = made.conversation_id
    AND later.artifact_id = made.artifact_id AND later.message_id IS made.message_id AND later.run_id IS NULL
)
"""

USER = "user"
"""Who writes by hand, in `created_by`."""

Edit = Callable[[Artifact], str]


@dataclass(frozen=True, slots=True)
class Authorship:
    """Who writes a version, and from where.

    Attributes:
        conversation_id: The conversation that holds the artifact.
        message_id: The message whose run writes; it decides which branches see the version. None for all branches,
            as far as they have no version of their own.
        created_by: An agent's name, or `USER`.
        run_id: The run, or None for a person.
        tool_call_id: The call: a second write by the same call changes nothing and gives back the first.
        at: When; None for the time of the write.
        reason: Why, if somebody says so.
    """

    conversation_id: str
    message_id: str | None
    created_by: str
    run_id: str | None = None
    tool_call_id: str | None = None
    at: datetime | None = None
    reason: str = ""


class Hand(Protocol):
    """The hand of a person, whose writing is recorded, or recorded already."""

    def at(self, by: Authorship, artifact_id: str, update_type: str, sha256: str) -> datetime | None:
        """When this was written, if it is recorded; None for now."""

    async def wrote(self, by: Authorship) -> None:
        """Note that something was written."""


class LiveHand:
    """Nothing that a person writes is recorded."""

    def at(self, by: Authorship, artifact_id: str, update_type: str, sha256: str) -> datetime | None:
        """Now."""
        del by, artifact_id, update_type, sha256
        return None

    async def wrote(self, by: Authorship) -> None:
        """Nothing is noted."""


@dataclass(frozen=True, slots=True)
class NewVersion:
    """What a version is to say, without who writes it.

    Attributes:
        block_json: What it notes as a block; None for what follows from the version before it.
    """

    artifact_id: str
    title: str
    content: str
    content_type: str
    update_type: str
    block_json: str | None = None


class ArtifactManager:
    """Reads and writes artifacts.

    Args:
        database: Where.
        clock: When a version is written whose author does not say.
        hand: Where what a person writes is recorded.

    Errors: `NotFound` for an unknown conversation or message, and for an artifact or version that the branch does not
    see; `Conflict` for an artifact that exists already or that changed since it was read.
    """

    def __init__(self, database: Database, clock: Clock, hand: Hand | None = None) -> None:
        self._database = database
        self._clock = clock
        self._hand = hand or LiveHand()

    async def create(
        self, by: Authorship, artifact_id: str, title: str, content: str, content_type: str = "text/markdown"
    ) -> Artifact:
        """Write the first version."""
        if not artifact_id.strip():
            raise UsageError("An artifact needs an id, for example 'research_report'.")

        def work(db: sqlite3.Connection) -> Artifact:
            present = current(db, by.conversation_id, artifact_id, by.message_id)
            if present is not None and not present.is_deleted:
                raise Conflict(
                    f"The artifact {artifact_id!r} exists (version {present.version}). "
                    "Change it with update_artifact or rewrite_artifact, or choose another id."
                )
            return self.append(db, by, None, NewVersion(artifact_id, title, content, content_type, "create"))

        return await self._write_once(by, work)

    async def revise(
        self,
        by: Authorship,
        artifact_id: str,
        content: str | Edit,
        *,
        update_type: str,
        title: str | None = None,
        expected_version: int | None = None,
    ) -> Artifact:
        """Write a further version.

        Args:
            by: Who writes it.
            artifact_id: Of which artifact.
            content: The new text, or what makes it of the branch's present version. That runs while nobody else can
                write, so it works on the newest; what it raises is raised, and nothing is written.
            update_type: `update` or `rewrite`.
            title: Another title; None to keep the present one.
            expected_version: The version that was read; `Conflict` names the newest if the branch has another by now.
        """

        def work(db: sqlite3.Connection) -> Artifact:
            present = self._expected(db, by, artifact_id, expected_version)
            text = content if isinstance(content, str) else content(present)
            named = " ".join((title or "").split()) or present.title
            return self.append(db, by, present, NewVersion(artifact_id, named, text, present.content_type, update_type))

        return await self._write_once(by, work)

    async def rename(
        self, by: Authorship, artifact_id: str, title: str, *, expected_version: int | None = None
    ) -> Artifact:
        """Write a version with the same text and another title; `UsageError` for an empty one."""
        wanted = " ".join(title.split())
        if not wanted:
            raise UsageError("The title is empty. Write what the artifact should be called.")

        def work(db: sqlite3.Connection) -> Artifact:
            present = self._expected(db, by, artifact_id, expected_version)
            text = NewVersion(artifact_id, wanted, present.content, present.content_type, "rename")
            return self.append(db, by, present, text)

        return await self._write_once(by, work)

    async def restore(
        self, by: Authorship, artifact_id: str, version: int, *, expected_version: int | None = None
    ) -> Artifact:
        """Write a version with the text and the title of an earlier one, which another branch may have written."""

        def work(db: sqlite3.Connection) -> Artifact:
            old = read_version(db, by.conversation_id, artifact_id, version)
            if expected_version is None:
                present = current(db, by.conversation_id, artifact_id, by.message_id)
            else:
                present = self._expected(db, by, artifact_id, expected_version)
            noted = restored_block(present, old)
            text = NewVersion(artifact_id, old.title, old.content, old.content_type, "restore", noted)
            return self.append(db, by, present, text)

        return await self._write_once(by, work)

    def put(
        self, db: sqlite3.Connection, by: Authorship, artifact_id: str, title: str, content: str, content_type: str
    ) -> Artifact | None:
        """Write a version, whatever there is, in the transaction of a caller who stores more than that.

        None, and nothing written, if the branch's present version says just this.
        """
        present = current(db, by.conversation_id, artifact_id, by.message_id)
        if present is not None and (present.title, present.content) == (title, content):
            return None
        kind = "create" if present is None else "rewrite"
        return self.append(db, by, present, NewVersion(artifact_id, title, content, content_type, kind))

    def _expected(self, db: sqlite3.Connection, by: Authorship, artifact_id: str, expected: int | None) -> Artifact:
        """The branch's present version, which must be the expected one."""
        present = require_seen(db, by.conversation_id, artifact_id, by.message_id, None)
        if expected is not None and present.version != expected:
            raise Conflict(
                f"The artifact {artifact_id!r} is at version {present.version} by now, not {expected}: "
                f"{present.created_by} changed it. Read it again and repeat the change."
            )
        return present

    async def _write_once(self, by: Authorship, work: Callable[[sqlite3.Connection], Artifact]) -> Artifact:
        def once(db: sqlite3.Connection) -> Artifact:
            check_branch(db, by.conversation_id, by.message_id)
            sql = "SELECT * FROM artifact_versions WHERE tool_call_id = ?"
            row = db.execute(sql, (by.tool_call_id,)).fetchone()
            return work(db) if row is None else to_artifact(row)

        written = await self._database.write(once)
        await self.wrote(by)
        return written

    async def wrote(self, by: Authorship) -> None:
        """Note, behind a transaction of a caller, that something was written; by a person, it may have to be recorded.

        Errors: those of the person's `Hand`.
        """
        if by.created_by == USER:
            await self._hand.wrote(by)

    def when(self, by: Authorship, artifact_id: str, update_type: str, content: str) -> datetime:
        """The time that a version has which is written now: what a person wrote may be recorded already."""
        if by.at is not None:
            return by.at
        sha256 = hashlib.sha256(content.encode()).hexdigest()
        known = self._hand.at(by, artifact_id, update_type, sha256) if by.created_by == USER else None
        return known or self._clock.now()

    def append(self, db: sqlite3.Connection, by: Authorship, before: Artifact | None, text: NewVersion) -> Artifact:
        """Write a version behind the one that the branch has, in the transaction of a caller who stores more.

        What a block notes beside its name and text follows from these, unless the version says it.
        """
        content = storable_text(text.content)
        noted = text.block_json
        if noted is None and before is not None and before.block_json is not None:
            noted = followed_block(db, by.conversation_id, by.message_id, before, text.title, content, by.created_by)
        added, removed = _line_changes(before.content if before else "", content)
        row = {
            "conversation_id": by.conversation_id,
            "artifact_id": text.artifact_id,
            "version": db.execute(_NEXT_VERSION, (by.conversation_id, text.artifact_id)).fetchone()[0],
            "title": storable_text(text.title),
            "content_type": text.content_type,
            "content": content,
            "sha256": hashlib.sha256(content.encode()).hexdigest(),
            "lines_added": added,
            "lines_removed": removed,
            "update_type": text.update_type,
            "created_at": to_us(self.when(by, text.artifact_id, text.update_type, content)),
            "created_by": by.created_by,
            "run_id": by.run_id,
            "message_id": by.message_id,
            "tool_call_id": by.tool_call_id,
            "reason": storable_text(by.reason),
            "block_json": noted,
        }
        insert(db, "artifact_versions", row)
        return to_artifact(row)

    async def read(
        self, conversation_id: str, artifact_id: str, version: int | None = None, *, message_id: str | None
    ) -> Artifact:
        """A version as the branch of the message sees it; without a number the newest that it sees."""
        return await self._database.read(lambda db: require_seen(db, conversation_id, artifact_id, message_id, version))

    async def list_artifacts(self, conversation_id: str, *, message_id: str | None) -> list[Artifact]:
        """The newest version of each artifact that the branch of the message sees, in the order of their ids."""
        return await self._database.read(lambda db: list_seen(db, conversation_id, message_id))

    async def versions(self, conversation_id: str, artifact_id: str) -> list[Artifact]:
        """All versions on all branches, the oldest first."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            sql = "SELECT * FROM artifact_versions WHERE conversation_id = ? AND artifact_id = ? ORDER BY version"
            return [to_artifact(row) for row in db.execute(sql, (conversation_id, artifact_id))]

        return await self._database.read(work)

    async def history(self, conversation_id: str, artifact_id: str, *, message_id: str | None) -> list[Artifact]:
        """The versions that the branch of the message sees; the last is its present one."""
        return await self._database.read(lambda db: load_history(db, conversation_id, artifact_id, message_id))

    async def histories(self, conversation_id: str, *, message_id: str | None) -> dict[str, list[Artifact]]:
        """The same of all artifacts that the branch sees, by id."""
        return await self._database.read(lambda db: load_histories(db, conversation_id, message_id))

    async def diff(self, conversation_id: str, artifact_id: str, before: int, after: int) -> str:
        """The unified diff between any two versions; empty if their texts are the same.

        Bounded, as `unified_diff` says: of large texts with many repeated lines it may be longer than needed.
        """

        def work(db: sqlite3.Connection) -> list[str]:
            return [read_version(db, conversation_id, artifact_id, version).content for version in (before, after)]

        old, new = await self._database.read(work)
        return await asyncio.to_thread(unified_diff, old, new, f"{artifact_id} v{before}", f"{artifact_id} v{after}")

    async def written_by_run(self, run_id: str, artifact_id: str) -> bool:
        """Whether this run made the artifact, and no person has changed it since."""
        row = await self._database.read(lambda db: db.execute(_OWN, (run_id, artifact_id)).fetchone())
        return row is not None


def _line_changes(before: str, after: str) -> tuple[int, int]:
    """Lines added and removed, counted as multisets: linear in the length, and a moved line is no change."""
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return (new - old).total(), (old - new).total()
