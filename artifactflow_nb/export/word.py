"""A document as a file of Word: its headings, lists, tables, code, quotations and links in Word's own styles."""

import io
import re
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from artifactflow_nb.errors import UsageError
from artifactflow_nb.export.blocks import Block, Piece, Pieces, read_blocks
from artifactflow_nb.export.document import Document
from artifactflow_nb.text.chinese import language_tag

if TYPE_CHECKING:
    from docx.document import Document as WordDocument
    from docx.text.paragraph import Paragraph

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DEEPEST = 3  # Word has styles for three levels of lists
_MOST_TITLE = 255
_FONTS = {"zh": "Microsoft YaHei", "zh-Hant": "Microsoft JhengHei"}
_MONOSPACE = "Consolas"
_LINK_COLOUR = "0563C1"
_SHADE = "F4F6F8"


def to_docx(document: Document) -> bytes:
    """The document; `UsageError` says what to install where python-docx is missing."""
    try:
        import docx
    except ImportError:
        raise UsageError(
            "Writing docx needs a library that is not installed: pip install 'artifactflow-nb[docx]'."
        ) from None
    word = docx.Document()
    _describe(word, document)
    writer = _Writer(word)
    writer.prepare(_FONTS.get(language_tag(document.content[:4000]), ""))
    if not document.has_title:
        writer.text([Piece(document.title)], "Title")
    for block in read_blocks(document.html):
        writer.block(block)
    writer.text([Piece(document.origin, italic=True)], "Normal")
    file = io.BytesIO()
    word.save(file)
    return file.getvalue()


def _describe(word: "WordDocument", document: Document) -> None:
    known = word.core_properties
    known.title = _xml_text(document.title)[:_MOST_TITLE]
    known.author = known.last_modified_by = _xml_text(document.author)[:_MOST_TITLE]
    known.created = known.modified = document.written_at.astimezone(UTC).replace(tzinfo=None)
    known.identifier = _xml_text(document.identifier)[:_MOST_TITLE]
    known.comments = f"sha256 {document.sha256}"


def _xml_text(text: str) -> str:
    return _NOT_XML.sub("", text)


