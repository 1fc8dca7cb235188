"""Texts as lines: how a text falls into lines, and what differs between two texts.

A line ends with a line feed; whatever stands before it, a carriage return too, belongs to it. Differences are the
shortest there are, as long as that is quick: each row of the table of comparisons is one integer, so that 16,000 lines
against 16,000 take some 45 ms. Beyond that, lines that stand once in both texts hold the comparison, and what lies
between them is compared while there is time, and then taken as replaced.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

CONTEXT = 3
MOST_CELLS = 256_000_000
_NO_END = "\n\\ No newline at end of file\n"

Pair = tuple[int, int]
Change = tuple[int, int, int, int]
"""Lines `i1:i2` of one text that became lines `j1:j2` of the other: either may be none."""


def split_lines(text: str) -> list[str]:
    """The lines with their ends; joined they are the text."""
    *ended, last = text.split("\n")
    found = [line + "\n" for line in ended]
    return [*found, last] if last else found


def unified_diff(before: str, after: str, before_name: str, after_name: str) -> str:
    """The difference in the unified format, with three lines of context; empty if there is none.

    Bounded: two texts of 100 KB take at most about 100 ms, whatever they hold. Where very many lines are repeated in
    both and most of them moved, the difference is right but longer than it could be.
    """
    old, new = split_lines(before), split_lines(after)
    hunks = [_hunk(group, old, new) for group in _grouped(changes(old, new))]
    return "".join([f"--- {before_name}\n+++ {after_name}\n", *hunks]) if hunks else ""


def fenced_diff(before: str, after: str, before_name: str, after_name: str) -> str:
    """The same in a fence of Markdown that nothing in it can close; empty if there is none."""
    diff = unified_diff(before, after, before_name, after_name)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", diff)), default=0))
    return f"{fence}diff\n{diff.rstrip()}\n{fence}" if diff else ""


def _hunk(group: Sequence[Change], old: Sequence[str], new: Sequence[str]) -> str:
    (i1, _, j1, _), (_, i2, _, j2) = group[0], group[-1]
    lead, trail = min(CONTEXT, i1), min(CONTEXT, len(old) - i2)
    where = f"@@ -{_range(i1 - lead, i2 + trail)} +{_range(j1 - lead, j2 + trail)} @@\n"
    shown, position = [where], i1 - lead
    for start, end, new_start, new_end in group:
        shown += [_marked(" ", line) for line in old[position:start]]
        shown += [_marked("-", line) for line in old[start:end]]
        shown += [_marked("+", line) for line in new[new_start:new_end]]
        position = end
    return "".join([*shown, *(_marked(" ", line) for line in old[position : i2 + trail])])


def _range(start: int, end: int) -> str:
    if end - start == 1:
        return str(end)
    return f"{start + 1 if end > start else start},{end - start}"


def _marked(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else mark + line + _NO_END


def _grouped(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Changes whose contexts touch, together."""
    group: list[Change] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def changes(old: Sequence[str], new: Sequence[str], most_cells: int = MOST_CELLS) -> list[Change]:
    """What lies between the lines that both texts have; of words the same as of lines.

    Args:
        old: The lines of the one text.
        new: Those of the other.
        most_cells: How many comparisons it may take; a million take about 0.2 ms.
    """
    found: list[Change] = []
    i = j = 0
    for same_i, same_j in [*same_places(old, new, most_cells), (len(old), len(new))]:
        if same_i > i or same_j > j:
            found.append((i, same_i, j, same_j))
        i, j = same_i + 1, same_j + 1
    return found


def same_places(old: Sequence[str], new: Sequence[str], most_cells: int = MOST_CELLS) -> list[Pair]:
    """Lines that stand in both texts in the same order, as pairs of their places; arguments as for `changes`."""
    room = most_cells
    found: list[Pair] = []
    i = j = 0
    for stop_i, stop_j in [*_landmarks(old, new, most_cells), (len(old), len(new))]:
        between, cells = _same_between(old, new, (i, stop_i, j, stop_j), room)
        room -= cells
        found += between
        if stop_i < len(old) and stop_j < len(new):
            found.append((stop_i, stop_j))
        i, j = stop_i + 1, stop_j + 1
    return found


