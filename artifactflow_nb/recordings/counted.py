"""Lists of whole numbers as short texts, in which repetitions are counted: `16*311 7` is 311 times 16, then 7.

Such a text may come from anywhere, and a few of its characters can stand for more numbers than there is memory: its
length is looked at before it is unrolled.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby, repeat

_SOUND = re.compile(r"(?:-?[0-9]{1,15}(?:\*[0-9]{1,9})?(?: (?!$)|$))*+")
_TIMES = re.compile(r"\*([0-9]+)")


def counted(values: Iterable[int]) -> str:
    """The numbers as a text."""
    groups = ((value, len(list(group))) for value, group in groupby(values))
    return " ".join(str(value) if times == 1 else f"{value}*{times}" for value, times in groups)


def n_counted(text: object, at_most: int) -> int:
    """How many numbers such a text stands for; `ValueError` if it is none, or if they are more than `at_most`."""
    if not isinstance(text, str) or not _SOUND.fullmatch(text):
        raise ValueError("a list of counted numbers is damaged")
    repeated = [int(times) for times in _TIMES.findall(text)]
    number = len(text.split()) - len(repeated) + sum(repeated)
    if number > at_most:
        raise ValueError(
            f"a list of counted numbers stands for {number:,} of them, and at most {at_most:,} are expected"
        )
    return number


def each(text: str) -> Iterator[int]:
    """The numbers of a text that `n_counted` has looked at."""
    words = (word.partition("*") for word in text.split())
    return chain.from_iterable(repeat(int(value), int(times or 1)) for value, _, times in words)
