"""The layout of PDF pages: columns, paragraphs, running heads, page numbers, hyphenated words and the title."""

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, islice, pairwise
from typing import NamedTuple

_MIN_FRAGMENTS = 8  # fewer are not columns
_MIN_LINES = 3  # of a column
_MAX_SPACE = 1.2  # of a line that is justified, in heights of letters
_MIN_GUTTER = 6.0  # points
_MAX_CROSSING_SHARE = 0.1  # of fragments in a gutter, such as headings
_MIN_COLUMN_FILL = 0.55  # cells of a table differ more in width
_MIN_COLUMN_HEIGHTS = 10  # width of a line in heights of its letters; cells are shorter
_MIN_CHANGE_SHARE = 1 / 3  # of fragments that follow one in another column, in pages written row by row
_WIDE_SHARE = 0.6  # of the width of the text: such a line belongs to no column
_PARAGRAPH_GAP = 1.35  # times the distance of lines
_MAX_LEADING = 36.0  # points
_INDENTS = (5.0, 40.0)  # points
_SAME_EDGE = 2.0  # points
_TITLE_SIZE = 1.25  # times the median height
_TITLE_LINES = 4
_MIN_TITLED_LINES = 4  # of a first page
_EDGE_PARTS, _EDGE_LINES = 2, 2  # paragraphs at an edge of a page that may be a head, and lines of each
_MIN_REPEATS = 3  # of a running head without a page number
_NEIGHBOURS = (-2, -1, 1, 2)  # even and odd pages have heads of their own
_MAX_HEAD_CHARS = 160
_MAX_NUMBERS = 4  # a page, its section, a date
_DIGITS = re.compile(r"\d+")
_ROMAN = re.compile(r"[ivxlc]{1,8}|[IVXLC]{1,8}")
_ROMAN_VALUES = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_LABELLED_PAGE = re.compile(r"(?:page|seite|p\.)\s*\d+(?:\s*(?:of|von|/)\s*\d+)?|[-–—]\s*\d+\s*[-–—]", re.IGNORECASE)
_DIVIDER = re.compile(r"(?<=[^\W\d_])(?:[\ufffe\x02\xad]\n?|[-\u2010]\n)(?=[^\W\d_])")  # pdfium marks some with U+FFFE
_DIVIDING = ("-\n", "\u2010\n", "\ufffe", "\x02", "\xad", "\0")
_LAST_LETTERS = re.compile(r"[^\W\d_]+\Z")
_MAX_WORD_CHARS = 40
_MARKS = re.compile(r"[\xad\ufffe\x02\0]")
_WORDS = re.compile(r"\b[^\W\d_]+(?:[-\u2010][^\W\d_]+)*\b")

_Pattern = tuple[str, int | None]


class Fragment(NamedTuple):
    """The box of a piece of text in points; y grows upwards. A tuple is small, and a page has hundreds of boxes."""

    left: float
    bottom: float
    right: float
    top: float


def read_columns(boxes: Sequence[Fragment]) -> list[Fragment]:
    """Return the lines of a page column by column if the file has the lines row by row; otherwise an empty list.

    Tables keep their order, since cells do not fill the columns.
    """
    if len(boxes) < _MIN_FRAGMENTS:
        return []
    middle = (min(box.left for box in boxes) + max(box.right for box in boxes)) / 2
    sides = [box.left > middle for box in boxes]
    if sum(a != b for a, b in pairwise(sides)) < 2 * _MIN_LINES:  # most pages: nothing else is computed
        return []
    lines = _join_words(boxes)
    start, end = min(line.left for line in lines), max(line.right for line in lines)
    narrow = [line for line in lines if line.right - line.left < _WIDE_SHARE * (end - start)]
    if len(narrow) < _MIN_FRAGMENTS:
        return []
    edges = [start, *_gutters(narrow), end]
    columns = [
        [line for line in narrow if left <= line.left and line.right <= right] for left, right in pairwise(edges)
    ]
    if len(columns) < 2 or not all(map(_is_prose, columns)):  # noqa: PLR2004 - columns
        return []
    column_of = {line: number for number, column in enumerate(columns) for line in column}
    places = [column_of[line] for line in lines if line in column_of]
    if sum(a != b for a, b in pairwise(places)) < _MIN_CHANGE_SHARE * len(places):
        return []
    ordered: list[Fragment] = []
    waiting: list[list[Fragment]] = [[] for _ in columns]
    for line in lines:
        if line in column_of:
            waiting[column_of[line]].append(line)
        else:  # a line across the columns: the text above comes first
            ordered += [above for column in waiting for above in column] + [line]
            waiting = [[] for _ in columns]
    return ordered + [below for column in waiting for below in column]


