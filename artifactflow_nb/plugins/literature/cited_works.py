"""The works behind the sources of a store, and the works that a text cites."""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from artifactflow_nb.plugins.literature.works import Work, find_arxiv_id, find_doi, merge_works, with_keys
from artifactflow_nb.sources.citation_marks import ListedSource
from artifactflow_nb.sources.rows import SCHEME, find_source_id, load_metadata
from artifactflow_nb.sources.values import NOT_READ, Evidence

_TITLE = """
SELECT json_extract(value, '$.title') FROM tool_calls, json_each(stored_text(metadata_json), '$.results')
WHERE success AND json_extract(value, '$.address') = ?1
UNION ALL SELECT title FROM sources WHERE uri = ?1 OR source_id = ?2
"""
"""The titles of a source: in the results of agents, and in the index."""


def all_works(db: sqlite3.Connection) -> list[tuple[list[str], Work]]:
    """Return the works of all sources without duplicates, with the addresses of sources that are or list the work."""
    own = {address: Work(item) for address, item in load_metadata(db)}
    attached: dict[str, list[str]] = {}
    for address, work in own.items():
        ids = [find_source_id(db, Path(file).as_uri()) for file in work.files if Path(file).is_absolute()]
        attached[address] = [f"{SCHEME}{source_id}" for source_id in ids if source_id]
    for address, files in attached.items():  # a bibliography knows more than a PDF says itself
        for file in filter(own.__contains__, files):
            own[address] = own[address].merged(own[file])
    described = {file for files in attached.values() for file in files}
    return merge_works(
        ([address, *attached[address]], work) for address, work in own.items() if address not in described
    )


def addresses_of_works(db: sqlite3.Connection, cited: Iterable[str]) -> list[str]:
    """Return the addresses of all sources that are or list a work which is cited by address, DOI or arXiv id."""
    names = {name for address in cited for name in _names(address)}
    return [
        address
        for addresses, work in all_works(db)
        if not names.isdisjoint({*addresses, work.doi, work.arxiv_id})
        for address in addresses
    ]


def cited_works(
    db: sqlite3.Connection, listed: Mapping[int, ListedSource], load_evidence: Callable[[Collection[str]], Evidence]
) -> dict[int, Work]:
    """Return the works of listed sources by the number in the list, each with a unique citation key.

    A source without a known work becomes a work with the address, and the title in the list or the index. Numbers of a
    work share a key. If the run has read no address of a work (see `load_evidence`), the note of the work says so.
    """
    by_name: dict[str, tuple[list[str], Work]] = {}
    ambiguous = {""}  # such as a book's DOI, which its chapters also have
    for addresses, work in all_works(db):
        names = {work.doi, work.arxiv_id, *addresses}
        ambiguous |= names & by_name.keys()
        by_name |= dict.fromkeys(names, (addresses, work))
    for name in ambiguous:
        by_name.pop(name, None)
    cited: dict[int, Work] = {}
    addressed: list[tuple[set[str], Work]] = []
    for _, source in sorted(listed.items()):
        title = source.title
        if title == source.address:
            ids = title, title.removeprefix(SCHEME).partition("#")[0]
            title = next((row[0] for row in db.execute(_TITLE, ids) if row[0]), title)
        item = {"type": "document", "title": title, "DOI": find_doi(source.address)}
        if not source.address.startswith(SCHEME):
            item |= {"type": "webpage", "URL": source.address}
        matches = (by_name[name] for name in _names(source.address) if name in by_name)
        addresses, cited[source.number] = next(matches, ([], Work.of(item)))
        addressed.append(({source.address, *addresses}, cited[source.number]))
    evidence = load_evidence({address for addresses, _ in addressed for address in addresses})
    read = [work for addresses, work in addressed if not all(map(evidence.is_unread, addresses))]
    unique: list[Work] = []
    for work in cited.values():
        if work not in unique:
            unique.append(work)
    noted = (Work({**work.item, "note": f"{work.item.get('note', '')} {NOT_READ}".strip()}) for work in unique)
    marked = (new.with_custom(is_unread=True) for new in noted)
    keyed = with_keys(work if work in read else new for work, new in zip(unique, marked, strict=True))
    return {number: keyed[unique.index(work)] for number, work in cited.items()}


def _names(address: str) -> list[str]:
    """Return the names under which a work may be found: the address, the file's address, the DOI and the arXiv id."""
    names = address, address.partition("#")[0], find_doi(address), find_arxiv_id(address)
    return [name for name in names if name]
