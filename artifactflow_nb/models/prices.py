"""Prices of models: prices that a person has set, then the published prices of genai-prices.

The dated list is part of that package (MIT) and is read without a network. The list is loaded for the first price,
since loading takes 0.3 s. An endpoint whose address the list does not know, such as one on this machine, has no prices.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from artifactflow_nb.core.budget import Price
from artifactflow_nb.core.messages import Usage


class ListedPrice(Price):
    """A published price, with its tiers; `input`, `output` and `cache_read` are the prices of short prompts."""

    model: str
    endpoint: str

    def cost_usd(self, usage: Usage) -> float:
        """Compute the cost of this usage in US dollars, as the provider does."""
        calculation = _calculate(self.model, self.endpoint, usage)
        return super().cost_usd(usage) if calculation is None else float(calculation.total_price)


class PriceTable(Mapping[str, Price]):
    """Prices by model name; iteration yields the names with a price that a person has set.

    Args:
        own: The prices that a person has set.
        endpoint: The address of the endpoint; None for models without published prices.
    """

    def __init__(self, own: Mapping[str, Price], endpoint: str | None) -> None:
        self._own = own
        self._endpoint = endpoint

    def __getitem__(self, name: str) -> Price:
        if name in self._own:
            return self._own[name]
        if self._endpoint is None or (price := _listed_price(name, self._endpoint)) is None:
            raise KeyError(name)
        return price

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


@cache
def _listed_price(name: str, endpoint: str) -> ListedPrice | None:
    calculation = _calculate(name, endpoint, Usage(0, 0))
    if calculation is None:
        return None
    prices = calculation.model_price
    values = {key: _base(getattr(prices, f"{field}_mtok")) for key, field in (("input", "input"), ("output", "output"))}
    if values["input"] is None or values["output"] is None:
        return None
    return ListedPrice(**values, cache_read=_base(prices.cache_read_mtok), model=name, endpoint=endpoint)


def _base(price: Any) -> float | None:
    """Return the price of the lowest tier."""
    base = getattr(price, "base", price)
    return None if base is None else float(base)


def _calculate(name: str, endpoint: str, usage: Usage) -> Any:
    """Return the calculation of genai-prices, or None for an unlisted model or endpoint."""
    try:
        genai_prices: Any = import_module("genai_prices")
    except ImportError:  # an installation may lack the requirements of the package
        return None
    cached = min(usage.cache_read_tokens or 0, usage.input_tokens)
    counts = genai_prices.Usage(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cache_read_tokens=cached
    )
    try:
        return genai_prices.calc_price(counts, name, provider_api_url=endpoint)
    except (LookupError, ValueError):
        return None
