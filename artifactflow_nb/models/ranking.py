"""Which documents answer a question, in what order, and whether any does.

A document is judged by its title, its best passage, its first one and the whole of it, each as a share of what the
question asks for; the weights were fitted on questions about the language reference and rounded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from artifactflow_nb.text.citations import Document, Quotes
from artifactflow_nb.text.dissect import Dissected, dissect
from artifactflow_nb.text.quoting import choose, related_words
from artifactflow_nb.text.relevance import Scorer, WordCounts, count_words
from artifactflow_nb.text.words import Query

_MOST_SOURCES = 4
_MOST_QUOTES = 6
_FIRST_QUOTES, _FURTHER_QUOTES = 4, 2
_SECOND_BEST, _FURTHER_BEST = 0.5, 0.7  # of the best sentence's rank, in the first source and in further ones
_ENOUGH = 0.6  # a further source must be this good compared with the best
_USUAL_SECTION = 880  # words of an ordinary section

_BODY, _HINT, _PHRASE = 1.75, 0.3, 0.7  # of the best passage
_WHOLE, _WHOLE_HINT = 1.9, 0.5  # of the section
_TITLE, _TITLE_PHRASE, _EXACT, _EXACT_SHARE = 0.8, 0.5, 1.5, 0.7
_LEAD = 0.8  # of the first passage

_ANSWERS = 0.4  # the least share of the question that a passage must hold ...
_UNKNOWN = 0.35  # ... and how much more where words of the question occur nowhere
_MOST_UNKNOWN = 0.4


@dataclass(frozen=True, slots=True)
class Judged:
    """A document with its rank and the share of the question that its best passage and its title hold."""

    taken: Dissected
    score: float
    held: float


def best_quotes(
    query: Query, documents: Sequence[Document], counts: WordCounts | None = None, question: str = ""
) -> list[Quotes]:
    """The best sentences of the best documents, best first; empty if the documents do not answer the question.

    Args:
        query: The question.
        documents: In the order in which a search gave them.
        counts: How common the question's words are in all sources; counted in the documents if None.
        question: The question as it was asked.
    """
    taken = [one for one in map(dissect, documents) if one.sentences]
    scorer = Scorer(query, _counts(query, taken, counts))
    best = sorted((judge(scorer, one) for one in taken), key=lambda judged: -judged.score)
    if not best or not answers(scorer, best[0]):
        return []
    kept = [one for one in best[:_MOST_SOURCES] if one.score >= _ENOUGH * best[0].score and answers(scorer, one)]
    return _quote(scorer, [one.taken for one in kept], question)


def _counts(query: Query, taken: Iterable[Dissected], counts: WordCounts | None) -> WordCounts:
    local = count_words(query, [words for one in taken for words in one.words])
    return local if counts is None else WordCounts(counts.n_passages, {**local.counts, **counts.counts})


def judge(scorer: Scorer, taken: Dissected) -> Judged:
    """The document's rank, and how much of the question it holds."""
    best = max(taken.words, key=scorer.rank)
    named = (*taken.anchor, *taken.title)
    whole, whole_hints = scorer.often([term for words in taken.words for term in words.body], _USUAL_SECTION)
    body, hints = scorer.often(best.body)
    exact = max(scorer.precision(taken.anchor), scorer.precision(taken.title))
    score = (
        _BODY * body + _HINT * hints + _PHRASE * scorer.phrases((*best.heading, "", *best.body))
        + _WHOLE * whole + _WHOLE_HINT * whole_hints
        + (_TITLE + _EXACT_SHARE * exact) * scorer.held(named) + _TITLE_PHRASE * scorer.phrases(named)
        + _LEAD * scorer.held(taken.words[0].all)
    ) / scorer.total + _EXACT * exact  # fmt: skip
    return Judged(taken, score, scorer.coverage(best.all) + 0.5 * scorer.coverage(named))


def answers(scorer: Scorer, judged: Judged) -> bool:
    """Whether the document holds enough of what the question asks for.

    Where every word of the question occurs somewhere in the sources, less is enough: a word that none of them has tells
    of another subject.
    """
    return judged.held >= _ANSWERS + _UNKNOWN * min(scorer.unknown() / _MOST_UNKNOWN, 1.0)


def _quote(scorer: Scorer, kept: Sequence[Dissected], question: str) -> list[Quotes]:
    """Sentences of each, the most of the first; none is quoted twice."""
    related = related_words(scorer, kept)
    quotes: list[Quotes] = []
    room = _MOST_QUOTES
    for n, one in enumerate(kept):
        limit, enough = (_FIRST_QUOTES, _SECOND_BEST) if n == 0 else (_FURTHER_QUOTES, _FURTHER_BEST)
        chosen = choose(scorer, one, question, related, min(limit, room), enough)
        room -= len(chosen)
        if chosen:
            quotes.append(Quotes(one.document.title, one.document.address, tuple(each.quote for each in chosen)))
    return quotes
