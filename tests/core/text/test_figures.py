"""Formatting of costs."""

import pytest

from artifactflow_nb.core.text.format import usd


@pytest.mark.parametrize(
    ("amount", "formatted"),
    [
        (0, "0 USD"),
        (0.000038, "0.000038 USD"),
        (0.0000001234, "0.000000123 USD"),
        (0.01234, "0.0123 USD"),
        (1234.5, "1,234.50 USD"),
    ],
)
def test_cost_is_formatted_without_exponent(amount: float, formatted: str) -> None:
    """Amounts below a dollar have three significant digits, other amounts have cents."""
    assert usd(amount) == formatted
