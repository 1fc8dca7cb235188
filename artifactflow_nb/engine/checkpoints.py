"""Checkpoints of unfinished runs: LangGraph's program counters, in a SQLite file of their own.

The record of a run is the store: if the checkpoint is old or lost, the run executes its graph again and repeats no
stored step. So a built-in flow has a checkpoint only while its run waits. An adapted graph has a checkpoint after each
step. `NewestCheckpointSaver` lists the additions to LangGraph's saver; architecture.md has the benefit of each.
"""

import logging
import sqlite3
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import aiosqlite
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from artifactflow_nb.engine.serializer import CheckedSerializer, Placeholder
from artifactflow_nb.errors import RunFailed, StoreError
from artifactflow_nb.flows.known_secrets import SecretLookup
from artifactflow_nb.store.database import connect, set_journal_mode
from artifactflow_nb.store.faults import store_error
from artifactflow_nb.tools.threads import run_in_thread

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple

MAX_FREE_BYTES = 4 * 2**20
"""The largest number of unused bytes in the file, or in the write-ahead log; more is returned to the file system."""

_KEEP_NEWEST = """
CREATE TRIGGER IF NOT EXISTS keep_newest AFTER INSERT ON checkpoints
-- A channel with a delta snapshot can only be read together with the checkpoints before.
WHEN coalesce(json_extract(CAST(NEW.metadata AS TEXT), '$.counters_since_delta_snapshot'), '{}') = '{}'
BEGIN
    DELETE FROM writes WHERE (thread_id, checkpoint_ns, checkpoint_id)
        = (NEW.thread_id, NEW.checkpoint_ns, NEW.parent_checkpoint_id);
    DELETE FROM checkpoints WHERE (thread_id, checkpoint_ns, checkpoint_id)
        = (NEW.thread_id, NEW.checkpoint_ns, NEW.parent_checkpoint_id);
END
"""

logger = logging.getLogger(__name__)
logging.getLogger("aiosqlite").setLevel(logging.INFO)  # DEBUG logs the values of statements, which may hold secrets


def _ignore_journal_mode(action: int, pragma: str | None, *_more: str | None) -> int:
    """Authorizer callback of SQLite: ignore `PRAGMA journal_mode`."""
    is_ignored = action == sqlite3.SQLITE_PRAGMA and pragma == "journal_mode"
    return sqlite3.SQLITE_IGNORE if is_ignored else sqlite3.SQLITE_OK


def _connect(path: Path) -> sqlite3.Connection:
    """Open or create the file, in the journal mode for the file system, as a file that can shrink."""
    connection = connect(path)
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect on a new file only
        set_journal_mode(connection, path)
        connection.execute(f"PRAGMA journal_size_limit = {MAX_FREE_BYTES}")
        connection.set_authorizer(_ignore_journal_mode)  # `setup` would switch to WAL on a network file system too
        connection.isolation_level = "IMMEDIATE"  # each write begins a transaction, which the saver commits
    except BaseException:
        connection.close()
        raise
    return connection


