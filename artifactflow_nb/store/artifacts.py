"""Artifacts: the documents of a conversation, with all their versions.

A write is one transaction that reads the current version itself; a caller with an outdated version gets a `Conflict`.
`artifact_versions` decides which versions a branch of the conversation sees.
"""

import asyncio
import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from artifactflow_nb.core.clock_ids import Clock
from artifactflow_nb.core.text.comparison import unified_diff
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.errors import Conflict, UsageError, brief
from artifactflow_nb.store.artifact_versions import (
    VERSIONS_SQL,
    Artifact,
    check_branch,
    current_version,
    list_visible,
    load_histories,
    load_history,
    read_version,
    require_visible,
)
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import from_row, insert
from artifactflow_nb.store.schema import to_microseconds

NEXT_VERSION = """
SELECT 1 + max(coalesce(max(version), 0), coalesce((SELECT last_version FROM deleted_versions d
    WHERE d.conversation_id = ?1 AND d.artifact_id = ?2), 0))
FROM artifact_versions WHERE conversation_id = ?1 AND artifact_id = ?2
"""
"""SQL for the number of the next version of an artifact; numbers of deleted versions are not used again."""

_CREATED_BY_RUN = """
SELECT 1 FROM artifact_versions made WHERE run_id = ? AND artifact_id = ? AND update_type = 'create' AND NOT EXISTS (
    SELECT 1 FROM artifact_versions later WHERE later.conversation_id = made.conversation_id
    AND later.artifact_id = made.artifact_id AND later.message_id IS made.message_id AND later.run_id IS NULL
)
"""

USER = "user"
"""The value of `created_by` for a person."""

TextEdit = Callable[[Artifact], str]


@dataclass(frozen=True, slots=True)
class Authorship:
    """The author of a version and the place where it is written.

    Attributes:
        message_id: The message to which the version belongs: the branches through the message see the version. If
            None, every branch that has no other version sees the version.
        created_by: The agent's name, or `USER`.
        run_id: The run, or None for a person.
        tool_call_id: The tool call. A second write by the same call changes nothing and returns the first version.
        at: Time of writing; None for the current time.
        reason: The author's reason, or an empty string.
    """

    conversation_id: str
    message_id: str | None
    created_by: str
    run_id: str | None = None
    tool_call_id: str | None = None
    at: datetime | None = None
    reason: str = ""


class ManualEdits(Protocol):
    """Hook that records and replays the versions that a person writes."""

    def recorded_time(
        self, by: Authorship, artifact_id: str, update_type: str, contents: Sequence[str]
    ) -> datetime | None:
        """Return the time of the same edit in the recording, or None if the edit is not recorded.

        Args:
            by: The author.
            artifact_id: The artifact.
            update_type: The kind of change, such as `create` or `update`.
            contents: The text, and other forms of the text that a recording may contain.

        Errors: `CassetteMiss` if the recording has another edit at this point.
        """

    async def record(self, by: Authorship) -> None:
        """Record the edit that was just stored."""


@dataclass(frozen=True, slots=True)
class NewVersion:
    """The content of a version to be written, without its author.

    Attributes:
        metadata_json: Data of the plugin to which the artifact belongs; None to keep the data of the version before.
    """

    artifact_id: str
    title: str
    content: str
    content_type: str
    update_type: str
    metadata_json: str | None = None


ArtifactHook = Callable[[sqlite3.Connection, Authorship, Artifact | None, NewVersion], str | None]
"""Called in the transaction that writes a version, with its author and the version before; returns the metadata of the
version, or None to leave the metadata as they are."""


