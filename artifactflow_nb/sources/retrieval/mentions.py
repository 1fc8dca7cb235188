"""Mentions: words that a text speaks of and does not merely use: "The button `off`", "How do on and off differ?".

Such a word may be a stop word, so a mention is a term of its own in addition to the word itself. Texts mention words in
quotation marks or backticks; questions and titles also by their grammar: before a noun such as `keyword`, between
`does` and `mean`, on both sides of `and` after `between`.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from artifactflow_nb.sources.retrieval.stopwords import NEVER_MENTIONED, STOP_WORDS

_QUOTED = re.compile(r"(?<![\w\"`])(?:\"|“|`{1,2})(?=\S)([^\"“”`\n]{1,40})(?<=\S)(?:\"|”|`{1,2})(?![\w\"`])")
_PIECE = re.compile(r"[^\W_]\w*|__\w+|[^\w\s()\[\]{},.;]+")
_MAX_PIECES = 3  # a longer quotation is speech
_MAX_PIECES_OF_CODE = 8  # a question may quote a line of code
_WORD = re.compile(r"\w+(?:['’]\w+)?|[^\w\s]+")
_SYMBOL = re.compile(r"(?<!\S)(?:[+*/%^&|~<>=@]|[+\-*/%^&|<>=!:]=|[*/<>]{2}=?|->)(?=\s|[?.,;:!]*\s|[?.,;:!]*$)")
_POSSESSIVE = re.compile(r"['’]s?$")
_NOUNS = re.compile(
    r"(?:statement|operator|keyword|clause|expression|literal|loop|block|branch|part|function|method)s?$"
)
_VERBS = frozenset("do mean work behave return test stand used for different".split())  # noqa: SIM905 - reads best
_MANY = frozenset({"nested", "multiple", "several", "two", "three", "first", "second", "same"})
_JOINTS = frozenset({"and", "or", "vs", "versus"})
_CONNECTIVES = frozenset("and as at because by for from if in of on or than to unless until while with".split())  # noqa: SIM905
_TRAILING_PREPOSITIONS = frozenset({"for", "about", "of", "to"})  # they end many a question: "What is it used for?"
_USES = frozenset({"use", "uses", "using"})
_AUXILIARIES = frozenset({"does", "do", "is", "are", "can", "did", "should", "will"})


def mention_term(word: str) -> str:
    """Return the term for a mentioned word or operator, of characters that the index treats as one word."""
    plain = word.lower()
    return f"={plain}=" if plain.replace("_", "").isalnum() else "=" + "".join(f"x{ord(c):x}" for c in plain) + "="


def is_mention_term(term: str) -> bool:
    """Whether the term was made by `mention_term`."""
    return len(term) > 2 and term[0] == term[-1] == "=" and term[1] != "="  # noqa: PLR2004 - two marks and a word


def find_quotations(text: str, max_pieces: int = _MAX_PIECES) -> Iterator[tuple[int, list[str]]]:
    """Yield offset and words (or operators) of each quotation that has at most `max_pieces` of them."""
    has_marks = '"' in text or "`" in text or "“" in text  # most passages have none
    for match in _QUOTED.finditer(text) if has_marks else ():
        pieces = _PIECE.findall(match[1])
        if 0 < len(pieces) <= max_pieces:
            yield match.start(), pieces


def find_mentions(text: str) -> list[str]:
    """Return the words and operators that a question or a title mentions, without duplicates."""
    found = [piece for _, pieces in find_quotations(text, _MAX_PIECES_OF_CODE) for piece in pieces]
    symbols = _SYMBOL.findall(text)
    written = _WORD.findall(text.replace('"', " ").replace("`", " "))
    words = [_POSSESSIVE.sub("", word.lower()) or word for word in written]
    # A capitalised stop word after a lower-case word, such as `None`, is a name.
    named = [
        word.lower()
        for before, word in pairwise(written)
        if before.islower() and len(word) > 1 and word.istitle() and word.lower() in STOP_WORDS
    ]
    named += [word for word, noun in pairwise(words) if word not in STOP_WORDS and _NOUNS.match(noun)]
    if STOP_WORDS.isdisjoint(words) and _JOINTS.isdisjoint(words):  # the rest finds stop words: half of all titles
        return list(dict.fromkeys([*found, *symbols, *named]))
    bare = [word for word in words if word[0].isalnum() or word[0] == "_"]
    is_bare = not found and not symbols and set(bare) <= STOP_WORDS  # such as "off" or "What is up?"
    bare = [word for word in bare if _may_be(word) and word != "is"] if is_bare else []
    return list(dict.fromkeys([*found, *symbols, *named, *bare, *_by_position(words), *_joined(words)]))


def _may_be(word: str) -> bool:
    """Return whether a word is a stop word that a text may mention."""
    return word in STOP_WORDS and word not in NEVER_MENTIONED


def _by_position(words: list[str]) -> Iterator[str]:
    """Yield stop words whose position shows a mention: "the off keyword", "does off mean", "the keyword off".

    In a question that ends in "does off blink?" or "does finally blink?", the word before the verb is the subject,
    whatever the verb is.
    """
    last = next((word for word in reversed(words) if word[0].isalnum()), "")
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        opens = not before or before in STOP_WORDS or before in _MANY or _NOUNS.match(before)
        ends = not after or not (after[0].isalnum() or after[0] == "_")
        can_be_last = word not in _TRAILING_PREPOSITIONS
        is_last_subject = (
            before in _AUXILIARIES
            and after == last
            and after not in STOP_WORDS
            and (_may_be(word) or (word.endswith("ly") and word not in NEVER_MENTIONED))
        )
        if is_last_subject or (
            _may_be(word)
            and (
                (opens and _NOUNS.match(after))
                or (before in _AUXILIARIES and after in _VERBS and word != "not")
                or (before == "does" and word in _CONNECTIVES and not ends)  # `does and ...`: the subject
                or (_NOUNS.match(before) and (after in _VERBS or ends) and can_be_last)
                or (before in _USES and (ends or _may_be(after)) and can_be_last)
            )
        ):
            yield word
    for before, first, second, after in zip(words, words[1:], words[2:], words[3:], strict=False):
        if before in _AUXILIARIES and after in _VERBS and _may_be(first) and _may_be(second):
            yield from (first, second)


def _joined(words: list[str]) -> Iterator[str]:
    """Yield mentioned words on both sides of `and` or `or`, and those between `between` and `and`."""

    def is_mentionable(word: str) -> bool:
        return _may_be(word) or _SYMBOL.fullmatch(word) is not None

    for i, (word, joint) in enumerate(pairwise(words)):
        other = words[i + 2] if i + 2 < len(words) else ""
        if joint not in _JOINTS or not other:
            continue
        is_name, is_other_name = is_mentionable(word), is_mentionable(other)
        if is_name and ((i and words[i - 1] == "between") or is_other_name):
            yield word
        if is_name and is_other_name:
            yield other if other != joint else joint
            yield from (after for after in words[i + 3 : i + 4] if other == joint and _may_be(after))
