"""Excerpts of long texts: the passages most similar to a question, verbatim and in the order of the text."""

import re

from artifactflow_nb.sources.retrieval.passages import split_passages
from artifactflow_nb.sources.retrieval.scoring import PassageTerms, Scorer, count_words
from artifactflow_nb.sources.retrieval.terms import parse_query, split_terms

_GAP = re.compile(r"^\[\.\.\. ([\d,]+) characters left out \.\.\.\]$", re.MULTILINE)


def excerpt(text: str, focus: str, limit: int) -> str:
    """Return a text of up to `limit` characters unchanged, or the passages of a longer text most similar to `focus`.

    Without a focus the first passages are returned. A paragraph of its own marks each omission:
    `[... 1,234 characters left out ...]`.
    """
    if len(text) <= limit:
        return text
    passages = split_passages(text)
    order = list(range(len(passages)))
    if focus.strip():
        query = parse_query(focus)
        words = [PassageTerms((), split_terms(p.heading), split_terms(text[p.start : p.end])) for p in passages]
        scorer = Scorer(query, count_words(query, words))
        order.sort(key=lambda index: -scorer.rank(words[index]))
    selected: set[int] = set()
    remaining = limit
    for index in order:
        size = passages[index].end - passages[index].start
        if size <= remaining:
            selected.add(index)
            remaining -= size
    if not selected:
        return text[:limit] + _gap_note(len(text) - limit)
    pieces: list[str] = []
    position = 0
    for index in sorted(selected):
        gap = text[position : passages[index].start]
        position = passages[index].end
        pieces += [_gap_note(len(gap)) if gap.strip() else gap, text[passages[index].start : position]]
    if rest := text[position:].strip():
        pieces.append(_gap_note(len(rest)))
    return "".join(pieces).strip("\n")


def _gap_note(n_chars: int) -> str:
    return f"\n\n[... {n_chars:,} characters left out ...]\n\n"


def is_excerpt_of(part: str, text: str) -> bool:
    """Return whether all pieces of an excerpt occur in a text, in order; a single piece must be the whole text."""
    pieces = [piece.strip() for piece in _GAP.split(part)[::2]]  # every second piece is a number of omitted characters
    if len(pieces) == 1:
        return pieces[0] == text.strip()
    position = 0
    for piece in pieces:
        start = text.find(piece, position)
        if start < 0:
            return False
        position = start + len(piece)
    return True