def _landmarks(old: Sequence[str], new: Sequence[str], most_cells: int) -> list[Pair]:
    """Lines that stand once in both texts, as many as are in the same order; none where nobody needs them."""
    if len(old) * len(new) <= most_cells:
        return []
    start, end = _edges(old, new, (0, len(old), 0, len(new)))
    if (len(old) - start - end) * (len(new) - start - end) <= most_cells:
        return []
    in_old, in_new = Counter(old), Counter(new)
    places = {line: j for j, line in enumerate(new) if in_new[line] == 1}
    return _longest_rising([(i, places[line]) for i, line in enumerate(old) if in_old[line] == 1 and line in places])


def _longest_rising(pairs: Sequence[Pair]) -> list[Pair]:
    """The most pairs whose second places rise like their first do."""
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        at[length : length + 1] = [index]
    found: list[Pair] = []
    step = at[-1] if at else -1
    while step >= 0:
        found.append(pairs[step])
        step = before[step]
    return found[::-1]


def _edges(old: Sequence[str], new: Sequence[str], block: Change) -> tuple[int, int]:
    """How many lines at the beginning and at the end of a block are the same."""
    i1, i2, j1, j2 = block
    most = min(i2 - i1, j2 - j1)
    start = next((n for n in range(most) if old[i1 + n] != new[j1 + n]), most)
    end = next((n for n in range(most - start) if old[i2 - 1 - n] != new[j2 - 1 - n]), most - start)
    return start, end


def _same_between(old: Sequence[str], new: Sequence[str], block: Change, room: int) -> tuple[list[Pair], int]:
    """The same within a block, with the number of comparisons that it took; beyond its edges none if room is short."""
    i1, i2, j1, j2 = block
    if i1 == i2 or j1 == j2:
        return [], 0
    start, end = _edges(old, new, block)
    rows, columns = range(i1 + start, i2 - end), range(j1 + start, j2 - end)
    in_both = {old[i] for i in rows} & {new[j] for j in columns}
    rows_shared = [i for i in rows if old[i] in in_both] if in_both else []
    columns_shared = [j for j in columns if new[j] in in_both] if in_both else []
    cells = len(rows_shared) * len(columns_shared)
    middle: list[Pair] = []
    if 0 < cells <= room:
        pairs = _longest_common([old[i] for i in rows_shared], [new[j] for j in columns_shared])
        middle = [(rows_shared[i], columns_shared[j]) for i, j in pairs]
    first = [(i1 + n, j1 + n) for n in range(start)]
    last = [(i2 - n, j2 - n) for n in range(end, 0, -1)]
    return [*first, *middle, *last], cells if cells <= room else 0


def _longest_common(old: Sequence[str], new: Sequence[str]) -> list[Pair]:
    """The longest common subsequence, by the bit-parallel recurrence of Hyyrö.

    Bit `j` of a row is 0 where the row's length grows at column `j`.
    """
    everywhere = (1 << len(new)) - 1
    places: dict[str, int] = {}
    for j, line in enumerate(new):
        places[line] = places.get(line, 0) | 1 << j
    rows = [everywhere]
    for line in old:
        row = rows[-1]
        hits = row & places.get(line, 0)
        rows.append((row + hits | row - hits) & everywhere)
    found: list[Pair] = []
    i, j = len(old), len(new)
    while i and j:
        if rows[i] >> (j - 1) & 1:
            j -= 1
        elif not rows[i - 1] >> (j - 1) & 1:
            i -= 1
        else:
            i, j = i - 1, j - 1
            found.append((i, j))
    return found[::-1]
