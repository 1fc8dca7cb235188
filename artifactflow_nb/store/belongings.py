"""What belongs to a project beside its blocks, as it is stored: versions of artifacts in the project's conversation."""

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from artifactflow_nb.belongings import Held, Kind, Named, check_free, named
from artifactflow_nb.block_names import free_id
from artifactflow_nb.errors import UsageError
from artifactflow_nb.store.artifact_versions import DELETE, Artifact, check_branch, current, list_of_type, to_artifact
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship, NewVersion
from artifactflow_nb.store.block_rows import taken_ids
from artifactflow_nb.store.database import Database

V = TypeVar("V", bound=Named)

_WROTE = "SELECT * FROM artifact_versions WHERE tool_call_id = ?"


def load_belongings(
    db: sqlite3.Connection, conversation_id: str, message_id: str | None, kind: Kind[V]
) -> list[Held[V]]:
    """The project's belongings of a kind as a branch sees them, in the order of their artifacts' ids.

    Errors: `UsageError` that names an artifact which is none any more.
    """
    seen = list_of_type(db, conversation_id, message_id, kind.media_type)
    return [_held(artifact, kind) for artifact in seen]


def _held(artifact: Artifact, kind: Kind[V]) -> Held[V]:
    try:
        value = kind.read(artifact.content)
    except UsageError as error:
        raise UsageError(
            f"The artifact {artifact.artifact_id!r} cannot be read: {error} Restore one of its earlier versions."
        ) from None
    return Held(artifact.artifact_id, value, artifact.version, artifact.created_by)


class BelongingStore:
    """Reads and writes them; each change is one transaction, and a tool call makes it once.

    Args:
        database: Where.
        artifacts: What writes versions.
        mask: Takes secrets out of the names of which ids are made.
    """

    def __init__(self, database: Database, artifacts: ArtifactManager, mask: Callable[[str], str] = str) -> None:
        self._database = database
        self._artifacts = artifacts
        self._mask = mask

    async def all(self, conversation_id: str, message_id: str | None, kind: Kind[V]) -> list[Held[V]]:
        """Those of a kind that a branch sees."""
        return await self._database.read(lambda db: load_belongings(db, conversation_id, message_id, kind))

    async def create(self, by: Authorship, kind: Kind[V], value: V) -> list[Artifact]:
        """A further one; `UsageError` if its name is taken."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            check_free(load_belongings(db, by.conversation_id, by.message_id, kind), value.name, kind.noun)
            taken = taken_ids(db, by.conversation_id)
            key = free_id(f"{kind.noun} {self._mask(value.name)}", taken)
            return [self._append(db, by, kind, key, value, "create")]

        return await self._once(by, work)

    async def put(self, by: Authorship, kind: Kind[V], value: V) -> list[Artifact]:
        """A further version of the one of this name, though it may say the same; the first if there is none."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            there = load_belongings(db, by.conversation_id, by.message_id, kind)
            same = next((one.artifact_id for one in there if one.value.name == value.name), None)
            taken = taken_ids(db, by.conversation_id)
            key = same or free_id(f"{kind.noun} {self._mask(value.name)}", taken)
            return [self._append(db, by, kind, key, value, "create" if same is None else "rewrite")]

        return await self._once(by, work)

    async def update(self, by: Authorship, kind: Kind[V], name: str, edit: Callable[[V], V]) -> list[Artifact]:
        """Another value in its place, also by another name; none if it is so already.

        Errors: `UsageError` for a name that none has, or that another one has.
        """

        def work(db: sqlite3.Connection) -> list[Artifact]:
            there = load_belongings(db, by.conversation_id, by.message_id, kind)
            one = named(there, name, kind.noun)
            if (value := edit(one.value)) == one.value:
                return []
            check_free(there, value.name, kind.noun, one.artifact_id)
            return [self._append(db, by, kind, one.artifact_id, value, "rewrite")]

        return await self._once(by, work)

    async def remove(self, by: Authorship, kind: Kind[V], name: str) -> list[Artifact]:
        """Take one away; its versions are kept. `UsageError` for a name that none has."""

        def work(db: sqlite3.Connection) -> list[Artifact]:
            one = named(load_belongings(db, by.conversation_id, by.message_id, kind), name, kind.noun)
            return [self._append(db, by, kind, one.artifact_id, one.value, DELETE)]

        return await self._once(by, work)

    def _append(
        self, db: sqlite3.Connection, by: Authorship, kind: Kind[V], key: str, value: V, update_type: str
    ) -> Artifact:
        before = current(db, by.conversation_id, key, by.message_id)
        text = NewVersion(key, value.name, kind.write(value), kind.media_type, update_type)
        return self._artifacts.append(db, by, before, text)

    async def _once(self, by: Authorship, work: Callable[[sqlite3.Connection], list[Artifact]]) -> list[Artifact]:
        def once(db: sqlite3.Connection) -> list[Artifact]:
            check_branch(db, by.conversation_id, by.message_id)
            there = None if by.tool_call_id is None else db.execute(_WROTE, (by.tool_call_id,)).fetchone()
            return work(db) if there is None else [to_artifact(there)]

        written = await self._database.write(once)
        await self._artifacts.wrote(by)
        return written
