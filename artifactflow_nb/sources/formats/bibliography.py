"""Works of bibliographies: BibTeX, RIS, CSL-JSON, and a copy of the database of Zotero, which may be running."""

import json
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from artifactflow_nb.core.works import Work, parse_name
from artifactflow_nb.sources.formats.sections import ZOTERO_FILE, UnreadableFile, import_library

_MAX_ENTRIES = 50_000
_MAX_LISTED = 3
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
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
_RIS_TYPES = {
    "JOUR": "article-journal", "JFULL": "article-journal", "MGZN": "article-magazine", "NEWS": "article-newspaper",
    "BOOK": "book", "EDBOOK": "book", "EBOOK": "book", "CHAP": "chapter", "ECHAP": "chapter",
    "CONF": "paper-conference", "CPAPER": "paper-conference", "THES": "thesis", "RPRT": "report",
    "ELEC": "webpage", "WEB": "webpage", "BLOG": "post-weblog", "DATA": "dataset", "COMP": "software",
    "UNPB": "manuscript",
}  # fmt: skip
_RIS_FIELDS = {
    "TI": "title", "T1": "title", "CT": "title", "JO": "container-title", "JF": "container-title",
    "T2": "container-title", "BT": "container-title", "JA": "container-title-short", "VL": "volume", "IS": "issue",
    "PB": "publisher", "CY": "publisher-place", "DO": "DOI", "UR": "URL", "AB": "abstract", "N2": "abstract",
    "N1": "note", "SN": "ISSN", "ET": "edition", "LA": "language", "ID": "id",
}  # fmt: skip
_RIS_LINE = re.compile(r"([A-Z][A-Z0-9])  ?- ?(.*)")


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
        """Description of the unreadable entries; empty if there are none."""
        listed = ", ".join(self.problems[:_MAX_LISTED])
        rest = f" and {len(self.problems) - _MAX_LISTED:,} more" if len(self.problems) > _MAX_LISTED else ""
        return f"{listed}{rest} cannot be read" if self.problems else ""


# --- BibTeX ----------------------------------------------------------------------------------------------------------


