"""Numbers of the sources in a report.

A model writes the numbers of its citations itself, and a report that combines the findings of several agents often
lists an address twice, under two numbers.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter

from artifactflow_nb.core.text.formulas import formula_at
from artifactflow_nb.sources.citation_marks import ENTRY, MARK, cited_numbers, entry_address

_CODE_OR_FORMULA = re.compile(
    r"^[ ]{0,3}(?P<fence>`{3,}|~{3,}).*?(?:^[ ]{0,3}(?P=fence)|\Z)"
    r"|(?<![\\`])(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)"
    r"|(?P<formula>\$|\\[(\[])",
    re.MULTILINE | re.DOTALL,
)
_REST_OF_ENTRY = re.compile(r".*(?:\n[ \t]{2,}\S.*)*\n?")
_MARK = MARK.pattern.replace("(?P<numbers>", "(?:")
_MARKS = re.compile(rf"{_MARK}(?:[ ]?{_MARK})*")


def renumber_sources(markdown: str) -> str:
    """Give each address in a report's list of sources one number, and number the list from 1 in its order.

    The first entry of an address stays. Citations in code and formulas are not changed. The report is returned
    unchanged if it is not clear what it cites: if two entries with one number have different addresses, or if a cited
    number is not listed.
    """
    literal = list(_code_and_formulas(markdown))
    entries = [entry for entry in ENTRY.finditer(markdown) if not _is_within(entry.start(), literal)]
    addresses: dict[int, str] = {}
    for entry in entries:
        if addresses.setdefault(int(entry[1]), entry_address(entry)) != entry_address(entry):
            return markdown
    new = {address: number for number, address in enumerate(dict.fromkeys(addresses.values()), 1)}
    numbers = {number: new[address] for number, address in addresses.items()}
    if len(entries) == len(numbers) and all(old == number for old, number in numbers.items()):
        return markdown
    changes: list[tuple[int, int, str]] = []
    listed: set[int] = set()
    for entry in entries:
        number = numbers[int(entry[1])]
        if number not in listed:
            changes.append((*entry.span(1), str(number)))
        elif rest := _REST_OF_ENTRY.match(markdown, entry.start()):
            changes.append((*rest.span(), ""))
        listed.add(number)
    own = [entry.span() for entry in entries]
    for marks in _MARKS.finditer(markdown):
        if _is_within(marks.start(), literal) or _is_within(marks.start(), own):
            continue
        cited = [number for mark in MARK.finditer(marks[0]) for number in cited_numbers(mark[1])]
        if not numbers.keys() >= set(cited):
            return markdown
        if cited != [numbers[number] for number in cited]:
            separator = ", " if marks[0].count("[") == 1 else "]["
            cited_now = separator.join(map(str, dict.fromkeys(numbers[number] for number in cited)))
            changes.append((*marks.span(), f"[{cited_now}]"))
    for start, end, text in sorted(changes, reverse=True):
        markdown = markdown[:start] + text + markdown[end:]
    return markdown


def _code_and_formulas(markdown: str) -> Iterator[tuple[int, int]]:
    """The spans of code and of formulas, from first to last."""
    position = 0
    while match := _CODE_OR_FORMULA.search(markdown, position):
        formula = formula_at(markdown, match.start()) if match["formula"] else None
        position = formula.end if formula else match.end()
        if formula or not match["formula"]:
            yield match.start(), position


def _is_within(position: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a position is in one of the spans, which are ordered."""
    index = bisect_right(spans, position, key=itemgetter(0)) - 1
    return index >= 0 and position < spans[index][1]
