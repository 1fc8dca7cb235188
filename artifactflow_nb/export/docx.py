"""Word export: headings, lists, tables, code, quotations and links in Word's own styles.

Sanitised HTML becomes a flat list of blocks, the structure of a Word document. The HTML is made by `MarkdownRenderer`,
which has removed images, unsafe links and raw HTML.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from artifactflow_nb.core.text.chinese import language_tag
from artifactflow_nb.core.text.format import NOT_XML
from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.core.text.scripts import is_right_to_left
from artifactflow_nb.errors import UsageError
from artifactflow_nb.export.document import ExportDocument

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_STYLES = {"strong": "bold", "b": "bold", "em": "italic", "i": "italic", "s": "strike", "code": "code"} | {
    "sub": "subscript", "sup": "superscript"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StyledText:
    """Text in one style; `href` is the address of a link, or ""; a line feed is a line break."""

    text: str
    bold: bool = False
    italic: bool = False
    strike: bool = False
    code: bool = False
    subscript: bool = False
    superscript: bool = False
    href: str = ""


StyledTexts = Sequence[StyledText]


@dataclass(frozen=True, slots=True)
class TableCell:
    """A table cell; `align` is `left`, `center` or `right`."""

    pieces: StyledTexts
    align: str = "left"


@dataclass(frozen=True, slots=True)
class ListLevel:
    """An enclosing list; `number` identifies a numbered list, and is None for bullets."""

    number: int | None
    start: int = 1


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A paragraph, heading, code block, rule or table.

    Attributes:
        kind: `text`, `heading`, `code`, `rule` or `table`.
        level: Level of a heading, from 1.
        is_item: Whether the block is the first block of an item of the innermost list.
        rows: Rows of a table, the header first.
    """

    kind: str
    pieces: StyledTexts = ()
    level: int = 0
    lists: tuple[ListLevel, ...] = ()
    is_item: bool = False
    is_quoted: bool = False
    rows: Sequence[Sequence[TableCell]] = field(default_factory=list)


_IGNORED = frozenset({"samp", "span"})
"""Elements of highlighted code and formulas, which are exported as text without a style."""


def read_blocks(html: str) -> list[DocumentBlock]:
    """Convert sanitised HTML to blocks, in order."""
    reader = _HtmlBlockParser()
    reader.feed(html)
    reader.close()
    return reader.blocks


