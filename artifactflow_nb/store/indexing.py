"""Files brought into the index: read in a thread, stored in small transactions between which others write.

::

    files ──> batch ──> read and cut (thread) ──> one transaction ──> next batch
"""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from artifactflow_nb.ambient import Clock
from artifactflow_nb.store import source_rows
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.extract import Extractor
from artifactflow_nb.store.file_reading import (
    KnownFile,
    Outcome,
    Prepared,
    Refused,
    Same,
    batches,
    extractor_name,
    is_settled,
    looks_unchanged,
    read,
)
from artifactflow_nb.store.folder_scan import FoundFile, found_file, leads_out, path_of, readable_name, root_of
from artifactflow_nb.store.schema import to_us
from artifactflow_nb.store.source_values import Progress, Skipped

_REMOVED_AT_ONCE = 50


@dataclass
class Tally:
    """What became of files.

    Attributes:
        added: Sources that are new.
        changed: Sources whose files had changed.
        removed: Sources that are no more.
        skipped: Files that give none, or not all of their text.
    """

    added: int = 0
    changed: int = 0
    removed: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    def count(self, file: FoundFile, outcome: Outcome, known: KnownFile | None) -> None:
        """Count what became of a file, of which this was known."""
        if isinstance(outcome, Refused):
            self.removed += known is not None
            self.skipped.append(Skipped(shown_path(file), outcome.reason))
        elif isinstance(outcome, Prepared):
            self.added += known is None
            self.changed += known is not None
            if outcome.cut:
                self.skipped.append(Skipped(shown_path(file), f"is long: {outcome.cut}"))


class Indexer:
    """Reads files and stores what they hold now."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._refused: dict[str, Refused] = {}  # by URI, so that a broken file is not read at every look

    async def index(
        self,
        root: Path | None,
        files: Sequence[FoundFile],
        known: Mapping[str, KnownFile],
        kinds: Mapping[str, Extractor],
        progress: Progress | None = None,
    ) -> Tally:
        """Read the files and store what changed; if this is cancelled, what was stored until then stays.

        Args:
            root: The folder that they were found in; None if only known sources are to be stored again.
            files: Files of which something may have changed.
            known: What the store holds of them, by URI.
            kinds: An extractor for each suffix.
            progress: Told after each batch.
        """
        tally, done = Tally(), 0
        stopped = threading.Event()
        try:
            for batch in batches(files):
                outcomes = await asyncio.to_thread(self._read, batch, known, kinds, stopped)
                await self._store(root, outcomes, known)
                for file, outcome in zip(batch, outcomes, strict=True):
                    tally.count(file, outcome, known.get(file.uri))
                done += len(batch)
                if progress is not None:
                    progress(done, len(files), shown_path(batch[-1]))
        finally:
            stopped.set()  # of a cancelled call the thread ends with the file that it is at
        return tally

    def _read(
        self,
        files: Sequence[FoundFile],
        known: Mapping[str, KnownFile],
        kinds: Mapping[str, Extractor],
        stopped: threading.Event,
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for file in files:
            if stopped.is_set():
                break
            extractor = kinds[file.suffix]
            before = self._refused.pop(file.uri, None)
            same = before and (before.file, before.extractor) == (file, extractor_name(extractor))
            outcome = before if before and same else read(file, known.get(file.uri), extractor)
            if isinstance(outcome, Refused) and outcome.lasting and is_settled(file.mtime_ns):
                self._refused[file.uri] = outcome
            outcomes.append(outcome)
        return outcomes

    async def _store(self, root: Path | None, outcomes: Sequence[Outcome], known: Mapping[str, KnownFile]) -> None:
        changes = [
            one
            for one in outcomes
            if isinstance(one, Prepared) or (isinstance(one, Same) and _looks_other(one, known[one.uri]))
        ]
        lost = [one.file.uri for one in outcomes if isinstance(one, Refused) and one.file.uri in known]
        if changes or lost:
            now = to_us(self._clock.now())
            await self._database.write(lambda db: source_rows.apply(db, root, changes, lost, now))

    async def remove(self, uris: Sequence[str]) -> int:
        """Drop the sources with these URIs; how many there were."""
        removed = 0
        for start in range(0, len(uris), _REMOVED_AT_ONCE):
            some = uris[start : start + _REMOVED_AT_ONCE]
            removed += await self._database.write(partial(source_rows.remove, uris=some))
        return removed


def _looks_other(now: Same, before: KnownFile) -> bool:
    """Whether a file that holds what it held has another size or time than is known."""
    return (now.size, now.mtime_ns) != (before.size, before.mtime_ns)


def look(known: Mapping[str, KnownFile], kinds: Mapping[str, Extractor]) -> tuple[list[FoundFile], list[str]]:
    """The files that do not look as they are known, and the URIs of those that are not there; blocking."""
    changed, gone = [], []
    for uri, before in known.items():
        path = path_of(uri)
        if path is None:  # of the language reference
            continue
        try:
            if leads_out(path, root_of(path, before.source_id)):  # a link came into its place
                gone.append(uri)
                continue
            file = found_file(path, uri, PurePosixPath())
        except (OSError, RuntimeError):  # what cannot be looked at cannot be vouched for
            gone.append(uri)
            continue
        if not looks_unchanged(file, before, kinds[file.suffix]):
            changed.append(file)
    return changed, gone


def shown_path(file: FoundFile) -> str:
    """The file's path below its folder, as text; the name of one that was asked for itself."""
    return readable_name(file.relative if file.relative.parts else file.path.name)
