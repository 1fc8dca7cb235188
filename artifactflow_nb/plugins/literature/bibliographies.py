"""Works of bibliographies: BibTeX, RIS, CSL-JSON, and a copy of Zotero's database, also while Zotero is running."""

import json
import re
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from artifactflow_nb.plugins.literature.works import Work, find_arxiv_id, find_doi, parse_date, parse_names
from artifactflow_nb.sources.formats.charset import decode_text
from artifactflow_nb.sources.formats.sections import (
    RICH_BYTES,
    AnchorAllocator,
    DocumentSection,
    ExtractedDocument,
    Extractor,
    UnreadableFile,
    import_library,
    name_slug,
    side_files,
    title_from_path,
)

sys.modules["artifactflow_nb.sources.formats.bibliography"] = sys.modules[__name__]  # its name until the release 0.3
ZOTERO_FILE = "zotero.sqlite"
"""The database of Zotero, a kind of file by its whole name."""

_TEXT_BYTES, _DATABASE_BYTES = 10_000_000, 1_000_000_000
_MAX_ENTRIES = 50_000
_MAX_LISTED = 3
_MAX_COMMAS = 2  # of one name in BibTeX
_ISBN_DIGITS = 10
_MAX_MACRO_CHARS = 300  # macros may consist of macros
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NOT_INHERITED = frozenset({
    "crossref", "xdata", "xref", "ids", "label", "title", "subtitle", "doi", "url", "eprint", "pages", "note",
    "abstract", "keywords", "file",
})  # fmt: skip
_IN_CONTAINERS = frozenset({"inbook", "incollection", "inproceedings", "conference", "article"})
_NAME_PART = re.compile(
    r"(?<![a-z])(family|given|prefix|suffix)\s*=\s*(\{[^{}]*\}|\"[^\"]*\"|.*?)(?=\s*,|\s+useprefix|\s*$)", re.IGNORECASE
)
_PREFIX = "non-dropping-particle"
_TEX_TYPES = {
    "article": "article-journal", "book": "book", "booklet": "book", "proceedings": "book", "collection": "book",
    "inbook": "chapter", "incollection": "chapter", "inproceedings": "paper-conference",
    "conference": "paper-conference", "phdthesis": "thesis", "mastersthesis": "thesis", "thesis": "thesis",
    "techreport": "report", "report": "report", "online": "webpage", "electronic": "webpage", "dataset": "dataset",
    "software": "software", "unpublished": "manuscript",
}  # fmt: skip
_TEX_FIELDS = {
    "title": "title", "journal": "container-title", "journaltitle": "container-title", "booktitle": "container-title",
    "publisher": "publisher", "school": "publisher", "institution": "publisher", "organization": "publisher",
    "address": "publisher-place", "location": "publisher-place", "volume": "volume", "number": "issue",
    "issue": "issue", "pages": "page", "edition": "edition", "series": "collection-title", "note": "note",
    "keywords": "keyword", "abstract": "abstract", "doi": "DOI", "url": "URL", "isbn": "ISBN", "issn": "ISSN",
    "language": "language",
}  # fmt: skip
_TEX_COMMAND = re.compile(  # with its argument: `\\'A`, `\\v C`, `\\O{}`
    r"\\(?:[^A-Za-z\s]\s*(?:\{[^{}]*\}|\\[A-Za-z]+|[A-Za-z])?|[bcdHkrtuv]\s+[A-Za-z]|[A-Za-z]+\s*(?:\{[^{}]*\})?)"
)
_TEX_FRAMES = re.compile(r"\\(?:mbox|textsf|texttt|textup|textmd|href\s*\{[^{}]*\})\s*(?=\{)")
"""Commands that pylatexenc would remove with their text."""
_CROSSREF_TYPES = {
    "journal-article": "article-journal", "book-chapter": "chapter", "proceedings-article": "paper-conference",
    "posted-content": "article", "monograph": "book", "edited-book": "book", "reference-book": "book",
    "dissertation": "thesis", "database": "dataset", "other": "document",
}  # fmt: skip
_RIS_TYPES = {
    "JOUR": "article-journal", "JFULL": "article-journal", "MGZN": "article-magazine", "NEWS": "article-newspaper",
    "BOOK": "book", "EDBOOK": "book", "EBOOK": "book", "CHAP": "chapter", "ECHAP": "chapter",
    "CONF": "paper-conference", "CPAPER": "paper-conference", "THES": "thesis", "RPRT": "report",
    "ELEC": "webpage", "WEB": "webpage", "BLOG": "post-weblog", "DATA": "dataset", "COMP": "software",
    "UNPB": "manuscript",
}  # fmt: skip
_RIS_FIELDS = {
    "TI": "title", "T1": "title", "CT": "title", "JO": "container-title", "JF": "container-title",
    "T2": "container-title", "BT": "container-title", "JA": "container-title-short", "J2": "container-title-short",
    "VL": "volume", "IS": "issue", "PB": "publisher", "CY": "publisher-place", "DO": "DOI", "UR": "URL",
    "AB": "abstract", "N2": "abstract", "N1": "note", "SN": "ISSN", "ET": "edition", "LA": "language", "ID": "id",
    "C7": "page",
}  # fmt: skip
_BOOK_FIELDS = {"BT": "title", "T2": "collection-title"}
_RIS_LINE = re.compile(r"([A-Z][A-Z0-9])  - ?(.*)")
_SHORT_RIS_LINE = re.compile(r"(TY|ER|AU|A[1-3]|ED|PY|Y1|DA|KW|SP|EP|" + "|".join(_RIS_FIELDS) + r") ?- ?(.*)")
"""A line with one space instead of two. Only these tags count: other letters may begin a continued value."""


