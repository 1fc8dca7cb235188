"""Conversion of the sanitised HTML of views to Markdown, for pages that show Markdown only.

Texts are escaped, so that no renderer treats them as markup. Drawings, styles and pictures are omitted; a picture is
replaced by its alternative text.
"""

import html
import re
from dataclasses import dataclass, field
from functools import lru_cache
from html.parser import HTMLParser
from textwrap import indent

from artifactflow_nb.core.text.formulas import tex_markdown
from artifactflow_nb.core.text.markdown import escape

_SKIPPED = frozenset({"math", "rp", "script", "style", "svg"})
_INLINE = frozenset({"a", "b", "code", "em", "i", "s", "small", "span", "strong", "sub", "sup"})
_MARKS = {"b": "**", "strong": "**", "em": "*", "i": "*", "s": "~~"}
_SPECIAL = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")
"""Characters to escape; an underscore within a word marks nothing."""
_BLOCK_START = re.compile(r"^(?:(?=[-+=#>])|(\d{1,9})(?=[.)]))", re.MULTILINE)
_MAX_CACHED = 4096


class _ListText(str):
    """A rendered list, which follows the text above it without a blank line within an item."""

    __slots__ = ()


@dataclass(slots=True)
class _Element:
    """An open block element.

    Attributes:
        tag: HTML tag.
        start: Number of the first item of an ordered list.
        is_open: Whether a fold is open.
        blocks: Rendered blocks and, in a table row, cells.
        rows: Rows of a table.
        has_head: Whether the first row of a table is its head.
        pieces: Rendered inline content after the last block.
        open_inline: Open inline elements: tag, first piece, address of a link.
    """

    tag: str
    start: int = 1
    is_open: bool = False
    blocks: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    has_head: bool = False
    pieces: list[str] = field(default_factory=list)
    open_inline: list[tuple[str, int, str]] = field(default_factory=list)


@lru_cache(_MAX_CACHED)
def html_to_markdown(markup: str) -> str:
    """Convert sanitised HTML to Markdown that is safe in every renderer."""
    parser = _MarkdownParser()
    parser.feed(markup)
    parser.close()
    return parser.result()


@lru_cache(_MAX_CACHED)
def summary_html(markup: str) -> str:
    """Reduce the HTML of a fold's summary to one line of text and `<code>` elements."""
    parser = _MarkdownParser()
    parser.feed(f"<summary>{markup}</summary>")
    return parser.result()


def list_item(bullet: str, blocks: list[str]) -> str:
    """Render an item of a list; a nested list follows its text directly."""
    is_tight = all(isinstance(block, _ListText) for block in blocks[1:])
    text = ("\n" if is_tight else "\n\n").join(blocks)
    return f"{bullet} {indent(text, ' ' * (len(bullet) + 1)).lstrip()}".rstrip()


def list_text(items: list[str]) -> str:
    """Join the items of a list."""
    return _ListText(("\n\n" if any("\n\n" in item for item in items) else "\n").join(items))


