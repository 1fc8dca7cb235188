"""Text of HTML pages as Markdown, with trafilatura (`read_page`) or with the standard library (`read_plain_page`).

Scripts, styles, comments and hidden elements are removed before the main text is extracted, and only http and https
addresses of links are kept.

`strip_markup` first removes, in linear time, markup for which parsers need quadratic time, and cuts overlong tags to
the name. `read_plain_page` is for the person's own pages where trafilatura is not installed.
"""

import importlib
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

from artifactflow_nb.sources.formats.sections import import_library

_MAX_TAG_CHARS = 8000  # a tag that contains a picture is longer, and is not read
_OPENING = re.compile(r"<(?:(script\b|style\b)|!--|(!\[|\?|/(?![a-z])))", re.IGNORECASE)
_CLOSING = {
    "script": re.compile(r"</script\b[^<>]{0,100}>", re.IGNORECASE),
    "style": re.compile(r"</style\b[^<>]{0,100}>", re.IGNORECASE),
    "": re.compile(r"--!?>"),
}
_END = re.compile(">")
"""The end of every other comment in HTML: a section such as CDATA, an instruction, or an end tag without a name."""
_HEAD_CHARS = 2000
_CLOSED = re.compile(r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)\b)(\w{1,20})\b([^<>]*)/>")
"""An element of XHTML that ends in its tag: in HTML, `<title/>` would take the rest of the page."""
_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]{0,20}")


def strip_markup(page: str) -> str:
    """Remove scripts, styles, comments and overlong tags; an element that is never closed ends the page."""
    if "http://www.w3.org/1999/xhtml" in page[:_HEAD_CHARS]:
        page = _CLOSED.sub(r"<\1\2></\1>", page)
    pieces: list[str] = []
    position = 0
    while opening := _OPENING.search(page, position):
        pieces.append(page[position : opening.start()])
        closing = (_END if opening[2] else _CLOSING[(opening[1] or "").lower()]).search(page, opening.end())
        position = closing.end() if closing else len(page)
    pieces.append(page[position:])
    stretches = "".join(pieces).split(">")
    for n, stretch in enumerate(stretches):
        tag = _TAG.search(stretch) if len(stretch) > _MAX_TAG_CHARS else None
        if tag and len(stretch) - tag.start() > _MAX_TAG_CHARS:
            stretches[n] = stretch[: tag.end()]
    return ">".join(stretches)


# fmt: off
_DROPPED = (
    "script", "style", "noscript", "template", "iframe", "object", "embed", "applet", "frame", "frameset", "svg",
    "canvas", "audio", "video", "map", "input", "button", "select", "textarea", "dialog",
)
_BLOCKS = frozenset({
    "p", "div", "section", "article", "main", "header", "li", "tr", "table", "ul", "ol", "dl", "dt", "dd", "pre",
    "blockquote", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6",
})
# fmt: on
_PREFIXES = {"li": "- ", **{f"h{n}": "#" * n + " " for n in range(1, 7)}}
"""Markdown before the text of an element."""

_HIDDEN_STYLE = re.compile(r"(?i)display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|font-size\s*:\s*0(?![.\d])")
_LINEBREAKS = re.compile(r"\n[ \t]*\n\s*")
_MAX_ELEMENTS = 30_000
"""Maximum size for finding the main text, which takes quadratic time; all text of a larger page is returned."""

_MAX_ATTRIBUTES = 100
_MAX_TITLE_CHARS = 300


@dataclass(frozen=True, slots=True)
class PageText:
    """A page as text.

    Attributes:
        title: The title of the page, or else the first heading, or an empty string.
        text: The main text as Markdown, or all text if no main text is found.
    """

    title: str
    text: str


