"""The text of a Word document as Markdown, as its reader sees the text.

The parts of the file are read directly, since python-docx passes over content controls, tracked changes, text boxes,
notes and equations. The content of unknown elements is read, too.
"""

import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from artifactflow_nb.sources.formats.glyphs import repair_glyphs
from artifactflow_nb.sources.formats.sections import UnreadableFile, list_counts
from artifactflow_nb.sources.formats.word_parts import (
    ListNumbers,
    Styles,
    child,
    equation_text,
    is_on,
    name,
    parts,
    value,
)

WORD_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
"""The media type of .docx files."""

_MAX_TITLE_CHARS = 300
_MAX_REASON_CHARS = 250
_LAYOUT_BLOCKS = 6  # a cell with more blocks is a column of a page, not of a table
_HASHES = re.compile(r"#+ ")
_UNSEEN = frozenset({
    *("del", "moveFrom", "delText", "instrText", "delInstrText", "rPr", "pPr", "tblPr", "trPr", "tcPr", "sdtPr"),
    *("sdtEndPr", "sectPr", "rubyPr", "rt", "footnoteRef", "endnoteRef"),
})  # fmt: skip
_CHARACTERS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_UNREAD = {"pic": "picture", "imagedata": "picture", "chart": "chart", "relIds": "diagram", "altChunk": "embedded file"}
"""The elements whose content is not read, with their names for the reader."""


@dataclass(frozen=True, slots=True)
class WordText:
    """The text of a Word document.

    Attributes:
        title: The title in the document's properties, or an empty string.
        text: Headings, paragraphs, lists and tables as Markdown. Notes follow the section with the reference.
        margins: The texts of headers and footers.
        omitted: The parts that are not read; empty for a document that is read whole.
    """

    title: str
    text: str
    margins: str = ""
    omitted: str = ""


def read_word(data: bytes) -> WordText:
    """Read a Word document.

    Insertions are read; deletions and comments are not read.

    Errors: `UnreadableFile` for a broken, encrypted or too large file.
    """
    try:
        roots = parts(data)
        reader = _WordReader(roots)
        text = "\n\n".join(reader.blocks(roots["document"][0]))
        margins = [block for root in roots["header"] + roots["footer"] for block in reader.blocks(root)]
        lines = dict.fromkeys(block for block in margins if any(map(str.isalpha, block)))
        title = next((child(root, "title") for root in roots["core"]), None)
    except UnreadableFile:
        raise
    except (zipfile.BadZipFile, IndexError):  # an encrypted document is not an archive either
        raise UnreadableFile("is not a Word document, or needs a password") from None
    except Exception as error:  # noqa: BLE001 - a broken file raises almost anything
        raise UnreadableFile(f"cannot be read: {type(error).__name__}: {error}"[:_MAX_REASON_CHARS]) from None
    written = "" if title is None else (title.text or "").strip()
    return WordText(written[:_MAX_TITLE_CHARS], text, "\n\n".join(lines), list_counts(reader.unread))


