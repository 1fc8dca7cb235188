"""Adjustment of heading levels when a Markdown text becomes a part of another document."""

import re

from markdown_it import MarkdownIt

MAX_LEVEL = 6
_HASHES = re.compile("#{1,6}")
_LAST_HASH = re.compile(r"(?<!\\)#$")


def as_document_part(markdown: str, name: str, level: int) -> str:
    """Shift the headings of a text below the heading of its part, and drop a first heading that repeats its name.

    Args:
        markdown: The text, sanitised by `safe_markdown`.
        name: Name of the part, as plain text.
        level: Level of the part's heading. The highest heading of the text becomes one level lower, the others keep
            their distance to it, down to level 6.
    """
    lines = markdown.split("\n")
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)  # headings in lists and quotations, too
    headings = [
        (token, tokens[n + 1], token.map[0], token.map[1])
        for n, token in enumerate(tokens)
        if token.type == "heading_open" and token.map
    ]
    if headings:
        token, inline, start, end = headings[0]
        words = "".join(child.content or " " for child in inline.children or () if child.nesting == 0).split()
        is_first = token.level == 0 and not "".join(lines[:start]).strip()
        if is_first and " ".join(words).casefold() == " ".join(name.split()).casefold():
            return as_document_part("\n".join(lines[end:]).strip("\n"), "", level)  # "" equals no heading
    highest = min((int(token.tag[1]) for token, *_ in headings), default=0)
    for token, inline, start, end in reversed(headings):  # from the end: a heading may become shorter by some lines
        hashes = "#" * min(int(token.tag[1]) - highest + level + 1, MAX_LEVEL)
        if token.markup.startswith("#"):
            lines[start] = _HASHES.sub(hashes, lines[start], count=1)
            continue
        # Underlines have two levels only, so an underlined heading gets hashes.
        before, has_text, _ = lines[start].partition(inline.content.split("\n")[0])
        prefix = before if has_text else ""  # of a list or quotation
        text = _LAST_HASH.sub(r"\#", " ".join(inline.content.split()))  # a last hash would read as a closing one
        lines[start:end] = [f"{prefix}{hashes} {text}"]
    return "\n".join(lines)
