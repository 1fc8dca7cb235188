"""The works behind the sources of a store, and those that a text cites."""

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

from artifactflow_nb.core.works import Work, find_arxiv_id, find_doi, merge_works, with_keys
from artifactflow_nb.sources.citation_marks import listed_sources
from artifactflow_nb.sources.rows import SCHEME, find_source_id, works_of

_TITLE = """
SELECT json_extract(value, '$.title') FROM tool_calls, json_each(stored_text(metadata_json), '$.results')
WHERE success AND json_extract(value, '$.address') = ?1
UNION ALL SELECT title FROM sources WHERE uri = ?1 OR source_id = ?2
"""
"""The titles of a source: as agents read or found it, and in the index."""


def all_works(db: sqlite3.Connection) -> list[tuple[list[str], Work]]:
    """Return the works of all sources without duplicates, with the addresses of the sources that are or list them."""
    works = dict(works_of(db))
    for work in list(works.values()):
        for path in filter(Path.is_absolute, map(Path, work.files)):  # a bibliography knows more than a PDF says itself
            if source_id := find_source_id(db, path.as_uri()):
                address = f"{SCHEME}{source_id}"
                works[address] = work.merged(works[address]) if address in works else work
    return merge_works(works.items())


def addresses_of_works(db: sqlite3.Connection, cited: Iterable[str]) -> list[str]:
    """Return the addresses of all sources that are or list a work which is cited by address, DOI or arXiv id."""
    names = {name for address in cited for name in _names(address)}
    return [
        address
        for addresses, work in all_works(db)
        if not names.isdisjoint({*addresses, work.doi, work.arxiv_id})
        for address in addresses
    ]


def cited_works(db: sqlite3.Connection, markdown: str) -> dict[int, Work]:
    """Return the works in a text's list of sources by number, each with a unique citation key.

    A source without a known work is a work with its address and the title that is listed or else known. Numbers of one
    work share a key.
    """
    known = {name: work for addresses, work in all_works(db) for name in (work.doi, work.arxiv_id, *addresses) if name}
    cited: dict[int, Work] = {}
    for number, source in listed_sources(markdown).items():
        title = source.title
        if title == source.address:
            ids = title, title.removeprefix(SCHEME).partition("#")[0]
            title = next((row[0] for row in db.execute(_TITLE, ids) if row[0]), title)
        item = {"type": "document", "title": title, "DOI": find_doi(source.address)}
        if not source.address.startswith(SCHEME):
            item |= {"type": "webpage", "URL": source.address}
        cited[number] = next((known[name] for name in _names(source.address) if name in known), Work.of(item))
    unique = unique_works(cited)
    keyed = with_keys(unique)
    return {number: keyed[unique.index(work)] for number, work in cited.items()}


def _names(address: str) -> list[str]:
    """Return the keys by which a work may be found: the address, its file's address, its DOI and arXiv id."""
    names = address, address.partition("#")[0], find_doi(address), find_arxiv_id(address)
    return [name for name in names if name]


def unique_works(works: Mapping[int, Work]) -> list[Work]:
    """Return the works of several numbers without duplicates, in the order of the numbers."""
    unique: list[Work] = []
    for work in works.values():
        if work not in unique:
            unique.append(work)
    return unique
