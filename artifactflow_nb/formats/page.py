"""A page's main text as Markdown.

Everything in a page is data. Scripts, styles, comments and what a page hides from its readers are taken out before
the main text is looked for, and a link keeps its address only if that is one of the web.
"""

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import urljoin, urlsplit

from artifactflow_nb.formats.tame_html import tame
from artifactflow_nb.formats.unreadable import library

# fmt: off
_DROPPED = (
    "script", "style", "noscript", "template", "iframe", "object", "embed", "applet", "frame", "frameset", "svg",
    "canvas", "audio", "video", "map", "input", "button", "select", "textarea", "dialog",
)
_BLOCKS = frozenset({
    "p", "div", "section", "article", "h1", "h2", "h3", "h4", "h5", "h6", "li", "tr", "table", "ul", "ol", "pre",
    "blockquote", "br", "hr", "dt", "dd",
})
# fmt: on
_HIDDEN_STYLE = re.compile(r"(?i)display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|font-size\s*:\s*0(?![.\d])")
_LINEBREAKS = re.compile(r"\n[ \t]*\n\s*")
_WRITTEN_BEFORE = {"li": "- ", **{f"h{n}": "#" * n + " " for n in range(1, 7)}}
_MOST_ELEMENTS = 30_000
"""The time for finding the main text grows with the square of the elements; of a larger page all text is taken."""

_MOST_ATTRIBUTES = 100
_MOST_TITLE = 300


@dataclass(frozen=True, slots=True)
class PageText:
    """A page as text.

    Attributes:
        title: What it calls itself; empty if it does not.
        text: Its main text as Markdown, or all its text where no main text is found.
    """

    title: str
    text: str


def read_page(markup: str, url: str = "") -> PageText:
    """Read a page; `LibraryMissing` without the libraries for it.

    Args:
        markup: The page.
        url: Where it is from, for its links; without one, only links that name their host keep an address.
    """
    trafilatura, lxml_html = library("trafilatura", "a page"), library("lxml.html", "a page")
    tree = _parsed(lxml_html, tame(markup))
    if tree is None:
        return PageText("", "")
    title = _title(tree)
    _take_out(tree)
    _mend_links(tree, url)
    whole = _whole_text(tree)
    main = None
    if sum(1 for _ in tree.iter()) <= _MOST_ELEMENTS:
        main = trafilatura.extract(
            tree, url=url or None, output_format="markdown", include_links=True, include_comments=False
        )
    return PageText(title, main or whole)


def _parsed(lxml_html: ModuleType, text: str) -> Any:
    """The page as a tree; None for one without elements. The parser itself drops what is nested too deep."""
    parser = lxml_html.HTMLParser(remove_comments=True, remove_pis=True, encoding="utf-8")
    try:
        return lxml_html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (importlib.import_module("lxml.etree").ParserError, AssertionError):
        return None


def _title(tree: Any) -> str:
    """What the page calls itself: its title, else its first heading."""
    for path in ("//title", "//h1"):
        for element in tree.xpath(path):
            if words := " ".join(element.text_content().split()):
                return words[:_MOST_TITLE]
    return ""


def _take_out(tree: Any) -> None:
    """Remove what is no text for a reader, and what is hidden from one; the text that follows it stays."""
    for element in tree.iter():
        if len(element.attrib) > _MOST_ATTRIBUTES:
            element.attrib.clear()
    for element in list(tree.iter(*_DROPPED)):
        _drop(element)
    for element in tree.xpath("//body//*[@hidden or @aria-hidden='true' or @style]"):
        hidden = element.get("hidden") is not None or element.get("aria-hidden") == "true"
        if hidden or _HIDDEN_STYLE.search(element.get("style", "")):
            _drop(element)


def _drop(element: Any) -> None:
    if element.getparent() is not None:
        element.drop_tree()


def _mend_links(tree: Any, url: str) -> None:
    """Make links absolute; one that leads elsewhere than to the web keeps its words only."""
    for link in list(tree.iter("a")):
        try:
            target = urljoin(url, link.get("href", "").strip())
            usable = bool(link.get("href")) and urlsplit(target).scheme in {"http", "https"}
        except ValueError:
            usable = False
        if usable:
            link.set("href", target)
        else:
            link.drop_tag()


def _whole_text(tree: Any) -> str:
    """All text of the page, a line for each block: for pages in which no main text is found."""
    pieces: list[str] = []
    for event, element in _walk(tree):
        starts, link = event == "start", element.get("href") if element.tag == "a" else None
        if element.tag in _BLOCKS:
            pieces.append("\n\n" + _WRITTEN_BEFORE.get(element.tag, "") * starts)
        if link:
            pieces.append("[" if starts else f"]({link})")
        pieces.append((element.text if starts else element.tail) or "")
    lines = (" ".join(line.split()) for line in _LINEBREAKS.sub("\n\n", "".join(pieces)).split("\n\n"))
    return "\n\n".join(line for line in lines if line)


def _walk(tree: Any) -> Iterator[tuple[str, Any]]:
    body = tree.find("body")
    etree: Any = importlib.import_module("lxml.etree")
    return iter(etree.iterwalk(tree if body is None else body, events=("start", "end")))
