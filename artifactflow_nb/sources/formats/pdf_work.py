"""The work that a PDF contains: from its metadata and the text of its first pages."""

import re
from collections.abc import Mapping
from typing import Any

from artifactflow_nb.core.works import Work, find_arxiv_id, find_doi, parse_name

_LABELLED_DOI = re.compile(r"(?i)doi(?:\.org/|\s*:?\s*)(10\.\d{4,9}/\S+)")
_YEAR = r"(?:19|20)\d{2}"
_DATED = re.compile(
    rf"(?i)(?:©|\(c\)|copyright|published|accepted|vol(?:ume|\.)?\s*\d+[^\n]{{0,40}}?|\d\s?\()\D{{0,40}}?\b({_YEAR})\b"
)
_ARXIV_YEAR = re.compile(r"(\d{2})(?:0[1-9]|1[0-2])\.")
_CREATED = re.compile(rf"D:({_YEAR})")
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
_RETRACTED = re.compile(
    r"(?i)\bretracted(?: article)?\s*[:.\n]|\bthis (?:article|paper) (?:has been|was|is) retracted\b"
)
_VENUE = re.compile(r"([^,;:(\d]{4,100}?)[,;:]?\s*(?:vol\.?\s*)?\d")


def find_work(title: str, info: Mapping[str, str], opening: str) -> Work | None:
    """The work of a PDF; None if neither a title nor an identifier is found.

    Args:
        title: The title of its metadata or of its first page.
        info: Its metadata, by the names of the format: `Author`, `Subject`, `Keywords`, `CreationDate`.
        opening: The text of its first pages, with their heads and feet.
    """
    metadata = "\n".join(info.get(name, "") for name in ("Subject", "Keywords", "Title"))
    labelled = _LABELLED_DOI.search(metadata) or _LABELLED_DOI.search(opening)
    doi = find_doi(labelled[1]) if labelled else find_doi(metadata)
    arxiv_id = find_arxiv_id(metadata) or find_arxiv_id(opening)
    if not (title or doi or arxiv_id):
        return None
    item: dict[str, Any] = {
        "type": "article-journal" if doi and not arxiv_id else "document",
        "title": title,
        "DOI": doi,
    }
    if arxiv_id:
        item |= {"type": "article", "number": f"arXiv:{arxiv_id}", "publisher": "arXiv"}
    item["author"] = _authors(info.get("Author", ""), title, opening)
    if number := _ARXIV_YEAR.match(arxiv_id):
        item["issued"] = {"date-parts": [[2000 + int(number[1])]]}
    elif year := _DATED.search(opening) or _CREATED.match(info.get("CreationDate", "")):
        item["issued"] = {"date-parts": [[int(year[1])]]}
    if doi and (venue := _VENUE.match(info.get("Subject", ""))):
        item["container-title"] = venue[1].strip()
    if start := _ABSTRACT.search(opening):
        end = _ABSTRACT_END.search(opening, start.end() + _MIN_ABSTRACT_CHARS)
        abstract = " ".join(opening[start.end() : end.start() if end else None].split())
        item["abstract"] = abstract[:_MAX_ABSTRACT_CHARS]
    if _RETRACTED.search(f"{title}\n{opening}"):
        item["custom"] = {"is_retracted": True}
    return Work.of(item)


def _authors(metadata: str, title: str, opening: str) -> list[dict[str, str]]:
    """The names in the metadata, else in the lines below the title of the first page."""
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
