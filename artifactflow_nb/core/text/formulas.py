r"""Formulas in Markdown: TeX between `$`, `$$`, `\(` and `\[`, rendered as MathML.

A page shows the MathML. JupyterLab removes MathML from untrusted notebooks, and typesets the TeX of the annotation
instead. The annotation becomes visible text only when JupyterLab's sanitiser removes the tags:

::

    <span class="af-math mathjax_process">
      <span hidden><math alttext="x">...</math></span>                       displayed by the style of a page
      <math aria-hidden="true"> ... <annotation>\(x\)</annotation></math>    TeX for a page without MathML

A price is not a formula, and TeX that defines macros, links or styles stays text. Size, depth and time are bounded.
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from xml.etree.ElementTree import Element

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from artifactflow_nb.core.text.chinese import CJK

MAX_CHARS = 2000
_MAX_DEPTH = 25
_MAX_LINES = 60
_ENDS = {"$$": "$$", r"\[": r"\]", r"\(": r"\)", "$": "$"}
"""End of a formula by its start; the longer start comes first."""

_WORD = re.compile(rf"(?!(?:th|st|nd|rd|s)\b)(?![{CJK}])[\w$]")
"""A letter or digit beside which a dollar sign marks no formula; not in endings (`$n$th`) or Chinese (no spaces)."""
_PRICE = re.compile(r"\d[\d.,]*\s*(?:/?\s*[A-Za-z]{2,}|[-–/]\s*$|%)")
"""Start of a text between two dollar signs that belong to prices: `5 and 6`, `5/month`, `5-`; `2/3` is a formula."""
_PROSE = re.compile(r"[^\\{}]*?(?:\b[A-Za-z]{2,}[,.;:]?\s+){3}")
"""Start of a text with three words in a row and no command before them, unlike any formula."""
_FORBIDDEN = re.compile(
    r"\\(?:href|url|style|class|cssId|data|html\w*|def|gdef|edef|let|newcommand|renewcommand|providecommand"
    r"|newenvironment|require|input|include\w*|unicode|char|rule|llap|rlap|clap|mmlToken)(?![A-Za-z])"
)
_COMMENT_OR_CODE = re.compile(r"(?<!\\)%|`")
_NEUTRALISED = (
    (re.compile("<(?!->|=>)"), r"\\lt "),  # `<->` and `<=>` are arrows of chemistry, not tags
    (re.compile("(?<![-=])>"), r"\\gt "),
    (re.compile(r"\\\|"), r"\\Vert "),
    (re.compile(r"\|"), r"\\vert "),
    (re.compile(r"!\["), "! ["),
    (re.compile(r"\]\("), "] ("),
)
_ENVIRONMENTS = {
    "aligned": "align*",
    "align": "align*",
    "eqnarray": "align*",
    "dcases": "cases",
    "gather": "matrix",
    "gathered": "matrix",
    "multline": "matrix",
}
"""Replacements of environments that the converter does not know or would number."""
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([a-z]+)\*?\}")
_OPERATOR = re.compile(r"\\operatorname\*?\{[^{}]*\}")
_LIMIT = re.compile(r"\\(?:lim|max|min|sup|inf|limsup|liminf)(?=_)")
_CHEMISTRY = re.compile(r"\\ce\{((?:[^{}\\]|\{[^{}\\]*\})*)\}")
_CHEMICAL_SIGNS = (
    (re.compile(r"<=>|<->"), r"\\rightleftharpoons "),
    (re.compile(r"->"), r"\\rightarrow "),
    (re.compile(r"\^\{?(\d*[+-])\}?|(?<=[\w)\]])([+-])(?![\w(])"), r"^{\1\2}"),
    (re.compile(r"(?<=[A-Za-z)\]])(\d+)"), r"_{\1}"),
)
"""Arrows, charges and counts of mhchem in TeX."""
_THIN_SPACE = "\u2009"
_LENGTH = re.compile(r"-?\d?(?:\.\d+)?em")
_TAGS = frozenset(
    {"math", "mfrac", "mi", "mn", "mo", "mover", "mpadded", "mphantom", "mroot", "mrow", "mspace", "msqrt", "mstyle"}
) | {"msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr", "munder", "munderover", "menclose"}
_ATTRIBUTES = frozenset(
    {"accent", "columnalign", "display", "displaystyle", "fence", "form", "largeop", "linethickness", "mathvariant"}
) | {"maxsize", "minsize", "movablelimits", "notation", "scriptlevel", "stretchy", "width"}
_LENGTHS = frozenset({"width", "minsize", "maxsize", "linethickness"})
_STYLES = {
    "bold": "BOLD",
    "bold-italic": "BOLD ITALIC",
    "double-struck": "DOUBLE-STRUCK",
    "fraktur": "FRAKTUR",
    "script": "SCRIPT",
    "bold-script": "BOLD SCRIPT",
    "sans-serif": "SANS-SERIF",
    "monospace": "MONOSPACE",
}
"""Values of `mathvariant` that browsers ignore, with the names of the corresponding Unicode alphabets."""

CLEANER_TAGS = _TAGS | {"span", "semantics", "annotation"}
"""Elements of `formula_html` that a sanitiser must allow, like the attributes and classes below."""
CLEANER_ATTRIBUTES = {tag: set(_ATTRIBUTES) for tag in _TAGS} | {
    "math": {*_ATTRIBUTES, "alttext", "aria-hidden"},
    "annotation": {"encoding"},
    "span": {"hidden"},
}
CLEANER_CLASSES = frozenset({"af-math", "af-display", "mathjax_process"})


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula in a text.

    Attributes:
        tex: TeX without its delimiters.
        is_display: Whether the formula stands on its own line.
        end: Position in the text after the closing delimiter.
    """

    tex: str
    is_display: bool
    end: int

    @property
    def markdown(self) -> str:
        """The formula between dollar signs, without HTML, links, images, and `|`, which would end a table cell."""
        tex, marks = self.tex, "$$" if self.is_display else "$"
        for pattern, replacement in _NEUTRALISED:
            tex = pattern.sub(replacement, tex)
        return f"{marks}{' '.join(tex.split())}{marks}"