def may_have_columns(lefts: Sequence[float], n_others: int = 0) -> bool:
    """Return whether the left edges of a page's fragments alternate often enough for columns (a fast pre-check).

    Args:
        lefts: The edges of the first fragments of the lines, or of all fragments.
        n_others: Number of the other fragments; each fragment adds at most two alternations.
    """
    middle = (min(lefts) + max(lefts)) / 2 if lefts else 0.0
    sides = [left > middle for left in lefts]
    return sum(a != b for a, b in pairwise(sides)) + 2 * max(n_others, 0) >= 2 * _MIN_LINES


def _join_words(boxes: Sequence[Fragment]) -> list[Fragment]:
    """Merge boxes side by side that are separated by at most the space of a word."""
    space = _MAX_SPACE * statistics.median(box.top - box.bottom for box in boxes)
    lines = [boxes[0]]
    for box in boxes[1:]:
        last = lines[-1]
        height = max(last.top - last.bottom, box.top - box.bottom)
        is_beside = min(last.top, box.top) - max(last.bottom, box.bottom) > 0.3 * height
        if is_beside and -space < box.left - last.right < space:
            lines[-1] = Fragment(
                min(last.left, box.left),
                min(last.bottom, box.bottom),
                max(last.right, box.right),
                max(last.top, box.top),
            )
        else:
            lines.append(box)
    return lines


def _gutters(lines: Sequence[Fragment]) -> list[float]:
    """Return the middles of the gutters between columns, which almost no line crosses."""
    changes: Counter[float] = Counter()
    for line in lines:
        changes[line.left] += 1
        changes[line.right] -= 1
    limit = max(1, int(_MAX_CROSSING_SHARE * len(lines)))
    gutters, depth, gap_start = [], 0, None
    for x in sorted(changes):
        was_free, depth = depth <= limit, depth + changes[x]
        if depth <= limit and not was_free:
            gap_start = x
        elif depth > limit and was_free and gap_start is not None and x - gap_start >= _MIN_GUTTER:
            gutters.append((gap_start + x) / 2)
    return gutters


def _is_prose(column: Sequence[Fragment]) -> bool:
    """Return whether the lines fill their column, unlike the cells of a table."""
    if len(column) < _MIN_LINES:
        return False
    width = statistics.median(line.right - line.left for line in column)
    extent = max(line.right for line in column) - min(line.left for line in column)
    height = statistics.median(line.top - line.bottom for line in column)
    return width >= _MIN_COLUMN_FILL * extent and width >= _MIN_COLUMN_HEIGHTS * height


def title_of(lines: Sequence[tuple[str, float]]) -> str:
    """Return the first lines in the largest font, from lines with heights; empty if other fonts are hardly smaller."""
    sizes = [size for text, size in lines if len(text) > 1]
    if len(sizes) < _MIN_TITLED_LINES or max(sizes) < _TITLE_SIZE * statistics.median(sizes):
        return ""
    largest = [text for is_largest, group in groupby(lines, lambda line: line[1] > 0.95 * max(sizes)) if is_largest
               for text, _ in islice(group, _TITLE_LINES)]  # fmt: skip
    return " ".join(largest[:_TITLE_LINES])


class PlacedLine(NamedTuple):
    """A line with the position of the first letter, and the lower end if pdfium joined it with the next line."""

    text: str
    x: float
    y: float
    end_y: float


