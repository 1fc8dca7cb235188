"""The rows of sources: what is known of a folder, and what replaces it."""

import difflib
import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath

from artifactflow_nb.formats.parts import slug
from artifactflow_nb.store import text_index
from artifactflow_nb.store.database import insert
from artifactflow_nb.store.file_reading import KnownFile, Prepared, Same
from artifactflow_nb.store.schema import from_us
from artifactflow_nb.store.source_values import Source

SCHEME = "local:"
_NEAREST = 5
_OF_SCOPE = """
SELECT * FROM sources WHERE ?1 IS NULL OR source_id IN (SELECT value FROM json_each(?1))
    OR substr(source_id, 1, instr(source_id, '/')) IN (SELECT value FROM json_each(?1)) ORDER BY source_id
"""


def address(source_id: str, anchor: str) -> str:
    """Where a section is read."""
    return f"{SCHEME}{source_id}#{anchor}"


def as_source(row: sqlite3.Row) -> Source:
    """The row as a value."""
    return Source(
        row["source_id"], row["uri"], row["title"], from_us(row["fetched_at"]), row["media_type"], row["n_chars"]
    )


def of_scope(db: sqlite3.Connection, scope: Sequence[str] | None) -> list[Source]:
    """The sources of a scope, all without one, by id."""
    return [as_source(row) for row in db.execute(_OF_SCOPE, (None if scope is None else json.dumps(list(scope)),))]


def of_folder(db: sqlite3.Connection, root: Path) -> tuple[Source, ...]:
    """The sources at or below the root, by id."""
    return tuple(as_source(row) for row in _at_or_below(db, root, "*", "source_id"))


def known_files(db: sqlite3.Connection, root: Path) -> dict[str, KnownFile]:
    """What is known of the files at or below the root, by URI."""
    rows = _at_or_below(db, root, "uri, source_id, sha256, extractor, size, mtime_ns", "uri")
    return {row["uri"]: _known(row) for row in rows}


def files_of(db: sqlite3.Connection, source_ids: Iterable[str]) -> dict[str, KnownFile]:
    """What is known of the files of these sources, by URI."""
    asked = json.dumps(list(source_ids))
    rows = db.execute("SELECT * FROM sources WHERE source_id IN (SELECT value FROM json_each(?))", (asked,))
    return {row["uri"]: _known(row) for row in rows}


def _known(row: sqlite3.Row) -> KnownFile:
    return KnownFile(row["source_id"], row["sha256"], row["extractor"], row["size"], row["mtime_ns"])


def _at_or_below(db: sqlite3.Connection, root: Path, columns: str, order: str) -> list[sqlite3.Row]:
    uri = root.as_uri()
    below = uri.rstrip("/")
    return db.execute(
        f"SELECT {columns} FROM sources WHERE uri = ? OR uri > ? AND uri < ? ORDER BY {order}",  # noqa: S608 - names of this module
        (uri, below + "/", below + "0"),  # 0 follows the slash
    ).fetchall()


def root_name(db: sqlite3.Connection, root: Path) -> str:
    """The first part of the folder's ids: its name, numbered if another folder of that name was indexed before."""
    uri = root.as_uri()
    below = uri.rstrip("/")
    others = {
        row[0]
        for row in db.execute(
            "SELECT DISTINCT substr(source_id, 1, instr(source_id || '/', '/') - 1) FROM sources "
            "WHERE NOT (uri = ? OR uri > ? AND uri < ?)",
            (uri, below + "/", below + "0"),
        )
    }
    return _free(slug(root.name, "folder"), others.__contains__)


def scope_of(name: str, source_ids: Iterable[str]) -> tuple[str, ...]:
    """The shortest scope that names these sources: the folder of the name as one, all others singly."""
    inside = f"{name}/"
    ids = list(source_ids)
    single = [source_id for source_id in ids if not source_id.startswith(inside)]
    return (*([inside] if len(single) < len(ids) else []), *single)


def apply(
    db: sqlite3.Connection, root: Path | None, outcomes: Iterable[Prepared | Same], lost: Iterable[str], now: int
) -> None:
    """Store what was read of files and drop the sources of lost ones.

    Args:
        db: A connection in a transaction.
        root: The folder of new sources, whose name their ids begin with; None to store known sources only. The name is
            looked up here, where nobody else can take it for another folder.
        outcomes: What was read.
        lost: URIs of sources that are no more.
        now: When, as the store has it.
    """
    remove(db, lost)
    name = "" if root is None else root_name(db, root)
    for one in outcomes:
        if isinstance(one, Same):
            db.execute("UPDATE sources SET size = ?, mtime_ns = ? WHERE uri = ?", (one.size, one.mtime_ns, one.uri))
        elif source_id := id_of(db, one.uri) or (_new_id(db, name, one.wanted_id) if name else None):
            replace(db, one, source_id, now)


