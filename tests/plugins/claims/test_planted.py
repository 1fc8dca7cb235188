"""The rate of the checker on 100 claims about two texts, half of which were held back while the rules were tuned."""

from collections import Counter
from pathlib import Path
from runpy import run_path

import pytest

from artifactflow_nb.plugins.claims.checker import check
from artifactflow_nb.plugins.claims.sources import Source

FOLDER = Path(__file__).with_name("planted")
CLAIMS = run_path(str(FOLDER / "claims.py"))
MEASURED = {"number", "unit", "date", "scientific"}


def counts(half: str) -> Counter[tuple[str, str]]:
    """Count the claims of a half by kind and status."""
    found: Counter[tuple[str, str]] = Counter()
    for language, claims in CLAIMS[half].items():
        source = Source((FOLDER / f"{language}.txt").read_text(encoding="utf-8"))
        found.update((kind, check(text, [source]).status) for kind, text in claims)
    return found


@pytest.mark.parametrize("half", ["TUNING", "HELD"])
def test_no_planted_error_is_supported_and_no_true_claim_is_contradicted(half: str) -> None:
    found = counts(half)
    assert found.total() == 50
    assert [kind for kind, status in found if status == "supported" and kind != "true"] == []
    assert found["true", "contradicted"] == 0


def test_changed_numbers_units_and_dates_are_all_caught_in_the_tuned_half() -> None:
    found = counts("TUNING")
    caught = {"contradicted", "unsupported"}
    assert {status for kind, status in found if kind in MEASURED} <= caught
    assert sum(n for (kind, status), n in found.items() if kind != "true" and status in caught) == 35


def test_rate_of_the_held_half() -> None:
    """34 of 36 changed claims are caught; the others are uncheckable."""
    statuses: Counter[str] = Counter()
    for (kind, status), n in counts("HELD").items():
        statuses[status] += n * (kind != "true")
    assert (statuses["contradicted"] + statuses["unsupported"], statuses["uncheckable"]) == (34, 2)
