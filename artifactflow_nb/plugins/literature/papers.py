"""The work that a PDF contains, from the metadata of the file and the head of the first page."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from artifactflow_nb.plugins.literature.works import (
    RETRACTED_NOTE,
    RETRACTED_TITLE,
    Work,
    find_arxiv_id,
    find_doi,
    parse_name,
)
from artifactflow_nb.sources.formats.sections import Metadata

_LABELLED_DOI = re.compile(r"(?i)doi(?:\.org/|\s*:?\s*)(10\.\d{4,9}/\S+)")
_YEAR = r"(?:19|20)\d{2}"
_DATED = re.compile(
    rf"(?i)(?:©|\(c\)|copyright|published|accepted|vol(?:ume|\.)?\s*\d+[^\n]{{0,40}}?|\d\s?\()\D{{0,40}}?\b({_YEAR})\b"
)
_ARXIV_YEAR = re.compile(r"(\d{2})(?:0[1-9]|1[0-2])\.")
_ARXIV_STAMP = re.compile(r"arXiv:\d{4}\.\d{4,5}v\d+\s+\[[\w.-]+\]\s+\d{1,2} \w{3} \d{4}")
"""The stamp at the edge of the first page."""
_HEAD_END = re.compile(
    r"(?im)^[^\w\n]{0,10}(?:abstract\b(?=\W*$|[.:—–-]|\s+(?-i:[A-Z]))"
    r"|(?:(?:(?:1|I)\.?\s+)?introduction|summary|zusammenfassung|résumé|references|key\s?words?|index terms)"
    r"\s*(?:$|[.:—–-]))"
)
_MAX_HEAD_COLUMNS = 500
_HEAD_LINES = 15  # after the title, if no heading follows
_OTHER_WORK = re.compile(
    r"(?i)\b(?:comment|correct|corrigend|errat|repl[iy]|respon|supplement|retract|review)|\([^)]*$"
)
"""The text before the identifier of another work in a line."""
_PROSE = re.compile(r"\b[a-z]+ [a-z]+ [a-z]+\b")
_ABSTRACT = re.compile(r"(?im)^\W*(?:abstract|summary|zusammenfassung|résumé)\b\W*")
_ABSTRACT_END = re.compile(
    r"(?im)^\W*(?:key\s?words?|index terms|(?:(?:1|I)\.?\s+)?introduction|background|contents)\b"
    r"|\n\s*\n(?=\d?\.?\s*[A-Z][^\n]{0,60}\n)"
)
_MAX_ABSTRACT_CHARS = 5_000
_MIN_ABSTRACT_CHARS = 40
_NAME_LIST = re.compile(r"[^\W\d_][\w.'’-]*(?:\s+[^\W\d_][\w.'’-]*){1,4}")
_NAME_END = re.compile(r"[\d*†‡§¶∗,\s]+$")
_NAME_SEPARATOR = re.compile(r"\s*(?:;|\band\b|\bund\b|\bet\b|&|,(?!\s*(?:Jr|Sr|II|III)\b))\s*")
_NOT_NAMES = re.compile(
    r"(?i)\b(?:abstract|university|universität|institute?|department|journal|volume|proceedings|introduction|school|"
    r"received|version|draft|report|for|the|of|in|on|with|from)\b|@|https?:"
)
_NOT_AUTHORS = re.compile(r"(?i)^(?:admin\w*|user|unknown|author|root|\W*|.*(?:microsoft|latex|adobe|acrobat).*)$")
_VENUE = re.compile(r"([^,;:(\d]{4,100}?)[,;:]?\s*(?:vol\.?\s*)?\d")


def find_work(title: str, info: Mapping[str, str], pages: Sequence[str]) -> Work | None:
    """Identify the work of a PDF; return None for a PDF without title and identifier.

    Identifiers, year and notice come from the metadata and the head of the first page, not from references.

    Args:
        title: The title in the metadata or on the first page.
        info: The metadata, by the names of the format: `Author`, `Subject`, `Keywords`.
        pages: The texts of the first pages, with running heads and feet.
    """
    metadata = "\n".join(info.get(name, "") for name in ("Subject", "Keywords", "Title"))
    opening, first = "\n\n".join(pages), next(iter(pages), "")
    lines = _head(title, first)
    own = [line for line in lines if not _OTHER_WORK.search(line.partition("10.")[0])]
    labelled = [
        match[1] for line in own if (match := _LABELLED_DOI.search(line)) and not _PROSE.search(line[match.end() :])
    ]
    doi = next(filter(None, map(find_doi, [metadata, *labelled])), "")
    stamp = _ARXIV_STAMP.search(first)
    arxiv_id = next(filter(None, map(find_arxiv_id, [metadata, stamp[0] if stamp else "", *own])), "")
    if not (title or doi or arxiv_id):
        return None
    kind = "article-journal" if doi and not arxiv_id else "document"
    item: dict[str, Any] = {"type": kind, "title": title, "DOI": doi}
    if arxiv_id:
        item |= {"type": "article", "number": f"arXiv:{arxiv_id}", "publisher": "arXiv"}
    item["author"] = _authors(info.get("Author", ""), title, opening)
    if number := _ARXIV_YEAR.match(arxiv_id):
        item["issued"] = {"date-parts": [[2000 + int(number[1])]]}
    elif year := _DATED.search("\n".join(lines)):
        item["issued"] = {"date-parts": [[int(year[1])]]}
    if doi and (venue := _VENUE.match(info.get("Subject", ""))):
        item["container-title"] = venue[1].strip()
    if start := _ABSTRACT.search(opening):
        end = _ABSTRACT_END.search(opening, start.end() + _MIN_ABSTRACT_CHARS)
        abstract = " ".join(opening[start.end() : end.start() if end else None].split())
        item["abstract"] = abstract[:_MAX_ABSTRACT_CHARS]
    if any(RETRACTED_TITLE.search(line) or (line[:1].isupper() and RETRACTED_NOTE.match(line)) for line in lines):
        item["custom"] = {"is_retracted": True}
    return Work.of(item)


def _head(title: str, page: str) -> list[str]:
    """Return the lines of the first page before the abstract or the first heading."""
    words = r"\s+".join(map(re.escape, title.split()))
    named = re.search(words, page)
    after = named.end() if named else 0
    end = _HEAD_END.search(page, after)
    rest = page[after : end.start() if end else None].split("\n")
    lines = [title, *page[:after].split("\n"), *(rest if end else rest[:_HEAD_LINES])]
    return [line[:_MAX_HEAD_COLUMNS] for line in lines]


def _authors(metadata: str, title: str, opening: str) -> list[dict[str, str]]:
    """Return the names in the metadata, or else in the lines below the title of the first page."""
    if metadata.strip() and not _NOT_AUTHORS.match(metadata.strip()):
        if ";" not in metadata and re.fullmatch(r"[^,;]+,[^,;]+", metadata):  # `Doe, Jane`
            return [parse_name(metadata)]
        separator = re.compile(r"\s*;\s*") if ";" in metadata else _NAME_SEPARATOR
        return [parse_name(name) for name in separator.split(metadata.strip()) if name]
    words = r"\s+".join(map(re.escape, title.split()))
    below = re.search(words, opening) if words else None
    for line in opening[below.end() :].strip().split("\n")[:3] if below else ():
        names = [
            _NAME_END.sub("", name) for name in _NAME_SEPARATOR.split(line.strip()) if name.strip("0123456789*†‡ ")
        ]
        if names and not _NOT_NAMES.search(line) and all(map(_NAME_LIST.fullmatch, names)):
            return [parse_name(name) for name in names]
    return []


def describe_paper(metadata: Metadata) -> Metadata:
    """Convert the metadata of a PDF to the item of its work, or to an empty list."""
    works = ((anchor, find_work(item["title"], item["info"], item["opening"])) for anchor, item in metadata)
    return tuple((anchor, work.item) for anchor, work in works if work is not None)