def mark_paragraphs(lines: Sequence[PlacedLine]) -> str:
    """Join lines to text, with a blank line before each line that is indented or has a gap above."""
    if not lines:
        return ""
    steps = [above.end_y - line.y for above, line in pairwise(lines)]
    distances = [step for step in steps if step > 1]
    limit = min(_PARAGRAPH_GAP * sorted(distances)[(len(distances) - 1) // 2], _MAX_LEADING) if distances else 0.0
    pieces = [lines[0].text]
    for n, step in enumerate(steps, 1):
        text, x, *_ = lines[n]
        left = lines[n - 1].x
        is_indented = (
            _INDENTS[0] < x - left < _INDENTS[1] and n + 1 < len(lines) and abs(lines[n + 1].x - left) < _SAME_EDGE
        )
        is_above = step < -_MAX_LEADING and x - left < _INDENTS[1]  # else it is the next column
        pieces.append(f"\n\n{text}" if step > limit or is_indented or is_above else f"\n{text}")
    return "".join(pieces)


def mend_pages(pages: Sequence[str]) -> Iterator[str]:
    """Remove running heads and page numbers from pages, and join hyphenated words."""
    return mend_words(_without_heads(pages))


def mend_words(pages: Sequence[str]) -> Iterator[str]:
    """Join the words that are hyphenated at the end of a line; compounds keep the hyphen."""
    # Separate searches for each mark take a tenth of the time of the expression.
    has_mark = [any(mark in page for mark in _DIVIDING) for page in pages]
    whole = [_DIVIDER.sub("0", page) for page in pages] if any(has_mark) else []
    words = Counter(word.lower() for page in whole for word in _WORDS.findall(page))

    def joint(match: re.Match[str]) -> str:
        """Return the text that joins two parts of a word: the hyphen of a compound, or an empty string."""
        page, (start, stop) = match.string, match.span()
        first, second = _LAST_LETTERS.search(page[:start][-_MAX_WORD_CHARS:]), _WORDS.match(page, stop)
        if "\xad" in match[0] or first is None or second is None:
            return ""
        pair = first[0].lower(), second[0].lower()
        is_compound = words["-".join(pair)] or (words[pair[0]] and words[pair[1]])
        return "-" if second[0][0].isupper() or (is_compound and not words["".join(pair)]) else ""

    for page, is_marked in zip(pages, has_mark, strict=True):
        yield (_MARKS.sub("", _DIVIDER.sub(joint, page)) if is_marked else page).strip()


def _without_heads(pages: Sequence[str]) -> list[str]:
    """Remove page numbers and running heads: lines at the edges of neighbouring pages that differ only in the number.

    The first occurrence of a head without a number stays. If a page has a separate page number, other numbers are data.
    """
    split = [page.split("\n\n") for page in pages]
    places: dict[_Pattern, set[int]] = defaultdict(set)
    for number, texts in enumerate(split):
        edges = (text for text in (*texts[:_EDGE_PARTS], *texts[-_EDGE_PARTS:]) if text.count("\n") < _EDGE_LINES)
        for line in {line for text in edges for line in text.split("\n")}:
            for pattern in _patterns(line, number):
                places[pattern].add(number)
                places["", pattern[1]].add(number)

    def is_near(pattern: _Pattern, number: int) -> bool:
        return any(number + n in places[pattern] for n in _NEIGHBOURS)

    numbering: dict[int, int] = {}  # of each page whose number stands alone, the difference
    for text, offset in sorted(places, key=lambda pattern: len(places["", pattern[1]])):
        if offset is not None and text and not any(map(str.isalnum, text)):
            numbering |= {number: offset for number in places[text, offset] if is_near(("", offset), number)}

    def is_head_line(line: str, number: int) -> bool:
        if not 0 < len(line) <= _MAX_HEAD_CHARS:
            return False
        whole, *numbered = _patterns(line, number)
        is_number = any(
            offset == numbering.get(number) and not any(map(str.isalnum, text)) for text, offset in numbered
        )
        if is_number or _LABELLED_PAGE.fullmatch(line):
            return True
        if not any(map(str.isalpha, line)):
            return False
        if number not in numbering and any(is_near(pattern, number) for pattern in numbered):
            return True
        return len(places[whole]) >= _MIN_REPEATS and is_near(whole, number) and number > min(places[whole])

    def is_head(part: str, number: int) -> bool:
        return part.count("\n") < _EDGE_LINES and all(is_head_line(line, number) for line in part.split("\n"))

    return ["\n\n".join(_body(texts, [is_head(text, number) for text in texts])) for number, texts in enumerate(split)]


def _body(parts: Sequence[str], are_heads: Sequence[bool]) -> Sequence[str]:
    """Return the paragraphs of a page without heads at its edges; return all if each is a head, as on a slide."""
    for depth in range(_EDGE_PARTS, 0, -1):
        start, stop = 0, len(parts)
        while start < min(stop, depth) and are_heads[start]:
            start += 1
        while stop > max(start, len(parts) - depth) and are_heads[stop - 1]:
            stop -= 1
        if start < stop:
            return parts[start:stop]
    return parts


def _patterns(line: str, number: int) -> Iterator[_Pattern]:
    """Yield the line, and for each number in the line the rest of the line and the number minus the page's number."""
    yield line, None
    if _ROMAN.fullmatch(line):
        values = [_ROMAN_VALUES[letter] for letter in line.lower()]
        yield "\0", sum(-a if a < b else a for a, b in pairwise([*values, 0])) - number
    for digits in islice(_DIGITS.finditer(line), _MAX_NUMBERS):
        yield f"{line[: digits.start()]}\0{line[digits.end() :]}", int(digits[0][:9]) - number
