"""Storage of a project's named texts and grades, as versions of artifacts in the project's conversation."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from artifactflow_nb.errors import UsageError
from artifactflow_nb.plugins.projects.named_texts import NamedText, find_named
from artifactflow_nb.plugins.projects.store import used_artifact_ids
from artifactflow_nb.plugins.projects.tree import unused_id
from artifactflow_nb.store.artifact_versions import DELETE, Artifact, current_version, list_by_type
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship, NewVersion
from artifactflow_nb.store.database import Database

T = TypeVar("T", bound=NamedText)


class StoredText(Protocol):
    """What the store writes: a named text or a grade."""

    @property
    def noun(self) -> str:
        """The kind, in a word."""

    @property
    def media_type(self) -> str:
        """The media type of the artifact."""

    @property
    def name(self) -> str:
        """The name, unique among the texts of the kind."""

    def format(self) -> str:
        """Return the text of the artifact."""


@dataclass(frozen=True, slots=True)
class TextVersion(Generic[T]):
    """The current version of a named text."""

    value: T
    artifact_id: str
    created_by: str


def load_named_texts(
    db: sqlite3.Connection, conversation_id: str, message_id: str | None, kind: type[T]
) -> Iterator[TextVersion[T]]:
    """Yield a project's named texts of a kind on a branch, sorted by artifact id.

    Errors: `UsageError` that names an artifact whose text is no longer of the kind.
    """
    for artifact in list_by_type(db, conversation_id, message_id, kind.media_type):
        try:
            yield TextVersion(kind.parse(artifact.content), artifact.artifact_id, artifact.created_by)
        except UsageError as error:
            raise UsageError(
                f"The artifact {artifact.artifact_id!r} cannot be read: {error} Restore one of its earlier versions."
            ) from None


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

    async def versions(self, conversation_id: str, message_id: str | None, kind: type[T]) -> list[TextVersion[T]]:
        """The named texts of a kind on a branch, with their authors."""
        return await self._database.read(lambda db: list(load_named_texts(db, conversation_id, message_id, kind)))

    async def texts(self, conversation_id: str, message_id: str | None, kind: type[T]) -> tuple[T, ...]:
        """The named texts of a kind on a branch."""
        return tuple(version.value for version in await self.versions(conversation_id, message_id, kind))

    async def create(self, by: Authorship, text: NamedText) -> list[Artifact]:
        """Store a new text; `UsageError` if its name is in use."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            _check_name(load_named_texts(db, by.conversation_id, by.message_id, type(text)), text)
            return [self._append(db, by, text)]

        return await self._artifacts.write_once(by, work)

    async def put(self, by: Authorship, *texts: StoredText) -> list[Artifact]:
        """Store texts, each as a new version of the text with its name, even of an equal one."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            written = []
            for text in texts:
                stored = list_by_type(db, by.conversation_id, by.message_id, text.media_type)
                artifact_id = next((each.artifact_id for each in stored if each.title == text.name), "")
                written.append(self._append(db, by, text, artifact_id))
            return written

        return await self._artifacts.write_once(by, work)

    async def change(self, by: Authorship, kind: type[T], name: str, edit: Callable[[T], T | None]) -> list[Artifact]:
        """Replace a text by its edited value, which may have another name; None deletes the text.

        No version is written if the value is equal. The versions of a deleted text stay in the store.

        Errors: `UsageError` for an unknown name, and for a new name that is in use.
        """

        def work(db: sqlite3.Connection) -> list[Artifact]:
            versions = list(load_named_texts(db, by.conversation_id, by.message_id, kind))
            before = find_named((version.value for version in versions), name, kind.noun)
            [artifact_id] = [version.artifact_id for version in versions if version.value is before]
            if (after := edit(before)) == before:
                return []
            if after is None:
                return [self._append(db, by, before, artifact_id, DELETE)]
            _check_name((version for version in versions if version.artifact_id != artifact_id), after)
            return [self._append(db, by, after, artifact_id)]

        return await self._artifacts.write_once(by, work)

    def _append(
        self, db: sqlite3.Connection, by: Authorship, text: StoredText, artifact_id: str = "", update_type: str = ""
    ) -> Artifact:
        """Write a version of an artifact; without an id it is a new artifact."""
        before = current_version(db, by.conversation_id, artifact_id, by.message_id) if artifact_id else None
        if not artifact_id:
            artifact_id = unused_id(f"{text.noun} {self._mask(text.name)}", used_artifact_ids(db, by.conversation_id))
        update_type = update_type or ("rewrite" if before else "create")
        version = NewVersion(artifact_id, text.name, text.format(), text.media_type, update_type)
        return self._artifacts.append(db, by, before, version)


def _check_name(others: Iterator[TextVersion[T]], text: NamedText) -> None:
    """Raise `UsageError` if another text has the name of a text."""
    for other in others:
        if other.value.name.casefold() == text.name.casefold():
            raise UsageError(f"There is a {text.noun} {other.value.name!r} already. Change it, or choose another name.")
