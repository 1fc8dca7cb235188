"""The documents that answer a question, and the sentences that are quoted from them.

The score of a document depends on its two best passages, its title, and the share of the question that one sentence and
the whole document cover, where rare words have the largest weights. The weights were fitted on the questions of the
tests and rounded. The score of a sentence depends on the words of the question in the sentence, its paragraph, heading
and passage, and on the worth of the sentence as a quote.

Rules that were measured and left out: more weight for the words of the previous sentence (of 357 questions 201 got the
fact, and 202 without the rule), weights for words that are rare within the document (199), words that often occur with
the words of the question, and lower or higher ranks for asides, definitions and conditions (206 with these four rules,
209 without, of the questions of the tests). A sentence about the opposite still comes first: "was false", where the
question has "returns true".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from artifactflow_nb.models.offline.documents import (
    ParsedDocument,
    has_figure,
    parse_document,
    worth,
)
from artifactflow_nb.sources.citations import SourceDocument, SourceQuotes
from artifactflow_nb.sources.retrieval.scoring import Scorer, WordCounts, count_words
from artifactflow_nb.sources.retrieval.sentences import Sentence
from artifactflow_nb.sources.retrieval.terms import Query, split_terms, word_count

MAX_SENTENCES = 6
"""Number of sentences that are quoted unless another number is requested."""

# --- documents -------------------------------------------------------------------------------------------------------

_MAX_SOURCES = 4
_SOURCE_SHARE = 0.6  # a further source must reach this share of the best source's score

# A document scores by its best two passages, by a title that has only words of the question, and by the shares of the
# question in one sentence with headings and in the document: words that lie far apart rarely answer a question.
_BEST, _SECOND, _EXACT, _TOGETHER, _ANYWHERE = 2.5, 1.35, 0.75, 1.4, 1.3

# The evidence that a document answers is the share of the question in one passage, less a part of the share that no
# source has, plus a part of the best passage's rank. A logistic regression found both parts: on questions that six
# folders answer or do not answer, and on questions about one folder that were put to another.
_UNKNOWN, _STRENGTH = -0.24, 0.28
# The least evidence grows with the logarithm of the number of passages, because among many passages some share words
# with a question by chance. A quote without the figure that the question asks for needs more evidence.
_MIN_EVIDENCE, _EVIDENCE_PER_SIZE, _EVIDENCE_WITHOUT_FIGURE = 0.43, 0.034, 1.0
_MANY_PASSAGES = 60  # among fewer passages, every second word is rare
_CERTAIN_EVIDENCE = 0.68  # for a second source, and for Chinese pairs, which match by chance even in a small folder


@dataclass(frozen=True, slots=True)
class JudgedDocument:
    """A document with its score and the evidence that the document answers the question."""

    document: ParsedDocument
    score: float
    evidence: float


def best_quotes(
    query: Query,
    sources: Sequence[SourceDocument],
    counts: WordCounts | None = None,
    question: str = "",
    *,
    max_sentences: int = MAX_SENTENCES,
) -> list[SourceQuotes]:
    """Quote the best sentences of the best documents, best first; return no quotes if no document answers.

    Args:
        query: The question.
        sources: The documents in the order of a search.
        counts: Number of passages with each word in all sources; counted in these documents if None.
        question: The text of the question.
        max_sentences: Maximum number of sentences.
    """
    documents = [document for document in map(parse_document, sources) if document.sentences]
    local = count_words(query, [words for document in documents for words in document.words])
    merged = local if counts is None else WordCounts(counts.n_passages, {**local.counts, **counts.counts})
    scorer = Scorer(query, merged)
    judged = sorted((judge(scorer, document) for document in documents), key=lambda entry: -entry.score)
    needed = _MIN_EVIDENCE + _EVIDENCE_PER_SIZE * math.log(max(merged.n_passages, 1))
    if query.chains:
        needed = max(needed, _CERTAIN_EVIDENCE)
    if not judged or judged[0].evidence < needed:
        return []
    further = [
        entry.document
        for entry in judged[1:_MAX_SOURCES]
        if entry.score >= _SOURCE_SHARE * judged[0].score and entry.evidence >= max(needed, _CERTAIN_EVIDENCE)
    ]
    quotes = _quote(scorer, [judged[0].document, *further], max_sentences)
    is_sure = judged[0].evidence >= _EVIDENCE_WITHOUT_FIGURE
    sentences = [sentence for entry in quotes for sentence in entry.sentences]
    looked_at = " ".join(sentences if scorer.known_names else sentences[:1])
    return quotes if is_sure or has_figure(question, looked_at) else []


def missing_words(query: Query, counts: WordCounts | None, quotes: Sequence[SourceQuotes]) -> tuple[str, ...]:
    """Return the words of a question that identify the answer and that no quote has, as the question spells the words.

    The words are names, the rarest words of the sources and, if the question has a known name, words of no source.
    """
    if counts is None or not quotes:
        return ()
    present = {term for entry in quotes for text in (entry.title, *entry.sentences) for term in split_terms(text)}
    rarities = {term: counts.rarity(term) for term in query.terms if counts.counts.get(term)}
    rarest = {term for term, rarity in rarities.items() if rarity == max(rarities.values())}
    words = set(query.names) | (rarest if counts.n_passages >= _MANY_PASSAGES else set())
    words |= query.terms.keys() - rarities.keys() if Scorer(query, counts).known_names else set()
    missing = [term for term, weight in query.terms.items() if weight >= 1 and term in words - present]
    return tuple(dict.fromkeys(query.spellings[term] for term in missing if term.isascii()))


def judge(scorer: Scorer, document: ParsedDocument) -> JudgedDocument:
    """Return the document with its score and the evidence that the document answers the question."""
    ranks = sorted(map(scorer.rank, document.words), reverse=True)
    strength = (_BEST * ranks[0] + _SECOND * sum(ranks[1:2])) / scorer.total_weight
    exact = max(scorer.precision(document.anchor), scorer.precision(document.title))
    together = max(scorer.coverage((*placed.terms, *placed.heading)) for placed in document.placed_sentences)
    anywhere = scorer.coverage(term for words in document.words for term in words.body)
    score = strength + _EXACT * exact + _TOGETHER * together + _ANYWHERE * anywhere
    covered = max(scorer.coverage(words.all_terms) for words in document.words)
    evidence = covered + _UNKNOWN * scorer.unknown_share + _STRENGTH * ranks[0] / scorer.total_weight
    return JudgedDocument(document, score, evidence)


# --- sentences -------------------------------------------------------------------------------------------------------

# At most this number of sentences of the first source: the second source often has a fact that the first lacks.
_FIRST_QUOTES = 4
_SHARE = 0.5  # minimum share of the best sentence's score
_FEW_QUOTES, _FAIR_SHARE = 3, 0.3  # if the first source gives fewer quotes, this share of the best score is enough
_HEADING, _REPEATED, _NEAR, _PHRASE, _PASSAGE = 0.4, 0.7, 0.2, 0.25, 0.35
_UNRELATED = 0.6  # factor for a sentence without a word of the question
_NEW = 0.4  # weight of words of the question that the chosen sentences do not contain
_SHORT_WORDS, _USUAL_SENTENCE_WORDS = 12, 25


@dataclass(frozen=True, slots=True)
class RatedSentence:
    """A quotable sentence with its score.

    Attributes:
        sentence: The sentence.
        score: The score; higher is better.
        terms: The terms of the sentence.
    """

    sentence: Sentence
    score: float
    terms: tuple[str, ...]


def _quote(scorer: Scorer, documents: Sequence[ParsedDocument], room: int) -> list[SourceQuotes]:
    """Quote each document: the best sentence, then others in reading order. The first document gets most quotes."""
    quotes: list[SourceQuotes] = []
    best = 0.0
    for document in documents:
        rated = _rate(scorer, document)
        best = best or rated[0].score
        # An answer about a known name may have no other word of the question.
        share = _FAIR_SHARE if scorer.known_names else _SHARE
        chosen = _choose(scorer, rated, room if quotes else min(_FIRST_QUOTES, room), share * best)
        if not quotes and len(chosen) < min(_FEW_QUOTES, room):
            chosen = _choose(scorer, rated, min(_FEW_QUOTES, room), _FAIR_SHARE * best)
        if chosen:
            sentences = tuple(sentence.quote for sentence in chosen)
            quotes.append(SourceQuotes(document.source.title, document.source.address, sentences))
            room -= len(chosen)
    return quotes


def _rate(scorer: Scorer, document: ParsedDocument) -> list[RatedSentence]:
    """Rate the sentences of a document, best first, without duplicates."""
    ranks = [scorer.rank(words) for words in document.words]
    best = max(ranks, default=0.0) or 1.0
    rated: dict[str, RatedSentence] = {}
    for placed in document.placed_sentences:
        sentence = placed.sentence
        own = set(placed.terms)
        near = placed.paragraph - own - placed.heading
        repeated = own & placed.heading  # words of the heading hardly tell which sentence answers
        score = (
            scorer.matched_weight(own - repeated)
            + _REPEATED * scorer.matched_weight(repeated)
            + _HEADING * scorer.matched_weight(placed.heading - own)
            + _NEAR * scorer.matched_weight(near)
        )
        score += _PHRASE * scorer.phrase_score(placed.terms)
        score /= 0.7 + 0.3 * max(word_count(placed.terms), _SHORT_WORDS) / _USUAL_SENTENCE_WORDS
        score /= scorer.total_weight
        score += _PASSAGE * ranks[placed.passage] / best
        score *= worth(sentence.quote, sentence.label)
        score *= 1.0 if scorer.matched_weight(placed.terms) else _UNRELATED
        rated.setdefault(sentence.quote, RatedSentence(sentence, score, placed.terms))
    return sorted(rated.values(), key=lambda entry: -entry.score)


def _choose(scorer: Scorer, rated: Sequence[RatedSentence], limit: int, min_score: float) -> list[Sentence]:
    """Choose at most `limit` of the best sentences, the best first and the others in reading order.

    A sentence that repeats the words of chosen sentences gets a lower score.
    """
    chosen: list[Sentence] = []
    covered: set[str] = set()
    candidates = [entry for entry in rated if entry.score >= min_score]

    def gain(entry: RatedSentence) -> float:
        return entry.score + _NEW * scorer.matched_weight(set(entry.terms) - covered) / scorer.total_weight

    while candidates and len(chosen) < limit:
        best = max(candidates, key=gain)
        candidates.remove(best)
        chosen.append(best.sentence)
        covered.update(best.terms)
    return [*chosen[:1], *sorted(chosen[1:], key=lambda sentence: sentence.start)]
