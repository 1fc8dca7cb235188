"""Terms of the index and of queries.

A text becomes stems of lower-case words. Names of code are indexed whole and in parts (`str.__len__` is also `str`,
`__len__` and `len`, and `queue.Queue.get` is also `queue.get`), Chinese, Japanese and Korean runs become single
characters and pairs of characters, and separate operators are words too. What people leave out does not count: accents,
case, soft hyphens, vowel points, separators of thousands.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, pairwise

from artifactflow_nb.core.text.chinese import (
    LINE_WRAP,
    QUESTION_WORDS,
    SYNONYM_PAIRS,
    UNSPACED,
    WEAK_PAIRS,
    bigrams,
    characters_and_bigrams,
    subject_runs,
)
from artifactflow_nb.sources.retrieval.mentions import find_mentions, find_quotations, is_mention_term, mention_term
from artifactflow_nb.sources.retrieval.plain_words import PLAIN_WORDS
from artifactflow_nb.sources.retrieval.stem import stem
from artifactflow_nb.sources.retrieval.stopwords import STOP_WORDS, SYNONYMS, WEAK_WORDS

_KINDS = {
    "cjk": rf"[{UNSPACED}]+",
    "number": r"\d+(?:[.,]\d+)*",
    "name": rf"[^\W\d{UNSPACED}]+(?:[^\W{UNSPACED}])*(?:[.’'](?:[^\W\d{UNSPACED}])(?:[^\W{UNSPACED}])*)*",
    "operator": r"(?<![\w=<>!*/:-])(?:==|!=|<=|>=|:=|->|\*\*|//|<<|>>|@)(?![\w=<>!*/:-])",
}
_UNSPACED_RUN = re.compile(_KINDS["cjk"])
_TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))
_POSSESSIVE = re.compile(r"[’'](?:s|t|re|ve|ll|d|m)?$")
# Soft hyphens, marks of width and direction, tatweel, vowel points; the hyphen of a word that continues below.
_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200f\u2060\ufeff\u0640\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670]|\u2010\\s*\n\\s*"
)
_THOUSANDS = re.compile(r"(?<=\d)[,\u00a0\u202f](?=\d{3}(?!\d))")
# Letters with a stroke and dotless i, final letters of Hebrew, alef maksura and teh marbuta of Arabic.
_FORMS = str.maketrans(
    "øłđı\u05da\u05dd\u05df\u05e3\u05e5\u0649\u0629", "oldi\u05db\u05de\u05e0\u05e4\u05e6\u064a\u0647"
)
_ACCENTS = 200  # the first class of combining marks that are accents
_CAMEL = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_NAME_INSIDE = re.compile(r"(?<=[a-z,] )[A-Z]\w+")
_MIXED = re.compile(r"[a-z][A-Z]")

_MENTIONED, _NAMED, _HINTED = 2.0, 1.0, 0.5  # weights of mentions: of a stop word, of a marked word, of any other
_WEAKLY, _SINGLE = 0.3, 0.6  # weights of weak words and of single Chinese characters
_MAX_CACHED, _MAX_CACHED_CHARS = 131_072, 24  # words: up to 20 MB
_CHARACTERS_A_WORD = 1.7  # of running Chinese text

_WEAK = frozenset(map(stem, WEAK_WORDS))
_INFLECTION = 4  # letters: `related` is as weak as `relate`, `relational` is another word
# By stem: the stems of its synonyms, each with the synonym as a word.
_SYNONYMS: dict[str, dict[str, str]] = {}
for _word, _others in chain(
    ((word, group) for group in (*SYNONYMS, *SYNONYM_PAIRS) for word in group), PLAIN_WORDS.items()
):
    for _other in _others:
        if stem(_other) != stem(_word):
            _SYNONYMS.setdefault(stem(_word), {}).setdefault(stem(_other), _other)


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed question.

    Attributes:
        terms: Weights of its stems (1 for an ordinary word).
        phrases: Pairs of adjacent words that are not both stop words: `by hand`.
        hints: Weights of mentions of its words: a passage with such a word in quotation marks is likely about it.
        synonyms: Terms by the stems of their synonyms, which match with a lower weight.
        spellings: Each term, and each phrase as `a b`, as written in the question, for display.
        chains: The character pairs of each Chinese run, in order. A pair is a word or lies across two words.
        names: The terms of words that are capitalised inside a sentence.
    """

    terms: dict[str, float] = field(default_factory=dict)
    phrases: tuple[tuple[str, str], ...] = ()
    hints: dict[str, float] = field(default_factory=dict)
    synonyms: dict[str, str] = field(default_factory=dict)
    spellings: dict[str, str] = field(default_factory=dict)
    chains: tuple[tuple[str, ...], ...] = ()
    names: frozenset[str] = frozenset()


def split_terms(text: str) -> list[str]:
    """Split a text into its terms, in order, for the index."""
    return join_terms(text).split()


