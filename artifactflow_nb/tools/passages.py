"""Exact search for a passage in a text, and suggestions of similar passages when there is no exact match.

Similarity is the sum of the weights of shared words (rare words have larger weights) in windows as long as the passage.
The time is linear in both lengths: a passage of 3 KB that a text of 100 KB does not contain costs 50 ms at most.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from artifactflow_nb.core.text.comparison import split_lines

MAX_SUGGESTIONS = 3
PIECE_CHARS, STRETCH_CHARS = 240, 1_200
"""Lengths in characters of the pieces in which a long line is compared, and of one suggestion."""

_WORD = re.compile(r"\w+")
_INVISIBLE_CLASS = r"\s\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
_INVISIBLE = re.compile(f"[{_INVISIBLE_CLASS}]+")
_VISIBLE = re.compile(f"[^{_INVISIBLE_CLASS}]+")

TextRange = tuple[int, int]


class _LinePiece(NamedTuple):
    """A line, or a part of a very long line; `line` counts from 0."""

    line: int
    offset: int
    text: str


def find_passage(text: str, passage: str, max_places: int) -> list[TextRange]:
    """Return the first `max_places` occurrences of the passage; occurrences may overlap."""
    matches: list[TextRange] = []
    start = text.find(passage) if passage else -1
    while start >= 0 and len(matches) < max_places:
        matches.append((start, start + len(passage)))
        start = text.find(passage, start + 1)
    return matches


def find_ignoring_whitespace(text: str, passage: str) -> TextRange | None:
    """Return the first occurrence that differs only in white space and invisible characters, or None."""
    visible = _INVISIBLE.sub("", passage)
    at = _INVISIBLE.sub("", text).find(visible) if visible else -1
    return None if at < 0 else (_visible_offset(text, at), _visible_offset(text, at + len(visible) - 1) + 1)


def _visible_offset(text: str, index: int) -> int:
    """Return the offset of the `index`-th visible character, counting from 0."""
    for run in _VISIBLE.finditer(text):
        if index < len(run[0]):
            return run.start() + index
        index -= len(run[0])
    return len(text)


def lines_around(text: str, spans: Sequence[TextRange]) -> str:
    """Return the lines of the ranges with a line of context on each side, in the form `12: the line`."""
    lines = split_lines(text)
    ends = list(accumulate(map(len, lines)))
    excerpts: list[str] = []
    for start, end in spans:
        first, last = bisect_right(ends, start), bisect_right(ends, end - 1)
        before, after = start - (ends[first] - len(lines[first])), end - (ends[last] - len(lines[last]))
        # In a very long line the context is some characters of that line, not the line before or after.
        begin = (first - 1, 0) if first and before <= PIECE_CHARS else (first, max(0, before - PIECE_CHARS))
        is_near = last + 1 < len(lines) and len(lines[last]) - after <= PIECE_CHARS
        excerpts.append(_excerpt(lines, begin, (last + 1, PIECE_CHARS) if is_near else (last, after + PIECE_CHARS)))
    return "\n...\n".join(excerpts)


def nearest_passages(text: str, passage: str) -> str:
    """Return up to three windows of lines most similar to the passage, in text order, in the form `12: the line`."""
    # A passage that consists of punctuation has no words.
    tokenize: Callable[[str], Iterable[str]] = _words if _WORD.search(passage) else lambda text: "".join(text.split())
    targets = [frozenset(tokenize(piece.text)) for piece in _pieces(split_lines(passage))] or [frozenset()]
    vocabulary = frozenset[str]().union(*targets)
    shared = cache(lambda line: vocabulary.intersection(tokenize(line)))  # lines are often repeated
    lines = split_lines(text)
    pieces = list(_pieces(lines))
    matches = [shared(piece.text) for piece in pieces]
    frequency = Counter(token for tokens in matches for token in tokens)
    weight = {token: math.log(1 + len(matches) / n) for token, n in frequency.items()}
    # For each piece, the score of the window that starts there and is as long as the passage; tokens shared with the
    # passage's first and last piece count twice.
    start_score, end_score = (
        cache(lambda tokens, edge=edge: sum(weight[token] for token in tokens & edge))
        for edge in (targets[0], targets[-1])
    )
    # A sliding window: each step adds the tokens of one piece and removes the tokens of another.
    inside: Counter[str] = Counter()
    score = 0.0
    scores: list[float] = []
    for end, arriving in enumerate(matches):
        for token in arriving:
            score += 0.0 if inside[token] else weight[token]
            inside[token] += 1
        if (start := end - len(targets) + 1) < 0:
            continue
        leaving = matches[start]
        # With an empty window, the rest of `score` is a rounding error.
        scores.append(score + start_score(leaving) + end_score(arriving) if inside else 0.0)
        for token in leaving:
            inside[token] -= 1
            if not inside[token]:
                score -= weight[token]
                del inside[token]
    scores = scores or [score if inside else 0.0]  # a text shorter than the passage is one window
    best: list[int] = []  # the starts of windows that do not overlap
    for start in sorted(range(len(scores)), key=scores.__getitem__, reverse=True):
        if len(best) == MAX_SUGGESTIONS or scores[start] <= 0:
            break
        if all(abs(start - other) >= len(targets) for other in best):
            best.append(start)
    excerpts: list[str] = []
    for start in sorted(best):
        window = [at for at in range(start, min(start + len(targets), len(pieces))) if matches[at]]
        first, last = pieces[window[0]], pieces[window[-1]]
        end = last.offset + len(last.text) + (PIECE_CHARS if len(last.text) == PIECE_CHARS else 0)
        excerpts.append(_excerpt(lines, (first.line, max(0, first.offset - PIECE_CHARS)), (last.line, end)))
    return "\n...\n".join(excerpts) or "(none is alike)"


def _pieces(lines: Sequence[str]) -> Iterator[_LinePiece]:
    """Yield the lines that are not blank; long lines are split into pieces."""
    for number, line in enumerate(lines):
        if not line.isspace():
            bare = line.rstrip("\r\n")
            for offset in range(0, len(bare), PIECE_CHARS):
                yield _LinePiece(number, offset, bare[offset : offset + PIECE_CHARS])


def _words(text: str) -> list[str]:
    """Return the words of a text, or the pairs of letters of a non-ASCII word, as Chinese has no spaces."""
    words: list[str] = []
    for word in _WORD.findall(text.lower()):
        if word.isascii() or len(word) == 1:
            words.append(word)
        else:
            words += [word[at : at + 2] for at in range(len(word) - 1)]
    return words


def _excerpt(lines: Sequence[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return numbered lines between two (line, character) positions, cut after `STRETCH_CHARS` characters."""
    excerpt: list[str] = []
    room = STRETCH_CHARS
    for number in range(start[0], end[0] + 1):
        offset = start[1] if number == start[0] else 0
        bare = lines[number].rstrip("\r\n")[offset : end[1] if number == end[0] else None]
        if excerpt and len(bare) > room:
            return "\n".join([*excerpt, f"[and on to line {end[0] + 1}]"])
        position = f", from character {offset + 1}" if offset else ""
        excerpt.append(f"{number + 1}{position}: {bare[:room]}")
        room -= len(bare)
    return "\n".join(excerpt)
