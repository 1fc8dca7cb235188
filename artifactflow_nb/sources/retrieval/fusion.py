"""Fusion of several rankings into one, by ranks alone, since scores of different searches cannot be compared."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

_DAMPING = 60
"""The usual constant of reciprocal rank fusion: the first few ranks of one list do not outweigh all others."""


def fuse_ranks(rankings: Iterable[Sequence[T]]) -> list[T]:
    """All items of the rankings, ordered by the sum of `1 / (60 + rank)`; of equals, the one that came first."""
    scores: dict[T, float] = defaultdict(float)
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] += 1 / (_DAMPING + rank)
    return sorted(scores, key=lambda item: -scores[item])
