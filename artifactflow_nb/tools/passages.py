"""Where in a text a passage stands, or, when it is not quite there, where it may have been meant.

Likeness is shared words, rare ones more, in stretches as long as the passage. Everything takes time in proportion to
the lengths: a passage of 3 KB that a text of 100 KB does not hold costs some 50 ms at most, whatever they are.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from artifactflow_nb.text.lines import split_lines

SHOWN = 3
PIECE_CHARS, STRETCH_CHARS = 240, 1_200

_WORD = re.compile(r"\w+")
_UNSEEN_CHARACTERS = r"\s\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
_UNSEEN = re.compile(f"[{_UNSEEN_CHARACTERS}]+")
_SEEN = re.compile(f"[^{_UNSEEN_CHARACTERS}]+")

Tokens = Callable[[str], list[str]]
Span = tuple[int, int]


class _Piece(NamedTuple):
    """A line, or a part of one that is very long; `line` counts from 0."""

    line: int
    offset: int
    text: str


def places(text: str, passage: str, most: int) -> list[Span]:
    """Where the passage stands, at most so many places; they may overlap."""
    found: list[Span] = []
    at = text.find(passage) if passage else -1
    while at >= 0 and len(found) < most:
        found.append((at, at + len(passage)))
        at = text.find(passage, at + 1)
    return found


def unlike_in_space(text: str, passage: str) -> Span | None:
    """Where the passage stands but for white space and characters that nobody sees; None if nowhere."""
    wanted = _UNSEEN.sub("", passage)
    at = _UNSEEN.sub("", text).find(wanted) if wanted else -1
    return None if at < 0 else (_seen_character(text, at), _seen_character(text, at + len(wanted) - 1) + 1)


def _seen_character(text: str, index: int) -> int:
    """Where the character stands that has so many before it that are seen."""
    for run in _SEEN.finditer(text):
        if index < len(run[0]):
            return run.start() + index
        index -= len(run[0])
    return len(text)


def lines_around(text: str, spans: Sequence[Span]) -> str:
    """The lines of parts of a text, one line more on both sides, as `12: the line`."""
    lines = split_lines(text)
    ends = list(accumulate(map(len, lines)))
    shown: list[str] = []
    for start, end in spans:
        first, last = bisect_right(ends, start), bisect_right(ends, end - 1)
        before, after = start - (ends[first] - len(lines[first])), end - (ends[last] - len(lines[last]))
        begin = (first - 1, 0) if first and before <= PIECE_CHARS else (first, max(0, before - PIECE_CHARS))
        is_near = last + 1 < len(lines) and len(lines[last]) - after <= PIECE_CHARS
        shown.append(_show(lines, begin, (last + 1, PIECE_CHARS) if is_near else (last, after + PIECE_CHARS)))
    return "\n...\n".join(shown)


def nearest_passages(text: str, passage: str) -> str:
    """The stretches that share most with the passage, as `12: the line`; at most three, in the text's order."""
    tokens = _words if _WORD.search(passage) else _characters
    wanted = [frozenset(tokens(piece.text)) for piece in _pieces(split_lines(passage))] or [frozenset()]
    everything = frozenset[str]().union(*wanted)
    shared = cache(lambda line: everything.intersection(tokens(line)))  # lines are often repeated
    lines = split_lines(text)
    pieces = list(_pieces(lines))
    held = [shared(piece.text) for piece in pieces]
    shown: list[str] = []
    for start in sorted(_best(_scores(held, wanted), len(wanted))):
        sharing = [at for at in range(start, min(start + len(wanted), len(pieces))) if held[at]]
        first, last = pieces[sharing[0]], pieces[sharing[-1]]
        end = last.offset + len(last.text) + (PIECE_CHARS if len(last.text) == PIECE_CHARS else 0)
        shown.append(_show(lines, (first.line, max(0, first.offset - PIECE_CHARS)), (last.line, end)))
    return "\n...\n".join(shown) or "(none is alike)"


def _pieces(lines: Sequence[str]) -> Iterator[_Piece]:
    """The lines that are not blank, long ones in parts."""
    for number, line in enumerate(lines):
        if not line.isspace():
            bare = line.rstrip("\r\n")
            for offset in range(0, len(bare), PIECE_CHARS):
                yield _Piece(number, offset, bare[offset : offset + PIECE_CHARS])


def _words(text: str) -> list[str]:
    """Its words; of those with letters beyond ASCII each pair of letters, since Chinese does not part its words."""
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        if word.isascii() or len(word) == 1:
            found.append(word)
        else:
            found += [word[at : at + 2] for at in range(len(word) - 1)]
    return found


def _characters(text: str) -> list[str]:
    return [character for character in text if not character.isspace()]


def _scores(held: Sequence[frozenset[str]], wanted: Sequence[frozenset[str]]) -> list[float]:
    """For each place, what a stretch from there shares with the passage; that it begins and ends like it counts too.

    Args:
        held: The tokens of each piece that the passage has too.
        wanted: The tokens of each piece of the passage; so many pieces has a stretch.
    """
    spread = Counter(token for tokens in held for token in tokens)
    weight = {token: math.log(1 + len(held) / n) for token, n in spread.items()}
    begins, ends = (cache(lambda tokens, edge=edge: _sum(weight, tokens & edge)) for edge in (wanted[0], wanted[-1]))
    inside: Counter[str] = Counter()
    score = 0.0
    found: list[float] = []
    for end, arriving in enumerate(held):
        for token in arriving:
            score += 0.0 if inside[token] else weight[token]
            inside[token] += 1
        if (start := end - len(wanted) + 1) < 0:
            continue
        leaving = held[start]
        found.append(score + begins(leaving) + ends(arriving) if inside else 0.0)
        for token in leaving:
            inside[token] -= 1
            if not inside[token]:
                score -= weight[token]
                del inside[token]
    return found or [score if inside else 0.0]


def _sum(weight: Mapping[str, float], tokens: Iterable[str]) -> float:
    return sum(weight[token] for token in tokens)


def _best(scores: Sequence[float], width: int) -> list[int]:
    """The places with the highest scores whose stretches do not overlap."""
    chosen: list[int] = []
    for start in sorted(range(len(scores)), key=scores.__getitem__, reverse=True):
        if len(chosen) == SHOWN or scores[start] <= 0:
            break
        if all(abs(start - other) >= width for other in chosen):
            chosen.append(start)
    return chosen


def _show(lines: Sequence[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """The lines from a character of one to a character of another, cut where they become too long."""
    shown: list[str] = []
    room = STRETCH_CHARS
    for number in range(start[0], end[0] + 1):
        offset = start[1] if number == start[0] else 0
        bare = lines[number].rstrip("\r\n")[offset : end[1] if number == end[0] else None]
        if shown and len(bare) > room:
            return "\n".join([*shown, f"[and on to line {end[0] + 1}]"])
        beside = f", from character {offset + 1}" if offset else ""
        shown.append(f"{number + 1}{beside}: {bare[:room]}")
        room -= len(bare)
    return "\n".join(shown)
