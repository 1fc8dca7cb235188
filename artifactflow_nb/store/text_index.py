"""The full-text index: sections stored verbatim, and their passages as terms in SQLite FTS5.

FTS5 finds candidates among terms that `text.words` made (so that it has nothing left to tokenise but spaces) and counts
them; the rank of a candidate comes from `text.relevance`, the same code that later picks sentences.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from artifactflow_nb.store.extract import Extracted
from artifactflow_nb.text.blocks import passages
from artifactflow_nb.text.relevance import Scorer, WordCounts, Words
from artifactflow_nb.text.words import Query, terms, title_terms

_CANDIDATES = 150
_SECOND_BEST = 0.15  # what a section's second passage adds to its rank

_FIND = """
SELECT p.section_id, p.start, s.source_id, s.anchor, s.title AS section_title, sources.title AS source_title,
       length(s.text) AS n_chars, substr(s.text, p.start + 1, p.end - p.start) AS passage, w.title, w.heading, w.body
FROM passage_words AS w JOIN passages AS p ON p.passage_id = w.rowid JOIN sections AS s USING (section_id)
JOIN sources USING (source_id)
WHERE passage_words MATCH ? AND (?2 IS NULL OR s.source_id IN (SELECT value FROM json_each(?2)))
ORDER BY bm25(passage_words, 3.0, 2.0, 1.0), p.passage_id LIMIT ?3
"""
_COUNT = """
SELECT count(*) FROM passage_words AS w JOIN passages AS p ON p.passage_id = w.rowid
JOIN sections AS s USING (section_id)
WHERE passage_words MATCH ? AND (?2 IS NULL OR s.source_id IN (SELECT value FROM json_each(?2)))
"""
_COUNT_ALL = """
SELECT count(*) FROM passages AS p JOIN sections AS s USING (section_id)
WHERE (?1 IS NULL OR s.source_id IN (SELECT value FROM json_each(?1)))
"""


@dataclass(frozen=True, slots=True)
class PreparedPassage:
    """A passage with its terms, ready to be stored."""

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
class Found:
    """A section that matches, with its best passage.

    Attributes:
        source_id: The source that it belongs to.
        anchor: Its name within the source.
        title: Its own title.
        source_title: The source's title.
        passage: The verbatim text of its best passage.
        score: Its rank: higher is better, comparable within one search only.
    """

    source_id: str
    anchor: str
    title: str
    source_title: str
    passage: str
    score: float


def prepare(document: Extracted) -> list[PreparedSection]:
    """Cut and tokenise: the slow part of indexing, which needs no database."""
    about = terms(document.title)
    return [
        PreparedSection(part.anchor, part.title, part.text, _passages(part.anchor, part.title, part.text, about))
        for part in document.parts
    ]


def _passages(anchor: str, title: str, text: str, about: Sequence[str]) -> tuple[PreparedPassage, ...]:
    named = " ".join([*title_terms(anchor), *title_terms(title)])
    prepared = []
    for p in passages(text):
        heading, body = " ".join([*about, *title_terms(p.heading)]), " ".join(terms(text[p.start : p.end]))
        prepared.append(PreparedPassage(p.start, p.end, named, heading, body))
    return tuple(prepared)


def insert(connection: sqlite3.Connection, source_id: str, sections: Iterable[PreparedSection]) -> None:
    """Store the sections of a source that has none."""
    for position, section in enumerate(sections):
        section_id = connection.execute(
            "INSERT INTO sections (source_id, anchor, title, text, position) VALUES (?, ?, ?, ?, ?)",
            (source_id, section.anchor, section.title, section.text, position),
        ).lastrowid
        for passage in section.passages:
            passage_id = connection.execute(
                "INSERT INTO passages (section_id, start, end) VALUES (?, ?, ?)",
                (section_id, passage.start, passage.end),
            ).lastrowid
            connection.execute(
                "INSERT INTO passage_words (rowid, title, heading, body) VALUES (?, ?, ?, ?)",
                (passage_id, passage.title, passage.heading, passage.body),
            )


def remove(connection: sqlite3.Connection, source_id: str) -> None:
    """Drop the sections of a source and everything that was indexed of them."""
    connection.execute(
        "DELETE FROM passage_words WHERE rowid IN "
        "(SELECT passage_id FROM passages JOIN sections USING (section_id) WHERE source_id = ?)",
        (source_id,),
    )
    connection.execute("DELETE FROM sections WHERE source_id = ?", (source_id,))


def count(connection: sqlite3.Connection, query: Query, scope: Sequence[str] | None) -> WordCounts:
    """In how many passages each term and phrase of the question occurs; phrases that occur nowhere are left out."""
    within = _scope(scope)
    total = int(connection.execute(_COUNT_ALL, (within,)).fetchone()[0])
    counts = {term: _count(connection, _quote(term), within) for term in (*query.terms, *query.hints, *query.alike)}
    for a, b in query.phrases:
        if found := _count(connection, _quote(f"{a} {b}"), within):
            counts[f"{a} {b}"] = found
    return WordCounts(total, counts)


def _count(connection: sqlite3.Connection, match: str, within: str | None) -> int:
    return int(connection.execute(_COUNT, (match, within)).fetchone()[0])


def _quote(words: str) -> str:
    return '"' + words.replace('"', '""') + '"'


def _scope(scope: Sequence[str] | None) -> str | None:
    return None if scope is None else json.dumps(list(scope))


def find(connection: sqlite3.Connection, query: Query, limit: int, scope: Sequence[str] | None) -> list[Found]:
    """The sections that match best, best first; of sections that share a passage only the shortest is given for it."""
    scorer = Scorer(query, count(connection, query, scope))
    wanted = [
        *query.terms,
        *query.alike,
        *(f"{a} {b}" for a, b in query.phrases if scorer.counts.counts.get(f"{a} {b}")),
    ]
    if not wanted:
        return []
    match = " OR ".join(_quote(term) for term in wanted)
    rows = connection.execute(_FIND, (match, _scope(scope), _CANDIDATES)).fetchall()
    ranked = sorted(((_rank(scorer, row), row) for row in _most_specific(rows)), key=lambda pair: -pair[0])
    return _by_section(ranked)[:limit]


def _rank(scorer: Scorer, row: sqlite3.Row) -> float:
    return scorer.rank(Words(row["title"].split(), row["heading"].split(), row["body"].split()))


def _most_specific(rows: Iterable[sqlite3.Row]) -> list[sqlite3.Row]:
    """Of passages with the same words, the one in the shortest section: the others repeat it among more."""
    kept: dict[str, sqlite3.Row] = {}
    for row in rows:
        other = kept.get(row["body"])
        if other is None or row["n_chars"] < other["n_chars"]:
            kept[row["body"]] = row
    return list(kept.values())


def _by_section(ranked: Iterable[tuple[float, sqlite3.Row]]) -> list[Found]:
    scores: dict[int, list[float]] = {}
    best: dict[int, sqlite3.Row] = {}
    for score, row in ranked:
        best.setdefault(row["section_id"], row)
        scores.setdefault(row["section_id"], []).append(score)
    found = [
        Found(
            row["source_id"], row["anchor"], row["section_title"], row["source_title"], row["passage"],
            scores[key][0] + _SECOND_BEST * sum(scores[key][1:2]),
        )
        for key, row in best.items()
    ]  # fmt: skip
    return sorted(found, key=lambda entry: (-entry.score, entry.source_id, entry.anchor))
