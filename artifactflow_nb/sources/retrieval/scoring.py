"""Ranking of passages for a question, by word statistics alone.

The weight of a word is its rarity among the searched passages. A passage is ranked by the words that the passage and
its headings share with the question (after BM25F: Robertson and Zaragoza, 2009). `coverage` judges whether the passage
answers the question at all, by the weight of the *missing* words.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise
from typing import TypeVar

from artifactflow_nb.sources.retrieval.terms import Query, word_count

_SATURATION = 1.2
_USUAL_TERMS = 110  # words of an ordinary passage
_MIN_PASSAGES = 60  # rarity says little in fewer passages: fewer passages count as this number
_NAME = 2.0  # an everyday word may be said in another way, a name is not
_ABSENT = 0.3  # share of a word that no passage has, beside a name that some passages have
_TITLE, _HEADING, _PHRASE, _TITLE_PHRASE, _PRECISION = 0.8, 1.5, 0.6, 2.0, 0.3


@dataclass(frozen=True, slots=True)
class WordCounts:
    """The number of searched passages with each word of a question.

    Attributes:
        n_passages: Number of searched passages.
        counts: Number of passages by term, and by `a b` for a phrase; other terms were not counted.
    """

    n_passages: int
    counts: Mapping[str, int] = field(default_factory=dict)

    def rarity(self, term: str) -> float:
        """Return the inverse document frequency: 0 for a word in all passages, the maximum for a word in no passage."""
        n = max(self.n_passages, _MIN_PASSAGES)
        count = min(self.counts.get(term, 0), n)
        return math.log(1 + (n - count + 0.5) / (count + 0.5))

    @property
    def rarest(self) -> float:
        """The rarity of a word that occurs in one passage."""
        n = max(self.n_passages, _MIN_PASSAGES)
        return math.log(1 + (n - 0.5) / 1.5)


@dataclass(frozen=True, slots=True)
class PassageTerms:
    """The terms of a passage: of the section's title, of the headings above the passage, and of the text."""

    title: Sequence[str]
    heading: Sequence[str]
    body: Sequence[str]

    @property
    def all_terms(self) -> set[str]:
        """All terms, without duplicates."""
        return {*self.title, *self.heading, *self.body}


def count_words(query: Query, texts: Iterable[PassageTerms]) -> WordCounts:
    """Count the words of a query in passages that are not in an index."""
    counts: Counter[str] = Counter(dict.fromkeys(query.terms, 0))
    n = 0
    for words in texts:
        n += 1
        present = words.all_terms
        counts.update(term for term in query.terms if term in present)
        counts.update(f"{a} {b}" for a, b in query.phrases if are_adjacent(words.body, a, b))
    return WordCounts(n, counts)


def are_adjacent(body: Sequence[str], a: str, b: str) -> bool:
    """Return whether `b` directly follows `a` anywhere."""
    return any(first == a and second == b for first, second in pairwise(body))


