"""Text comparison: line splitting, unified diffs, and changes down to words, by `difflib`.

A line ends with a line feed; a carriage return before it is part of the line. `difflib` takes minutes for large texts
with many changes, so a comparison has limits: a changed part with more than `MAX_LINES` lines, or with too many equal
lines, counts as replaced as a whole (`COARSE` says so), and too many words are marked as whole lines. Removed
and added lines are compared by word in their order. A word of a script without spaces is one character.
"""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

from artifactflow_nb.core.language import EnglishText
from artifactflow_nb.core.text.chinese import CJK
from artifactflow_nb.core.text.format import fenced

CONTEXT_LINES = 3
MAX_LINES = 4_000
"""Maximum number of compared lines of both texts, not counting equal lines at the beginnings and ends."""
COARSE: EnglishText = "too many lines to compare one by one"
"""The remark on a part that counts as replaced as a whole."""

_NO_NEWLINE = "\n\\ No newline at end of file\n"

_MARKS = "\u0300-\u036f\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff"  # combine with the character before them
_BRAHMIC = "\u0900-\u0eff"  # scripts whose vowel signs do not match `\w`
_LETTER = rf"(?:[^\W{CJK}]|[{_BRAHMIC}])"
_TOKEN = re.compile(rf"(?:[{CJK}]|(?:{_LETTER}[{_MARKS}]*)+)[^\S\r]*|[^\S\r]+|\r|.(?:\u200d.|[{_MARKS}])*", re.DOTALL)
_LINE_PAIRS, _WORD_PAIRS = 200_000, 200_000  # maximum numbers of equal pairs that `difflib` visits
_MIN_SHARED = 0.4  # share of common words from which a line counts as edited instead of replaced

ChangedRange = tuple[int, int, int, int]
"""`(i1, i2, j1, j2)`: lines `i1:i2` of the old text became lines `j1:j2` of the new text; a range may be empty."""


def split_lines(text: str) -> list[str]:
    """Split a text into lines that keep their line feeds.

    Unlike `str.splitlines`, the function splits at no other character, e.g. not at a form feed or U+2028.
    """
    *complete, last = text.split("\n")
    lines = [line + "\n" for line in complete]
    return [*lines, last] if last else lines


def unified_diff(before: str, after: str, before_name: str, after_name: str) -> str:
    """Compute a unified diff with three lines of context, or an empty string for equal texts.

    A change that was not compared line by line has the remark `COARSE` in its header.
    """
    old, new = split_lines(before), split_lines(after)
    changes, is_coarse = changed_ranges(old, new)
    groups: list[list[ChangedRange]] = []  # each with changes whose context lines touch or overlap
    for change in changes:
        if groups and change[0] - groups[-1][-1][1] <= 2 * CONTEXT_LINES:
            groups[-1].append(change)
        else:
            groups.append([change])
    lines = [f"--- {before_name}\n+++ {after_name}\n"] if groups else []
    for group in groups:
        (i1, _, j1, _), (_, i2, _, j2) = group[0], group[-1]
        lead, trail = min(CONTEXT_LINES, i1), min(CONTEXT_LINES, len(old) - i2)
        ranges = f"-{_hunk_range(i1 - lead, i2 + trail)} +{_hunk_range(j1 - lead, j2 + trail)}"
        lines.append(f"@@ {ranges} @@{f' {COARSE}' * is_coarse}\n")
        position = i1 - lead
        for start, end, new_start, new_end in group:
            lines += [_hunk_line(" ", line) for line in old[position:start]]
            lines += [_hunk_line("-", line) for line in old[start:end]]
            lines += [_hunk_line("+", line) for line in new[new_start:new_end]]
            position = end
        lines += [_hunk_line(" ", line) for line in old[position : i2 + trail]]
    return "".join(lines)


def fenced_diff(before: str, after: str, before_name: str, after_name: str) -> str:
    """Compute a unified diff as a fenced code block, or an empty string for equal texts."""
    diff = unified_diff(before, after, before_name, after_name)
    return fence_diff(diff) if diff else ""


def fence_diff(diff: str) -> str:
    """Put a diff into a Markdown code fence."""
    return fenced(diff.rstrip(), "`", "diff")


def _hunk_range(start: int, end: int) -> str:
    """Format a range for a hunk header: a count of 1 is omitted, and an empty range starts one line earlier."""
    if end - start == 1:
        return str(end)
    return f"{start + 1 if end > start else start},{end - start}"


def _hunk_line(sign: str, line: str) -> str:
    return sign + line if line.endswith("\n") else sign + line + _NO_NEWLINE


