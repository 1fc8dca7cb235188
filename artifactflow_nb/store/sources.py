"""Local sources: the person's own files and the language reference of this Python, searched and read by address.

An address is `local:<source_id>#<section>`. A file's id is its folder's name and its path inside it, so that it stays
the same when files come and go: `local:handbook/storage.md#backups`. Files are read and cut in a thread and stored in
small transactions, between which others write.

What a file holds now counts: a section is given only after a look at its file, which is indexed again if it changed.
"""

import asyncio
import hashlib
import json
import platform
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath

from artifactflow_nb.ambient import Clock
from artifactflow_nb.errors import NotFound
from artifactflow_nb.formats.parts import Extracted, Part
from artifactflow_nb.store import source_rows, text_index
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.extract import KINDS, extractors
from artifactflow_nb.store.file_reading import INDEX_VERSION, Prepared, looks_unchanged
from artifactflow_nb.store.folder_scan import scan
from artifactflow_nb.store.indexing import Indexer, look
from artifactflow_nb.store.schema import to_us
from artifactflow_nb.store.source_rows import SCHEME
from artifactflow_nb.store.source_values import Added, Hit, Progress, Section, Source, nothing_readable
from artifactflow_nb.text.relevance import WordCounts
from artifactflow_nb.text.words import query_of

__all__ = ["PYTHON_REFERENCE", "SCHEME", "SourceManager"]

PYTHON_REFERENCE = "python-reference"

_REFERENCE_URI = "python:pydoc_data.topics"
_REFERENCE_TITLE = "Python language reference"
_LOOKS = 2  # how often a search is made again because files that it found had changed


class SourceManager:
    """Indexes, searches and reads local sources."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._indexer = Indexer(database, clock)

    async def add_folder(self, path: str | Path, progress: Progress | None = None) -> Added:
        """Index the folder's new and changed files (or the one file), and drop the sources of files that are gone.

        Files that cannot be read are passed over and listed. If this is cancelled, what was indexed stays, and the
        next call goes on from there.

        Args:
            path: The folder.
            progress: Told on the event loop after each batch of new and changed files.

        Errors: `UsageError` for a path that does not exist or that gives no source.
        """
        kinds = extractors()
        seen = await asyncio.to_thread(scan, path, KINDS)
        known = await self._database.read(lambda db: source_rows.known_files(db, seen.root))
        found = {file.uri for file in seen.files}
        lost = await self._indexer.remove([uri for uri in known if uri not in found])
        doubtful = [file for file in seen.files if not looks_unchanged(file, known.get(file.uri), kinds[file.suffix])]
        tally = await self._indexer.index(seen.root, doubtful, known, kinds, progress)
        name, sources = await self._database.read(
            lambda db: (source_rows.root_name(db, seen.root), source_rows.of_folder(db, seen.root))
        )
        skipped = tuple(sorted((*seen.skipped, *tally.skipped), key=str))
        if not sources and not lost + tally.removed:
            raise nothing_readable(str(seen.root), KINDS, skipped)
        scope = source_rows.scope_of(name, (source.source_id for source in sources))
        unchanged = len(sources) - tally.added - tally.changed
        return Added(
            str(seen.root), sources, tally.added, tally.changed, unchanged, lost + tally.removed, skipped, scope
        )

    async def refresh(self, source_ids: Iterable[str]) -> bool:
        """Look at the files of these sources and index those again that changed; whether any source is another now.

        A source whose file is gone or cannot be read any more is removed.
        """
        known = await self._database.read(lambda db: source_rows.files_of(db, source_ids))
        kinds = extractors()
        doubtful, gone = await asyncio.to_thread(look, known, kinds)
        removed = await self._indexer.remove(gone)
        tally = await self._indexer.index(None, doubtful, known, kinds)
        return bool(removed or tally.changed or tally.removed)

    async def add_python_reference(self) -> Source:
        """Index the language reference that this Python carries, if it is not, or was of another Python."""
        version = f"pydoc_topics/{INDEX_VERSION}/{platform.python_version()}"
        if await self._database.read(lambda db: source_rows.extractor_of(db, _REFERENCE_URI)) != version:
            prepared = await asyncio.to_thread(_prepare_reference, version)
            now = to_us(self._clock.now())
            await self._database.write(lambda db: source_rows.replace(db, prepared, PYTHON_REFERENCE, now))
        return (await self.sources([PYTHON_REFERENCE]))[0]

    async def sources(self, scope: Sequence[str] | None = None) -> list[Source]:
        """The indexed sources, by id; with a scope only those that it names."""
        return await self._database.read(lambda db: source_rows.of_scope(db, scope))

    async def search(self, query: str, limit: int = 5, scope: Sequence[str] | None = None) -> list[Hit]:
        """The sections that match best, best first, as their files are now.

        Args:
            query: A question or words.
            limit: How many sections at most.
            scope: Ids of the sources to search, or `<folder>/` for all whose ids begin so; None for all.
        """
        asked = query_of(query)
        for _ in range(1 + _LOOKS):
            found = await self._database.read(
                lambda db: text_index.find(db, asked, limit, text_index.ranges(db, scope))
            )
            if not await self.refresh({one.source_id for one in found}):
                break
        return [
            Hit(source_rows.address(one.source_id, one.anchor), _title(one.source_title, one.title), one.passage,
                one.score)
            for one in found
        ]  # fmt: skip

    async def word_counts(self, query: str, scope: Sequence[str] | None = None) -> WordCounts:
        """In how many passages of the sources each word of the query occurs."""
        asked = query_of(query)
        return await self._database.read(lambda db: text_index.count(db, asked, text_index.ranges(db, scope)))

    async def read(self, address: str) -> Section:
        """The section at the address, as its file is now.

        Errors: `NotFound` if there is none (any more), with the nearest addresses that exist.
        """
        source_id, _, anchor = address.removeprefix(SCHEME).partition("#")
        changed = await self.refresh([source_id])
        row = await self._database.read(lambda db: source_rows.section(db, source_id, anchor))
        if row is None:
            nearest = await self._database.read(lambda db: source_rows.nearest(db, source_id, anchor))
            advice = f"The nearest addresses are {', '.join(nearest)}." if nearest else "No source is indexed yet."
            why = " Its file was changed or removed since it was indexed." if changed else ""
            raise NotFound(f"There is no source section {address!r}.{why} {advice}")
        return Section(source_rows.address(source_id, anchor), _title(row["about"], row["title"]), row["text"])


def _title(source: str, section: str) -> str:
    return section if source == section else f"{source}: {section}"


@lru_cache(maxsize=1)
def _prepare_reference(version: str) -> Prepared:
    """The reference, cut and tokenised: 0.1 s, which a process that begins a second store does not take again."""
    from pydoc_data.topics import topics

    document = Extracted(
        _REFERENCE_TITLE, tuple(Part(key, _first_line(text, key), text.strip("\n")) for key, text in topics.items())
    )
    digest = hashlib.sha256(json.dumps(topics, sort_keys=True).encode()).hexdigest()
    sections = tuple(text_index.prepare(document))
    return Prepared(_REFERENCE_URI, PurePosixPath(), _REFERENCE_TITLE, "text/plain", version, digest, sections)


def _first_line(text: str, fallback: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), fallback)