def join_terms(text: str) -> str:
    """Join the terms of a text, in order, with spaces.

    The parts of a name follow the name; the mentions of a short quotation precede it.
    """
    normal = visible_text(text)
    quotations = list(find_quotations(normal))
    if not quotations:  # most texts, and most of the time of indexing
        return " ".join(filter(None, map(_TERMS.__getitem__, normal.split())))
    n = 0
    found: list[str] = []
    for start, _, word in _tokens(normal):
        while n < len(quotations) and quotations[n][0] <= start:
            found.extend(map(mention_term, quotations[n][1]))
            n += 1
        found.append(_TERMS[word])
    return " ".join([*found, *(mention_term(piece) for _, pieces in quotations[n:] for piece in pieces)])


def visible_text(text: str) -> str:
    """Return a text in compatibility form (NFKC), without line wraps and characters that people leave out."""
    text = _THOUSANDS.sub("", text)
    return text if text.isascii() else LINE_WRAP.sub("", unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)))


def fold(word: str) -> str:
    """Return a word without case, accents and forms of letters: `Größe` is `grosse`."""
    if word.isascii():
        return word.lower()
    letters = unicodedata.normalize("NFKD", word.casefold())
    plain = "".join(letter for letter in letters if unicodedata.combining(letter) < _ACCENTS)
    return unicodedata.normalize("NFC", plain).translate(_FORMS)


class _ChunkTerms(dict[str, str]):
    """Cache of the joined terms of texts without a space; twice as fast as `lru_cache`, which orders its entries."""

    def __missing__(self, chunk: str) -> str:
        bare = chunk.strip(".,;:?!()")
        if bare.isascii() and bare.isalpha() and (bare.islower() or bare.istitle()):  # most words
            terms = stem(bare.lower())
        else:
            terms = " ".join(term for _, kind, word in _tokens(chunk) for term in _forms(kind, word))
        if len(chunk) <= _MAX_CACHED_CHARS:  # a Chinese sentence is seldom repeated
            if len(self) >= _MAX_CACHED:
                self.clear()
            self[chunk] = terms
        return terms


_TERMS = _ChunkTerms()


@lru_cache(maxsize=4096)  # the passages of a section have the same headings
def title_terms(title: str) -> tuple[str, ...]:
    """Return the terms of a title, with the mentions of words that it discusses."""
    return (*split_terms(title), *map(mention_term, find_mentions(title))) if title else ()


def _tokens(normal: str) -> Iterator[tuple[int, str, str]]:
    for match in _TOKEN.finditer(normal):
        yield match.start(), str(match.lastgroup), match[0]


def _forms(kind: str, word: str) -> tuple[str, ...]:
    """Return the terms of a word, number, operator or Chinese run; for a name in code, also those of its parts."""
    if kind == "cjk":
        return tuple(characters_and_bigrams(word))
    if kind != "name":
        return (word,)
    plain = _POSSESSIVE.sub("", word).replace("’", "'")
    lowered = fold(plain)
    if not is_code_name(plain):
        return (stem(lowered),)
    dotted_names = lowered.split(".")
    parts = [piece for dotted in dotted_names for piece in (dotted, *dotted.split("_")) if piece]
    parts += [camel.lower() for camel in _CAMEL.findall(plain)] if _MIXED.search(plain) else []
    unique = dict.fromkeys(part if "_" in part else stem(part) for part in parts)
    # People write a method with its class and without its module.
    unique |= dict.fromkeys(".".join(dotted_names[n:]) for n in range(1, len(dotted_names) - 1))
    unique.pop(lowered, None)
    return (lowered, *unique)


def is_code_name(word: str) -> bool:
    """Return whether the word is a name in code: dotted, with an underscore, or with a capital inside."""
    return "_" in word or "." in word or bool(_MIXED.search(word))


def parse_query(question: str, context: str = "") -> Query:
    """Parse a question; words of `context`, an earlier question, have a lower weight."""
    found: dict[str, float] = {}
    spelled: dict[str, str] = {}
    question, context = visible_text(question), visible_text(context)
    for text, share in ((question, 1.0), (context, 0.4)):
        for term, weight, word in _weighted(text):
            if weight * share > found.get(term, 0.0):
                found[term] = weight * share
                spelled.setdefault(term, word)
    if not found:  # every word is a stop word: better those than nothing
        found = {term: 0.5 for term in split_terms(question) if term not in QUESTION_WORDS}
        spelled = {term: term for term in found}
    words = [(_forms(kind, word)[0], word, _is_stop_word(word)) for _, kind, word in _tokens(question) if kind != "cjk"]
    phrases = {  # a pair with one stop word may be a name: `with statement`
        (a, b): f"{first} {second}"
        for (a, first, is_stop), (b, second, is_second_stop) in pairwise(words)
        if not (is_stop and is_second_stop)
    }
    hints = _hints(question, found)
    spelled.update({f"{a} {b}": spelling for (a, b), spelling in phrases.items()})
    spelled.update({term: f'"{term[1:-1]}"' if is_mention_term(term) else term for term in hints})
    synonyms = {other: term for term in found for other in _SYNONYMS.get(term, {}) if other not in found}
    spelled.update({other: _SYNONYMS[term][other] for other, term in synonyms.items()})
    runs = _UNSPACED_RUN.findall(f"{question}\n{context}")
    chains = dict.fromkeys(tuple(bigrams(piece)) for run in runs for piece in subject_runs(run))
    names = frozenset(_forms("name", word)[0] for word in _NAME_INSIDE.findall(question) if not _is_stop_word(word))
    return Query(found, tuple(phrases), hints, synonyms, spelled, tuple(chains), names)