@dataclass(frozen=True, slots=True)
class Bibliography:
    """The works in a bibliography file.

    Attributes:
        problems: Descriptions of the entries that cannot be read: `the entry 'smith2020' in line 3`.
    """

    works: tuple[Work, ...]
    problems: tuple[str, ...] = ()

    @property
    def truncation(self) -> str:
        """Description of the unreadable entries, or an empty string."""
        first = ", ".join(self.problems[:_MAX_LISTED])
        rest = f" and {len(self.problems) - _MAX_LISTED:,} more" if len(self.problems) > _MAX_LISTED else ""
        return f"{first}{rest} cannot be read" if self.problems else ""


# --- BibTeX ----------------------------------------------------------------------------------------------------------


def read_bibtex(text: str) -> Bibliography:
    """Read BibTeX and BibLaTeX, with LaTeX accents and corporate authors in braces.

    Errors: `UnreadableFile` if the text has no entry; `LibraryMissing` if bibtexparser is not installed.
    """
    parser = import_library("bibtexparser", "BibTeX", "cite")
    people = import_library("bibtexparser.middlewares.names", "BibTeX", "cite")
    latex = import_library("pylatexenc.latex2text", "BibTeX", "cite")
    decoder = latex.LatexNodes2Text(math_mode="text", keep_comments=True)

    def decode(value: object) -> str:
        source = str(value)
        if "\\" not in source and "{" not in source and "$" not in source and "~" not in source and "--" not in source:
            return " ".join(source.split())
        try:
            plain = decoder.latex_to_text(_TEX_FRAMES.sub("", re.sub(r"(?<!\\)%", r"\\%", source)))
        except Exception:  # noqa: BLE001 - the library raises almost anything for broken LaTeX, which is better shown
            plain = source
        return " ".join(plain.split())

    def split_names(value: str) -> list[dict[str, str]]:
        # A command in braces is a letter; without braces, the library drops a name's first command. A tilde is a space.
        # A per cent sign begins a comment, as in LaTeX.
        source = _TEX_COMMAND.sub(r"{\g<0>}", re.sub(r"(?<!\\)%.*\n", "", value))
        if (";" in source or source.count(",") > _MAX_COMMAS) and not re.search(r"\sand\s|\w=", source, re.IGNORECASE):
            return parse_names(decode(source))  # BibTeX would read the names as one name
        names = []
        for name in people.split_multiple_persons_names(source):
            if (parts := list(_NAME_PART.finditer(name))) and not parts[0].start():
                fields = {part[1].lower().replace("prefix", _PREFIX): part[2].strip('"') for part in parts}
            else:
                split = people.parse_single_name_into_parts(name, strict=False)
                first, von, last, junior = (" ".join(part) for part in (split.first, split.von, split.last, split.jr))
                fields = {"given": first, _PREFIX: von, "family": last, "suffix": junior}
                if not first and not von and (last.startswith("{") or not junior):
                    fields = {"literal": last}
            if name.lower() not in {"others", "{others}"}:
                names.append({role: decode(part) for role, part in fields.items() if part})
        return names

    try:
        library = parser.parse_string(text, parse_stack=[])
    except RecursionError:
        raise UnreadableFile("is not BibTeX: its braces are nested too deeply") from None
    macros: dict[str, str] = {}
    for macro in library.strings:
        macros[macro.key.lower()] = _tex_value(macro.value, macros)[:_MAX_MACRO_CHARS]
    entries: list[tuple[str, str, dict[str, str]]] = []
    problems = []
    for block in sorted([*library.entries, *library.failed_blocks], key=lambda block: block.start_line or 0):
        entry = getattr(block, "ignore_error_block", None) or block  # a repeated key, or a repeated field
        if hasattr(entry, "entry_type"):
            values = {field.key.lower(): _tex_value(field.value, macros) for field in reversed(entry.fields)}
            entries.append((entry.entry_type.lower(), entry.key, values))
        else:
            start = re.match(r"\s*@\w+\s*\{\s*([^\s,}]*)", str(block.raw or ""))
            problems.append(f"the entry {start[1] if start else ''!r} in line {(block.start_line or 0) + 1}")
    by_key = {key.lower(): (kind, values) for kind, key, values in reversed(entries)}
    inherited: dict[str, dict[str, str]] = {}
    works = [
        _tex_work(kind, key, _with_inherited(kind, values, by_key, inherited), decode, split_names)
        for kind, key, values in entries[:_MAX_ENTRIES]
        if kind != "xdata"
    ]
    if not works:
        detail = f": {Bibliography((), tuple(problems)).truncation}" if problems else ""
        raise UnreadableFile(f"has no entry of a bibliography{detail}")
    return Bibliography(tuple(works), tuple(problems))


