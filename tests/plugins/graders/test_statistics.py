"""Statistics of studies: coverage of the intervals, and agreement against published values."""

import math
from collections import defaultdict

import pytest
from support.simulated_studies import simulated_studies

from artifactflow_nb.plugins.graders.statistics import krippendorff_alpha, paired_difference, t_quantile, wilson

NA = None
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NA, NA, NA],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NA, 3],
    [NA, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NA],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NA],
]
"""Four observers and twelve units: Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, part C."""


@pytest.mark.parametrize(
    ("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)]
)
def test_alpha_is_the_published_value(level: str, alpha: float) -> None:
    assert round(krippendorff_alpha(OBSERVERS, level), 3) == alpha


def test_alpha_of_two_observers_is_the_published_value() -> None:
    """Krippendorff (2011), part A: binary data of two observers; part B: nominal data with letters."""
    binary = [[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]]
    assert round(krippendorff_alpha(binary), 3) == 0.095
    assert round(krippendorff_alpha([list("aabbdcccedda"), list("babbbccceddd")]), 3) == 0.692


def test_alpha_of_equal_ratings_is_unknown_and_of_opposite_ratings_negative() -> None:
    assert math.isnan(krippendorff_alpha([[1, 1], [1, 1]]))
    assert math.isnan(krippendorff_alpha([[1, None], [None, 1]]))
    assert krippendorff_alpha([[0.0, 1.0, math.nan], [1.0, 0.0, 1.0]], "interval") < 0


def test_intervals_contain_the_difference_in_93_to_97_of_100_studies() -> None:
    """1,000 studies with 10 to 60 questions, binary and skewed; tests/bench/study_statistics.py has 5,000 of them."""
    hits: dict[str, list[bool]] = defaultdict(list)
    for scenario, _, _, first, second, difference in simulated_studies(3, 1_000):
        interval = paired_difference((first - second).mean(axis=1))
        hits[scenario].append(interval.low <= difference <= interval.high)
    coverage = {scenario: sum(inside) / len(inside) for scenario, inside in hits.items()}
    assert 0.93 <= sum(coverage.values()) / len(coverage) <= 0.97
    assert min(coverage.values()) > 0.9, coverage


def test_wins_ties_and_losses_are_counted() -> None:
    result = paired_difference([0.1, 0.3, -0.2, 0.5, 0.0, 0.2])
    assert (result.n, result.wins, result.ties, result.losses) == (6, 4, 1, 1)
    assert result.difference == pytest.approx(0.15)


def test_interval_reaches_further_to_the_side_of_the_long_tail() -> None:
    """The upper end is Hall's (1992), worked out with a pocket calculator; no end is nearer than the end of t."""
    skewed = paired_difference([0.0, 0.02, 0.03, 0.05, 0.06, 0.08, 0.1, 0.15, 0.3, 0.6])
    mirrored = paired_difference([0.0, -0.02, -0.03, -0.05, -0.06, -0.08, -0.1, -0.15, -0.3, -0.6])
    assert (mirrored.low, mirrored.high) == pytest.approx((-skewed.high, -skewed.low))
    half = 2.262 * 0.18351 / 10**0.5
    assert skewed.low == pytest.approx(0.139 - half, abs=1e-3)
    assert skewed.high == pytest.approx(0.6586, abs=1e-3)
    even = paired_difference([-0.2, -0.1, 0.0, 0.1, 0.2])
    assert even.high == pytest.approx(2.776 * 0.1 * 2.5**0.5 / 5**0.5, abs=1e-3)


def test_fewer_than_five_questions_have_no_interval() -> None:
    result = paired_difference([1.0, 0.0, 1.0, 1.0])
    assert math.isnan(result.low)
    assert math.isnan(result.high)
    assert "4 questions have grades of both; an interval needs at least 5" in result.note
    assert paired_difference([1.0, 0.0, 1.0, 1.0, 0.0]).note == ""
    assert math.isnan(paired_difference([]).difference)


def test_equal_differences_do_not_give_an_interval_without_width() -> None:
    result = paired_difference([0.0] * 10)
    assert (result.low, result.high) == pytest.approx((-0.2589, 0.2589), abs=1e-4)
    assert paired_difference([1.0] * 10).high == 1


@pytest.mark.parametrize(("freedom", "value"), [(4, 2.776), (9, 2.262), (19, 2.093), (59, 2.001)])
def test_quantile_of_t_is_that_of_the_tables(freedom: int, value: float) -> None:
    assert t_quantile(freedom) == pytest.approx(value, abs=2e-3)


def test_wilson_interval_is_the_published_value() -> None:
    """Newcombe (1998), table I, method 3: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    for successes, n, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611)):
        assert wilson(successes, n) == pytest.approx((low, high), abs=1e-4)
    assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=1e-4)
    assert math.isnan(wilson(0, 0)[0])
