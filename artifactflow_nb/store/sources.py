"""Local sources: the person's own files and the language reference of this Python, searched and read by address.

An address is `local:<source_id>#<section>`. A file's id is its folder's name and its path inside it, so that it stays
the same when files come and go: `local:handbook/storage.md#backups`. Files are read and cut in a thread; only finished
rows go to the database, in one transaction for a folder.
"""

import asyncio
import difflib
import hashlib
import json
import platform
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from artifactflow_nb.ambient import Clock
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.store import text_index
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.extract import EXTRACTORS, Extracted, Part, slug
from artifactflow_nb.store.schema import from_us, to_us
from artifactflow_nb.text.relevance import WordCounts
from artifactflow_nb.text.words import query_of

PYTHON_REFERENCE = "python-reference"
SCHEME = "local:"

_REFERENCE_URI = "python:pydoc_data.topics"
_REFERENCE_TITLE = "Python language reference"
_INDEX_VERSION = 3  # raised when sections or terms are made differently, so that known files are indexed again
_NEAREST = 5


@dataclass(frozen=True, slots=True)
class Source:
    """An indexed file, or the language reference.

    Attributes:
        source_id: The part of its addresses before `#`.
        uri: Where it came from.
        title: Its title.
        fetched_at: When it was indexed, in UTC.
        media_type: `text/markdown`, `text/plain`.
        n_chars: Characters of its text.
    """

    source_id: str
    uri: str
    title: str
    fetched_at: datetime
    media_type: str
    n_chars: int


@dataclass(frozen=True, slots=True)
class Added:
    """What adding a folder came to.

    Attributes:
        sources: All sources that the folder now has, by id.
        indexed: How many of them were new or had changed.
        unchanged: How many were known.
        dropped: How many sources were removed because their files are gone.
    """

    sources: tuple[Source, ...]
    indexed: int
    unchanged: int
    dropped: int

    @property
    def source_ids(self) -> tuple[str, ...]:
        """The ids, for the `scope` of a search."""
        return tuple(source.source_id for source in self.sources)


@dataclass(frozen=True, slots=True)
class Hit:
    """A section that a search found: its address, title, best passage (verbatim) and score (higher is better)."""

    address: str
    title: str
    snippet: str
    score: float


@dataclass(frozen=True, slots=True)
class Section:
    """A section as it was indexed: its address, title and verbatim text."""

    address: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    relative: PurePosixPath
    sha256: str

    @property
    def uri(self) -> str:
        return self.path.as_uri()


@dataclass(frozen=True, slots=True)
class _Prepared:
    uri: str
    wanted_id: PurePosixPath
    title: str
    media_type: str
    extractor: str
    sha256: str
    n_chars: int
    sections: tuple[text_index.PreparedSection, ...]