def _tex_value(source: str, macros: Mapping[str, str]) -> str:
    """Join the parts of a value: `"On " # {shores} # jan`; the value of an unknown macro is its name."""
    parts, depth, is_quoted = [""], 0, False
    for piece in re.split(r"(\\.|[{}\"#])", source):
        is_quoted ^= piece == '"' and not depth
        depth += (piece == "{") - (piece == "}")
        if piece == "#" and not depth and not is_quoted:
            parts.append("")
        else:
            parts[-1] += piece
    stripped = [part.strip() for part in parts]
    return "".join(
        part[1:-1] if part[:1] in {"{", '"'} else macros.get(part.lower(), part) for part in stripped if part
    )


def _with_inherited(
    kind: str,
    values: Mapping[str, str],
    by_key: Mapping[str, tuple[str, Mapping[str, str]]],
    inherited: dict[str, dict[str, str]],
) -> dict[str, str]:
    """Add the fields of the entries that `xdata` and `crossref` name, unless the entry has a field itself.

    `inherited` gets the fields of the named entries by key.
    """
    result = dict(values)
    keys = [(key.strip().lower(), "xdata") for key in values.get("xdata", "").split(",")]
    for key, relation in [*keys, (values.get("crossref", "").strip().lower(), "crossref")]:
        if key not in by_key:
            continue
        if key not in inherited:
            parent_kind, own = by_key[key]
            inherited[key] = dict(own)  # entries may name each other
            inherited[key] = _with_inherited(parent_kind, own, by_key, inherited)
        parent = inherited[key]
        if relation == "crossref":
            container = {"booktitle": parent["title"]} if kind in _IN_CONTAINERS and "title" in parent else {}
            excluded = _NOT_INHERITED | ({"author"} if kind != "inbook" else set())
            excluded |= {"date", "year", "month"} if values.keys() & {"date", "year"} else set()
            parent = {**container, **{name: value for name, value in parent.items() if name not in excluded}}
        result = {**parent, **result}
    return result


