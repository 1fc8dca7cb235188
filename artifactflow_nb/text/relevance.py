"""How well a passage answers a question, from counted words alone.

A word counts by its rarity among the passages that were searched. A passage is ranked by the words that it and its
headings share with the question (after BM25F: Robertson and Zaragoza, 2009). Whether it answers at all is a second
question: then the words that are *missing* count, the more the rarer they are.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise

from artifactflow_nb.text.mentions import is_mention
from artifactflow_nb.text.wordlists import STOP_WORDS
from artifactflow_nb.text.words import Query, n_words

_SATURATION = 1.2
_USUAL_TERMS = 110  # words of an ordinary passage
_MIN_PASSAGES = 60  # rarity says little in fewer passages: they are counted as this many
_ALIKE, _MEANT = 0.4, 0.75  # what another word for a term counts: for the rank, and where words are missed
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

    @property
    def all(self) -> set[str]:
        """Each of them once."""
        return {*self.title, *self.heading, *self.body}


def count_words(query: Query, texts: Iterable[Words]) -> WordCounts:
    """Count the question's words in these passages: where no index has counted them in all."""
    asked = {**query.terms, **query.hints, **query.alike}
    counts: Counter[str] = Counter(dict.fromkeys(asked, 0))
    n = 0
    for words in texts:
        n += 1
        present = words.all
        counts.update(term for term in asked if term in present)
        counts.update(f"{a} {b}" for a, b in query.phrases if next_to(words.body, a, b))
    return WordCounts(n, counts)


def next_to(body: Sequence[str], a: str, b: str) -> bool:
    """Whether `b` follows `a` somewhere."""
    return any(first == a and second == b for first, second in pairwise(body))


@dataclass(frozen=True)
class Scorer:
    """Weighs words and ranks passages for one question.

    Attributes:
        query: The question.
        counts: How common its words are.
    """

    query: Query
    counts: WordCounts

    @cached_property
    def weights(self) -> dict[str, float]:
        """How much each term, hint and other word of the question counts: its share in it times its rarity."""
        asked = {**self.query.hints, **self.query.terms}
        weights = {
            term: share * self.counts.rarity(term) * self._unknown_words.get(term, 1.0) for term, share in asked.items()
        }
        for other, term in self.query.alike.items():
            rarity = min(self.counts.rarity(other), self.counts.rarity(term), self.counts.rarest)
            weights[other] = _ALIKE * self.query.terms[term] * rarity
        return weights

    @cached_property
    def total(self) -> float:
        """The weight of all terms of the question, hints apart; never 0."""
        return sum(self.weights[term] for term in self.query.terms) or 1.0

    def held(self, found: Iterable[str]) -> float:
        """The weight of the question's terms and hints among these words."""
        present = set(found)
        return sum(weight for term, weight in self.weights.items() if term in present)

    def rank(self, words: Words) -> float:
        """The passage's rank among others: 0 if it shares no word with the question."""
        body = Counter(words.body)
        length = _length(n_words(words.body), _USUAL_TERMS)
        total = 0.0
        for term, weight in self.weights.items():
            often = body[term] / length + _HEADING * (term in words.heading)
            total += weight * (_saturated(often) + _TITLE * (term in words.title))
        phrases = self.phrases((*words.heading, "", *words.body)) + _NAMED * self.phrases(words.title)
        return (total + _PHRASE * phrases) * (1 + _PRECISION * self.precision(words.title))

    def often(self, body: Sequence[str], n_words: float, usual: int) -> float:
        """How often a text says the question's terms, weighed and saturated.

        Args:
            body: The words of it that were read.
            n_words: How many words it has in all.
            usual: How many an ordinary text has.
        """
        counted = Counter(body)
        length = _length(n_words, usual)
        return sum(self.weights[term] * _saturated(counted[term] / length) for term in self.query.terms)

    def phrases(self, body: Sequence[str]) -> float:
        """The rarity of the question's phrases that the text holds, added up."""
        known = ((a, b, f"{a} {b}") for a, b in self.query.phrases)
        return sum(self.counts.rarity(ab) for a, b, ab in known if self.counts.counts.get(ab) and next_to(body, a, b))

    def precision(self, title: Sequence[str]) -> float:
        """The share of the title's words that the question names, 0 to 1."""
        words = set(title)
        # A mentioned word stands in the title twice: as itself and as a mention.
        said = {term for term in words if term not in STOP_WORDS and not (is_mention(term) and term[1:-1] in words)}
        said |= {term for term in words if is_mention(term) and term[1:-1] in STOP_WORDS}
        return len(said & self.weights.keys()) / len(said) if said else 0.0

    def coverage(self, found: Iterable[str]) -> float:
        """The share of what the question asks for that these words hold, by weight, 0 to 1."""
        present = set(found)
        meant = {term for other, term in self.query.alike.items() if other in present} - present
        whole = sum(self._missed(term) for term in self.query.terms)
        held = sum(self._missed(term) for term in self.query.terms if term in present)
        held += _MEANT * sum(self._missed(term) for term in meant)
        return held / whole if whole else 0.0

    @cached_property
    def unknown(self) -> float:
        """The share of what the question asks for that occurs in no passage at all, by weight, 0 to 1."""
        return 1.0 - self.coverage(term for term, count in self.counts.counts.items() if count)

    def _missed(self, term: str) -> float:
        """What a term counts where words are missed: one that occurs nowhere no more than one that occurs once."""
        rarity = min(self.counts.rarity(term), self.counts.rarest)
        return self.query.terms[term] * rarity * self._unknown_words.get(term, 1.0)

    @cached_property
    def _unknown_words(self) -> dict[str, float]:
        """How many words each Chinese pair that occurs in no passage stands for."""
        counts, alike = self.counts.counts, self.query.alike
        said = {term for term, count in counts.items() if count} | {alike[t] for t in alike if counts.get(t)}
        found: dict[str, float] = {}
        for chain in self.query.chains:
            for known, group in groupby(range(len(chain)), lambda n, chain=chain: chain[n] in said):  # type: ignore[misc]
                if not known:
                    found.update(_share(chain, list(group)))
        return found


def _share(chain: Sequence[str], unknown: Sequence[int]) -> dict[str, float]:
    """Of neighbouring unknown pairs, each one's share of the words that they hide; two characters are a word.

    Characters that a known pair beside them holds are not hidden: an unknown pair between two known ones hides nothing,
    it only lies across two words.
    """
    beside = (unknown[0] > 0) + (unknown[-1] + 1 < len(chain))
    hidden = len(chain[unknown[0]]) + len(unknown) - 1 - beside
    return {chain[n]: hidden / 2 / len(unknown) for n in unknown}


def _length(n: float, usual: int) -> float:
    return 0.5 + 0.5 * n / usual


def _saturated(often: float) -> float:
    return often * (_SATURATION + 1) / (often + _SATURATION)
