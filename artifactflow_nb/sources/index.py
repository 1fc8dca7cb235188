"""The full-text index: verbatim sections, and their passages in SQLite FTS5.

FTS5 splits the passages into words, stems them and ranks them (bm25). The passages of a source are numbered without
gaps, so a search of some sources covers a few ranges of numbers.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from artifactflow_nb.sources.formats.sections import ExtractedDocument
from artifactflow_nb.sources.retrieval.passages import split_passages
from artifactflow_nb.sources.retrieval.scoring import WordCounts
from artifactflow_nb.sources.retrieval.terms import Query, fold, indexed_text

_CANDIDATES = 150
_LAST = 2**62

PassageRanges = Sequence[tuple[int, int]]
"""Ranges of passage numbers, first and last included."""

_INSIDE = """
first_passage IS NOT NULL AND '-local:' || source_id NOT IN (SELECT value FROM json_each(?1))
    AND (substr(source_id, 1, instr(source_id, '/')) IN (SELECT value FROM json_each(?1))
    OR source_id IN (SELECT value FROM json_each(?1)))
"""
_SCOPE_START = f"SELECT first_passage FROM sources WHERE {_INSIDE} ORDER BY first_passage LIMIT 1"  # noqa: S608 - a constant
_SCOPE_END = f"SELECT last_passage FROM sources WHERE {_INSIDE} ORDER BY first_passage DESC LIMIT 1"  # noqa: S608 - the same
_HAS_OTHERS = f"""
SELECT EXISTS (SELECT 1 FROM sources WHERE first_passage BETWEEN ?2 AND ?3 AND NOT ({_INSIDE}))
"""  # noqa: S608 - the same
_SCOPE_BOUNDARIES = f"""
WITH marked AS (
    SELECT first_passage, {_INSIDE} AS inside FROM sources WHERE first_passage IS NOT NULL
), boundaries AS (
    SELECT first_passage, inside, lag(inside) OVER (ORDER BY first_passage) AS before FROM marked
)
SELECT first_passage, inside FROM boundaries WHERE inside IS NOT before ORDER BY first_passage
"""  # noqa: S608 - the same
_BEST = """
SELECT bm25(passage_words, 3.0, 2.0, 1.0) AS rank, rowid AS passage_id FROM passage_words
WHERE passage_words MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank, rowid LIMIT ?
"""
_READ = """
SELECT p.passage_id, p.section_id, p.start, s.source_id, s.anchor, s.title AS section_title,
       sources.title AS source_title, length(s.text) AS n_chars,
       substr(s.text, p.start + 1, p.end - p.start) AS passage
