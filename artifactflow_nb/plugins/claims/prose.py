"""The claims of Markdown: its sentences, list items, cells of tables and block quotes, at their places in the text.

All other text is left out or blanked: headings, questions, code, formulas, addresses, citation marks, lists of
parameters, and text below a heading such as "References".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise

from markdown_it import MarkdownIt

from artifactflow_nb.plugins.claims.language import CJK, phrase_pattern, words_in

_ITEM = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_QUOTE = re.compile(r"^\s{0,3}>\s?", re.MULTILINE)
_KINDS = {"paragraph_open": "paragraph", "blockquote_open": "quote", "table_open": "table"}
_RULE = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$")
_FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MARKUP = re.compile(
    r"(?P<code>(?<!`)(`+)(?!`).{0,2000}?(?<!`)\2(?!`))"
    r"|(?P<image>!\[[^\]]{0,500}+\]\([^)]{0,500}+\))"
    r"|(?P<target>(?<=\])\([^)\s]{0,500}+(?:\s\"[^\"]{0,200}\")?\))"
    r"|(?P<cite>\[(?:\d{1,3}(?:[,–-]\s?\d{1,3})*|\^[^\]]{1,60}|@[^\]]{1,200}|-@[^\]]{1,200})\])"
    r"|(?P<address><?https?://[^\s>)]{1,500}+>?|\b10\.\d{4,9}/[^\s)]{1,200}|\b[\w.-]{1,80}@[\w.-]{1,80}\.\w{2,})"
    r"|(?P<tag></?[a-zA-Z][^<>]{0,500}>)"
    r"|(?P<emphasis>\*{1,3}|(?<!\w)_{1,2}|_{1,2}(?!\w)|\\(?=[^\w\s]))"
)
_FORMULA = re.compile(r"\$\$.{0,5000}?\$\$|(?<![\\\w$])\$(?!\s)([^$\n]{1,300}?)(?<!\s)\$(?![\w$])", re.DOTALL)
_PLAIN_FORMULA = re.compile(r"(?:\\(?:times|pm|%|,|cdot|approx|sim)|[a-zA-Z]\s*(?:=|\\approx)|[\d\s.,^{}+\-−=%])+")
_PARAMETER = re.compile(r"^\s*(?:[`*]*(?:\w+[._]\w[\w.]*|\w+(?=[`*]*\s*=))[`*]*\s*[:=：]|`[^`]+`\s*[:=：–-])")
_END = re.compile(rf"(?<=[.!?])[\"”’)\]*_]*\s+(?=[\"“‘(\[*_]*[A-Z\d{CJK}])|(?<=[。！？；])[”」』）]*\s*|\n(?=\n)")
_ATTRIBUTION = re.compile(r"\n[^\S\n]*(?:—|–|--)[^\n]{1,200}\s*\Z")
_SPACE = re.compile(r"\s+")
_LETTER = re.compile(rf"[A-Za-z{CJK}]")
_CLAUSE = re.compile(r"(?<!\d),(?!\d{3}\b)|,(?=\s)|[;:，；：、()（）。]|\s[–—]\s")
_MOST_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class Claim:
    """A text that states something; `kind` is sentence, item, cell or quote.

    Spaces replace markup, so that places in the text, from `start`, are places in the Markdown. `label` has the heads
    of the row and the column of a cell, `heading` is the heading above.
    """

    text: str
    start: int
    kind: str = "sentence"
    label: str = ""
    heading: str = ""

    @property
    def plain(self) -> str:
        """The text on one line."""
        return _SPACE.sub(" ", self.text).strip()

    @property
    def named(self) -> str:
        """The text on one line; the text of a cell follows its label."""
        return f"{self.label}: {self.plain}" if self.label else self.plain


def split_claims(markdown: str) -> list[Claim]:
    """Return the claims of a Markdown text in order."""
    return [claim for block in _blocks(markdown[:_MOST_CHARACTERS]) for claim in claims_of_block(block)]


def clauses(text: str) -> list[tuple[int, int]]:
    """Return where the clauses of a sentence begin and end."""
    joins = [match.start() for match in phrase_pattern("joins").finditer(text)]
    cuts = sorted({0, len(text), *joins, *(match.end() for match in _CLAUSE.finditer(text))})
    return [(a, b) for a, b in pairwise(cuts) if a < b]


def _blank(match: re.Match[str]) -> str:
    """Blank all text but prose; the letters of code stay, since they name variables."""
    is_code = "code" in match.re.groupindex and match["code"]
    return re.sub(r"[^\nA-Za-z_]|(?<=\s)[a-z](?=\s)" if is_code else r"[^\n]", " ", match[0])


def plain_text(markdown: str) -> str:
    """Return Markdown with its markup blanked, character for character; the numbers of formulas stay."""

    def plain_formula(match: re.Match[str]) -> str:
        is_number = match[1] and re.search(r"\d", match[1]) and _PLAIN_FORMULA.fullmatch(match[1])
        return f" {match[1]} " if is_number else _blank(match)

    return _FORMULA.sub(plain_formula, _MARKUP.sub(_blank, _COMMENT.sub(_blank, markdown)))


def text_without_markup(markdown: str) -> str:
    """Return a text with its links, marks and tags blanked, character for character; code stays."""
    return _MARKUP.sub(lambda match: match[0] if match["code"] else _blank(match), markdown)


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table").disable(["inline", "html_block"])


def _blocks(markdown: str) -> Iterator[Claim]:
    """Yield the paragraphs, list items, tables and block quotes with the heading above, but not within one another."""
    markdown = _FRONT_MATTER.sub(_blank, markdown)
    lines = markdown.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    heading, end, is_skipped = "", 0, False
    tokens = _parser().parse(markdown)
    for token, content in pairwise(tokens):
        kind = _KINDS.get(token.type)
        first, last = token.map or (0, 0)
        if token.type == "heading_open":
            heading = content.content
            is_skipped = plain_text(heading).strip("0123456789. \t").lower() in words_in("references")
        elif kind and first >= end and not is_skipped:
            end = last if kind in {"quote", "table"} else end
            is_item = kind == "paragraph" and token.level > 0
            yield Claim("\n".join(lines[first:last]), starts[first], "item" if is_item else kind, heading=heading)


def claims_of_block(block: Claim) -> Iterator[Claim]:
    """Yield the claims of lines of one kind."""
    if block.kind == "table":
        yield from _cells(block)
        return
    text = block.text
    if block.kind == "quote":
        text = _QUOTE.sub(_blank, text)
        quote = _ATTRIBUTION.sub(_blank, plain_text(text))
        is_callout = phrase_pattern("callouts").match(quote.strip())
        if _LETTER.search(quote) and not is_callout:
            yield Claim(quote.rstrip(), block.start, "quote", heading=block.heading)
        if not is_callout:
            return
    if block.kind == "item":
        text = _ITEM.sub(_blank, text, count=1)
        name = re.split(r"[:=：]", plain_text(text), maxsplit=1)[0].strip().lower()
        if _PARAMETER.match(text) or name in words_in("parameters"):
            return
    text = plain_text(text)
    for start, end in sentences(text):
        sentence = text[start:end]
        if _LETTER.search(sentence) and not sentence.rstrip(' \n"”)」').endswith(("?", "？")):
            kind = "item" if block.kind == "item" else "sentence"
            yield Claim(sentence, block.start + start, kind, heading=block.heading)


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the sentences of a plain text begin and end, without space around them."""
    cuts = [0]
    for match in _END.finditer(text):
        before = re.search(r"(?<![/\w.])(?<!\d )([A-Za-z.]+)\.$", text[max(match.start() - 12, 0) : match.start()])
        short = before[1] if before else "no abbreviation"
        if short.lower() not in words_in("abbreviations") and not re.fullmatch(r"(?:[A-Z]\.)*[A-Z]", short):
            cuts.append(match.end())
    for start, end in pairwise([*cuts, len(text)]):
        piece = text[start:end]
        if piece.strip():
            yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def _cells(block: Claim) -> Iterator[Claim]:
    head: list[str] = []
    place = block.start
    for number, line in enumerate(block.text.splitlines(keepends=True)):
        if not _RULE.match(line):
            cells = [(m.start() + place, plain_text(m[0])) for m in re.finditer(r"(?:[^|\\\n]|\\.)+", line)]
            cells = cells[1:] if cells and not cells[0][1].strip() and line.lstrip() != line else cells
            head = [text.strip() for _, text in cells] if number == 0 else head
            for (start, text), title in zip(cells[1:] if number else (), [*head[1:], *[""] * len(cells)], strict=False):
                if re.search(r"\d", text):
                    yield Claim(text.rstrip(), start, "cell", f"{cells[0][1].strip()} | {title}", block.heading)
        place += len(line)
