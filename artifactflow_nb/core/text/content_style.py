"""Highlighting of code, and CSS for formulas, citations, code and check boxes in rendered Markdown.

Code is highlighted by short elements without attributes, such as `<b>`, which the CSS colours. Such elements take a
third of the bytes of spans with classes, and keywords are bold where there is no CSS.
"""

import html
from itertools import groupby

LANGUAGES = frozenset({"bash", "c", "c++", "cpp", "css", "diff", "go", "html", "javascript", "js", "json"}) | {
    "latex", "py", "python", "python3", "r", "rust", "sh", "shell", "sql", "stan", "tex", "toml",
    "ts", "typescript", "xml", "yaml", "yml",
}  # fmt: skip
"""Languages that are highlighted; some other lexers take seconds for hostile text."""

_ELEMENTS = {
    "Comment": "i",
    "Keyword": "b",
    "Operator.Word": "b",
    "Name.Builtin": "samp",
    "Name.Class": "strong",
    "Name.Function": "strong",
    "Name.Decorator": "strong",
    "Name.Tag": "b",
    "Name.Attribute": "strong",
    "Literal.String": "em",
    "Literal.Number": "samp",
    "Generic.Deleted": "s",
    "Generic.Inserted": "em",
}
"""HTML elements by the beginning of the name of a token type."""

ELEMENTS = frozenset(_ELEMENTS.values())


def highlight(code: str, language: str) -> str:
    """Convert code to escaped HTML, with elements for its tokens if the language is one of `LANGUAGES`."""
    if language.lower() not in LANGUAGES:
        return html.escape(code)
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False)
    pieces = []

    def element_of(token: tuple[object, str]) -> str:
        """Return the HTML element for a type of token such as `Token.Literal.String.Doc`, or an empty string."""
        levels = str(token[0]).removeprefix("Token.").split(".")
        return next((_ELEMENTS[name] for n in (2, 1) if (name := ".".join(levels[:n])) in _ELEMENTS), "")

    for name, tokens in groupby(lexer.get_tokens(code), key=element_of):
        text = html.escape("".join(value for _, value in tokens))
        pieces.append(f"<{name}>{text}</{name}>" if name and text.strip() else text)
    return "".join(pieces)


CONTENT_STYLES = {
    "af-math": """
.af-math:has(> [hidden] > math) > [hidden] { display: inline !important; }
.af-math:has(> [hidden] > math) > math { display: none; }
.af-math math { font-family: math, "STIX Two Math", "Latin Modern Math", "Cambria Math", "DejaVu Math TeX Gyre", serif;
  font-size: 1.06em; }
.af-display { display: block; max-width: 100%; padding: 0.4em 0; overflow-x: auto; overflow-y: hidden; }
.af-math [columnalign="left"] { padding-left: 0.1em; text-align: left; }
.af-math [columnalign="right"] { padding-right: 0; text-align: right; }
.af-math [notation="box"] { padding: 0.2em 0.4em; border: 1px solid; }
""",
    "af-cite": """
.af-cite-mark { border-radius: 3px; color: var(--jp-content-link-color, var(--link, #0b5cad)); cursor: pointer; }
.af-cite-mark.af-cite-unread { color: inherit; text-decoration: underline dotted 2px; text-underline-offset: 3px; }
.af-passage[hidden] { display: none; }
.af-cite:hover > .af-passage, .af-cite:focus-within > .af-passage { display: block; position: absolute; z-index: 5;
  left: 0; right: 0; max-width: 44rem; max-height: 16em; padding: 8px 12px; border: 1px solid var(--af-line, #8888);
  border-radius: 8px; background: var(--jp-layout-color1, var(--page, Canvas)); box-shadow: 0 4px 16px #0004;
  overflow: auto; color: var(--jp-content-font-color1, var(--text, CanvasText)); font: normal 13px/1.5 sans-serif;
  text-align: left; white-space: normal; }
.af-passage > b, .af-passage > small, .af-passage > q { display: block; }
.af-passage > q { margin: 4px 0; quotes: none; }
.af-passage mark { background: rgba(255, 200, 0, 0.35); color: inherit; }
@media print { .af-cite > .af-passage.af-passage { display: none; } }
""",
    "af-code": """
.af-code { --af-k: #6f2dbd; --af-s: #0a5d2c; --af-c: #57606a; --af-n: #0550ae; --af-f: #8a3300; --af-d: #a4000f; }
[data-jp-theme-light="false"] .af-code { --af-k: #d2a8ff; --af-s: #7ee787; --af-c: #a5b0bc; --af-n: #79c0ff;
  --af-f: #ffa657; --af-d: #ffa198; }
@media (prefers-color-scheme: dark) { body:not([data-jp-theme-light]) .af-code { --af-k: #d2a8ff; --af-s: #7ee787;
  --af-c: #a5b0bc; --af-n: #79c0ff; --af-f: #ffa657; --af-d: #ffa198; } }
.af-code.af-code > * { font: inherit; text-decoration: none; }
.af-code > b { color: var(--af-k); }
.af-code > em { color: var(--af-s); }
.af-code > i { color: var(--af-c); }
.af-code > samp { color: var(--af-n); }
.af-code > strong { color: var(--af-f); }
.af-code > s { color: var(--af-d); }
""",
    "af-box": """
li:has(> .af-box, > p > .af-box) { list-style: none; }
.af-box { display: inline-block; width: 1.3em; margin-left: -1.3em; }
""",
}
"""CSS rules by the first class of the styled elements. Plugins add rules."""


def content_style(markup: str) -> str:
    """Return the CSS for the classes that occur in rendered Markdown, on one line."""
    return " ".join(" ".join(part for name, part in CONTENT_STYLES.items() if f'class="{name}' in markup).split())


def all_content_style() -> str:
    """Return the CSS for everything that Markdown may render, on one line."""
    return " ".join(" ".join(CONTENT_STYLES.values()).split())