def _tex_work(
    kind: str,
    key: str,
    fields: Mapping[str, str],
    decode: Callable[[object], str],
    split_names: Callable[[str], list[dict[str, str]]],
) -> Work:
    item: dict[str, Any] = {"id": key, "type": _TEX_TYPES.get(kind, "document")}
    for name, target in _TEX_FIELDS.items():
        if name in fields and not item.get(target):
            if target not in {"DOI", "URL"}:
                item[target] = decode(fields[name])
                continue
            address = fields[name]  # it may have `{\_}`, `{\textless}`, `$<$`
            for word, sign in (("less", "<"), ("greater", ">")):
                address = re.sub(rf"\$\s*(?:\\{word}|{sign})\s*\$|\\text{word}\b", sign, address)
            item[target] = re.sub(r"\\(?=[^A-Za-z])|[{}\s]", "", address)
    if subtitle := fields.get("subtitle"):
        item["title"] = f"{item.get('title', '')}: {decode(subtitle)}"
    item["page"] = re.sub(r"\s*[-–—]+\s*", "-", item.get("page", ""))
    for role in ("author", "editor"):
        if role in fields:
            item[role] = split_names(fields[role])
    # The month may contain the day: `10~jan`.
    issued = parse_date(fields.get("date", "")) or parse_date(fields.get("year", "").strip("{}"))
    dates = issued.get("date-parts", [])
    if not fields.get("date") and len(dates) == 1 and len(dates[0]) == 1:
        month = fields.get("month", "").lower()
        numbers = [int(number) for number in re.findall(r"\d+", month)]
        named = [_MONTHS.index(word[:3]) + 1 for word in re.findall(r"[a-z]+", month) if word[:3] in _MONTHS]
        dates[0] += ([*named, *numbers] if named else numbers)[:2]
    item["issued"] = issued
    archive = fields.get("eprinttype", fields.get("archiveprefix", "arXiv"))
    if archive.lower() == "arxiv" and (number := find_arxiv_id(f"arXiv:{fields.get('eprint', '')}")):
        item["number"] = f"arXiv:{number}"
    if link := re.search(r"https?://[^\s{}]+", fields.get("howpublished", "")):
        item.setdefault("URL", link[0].replace("\\", ""))
    return Work.of(item)


# --- RIS and CSL-JSON ------------------------------------------------------------------------------------------------


def read_ris(text: str) -> Bibliography:
    """Read RIS, the format of many databases; raise `UnreadableFile` if the text has no entry."""
    works: list[Work] = []
    problems: list[str] = []
    fields: list[tuple[str, str]] = []
    start = 0
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        match = _RIS_LINE.match(line.strip()) or _SHORT_RIS_LINE.match(line)
        if match is None:
            if fields and line.strip():  # a long value continues
                fields[-1] = (fields[-1][0], f"{fields[-1][1]} {line.strip()}")
            continue
        tag, value = match[1], match[2].strip()
        if tag == "TY":
            if fields:
                problems.append(f"the entry in line {start}, which has no end,")
            fields, start = [(tag, value)], number
        elif tag == "ER":
            works += [_ris_work(fields)] if fields else []
            fields = []
        elif fields:
            fields.append((tag, value))
    if fields:
        problems.append(f"the entry in line {start}, which has no end,")
    if not works:
        raise UnreadableFile("has no entry in RIS format")
    return Bibliography(tuple(works[:_MAX_ENTRIES]), tuple(problems))


