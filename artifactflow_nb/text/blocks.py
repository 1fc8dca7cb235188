"""A text as blocks: headings, paragraphs, list items, code and tables, each with its place in the text.

Markdown and plain text with underlined headings are read alike, and so are the numbered headings of Chinese plain text
(`第一章 总则`, `一、范围`). A line that stands alone above more deeply indented
text is a definition's term (`object.__len__(self)`) and heads what is indented under it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from artifactflow_nb.text.chinese import CJK
from artifactflow_nb.text.width import width

Kind = Literal["heading", "term", "prose", "item", "code", "table"]

PASSAGE_COLUMNS = 800
_TERM_CHARS = 300  # a longer paragraph is no definition's term

_HASHES = re.compile(r" {0,3}(#{1,6})\s+(\S.*)$")
_UNDERLINE = re.compile(r"([*=\-~^#\"])\1{2,}\s*$")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
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
    r"[^.]*:\s*(?:#.*)?$|else:|finally:|return\b|raise\b|[\w.\[\], ]+\s[-+*/]?=\s)"
)
_GRAMMAR = re.compile(r"::=|^\s+\|\s")
_RULE = re.compile(r"\s+[a-z]+(?:_\w+)+\s*:\s+\S")


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of a text.

    Attributes:
        start: Its first character's offset in the text.
        end: The offset after its last character.
        kind: What it is.
        indent: Columns that its first line is indented by.
        level: Of a heading: 1 to 6, else 0.
        title: Of a heading or a term: its words.
    """

    start: int
    end: int
    kind: Kind
    indent: int = 0
    level: int = 0
    title: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch short enough to be ranked.

    Attributes:
        start: Its first character's offset in the text.
        end: The offset after its last character.
        heading: The headings and terms that it stands under, outermost first.
    """

    start: int
    end: int
    heading: str


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())


def blocks(text: str) -> list[Block]:
    """The blocks of the text, in order; blank lines belong to none."""
    found = list(_scan(_lines(text)))
    return _with_terms(text, found) if found else []


def _lines(text: str) -> list[_Line]:
    found, start = [], 0
    for line in text.splitlines(keepends=True):
        found.append(_Line(start, line.rstrip()))
        start += len(line)
    return found


def _scan(lines: list[_Line]) -> Iterator[Block]:
    i = 0
    while i < len(lines):
        if not lines[i].text:
            i += 1
            continue
        stop, block = _next(lines, i)
        yield block
        i = stop


def _next(lines: list[_Line], i: int) -> tuple[int, Block]:
    """The block that begins at line `i`, and the line after it."""
    line = lines[i]
    if fence := _FENCE.match(line.text):
        stop = _after_fence(lines, i, fence[1])
        return stop, Block(line.start, lines[stop - 1].end, "code", line.indent)
    if heading := _HASHES.match(line.text):
        return i + 1, Block(line.start, line.end, "heading", 0, len(heading[1]), _unclosed(heading[2]))
    if i + 1 < len(lines) and line.indent == 0 and _is_underline(line.text, lines[i + 1].text):
        level = 1 if lines[i + 1].text[0] in "*=" else 2
        return i + 2, Block(line.start, lines[i + 1].end, "heading", 0, level, line.text.strip())
    if level := _numbered(lines, i):
        return i + 1, Block(line.start, line.end, "heading", 0, level, line.text.strip())
    stop = _after_paragraph(lines, i)
    return stop, Block(line.start, lines[stop - 1].end, _kind(lines[i:stop]), line.indent)


def _unclosed(title: str) -> str:
    """A heading without the hashes that close it; the first character stays."""
    return title.rstrip("#").rstrip() or title[0]


def _after_fence(lines: list[_Line], i: int, mark: str) -> int:
    for j in range(i + 1, len(lines)):
        if lines[j].text.strip().startswith(mark) and not lines[j].text.strip().strip(mark[0]):
            return j + 1
    return len(lines)


def _is_underline(line: str, below: str) -> bool:
    """Whether `below` underlines `line`: it is nearly as long, and the line itself is not drawn."""
    return bool(_UNDERLINE.match(below)) and len(below) + 2 >= len(line) and not _UNDERLINE.match(line)


def is_numbered(title: str) -> bool:
    """Whether a heading counts the parts of its document (`一、范围`), so that it is not the name of the whole."""
    return _NUMBERED.match(title) is not None


def _numbered(lines: list[_Line], i: int) -> int:
    """The level of a Chinese heading that its number alone tells; 0 for none, and for the lines of a list."""
    match = _NUMBERED.match(lines[i].text)
    if match is None:
        return 0
    above = lines[i - 1].text if i else ""
    below = next((line.text for line in lines[i + 1 :] if line.text), "")
    beside = [_NUMBERED.match(above), _NUMBERED.match(below)]
    if not below or any(other and other[1] == match[1] for other in beside):
        return 0
    return _LEVELS[match[1]] if match[1] else 4


def _after_paragraph(lines: list[_Line], i: int) -> int:
    for j in range(i + 1, len(lines)):
        text = lines[j].text
        ends = not text or _HASHES.match(text) or _FENCE.match(text) or ITEM_MARK.match(text) or _numbered(lines, j)
        headed = j + 1 < len(lines) and lines[j].indent == 0 and _is_underline(text, lines[j + 1].text)
        if ends or headed or bool(_TABLE.match(text)) != bool(_TABLE.match(lines[i].text)):
            return j
    return len(lines)


def _kind(lines: list[_Line]) -> Kind:
    first = lines[0].text
    if _TABLE.match(first) or first.lstrip().startswith(">"):
        return "table" if not first.lstrip().startswith(">>>") else "code"
    grammar = any("::=" in line.text for line in lines) or _RULE.match(first)
    if grammar or _CODE.match(first) or all(_GRAMMAR.search(x.text) for x in lines):
        return "code"
    return "item" if ITEM_MARK.match(first) else "prose"


def _with_terms(text: str, found: list[Block]) -> list[Block]:
    """The blocks with every definition's term marked as such."""
    marked = []
    for block, below in zip(found, [*found[1:], None], strict=True):
        words = text[block.start : block.end]
        heads = below is not None and below.kind not in {"heading", "table"} and below.indent > block.indent
        if (
            block.kind == "prose"
            and heads
            and not words.endswith((".", ":", "!", "?", "。"))
            and len(words) < _TERM_CHARS
        ):
            marked.append(Block(block.start, block.end, "term", block.indent, 0, " ".join(words.split())))
        else:
            marked.append(block)
    return marked


