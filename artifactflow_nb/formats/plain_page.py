"""A page's text with nothing but Python: headings, paragraphs, list items and code, without menus and scripts.

For the person's own pages where the libraries that find a page's main text are not installed.
"""

from html.parser import HTMLParser

from artifactflow_nb.formats.page import PageText
from artifactflow_nb.formats.tame_html import tame

_LEFT_OUT = frozenset({
    "script", "style", "noscript", "template", "nav", "footer", "aside", "svg", "iframe", "button", "select",
})  # fmt: skip
_BLOCKS = frozenset({
    "p", "div", "section", "article", "main", "header", "li", "tr", "table", "ul", "ol", "dl", "dt", "dd", "pre",
    "blockquote", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6",
})  # fmt: skip
_MAY_STAY_OPEN = frozenset({"p", "li", "dt", "dd", "tr", "td", "th", "br", "hr", "img", "input", "meta", "link", "wbr"})
_BEFORE = {"li": "- ", **{f"h{n}": "#" * n + " " for n in range(1, 7)}}


def read_plain_page(markup: str) -> PageText:
    """Read a page: all its text that is no menu, a block for each of its blocks, and its title."""
    reader = _Reader()
    reader.feed(tame(markup))
    reader.close()
    reader.end_block()
    return PageText(" ".join("".join(reader.title).split()), "\n\n".join(reader.blocks))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.blocks: list[str] = []
        self._pieces: list[str] = []
        self._before = ""
        self._left_out: list[str] = []
        self._in_title = self._in_code = self._hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS and not self._left_out:
            self.end_block()
        if self._left_out or tag in _LEFT_OUT or _is_hidden(attrs):
            self._leave_out(tag)
        elif tag == "title":
            self._in_title = not self.title
        elif tag in _BLOCKS:
            self._before = _BEFORE.get(tag, "")
            self._in_code = tag == "pre"
        elif tag in {"td", "th"}:
            self._pieces.append(" ")

    def _leave_out(self, tag: str) -> None:
        self._pieces.append(" ")
        if tag not in _MAY_STAY_OPEN:
            self._left_out.append(tag)
        elif not self._left_out:  # its own end may never come: the next block is its end
            self._hidden = True

    def handle_endtag(self, tag: str) -> None:
        if tag in self._left_out:  # an end closes what was left open inside
            while self._left_out.pop() != tag:
                pass
        elif tag == "title":
            self._in_title = False
        elif tag in _BLOCKS and not self._left_out:
            self.end_block()

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not (self._left_out or self._hidden):
            self._pieces.append(data)

    def end_block(self) -> None:
        """Take the text that came since the last block as one."""
        text = "".join(self._pieces)
        written = f"```\n{text.strip(chr(10))}\n```" if self._in_code else self._before + " ".join(text.split())
        if text.strip():
            self.blocks.append(written)
        self._pieces, self._before, self._in_code, self._hidden = [], "", False, False


def _is_hidden(attrs: list[tuple[str, str | None]]) -> bool:
    given = dict(attrs)
    return "hidden" in given or given.get("aria-hidden") == "true"
