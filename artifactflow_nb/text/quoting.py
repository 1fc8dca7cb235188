"""The choice of the sentences that are quoted.

A sentence counts by the words of the question that it holds itself, by those that its paragraph, its heading and its
passage hold, and by words that go with them in these documents; then by what kind of a sentence it is.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from artifactflow_nb.text.cues import worth
from artifactflow_nb.text.dissect import Dissected, Spoken
from artifactflow_nb.text.mentions import is_mention
from artifactflow_nb.text.relevance import Scorer
from artifactflow_nb.text.sentences import Sentence
from artifactflow_nb.text.wordlists import STOP_WORDS

_HEADING, _PARAGRAPH, _RELATED, _PHRASE = 0.45, 0.2, 0.35, 0.5
_PASSAGE, _SUBJECT, _OPENING, _ASIDE = 0.35, 0.5, 0.25, 0.25
_SUBJECT_WORDS = 7  # a sentence's subject stands among its first words
_TOGETHER, _TOGETHER_SHARE = 3, 0.3  # how often, and how exclusively, two words go together to be related
_SHORT, _USUAL = 8, 25  # words of a sentence


def related_words(scorer: Scorer, documents: Iterable[Dissected]) -> dict[str, float]:
    """Words that share their sentences with a word of the question, with what each counts.

    `exception` goes with `raise` wherever a text is about either; nobody has to tell.
    """
    single: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    asked = [term for term, share in scorer.query.terms.items() if share >= 1 and not is_mention(term)]
    for document in documents:
        for one in document.spoken:
            said = {term for term in one.terms if len(term) > 2 and not is_mention(term)} - STOP_WORDS
            single.update(said)
            pairs.update((term, other) for term in asked if term in said for other in said if other != term)
    found: dict[str, float] = {}
    for (term, other), n in pairs.items():
        share = 2 * n / (single[term] + single[other])
        if n >= _TOGETHER and share >= _TOGETHER_SHARE and other not in scorer.weights:
            found[other] = max(found.get(other, 0.0), _RELATED * share * scorer.weights[term])
    return found


def choose(
    scorer: Scorer, document: Dissected, question: str, related: Mapping[str, float], limit: int, enough: float
) -> list[Sentence]:
    """The document's best sentences, at most `limit`, in the text's order.

    Args:
        scorer: Weighs the words of the question.
        document: The document.
        question: The question as it was asked.
        related: What `related_words` gave.
        limit: How many sentences at most.
        enough: The share of the best sentence's rank that a further one must have.
    """
    ranks = [scorer.rank(words) for words in document.words]
    best = max(ranks, default=0.0) or 1.0
    scored = [
        (_rank(scorer, one, related, ranks[one.passage] / best) * _worth(one, question), one) for one in document.spoken
    ]
    scored.sort(key=lambda pair: -pair[0])
    kept: list[Spoken] = []
    for score, one in scored:
        if len(kept) < limit and score > 0 and score >= enough * scored[0][0] and not _repeats(one, kept):
            kept.append(one)
    return sorted((one.sentence for one in kept), key=lambda sentence: sentence.start)


def _worth(one: Spoken, question: str) -> float:
    return worth(one.sentence.quote, one.sentence.label, question) * (_ASIDE if one.aside else 1.0)


def _repeats(one: Spoken, kept: Sequence[Spoken]) -> bool:
    return any(other.sentence.quote == one.sentence.quote for other in kept)


def _rank(scorer: Scorer, one: Spoken, related: Mapping[str, float], passage: float) -> float:
    own = set(one.terms)
    total = scorer.held(own) + _HEADING * scorer.held(one.heading - own)
    total += _PARAGRAPH * scorer.held(one.paragraph - own - one.heading)
    total += sum(weight for term, weight in related.items() if term in own)
    total += _PHRASE * scorer.phrases(one.terms)
    total /= 0.7 + 0.3 * max(len(one.terms), _SHORT) / _USUAL
    return total / scorer.total + _PASSAGE * passage + _SUBJECT * _subject(scorer, one) + _OPENING * one.opens


def _subject(scorer: Scorer, one: Spoken) -> float:
    """How far the sentence's first words are the question's: 1 where they hold all of it and nothing else."""
    first = [term for term in one.terms if not is_mention(term)][:_SUBJECT_WORDS]
    telling = [term for term in first if term not in STOP_WORDS or f"={term}=" in scorer.weights]
    if not telling:
        return 0.0
    asked = {*scorer.query.terms, *(term[1:-1] for term in scorer.query.terms if is_mention(term))}
    exact = sum(term in asked for term in telling) / len(telling)
    marked = {*first, *(term for term in one.terms[: 2 * _SUBJECT_WORDS] if is_mention(term))}
    return exact * sum(scorer.weights[term] for term in scorer.query.terms if term in marked) / scorer.total
