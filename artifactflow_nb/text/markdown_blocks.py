"""Growing Markdown, cut into blocks as it arrives: finished ones never change again, only the last one is open.

A block is what Markdown would not read differently with more text after it: a paragraph, a list, a fence, a table. One
that grows beyond a limit is cut too, so that neither parsing nor sending a piece of it can become expensive; the
continuation of a fence or a table begins with its opening lines again.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

MAX_BLOCK_CHARS = 4000

_FENCE = re.compile(r"\s*(?:[-*+]\s+|\d{1,9}[.)]\s+|>\s?)*(`{3,}(?=[^`]*$)|~{3,})")
_MARKER = re.compile(r"\s{0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_HEADING = re.compile(r"\s{0,3}#{1,6}(?:\s|$)")


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of Markdown.

    Attributes:
        source: The text as it came; the sources of all blocks, joined, are the whole text.
        opening: Lines to read before it, where it continues a block that was cut.
        closing: The fence that is open at its end; empty if none is.
    """

    source: str
    opening: str = ""
    closing: str = ""

    @property
    def markdown(self) -> str:
        """The text to render."""
        return self.opening + self.source


class TextBlocks:
    """A text that grows at its end.

    Args:
        text: The text to begin with.
    """

    def __init__(self, text: str = "") -> None:
        self._finished: list[Block] = []
        self._lines: list[str] = []
        self._partial = ""
        self._size = 0
        self._opening = ""
        self._kind = ""
        self._fence = ""
        self._fence_line = ""
        self.append(text)

    @property
    def blocks(self) -> list[Block]:
        """All blocks; the last one may still grow."""
        tail = "".join(self._lines) + self._partial
        return [*self._finished, Block(tail, self._opening, self._fence)] if tail else list(self._finished)

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(block.source for block in self.blocks)

    def append(self, text: str) -> None:
        """Add text at the end; linear in its length."""
        lines = (self._partial + text).split("\n")
        self._partial = lines.pop()
        for line in lines:
            self._add(line + "\n")
        while self._size + len(self._partial) > MAX_BLOCK_CHARS:
            self._cut_partial()

    def _cut_partial(self) -> None:
        """Break a line that is too long, at a space if there is one near the limit."""
        room = max(MAX_BLOCK_CHARS - self._size, 1)
        space = self._partial.rfind(" ", max(room - 200, 0), room)
        at = space + 1 if space >= 0 else room
        piece, self._partial = self._partial[:at], self._partial[at:]
        self._push(piece)
        self._finish(self._continuation())

    def _add(self, line: str) -> None:
        while len(line) > MAX_BLOCK_CHARS:
            self._place(line[:MAX_BLOCK_CHARS])
            line = line[MAX_BLOCK_CHARS:]
        self._place(line)

    def _place(self, line: str) -> None:
        """Put a line into the open block, or finish that one and begin another."""
        if self._size + len(line) > MAX_BLOCK_CHARS:
            self._finish(self._continuation())
        if self._fence:
            self._place_in_fence(line)
        elif not line.strip():
            self._push(line)
            if self._kind == "text":
                self._finish()
        else:
            if self._lines and self._kind and self._ends_before(line):
                self._finish()
            self._begin(line)

    def _place_in_fence(self, line: str) -> None:
        self._push(line)
        stripped = line.strip()
        if stripped.startswith(self._fence) and not stripped.strip(self._fence[0]):
            self._fence = ""
            if self._kind != "list":
                self._finish()

    def _begin(self, line: str) -> None:
        if not self._kind:
            self._kind = _kind_of(line)
        self._push(line)
        if fence := _FENCE.match(line.rstrip("\n")):
            self._fence, self._fence_line = fence[1], line.lstrip()
        elif _HEADING.match(line):
            self._finish()

    def _ends_before(self, line: str) -> bool:
        """Whether the open block is complete, now that this line follows."""
        if self._lines[-1].strip():
            return bool(_HEADING.match(line)) or (self._kind != "list" and bool(_FENCE.match(line.rstrip("\n"))))
        return line[0] not in " \t" and not _MARKER.match(line)

    def _continuation(self) -> str:
        """What a block must begin with to go on where this one is cut."""
        if self._fence:
            return self._fence_line if self._fence_line.startswith(self._fence) else f"{self._fence}\n"
        whole = [*self._opening.splitlines(keepends=True), *self._lines]
        for head, rule in pairwise(whole[:2]):
            if head.lstrip().startswith("|") and set(rule.strip()) <= set("|-: ") and rule.strip():
                return head + rule
        return ""

    def _push(self, text: str) -> None:
        self._lines.append(text)
        self._size += len(text)

    def _finish(self, opening: str = "") -> None:
        if self._lines:
            self._finished.append(Block("".join(self._lines), self._opening, self._fence))
        self._lines, self._size, self._opening = [], 0, opening
        self._kind = self._kind if opening else ""


def _kind_of(line: str) -> str:
    return "list" if _MARKER.match(line) else "text"
