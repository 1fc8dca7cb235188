"""Checkpoints of unfinished runs: LangGraph's program counters, in a SQLite file of their own.

The record of a run is the store: if the checkpoint is old or lost, the run executes its graph again and repeats nothing
that is stored. So a built-in flow has a checkpoint only while its run waits. An adapted graph has one after each step:
LangGraph's own asynchronous saver switches to its thread three or four times per checkpoint and keeps all of them; here
each step is one switch, simultaneous steps share a commit, and a checkpoint is deleted when the next one is stored.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langgraph.checkpoint.sqlite import SqliteSaver

from artifactflow_nb.engine.serializer import CheckedSerializer, Placeholder
from artifactflow_nb.errors import RunFailed, StoreError
from artifactflow_nb.flows.known_secrets import SecretLookup
from artifactflow_nb.store.database import connect, set_journal_mode
from artifactflow_nb.store.faults import store_error
from artifactflow_nb.store.writer_thread import BatchingThread, QueuedWork

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple

MAX_FREE_BYTES = 4 * 2**20
"""Unused bytes in the file, and in its write-ahead log, above which they are returned to the file system."""

logger = logging.getLogger(__name__)


def _ignore_journal_mode(action: int, pragma: str | None, *_more: str | None) -> int:
    """Authorizer callback of SQLite: ignore `PRAGMA journal_mode`."""
    is_ignored = action == sqlite3.SQLITE_PRAGMA and pragma == "journal_mode"
    return sqlite3.SQLITE_IGNORE if is_ignored else sqlite3.SQLITE_OK


class BatchingSaver(SqliteSaver):
    """LangGraph's SQLite saver on a thread of its own, with the newest checkpoint of each LangGraph thread.

    A value that cannot be serialized stays in the memory of this process, with a `Placeholder` in the checkpoint. So a
    graph with such values works as without a workbench, even across interrupts, and nothing is pickled. LangGraph makes
    shallow copies of a saver, which share its attributes. Secrets are masked.

    Errors: `sqlite3.Error`; those of the serializer; `RunFailed` for a value in the memory of another process.
    """

    serde: CheckedSerializer

    def __init__(self, path: Path, secrets: SecretLookup | None = None) -> None:
        connection = connect(path)
        connection.row_factory = None
        super().__init__(connection, serde=CheckedSerializer(secrets))
        try:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect on a new file only
            set_journal_mode(connection, path)
            connection.execute(f"PRAGMA journal_size_limit = {MAX_FREE_BYTES}")
            connection.set_authorizer(_ignore_journal_mode)  # `setup` would switch to WAL on a network file system too
            self.setup()
            connection.set_authorizer(None)
            self._shrink()
        except BaseException:
            connection.close()
            raise
        self._thread = BatchingThread("artifactflow-checkpoints", self._run_batch)
        # By LangGraph thread and token: the namespace and id of a checkpoint, and a value of it.
        self._values: dict[str, dict[str, tuple[tuple[str, str], Any]]] = {}
        self._after_commit: list[Callable[[], object]] = []

    def cursor(self, transaction: bool = True) -> Any:  # noqa: ARG002 - the batch is the transaction
        """Provide a cursor whose changes are committed with the rest of the batch."""
        return super().cursor(transaction=False)

    # --- on the saver's thread ---------------------------------------------------------------------------------------

    def get_tuple(self, config: "RunnableConfig") -> "CheckpointTuple | None":
        """Return the newest checkpoint of the thread, or that of the id in `config`, with placeholders replaced."""
        if (found := super().get_tuple(config)) is None:
            return None
        values = self._values.get(str(config["configurable"]["thread_id"]), {})

        def resolve(value: Any) -> Any:
            if not isinstance(value, Placeholder):
                return value
            if value.token not in values:
                raise RunFailed(
                    f"The graph cannot continue here: {value.path} in its state has the type {value.kind}, which "
                    "cannot be serialized, so only the workbench that started the run has it. Use values that can be "
                    "serialized (text, numbers, lists, mappings, classes that the annotations of the state name), or "
                    "compile the graph with its own checkpointer that can store it. Then ask again."
                )
            return values[value.token][1]

        channels = found.checkpoint["channel_values"]
        channels.update({channel: resolve(value) for channel, value in channels.items()})
        writes = [(task, channel, resolve(value)) for task, channel, value in found.pending_writes or ()]
        return found._replace(pending_writes=writes)

    def put(
        self,
        config: "RunnableConfig",
        checkpoint: "Checkpoint",
        metadata: "CheckpointMetadata",
        new_versions: "ChannelVersions",
    ) -> "RunnableConfig":
        """Store a checkpoint, and delete the one before it with its writes."""
        thread_id, namespace = str(config["configurable"]["thread_id"]), config["configurable"]["checkpoint_ns"]
        try:
            stored = super().put(config, checkpoint, metadata, new_versions)
        except TypeError:
            channels = {
                name: self._with_placeholder(thread_id, (namespace, checkpoint["id"]), name, value)
                for name, value in checkpoint["channel_values"].items()
            }
            stored = super().put(config, {**checkpoint, "channel_values": channels}, metadata, new_versions)
        before = config["configurable"].get("checkpoint_id")
        # A channel with a delta snapshot can only be read together with the checkpoints before.
        if before is not None and not metadata.get("counters_since_delta_snapshot"):
            for table in ("checkpoints", "writes"):
                where = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
                self.conn.execute(f"DELETE FROM {table} WHERE {where}", (thread_id, namespace, before))  # noqa: S608

            def forget_values() -> None:
                values = self._values.pop(thread_id, {})
                if values := {token: entry for token, entry in values.items() if entry[0] != (namespace, before)}:
                    self._values[thread_id] = values

            self._after_commit.append(forget_values)
        return stored

    def put_writes(
        self, config: "RunnableConfig", writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task since the checkpoint."""
        try:
            super().put_writes(config, writes, task_id, task_path)
        except TypeError:
            thread_id = str(config["configurable"]["thread_id"])
            key = (config["configurable"]["checkpoint_ns"], config["configurable"]["checkpoint_id"])
            written = [(channel, self._with_placeholder(thread_id, key, channel, value)) for channel, value in writes]
            super().put_writes(config, written, task_id, task_path)

    def _with_placeholder(self, thread_id: str, key: tuple[str, str], channel: str, value: Any) -> Any:
        """Return the value, or a placeholder if it cannot be serialized; `key` is the checkpoint's namespace and id."""
        if self.serde.can_serialize(value):
            return value
        path, kind = self.serde.find_unserializable(channel, value)
        placeholder = Placeholder(uuid4().hex, path, kind)
        self._values.setdefault(thread_id, {})[placeholder.token] = (key, value)
        return placeholder

    def delete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread."""
        super().delete_thread(thread_id)
        self._after_commit.extend([lambda: self._values.pop(thread_id, None), self._shrink])

    def _shrink(self) -> None:
        """Return unused space to the file system if there is much of it; after an error the space is reused."""
        with suppress(sqlite3.Error):
            pages, size = (
                self.conn.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size")
            )
            if pages * size > MAX_FREE_BYTES:
                self.conn.executescript("PRAGMA incremental_vacuum")
                self.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # --- on the event loop -------------------------------------------------------------------------------------------

    async def aget_tuple(self, config: "RunnableConfig") -> "CheckpointTuple | None":
        """Return the newest checkpoint of the thread, or that of the id in `config`."""
        return await self._thread.submit(lambda: self.get_tuple(config))

    async def alist(
        self,
        config: "RunnableConfig | None",
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's term
        before: "RunnableConfig | None" = None,
        limit: int | None = None,
    ) -> "AsyncIterator[CheckpointTuple]":
        """Yield the checkpoints of a thread, newest first, with placeholders for values that cannot be serialized."""
        saved = await self._thread.submit(lambda: list(self.list(config, filter=filter, before=before, limit=limit)))
        for checkpoint in saved:
            yield checkpoint

    async def aput(
        self,
        config: "RunnableConfig",
        checkpoint: "Checkpoint",
        metadata: "CheckpointMetadata",
        new_versions: "ChannelVersions",
    ) -> "RunnableConfig":
        """Store a checkpoint, and delete the one before it; returns after the commit."""
        return await self._thread.submit(lambda: self.put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: "RunnableConfig", writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task since the checkpoint; returns after the commit."""
        await self._thread.submit(lambda: self.put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread."""
        await self._thread.submit(lambda: self.delete_thread(thread_id))

    async def has_thread(self, thread_id: str) -> bool:
        """True if the thread has a checkpoint to continue from; without one, its graph starts again.

        LangGraph numbers checkpoints by the time of day and takes the highest number for the newest. After the clock
        was set back between two processes, that is an older one. The run then continues there, and still repeats
        nothing that is stored.
        """
        sql = "SELECT 1 FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
        return await self._thread.submit(lambda: self.conn.execute(sql, (thread_id,)).fetchone() is not None)

    async def thread_ids(self) -> set[str]:
        """List the ids of all threads in the file."""
        sql = "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes"
        return await self._thread.submit(lambda: {str(row[0]) for row in self.conn.execute(sql)})

    def _run_batch(self, jobs: Sequence[QueuedWork]) -> None:
        """Run the jobs in one transaction; if one of them fails, each in a transaction of its own."""
        if not self._commit(jobs) and len(jobs) > 1:
            for job in jobs:
                self._commit([job])

    def _commit(self, jobs: Sequence[QueuedWork]) -> bool:
        """Run the jobs in one transaction; True if it was committed, otherwise all of them get its error."""
        self._after_commit.clear()
        try:
            self.conn.execute("BEGIN IMMEDIATE")
            for job in jobs:
                job.run(lambda work: work())
                if job.error is not None:
                    raise job.error
            self.conn.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - raised in the waiting coroutines instead
            if self.conn.in_transaction:
                self.conn.execute("ROLLBACK")
            for job in jobs:
                job.result, job.error = None, error
            return False
        for step in self._after_commit:
            step()
        return True

    def close(self) -> None:
        """Close the file once all queued steps are done."""
        self._thread.close()
        self.conn.close()


class Checkpoints:
    """The checkpoint file of an engine.

    Attributes:
        saver: The checkpointer with which graphs are compiled; set by `open`.

    Errors: `StoreError` with the file, the loss if it is deleted, and what to do.
    """

    saver: BatchingSaver

    def __init__(self, path: Path, secrets: SecretLookup | None = None) -> None:
        self.path = path
        self._secrets = secrets

    async def open(self, unfinished: Collection[str]) -> None:
        """Open or create the file, and delete the checkpoints of all threads but the unfinished ones.

        Processes that were killed may have left others.
        """
        async with self.translate_errors():
            self.saver = await asyncio.to_thread(BatchingSaver, self.path, self._secrets)
            for thread_id in await self.saver.thread_ids() - set(unfinished):
                await self.saver.adelete_thread(thread_id)

    async def drop(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread; if that fails, the next `open` does it."""
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
                f"{cause} It holds only the positions of unfinished runs in their graphs: without it they start again "
                "from what is stored of them, and repeat nothing that is finished."
            ) from error

    async def close(self) -> None:
        """Close the file."""
        if hasattr(self, "saver"):
            self.saver.close()
