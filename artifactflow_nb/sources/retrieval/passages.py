"""Splitting of texts into blocks (headings, paragraphs, list items, code, tables) and passages, with their offsets.

Markdown, plain text with underlined headings, and Chinese plain text with numbered headings (`第一章 总则`, `一、范围`)
are supported. A single line above more deeply indented text is the term of a definition (`object.__len__(self)`), and
also the heading of the definition.
"""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Literal, NamedTuple

from artifactflow_nb.core.text.chinese import CJK
from artifactflow_nb.core.text.format import width

BlockKind = Literal["heading", "term", "prose", "item", "code", "table"]

PASSAGE_COLUMNS = 800
_TERM_CHARS = 300  # a longer paragraph is not a definition's term

_HASHES = re.compile(r" {0,3}(#{1,6})\s+(\S.*)$")
_UNDERLINE = re.compile(r"([*=\-~^#\"])\1{2,}\s*$")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_CAPITALS = re.compile(r"[A-Z][A-Z\d ,/'&()-]*[A-Z)]$")  # a heading of a manual page: `EXIT STATUS`
HANGING = re.compile(r"([ \t]*)(?!\.\.)\S[^\n]*[^\s.:!?](?:\n\1[ \t]+\S[^\n]*)+")  # the option of a manual page
ITEM_MARK = re.compile(
    r"\s*(?:[-*+•]|\(?\d{1,3}[.)])\s+"
    rf"|\s*(?:（[一二三四五六七八九十\d]{{1,3}}）|[①-⑳]|(?:\d{{1,3}}|[一二三四五六七八九十]{{1,3}})、(?![\d一二三四五六七八九十])"
    rf"|\d{{1,3}}[.．](?=[{CJK}]))\s*"
)
_NUMBERED = re.compile(
    r"(?:第[一二三四五六七八九十百\d]{1,4}([章节節篇])|([一二三四五六七八九十]{1,3})、)\s*[^。！？；，：:]{1,28}$"
)
_LEVELS = {"篇": 1, "章": 2, "节": 3, "節": 3}
_TABLE = re.compile(r"\s*(?:\||\+[-=+]{3,})")
_CODE = re.compile(
    r"\s*(?:>>>|\.\.\. |[$%] \w|import \w|from \w+ import|(?:async )?(?:def|class|with|for|while|if|elif|try|except)\b"
    r"[^.]*:\s*(?:#.*)?$|else:|finally:|return\b|raise\b)"
    r"|\s+[a-z]+(?:_\w+)+\s*:\s+\S"  # a rule of a grammar
)
_ASSIGNMENT = re.compile(r"\s*[\w.\[\], ]+\s[-+*/]?=\s")
_ALTERNATIVE = re.compile(r"\s+\|\s")


class TextBlock(NamedTuple):  # as quick to make as possible, like the other values here: a file has dozens of each
    """A block of a text.

    Attributes:
        start: Offset of the first character in the text.
        end: Offset after the last character.
        kind: Kind of block.
        indent: Indentation of the first line in columns.
        level: Level of a heading from 1 to 6; 0 for other blocks.
        title: Text of a heading or a term; empty for other blocks.
    """

    start: int
    end: int
    kind: BlockKind
    indent: int = 0
    level: int = 0
    title: str = ""


class Passage(NamedTuple):
    """A part of a section that is short enough to be ranked.

    Attributes:
        start: Offset of the first character in the text.
        end: Offset after the last character.
        heading: The headings and terms above the passage, outermost first.
    """

    start: int
    end: int
    heading: str


class _Line(NamedTuple):
    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())


def split_blocks(text: str) -> list[TextBlock]:
    """Split a text into blocks, in order; blank lines belong to no block."""
    lines: list[_Line] = []
    start = 0
    for line in text.splitlines(keepends=True):
        lines.append(_Line(start, line.rstrip()))
        start += len(line)
    blocks: list[TextBlock] = []
    i = 0
    while i < len(lines):
        if lines[i].text:
            i, block = _next(lines, i)
            blocks.append(block)
        else:
            i += 1
    for n, (block, below) in enumerate(pairwise(blocks)):
        words = text[block.start : block.end]
        if (  # a definition's term
            block.kind == "prose"
            and below.kind not in {"heading", "table"}
            and below.indent > block.indent
            and not words.endswith((".", ":", "!", "?", "。"))
            and len(words) < _TERM_CHARS
            and not HANGING.fullmatch(words)
        ):
            blocks[n] = TextBlock(block.start, block.end, "term", block.indent, 0, " ".join(words.split()))
    return blocks