def _ris_work(fields: Iterable[tuple[str, str]]) -> Work:
    item: dict[str, Any] = {}
    names: dict[str, list[dict[str, str]]] = {"author": [], "editor": []}
    keywords: list[str] = []
    pages: dict[str, str] = {}
    for tag, value in fields:
        if not value:
            continue
        if tag == "TY":
            item["type"] = _RIS_TYPES.get(value, "document")
        elif tag in {"AU", "A1"}:
            names["author"] += parse_names(value)
        elif tag in {"A2", "ED", "A3"}:
            names["editor"] += parse_names(value)
        elif tag in {"PY", "Y1", "DA"}:
            date = parse_date("" if value.startswith("0000") else value)
            # EndNote has `DA  - Mar 5` before the year; publishers write the day of the first version to Y1.
            if "date-parts" not in item.get("issued", {}) or (tag == "DA" and "date-parts" in date):
                item["issued"] = date
        elif tag == "KW":
            keywords.append(value)
        elif tag in {"SP", "EP"}:
            pages[tag] = value
        elif tag in {"M3", "L3"} and (doi := find_doi(value)):
            item.setdefault("DOI", doi)
        elif tag == "SN" and len(re.sub(r"[^\dXx]", "", value)) >= _ISBN_DIGITS:
            item.setdefault("ISBN", value)
        elif target := (item.get("type") == "book" and _BOOK_FIELDS.get(tag)) or _RIS_FIELDS.get(tag):
            item.setdefault(target, value)
    item.setdefault("container-title", item.get("container-title-short"))
    if start := pages.get("SP"):
        end = pages.get("EP", "")
        item["page"] = start if not end or start.endswith(f"-{end}") else f"{start}-{end}"
    item["keyword"] = ", ".join(keywords)
    return Work.of({**item, **names})


def read_csl(text: str) -> Bibliography:
    """Read CSL-JSON: an item or a list of items; `UnreadableFile` if the file is something else."""
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UnreadableFile(f"is not CSL-JSON: its JSON is broken{line}") from None
    loaded = loaded.get("message", loaded) if isinstance(loaded, dict) else loaded  # an answer of Crossref
    items = loaded.get("items", [loaded]) if isinstance(loaded, dict) else loaded
    works: list[Work] = []
    problems: list[str] = []
    for number, item in enumerate(items if isinstance(items, list) else [], 1):
        try:
            works.append(Work.of(_csl_item(item)))
        except (AttributeError, TypeError, ValueError):
            problems.append(f"item {number}")
    if not works:
        raise UnreadableFile("is not CSL-JSON: it has no item with a type and a title")
    return Bibliography(tuple(works[:_MAX_ENTRIES]), tuple(problems))


