"""English word stems after Porter (1980): plural, verb and noun forms of a word become the same string.

A suffix is taken off only where enough of a word remains, counted in changes from vowels to consonants (the measure).
Nouns that no suffix leads back to their verb (`comparison`) are listed.
"""

import re
from functools import lru_cache

from artifactflow_nb.text.wordlists import IRREGULAR, NOUNS

_VOWEL_RUNS = re.compile("v+c+")
_SHORT = 3  # words up to this length are their own stem, and no final e is taken off down to fewer letters
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
    (re.compile(r"(?<=\w{3})is(e|ed|es|er|ers|ing|ation|ations|able)$"), r"iz\1"),
    (re.compile(r"(?<=\w{3})our(|s|ed|ing|ful|able|ite)$"), r"or\1"),
    (re.compile(r"(?<=\w{2})tre(s?)$"), r"ter\1"),
)
_ACTS = frozenset({"ement", "ment", "ance", "ence", "able", "ible", "er"})
_LEAST, _LEAST_OF_AN_ACT = 6, 5  # letters that a tail must leave


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The stem of a lower-case English word; words with other than ASCII letters come back unchanged."""
    word = IRREGULAR.get(word, word)
    if len(word) <= _SHORT or not (word.isascii() and word.isalpha()):
        return word
    for spelling, american in _BRITISH:
        word = spelling.sub(american, word)
    singular = _plural(word)
    word = _verb_forms(NOUNS.get(word) or NOUNS.get(singular, singular))
    if len(word) <= _SHORT:
        return word
    if word.endswith("y") and "v" in _form(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(_replace(word, _DERIVED), _ENDINGS)
    return _last_letters(_tail(word))


def _form(word: str) -> str:
    """The word with `v` for each vowel and `c` for each consonant; y is a vowel after a consonant."""
    form = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and form.endswith("c"))
        form += "v" if vowel else "c"
    return form


def _measure(word: str) -> int:
    return len(_VOWEL_RUNS.findall(_form(word)))


def _ends_short(word: str) -> bool:
    """Whether it ends in consonant, vowel, consonant (not w, x, y), as in `hop`: such stems lost an e."""
    return _form(word).endswith("cvc") and word[-1] not in "wxy"


def _plural(word: str) -> str:
    if word.endswith("sses") or (word.endswith("ies") and len(word) > _SHORT + 2):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _verb_forms(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        rest = word.removesuffix(ending)
        if rest != word and "v" in _form(rest):
            return _repair(rest)
    return word


def _repair(rest: str) -> str:
    """Give back what a verb lost before -ed and -ing: `hopp` is hop, `hop` is hope, `creat` is create."""
    if rest.endswith(("at", "bl", "iz")) or len(rest) < _SHORT:
        return rest + "e"
    if rest[-2:-1] == rest[-1:] and rest[-1] not in "aeioulsz" and len(rest) > _SHORT:
        return rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _replace(word: str, endings: dict[str, str]) -> str:
    for ending, short in endings.items():
        if word.endswith(ending):
            rest = word.removesuffix(ending)
            return rest + short if _measure(rest) > 0 else word
    return word


def _tail(word: str) -> str:
    for ending in _TAILS:
        if word.endswith(ending):
            rest = word.removesuffix(ending)
            kept = _measure(rest) <= 1 or (ending == "ion" and not rest.endswith(("s", "t")))
            # Short stems mix what has little in common: generator, generic and general.
            kept = kept or len(rest) < (_LEAST_OF_AN_ACT if ending in _ACTS else _LEAST) or rest.endswith("i")
            return word if kept else rest
    return word


def _last_letters(word: str) -> str:
    if word.endswith("e") and len(word) > _SHORT:
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _ends_short(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