class SourceManager:
    """Indexes, searches and reads local sources."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def add_folder(self, path: str | Path) -> Added:
        """Index the folder's readable files (or the one file): new and changed ones; sources of lost files are dropped.

        Errors: `UsageError` for a path that does not exist, holds nothing readable or cannot be read as UTF-8. Then
        nothing was changed.
        """
        root, files = await asyncio.to_thread(_scan, Path(path))
        known = await self._database.read(lambda connection: _known(connection, root))
        changed = [file for file in files if known.get(file.uri) != (file.sha256, _extractor_name(file.path))]
        prepared = await asyncio.to_thread(lambda: [_prepare(file) for file in changed])
        gone = known.keys() - {file.uri for file in files}
        now = to_us(self._clock.now())
        sources = await self._database.write(lambda connection: _store(connection, root, prepared, gone, now))
        return Added(sources, len(prepared), len(files) - len(prepared), len(gone))

    async def add_python_reference(self) -> Source:
        """Index the language reference that this Python carries, if it is not, or was of another Python."""
        version = f"pydoc_topics/{_INDEX_VERSION}/{platform.python_version()}"
        if await self._database.read(lambda connection: _extractor_of(connection, _REFERENCE_URI)) != version:
            prepared = await asyncio.to_thread(_prepare_reference, version)
            now = to_us(self._clock.now())
            await self._database.write(lambda connection: _replace(connection, prepared, PYTHON_REFERENCE, now))
        return (await self.sources([PYTHON_REFERENCE]))[0]

    async def sources(self, scope: Sequence[str] | None = None) -> list[Source]:
        """The indexed sources, by id; with a scope only those of these ids."""
        return await self._database.read(
            lambda connection: [
                _source(row)
                for row in connection.execute(
                    "SELECT * FROM sources WHERE ?1 IS NULL OR source_id IN (SELECT value FROM json_each(?1)) "
                    "ORDER BY source_id",
                    (None if scope is None else json.dumps(list(scope)),),
                )
            ]
        )

    async def search(self, query: str, limit: int = 5, scope: Sequence[str] | None = None) -> list[Hit]:
        """The sections that match best, best first.

        Args:
            query: A question or words.
            limit: How many sections at most.
            scope: Ids of the sources to search; None for all.
        """
        asked = query_of(query)
        found = await self._database.read(lambda connection: text_index.find(connection, asked, limit, scope))
        return [
            Hit(_address(one.source_id, one.anchor), _title(one.source_title, one.title), one.passage, one.score)
            for one in found
        ]

    async def word_counts(self, query: str, scope: Sequence[str] | None = None) -> WordCounts:
        """In how many passages of the sources each word of the query occurs."""
        asked = query_of(query)
        return await self._database.read(lambda connection: text_index.count(connection, asked, scope))

    async def read(self, address: str) -> Section:
        """The section at the address; `NotFound` names the nearest addresses that exist."""
        source_id, _, anchor = address.removeprefix(SCHEME).partition("#")
        row = await self._database.read(
            lambda connection: connection.execute(
                "SELECT s.title, s.text, sources.title AS about FROM sections AS s JOIN sources USING (source_id) "
                "WHERE source_id = ? AND anchor = ?",
                (source_id, anchor),
            ).fetchone()
        )
        if row is None:
            nearest = await self._database.read(lambda connection: _nearest(connection, source_id, anchor))
            advice = f"The nearest addresses are {', '.join(nearest)}." if nearest else "No source is indexed yet."
            raise NotFound(f"There is no source section {address!r}. {advice}")
        return Section(_address(source_id, anchor), _title(row["about"], row["title"]), row["text"])


def _address(source_id: str, anchor: str) -> str:
    return f"{SCHEME}{source_id}#{anchor}"


def _title(source: str, section: str) -> str:
    return section if source == section else f"{source}: {section}"


def _source(row: sqlite3.Row) -> Source:
    return Source(
        row["source_id"], row["uri"], row["title"], from_us(row["fetched_at"]), row["media_type"], row["n_chars"]
    )


def _scan(path: Path) -> tuple[Path, list[_File]]:
    """The path made absolute, and the readable files below it with the hashes of their bytes, by path."""
    root = path.expanduser().resolve()
    if not root.exists():
        raise UsageError(f"The folder {root} does not exist. Pass the path of a folder or of a file.")
    kinds = ", ".join(EXTRACTORS)
    if root.is_file() and root.suffix.lower() not in EXTRACTORS:
        raise UsageError(f"The file {root} is of a kind that cannot be read. Kinds that can: {kinds}.")
    try:
        files = [_File(file, relative, _sha256(file)) for file, relative in _readable(root)]
    except OSError as error:
        raise UsageError(
            f"{error.filename or root} cannot be read ({error.strerror}). Check its permissions."
        ) from error
    if not files:
        raise UsageError(f"The folder {root} holds no file that can be read. Kinds that can: {kinds}.")
    return root, files


def _readable(root: Path) -> Iterator[tuple[Path, PurePosixPath]]:
    if root.is_file():
        yield root, PurePosixPath()
        return
    next(root.iterdir(), None)  # a folder that must not be listed is an error here; below it is merely empty
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        hidden = any(part.startswith(".") for part in relative.parts)
        if not hidden and path.suffix.lower() in EXTRACTORS and path.is_file():
            yield path, PurePosixPath(relative.as_posix())


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _extractor_name(path: Path) -> str:
    return f"{EXTRACTORS[path.suffix.lower()].name}/{_INDEX_VERSION}"


def _prepare(file: _File) -> _Prepared:
    try:
        text = file.path.read_text(encoding="utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise UsageError(f"{file.path} cannot be read ({error.strerror}). Check its permissions.") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file.path} is not UTF-8 text (byte {error.start}: {error.reason}). Save it as UTF-8, or take it out."
        ) from error
    extractor = EXTRACTORS[file.path.suffix.lower()]
    document = extractor.extract(file.path, text)
    return _Prepared(
        file.uri, file.relative, document.title, extractor.media_type, _extractor_name(file.path), file.sha256,
        len(text), tuple(text_index.prepare(document)),
    )  # fmt: skip


def _prepare_reference(version: str) -> _Prepared:
    from pydoc_data.topics import topics

    document = Extracted(
        _REFERENCE_TITLE, tuple(Part(key, _first_line(text, key), text.strip("\n")) for key, text in topics.items())
    )
    n_chars = sum(len(text) for text in topics.values())
    digest = hashlib.sha256(json.dumps(topics, sort_keys=True).encode()).hexdigest()
    sections = tuple(text_index.prepare(document))
    return _Prepared(
        _REFERENCE_URI, PurePosixPath(), _REFERENCE_TITLE, "text/plain", version, digest, n_chars, sections
    )


def _first_line(text: str, fallback: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), fallback)


def _known(connection: sqlite3.Connection, root: Path) -> dict[str, tuple[str, str]]:
    """Hash and extractor of each indexed file at or below the root, by URI."""
    below = root.as_uri().rstrip("/") + "/"
    return {
        row["uri"]: (row["sha256"], row["extractor"])
        for row in connection.execute("SELECT uri, sha256, extractor FROM sources")
        if row["uri"] == root.as_uri() or row["uri"].startswith(below)
    }


def _extractor_of(connection: sqlite3.Connection, uri: str) -> str | None:
    row = connection.execute("SELECT extractor FROM sources WHERE uri = ?", (uri,)).fetchone()
    return None if row is None else str(row["extractor"])


def _store(
    connection: sqlite3.Connection, root: Path, prepared: Iterable[_Prepared], gone: Iterable[str], now: int
) -> tuple[Source, ...]:
    for uri in gone:
        text_index.remove(connection, _id_of(connection, uri) or "")
        connection.execute("DELETE FROM sources WHERE uri = ?", (uri,))
    name = _root_name(connection, root)
    for document in prepared:
        source_id = _id_of(connection, document.uri) or _new_id(connection, name, document.wanted_id)
        _replace(connection, document, source_id, now)
    uris = _known(connection, root)
    rows = connection.execute("SELECT * FROM sources ORDER BY source_id").fetchall()
    return tuple(_source(row) for row in rows if row["uri"] in uris)


def _replace(connection: sqlite3.Connection, document: _Prepared, source_id: str, now: int) -> None:
    text_index.remove(connection, source_id)
    connection.execute("DELETE FROM sources WHERE source_id = ?", (source_id,))
    connection.execute(
        "INSERT INTO sources (source_id, uri, title, fetched_at, media_type, sha256, n_chars, extractor) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (source_id, document.uri, document.title, now, document.media_type, document.sha256, document.n_chars,
         document.extractor),
    )  # fmt: skip
    text_index.insert(connection, source_id, document.sections)


def _id_of(connection: sqlite3.Connection, uri: str) -> str | None:
    row = connection.execute("SELECT source_id FROM sources WHERE uri = ?", (uri,)).fetchone()
    return None if row is None else str(row["source_id"])


def _root_name(connection: sqlite3.Connection, root: Path) -> str:
    """The first part of the folder's ids: its name, numbered if another folder of that name was indexed before."""
    mine = _known(connection, root)
    others = {
        row["source_id"].partition("/")[0]
        for row in connection.execute("SELECT source_id, uri FROM sources")
        if row["uri"] not in mine
    }
    return _free(slug(root.name, "folder"), others)


