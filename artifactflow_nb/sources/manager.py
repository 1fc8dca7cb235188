"""Local sources: the person's own files and the language reference of this Python, searched and read by address.

An address is `local:<source_id>#<section>`. A file's id is the folder's name and the path inside the folder, so
that other files do not change the id: `local:handbook/storage.md#backups`. Files are read and split in a
thread and stored in small transactions; other writes run in between.

Results match the current files: before a section is returned, its file is checked, and a changed file is indexed again.
"""

import asyncio
import hashlib
import json
import platform
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath

from artifactflow_nb.core.clock_ids import Clock
from artifactflow_nb.errors import NotFound, UsageError, brief
from artifactflow_nb.sources import index as text_index
from artifactflow_nb.sources import rows as source_rows
from artifactflow_nb.sources.extract import extractors
from artifactflow_nb.sources.formats.sections import DocumentSection, ExtractedDocument, Extractor, kind_of
from artifactflow_nb.sources.index import IndexHit
from artifactflow_nb.sources.indexer import Indexer, find_changed_files
from artifactflow_nb.sources.reader import INDEX_VERSION, PreparedDocument, is_unchanged
from artifactflow_nb.sources.retrieval.scoring import WordCounts
from artifactflow_nb.sources.retrieval.terms import parse_query
from artifactflow_nb.sources.rows import SCHEME
from artifactflow_nb.sources.scanner import path_from_uri, scan_folder, scan_root
from artifactflow_nb.sources.values import (
    IndexingResult,
    ProgressCallback,
    SectionHit,
    Source,
    SourceSection,
    summarize_skipped,
    summarize_unsupported,
)
from artifactflow_nb.sources.vector_search import Embedder, VectorSearch
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.faults import store_error
from artifactflow_nb.store.schema import to_microseconds

__all__ = ["PYTHON_REFERENCE", "SCHEME", "SourceManager"]

PYTHON_REFERENCE = "python-reference"

_REFERENCE_URI = "python:pydoc_data.topics"
_REFERENCE_TITLE = "Python language reference"
_MAX_REPEATS = 2  # searches are repeated if files of their hits had changed