class _Writer:
    """Adds blocks to a document.

    Args:
        word: The document.
    """

    def __init__(self, word: "WordDocument") -> None:
        self._word = word
        self._body: Any = word._body  # noqa: SLF001 - what the paragraphs stand in has no public name
        self._end: Any = word.element.body.get_or_add_sectPr()
        self._links: dict[str, str] = {}  # the relationship of each address
        self._styles: dict[str, Any] = {}
        self._numbering: dict[int, int] = {}  # the numbering of each numbered list
        self._number_kinds: dict[str, int] = {}

    def prepare(self, asian_font: str) -> None:
        """Set up what Word's own template lacks: a style for code, and a font for Chinese."""
        from docx.enum.style import WD_STYLE_TYPE
        from docx.shared import Pt

        if asian_font:
            for name in ("Normal", "Title", *(f"Heading {level}" for level in range(1, 7))):
                self._style(name).element.get_or_add_rPr().get_or_add_rFonts().set(_name("w:eastAsia"), asian_font)
        code = self._word.styles.add_style("Code", WD_STYLE_TYPE.PARAGRAPH)
        code.base_style = self._word.styles["Normal"]
        code.font.name = _MONOSPACE
        code.font.size = Pt(9)
        code.element.get_or_add_pPr().append(_element("w:shd", {"w:val": "clear", "w:fill": _SHADE}))
        code.paragraph_format.space_after = Pt(8)  # after the shade: the order of the elements is Word's

    def block(self, block: Block) -> None:
        """Add a block at the end."""
        writers: Mapping[str, Callable[[Block], None]] = {"table": self._table, "rule": self._rule}
        writers.get(block.kind, self._paragraph)(block)

    def text(self, pieces: Pieces, style: str) -> "Paragraph":
        """Add a paragraph at the end."""
        paragraph = self._new_paragraph()
        if style != "Normal":  # by its id: a style that is set by its name is looked for among all, each time
            paragraph._p.style = self._style(style).style_id  # noqa: SLF001 - the same
        self._fill(paragraph, pieces)
        return paragraph

    def _new_paragraph(self) -> "Paragraph":
        """An empty one at the end, without the way through all that stand before it, which Word's library goes."""
        from docx.text.paragraph import Paragraph

        element = _element("w:p", {})
        self._end.addprevious(element)
        return Paragraph(element, self._body)

    def _paragraph(self, block: Block) -> None:
        from docx.shared import Inches

        paragraph = self.text(block.pieces, _style_name(block))
        depth = len(block.lists)
        if depth > _DEEPEST or block.kind == "code":
            paragraph.paragraph_format.left_indent = Inches(0.25 * depth)
        if block.is_item and (number := block.lists[-1].number) is not None and block.kind == "text":
            self._number(paragraph, _style_name(block), number, block.lists[-1].start)

    def _number(self, paragraph: "Paragraph", style: str, number: int, start: int) -> None:
        """Have a list count from its own start, where Word would go on from the list before."""
        if number not in self._numbering:
            numbering: Any = self._word.part.numbering_part.element
            own = numbering.add_num(self._numbering_of(style))
            own.add_lvlOverride(ilvl=0).add_startOverride(start)
            self._numbering[number] = own.numId
        place: Any = paragraph._p.get_or_add_pPr().get_or_add_numPr()  # noqa: SLF001 - numbers have no public name
        place.get_or_add_ilvl().val = 0
        place.get_or_add_numId().val = self._numbering[number]

    def _numbering_of(self, style: str) -> int:
        """The kind of numbers that a style of lists has."""
        if style not in self._number_kinds:
            numbering: Any = self._word.part.numbering_part.element
            base = self._style(style).element.pPr.numPr.numId.val
            (self._number_kinds[style],) = (num.abstractNumId.val for num in numbering.num_lst if num.numId == base)
        return self._number_kinds[style]

    def _rule(self, _block: Block) -> None:
        paragraph = self.text((), "Normal")
        line = _element("w:bottom", {"w:val": "single", "w:sz": "6", "w:space": "1", "w:color": "auto"})
        border = _element("w:pBdr", {})
        border.append(line)
        paragraph._p.get_or_add_pPr().append(border)  # noqa: SLF001 - borders have no public name

    def _table(self, block: Block) -> None:
        from docx.enum.text import WD_ALIGN_PARAGRAPH as ALIGN

        aligned = {"center": ALIGN.CENTER, "right": ALIGN.RIGHT}
        n_columns = max(map(len, block.rows), default=0)
        if not n_columns:
            return
        table = self._word.add_table(rows=0, cols=n_columns, style=self._style("Table Grid"))
        for n, row in enumerate(block.rows):
            added = table.add_row()
            if n == 0:
                added._tr.get_or_add_trPr().append(_element("w:tblHeader", {}))  # noqa: SLF001 - has no public name
            for place, cell in zip(added.cells, row, strict=False):
                place.paragraphs[0].alignment = aligned.get(cell.align)
                self._fill(place.paragraphs[0], cell.pieces, bold=n == 0)
        self.text((), "Normal")

    def _fill(self, paragraph: "Paragraph", pieces: Pieces, *, bold: bool = False) -> None:
        for piece in pieces:
            run = paragraph.add_run(_xml_text(piece.text))
            run.bold, run.italic, run.font.strike = (
                value or None for value in (piece.bold or bold, piece.italic, piece.strike)
            )
            if piece.code:
                run.font.name = _MONOSPACE
            if _is_address(piece.href):
                self._link(paragraph, run, piece.href)

    def _link(self, paragraph: "Paragraph", run: Any, href: str) -> None:
        from docx.shared import RGBColor

        run.font.color.rgb = RGBColor.from_string(_LINK_COLOUR)
        run.font.underline = True
        link = _element("w:hyperlink", {"r:id": self._relationship(paragraph.part, _xml_text(href))})
        run._r.addprevious(link)  # noqa: SLF001 - links have no public name
        link.append(run._r)  # noqa: SLF001 - the same

    def _relationship(self, part: Any, href: str) -> str:
        """The name of the relationship to an address; Word's library would look through all of them for each link."""
        from docx.opc.constants import RELATIONSHIP_TYPE

        if href not in self._links:
            self._links[href] = name = f"rIdLink{len(self._links) + 1}"
            part.rels.add_relationship(RELATIONSHIP_TYPE.HYPERLINK, href, name, is_external=True)
        return self._links[href]

    def _style(self, name: str) -> Any:
        if name not in self._styles:
            self._styles[name] = self._word.styles[name]
        return self._styles[name]


def _style_name(block: Block) -> str:
    if block.kind == "heading":
        return f"Heading {block.level}"
    if block.kind == "code":
        return "Code"
    if not block.lists:
        return "Quote" if block.is_quoted else "Normal"
    kind = "Continue" if not block.is_item else "Bullet" if block.lists[-1].number is None else "Number"
    depth = min(len(block.lists), _DEEPEST)
    return f"List {kind}" + (f" {depth}" if depth > 1 else "")


def _is_address(href: str) -> bool:
    """Whether Word can be given this address; one that is no address would make it refuse the whole file."""
    try:
        parts = urlsplit(href)
        return bool(parts.scheme in {"http", "https"} and parts.hostname) or (
            parts.scheme == "mailto" and bool(parts.path)
        )
    except ValueError:
        return False


def _name(name: str) -> str:
    from docx.oxml.ns import qn

    return str(qn(name))


def _element(name: str, attributes: Mapping[str, str]) -> Any:
    from docx.oxml import OxmlElement

    made: Any = OxmlElement(name)
    for key, value in attributes.items():
        made.set(_name(key), value)
    return made
