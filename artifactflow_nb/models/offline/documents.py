"""Documents in the form that the ranking reads: passages, sentences in their surroundings, and the worth of a sentence.

A statement is a better quote than a cross reference, a line of history or a lead-in, because readers see a quote
without the text around the quote.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from artifactflow_nb.sources.citations import SourceDocument
from artifactflow_nb.sources.retrieval.passages import Passage, split_blocks, split_passages
from artifactflow_nb.sources.retrieval.scoring import PassageTerms
from artifactflow_nb.sources.retrieval.sentences import Sentence, sentences_in_blocks
from artifactflow_nb.sources.retrieval.terms import split_terms

# --- the worth of a sentence -----------------------------------------------------------------------------------------

_ELSEWHERE = re.compile(
    r"^(?:see\b|refer to\b|compare with\b|for (?:(?:more|full|further|a|an|the|additional)\b.{0,60}?\b(?:see|refer)\b)"
    r"|more (?:details|information)\b|details (?:of|on|about)\b|\*\*PEP \d+"
    r"|(?:更多|详细|詳細)[^。]{0,12}(?:见|見|参|參)"
    r"|[请請]?(?:参见|參見|参阅|參閱|参照|參照|参考|參考|另见|另見|详见|詳見))"
    r"|\b(?:is|are|be) (?:described|documented|discussed|explained|listed|given|defined) (?:\w+ ){0,2}"
    r"(?:in|below|above|elsewhere|earlier)\b"
    r"|[见見]第?[^，。]{1,10}[章节節条條]。$"
    r"|\brefer to (?:the )?\S+(?: \S+){0,4}\.$|\b(?:see|refer to) (?:section|chapter|the section)\b[^()]*\.$",
    re.IGNORECASE,
)
_HISTORY = re.compile(r"(?:changed|new|added|deprecated|removed) (?:in|since) version\b", re.IGNORECASE)
_POINTER = re.compile(
    r"\b(?:follow(?:s|ing)|below|examples?|here|e\.g|code|like this|this|these)\b|以下|如下|例如", re.IGNORECASE
)
_HOW_MUCH = (
    "how (?:much|many|long|often|far|old|tall|big|large|deep|heavy|wide|high|close|late|early|soon|fast|loud|strong"
    "|quickly)|(?:what|which) (?:time|date|day|month|year|temperature|percentage|price|age|size)"
)
_ASKS_FOR_A_FIGURE_FIRST = re.compile(rf"(?:(?:for|at|after|by|in|from|and) )?(?:{_HOW_MUCH})\b", re.IGNORECASE)
_FIGURE = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|hundred|thousand|once"
    r"|twice|half|daily|weekly|monthly|yearly|hourly|every|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|noon|midnight"
    r"|january|february|april|june|july|august|september|october|november|december)\b|[二两兩三四五六七八九十百千万萬半]|一(?=[个個天年月周週次小分秒名位份间間倍式])",
    re.IGNORECASE,
)
_ELSEWHERE_WORTH, _HISTORY_WORTH, _QUESTION_WORTH, _POINTER_WORTH = 0.4, 0.5, 0.5, 0.3


def worth(sentence: str, label: str) -> float:
    """Return the worth of a sentence as a quote; an ordinary sentence has 1.

    `label` has the words before the sentence in the paragraph, such as `Changed in version 3.1:`.
    """
    factor = 1.0
    if _ELSEWHERE.search(sentence):
        factor *= _ELSEWHERE_WORTH
    if _HISTORY.search(label) or _HISTORY.match(sentence):
        factor *= _HISTORY_WORTH
    if sentence.endswith(("?", "？")):
        factor *= _QUESTION_WORTH
    if sentence.endswith((":", "：")) and _POINTER.search(sentence):
        factor *= _POINTER_WORTH
    return factor


def has_figure(question: str, sentence: str) -> bool:
    """Return whether a sentence has a figure, or the question asks for no figure."""
    return not _ASKS_FOR_A_FIGURE_FIRST.match(question) or _FIGURE.search(sentence) is not None


# --- documents -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlacedSentence:
    """A sentence in its surroundings.

    Attributes:
        sentence: The sentence.
        terms: The terms of the sentence.
        paragraph: The terms of the paragraph or list item.
        heading: The terms of the headings above the sentence.
        passage: The index of the sentence's passage in the document.
    """

    sentence: Sentence
    terms: tuple[str, ...]
    paragraph: frozenset[str]
    heading: frozenset[str]
    passage: int


@dataclass(frozen=True)
class ParsedDocument:
    """A document with its parts.

    Attributes:
        source: The document.
        anchor: The terms of the anchor.
        title: The terms of the document's own title.
        passages: The passages.
        words: The terms of each passage.
        sentences: The quotable sentences.
    """

    source: SourceDocument
    anchor: tuple[str, ...]
    title: tuple[str, ...]
    passages: tuple[Passage, ...]
    words: tuple[PassageTerms, ...]
    sentences: tuple[Sentence, ...]

    @cached_property
    def placed_sentences(self) -> tuple[PlacedSentence, ...]:
        """The sentences of the document in their surroundings; computed on demand: most documents are not quoted."""
        terms = [tuple(split_terms(sentence.quote)) for sentence in self.sentences]
        paragraphs: dict[int, set[str]] = {}
        for sentence, own in zip(self.sentences, terms, strict=True):
            paragraphs.setdefault(sentence.block, set()).update(own)
        index = 0
        placed: list[PlacedSentence] = []
        for sentence, own in zip(self.sentences, terms, strict=True):
            while index + 1 < len(self.passages) and self.passages[index + 1].start <= sentence.start:
                index += 1
            placed.append(
                PlacedSentence(
                    sentence=sentence,
                    terms=own,
                    paragraph=frozenset(paragraphs[sentence.block]),
                    heading=frozenset(self.words[index].heading),
                    passage=index,
                )
            )
        return tuple(placed)


def parse_document(source: SourceDocument) -> ParsedDocument:
    """Parse a document once for the ranking and for quotes."""
    context, _, own_title = source.title.rpartition(": ")
    anchor, title = tuple(split_terms(source.address.partition("#")[2])), tuple(split_terms(own_title))
    blocks = split_blocks(source.text)
    passages = tuple(split_passages(source.text, blocks))
    words = tuple(
        PassageTerms(
            (*anchor, *title),
            (*split_terms(context), *split_terms(passage.heading)),
            tuple(split_terms(source.text[passage.start : passage.end])),
        )
        for passage in passages
    )
    sentences = tuple(sentences_in_blocks(source.text, blocks))
    return ParsedDocument(source, anchor, title, passages, words, sentences)