def passages(text: str) -> list[Passage]:
    """The text cut at blocks into passages of some 800 columns, a new one at each heading or term.

    Columns and not characters, because a line of Chinese says as much as two of English with as many characters.
    """
    return passages_of(text, blocks(text))


def passages_of(text: str, all_blocks: Iterable[Block]) -> list[Passage]:
    """The same for a text that was read into blocks before."""
    found: list[Passage] = []
    group: list[Block] = []
    above: list[Block] = []
    for block in all_blocks:
        # A second term of the same depth straight below the first shares its text.
        starts = block.kind in {"heading", "term"} and not (group and group[-1].kind == "term")
        if group and (starts or _left(above, block) or width(text[group[0].start : block.end]) > PASSAGE_COLUMNS):
            found.append(_passage(group, above))
            group = []
        above = _headings(above, block, joined=bool(group) and group[-1].kind == "term")
        group.append(block)
    return [*found, _passage(group, above)] if group else found


def _left(above: Iterable[Block], block: Block) -> bool:
    """Whether the block stands outside the definition that the text was in."""
    return any(head.kind == "term" and block.indent <= head.indent and block.kind != "term" for head in above)


def _headings(above: list[Block], block: Block, *, joined: bool) -> list[Block]:
    """The headings in force at the block."""
    if block.kind == "heading":
        return [*(head for head in above if head.kind == "heading" and head.level < block.level), block]
    kept = [head for head in above if head.kind == "heading" or head.indent < block.indent or joined]
    return [*kept, block] if block.kind == "term" else kept


def _passage(group: list[Block], above: list[Block]) -> Passage:
    return Passage(group[0].start, group[-1].end, " / ".join(head.title for head in above))
