"""Terms of the index and of questions: the words of a text as FTS5 stems them.

FTS5 splits a text into words and stems the words (tokenizer `porter`). Before that, Chinese, Japanese and Korean runs
become single characters and pairs of characters, and characters that people leave out are removed: accents, soft
hyphens, vowel points, separators of thousands.
"""

import atexit
import re
import sqlite3
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from artifactflow_nb.core.text.chinese import (
    LINE_WRAP,
    UNSPACED,
    bigrams,
    characters_and_bigrams,
    subject_runs,
)

_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
_WORD = re.compile(rf"(?P<run>[{UNSPACED}]+)|[^\W{UNSPACED}]+")
_NAME_OF_CODE = re.compile(r"\w*_\w*")
_PIECE = re.compile(rf"[{UNSPACED}]+|[^\s{UNSPACED}]+")
_PUNCTUATION = "?!.,;:？！。，；："
_SUFFIX = re.compile(r"(?<=\w)[’'](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE)  # of `it's` and `don't`
# Removed: soft hyphens, marks of width and direction, tatweel, vowel points, the hyphen of a word that continues below.
_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200f\u2060\ufeff\u0640\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670]|\u2010\\s*\n\\s*"
)
_THOUSANDS = re.compile(r"(?<=\d)[,\u00a0\u202f](?=\d{3}(?!\d))")
# Folded: letters with a stroke and dotless i, final letters of Hebrew, alef maksura and teh marbuta of Arabic.
_FORMS = str.maketrans(
    "øłđı\u05da\u05dd\u05df\u05e3\u05e5\u0649\u0629", "oldi\u05db\u05de\u05e0\u05e4\u05e6\u064a\u0647"
)
_ACCENTS = 200  # the first class of combining marks that are accents
_NAME_INSIDE = re.compile(r"(?<=[a-z,] )[A-Z]\w+")

_EARLIER = 0.4  # weight of the words of an earlier question
_CODE = 2.0  # weight of a name of code, which no text has by chance
_SINGLE = 0.6  # weight of a single Chinese character
_CHARACTERS_A_WORD = 1.7  # of running Chinese text


STOP_WORDS = frozenset(
    """
a about above after again against all along also although always am among an and another any anyone anything are aren
around as aside at away be became because become been before behave behaves behind being below beside besides between
beyond both but by can cannot could couldn did didn do does doesn doing don done down due during describe each either
else ever every everything explain few for from further get gets getting given go goes going got had happen happens has
hasn have haven having he hence her here hers herself him himself his how however i if in indeed instead into is isn it
its itself just keep kept least less let lets like likely many may me might mine more most much must my myself near
neither never no none nor not nothing now of off often on once one ones only onto or other others otherwise our ours
out over own per perhaps please quite rather really same say says see seem seems shall she should shouldn since so some
someone something somewhat soon still such than that the their theirs them themselves then there thereby therefore
these they thing things this those though through thus to too toward towards under unless until up upon us very via was
wasn we well were weren what whatever when whenever where whereas wherever whether which while who whoever whom whose
why will with within without would wouldn yet you your yours yourself
""".split()  # noqa: SIM905 - a list of words reads best as a text
)
"""English function words and verbs of questions, which say nothing about the subject of a question."""


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed question.

    Attributes:
        terms: Weights of the stems (1 for an ordinary word).
        phrases: Pairs of adjacent terms that are not both stop words: `with statement`.
        spellings: Each term as written in the question, for display and for FTS5.
        chains: The character pairs of each Chinese run, in order. A pair is a word or lies across two words.
        names: The terms of words that are capitalised inside a sentence.
    """

    terms: dict[str, float] = field(default_factory=dict)
    phrases: tuple[tuple[str, str], ...] = ()
    spellings: dict[str, str] = field(default_factory=dict)
    chains: tuple[tuple[str, ...], ...] = ()
    names: frozenset[str] = frozenset()


class _Porter:
    """A table of FTS5 in memory, which stems words as the index does; threads take turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        atexit.register(self._database.close)
        self._database.executescript(
            """
            CREATE VIRTUAL TABLE words USING fts5 (word, content = '', tokenize = "porter unicode61 tokenchars '_'");
            CREATE VIRTUAL TABLE stems USING fts5vocab (words, 'row');
            """
        )

    def stem(self, word: str) -> str:
        """Return the stem that FTS5 stores for a word; words without a letter or digit are unchanged."""
        with self._lock:
            self._database.execute("INSERT INTO words (rowid, word) VALUES (1, ?)", (word,))
            row = self._database.execute("SELECT term FROM stems").fetchone()
            self._database.execute("INSERT INTO words (words) VALUES ('delete-all')")
        return str(row[0]) if row else word


