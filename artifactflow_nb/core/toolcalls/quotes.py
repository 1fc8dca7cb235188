"""Detection of quotations in a reply, whose content is never parsed as a tool call.

Block quotes, code spans and code fences follow CommonMark as far as that applies to running text. Text that the agent
was shown and the reply repeats verbatim counts as a quotation too.
"""

import html
import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property

_BLANK_LINE = re.compile(r"\n[ \t]*+(?=\r?\n|\Z)")
_TICKS = re.compile(r"`++")
_LIST = r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?+"
_QUOTE = re.compile(rf"[ \t]*+{_LIST}>")
_FENCE = re.compile(rf"(?:(?<=\n)|\A)[ \t]*+{_LIST}(?P<mark>`{{3,}}+|~{{3,}}+)(?P<rest>[^\n]*+)")
_WORD = re.compile(r"[\w+-]*+(?!\S)|xml|json|html", re.ASCII)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrt]|(?=[^\w\s]|_))")
_MARGIN = re.compile(r"^[\s>]+", re.MULTILINE)
_BLANKS = re.compile("[\\s\ufeff\u200b-\u200d\u2060]+")
_EDGES = re.compile(
    r"^(?:<(?:[\w-]+:)?(?:tool_calls?|function_calls?)>)+"
    r"|(?:</(?:[\w-]+:)?(?:tool_calls?|function_calls?|params|parameters|arguments|function|invoke)>)+$",
    re.IGNORECASE,
)
_SPACE = frozenset(" \t\r\n")
_MAX_ENTITY_LEVELS = 3  # `&amp;lt;` has two levels


class Quotations:
    """Quotations of a text; offsets must be queried in increasing order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._from = 0  # end of the processed text: marks before it open no quotation
        self._fences = [
            line for line in _FENCE.finditer(text) if line["mark"][0] == "~" or "`" not in line["rest"]
        ]  # without code spans
        self._next_fence = 0
        self._open: re.Match[str] | None = None
        self._blank_lines = [match.start() for match in _BLANK_LINE.finditer(text)]
        self._ticks: dict[int, list[int]] = {}  # start offsets of backtick runs by length
        for ticks in _TICKS.finditer(text):
            self._ticks.setdefault(len(ticks[0]), []).append(ticks.start())

    def skip(self, to: int) -> None:
        """Skip text that was processed as a call or quotation, up to this offset."""
        self._from, self._open = to, None
        while self._next_fence < len(self._fences) and self._fences[self._next_fence].start("mark") < to:
            self._next_fence += 1

    def fence(self, at: int) -> re.Match[str] | None:
        """Return the code fence that is open at this offset."""
        while self._next_fence < len(self._fences) and self._fences[self._next_fence].start("mark") < at:
            line = self._fences[self._next_fence]
            self._next_fence += 1
            self._open = line if self._open is None else None if _closes(line, self._open) else self._open
        return self._open

    def fence_end(self, fence: re.Match[str], at: int) -> int:
        """Return the end of a fence that is open at this offset: after its closing line, or at the end of the text."""
        self.fence(at)
        return next((line.end() for line in self._fences[self._next_fence :] if _closes(line, fence)), len(self._text))

    def quote_end(self, at: int) -> int | None:
        """Return the end of the block quote or code span at this offset, or None."""
        line = max(self._text.rfind("\n", self._from, at) + 1, self._from)
        is_line = line == 0 or self._text[line - 1] == "\n"
        if is_line and _QUOTE.match(self._text, line, at):
            return self._paragraph_end(at)
        # A code span ends at the next run of backticks of the same length.
        index = bisect_left(self._blank_lines, at)
        start = max(self._from, self._blank_lines[index - 1] if index else 0)
        opened = 0
        for ticks in _TICKS.finditer(self._text, start, at):
            opened = 0 if opened == len(ticks[0]) else opened or len(ticks[0])
        if not opened:
            return None
        runs = self._ticks.get(opened, [])
        position = bisect_left(runs, at)
        end = runs[position] + opened if position < len(runs) else None
        return end if end is not None and end <= self._paragraph_end(at) else None

    def _paragraph_end(self, at: int) -> int:
        index = bisect_left(self._blank_lines, at)
        return self._blank_lines[index] if index < len(self._blank_lines) else len(self._text)


def body_start(fence: re.Match[str]) -> int:
    """Return the start of a fence's content, after its mark and language."""
    word = _WORD.match(fence.string, fence.end("mark"))
    return word.end() if word else fence.end("mark")


def _closes(line: re.Match[str], fence: re.Match[str]) -> bool:
    return line["mark"].startswith(fence["mark"]) and not line["rest"].strip()


class DisplayedTexts:
    """Texts that an agent was shown: tool results, source passages, earlier messages.

    The texts are normalised lazily, so that a reply without calls costs nothing.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts = tuple(texts)

    def contains(self, text: str) -> bool:
        """Return whether a displayed text contains a text, ignoring white space, entities, escapes and quote marks."""
        normalised = _normalise(text) if any(self._texts) else ""
        return bool(normalised) and normalised in self._normalised

    def contains_call(self, text: str) -> bool:
        """Return whether a displayed text contains this call, with or without its wrapper tags."""
        normalised = _EDGES.sub("", _normalise(text)) if any(self._texts) else ""
        return bool(normalised) and normalised in self._normalised

    @cached_property
    def _normalised(self) -> str:
        return _normalise("\n\0\n".join(self._texts))  # a call for each of a thousand texts would take milliseconds


def _normalise(text: str) -> str:
    for _ in range(_MAX_ENTITY_LEVELS):
        text, before = html.unescape(text), text
        if text == before:
            break
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else "", text)
    return _BLANKS.sub("", _MARGIN.sub("", text))
