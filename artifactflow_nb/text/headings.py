"""The headings of a Markdown text, put in their place where the text becomes a part of another one."""

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

DEEPEST = 6
_HASHES = re.compile("#{1,6}")
_LAST_HASH = re.compile(r"(?<!\\)#$")


def part(markdown: str, name: str, level: int) -> str:
    """The text as a part of a document, without a heading of its own that only says the part's name.

    Args:
        markdown: The text; harmless, as `portable` makes it.
        name: What the part is called; plain text.
        level: The level of the part's heading: the highest of the text is one below it, and the others follow, down
            to the sixth, below which Markdown has none.
    """
    lines = markdown.split("\n")
    heads = _headings(markdown)
    if heads and _is_first(heads[0], lines) and _said(heads[0][1]).casefold() == " ".join(name.split()).casefold():
        lines[: _end(heads.pop(0)[0])] = []
        return part("\n".join(lines).strip("\n"), "", level)
    highest = min((int(head.tag[1]) for head, _ in heads), default=0)
    for head, words in reversed(heads):  # from the end: a heading may take fewer lines than before
        _put(lines, head, words, min(int(head.tag[1]) - highest + level + 1, DEEPEST))
    return "\n".join(lines)


def _headings(markdown: str) -> list[tuple[Token, Token]]:
    """Each heading's opening, and its words; those in lists and quotations too."""
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    return [(token, tokens[n + 1]) for n, token in enumerate(tokens) if token.type == "heading_open" and token.map]


def _is_first(head: tuple[Token, Token], lines: Sequence[str]) -> bool:
    token, _ = head
    return token.level == 0 and not "".join(lines[: _start(token)]).strip()


def _start(token: Token) -> int:
    return token.map[0] if token.map else 0


def _end(token: Token) -> int:
    return token.map[1] if token.map else 0


def _said(words: Token) -> str:
    """The words of a heading without marks."""
    return " ".join("".join(child.content or " " for child in words.children or () if child.nesting == 0).split())


def _put(lines: list[str], head: Token, words: Token, level: int) -> None:
    """Give a heading another level; one that is underlined becomes one with hashes, of which there are six levels."""
    at, marks = _start(head), "#" * level
    if head.markup.startswith("#"):
        lines[at] = _HASHES.sub(marks, lines[at], count=1)
        return
    first = words.content.split("\n")[0]
    before = lines[at][: lines[at].find(first)] if first in lines[at] else ""
    said = _LAST_HASH.sub(r"\\#", " ".join(words.content.split()))
    lines[at : _end(head)] = [f"{before}{marks} {said}"]
