"""Analysis of questions: their parts, references to an earlier question, and whether they ask about readers."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from artifactflow_nb.sources.citations import SourceQuotes
from artifactflow_nb.sources.retrieval.stopwords import STOP_WORDS
from artifactflow_nb.sources.retrieval.terms import Query, parse_query, split_terms

# --- follow-up questions ---------------------------------------------------------------------------------------------

_POINTS_BACK = re.compile(
    r"\b(?:it|its|they|them|their|that|this|these|those|he|she|him|her|former|latter|ones?|same)\b"
    r"|^(?:and|or|but|so|also|what about|how about)\b"
    r"|[它牠]|[他她][们們]|[这這那]|上述|前者|后者|後者|^[^什怎哪谁誰几幾多如何]{1,10}呢\W*$",
    re.IGNORECASE,
)
_MAX_WORDS_OF_FOLLOW_UP = 4


def is_follow_up(question: str) -> bool:
    """Return whether a question refers to an earlier text, because it is very short or has a pronoun."""
    query = parse_query(question)
    strong = [term for term, weight in query.terms.items() if weight >= 1 and term not in STOP_WORDS]
    chinese = {term for chain in query.chains for term in chain}
    n_words = sum(term not in chinese for term in strong) + sum((len(chain) + 1) / 2 for chain in query.chains)
    return n_words <= 1 or (n_words <= _MAX_WORDS_OF_FOLLOW_UP and bool(_POINTS_BACK.search(question)))


# --- parts -----------------------------------------------------------------------------------------------------------

_QUESTION_WORD = r"(?:how|what|when|where|which|whom|whose|who|why)\b"
_QUESTION_WORD_ZH = (
    "(?:以及|并且|並且|而且|还有|還有|又)?(?:[谁誰何哪]|什么|什麼|怎[么麼样樣]|如何|为什么|為什麼|多[少久]|是否)"
)
_BOUNDARY = re.compile(
    rf"(?:[,;]\s*|\s)(?:and|but|or)\s+(?={_QUESTION_WORD})|[,;]\s*(?={_QUESTION_WORD})"
    rf"|[，；、]\s*(?={_QUESTION_WORD_ZH})|(?<=[?？])\s*(?=[^\s?？])",
    re.IGNORECASE,
)
_ANSWERED_SHARE = 0.5  # share of a part's words in one sentence from which on the part counts as answered

Answer = Callable[[Query, str, int], list[SourceQuotes]]
"""Quotes the sources for a parsed question and its text, with at most this number of sentences."""


def split_question(question: str) -> list[str]:
    """Split a question into its independent parts."""
    parts = [" ".join(part.split()).strip(" ,;，；") for part in _BOUNDARY.split(question)]
    return parts if len(parts) > 1 else [question]


def add_quotes_for_parts(
    whole: Sequence[SourceQuotes], question: str, max_sentences: int, answer: Answer
) -> list[SourceQuotes]:
    """Add quotes for those parts of a question that the quotes for the whole question do not answer."""
    quotes, previous = list(whole), ""
    parts = split_question(question)
    for part in parts if len(parts) > 1 else ():
        known = {sentence for entry in quotes for sentence in entry.sentences}
        query = parse_query(part, previous if is_follow_up(part) else "")
        if len(known) < max_sentences and not any(_share(query, text) >= _ANSWERED_SHARE for text in known):
            for entry in answer(query, part, max_sentences - len(known)):
                new = tuple(sentence for sentence in entry.sentences if sentence not in known)
                place = next((n for n, other in enumerate(quotes) if other.address == entry.address), None)
                if new and place is None:
                    quotes.append(replace(entry, sentences=new))
                elif new and place is not None:
                    quotes[place] = replace(quotes[place], sentences=(*quotes[place].sentences, *new))
        previous = part
    return quotes


def _share(query: Query, sentence: str) -> float:
    """Return the weighted share of a query's terms in a sentence, synonyms included."""
    terms = set(split_terms(sentence))
    terms |= {query.synonyms[term] for term in terms if term in query.synonyms}
    total = sum(query.terms.values())
    return sum(weight for term, weight in query.terms.items() if term in terms) / total if total else 1.0


# --- questions about readers -----------------------------------------------------------------------------------------

CONSUMER, GENERAL = "consumer", "general"
"""The kinds of research: about the readers of a document, and about everything else."""

_READERS = "(?:audience|readership|readers?|users?|customers?|consumers?|buyers?|target group)"
_ABOUT_READERS = re.compile(
    rf"^(?:(?:the|our|my|its|your|a|an|intended|target|typical) )*{_READERS}"
    r"(?:,? (?:of|for|who|and|that|they|need|know|want|expect|doubt|say|ask|are)\b.*)?$"
    rf"|\bwhat (?:do |does )?(?:(?:the|our|my|its) )?{_READERS} "
    r"(?:needs?|knows?|wants?|expects?|doubts?|says?|asks?)\b"
    r"|\bwho (?:(?:will|would|might|does|do|should) )?(?:reads?|uses?|buys?)\b"
    r"|\bwho (?:is (?:it|this)|it is|this is) for\b"
    r"|受众|受眾|读者|讀者|用户|用戶|目标人群|目標人群|消费者|消費者|顾客|顧客|[谁誰](?:会|會|来|來|要)?(?:读|讀|看|用|买|買)",
    re.IGNORECASE,
)
_PEOPLE = re.compile(
    rf"\b(?:{_READERS}|people|persons?|programmers?|developers?|engineers?|authors?|writers?|students?|learners?"
    r"|beginners?|teachers?|experts?|scientists?|researchers?|staff|teams?|members?|colleagues?|visitors?|children"
    r"|parents|public|anyone|everyone|who|whoever)\b"
    r"|受众|受眾|读者|讀者|用户|用戶|人员|人員|人们|人們|人群|学生|學生|学者|學者|程序员|程式員|开发者|開發者|工程师|工程師|作者|老师|老師|教师|教師|专家|專家"
    r"|同事|成员|成員|员工|員工|顾客|顧客|客户|客戶|消费者|消費者|公众|公眾|孩子|家长|家長",
    re.IGNORECASE,
)


def research_kind(query: str) -> str:
    """Return the kind of research that answers a query."""
    return CONSUMER if _ABOUT_READERS.search(query.strip(" .!?。！？")) else GENERAL


def keep_answers(question: str, quotes: Iterable[SourceQuotes]) -> list[SourceQuotes]:
    """Drop sentences that cannot answer a question: a question about readers needs sentences about people."""
    if any(research_kind(part) == GENERAL for part in split_question(question)):
        return list(quotes)
    entries = (replace(entry, sentences=tuple(filter(_PEOPLE.search, entry.sentences))) for entry in quotes)
    return [entry for entry in entries if entry.sentences]
