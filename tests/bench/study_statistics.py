"""The share of simulated studies in which the interval of a difference contains it, by method and kind of score.

`python tests/bench/study_statistics.py 1000`: the number of studies of each kind; 95 per cent is the goal.
"""

import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.simulated_studies import SCENARIOS, simulated_studies

from artifactflow_nb.plugins.graders.statistics import paired_difference, t_quantile

SAMPLES = 999
RANDOM = np.random.default_rng(2)


def interval(differences: np.ndarray) -> tuple[float, float]:
    result = paired_difference(differences.mean(axis=1))
    return result.low, result.high


def t_interval(differences: np.ndarray) -> tuple[float, float]:
    means = differences.mean(axis=1)
    half = t_quantile(len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
    return means.mean() - half, means.mean() + half


def resampled(differences: np.ndarray) -> np.ndarray:
    """The means of the questions of each bootstrap sample: questions are drawn, then repeats within each."""
    n, repeats = differences.shape
    questions = RANDOM.integers(0, n, (SAMPLES, n, 1))
    return differences[questions, RANDOM.integers(0, repeats, (SAMPLES, n, repeats))].mean(axis=2)


def percentile_bootstrap(differences: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(resampled(differences).mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def studentised_bootstrap(differences: np.ndarray) -> tuple[float, float]:
    n, mean = len(differences), differences.mean()
    samples = resampled(differences)
    errors = samples.std(axis=1, ddof=1) / np.sqrt(n)
    ratios = (samples.mean(axis=1) - mean) / np.maximum(errors, 1e-9)
    low, high = np.clip(np.quantile(ratios, [0.025, 0.975]), -10, 10)
    error = differences.mean(axis=1).std(ddof=1) / np.sqrt(n)
    return mean - high * error, mean - low * error


METHODS: dict[str, Callable[[np.ndarray], tuple[float, float]]] = {
    "compare": interval,
    "t over questions": t_interval,
    "percentile": percentile_bootstrap,
    "studentised": studentised_bootstrap,
}


SHAPES: dict[str, tuple[Callable[..., np.ndarray], float]] = {
    "normal": (lambda size: RANDOM.normal(0.1, 0.2, size), 0.1),
    "exponential": (lambda size: RANDOM.exponential(0.15, size), 0.15),
    "binary": (lambda size: RANDOM.choice([1.0, 0.0, -1.0], size, p=[0.3, 0.55, 0.15]), 0.15),
    "heavy tails": (lambda size: 0.1 + 0.1 * RANDOM.standard_t(3, size), 0.1),
}
"""Differences of questions by their distribution, and the true mean."""


def print_shapes(n_studies: int) -> None:
    """The table of docs/guide/studies.md."""
    for shape, (draw, difference) in SHAPES.items():
        for n in (5, 10, 20, 50):
            studies = draw((n_studies, n, 1))
            for name in ("compare", "t over questions"):
                ends = np.array([METHODS[name](study) for study in studies])
                inside = (ends[:, 0] <= difference) & (difference <= ends[:, 1])
                width = np.median(ends[:, 1] - ends[:, 0])
                print(
                    f"{shape:<22}{f'{n} questions':<30}{name:<18}{inside.mean():.3f} of {n_studies}, width {width:.2f}"
                )


def main() -> None:
    n_studies = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    print_shapes(5 * n_studies)
    hits: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    for scenario, n, repeats, first, second, difference in simulated_studies(7, n_studies * len(SCENARIOS)):
        sizes = ["10 to 60 questions"] + ["10 to 19 questions, 1 repeat"] * (n < 20 and repeats == 1)
        for name, method in METHODS.items():
            low, high = method(first - second)
            for size in sizes:
                for kind in (scenario, "all"):
                    hits[kind, size, name].append(low <= difference <= high)
    for (kind, size, name), found in sorted(hits.items()):
        print(f"{kind:<22}{size:<30}{name:<18}{np.mean(found):.3f} of {len(found)}")


if __name__ == "__main__":
    main()
