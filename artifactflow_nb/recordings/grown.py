"""Lists that grow: the prompt of a turn begins as that of the turn before, and only what was added is new work."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Grown(Generic[T, U]):
    """Makes something of each element of a list; of those with which the list before began, it is made already.

    Args:
        make: Makes it of one element; the same each time.
    """

    def __init__(self, make: Callable[[T], U]) -> None:
        self._make = make
        self._last: tuple[Sequence[T], tuple[U, ...]] = (), ()

    def __call__(self, values: Sequence[T]) -> tuple[U, ...]:
        """What is made of each, in order; any thread may call."""
        before, known = self._last
        if values[: len(before)] != before:
            known = ()
        made = (*known, *map(self._make, values[len(known) :]))
        self._last = values, made
        return made