class _MarkdownParser(HTMLParser):
    """Renders each block element when it ends; inline elements are rendered within their block."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open = [_Element("div")]
        self._skipped: list[str] = []

    def result(self) -> str:
        """The Markdown of the HTML that was fed."""
        while len(self._open) > 1:
            self._end_block()
        self._end_text()
        return "\n\n".join(self._open[0].blocks)

    @property
    def _in_code(self) -> bool:
        element = self._open[-1]
        return element.tag == "pre" or any(tag == "code" for tag, *_ in element.open_inline)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED:
            self._skipped.append(tag)
            if tex := dict(attrs).get("alttext"):
                self._open[-1].pieces.append(tex_markdown(tex, is_display=("display", "block") in attrs))
        elif tag == "span" and (self._skipped or ("class", "af-passage") in attrs):
            self._skipped.append(tag)
        if self._skipped:
            return
        values = {name: value or "" for name, value in attrs}
        element = self._open[-1]
        if tag == "br":
            element.pieces.append("\n" if element.tag == "pre" else "\0")
        elif tag == "img":
            self.handle_data(values.get("alt", ""))
        elif tag == "hr":
            self._end_text()
            element.blocks.append("---")
        elif tag in _INLINE:
            address = values.get("href", "")
            element.open_inline.append((tag, len(element.pieces), "" if address.startswith("#") else address))
        elif tag not in {"del", "ins"}:  # these mark lines of a difference, which have signs
            self._end_text()
            if tag == "li" and (number := values.get("value", "")).isdecimal():
                element.start = int(number) - len(element.blocks)
            start = int(number) if (number := values.get("start", "")).isdecimal() else 1
            self._open.append(_Element(tag, start, "open" in values))

    def handle_endtag(self, tag: str) -> None:
        if self._skipped:
            if tag == self._skipped[-1]:
                self._skipped.pop()
        elif tag in _INLINE:
            self._end_inline(tag)
        elif any(element.tag == tag for element in self._open[1:]):
            while self._end_block() != tag:  # an end tag closes the open elements inside, too
                pass

    def handle_data(self, data: str) -> None:
        if self._skipped or not data:
            return
        element = self._open[-1]
        if element.tag == "pre":
            element.pieces.append(data)
        elif element.tag == "summary":
            element.pieces.append(html.escape(data, quote=False))
        elif self._in_code:
            element.pieces.append(data)
        else:
            element.pieces.append(_SPECIAL.sub(r"\\\g<0>", data.replace("&", "&amp;").replace("<", "&lt;")))

    def _end_inline(self, tag: str) -> None:
        element = self._open[-1]
        if not element.open_inline or element.open_inline[-1][0] != tag:
            return
        _, first, address = element.open_inline.pop()
        if element.tag == "pre":
            return
        text = "".join(element.pieces[first:])
        words = text.strip()
        before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        if words and tag == "code":
            if element.tag == "summary":
                words = f"<code>{words}</code>"
            else:  # more backticks than in the text
                marks = "`" * (1 + max((len(run) for run in re.findall("`+", words)), default=0))
                words = " ".join(words.split())
                words = words.replace("|", r"\|") if element.tag in {"td", "th"} else words
                space = " " if "`" in words else ""
                words = f"{marks}{space}{words}{space}{marks}"
        elif words and element.tag != "summary":
            mark = _MARKS.get(tag, "")
            words = f"{mark}{words}{mark}"
            if address:
                words = f"[{words}](<{escape(address).replace('$', '%24')}>)"
        element.pieces[first:] = [before, words, after] if words else [text]

    def _end_text(self) -> None:
        """Convert the inline content since the last block to a block."""
        element = self._open[-1]
        while element.open_inline:
            self._end_inline(element.open_inline[-1][0])
        text, element.pieces = "".join(element.pieces), []
        if element.tag == "pre":
            element.blocks += [text] if text.strip() else []
            return
        lines = [" ".join(line.split()) for line in text.split("\0")]
        if element.tag == "summary":
            element.blocks.append(" ".join(lines))
        elif any(lines):
            joined = " ".join(lines) if element.tag in {"td", "th"} else "\\\n".join(filter(None, lines))
            element.blocks.append(_BLOCK_START.sub(r"\1\\", joined))

    def _end_block(self) -> str:
        """Render the innermost element into the one around it; return its tag."""
        self._end_text()
        element = self._open.pop()
        self._add(element, self._open[-1])
        return element.tag

    @staticmethod
    def _add(element: _Element, outer: _Element) -> None:
        tag, blocks = element.tag, element.blocks
        if tag in {"thead", "tbody", "tfoot"}:
            outer.rows += element.rows
            outer.has_head = outer.has_head or tag == "thead"
        elif tag == "tr":
            outer.rows.append(blocks)
        elif tag in {"td", "th"}:
            outer.blocks.append(" ".join(" ".join(blocks).split()))
        elif tag == "table":
            outer.blocks += [_table(element)] if element.rows else []
        elif tag == "summary" and outer.tag == "details":
            outer.blocks.insert(0, "".join(blocks))
        elif tag == "li" and blocks:
            bullet = f"{outer.start + len(outer.blocks)}." if outer.tag == "ol" else "-"
            outer.blocks.append(list_item(bullet, blocks))
        elif tag == "dd" and outer.blocks:
            outer.blocks[-1] += f": {' '.join(blocks)}"
        elif blocks:
            outer.blocks += _rendered(element)


def _rendered(element: _Element) -> list[str]:
    """Render a block element whose content does not depend on the parent element."""
    tag, text = element.tag, "\n\n".join(element.blocks)
    if tag in {"ul", "ol", "dl"}:
        text = list_text(element.blocks)
    elif tag == "dt":
        text = list_item("-", element.blocks)
    elif tag == "pre":
        text = _fenced(text)
    elif tag == "blockquote":
        text = indent(text, "> ", lambda _line: True)
    elif tag == "details":
        text = fold_text(element.blocks[0], "\n\n".join(element.blocks[1:]), is_open=element.is_open)
    elif tag in {"h1", "h2", "h3", "h4", "h5", "h6"}:
        text = f"{'#' * int(tag[1])} {' '.join(text.split())}"
    else:
        return element.blocks
    return [text]


def fold_text(summary: str, body: str, *, is_open: bool) -> str:
    """Render a fold: HTML around Markdown.

    Args:
        summary: One line of HTML.
        body: The content, in Markdown.
        is_open: Whether the fold is open at first.
    """
    return f"<details{' open' if is_open else ''}><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _fenced(text: str) -> str:
    fence = "~" * max(3, 1 + max((len(run) for run in re.findall("~+", text)), default=0))
    return f"{fence}\n{text.rstrip()}\n{fence}"


def _table(element: _Element) -> str:
    n_columns = max(map(len, element.rows))
    rows = [[*row, *[""] * (n_columns - len(row))] for row in element.rows]
    head, body = (rows[0], rows[1:]) if element.has_head else ([""] * n_columns, rows)
    lines = [head, ["---"] * n_columns, *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
