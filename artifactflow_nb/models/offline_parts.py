"""A question that asks several things: what the quotes for the whole of it leave open is answered by itself."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from artifactflow_nb.models.offline_transcript import leans
from artifactflow_nb.text.citations import Quotes
from artifactflow_nb.text.words import Query, query_of, terms

_ASKED = r"(?:how|what|when|where|which|whom|whose|who|why)\b"
_ASKED_ZH = (
    "(?:以及|并且|並且|而且|还有|還有|又)?(?:[谁誰何哪]|什么|什麼|怎[么麼样樣]|如何|为什么|為什麼|多[少久]|是否)"
)
_NEXT = re.compile(
    rf"(?:[,;]\s*|\s)(?:and|but|or)\s+(?={_ASKED})|[,;]\s*(?={_ASKED})"
    rf"|[，；、]\s*(?={_ASKED_ZH})|(?<=[?？])\s*(?=[^\s?？])",
    re.IGNORECASE,
)
_HELD = 0.5  # a part is answered by a sentence that holds this share of what it asks for

Answer = Callable[[Query, str, int], list[Quotes]]
"""What is quoted for a question, given as it is asked for and as it is written: at most so many sentences."""


def parts_of(question: str) -> list[str]:
    """What a question asks one after the other; all of it if that is one thing."""
    parts = [" ".join(part.split()).strip(" ,;，；") for part in _NEXT.split(question)]
    return parts if len(parts) > 1 else [question]


def with_parts(whole: Sequence[Quotes], question: str, most: int, answer: Answer) -> list[Quotes]:
    """The quotes for a question, with more for those of its parts that none of them answers, while there is room."""
    quotes, before = list(whole), ""
    parts = parts_of(question)
    for part in parts if len(parts) > 1 else ():
        said = {sentence for one in quotes for sentence in one.sentences}
        query = query_of(part, before if leans(part) else "")
        if len(said) < most and not any(_share(query, sentence) >= _HELD for sentence in said):
            quotes = _merged([*quotes, *_unsaid(answer(query, part, most - len(said)), said)])
        before = part
    return quotes


def _share(query: Query, sentence: str) -> float:
    """How much of what is asked for a sentence holds."""
    held = set(terms(sentence))
    held |= {query.alike[term] for term in held if term in query.alike}
    total = sum(query.terms.values())
    return sum(weight for term, weight in query.terms.items() if term in held) / total if total else 1.0


def _unsaid(quotes: Sequence[Quotes], said: Collection[str]) -> Iterator[Quotes]:
    for one in quotes:
        if left := tuple(sentence for sentence in one.sentences if sentence not in said):
            yield replace(one, sentences=left)


def _merged(quotes: Sequence[Quotes]) -> list[Quotes]:
    """The sentences of a document together, where it is first quoted."""
    made: dict[str, Quotes] = {}
    for one in quotes:
        known = made.get(one.address)
        made[one.address] = one if known is None else replace(known, sentences=(*known.sentences, *one.sentences))
    return list(made.values())
