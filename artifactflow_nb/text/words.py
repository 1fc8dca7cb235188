"""Words as they are indexed and asked for.

A text becomes stems of lower-case words. Names of code are kept whole and in parts (`str.__len__` is also `str`,
`__len__` and `len`), Chinese, Japanese and Korean runs become single characters and pairs of characters, and operators
that stand alone are words too.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from artifactflow_nb.text.chinese import ALIKE_PAIRS, CJK, CJK_RUN, WEAK_PAIRS, WRAPPED, characters, pairs, pieces
from artifactflow_nb.text.mentions import is_mention, mention, mentioned, quoted
from artifactflow_nb.text.stem import stem
from artifactflow_nb.text.wordlists import ALIKE, ASKING, STOP_WORDS, WEAK_WORDS

_TOKEN = re.compile(
    rf"(?P<cjk>[{CJK}]+)"
    r"|(?P<number>\d+(?:[.,]\d+)*)"
    rf"|(?P<name>[^\W\d{CJK}]+(?:[^\W{CJK}])*(?:[.’'](?:[^\W\d{CJK}])(?:[^\W{CJK}])*)*)"
    r"|(?P<operator>(?<![\w=<>!*/:-])(?:==|!=|<=|>=|:=|->|\*\*|//|<<|>>|@)(?![\w=<>!*/:-]))"
)
_POSSESSIVE = re.compile(r"[’'](?:s|t|re|ve|ll|d|m)?$")
_CAMEL = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_MIXED = re.compile(r"[a-z][A-Z]")

_MENTIONED, _NAMED, _HINTED = 2.0, 1.0, 0.5  # what mentions count: of a stop word, a word marked as such, any other
_WEAKLY, _SINGLE = 0.3, 0.6  # what weak words and single Chinese characters count
_CHARACTERS_A_WORD = 1.7  # of running Chinese text

_WEAK = frozenset(map(stem, WEAK_WORDS))
_INFLECTION = 4  # letters: `related` is as weak as `relate`, `relational` is another word
_GROUPS = (*ALIKE, *ALIKE_PAIRS)
# By stem: the stems of the words of its groups, each with the word itself.
_ALIKE = {
    stem(word): {
        stem(other): other for group in _GROUPS if word in group for other in group if stem(other) != stem(word)
    }
    for words in _GROUPS
    for word in words
}


@dataclass(frozen=True, slots=True)
class Query:
    """A question as the index sees it.

    Attributes:
        terms: The stems that it asks for, with how much each counts (1 for an ordinary word).
        phrases: Pairs of neighbouring words with at least one that counts: `by hand`.
        hints: Mentions of its words: a passage that sets one in quotation marks or backticks is likely about it.
        alike: Stems of other words for one of its terms, with that term: they stand for it, counting for less.
        spelled: Each term, and each phrase as `a b`, as it was written, for people.
        chains: The pairs of each stretch of Chinese, in order. A pair may be a word or only lie across two.
    """

    terms: dict[str, float] = field(default_factory=dict)
    phrases: tuple[tuple[str, str], ...] = ()
    hints: dict[str, float] = field(default_factory=dict)
    alike: dict[str, str] = field(default_factory=dict)
    spelled: dict[str, str] = field(default_factory=dict)
    chains: tuple[tuple[str, ...], ...] = ()


def terms(text: str) -> list[str]:
    """Every word of the text as the index holds it, in order.

    Parts of a name follow the name; a short quotation is preceded by the mentions of its words.
    """
    normal = WRAPPED.sub("", unicodedata.normalize("NFKC", text))
    quotations = quoted(normal)
    start, pieces = next(quotations, (len(normal), []))
    found: list[str] = []
    for at, kind, word in _tokens(normal):
        while start <= at and pieces:
            found.extend(map(mention, pieces))
            start, pieces = next(quotations, (len(normal), []))
        found.extend(characters(word) if kind == "cjk" else _forms(kind, word))
    return [*found, *map(mention, pieces), *(mention(piece) for _, more in quotations for piece in more)]


def title_terms(title: str) -> list[str]:
    """The terms of a title, with mentions of the words that it speaks of."""
    return [*terms(title), *map(mention, mentioned(title))]


def _tokens(normal: str) -> Iterator[tuple[int, str, str]]:
    for match in _TOKEN.finditer(normal):
        yield match.start(), str(match.lastgroup), match[0]


@lru_cache(maxsize=65536)
def _forms(kind: str, word: str) -> tuple[str, ...]:
    """The term of a word and, for a name of code, those of its parts."""
    if kind != "name":
        return (word,)
    plain = _POSSESSIVE.sub("", word).replace("’", "'")
    lowered = plain.lower()
    if not is_name(plain):
        return (stem(lowered),)
    parts = [piece for dotted in lowered.split(".") for piece in (dotted, *dotted.split("_")) if piece]
    parts += [camel.lower() for camel in _CAMEL.findall(plain)] if _MIXED.search(plain) else []
    unique = dict.fromkeys(part if "_" in part else stem(part) for part in parts)
    unique.pop(lowered, None)
    return (lowered, *unique)


def is_name(word: str) -> bool:
    """Whether the word is a name of code: dotted, with an underscore, or with a capital inside."""
    return "_" in word or "." in word or bool(_MIXED.search(word))


def query_of(question: str, context: str = "") -> Query:
    """What a question asks for; words of `context`, an earlier question, count for less."""
    found: dict[str, float] = {}
    spelled: dict[str, str] = {}
    for text, share in ((question, 1.0), (context, 0.4)):
        for term, weight, word in _weighted(unicodedata.normalize("NFKC", text)):
            if weight * share > found.get(term, 0.0):
                found[term] = weight * share
                spelled.setdefault(term, word)
    if not found:  # every word is a stop word: better those than nothing
        found = {term: 0.5 for term in terms(question) if term not in ASKING}
        spelled = {term: term for term in found}
    phrases = _phrases(question)
    hints = _hints(question, found)
    spelled.update({f"{a} {b}": words for (a, b), words in phrases.items()})
    spelled.update({term: f'"{term[1:-1]}"' if is_mention(term) else term for term in hints})
    alike = {other: term for term in found for other in _ALIKE.get(term, {}) if other not in found}
    spelled.update({other: _ALIKE[term][other] for other, term in alike.items()})
    return Query(found, tuple(phrases), hints, alike, spelled, _chains(f"{question}\n{context}"))


def _weighted(text: str) -> Iterator[tuple[str, float, str]]:
    """Each term of a text that counts, how much, and as it is written."""
    for word in mentioned(text):
        if word.lower() in STOP_WORDS or not word[0].isalnum():
            yield mention(word), _MENTIONED, f'"{word}"'
    for _, kind, word in _tokens(text):
        if kind == "cjk":
            yield from ((pair, _weight_of_pair(pair), pair) for piece in pieces(word) for pair in pairs(piece))
            continue
        whole, *parts = _forms(kind, word)
        if not _says_nothing(word):
            yield whole, _weight(kind, word, whole), word
        # A text that explains `dict.setdefault` may write `setdefault` alone: the last part stands for the name.
        last = whole.rpartition(".")[2] if "." in whole else ""
        for part in parts:
            if part not in STOP_WORDS:
                yield part, 2.0 if part in {last, stem(last)} else 0.5, part


def _hints(question: str, found: dict[str, float]) -> dict[str, float]:
    """What tells of a passage without being asked for, with how much it counts: mentions of the question's words."""
    named = {word.lower() for word in mentioned(question)}
    words = [word for _, kind, word in _tokens(question) if kind == "name" and not _says_nothing(word)]
    plain = [word.lower() for word in words if word.isalnum() and stem(word.lower()) not in _WEAK]
    hints = {mention(word): _NAMED if word in named else _HINTED for word in plain}
    # Two Chinese words of one meaning often share a character.
    chinese = [term for term in found if CJK_RUN.fullmatch(term)]
    weak = {character for term in chinese if term in WEAK_PAIRS for character in term}
    hints |= {character: _HINTED for term in chinese for character in term if character not in weak}
    return {term: weight for term, weight in hints.items() if term not in found}


