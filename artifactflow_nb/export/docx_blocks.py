"""Conversion of sanitised HTML to a flat list of blocks, the structure of a Word document.

The HTML comes from `MarkdownRenderer`, which has removed images, unsafe links and raw HTML.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import Any

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_STYLES = {"strong": "bold", "em": "italic", "s": "strike", "code": "code"}


@dataclass(frozen=True, slots=True)
class StyledText:
    """Text in one style; `href` is the address of a link, or empty; a line feed is a line break."""

    text: str
    bold: bool = False
    italic: bool = False
    strike: bool = False
    code: bool = False
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
        pieces: Text of the block.
        level: Level of a heading, from 1.
        lists: Enclosing lists, outermost first.
        is_item: True if the block is the first of an item of the innermost list.
        is_quoted: True inside a quotation.
        rows: Rows of a table; the first one is the header.
    """

    kind: str
    pieces: StyledTexts = ()
    level: int = 0
    lists: tuple[ListLevel, ...] = ()
    is_item: bool = False
    is_quoted: bool = False
    rows: Sequence[Sequence[TableCell]] = field(default_factory=list)


_IGNORED = frozenset({"b", "i", "samp", "span", "sup"})
"""Elements of highlighted code, footnotes and formulas, whose text is exported without a style."""


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
            self._pieces += [replace(self._style, text=tex)] if (tex := attributes.get("alttext")) else []
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
                if self._starts_item:  # an empty item still has its bullet or number
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
    """Pieces without white space at either end."""
    trimmed = list(pieces)
    while trimmed and not trimmed[-1].text.strip():
        trimmed.pop()
    while trimmed and not trimmed[0].text.strip():
        trimmed.pop(0)
    if trimmed:
        trimmed[0] = replace(trimmed[0], text=trimmed[0].text.lstrip())
        trimmed[-1] = replace(trimmed[-1], text=trimmed[-1].text.rstrip())
    return trimmed
