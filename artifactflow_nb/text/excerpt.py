"""The parts of a long text that matter for some words, each verbatim and in the text's order."""

import re

from artifactflow_nb.text.blocks import Passage, passages
from artifactflow_nb.text.relevance import Scorer, Words, count_words
from artifactflow_nb.text.words import query_of, terms

_GAP = re.compile(r"^\[\.\.\. ([\d,]+) characters left out \.\.\.\]$", re.MULTILINE)


def excerpt(text: str, focus: str, limit: int) -> str:
    """The text if it has at most `limit` characters, else the passages nearest to `focus` (without one: the first).

    What is left out is said in a paragraph of its own, `[... 1,234 characters left out ...]`.
    """
    if len(text) <= limit:
        return text
    found = passages(text)
    order = _by_focus(text, found, focus) if focus.strip() else list(range(len(found)))
    kept: set[int] = set()
    room = limit
    for index in order:
        size = found[index].end - found[index].start
        if size <= room:
            kept.add(index)
            room -= size
    return _joined(text, found, kept) if kept else text[:limit] + _left_out(len(text) - limit)


def _by_focus(text: str, found: list[Passage], focus: str) -> list[int]:
    query = query_of(focus)
    words = [Words((), terms(p.heading), terms(text[p.start : p.end])) for p in found]
    scorer = Scorer(query, count_words(query, words))
    return sorted(range(len(found)), key=lambda index: (-scorer.rank(words[index]), index))


def _joined(text: str, found: list[Passage], kept: set[int]) -> str:
    pieces: list[str] = []
    position = 0
    for index in sorted(kept):
        gap = text[position : found[index].start]
        pieces.append(_left_out(len(gap)) if gap.strip() else gap)
        pieces.append(text[found[index].start : found[index].end])
        position = found[index].end
    if rest := text[position:].strip():
        pieces.append(_left_out(len(rest)))
    return "".join(pieces).strip("\n")


def _left_out(n_chars: int) -> str:
    return f"\n\n[... {n_chars:,} characters left out ...]\n\n"


def full_length(text: str) -> int:
    """The length in characters that the whole text has of which this is an excerpt."""
    return len(text) + sum(int(count.replace(",", "")) for count in _GAP.findall(text))
