"""What differs between two texts, down to the words: stretches of lines that are the same, and changed lines in pairs.

Lines are paired by the words that they share, in their order; within a pair the words that differ are marked. A word
of a text without spaces is a character. The cost is bounded: two texts of 100 KB take less than 300 ms, whatever they
hold; where that is too little time to compare everything with everything, more is taken as changed than needed be.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import starmap, zip_longest
from typing import NamedTuple

from artifactflow_nb.text.chinese import CJK
from artifactflow_nb.text.lines import Change, Pair, changes, same_places, split_lines

_MARKS = "\u0300-\u036f\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff"  # these belong to the character before them
_BRAHMIC = "\u0900-\u0eff"  # scripts whose signs for vowels are no letters to `re`
_LETTER = rf"(?:[^\W{CJK}]|[{_BRAHMIC}])"
_WORD = re.compile(rf"[{CJK}]|(?:{_LETTER}[{_MARKS}]*)+")
_PIECE = re.compile(rf"{_WORD.pattern}|[^\S\r]+|\r|.(?:\u200d.|[{_MARKS}])*", re.DOTALL)
_PAIRING_CELLS = 64_000_000
_WORD_CELLS = 64_000_000
_LEAST_SHARED = 0.4
"""How much of the words of two lines must be the same for the one to have become the other."""


class Span(NamedTuple):
    """A part of a line, and whether it differs from the other text."""

    text: str
    changed: bool


class Line(NamedTuple):
    """A line of one of the texts.

    Attributes:
        number: Its number, counting from 1.
        text: Its text without the line feed.
        changed: The parts that differ from the other text, as the places where they begin and end.
        is_ended: Whether a line feed ends it; only the last line of a text may have none.
    """

    number: int
    text: str
    changed: tuple[Pair, ...]
    is_ended: bool

    @property
    def spans(self) -> tuple[Span, ...]:
        """Its parts, which joined are its text."""
        spans: list[Span] = []
        position = 0
        for start, end in self.changed:
            spans += [Span(self.text[position:start], False), Span(self.text[start:end], True)]
            position = end
        return tuple(span for span in (*spans, Span(self.text[position:], False)) if span.text)


class Row(NamedTuple):
    """Lines that stand beside each other. One may be None; both may be there and have nothing in common."""

    old: Line | None
    new: Line | None

    @property
    def is_alike(self) -> bool:
        """Whether the one line became the other: a part of it is still there."""
        return self.new is not None and self.old is not None and self.old.changed != ((0, len(self.old.text)),)


class Stretch(NamedTuple):
    """Lines that follow one another and are the same in both texts, or all changed.

    Attributes:
        old_start: How many lines of the old text stand before it.
        new_start: The same of the new text.
        same: The lines without their line feeds, if they are the same in both.
        rows: The changed lines, otherwise.
    """

    old_start: int
    new_start: int
    same: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()


def compare(old: str, new: str) -> tuple[Stretch, ...]:
    """The stretches of two texts, in order; together they hold every line of both."""
    return tuple(_stretches(split_lines(old), split_lines(new)))


def _stretches(old: Sequence[str], new: Sequence[str]) -> Iterator[Stretch]:
    pairing, words = _PAIRING_CELLS, _WORD_CELLS
    i = j = 0
    for change in [*changes(old, new), (len(old), len(old), len(new), len(new))]:
        i1, i2, j1, j2 = change
        if i1 > i:
            yield Stretch(i, j, same=tuple(line.removesuffix("\n") for line in old[i:i1]))
        if i2 > i1 or j2 > j1:
            paired, used = _paired(old, new, change, pairing)
            pairing -= used
            rows, used = _rows(old, new, change, paired, words)
            words -= used
            yield Stretch(i1, j1, rows=rows)
        i, j = i2, j2


def _rows(
    old: Sequence[str], new: Sequence[str], change: Change, paired: Sequence[Pair], room: int
) -> tuple[tuple[Row, ...], int]:
    """The rows of a change, and how many comparisons they took."""
    i, i2, j, j2 = change
    rows: list[Row] = []
    left = room
    for next_i, next_j in [*paired, (i2, j2)]:
        gone = [_line(old, n) for n in range(i, next_i)]
        come = [_line(new, n) for n in range(j, next_j)]
        rows += starmap(Row, zip_longest(gone, come))
        if next_i < i2 and next_j < j2:
            row, used = _marked(_line(old, next_i), _line(new, next_j), left)
            left -= used
            rows.append(row)
        i, j = next_i + 1, next_j + 1
    return tuple(rows), room - left


def _line(lines: Sequence[str], at: int) -> Line:
    """A line that is changed as a whole."""
    text = lines[at]
    is_ended = text[-1] == "\n"
    if is_ended:
        text = text[:-1]
    return Line(at + 1, text, ((0, len(text)),), is_ended)


def _paired(old: Sequence[str], new: Sequence[str], change: Change, room: int) -> tuple[list[Pair], int]:
    """Which changed lines became which, in order, and how many comparisons that took."""
    i1, i2, j1, j2 = change
    if i1 == i2 or j1 == j2:
        return [], 0
    olds, news = _words(old, i1, i2), _words(new, j1, j2)
    old_words, new_words = [word for _, word in olds], [word for _, word in news]
    shared: dict[Pair, int] = {}
    for m, n in same_places(old_words, new_words, room):
        pair = olds[m][0], news[n][0]
        shared[pair] = shared.get(pair, 0) + len(old_words[m])
    old_sizes, new_sizes = _sizes(olds), _sizes(news)
    alike = [
        (pair, 2 * common)
        for pair, common in shared.items()
        if 2 * common >= _LEAST_SHARED * (old_sizes[pair[0]] + new_sizes[pair[1]])
    ]
    return _heaviest_chain(alike), min(len(olds) * len(news), room)


def _words(lines: Sequence[str], start: int, end: int) -> list[tuple[int, str]]:
    """The words of some lines, each with the place of its line."""
    return [(at, word) for at in range(start, end) for word in _WORD.findall(lines[at])]


def _sizes(words: Sequence[tuple[int, str]]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for at, word in words:
        sizes[at] = sizes.get(at, 0) + len(word)
    return sizes


def _heaviest_chain(weighed: Sequence[tuple[Pair, int]]) -> list[Pair]:
    """Of pairs whose places both never fall, those with the greatest weight in which no line stands twice."""
    best: list[tuple[int, int]] = [(0, -1)]  # for the first n pairs: the weight of a chain, and its last pair
    before: list[int] = []
    ready = 0
    for n, ((i, j), weight) in enumerate(weighed):
        while weighed[ready][0][0] < i and weighed[ready][0][1] < j:
            ready += 1
        chain = best[ready]
        before.append(chain[1])
        best.append(max(best[-1], (chain[0] + weight, n), key=lambda one: one[0]))
    found: list[Pair] = []
    at = best[-1][1]
    while at >= 0:
        found.append(weighed[at][0])
        at = before[at]
    return found[::-1]


def _marked(old: Line, new: Line, room: int) -> tuple[Row, int]:
    """A line that became another, with what differs in both, and how many comparisons that took."""
    before, after = _PIECE.findall(old.text), _PIECE.findall(new.text)
    found, used = _differing(before, after, room)
    changed = _places(before, [change[:2] for change in found]), _places(after, [change[2:] for change in found])
    return Row(old._replace(changed=changed[0]), new._replace(changed=changed[1])), used


def _differing(before: Sequence[str], after: Sequence[str], room: int) -> tuple[list[Change], int]:
    """What differs between two lines in pieces; mostly that is one place, which is found without any comparing."""
    start, end, most = 0, 0, min(len(before), len(after))
    while start < most and before[start] == after[start]:
        start += 1
    while end < most - start and before[-1 - end] == after[-1 - end]:
        end += 1
    if start == len(before) == len(after):
        return [], 0
    whole = (start, len(before) - end, start, len(after) - end)
    old, new = before[start : whole[1]], after[start : whole[3]]
    if set(old).isdisjoint(new):
        return [whole], 0
    shifted = [(i1 + start, i2 + start, j1 + start, j2 + start) for i1, i2, j1, j2 in changes(old, new, max(room, 0))]
    return _joined(before, shifted), len(old) * len(new)


def _joined(pieces: Sequence[str], found: Sequence[Change]) -> list[Change]:
    """Changes with nothing but space and signs between them as one: marks between every two words are hard to read."""
    joined: list[Change] = []
    for i1, i2, j1, j2 in found:
        if joined and not any(map(_WORD.match, pieces[joined[-1][1] : i1])):
            start_i, _, start_j, _ = joined.pop()
            joined.append((start_i, i2, start_j, j2))
        else:
            joined.append((i1, i2, j1, j2))
    return joined


def _places(pieces: Sequence[str], changed: Sequence[Pair]) -> tuple[Pair, ...]:
    """Where in the line some of its pieces begin and end."""
    places: list[Pair] = []
    position = at = 0
    for start, end in changed:
        position += sum(map(len, pieces[at:start]))
        length = sum(map(len, pieces[start:end]))
        if length:
            places.append((position, position + length))
        position, at = position + length, end
    return tuple(places)
