"""Text comparison: line splitting, unified diffs, and changes down to words.

A line ends with a line feed; a carriage return before it is part of the line. A line diff is the shortest possible one
as long as that is fast: each row of the comparison matrix is one integer, so that 16,000 lines against 16,000 take
about 45 ms. Larger texts are first aligned at lines that are unique in both; the text between them is compared until
the budget is used up, and the rest counts as replaced.

For the word diff, changed lines are paired by their common words, in order, and the differing words of each pair are
marked. A word of a script without spaces is one character. Its cost is bounded as well: two texts of 100 KB take less
than 300 ms; where that does not suffice to compare everything, more than necessary is marked as changed.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import starmap, zip_longest
from typing import NamedTuple

from artifactflow_nb.core.text.chinese import CJK
from artifactflow_nb.core.text.format import fenced

CONTEXT_LINES = 3
MAX_CELLS = 256_000_000
"""Comparisons per line diff; a million take about 0.2 ms."""

_NO_NEWLINE = "\n\\ No newline at end of file\n"

_MARKS = "\u0300-\u036f\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff"  # combine with the character before them
_BRAHMIC = "\u0900-\u0eff"  # scripts whose vowel signs do not match `\w`
_LETTER = rf"(?:[^\W{CJK}]|[{_BRAHMIC}])"
_WORD = re.compile(rf"[{CJK}]|(?:{_LETTER}[{_MARKS}]*)+")
_TOKEN = re.compile(rf"{_WORD.pattern}|[^\S\r]+|\r|.(?:\u200d.|[{_MARKS}])*", re.DOTALL)
_PAIRING_CELLS = 64_000_000
_WORD_CELLS = 64_000_000
_MIN_SHARED = 0.4  # share of common words from which a line counts as edited instead of replaced

IndexPair = tuple[int, int]
ChangedRange = tuple[int, int, int, int]
"""`(i1, i2, j1, j2)`: lines `i1:i2` of the old text became lines `j1:j2` of the new one; either may be empty."""


def split_lines(text: str) -> list[str]:
    """Split a text into lines that keep their line feeds.

    Unlike `str.splitlines` it splits at nothing else, e.g. not at a form feed or U+2028.
    """
    *complete, last = text.split("\n")
    lines = [line + "\n" for line in complete]
    return [*lines, last] if last else lines


def unified_diff(before: str, after: str, before_name: str, after_name: str) -> str:
    """Compute a unified diff with three lines of context; empty if the texts are equal.

    Two texts of 100 KB take at most about 100 ms. If very many repeated lines moved, the diff is correct but longer
    than necessary.
    """
    old, new = split_lines(before), split_lines(after)
    groups: list[list[ChangedRange]] = []  # of changes whose context lines touch or overlap
    for change in changed_ranges(old, new):
        if groups and change[0] - groups[-1][-1][1] <= 2 * CONTEXT_LINES:
            groups[-1].append(change)
        else:
            groups.append([change])
    lines = [f"--- {before_name}\n+++ {after_name}\n"] if groups else []
    for group in groups:
        (i1, _, j1, _), (_, i2, _, j2) = group[0], group[-1]
        lead, trail = min(CONTEXT_LINES, i1), min(CONTEXT_LINES, len(old) - i2)
        lines.append(f"@@ -{_hunk_range(i1 - lead, i2 + trail)} +{_hunk_range(j1 - lead, j2 + trail)} @@\n")
        position = i1 - lead
        for start, end, new_start, new_end in group:
            lines += [_hunk_line(" ", line) for line in old[position:start]]
            lines += [_hunk_line("-", line) for line in old[start:end]]
            lines += [_hunk_line("+", line) for line in new[new_start:new_end]]
            position = end
        lines += [_hunk_line(" ", line) for line in old[position : i2 + trail]]
    return "".join(lines)


def fenced_diff(before: str, after: str, before_name: str, after_name: str) -> str:
    """Compute a unified diff as a fenced code block; empty if the texts are equal."""
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


def changed_ranges(old: Sequence[str], new: Sequence[str], max_cells: int = MAX_CELLS) -> list[ChangedRange]:
    """Compute the changed ranges between two sequences of lines or words.

    Args:
        old: Lines or words of the old text.
        new: Lines or words of the new text.
        max_cells: Maximum number of comparisons; a million take about 0.2 ms.
    """
    changes: list[ChangedRange] = []
    i = j = 0
    for same_i, same_j in [*matching_lines(old, new, max_cells), (len(old), len(new))]:
        if same_i > i or same_j > j:
            changes.append((i, same_i, j, same_j))
        i, j = same_i + 1, same_j + 1
    return changes


def matching_lines(old: Sequence[str], new: Sequence[str], max_cells: int = MAX_CELLS) -> list[IndexPair]:
    """Match equal lines in the same order and return their index pairs; arguments as for `changed_ranges`.

    Between two anchors only the common edges are matched where the budget is too small for a comparison.
    """
    budget = max_cells
    pairs: list[IndexPair] = []
    i = j = 0
    for anchor_i, anchor_j in [*_anchors(old, new, max_cells), (len(old), len(new))]:
        start, end = _common_edges(old, new, (i, anchor_i, j, anchor_j))
        rows, columns = range(i + start, anchor_i - end), range(j + start, anchor_j - end)
        # Lines that only one text contains cannot match: leaving them out shrinks the matrix.
        common = {old[n] for n in rows} & {new[n] for n in columns}
        common_rows = [n for n in rows if old[n] in common] if common else []
        common_columns = [n for n in columns if new[n] in common] if common else []
        cells = len(common_rows) * len(common_columns)
        pairs += [(i + n, j + n) for n in range(start)]
        if 0 < cells <= budget:
            budget -= cells
            middle = _longest_common_subsequence([old[n] for n in common_rows], [new[n] for n in common_columns])
            pairs += [(common_rows[row], common_columns[column]) for row, column in middle]
        pairs += [(anchor_i - n, anchor_j - n) for n in range(end, 0, -1)]
        if anchor_i < len(old) and anchor_j < len(new):
            pairs.append((anchor_i, anchor_j))
        i, j = anchor_i + 1, anchor_j + 1
    return pairs


def _anchors(old: Sequence[str], new: Sequence[str], max_cells: int) -> list[IndexPair]:
    """Match lines that are unique in both texts and in the same order; empty if a full comparison is affordable."""
    if len(old) * len(new) <= max_cells:
        return []
    start, end = _common_edges(old, new, (0, len(old), 0, len(new)))
    if (len(old) - start - end) * (len(new) - start - end) <= max_cells:
        return []
    old_counts, new_counts = Counter(old), Counter(new)
    positions = {line: j for j, line in enumerate(new) if new_counts[line] == 1}
    pairs = [(i, positions[line]) for i, line in enumerate(old) if old_counts[line] == 1 and line in positions]
    # The longest subsequence with increasing second indices (patience sorting); the first indices increase.
    ends: list[int] = []  # the smallest last value of an increasing subsequence, by length - 1
    end_indices: list[int] = []
    predecessors: list[int] = []
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        predecessors.append(end_indices[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        end_indices[length : length + 1] = [index]
    result: list[IndexPair] = []
    index = end_indices[-1] if end_indices else -1
    while index >= 0:
        result.append(pairs[index])
        index = predecessors[index]
    return result[::-1]


def _common_edges(old: Sequence[str], new: Sequence[str], block: ChangedRange) -> tuple[int, int]:
    """Count the equal lines at the start and at the end of a block."""
    i1, i2, j1, j2 = block
    limit = min(i2 - i1, j2 - j1)
    start = next((n for n in range(limit) if old[i1 + n] != new[j1 + n]), limit)
    end = next((n for n in range(limit - start) if old[i2 - 1 - n] != new[j2 - 1 - n]), limit - start)
    return start, end


def _longest_common_subsequence(old: Sequence[str], new: Sequence[str]) -> list[IndexPair]:
    """Compute the longest common subsequence with Hyyrö's bit-parallel recurrence.

    Each row of the matrix is one integer, whose bit `j` is 0 if the subsequence grows at column `j`.
    """
    all_ones = (1 << len(new)) - 1
    masks: dict[str, int] = {}  # the columns of each line as bits
    for j, line in enumerate(new):
        masks[line] = masks.get(line, 0) | 1 << j
    rows = [all_ones]
    for line in old:
        row = rows[-1]
        hits = row & masks.get(line, 0)
        rows.append((row + hits | row - hits) & all_ones)
    pairs: list[IndexPair] = []
    i, j = len(old), len(new)
    while i and j:
        if rows[i] >> (j - 1) & 1:
            j -= 1
        elif not rows[i - 1] >> (j - 1) & 1:
            i -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((i, j))
    return pairs[::-1]


class DiffSpan(NamedTuple):
    """A part of a line and whether it differs from the other text."""

    text: str
    changed: bool


class DiffLine(NamedTuple):
    """A line of one text in a comparison.

    Attributes:
        number: Line number, from 1.
        text: Text without the line feed.
        changed: Start and end offsets of the parts that differ from the other text.
        has_newline: Whether it ends with a line feed; only the last line of a text may lack it.
    """

    number: int
    text: str
    changed: tuple[IndexPair, ...]
    has_newline: bool

    @property
    def spans(self) -> tuple[DiffSpan, ...]:
        """Consecutive parts of the text, changed and unchanged."""
        spans: list[DiffSpan] = []
        position = 0
        for start, end in self.changed:
            spans += [DiffSpan(self.text[position:start], False), DiffSpan(self.text[start:end], True)]
            position = end
        return tuple(span for span in (*spans, DiffSpan(self.text[position:], False)) if span.text)


class DiffRow(NamedTuple):
    """A row of a side-by-side diff: an old and a new line, either may be None; they may have nothing in common."""

    old: DiffLine | None
    new: DiffLine | None

    @property
    def is_similar(self) -> bool:
        """Whether both lines exist and share a part."""
        return self.new is not None and self.old is not None and self.old.changed != ((0, len(self.old.text)),)


class DiffSection(NamedTuple):
    """Consecutive lines that are either all unchanged or all changed.

    Attributes:
        old_start: Number of lines before the section in the old text.
        new_start: Number of lines before the section in the new text.
        unchanged_lines: Unchanged lines without line feeds; empty in a changed section.
        rows: Changed lines; empty in an unchanged section.
    """

    old_start: int
    new_start: int
    unchanged_lines: tuple[str, ...] = ()
    rows: tuple[DiffRow, ...] = ()


def compare_texts(before: str, after: str) -> tuple[DiffSection, ...]:
    """Compare two texts down to words; the sections, in order, contain every line of both."""
    old, new = split_lines(before), split_lines(after)
    pairing_budget, word_budget = _PAIRING_CELLS, _WORD_CELLS
    sections: list[DiffSection] = []
    end_i = end_j = 0
    for change in [*changed_ranges(old, new), (len(old), len(old), len(new), len(new))]:
        i, i2, j, j2 = change
        if i > end_i:
            unchanged = tuple(line.removesuffix("\n") for line in old[end_i:i])
            sections.append(DiffSection(end_i, end_j, unchanged_lines=unchanged))
        end_i, end_j = i2, j2
        if i == i2 and j == j2:
            continue
        # Pair the old and new versions of edited lines, in order, by the number of characters that they share.
        olds, news = _words(old, i, i2), _words(new, j, j2)
        old_words, new_words = [word for _, word in olds], [word for _, word in news]
        shared: dict[IndexPair, int] = {}
        for m, n in matching_lines(old_words, new_words, pairing_budget):
            pair = olds[m][0], news[n][0]
            shared[pair] = shared.get(pair, 0) + len(old_words[m])
        pairing_budget -= min(len(olds) * len(news), pairing_budget)
        old_sizes, new_sizes = _sizes(olds), _sizes(news)
        similar = [
            (pair, 2 * common)
            for pair, common in shared.items()
            if 2 * common >= _MIN_SHARED * (old_sizes[pair[0]] + new_sizes[pair[1]])
        ]
        start = i, j
        rows: list[DiffRow] = []
        for next_i, next_j in [*_heaviest_chain(similar), (i2, j2)]:
            removed = [_changed_line(old, n) for n in range(i, next_i)]
            added = [_changed_line(new, n) for n in range(j, next_j)]
            rows += starmap(DiffRow, zip_longest(removed, added))
            if next_i < i2 and next_j < j2:
                row, used = _mark_words(_changed_line(old, next_i), _changed_line(new, next_j), word_budget)
                word_budget -= used
                rows.append(row)
            i, j = next_i + 1, next_j + 1
        sections.append(DiffSection(*start, rows=tuple(rows)))
    return tuple(sections)


def _changed_line(lines: Sequence[str], index: int) -> DiffLine:
    """Create a line that is changed as a whole."""
    text = lines[index].removesuffix("\n")
    return DiffLine(index + 1, text, ((0, len(text)),), lines[index].endswith("\n"))


def _words(lines: Sequence[str], start: int, end: int) -> list[tuple[int, str]]:
    """List the words of a range of lines, each with the index of its line."""
    return [(index, word) for index in range(start, end) for word in _WORD.findall(lines[index])]


def _sizes(words: Sequence[tuple[int, str]]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for index, word in words:
        sizes[index] = sizes.get(index, 0) + len(word)
    return sizes


def _heaviest_chain(weighed: Sequence[tuple[IndexPair, int]]) -> list[IndexPair]:
    """Select the heaviest set of pairs in which both indices strictly increase; in `weighed` neither decreases."""
    best: list[tuple[int, int]] = [(0, -1)]  # weight and last pair of the best chain among the first n pairs
    predecessors: list[int] = []
    n_usable = 0  # pairs whose indices are both smaller than those of the current pair
    for n, ((i, j), weight) in enumerate(weighed):
        while weighed[n_usable][0][0] < i and weighed[n_usable][0][1] < j:
            n_usable += 1
        chain = best[n_usable]
        predecessors.append(chain[1])
        best.append(max(best[-1], (chain[0] + weight, n), key=lambda entry: entry[0]))
    pairs: list[IndexPair] = []
    index = best[-1][1]
    while index >= 0:
        pairs.append(weighed[index][0])
        index = predecessors[index]
    return pairs[::-1]


def _mark_words(old: DiffLine, new: DiffLine, budget: int) -> tuple[DiffRow, int]:
    """Mark the differing words of a line pair; also return the number of comparisons used."""
    before, after = _TOKEN.findall(old.text), _TOKEN.findall(new.text)
    start, end = _common_edges(before, after, (0, len(before), 0, len(after)))
    changes: list[ChangedRange] = []
    used = 0
    if start < max(len(before), len(after)):
        # Most edits change one place of a line: without a common token in it there is nothing to compare.
        whole = (start, len(before) - end, start, len(after) - end)
        old_tokens, new_tokens = before[start : whole[1]], after[start : whole[3]]
        if set(old_tokens).isdisjoint(new_tokens):
            changes = [whole]
        else:
            used = len(old_tokens) * len(new_tokens)
            for change in changed_ranges(old_tokens, new_tokens, max(budget, 0)):
                i1, i2, j1, j2 = (index + start for index in change)
                # Changes without a word between them are merged: marks around every word are hard to read.
                if changes and not any(map(_WORD.match, before[changes[-1][1] : i1])):
                    i1, _, j1, _ = changes.pop()
                changes.append((i1, i2, j1, j2))
    old_changes = _char_ranges(before, [change[:2] for change in changes])
    new_changes = _char_ranges(after, [change[2:] for change in changes])
    return DiffRow(old._replace(changed=old_changes), new._replace(changed=new_changes)), used


def _char_ranges(tokens: Sequence[str], changed: Sequence[IndexPair]) -> tuple[IndexPair, ...]:
    """Convert ranges of tokens to ranges of characters, without empty ones."""
    ranges: list[IndexPair] = []
    position = index = 0
    for start, end in changed:
        position += sum(map(len, tokens[index:start]))
        length = sum(map(len, tokens[start:end]))
        if length:
            ranges.append((position, position + length))
        position, index = position + length, end
    return tuple(ranges)
