"""Rows of sources: queries by folder and scope, and replacement of changed sources."""

import difflib
import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from artifactflow_nb.sources import index as text_index
from artifactflow_nb.sources.formats.sections import name_slug, unused_name
from artifactflow_nb.sources.reader import IndexedFile, PreparedDocument, UnchangedFile
from artifactflow_nb.sources.values import Source
from artifactflow_nb.store.encoding import insert, to_json
from artifactflow_nb.store.schema import from_microseconds

SCHEME = "local:"

RelatedAddresses = Callable[[sqlite3.Connection, Iterable[str]], list[str]]
RELATED_ADDRESSES: dict[str, RelatedAddresses] = {}
"""By plugin, the function that returns the sources that a sealed file needs besides the cited sources of a run.

The table belongs to the process, because a file must be complete whichever workbench seals the run. The function of a
plugin that the store does not use finds no rows of the plugin, and adds no source.
"""

_MAX_NEAREST = 5
_MAX_SAMPLED = 50
_KNOWN = "SELECT 1 FROM sources WHERE source_id = ?"
_SOURCES_IN_SCOPE = """
SELECT * FROM sources WHERE ?1 IS NULL OR source_id IN (SELECT value FROM json_each(?1))
    OR substr(source_id, 1, instr(source_id, '/')) IN (SELECT value FROM json_each(?1)) ORDER BY source_id
"""


def section_address(source_id: str, anchor: str) -> str:
    """Return the address of a section: `local:<source>#<anchor>`."""
    return f"{SCHEME}{source_id}#{anchor}"


def source_from_row(row: sqlite3.Row) -> Source:
    """Convert a row of `sources`."""
    return Source(
        row["source_id"],
        row["uri"],
        row["title"],
        from_microseconds(row["fetched_at"]),
        row["media_type"],
        row["n_chars"],
        row["omitted"],
    )


def sources_in_scope(db: sqlite3.Connection, scope: Sequence[str] | None) -> list[Source]:
    """Return the sources of a scope, or all sources if `scope` is None, sorted by id."""
    scope_json = None if scope is None else json.dumps(list(scope))
    return [source_from_row(row) for row in db.execute(_SOURCES_IN_SCOPE, (scope_json,))]


def sources_token(db: sqlite3.Connection) -> tuple[int, int | None]:
    """Return a value that differs after sources were added, changed or removed."""
    n_sources, newest = db.execute("SELECT count(*), max(fetched_at) FROM sources").fetchone()
    return n_sources, newest


def main_sections(db: sqlite3.Connection, scope: Sequence[str], limit: int) -> list[tuple[Source, str]]:
    """Return sources in a scope with the title of the longest section; few sources get further sections, too."""
    sql = f"""
        SELECT * FROM (
            SELECT own.*, sections.title AS section,
                row_number() OVER (PARTITION BY source_id ORDER BY length(text) DESC) AS place
            FROM (SELECT * FROM ({_SOURCES_IN_SCOPE}) LIMIT {_MAX_SAMPLED}) AS own JOIN sections USING (source_id)
            WHERE sections.title <> own.title
        ) ORDER BY place, source_id LIMIT ?2
    """  # noqa: S608 - constants only
    return [(source_from_row(row), row["section"]) for row in db.execute(sql, (json.dumps(list(scope)), limit))]


def sources_in_folder(db: sqlite3.Connection, root: Path) -> tuple[Source, ...]:
    """Return the sources at or below the root, sorted by id."""
    sql = f"SELECT * FROM sources WHERE {_AT_OR_BELOW} ORDER BY source_id"  # noqa: S608 - a constant of this module
    return tuple(source_from_row(row) for row in db.execute(sql, _folder_parameters(root)))


def files_in_folder(db: sqlite3.Connection, root: Path) -> dict[str, IndexedFile]:
    """Return the indexed files at or below the root, by URI."""
    sql = f"SELECT * FROM sources WHERE {_AT_OR_BELOW} ORDER BY uri"  # noqa: S608 - the same
    return {row["uri"]: _indexed_file(row) for row in db.execute(sql, _folder_parameters(root))}


def files_of_sources(db: sqlite3.Connection, source_ids: Iterable[str]) -> dict[str, IndexedFile]:
    """Return the indexed files of some sources, by URI."""
    ids_json = json.dumps(list(source_ids))
    rows = db.execute("SELECT * FROM sources WHERE source_id IN (SELECT value FROM json_each(?))", (ids_json,))
    return {row["uri"]: _indexed_file(row) for row in rows}


def _indexed_file(row: sqlite3.Row) -> IndexedFile:
    return IndexedFile(row["source_id"], row["sha256"], row["extractor"], row["size"], row["mtime_ns"])


_AT_OR_BELOW = "(uri = ? OR uri > ? AND uri < ?)"


def _folder_parameters(root: Path) -> tuple[str, str, str]:
    """Return the parameters of `_AT_OR_BELOW`: the folder, and the range from `folder/` to `folder0`, for the index."""
    uri = root.as_uri()
    below = uri.rstrip("/")
    return uri, f"{below}/", f"{below}0"


def unused_root_name(db: sqlite3.Connection, root: Path) -> str:
    """Return the first part of a folder's source ids: its name, with a number if the name is in use."""
    part = "substr(source_id, 1, instr(source_id || '/', '/') - 1)"
    sql = f"SELECT DISTINCT {part} AS name, {_AT_OR_BELOW} AS is_own FROM sources"  # noqa: S608 - the same
    others = {row["name"] for row in db.execute(sql, _folder_parameters(root)) if not row["is_own"]}
    return unused_name(name_slug(root.name, "folder"), others.__contains__)


