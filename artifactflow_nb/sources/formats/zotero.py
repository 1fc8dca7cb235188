"""Works of Zotero, read from a copy of its database, so that Zotero may be running."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path, PurePath
from typing import Any

from artifactflow_nb.core.works import Work
from artifactflow_nb.sources.formats.bibliography import Bibliography
from artifactflow_nb.sources.formats.errors import UnreadableFile
from artifactflow_nb.sources.formats.sections import ZOTERO_FILE

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

    Args:
        data: The database.
        path: Its path; its journal and its folder `storage` are in the same folder.

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
