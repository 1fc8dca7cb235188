"""Processor time of a piece of work, measured so that other load on the machine does not change the verdict.

The least of several tries counts, without the garbage collector, which looks at all objects of the process at times
that have nothing to do with the work. A shared core makes everything slower: a loop of known cost, run before
and after each try, says by how much.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

import pytest

KNOWN_S = 0.0018
"""Seconds for the reference loop on the idle machine for which the limits were written."""


@contextmanager
def no_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _slower() -> float:
    """The current slowdown of the machine against an idle one, at least 1."""
    start = time.process_time()
    words: dict[str, int] = {}
    for number in range(20_000):
        words[str(number % 97)] = number + len(words)
    return max((time.process_time() - start) / KNOWN_S, 1.0)


class Try:
    """One try of the work, a context manager; `seconds` is its processor time afterwards."""

    seconds = float("inf")

    def __enter__(self) -> Self:
        gc.disable()
        self._slower = _slower()
        self._start = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        spent = time.process_time() - self._start
        gc.enable()
        self.seconds = spent / min(self._slower, _slower())


def within(limit_s: float, tries: int = 6) -> Iterator[Try]:
    """Tries of a piece of work, until one of them takes less processor time than the limit; a failure if none does.

    The work is the loop's body, so it may be anything: `for attempt in within(0.05):`, then `with attempt:`.
    """
    spent: list[float] = []
    while min(spent, default=limit_s) >= limit_s:
        if len(spent) == tries:
            pytest.fail(f"The work takes {min(spent):.4f} s of processor time, and {limit_s} s at most were expected.")
        attempt = Try()
        yield attempt
        spent.append(attempt.seconds)


def check_linear(seconds: Callable[[int], float], size: int = 1_000) -> None:
    """Four times the size takes about four times as long (sixteen times if it were quadratic), at sizes over 5 ms.

    Args:
        seconds: The processor time that the work takes at a size.
        size: The first to try; it is doubled until the work takes long enough to be measured.
    """
    with no_collection():
        while seconds(size) < 0.005:
            size *= 2
        short, long = float("inf"), float("inf")
        for _ in range(12):
            short, long = min(short, seconds(size)), min(long, seconds(4 * size))
            if long < 7 * short:
                return
    pytest.fail(f"Size {size} takes {short:.4f} s, four times as much {long:.4f} s")