def _chains(text: str) -> tuple[tuple[str, ...], ...]:
    runs = CJK_RUN.findall(unicodedata.normalize("NFKC", text))
    return tuple(dict.fromkeys(tuple(pairs(piece)) for run in runs for piece in pieces(run)))


def n_words(found: Sequence[str]) -> float:
    """How many words these terms of a text make: a pair is none of its own, a Chinese character a part of one."""
    if "".join(found).isascii():
        return len(found)
    chinese = [len(term) for term in found if CJK_RUN.fullmatch(term)]
    return len(found) - len(chinese) + chinese.count(1) / _CHARACTERS_A_WORD


def _weight_of_pair(pair: str) -> float:
    if len(pair) == 1:
        return _SINGLE
    return _WEAKLY if pair in WEAK_PAIRS else 1.0


def _says_nothing(word: str) -> bool:
    plain = _POSSESSIVE.sub("", word).lower()
    return plain in STOP_WORDS or len(plain) < 1


def _weight(kind: str, word: str, term: str) -> float:
    if kind == "name" and is_name(word):
        return 0.5 if "." in word else 2.0
    if kind == "operator":
        return 0.5
    weak = term in _WEAK and len(word) <= len(term) + _INFLECTION
    return _WEAKLY if weak or (len(word) == 1 and kind == "name") else 1.0


