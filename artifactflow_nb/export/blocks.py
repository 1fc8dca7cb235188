"""Sanitised HTML as a flat list of blocks, the way a word processor holds a text.

The HTML is that of `MarkdownRenderer`, so what it makes harmless (images, links to nowhere, raw HTML) is so here too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import Any

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_STYLES = {"strong": "bold", "em": "italic", "s": "strike", "code": "code"}


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text in one style; `href` is where it leads, empty for nowhere; a line feed in it is a line break."""

    text: str
    bold: bool = False
    italic: bool = False
    strike: bool = False
    code: bool = False
    href: str = ""


Pieces = Sequence[Piece]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table; `align` is `left`, `center` or `right`."""

    pieces: Pieces
    align: str = "left"


@dataclass(frozen=True, slots=True)
class List:
    """A list that is open; `number` tells numbered lists apart, and is None for one with bullets."""

    number: int | None
    start: int = 1


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, or what stands in the place of one.

    Attributes:
        kind: `text`, `heading`, `code`, `rule` or `table`.
        pieces: Its text.
        level: Of a heading, from 1.
        lists: The lists that it stands in, the outermost first.
        is_item: Whether an item of the innermost list begins with it.
        is_quoted: Whether it stands in a quotation.
        rows: Of a table; the first one is its head.
    """

    kind: str
    pieces: Pieces = ()
    level: int = 0
    lists: tuple[List, ...] = ()
    is_item: bool = False
    is_quoted: bool = False
    rows: Sequence[Sequence[Cell]] = field(default_factory=list)


def read_blocks(html: str) -> list[Block]:
    """The blocks of sanitised HTML, in order."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.blocks


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self._style = Piece("")
        self._pieces: list[Piece] = []
        self._lists: list[List] = []
        self._n_lists = 0
        self._begins_item = False
        self._quotes = 0
        self._in_code = False
        self._rows: list[list[Cell]] | None = None
        self._align = "left"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in _STYLES:
            self._set_style(tag, True)
        elif tag == "a":
            self._style = replace(self._style, href=given.get("href", ""))
        elif tag == "br":
            self._pieces.append(replace(self._style, text="\n"))
        elif tag in {"th", "td"}:
            self._align = given.get("style", "text-align:left").rpartition(":")[2].strip(" ;")
        else:
            self._begin_block(tag, given)

    def _set_style(self, tag: str, is_on: bool) -> None:
        change: dict[str, Any] = {_STYLES[tag]: is_on}
        self._style = replace(self._style, **change)

    def _begin_block(self, tag: str, given: dict[str, str]) -> None:
        self._end_text()
        if tag in {"ul", "ol"}:
            self._n_lists += tag == "ol"
            start = given.get("start", "")
            number = self._n_lists if tag == "ol" else None
            self._lists.append(List(number, int(start) if start.isdecimal() else 1))
        elif tag == "li":
            self._begins_item = True
        elif tag == "blockquote":
            self._quotes += 1
        elif tag == "pre":
            self._in_code = True
        elif tag == "hr":
            self._add("rule")
        elif tag == "table":
            self._rows = []
        elif tag == "tr" and self._rows is not None:
            self._rows.append([])

    def handle_endtag(self, tag: str) -> None:
        if tag in _STYLES:
            self._set_style(tag, False)
        elif tag == "a":
            self._style = replace(self._style, href="")
        elif tag in {"th", "td"} and self._rows:
            self._rows[-1].append(Cell(_trimmed(self._pieces), self._align))
            self._pieces = []
        elif tag in _HEADINGS:
            self._add("heading", level=_HEADINGS[tag])
        elif tag == "pre":
            self._add("code")
            self._in_code = False
        else:
            self._end_block(tag)

    def _end_block(self, tag: str) -> None:
        self._end_text()
        if tag in {"ul", "ol"}:
            self._lists.pop()
        elif tag == "li":
            if self._begins_item:  # an item without any text is one all the same
                self._add("text")
        elif tag == "blockquote":
            self._quotes -= 1
        elif tag == "table":
            rows, self._rows = self._rows or [], None
            self._add("table", rows=rows)

    def handle_data(self, data: str) -> None:
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

    def _add(self, kind: str, *, level: int = 0, rows: Sequence[Sequence[Cell]] = ()) -> None:
        pieces = [_without_end(self._pieces)] if kind == "code" else _trimmed(self._pieces)
        is_item, self._begins_item = self._begins_item and bool(self._lists), False
        self._pieces = []
        self.blocks.append(Block(kind, pieces, level, tuple(self._lists), is_item, self._quotes > 0, rows))


def _without_end(pieces: list[Piece]) -> Piece:
    """Code as one piece, without the line feed that ends its last line."""
    return Piece("".join(piece.text for piece in pieces).removesuffix("\n"))


def _trimmed(pieces: list[Piece]) -> list[Piece]:
    """The pieces without space at both ends."""
    kept = list(pieces)
    while kept and not kept[-1].text.strip():
        kept.pop()
    while kept and not kept[0].text.strip():
        kept.pop(0)
    if kept:
        kept[0] = replace(kept[0], text=kept[0].text.lstrip())
        kept[-1] = replace(kept[-1], text=kept[-1].text.rstrip())
    return kept