def _csl_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an item to the form of the standard from the forms of Crossref, Zotero and scripts.

    Errors: `AttributeError`, `TypeError` or `ValueError` for another value.
    """
    if "type" not in item or not (item.get("title") or item.get("DOI") or item.get("author")):
        raise ValueError
    kind = str(item["type"] or "document")
    fields = {**item, "id": str(item.get("id") or ""), "type": _CROSSREF_TYPES.get(kind, kind)}
    for name, value in item.items():
        if (
            isinstance(value, list)
            and all(isinstance(part, str) for part in value)
            and name not in {"author", "editor"}
        ):
            fields[name] = ", ".join(value if name in {"ISSN", "ISBN", "keyword"} else value[:1])
    for role in ("author", "editor"):
        names = item.get(role) or []
        names = parse_names(names) if isinstance(names, str) else [names] if isinstance(names, Mapping) else names
        parsed = [parse_names(name)[0] if isinstance(name, str) else name for name in names]
        fields[role] = [
            name if name.get("family") or "name" not in name else {"literal": name["name"]} for name in parsed
        ]
    issued = item.get("issued") or {}
    issued = issued[0] if isinstance(issued, list) else issued
    issued = issued if isinstance(issued, Mapping) else {"raw": issued}
    parts = issued.get("date-parts") or []
    parts = parts if any(isinstance(date, list) for date in parts) else [parts]  # some write `[2019, 5]`
    dates = [[str(part) for part in date if part] for date in parts]
    if any(dates) and all(re.fullmatch(r"-?\d+", part) for date in dates for part in date):
        fields["issued"] = {**issued, "date-parts": [list(map(int, date)) for date in dates]}
    else:
        fields["issued"] = parse_date(str(issued.get("raw") or issued.get("literal") or "-".join(dates[0])))
    return fields


_ROLES = {"author": "author", "editor": "editor", "programmer": "author", "presenter": "author", "inventor": "author"}
_TYPES = {
    "journalArticle": "article-journal", "magazineArticle": "article-magazine", "newspaperArticle": "article-newspaper",
    "preprint": "article", "book": "book", "bookSection": "chapter", "conferencePaper": "paper-conference",
    "thesis": "thesis", "report": "report", "webpage": "webpage", "blogPost": "post-weblog", "dataset": "dataset",
    "computerProgram": "software", "manuscript": "manuscript", "encyclopediaArticle": "entry-encyclopedia",
}  # fmt: skip
_FIELDS = {
    "title": "title", "abstractNote": "abstract", "publicationTitle": "container-title", "bookTitle": "container-title",
    "proceedingsTitle": "container-title", "websiteTitle": "container-title", "blogTitle": "container-title",
    "volume": "volume", "issue": "issue", "pages": "page", "publisher": "publisher", "university": "publisher",
    "institution": "publisher", "repository": "publisher", "place": "publisher-place", "DOI": "DOI", "url": "URL",
    "ISBN": "ISBN", "ISSN": "ISSN", "edition": "edition", "series": "collection-title", "language": "language",
    "extra": "note", "archiveID": "archive_location", "citationKey": "id",
}  # fmt: skip
_VALUES = """
SELECT items.itemID, fieldName, value FROM items JOIN itemData USING (itemID) JOIN fields USING (fieldID)
JOIN itemDataValues USING (valueID) ORDER BY items.itemID
"""
_ITEMS = """
SELECT itemID, items.key, typeName FROM items JOIN itemTypes USING (itemTypeID)
WHERE typeName NOT IN ('attachment', 'note', 'annotation')
    AND itemID NOT IN (SELECT itemID FROM deletedItems UNION SELECT itemID FROM feedItems) ORDER BY itemID
"""
_OPTIONAL = "CREATE TABLE IF NOT EXISTS retractedItems (itemID); CREATE TABLE IF NOT EXISTS feedItems (itemID);"
"""The tables that older databases lack, for the copy of a database; feeds have items that the person has not added."""
_NAMES = """
SELECT itemID, creatorType, firstName, lastName, fieldMode FROM itemCreators JOIN creators USING (creatorID)
JOIN creatorTypes USING (creatorTypeID) ORDER BY itemID, orderIndex
"""
_ATTACHMENTS = """
SELECT parentItemID, items.key, path FROM itemAttachments JOIN items USING (itemID)
WHERE parentItemID IS NOT NULL AND path IS NOT NULL AND itemID NOT IN (SELECT itemID FROM deletedItems)
    AND (contentType = 'application/pdf' OR lower(path) LIKE '%.pdf') ORDER BY itemID
