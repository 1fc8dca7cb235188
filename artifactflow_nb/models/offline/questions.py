"""Analysis of questions: their parts, and references to an earlier question."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest

from artifactflow_nb.sources.citations import SourceQuotes
from artifactflow_nb.sources.retrieval.terms import STOP_WORDS, Query, parse_query

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
_MIN_FOR_A_PART = 2  # minimum number of sentences

Answer = Callable[[Query, str, int], list[SourceQuotes]]
"""Function that quotes the sources for a parsed question and its text, with a maximum number of sentences."""


def split_question(question: str) -> list[str]:
    """Split a question into its independent parts."""
    parts = [" ".join(part.split()).strip(" ,;，；") for part in _BOUNDARY.split(question)]
    return parts if len(parts) > 1 else [question]


def quotes_for_parts(question: str, earlier_question: str, max_sentences: int, answer: Answer) -> list[SourceQuotes]:
    """Quote the sources for each part of a question, the best source of each part first."""
    parts, previous, answers = split_question(question), earlier_question, list[list[SourceQuotes]]()
    limit = max(_MIN_FOR_A_PART, max_sentences // len(parts))
    for part in parts:
        query = parse_query(part, previous if len(parts) == 1 or is_follow_up(part) else "")
        answers.append(answer(query, part, limit))
        previous = part
    if len(parts) > 1 and not any(answers):
        return answer(parse_query(question, earlier_question), question, max_sentences)
    quotes: dict[str, SourceQuotes] = {}
    for entry in (entry for rank in zip_longest(*answers) for entry in rank if entry is not None):
        quoted = {sentence for other in quotes.values() for sentence in other.sentences}
        earlier = quotes[entry.address].sentences if entry.address in quotes else ()
        new = tuple(sentence for sentence in entry.sentences if sentence not in quoted)
        if earlier or new:
            quotes[entry.address] = replace(entry, sentences=(*earlier, *new))
    return list(quotes.values())
