"""Texts for people: counts, durations, costs, sizes, times and lines that fit into columns.

Columns belong to a monospaced font: a Chinese character takes two columns, a combining accent none. The last functions
concern texts that are stored: a question with its context, and texts without lone surrogates.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from artifactflow_nb.core.language import EnglishText, catalogue, current_language, translate
from artifactflow_nb.core.text.chinese import CJK

_SECOND_MS = 1000
_MINUTE_S = 60
_HOUR_S = 3600
_TENTHS_BELOW_MS = 9.95
_KILO = 1000
MAX_LISTED_LINES = 20
_NAME_CHARS = 80
_PLURALS = {"branch": "branches", "query": "queries", "search": "searches"}
_CHINESE_UNITS = {"ms": "毫秒", "s": "秒", "min": "分", "h": "小时"}
_UNIT = re.compile(r"\b(ms|s|min|h)\b")

_ELLIPSIS = "…"
_JOINER = "\u200d"
_NOT_NARROW = re.compile(r"[^\u0020-\u02ff\u2010-\u2027]")  # characters that may not take exactly one column
_WIDE = re.compile(r"[\u3000-\u3029\u3041-\u3096\u30a1-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]+")
"""Frequent characters that take two columns, counted at once because looking up each one is slow for Chinese."""

NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML forbids."""

_UNSPACED = re.compile(rf"[{CJK}\u3000-\u303f\uff00-\uffef]")

_CONTEXT = re.compile(r"\n\n<context>\n.*\n</context>\Z", re.DOTALL)


def count(number: int, noun: str) -> str:
    """Format a count with its noun: `1 call`, `2 branches`, `1,234 tokens`."""
    return f"{number:,} {noun if number == 1 else _PLURALS.get(noun, noun + 's')}"


def translate_count(number: int, noun: EnglishText) -> str:
    """Format a count in the language of the interface; the noun is a singular: `2 blocks`, `2 个内容块`."""
    text = catalogue(current_language()).get(f"{{n}} {noun}")
    return text.format(n=f"{number:,}") if text else count(number, noun)


def about(text: str, *, is_estimated: bool) -> str:
    """Mark a figure that is or contains an estimate: `about 1,230`."""
    return translate("about {tokens}", tokens=text) if is_estimated else text


def rounded(n_tokens: int, *, is_estimated: bool) -> int:
    """Round an estimated number of tokens to three digits."""
    return round(n_tokens, 3 - len(str(n_tokens))) if is_estimated else n_tokens


def duration(ms: float) -> str:
    """Format milliseconds: `0.4 ms`, `340 ms`, `12.3 s`, `2 min 05 s`, `3 h 07 min`."""
    if ms < _TENTHS_BELOW_MS:
        return f"{ms:.1f} ms".replace(".0 ", " ")
    if ms < _SECOND_MS:
        return f"{ms:.0f} ms"
    seconds = ms / _SECOND_MS
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    if seconds < _HOUR_S:
        return f"{int(seconds // _MINUTE_S)} min {int(seconds % _MINUTE_S):02d} s"
    minutes = round(seconds / _MINUTE_S)
    return f"{minutes // _MINUTE_S:,} h {minutes % _MINUTE_S:02d} min"


def translate_duration(ms: float) -> str:
    """Format milliseconds in the language of the interface: `12.3 s`, `12.3 秒`."""
    return translate_time(duration(ms))


def translate_time(text: str) -> str:
    """Translate the units of a formatted duration."""
    return text if current_language() == "en" else _UNIT.sub(lambda unit: _CHINESE_UNITS[unit[0]], text)


def usd(amount: float, *, exact: bool = False) -> str:
    """Format US dollars: `0.0123 USD`, `12.30 USD`, or exactly for configured prices and limits: `0.14375 USD`.

    Never uses a dollar sign, because notebooks render text between two dollar signs as a formula.
    """
    if exact:
        return f"{amount:,.10g} USD"
    return f"{amount:,.2f} USD" if abs(amount) >= 1 else f"{Decimal(f'{amount:.3g}'):f} USD"


