"""Documents as the ranking sees them: passages, sentences in their surroundings, and the worth of a sentence.

A definition or a statement of what happens is a better quote than a cross reference, a line of history or a part of an
argument, because readers see a quote without the text around it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from artifactflow_nb.sources.citations import SourceDocument
from artifactflow_nb.sources.retrieval.passages import Passage, TextBlock, split_blocks, split_passages
from artifactflow_nb.sources.retrieval.scoring import PassageTerms
from artifactflow_nb.sources.retrieval.sentences import Sentence, sentences_in_blocks
from artifactflow_nb.sources.retrieval.terms import split_terms, title_terms

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
_BACK_REFERENCE = re.compile(
    r"^(?:this|that|these|those|it|they|he|she|such|otherwise|however|therefore|thus|hence|then|but|also|instead"
    r"|in (?:this|that|these|those|the (?:latter|former|first|second)|both|either) \w+|the (?:latter|former)"
    r"|for (?:example|instance)|similarly|likewise|consequently|as a result|note that this|because of this)\b"
    r"|[这這那此该該其它](?!次|外)|[他她它]们|[他她它]們|否则|否則|但是?|然而|不过|不過|因此|所以|于是|於是|然后|然後|同时|同時|另外|此外|例如|比如"
    r"|反之|前者|后者|後者|超出部分|其余|其餘",
    re.IGNORECASE,
)
_FINITE_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|being|has|have|had|do|does|did|can|cannot|could|may|might|must|shall|should|will"
    r"|would|\w{2,}(?:s|ed|n't|n’t))\b"
)
_CONDITION = re.compile(
    r"\b(?:if|when|whenever|unless|otherwise|once|until|after|before|while)\b"
    r"|如果|如有|若|一旦|除非|否则|否則|[时時][，,]|的时候|的時候|[以之][后後前]|出现|出現|发现|發現|[失故]败|失敗",
    re.IGNORECASE,
)
_ASKS_FOR_EVENTS = re.compile(
    r"\b(?:when|happens?|behaves?|if|raises?|fails?|case)\b|如果|时候|時候|时会|時會|发生|發生|怎么办|怎麼辦|怎么处理|怎麼處理"
    r"|了(?:以后|之后|以後|之後)?(?:应该|應該|该|該|要)?(?:怎么|怎麼|如何)",
    re.IGNORECASE,
)
_ASKS_FOR_DEFINITION = re.compile(
    r"^(?:(?:what|who)(?:['’]s|\s+(?:is|are|was|were))\b|explain\b|describe\b|define\b"
    r"|what (?:does|do|did)\b.*\b(?:mean|do|stand for)\W*$)|\bwhat\b.*\bused for\W*$"
    r"|什么是|什麼是|是什么|是什麼|是谁|是誰|什么意思|什麼意思|做什么|做什麼|干什么|幹什麼",
    re.IGNORECASE,
)
_HOW_MUCH = (
    "how (?:much|many|long|often|far|old|tall|big|large|deep|heavy|wide|high|close|late|early|soon|fast)"
    "|(?:what|which) (?:time|date|day|month|year|temperature|percentage|price|age|size)"
)
_ASKS_FOR_FIGURES = re.compile(
    rf"\b(?:{_HOW_MUCH}|when|at what|cost)\b"
    r"|多少|[几幾][^乎何]|多[久长長高宽寬大远遠重快满滿]|什么时候|什麼時候|何时|何時|哪一?[天年月日周個个]",
    re.IGNORECASE,
)
_ASKS_FOR_A_FIGURE_FIRST = re.compile(rf"(?:(?:for|at|after|by|in|from|and) )?(?:{_HOW_MUCH})\b", re.IGNORECASE)
_FIGURE = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|hundred|thousand|once"
    r"|twice|half|daily|weekly|monthly|yearly|hourly|every|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|noon|midnight"
    r"|january|february|april|june|july|august|september|october|november|december)\b|[二两兩三四五六七八九十百千万萬半]|一(?=[个個天年月周週次小分秒名位份间間倍式])",
    re.IGNORECASE,
)
_ASKS_FOR_TROUBLE = re.compile(
    r"\b(?:errors?|exceptions?|wrong|thrown?|throws|rais(?:es?|ed)|fail(?:s|ed)?|happens?|if|complains?)\b",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"\w(?:Error|Exception|Iteration|Interrupt)\b|\b(?:rais|fail|error|exception|illegal|invalid|discard|reject|refus|abort)"
)
_ASKS_FOR_REASON = re.compile(r"\b(?:why|reasons?)\b", re.IGNORECASE)
_REASON = re.compile(
    r"\b(?:because|since|so that|in order to|therefore|reason|thus|hence|due to|means that|otherwise|must|not)\b",
    re.IGNORECASE,
)
# A question, a sentence of the kind that answers it, and the worth of such a sentence.
_ANSWERS = (
    (_ASKS_FOR_EVENTS, _CONDITION, 1.3),
    (_ASKS_FOR_TROUBLE, _TROUBLE, 1.2),
    (_ASKS_FOR_REASON, _REASON, 1.2),
    (_ASKS_FOR_FIGURES, _FIGURE, 1.2),
)
_ELSEWHERE_WORTH, _HISTORY_WORTH, _BACK_REFERENCE_WORTH, _FRAGMENT_WORTH, _QUESTION_WORTH = 0.4, 0.5, 0.9, 0.6, 0.5
_POINTER_WORTH, _LEAD_IN_WORTH = 0.3, 0.9


def worth(sentence: str, label: str, question: str) -> float:
    """Return the worth of a sentence as a quote, 1 for an ordinary one.

    Args:
        sentence: The sentence.
        label: The words before it in its paragraph, such as `Changed in version 3.1:`.
        question: The question.
    """
    factor = 1.0
    if _ELSEWHERE.search(sentence):
        factor *= _ELSEWHERE_WORTH
    if _HISTORY.search(label) or _HISTORY.match(sentence):
        factor *= _HISTORY_WORTH
    if refers_back(sentence):
        factor *= _BACK_REFERENCE_WORTH
    if sentence.isascii() and not _FINITE_VERB.search(sentence):
        factor *= _FRAGMENT_WORTH
    if sentence.endswith(("?", "？")):
        factor *= _QUESTION_WORTH
    if sentence.endswith((":", "：")):
        factor *= _POINTER_WORTH if _POINTER.search(sentence) else _LEAD_IN_WORTH
    for asks, answers, kind_worth in _ANSWERS:
        if asks.search(question) and answers.search(sentence):
            factor *= kind_worth
    return factor


def asks_for_definition(question: str) -> bool:
    """Return whether a question asks what something is or does."""
    return _ASKS_FOR_DEFINITION.search(question) is not None


def has_figure(question: str, sentence: str) -> bool:
    """Return whether a sentence has a figure, or the question asks for none."""
    return not _ASKS_FOR_A_FIGURE_FIRST.match(question) or _FIGURE.search(sentence) is not None


def refers_back(sentence: str) -> bool:
    """Return whether a sentence refers to the one before it, like `It melts at once`."""
    return _BACK_REFERENCE.match(sentence) is not None


# --- documents -------------------------------------------------------------------------------------------------------

_ASIDE = re.compile(
    r"(?:see also|related(?: \w+)?|further reading|references?|bibliography|links"
    r"|参见|參見|另见|另見|相关(?:链接|文档|资料)|相關(?:連結|文件|資料)|延伸阅读|延伸閱讀|参考(?:资料|文献)?|參考(?:資料|文獻)?)\W*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PlacedSentence:
    """A sentence in its surroundings.

    Attributes:
        sentence: The sentence.
        terms: Its own terms.
        paragraph: The terms of its paragraph or list item.
        heading: The terms of the headings above it.
        passage: The index of its passage in the document.
        is_aside: Whether its paragraph only refers to another place.
        opens: The terms of the title or heading whose first sentence it is; otherwise empty.
    """

    sentence: Sentence
    terms: tuple[str, ...]
    paragraph: frozenset[str]
    heading: frozenset[str]
    passage: int
    is_aside: bool
    opens: frozenset[str]


@dataclass(frozen=True)
class ParsedDocument:
    """A document with its parts.

    Attributes:
        source: The document.
        anchor: The terms of its anchor.
        title: The terms of its own title.
        passages: Its passages.
        words: The terms of each passage.
        sentences: Its quotable sentences.
        asides: The starts of the paragraphs that only refer to another place.
    """

    source: SourceDocument
    anchor: tuple[str, ...]
    title: tuple[str, ...]
    passages: tuple[Passage, ...]
    words: tuple[PassageTerms, ...]
    sentences: tuple[Sentence, ...]
    asides: frozenset[int]

    def with_passages(self, places: Sequence[int]) -> "ParsedDocument":
        """Copy with only these passages, by index, and the sentences in them."""
        passages = tuple(self.passages[place] for place in places)
        inside = tuple(s for s in self.sentences if any(p.start <= s.start < p.end for p in passages))
        return replace(self, passages=passages, words=tuple(self.words[place] for place in places), sentences=inside)

    @cached_property
    def placed_sentences(self) -> tuple[PlacedSentence, ...]:
        """The sentences of the document in their surroundings; computed on demand, because most are never quoted."""
        terms = [tuple(split_terms(sentence.quote)) for sentence in self.sentences]
        paragraphs: dict[int, set[str]] = {}
        for sentence, own in zip(self.sentences, terms, strict=True):
            paragraphs.setdefault(sentence.block, set()).update(own)
        place, previous_heading = 0, ""
        placed: list[PlacedSentence] = []
        for sentence, own in zip(self.sentences, terms, strict=True):
            while place + 1 < len(self.passages) and self.passages[place + 1].start <= sentence.start:
                place += 1
            heading = self.passages[place].heading
            opens = title_terms(heading.rpartition(" / ")[2]) if heading != previous_heading else []
            previous_heading = heading
            placed.append(
                PlacedSentence(
                    sentence=sentence,
                    terms=own,
                    paragraph=frozenset(paragraphs[sentence.block]),
                    heading=frozenset(self.words[place].heading),
                    passage=place,
                    is_aside=sentence.block in self.asides,
                    opens=frozenset(opens if placed else (*self.anchor, *self.title, *opens)),
                )
            )
        return tuple(placed)


def parse_document(source: SourceDocument) -> ParsedDocument:
    """Parse a document once for the ranking and for quotes."""
    context, _, own_title = source.title.rpartition(": ")
    anchor, title = tuple(title_terms(source.address.partition("#")[2])), tuple(title_terms(own_title))
    blocks = split_blocks(source.text)
    passages = tuple(split_passages(source.text, blocks))
    words = tuple(
        PassageTerms(
            (*anchor, *title),
            (*split_terms(context), *title_terms(passage.heading)),
            tuple(split_terms(source.text[passage.start : passage.end])),
        )
        for passage in passages
    )
    sentences = tuple(sentences_in_blocks(source.text, blocks))
    opening: TextBlock | None = None  # a line such as "See also:"; text indented or listed below it is an aside
    asides: set[int] = set()
    for block in blocks:
        if opening is not None:
            is_sibling = block.indent == opening.indent and block.kind == "prose"
            if block.kind == "heading" or block.indent < opening.indent or is_sibling:
                opening = None
        if _ASIDE.fullmatch(source.text[block.start : block.end].strip().strip("#*:： ")):
            opening = block
        elif opening is not None:
            asides.add(block.start)
    return ParsedDocument(source, anchor, title, passages, words, sentences, frozenset(asides))