class NewestCheckpointSaver(AsyncSqliteSaver):
    """LangGraph's SQLite saver, with the newest checkpoint of each LangGraph thread.

    The additions to `AsyncSqliteSaver`:

    - A checkpoint is deleted in the transaction that stores the next checkpoint, and unused space is returned.
    - A step that fails or is cancelled is rolled back. An open transaction would lock the file for other processes.
    - A value that cannot be serialized stays in the memory of this process, with a `Placeholder` in the checkpoint. So
      a graph with such values works as without a workbench, even across interrupts, and nothing is pickled.

    LangGraph makes shallow copies of a saver, which share the attributes of the saver.

    Errors: `sqlite3.Error`; errors of the serializer; `RunFailed` for a value in the memory of another process.
    """

    serde: CheckedSerializer

    def __init__(self, connection: aiosqlite.Connection, secrets: SecretLookup | None = None) -> None:
        super().__init__(connection, serde=CheckedSerializer(secrets))
        # For each checkpoint (thread, namespace, id): the values of its placeholders by token.
        self._values: dict[tuple[str, str, str | None], dict[str, Any]] = {}

    @classmethod
    async def open(cls, path: Path, secrets: SecretLookup | None = None) -> Self:
        """Open or create the file. The saver belongs to the running event loop."""
        # An open connection keeps the process from ending, unless a daemon thread created the connection.
        connection = await run_in_thread(lambda: aiosqlite.Connection(partial(_connect, path), 64), "checkpoints")
        try:
            await connection
            saver = cls(connection, secrets)
            await saver.setup()
            await connection.execute(_KEEP_NEWEST)
            await saver.shrink()
        except BaseException:
            await connection.close()
            raise
        return saver

    async def aget_tuple(self, config: "RunnableConfig") -> "CheckpointTuple | None":
        """Return the checkpoint named in `config` or the thread's newest checkpoint, with placeholders replaced."""
        if (stored := await super().aget_tuple(config)) is None:
            return None
        values = self._values.get(_key(stored.config), {})

        def resolve(value: Any) -> Any:
            if not isinstance(value, Placeholder):
                return value
            if value.token not in values:
                raise RunFailed(
                    f"The graph cannot continue here: {value.path} in its state has the type {value.kind}, which "
                    "cannot be serialized: only the workbench that started the run has it. Use values that can be "
                    "serialized (text, numbers, lists, mappings, classes that the annotations of the state name), or "
                    "compile the graph with a checkpointer that can store the value. Then ask again."
                )
            return values[value.token]

        channels = stored.checkpoint["channel_values"]
        channels.update({channel: resolve(value) for channel, value in channels.items()})
        writes = [(task, channel, resolve(value)) for task, channel, value in stored.pending_writes or ()]
        return stored._replace(pending_writes=writes)

    async def aput(
        self,
        config: "RunnableConfig",
        checkpoint: "Checkpoint",
        metadata: "CheckpointMetadata",
        new_versions: "ChannelVersions",
    ) -> "RunnableConfig":
        """Store a checkpoint in place of the previous checkpoint."""
        thread_id, namespace, before = _key(config)
        async with self._rolled_back_on_error():
            try:
                stored = await super().aput(config, checkpoint, metadata, new_versions)
            except TypeError:
                channels = {
                    name: self._with_placeholder((thread_id, namespace, checkpoint["id"]), name, value)
                    for name, value in checkpoint["channel_values"].items()
                }
                stored = await super().aput(config, {**checkpoint, "channel_values": channels}, metadata, new_versions)
        if not metadata.get("counters_since_delta_snapshot"):
            self._values.pop((thread_id, namespace, before), None)
        return stored

    async def aput_writes(
        self, config: "RunnableConfig", writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task since the checkpoint."""
        async with self._rolled_back_on_error():
            try:
                await super().aput_writes(config, writes, task_id, task_path)
            except TypeError:
                written = [(channel, self._with_placeholder(_key(config), channel, value)) for channel, value in writes]
                await super().aput_writes(config, written, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread."""
        async with self._rolled_back_on_error():
            await super().adelete_thread(thread_id)
        for key in [key for key in self._values if key[0] == thread_id]:
            del self._values[key]
        await self.shrink()

    def _with_placeholder(self, key: tuple[str, str, str | None], channel: str, value: Any) -> Any:
        """Return the value, or a placeholder if the value cannot be serialized; `key` identifies the checkpoint."""
        if self.serde.can_serialize(value):
            return value
        path, kind = self.serde.find_unserializable(channel, value)
        placeholder = Placeholder(uuid4().hex, path, kind)
        self._values.setdefault(key, {})[placeholder.token] = value
        return placeholder

    @asynccontextmanager
    async def _rolled_back_on_error(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            # No other step has a transaction: the next step gets the lock after the rollback is in the queue.
            await self.conn.rollback()
            raise

    async def shrink(self) -> None:
        """Return unused space above `MAX_FREE_BYTES` to the file system; after an error, the file reuses the space."""
        with suppress(sqlite3.Error):
            sql = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
            [(n_bytes,)] = await self.conn.execute_fetchall(sql)
            if n_bytes > MAX_FREE_BYTES:
                async with self.lock:
                    await self.conn.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")

    async def has_thread(self, thread_id: str) -> bool:
        """Return whether the thread has a checkpoint to continue from; a graph without a checkpoint starts again.

        LangGraph numbers checkpoints by the time of day and takes the highest number for the newest. If the clock was
        set back between two processes, the highest number is an older checkpoint. The run then continues at the older
        checkpoint, and still repeats no stored step.
        """
        sql = "SELECT 1 FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
        return bool(await self.conn.execute_fetchall(sql, (thread_id,)))

    async def thread_ids(self) -> set[str]:
        """List the ids of all threads in the file."""
        sql = "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes"
        return {str(thread_id) for (thread_id,) in await self.conn.execute_fetchall(sql)}


def _key(config: "RunnableConfig") -> tuple[str, str, str | None]:
    """Return thread, namespace and id of a checkpoint."""
    address = config["configurable"]
    return str(address["thread_id"]), address.get("checkpoint_ns", ""), address.get("checkpoint_id")


class Checkpoints:
    """The checkpoint file of an engine.

    Attributes:
        saver: The checkpointer with which graphs are compiled; set by `open`.

    Errors: `StoreError` that names the file, the loss if the file is deleted, and what to do.
    """

    saver: NewestCheckpointSaver

    def __init__(self, path: Path, secrets: SecretLookup | None = None) -> None:
        self.path = path
        self._secrets = secrets

    async def open(self, unfinished: Collection[str]) -> None:
        """Open or create the file, and delete the checkpoints of all threads except `unfinished`.

        Processes that were killed may have left such checkpoints.
        """
        async with self.translate_errors():
            self.saver = await NewestCheckpointSaver.open(self.path, self._secrets)
            for thread_id in await self.saver.thread_ids() - set(unfinished):
                await self.saver.adelete_thread(thread_id)

    async def drop(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread; after an error, the next `open` deletes the checkpoints."""
        try:
            async with self.translate_errors():
                await self.saver.adelete_thread(thread_id)
        except StoreError:
            logger.debug("The checkpoints of %s are deleted later", thread_id, exc_info=True)

    @asynccontextmanager
    async def translate_errors(self) -> AsyncIterator[None]:
        """Raise errors of SQLite in the file as `StoreError`."""
        try:
            yield
        except sqlite3.Error as error:
            cause = store_error(self.path, f"{self.path} cannot be used", error, salvage=False)
            raise StoreError(
                f"{cause} The file holds only the positions of unfinished runs in their graphs: without the file, the "
                "runs start again from their stored steps, and repeat nothing that is finished."
            ) from error

    async def close(self) -> None:
        """Wait for the step that is being stored, then close the file."""
        if hasattr(self, "saver"):
            async with self.saver.lock:
                await self.saver.conn.close()
