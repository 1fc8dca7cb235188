"""LangGraph's saver for SQLite on a thread of its own: one hop for each step, and a commit for all that come together.

LangGraph's own asynchronous saver hops to its thread and back three or four times for each checkpoint, and commits each
by itself. With many runs at once that is a third of what a run costs.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactflow_nb.store.database import connect, log_ahead
from artifactflow_nb.store.lane import Job, Lane

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")  # read when LangGraph is imported

from langgraph.checkpoint.sqlite import SqliteSaver

if TYPE_CHECKING:
    import sqlite3

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple


class LaneSaver(SqliteSaver):
    """Keeps checkpoints in a file; `open` makes it, `close` ends it.

    A step is done when its commit is. Errors: `sqlite3.Error`.
    """

    def __init__(self, connection: "sqlite3.Connection") -> None:
        super().__init__(connection)
        self._lane = Lane("artifactflow-checkpoints", self._serve)

    @classmethod
    def open(cls, path: Path) -> "LaneSaver":
        """Open the file, or begin it."""
        connection = connect(path)
        connection.row_factory = None
        try:
            log_ahead(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            saver = cls(connection)
            saver.setup()
        except BaseException:
            connection.close()
            raise
        return saver

    def cursor(self, transaction: bool = True) -> Any:  # noqa: ARG002 - the batch has it
        """A cursor whose work is committed with the rest of its batch."""
        return super().cursor(transaction=False)

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
        """Keep a checkpoint."""
        return await self._lane.ask(lambda: self.put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: "RunnableConfig", writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote since the checkpoint."""
        await self._lane.ask(lambda: self.put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Forget a thread."""
        await self._lane.ask(lambda: self.delete_thread(thread_id))

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
        return True

    def close(self) -> None:
        """Close the file, after all that was begun."""
        self._lane.close()
        self.conn.close()
