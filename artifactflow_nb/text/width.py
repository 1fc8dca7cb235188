"""Widths in columns, as a terminal or a monospaced page shows text: a Chinese character takes two, an accent none."""

import re
import unicodedata

from artifactflow_nb.text.chinese import CJK

_ELLIPSIS = "…"
_JOINER = "\u200d"
_WIDE_OR_NONE = re.compile(r"[^\u0020-\u02ff\u2010-\u2027]")  # whatever may not be one column
_WIDE = re.compile(r"[\u3000-\u3029\u3041-\u3096\u30a1-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]+")
"""Those of them that are known to take two columns: most of a Chinese text, which would else be asked one by one."""

_UNSPACED = re.compile(rf"[{CJK}\u3000-\u303f\uff00-\uffef]")


def width(text: str) -> int:
    """The columns that a line takes."""
    if text.isascii():
        return len(text)
    rest = _WIDE.sub("", text)
    wide = len(text) - len(rest)
    return 2 * wide + len(rest) + sum(_columns(character) - 1 for character in _WIDE_OR_NONE.findall(rest))


def _columns(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """The longest beginning that takes at most so many columns and takes nothing apart: no accent, no joined emoji."""
    if text.isascii():
        return text[:columns]
    fits = max(columns, 0) // 2  # characters that take at most two columns each
    taken, end = width(text[:fits]), fits
    for end, character in enumerate(text[fits:], fits):  # noqa: B007 - where it stopped is what is asked for
        taken += _columns(character)
        if taken > columns:
            break
    else:
        return text
    while end and _joined(text, end):
        end -= 1
    return text[:end]


def _joined(text: str, at: int) -> bool:
    """Whether the character at this place belongs to the one before it."""
    return _columns(text[at]) == 0 or text[at - 1] == _JOINER or "\U0001f3fb" <= text[at] <= "\U0001f3ff"


def clip(text: str, columns: int) -> str:
    """The text on one line, cut to at most so many columns, an ellipsis included."""
    line = " ".join(text.split())
    return line if width(line) <= columns else cut(line, columns - 1).rstrip() + _ELLIPSIS


def pad(text: str, columns: int) -> str:
    """The text with spaces behind it, so that it takes at least so many columns."""
    return text + " " * (columns - width(text))


def clip_words(text: str, columns: int) -> str:
    """The text on one line, cut to some columns between two words; in Chinese that is between any two characters."""
    line = " ".join(text.split())
    if width(line) <= columns:
        return line
    head, space, begun = cut(line, columns).rpartition(" ")
    unspaced = [match.end() for match in _UNSPACED.finditer(begun)]
    whole = begun[: unspaced[-1]] if unspaced else ""
    return f"{head}{space if whole else ''}{whole or ('' if head else begun)} {_ELLIPSIS}"