class ArtifactManager:
    """Access to artifacts.

    Args:
        database: The store.
        clock: Source of the time of a version if `Authorship.at` is None.
        manual_edits: Records versions that a person writes; None for no recording.
        mask: Removes known secrets from titles, texts and reasons.

    Attributes:
        on_written: The hooks of plugins.

    Errors: `NotFound` for an unknown conversation or message, and for an artifact or version that is not visible on the
    branch; `Conflict` for an artifact that exists already or was changed since it was read.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        manual_edits: ManualEdits | None = None,
        mask: Callable[[str], str] = str,
    ) -> None:
        self._database = database
        self._clock = clock
        self.manual_edits = manual_edits
        self.on_written: list[ArtifactHook] = []
        self._mask = mask

    def __repr__(self) -> str:
        return f"ArtifactManager({str(self._database.path)!r})"

    async def create(
        self, by: Authorship, artifact_id: str, title: str, content: str, content_type: str = "text/markdown"
    ) -> Artifact:
        """Write the first version."""
        if not artifact_id.strip():
            raise UsageError("An artifact needs an id, for example 'research_report'.")

        def work(db: sqlite3.Connection) -> list[Artifact]:
            current = current_version(db, by.conversation_id, artifact_id, by.message_id)
            if current is not None and not current.is_deleted:
                raise Conflict(
                    f"The artifact {brief(artifact_id)} exists (version {current.version}). "
                    "Change it with update_artifact or rewrite_artifact, or choose another id."
                )
            return [self.append(db, by, None, NewVersion(artifact_id, title, content, content_type, "create"))]

        return (await self.write_once(by, work))[0]

    async def revise(
        self,
        by: Authorship,
        artifact_id: str,
        content: str | TextEdit,
        *,
        update_type: str,
        title: str | None = None,
        expected_version: int | None = None,
    ) -> Artifact:
        """Write a new version of an existing artifact.

        Args:
            by: The author.
            artifact_id: The artifact.
            content: The new text, or a function of the branch's current version. The function is called inside the
                write transaction, so it works on the newest version; if it raises, nothing is written.
            update_type: `update` or `rewrite`.
            title: A new title; None to leave it unchanged.
            expected_version: The version that was read; `Conflict` if the branch has another current version.
        """

        def work(db: sqlite3.Connection) -> list[Artifact]:
            current = self._require_expected(db, by, artifact_id, expected_version)
            text = content if isinstance(content, str) else content(current)
            new_title = " ".join((title or "").split()) or current.title
            version = NewVersion(artifact_id, new_title, text, current.content_type, update_type)
            return [self.append(db, by, current, version)]

        return (await self.write_once(by, work))[0]

    async def rename(
        self, by: Authorship, artifact_id: str, title: str, *, expected_version: int | None = None
    ) -> Artifact:
        """Write a version with the same text and another title; `UsageError` for an empty title."""
        new_title = " ".join(title.split())
        if not new_title:
            raise UsageError("The title is empty. Pass a title for the artifact.")

        def work(db: sqlite3.Connection) -> list[Artifact]:
            current = self._require_expected(db, by, artifact_id, expected_version)
            version = NewVersion(artifact_id, new_title, current.content, current.content_type, "rename")
            return [self.append(db, by, current, version)]

        return (await self.write_once(by, work))[0]

    async def restore(
        self, by: Authorship, artifact_id: str, version: int, *, expected_version: int | None = None
    ) -> Artifact:
        """Write a version with the text and the title of an earlier version, which may be on another branch."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            old = read_version(db, by.conversation_id, artifact_id, version)
            if expected_version is None:
                current = current_version(db, by.conversation_id, artifact_id, by.message_id)
            else:
                current = self._require_expected(db, by, artifact_id, expected_version)
            restored = NewVersion(artifact_id, old.title, old.content, old.content_type, "restore", old.metadata_json)
            return [self.append(db, by, current, restored)]

        return (await self.write_once(by, work))[0]

    def put(
        self, db: sqlite3.Connection, by: Authorship, artifact_id: str, title: str, content: str, content_type: str
    ) -> Artifact | None:
        """Create an artifact or write a new version, in the caller's transaction.

        Returns None and writes nothing if the branch's current version has the same title and text.
        """
        title, content = self._mask(title), self._mask(content)
        current = current_version(db, by.conversation_id, artifact_id, by.message_id)
        if current is not None and (current.title, current.content) == (title, content):
            return None
        update_type = "create" if current is None else "rewrite"
        return self.append(db, by, current, NewVersion(artifact_id, title, content, content_type, update_type))

    def _require_expected(
        self, db: sqlite3.Connection, by: Authorship, artifact_id: str, expected: int | None
    ) -> Artifact:
        """Return the branch's current version; `Conflict` if its number differs from `expected`."""
        current = require_visible(db, by.conversation_id, artifact_id, by.message_id, None)
        if expected is not None and current.version != expected:
            # Models read this message and recordings contain it: it must not change.
            raise Conflict(
                f"The artifact {brief(artifact_id)} is now at version {current.version}, not {expected}: "
                f"{current.created_by} changed it. Read it again and repeat the change."
            )
        return current

    async def write_once(self, by: Authorship, work: Callable[[sqlite3.Connection], list[Artifact]]) -> list[Artifact]:
        """Write versions in one transaction, or return the version that the same tool call has already written."""

        def once(db: sqlite3.Connection) -> list[Artifact]:
            check_branch(db, by.conversation_id, by.message_id)
            sql = f"{VERSIONS_SQL} WHERE tool_call_id = ?"
            row = db.execute(sql, (by.tool_call_id,)).fetchone()
            return work(db) if row is None else [from_row(Artifact, row)]

        versions = await self._database.write(once)
        await self.record_manual_edit(by)
        return versions

    async def record_manual_edit(self, by: Authorship) -> None:
        """Record a version that a person wrote, after the transaction of `put` or `append`.

        Errors: as for the `ManualEdits` hook.
        """
        if by.created_by == USER and self.manual_edits is not None:
            await self.manual_edits.record(by)

    def edit_time(self, by: Authorship, artifact_id: str, update_type: str, *contents: str) -> datetime:
        """Return the time of a new version: from the authorship, the recording or the clock.

        Args:
            by: The author.
            artifact_id: The artifact.
            update_type: The kind of change.
            contents: The text, and other forms of the text that a recording may contain.
        """
        recorded = None
        if by.at is None and by.created_by == USER and self.manual_edits is not None:
            recorded = self.manual_edits.recorded_time(by, artifact_id, update_type, contents)
        return by.at or recorded or self._clock.now()

    def append(self, db: sqlite3.Connection, by: Authorship, before: Artifact | None, text: NewVersion) -> Artifact:
        """Write a version that follows the branch's current version, in the caller's transaction."""
        unmasked = storable_text(text.content)
        content, title = self._mask(unmasked), self._mask(storable_text(text.title))
        passed_metadata = text.metadata_json and self._mask(text.metadata_json)
        metadata_json = passed_metadata or (before and before.metadata_json)
        version = replace(text, title=title, content=content, metadata_json=passed_metadata)
        for hook in self.on_written:
            metadata_json = hook(db, by, before, version) or metadata_json
        # Lines are compared as multisets, in linear time: a moved line is not a change.
        old_lines, new_lines = Counter((before.content if before else "").splitlines()), Counter(content.splitlines())
        row = {
            "conversation_id": by.conversation_id,
            "artifact_id": text.artifact_id,
            "version": db.execute(NEXT_VERSION, (by.conversation_id, text.artifact_id)).fetchone()[0],
            "title": title,
            "content_type": text.content_type,
            "content": content,
            "sha256": hashlib.sha256(content.encode()).hexdigest(),
            "lines_added": (new_lines - old_lines).total(),
            "lines_removed": (old_lines - new_lines).total(),
            "update_type": text.update_type,
            # A recording from a machine on which a secret was unknown has the unmasked text.
            "created_at": to_microseconds(self.edit_time(by, text.artifact_id, text.update_type, content, unmasked)),
            "created_by": by.created_by,
            "run_id": by.run_id,
            "message_id": by.message_id,
            "tool_call_id": by.tool_call_id,
            "reason": self._mask(storable_text(by.reason)),
            "metadata_json": metadata_json,
        }
        insert(db, "artifact_versions", row)
        return read_version(db, by.conversation_id, text.artifact_id, row["version"])

    async def read(
        self, conversation_id: str, artifact_id: str, version: int | None = None, *, message_id: str | None
    ) -> Artifact:
        """Return a version that is visible on the branch of a message, by default the current version."""
        return await self._database.read(
            lambda db: require_visible(db, conversation_id, artifact_id, message_id, version)
        )

    async def list_artifacts(self, conversation_id: str, *, message_id: str | None) -> list[Artifact]:
        """Return the current version of each artifact on the branch of a message, by id."""
        return await self._database.read(lambda db: list_visible(db, conversation_id, message_id))

    async def versions(self, conversation_id: str, artifact_id: str) -> list[Artifact]:
        """Return all versions of an artifact on all branches, the oldest first."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            sql = f"{VERSIONS_SQL} WHERE conversation_id = ? AND artifact_id = ? ORDER BY version"
            return [from_row(Artifact, row) for row in db.execute(sql, (conversation_id, artifact_id))]

        return await self._database.read(work)

    async def history(self, conversation_id: str, artifact_id: str, *, message_id: str | None) -> list[Artifact]:
        """Return the versions of an artifact on the branch of a message, the current version last."""
        return await self._database.read(lambda db: load_history(db, conversation_id, artifact_id, message_id))

    async def histories(self, conversation_id: str, *, message_id: str | None) -> dict[str, list[Artifact]]:
        """Return the versions of all artifacts on the branch of a message, by artifact id."""
        return await self._database.read(lambda db: load_histories(db, conversation_id, message_id))

    async def diff(self, conversation_id: str, artifact_id: str, before: int, after: int) -> str:
        """Return the unified diff of two versions of an artifact; the diff of equal texts is empty.

        The time is bounded: for large texts with many repeated lines the diff may not be minimal; see `unified_diff`.
        """

        def work(db: sqlite3.Connection) -> list[str]:
            return [read_version(db, conversation_id, artifact_id, version).content for version in (before, after)]

        old, new = await self._database.read(work)
        return await asyncio.to_thread(unified_diff, old, new, f"{artifact_id} v{before}", f"{artifact_id} v{after}")

    async def written_by_run(self, run_id: str, artifact_id: str) -> bool:
        """Return whether a run created the artifact and no person has changed the artifact since."""
        return await self._database.fetch_one(_CREATED_BY_RUN, (run_id, artifact_id)) is not None