def _next(lines: list[_Line], i: int) -> tuple[int, TextBlock]:
    """Return the line after the block that begins at line `i`, and the block."""
    line = lines[i]
    is_plain = _is_plain(line.text)
    if not is_plain and (fence := _FENCE.match(line.text)):
        mark = fence[1]
        later = ((j, other.text.strip()) for j, other in enumerate(lines[i + 1 :], i + 2))
        stop = next((j for j, text in later if text.startswith(mark) and not text.strip(mark[0])), len(lines))
        return stop, TextBlock(line.start, lines[stop - 1].end, "code", line.indent)
    if not is_plain and (heading := _HASHES.match(line.text)):
        title = heading[2].rstrip("#").rstrip() or heading[2][0]  # without the closing hashes
        return i + 1, TextBlock(line.start, line.end, "heading", 0, len(heading[1]), title)
    if i + 1 < len(lines) and line.indent == 0 and _is_underline(line.text, lines[i + 1].text):
        level = 1 if lines[i + 1].text[0] in "*=" else 2
        return i + 2, TextBlock(line.start, lines[i + 1].end, "heading", 0, level, line.text.strip())
    if not is_plain and (level := _numbered(lines, i)):
        return i + 1, TextBlock(line.start, line.end, "heading", 0, level, line.text.strip())
    if _is_capital(lines, i):
        return i + 1, TextBlock(line.start, line.end, "heading", 0, 2, line.text)
    stop = i + 1
    while stop < len(lines):
        text = lines[stop].text
        below = lines[stop + 1].text if stop + 1 < len(lines) else ""
        if not text or (_is_underline(text, below) and lines[stop].indent == 0) or _is_capital(lines, stop):
            break
        if not _is_plain(text) and (
            _HASHES.match(text) or _FENCE.match(text) or ITEM_MARK.match(text) or _numbered(lines, stop)
        ):
            break
        if not (is_plain and _is_plain(text)) and bool(_TABLE.match(text)) != bool(_TABLE.match(line.text)):
            break
        stop += 1
    return stop, TextBlock(line.start, lines[stop - 1].end, _kind(lines[i:stop]), line.indent)


def _is_plain(line: str) -> bool:
    """Return whether a line begins with a Latin letter, so that it is no heading, list item, fence or table row."""
    first = line.lstrip()[:1]
    return "a" <= first <= "z" or "A" <= first <= "Z"


def _is_underline(line: str, below: str) -> bool:
    """Return whether `below` underlines `line`: `below` is nearly as long, and `line` is no underline."""
    return (
        not below[:1].isalnum()
        and bool(_UNDERLINE.match(below))
        and len(below) + 2 >= len(line)
        and not _UNDERLINE.match(line)
    )


def _is_capital(lines: list[_Line], i: int) -> bool:
    """Return whether a line is a heading in capital letters: the text below it is indented."""
    return _CAPITALS.match(lines[i].text) is not None and i + 1 < len(lines) and lines[i + 1].indent > 1


def is_numbered(title: str) -> bool:
    """Return whether a heading is numbered (`一、范围`); the title of a document is not numbered."""
    return _NUMBERED.match(title) is not None


def _numbered(lines: list[_Line], i: int) -> int:
    """Return the level of a Chinese heading by its number, or 0 for other lines and for lines of a list."""
    match = _NUMBERED.match(lines[i].text)
    if match is None:
        return 0
    above = lines[i - 1].text if i else ""
    below = next((line.text for line in lines[i + 1 :] if line.text), "")
    neighbours = [_NUMBERED.match(above), _NUMBERED.match(below)]
    if not below or any(other and other[1] == match[1] for other in neighbours):
        return 0
    return _LEVELS[match[1]] if match[1] else 4


def _kind(lines: list[_Line]) -> BlockKind:
    first = lines[0].text
    if _TABLE.match(first) or first.lstrip().startswith(">"):
        return "table" if not first.lstrip().startswith(">>>") else "code"
    is_code = _CODE.match(first) or ("=" in first and _ASSIGNMENT.match(first))
    if is_code or any("::=" in line.text for line in lines) or all(_ALTERNATIVE.match(line.text) for line in lines):
        return "code"
    return "item" if ITEM_MARK.match(first) else "prose"


def split_passages(text: str, blocks: Iterable[TextBlock] | None = None) -> list[Passage]:
    """Group the blocks of a text into passages of about 800 columns; each heading or term begins a passage.

    Columns count, because a Chinese text contains about twice as much in the same number of characters.

    Args:
        text: The text.
        blocks: The blocks of the text, or None.
    """
    passages: list[Passage] = []
    group: list[TextBlock] = []
    above: list[TextBlock] = []
    for block in split_blocks(text) if blocks is None else blocks:
        # A second term of the same depth directly below the first term shares the text of the first term.
        starts = block.kind in {"heading", "term"} and not (group and group[-1].kind == "term")
        ends_definition = block.kind != "term" and any(
            outer.kind == "term" and block.indent <= outer.indent for outer in above
        )
        if group and (starts or ends_definition or width(text[group[0].start : block.end]) > PASSAGE_COLUMNS):
            passages.append(_passage(group, above))
            group = []
        is_joined = bool(group) and group[-1].kind == "term"
        if block.kind == "heading":
            above = [*(outer for outer in above if outer.kind == "heading" and outer.level < block.level), block]
        else:
            above = [outer for outer in above if outer.kind == "heading" or outer.indent < block.indent or is_joined]
            above += [block] if block.kind == "term" else []
        group.append(block)
    return [*passages, _passage(group, above)] if group else passages


def _passage(group: list[TextBlock], above: list[TextBlock]) -> Passage:
    return Passage(group[0].start, group[-1].end, " / ".join(outer.title for outer in above))
