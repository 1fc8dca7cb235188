"""The choice of the sentences that are quoted.

A sentence counts by the words of the question that it holds itself, by those that its paragraph, its heading and its
passage hold, and by words that go with them in these documents; then by what kind of a sentence it is.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from artifactflow_nb.text.chinese import is_character
from artifactflow_nb.text.cues import leans, worth
from artifactflow_nb.text.dissect import Dissected, Spoken
from artifactflow_nb.text.mentions import is_mention, mention
from artifactflow_nb.text.relevance import Scorer
from artifactflow_nb.text.sentences import Sentence
from artifactflow_nb.text.wordlists import STOP_WORDS
from artifactflow_nb.text.words import n_words

_HEADING, _NEAR, _RELATED, _PHRASE = 0.4, 0.2, 0.6, 0.5
_PASSAGE, _SUBJECT, _OPENING, _ASIDE = 0.35, 0.5, 0.3, 0.25
_SILENT = 0.6  # it has no word of the question
_NEW = 0.4  # of what the sentences chosen before do not say
_SUBJECT_WORDS = 7  # a sentence's subject stands among its first words
_TOGETHER, _TOGETHER_SHARE = 3, 0.3  # how often, and how exclusively, two words go together to be related
_LEAST_LETTERS = 3
_SHORT, _USUAL = 12, 25  # words of a sentence


def related_words(scorer: Scorer, documents: Iterable[Dissected]) -> dict[str, float]:
    """Words that share their sentences with a word of the question, with what each counts.

    `frost` goes with `winter` wherever a text is about either; nobody has to tell.
    """
    single: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    asked = [term for term, share in scorer.query.terms.items() if share >= 1 and not is_mention(term)]
    for document in documents:
        for one in document.spoken:
            said = {term for term in one.terms if len(term) >= _LEAST_LETTERS and not is_mention(term)} - STOP_WORDS
            single.update(said)
            pairs.update((term, other) for term in asked if term in said for other in said if other != term)
    found: dict[str, float] = {}
    for (term, other), n in pairs.items():
        share = 2 * n / (single[term] + single[other])
        if n >= _TOGETHER and share >= _TOGETHER_SHARE and other not in scorer.weights:
            found[other] = max(found.get(other, 0.0), _RELATED * share * scorer.weights[term])
    return found


@dataclass(frozen=True, slots=True)
class Rated:
    """A sentence with its rank among all that could be quoted for a question.

    Attributes:
        sentence: The sentence.
        score: Its rank; higher is better.
        terms: Its words.
        before: The sentence before it in its paragraph, if it points back to that: they are quoted together.
    """

    sentence: Sentence
    score: float
    terms: tuple[str, ...]
    before: Sentence | None


def rate(scorer: Scorer, document: Dissected, question: str, related: Mapping[str, float]) -> list[Rated]:
    """The document's sentences, best first, each once.

    Args:
        scorer: Weighs the words of the question.
        document: The document, with at least one sentence.
        question: The question as it was asked.
        related: What `related_words` gave.
    """
    ranks = [scorer.rank(words) for words in document.words]
    best = max(ranks, default=0.0) or 1.0
    before: Spoken | None = None
    rated: dict[str, Rated] = {}
    for one in document.spoken:
        base = before if leans(one.sentence.quote) else None
        score = (
            _rank(scorer, one, related, frozenset(base.terms if base else ())) + _PASSAGE * ranks[one.passage] / best
        )
        score *= worth(one.sentence.quote, one.sentence.label, question) * (_ASIDE if one.aside else 1.0)
        score *= 1.0 if one.opens or scorer.held(one.terms) else _SILENT
        together = base.sentence if base and base.sentence.block == one.sentence.block else None
        rated.setdefault(one.sentence.quote, Rated(one.sentence, score, one.terms, together))
        before = one
    return sorted(rated.values(), key=lambda each: -each.score)


def choose(scorer: Scorer, rated: Sequence[Rated], limit: int, least: float) -> list[Sentence]:
    """The best of the rated sentences, at most `limit`: one that only says again what others said counts for less."""
    kept: dict[Sentence, None] = {}
    said: set[str] = set()
    left = [each for each in rated if each.score >= least]
    while left and len(kept) < limit:
        best = max(left, key=lambda each: each.score + _NEW * scorer.held(set(each.terms) - said) / scorer.total)
        left.remove(best)
        whole = dict.fromkeys(filter(None, (best.before, best.sentence)))
        if len(kept | whole) <= limit:
            kept |= whole
            said.update(best.terms)
    return list(kept)


def _rank(scorer: Scorer, one: Spoken, related: Mapping[str, float], leaned: AbstractSet[str]) -> float:
    own = set(one.terms)
    near = (one.paragraph | leaned) - own - one.heading
    total = scorer.held(own) + _HEADING * scorer.held(one.heading - own) + _NEAR * scorer.held(near)
    total += sum(weight for term, weight in related.items() if term in own)
    total += _PHRASE * scorer.phrases(one.terms)
    total /= 0.7 + 0.3 * max(n_words(one.terms), _SHORT) / _USUAL
    return (total + _OPENING * scorer.held(one.opens)) / scorer.total + _SUBJECT * _subject(scorer, one)


def _subject(scorer: Scorer, one: Spoken) -> float:
    """How far the sentence's first words are the question's: 1 where they hold all of it and nothing else."""
    first = [term for term in one.terms if not is_mention(term) and not is_character(term)][:_SUBJECT_WORDS]
    telling = [term for term in first if term not in STOP_WORDS or mention(term) in scorer.weights]
    if not telling:
        return 0.0
    asked = {*scorer.query.terms, *(term[1:-1] for term in scorer.query.terms if is_mention(term))}
    exact = sum(term in asked for term in telling) / len(telling)
    marked = {*first, *(term for term in one.terms[: 2 * _SUBJECT_WORDS] if is_mention(term))}
    return exact * sum(scorer.weights[term] for term in scorer.query.terms if term in marked) / scorer.total