def size(n_bytes: float) -> str:
    """Format a size: `512 bytes`, `1.2 MB`; a kB has 1,000 bytes."""
    if n_bytes < _KILO:
        return count(int(n_bytes), "byte")
    for unit in ("kB", "MB"):
        n_bytes /= _KILO
        if n_bytes < _KILO:
            return f"{n_bytes:.1f} {unit}"
    return f"{n_bytes / _KILO:.1f} GB"


def format_local_time(time: datetime) -> str:
    """Format a timezone-aware time in the zone of this computer: `2026-11-22 05:37 CET`."""
    return f"{time.astimezone():%Y-%m-%d %H:%M %Z}"


def media_placeholder(kind: str, media_type: str, base64: str) -> str:
    """Describe base64 media in place of its content: `[image, image/png, 1,204 bytes; it cannot be shown here]`."""
    return f"[{kind}, {media_type}, {base64_size(base64)}; it cannot be shown here]"


def base64_size(base64: str) -> str:
    """Format the decoded size of a base64 text: `1,204 bytes`."""
    return count(len(base64) * 3 // 4 - base64[-2:].count("="), "byte")


def value_text(value: Any) -> str:
    """Return the text of a parameter for a reader: strings unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def fenced(text: str, mark: str, language: str = "") -> str:
    """Put a text into a Markdown code fence that is longer than any run of `mark` in the text."""
    runs = re.findall(f"{mark}+", text)
    fence = mark * max(3, 1 + max(map(len, runs), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def first_lines(lines: Sequence[str]) -> list[str]:
    """Return the first `MAX_LISTED_LINES` lines, and a line with the number of omitted lines."""
    more = len(lines) - MAX_LISTED_LINES
    return [*lines[:MAX_LISTED_LINES], *([f"… and {more:,} more"] if more > 0 else [])]


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a space and a question with the known name nearest to an unknown name, or an empty string."""
    text = str(name)[:_NAME_CHARS]
    near = get_close_matches(text, list(known), 3)
    near.sort(key=lambda match: sorted(match) != sorted(text))  # swapped letters are the most frequent slip
    return f" Did you mean {near[0]}?" if near else ""


def width(text: str) -> int:
    """Return the number of monospaced columns that a line takes."""
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
    """Return whether the character at this index combines with the previous character."""
    return _columns(text[at]) == 0 or text[at - 1] == _JOINER or "\U0001f3fb" <= text[at] <= "\U0001f3ff"


def clip(text: str, columns: int) -> str:
    """Truncate a text to one line of at most `columns` columns, including an ellipsis."""
    line = " ".join(text.split())
    return line if width(line) <= columns else cut(line, columns - 1).rstrip() + _ELLIPSIS


def capitalized(text: str) -> str:
    """Return the text with a capital first letter."""
    return text[:1].upper() + text[1:]


def pad(text: str, columns: int) -> str:
    """Pad a text with spaces to at least `columns` columns."""
    return text + " " * (columns - width(text))


def clip_words(text: str, columns: int) -> str:
    """Truncate a text to one line of `columns` columns plus an ellipsis, between words or Chinese characters."""
    line = " ".join(text.split())
    if width(line) <= columns:
        return line
    beginning, space, last = cut(line, columns).rpartition(" ")
    unspaced = [match.end() for match in _UNSPACED.finditer(last)]
    whole = last[: unspaced[-1]] if unspaced else ""
    return f"{beginning}{space if whole else ''}{whole or ('' if beginning else last)} {_ELLIPSIS}"


def with_context(question: str, texts: Iterable[str]) -> str:
    """Append context to a question, in a tag that `without_context` removes."""
    context = "\n\n".join(texts)
    return f"{question}\n\n<context>\n{context}\n</context>" if context else question


def without_context(text: str) -> str:
    """Remove the context from a question."""
    return _CONTEXT.sub("", text)


def storable_text(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by `?`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