def _new_id(connection: sqlite3.Connection, root_name: str, relative: PurePosixPath) -> str:
    wanted = "/".join([root_name, *(slug(part, "file") for part in relative.parts)])
    taken = {row["source_id"] for row in connection.execute("SELECT source_id FROM sources")}
    return _free(wanted, taken)


def _free(name: str, taken: set[str]) -> str:
    candidate, n = name, 1
    while candidate in taken:
        n += 1
        candidate = f"{name}-{n}"
    return candidate


def _nearest(connection: sqlite3.Connection, source_id: str, anchor: str) -> list[str]:
    """Addresses that exist: of the same source if there is one, else the first of the sources named most alike."""
    rows = connection.execute("SELECT source_id, anchor FROM sections ORDER BY source_id, position").fetchall()
    anchors = [row["anchor"] for row in rows if row["source_id"] == source_id]
    if anchors:
        alike = difflib.get_close_matches(anchor, anchors, _NEAREST, cutoff=0.3)
        return [_address(source_id, one) for one in alike or anchors[:_NEAREST]]
    first = {row["source_id"]: row["anchor"] for row in reversed(rows)}
    alike = difflib.get_close_matches(source_id, list(first), _NEAREST, cutoff=0.3)
    return [_address(one, first[one]) for one in alike or sorted(first)[:_NEAREST]]
