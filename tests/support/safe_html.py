"""Finds parts of HTML that the product never writes: elements, attributes, addresses, styles."""

import re
from html.parser import HTMLParser

from artifactflow_nb.widgets.page.saved import copy_script

PROSE = frozenset({"p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre"}) | {
    "code", "em", "strong", "s", "table", "thead", "tbody", "tr", "th", "td", "a", "span", "sub", "sup", "b", "i",
    "samp", "details", "summary",
    "math", "mfrac", "mi", "mn", "mo", "mover", "mpadded", "mphantom", "mroot", "mrow", "mspace", "msqrt", "mstyle",
    "msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr", "munder", "munderover", "menclose", "semantics",
    "annotation",
}  # fmt: skip
"""Elements of rendered text and its formulas."""

VIEW = PROSE | {
    "div", "section", "dl", "dt", "dd", "button", "input", "label", "textarea", "select",
    "option", "ins", "del", "form", "fieldset", "legend", "tfoot", "rp", "img",
}  # fmt: skip
"""Elements of views."""

DRAWING = frozenset({"svg", "g", "path", "rect", "circle", "line", "polyline", "polygon", "text", "tspan", "title"}) | {
    "desc", "defs", "pattern", "clippath", "marker",
}  # fmt: skip
"""Elements of drawings."""

_ATTRIBUTES = frozenset({"lang", "dir", "title", "rel", "target", "start", "role", "tabindex", "open", "id", "for"}) | {
    "type", "hidden", "multiple", "value", "name", "rows", "placeholder", "autocomplete", "spellcheck", "novalidate",
    "disabled", "checked", "selected", "readonly", "required", "step", "min", "max", "scope", "alt", "width",
    "alttext", "encoding", "display", "accent", "columnalign", "displaystyle", "fence", "form", "largeop",
    "linethickness", "mathvariant", "maxsize", "minsize", "movablelimits", "notation", "scriptlevel", "stretchy",
}  # fmt: skip
_CLASSES = frozenset({"mathjax_ignore", "tex2jax_ignore", "mathjax_process", "numbering-entry"})  # of JupyterLab
_ADDRESS = re.compile(r"(?:https?://|mailto:|#).*", re.IGNORECASE | re.DOTALL)
_STYLE = re.compile(r"(?:text-align:\s*(?:left|right|center)|(?:width|--af-[a-z]+):\s*[\d.]+(?:px|%)?);?")
_IMAGE = re.compile(r"data:image/svg\+xml;base64,[\w+/=]+")
_VALUES = {"href": _ADDRESS, "src": _IMAGE, "style": _STYLE}  # an image is a drawing of ours, which loads nothing
_LOADS = re.compile(r"url\((?!#)|@|expression|javascript|\\", re.IGNORECASE)  # a drawing may name its own patterns
_PLANTED = "hostile"


def harms(html: str, allowed: frozenset[str] = PROSE) -> list[str]:
    """The foreign elements, attributes, comments and declarations; empty if there are none.

    Args:
        html: The markup.
        allowed: The elements that may be in it.
    """
    reader = _Reader(allowed)
    reader.feed(html)
    reader.close()
    return reader.harms


class _Reader(HTMLParser):
    def __init__(self, allowed: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.harms: list[str] = []
        self._allowed = allowed

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self._allowed:
            self.harms.append(f"<{tag}>")
        self.harms += [f"<{tag} {name}={value!r}>" for name, value in attrs if not _is_allowed(tag, name, value or "")]

    def handle_comment(self, data: str) -> None:
        if self.getpos() == (1, 0):  # the label of a saved output
            return
        self.harms.append(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self.harms.append(f"<!{decl}>")

    def unknown_decl(self, data: str) -> None:
        self.harms.append(f"<![{data}]>")

    def handle_pi(self, data: str) -> None:
        self.harms.append(f"<?{data}>")


def _is_allowed(tag: str, name: str, value: str) -> bool:
    """True if an attribute is allowed; in a drawing any that neither runs code nor loads an address."""
    if tag in DRAWING and not (name.startswith(("on", "data-", "aria-")) or name == "class" or "href" in name):
        return name != "src" and _LOADS.search(value) is None
    return _is_allowed_in_text(name, value)


def _is_allowed_in_text(name: str, value: str) -> bool:
    if name == "class":
        return all(css.startswith("af-") or css in _CLASSES for css in value.split())
    if name in _VALUES:
        return _VALUES[name].fullmatch(value) is not None
    if name == "onclick":
        return value == copy_script()
    if name == "data-act":  # what a click does
        return _PLANTED not in value
    if name.startswith("data-"):
        return not name.startswith("data-commandlinker")  # a click on it runs a command of JupyterLab
    return name in _ATTRIBUTES or name.startswith("aria-")
