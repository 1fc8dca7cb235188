"""The full-text index: sections stored verbatim, and their passages as terms in SQLite FTS5.

FTS5 finds candidates among terms that `text.words` made (so that it has nothing left to tokenise but spaces) and counts
them; the rank of a candidate comes from `text.relevance`, the same code that later picks sentences. The passages of a
source are numbered without gaps, so a search of some sources is one of a few ranges of numbers.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from artifactflow_nb.formats.parts import Extracted
from artifactflow_nb.text.blocks import passages
from artifactflow_nb.text.relevance import Scorer, WordCounts, Words
from artifactflow_nb.text.words import Query, terms, title_terms

_CANDIDATES = 150
_SECOND_BEST = 0.15  # what a section's second passage adds to its rank
_MOST_WEIGHED = 16_000  # occurrences of words that candidates are chosen by; the commonest words are left out first
_LEAST_WORDS = 3
_LAST = 2**62

Ranges = Sequence[tuple[int, int]]
"""Numbers of passages, from and to, both included."""

_TURNS = """
WITH marked AS (
    SELECT first_passage, source_id IN (SELECT value FROM json_each(?1))
        OR substr(source_id, 1, instr(source_id, '/')) IN (SELECT value FROM json_each(?1)) AS inside
    FROM sources WHERE first_passage IS NOT NULL
), turns AS (
    SELECT first_passage, inside, lag(inside) OVER (ORDER BY first_passage) AS before FROM marked
)
SELECT first_passage, inside FROM turns WHERE inside IS NOT before ORDER BY first_passage
"""
_BEST = """
SELECT bm25(passage_words, 3.0, 2.0, 1.0) AS rank, rowid AS passage_id FROM passage_words
WHERE passage_words MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank, rowid LIMIT ?
"""
_READ = """
SELECT p.passage_id, p.section_id, p.start, s.source_id, s.anchor, s.title AS section_title,
       sources.title AS source_title, length(s.text) AS n_chars,
       substr(s.text, p.start + 1, p.end - p.start) AS passage, w.title, w.heading, w.body
FROM passages AS p JOIN passage_words AS w ON w.rowid = p.passage_id JOIN sections AS s USING (section_id)
JOIN sources USING (source_id) WHERE p.passage_id IN (SELECT value FROM json_each(?))
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


def insert(
    connection: sqlite3.Connection, source_id: str, sections: Iterable[PreparedSection]
) -> tuple[int, int] | None:
    """Store the sections of a source that has none; the numbers of its first and last passage, None if it has none."""
    first = 1 + _number(connection, "SELECT ifnull(max(passage_id), 0) FROM passages")
    places: list[tuple[int, int | None, int, int]] = []
    words: list[tuple[int, str, str, str]] = []
    for position, section in enumerate(sections):
        section_id = connection.execute(
            "INSERT INTO sections (source_id, anchor, title, text, position) VALUES (?, ?, ?, ?, ?)",
            (source_id, section.anchor, section.title, section.text, position),
        ).lastrowid
        for number, one in enumerate(section.passages, first + len(places)):
            places.append((number, section_id, one.start, one.end))
            words.append((number, one.title, one.heading, one.body))
    connection.executemany("INSERT INTO passages (passage_id, section_id, start, end) VALUES (?, ?, ?, ?)", places)
    connection.executemany("INSERT INTO passage_words (rowid, title, heading, body) VALUES (?, ?, ?, ?)", words)
    return (first, first + len(places) - 1) if places else None


def remove(connection: sqlite3.Connection, source_id: str) -> None:
    """Drop the sections of a source and everything that was indexed of them."""
    connection.execute(
        "DELETE FROM passage_words WHERE rowid IN "
        "(SELECT passage_id FROM passages JOIN sections USING (section_id) WHERE source_id = ?)",
        (source_id,),
    )
    connection.execute("DELETE FROM sections WHERE source_id = ?", (source_id,))


