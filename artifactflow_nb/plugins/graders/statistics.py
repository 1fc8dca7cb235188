"""Statistics of studies with NumPy: paired differences, shares, agreement.

The interval of a difference covers the intervals of Student's t and of Hall (1992), which corrects t for skewness, over
the means of the questions, so repeats of a question stay together. tests/bench/study_statistics.py compares intervals.
"""

from collections.abc import Sequence
from math import cbrt, fsum, nan, sqrt
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Level = Literal["nominal", "ordinal", "interval", "ratio"]
"""The level of measurement of grades."""

MIN_QUESTIONS = 5
"""With fewer questions there is no interval."""

_SAME, _MISS = 1e-9, 0.05
"""Smaller differences are ties; the share of intervals that miss the value."""


class PairedDifference(NamedTuple):
    """The mean difference with its interval (NaN, with a note, for few questions), and the numbers of questions."""

    difference: float
    low: float
    high: float
    n: int
    wins: int
    ties: int
    losses: int
    note: str = ""


def paired_difference(differences: ArrayLike) -> PairedDifference:
    """Return the mean of differences of scores between 0 and 1, of which there is one for each question."""
    means = np.asarray(differences, float)
    n = len(means)
    wins, losses = int((means > _SAME).sum()), int((means < -_SAME).sum())
    counts = (n, wins, n - wins - losses, losses)
    mean = float(means.mean()) if n else nan
    if n < MIN_QUESTIONS:
        note = f"{n} questions have grades of both; an interval needs at least {MIN_QUESTIONS}."
        return PairedDifference(mean, nan, nan, *counts, note)
    if means.max() - means.min() <= _SAME:
        below = above = (1 - _MISS ** (1 / n)) * (1 + abs(mean))  # other questions that n equal ones leave possible
    else:
        straight, deviation = t_quantile(n - 1) / sqrt(n), float(means.std(ddof=1))
        skewness = max(float((((means - mean) / means.std()) ** 3).mean()), 1e-6, key=abs)
        bent = [3 / skewness * (cbrt(1 + skewness * (t - skewness / (6 * n))) - 1) for t in (straight, -straight)]
        below, above = deviation * max(straight, bent[0]), deviation * max(straight, -bent[1])
    return PairedDifference(mean, max(mean - below, -1.0), min(mean + above, 1.0), *counts)


def t_quantile(freedom: int, share: float = 1 - _MISS / 2) -> float:
    """Return a quantile of Student's t for at least 4 degrees of freedom, to 0.002 (Fisher and Cornish's expansion)."""
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + fsum(term / freedom**power for power, term in enumerate(terms, 1))


def wilson(successes: float, n: int) -> tuple[float, float]:
    """Return the 95 per cent interval of a share by Wilson; NaN for no trials."""
    if n == 0:
        return nan, nan
    z2, share = NormalDist().inv_cdf(1 - _MISS / 2) ** 2, successes / n
    centre, half = share + z2 / (2 * n), sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n)))
    return max((centre - half) / (1 + z2 / n), 0.0), min((centre + half) / (1 + z2 / n), 1.0)


def krippendorff_alpha(ratings: Sequence[Sequence[Any]], level: Level = "nominal") -> float:
    """Return Krippendorff's alpha: 1 for full agreement, 0 for chance; NaN if all ratings are equal.

    A row for each rater has a value for each unit; None or NaN is no rating. Python's order is the order of ordinal
    values. Krippendorff (2011) defines the distances of values.
    """
    units = [[value for value in unit if value is not None and value == value] for unit in zip(*ratings, strict=True)]  # noqa: PLR0124 - NaN differs from itself
    units = [unit for unit in units if len(unit) > 1]
    values = sorted({value for unit in units for value in unit})
    counts = np.array([[unit.count(value) for value in values] for unit in units], float).reshape(
        len(units), len(values)
    )
    weighted = counts / (counts.sum(axis=1, keepdims=True) - 1)
    coincidences = counts.T @ weighted - np.diag(weighted.sum(axis=0))
    totals = coincidences.sum(axis=0)
    distances = 1 - np.eye(len(values))
    if level != "nominal":
        positions = np.cumsum(totals) - totals / 2 if level == "ordinal" else np.asarray(values, float)
        gaps: NDArray[np.float64] = np.abs(np.subtract.outer(positions, positions))
        sums = np.abs(np.add.outer(positions, positions))
        distances = (np.divide(gaps, sums, out=np.zeros_like(gaps), where=sums > 0) if level == "ratio" else gaps) ** 2
    expected = float(((np.outer(totals, totals) - np.diag(totals)) * distances).sum())
    return 1 - (float(totals.sum()) - 1) * float((coincidences * distances).sum()) / expected if expected else nan