def read_bibtex(text: str) -> Bibliography:
    """Read BibTeX and BibLaTeX, with LaTeX accents and corporate authors in braces.

    Errors: `UnreadableFile` without an entry; `LibraryMissing` without bibtexparser.
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
            plain = decoder.latex_to_text(_TEX_FRAMES.sub("", source))
        except Exception:  # noqa: BLE001 - the library raises almost anything for broken LaTeX, which is better shown
            plain = source
        return " ".join(plain.split())

    def split_names(value: object) -> list[Any]:
        # In braces a command is a letter. Else the library drops the first of a name, and takes a tilde for a space.
        names = people.split_multiple_persons_names(_TEX_COMMAND.sub(r"{\g<0>}", str(value)))
        return [people.parse_single_name_into_parts(name, strict=False) for name in names]

    try:
        library = parser.parse_string(text)
    except RecursionError:
        raise UnreadableFile("is not BibTeX: its braces are nested too deeply") from None
    works = []
    problems = []
    for block in library.failed_blocks:
        start = re.match(r"\s*@\w+\s*\{\s*([^\s,}]*)", str(block.raw or ""))
        key = getattr(block, "key", "") or (start[1] if start else "")
        name = "the repeated key" if type(block).__name__ == "DuplicateBlockKeyBlock" else "the entry"
        problems.append(f"{name} {key!r} in line {(block.start_line or 0) + 1}")
    for entry in library.entries[:_MAX_ENTRIES]:
        fields = {name.lower(): field.value for name, field in entry.fields_dict.items()}
        fields |= {role: split_names(fields[role]) for role in ("author", "editor") if role in fields}
        works.append(_tex_work(entry.entry_type.lower(), entry.key, fields, decode))
    if not works:
        detail = f": {Bibliography((), tuple(problems)).truncation}" if problems else ""
        raise UnreadableFile(f"has no entry of a bibliography{detail}")
    return Bibliography(tuple(works), tuple(problems))


def _tex_work(kind: str, key: str, fields: Mapping[str, Any], decode: Callable[[object], str]) -> Work:
    item: dict[str, Any] = {"id": key, "type": _TEX_TYPES.get(kind, "document")}
    for name, target in _TEX_FIELDS.items():
        if name in fields and not item.get(target):
            raw = target in {"DOI", "URL"}
            item[target] = str(fields[name]).replace("\\_", "_").strip() if raw else decode(fields[name])
    if subtitle := fields.get("subtitle"):
        item["title"] = f"{item.get('title', '')}: {decode(subtitle)}"
    item["page"] = re.sub(r"\s*[-–—]+\s*", "-", item.get("page", ""))
    for role in ("author", "editor"):
        if names := fields.get(role):
            item[role] = [_tex_name(name, decode) for name in names if name.last != ["others"]]
    date = [int(part) for part in re.findall(r"\d+", str(fields.get("date", "")))[:3]]
    if not date and (year := re.search(r"\d{4}", str(fields.get("year", "")))):
        month = str(fields.get("month", "")).lower()[:3]
        numbers = [int(month)] if month.isdigit() else [_MONTHS.index(month) + 1] if month in _MONTHS else []
        date = [int(year[0]), *numbers]
    if date:
        item["issued"] = {"date-parts": [date]}
    if (eprint := str(fields.get("eprint", ""))) and re.match(
        r"(?:\d{4}\.\d{4,5}|[a-z.-]+/\d{7})", eprint, re.IGNORECASE
    ):
        item["number"] = f"arXiv:{eprint}"
    return Work.of(item)


def _tex_name(name: Any, decode: Callable[[object], str]) -> dict[str, str]:
    first, von, last, junior = (" ".join(part) for part in (name.first, name.von, name.last, name.jr))
    if not first and not von and (last.startswith("{") or not junior):
        return {"literal": decode(last)}
    parts = {"given": first, "non-dropping-particle": von, "family": last, "suffix": junior}
    return {role: decode(part) for role, part in parts.items() if part}


# --- RIS and CSL-JSON ------------------------------------------------------------------------------------------------


def read_ris(text: str) -> Bibliography:
    """Read RIS, the format of many databases; `UnreadableFile` without an entry."""
    works: list[Work] = []
    problems: list[str] = []
    fields: list[tuple[str, str]] = []
    start = 0
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        match = _RIS_LINE.match(line.strip())
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
        raise UnreadableFile("has no entry of a bibliography in RIS")
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
            names["author"].append(_ris_name(value))
        elif tag in {"A2", "ED", "A3"}:
            names["editor"].append(_ris_name(value))
        elif tag in {"PY", "Y1", "DA"} and (date := [int(part) for part in re.findall(r"\d+", value)[:3]]):
            item.setdefault("issued", {"date-parts": [date]})
        elif tag == "KW":
            keywords.append(value)
        elif tag in {"SP", "EP"}:
            pages[tag] = value
        elif target := _RIS_FIELDS.get(tag):
            item.setdefault(target, value)
    item["page"] = "-".join(pages[tag] for tag in ("SP", "EP") if tag in pages)
    item["keyword"] = ", ".join(keywords)
    return Work.of({**item, **names})


def _ris_name(value: str) -> dict[str, str]:
    """Convert a name of the form `Doe, Jane, Jr.` to CSL-JSON; without a comma it is an organisation."""
    parts = [part.strip() for part in value.split(",")]
    if len(parts) == 1 or not parts[1]:
        return {"literal": parts[0]}
    return {**parse_name(",".join(parts[:2])), **({"suffix": parts[2]} if len(parts) > 2 else {})}  # noqa: PLR2004 - the suffix


def read_csl(text: str) -> Bibliography:
    """Read CSL-JSON: an item or a list of items; `UnreadableFile` if the file is something else."""
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UnreadableFile(f"is not CSL-JSON: its JSON is broken{line}") from None
    items = loaded.get("items", [loaded]) if isinstance(loaded, dict) else loaded
    works: list[Work] = []
    problems: list[str] = []
    for number, item in enumerate(items if isinstance(items, list) else [], 1):
        is_item = isinstance(item, dict) and isinstance(item.get("type"), str) and isinstance(item.get("title"), str)
        if is_item and _has_csl_shape(item):
            works.append(Work.of({**item, "id": str(item.get("id") or "")}))
        else:
            problems.append(f"item {number}")
    if not works:
        raise UnreadableFile("is not CSL-JSON: it has no item with a type and a title")
    return Bibliography(tuple(works[:_MAX_ENTRIES]), tuple(problems))


def _has_csl_shape(item: Mapping[str, Any]) -> bool:
    names = [item.get(role) or [] for role in ("author", "editor")]
    issued = item.get("issued") or {}
    if not all(isinstance(group, list) and all(isinstance(name, dict) for name in group) for group in names):
        return False
    parts = issued.get("date-parts") or [[]] if isinstance(issued, dict) else None
    return isinstance(parts, list) and all(
        isinstance(date, list) and all(isinstance(part, int | str) for part in date) for date in parts
    )


_SIDE_FILES = ("-wal", "-journal")  # changes that are not in the database yet, or are being undone
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
WHERE typeName NOT IN ('attachment', 'note', 'annotation') AND itemID NOT IN (SELECT itemID FROM deletedItems)
ORDER BY itemID
"""
_NAMES = """
SELECT itemID, creatorType, firstName, lastName, fieldMode FROM itemCreators JOIN creators USING (creatorID)
JOIN creatorTypes USING (creatorTypeID) ORDER BY itemID, orderIndex
"""
_ATTACHMENTS = """
SELECT parentItemID, items.key, path FROM itemAttachments JOIN items USING (itemID)
WHERE parentItemID IS NOT NULL AND path IS NOT NULL AND itemID NOT IN (SELECT itemID FROM deletedItems)
    AND (contentType = 'application/pdf' OR lower(path) LIKE '%.pdf') ORDER BY itemID
"""
_RETRACTED = "SELECT itemID FROM retractedItems"


