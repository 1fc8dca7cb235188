"""Which sentences of some documents answer a question, and whether any does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from artifactflow_nb.text.blocks import passages
from artifactflow_nb.text.citations import Document, Quotes
from artifactflow_nb.text.excerpt import full_length
from artifactflow_nb.text.relevance import Scorer, WordCounts, Words, count_words
from artifactflow_nb.text.sentences import Sentence, sentences
from artifactflow_nb.text.words import Query, terms, title_terms

_MOST_SOURCES = 4
_MOST_QUOTES = 3
_ENOUGH = 0.5  # a further source, or sentence, must be this good compared with the best
_ANSWERS = 0.52  # the least share of the question that a passage must hold
_SECTION = 0.8  # what the whole section counts beside its best passage


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage of a document with its rank."""

    document: Document
    words: Words
    sentences: tuple[Sentence, ...]
    score: float


def best_quotes(query: Query, documents: Sequence[Document], counts: WordCounts | None = None) -> list[Quotes]:
    """The best sentences of the best documents, best first; empty if the documents do not answer the question.

    Args:
        query: The question.
        documents: In the order in which a search gave them.
        counts: How common the question's words are in all sources; counted in the documents if None.
    """
    found = [candidate for document in documents if document.error is None for candidate in _candidates(document)]
    scorer = Scorer(query, _counts(query, found, counts))
    best = sorted(
        (candidate for candidate in _best_by_document(scorer, found, documents) if candidate.score > 0),
        key=lambda candidate: -candidate.score,
    )
    if not best or not answers(scorer, best[0]):
        return []
    kept = [one for one in best[:_MOST_SOURCES] if one.score >= _ENOUGH * best[0].score and answers(scorer, one)]
    return [
        Quotes(one.document.title, one.document.address, tuple(chosen))
        for one in kept
        if (chosen := _choose(scorer, one))
    ]


def _counts(query: Query, found: Sequence[Candidate], counts: WordCounts | None) -> WordCounts:
    local = count_words(query, [candidate.words for candidate in found])
    if counts is None:
        return local
    return WordCounts(counts.n_passages, {**local.counts, **counts.counts})


def _candidates(document: Document) -> Iterator[Candidate]:
    about, _, named = document.title.rpartition(": ")
    title = (*title_terms(document.address.partition("#")[2]), *title_terms(named))
    above = terms(about)
    all_sentences = sentences(document.text)
    for passage in passages(document.text):
        inside = tuple(one for one in all_sentences if passage.start <= one.start < passage.end)
        body = terms(document.text[passage.start : passage.end])
        if inside:
            yield Candidate(document, Words(title, (*above, *title_terms(passage.heading)), tuple(body)), inside, 0.0)


def _best_by_document(scorer: Scorer, found: Sequence[Candidate], documents: Sequence[Document]) -> Iterator[Candidate]:
    """For each document its best passage."""
    for document in documents:
        own = [one for one in found if one.document is document]
        ranked = sorted(own, key=lambda one: -scorer.rank(one.words))
        if ranked:
            first = ranked[0]
            body = [term for one in own for term in one.words.body]
            n_terms = len(body) * full_length(document.text) / max(len(document.text), 1)
            score = scorer.rank(first.words) + _SECTION * scorer.whole(body, n_terms)
            yield Candidate(document, first.words, first.sentences, score)


def _choose(scorer: Scorer, candidate: Candidate) -> list[str]:
    """The passage's best sentences, in the text's order."""
    around = (*candidate.words.title, *candidate.words.heading)
    ranked = sorted(
        ((scorer.sentence(terms(one.quote), around), one) for one in candidate.sentences), key=lambda pair: -pair[0]
    )
    top = ranked[0][0]
    kept = [one for score, one in ranked[:_MOST_QUOTES] if score > 0 and score >= _ENOUGH * top]
    return [one.quote for one in sorted(kept, key=lambda one: one.start)]


def answers(scorer: Scorer, candidate: Candidate) -> bool:
    """Whether the passage holds enough of what the question asks for; words of its title count half as much again."""
    words = candidate.words
    held = scorer.coverage({*words.title, *words.heading, *words.body})
    return held + 0.5 * scorer.coverage(words.title) >= _ANSWERS