def formula_at(text: str, start: int) -> Formula | None:
    """Return the formula that starts at a position of a text, or None."""
    opening = next((mark for mark in _ENDS if text.startswith(mark, start)), None)
    if opening is None:
        return None
    first, closing = start + len(opening), _ENDS[opening]
    end = text.find(closing, first, first + MAX_CHARS + len(closing))
    while closing[0] == "$" and end > 0 and (end - len(text[:end].rstrip("\\"))) % 2:  # an escaped dollar sign
        end = text.find(closing, end + 1, first + MAX_CHARS + len(closing))
    tex = text[first:end].strip() if end > 0 else ""
    if not tex or "\n\n" in tex or _COMMENT_OR_CODE.search(tex):
        return None
    if opening == "$":
        is_prose = text[first].isspace() or text[end - 1].isspace() or _PRICE.match(tex)
        if is_prose or _WORD.match(text[start - 1 : start]) or _WORD.match(text[end + 1 : end + 4]):
            return None
    return Formula(tex, opening in {"$$", r"\["}, end + len(closing))


def is_open_formula(text: str, start: int) -> bool:
    """Return whether the formula that starts at a position of a text may be closed by later text."""
    opening = next((mark for mark in _ENDS if text.startswith(mark, start)), None)
    rest = text[start + len(opening) :] if opening else ""
    if opening is None or len(rest) > MAX_CHARS or _ENDS[opening] in rest or _COMMENT_OR_CODE.search(rest):
        return False
    if opening == "$" and (rest[:1].isspace() or _PRICE.match(rest) or _WORD.match(text[start - 1 : start])):
        return False
    return opening in {"$$", r"\["} or not _PROSE.match(rest)


def split_formulas(text: str) -> Iterator[str | Formula]:
    """Yield the formulas of a text that can be rendered, and the pieces of text around them."""
    position = start = 0
    for match in re.finditer(r"\\.|\$", text, re.DOTALL):
        formula = formula_at(text, match.start()) if match.start() >= position else None
        if formula is not None and mathml(formula.tex, is_display=formula.is_display):
            yield text[start : match.start()]
            yield formula
            start = position = formula.end
    yield text[start:]


def formula_html(tex: str, *, is_display: bool) -> str:
    """Render a formula as HTML, or as code if `mathml` refuses the formula."""
    opening, closing = (r"\[", r"\]") if is_display else (r"\(", r"\)")
    drawing = mathml(tex, is_display=is_display)
    if not drawing:
        return f"<code>{html.escape(f'{opening}{tex}{closing}')}</code>"
    css_class = "af-math af-display mathjax_process" if is_display else "af-math mathjax_process"
    source = f'<annotation encoding="application/x-tex">{html.escape(f"{opening}{tex}{closing}")}</annotation>'
    return (
        f'<span class="{css_class}"><span hidden="hidden">{drawing}</span>'
        f'<math aria-hidden="true"><semantics>{source}</semantics></math></span>'
    )


@lru_cache(1024)
def mathml(tex: str, *, is_display: bool) -> str:
    """Convert TeX to a `<math>` element; invalid, unsafe or too large TeX gives an empty string."""
    from latex2mathml.converter import convert_to_element

    if len(tex) > MAX_CHARS or _FORBIDDEN.search(tex) or _depth(tex) > _MAX_DEPTH:
        return ""
    prepared = _ENVIRONMENT.sub(lambda match: rf"\{match[1]}{{{_ENVIRONMENTS.get(match[2], match[2])}}}", tex)
    prepared = re.sub(r"\\(?:begin|end)\{equation\}|\\label\{[^{}]*\}|\\(?:nonumber|notag)(?![A-Za-z])", "", prepared)
    prepared = _CHEMISTRY.sub(_chemical_tex, prepared)
    prepared = prepared.replace(r"\mathrm{", r"\mathrm {")  # otherwise the converter sets a single letter in italics
    if is_display:
        prepared = _LIMIT.sub(r"\g<0>\\limits", prepared)
    prepared = _OPERATOR.sub(lambda match: match[0].replace(r"\,", _THIN_SPACE), prepared)
    try:
        root = convert_to_element(prepared, display="block" if is_display else "inline")
    except Exception:  # noqa: BLE001 - the converter raises errors of many kinds for TeX that it cannot read
        return ""
    root.attrib = {"display": root.attrib["display"], "alttext": " ".join(tex.split())}
    drawing = "".join(_serialise(root))
    # The converter writes unknown commands and column separators as text.
    return "" if r">\\" in drawing or re.search(r">\\[A-Za-z]|<mi>&amp;</mi>", drawing) else drawing


