"""Incremental splitting of streaming Markdown into blocks; finished blocks never change, only the last one is open.

A block is a unit whose parse does not depend on later text: a paragraph, list, fence, table or fold. Blocks are also
split at a size limit, so that parsing and sending a block stay cheap; the continuation of a fence, table or fold
repeats its opening lines.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from artifactflow_nb.core.text.folds import depth_after, repeated_head, starts_fold
from artifactflow_nb.core.text.formulas import formula_at, is_open_formula

MAX_BLOCK_CHARS = 4000

_FENCE = re.compile(r"\s*(?:[-*+]\s+|\d{1,9}[.)]\s+|>\s?)*(`{3,}(?=[^`]*$)|~{3,})")
_MARKER = re.compile(r"\s{0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_HEADING = re.compile(r"\s{0,3}#{1,6}(?:\s|$)")
_OPEN_END = re.compile(
    r"(?:\[(?:\^[\w.:-]{0,40})?|</?\w{0,7}|<(?:b|i|sub|sup)>[^<>\n]{0,80}(?:</?\w{0,3})?)\Z", re.IGNORECASE
)
"""The beginning of a footnote's mark, of a tag, or of a short element at the end of a text."""
_MAX_FOLDS = 20
_INLINE_MARK = re.compile(r"\\.|\\\Z|`+|\$\$?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """A block of Markdown.

    Attributes:
        source: Original text; the sources of all blocks join to the whole text.
        opening: Repeated opening lines of a split block that this block continues, or an empty string.
        closing: The fence that is open at the end of the block, or an empty string.
    """

    source: str
    opening: str = ""
    closing: str = ""

    @property
    def markdown(self) -> str:
        """The text to render."""
        return self.opening + self.source

    @property
    def settled_markdown(self) -> str:
        """The text to render while more text is arriving: unfinished fences, table rows and formulas are left out.

        A table appears with its second line, and an unfinished code span is closed. So no text is displayed that later
        becomes something else.
        """
        text = self.markdown
        line = text.rpartition("\n")[2]
        marks = line.strip()
        if self.closing:
            return text.removesuffix(line) if marks and not marks.strip(self.closing[0]) else text
        if (marks and not marks.strip("`~")) or _FENCE.match(line):
            return text.removesuffix(line)
        if marks.startswith("|"):
            text = text.removesuffix(line)
        if not marks or marks.startswith("|"):
            *before, last = ["", *text.removesuffix("\n").split("\n")]
            if last.lstrip().startswith("|") and not before[-1].lstrip().startswith("|"):  # maybe the head of a table
                text = text[: text.rindex(last)]
        return _without_open_mark(text)


def _without_open_mark(text: str) -> str:
    """Omit an unfinished formula at the end of a text, and close an unfinished code span."""
    position = 0
    for match in _INLINE_MARK.finditer(text):
        mark, start, end = match[0], match.start(), match.end()
        if start < position:
            continue
        if mark[0] == "`":
            closing = re.compile(rf"(?<!`){mark}(?!`)").search(text, end)
            if closing is None:
                return text + mark if text[end:].strip() else text[:start]
            position = closing.end()
        elif formula := formula_at(text, start):
            position = formula.end
        elif mark == "\\" or is_open_formula(text, start):
            return text[:start]
    return _OPEN_END.sub("", text)


class MarkdownStream:
    """Splits a streaming text into blocks."""

    def __init__(self, text: str = "") -> None:
        self._finished: list[MarkdownBlock] = []
        self._lines: list[str] = []
        self._partial = ""
        self._size = 0
        self._opening = ""
        self._kind = ""
        self._fence = ""
        self._fence_line = ""
        self._depth = 0  # number of open folds
        self.append(text)

    @property
    def blocks(self) -> list[MarkdownBlock]:
        """All blocks; the last one may still grow."""
        tail = "".join(self._lines) + self._partial
        return [*self._finished, MarkdownBlock(tail, self._opening, self._fence)] if tail else list(self._finished)

    @property
    def text(self) -> str:
        """All text that was appended."""
        return "".join(block.source for block in self.blocks)

    def append(self, text: str) -> None:
        """Add text at the end; linear in its length."""
        lines = (self._partial + text).split("\n")
        self._partial = lines.pop()
        for line in lines:
            rest = line + "\n"
            while len(rest) > MAX_BLOCK_CHARS:
                self._place(rest[:MAX_BLOCK_CHARS])
                rest = rest[MAX_BLOCK_CHARS:]
            self._place(rest)
        while self._size + len(self._partial) > MAX_BLOCK_CHARS:  # split the line, if possible at a space
            limit = max(MAX_BLOCK_CHARS - self._size, 1)
            space = self._partial.rfind(" ", max(limit - 200, 0), limit)
            end = space + 1 if space >= 0 else limit
            piece, self._partial = self._partial[:end], self._partial[end:]
            self._push(piece)
            self._finish(self._continuation())

    def _place(self, line: str) -> None:
        """Add a line to the open block, or finish the block and start another."""
        if self._size + len(line) > MAX_BLOCK_CHARS:
            self._finish(self._continuation())
        if self._fence:
            self._push(line)
            stripped = line.strip()
            if stripped.startswith(self._fence) and not stripped.strip(self._fence[0]):
                self._fence = ""
                if self._kind not in {"list", "fold"}:
                    self._finish()
        elif not line.strip():
            self._push(line)
            if self._kind == "text":
                self._finish()
        else:
            is_heading, fence = bool(_HEADING.match(line)), _FENCE.match(line.rstrip("\n"))
            is_fold = starts_fold(line)
            if self._lines and self._kind and self._kind != "fold":
                follows_text = bool(self._lines[-1].strip())
                continues_list = line[0] in " \t" or bool(_MARKER.match(line))
                starts_block = is_heading or is_fold or (self._kind != "list" and fence is not None)
                if starts_block if follows_text else not continues_list:
                    self._finish()
            if not self._kind:
                self._kind = "fold" if is_fold else "list" if _MARKER.match(line) else "text"
            self._push(line)
            if fence:
                self._fence, self._fence_line = fence[1], line.lstrip()
            elif self._kind == "fold":
                self._depth = min(depth_after(self._depth, line), _MAX_FOLDS)
                if self._depth <= 0:
                    self._finish()
            elif is_heading:
                self._finish()

    def _continuation(self) -> str:
        """Return the opening lines that a continuation of the open block must repeat."""
        whole = [*self._opening.splitlines(keepends=True), *self._lines]
        fold = repeated_head("".join(whole), self._depth) if self._kind == "fold" else ""
        if self._fence:
            return fold + (self._fence_line if self._fence_line.startswith(self._fence) else f"{self._fence}\n")
        if fold:
            return fold
        for head, rule in pairwise(whole[:2]):
            if head.lstrip().startswith("|") and set(rule.strip()) <= set("|-: ") and rule.strip():
                return head + rule
        return ""

    def _push(self, text: str) -> None:
        self._lines.append(text)
        self._size += len(text)

    def _finish(self, opening: str = "") -> None:
        if self._lines:
            self._finished.append(MarkdownBlock("".join(self._lines), self._opening, self._fence))
        self._lines, self._size, self._opening = [], 0, opening
        self._kind = self._kind if opening else ""
