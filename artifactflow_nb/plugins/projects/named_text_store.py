"""Storage of a project's named texts and grades, as versions of artifacts in the project's conversation."""

import sqlite3
from collections.abc import Callable, Iterable
from typing import TypeVar

from artifactflow_nb.errors import UsageError
from artifactflow_nb.plugins.projects.grades import Grade
from artifactflow_nb.plugins.projects.named_texts import NamedText, find_named
from artifactflow_nb.plugins.projects.store import used_artifact_ids
from artifactflow_nb.plugins.projects.tree import unused_id
from artifactflow_nb.store.artifact_versions import DELETE, Artifact, current_version, list_by_type
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship, NewVersion
from artifactflow_nb.store.database import Database

T = TypeVar("T", bound=NamedText)


def load_named_texts(
    db: sqlite3.Connection, conversation_id: str, message_id: str | None, kind: type[T]
) -> dict[T, Artifact]:
    """Return a project's named texts of a kind on a branch, each text with its current version, by artifact id.

    Errors: `UsageError` that names an artifact whose text is no longer of the kind.
    """
    texts = {}
    for artifact in list_by_type(db, conversation_id, message_id, kind.media_type):
        try:
            texts[kind.parse(artifact.content)] = artifact
        except UsageError as error:
            raise UsageError(
                f"The artifact {artifact.artifact_id!r} cannot be read: {error} Restore one of its earlier versions."
            ) from None
    return texts


class NamedTextStore:
    """Access to named texts. Each change is one transaction; a repeated tool call changes nothing.

    Args:
        database: The store.
        artifacts: Writes the versions.
        mask: Removes secrets from names before ids are derived from them.
    """

    def __init__(self, database: Database, artifacts: ArtifactManager, mask: Callable[[str], str] = str) -> None:
        self._database = database
        self._artifacts = artifacts
        self._mask = mask

    async def texts(self, conversation_id: str, message_id: str | None, kind: type[T]) -> dict[T, Artifact]:
        """Return the named texts of a kind on a branch, each text with its current version."""
        return await self._database.read(lambda db: load_named_texts(db, conversation_id, message_id, kind))

    async def create(self, by: Authorship, text: NamedText) -> list[Artifact]:
        """Store a new text; `UsageError` if the name is in use."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            _check_name(text, load_named_texts(db, by.conversation_id, by.message_id, type(text)))
            return [self._append(db, by, text)]

        return await self._artifacts.write_once(by, work)

    async def put(self, by: Authorship, *texts: NamedText | Grade) -> list[Artifact]:
        """Store each text as a new version of the text with the same name, even if both texts are equal."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            written = []
            for text in texts:
                stored = list_by_type(db, by.conversation_id, by.message_id, text.media_type)
                artifact_id = next((each.artifact_id for each in stored if each.title == text.name), "")
                written.append(self._append(db, by, text, artifact_id))
            return written

        return await self._artifacts.write_once(by, work)

    async def change(self, by: Authorship, kind: type[T], name: str, edit: Callable[[T], T | None]) -> list[Artifact]:
        """Replace a text by its edited value, which may have another name; the value None deletes the text.

        No version is written if the value is equal. The versions of a deleted text stay in the store.

        Errors: `UsageError` for an unknown name, and for a new name that is in use.
        """

        def work(db: sqlite3.Connection) -> list[Artifact]:
            texts = load_named_texts(db, by.conversation_id, by.message_id, kind)
            before = find_named(texts, name, kind.noun)
            artifact_id = texts.pop(before).artifact_id
            if (after := edit(before)) == before:
                return []
            if after is None:
                return [self._append(db, by, before, artifact_id, DELETE)]
            _check_name(after, texts)
            return [self._append(db, by, after, artifact_id)]

        return await self._artifacts.write_once(by, work)

    def _append(
        self,
        db: sqlite3.Connection,
        by: Authorship,
        text: NamedText | Grade,
        artifact_id: str = "",
        update_type: str = "",
    ) -> Artifact:
        """Write a version of the artifact with this id, or of a new artifact if the id is empty."""
        before = current_version(db, by.conversation_id, artifact_id, by.message_id) if artifact_id else None
        if not artifact_id:
            artifact_id = unused_id(f"{text.noun} {self._mask(text.name)}", used_artifact_ids(db, by.conversation_id))
        update_type = update_type or ("rewrite" if before else "create")
        version = NewVersion(artifact_id, text.name, text.format(), text.media_type, update_type)
        return self._artifacts.append(db, by, before, version)


def _check_name(text: NamedText, others: Iterable[NamedText]) -> None:
    """Raise `UsageError` if another text has the same name."""
    for other in others:
        if other.name.casefold() == text.name.casefold():
            raise UsageError(f"There is a {text.noun} {other.name!r} already. Change it, or choose another name.")