@dataclass(frozen=True)
class Scorer:
    """Weighs words and ranks passages for one question.

    Attributes:
        query: The question.
        counts: Number of passages with the words of the question.
    """

    query: Query
    counts: WordCounts

    @cached_property
    def weights(self) -> dict[str, float]:
        """The weight of each term: its share of the question, times its rarity; more for a term that no passage has."""
        return {
            term: share * self.counts.rarity(term) * self._unknown_words.get(term, 1.0)
            for term, share in self.query.terms.items()
        }

    @cached_property
    def total_weight(self) -> float:
        """The weight of all terms of the question; never 0."""
        return sum(self.weights.values()) or 1.0

    def matched_weight(self, terms: Iterable[str]) -> float:
        """Return the weight of the question's terms among these words."""
        present = set(terms)
        return sum(weight for term, weight in self.weights.items() if term in present)

    def rank(self, words: PassageTerms) -> float:
        """Return the rank score of a passage; 0 for a passage without a word of the question."""
        body = Counter(words.body)
        length = 0.5 + 0.5 * word_count(words.body) / _USUAL_TERMS
        title, heading = set(words.title), set(words.heading)
        total = 0.0
        for term, weight in self.weights.items():
            frequency = body[term] / length + _HEADING * (term in heading)
            total += weight * (frequency * (_SATURATION + 1) / (frequency + _SATURATION) + _TITLE * (term in title))
        phrases = self.phrase_score((*words.heading, "", *words.body)) + _TITLE_PHRASE * self.phrase_score(words.title)
        return (total + _PHRASE * phrases) * (1 + _PRECISION * self.precision(words.title))

    def phrase_score(self, body: Sequence[str]) -> float:
        """Return the sum of the rarities of the question's phrases that occur in a text."""
        adjacent = set(pairwise(body))
        phrases = [f"{a} {b}" for a, b in self.query.phrases if (a, b) in adjacent]
        return sum(self.counts.rarity(phrase) for phrase in phrases if self.counts.counts.get(phrase))

    def precision(self, title: Sequence[str]) -> float:
        """Return the share of the title's words that are in the question, from 0 to 1."""
        words = set(title)
        return len(words & self.weights.keys()) / len(words) if words else 0.0

    def coverage(self, terms: Iterable[str]) -> float:
        """Return the share of the question's terms that these words contain, by weight, from 0 to 1."""
        present = set(terms)
        missing = self._missing_weights
        whole = sum(missing.values())
        return sum(weight for term, weight in missing.items() if term in present) / whole if whole else 0.0

    @cached_property
    def unknown_share(self) -> float:
        """The share of the question's terms that occur in no passage, by weight, from 0 to 1."""
        return 1.0 - self.coverage(term for term, count in self.counts.counts.items() if count)

    @cached_property
    def _missing_weights(self) -> dict[str, float]:
        """The weight of each term that is missing; a term of no passage is weighted like a term of one passage."""
        return {
            term: self.query.terms[term]
            * min(self.counts.rarity(term), self.counts.rarest)
            * self._unknown_words.get(term, 1.0)
            * self._identity_shares.get(term, 1.0)
            for term in self.query.terms
        }

    @cached_property
    def known_names(self) -> frozenset[str]:
        """The names and figures of the question that some passage has, which identify the subject."""
        figures = (term for term in self.query.terms if term[0].isdigit() and len(term) > 1)
        return frozenset(name for name in (*self.query.names, *figures) if self.counts.counts.get(name))

    @cached_property
    def _identity_shares(self) -> dict[str, float]:
        """Factors of known names and, beside a known name, of everyday words that no passage has; other terms have 1.

        The person may have chosen such an everyday word: "strong" for a light whose range the text gives.
        """
        occurring = {term for term, count in self.counts.counts.items() if count}
        absent = self.query.terms.keys() - occurring - self.query.names if self.known_names else ()
        words = (term for term in absent if term.isascii() and term.isalpha())
        return dict.fromkeys(words, _ABSENT) | dict.fromkeys(self.known_names, _NAME)

    @cached_property
    def _unknown_words(self) -> dict[str, float]:
        """The weight, in words, of each name and each Chinese pair of characters that no passage has."""
        occurring = {term for term, count in self.counts.counts.items() if count}
        weights = dict.fromkeys(self.query.names - occurring, _NAME)
        for chain in self.query.chains:
            for occurs, group in groupby(range(len(chain)), lambda n, chain=chain: chain[n] in occurring):  # type: ignore[misc]
                if not occurs:
                    weights.update(_share(chain, list(group)))
        return weights


def _share(chain: Sequence[str], unknown: Sequence[int]) -> dict[str, float]:
    """Return the number of words that each pair in a row of unknown pairs of characters represents.

    A character that also belongs to a known pair beside the row is not counted: an unknown pair between two known
    pairs lies across two words and represents no word.
    """
    n_neighbours = (unknown[0] > 0) + (unknown[-1] + 1 < len(chain))
    hidden = len(chain[unknown[0]]) + len(unknown) - 1 - n_neighbours
    return {chain[n]: hidden / 2 / len(unknown) for n in unknown}


T = TypeVar("T")

_DAMPING = 60
"""The usual constant of reciprocal rank fusion: the first few ranks of a list do not outweigh all other ranks."""


def fuse_ranks(rankings: Iterable[Sequence[T]]) -> list[T]:
    """Merge rankings by the sum of `1 / (60 + rank)`; ties are in the order of first occurrence."""
    scores: dict[T, float] = defaultdict(float)
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] += 1 / (_DAMPING + rank)
    return sorted(scores, key=lambda item: -scores[item])