def read_zotero(data: bytes, path: PurePath) -> Bibliography:
    """Read the items of a database, with the paths of their PDF files.

    The journal and the folder `storage` of the database are in the folder of `path`.

    Errors: `UnreadableFile` for a file that is not a Zotero database, or that changed while it was copied.
    """
    with tempfile.TemporaryDirectory(prefix="artifactflow-zotero-") as folder:
        copy = Path(folder) / ZOTERO_FILE
        copy.write_bytes(data)
        for suffix in _SIDE_FILES:
            side = Path(f"{path}{suffix}")
            if side.is_file():
                Path(f"{copy}{suffix}").write_bytes(side.read_bytes())
        try:
            with closing(sqlite3.connect(copy)) as db:
                return Bibliography(tuple(_works(db, Path(path).parent)))
        except sqlite3.DatabaseError as error:
            is_foreign = "no such table" in str(error) or "not a database" in str(error)
            problem = (
                "is not a Zotero database" if is_foreign else "cannot be read now, as Zotero is writing. Try again"
            )
            raise UnreadableFile(f"{problem} ({error})") from None


def _works(db: sqlite3.Connection, folder: Path) -> list[Work]:
    items: dict[int, dict[str, Any]] = {}
    for number, key, kind in db.execute(_ITEMS):
        items[number] = {"type": _TYPES.get(kind, "document"), "id": key}
    for number, name, value in db.execute(_VALUES):
        if number not in items:
            continue
        if name == "date":  # `2020-05-00 May 2020`
            parts = [int(part) for part in str(value)[:10].split("-") if part.isdigit() and int(part)]
            items[number]["issued"] = {"date-parts": [parts]} if parts else {"raw": str(value)}
        elif target := _FIELDS.get(name):
            items[number][target] = str(value)
    for number, role, first, last, mode in db.execute(_NAMES):
        if number in items and role in {"author", "editor"}:
            name = {"literal": last or ""} if mode or not first else {"family": last or "", "given": first}
            items[number].setdefault(role, []).append(name)
    for number, key, place in db.execute(_ATTACHMENTS):
        in_storage = folder / "storage" / key / str(place).removeprefix("storage:")
        file = in_storage if str(place).startswith("storage:") else Path(str(place))
        if number in items and file.is_absolute():
            items[number].setdefault("custom", {}).setdefault("files", []).append(str(file))
    try:
        retracted = [number for (number,) in db.execute(_RETRACTED)]
    except sqlite3.OperationalError:  # a database from before retractions
        retracted = []
    for number in retracted:
        if number in items:
            items[number].setdefault("custom", {})["is_retracted"] = True
    return [Work.of(item) for item in items.values() if item.get("title")]