"""


def read_zotero(data: bytes, path: PurePath) -> Bibliography:
    """Read the items of a database, with the paths of their PDF files.

    The journal and the folder `storage` of the database are in the folder of `path`.

    Errors: `UnreadableFile` for a file that is not a Zotero database, or that changed while it was copied.
    """
    with tempfile.TemporaryDirectory(prefix="artifactflow-zotero-") as folder:
        copy = Path(folder) / ZOTERO_FILE
        copy.write_bytes(data)
        for side in side_files(Path(path)):
            copy.with_name(side.name.lower()).write_bytes(side.read_bytes())
        try:
            with closing(sqlite3.connect(copy)) as db:
                return _zotero_works(db, Path(path).parent)
        except sqlite3.DatabaseError as error:
            is_foreign = "no such table" in str(error) or "not a database" in str(error)
            problem = (
                "is not a Zotero database" if is_foreign else "cannot be read now, as Zotero is writing. Try again"
            )
            raise UnreadableFile(f"{problem} ({error})") from None


def _zotero_works(db: sqlite3.Connection, folder: Path) -> Bibliography:
    db.executescript(_OPTIONAL)
    items: dict[int, dict[str, Any]] = {}
    for number, key, kind in db.execute(_ITEMS):
        items[number] = {"type": _TYPES.get(kind, "document"), "id": key}
    for number, name, value in db.execute(_VALUES):
        if number not in items:
            continue
        if name == "date":  # `2020-05-00 May 2020`
            date = re.match(r"(-?(?!0000)\d{4})(?:-(?!00)\d\d){0,2}", str(value))
            items[number]["issued"] = parse_date(date[0] if date else str(value))
        elif target := _FIELDS.get(name):
            items[number][target] = str(value)
    for number, role, first, last, mode in db.execute(_NAMES):
        if number in items and role in _ROLES:
            name = {"literal": last or ""} if mode or not first else {"family": last or "", "given": first}
            items[number].setdefault(_ROLES[role], []).append(name)
    problems: list[str] = []
    for number, key, path in db.execute(_ATTACHMENTS):
        if number not in items:
            continue
        files = items[number].setdefault("custom", {}).setdefault("files", [])
        link = str(path)
        in_storage = folder / "storage" / key / link.removeprefix("storage:")
        file = in_storage if link.startswith("storage:") else Path(link)
        if not file.is_absolute():
            problems.append(f"the file {link}, linked from a base folder (add that folder, too)")
            continue
        if not file.is_file():
            problems.append(f"the attached file {file.name} (missing)")
        elif not file.is_relative_to(folder):
            problems.append(f"the linked file {file} (add its folder, too)")
        files.append(str(file))
    for number in items.keys() & {number for (number,) in db.execute("SELECT itemID FROM retractedItems")}:
        items[number].setdefault("custom", {})["is_retracted"] = True
    return Bibliography(tuple(Work.of(item) for item in items.values() if item.get("title")), tuple(problems))


# --- readers ---------------------------------------------------------------------------------------------------------


def _extract(read: Callable[[str], Bibliography], data: bytes, path: PurePath) -> ExtractedDocument:
    return _as_document(read(decode_text(data)), title_from_path(path))


def _as_document(bibliography: Bibliography, title: str) -> ExtractedDocument:
    """Convert a bibliography to a document with a section for each work."""
    anchors = AnchorAllocator()
    works = tuple((anchors.allocate(name_slug(work.key, "work")), work) for work in bibliography.works)
    sections = (DocumentSection(anchor, work.title or work.key, work.reference()) for anchor, work in works)
    metadata = tuple((anchor, work.item) for anchor, work in works)
    return ExtractedDocument(title, tuple(sections), bibliography.truncation, metadata)


READERS = {
    ".bib": Extractor("bibtex", "text/x-bibtex", _TEXT_BYTES, partial(_extract, read_bibtex)),
    ".ris": Extractor("ris", "application/x-research-info-systems", _TEXT_BYTES, partial(_extract, read_ris)),
    ZOTERO_FILE: Extractor(
        "zotero", "application/x-sqlite3", _DATABASE_BYTES, lambda *file: _as_document(read_zotero(*file), "Zotero")
    ),
    ".json": Extractor(
        "csl",
        "application/vnd.citationstyles.csl+json",
        RICH_BYTES,
        partial(_extract, read_csl),
        is_in_folders=False,  # most JSON files are not bibliographies
    ),
}
"""The readers of bibliographies by kind of file."""