def remove(db: sqlite3.Connection, uris: Iterable[str]) -> int:
    """Drop the sources with these URIs; how many there were."""
    found = [source_id for uri in uris if (source_id := id_of(db, uri))]
    for source_id in found:
        text_index.remove(db, source_id)
        db.execute("DELETE FROM sources WHERE source_id = ?", (source_id,))
    return len(found)


def replace(db: sqlite3.Connection, document: Prepared, source_id: str, now: int) -> None:
    """Store the document as this source, in the place of what it was."""
    text_index.remove(db, source_id)
    db.execute("DELETE FROM sources WHERE source_id = ?", (source_id,))
    row = {
        "source_id": source_id,
        "uri": document.uri,
        "title": document.title,
        "fetched_at": now,
        "media_type": document.media_type,
        "sha256": document.sha256,
        "n_chars": document.n_chars,
        "extractor": document.extractor,
        "size": document.size,
        "mtime_ns": document.mtime_ns,
    }
    insert(db, "sources", row)
    first, last = text_index.insert(db, source_id, document.sections) or (None, None)
    db.execute("UPDATE sources SET first_passage = ?, last_passage = ? WHERE source_id = ?", (first, last, source_id))


def id_of(db: sqlite3.Connection, uri: str) -> str | None:
    """The id of the source with this URI."""
    row = db.execute("SELECT source_id FROM sources WHERE uri = ?", (uri,)).fetchone()
    return None if row is None else str(row["source_id"])


def extractor_of(db: sqlite3.Connection, uri: str) -> str | None:
    """What made the source with this URI."""
    row = db.execute("SELECT extractor FROM sources WHERE uri = ?", (uri,)).fetchone()
    return None if row is None else str(row["extractor"])


def section(db: sqlite3.Connection, source_id: str, anchor: str) -> sqlite3.Row | None:
    """The title, the text and (`about`) the source's title of a section."""
    row: sqlite3.Row | None = db.execute(
        "SELECT s.title, s.text, sources.title AS about FROM sections AS s JOIN sources USING (source_id) "
        "WHERE source_id = ? AND anchor = ?",
        (source_id, anchor),
    ).fetchone()
    return row


def _new_id(db: sqlite3.Connection, name: str, relative: PurePosixPath) -> str:
    wanted = "/".join([name, *(slug(part, "file") for part in relative.parts)])
    taken = "SELECT 1 FROM sources WHERE source_id = ?"
    return _free(wanted, lambda one: db.execute(taken, (one,)).fetchone() is not None)


def _free(name: str, taken: Callable[[str], bool]) -> str:
    candidate, n = name, 1
    while taken(candidate):
        n += 1
        candidate = f"{name}-{n}"
    return candidate


def nearest(db: sqlite3.Connection, source_id: str, anchor: str) -> list[str]:
    """Addresses that exist: of the same source if there is one, else the first of the sources named most alike."""
    rows = db.execute("SELECT anchor FROM sections WHERE source_id = ? ORDER BY position", (source_id,))
    anchors = [row["anchor"] for row in rows]
    if anchors:
        alike = difflib.get_close_matches(anchor, anchors, _NEAREST, cutoff=0.3)
        return [address(source_id, one) for one in alike or anchors[:_NEAREST]]
    around = [
        *db.execute("SELECT source_id FROM sources WHERE source_id >= ? ORDER BY source_id LIMIT 100", (source_id,)),
        *db.execute(
            "SELECT source_id FROM sources WHERE source_id < ? ORDER BY source_id DESC LIMIT 100", (source_id,)
        ),
    ]  # comparing with each of ten thousand names would take a second
    ids = sorted(row["source_id"] for row in around)
    alike = difflib.get_close_matches(source_id, ids, _NEAREST, cutoff=0.3) or ids[:_NEAREST]
    first = "SELECT anchor FROM sections WHERE source_id = ? ORDER BY position LIMIT 1"
    found = [(one, db.execute(first, (one,)).fetchone()) for one in alike]
    return [address(one, row["anchor"]) for one, row in found if row]
