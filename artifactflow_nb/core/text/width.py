"""Display width in columns of a monospaced font: a Chinese character takes two, a combining accent none."""

import re
import unicodedata

from artifactflow_nb.core.text.chinese import CJK

_ELLIPSIS = "…"
_JOINER = "\u200d"
_NOT_NARROW = re.compile(r"[^\u0020-\u02ff\u2010-\u2027]")  # characters that may not take exactly one column
_WIDE = re.compile(r"[\u3000-\u3029\u3041-\u3096\u30a1-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]+")
"""Frequent characters that take two columns, counted at once because looking up each one is slow for Chinese."""

_UNSPACED = re.compile(rf"[{CJK}\u3000-\u303f\uff00-\uffef]")


def width(text: str) -> int:
    """Return the number of columns of a line."""
    if text.isascii():
        return len(text)
    rest = _WIDE.sub("", text)
    wide = len(text) - len(rest)
    return 2 * wide + len(rest) + sum(_columns(character) - 1 for character in _NOT_NARROW.findall(rest))


def _columns(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """Truncate a text to a number of columns without splitting accented characters or joined emoji."""
    if text.isascii():
        return text[:columns]
    fits = max(columns, 0) // 2  # so many characters always fit, as each takes at most two columns
    used, end = width(text[:fits]), fits
    for end, character in enumerate(text[fits:], fits):  # noqa: B007 - `end` is used after the loop
        used += _columns(character)
        if used > columns:
            break
    else:
        return text
    while end and _joined(text, end):
        end -= 1
    return text[:end]


def _joined(text: str, at: int) -> bool:
    """Return whether the character at this index combines with the one before it."""
    return _columns(text[at]) == 0 or text[at - 1] == _JOINER or "\U0001f3fb" <= text[at] <= "\U0001f3ff"


def clip(text: str, columns: int) -> str:
    """Truncate a text to one line of at most `columns` columns, including an ellipsis."""
    line = " ".join(text.split())
    return line if width(line) <= columns else cut(line, columns - 1).rstrip() + _ELLIPSIS


def pad(text: str, columns: int) -> str:
    """Pad a text with spaces to at least `columns` columns."""
    return text + " " * (columns - width(text))


def clip_words(text: str, columns: int) -> str:
    """Truncate a text to one line of `columns` columns plus an ellipsis, between words or Chinese characters."""
    line = " ".join(text.split())
    if width(line) <= columns:
        return line
    head, space, last = cut(line, columns).rpartition(" ")
    unspaced = [match.end() for match in _UNSPACED.finditer(last)]
    whole = last[: unspaced[-1]] if unspaced else ""
    return f"{head}{space if whole else ''}{whole or ('' if head else last)} {_ELLIPSIS}"