FROM passages AS p JOIN sections AS s USING (section_id)
JOIN sources USING (source_id) WHERE p.passage_id IN (SELECT value FROM json_each(?))
"""


_INSERT_SECTION = (
    "INSERT INTO sections (section_id, source_id, anchor, title, text, position) VALUES (?, ?, ?, ?, ?, ?)"
)


class PreparedPassage(NamedTuple):
    """A passage with the texts for the index of FTS5, ready to be stored."""

    start: int
    end: int
    title: str
    heading: str
    body: str


@dataclass(frozen=True, slots=True)
class PreparedSection:
    """A section with its passages, ready to be stored."""

    anchor: str
    title: str
    text: str
    passages: tuple[PreparedPassage, ...]


@dataclass(frozen=True, slots=True)
class IndexHit:
    """A matching section with its best passage.

    Attributes:
        passage: The verbatim text of the best passage of the section.
        score: The score of the passage in FTS5 (bm25); higher is better, comparable within one search only. None
            if a vector found the passage.
        similarity: The cosine of the angle between the vectors of query and passage; None without vectors.
    """

    source_id: str
    anchor: str
    title: str
    source_title: str
    passage: str
    score: float | None
    passage_id: int
    similarity: float | None = None


def prepare(document: ExtractedDocument) -> list[PreparedSection]:
    """Split a document into passages; this is the slow part of indexing, which needs no database."""
    sections = []
    for section in document.sections:
        title = indexed_text(f"{section.anchor} {section.title}")
        passages = []
        for p in split_passages(section.text):
            heading = indexed_text(f"{document.title} {p.heading}")
            body = indexed_text(section.text[p.start : p.end])
            passages.append(PreparedPassage(p.start, p.end, title, heading, body))
        sections.append(PreparedSection(section.anchor, section.title, section.text, tuple(passages)))
    return sections


def insert(
    connection: sqlite3.Connection, source_id: str, first_passage: int, sections: Iterable[PreparedSection]
) -> None:
    """Store the sections of a new source, and the passages with numbers from `first_passage`."""
    first_section = 1 + _number(connection, "SELECT ifnull(max(section_id), 0) FROM sections")
    rows: list[tuple[int, str, str, str, str, int]] = []
    places: list[tuple[int, int, int, int]] = []
    words: list[tuple[int, str, str, str]] = []
    for position, section in enumerate(sections):
        section_id = first_section + position
        rows.append((section_id, source_id, section.anchor, section.title, section.text, position))
        for number, passage in enumerate(section.passages, first_passage + len(places)):
            places.append((number, section_id, passage.start, passage.end))
            words.append((number, passage.title, passage.heading, passage.body))
    connection.executemany(_INSERT_SECTION, rows)
    connection.executemany("INSERT INTO passages (passage_id, section_id, start, end) VALUES (?, ?, ?, ?)", places)
    connection.executemany("INSERT INTO passage_words (rowid, title, heading, body) VALUES (?, ?, ?, ?)", words)


def next_passage(connection: sqlite3.Connection) -> int:
    """Return the number for the next passage; passages of a source are numbered without gaps."""
    return 1 + _number(connection, "SELECT ifnull(max(passage_id), 0) FROM passages")


def remove(connection: sqlite3.Connection, source_id: str) -> None:
    """Remove a source with its sections, passages and terms."""
    sql = "SELECT first_passage, last_passage FROM sources WHERE source_id = ?"
    row = connection.execute(sql, (source_id,)).fetchone()
    if row is None:  # a new source, for which the statements below would take a tenth of the time of its indexing
        return
    connection.execute("DELETE FROM passage_words WHERE rowid BETWEEN ? AND ?", tuple(row))
    connection.execute("DELETE FROM sections WHERE source_id = ?", (source_id,))
    connection.execute("DELETE FROM sources WHERE source_id = ?", (source_id,))


def ranges(connection: sqlite3.Connection, scope: Sequence[str] | None) -> PassageRanges:
    """Return the passage ranges of a scope; `name/` is a prefix of source ids, `-local:id` leaves a source out."""
    if scope is None:
        return [(0, _LAST)]
    entries = json.dumps(list(scope))
    start = connection.execute(_SCOPE_START, (entries,)).fetchone()
    if start is None:  # no source is indexed, for example because the only folder was deleted
        return []
    limits = start[0], _number(connection, _SCOPE_END, entries)
    if not _number(connection, _HAS_OTHERS, entries, *limits):  # as for most folders, which are indexed in one go
        return [limits]
    boundaries = connection.execute(_SCOPE_BOUNDARIES, (entries,)).fetchall()
    ends = [boundary["first_passage"] - 1 for boundary in boundaries[1:]] + [_LAST]
    return [
        (boundary["first_passage"], end) for boundary, end in zip(boundaries, ends, strict=True) if boundary["inside"]
    ]


def count(connection: sqlite3.Connection, query: Query, ranges_in_scope: PassageRanges) -> WordCounts:
    """Count the passages with each term of a query."""
    n_passages = (
        "SELECT ifnull(sum(last_passage - first_passage + 1), 0) FROM sources WHERE first_passage BETWEEN ? AND ?"
    )
    total = sum(_number(connection, n_passages, *part) for part in ranges_in_scope)
    counts = {term: _count(connection, query.spellings[term], ranges_in_scope) for term in query.terms}
    return WordCounts(total, counts)


def _count(connection: sqlite3.Connection, words: str, within: PassageRanges) -> int:
    sql = "SELECT count(*) FROM passage_words WHERE passage_words MATCH ?"
    if list(within) == [(0, _LAST)]:
        return _number(connection, sql, _quote(words))
    return sum(_number(connection, f"{sql} AND rowid BETWEEN ? AND ?", _quote(words), *limits) for limits in within)


def _number(connection: sqlite3.Connection, query: str, *parameters: str | int) -> int:
    return int(connection.execute(query, parameters).fetchone()[0])


def _quote(words: str) -> str:
    return f'"{fold(words)}"'


def find(connection: sqlite3.Connection, query: Query, limit: int, ranges_in_scope: PassageRanges) -> list[IndexHit]:
    """Find the best sections, best first; of sections with the same passage, return only the shortest."""
    match = " OR ".join(map(_quote, query.spellings.values()))
    if not match:
        return []
    best = sorted(
        tuple(row) for part in ranges_in_scope for row in connection.execute(_BEST, (match, *part, _CANDIDATES))
    )
    scores = {passage_id: -rank for rank, passage_id in best[:_CANDIDATES]}
    rows = {row["passage_id"]: row for row in connection.execute(_READ, (json.dumps(list(scores)),))}
    by_text: dict[str, sqlite3.Row] = {}
    for row in (rows[passage_id] for passage_id in scores):
        other = by_text.setdefault(row["passage"], row)
        if row["n_chars"] < other["n_chars"]:
            by_text[row["passage"]] = row
    by_section: dict[int, IndexHit] = {}
    for row in by_text.values():
        names = row["source_id"], row["anchor"], row["section_title"], row["source_title"], row["passage"]
        number = row["passage_id"]
        by_section.setdefault(row["section_id"], IndexHit(*names, scores[number], number))
    return list(by_section.values())[:limit]


def sections_of(connection: sqlite3.Connection, passages: Sequence[tuple[int, float]]) -> list[IndexHit]:
    """Return the sections of passages with their similarities, in order, each section once with its first passage."""
    rows = connection.execute(_READ, (json.dumps([number for number, _ in passages]),))
    by_number = {row["passage_id"]: row for row in rows}
    hits: dict[int, IndexHit] = {}
    for number, similarity in passages:
        if (row := by_number.get(number)) is not None:
            names = row["source_id"], row["anchor"], row["section_title"], row["source_title"], row["passage"]
            hits.setdefault(row["section_id"], IndexHit(*names, None, number, similarity))
    return list(hits.values())