class SourceManager:
    """Indexes, searches and reads local sources.

    Args:
        database: The store with the index.
        clock: Source of the times of indexing.
        mask: Removes known secrets from the texts of files.
        embedder: The model of vectors; None to search by words only.

    Attributes:
        vectors: The vectors of the sources, or None without an embedder.
        readers: The extractors of plugins, which take precedence over the package's extractors.
    """

    def __init__(
        self, database: Database, clock: Clock, mask: Callable[[str], str] = str, embedder: Embedder | None = None
    ) -> None:
        self._database = database
        self.vectors = None if embedder is None else VectorSearch(database, embedder)
        self._clock = clock
        self._indexer = Indexer(database, clock, mask)
        self.readers: dict[str, Extractor] = {}

    async def add_folder(self, path: str | Path, progress: ProgressCallback | None = None) -> IndexingResult:
        """Index new and changed files of a folder (or one file) and remove the sources of missing files.

        Files that cannot be read are skipped and listed in the result. If the call is cancelled, finished batches
        remain indexed and the next call continues with the other files.

        Args:
            path: The folder or file.
            progress: Called on the event loop after each batch of new and changed files.

        Errors: `UsageError` for a path that does not exist or has no readable file.
        """
        kinds = {**extractors(), **self.readers}
        scan = await asyncio.to_thread(scan_folder, path, kinds)
        indexed = await self._database.read(lambda db: source_rows.files_in_folder(db, scan.root))
        uris = {file.uri for file in scan.files}
        n_missing = await self._indexer.remove([uri for uri in indexed if uri not in uris])
        candidates = [
            file
            for file in scan.files
            if not is_unchanged(file, indexed.get(file.uri), kinds[kind_of(file.path, kinds)])
        ]
        counts = await self._indexer.index(scan.root, candidates, indexed, kinds, progress)
        name, sources = await self._database.read(
            lambda db: (source_rows.unused_root_name(db, scan.root), source_rows.sources_in_folder(db, scan.root))
        )
        skipped = tuple(sorted((*scan.skipped, *counts.skipped), key=str))
        n_removed = n_missing + counts.removed
        if not sources and not n_removed:
            reasons = f" {len(skipped):,} skipped: {summarize_skipped(skipped)}." if skipped else ""
            kinds_text = ", ".join(kind for kind, extractor in kinds.items() if extractor.is_in_folders)
            others = f" It has {summarize_unsupported(scan.unsupported)}." if scan.unsupported else ""
            raise UsageError(
                f"The folder {scan.root} has no readable file.{reasons}{others} Readable kinds: {kinds_text}."
            )
        scope = source_rows.shortest_scope(name, (source.source_id for source in sources))
        n_unchanged = len(sources) - counts.added - counts.changed
        return IndexingResult(
            str(scan.root),
            sources,
            counts.added,
            counts.changed,
            n_unchanged,
            n_removed,
            skipped,
            scope,
            scan.unsupported,
        )

    async def refresh(self, source_ids: Iterable[str]) -> bool:
        """Check the files of sources and index changed files again; return whether any source changed.

        A source whose file is missing or no longer readable is removed.

        Errors: `UsageError` if the whole folder is missing; nothing is removed.
        """
        indexed = await self._database.read(lambda db: source_rows.files_of_sources(db, source_ids))
        kinds = {**extractors(), **self.readers}
        candidates, missing = await asyncio.to_thread(find_changed_files, indexed, kinds)
        n_removed = await self._indexer.remove(missing)
        counts = await self._indexer.index(None, candidates, indexed, kinds)
        return bool(n_removed or counts.changed or counts.removed)

    async def add_python_reference(self) -> Source:
        """Index the language reference of this Python version unless it is indexed already."""
        version = f"pydoc_topics/{INDEX_VERSION}/{platform.python_version()}"
        if await self._database.read(lambda db: source_rows.find_extractor(db, _REFERENCE_URI)) != version:
            prepared = await asyncio.to_thread(_prepare_reference, version)
            now = to_microseconds(self._clock.now())
            await self._database.write(lambda db: source_rows.replace_source(db, prepared, PYTHON_REFERENCE, now))
        if not (sources := await self.sources([PYTHON_REFERENCE])):  # only in a damaged store
            damage = sqlite3.DatabaseError("the language reference is indexed, and it is not there")
            raise store_error(self._database.path, f"The store {self._database.path} could not be read", damage)
        return sources[0]

    async def sources(self, scope: Sequence[str] | None = None) -> list[Source]:
        """Return the indexed sources of a scope, by default all, sorted by id."""
        return await self._database.read(lambda db: source_rows.sources_in_scope(db, scope))

    async def folders(self) -> list[IndexingResult]:
        """Return the folders and files that were indexed into this store, in their last indexed state.

        The language reference is not included.
        """
        by_root: dict[Path, list[Source]] = {}
        for source in await self.sources():
            if (path := path_from_uri(source.uri)) is not None:
                by_root.setdefault(scan_root(path, source.source_id), []).append(source)
        return [
            IndexingResult(
                str(root),
                tuple(sources),
                unchanged=len(sources),
                scope=source_rows.shortest_scope(
                    sources[0].source_id.partition("/")[0], (source.source_id for source in sources)
                ),
            )
            for root, sources in by_root.items()
        ]

    async def token(self) -> object:
        """Return a value that differs after sources were added, changed or removed, even by another process."""
        return await self._database.read(source_rows.sources_token)

    async def search(self, query: str, limit: int = 5, scope: Sequence[str] | None = None) -> list[SectionHit]:
        """Find the best matching sections, best first, with the current texts of their files.

        Args:
            query: A question or words.
            limit: Maximum number of sections.
            scope: Ids of sources to search, or prefixes such as `<folder>/`; None for all sources.

        Errors: `UsageError` if the folder of a hit is missing.
        """
        parsed = parse_query(query)
        vectors = self.vectors
        vector = None if vectors is None else await vectors.vector(query)

        def find(db: sqlite3.Connection) -> list[IndexHit]:
            within = text_index.ranges(db, scope)
            if vectors is None or vector is None:
                return text_index.find(db, parsed, limit, within)
            return vectors.find(db, parsed, vector, limit, within)

        for _ in range(1 + _MAX_REPEATS):
            hits = await self._database.read(find)
            if not await self.refresh({hit.source_id for hit in hits}):
                break
        return [
            SectionHit(
                source_rows.section_address(hit.source_id, hit.anchor),
                _title(hit.source_title, hit.title),
                hit.passage,
                hit.score,
                hit.passage_id,
                hit.similarity,
            )
            for hit in hits
        ]

    async def word_counts(self, query: str, scope: Sequence[str] | None = None) -> WordCounts:
        """Count the passages that contain each word of the query."""
        parsed = parse_query(query)
        return await self._database.read(lambda db: text_index.count(db, parsed, text_index.ranges(db, scope)))

    async def read(self, address: str) -> SourceSection:
        """Return the section at an address, with the current text of its file.

        Errors: `NotFound` for an unknown or removed section, with the most similar addresses; `UsageError` if the whole
            folder is missing.
        """
        source_id, _, anchor = address.removeprefix(SCHEME).partition("#")
        changed = await self.refresh([source_id])
        row = await self._database.read(lambda db: source_rows.find_section(db, source_id, anchor))
        if row is None:
            nearest = await self._database.read(lambda db: source_rows.nearest_addresses(db, source_id, anchor))
            advice = f"The nearest addresses are {', '.join(nearest)}." if nearest else "No source is indexed yet."
            reason = " Its file was changed or removed since it was indexed." if changed else ""
            raise NotFound(f"There is no source section {brief(address)}.{reason} {advice}")
        return SourceSection(
            source_rows.section_address(source_id, anchor), _title(row["about"], row["title"]), row["text"]
        )


def _title(source: str, section: str) -> str:
    return section if source == section else f"{source}: {section}"


@lru_cache(maxsize=1)
def _prepare_reference(version: str) -> PreparedDocument:
    """Split and tokenise the reference once: this takes 0.1 s, and a process may open several stores."""
    from pydoc_data.topics import topics

    sections = []
    for key, text in topics.items():
        first_line = text.strip().partition("\n")[0].strip()
        sections.append(DocumentSection(key, first_line or key, text.strip("\n")))
    prepared = tuple(text_index.prepare(ExtractedDocument(_REFERENCE_TITLE, tuple(sections))))
    digest = hashlib.sha256(json.dumps(topics, sort_keys=True).encode()).hexdigest()
    return PreparedDocument(_REFERENCE_URI, PurePosixPath(), _REFERENCE_TITLE, "text/plain", version, digest, prepared)
