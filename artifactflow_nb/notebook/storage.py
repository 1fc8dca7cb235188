"""The methods of a workbench that prune old conversations, withdraw decisions and back up the store."""

import os
from abc import abstractmethod
from pathlib import Path

from artifactflow_nb.analysis.frames.api import Frames
from artifactflow_nb.analysis.frames.filters import TimeFilter, parse_time
from artifactflow_nb.analysis.frames.storage import PrunedFrame, conversation_bytes, pruned_frame
from artifactflow_nb.errors import UsageError
from artifactflow_nb.notebook.run import Run
from artifactflow_nb.recording.engine import RecordingThread
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.encoding import validate_row_count
from artifactflow_nb.store.storage import copy_store, old_conversations


class OpenStore(Frames):
    """The store of a workbench: its frames, pruning, lasting decisions and backups."""

    _thread: RecordingThread

    @abstractmethod
    def run(self, run_id: str) -> Run:
        """The handle of a stored run."""
        ...

    def prune(
        self,
        before: TimeFilter = None,
        keep: int | None = None,
        *,
        seal_to: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
    ) -> PrunedFrame:
        """Delete old conversations with their messages, runs and artifacts, and shrink the file.

        Projects stay, and conversations with an unfinished run.

        Args:
            before: Delete conversations without a question since this time: a datetime (naive means UTC), an ISO
                string, or a timedelta before now.
            keep: Number of the newest conversations that stay in any case.
            seal_to: A folder into which the ended runs are sealed first, each as `<run_id>.afrun`.
            dry_run: Delete nothing.

        Returns:
            One row per conversation that was deleted or, with `dry_run`, would be.

        Errors: `UsageError` if both `before` and `keep` are missing or one is invalid; `CassetteError` if a run cannot
            be sealed: its conversation and all older ones stay.
        """
        if before is None and keep is None:
            raise UsageError("Pass before=, a time, or keep=, a number of conversations; nothing was deleted.")
        n_newest = 0 if keep is None else validate_row_count("keep", keep)
        until = None if before is None else parse_time("before", before)
        old = read_store(self._store, lambda db: list(old_conversations(db, until, n_newest)))
        n_bytes, n_sealed = conversation_bytes(self._store), dict[str, int]()
        if dry_run:
            return pruned_frame(old, n_bytes, n_sealed)
        engine = self._thread.engine
        for conversation in old:
            key = conversation.conversation_ids[0]
            if seal_to is not None:
                folder = Path(seal_to)
                folder.mkdir(parents=True, exist_ok=True)
                for run_id in conversation.run_ids:
                    self.run(run_id).seal(folder / f"{run_id}.afrun", replace=True)
                    n_sealed[key] = n_sealed.get(key, 0) + 1
            for conversation_id in reversed(conversation.conversation_ids):
                self._thread.call(engine.conversations.delete_conversation(conversation_id))
        self._thread.call(engine.database.rebuild())
        return pruned_frame(old, n_bytes, n_sealed)

    def withdraw(self, host: str) -> int:
        """Ask again before pages of a host are read that was decided with `always`; return the number of decisions."""
        return self._thread.call(self._thread.engine.approvals.withdraw(host.strip().lower()))

    def backup(self, path: str | os.PathLike[str]) -> Path:
        """Copy the store to a new file, as it is at this moment; runs continue meanwhile.

        Name it `store.db` in a folder of its own, and `Workbench(data_dir=folder)` opens it. Runs that are unfinished
        are interrupted there.

        Errors: `UsageError` if the file exists or cannot be written.
        """
        copy_store(self._store, Path(path))
        return Path(path)
