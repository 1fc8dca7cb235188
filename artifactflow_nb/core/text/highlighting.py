"""Highlighting of code by short elements without attributes, such as `<b>`, which the CSS of a page colours.

They take a third of the bytes of spans with classes, and keywords are bold where there is no CSS.
"""

import html
from itertools import groupby

LANGUAGES = frozenset({"bash", "c", "c++", "cpp", "css", "diff", "go", "html", "javascript", "js", "json"}) | {
    "latex", "py", "python", "python3", "r", "rust", "sh", "shell", "sql", "stan", "tex", "toml",
    "ts", "typescript", "xml", "yaml", "yml",
}  # fmt: skip
"""Languages that are highlighted; the lexers of some others take seconds for hostile text."""

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
"""Element by the beginning of the name of a token type."""

ELEMENTS = frozenset(_ELEMENTS.values())


def highlight(code: str, language: str) -> str:
    """Convert code to escaped HTML, with elements for its tokens if the language is one of `LANGUAGES`."""
    if language.lower() not in LANGUAGES:
        return html.escape(code)
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False)
    pieces = []
    for name, tokens in groupby(lexer.get_tokens(code), key=lambda token: _element_of(str(token[0]))):
        text = html.escape("".join(value for _, value in tokens))
        pieces.append(f"<{name}>{text}</{name}>" if name and text.strip() else text)
    return "".join(pieces)


def _element_of(token_type: str) -> str:
    """Element for a token type such as `Token.Literal.String.Doc`; empty for plain text."""
    parts = token_type.removeprefix("Token.").split(".")
    return next((_ELEMENTS[name] for n in (2, 1) if (name := ".".join(parts[:n])) in _ELEMENTS), "")
