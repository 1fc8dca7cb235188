"""Which documents answer a question, in what order, and whether any does.

A document is judged by its title, its best passage, its first one and the whole of it, each as a share of what the
question asks for; the weights were fitted on questions about the language reference and rounded.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from artifactflow_nb.text.citations import Document, Quotes
from artifactflow_nb.text.dissect import Dissected, dissect
from artifactflow_nb.text.excerpt import full_length
from artifactflow_nb.text.quoting import choose, rate, related_words
from artifactflow_nb.text.relevance import Scorer, WordCounts, count_words
from artifactflow_nb.text.words import Query, n_words

MOST_QUOTES = 6
"""How many sentences are quoted unless more or fewer are asked for."""

_MOST_SOURCES = 4
_FIRST_QUOTES, _FURTHER_QUOTES = 5, 2
_SECOND_BEST, _FURTHER_BEST = 0.5, 0.6  # of the best sentence's rank, in the first source and in further ones
_FEW_QUOTES, _FAIR = 3, 0.3  # the first source gives so many, if they are at least fair
_ENOUGH = 0.6  # a further source must be this good compared with the best
_USUAL_SECTION = 880  # words of an ordinary section

# The rank of a document is made of that of its best passage and its second one, of how often the whole of it says the
# words, how much of them its first passage holds, and of how far its title says nothing else. Which document answers
# best is told by the whole of it more than whether it answers at all: hence `_ABOUT`, which only the rank adds.
_BEST, _SECOND, _WHOLE, _LEAD, _EXACT, _ABOUT = 1.9, 0.85, 1.25, 0.9, 0.75, 1.75

# Whether it answers at all is told by the share of the question that one passage holds, by the title, by the share of
# the question that occurs in no source, and by its rank; fitted on questions that the sources do and do not answer.
_HELD, _TITLED, _UNKNOWN = 0.75, 0.14, -0.45
_LEAST_OF_FEW, _LEAST_OF_MANY = 1.45, 2.0
_FEW_PASSAGES, _MANY_PASSAGES = 60, 600


@dataclass(frozen=True, slots=True)
class Judged:
    """A document with its rank and how much speaks for its answering the question."""

    taken: Dissected
    score: float
    evidence: float


def best_quotes(
    query: Query,
    documents: Sequence[Document],
    counts: WordCounts | None = None,
    question: str = "",
    *,
    most: int = MOST_QUOTES,
    known: Collection[str] = (),
) -> list[Quotes]:
    """The best sentences of the best documents, best first; empty if the documents do not answer the question.

    Args:
        query: The question.
        documents: In the order in which a search gave them.
        counts: How common the question's words are in all sources; counted in the documents if None.
        question: The question as it was asked.
        most: How many sentences at most.
        known: Sentences that were quoted already and are not quoted again.
    """
    taken = _distinct([one for one in map(dissect, documents) if one.sentences])
    scorer = Scorer(query, _counts(query, taken, counts))
    best = sorted((judge(scorer, one) for one in taken), key=lambda judged: -judged.score)
    if not best or not answers(scorer, best[0]):
        return []
    kept = [one for one in best[:_MOST_SOURCES] if one.score >= _ENOUGH * best[0].score and answers(scorer, one)]
    return _quote(scorer, [one.taken for one in kept], question, most, known)


def _distinct(taken: Sequence[Dissected]) -> list[Dissected]:
    """The documents, a passage that several have left to the shortest: the others repeat it among more."""
    by_length = sorted(range(len(taken)), key=lambda n: full_length(taken[n].document.text))
    seen: set[tuple[str, ...]] = set()
    kept: dict[int, Dissected] = {}
    for n in by_length:
        mine = [place for place, words in enumerate(taken[n].words) if tuple(words.body) not in seen]
        seen.update(tuple(words.body) for words in taken[n].words)
        if mine:
            kept[n] = taken[n].only(mine)
    return [kept[n] for n in sorted(kept) if kept[n].sentences]


def _counts(query: Query, taken: Iterable[Dissected], counts: WordCounts | None) -> WordCounts:
    local = count_words(query, [words for one in taken for words in one.words])
    return local if counts is None else WordCounts(counts.n_passages, {**local.counts, **counts.counts})


def judge(scorer: Scorer, taken: Dissected) -> Judged:
    """The document's rank, and how much speaks for its answering the question."""
    ranked = sorted(map(scorer.rank, taken.words), reverse=True)
    named = (*taken.anchor, *taken.title)
    whole = _whole(scorer, taken)
    weight = _BEST * ranked[0] + _SECOND * sum(ranked[1:2]) + _WHOLE * whole + _LEAD * scorer.held(taken.words[0].all)
    strength = weight / scorer.total
    exact = max(scorer.precision(taken.anchor), scorer.precision(taken.title))
    evidence = (
        math.log1p(strength)
        + _HELD * max(scorer.coverage(words.all) for words in taken.words)
        + _TITLED * scorer.coverage(named)
        + _UNKNOWN * scorer.unknown
    )
    return Judged(taken, strength + _ABOUT * whole / scorer.total + _EXACT * exact, evidence)


def _whole(scorer: Scorer, taken: Dissected) -> float:
    """How often the whole document says the question's words, for its length.

    Of a long document only an excerpt was read, chosen for these words, and passages that others repeat were left to
    them: its length is that of all its text, or every long document would pass for a short one about the question.
    """
    body = [term for words in taken.words for term in words.body]
    read = sum(passage.end - passage.start for passage in taken.passages)
    return scorer.often(body, n_words(body) * full_length(taken.document.text) / read, _USUAL_SECTION)


def answers(scorer: Scorer, judged: Judged) -> bool:
    """Whether enough speaks for the document's answering: more in large sources, where words meet by chance."""
    n = min(max(scorer.counts.n_passages, _FEW_PASSAGES), _MANY_PASSAGES)
    large = math.log(n / _FEW_PASSAGES) / math.log(_MANY_PASSAGES / _FEW_PASSAGES)
    return judged.evidence >= _LEAST_OF_FEW + large * (_LEAST_OF_MANY - _LEAST_OF_FEW)


def _quote(scorer: Scorer, kept: Sequence[Dissected], question: str, room: int, known: Collection[str]) -> list[Quotes]:
    """Sentences of each, the most of the first, in the text's order."""
    related = related_words(scorer, kept)
    quotes: list[Quotes] = []
    best = 0.0
    for one in kept:
        rated = rate(scorer, one, question, related)
        best = best or rated[0].score
        rated = [each for each in rated if each.sentence.quote not in known]
        limit, enough = (_FURTHER_QUOTES, _FURTHER_BEST) if quotes else (_FIRST_QUOTES, _SECOND_BEST)
        chosen = choose(scorer, rated, min(limit, room), enough * best)
        if not quotes and not known and len(chosen) < min(_FEW_QUOTES, room):
            chosen = choose(scorer, rated, min(_FEW_QUOTES, room), _FAIR * best)
        if chosen:
            in_order = sorted(chosen, key=lambda sentence: sentence.start)
            quotes.append(Quotes(one.document.title, one.document.address, tuple(each.quote for each in in_order)))
            room -= len(chosen)
    return quotes