def _phrases(question: str) -> dict[tuple[str, str], str]:
    """Neighbours of which one counts, as written: they find names made of stop words, such as `with statement`."""
    words = [(_forms(kind, word)[0], word, _says_nothing(word)) for _, kind, word in _tokens(question) if kind != "cjk"]
    return {
        (a, b): f"{first} {second}"
        for (a, first, dull), (b, second, dull_too) in pairwise(words)
        if not (dull and dull_too)
    }


def term_of(word: str) -> str:
    """The index's form of one word as a person wrote it; Chinese pairs are their own form, a quoted word a mention."""
    if word.startswith('"'):
        return mention(word.strip('"'))
    if " " in word:
        return " ".join(term_of(part) for part in word.split())
    for _, kind, token in _tokens(word):
        return word if kind == "cjk" else _forms(kind, token)[0]
    return word


def content_words(question: str) -> str:
    """The question without the stop words at its two ends: what one would type into a search box.

    Of those, words that the question speaks of are kept in quotation marks.
    """
    if CJK_RUN.search(question):
        return " ".join(_searched(unicodedata.normalize("NFKC", question)))
    words = question.split()
    named = {word.lower() for word in mentioned(question)}
    telling = [i for i, word in enumerate(words) if _tells(word, named)]
    kept = words[telling[0] : telling[-1] + 1] if telling else []
    return " ".join(_marked(word, named) for word in kept).rstrip("?!.,;:")


def _searched(normal: str) -> Iterator[str]:
    """The stretches of Chinese that say something, and the words of other scripts among them."""
    for _, kind, word in _tokens(normal):
        if kind == "cjk":
            yield from pieces(word)
        elif not _says_nothing(word):
            yield word


def _tells(word: str, named: set[str]) -> bool:
    bare = word.strip("?!.,;:\"`'“”")
    return bare.lower() in named or any(not _says_nothing(token) for _, _, token in _tokens(word))


def _marked(word: str, named: set[str]) -> str:
    bare = word.rstrip("?!.,;:")
    return f'"{bare}"' if bare.lower() in named and bare.lower() in STOP_WORDS else word