def changed_ranges(old: Sequence[str], new: Sequence[str]) -> tuple[list[ChangedRange], bool]:
    """Return the changed ranges between two lists of lines, and whether the comparison is coarse."""
    limit = min(len(old), len(new))
    start = next((n for n in range(limit) if old[n] != new[n]), limit)
    end = next((n for n in range(limit - start) if old[-1 - n] != new[-1 - n]), limit - start)
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    if not before or not after:
        return [(start, start + len(before), start, start + len(after))] if before or after else [], False
    if len(before) + len(after) > MAX_LINES or _equal_pairs(before, after) > _LINE_PAIRS:
        return [(start, start + len(before), start, start + len(after))], True
    opcodes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    changes = [(i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in opcodes if tag != "equal"]
    return changes, False


def _equal_pairs(old: Sequence[str], new: Sequence[str]) -> int:
    """Count the pairs of equal elements, which determine the time that `difflib` takes."""
    counts = Counter(new)
    return sum(n * counts[element] for element, n in Counter(old).items())


class DiffSpan(NamedTuple):
    """A part of a line and whether it differs from the other text."""

    text: str
    changed: bool


class DiffLine(NamedTuple):
    """A line of one text in a comparison.

    Attributes:
        number: Line number, from 1.
        text: Text without the line feed.
        spans: Consecutive parts of the text, changed and unchanged.
        has_newline: Whether the line ends with a line feed; only the last line of a text may lack it.
    """

    number: int
    text: str
    spans: tuple[DiffSpan, ...]
    has_newline: bool


class DiffRow(NamedTuple):
    """A row of a side-by-side diff: an old line and a new line, which need not be similar; either may be None."""

    old: DiffLine | None
    new: DiffLine | None

    @property
    def is_similar(self) -> bool:
        """Whether both lines exist and share a part."""
        return self.new is not None and self.old is not None and not all(span.changed for span in self.old.spans)


class DiffSection(NamedTuple):
    """Consecutive lines that are either all unchanged or all changed.

    Attributes:
        old_start: Number of lines before the section in the old text.
        new_start: Number of lines before the section in the new text.
        unchanged_lines: Unchanged lines without line feeds; empty in a changed section.
        rows: Changed lines; empty in an unchanged section.
        is_coarse: Whether the lines were too many to compare one by one.
    """

    old_start: int
    new_start: int
    unchanged_lines: tuple[str, ...] = ()
    rows: tuple[DiffRow, ...] = ()
    is_coarse: bool = False


def compare_texts(before: str, after: str) -> tuple[DiffSection, ...]:
    """Compare two texts down to words; the sections, in order, contain every line of both."""
    old, new = split_lines(before), split_lines(after)
    changes, is_coarse = changed_ranges(old, new)
    limit = 0 if is_coarse else _WORD_PAIRS // max(1, sum(min(i2 - i1, j2 - j1) for i1, i2, j1, j2 in changes))
    sections: list[DiffSection] = []
    end_i = end_j = 0
    for i1, i2, j1, j2 in [*changes, (len(old), len(old), len(new), len(new))]:
        if i1 > end_i:
            unchanged = tuple(line.removesuffix("\n") for line in old[end_i:i1])
            sections.append(DiffSection(end_i, end_j, unchanged_lines=unchanged))
        end_i, end_j = i2, j2
        if i1 < i2 or j1 < j2:
            removed, added = _changed_lines(old, i1, i2), _changed_lines(new, j1, j2)
            rows = (_marked(*pair, limit) for pair in zip_longest(removed, added))
            sections.append(DiffSection(i1, j1, rows=tuple(rows), is_coarse=is_coarse))
    return tuple(sections)


def _changed_lines(lines: Sequence[str], start: int, end: int) -> list[DiffLine]:
    """Create lines that are changed as a whole."""
    texts = ((n, lines[n].removesuffix("\n"), lines[n].endswith("\n")) for n in range(start, end))
    return [DiffLine(n + 1, text, (DiffSpan(text, True),) * bool(text), has_newline) for n, text, has_newline in texts]


def _marked(old: DiffLine | None, new: DiffLine | None, max_pairs: int) -> DiffRow:
    """Mark the differing words of two lines, unless the lines share too few words, or have too many to compare."""
    if old is None or new is None or not max_pairs:
        return DiffRow(old, new)
    before, after = (_TOKEN.findall(line.text) for line in (old, new))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if _equal_pairs(before, after) > max_pairs or matcher.ratio() < _MIN_SHARED:
        return DiffRow(old, new)
    opcodes = matcher.get_opcodes()
    removed = (DiffSpan("".join(before[i1:i2]), tag != "equal") for tag, i1, i2, _, _ in opcodes if i1 < i2)
    added = (DiffSpan("".join(after[j1:j2]), tag != "equal") for tag, _, _, j1, j2 in opcodes if j1 < j2)
    return DiffRow(old._replace(spans=tuple(removed)), new._replace(spans=tuple(added)))
