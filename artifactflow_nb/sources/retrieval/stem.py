"""English stems after Porter (1980): plural, verb and noun forms of a word become the same string.

A suffix is removed only if enough of the word remains, counted in changes from vowels to consonants (the measure).
Nouns without a common suffix with their verb (`comparison`) are listed.

Own code instead of snowballstemmer, because that gives other search results: it keeps `wrote`, `decision`, `comparison`
and `colour` apart from `write`, `decide`, `compare` and `color`.
"""

import re
from functools import lru_cache

from artifactflow_nb.sources.retrieval.stopwords import IRREGULAR_FORMS, NOUNS

_KINDS = {ord(letter): "v" if letter in "aeiou" else "c" for letter in "abcdefghijklmnopqrstuvwxz"}  # y is either
_SHORT = 3  # letters: words up to this length are their own stem, and a stem of this length keeps its final e
_DERIVED = {  # taken off where the rest has a measure above 0
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "abli": "able", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
}  # fmt: skip
_ENDINGS = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_TAILS = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ion", "ism", "ate", "iti", "ous", "ive", "ize",
    "al", "er", "ic", "ou",
)  # fmt: skip
_BRITISH = (
    ("is", re.compile(r"(?<=\w{3})is(e|ed|es|er|ers|ing|ation|ations|able)$"), r"iz\1"),
    ("our", re.compile(r"(?<=\w{3})our(|s|ed|ing|ful|able|ite)$"), r"or\1"),
    ("tre", re.compile(r"(?<=\w{2})tre(s?)$"), r"ter\1"),
)
_ACTS = frozenset({"ement", "ment", "ance", "ence", "able", "ible", "er"})
_MIN_LETTERS, _MIN_LETTERS_OF_AN_ACT = 6, 5  # letters that must remain when a tail is removed; the second for `_ACTS`


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return the stem of a lower-case English word; words with other characters than ASCII letters are unchanged."""
    word = IRREGULAR_FORMS.get(word, word)
    if len(word) <= _SHORT or not (word.isascii() and word.isalpha()):
        return word
    for mark, spelling, american in _BRITISH:
        if mark in word:  # most words have none
            word = spelling.sub(american, word)
    singular = word
    if word.endswith("sses") or (word.endswith("ies") and len(word) > _SHORT + 2):
        singular = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        singular = word[:-1]
    word = _verb_stem(NOUNS.get(word) or NOUNS.get(singular, singular))
    if len(word) <= _SHORT:
        return word
    if word.endswith("y") and "v" in _form(word[:-1]):
        word = word[:-1] + "i"
    word = _tail(_replace(_replace(word, _DERIVED), _ENDINGS))
    if word.endswith("e") and len(word) > _SHORT:
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _ends_short(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _form(word: str) -> str:
    """Return the word with `v` for each vowel and `c` for each consonant; y is a vowel after a consonant."""
    form = word.translate(_KINDS)
    while (place := form.find("y")) >= 0:
        form = f"{form[:place]}{'v' if form[:place].endswith('c') else 'c'}{form[place + 1 :]}"
    return form


def _measure(word: str) -> int:
    return _form(word).count("vc")


def _ends_short(word: str) -> bool:
    """Return whether a stem ends in consonant, vowel, consonant (not w, x, y), like `hop`; such stems lost an e."""
    return _form(word).endswith("cvc") and word[-1] not in "wxy"


def _verb_stem(word: str) -> str:
    """Remove -ed or -ing and restore the end of the verb: `hopp` is hop, `hop` is hope, `creat` is create."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    rest = word.removesuffix("ed" if word.endswith("ed") else "ing")
    if rest == word or "v" not in _form(rest):
        return word
    if rest.endswith(("at", "bl", "iz")) or len(rest) < _SHORT:
        return rest + "e"
    if rest[-2:-1] == rest[-1:] and rest[-1] not in "aeioulsz" and len(rest) > _SHORT:
        return rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _replace(word: str, endings: dict[str, str]) -> str:
    for ending, short in endings.items() if word.endswith(tuple(endings)) else ():
        if word.endswith(ending):
            rest = word.removesuffix(ending)
            return rest + short if _measure(rest) > 0 else word
    return word


def _tail(word: str) -> str:
    for ending in _TAILS if word.endswith(_TAILS) else ():
        if word.endswith(ending):
            rest = word.removesuffix(ending)
            min_letters = _MIN_LETTERS_OF_AN_ACT if ending in _ACTS else _MIN_LETTERS
            # Short stems would merge unrelated words: generator, generic and general.
            is_too_short = _measure(rest) <= 1 or len(rest) < min_letters
            is_part_of_stem = rest.endswith("i") or (ending == "ion" and not rest.endswith(("s", "t")))
            return word if is_too_short or is_part_of_stem else rest
    return word
