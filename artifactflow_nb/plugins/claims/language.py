"""The language lists: units, number words, opposites and others, for English and Chinese together.

The lists are data (`languages/*.json`); a further language is a further file.
"""

import json
import re
from collections.abc import Iterable
from functools import cache, reduce
from pathlib import Path
from typing import Any

CJK = "\u3400-\u9fff"
_WORD = re.compile(rf"[^\W\d_](?:[^\W{CJK}]|['’](?=[a-z]))*|[{CJK}]+")
_RUN = re.compile(rf"[{CJK}]+")
_MIN_PLURAL = 4


def _merged(old: Any, new: Any) -> Any:
    if isinstance(new, dict):
        return {**old, **{key: _merged(old[key], value) if key in old else value for key, value in new.items()}}
    return [*old, *new] if isinstance(new, list) else new


@cache
def lists() -> dict[str, Any]:
    """Return the lists of all languages by name, merged."""
    paths = sorted(Path(__file__).with_name("languages").glob("*.json"))
    merged: dict[str, Any] = reduce(_merged, (json.loads(path.read_text(encoding="utf-8")) for path in paths), {})
    return merged


@cache
def words_in(name: str) -> frozenset[str]:
    """Return a list of single words or phrases as a set."""
    return frozenset(lists()[name])


@cache
def units() -> dict[str, tuple[str, float]]:
    """Return the dimension and the factor to its base unit, by the unit as it is written; words also in lower case."""
    by_unit: dict[str, tuple[str, float]] = {}
    for name, each in lists()["units"].items():
        for unit, factor in each.items():
            is_word = unit.isascii() and len(unit) > len("kWh")
            by_unit |= dict.fromkeys((unit, unit.lower(), f"{unit.lower()}s") if is_word else (unit,), (name, factor))
    return by_unit


def alternatives(texts: Iterable[str]) -> str:
    """Return a pattern for any of these texts, the longest first; words end at a word boundary."""
    ordered = sorted(set(texts), key=len, reverse=True)
    return "|".join(re.escape(text) + (r"\b" if re.match(r"[a-zA-Z]", text[-1]) else "") for text in ordered)


@cache
def phrase_pattern(name: str) -> re.Pattern[str]:
    """Return a pattern that finds an entry of a list: whole words in English, anywhere in Chinese."""
    return pattern_of(tuple(lists()[name]))


@cache
def pattern_of(entries: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds one of these words or phrases."""
    return re.compile(rf"(?<![A-Za-z])(?:{alternatives(entries)})", re.IGNORECASE)


@cache
def stem(word: str) -> str:
    """Return a word in lower case and in the singular."""
    word = word.lower().replace("’", "'").removesuffix("'s")
    if len(word) < _MIN_PLURAL or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return word.removesuffix("s")


def terms(text: str) -> list[str]:
    """Return the content of a text in order: stems of English words, pairs of Chinese characters."""
    stop, found = words_in("stop"), []
    for match in _WORD.finditer(text):
        word = match[0]
        if not _RUN.match(word):
            found += [stem(part) for part in re.split(r"_|(?<=[a-z])(?=[A-Z])", word) if part.lower() not in stop]
            continue
        for run in filter(None, phrase_pattern("stop").split(word)):
            found += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
    return [term for term in found if term]