stem = lru_cache(maxsize=65_536)(_Porter().stem)


def visible_text(text: str) -> str:
    """Return a text in compatibility form (NFKC), without line wraps and characters that people leave out."""
    text = _THOUSANDS.sub("", text)
    return text if text.isascii() else LINE_WRAP.sub("", unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)))


def fold(text: str) -> str:
    """Return a text without case, accents and forms of letters: `Größe` is `grosse`."""
    if text.isascii():
        return text.lower()
    letters = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(letter for letter in letters if unicodedata.combining(letter) < _ACCENTS)
    return unicodedata.normalize("NFC", plain).translate(_FORMS)


def indexed_text(text: str) -> str:
    """Return a text as FTS5 is to index it.

    The text is folded; the parts of a name of code follow the name (`__exit__` is also `exit`), and Chinese runs are
    split into characters and pairs.
    """
    text = _NAME_OF_CODE.sub(lambda name: f"{name[0]} {name[0].replace('_', ' ')}", fold(visible_text(text)))
    if text.isascii():
        return text
    return _UNSPACED_RUN.sub(lambda run: f" {' '.join(characters_and_bigrams(run[0]))} ", text)


def split_terms(text: str) -> list[str]:
    """Split a text into its terms, in order."""
    terms: list[str] = []
    for match in _WORD.finditer(fold(visible_text(text))):
        word = match[0]
        if match["run"]:
            terms += characters_and_bigrams(word)
        else:
            parts = filter(None, word.split("_")) if "_" in word else ()
            terms += [stem(word), *map(stem, parts)]
    return terms


def parse_query(question: str, context: str = "") -> Query:
    """Parse a question; words of `context`, an earlier question, have a lower weight."""
    terms: dict[str, float] = {}
    spelled: dict[str, str] = {}
    question, context = visible_text(question), visible_text(context)
    for text, share in ((question, 1.0), (context, _EARLIER)):
        for term, weight, word in _weighted(text):
            if weight * share > terms.get(term, 0.0):
                terms[term] = weight * share
                spelled.setdefault(term, word)
    if not terms:  # every word is a stop word: stop words are better than nothing
        terms = dict.fromkeys(split_terms(question), 0.5)
        spelled = {term: term for term in terms}
    runs = _UNSPACED_RUN.findall(f"{question}\n{context}")
    chains = dict.fromkeys(tuple(bigrams(piece)) for run in runs for piece in subject_runs(run))
    names = frozenset(term for name in _NAME_INSIDE.findall(question) for term in split_terms(name) if term in terms)
    words = [match[0] for match in _WORD.finditer(_SUFFIX.sub("", question)) if not match["run"]]
    phrases = tuple(
        (index_term(first), index_term(second))
        for first, second in pairwise(words)
        if not (first.lower() in STOP_WORDS and second.lower() in STOP_WORDS)
    )
    return Query(terms, phrases, spelled, tuple(chains), names)


def _weighted(text: str) -> Iterator[tuple[str, float, str]]:
    """Yield the terms of a question, each with its weight and spelling."""
    for match in _WORD.finditer(_SUFFIX.sub("", text)):
        if match["run"]:
            for pair in (pair for piece in subject_runs(match[0]) for pair in bigrams(piece)):
                yield pair, _SINGLE if len(pair) == 1 else 1.0, pair
        elif match[0].lower() not in STOP_WORDS:
            yield index_term(match[0]), _CODE if "_" in match[0] else 1.0, match[0]


def _has_content(text: str) -> bool:
    return next(_weighted(text), None) is not None


def word_count(terms: Sequence[str]) -> float:
    """Return the number of words that terms represent: 0 for a pair, a fraction for a Chinese character."""
    if "".join(terms).isascii():
        return len(terms)
    chinese = [len(term) for term in terms if _UNSPACED_RUN.fullmatch(term)]
    return len(terms) - len(chinese) + chinese.count(1) / _CHARACTERS_A_WORD


def index_term(word: str) -> str:
    """Return a word in the form of the index; Chinese pairs are unchanged."""
    return word if _UNSPACED_RUN.fullmatch(word) else stem(fold(word))


def content_words(question: str) -> str:
    """Return the question as a search query, without stop words at the beginning and the end.

    A question with Chinese characters is reduced to the runs about the subject and the content words of other scripts.
    """
    if _UNSPACED_RUN.search(question):
        pieces = _PIECE.findall(visible_text(question))
        return " ".join(
            run for piece in pieces if _has_content(piece) for run in subject_runs(piece.strip(_PUNCTUATION))
        )
    words = question.split()
    content = [i for i, word in enumerate(words) if _has_content(word)]
    return " ".join(words[content[0] : content[-1] + 1] if content else []).rstrip(_PUNCTUATION)