class _WordReader:
    def __init__(self, roots: Mapping[str, list[Element]]) -> None:
        self._styles, self._numbers = Styles(roots["styles"]), ListNumbers(roots["numbering"])
        notes = [note for root in roots["footnotes"] + roots["endnotes"] for note in root]
        self._notes = {(f"{name(note)}Reference", value(note, "id")): note for note in notes}
        self.unread = Counter({"comment": sum(map(len, roots["comments"]))})
        self._n_notes = 0
        self._waiting: list[str] = []  # notes of the current section
        self._boxes: list[Element] = []  # text boxes of the current paragraph
        self._fields: list[bool] = []  # for each field of the current paragraph, whether its instruction has ended
        self._font = ""  # of the current run
        self._joined = ""  # a drop cap, or a paragraph whose end is deleted

    def blocks(self, root: Element) -> list[str]:
        """Return the blocks of a part of the document, and the notes to which it refers."""
        return [*self._blocks(root), *self._end_section()]

    def _end_section(self) -> list[str]:
        notes, self._waiting = self._waiting, []
        return notes

    def _blocks(self, parent: Element) -> list[str]:
        blocks: list[str] = []
        for element in parent:
            tag = name(element)
            if tag == "p":
                outer, self._boxes, self._fields = self._boxes, [], []
                joined, self._joined = self._joined, ""
                text, properties = joined + self._text(element), child(element, "pPr")
                boxes, self._boxes = self._boxes, outer
                box_blocks = [block for box in boxes for block in self._blocks(box)]
                is_cap = value(child(properties, "framePr"), "dropCap") in {"drop", "margin"}
                if is_cap or child(child(properties, "rPr"), "del") is not None:
                    self._joined, text = text, ""
                if text := text.strip():
                    style = self._styles.of(properties)
                    label = self._numbers.label(style.list_id, style.list_level)
                    if style.heading:
                        label = f"{'#' * min(style.heading, 6)} {label}"
                        text = " ".join(text.split())
                        blocks += self._end_section()
                    blocks.append(f"{label}{text}")
                blocks += box_blocks
            elif tag == "tbl":
                blocks += [*self._end_paragraph(), *self._table(element)]
            elif tag in _UNREAD:
                self.unread[_UNREAD[tag]] += 1
            elif tag == "AlternateContent":
                blocks += [block for choice in element[:1] for block in self._blocks(choice)]  # then for old programs
            elif tag not in _UNSEEN:
                blocks += self._blocks(element)
        return [*blocks, *self._end_paragraph()]

    def _end_paragraph(self) -> list[str]:
        text, self._joined = self._joined.strip(), ""
        return [text] if text else []

    def _text(self, element: Element) -> str:
        """Return the text of an element inside a paragraph; text boxes are left to the paragraph."""
        tag = name(element)
        if tag == "fldChar":
            kind = value(element, "fldCharType")
            self._fields = [*self._fields, False] if kind == "begin" else self._fields[:-1]
            self._fields += [True] if kind == "separate" else []
        if tag in {"t", "sym"}:
            sign = chr(int(value(element, "char") or "2022", 16)) if tag == "sym" else element.text or ""
            is_instruction = self._fields != sorted(self._fields, reverse=True)  # a field may hold another field
            return "" if is_instruction else repair_glyphs(sign, value(element, "font") or self._font)
        if tag == "r":
            self._font = value(child(child(element, "rPr"), "rFonts"), "ascii")
        if tag in _CHARACTERS:
            return _CHARACTERS[tag]
        if tag in _UNREAD:
            self.unread[_UNREAD[tag]] += 1
        elif tag == "txbxContent":
            self._boxes.append(element)
        elif tag in {"footnoteReference", "endnoteReference"}:
            return self._note(tag, element)
        elif tag == "oMath":
            return equation_text(element)
        elif tag == "AlternateContent":
            return "".join(map(self._text, element[:1]))  # as in _blocks
        elif tag not in _UNSEEN and not (tag == "r" and self._styles.is_hidden(child(element, "rPr"))):
            shown = element.get("string", "") if tag == "textpath" else ""  # a watermark
            if tag == "checkBox":
                states = [is_on(state) for state in element if name(state) in {"default", "checked"}]
                shown = "☒" if states and states[-1] else "☐"
            elif tag == "ddList":
                choices = dict(enumerate(value(choice) for choice in element if name(choice) == "listEntry"))
                chosen = value(child(element, "result")) or value(child(element, "default")) or 0
                shown = choices.get(int(chosen), "")
            return shown or "".join(map(self._text, element))
        return ""

    def _note(self, kind: str, reference: Element) -> str:
        note = self._notes.pop((kind, value(reference, "id")), None)
        if note is None:
            return ""
        self._n_notes += 1
        mark = f"[^{self._n_notes}]"
        self._waiting.append(f"{mark}: {' '.join(' '.join(self._blocks(note)).split())}")
        return mark

    def _table(self, table: Element) -> list[str]:
        """Return a table as Markdown, or the blocks of the cells if the table lays out a page."""
        rows = [[self._blocks(cell) for cell in _cells(row)] for row in _rows(table)]
        cells = [cell for row in rows for cell in row]
        if len(cells) == 1 or any(len(cell) > _LAYOUT_BLOCKS for cell in cells):
            return [block for cell in cells for block in cell]
        lines = [f"| {' | '.join(' '.join(map(_in_line, cell)) for cell in row)} |" for row in rows if any(row)]
        return ["\n".join([*lines[:1], "|" + " --- |" * len(rows[0]), *lines[1:]])] if lines else []


def _rows(parent: Element) -> Iterator[Element]:
    """Yield the rows of a table that are not deleted, also rows inside content controls."""
    for element in parent:
        if name(element) != "tr":
            yield from _rows(element) if name(element) not in _UNSEEN else ()
        elif child(child(element, "trPr"), "del") is None:
            yield element


def _cells(row: Element) -> Iterator[Element]:
    """Yield the cells of a row, and an empty cell for each further column of a wide cell."""
    before = value(child(child(row, "trPr"), "gridBefore"))
    yield from [Element("tc")] * int(before or 0)
    for element in row:
        if name(element) == "tc":
            span = value(child(child(element, "tcPr"), "gridSpan"))
            yield from (element, *[Element("tc")] * (int(span or 1) - 1))
        elif name(element) not in _UNSEEN:
            yield from _cells(element)


def _in_line(block: str) -> str:
    """Return a block of a cell in one line; semicolons separate the rows of a nested table."""
    if block.startswith("| "):
        rows = [" ".join(line.strip("| ").replace(" | ", " ").split()) for line in block.split("\n")]
        return "; ".join(row for n, row in enumerate(rows) if n != 1)  # the second row is the line below the head
    return " ".join(_HASHES.sub("", block, count=1).split())
