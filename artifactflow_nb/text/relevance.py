"""How well a passage answers a question, from counted words alone.

A word counts by its rarity among the passages that were searched. A passage is ranked by the words that it and its
headings share with the question (after BM25F: Robertson and Zaragoza, 2009). Whether it answers at all is a second
question: then the words that are *missing* count, the more the rarer they are.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from artifactflow_nb.text.mentions import is_mention
from artifactflow_nb.text.wordlists import STOP_WORDS
from artifactflow_nb.text.words import Query

_SATURATION = 1.2
_USUAL_TERMS = 110  # words of an ordinary passage
_MIN_PASSAGES = 60  # rarity says little in fewer passages: they are counted as this many
_TITLE, _HEADING, _PHRASE, _NAMED, _PRECISION = 0.8, 1.5, 0.6, 2.0, 0.3


@dataclass(frozen=True, slots=True)
class WordCounts:
    """In how many of the searched passages the words of a question occur.

    Attributes:
        n_passages: How many were searched.
        counts: By term, and by `a b` for a phrase; a term that is not listed was not counted.
    """

    n_passages: int
    counts: Mapping[str, int] = field(default_factory=dict)

    def rarity(self, term: str) -> float:
        """The inverse document frequency: 0 for a word of every passage, the highest for one of none."""
        n = max(self.n_passages, _MIN_PASSAGES)
        count = min(self.counts.get(term, 0), n)
        if not count and is_mention(term):  # where nothing is mentioned, that one is not says nothing
            return 0.0
        return math.log(1 + (n - count + 0.5) / (count + 0.5))

    @property
    def rarest(self) -> float:
        """The rarity of a word of one passage."""
        n = max(self.n_passages, _MIN_PASSAGES)
        return math.log(1 + (n - 0.5) / 1.5)


@dataclass(frozen=True, slots=True)
class Words:
    """The terms of a passage: of its section's title, of the headings that it stands under and its own."""

    title: Sequence[str]
    heading: Sequence[str]
    body: Sequence[str]


def count_words(query: Query, texts: Iterable[Words]) -> WordCounts:
    """Count the question's words in these passages: where no index has counted them in all."""
    asked = {**query.terms, **query.hints}
    counts: Counter[str] = Counter(dict.fromkeys(asked, 0))
    n = 0
    for words in texts:
        n += 1
        present = {*words.title, *words.heading, *words.body}
        counts.update(term for term in asked if term in present)
        counts.update(f"{a} {b}" for a, b in query.phrases if _next_to(words.body, a, b))
    return WordCounts(n, counts)


def _next_to(body: Sequence[str], a: str, b: str) -> bool:
    return any(first == a and second == b for first, second in pairwise(body))


@dataclass(frozen=True, slots=True)
class Scorer:
    """Ranks passages and sentences for one question.

    Attributes:
        query: The question.
        counts: How common its words are.
    """

    query: Query
    counts: WordCounts

    def weight(self, term: str) -> float:
        """How much a term of the question counts: its share in the question times its rarity."""
        return self.asked[term] * self.counts.rarity(term)

    @property
    def asked(self) -> dict[str, float]:
        """The terms and hints of the question."""
        return {**self.query.hints, **self.query.terms}

    def rank(self, words: Words) -> float:
        """The passage's rank among others: 0 if it shares no word with the question."""
        body = Counter(words.body)
        length = 0.5 + 0.5 * len(words.body) / _USUAL_TERMS
        total = 0.0
        for term in self.asked:
            often = body[term] / length + _HEADING * (term in words.heading)
            saturated = often * (_SATURATION + 1) / (often + _SATURATION)
            total += self.weight(term) * (saturated + _TITLE * (term in words.title))
        return (total + self._phrases(words)) * (1 + _PRECISION * self.precision(words.title))

    def whole(self, body: Sequence[str], n_terms: float) -> float:
        """The rank of a whole section of `n_terms` words, of which these were read; an ordinary one has 8 passages."""
        counted = Counter(body)
        length = 0.5 + 0.5 * n_terms / (8 * _USUAL_TERMS)
        return sum(
            self.weight(term) * often * (_SATURATION + 1) / (often + _SATURATION)
            for term in self.asked
            if (often := counted[term] / length)
        )

    def _phrases(self, words: Words) -> float:
        total = 0.0
        for a, b in self.query.phrases:
            if self.counts.counts.get(f"{a} {b}"):
                named, said = _next_to(words.title, a, b), _next_to((*words.heading, "", *words.body), a, b)
                total += _PHRASE * self.counts.rarity(f"{a} {b}") * (said + _NAMED * named)
        return total

    def precision(self, title: Sequence[str]) -> float:
        """The share of the title's words that the question names, 0 to 1."""
        said = {term for term in title if term not in STOP_WORDS}
        return len(said & self.query.terms.keys()) / len(said) if said else 0.0

    def sentence(self, own: Sequence[str], around: Iterable[str] = ()) -> float:
        """A sentence's rank: its own words in full, those that its surroundings add in part."""
        said, near = set(own), set(around)
        total = sum(
            self.weight(term) * (1.0 if term in said else 0.25) for term in self.asked if term in said | near
        )
        total += sum(
            _PHRASE * self.counts.rarity(f"{a} {b}")
            for a, b in self.query.phrases
            if self.counts.counts.get(f"{a} {b}") and _next_to(own, a, b)
        )
        return total / (0.7 + 0.3 * max(len(own), 8) / 25)

    def coverage(self, found: Iterable[str]) -> float:
        """The share of what the question asks for that these words hold, by weight, 0 to 1."""
        present = set(found)
        whole = sum(self._missed(term) for term in self.query.terms)
        return sum(self._missed(term) for term in self.query.terms if term in present) / whole if whole else 0.0

    def _missed(self, term: str) -> float:
        """What a term counts where words are missed: one that occurs nowhere no more than one that occurs once."""
        return self.query.terms[term] * min(self.counts.rarity(term), self.counts.rarest)
