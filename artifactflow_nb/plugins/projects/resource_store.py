"""Storage of a project's resources, as versions of artifacts in the project's conversation."""

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from artifactflow_nb.errors import UsageError
from artifactflow_nb.plugins.projects.resources import (
    NamedValue,
    ResourceType,
    StoredResource,
    check_name_is_free,
    find_resource,
)
from artifactflow_nb.plugins.projects.store import used_artifact_ids
from artifactflow_nb.plugins.projects.tree import unused_id
from artifactflow_nb.store.artifact_versions import DELETE, Artifact, current_version, list_by_type
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship, NewVersion
from artifactflow_nb.store.database import Database

V = TypeVar("V", bound=NamedValue)


def load_resources(
    db: sqlite3.Connection, conversation_id: str, message_id: str | None, kind: ResourceType[V]
) -> list[StoredResource[V]]:
    """Load a project's resources of one type on a branch, sorted by artifact id.

    Errors: `UsageError` that names an artifact whose text is no longer a valid resource.
    """
    resources = []
    for artifact in list_by_type(db, conversation_id, message_id, kind.media_type):
        try:
            value = kind.read(artifact.content)
        except UsageError as error:
            raise UsageError(
                f"The artifact {artifact.artifact_id!r} cannot be read: {error} Restore one of its earlier versions."
            ) from None
        resources.append(StoredResource(artifact.artifact_id, value, artifact.version, artifact.created_by))
    return resources


class ResourceStore:
    """Access to resources. Each change is one transaction; a repeated tool call changes nothing.

    Args:
        database: The store.
        artifacts: Writes the versions.
        mask: Removes secrets from names before ids are derived from them.
    """

    def __init__(self, database: Database, artifacts: ArtifactManager, mask: Callable[[str], str] = str) -> None:
        self._database = database
        self._artifacts = artifacts
        self._mask = mask

    async def list_resources(
        self, conversation_id: str, message_id: str | None, kind: ResourceType[V]
    ) -> list[StoredResource[V]]:
        """The resources of one type on a branch."""
        return await self._database.read(lambda db: load_resources(db, conversation_id, message_id, kind))

    async def create(self, by: Authorship, kind: ResourceType[V], value: V) -> list[Artifact]:
        """Create a resource; `UsageError` if its name is in use."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            check_name_is_free(load_resources(db, by.conversation_id, by.message_id, kind), value.name, kind.noun)
            return [self._append(db, by, kind, self._new_id(db, by, kind, value), value, "create")]

        return await self._artifacts.write_once(by, work)

    async def put(self, by: Authorship, kind: ResourceType[V], value: V) -> list[Artifact]:
        """Create a resource, or write a new version of the one with this name, even if it is equal."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            resources = load_resources(db, by.conversation_id, by.message_id, kind)
            existing_id = next((stored.artifact_id for stored in resources if stored.value.name == value.name), None)
            artifact_id = existing_id or self._new_id(db, by, kind, value)
            return [self._append(db, by, kind, artifact_id, value, "create" if existing_id is None else "rewrite")]

        return await self._artifacts.write_once(by, work)

    async def update(self, by: Authorship, kind: ResourceType[V], name: str, edit: Callable[[V], V]) -> list[Artifact]:
        """Replace a resource by its edited value, which may have another name; no new version if it is equal.

        Errors: `UsageError` for an unknown name, and for a new name that is in use.
        """

        def work(db: sqlite3.Connection) -> list[Artifact]:
            resources = load_resources(db, by.conversation_id, by.message_id, kind)
            stored = find_resource(resources, name, kind.noun)
            if (value := edit(stored.value)) == stored.value:
                return []
            check_name_is_free(resources, value.name, kind.noun, stored.artifact_id)
            return [self._append(db, by, kind, stored.artifact_id, value, "rewrite")]

        return await self._artifacts.write_once(by, work)

    async def remove(self, by: Authorship, kind: ResourceType[V], name: str) -> list[Artifact]:
        """Delete a resource; its versions stay in the store. `UsageError` for an unknown name."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            stored = find_resource(load_resources(db, by.conversation_id, by.message_id, kind), name, kind.noun)
            return [self._append(db, by, kind, stored.artifact_id, stored.value, DELETE)]

        return await self._artifacts.write_once(by, work)

    def _new_id(self, db: sqlite3.Connection, by: Authorship, kind: ResourceType[V], value: V) -> str:
        return unused_id(f"{kind.noun} {self._mask(value.name)}", used_artifact_ids(db, by.conversation_id))

    def _append(
        self,
        db: sqlite3.Connection,
        by: Authorship,
        kind: ResourceType[V],
        artifact_id: str,
        value: V,
        update_type: str,
    ) -> Artifact:
        before = current_version(db, by.conversation_id, artifact_id, by.message_id)
        version = NewVersion(artifact_id, value.name, kind.write(value), kind.media_type, update_type)
        return self._artifacts.append(db, by, before, version)
