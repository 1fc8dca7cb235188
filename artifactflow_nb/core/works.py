"""Works: the articles, books and other publications behind sources, as items of CSL-JSON, and as BibTeX.

CSL-JSON is the form of Zotero, Pandoc and citeproc, so no field of an imported item is lost.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_DOI = re.compile(r"10\.\d{4,9}/[^\s\"<>{}|\\^`]+", re.IGNORECASE)
_ARXIV = re.compile(
    r"arxiv(?:\.org/(?:abs|pdf)/|\s*:\s*|\.)(\d{4}\.\d{4,5}|[a-z-]+(?:\.[a-z]{2})?/\d{7})(?!\d)", re.IGNORECASE
)
_DOI_END = ".,;:'’”*]"
_RETRACTED = re.compile(r"\bretract(?:ed|ion of)\b", re.IGNORECASE)
_NOT_IN_KEY = re.compile(r"[^A-Za-z0-9]+")
_STOP_WORDS = frozenset(
    ("a", "an", "the", "on", "of", "in", "for", "and", "to", "with", "der", "die", "das", "le", "la")
)
_TYPES = {
    "article-journal": "article", "article-magazine": "article", "article-newspaper": "article", "book": "book",
    "chapter": "incollection", "paper-conference": "inproceedings", "thesis": "phdthesis", "report": "techreport",
}  # fmt: skip
_FIELDS = {
    "publisher": "publisher", "publisher-place": "address", "volume": "volume", "issue": "number", "edition": "edition",
    "collection-title": "series", "note": "note", "ISBN": "isbn", "ISSN": "issn", "language": "language",
    "abstract": "abstract",
}  # fmt: skip
_ESCAPED = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """A publication, as an item of CSL-JSON."""

    item: Mapping[str, Any]

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> "Work":
        """Create the work of an item: without empty fields, and with a DOI without a prefix."""
        fields = {name: value for name, value in item.items() if value}
        doi = find_doi(str(fields.get("DOI") or ""))
        return cls(fields | ({"DOI": doi} if doi else {}))

    @property
    def key(self) -> str:
        """The citation key of the work in a bibliography; empty for other works."""
        return str(self.item.get("id") or "")

    @property
    def title(self) -> str:
        """The title of the work; empty if it is unknown."""
        return str(self.item.get("title") or "")

    @property
    def authors(self) -> tuple[str, ...]:
        """The names of its authors, or of its editors without authors: `Jane Doe`, `World Health Organization`."""
        return tuple(map(_full_name, self.item.get("author") or self.item.get("editor") or ()))

    @property
    def year(self) -> int | None:
        """The year of its publication; None if it is unknown."""
        parts = (self.item.get("issued") or {}).get("date-parts") or [[]]
        match = re.search(r"\d{4}", str(parts[0][0] if parts[0] else (self.item.get("issued") or {}).get("raw", "")))
        return int(match[0]) if match else None

    @property
    def venue(self) -> str:
        """The journal, the proceedings, the book or the publisher."""
        return str(self.item.get("container-title") or self.item.get("publisher") or "")

    @property
    def doi(self) -> str:
        """The DOI of the work, without a prefix, in lower case; empty if it has none."""
        return find_doi(str(self.item.get("DOI") or "")) or find_doi(str(self.item.get("URL") or ""))

    @property
    def arxiv_id(self) -> str:
        """The arXiv number of the work, without a version; empty if it has none."""
        places = ("number", "archive_location", "URL", "note", "DOI")
        return next(filter(None, (find_arxiv_id(str(self.item.get(place) or "")) for place in places)), "")

    @property
    def abstract(self) -> str:
        """The abstract of the work; empty if it is unknown."""
        return str(self.item.get("abstract") or "")

    @property
    def is_retracted(self) -> bool:
        """Whether the item marks the work as retracted."""
        noted = any(
            _RETRACTED.search(str(self.item.get(place) or "")) for place in ("title", "note", "keyword", "status")
        )
        custom = self.item.get("custom")
        return noted or bool(isinstance(custom, Mapping) and custom.get("is_retracted"))

    @property
    def files(self) -> tuple[str, ...]:
        """The absolute paths of the files that Zotero attached to the work."""
        custom = self.item.get("custom")
        files = custom.get("files") if isinstance(custom, Mapping) else None
        return tuple(file for file in files if isinstance(file, str)) if isinstance(files, list) else ()

    def is_same(self, other: "Work") -> bool:
        """Whether both describe one publication: by DOI, arXiv number, or title and year."""
        if self.doi and other.doi:
            return self.doi == other.doi
        if self.arxiv_id and other.arxiv_id:
            return self.arxiv_id == other.arxiv_id
        years = {self.year, other.year}
        return _title_key(self.title) == _title_key(other.title) != "" and (len(years) == 1 or None in years)

    def merged(self, other: "Work") -> "Work":
        """Copy with the fields of another description that this one lacks."""
        return Work(
            {
                **{name: value for name, value in other.item.items() if value},
                **{n: v for n, v in self.item.items() if v},
            }
        )

    def masked(self, mask: Callable[[str], str]) -> "Work":
        """Copy with a function applied to each text."""

        def apply(value: Any) -> Any:
            if isinstance(value, str):
                return mask(value)
            if isinstance(value, Mapping):
                return {name: apply(part) for name, part in value.items()}
            return [apply(part) for part in value] if isinstance(value, list | tuple) else value

        return Work(apply(self.item))

    def reference(self) -> str:
        """Format the work as lines for search and reading: title, authors, year, venue, identifiers and abstract."""
        authors = "; ".join(self.authors)
        year = f"({self.year})" if self.year else ""
        identifiers = [f"doi:{self.doi}" if self.doi else "", f"arXiv:{self.arxiv_id}" if self.arxiv_id else ""]
        details = ". ".join(filter(None, [f"{authors} {year}".strip(), self.venue, *identifiers]))
        notice = "This work was retracted." if self.is_retracted else ""
        return "\n\n".join(filter(None, [self.title, details, notice, self.abstract]))


def find_doi(text: str) -> str:
    """Return the first DOI in a text, in lower case; empty if there is none."""
    match = _DOI.search(text)
    if match is None:
        return ""
    doi = match[0].rstrip(_DOI_END)
    while doi.endswith(")") and doi.count("(") < doi.count(")"):
        doi = doi[:-1].rstrip(_DOI_END)
    return doi.lower()


def find_arxiv_id(text: str) -> str:
    """Return the first arXiv number in a text, without its version; empty if there is none."""
    match = _ARXIV.search(text)
    return match[1] if match else ""


def parse_name(text: str) -> dict[str, str]:
    """Parse a name such as `Doe, Jane` or `Jane Doe` to CSL-JSON."""
    family, comma, rest = (part.strip() for part in text.partition(","))
    if comma:
        return {"family": family, "given": rest} if rest else {"literal": family}
    *first, last = text.split() or [""]
    return {"family": last, "given": " ".join(first)} if first else {"literal": last}


def merge_works(works: Iterable[tuple[str, Work]]) -> list[tuple[list[str], Work]]:
    """Merge descriptions of one publication to one work, each with the addresses of the sources that describe it.

    Fields of earlier descriptions take precedence; those of bibliographies precede those found in a PDF.
    """
    found: list[tuple[list[str], Work]] = []
    places: dict[str, int] = {}
    for address, work in sorted(works, key=lambda entry: not entry[1].key):
        names = [name for name in (work.doi, work.arxiv_id, _title_key(work.title)) if name]
        index = next((places[name] for name in names if name in places and found[places[name]][1].is_same(work)), None)
        if index is None:
            index = len(found)
            found.append(([], work))
        addresses, known = found[index]
        found[index] = ([*addresses, address], known.merged(work))
        for name in names:
            places.setdefault(name, index)
    return found


def with_keys(works: Iterable[Work]) -> list[Work]:
    """Return the works, each with a unique citation key: its id, otherwise author, year and first word of the title."""
    used: set[str] = set()
    keyed = []
    for work in works:
        key = work.key
        if not re.fullmatch(r"[^\s,{}\"#%~\\=()']+", key):
            author = (work.item.get("author") or work.item.get("editor") or [{}])[0]
            family = _plain(str(author.get("family") or author.get("literal") or "")).split(" ")[0]
            words = [word for word in _plain(work.title).split(" ") if word and word.lower() not in _STOP_WORDS]
            key = f"{family.lower()}{work.year or ''}{words[0].lower() if words else ''}" or "work"
        name, n = key, 1
        while name.lower() in used:
            n += 1
            name = f"{key}-{n}"
        used.add(name.lower())
        keyed.append(Work({**work.item, "id": name}))
    return keyed


def to_bibtex(works: Sequence[Work]) -> str:
    """Convert works to BibTeX in UTF-8."""
    return "\n".join(map(_entry, with_keys(works)))


def _entry(work: Work) -> str:
    item = work.item
    kind = _TYPES.get(str(item.get("type")), "misc")
    container = "journal" if kind == "article" else "booktitle" if kind.startswith("in") else "howpublished"
    date = (item.get("issued") or {}).get("date-parts") or [[]]
    fields = {
        "title": f"{{{_escape(work.title)}}}" if work.title else "",
        "author": " and ".join(map(_bibtex_name, item.get("author") or ())),
        "editor": " and ".join(map(_bibtex_name, item.get("editor") or ())),
        container: _escape(str(item.get("container-title") or "")),
        "year": str(work.year or ""),
        "month": str(date[0][1]) if len(date[0]) > 1 else "",
        **{name: _escape(str(item.get(source) or "")) for source, name in _FIELDS.items()},
        "pages": re.sub(r"(?<=\w)[-–](?=\w)", "--", str(item.get("page") or "")),
        "doi": work.doi,
        "eprint": work.arxiv_id,
        "archiveprefix": "arXiv" if work.arxiv_id else "",
        "url": str(item.get("URL") or "").translate({ord("{"): "%7B", ord("}"): "%7D", ord("\\"): "%5C"}),
    }
    if kind == "phdthesis" and fields["publisher"]:
        fields["school"] = fields.pop("publisher")
    if kind == "techreport" and fields["publisher"]:
        fields["institution"] = fields.pop("publisher")
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@{kind}{{{work.key},", *lines, "}", ""])


def _bibtex_name(name: Mapping[str, Any]) -> str:
    if not name.get("family"):
        return f"{{{_escape(_full_name(name))}}}"
    particle = str(name.get("non-dropping-particle") or name.get("dropping-particle") or "")
    parts = [f"{particle} {name['family']}".strip(), str(name.get("suffix") or ""), str(name.get("given") or "")]
    return ", ".join(_escape(part) for part in parts if part)


def _full_name(name: Mapping[str, Any]) -> str:
    parts = ("given", "dropping-particle", "non-dropping-particle", "family", "suffix")
    return str(name.get("literal") or " ".join(str(name[part]) for part in parts if name.get(part)))


def _escape(text: str) -> str:
    return "".join(_ESCAPED.get(letter, letter) for letter in " ".join(text.split()))


def _title_key(title: str) -> str:
    return "".join(letter for letter in title.casefold() if letter.isalnum())


def _plain(text: str) -> str:
    """Convert a text to ASCII letters with single spaces."""
    decomposed = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return _NOT_IN_KEY.sub(" ", decomposed).strip()