def _weighted(text: str) -> Iterator[tuple[str, float, str]]:
    """Yield the terms of a question, each with its weight and spelling."""
    for word in find_mentions(text):
        if word.lower() in STOP_WORDS or not word[0].isalnum():
            yield mention_term(word), _MENTIONED, f'"{word}"'
    for _, kind, word in _tokens(text):
        if kind == "cjk":
            for pair in (pair for piece in subject_runs(word) for pair in bigrams(piece)):
                yield pair, _SINGLE if len(pair) == 1 else _WEAKLY if pair in WEAK_PAIRS else 1.0, pair
            continue
        whole, *parts = _forms(kind, word)
        is_weak = (whole in _WEAK and len(word) <= len(whole) + _INFLECTION) or (len(word) == 1 and kind == "name")
        if _is_stop_word(word):
            pass
        elif kind == "name" and is_code_name(word):
            yield whole, 0.5 if "." in word else 2.0, word
        else:
            yield whole, 0.5 if kind == "operator" else _WEAKLY if is_weak else 1.0, word
        # A text that explains `dict.setdefault` may write `setdefault` alone: the last part represents the name.
        last = whole.rpartition(".")[2] if "." in whole else ""
        for part in parts:
            if part in {last, stem(last)}:
                yield part, 1.0 if part in STOP_WORDS else 2.0, part
            elif part not in STOP_WORDS:
                yield part, 0.5, part


def _hints(question: str, found: dict[str, float]) -> dict[str, float]:
    """Return weighted terms that are not asked for but indicate a passage: mentions of the question's words."""
    named = {word.lower() for word in find_mentions(question)}
    words = [word for _, kind, word in _tokens(question) if kind == "name" and not _is_stop_word(word)]
    plain = [word.lower() for word in words if word.isalnum() and stem(word.lower()) not in _WEAK]
    hints = {mention_term(word): _NAMED if word in named else _HINTED for word in plain}
    # Two Chinese words of one meaning often share a character.
    chinese = [term for term in found if _UNSPACED_RUN.fullmatch(term)]
    weak = {character for term in chinese if term in WEAK_PAIRS for character in term}
    hints |= {character: _HINTED for term in chinese for character in term if character not in weak}
    return {term: weight for term, weight in hints.items() if term not in found}


def word_count(found: Sequence[str]) -> float:
    """Return the number of words that these terms represent: none for a pair, a fraction for a Chinese character."""
    if "".join(found).isascii():
        return len(found)
    chinese = [len(term) for term in found if _UNSPACED_RUN.fullmatch(term)]
    return len(found) - len(chinese) + chinese.count(1) / _CHARACTERS_A_WORD


def _is_stop_word(word: str) -> bool:
    plain = _POSSESSIVE.sub("", word).lower()
    return not plain or plain in STOP_WORDS


def index_term(word: str) -> str:
    """Return a word or phrase in the form of the index; Chinese pairs are unchanged."""
    if " " in word:
        return " ".join(index_term(part) for part in word.split())
    for _, kind, token in _tokens(word):
        return word if kind == "cjk" else _forms(kind, token)[0]
    return word


def content_words(question: str) -> str:
    """Return the question as a search query, without the stop words at its two ends.

    Stop words that the question mentions remain, in quotation marks. A question with Chinese characters is reduced to
    the runs about its subject and the content words of other scripts.
    """
    if _UNSPACED_RUN.search(question):
        searched: list[str] = []
        for _, kind, word in _tokens(visible_text(question)):
            if kind == "cjk":
                searched += subject_runs(word)
            elif not _is_stop_word(word):
                searched.append(word)
        return " ".join(searched)
    words = question.split()
    named = {word.lower() for word in find_mentions(question)}
    content = [
        i
        for i, word in enumerate(words)
        if word.strip("?!.,;:\"`'“”").lower() in named or not all(_is_stop_word(token) for _, _, token in _tokens(word))
    ]
    words = words[content[0] : content[-1] + 1] if content else []
    for i, bare in enumerate([word.rstrip("?!.,;:") for word in words]):
        if bare.lower() in named and bare.lower() in STOP_WORDS:
            words[i] = f'"{bare}"'
    return " ".join(words).rstrip("?!.,;:")