class _HtmlBlockParser(HTMLParser):
    """Collects blocks; the attributes describe the position in the document."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[DocumentBlock] = []
        self._style = StyledText("")
        self._pieces: list[StyledText] = []
        self._lists: list[ListLevel] = []
        self._n_lists = 0
        self._starts_item = False
        self._quote_depth = 0
        self._in_code = False
        self._in_formula = False
        self._rows: list[list[TableCell]] | None = None
        self._align = "left"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "math":
            self._in_formula = True
            marks = "$$" if attributes.get("display") == "block" else "$"
            tex = attributes.get("alttext")
            self._pieces += [replace(self._style, text=f"{marks}{tex}{marks}")] if tex else []
        elif self._in_formula or tag in _IGNORED:
            return
        elif tag in _STYLES:
            self._set_style(tag, True)
        elif tag == "a":
            self._style = replace(self._style, href=attributes.get("href", ""))
        elif tag == "br":
            self._pieces.append(replace(self._style, text="\n"))
        elif tag in {"th", "td"}:
            self._align = attributes.get("style", "text-align:left").rpartition(":")[2].strip(" ;")
        else:
            self._end_text()
            if tag in {"ul", "ol"}:
                self._n_lists += tag == "ol"
                start = attributes.get("start", "")
                number = self._n_lists if tag == "ol" else None
                self._lists.append(ListLevel(number, int(start) if start.isdecimal() else 1))
            elif tag == "li":
                self._starts_item = True
            elif tag == "blockquote":
                self._quote_depth += 1
            elif tag == "pre":
                self._in_code = True
            elif tag == "hr":
                self._add("rule")
            elif tag == "table":
                self._rows = []
            elif tag == "tr" and self._rows is not None:
                self._rows.append([])

    def _set_style(self, tag: str, is_on: bool) -> None:
        change: dict[str, Any] = {_STYLES[tag]: is_on}
        self._style = replace(self._style, **change)

    def handle_endtag(self, tag: str) -> None:
        if tag == "math":
            self._in_formula = False
        elif self._in_formula or tag in _IGNORED:
            return
        elif tag in _STYLES:
            self._set_style(tag, False)
        elif tag == "a":
            self._style = replace(self._style, href="")
        elif tag in {"th", "td"} and self._rows:
            self._rows[-1].append(TableCell(_trimmed(self._pieces), self._align))
            self._pieces = []
        elif tag in _HEADINGS:
            self._add("heading", level=_HEADINGS[tag])
        elif tag == "pre":
            self._add("code")
            self._in_code = False
        else:
            self._end_text()
            if tag in {"ul", "ol"}:
                self._lists.pop()
            elif tag == "li":
                if self._starts_item:  # an empty item still has a bullet or number
                    self._add("text")
            elif tag == "blockquote":
                self._quote_depth -= 1
            elif tag == "table":
                rows, self._rows = self._rows or [], None
                self._add("table", rows=rows)

    def handle_data(self, data: str) -> None:
        if self._in_formula:
            return
        text = data if self._in_code else data.replace("\n", " ")
        if text.strip() or self._pieces:
            self._pieces.append(replace(self._style, text=text))

    def close(self) -> None:
        super().close()
        self._end_text()

    def _end_text(self) -> None:
        if self._rows is not None:
            return
        if _trimmed(self._pieces):
            self._add("text")
        self._pieces = []

    def _add(self, kind: str, *, level: int = 0, rows: Sequence[Sequence[TableCell]] = ()) -> None:
        if kind == "code":  # one piece, without the line feed that ends the last line
            pieces = [StyledText("".join(piece.text for piece in self._pieces).removesuffix("\n"))]
        else:
            pieces = _trimmed(self._pieces)
        is_item, self._starts_item = self._starts_item and bool(self._lists), False
        self._pieces = []
        self.blocks.append(DocumentBlock(kind, pieces, level, tuple(self._lists), is_item, self._quote_depth > 0, rows))


def _trimmed(pieces: list[StyledText]) -> list[StyledText]:
    """Return the pieces without white space at either end."""
    trimmed = list(pieces)
    while trimmed and not trimmed[-1].text.strip():
        trimmed.pop()
    del trimmed[: next((n for n, piece in enumerate(trimmed) if piece.text.strip()), 0)]
    if trimmed:
        trimmed[0] = replace(trimmed[0], text=trimmed[0].text.lstrip())
        trimmed[-1] = replace(trimmed[-1], text=trimmed[-1].text.rstrip())
    return trimmed


if TYPE_CHECKING:
    from docx.document import Document as WordDocument
    from docx.text.paragraph import Paragraph

_MAX_LIST_DEPTH = 3  # Word has styles for three levels of lists
_MAX_PROPERTY_CHARS = 255  # limit of python-docx for core properties
_FONTS = {"zh": "Microsoft YaHei", "zh-Hant": "Microsoft JhengHei"}
_MONOSPACE = "Consolas"
_LINK_COLOUR = "0563C1"
_SHADE = "F4F6F8"
_AFTER_BIDI = ("w:adjustRightInd", "w:spacing", "w:ind", "w:contextualSpacing", "w:jc", "w:outlineLvl", "w:rPr")
"""Properties of a paragraph that Word requires after its direction."""


def to_docx(document: ExportDocument) -> bytes:
    """Convert a document to docx.

    Errors: `UsageError` if python-docx is missing, with the command for the installation.
    """
    try:
        import docx
    except ImportError:
        raise UsageError(
            "Writing docx needs a library that is not installed: pip install 'artifactflow-nb[docx]'."
        ) from None
    word = docx.Document()
    properties = word.core_properties
    properties.title = _xml_text(document.title)[:_MAX_PROPERTY_CHARS]
    properties.author = properties.last_modified_by = _xml_text(document.author)[:_MAX_PROPERTY_CHARS]
    properties.created = properties.modified = document.written_at.astimezone(UTC).replace(tzinfo=None)
    properties.identifier = _xml_text(document.identifier)[:_MAX_PROPERTY_CHARS]
    properties.comments = f"sha256 {document.sha256}"
    writer = _DocxWriter(word)
    writer.prepare(_FONTS.get(language_tag(document.content[:4000]), ""))
    if not document.has_title:
        writer.text([StyledText(document.title)], "Title")
    for block in read_blocks(MarkdownRenderer().html(document.marked_markdown)):
        writer.block(block)
    writer.text([StyledText(document.origin, italic=True)], "Normal")
    file = io.BytesIO()
    word.save(file)
    return file.getvalue()


def _xml_text(text: str) -> str:
    """Return the text without characters that XML forbids."""
    return NOT_XML.sub("", text)


class _DocxWriter:
    """Appends blocks to a Word document.

    The methods of python-docx that append a paragraph, set a style by name or add a hyperlink each scan the document:
    a long export would take quadratic time. The writer therefore uses the underlying elements and caches ids.
    """

    def __init__(self, word: "WordDocument") -> None:
        self._word = word
        self._body: Any = word._body  # noqa: SLF001 - the parent of paragraphs has no public name
        self._end: Any = word.element.body.get_or_add_sectPr()
        self._links: dict[str, str] = {}  # relationship id by address
        self._styles: dict[str, Any] = {}
        self._numbering: dict[int, int] = {}  # numbering id by list number
        self._abstract_numberings: dict[str, int] = {}

    def prepare(self, asian_font: str) -> None:
        """Add a style for code and a font for Chinese, which the default template lacks."""
        from docx.enum.style import WD_STYLE_TYPE
        from docx.shared import Pt

        if asian_font:
            for name in ("Normal", "Title", *(f"Heading {level}" for level in range(1, 7))):
                self._style(name).element.get_or_add_rPr().get_or_add_rFonts().set(_qualified("w:eastAsia"), asian_font)
        code = self._word.styles.add_style("Code", WD_STYLE_TYPE.PARAGRAPH)
        code.base_style = self._word.styles["Normal"]
        code.font.name = _MONOSPACE
        code.font.size = Pt(9)
        code.element.get_or_add_pPr().append(_element("w:shd", {"w:val": "clear", "w:fill": _SHADE}))
        code.paragraph_format.space_after = Pt(8)  # after the shading: Word requires this order of elements

    def block(self, block: DocumentBlock) -> None:
        """Append a block of the document, such as a paragraph or a table."""
        from docx.shared import Inches

        if block.kind == "table":
            self._table(block)
            return
        style = "Normal"
        if block.kind == "heading":
            style = f"Heading {block.level}"
        elif block.kind == "code":
            style = "Code"
        elif block.kind == "text" and block.lists:
            kind = "Continue" if not block.is_item else "Bullet" if block.lists[-1].number is None else "Number"
            depth = min(len(block.lists), _MAX_LIST_DEPTH)
            style = f"List {kind}" + (f" {depth}" if depth > 1 else "")
        elif block.kind == "text" and block.is_quoted:
            style = "Quote"
        paragraph = self.text(block.pieces, style)
        properties: Any = paragraph._p.get_or_add_pPr  # noqa: SLF001 - borders and numbers have no public name
        if block.kind == "rule":
            border = _element("w:pBdr", {})
            border.append(_element("w:bottom", {"w:val": "single", "w:sz": "6", "w:space": "1", "w:color": "auto"}))
            properties().append(border)
            return
        depth = len(block.lists)
        if depth > _MAX_LIST_DEPTH or block.kind == "code":
            paragraph.paragraph_format.left_indent = Inches(0.25 * depth)
        if block.is_item and (number := block.lists[-1].number) is not None and block.kind == "text":
            numbering = properties().get_or_add_numPr()
            numbering.get_or_add_ilvl().val = 0
            numbering.get_or_add_numId().val = self._numbering_id(style, number, block.lists[-1].start)

    def text(self, pieces: StyledTexts, style: str) -> "Paragraph":
        """Append a paragraph, without the scan of all paragraphs that `add_paragraph` does."""
        from docx.text.paragraph import Paragraph

        element = _element("w:p", {})
        self._end.addprevious(element)
        paragraph = Paragraph(element, self._body)
        if style != "Normal":  # by id: setting a style by name searches all styles
            paragraph._p.style = self._style(style).style_id  # noqa: SLF001 - the same
        self._fill(paragraph, pieces, is_code=style == "Code")
        return paragraph

    def _numbering_id(self, style: str, number: int, start: int) -> int:
        """Return the id of a list's own numbering; without it, Word would continue the previous list."""
        if number not in self._numbering:
            numbering: Any = self._word.part.numbering_part.element
            if style not in self._abstract_numberings:
                base = self._style(style).element.pPr.numPr.numId.val
                (abstract,) = (num.abstractNumId.val for num in numbering.num_lst if num.numId == base)
                self._abstract_numberings[style] = abstract
            own = numbering.add_num(self._abstract_numberings[style])
            own.add_lvlOverride(ilvl=0).add_startOverride(start)
            self._numbering[number] = own.numId
        return self._numbering[number]

    def _table(self, block: DocumentBlock) -> None:
        from docx.enum.text import WD_ALIGN_PARAGRAPH as ALIGN
        from docx.text.paragraph import Paragraph

        alignments = {"center": ALIGN.CENTER, "right": ALIGN.RIGHT}
        n_columns = max(map(len, block.rows), default=0)
        if not n_columns:
            return
        table = self._word.add_table(rows=0, cols=n_columns)
        table._tbl.tblStyle_val = self._style("Table Grid").style_id  # noqa: SLF001 - by id, as in `text`
        for n, row in enumerate(block.rows):
            table_row = table.add_row()._tr  # noqa: SLF001 - public cells search the whole table
            if n == 0:
                table_row.get_or_add_trPr().append(_element("w:tblHeader", {}))
            for element, cell in zip(table_row.tc_lst, row, strict=False):
                paragraph = Paragraph(element.p_lst[0], self._body)
                if cell.align in alignments:
                    paragraph.alignment = alignments[cell.align]
                self._fill(paragraph, cell.pieces, bold=n == 0)
        self.text((), "Normal")

    def _fill(self, paragraph: "Paragraph", pieces: StyledTexts, *, bold: bool = False, is_code: bool = False) -> None:
        from docx.opc.constants import RELATIONSHIP_TYPE
        from docx.shared import RGBColor

        if not is_code and is_right_to_left("".join(piece.text for piece in pieces if not piece.code)):
            properties: Any = paragraph._p.get_or_add_pPr()  # noqa: SLF001 - the direction has no public name
            properties.insert_element_before(_element("w:bidi", {}), *_AFTER_BIDI)
        for piece in pieces:
            run = paragraph.add_run(_xml_text(piece.text))
            styles = {
                "rtl": not is_code and not piece.code and is_right_to_left(piece.text),
                "bold": piece.bold or bold,
                **{name: getattr(piece, name) for name in ("italic", "strike", "subscript", "superscript")},
            }
            for name in (name for name, is_on in styles.items() if is_on):
                setattr(run.font, name, True)
            if piece.code:
                run.font.name = _MONOSPACE
            if not _is_address(piece.href):
                continue
            run.font.color.rgb = RGBColor.from_string(_LINK_COLOUR)
            run.font.underline = True
            address = _xml_text(piece.href)
            if address not in self._links:  # `relate_to` would search all relationships for each link
                self._links[address] = name = f"rIdLink{len(self._links) + 1}"
                paragraph.part.rels.add_relationship(RELATIONSHIP_TYPE.HYPERLINK, address, name, is_external=True)
            link = _element("w:hyperlink", {"r:id": self._links[address]})
            run._r.addprevious(link)  # noqa: SLF001 - links have no public name
            link.append(run._r)  # noqa: SLF001 - the same

    def _style(self, name: str) -> Any:
        if name not in self._styles:
            self._styles[name] = self._word.styles[name]
        return self._styles[name]


def _is_address(href: str) -> bool:
    """Return whether an address is a web or mail address: Word would reject a file with an invalid hyperlink."""
    try:
        address = urlsplit(href)
        return bool(address.scheme in {"http", "https"} and address.hostname) or (
            address.scheme == "mailto" and bool(address.path)
        )
    except ValueError:
        return False


def _qualified(name: str) -> str:
    from docx.oxml.ns import qn

    return str(qn(name))


def _element(name: str, attributes: Mapping[str, str]) -> Any:
    from docx.oxml import OxmlElement

    element: Any = OxmlElement(name)
    for key, value in attributes.items():
        element.set(_qualified(key), value)
    return element
