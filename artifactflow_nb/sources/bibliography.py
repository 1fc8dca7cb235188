"""The works behind the sources of a store, and those that a text cites."""

import sqlite3
from collections.abc import Mapping

from artifactflow_nb.core.works import Work, find_arxiv_id, find_doi, merge_works, with_keys
from artifactflow_nb.sources.citation_marks import listed_sources
from artifactflow_nb.sources.rows import SCHEME, works_of


def all_works(db: sqlite3.Connection) -> list[tuple[list[str], Work]]:
    """The works of all sources, each once, with the addresses of the sources that are it or list it."""
    return merge_works(works_of(db))


def cited_works(db: sqlite3.Connection, markdown: str) -> dict[int, Work]:
    """The works that a text lists as its sources, by number, each with a citation key of its own.

    A source without a known work is a work with its title and its address. Numbers of one work have one key.
    """
    works = all_works(db)
    by_address = {address: work for addresses, work in works for address in addresses}
    by_identifier = {name: work for _, work in works for name in (work.doi, work.arxiv_id) if name}
    cited: dict[int, Work] = {}
    for number, source in listed_sources(markdown).items():
        whole = source.address.partition("#")[0]
        identifiers = find_doi(source.address), find_arxiv_id(source.address)
        known = [by_address.get(address) for address in (source.address, whole)]
        known += [by_identifier.get(name) for name in identifiers if name]
        item = {"type": "document", "title": source.title, "DOI": identifiers[0]}
        if not source.address.startswith(SCHEME):
            item |= {"type": "webpage", "URL": source.address}
        cited[number] = next(filter(None, known), Work.of(item))
    unique = unique_works(cited)
    keyed = with_keys(unique)
    return {number: keyed[unique.index(work)] for number, work in cited.items()}


def unique_works(works: Mapping[int, Work]) -> list[Work]:
    """The works of several numbers, each once, in the order of the numbers."""
    unique: list[Work] = []
    for work in works.values():
        if work not in unique:
            unique.append(work)
    return unique