def shortest_scope(name: str, source_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the shortest scope of some sources: a prefix for sources in the folder `name`, ids for other sources."""
    prefix = f"{name}/"
    ids = list(source_ids)
    others = [source_id for source_id in ids if not source_id.startswith(prefix)]
    return (*([prefix] if len(others) < len(ids) else []), *others)


def store_outcomes(
    db: sqlite3.Connection,
    root: Path | None,
    outcomes: Iterable[PreparedDocument | UnchangedFile],
    lost: Iterable[str],
    now: int,
) -> None:
    """Store the results of reading files and remove lost sources.

    Args:
        db: A connection in a transaction.
        root: The folder of new sources, the first part of their ids; None to store known sources only.
        outcomes: The results.
        lost: URIs of the sources to remove.
        now: The time of indexing in microseconds.
    """
    remove_sources(db, lost)
    # The name is chosen inside the transaction, so that another folder cannot get the same name.
    name = "" if root is None else unused_root_name(db, root)
    for outcome in outcomes:
        if isinstance(outcome, UnchangedFile):
            stat = outcome.size, outcome.mtime_ns, outcome.uri
            db.execute("UPDATE sources SET size = ?, mtime_ns = ? WHERE uri = ?", stat)
            continue
        source_id = find_source_id(db, outcome.uri)
        if source_id is None and name:
            preferred = "/".join([name, *(name_slug(part, "file") for part in outcome.preferred_id.parts)])
            source_id = unused_name(preferred, lambda unused: db.execute(_KNOWN, (unused,)).fetchone() is not None)
        if source_id:
            replace_source(db, outcome, source_id, now)


def remove_sources(db: sqlite3.Connection, uris: Iterable[str]) -> int:
    """Remove the sources with these URIs; return the number of removed sources."""
    source_ids = [source_id for uri in uris if (source_id := find_source_id(db, uri))]
    for source_id in source_ids:
        text_index.remove(db, source_id)
    return len(source_ids)


def replace_source(db: sqlite3.Connection, document: PreparedDocument, source_id: str, now: int) -> None:
    """Store a document under a source id, replacing the previous document."""
    text_index.remove(db, source_id)
    first = text_index.next_passage(db)
    n_passages = sum(len(section.passages) for section in document.sections)
    row = {
        "source_id": source_id,
        "uri": document.uri,
        "title": document.title,
        "fetched_at": now,
        "media_type": document.media_type,
        "sha256": document.sha256,
        "n_chars": document.n_chars,
        "omitted": document.omitted,
        "extractor": document.extractor,
        "size": document.size,
        "mtime_ns": document.mtime_ns,
        "first_passage": first if n_passages else None,
        "last_passage": first + n_passages - 1 if n_passages else None,
    }
    insert(db, "sources", row)
    text_index.insert(db, source_id, first, document.sections)
    for anchor, metadata in document.metadata:
        insert(db, "source_metadata", {"source_id": source_id, "anchor": anchor, "metadata_json": to_json(metadata)})


def find_source_id(db: sqlite3.Connection, uri: str) -> str | None:
    """Return the id of the source with this URI, or None."""
    row = db.execute("SELECT source_id FROM sources WHERE uri = ?", (uri,)).fetchone()
    return None if row is None else str(row["source_id"])


def find_extractor(db: sqlite3.Connection, uri: str) -> str | None:
    """Return the extractor of the source with this URI, or None."""
    row = db.execute("SELECT extractor FROM sources WHERE uri = ?", (uri,)).fetchone()
    return None if row is None else str(row["extractor"])


def find_section(db: sqlite3.Connection, source_id: str, anchor: str) -> sqlite3.Row | None:
    """Return the title and text of a section, and the title of the source as `about`, or None."""
    row: sqlite3.Row | None = db.execute(
        "SELECT s.title, s.text, sources.title AS about FROM sections AS s JOIN sources USING (source_id) "
        "WHERE source_id = ? AND anchor = ?",
        (source_id, anchor),
    ).fetchone()
    return row


def load_metadata(db: sqlite3.Connection) -> list[tuple[str, dict[str, Any]]]:
    """Return the metadata of all sources and sections, each with the address."""
    return [
        (section_address(row["source_id"], row["anchor"]).rstrip("#"), json.loads(row["metadata_json"]))
        for row in db.execute("SELECT source_id, anchor, metadata_json FROM source_metadata ORDER BY source_id, rowid")
    ]


def nearest_addresses(db: sqlite3.Connection, source_id: str, anchor: str) -> list[str]:
    """Return the most similar addresses: sections of the same source, or the first sections of similar sources."""
    rows = db.execute("SELECT anchor FROM sections WHERE source_id = ? ORDER BY position", (source_id,))
    anchors = [row["anchor"] for row in rows]
    if anchors:
        similar = difflib.get_close_matches(anchor, anchors, _MAX_NEAREST, cutoff=0.3)
        return [section_address(source_id, other) for other in similar or anchors[:_MAX_NEAREST]]
    # Only neighbours in alphabetical order are compared: comparing ten thousand ids would take a second.
    neighbours = [
        *db.execute("SELECT source_id FROM sources WHERE source_id >= ? ORDER BY source_id LIMIT 100", (source_id,)),
        *db.execute(
            "SELECT source_id FROM sources WHERE source_id < ? ORDER BY source_id DESC LIMIT 100", (source_id,)
        ),
    ]
    ids = sorted(row["source_id"] for row in neighbours)
    similar = difflib.get_close_matches(source_id, ids, _MAX_NEAREST, cutoff=0.3) or ids[:_MAX_NEAREST]
    sql = "SELECT anchor FROM sections WHERE source_id = ? ORDER BY position LIMIT 1"
    first_sections = [(other, db.execute(sql, (other,)).fetchone()) for other in similar]
    return [section_address(other, row["anchor"]) for other, row in first_sections if row]
