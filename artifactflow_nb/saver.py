"""LangGraph's saver for SQLite on a thread of its own: one hop for each step, and a commit for all that come together.

LangGraph's own asynchronous saver hops to its thread and back three or four times for each checkpoint, and commits each
by itself. With many runs at once that is a third of what a run costs. It also keeps all checkpoints; here one goes when
the next one comes, since a run is never taken up anywhere but where it stands.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactflow_nb.kept import Memory, Place
from artifactflow_nb.store.database import connect, log_ahead
from artifactflow_nb.store.lane import Job, Lane

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")  # read when LangGraph is imported

from langgraph.checkpoint.sqlite import SqliteSaver

from artifactflow_nb.serializer import CheckedSerializer

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple

MOST_FREE_BYTES = 4 * 2**20
"""How much of the file, and of the log beside it, may be left unused before it is given back."""


class LaneSaver(SqliteSaver):
    """Keeps checkpoints in a file, each thread's newest; `open` makes it, `close` ends it.

    A value that cannot be written stays in memory: see `kept`. LangGraph makes shallow copies of a saver, which share
    all that it has.

    A step is done when its commit is. Errors: `sqlite3.Error`; those of `Memory.given` and of the serializer.
    """

    serde: CheckedSerializer

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection, serde=CheckedSerializer())
        self._lane = Lane("artifactflow-checkpoints", self._serve)
        self._memory = Memory()
        self._once_committed: list[Callable[[], None]] = []

    @classmethod
    def open(cls, path: Path) -> "LaneSaver":
        """Open the file, or begin it."""
        connection = connect(path)
        connection.row_factory = None
        try:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a file that is new, or will be made anew
            log_ahead(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {MOST_FREE_BYTES}")
            saver = cls(connection)
            saver.setup()
            saver._shrink()
        except BaseException:
            connection.close()
            raise
        return saver

    def cursor(self, transaction: bool = True) -> Any:  # noqa: ARG002 - the batch has it
        """A cursor whose work is committed with the rest of its batch."""
        return super().cursor(transaction=False)

    # --- on the lane ---

    def get_tuple(self, config: "RunnableConfig") -> "CheckpointTuple | None":
        """The thread's newest checkpoint, or the one that is named."""
        if (found := super().get_tuple(config)) is None:
            return None
        thread_id = str(config["configurable"]["thread_id"])
        values = found.checkpoint["channel_values"]
        for channel, value in values.items():
            values[channel] = self._memory.given(thread_id, value)
        writes = [
            (task, channel, self._memory.given(thread_id, one)) for task, channel, one in found.pending_writes or ()
        ]
        return found._replace(pending_writes=writes)

    def put(
        self,
        config: "RunnableConfig",
        checkpoint: "Checkpoint",
        metadata: "CheckpointMetadata",
        new_versions: "ChannelVersions",
    ) -> "RunnableConfig":
        """Keep a checkpoint, and let go of the one before it."""
        try:
            stored = super().put(config, checkpoint, metadata, new_versions)
        except TypeError:
            place = (config["configurable"]["checkpoint_ns"], checkpoint["id"])
            values = {
                name: self._writable(config, place, name, one) for name, one in checkpoint["channel_values"].items()
            }
            stored = super().put(config, {**checkpoint, "channel_values": values}, metadata, new_versions)
        if not metadata.get("counters_since_delta_snapshot"):  # a channel that is only told with those before it
            self._let_go(config)
        return stored

    def put_writes(
        self, config: "RunnableConfig", writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote since the checkpoint."""
        try:
            super().put_writes(config, writes, task_id, task_path)
        except TypeError:
            place = (config["configurable"]["checkpoint_ns"], config["configurable"]["checkpoint_id"])
            written = [(channel, self._writable(config, place, channel, value)) for channel, value in writes]
            super().put_writes(config, written, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Forget a thread."""
        super().delete_thread(thread_id)
        self._once_committed.extend([lambda: self._memory.forget(thread_id), self._shrink])

    def _writable(self, config: "RunnableConfig", place: Place, channel: str, value: Any) -> Any:
        """A value, or what stands for it if it cannot be written."""
        if self.serde.writes(value):
            return value
        where, kind = self.serde.culprit(channel, value)
        return self._memory.keep(str(config["configurable"]["thread_id"]), place, where, kind, value)

    def _let_go(self, config: "RunnableConfig") -> None:
        """Delete the checkpoint that has got a successor, with what was written since."""
        named = config["configurable"]
        if (before := named.get("checkpoint_id")) is None:
            return
        thread_id, namespace = str(named["thread_id"]), named["checkpoint_ns"]
        for table in ("checkpoints", "writes"):
            where = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
            self.conn.execute(f"DELETE FROM {table} WHERE {where}", (thread_id, namespace, before))  # noqa: S608 - ours
        self._once_committed.append(lambda: self._memory.forget(thread_id, (namespace, before)))

    def _shrink(self) -> None:
        """Give back what of the file is unused, if that is much; what cannot be given back now is used again."""
        with suppress(sqlite3.Error):
            pages, size = (
                self.conn.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size")
            )
            if pages * size > MOST_FREE_BYTES:
                in_steps = self.conn.execute("PRAGMA auto_vacuum").fetchone()[0]
                self.conn.executescript("PRAGMA incremental_vacuum" if in_steps else "VACUUM")  # all of its steps
                self.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # --- from the event loop ---

    async def aget_tuple(self, config: "RunnableConfig") -> "CheckpointTuple | None":
        """The thread's newest checkpoint, or the one that is named."""
        return await self._lane.ask(lambda: self.get_tuple(config))

    async def aput(
        self,
        config: "RunnableConfig",
        checkpoint: "Checkpoint",
        metadata: "CheckpointMetadata",
        new_versions: "ChannelVersions",
    ) -> "RunnableConfig":
        """Keep a checkpoint, and let go of the one before it."""
        return await self._lane.ask(lambda: self.put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: "RunnableConfig", writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote since the checkpoint."""
        await self._lane.ask(lambda: self.put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Forget a thread."""
        await self._lane.ask(lambda: self.delete_thread(thread_id))

    async def knows(self, thread_id: str) -> bool:
        """Whether there is a checkpoint of a thread."""
        sql = "SELECT 1 FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
        return await self._lane.ask(lambda: self.conn.execute(sql, (thread_id,)).fetchone() is not None)

    async def threads(self) -> set[str]:
        """The threads that the file knows."""
        known = "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes"
        return await self._lane.ask(lambda: {str(row[0]) for row in self.conn.execute(known)})

    def _serve(self, jobs: Sequence[Job]) -> None:
        """Do the steps in one transaction; if one of them fails, each in one of its own."""
        if not self._commit(jobs) and len(jobs) > 1:
            for job in jobs:
                self._commit([job])

    def _commit(self, jobs: Sequence[Job]) -> bool:
        """Do the steps in one transaction; whether it was committed. If not, the jobs have its error."""
        self._once_committed.clear()
        try:
            self.conn.execute("BEGIN IMMEDIATE")
            for job in jobs:
                job.run(lambda work: work())
                if job.error is not None:
                    raise job.error
            self.conn.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - whoever asked is told
            if self.conn.in_transaction:
                self.conn.execute("ROLLBACK")
            for job in jobs:
                job.result, job.error = None, error
            return False
        for step in self._once_committed:
            step()
        return True

    def close(self) -> None:
        """Close the file, after all that was begun."""
        self._lane.close()
        self.conn.close()
