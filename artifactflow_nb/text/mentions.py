"""Words that are spoken *of* and not with: "The button `off`", "How do on and off differ?".

Such a word may be one that otherwise holds sentences together, so it becomes a term of its own, a mention, beside the
word itself. A text mentions what it sets in quotation marks or backticks; a question or a title also by the way it is
built: before a noun such as `keyword`, between `does` and `mean`, on both sides of `and` after `between`.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from artifactflow_nb.text.wordlists import NEVER_MENTIONED, STOP_WORDS

_QUOTED = re.compile(r"(?<![\w\"`])(?:\"|“|`{1,2})(?=\S)([^\"“”`\n]{1,40})(?<=\S)(?:\"|”|`{1,2})(?![\w\"`])")
_PIECE = re.compile(r"[^\W_]\w*|__\w+|[^\w\s()\[\]{},.;]+")
_MOST_PIECES = 3  # a longer quotation is somebody's words
_MOST_OF_CODE = 8  # a question may quote a line of code
_WORD = re.compile(r"\w+(?:['’]\w+)?|[^\w\s]+")
_SYMBOL = re.compile(r"(?<!\S)(?:[+*/%^&|~<>=@]|[+\-*/%^&|<>=!:]=|[*/<>]{2}=?|->)(?=\s|[?.,;:!]*\s|[?.,;:!]*$)")
_POSSESSIVE = re.compile(r"['’]s?$")
_NOUNS = re.compile(
    r"(?:statement|operator|keyword|clause|expression|literal|loop|block|branch|part|function|method)s?$"
)
_VERBS = frozenset("do mean work behave return test stand used for different".split())  # noqa: SIM905 - reads best
_MANY = frozenset({"nested", "multiple", "several", "two", "three", "first", "second", "same"})
_JOINTS = frozenset({"and", "or", "vs", "versus"})
_LEFT_OVER = frozenset({"for", "about", "of", "to"})  # they end many a question: "What is it used for?"
_USES = frozenset({"use", "uses", "using", "called"})
_AUXILIARIES = frozenset({"does", "do", "is", "are", "can", "did", "should", "will"})


def mention(word: str) -> str:
    """The term for a mentioned word or operator; made of characters that the index takes for one word."""
    plain = word.lower()
    return f"={plain}=" if plain.replace("_", "").isalnum() else "=" + "".join(f"x{ord(c):x}" for c in plain) + "="


def is_mention(term: str) -> bool:
    """Whether `mention` made the term."""
    return len(term) > 2 and term[0] == term[-1] == "=" and term[1] != "="  # noqa: PLR2004 - two marks and a word


def quoted(text: str, most: int = _MOST_PIECES) -> Iterator[tuple[int, list[str]]]:
    """The quotations of a text that have at most so many words and operators, each as its offset and these."""
    for match in _QUOTED.finditer(text):
        pieces = _PIECE.findall(match[1])
        if 0 < len(pieces) <= most:
            yield match.start(), pieces


def mentioned(text: str) -> list[str]:
    """The words and operators that a question or a title speaks of, each once."""
    found = [piece for _, pieces in quoted(text, _MOST_OF_CODE) for piece in pieces]
    symbols = _SYMBOL.findall(text)
    written = _WORD.findall(text.replace('"', " ").replace("`", " "))
    words = [_POSSESSIVE.sub("", word.lower()) or word for word in written]
    named = [word.lower() for before, word in pairwise(written) if before.islower() and _is_capitalised(word)]
    named += [word for word, noun in pairwise(words) if word not in STOP_WORDS and _NOUNS.match(noun)]
    bare = [] if found or symbols else _bare(words)
    return list(dict.fromkeys([*found, *symbols, *named, *bare, *_by_position(words), *_joined(words)]))


def _is_capitalised(word: str) -> bool:
    """Whether a word that is seldom a name is written as one: `None`."""
    return len(word) > 1 and word.istitle() and word.lower() in STOP_WORDS


def _bare(words: list[str]) -> list[str]:
    """The words of a text that has no other, such as "off" or "What is up?"."""
    said = [word for word in words if word[0].isalnum() or word[0] == "_"]
    return [word for word in said if _may_be(word) and word != "is"] if set(said) <= STOP_WORDS else []


def _may_be(word: str) -> bool:
    return word in STOP_WORDS and word not in NEVER_MENTIONED


def _by_position(words: list[str]) -> Iterator[str]:
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        if _may_be(word) and _stands_as_a_name(before, word, after):
            yield word
    for before, one, two, after in zip(words, words[1:], words[2:], words[3:], strict=False):
        if before in _AUXILIARIES and after in _VERBS and _may_be(one) and _may_be(two):
            yield from (one, two)


def _stands_as_a_name(before: str, word: str, after: str) -> bool:
    """Whether the neighbours tell: "the off keyword", "does off mean", "does or bind", "the keyword off"."""
    opens = not before or before in STOP_WORDS or before in _MANY or _NOUNS.match(before)
    ends = not after or not (after[0].isalnum() or after[0] == "_")
    return (
        (opens and _NOUNS.match(after) is not None)
        or (before in _AUXILIARIES and after in _VERBS and word != "not")
        or (before == "does" and word in _JOINTS and after[:1].isalpha() and after not in STOP_WORDS)
        or (_NOUNS.match(before) is not None and (after in _VERBS or ends) and word not in _LEFT_OVER)
        or (before in _USES and (ends or _may_be(after)) and word not in _LEFT_OVER)
    )


def _joined(words: list[str]) -> Iterator[str]:
    """Both sides of a joint, where both are such words or operators, or what stands between `between` and the joint."""
    for i, (word, joint) in enumerate(pairwise(words)):
        other = words[i + 2] if i + 2 < len(words) else ""
        if joint not in _JOINTS or not other:
            continue
        one, two = _names(word), _names(other)
        if one and ((i and words[i - 1] == "between") or two):
            yield word
        if one and two:
            yield other if other != joint else joint
            yield from (after for after in words[i + 3 : i + 4] if other == joint and _may_be(after))


def _names(word: str) -> bool:
    return _may_be(word) or _SYMBOL.fullmatch(word) is not None
