"""`wb.store`: back up and prune the store of a workbench, and import runs into the store."""

import os
from collections.abc import Callable
from pathlib import Path

from artifactflow_nb.analysis.frames.computed import (
    PrunedFrame,
    StorageFrame,
    conversation_bytes,
    load_storage,
    pruned_frame,
)
from artifactflow_nb.core.local_files import absolute_path, shown_path
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.errors import UsageError, check_text
from artifactflow_nb.notebook.run import Run
from artifactflow_nb.recording.engine import RecordingThread
from artifactflow_nb.recording.rows import import_rows
from artifactflow_nb.recording.seal import read_sealed
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.encoding import validate_row_count
from artifactflow_nb.store.frames import TimeFilter, parse_time
from artifactflow_nb.store.storage import copy_store, old_conversations


class WorkbenchStore:
    """The store of a workbench: the file `store.db` in its data folder.

    Attributes:
        path: The path of the file.
    """

    def __init__(self, thread: RecordingThread, open_run: Callable[[str], Run]) -> None:
        self.path = thread.engine.folder / STORE_FILE
        self._thread = thread
        self._open_run = open_run

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown_path(self.path)!r})"

    def backup(self, path: str | os.PathLike[str]) -> Path:
        """Copy the current state of the store to a new file, while runs continue.

        To open the copy with `Workbench(data_dir=folder)`, name the copy `store.db` in an empty folder. Unfinished runs
        are abandoned in the copy.

        Errors: `UsageError` if the file exists or cannot be written.
        """
        target = absolute_path(path)
        copy_store(self.path, target)
        return target

    def import_run(self, path: str | os.PathLike[str]) -> Run:
        """Import a sealed run, with the earlier runs of its branch, and return the handle of the run.

        Errors: `CassetteError` for a file that cannot be used; `Conflict` if the store has another run with the same
            id. Nothing is imported then.
        """
        sealed, _manifest = read_sealed(absolute_path(path))
        self._thread.call(self._thread.engine.database.write(lambda db: import_rows(db, sealed.rows)))
        return self._open_run(sealed.rows.run_id)

    def prune(
        self,
        before: TimeFilter = None,
        keep: int | None = None,
        *,
        seal_to: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
    ) -> PrunedFrame:
        """Delete old conversations with their messages, runs and artifacts, and shrink the file.

        Projects, and conversations with an unfinished run, are not deleted.

        Args:
            before: Delete conversations without a question since this time: a datetime (naive means UTC), an ISO
                string, or a timedelta before now.
            keep: Number of newest conversations that are never deleted.
            seal_to: A folder into which the ended runs are sealed first, each as `<run_id>.afrun`.
            dry_run: Delete nothing.

        Returns:
            One row per conversation that was deleted or, with `dry_run`, would be deleted.

        Errors: `UsageError` if both `before` and `keep` are missing or an argument is invalid; `CassetteError` if a run
        cannot be sealed: the conversation of the run and all older conversations are not deleted.
        """
        if before is None and keep is None:
            raise UsageError("Pass before= with a time or keep= with a number of conversations; nothing was deleted.")
        n_newest = 0 if keep is None else validate_row_count("keep", keep)
        until = None if before is None else parse_time("before", before)
        old = read_store(self.path, lambda db: list(old_conversations(db, until, n_newest)))
        n_bytes, n_sealed = conversation_bytes(self.path), dict[str, int]()
        if dry_run:
            return pruned_frame(old, n_bytes, n_sealed)
        engine = self._thread.engine
        for conversation in old:
            key = conversation.conversation_ids[0]
            if seal_to is not None:
                folder = absolute_path(seal_to)
                folder.mkdir(parents=True, exist_ok=True)
                for run_id in conversation.run_ids:
                    self._open_run(run_id).seal(folder / f"{run_id}.afrun", replace=True)
                    n_sealed[key] = n_sealed.get(key, 0) + 1
            for conversation_id in reversed(conversation.conversation_ids):
                self._thread.call(engine.conversations.delete_conversation(conversation_id))
        return pruned_frame(old, n_bytes, n_sealed)

    def storage_df(self) -> StorageFrame:
        """Return the size of the store on disk: one row per conversation and kind of content, the largest size first.

        Columns: `conversation_id`, `title`, `kind`, `n_rows`, `n_bytes`. Rows without a conversation are texts that
        several conversations share, sources, indexes and unused pages of the file, checkpoints and the write-ahead log.
        The method reads the whole store.
        """
        return load_storage(self.path)

    def withdraw(self, host: str) -> int:
        """Withdraw the decisions `always` on a host; return their number. Pages of the host need an approval again."""
        check_text("host", host)
        return self._thread.call(self._thread.engine.approvals.withdraw(host.strip().lower()))
