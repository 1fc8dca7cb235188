"""Works: the articles, books and other publications behind sources, as items of CSL-JSON, and as BibTeX.

CSL-JSON is the form of Zotero, Pandoc and citeproc, so no field of an imported item is lost.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

_DOI = re.compile(
    r"10\.\d{4,9}/(?!1122445\.1122456|[nx]{5})"  # placeholders in templates of articles
    r"(?:(?!https?:|doi[:.]|10\.\d{4,9}/|&\w+=|(?-i:Received|Accepted|Published|Copyright))"  # glued to the next word
    r"(?:[^\s\"<>{}|\\^`?\u2000-\uffff]|<[^\s<>]+>(?=\d\.\d\.[A-Z]{2};)))+",  # `<1661::AID-SIM968>3.0.CO;2-2`
    re.IGNORECASE,
)
_KIND = r" (?:article|paper|chapter|publication|study)"
RETRACTED_TITLE = re.compile(
    rf"^\W*(?:retracted(?:{_KIND})?|已?撤稿)\s*[:：\])）】]"
    rf"|(?:[\[(]retracted{_KIND}\b[^\])]*[\])]|\[retracted\]|[（【]已?撤稿[）】])\W*$",
    re.IGNORECASE,
)
"""The title of a retracted work as publishers write it: `RETRACTED: Herons`, `Herons (Retracted article)`."""
RETRACTED_NOTE = re.compile(
    rf"\W*(?:this{_KIND} (?:has been|was|is) retracted\b|retracted(?:{_KIND})?\W*$|retraction in\b)", re.IGNORECASE
)
_RETRACTED_KEYWORDS = frozenset({"retracted", "retracted article", "retracted paper", "retracted publication"})
_RETRACTING = frozenset({"retraction", "removal", "withdrawal"})
_FORMAT_IN_URL = re.compile(r"(?:/(?:full|abstract|e?pdf|html|meta|summary))?(?:\.pdf)?$", re.IGNORECASE)
_MARKED_UP = frozenset({"title", "container-title", "publisher", "abstract"})
_ENTITY = re.compile(r"&#?\w{2,8};")
_TAG = re.compile(
    r"</?(?:(?:jats:)?(?:i|b|u|em|strong|italic|bold|su[bp]|sc|scp|span)|(jats:[\w-]+|mml:[\w-]+|p|br|div))\b[^<>]*>",
    re.IGNORECASE,
)
_DATE = re.compile(r"(-?\d{4})(?:-(\d\d|XX))?(?:-(\d\d|XX))?(?:T.*)?", re.IGNORECASE)
_SLASHED_DATE = re.compile(r"(\d{4})/(\d\d?)?(?:/(\d\d?)?)?(?:/.*)?")
_BEFORE_CHRIST = re.compile(r"(\d{1,4})\s*(?:B\.?\s?C|v\.?\s?Chr)|-(\d{1,3})$", re.IGNORECASE)
_YEAR = re.compile(r"(?<!\d)(?:\d{4}|\d{3})(?![\dXx])|^\d{1,2}$")
_UNCERTAIN = re.compile(r"[~?%]|\bc(?:a|irca)?\b", re.IGNORECASE)
_MONTHS = range(1, 13)
_SEASONS = range(21, 25)  # EDTF: spring, summer, autumn, winter
_MAX_CANDIDATES = 100  # works with a common name that are compared; further works stay apart
_NAME_PARTS = 3  # family name, given name, suffix
_INITIALS = re.compile(r"(?:[^\W\d_]\.?[\s-]?){1,4}")
_INITIALS_LAST = re.compile(r"(\S.*?) ((?:[^\W\d_]\.[\s-]?){1,4})")
_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ARXIV = re.compile(
    r"arxiv(?:\.org/(?:abs|pdf)/|\s*:\s*|\.)(\d{4}\.\d{4,5}|[a-z-]+(?:\.[a-z]{2})?/\d{7})(?!\d)", re.IGNORECASE
)
_DOI_END = ".,;:'*]"
_WHOLE = re.compile(r",|\sand\s|^[A-ZÀ-Þ].*\s[a-zß-ÿ]")
"""A part of a name that BibTeX would split: `Procter and Gamble`, `Ortega y Gasset`."""
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
    "\\": r"\textbackslash{}", "{": r"$\lbrace$", "}": r"$\rbrace$", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#",
    "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """A publication, as an item of CSL-JSON."""

    item: Mapping[str, Any]

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> "Work":
        """Create the work of an item, without empty fields, markup, and the prefix of the DOI."""
        fields = {name: _plain_text(value) if name in _MARKED_UP else value for name, value in item.items() if value}
        doi = find_doi(str(fields.get("DOI") or ""))
        return cls(fields | ({"DOI": doi} if doi else {}))

    @property
    def key(self) -> str:
        """The citation key of the work in a bibliography, or an empty string."""
        return str(self.item.get("id") or "")

    @property
    def title(self) -> str:
        """The title of the work, or an empty string."""
        return str(self.item.get("title") or "")

    @property
    def authors(self) -> tuple[str, ...]:
        """The names of the authors, or else of the editors: `Jane Doe`, `World Health Organization`."""
        return tuple(map(full_name, self.item.get("author") or self.item.get("editor") or ()))

    @property
    def year(self) -> int | None:
        """The year of publication, negative before Christ, or None."""
        dates = (self.item.get("issued") or {}).get("date-parts") or [[]]
        return next((int(part) for part in dates[0][:1] if re.fullmatch(r"-?\d+", str(part))), None)

    @property
    def venue(self) -> str:
        """The journal, the proceedings, the book or the publisher."""
        return str(self.item.get("container-title") or self.item.get("publisher") or "")

    @property
    def doi(self) -> str:
        """The DOI of the work, without a prefix, in lower case, or an empty string."""
        texts = [str(self.item.get(name) or "") for name in ("DOI", "URL")]
        texts += re.findall(r"(?im)^doi:.*", str(self.item.get("note") or ""))  # Zotero's form for other types
        return next(filter(None, map(find_doi, texts)), "")

    @property
    def arxiv_id(self) -> str:
        """The arXiv number of the work, without a version, or an empty string."""
        names = ("number", "archive_location", "URL", "DOI", "container-title")
        texts = [str(self.item.get(name) or "") for name in names]
        texts += re.findall(r"(?im)^arxiv:.*", str(self.item.get("note") or ""))  # other notes may name other works
        return next(filter(None, map(find_arxiv_id, texts)), "")

    @property
    def abstract(self) -> str:
        """The abstract of the work, or an empty string."""
        return str(self.item.get("abstract") or "")

    @property
    def custom(self) -> Mapping[str, Any]:
        """The values for which CSL-JSON has no field."""
        custom = self.item.get("custom")
        return custom if isinstance(custom, Mapping) else {}

    def with_custom(self, **values: object) -> "Work":
        """Return a copy with further values in `custom`."""
        return Work({**self.item, "custom": {**self.custom, **values}})

    @property
    def is_retracted(self) -> bool:
        """Whether a notice, a keyword or a table of retractions marks the work; text and subject do not count."""
        keywords = re.split(r"\s*[,;]\s*", str(self.item.get("keyword") or "").strip().casefold())
        return bool(
            self.custom.get("is_retracted")
            or retractions(self.item.get("updated-by"))
            or RETRACTED_TITLE.search(self.title)
            or RETRACTED_NOTE.match(str(self.item.get("note") or ""))
            or not _RETRACTED_KEYWORDS.isdisjoint([*keywords, str(self.item.get("status") or "").casefold()])
        )

    @property
    def files(self) -> tuple[str, ...]:
        """The absolute paths of the files that Zotero attached to the work."""
        files = self.custom.get("files")
        return tuple(file for file in files if isinstance(file, str)) if isinstance(files, list) else ()

    @property
    def names(self) -> set[str]:
        """The DOI, the arXiv number, and the title with each author: works without a common name are different."""
        title = _letters(self.title)
        by_author = {f"{title} {family}" for family, _ in _signatures(self)} if title else set()
        return by_author | {name for name in (self.doi, self.arxiv_id) if name}

    def is_same(self, other: "Work") -> bool:
        """Return whether both works describe one publication.

        Such works have a common identifier, or a common title and author and no difference in identifier, year, volume
        and page. Chapters with the DOI of their book differ in title and page.
        """
        common = self.names & other.names
        differing = {
            name for name, value in _facts(self).items() if value and _facts(other)[name] not in {value, "", None}
        }
        if common & {self.doi, self.arxiv_id}:
            return not {"title", "page"} <= differing
        authors = [
            initial == other_initial or not (initial and other_initial)
            for family, initial in _signatures(self)
            for other_family, other_initial in _signatures(other)
            if family == other_family
        ]
        return bool(common) and any(authors) and not differing

    def merged(self, other: "Work") -> "Work":
        """Return a copy with the missing fields from another description."""
        own, others = ({name: value for name, value in work.item.items() if value} for work in (self, other))
        custom = {**other.custom, **self.custom}
        return Work({**others, **own, **({"custom": custom} if custom else {})})

    def reference(self) -> str:
        """Format the work as lines for search and reading: title, authors, year, venue, identifiers and abstract."""
        authors = "; ".join(self.authors)
        year = f"({self.year})" if self.year else ""
        identifiers = [f"doi:{self.doi}" if self.doi else "", f"arXiv:{self.arxiv_id}" if self.arxiv_id else ""]
        details = ". ".join(filter(None, [f"{authors} {year}".strip(), self.venue, *identifiers]))
        notice = "This work was retracted." if self.is_retracted else ""
        return "\n\n".join(filter(None, [self.title, details, notice, self.abstract]))


def retractions(updates: Any) -> set[str]:
    """Return the DOIs of retractions in the list of Crossref.

    `update-to` of a notice has the DOIs of the retracted works; `updated-by` of a work has the DOI of the notice.
    """
    entries = [entry for entry in updates if isinstance(entry, Mapping)] if isinstance(updates, list) else []
    return {find_doi(str(entry.get("DOI") or "")) for entry in entries if entry.get("type") in _RETRACTING}


def find_doi(text: str) -> str:
    """Return the first DOI in a text or in a URL, in lower case, or an empty string."""
    match = _DOI.search(unquote(html.unescape(text)))
    if match is None:
        return ""
    doi = _FORMAT_IN_URL.sub("", match[0].rstrip(_DOI_END))
    while doi.endswith(")") and doi.count("(") < doi.count(")"):
        doi = doi[:-1].rstrip(_DOI_END)
    return doi.lower()


def find_arxiv_id(text: str) -> str:
    """Return the first arXiv number in a text, without the version, or an empty string."""
    match = _ARXIV.search(text)
    return match[1] if match else ""


def _plain_text(value: Any) -> Any:
    """Remove the markup and the entities of Crossref and Zotero from a text."""
    if not isinstance(value, str) or not ("<" in value or "&" in value):
        return value
    text = value
    for _ in range(2):  # Crossref writes `&amp;amp;` and `&lt;i&gt;`
        text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return " ".join(_TAG.sub(lambda tag: " " if tag[1] else "", text).split())


def parse_date(text: str) -> dict[str, Any]:
    """Parse a date to CSL-JSON: EDTF (`2019-05/2020`, `2001-21`, `1850~`), `2019/05/03`, or a text with a year.

    Years before Christ are negative: CSL has no year 0, but EDTF has a year 0.
    """
    text = " ".join(text.split())
    if slashed := _SLASHED_DATE.fullmatch(text):
        return {"date-parts": [[int(part) for part in slashed.groups() if part]]}
    sides = [match for side in text.split("/")[:2] if (match := _DATE.fullmatch(re.sub(r"[~?%]", "", side)))]
    issued: dict[str, Any] = {}
    for year, *rest in (side.groups() for side in sides):
        numbers = [int(year) - (int(year) <= 0)]
        for part in rest if rest[0] and rest[0].isdigit() and int(rest[0]) in _MONTHS else ():
            numbers += [int(part)] if part and part.isdigit() else []
        issued.setdefault("date-parts", []).append(numbers)
        if rest[0] and rest[0].isdigit() and int(rest[0]) in _SEASONS:
            issued["season"] = int(rest[0]) - 20
    if not sides and (before := _BEFORE_CHRIST.search(text)):
        issued["date-parts"] = [[-int(before[1] or before[2])]]
    elif not sides and (only_year := _YEAR.search(text)):
        issued["date-parts"] = [[int(only_year[0])]]
    if issued and _UNCERTAIN.search(text):
        issued["circa"] = True
    return issued or ({"literal": text} if text else {})


def parse_names(text: str) -> list[dict[str, str]]:
    """Parse the names of one field: `Doe, J.; Roe, R.`, `Jane Doe, Rita Roe, Max Poe`, `Doe, J., Roe, R.`.

    A field with one name may end with a suffix: `Doe, Jane, Jr.`. A name without a comma is an organisation.
    """
    people = [part.strip() for part in re.split(r"\s*;\s*|\s+(?:and|&)\s+(?=[^;]{0,200},)", text) if part.strip()]
    parts = [part.strip() for part in people[0].split(",")] if len(people) == 1 else []
    if len(parts) > _NAME_PARTS - 1 and all(" " in part for part in parts):
        people = parts
    elif len(parts) > _NAME_PARTS and not len(parts) % 2 and all(map(_INITIALS.fullmatch, parts[1::2])):
        people = [", ".join(pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    elif len(parts) == 1 and (embase := _INITIALS_LAST.fullmatch(parts[0])):
        return [{"family": embase[1], "given": embase[2]}]
    elif len(parts) == 1 or (parts and not parts[1]):
        return [{"literal": parts[0]}]
    elif len(parts) == _NAME_PARTS:
        return [{**parse_name(", ".join(parts[:2])), "suffix": parts[2]}]
    return [parse_name(person) for person in people]


def parse_name(text: str) -> dict[str, str]:
    """Parse a name such as `Doe, Jane` or `Jane Doe` to CSL-JSON."""
    family, comma, rest = (part.strip() for part in text.partition(","))
    if comma:
        return {"family": family, "given": rest} if rest else {"literal": family}
    *first, last = text.split() or [""]
    return {"family": last, "given": " ".join(first)} if first else {"literal": last}


def merge_works(works: Iterable[tuple[Sequence[str], Work]]) -> list[tuple[list[str], Work]]:
    """Merge the descriptions of each publication to a work with the addresses of the sources that describe the work.

    Fields of earlier descriptions take precedence, and fields of bibliographies precede fields from a PDF.
    """
    pairs: list[tuple[list[str], Work]] = []
    indices: dict[str, list[int]] = {}
    for addresses, work in sorted(works, key=lambda entry: not entry[1].key):
        candidates = (index for name in work.names for index in indices.get(name, ())[:_MAX_CANDIDATES])
        index = next((index for index in candidates if pairs[index][1].is_same(work)), len(pairs))
        if index == len(pairs):
            pairs.append(([], work))
        complete = pairs[index][1].merged(work)
        pairs[index] = ([*pairs[index][0], *addresses], complete)
        for name in complete.names:
            if index not in indices.setdefault(name, []):
                indices[name].append(index)
    retracted = {doi for _, work in pairs for doi in retractions(work.item.get("update-to"))}
    return [
        (addresses, work.with_custom(is_retracted=True) if work.doi in retracted else work) for addresses, work in pairs
    ]


def with_keys(works: Iterable[Work]) -> list[Work]:
    """Return the works, each with a unique citation key: the id, or else author, year and first word of the title."""
    used: set[str] = set()
    keyed = []
    for work in works:
        key = work.key
        if not re.fullmatch(r"[^\s,{}\"#%~\\=()']+", key):
            author = (work.item.get("author") or work.item.get("editor") or [{}])[0]
            name = str(author.get("family") or author.get("literal") or "")
            family = (_plain(name) or re.sub(r"\W", "", name)).split(" ")[0]
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
        "year": str(work.year or _escape(str((item.get("issued") or {}).get("literal") or ""))),
        "month": str(date[0][1]) if work.year and len(date[0]) > 1 else "",
        **{name: _escape(str(item.get(source) or "")) for source, name in _FIELDS.items()},
        "pages": re.sub(r"(?<=\w)[-–](?=\w)", "--", _escape(str(item.get("page") or ""))),
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
    whole = full_name(name)
    if not name.get("family") or (not name.get("given") and " " in whole):
        return f"{{{_escape(whole)}}}"
    particles = [_escape(str(name.get(f"{kind}dropping-particle") or "")) for kind in ("", "non-")]
    family, *rest = (_escape(str(name.get(part) or "")) for part in ("family", "suffix", "given"))
    parts = [f"{{{part}}}" if part and _WHOLE.search(part) else part for part in (family, *rest)]
    return ", ".join(filter(None, [" ".join(filter(None, [*particles, parts[0]])), *parts[1:]]))


def full_name(name: Mapping[str, Any]) -> str:
    """Format a name of CSL-JSON: `Jane Doe`, and `李世民` without a space."""
    family, first = str(name.get("family") or ""), str(name.get("given") or "")
    if _IDEOGRAPH.match(family) and _IDEOGRAPH.match(first):
        return family + first
    parts = ("given", "dropping-particle", "non-dropping-particle", "family", "suffix")
    return str(name.get("literal") or " ".join(str(name[part]) for part in parts if name.get(part)))


def _escape(text: str) -> str:
    return "".join(_ESCAPED.get(letter, letter) for letter in " ".join(text.split()))


def _letters(text: str) -> str:
    """Return the letters and digits of a text without case and accents."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", text).casefold()))


def _signatures(work: Work) -> set[tuple[str, str]]:
    """Return the family name, without particles, and the initial of each author."""
    names = work.item.get("author") or work.item.get("editor") or ()
    last = [((str(name.get("family") or "").split() or [full_name(name)])[-1], name.get("given")) for name in names]
    return {(_letters(family), _letters(str(first or ""))[:1]) for family, first in last}


def _facts(work: Work) -> dict[str, object]:
    """Return the facts by which works with a common title differ, each in a form that can be compared."""
    page = re.search(r"\w+", str(work.item.get("page") or "").casefold())
    isbn = re.search(r"(\d{9})[\dX]\b", str(work.item.get("ISBN") or "").replace("-", "").upper())
    return {
        "title": _letters(work.title),
        "doi": work.doi,
        "arxiv_id": work.arxiv_id,
        "isbn": isbn and isbn[1],
        "year": work.year,
        "volume": _letters(str(work.item.get("volume") or "")),
        "page": page and page[0],
    }


def _plain(text: str) -> str:
    """Convert a text to ASCII letters with single spaces."""
    decomposed = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return _NOT_IN_KEY.sub(" ", decomposed).strip()
