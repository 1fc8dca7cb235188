"""Studies with a known difference between two models, to count how often an interval contains the difference."""

from collections.abc import Iterator

import numpy as np

Scores = np.ndarray
"""A row for each question with a score for each repeat."""


def binary_scores(random: np.random.Generator, n: int, repeats: int) -> tuple[Scores, Scores, float]:
    """Right or wrong; questions differ in difficulty, and most are easy."""
    easy = random.beta(2, 1, (n, 1))
    scores = [(random.random((n, repeats)) < share).astype(float) for share in (easy, easy**1.5)]
    return scores[0], scores[1], 2 / 3 - 2 / 3.5


def equal_binary_scores(random: np.random.Generator, n: int, repeats: int) -> tuple[Scores, Scores, float]:
    """Right or wrong with equal models; most questions are always right or always wrong."""
    share = random.beta(0.5, 0.5, (n, 1))
    first, second = ((random.random((n, repeats)) < share).astype(float) for _ in range(2))
    return first, second, 0.0


def high_binary_scores(random: np.random.Generator, n: int, repeats: int) -> tuple[Scores, Scores, float]:
    """Right nine times of ten against eight times of ten."""
    easy = random.beta(9, 1, (n, 1))
    first, second = ((random.random((n, repeats)) < share).astype(float) for share in (easy, easy**2))
    return first, second, 0.9 - 9 / 11


def skewed_scores(random: np.random.Generator, n: int, repeats: int) -> tuple[Scores, Scores, float]:
    """Scores near 1 with a long tail, and a difference that grows with difficulty."""
    easy = random.beta(4, 1, (n, 1))
    scores = [random.beta(5 * m + 1e-6, 5 * (1 - m) + 1e-6, (n, repeats)) for m in (easy, easy**1.5)]
    return scores[0], scores[1], 0.8 - 4 / 5.5


def skewed_differences(random: np.random.Generator, n: int, repeats: int) -> tuple[Scores, Scores, float]:
    """A model that is better by an exponential amount, 0.1 in the mean."""
    second = random.normal(0.4, 0.05, (n, repeats))
    return second + random.exponential(0.1, (n, 1)) + random.normal(0, 0.05, (n, repeats)), second, 0.1


SCENARIOS = (binary_scores, equal_binary_scores, high_binary_scores, skewed_scores, skewed_differences)


def simulated_studies(seed: int, n_studies: int) -> Iterator[tuple[str, int, int, Scores, Scores, float]]:
    """Yield the scenario, questions (10 to 60), repeats (1 to 3), scores of both models and the true difference."""
    random = np.random.default_rng(seed)
    for number in range(n_studies):
        scenario = SCENARIOS[number % len(SCENARIOS)]
        n, repeats = int(random.integers(10, 61)), int(random.integers(1, 4))
        yield scenario.__name__, n, repeats, *scenario(random, n, repeats)