def _chemical_tex(formula: re.Match[str]) -> str:
    r"""Convert the content of a command such as `\ce{NO3-}` to TeX that needs no package mhchem."""
    tex = formula[1].strip()
    for sign, replacement in _CHEMICAL_SIGNS:
        tex = sign.sub(replacement, tex)
    return rf"\mathrm{{{tex}}}"


def _depth(tex: str) -> int:
    """Return the deepest nesting of TeX, by groups and environments, or by commands and scripts in a row (`x^y^z`)."""
    depth = deepest = 0
    for match in re.finditer(r"\\[A-Za-z]+|\\.|[{}^_]", tex, re.DOTALL):
        mark = match[0]
        depth += (mark in {"{", r"\begin", r"\left"}) - (mark in {"}", r"\end", r"\right"})
        deepest = max(deepest, depth)
    runs = re.findall(r"(?:[\^_']|\\(?:d|t|c)?frac|\\sqrt|\\[a-z]?binom|\\(?:wide)?hat|\\bar){4,}", tex)
    return max(deepest, *(len(run) for run in runs), 0)


def _serialise(element: Element) -> Iterator[str]:
    """Yield an element of the converter as escaped HTML; elements and attributes that are not listed are left out."""
    if element.tag not in _TAGS:
        yield from (piece for child in element for piece in _serialise(child))
        return
    attributes = {name: value for name, value in element.attrib.items() if name in _ATTRIBUTES or name == "alttext"}
    attributes = {name: value for name, value in attributes.items() if name not in _LENGTHS or _LENGTH.fullmatch(value)}
    text = html.unescape(element.text or "")
    if style := _STYLES.get(attributes.get("mathvariant", "")):
        text = "".join(_styled(char, style) for char in text)
    if attributes.get("mathvariant") != "normal":
        attributes.pop("mathvariant", None)
    yield " ".join([f"<{element.tag}", *(f'{name}="{html.escape(value)}"' for name, value in attributes.items())]) + ">"
    yield html.escape(text)
    for child in element:
        yield from _serialise(child)
    yield f"</{element.tag}>"


def _styled(char: str, style: str) -> str:
    """Return the letter or digit of a mathematical alphabet, or the character itself if the alphabet lacks it."""
    name = unicodedata.name(char, "").replace("LATIN ", "").replace("GREEK ", "").replace(" LETTER", "")
    for candidate in (f"MATHEMATICAL {style} {name}", f"{style} {name}", f"BLACK-LETTER {name}"):
        try:
            return unicodedata.lookup(candidate)
        except KeyError:
            continue
    return char


# --- rules of the Markdown parser -------------------------------------------------------------------------------------


def add_formulas(parser: MarkdownIt) -> None:
    """Add formulas to a Markdown parser."""
    parser.inline.ruler.before("escape", "formula", _inline_rule)
    parser.block.ruler.before("fence", "formula", _block_rule, {"alt": ["paragraph", "blockquote", "list"]})
    parser.add_render_rule("formula", _render)


def _inline_rule(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    formula = formula_at(state.src, state.pos)
    if formula is None:
        return False
    if not silent:
        token = state.push("formula", "", 0)
        token.content, token.meta = formula.tex, {"is_display": formula.is_display}
    state.pos = formula.end
    return True


def _block_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Block rule of markdown-it: parse a displayed formula, whose lines may look like list items."""
    first = state.bMarks[start] + state.tShift[start]
    if state.is_code_block(start) or not state.src.startswith(("$$", r"\["), first):
        return False
    text = ""
    for line in range(start, min(end, start + _MAX_LINES)):
        if state.isEmpty(line):
            return False
        text += state.getLines(line, line + 1, state.blkIndent, False).strip() + "\n"
        formula = formula_at(text, 0)
        if formula is not None:
            break
    else:
        return False
    if text[formula.end :].strip():
        return False
    if not silent:
        state.line = line + 1
        state.push("paragraph_open", "p", 1).map = [start, state.line]
        token = state.push("formula", "", 0)
        token.content, token.meta = formula.tex, {"is_display": True}
        state.push("paragraph_close", "p", -1)
    return True


def _render(_self: RendererHTML, tokens: list[Token], index: int, _options: OptionsDict, _env: EnvType) -> str:
    return formula_html(tokens[index].content, is_display=tokens[index].meta["is_display"])
