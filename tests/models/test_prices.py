"""Prices of models, and usage as endpoints bill it."""

import pytest

from artifactflow_nb.core.budget import Price, cost_usd
from artifactflow_nb.core.messages import Usage
from artifactflow_nb.models.openai.usage import read_usage
from artifactflow_nb.models.prices import PriceTable

OPENAI, OPENROUTER = "https://api.openai.com/v1", "https://openrouter.ai/api/v1"


@pytest.mark.parametrize(
    ("reported", "output"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 1050, "total_tokens": 1150}, 1050),
        ({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 1150}, 1050),
        ({"prompt_tokens": 100, "completion_tokens": 50}, 50),
        ({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 50}, 50),
        ({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": None, "completion_tokens_details": None}, 50),
    ],
)
def test_output_tokens_are_the_billed_tokens(reported, output):
    """Thinking that is counted in the total only is output."""
    assert read_usage(reported, {}).output_tokens == output


@pytest.mark.parametrize(
    ("more", "headers", "cost"),
    [
        ({"cost": 0.25}, {}, 0.25),
        ({"cost": 0.25, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.5}}, {}, 0.75),
        ({"cost": {"total_cost": 0.25}}, {}, 0.25),
        ({}, {"x-litellm-response-cost": "0.25"}, 0.25),
        ({}, {"x-litellm-response-cost": "None"}, None),
        ({"cost": None}, {}, None),
        ({"cost": -1}, {}, None),
    ],
)
def test_cost_that_the_endpoint_reports_is_read(more, headers, cost):
    """OpenRouter and Perplexity have fields with the cost, LiteLLM has a header."""
    assert read_usage({"prompt_tokens": 1, "completion_tokens": 1, **more}, headers).reported_usd == cost


@pytest.mark.parametrize(
    "more", [{"prompt_tokens_details": {"cached_tokens": 7}}, {"prompt_cache_hit_tokens": 7}, {"cached_tokens": 7}]
)
def test_cached_tokens_are_read(more):
    """OpenAI, DeepSeek and Moonshot have different fields."""
    assert read_usage({"prompt_tokens": 9, "completion_tokens": 1, **more}, {}).cache_read_tokens == 7


def test_listed_price_belongs_to_the_endpoint():
    """A model has a price at a provider that lists the model, and no price at an address that no list has."""
    assert PriceTable({}, OPENAI)["gpt-4o"].input == 2.5
    assert PriceTable({}, OPENROUTER)["openai/gpt-4o"].output == 10
    assert "gpt-4o" not in PriceTable({}, "http://localhost:11434/v1")
    assert "gpt-4o" not in PriceTable({}, None)
    assert "no-such-model" not in PriceTable({}, OPENAI)


def test_cached_tokens_have_the_price_of_the_provider():
    """The prompt has 1,000 tokens, half of them cached; the reply has 100 tokens."""
    usage = Usage(1000, 100, cache_read_tokens=500)
    assert cost_usd(PriceTable({}, OPENAI), ["gpt-4o"], usage) == pytest.approx((500 * 2.5 + 500 * 1.25 + 1000) / 1e6)


def test_reported_cost_precedes_the_persons_price_which_precedes_the_listed_price():
    """The order is: a reported cost, the person's price, a listed price."""
    table = PriceTable({"gpt-4o": Price(input=1000, output=0)}, OPENAI)
    assert cost_usd(table, ["gpt-4o"], Usage(1000, 0)) == 1
    assert cost_usd(table, ["gpt-4o"], Usage(1000, 0, reported_usd=0.5)) == 0.5
    assert cost_usd(table, ["unknown", None], Usage(1000, 0)) is None
    assert list(table) == ["gpt-4o"]