def read_page(markup: str, url: str = "") -> PageText:
    """Read a page; `LibraryMissing` if lxml or trafilatura is not installed.

    `url` makes links absolute; without `url`, relative links become plain text.
    """
    trafilatura, lxml_html = import_library("trafilatura", "a page"), import_library("lxml.html", "a page")
    etree: Any = importlib.import_module("lxml.etree")
    parser = lxml_html.HTMLParser(remove_comments=True, remove_pis=True, encoding="utf-8")
    try:  # the parser itself drops elements that are nested too deeply
        tree = lxml_html.document_fromstring(strip_markup(markup).encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, AssertionError):  # the page has no elements
        return PageText("", "")
    names = (" ".join(element.text_content().split()) for path in ("//title", "//h1") for element in tree.xpath(path))
    title = next(filter(None, names), "")[:_MAX_TITLE_CHARS]
    for element in tree.iter():
        if len(element.attrib) > _MAX_ATTRIBUTES:
            element.attrib.clear()
    hidden = [
        element
        for element in tree.xpath("//body//*[@hidden or @aria-hidden='true' or @style]")
        if element.get("hidden") is not None
        or element.get("aria-hidden") == "true"
        or _HIDDEN_STYLE.search(element.get("style", ""))
    ]
    for element in (*tree.iter(*_DROPPED), *hidden):
        if element.getparent() is not None:
            element.drop_tree()  # but not the text after it
    for element in list(tree.iter("figure", "figcaption", "math")):  # the library drops captions and formulas
        if element.tag == "math":
            for note in element.xpath(".//annotation|.//annotation-xml"):
                note.drop_tree()
            text = " ".join(element.text_content().split())
            element[:], element.text = [], text
        element.tag = {"figure": "div", "figcaption": "p"}.get(element.tag, "words")
    for link in list(tree.iter("a")):
        try:
            target = urljoin(url, link.get("href", "").strip())
            is_usable = bool(link.get("href")) and urlsplit(target).scheme in {"http", "https"}
        except ValueError:
            is_usable = False
        if is_usable:
            link.set("href", target)
        else:
            link.tag = "words"
    etree.strip_tags(tree, "words")  # at once: to drop each tag alone takes quadratic time
    whole = _whole_text(etree, tree)
    main = None
    if sum(1 for _ in tree.iter()) <= _MAX_ELEMENTS:
        main = trafilatura.extract(
            tree, url=url or None, output_format="markdown", include_links=True, include_comments=False
        )
    return PageText(title, main or whole)


def _whole_text(etree: Any, tree: Any) -> str:
    """Return all text of the page, one line per block, for pages without a recognised main text."""
    pieces: list[str] = []
    body = tree.find("body")
    for event, element in etree.iterwalk(tree if body is None else body, events=("start", "end")):
        starts, link = event == "start", element.get("href") if element.tag == "a" else None
        if element.tag in _BLOCKS:
            pieces.append("\n\n" + _PREFIXES.get(element.tag, "") * starts)
        if link:
            pieces.append("[" if starts else f"]({link})")
        pieces.append((element.text if starts else element.tail) or "")
    lines = (" ".join(line.split()) for line in _LINEBREAKS.sub("\n\n", "".join(pieces)).split("\n\n"))
    return "\n\n".join(line for line in lines if line)


_SKIPPED = frozenset({
    "script", "style", "noscript", "template", "nav", "footer", "aside", "svg", "iframe", "button", "select",
})  # fmt: skip

_OPTIONAL_END = frozenset({"p", "li", "dt", "dd", "tr", "td", "th", "br", "hr", "img", "input", "meta", "link", "wbr"})


def read_plain_page(markup: str) -> PageText:
    """Read the title of a page and all its text except menus, block by block."""
    reader = _PageParser()
    reader.feed(strip_markup(markup))
    reader.close()
    reader.end_block()
    return PageText(" ".join("".join(reader.title).split()), "\n\n".join(reader.blocks))


_RAISED = re.compile(r"(?<!\w)\^|\^(?![-−+\d])")
"""The mark of a raised text that is no power of a number: `21^st`."""


class _PageParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.blocks: list[str] = []
        self._pieces: list[str] = []
        self._prefix = ""
        self._skipped: list[str] = []
        self._in_title = self._in_code = self._hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in _BLOCKS and not self._skipped:
            self.end_block()
        is_hidden = "hidden" in attributes or attributes.get("aria-hidden") == "true"
        if self._skipped or tag in _SKIPPED or is_hidden:
            self._pieces.append(" ")
            if tag not in _OPTIONAL_END:
                self._skipped.append(tag)
            elif not self._skipped:  # the next block ends this block, whose own end may never come
                self._hidden = True
        elif tag == "title":
            self._in_title = not self.title
        elif tag in _BLOCKS:
            self._prefix = _PREFIXES.get(tag, "")
            self._in_code = tag == "pre"
        elif tag in {"td", "th", "sup"}:
            self._pieces.append(" " if tag != "sup" else "^")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._skipped:  # an end tag closes open elements inside
            while self._skipped.pop() != tag:
                pass
        elif tag == "title":
            self._in_title = False
        elif tag in _BLOCKS and not self._skipped:
            self.end_block()

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not (self._skipped or self._hidden):
            self._pieces.append(data)

    def end_block(self) -> None:
        """End the current block."""
        text = _RAISED.sub("", "".join(self._pieces))
        written = f"```\n{text.strip(chr(10))}\n```" if self._in_code else self._prefix + " ".join(text.split())
        if text.strip():
            self.blocks.append(written)
        self._pieces, self._prefix, self._in_code, self._hidden = [], "", False, False
