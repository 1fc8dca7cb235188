"""Indexing of files, which are read in a thread and stored in small transactions; other writes run in between.

::

    files ──> batch ──> read and cut (thread) ──> one transaction ──> next batch
"""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from artifactflow_nb.core.clock_ids import Clock
from artifactflow_nb.errors import UsageError
from artifactflow_nb.sources import rows as source_rows
from artifactflow_nb.sources.formats.sections import Extractors, kind_of
from artifactflow_nb.sources.reader import (
    IndexedFile,
    PreparedDocument,
    ReadOutcome,
    RejectedFile,
    UnchangedFile,
    batches,
    described,
    extractor_name,
    is_mtime_settled,
    is_unchanged,
    mask_document,
    read_file,
)
from artifactflow_nb.sources.reader_pool import ReaderPool
from artifactflow_nb.sources.scanner import (
    FoundFile,
    is_outside_root,
    path_from_uri,
    printable_path,
    scan_root,
    stat_file,
)
from artifactflow_nb.sources.values import ProgressCallback, SkippedFile
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.schema import to_microseconds

_REMOVALS_PER_WRITE = 50


@dataclass
class IndexCounts:
    """The results of indexing.

    Attributes:
        skipped: Files that were not read.
    """

    added: int = 0
    changed: int = 0
    removed: int = 0
    skipped: list[SkippedFile] = field(default_factory=list)


class Indexer:
    """Reads files and stores their sections; `mask` removes known secrets from the texts."""

    def __init__(self, database: Database, clock: Clock, mask: Callable[[str], str] = str) -> None:
        self._database = database
        self._clock = clock
        self._mask = mask
        self._rejected: dict[str, RejectedFile] = {}  # by URI, so that a broken file is not read on every refresh

    async def index(
        self,
        root: Path | None,
        files: Sequence[FoundFile],
        known: Mapping[str, IndexedFile],
        extractors: Extractors,
        progress: ProgressCallback | None = None,
    ) -> IndexCounts:
        """Read files and store changed files, batch by batch; cancellation loses the current batch only.

        Args:
            root: The folder of the files; None to update known sources only.
            files: Files that may have changed.
            known: The indexed state of files, by URI.
            extractors: The extractors, of which one reads each file.
            progress: Called after each batch.
        """
        counts, done = IndexCounts(), 0
        stopped = threading.Event()
        pool = ReaderPool([file for file in files if file.suffix == ".pdf" and file.uri not in self._rejected], known)
        try:
            for batch in batches(files):
                outcomes = await asyncio.to_thread(self._read, batch, known, extractors, pool, stopped)
                await self._store(root, outcomes, known)
                for file, outcome in zip(batch, outcomes, strict=True):
                    is_known = file.uri in known
                    if isinstance(outcome, RejectedFile):
                        counts.removed += is_known
                        counts.skipped.append(SkippedFile(display_path(file), outcome.reason))
                    elif isinstance(outcome, PreparedDocument):
                        counts.added += not is_known
                        counts.changed += is_known
                done += len(batch)
                if progress is not None:
                    progress(done, len(files), display_path(batch[-1]))
        finally:
            stopped.set()  # after a cancellation the thread stops at the end of the current file
            pool.close()
        return counts

    def _read(
        self,
        files: Sequence[FoundFile],
        known: Mapping[str, IndexedFile],
        extractors: Extractors,
        pool: ReaderPool,
        stopped: threading.Event,
    ) -> list[ReadOutcome]:
        outcomes: list[ReadOutcome] = []
        for file in files:
            if stopped.is_set():
                break
            extractor = extractors[kind_of(file.path, extractors)]
            rejected = self._rejected.pop(file.uri, None)
            outcome: ReadOutcome
            if rejected is not None and (rejected.file, rejected.extractor) == (file, extractor_name(extractor)):
                outcome = rejected
            elif (read_ahead := pool.outcome(file)) is not None:
                outcome = (
                    mask_document(read_ahead, self._mask) if isinstance(read_ahead, PreparedDocument) else read_ahead
                )
            elif stopped.is_set():
                break
            else:
                outcome = read_file(file, known.get(file.uri), extractor, self._mask)
            if isinstance(outcome, PreparedDocument):
                outcome = described(outcome, extractor)
            if isinstance(outcome, RejectedFile) and outcome.is_permanent and is_mtime_settled(file.mtime_ns):
                self._rejected[file.uri] = outcome
            outcomes.append(outcome)
        return outcomes

    async def _store(
        self, root: Path | None, outcomes: Sequence[ReadOutcome], known: Mapping[str, IndexedFile]
    ) -> None:
        changes: list[PreparedDocument | UnchangedFile] = []
        lost: list[str] = []
        for outcome in outcomes:
            if isinstance(outcome, RejectedFile):
                lost += [outcome.file.uri] if outcome.file.uri in known else []
            elif isinstance(outcome, PreparedDocument) or (outcome.size, outcome.mtime_ns) != (
                known[outcome.uri].size,
                known[outcome.uri].mtime_ns,
            ):
                changes.append(outcome)
        if changes or lost:
            now = to_microseconds(self._clock.now())
            await self._database.write(lambda db: source_rows.store_outcomes(db, root, changes, lost, now))

    async def remove(self, uris: Sequence[str]) -> int:
        """Remove the sources with these URIs; return the number of removed sources."""
        n_removed = 0
        for start in range(0, len(uris), _REMOVALS_PER_WRITE):
            batch = uris[start : start + _REMOVALS_PER_WRITE]
            n_removed += await self._database.write(partial(source_rows.remove_sources, uris=batch))
        return n_removed


def find_changed_files(known: Mapping[str, IndexedFile], extractors: Extractors) -> tuple[list[FoundFile], list[str]]:
    """Return files whose size or time differs from the index, and the URIs of missing files; blocks on file access.

    Errors: `UsageError` if the folder of a file is missing: the drive is detached, or only the store was copied.
    """
    changed, missing = [], []
    for uri, before in known.items():
        path = path_from_uri(uri)
        if path is None:  # the language reference has no file
            continue
        try:
            root = scan_root(path, before.source_id)
            if is_outside_root(path, root):  # a link replaced the file
                missing.append(uri)
                continue
            file = stat_file(path, uri, PurePosixPath())
        except (OSError, RuntimeError):  # without access, nobody can tell whether the index is current
            folder = path.parent if root == path else root
            if not os.path.isdir(folder):  # noqa: PTH112 - `is_dir` raises if access is denied
                raise UsageError(
                    f"The folder {printable_path(folder.name)!r} is missing, so the files cannot be checked. "
                    "The files remain indexed. Restore the folder, or add another folder with wb.sources.add()."
                ) from None
            missing.append(uri)
            continue
        extractor = extractors.get(kind_of(path, extractors))  # none if the plugin that read the file is not used
        if extractor is not None and not is_unchanged(file, before, extractor):
            changed.append(file)
    return changed, missing


def display_path(file: FoundFile) -> str:
    """Return the file's path below its folder for display; for a file that was added alone, its name."""
    return printable_path(file.relative if file.relative.parts else file.path.name)