def ranges(connection: sqlite3.Connection, scope: Sequence[str] | None) -> Ranges:
    """The passages of the scope's sources; a name that ends in `/` stands for all sources whose ids begin with it."""
    if scope is None:
        return [(0, _LAST)]
    turns = connection.execute(_TURNS, (json.dumps(list(scope)),)).fetchall()
    if not turns:  # no source is indexed, for example because the only folder is gone
        return []
    ends = [turn["first_passage"] - 1 for turn in turns[1:]] + [_LAST]
    return [(turn["first_passage"], end) for turn, end in zip(turns, ends, strict=True) if turn["inside"]]


def count(connection: sqlite3.Connection, query: Query, within: Ranges) -> WordCounts:
    """In how many passages each term and phrase of the question occurs; phrases that occur nowhere are left out."""
    total = sum(_number(connection, "SELECT count(*) FROM passages WHERE passage_id BETWEEN ? AND ?", *one)
                for one in within)  # fmt: skip
    counts = {term: _count(connection, term, within) for term in (*query.terms, *query.hints, *query.alike)}
    for a, b in query.phrases:
        if found := _count(connection, f"{a} {b}", within):
            counts[f"{a} {b}"] = found
    return WordCounts(total, counts)


def _count(connection: sqlite3.Connection, words: str, within: Ranges) -> int:
    counted = "SELECT count(*) FROM passage_words WHERE passage_words MATCH ?"
    if list(within) == [(0, _LAST)]:
        return _number(connection, counted, _quote(words))
    return sum(_number(connection, f"{counted} AND rowid BETWEEN ? AND ?", _quote(words), *one) for one in within)


def _number(connection: sqlite3.Connection, query: str, *parameters: str | int) -> int:
    return int(connection.execute(query, parameters).fetchone()[0])


def _quote(words: str) -> str:
    return '"' + words.replace('"', '""') + '"'


def find(connection: sqlite3.Connection, query: Query, limit: int, within: Ranges) -> list[Found]:
    """The sections that match best, best first; of sections that share a passage only the shortest is given for it."""
    scorer = Scorer(query, count(connection, query, within))
    known = scorer.counts.counts
    phrases = (f"{a} {b}" for a, b in query.phrases)
    asked = [*query.terms, *query.alike, *(phrase for phrase in phrases if known.get(phrase))]
    rows = _candidates(connection, _telling({words: known[words] for words in asked}), within)
    ranked = sorted(((_rank(scorer, row), row) for row in _most_specific(rows)), key=lambda pair: -pair[0])
    return _by_section(ranked)[:limit]


def _telling(counts: Mapping[str, int]) -> list[str]:
    """The words to choose candidates by: all, but of many common ones the rarest, which tell the most.

    Weighing takes half a microsecond for each passage that holds one of them, and a word of every second passage
    hardly says which one is meant. The rank that candidates are given afterwards rests on all words again.
    """
    found = {words: n for words, n in counts.items() if n}
    kept: list[str] = []
    weighed = 0
    for words in sorted(found, key=lambda words: found[words]):
        weighed += found[words]
        if weighed > _MOST_WEIGHED and len(kept) >= _LEAST_WORDS:
            break
        kept.append(words)
    return [words for words in found if words in set(kept)]


def _candidates(connection: sqlite3.Connection, words: Sequence[str], within: Ranges) -> Iterator[sqlite3.Row]:
    """The passages that FTS5 ranks best, best first."""
    if not words:
        return
    match = " OR ".join(map(_quote, words))
    best = [tuple(row) for one in within for row in connection.execute(_BEST, (match, *one, _CANDIDATES))]
    chosen = [passage_id for _, passage_id in sorted(best)[:_CANDIDATES]]
    rows = {row["passage_id"]: row for row in connection.execute(_READ, (json.dumps(chosen),))}
    yield from (rows[passage_id] for passage_id in chosen)


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
